"""Programs of generators, scopes, containers, tools from functions and agents in agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Literal, Never, assert_never

import msgspec
from pydantic import BaseModel
from returns.future import future_safe
from returns.io import impure_safe
from returns.result import Failure, Result, Success, safe

from fxai import (
    Agent,
    AiError,
    Answer,
    BoundToolkit,
    BudgetExceeded,
    CallContext,
    Chat,
    Effect,
    Example,
    Gen,
    InvalidParameters,
    LanguageModel,
    Layer,
    Memory,
    Outcome,
    RunError,
    Scope,
    Service,
    Stream,
    Tool,
    ToolError,
    UnknownTool,
    fx,
    runtime,
    tool,
)
from fxai.effects import Succeeded
from fxai.models import ChatStoreError
from fxai.testing import ScriptedModel, text


class A(msgspec.Struct, frozen=True):
    a: int


class Gone(msgspec.Struct, frozen=True, tag=True):
    why: str


class Late(msgspec.Struct, frozen=True, tag=True):
    by: float


class Db(Service):
    @abstractmethod
    def get(self, n: int) -> Effect[A, Gone]: ...


class Cache(Service):
    @abstractmethod
    def look(self, n: int) -> A | None: ...


class Rate(Service):
    def __init__(self, limit: int) -> None:
        self.limit = limit


class MyDb(Db):
    def get(self, n: int) -> Effect[A, Gone]:
        return fx.succeed(A(n))


class MyCache(Cache):
    def look(self, n: int) -> A | None:
        return None


db = Layer.succeed(Db, MyDb())
cache = Layer.sync(Cache, MyCache)
rate = Layer.sync(Rate, lambda: Rate(3))
model = ScriptedModel.make([text("x")]).layer


# functions returning many forms
@safe
def parse(s: str) -> int:
    return int(s)


@future_safe
async def fetch(s: str) -> int:
    return int(s)


@impure_safe
def read(s: str) -> int:
    return int(s)


lifted: Effect[int, Exception] = fx.lift(parse("3"))
lifted2: Effect[int, Exception] = fx.lift(fetch("3"))
lifted3: Effect[int, Exception] = fx.lift(read("3"))

num = Tool.make("num", parameters=str, success=int, failure=Exception)
n1 = num.handler(parse)
n2 = num.handler(fetch)
n3 = num.handler(read)


@fx.gen
def cached_get(n: int) -> Gen[A, Gone, Db | Cache]:
    cache = yield from Cache
    hit = cache.look(n)
    if hit is not None:
        return hit
    db = yield from Db
    return (yield from db.get(n))


@fx.gen
def loop(ns: Sequence[int]) -> Gen[dict[int, A], Gone | Late, Db | Cache | Rate]:
    rate = yield from Rate
    out: dict[int, A] = {}
    for n in ns:
        if n > rate.limit:
            yield from fx.fail(Late(1.0))
        try:
            out[n] = yield from cached_get(n)
        finally:
            print(n)
    both = yield from fx.all_(cached_get(1), cached_get(2))
    out[0] = both[0]
    res = yield from cached_get(3).result()
    match res:
        case Success(a):
            out[3] = a
        case Failure(e):
            print(e.why)
        case _:
            pass
    first = yield from fx.race(cached_get(1), fx.sleep(1).as_(None))
    if first is not None:
        out[9] = first
    got = yield from fx.some(out.get(1), Gone("x"))
    out[4] = got
    some = yield from fx.maybe(cached_get(4))
    print(some.value_or(None))
    return out


prog: Effect[dict[int, A], Gone | Late, Db | Cache | Rate] = loop([1, 2])
caught: Effect[dict[int, A], Late, Db | Cache | Rate] = prog.catch_all(
    lambda e: fx.succeed(dict[int, A]()) if isinstance(e, Gone) else fx.fail(e)
)


def handle(e: Gone | Late) -> Effect[dict[int, A]]:
    match e:
        case Gone(why):
            print(why)
            return fx.succeed({})
        case Late(by):
            print(by)
            return fx.succeed({})
        case _:
            assert_never(e)


total: Effect[dict[int, A], Never, Db | Cache | Rate] = prog.catch_all(handle)
mapped: Effect[dict[int, A], str, Db | Cache | Rate] = prog.map_error(
    lambda e: e.why if isinstance(e, Gone) else "late"
)
result = fx.run_result(prog.provide(db | cache | rate))
ex = fx.run_exit(prog.provide(db | cache | rate))
if isinstance(ex, Succeeded):
    print(ex.value[1].a)
else:
    print(ex.cause)

layers = [db, Layer.succeed(Db, MyDb())]
found = A(0)
for layer in layers:
    found = fx.run(cached_get(1).provide(layer | cache))
chosen = db if found.a else Layer.effect(Db, fx.fail(Late(1)).as_(MyDb()))
res2 = fx.run_result(cached_get(1).provide(chosen).provide(cache))
by_name = {"live": db, "test": db}
found = fx.run(cached_get(1).provide(by_name["live"]).provide(cache))
everything: Layer[Db | Cache | Rate] = reduce(lambda a, b: a | b, [db | cache | rate])
wrapped: Layer[Db | Cache | Rate] = db | cache | rate


def live(test: bool) -> Layer[Db | Cache | Rate]:
    storage = db | cache
    if test:
        return rate | storage
    return Layer.merge_all(storage, rate).layer


class App:
    def __init__(self, layer: Layer[Db | Cache]) -> None:
        self._layer = layer

    def get(self, n: int) -> A:
        return fx.run(cached_get(n).provide(self._layer))

    async def aget(self, n: int) -> A:
        return await cached_get(n).provide(self._layer)

    def run(self, effect: Effect[A, Gone, Db | Cache]) -> A:
        return fx.run(effect.provide(self._layer))


app = App(db | cache)
app2 = App(db | cache | rate)
app3 = App(Layer.merge_all(db, cache).layer)
found = app.run(cached_get(1))
found = app.run(fx.succeed(A(1)))
found = app.run(fx.service(Db).flat_map(lambda d: d.get(1)))


# tools with context, defaults, pydantic
class Model(BaseModel):
    a: int


pyd = Tool.make("pyd", parameters=Model, success=Model)
p1 = pyd.handler(lambda m: Success(Model(a=m.a)))


@tool
def pick_one(choice: Literal["a", "b"], count: int = 1, *, loud: bool = False) -> list[str]:
    """Doc.

    Args:
        choice: which.
        count: how many.
        loud: whether.
    """
    return [choice] * count


xs: list[str] = pick_one("a", loud=True)
o: Outcome = fx.run(BoundToolkit.make(pick_one).call("pick_one", {"choice": "a"}))


@tool
def progress(n: int, context: CallContext) -> Gen[int, Gone, Db]:
    """Doc."""
    yield from context.preliminary(1)
    db = yield from Db
    a = yield from db.get(n)
    return a.a


@tool(needs_approval=lambda params, context: True, failure_mode="return")
def danger(n: int) -> Result[str, Gone | Late]:
    """Doc."""
    return Failure(Late(1.0)) if n else Success("x")


approve = Tool.make("approve", parameters=A, success=str, needs_approval=lambda a, call: a.a > 3)
approve2 = Tool.make("approve", parameters=A, success=str, needs_approval=lambda a, call: fx.succeed(a.a > 3))
ex1 = Tool.make("ex", parameters=A, input_examples=[{"a": 1}, Example("one", {"a": 1})])
tmo = Tool.make("tmo", success=A, to_model_output=lambda a: {"n": a.a})
kit = BoundToolkit.make(pick_one, progress, danger)
with_layer = kit.call("progress", {"n": 1}).provide(db)
o = fx.run(with_layer)
streamed: Stream[Outcome, ToolError, Db] = kit.toolkit.handle("progress", {"n": 1}).provide(kit.layer)
outs = fx.run(streamed.provide(db).collect())

for outcome in outs:
    if outcome.is_failure:
        print(outcome.result)
    match outcome.result:
        case InvalidParameters():
            print("invalid")
        case UnknownTool():
            print("unknown")
        case int(n):
            print(n)
        case _:
            pass


# agents and chats
@fx.gen
def conversation() -> Gen[str, AiError | ToolError | ChatStoreError, LanguageModel | Db]:
    chat = yield from Chat.from_prompt()
    response = yield from chat.generate_text("x", toolkit=kit.toolkit).provide(kit.layer)
    return response.text


@fx.gen
def run_agent(agent: Agent[Never, str, RunError, LanguageModel | None]) -> Gen[str, RunError, LanguageModel]:
    answer = yield from agent.execute("x")
    return answer.text


agent = Agent.make("a")
txt: str = fx.run(run_agent(agent).provide(model))
agents = [Agent.make("a"), Agent.make("b")]
answers: Effect[list[Answer], RunError, LanguageModel] = fx.for_each(agents, lambda a: a.execute("x"), concurrency=None)
sub = Agent.make("sub", toolkit=kit).as_tool("ask")
boss = Agent.make("boss").with_tools(sub, pick_one)
boss_answer: Effect[Answer, RunError, LanguageModel | Db] = boss.execute("x")
mem = Agent.make("mem").with_memory(Memory.in_process())
mem_answer = fx.run_result(mem.execute("x").provide(model))
typed = Agent.make("typed", output=list[A])
lst: list[A] = fx.run(typed.execute("x").provide(model)).output


def ask(agent: Agent[Never, A, RunError, LanguageModel | None], q: str) -> Effect[A, RunError, LanguageModel]:
    return agent.execute(q).map(lambda answer: answer.output)


aa: Effect[A, RunError, LanguageModel] = ask(Agent.make("t", output=A), "x")


def failed(e: RunError) -> str:
    match e:
        case BudgetExceeded():
            return "budget"
        case AiError():
            return e.message if hasattr(e, "message") else "ai"
        case _:
            return "tool"


# a scope
@fx.gen
def use() -> Gen[int, Gone, Db]:
    @fx.gen
    def inner() -> Gen[int, Gone, Db | Scope]:
        db = yield from fx.acquire_release(fx.service(Db), lambda _: fx.succeed(None))
        fiber = yield from fx.fork(db.get(1))
        a = yield from fiber.join()
        yield from fx.add_finalizer(lambda _: fx.sync(lambda: print("bye")))
        return a.a

    return (yield from fx.scoped(inner()))


us: Effect[int, Gone, Db] = use()


async def host() -> A:
    async with runtime(db | cache) as running:
        return await running.run(cached_get(1))


def fold(xs: Stream[int, Gone, Db]) -> Effect[int, Gone, Db]:
    return xs.fold(0, lambda a, b: a + b)


s: Stream[str, Gone, Db | Cache] = Stream.make(1, 2).map_effect(cached_get).map(lambda a: str(a.a)).filter(bool)
z: Stream[tuple[int, str], Gone, Db | Cache] = Stream.make(1).zip(s)
m: Stream[int | str, Gone, Db | Cache] = Stream.make(1).merge(s)
e: Stream[int, Never, None] = Stream.empty()
ss: list[Stream[int]] = [Stream.make(1), Stream.empty()]
