"""Scripted models that bind thinking: each turn gets a thinking block, and each request is checked as the API would.

A program that runs inside `bound_scripts` sends what it always sends. What it receives begins with one more part.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from fxai.messages import Reasoning, ReasoningEnd, ReasoningStart
from fxai.models import ModelRequest
from fxai.providers import anthropic
from fxai.testing import ScriptedModel
from fxai.testing import scripted as module
from tests.kit.binding_server import MODEL, BindingServer, states

__all__ = ["bound_scripts"]


@contextmanager
def bound_scripts(patch: pytest.MonkeyPatch) -> Generator[BindingServer]:
    """Let all scripted models bind their thinking. Yields the server that checks their requests."""
    server = BindingServer(lambda _: states(""))
    script: Any = ScriptedModel
    answer = script.next_turn

    def next_turn(self: ScriptedModel, request: ModelRequest) -> Any:
        turn = answer(self, request)
        thought = _think(server, request)
        if thought is None:
            return turn
        items = [ReasoningStart("thought"), ReasoningEnd("thought", metadata=thought.metadata), *turn.items]
        content = None if turn.content is None else (thought, *turn.content)
        return msgspec.structs.replace(turn, items=items, content=content)

    facts = anthropic.facts(MODEL)
    patch.setattr(script, "next_turn", next_turn)
    patch.setattr(vars(module)["_Scripted"], "facts", property(lambda self: self._script.facts or facts))
    yield server


def _think(server: BindingServer, request: ModelRequest) -> Reasoning | None:
    """Return the thinking of an answer. None if the request cannot be sent to this model at all."""
    try:
        sent = anthropic.prepare_request(request, model=MODEL)
    except Exception:
        return None  # the program is about something else, such as media that the API refuses
    body = json.loads(sent.encoded)
    dropped = server.receive(body, sent.betas)
    if dropped is None:
        return None
    block = server.answer(body, dropped)[0]
    bound = {} if sent.bound is None else {"bound": sent.bound.to_data()}
    return Reasoning("", metadata={"anthropic": {"signature": block["signature"], **bound}})
