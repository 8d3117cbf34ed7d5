"""Tools from functions that are called, answered or opened wrongly."""

from __future__ import annotations

from typing import Any

from returns.result import Result, Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.annotations import Readonly
from fxai.effects import Effect, Gen, Scope, fx
from fxai.tools import Toolkit
from tests.typing.world import LOG, CfgFault, Db, DbFault, Log


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool
def shout(text: str) -> Result[str, DbFault]:
    return Success(text.upper())


@tool
def read(sql: str) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(sql))


@tool
def loose(given: dict[str, Any]) -> dict[str, Any]:
    return given


class Counter:
    @tool
    def count(self, by: int) -> int:
        return by


# --- the plain function keeps its signature
add("1", 2)  # wrong: an argument of another type
add(1)  # wrong: an argument is missing
add(1, 2, c=3)  # wrong: no such argument
text: str = add(1, 2)  # wrong: it returns a number
Counter().count("x")  # wrong: an argument of another type

# --- a layer that is left out
fx.run(add.tool.call(add.arguments(1, 2)))  # wrong: no handler
single = Toolkit.make(add.tool).call("add", {})
fx.run(single)  # wrong: no handler
pair = Toolkit.make(add.tool, shout.tool)
pair.to_layer(add.layer)  # wrong: the handler of shout is missing
program = pair.call("add", {}).provide(add.layer)
beside = Toolkit.make(add, loose).call("add", {}).provide(add.layer)
fx.run(beside)  # wrong: the handler of loose is missing, whose type holds Any
fx.run(program)  # wrong: the handler of shout is missing
fx.run(Toolkit.make(read.tool).call("read", {}).provide(read.layer))  # wrong: Db
add.tool.call(shout.arguments("x"))  # wrong: parameters of another function
add.tool.handler(lambda _: Success("three"))  # wrong: success
of_object = Toolkit.from_object(Counter())
fx.run(of_object.toolkit.call("Counter.count", {"by": 1}))  # wrong: the layer of the object
fx.run(Toolkit.make(Counter().count.tool).call("count", {}))  # wrong: no handler

# --- bound toolkits and sources
bound = BoundToolkit.make(add, read)
fx.run(bound.toolkit.call("add", {}).provide(bound.layer))  # wrong: Db, which read needs
with_any = BoundToolkit.make(add, loose)
fx.run(with_any.toolkit.call("add", {}))  # wrong: no handlers, also where a type is Any
BoundToolkit.make(pair)  # wrong: a toolkit without handlers
BoundToolkit.of(pair, add.layer)  # wrong: the handler of shout is missing
ToolSource.of(pair)  # wrong: a toolkit without handlers
fx.run(ToolSource.of(read).use(lambda kit: kit.call("read", {})))  # wrong: Db


@fx.gen
def opening() -> Gen[BoundToolkit[object], CfgFault, Log | Scope]:
    yield from Log
    return (yield from fx.fail(CfgFault()))


source: ToolSource[object, CfgFault, Log | None] = ToolSource(opening())
fx.run(source.use(lambda kit: fx.succeed(len(kit))))  # wrong: Log, which opening needs


def undeclared() -> Effect[int, DbFault]:
    return source.use(lambda kit: fx.succeed(len(kit))).provide(LOG)  # wrong: what opening fails with


# --- options
tool(failure_mode="maybe")  # wrong: there are two modes
tool(nam="plus")  # wrong: no such option
add.annotate(Readonly, "yes")  # wrong: the value of the key
add.name = "plus"  # wrong: a tool is immutable
tool(3)  # wrong: a number is not a function
