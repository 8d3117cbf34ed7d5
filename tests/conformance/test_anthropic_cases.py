"""Anthropic's models: the conformance cases of what a whole request asks for."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from fxai.effects import fx
from fxai.messages import AiError
from fxai.models import LanguageModel
from fxai.providers import anthropic
from tests.kit.conformance import Case, case


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


class Tree(msgspec.Struct, frozen=True):
    """A tree: a schema that refers to itself, for which Anthropic has no strict form."""

    branches: list[Tree]


class Wire:
    """Answers each request with one message, and keeps what was asked."""

    def __init__(self, *content: dict[str, Any]) -> None:
        self.asked: list[Any] = []
        self._content = content

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """The message."""
        self.asked.append(msgspec.json.decode(request.content))
        reply = {"type": "message", "content": list(self._content), "stop_reason": "tool_use"}
        return httpx2.Response(200, json=reply)


def _ask(wire: Wire, model: str, schema: Any, **options: Any) -> Any:
    layer = anthropic.layer(model, api_key="sk-1", transport=httpx2.MockTransport(wire), retry=None, **options)
    return fx.run_result(LanguageModel.generate_object("Where?", schema, max_tokens=99).provide(layer))


@case("provider.anthropic/185")
def test_a_model_without_structured_outputs_is_made_to_call_a_tool(case: Case) -> None:
    """Without a toolkit too, one tool is sent and chosen, its parameters are the answer, and the answer is decoded."""
    wire = Wire({"type": "tool_use", "id": "t", "name": "City", "input": {"name": "Oslo"}})
    answer = _ask(wire, case.given["model"], City).unwrap()
    sent = wire.asked[0]

    assert answer.value == City("Oslo")
    assert sent["tool_choice"]["type"] == case.expect["tool_choice"]["type"]
    assert [tool["name"] for tool in sent["tools"]] == [sent["tool_choice"]["name"]]
    assert "output_config" not in sent


@case("lm.object/088")
def test_a_schema_that_cannot_be_strict_fails_before_any_request(case: Case) -> None:
    """Where strict is asked for. Else, as our semantics has it for tools, it is sent as it is, and it is said."""
    wire = Wire({"type": "tool_use", "id": "t", "name": "Tree", "input": {"branches": []}})
    failure = _ask(wire, "claude-sonnet-5", Tree, strict_json_schema=True).failure()

    assert isinstance(failure, AiError)
    assert type(failure.reason).__name__ == case.expect["error"]["reason"]
    assert failure.is_retryable is case.expect["error"]["retryable"]
    assert len(wire.asked) == case.expect["requests sent"]
    assert _ask(wire, "claude-sonnet-5", Tree).unwrap().value == Tree([])
