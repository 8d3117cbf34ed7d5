"""What servers of Chat Completions take beside OpenAI's own: films, documents by URL, cache marks, tools of theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import completion_create_params

from fxai.annotations import CacheControl
from fxai.effects import fx
from fxai.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Prompt,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest, PreparationError, ToolChoice
from fxai.providers import openai
from fxai.tools import Tool
from tests.kit.http_peer import events, peer
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow

FILM = FilePart.of_url("video/mp4", "https://example.org/cat.mp4")
PAPER = FilePart.of_url("application/pdf", "https://example.org/r.pdf", "r.pdf")
MARK: Any = {"openai": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}
POINT: Any = {"openai": {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}}


def _sent(server: str | None, *messages: Message, tools: Any = (), **options: Any) -> openai.WireRequest:
    known = (
        openai.Profile(api="chat") if server is None else openai.Profile(api="chat", server=openai.server_of(server))
    )
    return openai.prepare_request(ModelRequest(Prompt(messages), tools, **options), model="m", profile=known)


def test_films_go_to_servers_that_take_them() -> None:
    """By their address, or with their bytes in it; others are not sent one."""
    body = FilePart("video/mp4", b"MP4")
    content = _sent("openrouter", UserMessage.make("See", FILM, body)).fields["messages"][0]["content"]

    assert content[1] == {"type": "video_url", "video_url": {"url": "https://example.org/cat.mp4"}}
    assert content[2]["video_url"]["url"] == "data:video/mp4;base64,TVA0"
    with pytest.raises(PreparationError, match="cannot send the file"):
        _sent(None, UserMessage.make("See", FILM))


def test_documents_go_by_their_address_as_the_server_wants_it() -> None:
    """In the place of the bytes at OpenRouter, in a piece of its own at Mistral; OpenAI fetches none here."""
    said = UserMessage.make("Read", PAPER)
    router, mistral = (_sent(name, said).fields["messages"][0]["content"][1] for name in ("openrouter", "mistral"))

    assert router == {"type": "file", "file": {"filename": "r.pdf", "file_data": "https://example.org/r.pdf"}}
    assert mistral == {
        "type": "document_url",
        "document_url": "https://example.org/r.pdf",
        "document_name": "r.pdf",
    }
    with pytest.raises(PreparationError, match="Pass the bytes, or use Responses"):
        _sent(None, said)


def test_marks_for_the_cache_stand_on_content_and_tools() -> None:
    """On a system message, a text, a file and a result, and on the tool; a message with a mark marks its last piece."""
    talk = (
        SystemMessage("Be brief.", metadata=MARK),
        UserMessage.make(TextPart("Hello", metadata=MARK), FilePart("image/png", b"PNG", metadata=MARK)),
        AssistantMessage.make(ToolCallPart("c", "look", {})),
        ToolMessage.make(ToolResultPart("c", "look", "Seen.", metadata=MARK)),
        UserMessage((TextPart("And?"), TextPart("Now?")), metadata=MARK),
    )
    tool = Tool.make("look", success=str).annotate(CacheControl, "1h")
    sent = _sent("openrouter", *talk, tools=(tool,))
    system, user, _, result, last = sent.fields["messages"]
    mark = MARK["openai"]["cache_control"]

    assert system["content"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert [one["cache_control"] for one in user["content"]] == [mark, mark]
    assert result["content"] == [{"type": "text", "text": "Seen.", "cache_control": mark}]
    assert [one.get("cache_control") for one in last["content"]] == [None, mark]
    assert sent.fields["tools"][0]["cache_control"] == mark
    assert sent.warnings == ()


def test_marks_of_others_are_left_out_with_a_warning() -> None:
    """A server that takes none is sent none, and says so once for the content and once for the tool."""
    talk = (SystemMessage("Be brief.", metadata=MARK), UserMessage.make(TextPart("Hello", metadata=MARK)))
    sent = _sent(None, *talk, tools=(Tool.make("look").annotate(CacheControl, "5m"),))

    assert b"cache_control" not in sent.encoded
    assert len(sent.warnings) == 2
    assert all("cache" in warning.message for warning in sent.warnings)
    assert faults(completion_create_params.CompletionCreateParamsNonStreaming, sent.fields) == []


def test_breakpoints_of_openai_stand_on_every_piece() -> None:
    """On system messages, texts, files, sounds and results, in the SDK's form."""
    talk = (
        SystemMessage("Be brief.", metadata=POINT),
        UserMessage.make(
            TextPart("Hello", metadata=POINT),
            FilePart("image/png", b"PNG", metadata=POINT),
            FilePart("audio/wav", b"WAV", metadata=POINT),
            FilePart("application/pdf", b"PDF", metadata=POINT),
        ),
        AssistantMessage.make(ToolCallPart("c", "look", {})),
        ToolMessage.make(ToolResultPart("c", "look", "Seen.", metadata=POINT)),
    )
    sent = _sent(None, *talk)

    assert faults(completion_create_params.CompletionCreateParamsNonStreaming, sent.fields) == []
    assert sent.encoded.count(b"prompt_cache_breakpoint") == 6
    assert sent.warnings == ()


def test_tools_that_a_server_runs_are_sent_as_they_say() -> None:
    """Several of them beside ours, also as the one that must be called; on Responses there are none."""
    search = openai.server_tool("openrouter:web_search", {"parameters": {"engine": "exa"}}, name="search")
    clock = openai.server_tool("openrouter:datetime")
    choice = ToolChoice.tool("search")
    sent = _sent("openrouter", UserMessage.make("Hi"), tools=(Tool.make("look"), search, clock), tool_choice=choice)
    plain = _sent("groq", UserMessage.make("Hi"), tools=(openai.server_tool("browser_search"),))
    other = openai.prepare_tools([search], model="gpt-5.5")

    assert sent.fields["tools"][0]["function"]["name"] == "look"
    assert sent.fields["tools"][1] == {"type": "openrouter:web_search", "parameters": {"engine": "exa"}}
    assert sent.fields["tools"][2] == {"type": "openrouter:datetime"}
    assert sent.fields["tool_choice"] == {"type": "openrouter:web_search"}
    assert plain.fields["tools"] == [{"type": "browser_search"}]
    assert (other.tools, [warning.subject for warning in other.warnings]) == ([], ["search"])
    assert "runs only on Chat Completions" in other.warnings[0].message


@pytest.mark.parametrize("how", ["server", "request"])
def test_a_stream_can_be_asked_for_without_options(how: str) -> None:
    """By the server that takes none, or by a request that says so."""
    data = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    options: Any = {"openai": {"stream_options": None}} if how == "request" else {}
    with peer(events(data)) as served:
        name: Any = {"api": "chat"} if how == "request" else {"server": "mistral"}
        layer = openai.layer("m", base_url=served.url, api_key="k", **name)
        fx.run(LanguageModel.stream_text("Hello", provider_options=options).collect().provide(layer))

    assert "stream_options" not in json.loads(served.seen[0].body)


def test_a_change_of_tools_says_nothing_here() -> None:
    """All tools are there from the beginning; its text is a message, and without one there is none."""
    bare, told = SystemMessage.change_tools(add=["look"]), SystemMessage.change_tools(add=["look"], content="Look.")
    sent = _sent(None, UserMessage.make("Hi"), bare, told, tools=(Tool.make("look"),))

    assert [one["content"] for one in sent.fields["messages"]] == ["Hi", "Look."]
    assert len(sent.fields["tools"]) == 1
    assert sent.warnings == ()
