"""Facts about a model: its limits and abilities, as data. Use this module to decide what a request may contain.

Each provider has one table of facts. Code that prepares a request reads the facts and never the name of the model.

>>> facts = ModelFacts(provider="acme", model="small-1", family="small", max_output_tokens=4096, forced_calls=False)
>>> facts.max_output_tokens, facts.forced_calls, facts.prefill
(4096, False, None)
>>> nearest_effort("minimal", ("low", "medium", "high"))
'low'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.models.model_request import ReasoningEffort

Modality: TypeAlias = Literal["text", "image", "pdf", "audio", "video"]
"""A kind of input."""
ThinkingType: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
"""A value of `thinking.type` in Anthropic's Messages API. `"enabled"` thinks with a budget of tokens."""
Sampling: TypeAlias = Literal["always", "with effort none", "never"]
"""When a model accepts `temperature` and `top_p`."""
Endpoint: TypeAlias = Literal["messages", "responses", "chat"]
"""An API: Anthropic's Messages, OpenAI's Responses, or Chat Completions."""

EFFORTS: Final[tuple[ReasoningEffort, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The portable efforts, from least to most."""


@final
class FactSource(msgspec.Struct, frozen=True):
    """The origin of a fact."""

    sources: tuple[str, ...]
    """Packages and documents that state the fact. Empty if no source states it."""
    checked: date | None = None
    """The date of the last check."""
    disputed: tuple[str, ...] = ()
    """Other values, each with its sources, such as `"true (langchain-openai 1.7.4)"`."""
    assumed: bool = False
    """True if no source states the fact and the policy of the field supplied the value."""


@final
class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The abilities of one model. A fact is None if it is unknown; the policy of its field then supplies a value."""

    provider: str
    """The provider, such as `"anthropic"`."""
    model: str
    """The name that you asked for."""
    family: str | None = None
    """The entry of the table. None if the model is unknown."""
    released: date | None = None
    retires: date | None = None
    """The date when the provider stops serving the model."""
    endpoints: tuple[Endpoint, ...] | None = None
    """The APIs that serve the model."""

    # -- limits and modalities

    context_window: int | None = None
    """Tokens of the prompt and the answer together."""
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    """Tokens of the answer, thinking included."""
    inputs: tuple[Modality, ...] | None = None
    """The kinds of input."""

    # -- tools and structured output

    structured_output: bool | None = None
    """True if the provider can hold an answer to a JSON Schema."""
    function_calls: bool | None = None
    """True if the model accepts function tools."""
    strict_tools: bool | None = None
    """True if the provider can hold the arguments of a tool to its schema."""
    strict_keywords: tuple[str, ...] | None = None
    """Keywords that strict mode accepts in addition to the common keywords of the provider."""
    forced_calls: bool | None = None
    """True if a request can force the model to call a tool."""
    forced_calls_while_thinking: tuple[ThinkingType, ...] | None = None
    """The thinking types that a request can combine with a forced call."""
    tools_while_reasoning: tuple[Endpoint, ...] | None = None
    """The APIs that accept function tools while the model reasons."""
    parallel_tool_calls: bool | None = None
    """True if a request can set whether the model calls tools in parallel."""
    tool_search: bool | None = None
    """True if the provider can search deferred tools."""

    # -- thinking

    reasons: bool | None = None
    """True if the model can reason before it answers."""
    reasons_by_default: bool | None = None
    """True if the model reasons without being told to."""
    thinking: tuple[ThinkingType, ...] | None = None
    """The accepted thinking types. Without `"disabled"`, a request cannot turn thinking off."""
    efforts: Mapping[Endpoint, tuple[ReasoningEffort, ...]] | None = None
    """The accepted efforts per API, from least to most."""
    default_effort: ReasoningEffort | None = None
    binds_thinking: bool | None = None
    """True if thinking blocks are valid only after the exact prefix in which the model wrote them."""
    binding_remedy: Literal["drop_block"] | None = None
    """The provider's own remedy for a changed prefix. None if fxai must omit the blocks itself."""

    # -- requests

    sampling: Sampling | None = None
    """When the model accepts `temperature` and `top_p`."""
    stop: tuple[Endpoint, ...] | None = None
    """The APIs that accept stop sequences for this model."""
    system_between: bool | None = None
    """True if the model accepts system messages between other messages."""
    tool_changes_between: bool | None = None
    """True if the model accepts added tools between messages."""
    prefill: bool | None = None
    """True if the last message of a request can be an assistant message."""
    cache_marks: int | None = None
    """Maximum number of cache marks in a request."""
    cache_min_tokens: int | None = None
    """Minimum number of tokens of a cached prefix."""
    tools_max: Mapping[Endpoint, int] | None = None
    """Maximum number of tools per API."""

    sources: Mapping[str, FactSource] = MappingProxyType({})
    """The source of each fact, by the name of its field. It takes no part in hashing."""

    def __hash__(self) -> int:
        return hash((self.provider, self.model, self.family))

    def unknown(self) -> tuple[str, ...]:
        """Return the names of the fields without a value."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is None)

    def filled(self, policy: Mapping[str, Any]) -> ModelFacts:
        """Return the facts with the values of a policy in place of unknown facts.

        Args:
            policy: The values, by the name of the field.
        """
        values = {name: policy[name] for name in self.unknown() if policy.get(name) is not None}
        assumed = {name: FactSource((), assumed=True) for name in values}
        return msgspec.structs.replace(self, **values, sources=MappingProxyType({**self.sources, **assumed}))


def nearest_effort(wanted: ReasoningEffort, accepted: Sequence[ReasoningEffort]) -> ReasoningEffort | None:
    """Return the accepted effort that is nearest to the wanted effort. A tie goes down.

    Args:
        wanted: The portable effort.
        accepted: The efforts of the model. If it is empty, the result is None.
    """
    if not accepted:
        return None
    at = EFFORTS.index(wanted)
    return min(accepted, key=lambda one: (abs(EFFORTS.index(one) - at), EFFORTS.index(one)))
