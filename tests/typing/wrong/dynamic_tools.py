"""Tools that are known only at run time, and schemas, used as something else."""

from __future__ import annotations

from returns.result import Result, Success

from fxai import JsonSchema, Schema, Tool, Toolkit, ToolSource, bind, fx, mcp
from tests.typing.desk import DESK, Query, mail, weather

raw = Tool.dynamic("raw", parameters={"type": "object"}, success=int)


def is_good(given: object) -> bool:
    return True


def on_query(given: Query) -> Result[int, str]:
    return Success(1)


Tool.dynamic("raw", parameters=3)  # wrong: a number is not a schema
Tool.dynamic("raw", parameters={"type": "object"}, validation="strict")  # wrong: no such validation
Tool.dynamic("raw", parameters={"type": "object"}, validation=is_good)  # wrong: it gives no result
Tool.dynamic({"name": "raw"})  # wrong: a name is a string
Tool.dynamic("raw", schema={"type": "object"})  # wrong: no such option
raw.handler(lambda _: Success("x"))  # wrong: another success
raw.handler(lambda given: given["a"])  # wrong: it must look at its parameters first
raw.handler(on_query)  # wrong: other parameters
bind(raw, on_query)  # wrong: other parameters
Toolkit.make(raw).to_layer_by_name({"raw": on_query})  # wrong: other parameters
Toolkit.make(raw).to_layer_by_name({"raw": "on_raw"})  # wrong: a string is not a handler
fx.run(raw.call({}))  # wrong: no handler
text: str = fx.run(raw.call({}).provide(raw.handler(lambda _: Success(1))))  # wrong: another success
Schema.of(Query("x"))  # wrong: a value is not a type
other: Schema[int] = Schema.of(str)  # wrong: another type
number: int = Schema.of(int).decode("3")  # wrong: it is in a result
Schema.of(int).encode("3")  # wrong: another type
Schema.of(int).decode_json({"a": 1})  # wrong: a text
Schema.of(Query).decode({}).unwrap().word  # wrong: no such field
Schema.codec(wire=str, decode=int)  # wrong: it cannot encode
Schema.codec(wire=str, decode=lambda text: text + 1, encode=str)  # wrong: a text and a number
JsonSchema.of("object")  # wrong: a document
JsonSchema.of({"type": "object"}).decode({})  # wrong: it is `validate`
ToolSource.of(DESK)  # wrong: the handlers are missing
ToolSource.of(mail).use(lambda kit: 3)  # wrong: it must give an effect
fx.run(ToolSource.of(mail).use(lambda kit: kit.call("mail", {})))  # wrong: the mailer is missing
mcp.serve_stdio(DESK)  # wrong: the handlers are missing
fx.run(mcp.serve_stdio(mail))  # wrong: the mailer is missing
mcp.serve_http(weather, port="80")  # wrong: a number
