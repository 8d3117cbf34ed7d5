"""Composites that miss handlers, or are used as something else."""

from __future__ import annotations

from fxai import Toolkit, fx
from fxai.tools import SubCall, SubCalls
from tests.typing.desk import DATABASE, DESK, HANDLERS, Query, on_search

every = DESK.as_tool("every")
outer = Toolkit.make(every.tool)

DESK.as_tool()  # wrong: no name
DESK.as_tool(3)  # wrong: a name is a string
DESK.as_tool("every", concurrency="many")  # wrong: a number, or None
DESK.as_tool("every", parameters=Query)  # wrong: a composite has its own parameters
DESK.as_tool("every", descriptoin="All tools.")  # wrong: a misspelt option
fx.run(outer.call("every", {}).provide(every.layer))  # wrong: the handlers of the desk are missing
fx.run(outer.call("every", {}).provide(every.layer.provide(HANDLERS)))  # wrong: the database is missing
every.tool.call(Query("tea"))  # wrong: other parameters
every.tool.handler(on_search)  # wrong: other parameters
every.handler(on_search)  # wrong: a composite has its handler
outer.to_layer(HANDLERS.provide(DATABASE))  # wrong: the handler of the composite is missing
SubCalls((SubCall(1),))  # wrong: a name is a string
SubCalls([{"name": "search"}])  # wrong: no sub-call
