"""Pulls, from which streams are built. The methods of `Stream` use these functions.

A pull is an effect of the next value or of `END`. The reader runs it again for each value. Opening a stream in a scope
returns a pull that belongs to this reading. The functions of this module return pulls, or effects that open pulls. A
`Channel` passes on the items of a program that runs concurrently with the reader, no faster than the reader takes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeAlias, cast, final

import anyio
import msgspec
from returns.maybe import Maybe, Nothing, Some
from typing_extensions import TypeVar

from fxai.effects.cause import AnyCause, AnyExit, Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.concurrency import FiberHandle, fork, parallel
from fxai.effects.context import AnyContext
from fxai.effects.effect import (
    AnyEffect,
    Await,
    AwaitExit,
    EffectOf,
    FailCause,
    Fold,
    Generate,
    Instruction,
    Map,
    OnExit,
    Succeed,
    Suspend,
    Sync,
    require_no_effect,
)
from fxai.effects.fiber import EMITTED, NESTED, RESUMED, TURN_TAKEN, Children, Fiber, Inside, Pending, ReaderLeft
from fxai.effects.scope import NOTHING, Scope, add_finalizer, scoped
from fxai.effects.task import in_own_task

_A = TypeVar("_A")


@final
class _End:
    def __repr__(self) -> str:
        return "END"


END: Any = _End()
"""The result of a pull after the last item."""

_TAKEN: Exit[None, Any] = Succeeded(None)


@final
class Channel(msgspec.Struct, Generic[_A], eq=False):
    """A queue with one reader. `put` waits while more than `capacity` items are unread. `end` ends the queue once."""

    _capacity: int = 0
    _items: deque[_A] = msgspec.field(default_factory=deque[Any])
    _exit: AnyExit | None = None
    _ready: anyio.Event | None = None
    _space: anyio.Event | None = None

    def offer(self, item: _A) -> None:
        """Add an item without waiting for free capacity."""
        self._items.append(item)
        if self._ready is not None:
            self._ready.set()

    def put(self, item: _A) -> EffectOf[None]:
        """Return the effect that adds an item and waits for free capacity. With capacity 0, it waits for the reader."""

        def start(_: object) -> Any:
            self.offer(item)
            return _TAKEN if len(self._items) <= self._capacity else self._wait_for_space()

        return AwaitExit(start)

    def end(self, exit_: AnyExit) -> EffectOf[None]:
        """Return the effect that ends the channel. The reader receives the remaining items, then `END` or the cause."""
        self._exit = exit_
        if self._ready is not None:
            self._ready.set()
        return NOTHING

    def take(self) -> EffectOf[Any, Any, None]:
        """Return the effect that waits for the next item or `END`. It fails with the failure of the producer."""
        return AwaitExit(self._next)

    def _next(self, _: object) -> AnyExit | Awaitable[AnyExit]:
        if self._items:
            item = self._items.popleft()
            if self._space is not None:
                self._space.set()
                self._space = None
            return Succeeded(item)
        if self._exit is None:
            return self._wait()
        return self._exit if isinstance(self._exit, Failed) else Succeeded(END)

    async def _wait(self) -> AnyExit:
        while not self._items and self._exit is None:
            self._ready = anyio.Event()
            await self._ready.wait()
        return cast("AnyExit", self._next(None))

    async def _wait_for_space(self) -> Exit[None, Any]:
        while len(self._items) > self._capacity:
            self._space = self._space or anyio.Event()
            await self._space.wait()
        return _TAKEN


Pull: TypeAlias = AnyEffect
Open: TypeAlias = EffectOf[Pull, Any, Any]
Steps: TypeAlias = Generator[Pull, Any, Any]

_END: Pull = Succeed(END)


# -- from values, iterators, and effects


def failure(error: object) -> Pull:
    """Return a pull that always fails."""
    return FailCause(Cause((Fail(error),)))


def of_iterator(items: Iterator[Any]) -> Pull:
    """Return a pull of the items of an iterator."""
    return Sync(lambda: next(items, END))


def once(effect: Pull) -> Pull:
    """Return a pull of the value of `effect`, then `END`."""
    left = [effect]
    return Suspend(lambda: left.pop() if left else _END)


def unfolding(state: Any, f: Callable[[Any], AnyEffect]) -> Pull:
    """Return a pull of the values of `f(state)`, until `f` returns None."""
    held = [state]

    def step(pair: tuple[Any, Any] | None) -> Any:
        if pair is None:
            held.clear()
            return END
        held[0] = pair[1]
        return pair[0]

    return Suspend(lambda: f(held[0]).map(step) if held else _END)


def of_async(items: AsyncIterator[Any]) -> Pull:
    """Return a pull of the items of an asynchronous iterator."""

    async def following() -> Any:
        return await anext(items, END)

    return Await(lambda _: following())


def close_async(items: AsyncIterator[Any]) -> EffectOf[Any, Any, None]:
    """Return the effect that closes an asynchronous generator. Other iterators need no closing."""
    close: Callable[[], Any] | None = getattr(items, "aclose", None)
    return NOTHING if close is None else Await(lambda _: close())


# -- one pull from another


def keep_if(pull: Pull, keep: Callable[[Any], bool]) -> Steps:
    """Return the next value for which `keep` is true."""
    while True:
        item = yield pull
        if item is END or keep(item):
            return item


def scanning(pull: Pull, state: Any, f: Callable[[Any, Any], Any]) -> Pull:
    """Return a pull of the states."""
    held = [state]

    def step(item: Any) -> Any:
        if item is END:
            return END
        held[0] = f(held[0], item)
        return held[0]

    return Map(pull, step)


def taking(pull: Pull, number: int) -> Pull:
    """Return a pull of at most `number` values."""
    left = [number]

    def following() -> Pull:
        if left[0] <= 0:
            return _END
        left[0] -= 1
        return pull

    return Suspend(following)


def ending(pull: Pull, holds: Callable[[Any], bool]) -> Pull:
    """Return a pull of the values before `holds` is false."""
    live = [True]

    def step(item: Any) -> Any:
        live[0] = item is not END and holds(item)
        return item if live[0] else END

    return Suspend(lambda: Map(pull, step) if live[0] else _END)


def dropping(pull: Pull, number: int) -> Pull:
    """Return a pull without the first `number` values."""
    left = [number]

    def skip() -> Steps:
        while left[0] > 0:
            left[0] -= 1
            if (yield pull) is END:
                return END
        return (yield pull)

    return Suspend(lambda: Generate(skip, (), {}) if left[0] > 0 else pull)


def group(pull: Pull, size: int) -> Steps:
    """Return the next `size` values, or fewer values at the end."""
    items: list[Any] = []
    while len(items) < size:
        item = yield pull
        if item is END:
            break
        items.append(item)
    return tuple(items) if items else END


# -- several streams


def flatten(outer: Open, inner: Callable[[Any], Open]) -> Open:
    """Open the streams `inner(value)` one after another, each in its own scope, and pull their values."""
    return Generate(_flatten, (outer, inner), {})


def concatenate(sources: tuple[Open, ...]) -> Open:
    """Open the sources one after another and pull their values."""
    return flatten(Sync(lambda: of_iterator(iter(sources))), lambda source: source)


def _flatten(outer: Open, inner: Callable[[Any], Open]) -> Steps:
    pull = yield outer
    current: list[tuple[Pull, Scope]] = []
    yield add_finalizer(lambda exit_: current.pop()[1].close(exit_) if current else NOTHING)

    def following() -> Steps:
        while True:
            if not current:
                item = yield pull
                if item is END:
                    return END
                scope = Scope()
                current.append((NOTHING, scope))
                current[0] = (scope.around((yield scope.around(inner(item)))), scope)
            item = yield current[0][0]
            if item is not END:
                return item
            yield current.pop()[1].close(Succeeded(None))

    return Generate(following, (), {})


def zip_pairs(one: Open, two: Open) -> Open:
    """Open both sources and pull pairs of their values."""

    def pairs(first: Pull, second: Pull) -> Steps:
        a = yield first
        b = END if a is END else (yield second)
        return END if b is END else (a, b)

    return one.flat_map(lambda first: two.map(lambda second: Generate(pairs, (first, second), {})))


def recovering(source: Open, other: Callable[[Any], Open]) -> Open:
    """Pull the values of `source`. After a typed failure, release `source` and pull the stream `other(failure)`."""
    return Generate(_recovering, (source, other), {})


def _recovering(source: Open, other: Callable[[Any], Open]) -> Steps:
    scope = Scope()  # the scope of the source
    current: list[Pull] = []
    yield add_finalizer(scope.close)

    def reopen(cause: AnyCause) -> Open | None:
        error = next((reason for reason in cause.reasons if isinstance(reason, Fail)), None)
        return None if error is None else scope.close(Failed(cause)).flat_map(lambda _: other(error.error))

    def recover(cause: AnyCause) -> Pull | None:
        opened = reopen(cause)
        return None if opened is None else opened.flat_map(turn)

    def turn(pull: Pull) -> Pull:
        current[:] = [pull]
        return pull

    opened = scope.around(source).map(lambda pull: Fold(scope.around(pull), recover, None))
    current.append((yield Fold(opened, reopen, None)))
    return Suspend(lambda: current[0])


# -- streams of a program that runs during the reading


def steps(program: Callable[[Callable[[Any], Pull]], Pull]) -> Open:
    """Start `program(emit)`, which runs from one emitted value to the next, and return the pull of the values."""

    def start(fiber: Fiber) -> Exit[Pull, Any]:
        scope: Scope = fiber.env.fetch(Scope)
        reading = _FiberReading(Fiber(fiber.env), fiber.env, scope)
        reading.fiber.postpone(Suspend(partial(program, partial(_Emit, reading))))
        reading.token = scope.add(reading.close)
        return Succeeded(AwaitExit(reading.next))

    return AwaitExit(start)


@final
class _Emit(Instruction, eq=False):
    """The effect that passes a value to the reader. The program continues at the next request."""

    reading: _FiberReading
    value: Any
    op = Await.op

    def f(self, fiber: Fiber) -> Awaitable[Any]:
        if fiber is not self.reading.fiber:
            raise RuntimeError(
                "emit ran concurrently with the program of the stream, or in a timeout inside it. Use "
                "StreamOf.emitting there, which has an emit without this limit."
            )
        self.reading.value = self.value
        return EMITTED


@final
class _FiberReading(msgspec.Struct, eq=False):
    """A program during its reading. It has its own fiber, which pauses between two pulls."""

    fiber: Fiber
    env: AnyContext  # the context of the reading
    scope: Scope  # the scope of the reader
    token: object = None  # the token of the finalizer in this scope
    has_begun: bool = False
    is_over: bool = False
    value: Any = None  # the last emitted value
    variables: Variables | None = None  # set if no event loop runs the program

    def next(self, reader: Fiber) -> AnyExit | Awaitable[AnyExit] | Inside:
        """Run the program until it emits a value. Return the value, or `END` after its end."""
        fiber = self.fiber
        if self.is_over:
            return Succeeded(END)
        if fiber.env is self.env:
            self.env = fiber.env = reader.env
        self.has_begun = True
        fiber.nested = reader.nested + 1
        if not reader.fair:
            return Inside(self._turn())
        if fiber.nested > NESTED:
            fiber.nested = 0
            return in_own_task(lambda: self._drive(reader, TURN_TAKEN))
        pending = fiber.step(RESUMED, None, None)
        return self._result() if pending is EMITTED or pending is None else self._drive(reader, pending)

    def _turn(self) -> Children:
        self.fiber.fair = False
        self.variables = self.variables or copy_context()
        yield self.fiber, self.variables
        return self._result()

    async def _drive(self, reader: Fiber, pending: Pending) -> AnyExit:
        try:
            await self.fiber.drive(pending)
        finally:
            self.is_over = self.is_over or self.fiber.exit is not None
        self.fiber.hand_over(reader)
        return self._result()

    def _result(self) -> AnyExit:
        if self.fiber.exit is None:
            value, self.value = self.value, None
            return Succeeded(value)
        self.is_over = True
        self.scope.remove(self.token)
        end = self.fiber.finish()
        return Succeeded(END) if isinstance(end, Succeeded) else end

    def close(self, _: AnyExit) -> Pull:
        """Return the effect that ends a paused program like a cancellation. For an ended program, it does nothing."""
        if self.is_over or not self.has_begun:
            return NOTHING
        self.is_over = True
        return AwaitExit(lambda closer: _abandon(self.fiber, closer, self.variables))


def _abandon(fiber: Fiber, closer: Fiber, variables: Variables | None) -> AnyExit | Awaitable[AnyExit] | Inside:
    fiber.nested = closer.nested + 1
    fiber.abandon()
    if not closer.fair:
        return Inside(_unwound_in_turn(fiber, variables or copy_context()))
    pending = fiber.step(RESUMED, None, None)
    return _besides(fiber) if pending is None else _unwound(fiber, pending)


def _unwound_in_turn(fiber: Fiber, variables: Variables) -> Children:
    while fiber.exit is None:  # the reader ignores values that finalizers emit
        yield fiber, variables
    return _besides(fiber)


async def _unwound(fiber: Fiber, pending: Pending | None) -> AnyExit:
    with suppress(ReaderLeft):
        while fiber.exit is None:
            await fiber.drive(pending)
            pending = None if fiber.exit is not None else fiber.step(RESUMED, None, None)
    return _besides(fiber)


def _besides(fiber: Fiber) -> AnyExit:
    failed = fiber.besides()
    return Failed(failed) if failed.reasons else Succeeded(None)


# -- streams with a concurrent program


def of_channel(body: Callable[[Channel[Any]], AnyEffect], capacity: int) -> Open:
    """Start the program `body(channel)` and return the pull of the items of the channel."""

    def start(fiber: Fiber) -> Any:
        channel: Channel[Any] = Channel(capacity)
        program = OnExit(Suspend(partial(body, channel)), channel.end)
        return FiberHandle(fiber.env.fetch(Scope), Scope()).start(fiber, program, channel.take())

    return AwaitExit(start)


def pump(source: Open, channel: Channel[Any]) -> AnyEffect:
    """Put all values of a stream into a channel."""
    return scoped(Generate(_pump, (source, channel), {}))


def _pump(source: Open, channel: Channel[Any]) -> Steps:
    pull = yield source
    while (item := (yield pull)) is not END:
        yield channel.put(item)


def merge(sources: tuple[Open, ...]) -> Open:
    """Open all sources and pull their values as they arrive."""
    return of_channel(lambda channel: parallel([pump(source, channel) for source in sources]), 0)


def concurrent(source: Open, f: Callable[[Any], AnyEffect], number: int) -> Open:
    """Pull the values of `f(value)` in order, while `number` effects run concurrently."""

    def feed(channel: Channel[FiberHandle[Any, Any]]) -> AnyEffect:
        return Generate(_fork_each, (source, f, channel), {})

    handles = of_channel(feed, max(number - 2, 0))  # the reader joins one more effect, and the producer holds one
    return handles.map(lambda pull: pull.flat_map(lambda handle: _END if handle is END else handle.join()))


def _fork_each(source: Open, f: Callable[[Any], AnyEffect], channel: Channel[Any]) -> Steps:
    pull = yield source
    while (item := (yield pull)) is not END:
        handle = yield fork(Suspend(partial(f, item)))
        yield channel.put(handle)


# -- reading


def collect(source: Open) -> Steps:
    """Return all values."""
    pull = yield source
    items: list[Any] = []
    while (item := (yield pull)) is not END:
        items.append(item)
    return items


def fold(source: Open, state: Any, f: Callable[[Any, Any], Any]) -> Steps:
    """Return the last state."""
    pull = yield source
    while (item := (yield pull)) is not END:
        state = f(state, item)
    return state


def drain(source: Open) -> Steps:
    """Return None after the last value. Reject an effect, because the program would never run it."""
    pull = yield source
    while (item := (yield pull)) is not END:
        require_no_effect(item)


def first(source: Open) -> Steps:
    """Return the first value, or `Nothing`."""
    item = yield (yield source)
    return Nothing if item is END else Some(item)


def last(source: Open) -> Steps:
    """Return the last value, or `Nothing`."""
    pull = yield source
    latest: Maybe[Any] = Nothing
    while (item := (yield pull)) is not END:
        latest = Some(item)
    return latest
