"""Requests: one question to a model, in nobody's dialect.

>>> ModelRequest(Prompt.make("Hello"), temperature=0).tool_choice
'auto'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict, final

import msgspec

from fxai.messages.prompt import Prompt
from fxai.models.choice import ToolChoices
from fxai.schema.codec import Schema
from fxai.schema.data import frozen
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import Tool

__all__ = ["ModelOptions", "ModelRequest", "ReasoningEffort"]

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]
"""How much a model should think before it answers; what a provider lacks is a warning."""


class ModelOptions(TypedDict, total=False):
    """What may be asked of any model. A field that a provider lacks is a warning on the response, never an error."""

    max_tokens: int | None
    """The most tokens that it may answer with."""
    temperature: float | None
    """How varied the answer may be; 0 is the least."""
    stop: tuple[str, ...]
    """Texts at which the answer ends; they are not part of it."""
    reasoning: ReasoningEffort | None
    """How much it should think first."""
    parallel_tool_calls: bool | None
    """Whether it may call several tools in one turn."""
    provider_options: Mapping[str, Any]
    """By provider name, what only that provider understands."""


@final
class ModelRequest(msgspec.Struct, frozen=True):
    """One question to a model: what was said, which tools there are, and how it should answer."""

    prompt: Prompt
    tools: tuple[Tool[Any, Any, Any], ...] = ()
    tool_choice: ToolChoices = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    reasoning: ReasoningEffort | None = None
    parallel_tool_calls: bool | None = None
    response_schema: JsonSchema | None = None
    """The JSON Schema that the text of the answer must be an instance of; None for free text."""
    response_name: str | None = None
    """What that answer is called; None: as its schema's title says, or nothing of its own."""
    provider_options: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if self.provider_options:
            msgspec.structs.force_setattr(self, "provider_options", frozen(self.provider_options))

    def answered_as(self, schema: Schema[Any]) -> ModelRequest:
        """The same, whose answer is to be of a type."""
        return msgspec.structs.replace(self, response_schema=schema.document, response_name=schema.name)

    def __hash__(self) -> int:
        return hash((self.prompt, self.tools, self.tool_choice))
