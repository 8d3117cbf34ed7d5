"""The law of bytes: what is sent of a request is never more bytes than its bound, so neither is it more tokens."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Layer, fx
from fxai.messages import AiError, AssistantMessage, Message, Prompt, SystemMessage, UserMessage
from fxai.models import Allowances, LanguageModel, Limit, limit
from fxai.providers import anthropic, openai
from fxai.tools import Tool, Toolkit
from tests.kit.http_peer import Peer, Script, Seen, answer, peer
from tests.kit.trials import examples

TEXT = st.text(min_size=1, max_size=60).filter(str.strip)
TOOLS = st.lists(
    st.tuples(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True), TEXT), max_size=3, unique_by=lambda one: one[0]
)


class Location(msgspec.Struct, frozen=True):
    """Where something is."""

    name: str
    near: list[str]


def _layer(kind: str, served: Peer) -> Layer[LanguageModel, AiError]:
    if kind == "anthropic":
        return anthropic.layer("claude-sonnet-4-5", api_key="sk-1", base_url=served.url, retry=None)
    api: Literal["chat", "responses"] = "chat" if kind == "chat" else "responses"
    return openai.layer("gpt-4o", api_key="sk-1", base_url=f"{served.url}/v1", api=api, retry=None)


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
@settings(max_examples=examples(20))
@given(system=TEXT, turns=st.lists(TEXT, min_size=1, max_size=5), tools=TOOLS)
def test_no_more_bytes_are_sent_than_are_reserved(
    kind: str, system: str, turns: list[str], tools: list[tuple[str, str]]
) -> None:
    """In any script, with tools and a long history: the whole body, with all that is around the texts."""
    allowances, team = Allowances.in_process(), Limit.budget("team", tokens=10**9)
    sizes = list[tuple[int, int]]()
    toolkit = Toolkit.make(
        *(Tool.make(name, parameters=Location, success=str, description=text) for name, text in tools)
    )
    messages: list[Message] = [SystemMessage(system)]
    for text in turns:
        messages += [UserMessage.make(text), AssistantMessage.make(text)]
    prompt = Prompt.make([*messages, UserMessage.make("?")])

    def choose(seen: Seen) -> Script:
        sizes.append((len(seen.body), allowances.look_up(team.key("tokens"), now=0.0).reserved))
        return [answer(400, b"{}")]

    with peer(choose=choose) as served:
        model = limit(_layer(kind, served), team, allowances=allowances, max_tokens=1, unbounded="refuse")
        asked: Any = LanguageModel.generate_text(prompt, toolkit=toolkit, resolve_tools=False)
        fx.run_result(asked.provide(model))

    ((sent, reserved),) = sizes
    assert sent <= reserved
