"""Tools from JSON: operations that are known only at run time, by the JSON Schema that somebody else wrote.

Here a document lists them, as a server would. Each becomes a tool with the schema exactly as it was given; arguments
are checked against it before any handler sees them. Run it: `python examples/30_tools_from_json.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Never

import msgspec
from returns.result import Result, Success

from fxai import HandlerError, HandlerOf, InvalidParameters, Layer, Tool, Toolkit, fx

# What came over the wire. It could be a file, a database, or the answer of a server to `tools/list`.

LISTED = json.loads("""
[
  {
    "name": "convert",
    "description": "Converts a length.",
    "inputSchema": {
      "type": "object",
      "properties": {
        "value": {"type": "number", "minimum": 0},
        "from": {"$ref": "#/$defs/Unit"},
        "to": {"$ref": "#/$defs/Unit"}
      },
      "required": ["value", "from", "to"],
      "additionalProperties": false,
      "$defs": {"Unit": {"enum": ["m", "km", "mi"]}}
    }
  },
  {
    "name": "units",
    "description": "Every unit there is.",
    "inputSchema": {"type": "object", "properties": {}}
  }
]
""")


class Listed(msgspec.Struct, frozen=True):
    """A tool as it was listed."""

    name: str
    description: str
    input_schema: dict[str, Any] = msgspec.field(name="inputSchema")


# A tool for each. What goes in is known to be an object, `dict[str, Any]`; what comes out is anything JSON can carry.


def tool_of(listed: Listed) -> Tool[object, object]:
    """The tool that somebody listed."""
    return Tool.dynamic(listed.name, description=listed.description, parameters=listed.input_schema)


kit = Toolkit.of(tool_of(listed) for listed in msgspec.convert(LISTED, list[Listed]))

for tool in kit:
    print(f"{tool.name}: {tool.description} Dynamic: {Tool.is_dynamic(tool)}.")
assert kit.tools["convert"].json_schema() == LISTED[0]["inputSchema"]  # equal to what was given, $ref and all

# Handlers by name. They get the parsed JSON untouched, after the schema has let it through.

METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}


def convert(params: Mapping[str, Any]) -> object:
    """Converts a length."""
    return params["value"] * METRES[params["from"]] / METRES[params["to"]]


def units(_: Mapping[str, Any]) -> object:
    """Every unit."""
    return list(METRES)


CODE: dict[str, Callable[[Mapping[str, Any]], object]] = {"convert": convert, "units": units}


def handler_of(tool: Tool[object, object]) -> Layer[HandlerOf[object, object, Never]]:
    """The layer of the code of this name."""
    code = CODE[tool.name]

    def answer(params: object) -> Result[object, Never]:
        return Success(code(msgspec.convert(params, dict[str, Any])))

    return tool.handler(answer)


handlers = kit.to_layer(Layer.merge_all(*map(handler_of, kit)))

# A call, as a model would make it: JSON in, JSON out.

right = fx.run(kit.call_json("convert", '{"value": 42.195, "from": "km", "to": "mi"}').provide(handlers))
print("convert:", right.encoded_json.decode())

# What the model gets wrong comes back as data that it can read: each fault with its place.

wrong = fx.run(kit.call("convert", {"value": -1, "from": "yd", "speed": 3}).provide(handlers))
assert isinstance(wrong.result, InvalidParameters)
for fault in wrong.result.faults:
    print("refused:", fault)

# Two dynamic tools have one type, so no checker can tell that a handler is missing. Building the layer does.

try:
    fx.run(kit.call("units", {}).provide(kit.to_layer(handler_of(kit.tools["convert"]))))
except HandlerError as error:
    print("noticed:", error)
