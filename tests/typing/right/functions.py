"""What the checkers infer of tools from functions, of their toolkits, and of sources."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Never, assert_type

from returns.future import FutureResult
from returns.io import IOResult, IOSuccess
from returns.result import Failure, Result, Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.annotations import Readonly
from fxai.effects import Effect, EffectOf, Gen, LayerOf, Scope, Stream, StreamOf, fx
from fxai.schema import Empty
from fxai.tools import CallContext, HandlerOf, MethodsOf, Outcome, Tool, ToolError, Toolkit
from tests.typing.world import DB, LOG, CfgFault, Db, DbFault, Log


# --- the function stays callable as it is; the tool has its success, and a declared failure
@tool
def add(a: int, b: int = 1) -> int:
    return a + b


@tool(failure_mode="return", name="halve")
def half(n: int, *, up: bool = False) -> Result[int, str]:
    return Success(n // 2) if n % 2 == 0 or up else Failure("odd")


@tool
async def later(text: str) -> str:
    return text


@tool
async def later_result(text: str) -> Result[str, DbFault]:
    return Success(text)


@tool
def generated(sql: str) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(sql))


@tool
@fx.gen
def made_effect(sql: str) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(sql))


@tool
def with_context(text: str, context: CallContext) -> Effect[None, Never, Log]:
    return fx.service(Log).as_(None)


@tool
def streamed(n: int) -> Stream[int, str]:
    return Stream.make(n)


@tool
def by_future(n: float) -> FutureResult[float, str]:
    return FutureResult.from_value(n)


@tool
def by_io(n: float) -> IOResult[str, str]:
    return IOSuccess(str(n))


@tool
def nothing() -> None: ...


@tool
def loose(given: dict[str, Any]) -> dict[str, Any]:
    return given


assert_type(add(1, b=2), int)
assert_type(add(2), int)
assert_type(half(3, up=True), Result[int, str])
assert_type(made_effect("x"), EffectOf[list[str], DbFault, Db | None])
assert_type(add.name, str)
assert_type(nothing(), None)


async def awaits() -> str:
    waiting: Coroutine[object, object, str] = later("x")
    return await waiting


def delegates() -> Gen[list[str], DbFault, Db]:
    return (yield from generated("x"))


# --- their layers need what the functions need
fx.run(made_effect.tool.call(made_effect.arguments("x")).provide(made_effect.layer).provide(DB))
fx.run(generated.tool.call(generated.arguments("x")).provide(generated.layer).provide(DB))
assert_type(fx.run(add.tool.call(add.arguments(1)).provide(add.layer)), int)
assert_type(fx.run_result(half.tool.call(half.arguments(1)).provide(half.layer)), Result[int, str])
awaited = later_result.tool.call(later_result.arguments(""))
assert_type(awaited.provide(later_result.layer), EffectOf[str, DbFault, None])

assert_type(by_future.tool.call(by_future.arguments(1)).provide(by_future.layer), EffectOf[float, str, None])
assert_type(by_io.tool.call(by_io.arguments(1)).provide(by_io.layer), EffectOf[str, str, None])

# --- combinators keep what it is
assert_type(add.annotate(Readonly, True).rename("plus").with_options(failure_mode="return")(1, 2), int)
assert_type(Tool.from_function(len, name="length", success=int)([]), int)


# --- a toolkit of them demands each handler
kit = Toolkit.make(add.tool, half.tool, generated.tool, with_context.tool)
live = kit.to_layer(add.layer | half.layer | generated.layer | with_context.layer)
called = kit.call("add", {"a": 1})
fx.run(called.provide(live).provide(DB | LOG))
fx.run(called.provide(add.layer).provide(half.layer | generated.layer).provide(with_context.layer).provide(DB | LOG))
assert_type(called.provide(live), EffectOf[Outcome, ToolError, Db | Log | None])
fx.run(
    Toolkit.make(later.tool, nothing.tool, streamed.tool)
    .call("x", {})
    .provide(later.layer | nothing.layer | streamed.layer)
)


# --- methods: bound when they are taken from an object
class Counter:
    @tool
    def count(self, by: int) -> int:
        return by

    @tool
    def read(self, sql: str) -> Effect[list[str], DbFault, Db]:
        return fx.service(Db).flat_map(lambda db: db.query(sql))


counter = Counter()
assert_type(counter.count(2), int)
fx.run(counter.count.tool.call(counter.count.arguments(2)).provide(counter.count.layer))
fx.run(Toolkit.make(counter.read.tool).call("read", {}).provide(counter.read.layer).provide(DB))

# --- bound toolkits, and the methods of an object
both = BoundToolkit.make(add, generated)
fx.run(both.toolkit.call("add", {"a": 1}).provide(both.layer).provide(DB))
of_object = Toolkit.from_object(counter, name="c", only=["count"])
assert_type(of_object, BoundToolkit[MethodsOf[Counter], Never, None])
assert_type(of_object.layer, LayerOf[MethodsOf[Counter], Never, None])
fx.run(of_object.toolkit.call("c.count", {"by": 1}).provide(of_object.layer))
joined = both.merge(of_object).with_toolkit(lambda kit: kit.omit("add")).prefix("x.")
fx.run(joined.toolkit.call("x.c.count", {"by": 1}).provide(joined.layer).provide(DB))
assert_type(BoundToolkit.make(), BoundToolkit[Never])
one = BoundToolkit.make(add)
same = [one, BoundToolkit.make(add, add), BoundToolkit.make(*[add.rename("a"), add.rename("b")])]
same.append(BoundToolkit.make(add, add, add, add, add, add, add, add))
six = BoundToolkit.make(add, half, loose, nothing, later, streamed)
fx.run(six.toolkit.call("add", {"a": 1}).provide(six.layer))
plain = Tool.make("plain", success=int)
answered = BoundToolkit.of(Toolkit.make(plain), plain.handler(lambda _: Success(1)))
assert_type(answered, BoundToolkit[HandlerOf[Empty, int, Never], Never, None])


# --- sources: opened for one program, what opening needs and fails with joins it
@fx.gen
def opening() -> Gen[BoundToolkit[MethodsOf[Counter], Never, None], CfgFault, Log | Scope]:
    yield from Log
    return Toolkit.from_object(counter)


opened: ToolSource[MethodsOf[Counter], CfgFault, Log | None] = ToolSource(opening())
used = opened.use(lambda kit: kit.call("Counter.count", {"by": 1}))
assert_type(used, EffectOf[Outcome, CfgFault | ToolError, Log | None])
fx.run(used.provide(LOG))
fx.run(ToolSource.of(add).use(lambda kit: kit.call("add", {"a": 1})))
fx.run(ToolSource.of(both).use(lambda kit: kit.call("add", {"a": 1})).provide(DB))
items = opened.use_stream(lambda kit: kit.handle("Counter.count", {"by": 1}))
assert_type(items, StreamOf[Outcome, CfgFault | ToolError, Log | None])
merged = opened.merge(ToolSource.of(generated)).prefix("x.")
fx.run(merged.use(lambda kit: kit.call("x.generated", {"sql": ""})).provide(LOG | DB))


# --- a call by a bound toolkit needs what the functions need, and no handlers
bound_call: EffectOf[Outcome, ToolError, Db | None] = BoundToolkit.make(generated).call("generated", {"sql": "x"})
assert_type(BoundToolkit.make(add).call("add", {"a": 1}), EffectOf[Outcome, ToolError, None])
