"""Requests to a language model, independent of any provider, and the choice of tools that one may make.

>>> ModelRequest(Prompt.make("Hello"), temperature=0).tool_choice
'auto'
>>> ToolChoice.one_of(["add", "weather"], mode="required").allows("add")
True
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, final

import msgspec

from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.messages.prompt import Prompt
from fxai.schema.codec import Schema
from fxai.schema.data import frozen
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import Tool

__all__ = [
    "Model",
    "ModelOptions",
    "ModelRequest",
    "ReasoningEffort",
    "ToolChoice",
    "ToolChoices",
    "allows",
    "narrow",
    "refusal",
]


@final
class ToolChoice(msgspec.Struct, frozen=True):
    """A choice among named tools; where none is named, use `"auto"`, `"none"` or `"required"`."""

    names: tuple[str, ...]
    """The tools that may be called."""
    mode: Literal["auto", "required", "tool"] = "auto"
    """`"auto"`: one of them or none. `"required"`: one of them. `"tool"`: the one that is named."""

    @staticmethod
    def tool(name: str) -> ToolChoice:
        """The model must call this tool."""
        return ToolChoice((name,), "tool")

    @staticmethod
    def one_of(names: Iterable[str], *, mode: Literal["auto", "required"] = "auto") -> ToolChoice:
        """The model is shown these tools alone; with `mode="required"` it must call one of them.

        Raises:
            ValueError: there is no name.
        """
        chosen = tuple(names)
        if not chosen:
            raise ValueError('ToolChoice.one_of needs a name at least; to allow no tool, say "none"')
        return ToolChoice(chosen, mode)

    def allows(self, name: str) -> bool:
        """Whether a call of the tool `name` is within the choice."""
        return name in self.names


ToolChoices: TypeAlias = Literal["auto", "none", "required"] | ToolChoice
"""`"auto"` (any tool or none), `"none"`, `"required"` (any tool), or a choice among named ones."""


def allows(choice: ToolChoices, name: str) -> bool:
    """Whether `choice` allows a call of the tool `name`."""
    return choice.allows(name) if isinstance(choice, ToolChoice) else choice != "none"


def narrow(choice: ToolChoice, tools: Container[str]) -> ToolChoices:
    """What is left of a choice where only `tools` are there.

    Where none of its tools is, nothing is required: `"auto"` in place of the one tool that had to be called, and
    `"none"` in place of several that alone were allowed.

    >>> narrow(ToolChoice.one_of(["add", "weather"]), {"add"}).names, narrow(ToolChoice.tool("add"), ())
    (('add',), 'auto')
    """
    left = tuple(name for name in choice.names if name in tools)
    if left:
        return choice if len(left) == len(choice.names) else ToolChoice(left, choice.mode)
    return "auto" if choice.mode == "tool" else "none"


def refusal(choice: ToolChoices) -> str:
    """Why a call outside `choice` was not run, for the model."""
    if isinstance(choice, ToolChoice):
        return f"the tool choice of this turn allows only: {', '.join(choice.names)}"
    return "the tool choice of this turn allows no tool"


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]
"""How much a model should think before it answers; what a provider lacks is a warning."""


class ModelOptions(TypedDict, total=False):
    """Options of a request to any model. A field that a provider lacks is a warning on the response, never an error."""

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


class Model(Protocol):
    """What takes requests: a language model."""

    def ask(self, request: ModelRequest, /) -> EffectOf[tuple[Part, ...], AiError, None]:
        """The model's turn, whole."""
        ...

    def ask_stream(self, request: ModelRequest, /) -> StreamOf[StreamPart, AiError, None]:
        """The same turn as it comes."""
        ...


@final
class ModelRequest(msgspec.Struct, frozen=True):
    """A request to a language model: the conversation, the tools, and how it should answer."""

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
        """The request whose answer is to be of a type."""
        return msgspec.structs.replace(self, response_schema=schema.document, response_name=schema.name)

    def __hash__(self) -> int:
        return hash((self.prompt, self.tools, self.tool_choice))
