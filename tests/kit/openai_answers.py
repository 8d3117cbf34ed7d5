"""Answers of OpenAI's two APIs, as its official SDK has them: each kind of item, and the streams that give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

from fxai.providers import openai
from fxai.tools import Tool
from tests.kit import sdk_samples as samples

__all__ = ["CHAT", "ITEMS", "TOOLS", "chat_events", "chat_reply", "events", "reply", "response_events"]

Item = dict[str, Any]


@cache
def _sdk_type(name: str) -> TypeAdapter[Any]:
    module, _, kind = name.rpartition(".")
    return TypeAdapter(getattr(import_module(f"openai.types.{module}"), kind))


def _checked(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data after a check against a type of the SDK. Only the slow tests install the SDK and check it."""
    if find_spec("openai") is not None:
        _sdk_type(name).validate_python(data)
    return data


ITEMS: Mapping[str, Item] = {
    "thought": {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}],
        "encrypted_content": "c2VjcmV0",
    },
    "hidden thought": {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "aGlkZGVu"},
    "open thought": {
        "type": "reasoning",
        "id": "rs_3",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Aloud."}],
    },
    "text": {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {
                "type": "output_text",
                "text": "See there.",
                "annotations": [
                    {
                        "type": "url_citation",
                        "start_index": 0,
                        "end_index": 3,
                        "title": "There",
                        "url": "https://example.org/",
                    },
                    {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 4},
                ],
            },
            {"type": "output_text", "text": "And here.", "annotations": []},
        ],
    },
    "refusal": {
        "type": "message",
        "id": "msg_2",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": "No."}],
    },
    "function": {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "search__all",
        "arguments": '{"text":"tea","limit":3}',
        "status": "completed",
    },
    "called by a program": {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "call_2",
        "name": "search__all",
        "namespace": "crm",
        "caller": {"type": "program", "caller_id": "prog_1"},
        "arguments": '{"text":"cake","limit":null}',
        "status": "completed",
    },
    "custom": {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "sql", "input": 'select "a"'},
    "shell": {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "call_4",
        "action": {"commands": ["ls"], "timeout_ms": 5},
        "status": "completed",
    },
    "local shell": {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_5",
        "action": {"type": "exec", "command": ["ls"], "env": {"A": "1"}},
        "status": "completed",
    },
    "patch": {
        "type": "apply_patch_call",
        "id": "apc_1",
        "call_id": "call_6",
        "operation": {"type": "create_file", "path": "a.txt", "diff": "+a"},
        "status": "completed",
    },
    "computer": {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_7",
        "actions": [
            {"type": "click", "button": "left", "x": 1, "y": 2},
            {"type": "double_click", "x": 1, "y": 2, "keys": None},
        ],
        "pending_safety_checks": [{"id": "sc_1", "code": "odd", "message": "Look."}],
        "status": "completed",
    },
    "computer, earlier": {
        "type": "computer_call",
        "id": "cu_2",
        "call_id": "call_8",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
        "status": "completed",
    },
    "tool search of ours": {
        "type": "tool_search_call",
        "id": "ts_1",
        "call_id": "call_9",
        "execution": "client",
        "arguments": {"text": "tea"},
        "status": "completed",
    },
    "web search": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "tea", "sources": [{"type": "url", "url": "https://example.org/"}]},
    },
    "file search": {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["tea"],
        "results": [{"file_id": "file-1", "filename": "a.txt", "score": 0.5, "text": "tea"}],
    },
    "code": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "container_id": "cntr_1",
        "code": "print(1)",
        "outputs": [{"type": "logs", "logs": "1\n"}],
    },
    "code without output": {
        "type": "code_interpreter_call",
        "id": "ci_2",
        "status": "failed",
        "container_id": "cntr_1",
        "code": None,
        "outputs": None,
    },
    "image": {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "iVBORw==",
        "output_format": "png",
        "revised_prompt": "A cat.",
    },
    "no image": {"type": "image_generation_call", "id": "ig_2", "status": "failed", "result": None},
    "list of a server": {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": "docs",
        "tools": [{"name": "search", "input_schema": {"type": "object"}}],
    },
    "server": {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "docs",
        "name": "search",
        "arguments": '{"q":"tea"}',
        "output": "found",
        "status": "completed",
    },
    "server asks": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "mail",
        "name": "send",
        "arguments": '{"to":"a"}',
    },
    "tool search of theirs": {
        "type": "tool_search_call",
        "id": "ts_2",
        "execution": "server",
        "arguments": {"paths": ["crm"]},
        "status": "completed",
        "call_id": "call_10",
    },
    "tools found": {
        "type": "tool_search_output",
        "id": "tso_1",
        "execution": "server",
        "call_id": "call_10",
        "tools": [{"type": "function", "name": "search__all", "parameters": None, "strict": None}],
        "status": "completed",
    },
    "program": {
        "type": "program",
        "id": "prog_1",
        "call_id": "call_11",
        "code": "await search()",
        "fingerprint": "f1",
    },
    "program ended": {
        "type": "program_output",
        "id": "progo_1",
        "call_id": "call_11",
        "result": "3",
        "status": "completed",
    },
    "compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "Y29tcGFjdA=="},
}
"""Each kind of item that a model answers with, as the SDK writes it when nothing optional is said that is null."""

TOOLS: Sequence[Tool[Any, Any, Any]] = (
    samples.ours,
    openai.custom("sql"),
    openai.shell(),
    openai.local_shell(),
    openai.apply_patch(),
    openai.computer(),
    openai.tool_search(parameters=samples.Query),
    openai.web_search(name="Web"),
    openai.file_search(vector_store_ids=["v-1"]),
    openai.code_interpreter(),
    openai.image_generation(),
    openai.mcp(server_label="docs", server_url="https://docs.example.com/mcp"),
    openai.mcp(server_label="mail", connector_id="connector_gmail"),
    openai.programmatic_tool_calling(),
)
"""Tools that these items are calls of."""

_USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}


def reply(items: Sequence[Item], **other: Any) -> dict[str, Any]:
    """A response of these items, checked against the SDK's own type."""
    data = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": "gpt-5.5-2026-04-23",
        "status": "completed",
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _USAGE,
        **other,
    }
    return _checked("responses.Response", data)


def events(items: Sequence[Item], size: int = 3) -> list[dict[str, Any]]:
    """The events that give a response of these items one after the other, texts in pieces of `size`."""
    whole = reply(items)
    begun: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for location, item in enumerate(items):
        told.extend(response_events(item, location, size))
    told.append({"type": "response.completed", "response": whole})
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(told)]
    for event in numbered:
        _checked("responses.ResponseStreamEvent", event)
    return numbered


def response_events(item: Item, location: int, size: int) -> Iterator[dict[str, Any]]:
    """The events of one item, from `added` to `done`."""
    about = {"output_index": location, "item_id": item["id"]}
    yield {"type": "response.output_item.added", "output_index": location, "item": _begun(item)}
    if item["type"] == "message":
        for number, content in enumerate(item["content"]):
            yield from _content(content, {**about, "content_index": number}, size)
    elif item["type"] == "reasoning":
        for number, summary in enumerate(item["summary"]):
            yield from _summary(summary, {**about, "summary_index": number}, size)
        for number, content in enumerate(item.get("content", [])):
            yield from _thought(content, {**about, "content_index": number}, size)
    elif item["type"] in _WRITTEN:
        name, field = _WRITTEN[item["type"]]
        for delta in _pieces(item[field], size):
            yield {"type": f"response.{name}.delta", **about, "delta": delta}
        yield {"type": f"response.{name}.done", **about, field: item[field]}
    elif item["type"] == "web_search_call":
        yield {"type": "response.web_search_call.searching", **about}
    yield {"type": "response.output_item.done", "output_index": location, "item": item}


_WRITTEN = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
}


def _begun(item: Item) -> Item:
    empty: dict[str, Item] = {
        "message": {"content": []},
        "reasoning": {"summary": []},
        "function_call": {"arguments": ""},
    }
    begun = {**item, **empty.get(item["type"], {})}
    if item["type"] == "custom_tool_call":
        begun["input"] = ""
    begun.pop("encrypted_content" if item["type"] == "reasoning" else "", None)
    if item["type"] == "reasoning":
        begun.pop("content", None)
    return {**begun, "status": "in_progress"} if "status" in item and item["type"] != "program_output" else begun


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _content(content: Item, about: Item, size: int) -> Iterator[dict[str, Any]]:
    field = "refusal" if content["type"] == "refusal" else "text"
    begun: dict[str, Any] = {**content, field: ""} if field == "refusal" else {**content, "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **about, "part": begun}
    name = "response.refusal" if field == "refusal" else "response.output_text"
    more: dict[str, Any] = {} if field == "refusal" else {"logprobs": []}
    for delta in _pieces(content[field], size):
        yield {"type": f"{name}.delta", **about, **more, "delta": delta}
    for number, annotation in enumerate(content.get("annotations", [])):
        yield {"type": f"{name}.annotation.added", **about, "annotation_index": number, "annotation": annotation}
    yield {"type": f"{name}.done", **about, **more, field: content[field]}
    yield {"type": "response.content_part.done", **about, "part": content}


def _summary(summary: Item, about: Item, size: int) -> Iterator[dict[str, Any]]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **about, "part": {**summary, "text": ""}}
    for delta in _pieces(summary["text"], size):
        yield {"type": f"{name}_text.delta", **about, "delta": delta}
    yield {"type": f"{name}_text.done", **about, "text": summary["text"]}
    yield {"type": f"{name}_part.done", **about, "part": summary}


def _thought(content: Item, about: Item, size: int) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **about, "part": {**content, "text": ""}}
    for delta in _pieces(content["text"], size):
        yield {"type": "response.reasoning_text.delta", **about, "delta": delta}
    yield {"type": "response.reasoning_text.done", **about, "text": content["text"]}
    yield {"type": "response.content_part.done", **about, "part": content}


# -- Chat Completions

CHAT: Item = {
    "role": "assistant",
    "content": "Two calls.",
    "refusal": None,
    "annotations": [
        {
            "type": "url_citation",
            "url_citation": {"start_index": 0, "end_index": 3, "title": "There", "url": "https://example.org/"},
        }
    ],
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "search__all", "arguments": '{"text":"tea","limit":null}'},
        },
        {
            "id": "call_2",
            "type": "function",
            "function": {"name": "search__all", "arguments": '{"text":"cake","limit":3}'},
        },
    ],
}
"""A message that says all that one of Chat Completions can say at once."""

_CHAT_USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def chat_reply(message: Item, reason: str = "tool_calls") -> dict[str, Any]:
    """A completion of this message, checked against the SDK's own type."""
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _CHAT_USAGE,
    }
    return _checked("chat.ChatCompletion", data)


def chat_events(message: Item, reason: str = "tool_calls", size: int = 3) -> list[dict[str, Any]]:
    """The chunks that give this message, calls interleaved piece by piece; the usage comes last, without a choice."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas.extend({"content": piece} for piece in _pieces(message.get("content") or "", size))
    deltas.extend({"annotations": [one]} for one in message.get("annotations", []))
    given: list[Item] = message.get("tool_calls", [])
    calls = list(enumerate(given))
    for location, call in calls:
        about = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": location, "id": call["id"], "type": "function", "function": about}]})
    pieces = [[(location, piece) for piece in _pieces(call["function"]["arguments"], size)] for location, call in calls]
    for number in range(max(map(len, pieces), default=0)):
        for one in pieces:
            if number < len(one):
                location, piece = one[number]
                deltas.append({"tool_calls": [{"index": location, "function": {"arguments": piece}}]})
    chunks = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    chunks.append(_chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
    return [*chunks, {**_chunk([]), "usage": _CHAT_USAGE}]


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000}
    data = {**about, "model": "gpt-4o-2024-08-06", "choices": choices}
    return _checked("chat.ChatCompletionChunk", data)
