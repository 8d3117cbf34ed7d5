"""Options that only Anthropic has, as `provider_options["anthropic"]` of a request.

>>> options_of_request({"anthropic": {"service_tier": "auto"}}).fields
{'service_tier': 'auto'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, final

import msgspec

from fxai.messages.message import Metadata
from fxai.models.prepared_tools import PreparationError, checked_options
from fxai.providers.anthropic.tool_encoding import Ephemeral
from fxai.schema.data import is_object

NAME: Final = "anthropic"
"""The name of the provider, in metadata and options."""

FALLBACK_BETA: Final = "server-side-fallback-2026-07-01"
"""The beta of `fallbacks`, and of a `fallback` block in the history."""

_BETAS: Final[Mapping[str, str]] = {
    "mcp_servers": "mcp-client-2025-11-20",
    "compaction": "compact-2026-09-04",
    "fallbacks": FALLBACK_BETA,
    "fallback_credit_token": "fallback-credit-2026-07-01",
}


class _Edit(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):
    """A part of the options for the context; what is None is not sent, and Anthropic's own default holds."""


@final
class InputTokens(_Edit, frozen=True, tag="input_tokens"):
    """A number of tokens of the prompt."""

    value: int


@final
class ToolUses(_Edit, frozen=True, tag="tool_uses"):
    """A number of calls of tools."""

    value: int


@final
class ThinkingTurns(_Edit, frozen=True, tag="thinking_turns"):
    """A number of turns with thinking."""

    value: int


@final
class ClearToolUses(_Edit, frozen=True, tag="clear_tool_uses_20250919"):
    """Leaves out the results of older calls, and their parameters if asked to."""

    trigger: InputTokens | ToolUses | None = None
    """From when on; None: from 100,000 tokens on."""
    keep: ToolUses | None = None
    """How many of the last calls stay; None: 3."""
    clear_at_least: InputTokens | None = None
    """How much must become free, since the cache is lost behind the place; None: anything."""
    clear_tool_inputs: bool | tuple[str, ...] | None = None
    """Whether the parameters go, too, or those of which tools."""
    exclude_tools: tuple[str, ...] | None = None
    """The tools whose calls stay."""


@final
class ClearThinking(_Edit, frozen=True, tag="clear_thinking_20251015"):
    """Leaves out the thinking of older turns."""

    keep: ThinkingTurns | Literal["all"] | None = None
    """In how many of the last turns it stays."""


@final
class Compact(_Edit, frozen=True, tag="compact_20260112"):
    """Has the older conversation summarized; the summary comes in the answer and goes back with the history."""

    trigger: InputTokens | None = None
    """From when on; None: from 150,000 tokens on."""
    instructions: str | None = None
    """What the summary should hold besides."""
    pause_after_compaction: bool | None = None
    """Whether the turn pauses behind the summary."""


@final
class ContextManagement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How Anthropic edits the context before the model reads it; the history here stays as it is."""

    edits: tuple[ClearToolUses | ClearThinking | Compact, ...] = ()
    """The edits, in this order."""

    @property
    def betas(self) -> tuple[str, ...]:
        """The beta features that the edits need."""
        needed = ("compact-2026-01-12" if isinstance(edit, Compact) else _EDITING for edit in self.edits)
        return tuple(dict.fromkeys(needed)) or (_EDITING,)


@final
class Compaction(_Edit, frozen=True, tag="summarize"):
    """Has the whole conversation summarized, in place of an answer: the parts are one that holds the summary.

    A prompt that begins with it, in place of what it summarizes, goes on from there.
    """

    instructions: str | None = None
    """How to summarize, in place of Anthropic's own prompt for that."""


@final
class FallbackModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A model that answers if the requested model refuses, with values in place of the values of the request.

    A field that you leave out takes the value of the request, if the model accepts it. None stands for the default of
    the model.
    """

    model: str
    """The name of the model."""
    max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum number of tokens of the answer."""
    output_config: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """The format and the effort."""
    speed: Literal["standard", "fast"] | msgspec.UnsetType | None = msgspec.UNSET
    """The speed."""
    thinking: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """The thinking."""

    def __hash__(self) -> int:
        return hash(self.model)  # the rest is plain data


@final
class FallbackCredit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The credit of a refused request, for the request that repeats it on another model."""

    token: str
    """The `fallback_credit_token` in the `stop_details` of the refusal. It expires after five minutes."""
    mode: Literal["strict", "best_effort"] | None = None
    """`"best_effort"`: Anthropic answers also if the token fails. Default: the request fails with the token."""


_EDITING: Final = "context-management-2025-06-27"
_HEADERS: Final[Mapping[str, str]] = {
    "user_profile_id": "anthropic-user-profile-id",
    "workspace_id": "anthropic-workspace-id",
}
_APART: Final = {"betas", "extra_body", *_HEADERS}


@final
class RequestOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What `provider_options["anthropic"]` of a request may hold; it wins over the options that all providers share.

    Attributes:
        betas: Beta features that the request names.
        cache_control: Marks the last block of the request for the cache.
        compaction: Asks for a summary of the conversation, and for no answer; a beta, which is named.
        container: The container of an earlier response, by its id, or with skills.
        context_management: How the context is edited; its betas are named.
        diagnostics: Asks why the cache was missed.
        fallback_credit_token: The credit of a refused request; a beta, which is named.
        fallbacks: The models that answer in turn if this model refuses, or `"default"`; a beta, which is named.
        inference_geo: Where the model may run.
        mcp_servers: MCP servers that Anthropic asks; a beta, which is named.
        metadata: About the request, such as `{"user_id": …}`.
        output_config: Joined with the fields for `reasoning` and for the schema of the answer.
        service_tier: The tier of service.
        speed: `"fast"` for more tokens a second; some models want a beta for it.
        thinking: In place of the fields for `reasoning`.
        top_k: The number of tokens to sample from. fxai omits it with a warning if the model refuses it.
        top_p: The probability mass to sample from. fxai omits it with a warning if the model refuses it.
        user_profile_id: On whose behalf; a header.
        workspace_id: In which workspace; a header.
        extra_body: Anything else, merged into the request unchecked.
    """

    betas: tuple[str, ...] = ()
    cache_control: Ephemeral | None = None
    container: str | dict[str, Any] | None = None
    compaction: Compaction | None = None
    context_management: ContextManagement | None = None
    diagnostics: dict[str, Any] | None = None
    fallback_credit_token: str | FallbackCredit | None = None
    fallbacks: Literal["default"] | tuple[FallbackModel, ...] | None = None
    inference_geo: str | None = None
    mcp_servers: tuple[dict[str, Any], ...] | None = None
    metadata: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    speed: Literal["standard", "fast"] | None = None
    thinking: dict[str, Any] | None = None
    top_k: int | None = None
    top_p: float | None = None
    user_profile_id: str | None = None
    workspace_id: str | None = None
    extra_body: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.betas, self.service_tier, self.speed))  # the rest is plain data

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request that they set, plain, without `extra_body`."""
        fields = msgspec.to_builtins(self).items()
        return {name: value for name, value in fields if name not in _APART and value is not None and value != ()}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request that they set."""
        headers = {header: getattr(self, name) for name, header in _HEADERS.items()}
        return {header: value for header, value in headers.items() if value is not None}

    @property
    def all_betas(self) -> tuple[str, ...]:
        """The beta features to name: those of the option, and those that a field needs."""
        needed = (beta for name, beta in _BETAS.items() if getattr(self, name) not in (None, ()))
        edits = () if self.context_management is None else self.context_management.betas
        return tuple(dict.fromkeys((*self.betas, *needed, *edits)))


def options_of_request(options: Mapping[str, Any]) -> RequestOptions:
    """The options of a request for Anthropic, checked.

    Args:
        options: the options by provider.

    Raises:
        PreparationError: they are none, with the place and what belongs there.
    """
    remedy, where = "; extra_body takes any other field", f"provider_options[{NAME!r}]"
    found = checked_options(options.get(NAME, {}), RequestOptions, where, remedy)
    if found.fallbacks and found.fallback_credit_token is not None:
        problem = "Anthropic refuses fallbacks together with fallback_credit_token. Leave one of them out."
        raise PreparationError.of(where, problem)
    return found


def own_metadata(metadata: Metadata) -> Mapping[str, Any]:
    """Anthropic's own part of the metadata; empty where there is none.

    >>> own_metadata({"anthropic": {"signature": "S"}, "other": {}})
    {'signature': 'S'}
    """
    own = metadata.get(NAME)
    return own if is_object(own) else {}
