"""Aspects that do not fit their tool, and composites whose handlers are missing."""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects import Effect, EffectOf, Gen, Schedule, fx
from fxai.tools import Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return, cache, rate_limit, retry, timeout
from tests.typing.world import LOG, Db


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


class Query(msgspec.Struct, frozen=True):
    text: str


class Overflow(msgspec.Struct, frozen=True):
    limit: int


add = Tool.make("add", parameters=Pair, success=int, failure=Overflow)
sub = Tool.make("sub", parameters=Pair, success=int)


def on_add(p: Pair) -> Result[int, Overflow]:
    return Success(p.a + p.b)


def on_sub(p: Pair) -> Result[int, Never]:
    return Success(p.a - p.b)


# --- hooks that do not fit
def of_other_parameters(call: Invocation[Query]) -> None: ...


def other_answer(call: Invocation[Pair]) -> Return[str] | None:
    return Return("x")


def bare_answer(call: Invocation[Pair]) -> int:
    return 5


def other_result(call: Invocation[Pair], result: str) -> None: ...


def other_failure(call: Invocation[Pair], error: Overflow) -> Result[Return[int] | None, str]:
    return Failure("no")


def undeclared(call: Invocation[Pair], result: int) -> Effect[Return[int], Overflow]:
    return fx.fail(Overflow(1))


def bare_format(call: Invocation[Pair], result: Result[int, Overflow]) -> int:
    return 5


def needs_db(call: Invocation[Pair]) -> Gen[None, Never, Db]:
    yield from Db


def shouted(call: Invocation[Pair], proceed: EffectOf[int, Overflow, None]) -> Effect[str, Overflow]:
    return proceed.map(str)


Aspect.make(tool=add, before=of_other_parameters)  # wrong: parameters
Aspect.make(tool=add, before=other_answer)  # wrong: an answer of another type
Aspect.make(tool=add, before=bare_answer)  # wrong: a bare value
Aspect.make(tool=add, before=lambda call: Return("x"))  # wrong: an answer of another type
Aspect.make(tool=add, before=lambda call: call.params.c)  # wrong: unknown parameter
Aspect.make(tool=add, after=other_result)  # wrong: the result is a number
Aspect.make(tool=add, recover=other_failure)  # wrong: a failure that the tool does not declare
Aspect.make(tool=sub, after=undeclared)  # wrong: a failure where none is declared
Aspect.make(tool=add, format=bare_format)  # wrong: a bare value
Aspect.make(tool=add, during=other_answer)  # wrong: unknown hook
Aspect.around(shouted, tool=add)  # wrong: success
Aspect.around(on_add, tool=add)  # wrong: a handler is not an aspect

# --- what is missing
guarded = Aspect.make(tool=add, before=needs_db).wrap(add.handler(on_add))
called = add.call(Pair(1, 2)).provide(guarded)
fx.run(called)  # wrong: Db, which the hook needs
fx.run(called.provide(LOG))  # wrong: another service

# --- ready-made ones
timeout(1, tool=add, failure=lambda call: "late")  # wrong: a failure that the tool does not declare
timeout(1, failure=lambda call: Overflow(1))  # wrong: of which tool?
rate_limit(1, per=1, tool=sub, failure=lambda call, seconds: Overflow(1))  # wrong: no failure is declared
retry(Schedule.recurs(1).while_input(lambda error: error.limit > 1))  # wrong: nobody knows the failures of all tools
cache("add")  # wrong: unknown argument

# --- composites
kit = Toolkit.make(add, sub)
math = kit.as_tool("math")
outer = Toolkit.make(math.tool)
program = outer.call("math", {"calls": []})
fx.run(program.provide(math.layer))  # wrong: no handlers of the sub-tools
half = math.layer.provide(add.handler(on_add))
fx.run(program.provide(half))  # wrong: the handler of sub is missing
outer.to_layer(add.handler(on_add))  # wrong: the handler of a sub-tool is not that of the composite
math.tool.call({"calls": []})  # wrong: typed calls take values
kit.as_tool("math", concurency=2)  # wrong: no such option
