"""Keys that an answer repeats: no failure shows one, whoever reads the answer."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from fxai.effects import fx
from fxai.models import EmbeddingModel, LanguageModel
from fxai.providers import anthropic, openai

KEY = "sk-secret-123456"
ERROR = json.dumps({"type": "error", "error": {"type": "x", "message": f"bad key {KEY}"}}).encode()
NAMES = ("chat", "responses", "messages")


def _model(name: str, body: bytes, kind: str) -> Any:
    given = _given(body, kind)
    if name == "messages":
        return anthropic.layer("claude-3-haiku", **given)
    return openai.layer("m", api="chat" if name == "chat" else "responses", **given)


def _given(body: bytes, kind: str) -> dict[str, Any]:
    reply = httpx2.Response(200, content=body, headers={"content-type": kind})
    return {"api_key": KEY, "retry": None, "transport": httpx2.MockTransport(lambda _: reply)}


@pytest.mark.parametrize("name", NAMES)
def test_an_error_in_place_of_an_answer_shows_no_key(name: str) -> None:
    """Proxies answer 200 with an error inside, and it may repeat what they were sent."""
    model = _model(name, ERROR, "application/json")
    failure: Any = fx.run_result(LanguageModel.generate_text("?", max_tokens=9).provide(model)).failure()

    assert failure.reason.description == "bad key (secret)"


@pytest.mark.parametrize("name", NAMES)
def test_an_error_in_a_stream_shows_no_key(name: str) -> None:
    """It is an event behind others."""
    model = _model(name, b"event: error\ndata: " + ERROR + b"\n\n", "text/event-stream")
    failure: Any = fx.run_result(LanguageModel.stream_text("?").collect().provide(model)).failure()

    assert failure.reason.description == "bad key (secret)"


def test_an_error_in_place_of_vectors_shows_no_key() -> None:
    """As an answer of a language model."""
    model = openai.embedding_layer("m", **_given(ERROR, "application/json"))
    failure: Any = fx.run_result(EmbeddingModel.embed("a").provide(model)).failure()

    assert failure.reason.description == "bad key (secret)"
