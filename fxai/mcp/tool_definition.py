"""Definitions of tools: the plain JSON data of a server, and the dynamic tool made of it.

>>> said = ToolDefinition("search", input_schema={"type": "object"}, annotations={"title": "Find"})
>>> said.title, sorted(said.digests())
('Find', ['annotations', 'description', 'inputSchema', 'outputSchema', 'title'])
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.mcp.result import McpCallError, failure_schema, shown_content
from fxai.mcp.settings import McpLimits, ServerSettings
from fxai.schema.budget import deeper_than
from fxai.schema.data import frozen
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import Tool
from fxai.tools.tool_options import (
    Annotation,
    Annotations,
    Destructive,
    Idempotent,
    Meta,
    OpenWorld,
    OutputSchema,
    Readonly,
    Title,
)

HINTS: Final[dict[str, Annotation[bool]]] = {
    "readOnlyHint": Readonly,
    "destructiveHint": Destructive,
    "idempotentHint": Idempotent,
    "openWorldHint": OpenWorld,
}
"""The annotations that MCP knows, by their names there."""
MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
"""The members of a definition that have a field here."""

_SORTED: Final = msgspec.json.Encoder(order="sorted").encode


@final
class Refused(msgspec.Struct, frozen=True):
    """A tool that a server lists and that cannot be offered."""

    name: str
    """The tool's name at the server, or its place in the listing where it has none."""
    reason: str
    """Why not."""


@final
class ToolDefinition(msgspec.Struct, frozen=True):
    """A server's definition of one tool: immutable plain JSON data as it was sent."""

    name: str
    """Its name at the server."""
    own_title: str | None = None
    description: str | None = None
    """What it does, for the model."""
    input_schema: Mapping[str, Any] = {}
    """The JSON Schema of its arguments."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema of its structured content, if it has any."""
    annotations: Mapping[str, Any] = {}
    """Its hints, as the protocol spells them."""
    meta: Mapping[str, Any] = {}
    """Its `_meta`."""
    other: Mapping[str, Any] = {}
    """All other members, such as `icons`."""

    def __post_init__(self) -> None:
        for part in ("input_schema", "output_schema", "annotations", "meta", "other"):
            msgspec.structs.force_setattr(self, part, frozen(getattr(self, part)))

    @property
    def title(self) -> str | None:
        """A name for people: its own, else that among its annotations."""
        hinted = self.annotations.get("title")
        return self.own_title or (hinted if isinstance(hinted, str) else None)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each part of the definition, in hexadecimal digits. An empty `_meta` has none."""
        parts = {
            "title": self.own_title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
        }
        parts |= {part: said for part, said in (("_meta", self.meta), ("other", self.other)) if said}
        return {part: sha256(_SORTED(said)).hexdigest() for part, said in parts.items()}

    def check(self, limits: McpLimits) -> JsonSchema | None:
        """Checks the definition against the limits, and gives its output schema.

        Raises `SchemaError`: it cannot be offered; the message says why.
        """
        if not self.name:
            raise SchemaError("it has no name")
        if len(self.description or "") > limits.description:
            raise SchemaError(f"its description has more than {limits.description} characters")
        _check_schema("inputSchema", self.input_schema, limits)
        return None if self.output_schema is None else _check_schema("outputSchema", self.output_schema, limits)

    @override
    def __hash__(self) -> int:
        return hash((ToolDefinition, self.name, self.description))


@final
class McpTool(msgspec.Struct, frozen=True):
    """A tool of a server: its definition, and the dynamic tool made of it."""

    definition: ToolDefinition
    tool: Tool[object, object, McpCallError]
    output: JsonSchema | None
    """The schema that its structured content is checked against, if it has one."""

    @staticmethod
    def make(definition: ToolDefinition, origin: str, settings: ServerSettings) -> McpTool:
        """The tool of a definition; tools of servers with two `origin`s are never one, however alike.

        Raises `SchemaError`: it cannot be offered; the message says why.
        """
        output = definition.check(settings.limits)
        tool = Tool.dynamic(
            f"{origin}/{definition.name}",
            parameters=JsonSchema.of(definition.input_schema),
            success=object,
            failure=failure_schema,
            validation=settings.validation,
            description=definition.description,
            failure_mode=settings.failure_mode,
            annotations=_annotations(definition, output),
            to_model_output=shown_content,
        )
        return McpTool(definition, tool.rename(settings.prefix + definition.name), output)


def _check_schema(part: str, schema: Mapping[str, Any], limits: McpLimits) -> JsonSchema:
    if deeper_than(dict(schema), limits.schema_depth):
        raise SchemaError(f"its {part} is too large: it is more than {limits.schema_depth} levels deep")
    try:
        document = JsonSchema.of(schema)
    except SchemaError as error:
        raise SchemaError(f"its {part}: {error}") from None
    size = len(document.to_json())
    if size > limits.schema_bytes:
        raise SchemaError(f"its {part} is too large: it has {size} bytes, more than {limits.schema_bytes}")
    return document


def _annotations(definition: ToolDefinition, output: JsonSchema | None) -> Annotations:
    known: dict[Annotation[Any], Any] = {
        key: definition.annotations[hint]
        for hint, key in HINTS.items()
        if isinstance(definition.annotations.get(hint), bool)
    }
    if definition.title is not None:
        known[Title] = definition.title
    if definition.meta:
        known[Meta] = dict(definition.meta)
    if output is not None:
        known[OutputSchema] = output
    return Annotations(known)
