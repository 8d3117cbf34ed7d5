"""Exchanges that were recorded from real servers, and what our layers make of them.

`FXAI_RECORDINGS` names another folder of recordings, in the same form, to be read in place of those in the repository.
"""

from __future__ import annotations

import base64
import itertools
import json
import lzma
import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from returns.result import Result

from fxai.effects import Effect, Gen, Layer, fx
from fxai.messages import AiError, AnyPart, Prompt, Response, ToolMessage, ToolResultPart
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import anthropic, openai
from tests.kit.http_peer import Script, Seen, answer, events, peer

__all__ = ["OURS", "WIRES", "Exchange", "Replayed", "exchanges", "replays", "sent_for", "server_of"]

WIRES: Final = ("anthropic", "chat", "responses")
OURS: Final = "FXAI_RECORDINGS" not in os.environ
"""Whether the recordings of the repository are read."""

_FOLDER: Final = Path(os.environ.get("FXAI_RECORDINGS", Path(__file__).parents[1] / "integration/servers/recordings"))
_SEED: Final = 20261125


class Exchange(NamedTuple):
    """A request and the answer to it, as they were recorded."""

    source: str
    file: str
    n: int
    host: str
    wire: str
    stream: bool
    status: int
    headers: dict[str, str]
    request: dict[str, Any] | None
    body: bytes

    @property
    def name(self) -> str:
        """Where it is from, for messages."""
        return f"{self.host}: {self.file} {self.n}"

    @property
    def model(self) -> str:
        """The model that was asked, or that answered."""
        asked = (self.request or {}).get("model")
        if isinstance(asked, str):
            return asked
        found = self.body.partition(b'"model"')[2].split(b'"')
        return (found[1].decode() if len(found) > 1 else "") or "unknown"


@cache
def exchanges(wire: str) -> tuple[Exchange, ...]:
    """The recorded exchanges of a wire, in the order of their files."""
    found: list[Exchange] = []
    for path in sorted(_FOLDER.glob(f"{wire}*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row: dict[str, Any] = json.loads(line)
                body = row.pop("body")
                raw = body["text"].encode() if "text" in body else base64.b64decode(body["base64"])
                found.append(Exchange(**row, body=raw))
    return tuple(found)


class Came(NamedTuple):
    """What our layer made of an answer."""

    parts: tuple[AnyPart, ...]
    """What the layer gave: of a stream the parts of the stream."""
    at_once: tuple[AnyPart, ...] | None
    """What the same stream gave to somebody who asked for a whole answer; None where that is another request."""
    failure: AiError | None
    refusal: AiError | None
    """Why no request follows from the answer."""


class Replayed(NamedTuple):
    """An exchange that went through our layer, and what came of it."""

    exchange: Exchange
    parts: tuple[AnyPart, ...]
    at_once: tuple[AnyPart, ...] | None
    failure: AiError | None
    refusal: AiError | None
    next: dict[str, Any] | None
    """The request that follows from the answer; None where there is none."""


_HELLO: Final = Prompt.make("Hello")
_RESULT: Final = {"ok": True}
_NEXT: Final = "next"


_SERVERS: Final = {
    "alibaba": "alibaba",
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.z.ai": "zai",
    "azure": "azure",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "ollama.com": "ollama",
    "openrouter.ai": "openrouter",
    "perplexity": "perplexity",
    "router.huggingface.co": "huggingface",
    "xai": "xai",
}


def server_of(exchange: Exchange) -> openai.Server:
    """The server of Chat Completions that an exchange is with."""
    if exchange.host in ("api.openai.com", "openai"):
        return openai.OPENAI_CHAT
    name = _SERVERS.get(exchange.host)
    return openai.server_at(f"https://{exchange.host}/v1") if name is None else openai.SERVERS[name]


def _layer(exchange: Exchange, url: str, *, whole: bool = True) -> Layer[LanguageModel, AiError]:
    given: dict[str, Any] = {"api_key": "sk-test", "retry": None}
    if exchange.wire == "anthropic":  # with many tokens, a whole answer is asked for as a stream
        facts = msgspec.structs.replace(anthropic.facts(exchange.model), max_output_tokens=64000)
        return anthropic.layer(exchange.model, base_url=url, facts=facts, max_tokens=1000 if whole else 64000, **given)
    if exchange.wire == "chat":
        return openai.layer(exchange.model, server=server_of(exchange), base_url=url, **given)
    return openai.layer(exchange.model, api="responses", base_url=url, **given)


def sent_for(exchange: Exchange) -> Any:
    """The prepared request that the replay sends for an exchange."""
    request = ModelRequest(_HELLO)
    if exchange.wire == "anthropic":
        return anthropic.prepare_request(request, model=exchange.model, stream=exchange.stream)
    if exchange.wire == "chat":
        profile = openai.Profile("chat", server=server_of(exchange))
        return openai.prepare_request(request, model=exchange.model, profile=profile)
    return openai.prepare_request(request, model=exchange.model, api="responses")


def _script(exchange: Exchange, chance: random.Random) -> Script:
    body = exchange.body
    if not exchange.stream:
        kind = exchange.headers.get("content-type", "application/json")
        more = [f"{name}: {value}" for name, value in exchange.headers.items() if name != "content-type"]
        return [answer(exchange.status, body, *more, kind=kind)]
    cuts = sorted(chance.sample(range(1, len(body)), min(len(body) - 1, 12)))
    locations = [0, *cuts, len(body)]
    return list(events(*(body[a:b] for a, b in itertools.pairwise(locations))))


def _follow_up(parts: tuple[AnyPart, ...]) -> Prompt:
    """The prompt that goes on from an answer: each call of ours has a result, and an open approval is answered."""
    turn = Prompt.from_parts(parts)
    calls = [
        ToolResultPart(call.id, call.name, _RESULT)
        for call in Response.from_stream(parts).tool_calls
        if not call.provider_executed
    ]
    results = (ToolMessage(tuple(calls)),) if calls else ()
    return Prompt((*_HELLO.messages, *turn.messages, *results))


def _into(came: list[AnyPart]) -> Callable[[AnyPart], Effect[None]]:
    return lambda part: fx.sync(lambda: came.append(part))


@fx.gen
def _ask(exchange: Exchange) -> Gen[Came, AiError, LanguageModel]:
    model: Any = yield from fx.service(LanguageModel)
    if not exchange.stream:
        ended = yield from _ask_at_once(_HELLO)
        return Came(ended.value_or(()), None, ended.swap().value_or(None), None)
    came: list[AnyPart] = []
    reading: Effect[Result[None, AiError]] = model.ask_stream(ModelRequest(_HELLO)).for_each(_into(came)).result()
    read = yield from reading
    return Came(tuple(came), None, read.swap().value_or(None), None)


@fx.gen
def _ask_at_once(prompt: Prompt) -> Gen[Result[tuple[AnyPart, ...], AiError], AiError, LanguageModel]:
    model: Any = yield from fx.service(LanguageModel)
    asking: Effect[Result[tuple[AnyPart, ...], AiError]] = model.ask(ModelRequest(prompt)).result()
    return (yield from asking)


@fx.gen
def _one(exchange: Exchange, url: str) -> Gen[Came, AiError]:
    """What our layer makes of an answer, and what it says where the next request cannot be made."""
    came: Came = yield from _ask(exchange).provide(_layer(exchange, url))
    if exchange.stream and exchange.wire == "anthropic":
        at_once = yield from _ask_at_once(_HELLO).provide(_layer(exchange, url, whole=False))
        came = came._replace(at_once=at_once.value_or(()))
    if came.failure is not None:
        return came
    ended = yield from _ask_at_once(_follow_up(came.parts)).provide(_layer(exchange, f"{url}/{_NEXT}"))
    return came._replace(refusal=ended.swap().value_or(None))


@cache
def replays(wire: str) -> tuple[Replayed, ...]:
    """All exchanges of a wire through our layer, over one server on loopback."""
    known, chance = exchanges(wire), random.Random(_SEED)
    scripts = [_script(exchange, chance) for exchange in known]

    sent: dict[int, dict[str, Any]] = {}

    def choose(seen: Seen) -> Script:
        _, location, rest = seen.line.split("/", 2)
        if not rest.startswith(_NEXT):
            return scripts[int(location)]
        sent[int(location)] = json.loads(seen.body)
        return [answer(503, b"{}")]

    @fx.gen
    def each(url: str) -> Gen[list[Came], AiError]:
        came: list[Came] = []
        for location, exchange in enumerate(known):
            came.append((yield from _one(exchange, f"{url}/{location}")))
        return came

    with peer(choose=choose) as served:
        found = fx.run(each(served.url))
    return tuple(
        Replayed(exchange, *came[:3], None if location in sent else came.refusal, sent.get(location))
        for location, (exchange, came) in enumerate(zip(known, found, strict=True))
    )
