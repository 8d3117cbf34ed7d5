"""What a client of ours is told of a tool: its name, what it is for, what goes in and what comes out.

Arguments over MCP are always an object. A tool whose parameters are anything else takes them as the member `value`.

>>> from fxai.tools.annotations import Readonly
>>> from fxai.tools.tool import Tool
>>> served = ServedTool.of(Tool.make("double", parameters=int, success=int).annotate(Readonly, True), "double")
>>> served.document["annotations"], served.document["inputSchema"]["required"], served.params({"value": 4})
({'readOnlyHint': True}, ['value'], 4)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import msgspec

from fxai.schema.data import copied, is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import lookup
from fxai.schema.relocate import relocated
from fxai.tools.annotations import Destructive, Idempotent, Meta, OpenWorld, Readonly, Title
from fxai.tools.naming import NameConflictError, NameRule
from fxai.tools.tool import AnyTool

__all__ = ["ServedTool", "served", "titled_by_hint"]

_VALUE: Final = "value"
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")  # the rule of protocol 2025-11-25, "Tool Names"
_RULE: Final = NameRule(128)
_HINTS: Final = (
    ("readOnlyHint", Readonly),
    ("destructiveHint", Destructive),
    ("idempotentHint", Idempotent),
    ("openWorldHint", OpenWorld),
)


@final
class ServedTool(msgspec.Struct, frozen=True):
    """A tool as a server offers it."""

    tool: AnyTool
    document: dict[str, Any]
    """What `tools/list` says of it, as plain JSON data."""
    is_wrapped: bool
    """Whether its parameters are the member `value` of the arguments."""

    @staticmethod
    def of(tool: AnyTool, name: str) -> ServedTool:
        """The tool, offered under `name`."""
        parameters = tool.parameters if isinstance(tool.parameters, JsonSchema) else tool.parameters.document
        given = parameters.to_dict()
        is_wrapped = not _allows_object(given, given)
        result = tool.success.document.to_dict()
        meta: Mapping[str, Any] = tool.annotations.get(Meta)
        annotations = {hint: tool.get(key) for hint, key in _HINTS if key in tool.annotations}
        told = {
            "name": name,
            "title": tool.get(Title),
            "description": tool.description,
            "inputSchema": _wrapped(parameters) if is_wrapped else _rooted(given),
            "outputSchema": _rooted(result) if _is_object_always(result, result) else None,
            "annotations": annotations or None,
            "_meta": copied(dict(meta)) or None,
        }
        return ServedTool(tool, {key: value for key, value in told.items() if value is not None}, is_wrapped)

    def params(self, arguments: Mapping[str, Any]) -> Any:
        """The parameters of a call with these arguments; arguments that say something else stay as they are."""
        return arguments[_VALUE] if self.is_wrapped and list(arguments) == [_VALUE] else dict(arguments)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        schema: dict[str, Any] = self.document["inputSchema"]
        return schema

    @property
    def gives_objects(self) -> bool:
        """Whether clients are told what its results look like, and hold them to it."""
        return "outputSchema" in self.document


def served(tools: Iterable[AnyTool]) -> dict[str, ServedTool]:
    """The tools by the names that clients know: their own, or where MCP does not allow those, the nearest it does.

    Raises:
        NameConflictError: two tools would have one name; it names both.
    """
    offered: dict[str, ServedTool] = {}
    for tool in tools:
        name = tool.name if _NAME.fullmatch(tool.name) else _RULE.of(tool.name)
        if name in offered:
            raise NameConflictError(
                f"the tools {offered[name].tool.name!r} and {tool.name!r} would both be offered as {name!r}: rename or "
                "prefix one"
            )
        offered[name] = ServedTool.of(tool, name)
    return offered


def titled_by_hint(document: dict[str, Any]) -> dict[str, Any]:
    """What `tools/list` says of a tool to clients that look for its title among the hints, and nowhere else."""
    if "title" not in document:
        return document
    return {**document, "annotations": {"title": document["title"], **document.get("annotations", {})}}


def _rooted(document: Any) -> dict[str, Any]:
    """The document with `"type": "object"` at its root, which MCP demands."""
    members = document if is_object(document) else {}
    return {"type": "object", **{key: value for key, value in members.items() if key != "type"}}


def _wrapped(parameters: JsonSchema) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    inner = relocated(parameters, f"/properties/{_VALUE}", definitions, _VALUE)
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {_VALUE: inner},
        "required": [_VALUE],
        "additionalProperties": False,
    }
    return {**whole, "$defs": definitions} if definitions else whole


def _allows_object(schema: Any, root: Any) -> bool:
    """Whether an object can be an instance, as far as the types at its root say."""
    if not is_object(schema):
        return schema is not False
    declared = schema.get("type")
    if declared is not None:
        return "object" in declared  # one type, or an array of several
    unions = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    if any(is_array(union) and not any(_allows_object(one, root) for one in union) for union in unions):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(values) and not any(is_object(value) for value in values):
        return False
    return _allows_object(_target(schema, root), root)


def _is_object_always(schema: Any, root: Any) -> bool:
    """Whether every instance is an object, as the types at its root say."""
    if not is_object(schema):
        return False
    if "type" in schema:
        return schema["type"] in ("object", ["object"])
    unions = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    if any(is_array(union) and all(_is_object_always(one, root) for one in union) for union in unions):
        return True
    return _is_object_always(_target(schema, root), root)


def _target(schema: dict[str, Any], root: Any) -> Any:
    """What the reference into its own document leads to, None without one; a `JsonSchema` has none in a circle."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    return lookup(reference, root)
