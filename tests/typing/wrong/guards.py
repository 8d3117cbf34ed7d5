"""Guards that do not fit their tool, and services of hooks that are missing."""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Result, Success

from fxai import LanguageModel, Tool, fx
from fxai.effects import Effect, Gen
from fxai.guards import Guard, Refuse
from fxai.messages import Prompt, Response
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel
from fxai.tools.aspects import Invocation, Return
from tests.typing.world import DB, LOG, Db, Log


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


add = Tool.make("add", parameters=Pair, success=int)
handlers = add.handler(lambda p: Success(p.a + p.b))
model = ScriptedModel.make([]).layer


def needs_db(request: ModelRequest) -> Effect[Refuse | None, Never, Db]:
    return fx.service(Db).as_(None)


def needs_log(call: Invocation) -> Gen[None, Never, Log]:
    yield from Log


def other_value(request: ModelRequest) -> Return[Prompt]:
    return Return(request.prompt)


def bare(request: ModelRequest, turn: Response) -> bool:
    return True


def other_parameters(call: Invocation[str]) -> None: ...


def other_arguments(call: Invocation[Pair]) -> Return[int]:
    return Return(call.params.a)


def bare_result(call: Invocation[Pair], result: Result[int, Never]) -> Return[int]:
    return Return(5)


Guard.make("g", before_model=other_value)  # wrong: a prompt is not a request
Guard.make("g", after_model=bare)  # wrong: a bare value
Guard.make("g", tool=add, before_tool=other_parameters)  # wrong: parameters
Guard.make("g", tool=add, before_tool=other_arguments)  # wrong: arguments of another type
Guard.make("g", tool=add, after_tool=bare_result)  # wrong: a result is a Success or a Failure
Guard.make("g", tool=add, before_model=needs_db)  # wrong: a model has no tool
Guard.make("g", before_model=lambda _: None, streaming="late")  # wrong: unknown mode
Guard.make(before_model=needs_db)  # wrong: no name

asked = LanguageModel.generate_text("Hi").provide(Guard.make("g", before_model=needs_db).wrap(model))
fx.run(asked)  # wrong: Db, which the hook needs
fx.run(asked.provide(LOG))  # wrong: another service
called = add.call(Pair(1, 2)).provide(Guard.make("g", before_tool=needs_log).wrap(handlers))
fx.run(called)  # wrong: Log, which the hook needs
fx.run(called.provide(DB))  # wrong: another service
