"""Twelve tools, agents with outputs, hooks, services as arguments and generic helpers."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Never, TypeVar

import msgspec
from returns.result import Failure, Result, Success

from fxai import (
    Agent,
    Answer,
    BoundToolkit,
    Budget,
    CallContext,
    Effect,
    Gen,
    HandlerOf,
    LanguageModel,
    Layer,
    Outcome,
    RunError,
    Schedule,
    Service,
    Step,
    Stream,
    Tag,
    Timeout,
    Tool,
    Toolkit,
    fx,
    tool,
)
from fxai.effects import EffectOf
from fxai.testing import ScriptedModel, call, text


class A(msgspec.Struct, frozen=True):
    a: int


class B(msgspec.Struct, frozen=True):
    b: str


class C(msgspec.Struct, frozen=True):
    c: float


class D(msgspec.Struct, frozen=True):
    d: bool


class E1(msgspec.Struct, frozen=True):
    why: str


class E2(msgspec.Struct, frozen=True):
    code: int


class E3(Exception):
    pass


class Db(Service):
    @abstractmethod
    def get(self, n: int) -> Effect[A, E1]: ...


class Bus(Service):
    @abstractmethod
    def put(self, a: A) -> Effect[None, E2]: ...


class Key(Tag[str]): ...


class MyDb(Db):
    def get(self, n: int) -> Effect[A, E1]:
        return fx.succeed(A(n))


class MyBus(Bus):
    def put(self, a: A) -> Effect[None, E2]:
        return fx.succeed(None)


db = Layer.succeed(Db, MyDb())
bus = Layer.succeed(Bus, MyBus())
key = Layer.succeed(Key, "k")

# nine and more tools
t1 = Tool.make("t1", parameters=A, success=int)
t2 = Tool.make("t2", parameters=A, success=str)
t3 = Tool.make("t3", parameters=A, success=float, failure=E1)
t4 = Tool.make("t4", parameters=B, success=int, failure=E1 | E2)
t5 = Tool.make("t5", parameters=B, success=int | None)
t6 = Tool.make("t6", parameters=B, success=list[A])
t7 = Tool.make("t7", parameters=C, success=dict[str, A])
t8 = Tool.make("t8", parameters=C, success=Literal["x", "y"])
t9 = Tool.make("t9", parameters=C)
t10 = Tool.make("t10", parameters=A | B, success=bytes) if False else Tool.make("t10", parameters=D, success=bytes)
t11 = Tool.make("t11", success=int)
t12 = Tool.dynamic("t12", parameters={"type": "object"}, success=str)
nine = Toolkit.make(t1, t2, t3, t4, t5, t6, t7, t8, t9)
twelve = Toolkit.make(t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12)
six = Toolkit.make(t1, t2, t3).merge(Toolkit.make(t4, t5, t6))


def h3(a: A) -> Gen[float, E1, Db]:
    db = yield from Db
    got = yield from db.get(a.a)
    return got.a / 2


def h4(b: B) -> Gen[int, E1 | E2, Db | Bus]:
    db = yield from Db
    bus = yield from Bus
    got = yield from db.get(1)
    yield from bus.put(got)
    return 1


async def h7(c: C) -> Result[dict[str, A], Never]:
    return Success({"x": A(1)})


def h8(c: C) -> Result[Literal["x", "y"], Never]:
    return Success("x")


def h12(p: object) -> Result[str, Never]:
    return Success(str(p))


l1 = t1.handler(lambda a: Success(a.a))
l2 = t2.handler(lambda a: Success(str(a.a)))
l3 = t3.handler(h3)
l4 = t4.handler(h4)
l5 = t5.handler(lambda b: Success(None))
l6 = t6.handler(lambda b: Success([A(1)]))
l7 = t7.handler(h7)
l8 = t8.handler(h8)
l9 = t9.handler(lambda c: Success(None))
l10 = t10.handler(lambda d: Success(b"x"))
l11 = t11.handler(lambda _: Success(3))
l12 = t12.handler(h12)
all_nine = nine.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6, l7, l8, l9))
all_nine_pipe = nine.to_layer(l1 | l2 | l3 | l4 | l5 | l6 | l7 | l8 | l9)
all_twelve = twelve.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11, l12))
all_twelve_b = twelve.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6) | Layer.merge_all(l7, l8, l9, l10, l11, l12))
all_six = six.to_layer(l1 | l2 | l3 | l4 | l5 | l6)
o: Outcome = fx.run(nine.call("t1", {"a": 1}).provide(all_nine).provide(db).provide(bus))
o = fx.run(nine.call("t1", {"a": 1}).provide(all_nine_pipe).provide(db | bus))
o = fx.run(twelve.call("t1", {"a": 1}).provide(all_twelve).provide(db | bus))
o = fx.run(twelve.call("t1", {"a": 1}).provide(all_twelve_b).provide(db | bus))
o = fx.run(six.call("t1", {"a": 1}).provide(all_six).provide(db | bus))
o = fx.run(six.call("t1", {"a": 1}).provide(all_six.provide(db | bus)))
needs_nine: Layer[Never, Never, Db | Bus] = all_nine


def make_kit(wide: bool) -> Toolkit[HandlerOf[A, int, Never] | HandlerOf[A, str, Never]]:
    if wide:
        return Toolkit.make(t1, t2)
    return Toolkit.make(t1)


o = fx.run(make_kit(True).call("t1", {}).provide(l1 | l2))

# agents with tools and outputs


class Verdict(msgspec.Struct, frozen=True):
    good: bool


agent = Agent.make("judge", instructions="x", toolkit=nine, output=Verdict, budget=Budget(rounds=3), temperature=0.1)
answer = agent.execute("x")
model = ScriptedModel.make([call("t1", {"a": 1}), text("{}")])
got: Answer[Verdict] = fx.run(answer.provide(all_nine).provide(db | bus | model.layer))
good: bool = got.output.good
union_agent = Agent.make("u", output=Verdict | None)
maybe_verdict: Verdict | None = fx.run(union_agent.execute("x").provide(model.layer)).output
lit = Agent.make("l", output=Literal["yes", "no"])
yes_no: Literal["yes", "no"] = fx.run(lit.execute("x").provide(model.layer)).output
plain = Agent.make("p")
txt: str = fx.run(plain.execute("x").provide(model.layer)).output
with_model = Agent.make("m", model=model.layer)
txt = fx.run(with_model.execute("x")).text


@tool
def short(order: int, note: str = "") -> Gen[A, E1, Db]:
    """Doc."""
    db = yield from Db
    return (yield from db.get(order))


@tool(failure_mode="return")
async def long(order: int) -> Result[A, E2]:
    """Doc."""
    return Success(A(order))


@tool
async def bare_async(order: int, context: CallContext) -> list[A]:
    """Doc."""
    return [A(order)]


@tool
def effectful(order: int) -> Effect[A, E2, Bus]:
    """Doc."""
    return fx.service(Bus).flat_map(lambda b: b.put(A(order))).as_(A(order))


@tool
def streamed(n: int) -> Stream[int, Never, Db]:
    """Doc."""
    return Stream.make(1, 2, 3)


@tool
async def async_effect(n: int) -> Effect[int, E1, Db]:
    """Doc."""
    return fx.service(Db).flat_map(lambda d: d.get(n)).map(lambda a: a.a)


@tool
def maybe_str(n: int) -> str | None:
    """Doc."""
    return None


@tool
def literal(n: Literal["a", "b"], m: int | None = None) -> Literal["x"]:
    """Doc."""
    return "x"


shorts = BoundToolkit.make(short, long, bare_async, effectful, streamed, async_effect, maybe_str, literal)
o = fx.run(shorts.call("short", {"order": 1}).provide(db | bus))
short_agent = Agent.make("s").with_tools(short, long, effectful, maybe_str)
assert fx.run(short_agent.execute("x").provide(db | bus | model.layer)).text
short_agent2 = Agent.make("s", toolkit=shorts)
assert fx.run(short_agent2.execute("x").provide(db | bus | model.layer)).text
three = Agent.make("s", toolkit=Toolkit.make(t1, t2)).with_tools(short).with_tools(t3)
assert fx.run(three.execute("x").provide(l1 | l2 | l3).provide(db | model.layer)).text


class Desk:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def look(self, n: int) -> Gen[A, E1, Db]:
        """Doc."""
        db = yield from Db
        return (yield from db.get(n))

    @tool
    async def wait(self, n: float) -> str:
        """Doc."""
        await asyncio.sleep(n)
        return self.name


desk = Desk("x")
desk_kit = BoundToolkit.make(desk.look, desk.wait)
o = fx.run(desk_kit.call("look", {"n": 1}).provide(db))
desk_agent = Agent.make("d").with_tools(desk.look, desk.wait)
assert fx.run(desk_agent.execute("x").provide(db | model.layer)).output

# pick and omit
picked = nine.pick("t1", "t2")
omitted = nine.omit("t1")
o = fx.run(picked.call("t1", {}).provide(all_nine).provide(db | bus))
o = fx.run(omitted.call("t1", {}).provide(all_nine).provide(db | bus))
pl = picked.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6, l7, l8, l9))

# hooks


def stop(steps: Sequence[Step]) -> bool:
    return len(steps) > 2


@fx.gen
def stop_gen(steps: Sequence[Step]) -> Gen[bool, E1, Db]:
    db = yield from Db
    got = yield from db.get(len(steps))
    return got.a > 1


def log_step(step: Step) -> None:
    print(step.number)


def log_effect(step: Step) -> Effect[None, E2, Bus]:
    return fx.service(Bus).flat_map(lambda b: b.put(A(step.number)))


hooked = (
    Agent.make("h", stop_when=stop, on_step=[log_step, log_step])
    .stop_when(stop_gen)
    .on_step(log_effect)
    .on_step(log_step)
    .on_step(lambda step: fx.sync(lambda: print(step.text)))
    .stop_when(lambda steps: len(steps) > 3)
    .prepare_step(lambda setup: setup.with_choice("none"))
    .prepare_step(lambda setup: fx.succeed(setup.with_options(temperature=0)))
)
hooked_run: Effect[Answer, RunError | E1 | E2, Db | Bus | LanguageModel] = hooked.execute("x")
assert fx.run(hooked_run.provide(db | bus | model.layer)).text

# services as arguments
pair: Effect[tuple[Db, Bus], Never, Db | Bus] = fx.all_(fx.service(Db), fx.service(Bus))
trip: Effect[tuple[Db, Bus, str], Never, Db | Bus | Key] = fx.all_(fx.service(Db), fx.service(Bus), fx.service(Key))
dict_of = {"a": fx.service(Db), "b": fx.service(Db)}
collected: Effect[list[Db], Never, Db] = fx.collect([fx.service(Db), fx.service(Db)])
each: Effect[list[Db], Never, Db] = fx.for_each([1, 2], lambda _: fx.service(Db))
raced: Effect[Db | Bus, Never, Db | Bus] = fx.race(fx.service(Db), fx.service(Bus))
then: Effect[Bus, Never, Db | Bus] = fx.service(Db).and_then(fx.service(Bus))
or_else: Effect[A | str, Never, Db | Key] = fx.service(Db).flat_map(lambda d: d.get(1)).or_else(fx.service(Key))
tapped: Effect[Db, Never, Db | Key] = fx.service(Db).tap(lambda _: fx.service(Key))
flat: Effect[Bus, Never, Db | Bus] = fx.service(Db).flat_map(lambda _: fx.service(Bus))
get_one = fx.service(Db).flat_map(lambda d: d.get(1))
caught: Effect[A, Never, Db] = get_one.catch_all(lambda e: fx.succeed(A(len(e.why))))
layer_of_service = Layer.effect(Key, fx.service(Db).map(lambda d: "x"))
lay: Layer[Key, Never, Db] = layer_of_service
scoped = fx.scoped(fx.acquire_release(fx.service(Db), lambda d: fx.service(Bus)))
sc: Effect[Db, Never, Db | Bus] = scoped
timed: Effect[Db, Timeout, Db] = fx.service(Db).timeout(3)
fiber = fx.scoped(fx.fork(fx.service(Db)).flat_map(lambda f: f.join()))
forked: Effect[Db, Never, Db] = fiber
st: Stream[Db, Never, Db] = Stream.from_effect(fx.service(Db))
st2: Stream[A, E1, Db] = Stream.make(1, 2).map_effect(lambda n: fx.service(Db).flat_map(lambda d: d.get(n)))
st3: Stream[int, E3, Db] = Stream.make(1).tap(lambda _: fx.service(Db)).concat(Stream.fail(E3()))


def lambda_ret(_: int) -> Effect[Db, Never, Db]:
    return fx.service(Db)


default = fx.service(Db).map(lambda d: d) if bool(key) else fx.service(Db)
ret: Effect[Db, Never, Db] = default

# generic helpers
X = TypeVar("X")
F = TypeVar("F")
N = TypeVar("N")


def logged(effect: EffectOf[X, F, N], name: str) -> Effect[X, F, N | Bus]:
    return fx.service(Bus).flat_map(lambda bus: bus.put(A(1)).or_die()).and_then(effect)


def with_retry(effect: EffectOf[X, F, N]) -> EffectOf[X, F, N]:
    return effect.retry(Schedule.recurs(3))


def orders(f: Callable[[int], EffectOf[X, F, N]], n: int) -> Effect[list[X], F, N]:
    return fx.for_each(range(n), f)


def first_ok(effects: Sequence[EffectOf[X, F, N]], default: X) -> EffectOf[X, Never, N]:
    return effects[0].match(lambda _: default, lambda x: x)


lg: Effect[A, E1, Db | Bus] = logged(fx.service(Db).flat_map(lambda d: d.get(1)), "x")
lg3: Effect[tuple[Db, Bus, str], Never, Db | Bus | Key] = logged(trip, "x")
wr: Effect[tuple[Db, Bus, str], Never, Db | Bus | Key] = with_retry(trip)
od: Effect[list[A], E1, Db] = orders(lambda n: fx.service(Db).flat_map(lambda d: d.get(n)), 3)
fo = first_ok([fx.service(Key), fx.service(Key)], "x")
fok: Effect[str, Never, Key] = fo


def cached(f: Callable[[int], Effect[X, F, N]]) -> Callable[[int], Effect[X, F, N]]:
    seen: dict[int, X] = {}

    def go(n: int) -> Effect[X, F, N]:
        if n in seen:
            return fx.succeed(seen[n])
        return f(n)

    return go


def get_a(n: int) -> Effect[A, E1, Db]:
    return fx.service(Db).flat_map(lambda d: d.get(n))


cg: Effect[A, E1, Db] = cached(get_a)(1)


# acquire etc
@asynccontextmanager
async def opened() -> AsyncGenerator[MyDb]:
    yield MyDb()


db_cm = Layer.scoped(Db, fx.acquire_cm(opened))
o = fx.run(shorts.call("short", {}).provide(db_cm | bus))


async def main() -> None:
    found = await get_a(1).provide(db)
    print(found.a)
    res: Result[A, E1] = await fx.run_async(get_a(1).provide(db).result())
    match res:
        case Success(value):
            print(value)
        case Failure(error):
            print(error)
        case _:
            pass
    async with Stream.make(1, 2).iterate() as items:
        async for item in items:
            print(item + 1)


asyncio.run(main())

m: Layer[Db | Bus] = Layer.merge_all(db, bus).layer
m2: Layer[Db | Bus | Key] = Layer.merge_all(db, bus) | key
m3: Layer[Db | Bus | Key] = key | Layer.merge_all(db, bus)


def takes_layer(layer: Layer[Db | Bus]) -> None:
    print(layer)


takes_layer(Layer.merge_all(db, bus).layer)
takes_layer(db | bus | key)
some_layer = Layer.merge_all(db, bus).layer if bool(m) else db | bus
o = fx.run(shorts.call("short", {}).provide(some_layer))
o = fx.run(shorts.call("short", {}).provide(Layer.merge_all(db, bus).or_die()))
