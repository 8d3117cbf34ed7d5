"""What a tool of an MCP server gives, on each wire: texts, pictures, documents, and what it has no place for."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from typing import Any

import pytest
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from fxai.mcp.result import shown_content
from fxai.messages import AssistantMessage, Message, Prompt, ToolCallPart, ToolMessage, ToolResultPart, UserMessage
from fxai.models import ModelRequest
from fxai.providers import anthropic, openai
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow


def _held(data: bytes) -> str:
    return b64encode(data).decode()


PICTURE, PAPER, SOUND, FILM, ARCHIVE = (_held(name * 9) for name in (b"png", b"pdf", b"wav", b"mov", b"zip"))
CONTENT: list[dict[str, Any]] = [
    {"type": "text", "text": "See:"},
    {"type": "text", "text": ""},
    {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    {"type": "audio", "data": SOUND, "mimeType": "audio/ogg"},
    {"type": "resource_link", "uri": "u://1", "name": "more"},
    {"type": "resource", "resource": {"uri": "u://2", "text": "held"}},
    {"type": "resource", "resource": {"uri": "u://3", "blob": PAPER, "mimeType": "application/pdf"}},
    {"type": "resource", "resource": {"uri": "u://4", "blob": FILM, "mimeType": "video/mp4"}},
    {"type": "resource", "resource": {"uri": "u://5", "blob": ARCHIVE}},
]
NOTES = ["audio/ogg, 27 bytes, is omitted", "video/mp4, 27 bytes, is omitted", "octet-stream, 27 bytes, is omitted"]


def _request(content: list[dict[str, Any]]) -> ModelRequest:
    result = ToolResultPart("call_1", "look", shown_content({"content": content}), dynamic=True)
    said: list[Message] = [
        UserMessage.make("Look."),
        AssistantMessage((ToolCallPart("call_1", "look", {}, dynamic=True),)),
        ToolMessage((result,)),
    ]
    return ModelRequest(Prompt(said))


def _bodies(content: list[dict[str, Any]]) -> dict[str, tuple[Any, list[str]]]:
    """What each wire is sent of the result, after its request was held to the SDK's types; and the warnings."""
    asked = _request(content)
    responses = openai.prepare_request(asked, model="gpt-5.5")
    chat = openai.prepare_request(asked, model="gpt-5.5", api="chat")
    messages = anthropic.prepare_request(asked, model="claude-sonnet-5")
    assert faults(response_create_params.ResponseCreateParamsNonStreaming, responses.fields) == []
    assert faults(completion_create_params.CompletionCreateParamsNonStreaming, chat.fields) == []
    assert faults(message_create_params.MessageCreateParamsNonStreaming, messages.body) == []
    given: dict[str, tuple[Any, Any]] = {
        "responses": (responses.fields["input"][-1]["output"], responses.warnings),
        "chat": (chat.fields["messages"][2:], chat.warnings),
        "anthropic": (messages.body["messages"][2]["content"][0]["content"], messages.warnings),
    }
    return {wire: (sent, [one.message for one in warnings]) for wire, (sent, warnings) in given.items()}


@cache
def _sent() -> dict[str, tuple[Any, list[str]]]:
    return _bodies(CONTENT)


KINDS = {
    "responses": ["text", "image", "text", "text", "text", "file", "text", "text"],
    "anthropic": ["text", "image", "text", "text", "text", "document", "text", "text"],
}


@pytest.mark.parametrize("wire", KINDS)
def test_each_block_is_what_it_is_where_the_wire_has_a_place_for_it(wire: str) -> None:
    """Texts stay texts, pictures and documents are blocks of their own, in the server's order."""
    sent, _ = _sent()[wire]
    kinds = [one["type"].removeprefix("input_") for one in sent if one.get("text") != ""]
    texts = [one["text"] for one in sent if "text" in one]

    assert kinds == KINDS[wire]
    assert texts[0] == "See:"
    assert "held" in texts
    assert json.dumps(sent).count(PICTURE) == json.dumps(sent).count(PAPER) == 1


def test_chat_completions_is_told_texts_and_then_shown_the_files() -> None:
    """A tool's message holds text alone there: the files follow as the user's."""
    answer, files = _sent()["chat"][0]

    assert answer["content"].startswith("See:\n")
    assert "(2 files in the next message)" in answer["content"]
    assert [one["type"] for one in files["content"]] == ["image_url", "file"]


@pytest.mark.parametrize("wire", ["responses", "chat", "anthropic"])
def test_what_a_wire_has_no_place_for_is_a_note_and_never_base64(wire: str) -> None:
    """A sound, a film and unknown bytes are each a line of text and a warning; none ends the run."""
    sent, warnings = _sent()[wire]
    text = json.dumps(sent)

    assert all(note in text for note in NOTES)
    assert not any(data in text for data in (SOUND, FILM, ARCHIVE))
    assert len(warnings) == 3


@pytest.mark.parametrize("wire", ["responses", "chat", "anthropic"])
def test_one_text_is_that_text(wire: str) -> None:
    """The usual result, one text, is the text itself and no JSON."""
    sent, _ = _bodies([{"type": "text", "text": 'say "hi"'}])[wire]

    assert sent == (
        [{"role": "tool", "tool_call_id": "call_1", "content": 'say "hi"'}] if wire == "chat" else 'say "hi"'
    )
