"""The bytes of one call in many pieces, as each of the three wires tells it, and who reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import anthropic as anthropic_sdk
import httpx2
import msgspec
import openai as openai_sdk
from typing_extensions import override

from fxai.effects import Layer, runtime
from fxai.messages import AiError
from fxai.models import LanguageModel
from fxai.providers import anthropic, openai
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand
from tests.benchmarks.measure import FXAI, HAND

__all__ = ["SDK", "WIRES", "contenders"]

SDK = "the SDK"
WIRES = ("responses", "chat", "messages")

_URL = "http://127.0.0.1:9/v1"
_kit = Toolkit.make(Tool.make("submit", parameters=hand.Submission, success=dict[str, Any]))
_ASKED: Any = [{"role": "user", "content": "go"}]


def _responses(arguments: list[str]) -> Iterator[dict[str, Any]]:
    text = "".join(arguments)
    call = {"id": "fc_1", "call_id": "call_1", "type": "function_call", "name": "submit", "arguments": ""}
    done = {**call, "arguments": text, "status": "completed"}
    about = {"item_id": "fc_1", "output_index": 0}
    whole: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.5"}
    whole |= {"status": "completed", "output": [done], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**call, "status": "in_progress"}}
    for piece in arguments:
        yield {"type": "response.function_call_arguments.delta", **about, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **about, "name": "submit", "arguments": text}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    yield {"type": "response.completed", "response": whole}


def _chat(arguments: list[str]) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    about = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "submit", "arguments": ""}}
    yield chunk({"role": "assistant", "tool_calls": [about]})
    for piece in arguments:
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls")


def _messages(arguments: list[str]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    call: dict[str, Any] = {"type": "tool_use", "id": "call_1", "name": "submit", "input": {}}
    yield {"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": call}
    for piece in arguments:
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


_REPORTED = {"responses": _responses, "chat": _chat, "messages": _messages}


def _body(wire: str, deltas: int) -> bytes:
    text = hand.submission(max(1, deltas // 20))
    step = max(1, len(text) // deltas)
    arguments = [text[at * step : (at + 1) * step] for at in range(deltas - 1)] + [text[(deltas - 1) * step :]]
    told = [f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n" for event in _REPORTED[wire](arguments)]
    if wire == "chat":
        told = [one.partition("\n")[2] for one in told] + ["data: [DONE]\n\n"]
    return "".join(told).encode()


class _Pieces(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """A body in pieces, as a network would give them."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [body[at : at + 1400] for at in range(0, len(body), 1400)]

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    @override
    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def contenders(run: Callable[[Coroutine[Any, Any, Any]], Any], wire: str, deltas: int) -> dict[str, Callable[[], Any]]:
    """The stream read by our layer, by the official SDK's own helper, and by hand: each over the same transport."""
    body = _body(wire, deltas)
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=_Pieces(body)))
    served: Any = run(runtime(_layer(wire, transport)).__aenter__())
    reading = LanguageModel.stream_text("go", toolkit=_kit, resolve_tools=False).drain()
    client = httpx2.AsyncClient(transport=transport)
    return {
        FXAI: lambda: run(served.run(reading)),
        SDK: _sdk(wire, transport),
        HAND: lambda: run(_by_hand(wire, client)),
    }


def _layer(wire: str, transport: httpx2.MockTransport) -> Layer[LanguageModel, AiError]:
    if wire == "messages":
        return anthropic.layer("claude-sonnet-5", api_key="sk-1", base_url=_URL, transport=transport)
    api: Any = wire
    return openai.layer("gpt-5.5", api=api, api_key="sk-1", base_url=_URL, transport=transport)


def _sdk(wire: str, transport: httpx2.MockTransport) -> Callable[[], Any]:
    http = httpx2.Client(transport=transport)
    if wire == "messages":
        theirs = anthropic_sdk.Anthropic(api_key="sk-1", base_url=_URL, http_client=http)

        def messages() -> object:
            with theirs.messages.stream(model="claude-sonnet-5", max_tokens=9, messages=_ASKED) as stream:
                return stream.get_final_message()

        return messages
    ours = openai_sdk.OpenAI(api_key="sk-1", base_url=_URL, http_client=http)

    def responses() -> object:
        with ours.responses.stream(model="gpt-5.5", input="go") as stream:
            return stream.get_final_response()

    def chat() -> object:
        with ours.chat.completions.stream(model="gpt-5.5", messages=_ASKED) as stream:
            return stream.get_final_completion()

    return responses if wire == "responses" else chat


async def _by_hand(wire: str, client: httpx2.AsyncClient) -> hand.Submission:
    """The least that reads such a stream: its lines, each event as plain data, the pieces joined and decoded once."""
    arguments: list[str] = []
    async with client.stream("POST", _URL, json={}) as answer:
        rest = b""
        async for piece in answer.aiter_raw():
            *lines, rest = (rest + piece).split(b"\n")
            told = [line[6:] for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]
            arguments.extend(_piece(wire, msgspec.json.decode(event)) for event in told)
    return msgspec.json.decode("".join(arguments), type=hand.Submission)


def _piece(wire: str, event: Any) -> str:
    if wire == "responses":
        told: str = event["delta"] if event["type"].endswith("arguments.delta") else ""
    elif wire == "chat":
        calls: list[Any] = event["choices"][0]["delta"].get("tool_calls", [])
        told = "".join(call["function"]["arguments"] for call in calls)
    else:
        told = event.get("delta", {}).get("partial_json", "")
    return told
