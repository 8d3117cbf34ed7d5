"""What the replay of recorded answers may lose or change, place by place, each with its reason.

A place stands for all below it. A reason that no recording needs is a fault as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

__all__ = ["APART", "CHANGED", "FOREIGN", "LOST", "OTHERS", "UNHEARD", "unexplained", "unneeded"]

Reasons: TypeAlias = Mapping[str, str]
"""From a place to why it may be lost there."""

_ONLY_VALUE: Final = "it has one value only"
_EDITED: Final = "edited by hand: the pieces of the stream are not what it says at its end"
_UNREAD: Final = "not read yet"
_ECHO: Final = "it repeats the request, or says the default in its place"

LOST: Final[Mapping[str, Reasons]] = {
    "anthropic": {"/type": _ONLY_VALUE, "/role": _ONLY_VALUE},
    "responses": {
        "/object": _ONLY_VALUE,
        "/output/*/role": _ONLY_VALUE,
        "/output/*/summary/*/type": _ONLY_VALUE,
        "/output/*/content/*/type": "of reasoning it has one value only; of messages it is held",
        "/output/*/execution": "whether the provider ran it is told by `provider_executed`",
        "/status": "completed, incomplete and failed show in the reason of the finish, or the failure",
        **dict.fromkeys(
            (
                *("/background", "/frequency_penalty", "/instructions", "/max_output_tokens", "/parallel_tool_calls"),
                *("/presence_penalty", "/previous_response_id", "/prompt_cache_key", "/prompt_cache_options"),
                *("/prompt_cache_retention", "/reasoning", "/store", "/temperature", "/text", "/tool_choice", "/tools"),
                *("/top_logprobs", "/top_p", "/truncation"),
            ),
            _ECHO,
        ),
    },
    "chat": {
        "/object": _ONLY_VALUE,
        "/choices/*/message/role": _ONLY_VALUE,
        "/choices/*/index": "one answer is asked for",
        "/obfuscation": "it hides the length of the pieces of a stream, and is random",
        "/choices/*/message/tool_calls/*/index": "it orders the calls, and so do the parts",
        "/choices/*/message/tool_calls/*/type": "a call is of a function where it has one",
        "/choices/*/content_filter_results": _UNREAD,
        "/choices/*/finish_reason": _UNREAD,
        "/choices/*/matched_stop": _UNREAD,
        "/choices/*/message/annotations": _UNREAD,
        "/choices/*/message/channel": _UNREAD,
        "/choices/*/message/content": _UNREAD,
        "/choices/*/message/executed_tools": _UNREAD,
        "/choices/*/message/reasoning_details": _UNREAD,
        "/choices/*/message/tool_calls": _UNREAD,
        "/choices/*/native_finish_reason": _UNREAD,
        "/choices/*/seed": _UNREAD,
        "/choices/*/stop_reason": _UNREAD,
        "/citations": _UNREAD,
        "/metadata": _UNREAD,
        "/prompt_filter_results": _UNREAD,
        "/provider": _UNREAD,
        "/request_id": _UNREAD,
        "/service_tier": _UNREAD,
        "/sla_metrics": _UNREAD,
        "/system_fingerprint": _UNREAD,
        "/time_info": _UNREAD,
        "/usage": _UNREAD,
        "/usage_breakdown": _UNREAD,
        "/x_groq": _UNREAD,
    },
}
"""Leaves of answers that no part holds."""

CHANGED: Final[Mapping[str, Reasons]] = {
    "anthropic": {},
    "responses": {
        "+shell_call_output": "the answer to a call",
        "+tool_search_output": "the answer to a call",
        "-function_call:/status": "completed is the default",
        "-reasoning:/status": "completed is the default",
        "-shell_call:/status": "completed is the default",
        "-tool_search_call:/status": "completed is the default",
        "~message:/content": _EDITED,
    },
    "chat": {
        "+message:/role": "a stream may never name it",
        "+message:/tool_calls/*/type": "Mistral leaves it out, and the API has it",
        "-message:/tool_calls/*/index": "it is a place in a stream",
        "-message": _UNREAD,
        "-message:/annotations": _UNREAD,
        "-message:/audio": _UNREAD,
        "-message:/channel": _UNREAD,
        "-message:/executed_tools": _UNREAD,
        "-message:/reasoning_details": _UNREAD,
        "-message:/tool_calls": _UNREAD,
        "~message:/tool_calls": _UNREAD,
    },
}
"""Where the items of an answer go back in another form: `-` missing, `+` added, `~` another value."""

_MORE: Final = "more of the answer goes back than the recorded client sent"

OTHERS: Final[Mapping[str, Reasons]] = {
    "anthropic": {"+tool_use:/caller": _MORE},
    "responses": {
        "+code_interpreter_call:/outputs": _MORE,
        "+file_search_call": _MORE,
        "+function_call:/id": _MORE,
        "+message:/content/*/annotations": _MORE,
        "+message:/id": _MORE,
        "+message:/status": _MORE,
        "+tool_search_call": _MORE,
        "+tool_search_output": _MORE,
        "+web_search_call:/action/sources": _MORE,
        "-function_call:/namespace": "the recorded client adds one to calls of tools that were found by a search",
        "-message": "the recorded client had merged turns",
        "-tool_search_call:/arguments": "the recorded client writes its own form of the arguments",
        "-tool_search_call:/call_id": "the recorded client makes one up",
        "-tool_search_call:/status": "completed is the default",
        "-tool_search_output": "the recorded client had found other tools than the replay",
        "~function_call:/call_id": "the recorded client renames ids that a server used twice",
        "~message:/content/*/text": "the next message of the recorded client",
    },
    "chat": {
        "+message:/reasoning": _MORE,
        "-message:/prefix": "Mistral's default",
        "-message:/tool_calls/*/index": "it is a place in a stream",
        "-message:/content": _UNREAD,
        "-message:/tool_calls": _UNREAD,
        "~message:/tool_calls": _UNREAD,
        "~message:/content": "the recorded client writes reasoning into the text",
    },
}
"""Where the recorded next request has the answer in another form than ours: `-` is missing in ours."""

UNHEARD: Final[Mapping[str, Reasons]] = {
    "anthropic": {},
    "responses": {
        "response.created:/response/service_tier": "the tier that served is said at the end",
        "response.in_progress:/response/service_tier": "the tier that served is said at the end",
        "response.completed:/response/output/*/encrypted_content": "it is another one each time it is said",
        "response.completed:/response/output/*/fingerprint": "it is another one each time it is said",
        "response.output_item.added:/item/encrypted_content": "it is another one each time it is said",
        "response.output_item.added:/item/fingerprint": "it is another one each time it is said",
        "response.output_text.delta:/delta": _EDITED,
    },
    "chat": {"chunk:/id": _UNREAD},
}
"""Leaves of a stream's events that are not in the answer that it stands for."""

FOREIGN: Final[Mapping[str, Reasons]] = {
    "anthropic": {},
    "responses": {
        "code_interpreter_call": "xAI's form has other fields, and goes back as it came",
        "image_generation_call": "xAI's form has other fields, and goes back as it came",
        "message": "xAI's form has other fields, and goes back as it came",
        "web_search_call": "answers have sources of a type that requests have not; it goes back as it came",
        "x_search_call": "xAI's own item, which goes back as it came",
    },
    "chat": {"message": _UNREAD},
}
"""Items that the official SDK's types do not take."""

APART: Final[Mapping[str, Reasons]] = {
    "anthropic": {},
    "responses": {"packages/openai/src/responses/__fixtures__/openai-shell-container.1.chunks.txt": _EDITED},
    "chat": {
        "packages/openai/src/chat/__fixtures__/azure-model-router.1.chunks.txt": (
            "its first chunk holds a filter alone, so that the metadata of the response comes once more"
        ),
        "tests/models/cassettes/test_openrouter/test_openrouter_web_search_annotations_stream.yaml": _UNREAD,
    },
}
"""Recorded streams that do not give the parts of the answer that they stand for."""


def _covers(place: str, found: str) -> bool:
    return found == place or found.startswith((f"{place}/", f"{place}:"))


def unexplained(found: Iterable[str], reasons: Reasons) -> list[str]:
    """What was found without a reason."""
    return sorted(one for one in found if not any(_covers(place, one) for place in reasons))


def unneeded(found: Iterable[str], reasons: Reasons) -> list[str]:
    """The reasons for what was not found."""
    known = list(found)
    return sorted(place for place in reasons if not any(_covers(place, one) for one in known))
