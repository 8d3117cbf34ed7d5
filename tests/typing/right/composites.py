"""What the checkers infer of composites: the tool, and a layer that needs the handlers of its sub-tools."""

from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai import Composite
from fxai.effects import Effect, EffectOf, LayerOf, fx
from fxai.tools import HandlerOf, SubCall, SubCalls, SubResults, Tool, Toolkit
from fxai.tools.aspects import Aspect, Return, log
from tests.typing.world import DB, Db


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


add = Tool.make("add", parameters=Pair, success=int, failure=str)
sub = Tool.make("sub", parameters=Pair, success=int)
kit = Toolkit.make(add, sub)


def on_add(p: Pair) -> Result[int, str]:
    return Success(p.a + p.b)


def on_sub(p: Pair) -> Effect[int, Never, Db]:
    return fx.service(Db).as_(p.a - p.b)


math = kit.as_tool("math", concurrency=None, description="Arithmetic.")
assert_type(math, Composite[HandlerOf[Pair, int, str] | HandlerOf[Pair, int, Never]])
assert_type(math.tool, Tool[SubCalls, SubResults, Never])
assert_type(
    math.layer,
    LayerOf[
        HandlerOf[SubCalls, SubResults, Never], Never, HandlerOf[Pair, int, str] | HandlerOf[Pair, int, Never] | None
    ],
)

handlers = kit.to_layer(add.handler(on_add) | sub.handler(on_sub))
served = math.layer.provide(handlers)
assert_type(served, LayerOf[HandlerOf[SubCalls, SubResults, Never], Never, Db | None])

outer = Toolkit.make(math.tool)
assert_type(outer, Toolkit[HandlerOf[SubCalls, SubResults, Never]])
asked = SubCalls((SubCall("add", {"a": 1, "b": 2}),))
assert_type(math.tool.call(asked).provide(served).provide(DB), EffectOf[SubResults, Never, None])
fx.run(outer.call("math", {"calls": []}).provide(outer.to_layer(served)).provide(DB))

# --- aspects of the outer tool
quiet = Aspect.make(tool=math.tool, before=lambda call: None if call.params.calls else Return(SubResults(())))
assert_type(
    log().and_then(quiet).wrap(served.provide(DB)), LayerOf[HandlerOf[SubCalls, SubResults, Never], Never, None]
)
