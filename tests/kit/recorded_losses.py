"""What the replay of recorded answers may lose or change, place by place, each with its reason.

A place stands for all below it. A reason that no recording needs is a fault as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

__all__ = ["APART", "CHANGED", "ERRORS", "FOREIGN", "LOST", "OTHERS", "UNHEARD", "unexplained", "unneeded"]

Reasons: TypeAlias = Mapping[str, str]
"""From a place to why it may be lost there."""

_ONLY_VALUE: Final = "it has one value only"
_EDITED: Final = "edited by hand: the pieces of the stream are not what it says at its end"
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
        "~image_generation_call:/id": "OpenAI refuses ids of more than 64 characters",
    },
    "chat": {
        "+message:/role": "a stream may never name it",
        "+message:/tool_calls/*/type": "Mistral leaves it out, and the API has it",
        "-message:/tool_calls/*/index": "it is a place in a stream",
        "+message": "calls that Groq refused are the model's turn",
        "+message:/tool_calls": "calls that Groq refused are the model's turn",
        "-message:/annotations": "pages that were cited are sources, which are told to the reader",
        "-message:/audio/expires_at": "the place of a sound, and there is none",
        "-message:/channel": "Groq writes it, and its API takes none",
        "-message:/executed_tools": "Groq writes it, and its API takes none",
        "-message:/reasoning": "OpenRouter says the same in `reasoning_details`, which go back",
        "-message:/reasoning_content": "Azure and xAI write it, and their APIs take none",
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
        "-message:/content": "the recorded client writes reasoning into the text",
        "~message:/content": "the recorded client writes reasoning into the text",
        "~message:/tool_calls/*/id": "of calls that Groq refused each client makes up ids",
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
    "chat": {"chunk:/id": "the chunks of Groq's compound models have an id each: the first one stands"},
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
    "chat": {"message": "Mistral's content has thoughts in it"},
}
"""Items that the official SDK's types do not take."""

APART: Final[Mapping[str, Reasons]] = {
    "anthropic": {},
    "responses": {"packages/openai/src/responses/__fixtures__/openai-shell-container.1.chunks.txt": _EDITED},
    "chat": {
        "packages/openai/src/chat/__fixtures__/azure-model-router.1.chunks.txt": (
            "its first chunk holds a filter alone, so that the metadata of the response comes once more"
        ),
        "tests/models/cassettes/test_openrouter/test_openrouter_web_search_annotations_stream.yaml": (
            "its sources come before its text"
        ),
    },
}
"""Recorded streams that do not give the parts of the answer that they stand for."""


ERRORS: Final[Mapping[str, Reasons]] = {
    "anthropic": {"/type": _ONLY_VALUE},
    "responses": {
        "/error/type": "the code says it, or the status",
        "/error/param": "a model that there is none of names itself",
    },
    "chat": {
        "/error/type": "the code says it, or the status",
        "/user_id": "who asks knows it",
    },
}
"""Leaves of errors, answered with a status of 400 and above, that the failure does not hold."""


def _covers(location: str, found: str) -> bool:
    return found == location or found.startswith((f"{location}/", f"{location}:"))


def unexplained(found: Iterable[str], reasons: Reasons) -> list[str]:
    """What was found without a reason."""
    return sorted(one for one in found if not any(_covers(location, one) for location in reasons))


def unneeded(found: Iterable[str], reasons: Reasons) -> list[str]:
    """The reasons for what was not found."""
    known = list(found)
    return sorted(location for location in reasons if not any(_covers(location, one) for one in known))
