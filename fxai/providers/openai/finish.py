"""The finish reason, the token usage and the response metadata of an answer.

>>> finish_of(None, calls=True), finish_of("max_output_tokens", calls=True), chat_finish_of("stop", calls=False)
('tool-calls', 'length', 'stop')
>>> usage_of({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
Usage(input_tokens=9, output_tokens=2, cached_input_tokens=4)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fxai.messages.part import FinishReason, ResponseMetadata
from fxai.messages.usage import Usage
from fxai.providers.openai.metadata import mark
from fxai.schema.data import is_object

__all__ = ["chat_finish_of", "finish_of", "said_of", "usage_of"]

_CUT: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_messages": "other",
    "content_filter": "content-filter",
    "steered": "other",
}
_CHAT: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}


def finish_of(reason: object, *, calls: bool) -> FinishReason:
    """Why a turn of Responses ended: by `incomplete_details.reason`, and by whether it asks for calls."""
    if isinstance(reason, str) and reason in _CUT:
        return _CUT[reason]
    if calls:
        return "tool-calls"
    return "stop" if reason is None else "unknown"


def chat_finish_of(reason: object, *, calls: bool) -> FinishReason:
    """Why a turn of Chat Completions ended: by its `finish_reason`; some servers say `stop` beside calls."""
    known: FinishReason = _CHAT.get(reason, "unknown") if isinstance(reason, str) else "unknown"
    return "tool-calls" if calls and known in ("stop", "unknown") else known


def usage_of(usage: object) -> Usage:
    """The token counts of either API; None for each that is missing."""
    if not is_object(usage):
        return Usage()
    given = _details(usage, "input_tokens_details", "prompt_tokens_details")
    made = _details(usage, "output_tokens_details", "completion_tokens_details")
    return Usage(
        _count(usage, "input_tokens", "prompt_tokens"),
        _count(usage, "output_tokens", "completion_tokens"),
        _count(given, "cached_tokens"),
        _count(given, "cache_write_tokens"),
        _count(made, "reasoning_tokens"),
    )


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = usage.get(name)
        if is_object(found):
            return found
    return {}


def _count(said: Mapping[str, Any], *names: str) -> int | None:
    found = (said.get(name) for name in names)
    return next((count for count in found if isinstance(count, int) and not isinstance(count, bool)), None)


def said_of(reply: Mapping[str, Any], time: str) -> ResponseMetadata:
    """The metadata of an answer; `time` is the field that holds when it was made, in seconds since 1970."""
    tier, print_ = reply.get("service_tier"), reply.get("system_fingerprint")
    about = mark(service_tier=tier, system_fingerprint=print_)
    return ResponseMetadata(_text(reply, "id"), _text(reply, "model"), _moment(reply.get(time)), metadata=about)


def _text(reply: Mapping[str, Any], name: str) -> str | None:
    value = reply.get(name)
    return value if isinstance(value, str) and value else None


def _moment(seconds: object) -> datetime | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
