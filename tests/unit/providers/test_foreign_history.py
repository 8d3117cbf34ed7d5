"""Histories of other providers, of models that invent names, of cut turns, and of clients, on each wire."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from fxai.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    WarningPart,
)
from fxai.models import ModelRequest, PreparationError
from fxai.providers import anthropic, openai
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.floor import request_breaches
from tests.kit.floor_schema import Wire

HI, GO_ON = UserMessage.make("Hi"), UserMessage.make("Go on.")
_Sent = tuple[dict[str, Any], Sequence[WarningPart]]


def _messages(request: ModelRequest) -> _Sent:
    sent = anthropic.prepare_request(request, model="claude-sonnet-5")
    return sent.body, sent.warnings


def _responses(request: ModelRequest) -> _Sent:
    sent = openai.prepare_request(request, model="gpt-5.5")
    return sent.body, sent.warnings


def _chat(request: ModelRequest) -> _Sent:
    profile = openai.Profile("chat", server=openai.server_at("https://api.openai.com/v1"))
    sent = openai.prepare_request(request, model="gpt-4o", profile=profile)
    return sent.body, sent.warnings


WIRES: Final[dict[Wire, Callable[[ModelRequest], _Sent]]] = {
    "messages": _messages,
    "responses": _responses,
    "chat": _chat,
}


def _send(wire: Wire, *messages: Message, tools: Sequence[Any] = ()) -> _Sent:
    prompt = Prompt(messages)
    before = prompt.messages
    body, warnings = WIRES[wire](ModelRequest(prompt, tuple(tools)))

    assert prompt.messages == before
    assert request_breaches(body, wire, system_between=False) == []
    return body, warnings


def _changes(warnings: Sequence[WarningPart]) -> list[str]:
    return [one.message for one in warnings if one.kind == "history"]


def _called(id_: str, name: str, result: Any = "ok", **options: Any) -> list[Message]:
    call, answer = ToolCallPart(id_, name, {"a": 1}, **options), ToolResultPart(id_, name, result)
    return [HI, AssistantMessage.make(call), ToolMessage.make(answer), GO_ON]


def _names(body: dict[str, Any], wire: Wire) -> list[str]:
    if wire == "responses":
        return [item["name"] for item in body["input"] if item["type"] == "function_call"]
    if wire == "chat":
        return [call["function"]["name"] for one in body["messages"] for call in one.get("tool_calls", ())]
    return [block["name"] for one in body["messages"] for block in one["content"] if block["type"] == "tool_use"]


def _ids(body: dict[str, Any], wire: Wire) -> list[tuple[str, str]]:
    """The ids of calls, each with the id of the result behind it."""
    if wire == "responses":
        ids = [item["call_id"] for item in body["input"] if "call_id" in item]
    elif wire == "chat":
        calls = [[call["id"] for call in one.get("tool_calls", ())] for one in body["messages"]]
        results = [[one["tool_call_id"]] if "tool_call_id" in one else [] for one in body["messages"]]
        ids = [id_ for pair in zip(calls, results, strict=True) for found in pair for id_ in found]
    else:
        blocks = [block for one in body["messages"] for block in one["content"]]
        ids = [block.get("id", block.get("tool_use_id")) for block in blocks if block["type"].startswith("tool_")]
    return list(zip(ids[::2], ids[1::2], strict=True))


# -- names and ids


NAMES: Final = {
    "functions.look": "functions__look",
    "look<|channel|>json": "look__channel__json",
    "Calculator.add": "Calculator__add",
}


@every("wire", WIRES)
@every(("name", "sent"), NAMES.items())
def test_an_invented_name_is_sent_in_a_legal_form(wire: Wire, name: str, sent: str) -> None:
    """The name has the form that a tool with this name would have, and a warning states the name."""
    body, warnings = _send(wire, *_called("c", name))

    assert _names(body, wire) == [sent]
    assert [(one.kind, one.subject) for one in warnings if one.kind == "history"] == [("history", name)]


@every("wire", WIRES)
@every("name", ["", "x" * 150, "\udce9", "查询天气"])
def test_every_name_has_a_legal_form(wire: Wire, name: str) -> None:
    """Also the empty name, a long name, and a name in another script."""
    body, warnings = _send(wire, *_called("c", name))

    assert len(_names(body, wire)) == 1
    assert _changes(warnings)


@every("wire", WIRES)
def test_a_name_of_the_request_is_no_change(wire: Wire) -> None:
    """The name of a tool of the request is mapped as in its definition."""
    body, warnings = _send(wire, *_called("c", "Calculator.add"), tools=[Tool.make("Calculator.add")])

    assert _names(body, wire) == ["Calculator__add"]
    assert _changes(warnings) == []


FOREIGN_IDS: Final[dict[str, set[Wire]]] = {
    "toolu_01AbC": set(),
    "call_1": set(),
    "functions.look:0": {"messages"},
    "call|1": {"messages"},
    "": {"messages", "responses", "chat"},
    "x" * 65: {"responses", "chat"},
    "y" * 100 + ".": {"messages", "responses", "chat"},
}
"""Ids of calls, and the wires that refuse each."""


@every("wire", WIRES)
@every(("id_", "refused"), FOREIGN_IDS.items())
def test_a_call_id_is_legal_and_the_same_in_its_result(wire: Wire, id_: str, refused: set[Wire]) -> None:
    """An id that the API accepts is sent unchanged."""
    body, warnings = _send(wire, *_called(id_, "look"))
    ((call, result),) = _ids(body, wire)

    assert call == result
    assert (call != id_) == (wire in refused) == bool(_changes(warnings))


@every("wire", WIRES)
def test_two_calls_never_have_one_id(wire: Wire) -> None:
    """Ids that are equal after their change, or in the history, are distinct in the request."""
    body, _ = _send(wire, *_called("a|b", "look"), *_called("a_b", "look"), *_called("a|b", "look"))
    pairs = _ids(body, wire)

    assert len({call for call, _ in pairs}) == 3
    assert all(call == result for call, result in pairs)


ITEMS: Final = ("msg|1.2", "msg_" + "z" * 200, "", 7)


@every("id_", ITEMS)
def test_an_illegal_item_id_does_not_go_to_openai(id_: Any) -> None:
    """A text and a call go without the id, and reasoning, which the id seals, does not go."""
    marked: Any = {"metadata": {"openai": {"id": id_, "encrypted_content": "e"}}}
    turn = AssistantMessage.make(
        ReasoningPart("Hm.", **marked), TextPart("Yes.", **marked), ToolCallPart("c", "look", {}, **marked)
    )
    answer = ToolMessage.make(ToolResultPart("c", "look", 1))
    body, warnings = _send("responses", HI, turn, answer)

    assert [(item["type"], item.get("id")) for item in body["input"][1:]] == [
        ("message", None),
        ("function_call", None),
        ("function_call_output", None),
    ]
    assert len(_changes(warnings)) == 2


def test_a_turn_that_is_there_twice_has_each_item_id_once() -> None:
    """A copy of a turn goes without ids and without its reasoning."""
    own = {"openai": {"id": "rs_1", "encrypted_content": "e"}}
    said, asked = {"openai": {"id": "msg_1"}}, {"openai": {"id": "fc_1"}}
    turn = AssistantMessage.make(
        ReasoningPart("", metadata=own), TextPart("Yes.", metadata=said), ToolCallPart("c", "look", {}, metadata=asked)
    )
    answer = ToolMessage.make(ToolResultPart("c", "look", 1))
    body, warnings = _send("responses", HI, turn, answer, turn, answer)

    assert [(item["type"], item.get("id")) for item in body["input"][5:]] == [
        ("message", None),
        ("function_call", None),
        ("function_call_output", None),
    ]
    assert body["input"][5]["content"] == "Yes."
    assert len([one for one in _changes(warnings) if "an item with the repeated id" in one]) == 3


def test_ids_of_hosted_calls_are_legal() -> None:
    """Anthropic reads the ids of calls that its servers ran, and of their results."""
    own: Any = {"provider_executed": True}
    call = ToolCallPart("ws|1", "web_search", {}, metadata={"anthropic": {"type": "server_tool_use"}}, **own)
    result = ToolResultPart("ws|1", "web_search", [], metadata={"anthropic": {"type": "web_search_tool_result"}}, **own)
    body, warnings = _send("messages", HI, AssistantMessage.make(call, result, "Found."), GO_ON)
    used, found, _ = body["messages"][1]["content"]

    assert used["id"] == found["tool_use_id"] != "ws|1"
    assert len(_changes(warnings)) == 1


# -- calls and results


@every("wire", WIRES)
def test_results_that_no_call_needs_are_left_out(wire: Wire) -> None:
    """A result without a call, and a second result, are not sent; the first result is."""
    stray, again = ToolResultPart("gone", "look", "lost"), ToolResultPart("c", "look", "second")
    hi, call, answer, go_on = _called("c", "look", "first")
    body, warnings = _send(wire, hi, ToolMessage.make(stray), call, answer, ToolMessage.make(again), go_on)
    text = json.dumps(body)

    assert ("first" in text, "second" in text, "lost" in text) == (True, False, False)
    assert [one.subject for one in warnings if one.kind == "history"] == ["gone", "c"]


@every("wire", WIRES)
def test_a_second_result_is_not_the_result_of_a_later_call(wire: Wire) -> None:
    """A server that repeats ids gets each result with its own call."""
    again = ToolMessage.make(ToolResultPart("call_0", "look", "second"))
    body, _ = _send(wire, *_called("call_0", "look", "first"), again, *_called("call_0", "look", "third"))
    text = json.dumps(body)

    assert "second" not in text
    assert 0 < text.index("first") < text.index("third")
    assert len(_ids(body, wire)) == 2


@every("wire", WIRES)
def test_a_late_result_stands_by_its_call(wire: Wire) -> None:
    """A result after another message is sent where the API wants it."""
    hi, call, answer, go_on = _called("c", "look", "late")
    body, warnings = _send(wire, hi, call, UserMessage.make("Wait."), answer, go_on)

    assert len(_ids(body, wire)) == 1
    assert _changes(warnings) == []


@every("wire", WIRES)
def test_a_call_without_a_result_is_one_typed_error(wire: Wire) -> None:
    """No result can be invented, so fxai names the call before it sends anything."""
    with pytest.raises(PreparationError, match="the call 'c' of the tool 'look' has no result"):
        WIRES[wire](ModelRequest(Prompt([HI, AssistantMessage.make(ToolCallPart("c", "look", {})), GO_ON])))


# -- reasoning and empty content


def _thought(**metadata: Any) -> ReasoningPart:
    return ReasoningPart("Hm.", metadata=metadata)


MINE: Final[dict[Wire, ReasoningPart]] = {
    "messages": _thought(anthropic={"signature": "S"}),
    "responses": _thought(openai={"id": "rs_1", "encrypted_content": "e"}),
    "chat": _thought(openai={"field": "reasoning_content"}),
}


@every("wire", WIRES)
@every("ends", [True, False])
def test_cut_reasoning_is_left_out(wire: Wire, ends: bool) -> None:
    """A turn that a limit cut while the model reasoned has nothing that the API accepts."""
    body, warnings = _send(wire, HI, AssistantMessage.make(MINE[wire]), *([] if ends else [GO_ON]))

    assert "Hm." not in json.dumps(body)
    assert _changes(warnings)


@pytest.mark.parametrize("wire", ["messages", "responses"])
def test_reasoning_after_the_last_content_is_left_out(wire: Wire) -> None:
    """Reasoning before other content goes, reasoning after it does not."""
    turn = AssistantMessage.make(MINE[wire], "Yes.", MINE[wire])
    body, warnings = _send(wire, HI, turn, GO_ON)

    assert json.dumps(body).count('"reasoning"' if wire == "responses" else '"thinking"') == (
        1 if wire == "responses" else 2
    )
    assert _changes(warnings) == ["fxai omits reasoning, because the turn of the model ends with it"]


def test_a_signature_is_never_empty() -> None:
    """Thinking with an empty signature is thinking that Anthropic did not sign."""
    turn = AssistantMessage.make(_thought(anthropic={"signature": ""}), "Yes.")
    body, _ = _send("messages", HI, turn, GO_ON)

    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]


@every("wire", WIRES)
@every(
    "empty", [UserMessage(()), AssistantMessage(()), UserMessage.make(""), UserMessage.make(FilePart("image/png", b""))]
)
def test_empty_messages_are_left_out(wire: Wire, empty: Message) -> None:
    """A message without content does not reach the API."""
    body, _ = _send(wire, HI, AssistantMessage.make("Yes."), empty, GO_ON)
    sent = body["input" if wire == "responses" else "messages"]

    assert [one["role"] for one in sent] == ["user", "assistant", "user"]


@every("wire", WIRES)
@every("messages", [(), (UserMessage(()),), (AssistantMessage.make(ReasoningPart("Hm.")),)])
def test_a_history_without_a_message_is_one_typed_error(wire: Wire, messages: tuple[Message, ...]) -> None:
    """If nothing is left, fxai refuses the request."""
    with pytest.raises(PreparationError):
        WIRES[wire](ModelRequest(Prompt(messages)))


def test_a_budget_needs_thinking_before_the_last_calls() -> None:
    """Another model made the calls, so the request of an older Claude goes without thinking."""
    hi, call, answer, _ = _called("c", "look")
    request = ModelRequest(Prompt([hi, call, answer]), reasoning="high")
    sent = anthropic.prepare_request(request, model="claude-sonnet-4-5", max_tokens=20_000)

    assert "thinking" not in sent.body
    assert "fxai turns thinking off" in sent.warnings[-1].message


# -- media


BYTES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n0000",
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "image/gif": b"GIF89a\x01\x00",
    "image/webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
    "application/pdf": b"%PDF-1.7\n",
}


@every("wire", WIRES)
@every("label", ["image/png", "image/jpeg", "application/pdf", "image/*", "application/octet-stream"])
@every("actual", BYTES)
@every("as_url", [False, True])
def test_a_file_has_the_label_of_its_first_bytes(wire: Wire, label: str, actual: str, as_url: bool) -> None:
    """A wrong label is a warning; a label that states nothing is none."""
    data = b64encode(BYTES[actual]).decode()
    part = FilePart.of_url(label, f"data:{label};base64,{data}") if as_url else FilePart(label, BYTES[actual])
    body, warnings = _send(wire, UserMessage.make("See", part))

    assert data in json.dumps(body)
    assert bool(_changes(warnings)) == (label not in (actual, "image/*", "application/octet-stream"))


@every("wire", WIRES)
@every("actual", BYTES)
@every("form", ["file", "image", "source"])
def test_a_file_of_a_result_has_the_label_of_its_first_bytes(wire: Wire, actual: str, form: str) -> None:
    """In the forms of a message and of Anthropic's API, as MCP servers and tools return them."""
    data = b64encode(BYTES[actual]).decode()
    file: dict[str, Any] = {"type": form, "media_type": "image/png", "data": data}
    if form == "source":
        file = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    body, warnings = _send(wire, *_called("c", "look", [{"type": "text", "text": "See"}, file]))

    assert data in json.dumps(body)
    assert bool(_changes(warnings)) == (actual != "image/png")


@every("wire", WIRES)
@every("label", ["image/svg+xml", "image/png"])
def test_a_drawing_is_sent_as_text(wire: Wire, label: str) -> None:
    """No API reads SVG as an image."""
    body, _ = _send(wire, UserMessage.make("See", FilePart(label, b"<svg xmlns='http://www.w3.org/2000/svg'/>")))

    assert "<svg xmlns=" in json.dumps(body)


@every("wire", WIRES)
@every("media_type", ["image/bmp", "video/mp4"])
def test_a_file_that_no_place_accepts_is_one_typed_error(wire: Wire, media_type: str) -> None:
    """A user's file is never left out silently."""
    with pytest.raises(PreparationError, match=r"cannot send|does not accept"):
        WIRES[wire](ModelRequest(Prompt([UserMessage.make("See", FilePart(media_type, b"\x00\x01"))])))


def test_a_reference_to_a_tool_that_is_gone_is_a_text() -> None:
    """Anthropic refuses references to tools that are not in the request."""
    found = [{"type": "tool_reference", "tool_name": name} for name in ("look", "gone")]
    body, warnings = _send("messages", *_called("c", "look", found), tools=[Tool.make("look")])
    (result,) = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]

    assert [one["type"] for one in result["content"]] == ["tool_reference", "text"]
    assert len(_changes(warnings)) == 1


def test_the_official_chat_completions_accepts_pdf_and_text() -> None:
    """Other documents are one typed error there."""
    with pytest.raises(PreparationError, match="accepts PDF and text"):
        _chat(ModelRequest(Prompt([UserMessage.make(FilePart("application/zip", b"PK"))])))


# -- texts


HALF: Final = "caf\udce9"


def _halves() -> dict[str, list[Message]]:
    answer = ToolMessage.make(ToolResultPart("c", "look", {HALF: [HALF]}))
    call = AssistantMessage.make(ToolCallPart("c", "look", {HALF: HALF}))
    cut = AssistantMessage.make(ToolCallPart("c", "look", None, params_text=HALF))
    return {
        "a text of a user": [UserMessage.make(HALF)],
        "a text of the model": [HI, AssistantMessage.make(HALF), GO_ON],
        "instructions": [SystemMessage(HALF), HI],
        "parameters and a result": [HI, call, answer],
        "parameters that are not JSON": [HI, cut, answer],
        "an id": _called(HALF, "look"),
        "a name": _called("c", HALF),
        "the name of a file": [UserMessage.make(FilePart("application/pdf", b"%PDF-1.7", HALF))],
        "an address": [UserMessage.make(FilePart.of_url("image/png", f"https://example.org/{HALF}"))],
        "metadata": [HI, AssistantMessage.make(TextPart("Yes.", metadata={"openai": {"phase": HALF}})), GO_ON],
    }


@every("wire", WIRES)
@every("messages", _halves().values(), ids=_halves().keys())
def test_half_surrogate_pairs_are_replaced(wire: Wire, messages: list[Message]) -> None:
    """Each half becomes U+FFFD, and a warning states it."""
    body, warnings = _send(wire, *messages)

    assert json.dumps(body, ensure_ascii=False).encode()
    assert _changes(warnings)


@every("wire", WIRES)
@every("tool", [Tool.make("look", description=HALF), Tool.make(HALF)])
def test_half_surrogate_pairs_of_a_tool_are_replaced(wire: Wire, tool: Any) -> None:
    """A toolkit can come from a server that describes its tools so."""
    body, _ = _send(wire, HI, tools=[tool])

    assert json.dumps(body, ensure_ascii=False).encode()
    assert len(body["tools"]) == 1


def test_two_halves_are_one_character() -> None:
    """A character that was split in two is whole again."""
    body, _ = _send("chat", UserMessage.make("\ud83d\ude00"))

    assert body["messages"][0]["content"] == "\U0001f600"


def test_a_long_id_goes_back_to_the_server_that_made_it() -> None:
    """Gateways keep signatures of thinking in ids; OpenAI's own host accepts 64 characters."""
    id_ = "call_1__thought__" + "A" * 80
    message = {"role": "assistant", "tool_calls": [{"id": id_, "type": "function", "function": {"name": "look"}}]}
    asked = openai.prepare_request(ModelRequest(Prompt([HI])), model="m", api="chat")
    parts = openai.read_reply({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}, asked)
    turn = Prompt.from_json(Prompt.from_parts(parts).to_json()).unwrap()
    request = ModelRequest(Prompt([HI, *turn, ToolMessage.make(ToolResultPart(id_, "look", 1))]))
    back = openai.prepare_request(request, model="m", api="chat").body

    assert _ids(back, "chat") == [(id_, id_)]
    assert len(_ids(_chat(request)[0], "chat")[0][0]) == 64
