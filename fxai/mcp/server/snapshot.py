"""Snapshots: the tools of a server at one time, with their documents for clients and their handlers.

MCP arguments are always an object. If the parameters of a tool are another type, the tool receives the member `value`.
A replaced snapshot exists until its running calls end. Then fxai releases the resources of its layer.

>>> from fxai.tools.annotation import Readonly
>>> from fxai.tools.tool import Tool
>>> served = ServedTool.of(Tool.make("double", parameters=int, success=int).annotate(Readonly, True), "double")
>>> served.document["annotations"], served.document["inputSchema"]["required"], served.params({"value": 4})
({'readOnlyHint': True}, ['value'], 4)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import anyio
import msgspec

from fxai.effects.cause import Succeeded
from fxai.effects.context import AnyContext
from fxai.effects.effect import EffectOf, Suspend, Within
from fxai.effects.fiber import run_fiber
from fxai.effects.layer import MemoMap, build_layer
from fxai.effects.scope import NOTHING, Scope
from fxai.mcp.tool_definition import HINTS
from fxai.schema.data import JsonObject, copy_data, is_array, is_object
from fxai.schema.document import relocate
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import lookup
from fxai.tools.annotation import Meta, Title
from fxai.tools.call import Call
from fxai.tools.handler import HandlerError
from fxai.tools.identity import NameConflictError, NameRule
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import AnyBound

_VALUE: Final = "value"
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")  # protocol 2025-11-25, "Tool Names"
_RULE: Final = NameRule(128)


@final
class ServedTool(msgspec.Struct, frozen=True):
    """A tool in the form that a server offers."""

    tool: AnyTool
    document: JsonObject
    """The entry in `tools/list`, as a JSON value."""
    is_wrapped: bool
    """True if the parameters are the member `value` of the arguments."""

    @staticmethod
    def of(tool: AnyTool, name: str) -> ServedTool:
        """Return the tool with the offered name `name`."""
        parameters = tool.parameters if isinstance(tool.parameters, JsonSchema) else tool.parameters.document
        given = parameters.to_dict()
        is_wrapped = not _allows_object(given, given)
        result = tool.success.written_document.to_dict()
        meta: Mapping[str, Any] = tool.annotations.get(Meta)
        annotations = {hint: tool.get(key) for hint, key in HINTS.items() if key in tool.annotations}
        members = {
            "name": name,
            "title": tool.get(Title),
            "description": tool.description,
            "inputSchema": _value_document(parameters) if is_wrapped else _object_document(given),
            "outputSchema": _object_document(result) if _is_object_always(result, result) else None,
            "annotations": annotations or None,
            "_meta": copy_data(dict(meta)) or None,
        }
        return ServedTool(tool, {key: value for key, value in members.items() if value is not None}, is_wrapped)

    def params(self, arguments: Mapping[str, Any]) -> Any:
        """Return the parameters of a call with these arguments. Arguments without the wrapper stay unchanged."""
        return arguments[_VALUE] if self.is_wrapped and list(arguments) == [_VALUE] else dict(arguments)

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        schema: JsonObject = self.document["inputSchema"]
        return schema

    @property
    def gives_objects(self) -> bool:
        """True if clients receive an output schema. They validate results against it."""
        return "outputSchema" in self.document


def served_tools(tools: Iterable[AnyTool]) -> dict[str, ServedTool]:
    """Return the tools by the names for clients: their own names, or the most similar names that MCP allows.

    Raise `NameConflictError` if two tools would have the same name. The message contains both.
    """
    found: dict[str, ServedTool] = {}
    for tool in tools:
        name = tool.name if _NAME.fullmatch(tool.name) else _RULE.of(tool.name)
        if name in found:
            raise NameConflictError(
                f"tools {found[name].tool.name!r} and {tool.name!r} have the same name {name!r} for clients. Rename or "
                "prefix one."
            )
        found[name] = ServedTool.of(tool, name)
    return found


def title_as_hint(document: JsonObject) -> JsonObject:
    """Return the document of a tool for clients that read its title only from the annotations."""
    if "title" not in document:
        return document
    return {**document, "annotations": {"title": document["title"], **document.get("annotations", {})}}


def _object_document(document: Any) -> JsonObject:
    """Return the document with `"type": "object"` at its root, which MCP requires."""
    members = document if is_object(document) else {}
    return {"type": "object", **{key: value for key, value in members.items() if key != "type"}}


def _value_document(parameters: JsonSchema) -> JsonObject:
    definitions: JsonObject = {}
    inner = relocate(parameters.to_dict(), f"/properties/{_VALUE}", definitions, _VALUE)
    whole: JsonObject = {
        "type": "object",
        "properties": {_VALUE: inner},
        "required": [_VALUE],
        "additionalProperties": False,
    }
    return {**whole, "$defs": definitions} if definitions else whole


def _allows_object(schema: Any, root: Any) -> bool:
    """Return True if an object can be valid, as far as the types at the root of the schema show."""
    if not is_object(schema):
        return schema is not False
    declared = schema.get("type")
    if declared is not None:
        return "object" in declared  # a string or an array
    unions = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    if any(is_array(union) and not any(_allows_object(one, root) for one in union) for union in unions):
        return False
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(values) and not any(is_object(value) for value in values):
        return False
    return _allows_object(_target(schema, root), root)


def _is_object_always(schema: Any, root: Any) -> bool:
    """Return True if every valid value is an object, as far as the types at the root of the schema show."""
    if not is_object(schema):
        return False
    if "type" in schema:
        return schema["type"] in ("object", ["object"])
    unions = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    if any(is_array(union) and all(_is_object_always(one, root) for one in union) for union in unions):
        return True
    return _is_object_always(_target(schema, root), root)


def _target(schema: JsonObject, root: Any) -> Any:
    """Return the target of the reference of a schema, or None without a reference into the document."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    return lookup(reference, root)


@final
class Snapshot(msgspec.Struct, eq=False):
    """The offered tools by their names for clients, and the services that run them."""

    bound: AnyBound
    tools: dict[str, ServedTool]
    services: AnyContext
    scope: Scope
    running: int = 0
    is_replaced: bool = False

    @property
    def documents(self) -> list[JsonObject]:
        """The entries of `tools/list`."""
        return [tool.document for tool in self.tools.values()]

    def call(self, tool: ServedTool, arguments: Any, call_id: str, **more: Any) -> Call:
        """Return the call of one of these tools with the arguments of a client."""
        given = tool.params(arguments)
        own = tool.tool
        return Call({own.name: own}, own.name, given, call_id=call_id, on_invalid_call="error", **more)

    async def leave(self) -> None:
        """Leave the snapshot. The last running call releases a replaced snapshot."""
        self.running -= 1
        if self.is_replaced:
            with anyio.CancelScope(shield=True):
                await run_fiber(self._release(), self.services)

    def replace(self) -> EffectOf[None, Any, None]:
        """Mark the snapshot as replaced. If no call runs, release it."""

        def mark() -> EffectOf[None, Any, None]:
            self.is_replaced = True
            return self._release()

        return Suspend(mark)

    def _release(self) -> EffectOf[None, Any, None]:
        return self.scope.close(Succeeded(None)) if self.is_replaced and not self.running else NOTHING


def open_snapshot(bound: AnyBound) -> EffectOf[Snapshot, Any, Any]:
    """Return a snapshot of these tools, with handlers that use the services of the context.

    Raise `HandlerError` if a tool has no handler in this program, because the server could not answer its calls.
    """
    foreign = [tool.name for tool in bound.toolkit if not tool.requires_handler]
    if foreign:
        raise HandlerError(
            f"cannot serve {', '.join(foreign)}: another program answers their calls. Remove them with toolkit.omit(…)."
        )

    def build(context: AnyContext) -> EffectOf[Snapshot, Any, Any]:
        scope = Scope()
        memo = MemoMap.of(context)

        def make(services: AnyContext) -> Snapshot:
            return Snapshot(bound, tools, memo.into(context.merge(services)), scope)

        tools = served_tools(bound.toolkit)
        built = build_layer(bound.layer, memo, scope).map(make)
        return built.on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else scope.close(end))

    return Within(build)
