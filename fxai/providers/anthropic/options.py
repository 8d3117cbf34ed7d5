"""Options that only Anthropic supports. Set them as `provider_options["anthropic"]` of a request.

>>> options_of_request({"anthropic": {"service_tier": "auto"}}).fields
{'service_tier': 'auto'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, final

import msgspec

from fxai.messages.message import Metadata
from fxai.models.prepared_tools import PreparationError, checked_options
from fxai.schema.data import JsonObject, is_object

NAME: Final = "anthropic"
"""The name of the provider, in metadata and options."""

FALLBACK_BETA: Final = "server-side-fallback-2026-07-01"
"""The beta feature of `fallbacks`, and of a `fallback` block in the history."""

_BETAS: Final[Mapping[str, str]] = {
    "mcp_servers": "mcp-client-2025-11-20",
    "compaction": "compact-2026-09-04",
    "fallbacks": FALLBACK_BETA,
    "fallback_credit_token": "fallback-credit-2026-07-01",
}


class Ephemeral(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="ephemeral"):
    """A mark for the cache and its lifetime. By default the lifetime of the provider."""

    ttl: Literal["5m", "1h"] | None = None


class _Edit(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"
):
    """An element of the options for the context. fxai does not send None, so that Anthropic uses its default."""


@final
class InputTokens(_Edit, frozen=True, tag="input_tokens"):
    """A number of tokens of the prompt."""

    value: int


@final
class ToolUses(_Edit, frozen=True, tag="tool_uses"):
    """A number of tool calls."""

    value: int


@final
class ThinkingTurns(_Edit, frozen=True, tag="thinking_turns"):
    """A number of turns with thinking."""

    value: int


@final
class ClearToolUses(_Edit, frozen=True, tag="clear_tool_uses_20250919"):
    """An edit that removes the results of old calls, and optionally their parameters."""

    trigger: InputTokens | ToolUses | None = None
    """The size that starts the edit. By default 100,000 tokens."""
    keep: ToolUses | None = None
    """The number of recent calls that remain. By default 3."""
    clear_at_least: InputTokens | None = None
    """The minimum size to remove, because every edit loses the cache after it. By default any size."""
    clear_tool_inputs: bool | tuple[str, ...] | None = None
    """True to remove the parameters too, or the names of the tools whose parameters to remove."""
    exclude_tools: tuple[str, ...] | None = None
    """The tools whose calls remain."""


@final
class ClearThinking(_Edit, frozen=True, tag="clear_thinking_20251015"):
    """An edit that removes the thinking of old turns."""

    keep: ThinkingTurns | Literal["all"] | None = None
    """The number of recent turns whose thinking remains."""


@final
class Compact(_Edit, frozen=True, tag="compact_20260112"):
    """An edit that summarizes the older conversation. The summary is part of the answer and of the history."""

    trigger: InputTokens | None = None
    """The size that starts the edit. By default 150,000 tokens."""
    instructions: str | None = None
    """Additional instructions for the summary."""
    pause_after_compaction: bool | None = None
    """True if the turn pauses after the summary."""


@final
class ContextManagement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The edits that Anthropic applies to the context before the model reads it. The local history is unchanged."""

    edits: tuple[ClearToolUses | ClearThinking | Compact, ...] = ()
    """The edits, in this order."""

    @property
    def betas(self) -> tuple[str, ...]:
        """The beta features that the edits need."""
        needed = ("compact-2026-01-12" if isinstance(edit, Compact) else _EDITING for edit in self.edits)
        return tuple(dict.fromkeys(needed)) or (_EDITING,)


@final
class Summarize(_Edit, frozen=True, tag="summarize"):
    """A request to summarize the whole conversation instead of answering. The answer has one part with the summary.

    To continue, start a prompt with this part instead of the summarized messages.
    """

    instructions: str | None = None
    """Instructions for the summary, which replace Anthropic's prompt."""


@final
class FallbackModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A model that answers if the requested model refuses. Its values replace the values of the request.

    A field that you omit has the value of the request if the model accepts it. None means the default of the model.
    """

    model: str
    """The name of the model."""
    max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    """The maximum number of tokens of the answer."""
    output_config: JsonObject | msgspec.UnsetType | None = msgspec.UNSET
    """The format and the effort."""
    speed: Literal["standard", "fast"] | msgspec.UnsetType | None = msgspec.UNSET
    """The speed."""
    thinking: JsonObject | msgspec.UnsetType | None = msgspec.UNSET
    """The thinking."""

    def __hash__(self) -> int:
        return hash(self.model)  # the other fields are not hashable


@final
class FallbackCredit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The credit of a refused request, for the request that repeats it on another model."""

    token: str
    """The `fallback_credit_token` in the `stop_details` of the refusal. It expires after five minutes."""
    mode: Literal["strict", "best_effort"] | None = None
    """`"best_effort"`: Anthropic also answers if the token is invalid. By default the request then fails."""


_EDITING: Final = "context-management-2025-06-27"
_HEADERS: Final[Mapping[str, str]] = {
    "user_profile_id": "anthropic-user-profile-id",
    "workspace_id": "anthropic-workspace-id",
}
_APART: Final = {"betas", "extra_body", *_HEADERS}


@final
class RequestOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The fields of `provider_options["anthropic"]` of a request. They replace the options that all providers share."""

    betas: tuple[str, ...] = ()
    """Beta features of the request."""
    cache_control: Ephemeral | None = None
    """A mark for the cache on the last block of the request."""
    container: str | JsonObject | None = None
    """The container of an earlier response, by its id, or with skills."""
    compaction: Summarize | None = None
    """A request for a summary of the conversation instead of an answer. fxai adds its beta feature."""
    context_management: ContextManagement | None = None
    """The edits of the context. fxai adds their beta features."""
    diagnostics: JsonObject | None = None
    """A request for the reasons of cache misses."""
    fallback_credit_token: str | FallbackCredit | None = None
    """The credit of a refused request. fxai adds its beta feature."""
    fallbacks: Literal["default"] | tuple[FallbackModel, ...] | None = None
    """The models to try if this model refuses, or `"default"`. fxai adds the beta feature."""
    inference_geo: str | None = None
    """The permitted region of the model."""
    mcp_servers: tuple[JsonObject, ...] | None = None
    """MCP servers that Anthropic calls. fxai adds the beta feature."""
    metadata: JsonObject | None = None
    """Data about the request, such as `{"user_id": …}`."""
    output_config: JsonObject | None = None
    """Fields that fxai merges with the fields for `reasoning` and for the schema of the answer."""
    service_tier: Literal["auto", "standard_only"] | None = None
    """The tier of service."""
    speed: Literal["standard", "fast"] | None = None
    """`"fast"` for more tokens per second. Some models require a beta feature."""
    thinking: JsonObject | None = None
    """The thinking fields, which replace the fields for `reasoning`."""
    top_k: int | None = None
    """The number of tokens to sample from. fxai omits it with a warning if the model rejects it."""
    top_p: float | None = None
    """The probability mass to sample from. fxai omits it with a warning if the model rejects it."""
    user_profile_id: str | None = None
    """The user of the request, as a header."""
    workspace_id: str | None = None
    """The workspace of the request, as a header."""
    extra_body: JsonObject = {}
    """Any other fields. fxai merges them into the request without a check."""

    def __hash__(self) -> int:
        return hash((self.betas, self.service_tier, self.speed))  # the other fields are not hashable

    @property
    def fields(self) -> JsonObject:
        """The fields of the request from these options as plain data, without `extra_body`."""
        fields = msgspec.to_builtins(self).items()
        return {name: value for name, value in fields if name not in _APART and value is not None and value != ()}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request from these options."""
        headers = {header: getattr(self, name) for name, header in _HEADERS.items()}
        return {header: value for header, value in headers.items() if value is not None}

    @property
    def all_betas(self) -> tuple[str, ...]:
        """The beta features of the request: the option `betas`, and the features that other fields require."""
        needed = (beta for name, beta in _BETAS.items() if getattr(self, name) not in (None, ()))
        edits = () if self.context_management is None else self.context_management.betas
        return tuple(dict.fromkeys((*self.betas, *needed, *edits)))


def options_of_request(options: Mapping[str, Any]) -> RequestOptions:
    """Return the checked options of a request for Anthropic.

    Args:
        options: The options by provider.

    Raises:
        PreparationError: If the options are invalid. The error contains the location and the expected value.
    """
    remedy, where = ". Set other fields with extra_body.", f"provider_options[{NAME!r}]"
    found = checked_options(options.get(NAME, {}), RequestOptions, where, remedy)
    if found.fallbacks and found.fallback_credit_token is not None:
        problem = "Anthropic rejects fallbacks together with fallback_credit_token. Remove one of them."
        raise PreparationError.of(where, problem)
    return found


def own_metadata(metadata: Metadata) -> Mapping[str, Any]:
    """Return Anthropic's part of the metadata, or an empty mapping.

    >>> own_metadata({"anthropic": {"signature": "S"}, "other": {}})
    {'signature': 'S'}
    """
    own = metadata.get(NAME)
    return own if is_object(own) else {}
