"""Facts about a model: its limits and abilities, as data. Use this module to decide which values a request can contain.

Each provider has one table of facts. Code that prepares a request reads the facts and never the model name.

>>> facts = ModelFacts(provider="acme", model="small-1", family="small", max_output_tokens=4096, forced_calls=False)
>>> facts.max_output_tokens, facts.forced_calls, facts.prefill
(4096, False, None)
>>> nearest_effort("minimal", ("low", "medium", "high"))
'low'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache, cached_property
from typing import Any, Final, Literal, TypeAlias, final, get_type_hints

import msgspec

from fxai.models.model_request import ReasoningEffort
from fxai.schema.data import FrozenObject, frozen, identity

Modality: TypeAlias = Literal["text", "image", "pdf", "audio", "video"]
"""A kind of input."""
ThinkingType: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
"""A value of `thinking.type` in Anthropic's Messages API. `"enabled"` thinks with a budget of tokens."""
Sampling: TypeAlias = Literal["always", "with effort none", "never"]
"""The condition of a model for `temperature` and `top_p`."""
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
    reason: str = ""
    """The reason of the decision if sources disagree."""
    assumed: bool = False
    """True if no source states the fact and the policy of the field supplied the value."""


@final
class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The abilities of a model. If a fact is None, it is unknown, and the policy of its field supplies a value.

    `msgspec.structs.replace` returns changed facts. A value of a wrong type raises TypeError.
    """

    provider: str
    """The provider, such as `"anthropic"`."""
    model: str
    """The name that the program passed."""
    family: str | None = None
    """The entry of the table. An unknown model has no entry."""
    like: str | None = None
    """The entry that supplies the facts about an unknown model, or None."""
    released: date | None = None
    """The date of the release."""
    retires: date | None = None
    """The date when the provider stops serving the model."""
    endpoints: tuple[Endpoint, ...] | None = None
    """The APIs that serve the model."""

    # -- limits and modalities

    context_window: int | None = None
    """Tokens in the prompt and the answer together."""
    max_input_tokens: int | None = None
    """Maximum number of tokens in the prompt."""
    max_output_tokens: int | None = None
    """Tokens in the answer, including thinking."""
    window_limits_answer: bool | None = None
    """True if the provider refuses a request whose prompt and `max_tokens` together exceed the context window."""
    inputs: tuple[Modality, ...] | None = None
    """The kinds of input."""

    # -- tools and structured output

    structured_output: bool | None = None
    """True if the provider can enforce a JSON Schema on an answer."""
    function_calls: bool | None = None
    """True if the model accepts function tools."""
    strict_tools: bool | None = None
    """True if the provider can enforce the schema for a tool on its arguments."""
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
    tool_references: bool | None = None
    """True if the result of a call can refer to deferred tools, and the model can then call them."""

    # -- thinking

    reasons: bool | None = None
    """True if the model can reason before it answers."""
    reasons_by_default: bool | None = None
    """True if the model reasons without a field of the request."""
    thinking: tuple[ThinkingType, ...] = ()
    """The accepted thinking types, or `()` if the model does not think or the types are unknown.

    Without `"disabled"`, a request cannot turn thinking off.
    """
    efforts: Mapping[Endpoint, tuple[ReasoningEffort, ...]] | None = None
    """The accepted efforts per API, from least to most."""
    efforts_without_thinking: tuple[ReasoningEffort, ...] | None = None
    """The accepted efforts of a request that turns thinking off."""
    default_effort: ReasoningEffort | None = None
    """The effort of reasoning without an option."""
    thinking_budget_min: int | None = None
    """Minimum number of tokens in a thinking budget."""
    binds_thinking: bool | None = None
    """True if thinking blocks are valid only after the exact prefix that the model received."""
    binding_remedy: Literal["drop_block"] | None = None
    """The provider's own remedy for a changed prefix, or None if fxai must omit the blocks itself."""

    # -- requests

    sampling: Sampling | None = None
    """The condition of the model for `temperature` and `top_p`."""
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
    """Minimum number of tokens in a cached prefix."""
    tools_max: Mapping[Endpoint, int] | None = None
    """Maximum number of tools per API."""

    sources: Mapping[str, FactSource] = FrozenObject()
    """The source of each fact by the name of its field. Hashes ignore it."""

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        try:
            checked = msgspec.convert(values, _unfrozen())
        except msgspec.ValidationError as error:
            raise TypeError(f"ModelFacts: {error}") from None
        for name in values:
            msgspec.structs.force_setattr(self, name, frozen(getattr(checked, name)))

    def __hash__(self) -> int:
        return self.__fx_hash__

    @cached_property
    def __fx_hash__(self) -> int:
        values = (getattr(self, name) for name in self.__struct_fields__ if name != "sources")
        return hash(tuple(identity(value) for value in values))

    def unknown(self) -> tuple[str, ...]:
        """Return the names of the facts that fxai does not know."""
        unknown = [name for name in self.__struct_fields__ if getattr(self, name) is None]
        return (*unknown, "thinking") if not self.thinking and "thinking" not in self.sources else tuple(unknown)

    def with_policy(self, policy: Mapping[str, Any]) -> ModelFacts:
        """Return the facts completed with the values of a policy.

        Args:
            policy: The values, by the field name.
        """
        values = {name: policy[name] for name in self.unknown() if policy.get(name) is not None}
        if not values:
            return self
        assumed = {name: FactSource((), assumed=True) for name in values}
        return msgspec.structs.replace(self, **values, sources={**self.sources, **assumed})


@cache
def _unfrozen() -> type[msgspec.Struct]:
    """Return a type with the fields of ModelFacts, for their validation in one conversion."""
    hints = get_type_hints(ModelFacts)
    return msgspec.defstruct("Unfrozen", [(name, hints[name]) for name in ModelFacts.__struct_fields__])


def common_facts(models: Iterable[ModelFacts | None]) -> ModelFacts | None:
    """Return the facts that multiple models share. Use it if any of the models can answer.

    A fact is None if the models differ. `binds_thinking` is True if any model binds thinking to its prefix.

    Args:
        models: The facts about the models. The function ignores unknown facts (None).

    >>> one, two = (ModelFacts(provider="acme", model=name, cache_marks=4) for name in ("small", "large"))
    >>> common_facts([one, msgspec.structs.replace(two, binds_thinking=True)])
    ModelFacts(provider='acme', model='small, large', ..., binds_thinking=True, ..., cache_marks=4, ...)
    """
    known = list(dict.fromkeys(one for one in models if one is not None))
    if len(known) < 2:
        return known[0] if known else None
    first = known[0]
    facts: dict[str, Any] = {
        name: getattr(first, name)
        for name in first.__struct_fields__
        if all(getattr(one, name) == getattr(first, name) for one in known)
    }
    facts |= {name: ", ".join(dict.fromkeys(getattr(one, name) for one in known)) for name in ("provider", "model")}
    if any(one.binds_thinking for one in known):
        facts["binds_thinking"] = True
    return ModelFacts(**facts)


def nearest_effort(wanted: ReasoningEffort, accepted: Sequence[ReasoningEffort]) -> ReasoningEffort | None:
    """Return the accepted effort that is nearest to the wanted effort. For equal distances, return the lower effort.

    Args:
        wanted: The portable effort.
        accepted: The efforts of the model. If it is empty, the result is None.
    """
    if not accepted:
        return None
    at = EFFORTS.index(wanted)
    return min(accepted, key=lambda one: (abs(EFFORTS.index(one) - at), EFFORTS.index(one)))
