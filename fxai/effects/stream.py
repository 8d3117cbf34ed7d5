"""Streams, which produce values on demand. Use them for responses, events, and data that do not fit in memory.

A `Stream[A, E, R]` produces any number of values of type `A`, can fail with `E`, and needs the services `R`. The reader
pulls each value, so a slow reader slows the producer. Each reading has a scope. If a reader stops early, the scope runs
every finalizer.

>>> from fxai.effects import fx
>>> fx.run_sync(Stream.from_iterable(range(10)).filter(lambda n: n % 2).map(str).take(3).collect())
['1', '3', '5']

Asynchronous Python code reads a stream with `async with stream.iterate() as items: async for item in items`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeAlias, cast, final, overload

from returns.maybe import Maybe
from typing_extensions import TypeVar

from fxai.effects import pull as _pull
from fxai.effects.cause import AnyExit, Failed, ending
from fxai.effects.context import EMPTY, AnyContext, ContextOf, enclose
from fxai.effects.effect import AnyEffect, As, EffectOf, Generate, Map, Succeed, Suspend, Sync
from fxai.effects.fiber import close_block, run_fiber
from fxai.effects.mistake import MYPY, Discarded, NotItsValue, not_a_layer, refuse_as_value
from fxai.effects.pull import END, Channel, Open
from fxai.effects.scope import Scope, acquire_release, add_finalizer, scoped

if TYPE_CHECKING:
    _X = TypeVar("_X", default=Never)
    _N = TypeVar("_N", default=None)
    _C = TypeVar("_C")
    _E = TypeVar("_E")
    _E2 = TypeVar("_E2")
    _R = TypeVar("_R")
    _R2 = TypeVar("_R2")
    _T = TypeVar("_T")

_A = TypeVar("_A", default=None)
_B = TypeVar("_B")
_A_co = TypeVar("_A_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)

Emit: TypeAlias = Callable[[_B], EffectOf[None]]


@final
class StreamOf(Generic[_A_co, _E_co, _R_co]):
    """A stream of values of type `A`. It can fail with `E` and needs the services `R`."""

    __slots__ = ("__fx_open__", "__fx_parts__")

    def __init__(self, open_: Open, parts: tuple[object, tuple[Open, ...]] | None = None) -> None:
        self.__fx_open__: Open = open_  # in a scope, returns the pull: an effect of the next value, or of END
        self.__fx_parts__: tuple[object, tuple[Open, ...]] | None = (
            parts  # the operator and the streams that it joined, so that many joined streams stay one flat operation
        )

    if not TYPE_CHECKING:

        @classmethod
        def __class_getitem__(cls, arguments: Any) -> Any:
            return GenericAlias(cls, arguments)  # any number of arguments, unlike `Generic`

        __contains__ = __format__ = __str__ = refuse_as_value
    if not MYPY:

        def __bool__(self) -> NotItsValue:  # noqa: PLE0304  # pyright reports each use as an error
            refuse_as_value(self)

    # -- constructors

    @staticmethod
    def empty() -> StreamOf[Never, Never, None]:
        """Return the stream without values."""
        return StreamOf(Succeed(Succeed(END)))

    @staticmethod
    def make(*items: _B) -> StreamOf[_B, Never, None]:
        """Return the stream of `items`."""
        return StreamOf.from_iterable(items)

    @staticmethod
    def from_iterable(items: Iterable[_B]) -> StreamOf[_B, Never, None]:
        """Return the stream of the values in `items`. Each reading makes a new iterator and takes values lazily.

        Raises:
            TypeError: If `items` is an effect, which only `yield from` can iterate. To make a stream of an effect, call
                `from_effect`.
        """
        if isinstance(cast(object, items), EffectOf):
            refuse_as_value(items)
        return StreamOf(Sync(lambda: _pull.of_iterator(iter(items))))

    @staticmethod
    def from_effect(effect: EffectOf[_B, _E, _R]) -> StreamOf[_B, _E, _R]:
        """Return the stream of the value of `effect`."""
        return StreamOf(Sync(lambda: _pull.once(effect)))

    @staticmethod
    def fail(error: _E2) -> StreamOf[Never, _E2, None]:
        """Return the stream that fails immediately."""
        return StreamOf(Succeed(_pull.failure(error)))

    @overload  # with Never first: pyright solves `E | E2` to Unknown when both are Never
    @staticmethod
    def unwrap(effect: EffectOf[StreamOf[_B, _E, _R], Never, Scope | _R2]) -> StreamOf[_B, _E, _R | _R2]: ...
    @overload
    @staticmethod
    def unwrap(effect: EffectOf[StreamOf[_B, _E, _R], _E2, Scope | _R2]) -> StreamOf[_B, _E | _E2, _R | _R2]: ...
    @staticmethod
    def unwrap(effect: EffectOf[AnyStream, Any, Any]) -> AnyStream:
        """Return the stream in the value of `effect`. The end of the stream releases the resources of `effect`."""
        return StreamOf(effect.flat_map(lambda stream: stream.__fx_open__))

    @staticmethod
    def suspend(make: Callable[[], StreamOf[_B, _E, _R]]) -> StreamOf[_B, _E, _R]:
        """Return a stream that calls `make` in each reading and reads the stream that `make` returns."""
        return StreamOf(Suspend(lambda: make().__fx_open__))

    @staticmethod
    def unfold(state: _B, f: Callable[[_B], EffectOf[tuple[_C, _B] | None, _E, _R]]) -> StreamOf[_C, _E, _R]:
        """Return a stream that calls `f(state)` until None. `f` returns the next value and the next state."""
        return StreamOf(Sync(lambda: _pull.unfolding(state, f)))

    @staticmethod
    def from_async(make: Callable[[], AsyncIterable[_B]]) -> StreamOf[_B, Never, None]:
        """Return the stream of an asynchronous iterable, which it closes at its end. Exceptions are defects."""
        opened = acquire_release(Sync(lambda: make().__aiter__()), _pull.close_async)
        return StreamOf(opened.map(_pull.of_async))

    @staticmethod
    def emitting(
        produce: Callable[[Emit[_B]], EffectOf[Discarded, _E, _R]], *, buffer: int = 0
    ) -> StreamOf[_B, _E, _R]:
        """Return the stream of the values that `produce(emit)` emits. `emit(value)` waits until a reader takes it.

        The program runs concurrently with the reader, at most `buffer` values ahead. fxai interrupts the program when
        the reader stops.
        """

        def body(channel: Channel[_B]) -> EffectOf[None, _E, _R]:
            return As(produce(channel.put), None)

        return StreamOf.from_channel(body, buffer=buffer)

    @staticmethod
    def from_channel(body: Callable[[Channel[_B]], EffectOf[Any, _E, _R]], *, buffer: int = 0) -> StreamOf[_B, _E, _R]:
        """Return the stream of the values that the program `body(channel)` puts or offers in the channel."""
        return StreamOf(_pull.of_channel(body, buffer))

    # -- values

    def map(self, f: Callable[[_A_co], _B]) -> StreamOf[_B, _E_co, _R_co]:
        """Return the stream with `f` applied to each value."""
        return StreamOf(self.__fx_open__.map(lambda pull: Map(pull, lambda x: END if x is END else f(x))))

    def map_effect(
        self, f: Callable[[_A_co], EffectOf[_B, _E2, _R2]], *, concurrency: int = 1
    ) -> StreamOf[_B, _E_co | _E2, _R_co | _R2]:
        """Return the stream of the ordered values of `f(value)`. `concurrency` effects run ahead of the reader.

        Raises:
            ValueError: If `concurrency` is less than 1.
        """
        if _at_least_one("concurrency", concurrency) > 1:
            return StreamOf(_pull.concurrent(self.__fx_open__, f, concurrency))
        end: EffectOf[Any] = Succeed(END)
        return StreamOf(self.__fx_open__.map(lambda pull: pull.flat_map(lambda x: end if x is END else f(x))))

    def tap(self, f: Callable[[_A_co], EffectOf[Discarded, _E2, _R2]]) -> StreamOf[_A_co, _E_co | _E2, _R_co | _R2]:
        """Return the stream that runs `f(value)` before it returns the value."""
        end: EffectOf[Any] = Succeed(END)
        return StreamOf(self.__fx_open__.map(lambda pull: pull.flat_map(lambda x: end if x is END else f(x).as_(x))))

    def filter(self, keep: Callable[[_A_co], bool]) -> StreamOf[_A_co, _E_co, _R_co]:
        """Return the stream of the values for which `keep` is true."""
        return StreamOf(self.__fx_open__.map(lambda pull: Generate(_pull.keep_if, (pull, keep), {})))

    def scan(self, state: _B, f: Callable[[_B, _A_co], _B]) -> StreamOf[_B, _E_co, _R_co]:
        """Return the stream of the states. Each state is `f(state, value)` of the previous state."""
        return StreamOf(self.__fx_open__.map(lambda pull: _pull.scanning(pull, state, f)))

    def take(self, number: int) -> StreamOf[_A_co, _E_co, _R_co]:
        """Return the stream of the first `number` values. It pulls no more values."""
        return StreamOf(self.__fx_open__.map(lambda pull: _pull.taking(pull, number)))

    def take_while(self, holds: Callable[[_A_co], bool]) -> StreamOf[_A_co, _E_co, _R_co]:
        """Return the stream of the values before the first value for which `holds` is false."""
        return StreamOf(self.__fx_open__.map(lambda pull: _pull.ending(pull, holds)))

    def drop(self, number: int) -> StreamOf[_A_co, _E_co, _R_co]:
        """Return the stream without the first `number` values."""
        return StreamOf(self.__fx_open__.map(lambda pull: _pull.dropping(pull, number)))

    def grouped(self, size: int) -> StreamOf[tuple[_A_co, ...], _E_co, _R_co]:
        """Return the stream of tuples of `size` values. The last tuple can be shorter.

        Raises:
            ValueError: If `size` is less than 1.
        """
        number = _at_least_one("size", size)
        return StreamOf(self.__fx_open__.map(lambda pull: Generate(_pull.group, (pull, number), {})))

    # -- combination

    def flat_map(self, f: Callable[[_A_co], StreamOf[_B, _E2, _R2]]) -> StreamOf[_B, _E_co | _E2, _R_co | _R2]:
        """Return the values of the streams `f(value)`, one stream after another. Each stream ends before the next."""
        return StreamOf(_pull.flatten(self.__fx_open__, lambda x: f(x).__fx_open__))

    def concat(self, other: StreamOf[_B, _E2, _R2]) -> StreamOf[_A_co | _B, _E_co | _E2, _R_co | _R2]:
        """Return the stream of the values of this stream, then of `other`."""
        parts = (*_parts(self, _pull.concatenate), *_parts(other, _pull.concatenate))
        return StreamOf(_pull.concatenate(parts), (_pull.concatenate, parts))

    def merge(self, other: StreamOf[_B, _E2, _R2]) -> StreamOf[_A_co | _B, _E_co | _E2, _R_co | _R2]:
        """Return the stream of the values of both streams as they arrive. A failure of one stream stops the other.

        The stream ends when both streams ended.
        """
        parts = (*_parts(self, _pull.merge), *_parts(other, _pull.merge))
        return StreamOf(_pull.merge(parts), (_pull.merge, parts))

    def zip(self, other: StreamOf[_B, _E2, _R2]) -> StreamOf[tuple[_A_co, _B], _E_co | _E2, _R_co | _R2]:
        """Return the stream of pairs of the values of both streams. It ends with the shorter stream."""
        return StreamOf(_pull.zip_pairs(self.__fx_open__, other.__fx_open__))

    def buffer(self, capacity: int) -> StreamOf[_A_co, _E_co, _R_co]:
        """Return the stream with a producer that runs concurrently, at most `capacity` values ahead of the reader.

        Raises:
            ValueError: If `capacity` is less than 1.
        """
        ahead = _at_least_one("capacity", capacity) - 1  # the producer holds one more value
        return StreamOf(_pull.of_channel(lambda channel: _pull.pump(self.__fx_open__, channel), ahead))

    # -- failure and finalizers

    def map_error(self, f: Callable[[_E_co], _E2]) -> StreamOf[_A_co, _E2, _R_co]:
        """Return the stream with `f` applied to its typed failure."""
        return StreamOf(self.__fx_open__.map_error(f).map(lambda pull: pull.map_error(f)))

    def catch_all(self, f: Callable[[_E_co], StreamOf[_B, _E2, _R2]]) -> StreamOf[_A_co | _B, _E2, _R_co | _R2]:
        """Return the stream that continues with the stream `f(failure)` after a typed failure. Earlier values stay."""
        return StreamOf(_pull.recovering(self.__fx_open__, lambda error: f(error).__fx_open__))

    def on_exit(self, f: Callable[[AnyExit], EffectOf[Discarded, Never, _R2]]) -> StreamOf[_A_co, _E_co, _R_co | _R2]:
        """Return the stream that runs `f(exit)` when it ends or its reader stops."""
        return StreamOf(add_finalizer(f).flat_map(lambda _: self.__fx_open__))

    def ensuring(self, finalizer: EffectOf[Discarded, Never, _R2]) -> StreamOf[_A_co, _E_co, _R_co | _R2]:
        """Return the stream that runs `finalizer` when it ends or its reader stops."""
        return self.on_exit(lambda _: finalizer)

    # -- services

    def provide(self, layer: Callable[[StreamOf[_A_co, _E_co, _R_co | None]], _T]) -> _T:
        """Return the stream with the services of `layer`, built at the first read and released at the end.

        Raises:
            TypeError: If `layer` is not a layer.
        """
        if isinstance(layer, type) or not callable(layer):
            raise not_a_layer(layer)
        return layer(self)

    def provide_context(self, context: ContextOf[_R_co | None]) -> StreamOf[_A_co, _E_co, None]:
        """Return the stream with existing services."""
        return provide_stream(self, Succeed(context))

    def pipe(self, f: Callable[[StreamOf[_A_co, _E_co, _R_co]], _T]) -> _T:
        """Return `f(self)`. Use it to write functions of higher packages in reading order."""
        return f(self)

    # -- reading

    def collect(self) -> EffectOf[list[_A_co], _E_co, _R_co]:
        """Return the effect of all values in a list."""
        return scoped(Generate(_pull.collect, (self.__fx_open__,), {}))

    def fold(self, state: _B, f: Callable[[_B, _A_co], _B]) -> EffectOf[_B, _E_co, _R_co]:
        """Return the effect of the last state. Each state is `f(state, value)` of the previous state."""
        return scoped(Generate(_pull.fold, (self.__fx_open__, state, f), {}))

    def for_each(self, f: Callable[[_A_co], EffectOf[Discarded, _E2, _R2]]) -> EffectOf[None, _E_co | _E2, _R_co | _R2]:
        """Return the effect that runs `f` on each value, one after another."""
        return self.tap(f).drain()

    def drain(self: StreamOf[Discarded, _E, _R]) -> EffectOf[None, _E, _R]:
        """Return the effect that reads all values and discards them."""
        return scoped(Generate(_pull.drain, (self.__fx_open__,), {}))

    def first(self) -> EffectOf[Maybe[_A_co], _E_co, _R_co]:
        """Return the effect of the first value, or of `Nothing`. It pulls no other value."""
        return scoped(Generate(_pull.first, (self.__fx_open__,), {}))

    def last(self) -> EffectOf[Maybe[_A_co], _E_co, _R_co]:
        """Return the effect of the last value, or of `Nothing`."""
        return scoped(Generate(_pull.last, (self.__fx_open__,), {}))

    def iterate(self: StreamOf[_B, _E, None]) -> AbstractAsyncContextManager[AsyncIterator[_B]]:
        """Return the values for asynchronous Python: `async with stream.iterate() as items: async for item in items`.

        If the block ends early, fxai stops the producer and runs its finalizers. A failure that is an exception is
        raised unchanged. Any other failure is raised as `FailureError`. A defect is raised unchanged.
        """
        return cast("AbstractAsyncContextManager[AsyncIterator[_B]]", Iteration(self.__fx_open__))


def stream_steps(produce: Callable[[Emit[_B]], EffectOf[Discarded, _E, _R]]) -> StreamOf[_B, _E, _R]:
    """Return the stream of the values that `produce(emit)` emits. The program runs only while the reader waits.

    After each emitted value, the program pauses until the reader requests the next value. No task runs between two
    requests, and no value is stored. If the reader stops, fxai interrupts the program at its pause. `emit` is an
    effect of the program itself. You can also run it within `scoped`, `provide`, `catch_all`, or the `for_each` of
    another stream. In a forked or concurrent part, or within a `timeout`, `emit` is a defect. Use `Stream.emitting`
    there.
    """
    return StreamOf(_pull.steps(lambda emit: As(produce(emit), None)))


def pull_stream(stream: StreamOf[_B, _E, _R]) -> EffectOf[EffectOf[_B, _E, _R], _E, _R | Scope | None]:
    """Return the effect that opens the stream in the enclosing scope and returns the effect of the next value.

    After the last value, the returned effect succeeds with `END` of `fxai.effects.pull`.
    """
    return stream.__fx_open__


def provide_stream(stream: AnyStream, build: EffectOf[AnyContext, Any, Any]) -> AnyStream:
    """Return the stream with the services that `build` returns in the scope of the stream."""

    def start(given: AnyContext) -> AnyEffect:
        opened = enclose(stream.__fx_open__, given).provide_context(given)
        return opened.map(lambda pull: enclose(pull, given).provide_context(given))

    return StreamOf(build.flat_map(start))


def _parts(stream: AnyStream, by: object) -> tuple[Open, ...]:
    parts = stream.__fx_parts__
    return parts[1] if parts is not None and parts[0] is by else (stream.__fx_open__,)


def _at_least_one(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


AnyStream: TypeAlias = StreamOf[Any, Any, Any]
"""A stream of unknown types."""

if TYPE_CHECKING:
    Stream: TypeAlias = StreamOf[_A, _X, _N | None]
else:
    Stream = StreamOf


@final
class Iteration(Generic[_A]):
    """A context manager that reads a stream once. It returns the values as an asynchronous iterator."""

    __slots__ = ("_context", "_failed", "_open", "_pull", "_scope")

    def __init__(self, open_: AnyEffect, context: AnyContext = EMPTY) -> None:
        self._open = open_
        self._scope = Scope()
        self._context = context.put(Scope, self._scope)
        self._pull: AnyEffect | None = None
        self._failed: AnyExit | None = None

    async def __aenter__(self) -> AsyncIterator[_A]:
        try:
            self._pull = self._value(await run_fiber(self._open, self._context))
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return cast("AsyncIterator[_A]", self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await close_block(self._scope.close(self._failed or ending(error)), self._context, error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _A:
        if self._pull is None:
            raise RuntimeError("the stream is not open. Read it inside `async with stream.iterate() as items`.")
        if self._scope.closed:
            raise StopAsyncIteration

        item = self._value(await run_fiber(self._pull, self._context))
        if item is END:
            raise StopAsyncIteration
        return cast(_A, item)

    def _value(self, exit_: AnyExit) -> Any:
        if isinstance(exit_, Failed):
            self._failed = exit_
            raise exit_.cause.squash()
        return exit_.value
