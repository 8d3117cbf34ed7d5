"""What the checkers infer of tools, handlers and toolkits."""

from __future__ import annotations

from typing import Any, Never, assert_type

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult, IOSuccess
from returns.result import Failure, Result, Success

from fxai.annotations import Readonly, Strict, Title
from fxai.effects import Context, Effect, EffectOf, Gen, Layer, LayerOf, Stream, fx
from fxai.tools import (
    CallContext,
    ExternalTool,
    HandlerFailed,
    HandlerOf,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    Outcome,
    OutcomeUnknown,
    Refused,
    Tool,
    ToolError,
    Toolkit,
    UnknownTool,
)
from tests.typing.world import DB, LOG, Db, DbFault, Log


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


class Query(msgspec.Struct, frozen=True):
    text: str


class Overflow(msgspec.Struct, frozen=True):
    limit: int


add = Tool.make("add", parameters=Pair, success=int, failure=Overflow)
sub = Tool.make("sub", parameters=Pair, success=int)
search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault, failure_mode="return")
note = Tool.make("note", parameters=Query)
assert_type(add, Tool[Pair, int, Overflow])
assert_type(sub, Tool[Pair, int, Never])
assert_type(note, Tool[Query, None, Never])

# --- combinators keep the kind and the types
assert_type(add.annotate(Readonly, True), Tool[Pair, int, Overflow])
assert_type(add.annotate(Title, "Add").get(Strict), bool | None)
assert_type(add.get(Title), str | None)
assert_type(add.get(Readonly), bool)

# --- a tool known only at run time gets what JSON can carry
raw = Tool.dynamic("raw", parameters={"type": "object"})
typed = Tool.dynamic("typed", parameters=Query, success=int)
assert_type(typed, Tool[Query, int, Never])


# --- handlers, of every return form
def by_result(p: Pair) -> Result[int, Overflow]:
    return Success(p.a + p.b) if p.a < 9 else Failure(Overflow(9))


def by_io(p: Pair) -> IOResult[int, Overflow]:
    return IOSuccess(p.a + p.b)


async def by_awaiting(p: Pair) -> Result[int, Overflow]:
    return Success(p.a + p.b)


def by_future(p: Pair) -> FutureResult[int, Overflow]:
    return FutureResult.from_value(p.a + p.b)


def by_effect(p: Pair) -> Effect[int, Overflow, Log]:
    return fx.service(Log).as_(p.a + p.b)


def by_generator(p: Query) -> Gen[list[str], DbFault, Db | Log]:
    db = yield from Db
    yield from Log
    return (yield from db.query(p.text))


def by_stream(p: Pair) -> Stream[int, Overflow, Db]:
    return Stream.from_effect(fx.service(Db).as_(p.a)).concat(Stream.make(p.b))


def by_reader(p: Query) -> RequiresContextFutureResult[list[str], DbFault, Context[Db]]:
    return RequiresContextFutureResult.from_value([p.text])


def with_context(p: Pair, context: CallContext) -> Gen[int, Never, Db]:
    yield from context.preliminary(p.a)
    yield from Db
    return p.b


assert_type(add.handler(by_result), LayerOf[HandlerOf[Pair, int, Overflow], Never, None])
assert_type(add.handler(by_io), LayerOf[HandlerOf[Pair, int, Overflow], Never, None])
assert_type(add.handler(by_awaiting), LayerOf[HandlerOf[Pair, int, Overflow], Never, None])
assert_type(add.handler(by_future), LayerOf[HandlerOf[Pair, int, Overflow], Never, None])
assert_type(add.handler(by_effect), LayerOf[HandlerOf[Pair, int, Overflow], Never, Log | None])
assert_type(add.handler(by_stream), LayerOf[HandlerOf[Pair, int, Overflow], Never, Db | None])
assert_type(search.handler(by_generator), LayerOf[HandlerOf[Query, list[str], DbFault], Never, Db | Log | None])
assert_type(search.handler(by_reader), LayerOf[HandlerOf[Query, list[str], DbFault], Never, Db | None])
assert_type(sub.handler(with_context), LayerOf[HandlerOf[Pair, int, Never], Never, Db | None])
add.handler(lambda p: Success(p.a))
sub.handler(lambda p: fx.succeed(p.a))

# --- toolkits: the union of what their tools need
ADD = HandlerOf[Pair, int, Overflow]
SUB = HandlerOf[Pair, int, Never]
SEARCH = HandlerOf[Query, list[str], DbFault]
kit = Toolkit.make(add, sub, search)
assert_type(
    kit, Toolkit[HandlerOf[Pair, int, Overflow] | HandlerOf[Pair, int, Never] | HandlerOf[Query, list[str], DbFault]]
)
assert_type(
    Toolkit.make(add, sub).merge(Toolkit.make(search)),
    Toolkit[HandlerOf[Pair, int, Overflow] | HandlerOf[Pair, int, Never] | HandlerOf[Query, list[str], DbFault]],
)

on_add, on_sub, on_search = add.handler(by_result), sub.handler(with_context), search.handler(by_generator)
live = kit.to_layer(on_add | on_sub | on_search)
assert_type(
    live,
    LayerOf[
        HandlerOf[Pair, int, Overflow] | HandlerOf[Pair, int, Never] | HandlerOf[Query, list[str], DbFault],
        Never,
        Db | Log | None,
    ],
)

# --- calls
called = kit.call("add", {"a": 1, "b": 2})
assert_type(called.provide(live), EffectOf[Outcome, ToolError, Db | Log | None])
assert_type(called.provide(live).provide(DB).provide(LOG), EffectOf[Outcome, ToolError, None])
assert_type(called.provide(live.provide(DB | LOG)), EffectOf[Outcome, ToolError, None])
assert_type(
    called.provide(on_add),
    EffectOf[Outcome, ToolError, HandlerOf[Pair, int, Never] | HandlerOf[Query, list[str], DbFault] | None],
)
fx.run(called.provide(on_add).provide(on_sub).provide(on_search).provide(DB | LOG))
fx.run(kit.handle("add", {}).collect().provide(live).provide(DB | LOG))
fx.run(kit.call_json("add", "{}").provide(live.provide(DB | LOG)))
assert_type(add.call(Pair(1, 2)).provide(on_add), EffectOf[int, Overflow, None])
assert_type(sub.call(Pair(1, 2)).provide(on_sub), EffectOf[int, Never, Db | None])


# --- a tool that no handler of ours answers needs none
outside = add.external()
assert_type(outside, ExternalTool[Pair, int, Overflow])
assert_type(Toolkit.make(outside, sub), Toolkit[HandlerOf[Pair, int, Never]])
half = Toolkit.make(outside, sub).to_layer(on_sub)
fx.run(Toolkit.make(outside, sub).call("sub", {"a": 1, "b": 2}).provide(half).provide(DB))

# --- many tools, and tools whose number is known at run time only
more = Toolkit.make(add, sub, search, note, typed)
assert_type(
    more,
    Toolkit[
        HandlerOf[Pair, int, Overflow]
        | HandlerOf[Pair, int, Never]
        | HandlerOf[Query, list[str], DbFault]
        | HandlerOf[Query, None, Never]
        | HandlerOf[Query, int, Never]
    ],
)
same = Toolkit.of([sub, sub.rename("minus")])
assert_type(same, Toolkit[HandlerOf[Pair, int, Never]])
assert_type(same.prefix("math.").filter(Tool.is_user_defined).omit("math.minus"), Toolkit[HandlerOf[Pair, int, Never]])
assert_type(Toolkit.empty(), Toolkit[Never])


def declared() -> Layer[HandlerOf[Pair, int, Overflow] | HandlerOf[Pair, int, Never], Never, Db]:
    return Toolkit.make(add, sub).to_layer(on_add | on_sub)


def whole() -> Effect[Outcome, ToolError]:
    return kit.call("sub", {"a": 1, "b": 2}).provide(live).provide(DB | LOG)


def anything(tool: Tool[Any, Any, Any]) -> str:
    return tool.name


# --- what a call fails with: one class, whose members a match may list
def explained(error: ToolError) -> str:
    match error.exact:
        case UnknownTool(known=known):
            return ", ".join(known)
        case InvalidParameters(faults=faults) | InvalidResult(faults=faults):
            return str(len(faults))
        case HandlerFailed():
            return str(error.history)
        case HandlerUnavailable(reason=reason) | OutcomeUnknown(reason=reason) | Refused(reason=reason):
            return reason


excused = called.provide(live).catch_all(lambda error: fx.succeed(None if isinstance(error, UnknownTool) else error))
assert_type(excused, EffectOf[Outcome | ToolError | None, Never, Db | Log | None])
