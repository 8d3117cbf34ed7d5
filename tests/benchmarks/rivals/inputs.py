"""The inputs of the works, equal for all contenders. This module needs only the standard library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

__all__ = [
    "BAD",
    "NESTED",
    "NESTED_BAD",
    "ROUNDS",
    "SCALARS",
    "Exchange",
    "messages_answer",
    "messages_events",
    "responses_answer",
    "responses_events",
    "submission",
    "ui_body",
]

ROUNDS: Final = 3
"""The rounds with a tool call in a run over HTTP and in a thousand runs at once."""

SCALARS: Final = '{"city": "Lisbon", "days": 3, "metric": true}'
BAD: Final = '{"city": "Lisbon", "days": "three", "metric": true}'

_ITEM: Final = {
    "sku": "SKU-000123",
    "name": "Stainless steel bottle",
    "quantity": 2,
    "unit_price": 19.95,
    "currency": "EUR",
    "taxable": True,
    "tax_rate": 0.23,
    "discount": 0.1,
    "weight_kg": 0.35,
    "length_cm": 8.0,
    "width_cm": 8.0,
    "height_cm": 26.5,
    "color": "blue",
    "size": "M",
    "brand": "Acme",
    "category": "outdoor",
    "tags": ["sport", "water", "steel"],
    "warehouse_id": 7,
    "notes": None,
    "gift": False,
}


def submission(items: int = 100, bad: int | None = None) -> str:
    """Return an order of so many items of 20 fields as JSON text, about 45 kB for 100. `bad` has an invalid price."""
    lines: list[dict[str, Any]] = [{**_ITEM, "sku": f"SKU-{n:06d}", "quantity": n % 9 + 1} for n in range(items)]
    if bad is not None:
        lines[bad]["unit_price"] = "abc"
    address = {"street": "Rua Augusta 1", "city": "Lisbon", "zip": "1100-048", "country": "PT"}
    order = {"order_id": "ord-1", "customer": "Jane Doe", "address": address, "items": lines}
    return json.dumps({"order": order, "dry_run": True})


NESTED: Final = submission()
NESTED_BAD: Final = submission(bad=57)

# -- the answers of providers


def messages_answer(messages: int) -> dict[str, Any]:
    """Return the answer of Anthropic's Messages API to a request with so many messages."""
    turn = messages // 2
    call = {"type": "tool_use", "id": f"c{turn}", "name": "forecast", "input": json.loads(SCALARS)}
    content: list[dict[str, Any]] = [call] if turn < ROUNDS else [{"type": "text", "text": "done"}]
    return {
        "id": f"m{turn}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": content,
        "stop_reason": "tool_use" if turn < ROUNDS else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def messages_events(messages: int) -> bytes:
    """Return the same answer as server-sent events."""
    answer = messages_answer(messages)
    empty: list[Any] = []
    content: dict[str, Any] = answer["content"][0]
    start: dict[str, Any]
    if content["type"] == "text":
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": content["text"]}
    else:
        no_input: dict[str, Any] = {}
        start, delta = {**content, "input": no_input}, {"type": "input_json_delta", "partial_json": SCALARS}
    stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    return b"".join(
        _event(event)
        for event in (
            {"type": "message_start", "message": {**answer, "content": empty, "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": answer["usage"]},
            {"type": "message_stop"},
        )
    )


def responses_answer(results: int) -> dict[str, Any]:
    """Return the answer of OpenAI's Responses API to a request with so many results of calls."""
    call = {
        "type": "function_call",
        "id": f"fc{results}",
        "call_id": f"c{results}",
        "name": "forecast",
        "arguments": SCALARS,
        "status": "completed",
    }
    text: dict[str, Any] = {"type": "output_text", "text": "done", "annotations": [], "logprobs": []}
    message: dict[str, Any] = {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    details = {"cached_tokens": 0}
    return {
        "id": f"resp{results}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.5",
        "status": "completed",
        "output": [call if results < ROUNDS else message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": details,
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def responses_events(results: int) -> bytes:
    """Return the same answer as server-sent events."""
    return b"".join(map(_event, _responses_events(results)))


def _responses_events(results: int) -> Iterator[dict[str, Any]]:
    answer = responses_answer(results)
    item: dict[str, Any] = answer["output"][0]
    empty: dict[str, Any]
    no_parts: list[Any] = []
    started: dict[str, Any] = {**answer, "status": "in_progress", "output": []}
    about = {"item_id": item["id"], "output_index": 0}
    yield {"type": "response.created", "sequence_number": 0, "response": started}
    if item["type"] == "function_call":
        empty = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": empty}
        kind = "response.function_call_arguments"
        yield {"type": f"{kind}.delta", "sequence_number": 2, **about, "delta": SCALARS}
        yield {"type": f"{kind}.done", "sequence_number": 3, **about, "name": "forecast", "arguments": SCALARS}
    else:
        part = item["content"][0]
        empty = {**item, "content": no_parts, "status": "in_progress"}
        about["content_index"] = 0
        yield {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": empty}
        yield {"type": "response.content_part.added", "sequence_number": 2, **about, "part": {**part, "text": ""}}
        kind = "response.output_text"
        yield {"type": f"{kind}.delta", "sequence_number": 3, **about, "delta": "done", "logprobs": []}
        yield {"type": f"{kind}.done", "sequence_number": 4, **about, "text": "done", "logprobs": []}
        yield {"type": "response.content_part.done", "sequence_number": 5, **about, "part": part}
    yield {"type": "response.output_item.done", "sequence_number": 6, "output_index": 0, "item": item}
    yield {"type": "response.completed", "sequence_number": 7, "response": answer}


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


# -- a request to a chat application


def ui_body(number: int) -> bytes:
    """Return the request of the AI SDK's client that starts a conversation."""
    message = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": "Go on."}]}
    return json.dumps({"id": f"c{number}", "trigger": "submit-message", "messages": [message]}).encode()


class Exchange:
    """A request to an ASGI application without a socket, and its answer."""

    def __init__(self, app: Any, body: bytes, path: str = "/api/chat") -> None:
        """Create a POST request of a body."""
        self._app = app
        self._bodies = [body]
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        self.status = 0
        self.size = 0
        self._began = asyncio.Event()

    async def _receive(self) -> dict[str, Any]:
        if self._bodies:
            return {"type": "http.request", "body": self._bodies.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["body"]:
            self.size += len(message["body"])
            self._began.set()

    async def read(self) -> None:
        """Read the whole answer."""
        await self._app(self._scope, self._receive, self._send)
        assert self.status == 200
        assert self.size > 0

    async def read_first(self) -> None:
        """Read the first chunk of the answer. Then the client leaves."""
        reading = asyncio.ensure_future(self._app(self._scope, self._receive, self._send))
        await self._began.wait()
        reading.cancel()
        await asyncio.wait([reading])
