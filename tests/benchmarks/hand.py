"""The work by hand: what a person would write with msgspec alone, doing the same as a tool, a loop and a stream.

Nothing here knows of tools, of effects or of failures: it is the floor that everything else is measured against.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypedDict

import msgspec

from tests.benchmarks.rivals.inputs import BAD, NESTED, SCALARS, submission

__all__ = [
    "BAD",
    "NESTED",
    "SCALARS",
    "Chunk",
    "Forecast",
    "Message",
    "Order",
    "Submission",
    "agent",
    "call",
    "call_async",
    "define",
    "events",
    "forecast",
    "forecast_async",
    "pieces",
    "read",
    "rounds",
    "submission",
    "submit",
    "submit_async",
]


class Forecast(msgspec.Struct, frozen=True):
    """Three scalars."""

    city: str
    days: int
    metric: bool


class Address(msgspec.Struct, frozen=True):
    """Where an order goes."""

    street: str
    city: str
    zip: str
    country: str


class Item(msgspec.Struct, frozen=True):
    """A line of an order: twenty fields."""

    sku: str
    name: str
    quantity: int
    unit_price: float
    currency: str
    taxable: bool
    tax_rate: float
    discount: float
    weight_kg: float
    length_cm: float
    width_cm: float
    height_cm: float
    color: str
    size: str
    brand: str
    category: str
    tags: list[str]
    warehouse_id: int
    notes: str | None = None
    gift: bool = False


class Order(msgspec.Struct, frozen=True):
    """Many lines to one address."""

    order_id: str
    customer: str
    address: Address
    items: list[Item]


class Submission(msgspec.Struct, frozen=True):
    """Parameters that are nested three deep."""

    order: Order
    dry_run: bool


# --- what the tools do


def forecast(asked: Forecast) -> dict[str, Any]:
    """Hardly anything."""
    return {"city": asked.city, "days": asked.days, "ok": asked.metric}


async def forecast_async(asked: Forecast) -> dict[str, Any]:
    """The same, as a coroutine."""
    return {"city": asked.city, "days": asked.days, "ok": asked.metric}


def submit(asked: Submission) -> dict[str, Any]:
    """A summary of the order."""
    order = asked.order
    return {"order_id": order.order_id, "n": len(order.items), "first": order.items[0].sku}


async def submit_async(asked: Submission) -> dict[str, Any]:
    """The same, as a coroutine."""
    return submit(asked)


# --- defining and calling

_encode = msgspec.json.Encoder().encode


def define(type_: type[Any]) -> tuple[msgspec.json.Decoder[Any], dict[str, Any]]:
    """A decoder and a JSON Schema."""
    return msgspec.json.Decoder(type_), msgspec.json.schema(type_)


def call(decoder: msgspec.json.Decoder[Any], function: Callable[[Any], object], text: str) -> str:
    """JSON text in, JSON text out; what is wrong with it comes out as text too."""
    try:
        parameters = decoder.decode(text)
    except msgspec.ValidationError as error:
        return str(error)
    return _encode(function(parameters)).decode()


async def call_async(
    decoder: msgspec.json.Decoder[Any], function: Callable[[Any], Awaitable[object]], text: str
) -> str:
    """The same with a coroutine function."""
    try:
        parameters = decoder.decode(text)
    except msgspec.ValidationError as error:
        return str(error)
    return _encode(await function(parameters)).decode()


# --- a loop over a scripted model

Message = dict[str, Any]


def rounds(number: int) -> Callable[[list[Message]], Awaitable[Message]]:
    """A model that asks for the forecast in so many turns, and then answers."""

    async def model(messages: list[Message]) -> Message:
        asked = (len(messages) - 1) // 2
        if asked == number:
            return {"role": "assistant", "content": "done"}
        function = {"name": "forecast", "arguments": SCALARS}
        return {"role": "assistant", "tool_calls": [{"id": f"c{asked}", "type": "function", "function": function}]}

    return model


async def agent(
    model: Callable[[list[Message]], Awaitable[Message]],
    tools: Mapping[str, Callable[[str], Awaitable[str]]],
    prompt: str,
) -> str:
    """Asks until a turn without calls."""
    messages: list[Message] = [{"role": "user", "content": prompt}]
    while True:
        turn = await model(messages)
        messages.append(turn)
        calls = turn.get("tool_calls")
        if not calls:
            return str(turn["content"])
        for one in calls:
            result = await tools[one["function"]["name"]](one["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": one["id"], "content": result})


# --- a stream of argument deltas, as a provider sends it


class Function(TypedDict, total=False):
    """A piece of a call: the first has its name."""

    name: str
    arguments: str


class ToolCallDelta(msgspec.Struct):
    """What one event adds to a call."""

    index: int
    function: Function
    id: str | None = None


class Delta(msgspec.Struct):
    """What one event adds to a turn."""

    content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class Choice(msgspec.Struct):
    """The only choice."""

    index: int
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """One event."""

    choices: list[Choice]


def events(deltas: int) -> list[bytes]:
    """The bytes of a turn whose call comes in so many deltas, in pieces as a network would give them."""
    arguments = submission(max(1, deltas // 20))
    step = max(1, len(arguments) // deltas)
    cut = [arguments[at * step : (at + 1) * step] for at in range(deltas - 1)] + [arguments[(deltas - 1) * step :]]
    call_: dict[str, Any] = {"index": 0, "id": "call_1", "function": {"name": "submit", "arguments": ""}}
    stream = _event({"tool_calls": [call_]})
    stream += b"".join(_event({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in cut)
    stream += _event({}, "tool_calls") + b"data: [DONE]\n\n"
    return [stream[at : at + 1400] for at in range(0, len(stream), 1400)]


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


_decode_chunk = msgspec.json.Decoder(Chunk).decode


async def pieces(parts: list[bytes]) -> AsyncIterator[Chunk]:
    """The events of a turn."""
    rest = b""
    for part in parts:
        *complete, rest = (rest + part).split(b"\n\n")
        for event in complete:
            if event[6:] != b"[DONE]":
                yield _decode_chunk(event[6:])


async def read(parts: list[bytes]) -> str:
    """The arguments of the call that a turn holds."""
    arguments: list[str] = []
    async for chunk in pieces(parts):
        calls = chunk.choices[0].delta.tool_calls or ()
        arguments.extend(one.function.get("arguments", "") for one in calls)
    return "".join(arguments)
