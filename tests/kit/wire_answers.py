"""Answers on the three wires, whole and streamed, and the model that receives them. Bend them as servers do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import httpx2
from returns.result import Failure

from fxai.effects import EffectOf, Layer, fx
from fxai.messages import AiError, Response, StreamPart
from fxai.models import LanguageModel
from fxai.providers import anthropic, openai

__all__ = ["WIRES", "Came", "ask", "ask_stream", "body", "chunk", "event_bytes", "events", "model", "reply"]

WIRES = ("chat", "responses", "messages")
_STOPS = {"chat": ("stop", "tool_calls"), "messages": ("end_turn", "tool_use")}


class Came(NamedTuple):
    """The parts of an answer and the failure after them."""

    response: Response
    error: Any

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """The calls, by name and parameters."""
        return [(call.name, call.params) for call in self.response.tool_calls]


def body(wire: str, text: str = "", *calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A whole answer with a text and calls, each by name and JSON text; `more` are members of the answer."""
    stop = _STOPS.get(wire, ("", ""))[bool(calls)]
    if wire == "chat":
        made = [
            {"id": f"c_{at}", "type": "function", "function": {"name": name, "arguments": given}}
            for at, (name, given) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
        return {"id": "a", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": stop}], **more}
    if wire == "messages":
        blocks: list[Any] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": f"c_{at}", "name": name, "input": json.loads(given or "{}")}
            for at, (name, given) in enumerate(calls)
        ]
        about = {"id": "a", "type": "message", "role": "assistant", "model": "m"}
        return {**about, "content": blocks, "stop_reason": stop, "usage": {"input_tokens": 1}, **more}
    items: list[Any] = [_message(text)] if text else []
    items += [
        {"type": "function_call", "id": f"i_{at}", "call_id": f"c_{at}", "name": name, "arguments": given}
        for at, (name, given) in enumerate(calls)
    ]
    return {"id": "a", "model": "m", "status": "completed", "output": items, **more}


def _message(text: str) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


def events(wire: str, pieces: Iterable[str] = (), *calls: tuple[str, Iterable[str]]) -> list[dict[str, Any]]:
    """The events of a streamed answer: the deltas of a text, then calls by name and the deltas of their arguments."""
    return {"chat": _chat, "responses": _responses, "messages": _messages}[wire](list(pieces), calls)


_Calls = tuple[tuple[str, Iterable[str]], ...]


def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
    """A chunk of Chat Completions."""
    return {"id": "a", "model": "m", "choices": [{"index": 0, "delta": dict(delta), "finish_reason": reason}]}


def _chat(pieces: list[str], calls: _Calls) -> list[dict[str, Any]]:
    found = [chunk({"content": piece}) for piece in pieces]
    for at, (name, deltas) in enumerate(calls):
        start = {"index": at, "id": f"c_{at}", "type": "function", "function": {"name": name, "arguments": ""}}
        found.append(chunk({"tool_calls": [start]}))
        found += [chunk({"tool_calls": [{"index": at, "function": {"arguments": one}}]}) for one in deltas]
    return [*found, chunk({}, _STOPS["chat"][bool(calls)])]


def _responses(pieces: list[str], calls: _Calls) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "a", "model": "m"}}]
    items: list[Any] = []
    if pieces:
        at: dict[str, Any] = {"output_index": 0, "content_index": 0, "item_id": "m"}
        found.append({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}})
        found += [{"type": "response.output_text.delta", **at, "delta": piece} for piece in pieces]
        items.append(_message("".join(pieces)))
        found.append({"type": "response.output_item.done", "output_index": 0, "item": items[0]})
    for location, (name, deltas) in enumerate(calls, len(items)):
        call = {"type": "function_call", "id": f"i_{location}", "call_id": f"c_{location}", "name": name}
        begun, index = {**call, "arguments": ""}, {"output_index": location}
        found.append({"type": "response.output_item.added", **index, "item": begun})
        kind, written = "response.function_call_arguments.delta", list(deltas)
        found += [{"type": kind, **index, "item_id": f"i_{location}", "delta": one} for one in written]
        items.append({**call, "arguments": "".join(written)})
        found.append({"type": "response.output_item.done", **index, "item": items[-1]})
    response = {"id": "a", "model": "m", "status": "completed", "output": items}
    return [*found, {"type": "response.completed", "response": response}]


def _messages(pieces: list[str], calls: _Calls) -> list[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": "a",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    found: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if pieces:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]))
    for location, (name, deltas) in enumerate(calls):
        call: dict[str, Any] = {"type": "tool_use", "id": f"c_{location}", "name": name, "input": {}}
        blocks.append((call, [{"type": "input_json_delta", "partial_json": one} for one in deltas]))
    for index, (block, inside) in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": block})
        found += [{"type": "content_block_delta", "index": index, "delta": one} for one in inside]
        found.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _STOPS["messages"][bool(calls)]}
    return [*found, {"type": "message_delta", "delta": ended}, {"type": "message_stop"}]


def event_bytes(wire: str, sent: Iterable[dict[str, Any]]) -> bytes:
    """The events as a server of the wire writes them."""
    named = "" if wire == "chat" else "event: {}\n"
    text = "".join(f"{named.format(one.get('type', ''))}data: {json.dumps(one)}\n\n" for one in sent)
    return (text + ("data: [DONE]\n\n" if wire == "chat" else "")).encode()


def reply(content: Any, kind: str | None = None, status: int = 200, **headers: str) -> httpx2.Response:
    """An answer with this content: bytes are a stream of events, other data is JSON."""
    is_stream = isinstance(content, bytes)
    written = content if is_stream else json.dumps(content).encode()
    media = kind or ("text/event-stream" if is_stream else "application/json")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, content=written, headers={"content-type": media, **named})


def model(
    wire: str, *answers: httpx2.Response, seen: list[dict[str, Any]] | None = None, **options: Any
) -> Layer[LanguageModel, AiError]:
    """The layer of a model that gives these answers in order, the last answer again and again."""
    waiting = list(answers)

    def respond(request: httpx2.Request) -> httpx2.Response:
        if seen is not None:
            seen.append({**json.loads(request.content), "headers": dict(request.headers)})
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    given: dict[str, Any] = {"api_key": "k", "retry": None, "transport": httpx2.MockTransport(respond), **options}
    name, url = given.pop("name", None), given.pop("base_url", "http://model.example")
    if wire == "messages":
        given.setdefault("max_tokens", 1000)
        return anthropic.layer(name or "claude-sonnet-5", base_url=url, **given)
    api: Any = wire
    return openai.layer(name or "gpt-5.5", api=api, base_url=f"{url}/v1", **given)


def ask(effect: EffectOf[Any, Any, Any], served: Layer[LanguageModel, AiError]) -> Came:
    """The response of an effect that needs the model, or its failure."""
    needs_model: Any = effect
    ended = fx.run_result(needs_model.provide(served))
    if isinstance(ended, Failure):
        return Came(Response(), ended.failure())
    found: Any = ended.unwrap()
    return Came(getattr(found, "response", found), None)


def ask_stream(stream: Any, served: Layer[LanguageModel, AiError]) -> Came:
    """The parts of a stream that needs the model, and the failure after them."""
    parts: list[StreamPart] = []
    note: Callable[[StreamPart], Any] = lambda part: fx.sync(lambda: parts.append(part))  # noqa: E731
    ended: Any = fx.run_result(stream.for_each(note).provide(served))
    return Came(Response.from_stream(parts), ended.failure() if isinstance(ended, Failure) else None)
