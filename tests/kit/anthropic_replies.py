"""Replies of Anthropic's Messages API for tests: messages of every kind of block, and the streams that tell them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from fxai.messages import FilePart, Part, Prompt, Response, StreamPart, UserMessage
from fxai.models import ModelRequest
from fxai.providers import anthropic
from fxai.providers.anthropic import MessagesReader, PreparedRequest, prepare_request
from fxai.tools import Tool

__all__ = [
    "ALL_BLOCKS",
    "CITY",
    "FOUND",
    "MODEL",
    "PAGE",
    "RESULT",
    "SENT",
    "TOOLS",
    "blocks",
    "events_of",
    "interleaved",
    "is_decided_by",
    "message",
    "messages",
    "pieces_of",
    "read_all",
    "sse",
]

MODEL = "claude-sonnet-5"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

TOOLS: Sequence[Tool[Any, Any, Any]] = (
    Tool.dynamic("weather.now", parameters=CITY),
    anthropic.web_search(name="look_up"),
    anthropic.code_execution(name="run_code"),
    anthropic.web_fetch(),
    anthropic.tool_search(name="find_tool"),
    anthropic.computer_toolset(),
)

ASKED = Prompt((UserMessage.make("What is in it?", FilePart("application/pdf", b"%PDF", "report.pdf")),))
SENT: PreparedRequest = prepare_request(ModelRequest(ASKED, tuple(TOOLS)), model=MODEL, stream=True)
"""What the replies answer."""

DIRECT = {"type": "direct"}
PROGRAM = {"type": "code_execution_20260120", "tool_id": "srvtoolu_2"}
PAGE: dict[str, Any] = {
    "type": "page_location",
    "cited_text": "So it is.",
    "document_index": 0,
    "document_title": "report.pdf",
    "start_page_number": 1,
    "end_page_number": 2,
    "file_id": None,
}
FOUND: dict[str, Any] = {
    "type": "web_search_result_location",
    "cited_text": "It rains.",
    "encrypted_index": "E",
    "title": None,
    "url": "https://example.org/rain",
}
RESULT: dict[str, Any] = {
    "type": "web_search_result",
    "encrypted_content": "C",
    "page_age": None,
    "title": "Rain",
    "url": "https://example.org/rain",
}
FETCHED: dict[str, Any] = {
    "type": "web_fetch_result",
    "url": "https://example.org",
    "retrieved_at": None,
    "content": {
        "type": "document",
        "title": None,
        "citations": {"enabled": True},
        "source": {"type": "text", "media_type": "text/plain", "data": "Rain."},
    },
}
RAN: dict[str, Any] = {
    "type": "bash_code_execution_result",
    "content": [{"type": "bash_code_execution_output", "file_id": "file_2"}],
    "return_code": 0,
    "stderr": "",
    "stdout": "5",
}
EDITED: dict[str, Any] = {
    "type": "text_editor_code_execution_str_replace_result",
    "lines": ["a"],
    "new_lines": 1,
    "new_start": 1,
    "old_lines": None,
    "old_start": None,
}
TOOLS_FOUND = {
    "type": "tool_search_tool_search_result",
    "tool_references": [{"type": "tool_reference", "tool_name": "weather__now"}],
}


def _use(kind: str, id_: str, name: str, input_: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": id_, "name": name, "input": input_, **more}


def _result(kind: str, id_: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": f"{kind}_tool_result", "tool_use_id": id_, "content": content, **more}


ALL_BLOCKS: Sequence[dict[str, Any]] = (
    {"type": "thinking", "thinking": "What is it?", "signature": "SIG"},
    {"type": "redacted_thinking", "data": "XYZ"},
    {"type": "text", "text": "Let me see: ", "citations": None},
    _use("server_tool_use", "srvtoolu_1", "web_search", {"query": "rain"}, caller=DIRECT),
    _result("web_search", "srvtoolu_1", [RESULT], caller=DIRECT),
    {"type": "text", "text": "it rains", "citations": [FOUND, PAGE, FOUND]},
    _use("server_tool_use", "srvtoolu_2", "bash_code_execution", {"command": "ls"}),
    _result("bash_code_execution", "srvtoolu_2", RAN),
    _use("server_tool_use", "srvtoolu_3", "text_editor_code_execution", {"command": "view"}),
    _result("text_editor_code_execution", "srvtoolu_3", EDITED),
    _use("server_tool_use", "srvtoolu_4", "web_fetch", {"url": "https://example.org"}),
    _result("web_fetch", "srvtoolu_4", FETCHED),
    _use("server_tool_use", "srvtoolu_5", "tool_search_tool_bm25", {"query": "weather"}),
    _result("tool_search", "srvtoolu_5", TOOLS_FOUND),
    _use("server_tool_use", "srvtoolu_6", "web_search", {"query": "sun"}),
    _result("web_search", "srvtoolu_6", {"type": "web_search_tool_result_error", "error_code": "unavailable"}),
    {"type": "container_upload", "file_id": "file_2"},
    _result("code_execution", "srvtoolu_7", {**RAN, "type": "code_execution_result", "content": []}),
    _use("tool_use", "toolu_1", "weather__now", {"city": "Oslo"}, caller=PROGRAM),
    _use("tool_use", "toolu_2", "left_click", {"coordinate": [1, 2]}, toolset_name="computer"),
)

USAGE: dict[str, Any] = {
    "input_tokens": 10,
    "output_tokens": 7,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 2,
    "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
    "output_tokens_details": {"thinking_tokens": 4},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    "service_tier": "standard",
}


def message(content: Sequence[Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """A whole message of these blocks."""
    told = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-20260801"}
    return {**told, "content": list(content), "stop_reason": stop, "stop_sequence": None, "usage": USAGE, **more}


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _started(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a stream says of a block: its start, and its deltas, three signs at a time."""
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _cut(block["text"], 3)]
        cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or ()]
        return {**block, "text": "", "citations": None}, [*deltas, *cited]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(block["thinking"], 3)]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    if kind.endswith("tool_use"):
        pieces = ["", *_cut(json.dumps(block["input"], ensure_ascii=False), 3)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


def pieces_of(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that tell one block."""
    start, deltas = _started(block)
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _around(whole: dict[str, Any], inside: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    begun: dict[str, Any] = {
        **whole,
        "content": [],
        "stop_reason": None,
        "usage": {**whole["usage"], "output_tokens": 1},
    }
    ended = {key: whole[key] for key in ("stop_reason", "stop_sequence")}
    counts = {"output_tokens": whole["usage"]["output_tokens"], "input_tokens": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        *inside,
        {"type": "message_delta", "delta": ended, "usage": counts},
        {"type": "message_stop"},
    ]


def events_of(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream that tells the message, block after block."""
    return _around(whole, (one for at, block in enumerate(whole["content"]) for one in pieces_of(at, block)))


def interleaved(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream that tells the blocks of the message side by side."""
    rows = [pieces_of(at, block) for at, block in enumerate(whole["content"])]
    longest = max(map(len, rows), default=0)
    return _around(whole, (row[at] for at in range(longest) for row in rows if at < len(row)))


def sse(events: Iterable[dict[str, Any]]) -> bytes:
    """The events as they come over the wire."""
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def is_decided_by(events: Iterable[dict[str, Any]], sent: PreparedRequest = SENT) -> list[StreamPart]:
    """The parts that a reader tells of events, none of which may fail."""
    reader = MessagesReader(sent)
    return [part for event in events for part in reader.read("", json.dumps(event))]


def read_all(events: Iterable[dict[str, Any]], sent: PreparedRequest = SENT) -> tuple[Part, ...]:
    """The whole parts that a stream amounts to."""
    return Response.from_stream(is_decided_by(events, sent)).content


# -- strategies

_Blocks: TypeAlias = st.SearchStrategy[dict[str, Any]]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def blocks(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """Any block that a message may hold; its id has the number."""
    texts: _Blocks = _TEXT.map(lambda text: {"type": "text", "text": text, "citations": None})
    cited: _Blocks = st.just({"type": "text", "text": "It rains.", "citations": [FOUND]})
    thought: _Blocks = _TEXT.map(lambda text: {"type": "thinking", "thinking": text, "signature": "SIG"})
    calls: _Blocks = st.dictionaries(_TEXT, _JSON, max_size=3).map(
        lambda given: _use("tool_use", f"toolu_{number}", "weather__now", given)
    )
    searches: _Blocks = st.dictionaries(_TEXT, _JSON, max_size=2).map(
        lambda given: _use("server_tool_use", f"srvtoolu_{number}", "web_search", given)
    )
    found: _Blocks = st.just(_result("web_search", f"srvtoolu_{number}", [RESULT]))
    others: _Blocks = st.sampled_from([{"type": "redacted_thinking", "data": "XYZ"}, ALL_BLOCKS[16]])
    return draw(texts | cited | thought | calls | searches | found | others)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Any message."""
    content = [draw(blocks(number)) for number in range(draw(st.integers(0, 5)))]
    stops = ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"]
    return message(content, draw(st.sampled_from([*stops, "model_context_window_exceeded"])))
