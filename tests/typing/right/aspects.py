"""What the checkers infer of aspects: an aspect for one tool sees its types, and what it needs joins the layer's."""

from __future__ import annotations

from typing import Any, Never, assert_type

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects import Effect, EffectOf, Gen, LayerOf, fx
from fxai.tools import HandlerOf, Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.typing.world import DB, LOG, Db, DbFault, Log


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


class Overflow(msgspec.Struct, frozen=True):
    limit: int


add = Tool.make("add", parameters=Pair, success=int, failure=Overflow)
sub = Tool.make("sub", parameters=Pair, success=int)
kit = Toolkit.make(add, sub)


def on_add(p: Pair) -> Result[int, Overflow]:
    return Success(p.a + p.b) if p.a < 9 else Failure(Overflow(9))


def on_sub(p: Pair) -> Effect[int, Never, Db]:
    return fx.service(Db).as_(p.a - p.b)


# --- hooks of one tool: lambdas know its types
plain = Aspect.make(
    tool=add,
    before=lambda call: Return(0) if call.params.a == 0 else None,
    after=lambda call, result: Return(result + call.params.b),
    recover=lambda call, error: Return(error.limit),
    format=lambda call, result: result.map(lambda n: n * 2),
)
assert_type(plain, Aspect[None])


async def awaited(call: Invocation[Pair]) -> Return[int] | None:
    return Return(call.params.a) if call.call_id else None


def failing(call: Invocation[Pair], error: Overflow) -> Result[Return[int] | None, Overflow]:
    return Failure(Overflow(error.limit + call.params.a))


def logged(call: Invocation[Pair], result: int) -> Gen[None, Never, Log]:
    yield from Log


def stored(call: Invocation[Pair]) -> Effect[Return[int] | None, Overflow, Db]:
    return fx.service(Db).as_(None)


assert_type(Aspect.make(tool=add, before=awaited, recover=failing), Aspect[None])
assert_type(Aspect.make(tool=add, before=stored), Aspect[Db | None])
assert_type(Aspect.make(tool=add, after=logged), Aspect[Log | None])


# --- around: the handler as an effect
def twice(call: Invocation[Pair], proceed: EffectOf[int, Overflow, None]) -> Effect[int, Overflow, Log]:
    return fx.service(Log).and_then(proceed).and_then(proceed)


assert_type(Aspect.around(twice, tool=add), Aspect[Log | None])


# --- for all tools
def silent(call: Invocation, result: Any) -> None:
    call.tool.annotations.get


def asked(call: Invocation) -> Gen[None, Never, Db]:
    yield from Db


everywhere = Aspect.make(after=silent)
assert_type(everywhere, Aspect[None])
assert_type(Aspect.make(before=asked), Aspect[Db | None])
assert_type(Aspect.around(lambda call, proceed: proceed), Aspect[None])

# --- composition and use
both = Aspect.make(before=asked).and_then(Aspect.make(tool=add, after=logged))
assert_type(both, Aspect[Db | Log | None])
assert_type(plain.wrap(add.handler(on_add)), LayerOf[HandlerOf[Pair, int, Overflow], Never, None])
assert_type(both.wrap(add.handler(on_add)), LayerOf[HandlerOf[Pair, int, Overflow], Never, Db | Log | None])
handlers = everywhere.wrap(kit.to_layer(plain.wrap(add.handler(on_add)) | sub.handler(on_sub)))
assert_type(handlers, LayerOf[HandlerOf[Pair, int, Overflow] | HandlerOf[Pair, int, Never], Never, Db | None])
fx.run(kit.call("add", {}).provide(handlers).provide(DB))
fx.run(add.call(Pair(1, 2)).provide(both.wrap(add.handler(on_add))).provide(DB | LOG))
assert_type(Failure(DbFault()).failure(), DbFault)
