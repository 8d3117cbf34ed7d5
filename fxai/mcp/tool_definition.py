"""Definitions of tools: the JSON data of a server, and the dynamic tool from it. Use them to inspect a server's tools.

>>> content = ToolDefinition("search", input_schema={"type": "object"}, annotations={"title": "Find"})
>>> content.title, sorted(content.digests())
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
from fxai.tools.annotation import (
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
from fxai.tools.tool import Tool

HINTS: Final[dict[str, Annotation[bool]]] = {
    "readOnlyHint": Readonly,
    "destructiveHint": Destructive,
    "idempotentHint": Idempotent,
    "openWorldHint": OpenWorld,
}
"""The annotations of fxai, by their names in MCP."""
MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
"""The members of a definition with their own field."""

_SORTED: Final = msgspec.json.Encoder(order="sorted").encode


@final
class Refused(msgspec.Struct, frozen=True):
    """An invalid tool that a server lists. fxai does not offer it."""

    name: str
    """The name of the tool at the server, or its position in the list if it has no name."""
    reason: str
    """The reason."""


@final
class ToolDefinition(msgspec.Struct, frozen=True):
    """A server's definition of one tool: the sent JSON data as immutable values."""

    name: str
    """The name of the tool at the server."""
    own_title: str | None = None
    """The member `title` of the tool, or None."""
    description: str | None = None
    """The description for the model."""
    input_schema: Mapping[str, Any] = {}
    """The JSON Schema of the arguments."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema of the structured content, or None."""
    annotations: Mapping[str, Any] = {}
    """The hints with their names in the protocol."""
    meta: Mapping[str, Any] = {}
    """The member `_meta`."""
    other: Mapping[str, Any] = {}
    """All other members, such as `icons`."""

    def __post_init__(self) -> None:
        for part in ("input_schema", "output_schema", "annotations", "meta", "other"):
            msgspec.structs.force_setattr(self, part, frozen(getattr(self, part)))

    @property
    def title(self) -> str | None:
        """The title of the tool, or the title in its annotations."""
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
        parts |= {part: content for part, content in (("_meta", self.meta), ("other", self.other)) if content}
        return {part: sha256(_SORTED(content)).hexdigest() for part, content in parts.items()}

    def check(self, limits: McpLimits) -> JsonSchema | None:
        """Check the definition against the limits, and return its output schema.

        Raises:
            SchemaError: If fxai cannot offer the tool. The message contains the reason.
        """
        if not self.name:
            raise SchemaError("the name is empty")
        if len(self.description or "") > limits.description:
            raise SchemaError(f"the description has more than {limits.description} characters")
        _check_schema("inputSchema", self.input_schema, limits)
        return None if self.output_schema is None else _check_schema("outputSchema", self.output_schema, limits)

    @override
    def __hash__(self) -> int:
        return hash((ToolDefinition, self.name, self.description))


@final
class McpTool(msgspec.Struct, frozen=True):
    """A server's tool: its definition and the dynamic tool from it."""

    definition: ToolDefinition
    tool: Tool[object, object, McpCallError]
    output: JsonSchema | None
    """The schema for the check of structured content, or None."""

    @staticmethod
    def make(definition: ToolDefinition, origin: str, settings: ServerSettings) -> McpTool:
        """Return the tool of a definition. Tools with different `origin`s always have different identities.

        Raise `SchemaError` if fxai cannot offer the tool. The message contains the reason.
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
        raise SchemaError(f"{part} is too large: more than {limits.schema_depth} levels deep")
    try:
        document = JsonSchema.of(schema)
    except SchemaError as error:
        raise SchemaError(f"{part}: {error}") from None
    size = len(document.to_json())
    if size > limits.schema_bytes:
        raise SchemaError(f"{part} is too large: {size} bytes, more than {limits.schema_bytes}")
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
