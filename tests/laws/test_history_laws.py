"""The law of histories: every API accepts a request of every history, or fxai refuses it before it sends anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import Prompt
from fxai.models import ModelRequest, PreparationError
from fxai.providers import anthropic, openai
from fxai.tools import Tool
from tests.kit.floor import request_breaches
from tests.kit.floor_schema import Wire
from tests.kit.foreign_histories import histories
from tests.kit.reaching import Reached
from tests.kit.trials import examples

TOOLS: Final = (Tool.make("look", parameters=dict[str, int]), Tool.make("net.look", success=str))


def _anthropic(model: str, **options: Any) -> Callable[[ModelRequest], dict[str, Any]]:
    return lambda request: anthropic.prepare_request(request, model=model, **options).body


def _openai(**options: Any) -> Callable[[ModelRequest], dict[str, Any]]:
    return lambda request: openai.prepare_request(request, model="gpt-5.5", **options).body


_OFFICIAL: Final = openai.Profile("chat", server=openai.server_at("https://api.openai.com/v1"))
WIRES: Final[dict[str, tuple[Wire, Callable[[ModelRequest], dict[str, Any]], dict[str, bool]]]] = {
    "messages": ("messages", _anthropic("claude-sonnet-5"), {"system_between": False}),
    "messages, with system messages between": ("messages", _anthropic("claude-fable-5-1"), {}),
    "messages, with prefill": ("messages", _anthropic("claude-sonnet-4-5"), {"prefill": True, "system_between": False}),
    "responses": ("responses", _openai(), {}),
    "responses, not stored": ("responses", _openai(profile=openai.Profile(store=False)), {}),
    "chat": ("chat", _openai(api="chat"), {"compatible": True}),
    "chat, official": ("chat", _openai(profile=_OFFICIAL), {}),
}


@pytest.mark.parametrize("name", WIRES)
def test_every_history_can_be_sent(name: str) -> None:
    """The independent checker accepts each request, or a typed error tells why there is none."""
    wire, prepare, facts = WIRES[name]
    reached = Reached()

    @settings(max_examples=examples(200, least=60))
    @given(histories(), st.sampled_from(["none", "high", None]))
    def law(prompt: Prompt, reasoning: Any) -> None:
        request = ModelRequest(prompt, TOOLS, reasoning=reasoning)
        before = repr(prompt)
        try:
            body = prepare(request)
        except PreparationError:
            reached("refused")
            return

        assert request_breaches(body, wire, **facts) == []
        assert repr(prompt) == before
        reached("sent")

    reached.by(law, sent=20, refused=2)
