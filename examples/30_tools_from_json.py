"""Create tools at run time from the JSON Schemas of another system.

A JSON document lists the tools, like the answer of a server. Each entry becomes a tool with its unchanged schema. fxai
validates arguments with the schema before a handler receives them. Run `python examples/30_tools_from_json.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Never

import msgspec
from returns.result import Result, Success

from fxai import HandlerError, HandlerOf, InvalidParameters, Layer, Tool, Toolkit, fx

# The received document. It could come from a file, a database, or a server's answer to `tools/list`.

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
    """An entry of the list."""

    name: str
    description: str
    input_schema: dict[str, Any] = msgspec.field(name="inputSchema")


# Each entry becomes a tool. Its parameters are an object, `dict[str, Any]`. Its success is any JSON value.


def tool_of(listed: Listed) -> Tool[object, object]:
    """Return the tool of an entry."""
    return Tool.dynamic(listed.name, description=listed.description, parameters=listed.input_schema)


kit = Toolkit.of(tool_of(listed) for listed in msgspec.convert(LISTED, list[Listed]))

for tool in kit:
    print(f"{tool.name}: {tool.description} Dynamic: {Tool.is_dynamic(tool)}.")
assert kit.tools["convert"].json_schema() == LISTED[0]["inputSchema"]  # unchanged, including $ref

# Handlers by name. They receive the parsed JSON unchanged after its validation.

METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}


def convert(params: Mapping[str, Any]) -> object:
    """Convert a length."""
    return params["value"] * METRES[params["from"]] / METRES[params["to"]]


def units(_: Mapping[str, Any]) -> object:
    """Return all units."""
    return list(METRES)


CODE: dict[str, Callable[[Mapping[str, Any]], object]] = {"convert": convert, "units": units}


def handler_of(tool: Tool[object, object]) -> Layer[HandlerOf[object, object, Never]]:
    """Return the layer with the handler of a tool."""
    code = CODE[tool.name]

    def answer(params: object) -> Result[object, Never]:
        return Success(code(msgspec.convert(params, dict[str, Any])))

    return tool.handler(answer)


handlers = kit.to_layer(Layer.merge_all(*map(handler_of, kit)))

# A call in the form of a model, with JSON as its arguments and its result.

right = fx.run(kit.call_json("convert", '{"value": 42.195, "from": "km", "to": "mi"}').provide(handlers))
print("convert:", right.encoded_json.decode())

# If a model sends invalid arguments, it receives the validation errors with their locations.

wrong = fx.run(kit.call("convert", {"value": -1, "from": "yd", "speed": 3}).provide(handlers))
assert isinstance(wrong.result, InvalidParameters)
for fault in wrong.result.faults:
    print("refused:", fault)

# All dynamic tools have the same type, so type checkers cannot detect a missing handler. Building the layer detects it.

try:
    fx.run(kit.call("units", {}).provide(kit.to_layer(handler_of(kit.tools["convert"]))))
except HandlerError as error:
    print("noticed:", error)
