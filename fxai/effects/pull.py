"""Pulls: what streams are made of.

A pull is an effect of the next value, or of `END`; it is run again for each value. Opening a stream, in a scope,
gives a pull that belongs to that reading. The functions here make pulls, or the effects that open them. A `Channel`
hands on the items of a program that runs beside the reader, no faster than they are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import Context as Variables
from contextvars import copy_context
from typing import Any, Generic, TypeAlias, final

import anyio
from returns.maybe import Maybe, Nothing, Some
from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.concurrency import FiberHandle, fork, fork_in, parallel
from fxai.effects.effect import (
    AnyEffect,
    Await,
    AwaitExit,
    EffectOf,
    FailCause,
    Fold,
    Generate,
    Map,
    Succeed,
    Suspend,
    Sync,
)
from fxai.effects.fiber import EMITTED, NESTED, RESUMED, TURN_TAKEN, Children, Fiber, Inside, ReaderLeft
from fxai.effects.scope import NOTHING, Scope, add_finalizer, scoped
from fxai.effects.task import in_own_task

__all__ = ["END", "Channel", "Open", "Pull", "Steps"]


_A = TypeVar("_A")


@final
class _End:
    def __repr__(self) -> str:
        return "END"


END: Any = _End()
"""What a pull gives when there are no more items."""

_TAKEN: Exit[None, Any] = Succeeded(None)


@final
class Channel(Generic[_A]):
    """A queue with one reader. `put` waits while more than `capacity` items are unread; `end` is told once."""

    __slots__ = ("_capacity", "_exit", "_items", "_ready", "_room")

    def __init__(self, capacity: int = 0) -> None:
        self._items: deque[_A] = deque()
        self._capacity = capacity
        self._exit: Exit[Any, Any] | None = None
        self._ready: anyio.Event | None = None
        self._room: anyio.Event | None = None

    def offer(self, item: _A) -> None:
        """Adds an item, whether there is room or not."""
        self._items.append(item)
        self._wake()

    def put(self, item: _A) -> EffectOf[None]:
        """Adds an item and waits until there is room: with capacity 0, until it was taken."""

        def start(_: object) -> Any:
            self.offer(item)
            return _TAKEN if len(self._items) <= self._capacity else self._roomy()

        return AwaitExit(start)

    def end(self, exit_: Exit[Any, Any]) -> None:
        """Ends the channel: the reader gets what is left, then the end, or the cause of a failed exit."""
        self._exit = exit_
        self._wake()

    def take(self) -> EffectOf[Any, Any, None]:
        """The next item, or `END`; waits for it. A producer that failed is the failure here."""
        return AwaitExit(lambda _: self._next() or self._waited())

    def _next(self) -> Exit[Any, Any] | None:
        if self._items:
            item = self._items.popleft()
            if self._room is not None:
                self._room.set()
                self._room = None
            return Succeeded(item)
        if self._exit is None:
            return None
        return self._exit if isinstance(self._exit, Failed) else Succeeded(END)

    async def _waited(self) -> Exit[Any, Any]:
        while (found := self._next()) is None:
            self._ready = anyio.Event()
            await self._ready.wait()
        return found

    async def _roomy(self) -> Exit[None, Any]:
        while len(self._items) > self._capacity:
            self._room = self._room or anyio.Event()
            await self._room.wait()
        return _TAKEN

    def _wake(self) -> None:
        if self._ready is not None:
            self._ready.set()
            self._ready = None


Pull: TypeAlias = AnyEffect
Open: TypeAlias = EffectOf[Pull, Any, Any]
Steps: TypeAlias = Generator[Pull, Any, Any]

_END: Pull = Succeed(END)


# -- from things that are no streams


def failure(error: object) -> Pull:
    """Fails each time."""
    return FailCause(Cause((Fail(error),)))


def of_iterator(items: Iterator[Any]) -> Pull:
    """The items of an iterator."""
    return Sync(lambda: next(items, END))


def once(effect: Pull) -> Pull:
    """The value of `effect`, then the end."""
    left = [effect]
    return Suspend(lambda: left.pop() if left else _END)


def unfolding(state: Any, f: Callable[[Any], AnyEffect]) -> Pull:
    """What `f` gives of the state, until it gives None."""
    held = [state]

    def step(pair: tuple[Any, Any] | None) -> Any:
        if pair is None:
            held.clear()
            return END
        held[0] = pair[1]
        return pair[0]

    return Suspend(lambda: f(held[0]).map(step) if held else _END)


def of_async(items: AsyncIterator[Any]) -> Pull:
    """The items of an asynchronous iterator."""

    async def following() -> Any:
        return await anext(items, END)

    return Await(lambda _: following())


def close_async(items: AsyncIterator[Any]) -> EffectOf[Any, Any, None]:
    """Closes an asynchronous generator; other iterators need no closing."""
    close: Callable[[], Any] | None = getattr(items, "aclose", None)
    return NOTHING if close is None else Await(lambda _: close())


# -- one pull from another


def filtered(pull: Pull, keep: Callable[[Any], bool]) -> Steps:
    """The next value that is kept."""
    while True:
        item = yield pull
        if item is END or keep(item):
            return item


def scanning(pull: Pull, state: Any, f: Callable[[Any, Any], Any]) -> Pull:
    """The states."""
    held = [state]

    def step(item: Any) -> Any:
        if item is END:
            return END
        held[0] = f(held[0], item)
        return held[0]

    return Map(pull, step)


def taking(pull: Pull, number: int) -> Pull:
    """At most `number` values."""
    left = [number]

    def following() -> Pull:
        if left[0] <= 0:
            return _END
        left[0] -= 1
        return pull

    return Suspend(following)


def ending(pull: Pull, holds: Callable[[Any], bool]) -> Pull:
    """The values until `holds` is false."""
    live = [True]

    def step(item: Any) -> Any:
        live[0] = item is not END and holds(item)
        return item if live[0] else END

    return Suspend(lambda: Map(pull, step) if live[0] else _END)


def dropping(pull: Pull, number: int) -> Pull:
    """All but the first `number` values."""
    left = [number]

    def skip() -> Steps:
        while left[0] > 0:
            left[0] -= 1
            if (yield pull) is END:
                return END
        return (yield pull)

    return Suspend(lambda: Generate(skip, (), {}) if left[0] > 0 else pull)


def group(pull: Pull, size: int) -> Steps:
    """The next `size` values, or fewer at the end."""
    items: list[Any] = []
    while len(items) < size:
        item = yield pull
        if item is END:
            break
        items.append(item)
    return tuple(items) if items else END


# -- several streams


def flattened(outer: Open, inner: Callable[[Any], Open]) -> Open:
    """The streams that `inner` gives of the values, one after another, each in a scope of its own."""
    return Generate(_flattened, (outer, inner), {})


def concatenated(sources: tuple[Open, ...]) -> Open:
    """The values of all, one stream after another."""
    return flattened(Sync(lambda: of_iterator(iter(sources))), lambda source: source)


def _flattened(outer: Open, inner: Callable[[Any], Open]) -> Steps:
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


def zipped(one: Open, two: Open) -> Open:
    """Pairs."""

    def pairs(first: Pull, second: Pull) -> Steps:
        a = yield first
        b = END if a is END else (yield second)
        return END if b is END else (a, b)

    return one.flat_map(lambda first: two.map(lambda second: Generate(pairs, (first, second), {})))


def recovering(source: Open, other: Callable[[Any], Open]) -> Open:
    """The values of `source`; after a typed failure, when it is released, those of the stream that `other` makes."""
    return Generate(_recovering, (source, other), {})


def _recovering(source: Open, other: Callable[[Any], Open]) -> Steps:
    scope = Scope()  # of the source
    current: list[Pull] = []
    yield add_finalizer(scope.close)

    def reopened(cause: Cause[Any]) -> Open | None:
        error = next((reason for reason in cause.reasons if isinstance(reason, Fail)), None)
        return None if error is None else scope.close(Failed(cause)).flat_map(lambda _: other(error.error))

    def recover(cause: Cause[Any]) -> Pull | None:
        opened = reopened(cause)
        return None if opened is None else opened.flat_map(turn)

    def turn(pull: Pull) -> Pull:
        current[:] = [pull]
        return pull

    opened = scope.around(source).map(lambda pull: Fold(scope.around(pull), recover, None))
    current.append((yield Fold(opened, reopened, None)))
    return Suspend(lambda: current[0])


# -- streams of a program that runs while it is read


def stepped(program: Callable[[Callable[[Any], Pull]], Pull]) -> Open:
    """Makes `program(emit)`, which is run from one emitted value to the next; gives the pull of these."""

    def start(fiber: Fiber) -> Exit[Pull, Any]:
        reading = _Reading(fiber, program)
        fiber.env.fetch(Scope).add(reading.close)
        return Succeeded(AwaitExit(reading.next))

    return AwaitExit(start)


@final
class _Reading:
    """A program that is read: a fiber of its own, which stands still between two pulls."""

    __slots__ = ("_env", "_fiber", "_has_begun", "_is_over", "_value", "_variables")

    def __init__(self, opener: Fiber, program: Callable[[Callable[[Any], Pull]], Pull]) -> None:
        self._env = opener.env  # which it is read in
        self._fiber = Fiber(opener.env)
        self._fiber.postpone(Suspend(lambda: program(self.emit)))
        self._has_begun = False
        self._is_over = False
        self._value: Any = None  # that was emitted last
        self._variables: Variables | None = None  # where no event loop runs it

    def emit(self, value: Any) -> Pull:
        """Hands a value to the reader; the program goes on when the next one is asked for."""

        def emitted(fiber: Fiber) -> Awaitable[Any]:
            if fiber is not self._fiber:
                raise RuntimeError(
                    "emit was run beside the program that is read, or in a timeout within it; there, use "
                    "StreamOf.emitting, whose emit can be run anywhere"
                )
            self._value = value
            return EMITTED

        return Await(emitted)

    def next(self, reader: Fiber) -> Exit[Any, Any] | Awaitable[Exit[Any, Any]] | Inside:
        """Runs the program until it emits a value, which it gives, or is over: then `END`."""
        fiber = self._fiber
        if self._is_over:
            return Succeeded(END)
        if fiber.env is self._env:
            self._env = fiber.env = reader.env
        self._has_begun = True
        fiber.nested = reader.nested + 1
        if not reader.fair:
            return Inside(self._turn())
        if fiber.nested > NESTED:
            fiber.nested = 0
            return in_own_task(lambda: self._drive(reader, TURN_TAKEN))
        pending = fiber.step(RESUMED, None, None)
        return self._result() if pending is EMITTED or pending is None else self._drive(reader, pending)

    def _turn(self) -> Children:
        self._fiber.fair = False
        self._variables = self._variables or copy_context()
        yield self._fiber, self._variables
        return self._result()

    async def _drive(self, reader: Fiber, pending: Awaitable[Any]) -> Exit[Any, Any]:
        try:
            await self._fiber.drive(pending)
        finally:
            self._is_over = self._is_over or self._fiber.exit is not None
        self._fiber.hand_over(reader)
        return self._result()

    def _result(self) -> Exit[Any, Any]:
        if self._fiber.exit is None:
            value, self._value = self._value, None
            return Succeeded(value)
        self._is_over = True
        end = self._fiber.ended()
        return Succeeded(END) if isinstance(end, Succeeded) else end

    def close(self, _: Exit[Any, Any]) -> Pull:
        """Ends the program where it stands, as a cancellation does; nothing, where it is over."""
        if self._is_over or not self._has_begun:
            return NOTHING
        self._is_over = True
        return AwaitExit(lambda closer: _abandoned(self._fiber, closer, self._variables))


def _abandoned(
    fiber: Fiber, closer: Fiber, variables: Variables | None
) -> Exit[Any, Any] | Awaitable[Exit[Any, Any]] | Inside:
    fiber.nested = closer.nested + 1
    fiber.abandon()
    if not closer.fair:
        return Inside(_unwound_in_turn(fiber, variables or copy_context()))
    pending = fiber.step(RESUMED, None, None)
    return _besides(fiber) if pending is None else _unwound(fiber, pending)


def _unwound_in_turn(fiber: Fiber, variables: Variables) -> Children:
    while fiber.exit is None:  # what finalizers emit is not read
        yield fiber, variables
    return _besides(fiber)


async def _unwound(fiber: Fiber, pending: Awaitable[Any] | None) -> Exit[Any, Any]:
    with suppress(ReaderLeft):
        while fiber.exit is None:
            await fiber.drive(pending)
            pending = None if fiber.exit is not None else fiber.step(RESUMED, None, None)
    return _besides(fiber)


def _besides(fiber: Fiber) -> Exit[Any, Any]:
    failed = fiber.besides()
    return Failed(failed) if failed.reasons else Succeeded(None)


# -- streams with a program beside the reader


def channelled(body: Callable[[Channel[Any]], AnyEffect], capacity: int) -> Open:
    """Starts the program `body(channel)`; gives the pull of what comes through the channel."""

    def start(fiber: Fiber) -> Any:
        channel: Channel[Any] = Channel(capacity)

        def end(exit_: Exit[Any, Any]) -> EffectOf[None]:
            channel.end(exit_)
            return NOTHING

        program = Suspend(lambda: body(channel)).on_exit(end)
        return fork_in(fiber, program, fiber.env.fetch(Scope), channel.take())

    return AwaitExit(start)


def pumped(source: Open, channel: Channel[Any]) -> AnyEffect:
    """Puts all values of a stream into a channel."""

    def pump(pull: Pull) -> Steps:
        while (item := (yield pull)) is not END:
            yield channel.put(item)

    return scoped(source.flat_map(lambda pull: Generate(pump, (pull,), {})))


def merged(sources: tuple[Open, ...]) -> Open:
    """The values of all as they come."""
    return channelled(lambda channel: parallel([pumped(source, channel) for source in sources]), 0)


def concurrent(source: Open, f: Callable[[Any], AnyEffect], number: int) -> Open:
    """The values of `f`, in order, where `number` of them run at once."""

    def feed(channel: Channel[FiberHandle[Any, Any]]) -> AnyEffect:
        return source.flat_map(lambda pull: Generate(_fed, (pull, f, channel), {}))

    joined = channelled(feed, max(number - 2, 0))  # one more is being joined, and one waits to be put
    return joined.map(lambda pull: pull.flat_map(lambda handle: _END if handle is END else handle.join()))


def _fed(pull: Pull, f: Callable[[Any], AnyEffect], channel: Channel[Any]) -> Steps:
    while (item := (yield pull)) is not END:
        handle = yield fork(_applied(f, item))
        yield channel.put(handle)


def _applied(f: Callable[[Any], AnyEffect], item: Any) -> AnyEffect:
    return Suspend(lambda: f(item))


# -- reading


def collected(pull: Pull) -> Steps:
    """All values."""
    items: list[Any] = []
    while (item := (yield pull)) is not END:
        items.append(item)
    return items


def folded(pull: Pull, state: Any, f: Callable[[Any, Any], Any]) -> Steps:
    """The last state."""
    while (item := (yield pull)) is not END:
        state = f(state, item)
    return state


def drained(pull: Pull) -> Steps:
    """Nothing, when the end was reached."""
    while (yield pull) is not END:
        pass


def last(pull: Pull) -> Steps:
    """The last value, or `Nothing`."""
    latest = END
    while (item := (yield pull)) is not END:
        latest = item
    return found(latest)


def found(item: Any) -> Maybe[Any]:
    """`Some(item)`, or `Nothing` at the end."""
    return Nothing if item is END else Some(item)
