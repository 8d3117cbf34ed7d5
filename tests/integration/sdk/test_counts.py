"""Tokens counted by the providers over HTTP: requests and answers by the types of the official SDKs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from anthropic.types import MessageTokensCount, message_count_tokens_params
from openai.types.responses import input_token_count_params
from openai.types.responses.input_token_count_response import InputTokenCountResponse

from fxai.effects import fx
from fxai.messages import AiError, InvalidRequestError, ModelUnavailableError, Prompt, RateLimitError
from fxai.models import LanguageModel, TokenCount, estimated_tokens
from fxai.providers import anthropic, openai
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.http_peer import Peer, answer, peer
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow


class City(msgspec.Struct, frozen=True):
    """A place."""

    name: str


PROMPT = Prompt.make("How is Oslo?").set_system("Be brief.")
KIT = Toolkit.make(Tool.make("weather.now", parameters=City, success=str))
OPENAI = InputTokenCountResponse(input_tokens=41, object="response.input_tokens").to_json().encode()
ANTHROPIC = MessageTokensCount(input_tokens=42).to_json().encode()
ASKED = LanguageModel.count_tokens(PROMPT, toolkit=KIT, schema=list[int], max_tokens=9, reasoning="low")
LOST = b'{"error": {"message": "Invalid URL"}}'


def _served(wire: str, served: Peer) -> Any:
    options: Any = {"base_url": served.url, "api_key": "sk-1", "retry": None}
    if wire == "messages":
        return anthropic.layer("claude-sonnet-5", **options)
    return openai.layer("gpt-6-luna", api="chat" if wire == "chat" else "responses", **options)


def _sent(served: Peer) -> list[Any]:
    return [json.loads(seen.body) for seen in served.seen]


@every("wire", ["responses", "chat", "messages"])
@every(
    "body",
    [
        b'{"input_tokens": 1, "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"input_tokens": "\xff"}',
        b'{"input_tokens": -5}',
        b'{"input_tokens": true}',
    ],
    ids=["deep", "no text", "negative", "no number"],
)
def test_an_answer_that_counts_nothing_is_an_estimate(wire: str, body: bytes) -> None:
    """Whatever the server writes, it is no crash."""
    with peer([answer(200, body)]) as served:
        count = fx.run(ASKED.provide(_served(wire, served)))

    assert count.is_estimate
    assert "counts no tokens" in count.warnings[-1].message


def test_a_key_that_an_answer_repeats_is_not_shown() -> None:
    """Also where a status means that there is nothing of the kind."""
    words = {"error": {"message": "The model m of sk-secret-1 does not exist", "code": "model_not_found"}}
    with peer([answer(404, json.dumps(words).encode())]) as served:
        layer = openai.layer("m", base_url=served.url, api_key="sk-secret-1", retry=None)
        failure: Any = fx.run_result(ASKED.provide(layer)).failure()

    assert isinstance(failure.reason, ModelUnavailableError)
    assert "sk-secret-1" not in failure.message


def test_openai_counts_on_responses() -> None:
    """The prompt, the tools and the schema are sent, by the SDK's parameter type, and its number comes back."""
    with peer([answer(200, OPENAI)]) as served:
        count = fx.run(ASKED.provide(_served("responses", served)))
    body = _sent(served)[0]

    assert count == TokenCount(41, "provider")
    assert not count.is_estimate
    assert served.seen[0].line.startswith("POST /responses/input_tokens")
    assert faults(input_token_count_params.InputTokenCountParams, body) == []
    assert {"instructions", "input", "tools", "text", "reasoning", "model"} == set(body)


def test_anthropic_counts() -> None:
    """The same at Anthropic; what is not counted, as the most tokens of the answer, is not sent."""
    with peer([answer(200, ANTHROPIC)]) as served:
        count = fx.run(ASKED.provide(_served("messages", served)))
    body = _sent(served)[0]

    assert count == TokenCount(42, "provider")
    assert served.seen[0].line.startswith("POST /v1/messages/count_tokens")
    assert faults(message_count_tokens_params.MessageCountTokensParams, body) == []
    assert {"messages", "system", "tools", "model", "output_config", "thinking"} <= set(body)
    assert "max_tokens" not in body


def test_a_server_of_chat_completions_that_counts_is_believed() -> None:
    """llama.cpp counts there too, by an address of its own."""
    with peer([answer(200, OPENAI)]) as served:
        count = fx.run(ASKED.provide(_served("chat", served)))

    assert count == TokenCount(41, "provider")
    assert served.seen[0].line.startswith("POST /chat/completions/input_tokens")
    assert {"messages", "tools"} <= set(_sent(served)[0])


@every("wire", ["responses", "chat", "messages"])
@every("told", [answer(404, LOST), answer(405, b"no", kind="text/plain"), answer(200, b"<html>", kind="text/html")])
def test_a_server_that_counts_none_gives_an_estimate_that_says_so(wire: str, told: bytes) -> None:
    """It is marked as one, with a warning, and the server is not bothered twice."""
    with peer([told]) as served:
        first, second = fx.run(fx.all_(ASKED, ASKED).provide(_served(wire, served)))

    assert first == second
    assert first.is_estimate
    assert first.method == "estimate"
    assert first.tokens > estimated_tokens(PROMPT)
    assert [warning.subject for warning in first.warnings] == ["count_tokens"]
    assert len(served.seen) in (1, 2)  # both may have been under way at once


@pytest.mark.parametrize("wire", ["responses", "messages"])
def test_a_fault_is_no_estimate(wire: str) -> None:
    """A model that there is none of, a request that is refused, and a limit are failures, as they are when asked."""
    no_model = b'{"error": {"message": "The model `gpt-6-luna` does not exist", "code": "model_not_found"}}'
    reasons: list[Any] = []
    for status, body in ((404, no_model), (400, b'{"error": {"message": "bad"}}'), (429, b"{}")):
        with peer([answer(status, body)]) as served:
            ended: Any = fx.run_result(ASKED.provide(_served(wire, served))).failure()
        assert isinstance(ended, AiError)
        assert ended.method == "count"
        reasons.append(type(ended.reason))

    assert reasons == [ModelUnavailableError, InvalidRequestError, RateLimitError]


@pytest.mark.parametrize("wire", ["responses", "chat", "messages"])
def test_a_count_names_what_is_not_sent(wire: str) -> None:
    """What a provider lacks is a warning of the count, as it would be of the answer; nothing else is sent for it."""
    asked = LanguageModel.count_tokens("Hello", temperature=0.5, stop=("END",), reasoning="low")
    with peer([answer(200, OPENAI)]) as served:
        count = fx.run(asked.provide(_served(wire, served)))

    assert "temperature" in {warning.subject for warning in count.warnings}
    assert count.tokens == 41
