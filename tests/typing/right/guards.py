"""Guards with the services of their hooks, for a tool and for all tools."""

from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai import LanguageModel, Tool, Toolkit, fx
from fxai.effects import Effect, Gen, LayerOf
from fxai.guards import Guard, Refuse, rewrite_text
from fxai.messages import AiError, Response
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel
from fxai.tools import HandlerOf, ToolError
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.typing.world import DB, Db, Log


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


add = Tool.make("add", parameters=Pair, success=int)
kit = Toolkit.make(add)
handlers = add.handler(lambda p: Success(p.a + p.b))
model = ScriptedModel.make([]).layer


def ordinary(request: ModelRequest) -> Refuse | None:
    return Refuse("no") if len(request.prompt) > 9 else None


def rewriting(request: ModelRequest, turn: Response) -> Return[Response]:
    return Return(rewrite_text(turn, str.upper))


def judged(request: ModelRequest) -> Effect[Refuse | None, AiError | ToolError, LanguageModel]:
    return LanguageModel.generate_text("evil?").map(lambda answer: Refuse("no") if answer.text == "yes" else None)


def logged(call: Invocation[Pair]) -> Gen[Return[Pair] | None, Never, Log]:
    yield from Log
    return Return(Pair(call.params.b, call.params.a))


async def waited(call: Invocation[Pair], result: Result[int, Never]) -> Refuse | None:
    return Refuse(str(result.map(lambda n: n + call.params.a)))


def stored(call: Invocation) -> Effect[None, Never, Db]:
    return fx.service(Db).as_(None)


assert_type(Guard.make("g", before_model=ordinary, after_model=rewriting, streaming="hold"), Guard[None])
assert_type(Guard.make("g", before_model=judged), Guard[LanguageModel | None])
assert_type(Guard.make("g", tool=add, before_tool=logged, after_tool=waited), Guard[Log | None])
assert_type(Guard.make("g", tool=add, before_tool=lambda call: Refuse(str(call.params.a))), Guard[None])
assert_type(Guard.make("g", before_tool=stored), Guard[Db | None])
assert_type(Guard.make("g", before_tool=stored).aspect, Aspect[Db | None])

both = Guard.make("g", before_model=judged).and_then(Guard.make("g", before_tool=stored))
assert_type(both, Guard[LanguageModel | Db | None])
guarded = both.wrap(model.merge(handlers))
assert_type(guarded, LayerOf[LanguageModel | HandlerOf[Pair, int, Never], Never, LanguageModel | Db | None])
fx.run(LanguageModel.generate_text("Hi", toolkit=kit).provide(guarded).provide(model).provide(DB))
