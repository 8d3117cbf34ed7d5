"""Facts that a program reads from Anthropic's model endpoint."""

from __future__ import annotations

import json
from datetime import date
from typing import Any, Never

import pytest

from fxai.effects import Gen, fx
from fxai.messages import AiError, InvalidOutputError, ModelUnavailableError
from fxai.models import LanguageModel, ModelFacts
from fxai.providers import anthropic
from tests.kit.anthropic_replies import message
from tests.kit.http_peer import answer, peer

KEY = "sk-ant-0123456789"


def support(**supported: bool) -> dict[str, Any]:
    """Return capabilities in the form of the endpoint."""
    return {name: {"supported": value} for name, value in supported.items()}


def page(**changes: Any) -> bytes:
    """Return the page of a model, in the form of the official SDK's types."""
    types = support(adaptive=True, between_tools=True, disabled=False, enabled=False)
    capabilities: dict[str, Any] = {
        **support(batch=True, citations=True, code_execution=True, image_input=True, pdf_input=False),
        "structured_outputs": {"supported": False},
        "thinking": {"supported": True, "types": types},
        "effort": {"supported": True, **support(low=True, medium=True, high=True, xhigh=False, max=False)},
        "context_management": {"supported": True},
        "server_tools": {"supported": True},
    }
    told: dict[str, Any] = {
        "type": "model",
        "id": "claude-opus-6",
        "created_at": "2026-12-01T00:00:00Z",
        "deprecated_at": None,
        "display_name": "Claude Opus 6",
        "lifecycle": "active",
        "line": "opus",
        "max_input_tokens": 2_000_000,
        "max_tokens": 256_000,
        "retires_at": "2027-12-01T00:00:00Z",
        "capabilities": capabilities,
    }
    return json.dumps({**told, **changes}).encode()


def read(body: bytes, model: str = "claude-opus-6", status: int = 200) -> tuple[ModelFacts | AiError, list[str]]:
    """Return the outcome of one reading, and the requests that the server received."""
    with peer([answer(status, body)]) as server:
        reading = anthropic.read_facts(model, api_key=KEY, base_url=server.url, retry=None)
        outcome: ModelFacts | AiError = fx.run(reading.catch_all(fx.succeed))
        return outcome, [seen.line for seen in server.seen]


def test_the_endpoint_wins_over_the_table() -> None:
    """One GET states the limits, the lifecycle and the abilities; the other facts are those of the table."""
    facts, lines = read(page())
    table = anthropic.facts("claude-opus-6")

    assert isinstance(facts, ModelFacts)
    assert lines == ["GET /v1/models/claude-opus-6 HTTP/1.1"]
    assert (facts.max_output_tokens, facts.max_input_tokens) == (256_000, 2_000_000)
    assert (facts.released, facts.retires) == (date(2026, 12, 1), date(2027, 12, 1))
    assert (facts.structured_output, facts.strict_tools, facts.inputs) == (False, False, ("text", "image"))
    assert (facts.thinking, facts.efforts) == (("adaptive", "between_tools"), {"messages": ("low", "medium", "high")})
    assert (facts.forced_calls, facts.sampling, facts.binds_thinking) == (False, "never", table.binds_thinking)
    assert facts.sources["max_output_tokens"].sources == ("Anthropic's model endpoint",)
    assert facts.sources["forced_calls"].assumed


def test_what_the_endpoint_leaves_open_stays_as_the_table_has_it() -> None:
    """A null is no statement, and the epoch is no date."""
    facts, _ = read(page(capabilities=None, max_tokens=None, created_at="1970-01-01T00:00:00Z"), "claude-haiku-5-5")
    table = anthropic.facts("claude-haiku-5-5")

    assert isinstance(facts, ModelFacts)
    assert (facts.max_output_tokens, facts.released, facts.thinking) == (128_000, table.released, table.thinking)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"nothing", page(type="error"), page(max_tokens="many")])
def test_an_answer_that_is_no_model_is_a_typed_failure(body: bytes) -> None:
    """The failure is an InvalidOutputError of this operation."""
    failure, _ = read(body)

    assert isinstance(failure, AiError)
    assert (type(failure.reason), failure.method) == (InvalidOutputError, "read_facts")


def test_a_model_that_is_not_served_is_a_typed_failure() -> None:
    """A 404 is a ModelUnavailableError."""
    body = b'{"type": "error", "error": {"type": "not_found_error", "message": "model: claude-opus-6"}}'
    failure, _ = read(body, status=404)

    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, ModelUnavailableError)


def test_a_layer_reads_the_endpoint_only_if_it_is_told_to() -> None:
    """With "provider", the layer reads once before the first request, and its requests stay within those facts."""
    reply = json.dumps(message([{"type": "text", "text": "Hi."}], "end_turn")).encode()
    asked = LanguageModel.generate_text("Hello", max_tokens=9, reasoning="max")

    def lines(facts: Any) -> list[str]:
        scripts = [[answer(200, page())], [answer(200, reply)]] if facts == "provider" else [[answer(200, reply)]]
        with peer(*scripts) as server:
            layer = anthropic.layer("claude-opus-6", api_key=KEY, base_url=server.url, facts=facts, retry=None)
            fx.run(asked.provide(layer))
            sent = json.loads(server.seen[-1].body)
            assert sent["output_config"]["effort"] == ("max" if facts is None else "high")
            return [seen.line.split()[0] for seen in server.seen]

    assert lines("provider") == ["GET", "POST"]
    assert lines(None) == ["POST"]


def test_facts_of_a_layer_are_those_of_its_service() -> None:
    """A layer exposes the facts that it is given, completed by the policies, or the facts of the table."""
    given = ModelFacts(provider="anthropic", model="mine", max_output_tokens=700)

    @fx.gen
    def facts() -> Gen[ModelFacts | None, Never, LanguageModel]:
        return (yield from fx.service(LanguageModel)).facts

    found = fx.run(facts().provide(anthropic.layer("mine", api_key=KEY, facts=given)))
    by_name = fx.run(facts().provide(anthropic.layer("claude-opus-5", api_key=KEY)))

    assert found is not None
    assert (found.max_output_tokens, found.sampling) == (700, "never")
    assert by_name is anthropic.facts("claude-opus-5")
