"""Traces of durable runs: what a run does is in spans, what it reads from its journal is not done and has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from returns.result import Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.durable import durable
from fxai.testing import ScriptedModel, call, text
from tests.kit.traces import Traces


def _program(place: Path, *, is_traced_inside: bool, traces: Traces) -> Any:
    """A run with one call, traced inside of what makes it durable, or around it."""
    charge = Tool.make("charge", parameters=int, success=str)
    agent = Agent.make("clerk", toolkit=Toolkit.make(charge))
    model = ScriptedModel.make([call("charge", 500), text("It is paid.")])
    live: Any = charge.handler(lambda cents: Success(f"charged {cents}")) | model.layer
    asked = agent.execute("Pay.")
    if is_traced_inside:
        return asked.provide(durable(live | traces.layer(), run="order-17", store=place))
    return asked.provide(durable(live, run="order-17", store=place)).provide(traces.layer())


@pytest.mark.parametrize("is_traced_inside", [True, False])
def test_what_comes_from_a_journal_has_no_span(tmp_path: Path, is_traced_inside: bool) -> None:
    """The first time there are all spans, each once; the second time no model is asked and no tool is run."""
    first, again = Traces(), Traces()
    for traces in (first, again):
        program = _program(tmp_path / "runs.db", is_traced_inside=is_traced_inside, traces=traces)
        assert fx.run(program).text == "It is paid."

    names = [span.name for span in first.spans]
    repeated = [span.name for span in again.spans]
    assert sorted(names) == [
        "chat scripted",
        "chat scripted",
        "execute_tool charge",
        "invoke_agent clerk",
        "step",
        "step",
    ]
    assert not {"chat scripted", "execute_tool charge"}.intersection(repeated)
