"""Effects that are the values of other effects where nothing runs them."""

from __future__ import annotations

from fxai.agents import Agent
from fxai.effects import Effect, Gen, Layer, Stream, fx
from tests.typing.world import Db, LogFault, MyDb

one = fx.succeed(1)
numbers = Stream.from_iterable([1, 2])


def note(text: str) -> Effect[None, LogFault]:
    return fx.fail(LogFault()) if text else fx.succeed(None)


def close(_: object) -> Effect[None]:
    return fx.succeed(None)


async def fetch() -> Effect[None, LogFault]:
    return note("fetched")


# --- a function for a value gives an effect
fx.run(fx.sync(lambda: note("a")))  # wrong: write `fx.suspend`
fx.run(fx.sync(lambda: note("a") if one else None))  # wrong: one of two
fx.run(fx.wait(fetch))  # wrong: of a coroutine
fx.run(one.and_then(fx.sync(lambda: note("a"))))  # wrong: after another
fx.run_sync(fx.sync(lambda: close(1)))  # wrong: without a loop
fx.run(fx.all_(one, fx.sync(lambda: close(1))))  # wrong: beside another


@fx.gen
def program() -> Gen[int]:
    yield from fx.sync(lambda: close(1))  # wrong: in a generator
    return (yield from one)


# --- finalizers
fx.run(fx.scoped(fx.acquire_release(one, lambda n: fx.sync(lambda: close(n)))))  # wrong: nothing is released
fx.run(fx.scoped(fx.acquire_release(one, lambda n: fx.succeed(n).map(close))))  # wrong: `map` for `flat_map`
fx.run(one.ensuring(fx.sync(lambda: close(1))))  # wrong: at the end
fx.run(one.ensuring(one.map(close)))  # wrong: the same, by `map`
fx.run(one.on_exit(lambda _: fx.sync(lambda: close(1))))  # wrong: with the exit
fx.run(numbers.ensuring(one.map(close)).drain())  # wrong: of a stream
fx.run(numbers.on_exit(lambda _: one.map(close)).drain())  # wrong: of a stream, with the exit
fx.run(fx.scoped(fx.add_finalizer(lambda _: one.map(close))))  # wrong: of the scope
Layer.scoped(Db, fx.acquire_release(fx.succeed(MyDb()), lambda db: fx.sync(lambda: close(db))))  # wrong: of a service

# --- for what they do
fx.run(one.tap(lambda n: fx.succeed(n).map(close)))  # wrong: `map` for `flat_map`
fx.run(one.tap(lambda n: fx.sync(lambda: close(n))))  # wrong: `fx.sync` for `fx.suspend`
fx.run(numbers.tap(lambda n: fx.sync(lambda: close(n))).drain())  # wrong: of a stream
fx.run(numbers.for_each(lambda n: fx.succeed(n).map(close)))  # wrong: for each value
Agent.make("a").on_step(lambda _: fx.sync(lambda: note("a")))  # wrong: of an agent
