"""The checker of whole requests refuses each broken rule, and accepts a request that breaks none."""

from __future__ import annotations

from typing import Any, Final

from tests.kit.every import every
from tests.kit.floor import request_breaches

PNG: Final = "iVBORw0KGgowMDAw"
JPEG: Final = "/9j/4AAQSkZJRg=="
PDF: Final = "JVBERi0xLjcK"
_Body = dict[str, Any]

# -- OpenAI's Responses

USER: Final[_Body] = {"type": "message", "role": "user", "content": "Hi"}
SAID: Final[_Body] = {"type": "message", "role": "assistant", "content": "Yes."}
CALL: Final[_Body] = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
OUTPUT: Final[_Body] = {"type": "function_call_output", "call_id": "c", "output": "ok"}
THOUGHT: Final[_Body] = {"type": "reasoning", "id": "rs_1", "summary": []}


def _shows(*content: _Body) -> _Body:
    return {**USER, "content": list(content)}


def _image(label: str, data: str = PNG) -> _Body:
    return {"type": "input_image", "image_url": f"data:{label};base64,{data}"}


RESPONSES: Final[dict[str, tuple[list[_Body], str]]] = {
    "no input": ([], "no input"),
    "a half": ([{**USER, "content": "\ud83d"}], "half a surrogate pair"),
    "a half in a key": ([USER, {**SAID, "\ud83d": 1}], "half a surrogate pair"),
    "an item id": ([USER, {**SAID, "id": "msg|1"}], "the item id"),
    "an item id twice": ([USER, {**SAID, "id": "m"}, USER, {**SAID, "id": "m"}], "the item id 'm' twice"),
    "a long item id": ([USER, {**SAID, "id": "m" * 65}], "the item id"),
    "a name": ([USER, {**CALL, "name": "a.b"}, OUTPUT], "the name"),
    "an empty name": ([USER, {**CALL, "name": ""}, OUTPUT], "the name"),
    "a long call id": ([USER, {**CALL, "call_id": "c" * 65}, {**OUTPUT, "call_id": "c" * 65}], "the call id"),
    "an empty call id": ([USER, {**CALL, "call_id": ""}, {**OUTPUT, "call_id": ""}], "the call id"),
    "a call id twice": ([USER, CALL, OUTPUT, CALL, OUTPUT], "twice"),
    "arguments": ([USER, {**CALL, "arguments": "{"}, OUTPUT], "the arguments"),
    "a call alone": ([USER, CALL], "has no output"),
    "an output alone": ([USER, OUTPUT], "an output without its call"),
    "an output of another kind": ([USER, CALL, {**OUTPUT, "type": "custom_tool_call_output"}], "an output without"),
    "a second output": ([USER, CALL, OUTPUT, OUTPUT], "a second output"),
    "an empty output": ([USER, CALL, {**OUTPUT, "output": []}], "no content"),
    "reasoning at the end": ([USER, THOUGHT], "reasoning alone"),
    "reasoning before a user": ([USER, THOUGHT, USER], "reasoning alone"),
    "reasoning before an output": ([USER, CALL, THOUGHT, OUTPUT], "reasoning alone"),
    "an approval": ([USER, {"type": "mcp_approval_response", "approval_request_id": "m"}], "an approval of nothing"),
    "a role": ([{**USER, "role": "tool"}], "the role"),
    "a user without content": ([_shows()], "no content"),
    "a turn without content": ([USER, {**SAID, "content": []}], "the content"),
    "a turn with input": ([USER, {**SAID, "content": [{"type": "input_text", "text": "x"}]}], "the content"),
    "a sound": ([_shows({"type": "input_audio"})], "the content"),
    "a drawing": ([_shows(_image("image/svg+xml"))], "the media type"),
    "a wrong label": ([_shows(_image("image/png", JPEG))], "labelled"),
    "an empty image": ([_shows(_image("image/png", ""))], "an empty file"),
    "an image without base64": ([_shows({"type": "input_image", "image_url": "data:image/png,x"})], "without base64"),
    "an image as a file": ([_shows({"type": "input_file", "file_data": f"data:image/png;base64,{PNG}"})], "the media"),
}


@every(("items", "why"), RESPONSES.values(), ids=RESPONSES.keys())
def test_a_request_to_responses_is_refused(items: list[_Body], why: str) -> None:
    """Each broken rule is one sentence."""
    found = request_breaches({"input": items}, "responses")

    assert any(why in one for one in found), found


def test_a_request_to_responses_is_accepted() -> None:
    """Every kind of item that breaks no rule."""
    items = [
        USER,
        THOUGHT,
        {**THOUGHT, "id": "rs_2"},
        CALL,
        OUTPUT,
        SAID,
        _shows(_image("image/png")),
        {**THOUGHT, "id": "rs_3"},
        SAID,
    ]

    assert request_breaches({"input": items}, "responses") == []


# -- OpenAI's Chat Completions

CHAT_USER: Final[_Body] = {"role": "user", "content": "Hi"}
CHAT_CALL: Final[_Body] = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT_TURN: Final[_Body] = {"role": "assistant", "tool_calls": [CHAT_CALL]}
CHAT_RESULT: Final[_Body] = {"role": "tool", "tool_call_id": "c", "content": "ok"}


def _turn(**changes: Any) -> _Body:
    return {"role": "assistant", "tool_calls": [{**CHAT_CALL, **changes}]}


def _chat_file(data: str) -> _Body:
    return {"role": "user", "content": [{"type": "file", "file": {"filename": "a", "file_data": data}}]}


def _chat_image(url: str) -> _Body:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


LONG: Final = "c" * 65
CHAT: Final[dict[str, tuple[list[_Body], str]]] = {
    "no messages": ([], "no messages"),
    "a half": ([{**CHAT_USER, "content": "\ud83d"}], "half a surrogate pair"),
    "a role": ([{"role": "function", "content": "x"}], "the role"),
    "a turn without content": ([CHAT_USER, {"role": "assistant", "reasoning_content": "x"}], "without content"),
    "an empty turn": ([CHAT_USER, {"role": "assistant", "content": ""}], "without content"),
    "thinking": ([CHAT_USER, {"role": "assistant", "content": [{"type": "thinking"}]}], "the content"),
    "a name": ([CHAT_USER, _turn(function={"name": "a.b", "arguments": "{}"}), CHAT_RESULT], "the name"),
    "arguments": ([CHAT_USER, _turn(function={"name": "a", "arguments": "{"}), CHAT_RESULT], "the arguments"),
    "a long call id": ([CHAT_USER, _turn(id=LONG), {**CHAT_RESULT, "tool_call_id": LONG}], "the call id"),
    "a call id twice": ([CHAT_USER, CHAT_TURN, CHAT_RESULT, CHAT_TURN, CHAT_RESULT], "twice"),
    "a call alone": ([CHAT_USER, CHAT_TURN], "have no results"),
    "a message between": ([CHAT_USER, CHAT_TURN, CHAT_USER, CHAT_RESULT], "have no results"),
    "a result alone": ([CHAT_USER, CHAT_RESULT], "a result without its call"),
    "a second result": ([CHAT_USER, CHAT_TURN, CHAT_RESULT, CHAT_RESULT], "a result without its call"),
    "a picture in a result": ([CHAT_USER, CHAT_TURN, {**CHAT_RESULT, "content": [{"type": "image_url"}]}], "content"),
    "a user without content": ([{**CHAT_USER, "content": []}], "no content"),
    "a text document": ([_chat_file("data:text/csv;base64,YSxi")], "the media type"),
    "the address of a file": ([_chat_file("https://example.org/a.pdf")], "the URL"),
    "a wrong label": ([_chat_image(f"data:image/png;base64,{JPEG}")], "labelled"),
    "a drawing": ([_chat_image(f"data:image/svg+xml;base64,{PNG}")], "the media type"),
    "a film": ([{**CHAT_USER, "content": [{"type": "video_url"}]}], "the content"),
}


@every(("messages", "why"), CHAT.values(), ids=CHAT.keys())
def test_a_request_to_chat_completions_is_refused(messages: list[_Body], why: str) -> None:
    """Each broken rule is one sentence."""
    found = request_breaches({"messages": messages}, "chat")

    assert any(why in one for one in found), found


def test_a_sound_of_another_form_is_refused() -> None:
    """Chat Completions reads WAV and MP3."""
    sound = {"type": "input_audio", "input_audio": {"data": "x", "format": "flac"}}

    assert request_breaches({"messages": [{**CHAT_USER, "content": [sound]}]}, "chat") == [
        "messages/0: the sound 'flac'"
    ]


def test_a_request_to_chat_completions_is_accepted() -> None:
    """Every kind of message that breaks no rule; a compatible server also reads its own thinking."""
    files = [_chat_file(f"data:application/pdf;base64,{PDF}"), _chat_image(f"data:image/jpeg;base64,{JPEG}")]
    messages = [{"role": "system", "content": "x"}, CHAT_USER, CHAT_TURN, CHAT_RESULT, *files]
    thinking = {"role": "assistant", "content": [{"type": "thinking"}]}

    assert request_breaches({"messages": messages}, "chat") == []
    assert request_breaches({"messages": [CHAT_USER, thinking]}, "chat", compatible=True) == []


# -- Anthropic's Messages


def _user(*content: _Body) -> _Body:
    return {"role": "user", "content": list(content)}


def _assistant(*content: _Body) -> _Body:
    return {"role": "assistant", "content": list(content)}


TEXT: Final[_Body] = {"type": "text", "text": "Hi"}
USE: Final[_Body] = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
RESULT: Final[_Body] = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
THINKING: Final[_Body] = {"type": "thinking", "thinking": "x", "signature": "S"}
MARK: Final[_Body] = {"cache_control": {"type": "ephemeral"}}
HOUR: Final[_Body] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def _file(kind: str, media_type: str, data: str) -> _Body:
    return _user({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}})


ASKED: Final = _user(TEXT)
MESSAGES: Final[dict[str, tuple[list[_Body], str]]] = {
    "no messages": ([], "no messages"),
    "a half": ([_user({**TEXT, "text": "\ud83d"})], "half a surrogate pair"),
    "no content": ([_user()], "no content"),
    "a role": ([{"role": "tool", "content": [TEXT]}], "the role"),
    "an empty text": ([_user(TEXT, {"type": "text", "text": " "})], "an empty text"),
    "an empty text in a result": (
        [ASKED, _assistant(USE), _user({**RESULT, "content": [{"type": "text", "text": ""}]})],
        "an empty text",
    ),
    "a call id": ([ASKED, _assistant({**USE, "id": "a|b"}), _user({**RESULT, "tool_use_id": "a|b"})], "the call id"),
    "a hosted call id": ([ASKED, _assistant({**USE, "type": "server_tool_use", "id": "a.b"}), ASKED], "the call id"),
    "a name": ([ASKED, _assistant({**USE, "name": "a.b"}), _user(RESULT)], "the name"),
    "a long name": ([ASKED, _assistant({**USE, "name": "n" * 129}), _user(RESULT)], "the name"),
    "an input": ([ASKED, _assistant({**USE, "input": None}), _user(RESULT)], "the input"),
    "a call id twice": ([ASKED, *2 * [_assistant(USE), _user(RESULT)]], "twice"),
    "a call alone": ([ASKED, _assistant(USE)], "have no results"),
    "a call whose result is later": ([ASKED, _assistant(USE), ASKED, _user(RESULT)], "the results"),
    "a result alone": ([ASKED, _user(RESULT)], "the results"),
    "a second result": ([ASKED, _assistant(USE), _user(RESULT, RESULT)], "the results"),
    "content before a result": ([ASKED, _assistant(USE), _user(TEXT, RESULT)], "content before a result"),
    "thinking at the end": ([ASKED, _assistant(TEXT, THINKING), ASKED], "thinking at the end"),
    "thinking unsigned": ([ASKED, _assistant({**THINKING, "signature": ""}, TEXT), ASKED], "without a signature"),
    "redacted thinking": ([ASKED, _assistant({"type": "redacted_thinking"}, TEXT), ASKED], "thinking without data"),
    "a prefill": ([ASKED, _assistant(TEXT)], "an assistant message at the end"),
    "space at the end": ([ASKED, _assistant({**TEXT, "text": "Hi "})], "space at the end"),
    "a wrong label": ([_file("image", "image/png", JPEG)], "labelled"),
    "a drawing": ([_file("image", "image/svg+xml", PNG)], "the media type"),
    "an image as a document": ([_file("document", "image/png", PNG)], "the media type"),
    "a document as an image": ([_file("image", "application/pdf", PDF)], "the media type"),
    "an empty file": ([_file("image", "image/png", "")], "an empty file"),
    "a text as an image": ([_user({"type": "image", "source": {"type": "text", "data": "x"}})], "the source"),
    "a text of another type": (
        [_user({"type": "document", "source": {"type": "text", "media_type": "text/csv", "data": "x"}})],
        "the media type",
    ),
    "a reference": ([_user({"type": "tool_reference", "tool_name": "gone"})], "a reference"),
    "five marks": ([_user(*5 * [{**TEXT, **MARK}])], "5 marks"),
    "a mark that lives longer": ([_user({**TEXT, **MARK}, {**TEXT, **HOUR})], "outlives"),
    "a system message at the start": ([{"role": "system", "content": [TEXT]}, ASKED], "a system message between"),
    "a system message before a user": ([ASKED, {"role": "system", "content": [TEXT]}, ASKED], "a system message"),
}


@every(("messages", "why"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_request_to_messages_is_refused(messages: list[_Body], why: str) -> None:
    """Each broken rule is one sentence."""
    found = request_breaches({"messages": messages}, "messages")

    assert any(why in one for one in found), found


TOOL: Final[_Body] = {"name": "look", "input_schema": {"type": "object"}}
FIELDS: Final[dict[str, tuple[_Body, str]]] = {
    "an empty system text": ({"system": [{"type": "text", "text": ""}]}, "an empty text"),
    "a choice": ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "gone"}}, "the choice names"),
    "a forced call": (
        {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "enabled"}},
        "a forced call",
    ),
    "a mark on a deferred tool": ({"tools": [TOOL, {**TOOL, "name": "b", "defer_loading": True, **MARK}]}, "deferred"),
    "all tools deferred": ({"tools": [{**TOOL, "defer_loading": True}]}, "all tools are deferred"),
    "the name of a tool": ({"tools": [{**TOOL, "name": "a.b"}]}, "the name"),
}


@every(("fields", "why"), FIELDS.values(), ids=FIELDS.keys())
def test_fields_of_a_request_to_messages_are_refused(fields: _Body, why: str) -> None:
    """Also next to valid messages."""
    found = request_breaches({"messages": [ASKED], **fields}, "messages")

    assert any(why in one for one in found), found


def test_a_turn_with_calls_starts_with_thinking_under_a_budget() -> None:
    """The API wants the thinking of the turn whose results it receives."""
    messages = [ASKED, _assistant(USE), _user(RESULT)]
    thought = [ASKED, _assistant(THINKING, USE), _user(RESULT)]

    assert request_breaches({"messages": messages, "thinking": {"type": "enabled"}}, "messages") != []
    assert request_breaches({"messages": thought, "thinking": {"type": "enabled"}}, "messages") == []


def test_a_request_to_messages_is_accepted() -> None:
    """Every kind of block that breaks no rule, and a prefill if the model accepts it."""
    system = {"role": "system", "content": [TEXT]}
    files = [_file("image", "image/png", PNG), _file("document", "application/pdf", PDF)]
    messages = [ASKED, _assistant(THINKING, TEXT, USE), _user(RESULT, TEXT), system, _assistant(TEXT), *files]

    assert request_breaches({"messages": messages, "tools": [TOOL]}, "messages") == []
    assert request_breaches({"messages": [ASKED, _assistant(TEXT)]}, "messages", prefill=True) == []
    assert request_breaches({"messages": messages}, "messages", system_between=False) != []
