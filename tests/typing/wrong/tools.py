"""Handlers that do not fit their tools, and toolkits whose handlers are missing."""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Failure, Result, Success

from fxai.annotations import Readonly, Title
from fxai.effects import Effect, Gen, Stream, fx
from fxai.tools import CallContext, Outcome, Tool, ToolError, Toolkit
from tests.typing.world import LOG, Db, DbFault, Log, NetFault


class Pair(msgspec.Struct, frozen=True):
    a: int
    b: int


class Query(msgspec.Struct, frozen=True):
    text: str


class Overflow(msgspec.Struct, frozen=True):
    limit: int


add = Tool.make("add", parameters=Pair, success=int, failure=Overflow)
sub = Tool.make("sub", parameters=Pair, success=int)
search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)


def right_add(p: Pair) -> Result[int, Overflow]:
    return Success(p.a + p.b)


async def right_sub(p: Pair) -> Result[int, Never]:
    return Success(p.a - p.b)


def right_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(p.text))


on_add, on_sub, on_search = add.handler(right_add), sub.handler(right_sub), search.handler(right_search)
kit = Toolkit.make(add, sub, search)
program = kit.call("add", {"a": 1, "b": 2})

# --- what is missing
kit.to_layer(on_add)  # wrong: two handlers are missing
kit.to_layer(on_add | on_sub)  # wrong: the handler of search is missing
Toolkit.make(add, sub).to_layer(on_add | on_search)  # wrong: another tool's handler
fx.run(program)  # wrong: no handlers
two = program.provide(on_add).provide(on_sub)
fx.run(two)  # wrong: the handler of search is missing
unserved = program.provide(kit.to_layer(on_add | on_sub | on_search))
fx.run(unserved)  # wrong: Db, which the handler of search needs
fx.run(unserved.provide(LOG))  # wrong: another service
handled = kit.handle("add", {}).collect()
fx.run(handled)  # wrong: no handlers
alone = add.call(Pair(1, 2))
fx.run(alone)  # wrong: no handler
merged = Toolkit.make(add).merge(Toolkit.make(sub))
merged.to_layer(on_add)  # wrong: a merged toolkit needs the handlers of both


def undeclared() -> Effect[Outcome, ToolError, Log]:
    return unserved  # wrong: Db is not declared


# --- handlers that do not fit
def other_parameters(p: Query) -> Result[int, Overflow]:
    return Success(1)


def other_success(p: Pair) -> Result[str, Overflow]:
    return Success("")


def other_failure(p: Pair) -> Result[int, NetFault]:
    return Failure(NetFault())


def other_failure_of_effect(p: Pair) -> Effect[int, NetFault, Db]:
    return fx.fail(NetFault())


async def other_success_awaited(p: Pair) -> Result[str, Overflow]:
    return Success("")


def other_success_generated(p: Pair) -> Gen[str, Overflow, Db]:
    yield from Db
    return "x"


def other_success_streamed(p: Pair) -> Stream[str, Overflow]:
    return Stream.make("x")


def bare(p: Pair) -> str:
    return ""


async def bare_awaited(p: Pair) -> int:
    return 1


def too_many(p: Pair, context: CallContext, more: int) -> Result[int, Overflow]:
    return Success(1)


def none_at_all() -> Result[int, Overflow]:
    return Success(1)


add.handler(other_parameters)  # wrong: parameters
add.handler(other_success)  # wrong: success
add.handler(other_failure)  # wrong: failure
add.handler(other_failure_of_effect)  # wrong: failure, of an effect
add.handler(other_success_awaited)  # wrong: success, awaited
add.handler(other_success_generated)  # wrong: success, of a generator
add.handler(other_success_streamed)  # wrong: success, of a stream
sub.handler(right_add)  # wrong: a failure where none is declared
sub.handler(bare)  # wrong: a bare value, and of another type
sub.handler(bare_awaited)  # wrong: a bare value, awaited
add.handler(too_many)  # wrong: a handler takes parameters and context, no more
add.handler(none_at_all)  # wrong: a handler takes parameters

# --- values
add.call(Query(""))  # wrong: parameters
add.annotate(Readonly, "yes")  # wrong: the value of the key
add.annotate(Title, 1)  # wrong: the value of the key
add.annotate("title", "Add")  # wrong: a string is not a key
add.name = "plus"  # wrong: a tool is immutable
number: int = add.get(Title)  # wrong: a title is text
Tool.make("bad", parameters=Pair, failure_mode="maybe")  # wrong: there are two modes
Tool.make("bad", parameters=Pair, sucess=int)  # wrong: no such option
Toolkit.make("add")  # wrong: a name is not a tool
