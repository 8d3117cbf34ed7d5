"""The three wires as layers over one server, and what asks them without knowing which it is."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Never

import httpx2
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.effects import EffectOf, Layer, StreamOf, fx
from fxai.messages import AiError, Response, StreamPart
from fxai.models import LanguageModel
from fxai.providers import anthropic, openai
from fxai.tools import Tool, Toolkit

__all__ = ["WIRES", "Streamed", "Watched", "kit", "model", "outcome", "streamed"]

WIRES = ("responses", "chat", "messages")

_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_DEGREES = {"Oslo": 7, "Rome": 21}

_weather = Tool.dynamic("weather", description="How warm it is in a city.", parameters=_CITY)
kit = Toolkit.make(_weather)


def model(wire: str, url: str, *, name: str | None = None, **options: Any) -> Layer[LanguageModel, AiError]:
    """The layer of a model that a server offers by this wire; nothing is asked twice unless the options say so."""
    given: dict[str, Any] = {"api_key": "sk-right", "retry": None, **options}
    if wire == "messages":  # with more tokens than these, a whole answer is asked for as a stream
        return anthropic.layer(name or "claude-sonnet-5", base_url=url, max_tokens=1000, **given)
    api: Any = wire
    return openai.layer(name or "gpt-5.5", api=api, base_url=f"{url}/v1", **given)


def _degrees(asked: Any) -> Result[dict[str, int], Never]:
    return Success({"degrees": _DEGREES.get(asked["city"], 0)})


def outcome(asked: EffectOf[Any, Any, Any], served: Layer[LanguageModel, AiError]) -> Result[Any, Any]:
    """How a program ends that needs a model and the tools."""
    program: Any = asked
    handled = kit.to_layer(_weather.handler(_degrees))
    return fx.run_result(program.provide(handled).provide(served))


class Streamed(NamedTuple):
    """What came of a stream: its parts, and the failure behind them."""

    parts: list[StreamPart]
    failure: Any

    @property
    def response(self) -> Response:
        """What the parts amount to."""
        return Response.from_stream(self.parts)


def streamed(stream: StreamOf[StreamPart, Any, Any], served: Layer[LanguageModel, AiError]) -> Streamed:
    """All that a stream gives, the parts before a failure too."""
    parts: list[StreamPart] = []
    ended = outcome(stream.for_each(lambda part: fx.sync(lambda: parts.append(part))), served)
    return Streamed(parts, ended.failure() if isinstance(ended, Failure) else None)


class Watched(httpx2.AsyncHTTPTransport):
    """The network, remembering what is sent."""

    def __init__(self, wire: str) -> None:
        super().__init__()
        self._wire = wire
        self.bodies: list[dict[str, Any]] = []

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        return await super().handle_async_request(request)

    def faults(self) -> list[str]:
        """What the official SDK's own types do not take of the requests."""
        from tests.kit.sdk_requests import anthropic_faults, chat_faults, responses_faults  # only slow tests have it

        faults = {"responses": responses_faults, "chat": chat_faults, "messages": anthropic_faults}[self._wire]
        bodies = [{key: one for key, one in body.items() if key != "stream"} for body in self.bodies]
        if self._wire == "chat":
            bodies = [{key: one for key, one in body.items() if key != "stream_options"} for body in bodies]
        return [fault for body in bodies for fault in faults(body)]
