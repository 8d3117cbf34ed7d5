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


def _program(location: Path, traces: Traces | None, *, is_inside: bool = False, is_streamed: bool = False) -> Any:
    """A run with one call, traced inside of what makes it durable, around it, or not at all."""
    charge = Tool.make("charge", parameters=int, success=str)
    agent = Agent.make("clerk", toolkit=Toolkit.make(charge))
    model = ScriptedModel.make([call("charge", 500), text("It is paid.")])
    live: Any = charge.handler(lambda cents: Success(f"charged {cents}")) | model.layer
    asked: Any = agent.stream("Pay.").collect() if is_streamed else agent.execute("Pay.")
    if traces is None or not is_inside:
        ran = asked.provide(durable(live, run="order-17", store=location))
        return ran if traces is None else ran.provide(traces.layer())
    return asked.provide(durable(live | traces.layer(), run="order-17", store=location))


@pytest.mark.parametrize("is_inside", [True, False])
def test_what_comes_from_a_journal_has_no_span(tmp_path: Path, is_inside: bool) -> None:
    """The first time there are all spans, each once; the second time no model is asked and no tool is run."""
    first, again = Traces(), Traces()
    for traces in (first, again):
        assert fx.run(_program(tmp_path / "runs.db", traces, is_inside=is_inside)).text == "It is paid."

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
    assert sorted(repeated) == ["invoke_agent clerk", "step", "step"]


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_step_from_a_journal_is_linked_to_the_step_as_it_was_taken(
    tmp_path: Path, is_inside: bool, is_streamed: bool
) -> None:
    """It is gone through again, so it has a span, which says that it is replayed and names the one before."""
    first, again = Traces(), Traces()
    for traces in (first, again):
        fx.run(_program(tmp_path / "runs.db", traces, is_inside=is_inside, is_streamed=is_streamed))

    steps = [span.context for span in first.spans if span.name == "step" and span.context]
    replayed = [span for span in again.spans if span.name == "step"]
    links = [[(link.context.trace_id, link.context.span_id) for link in span.links] for span in replayed]
    assert links == [[(step.trace_id, step.span_id)] for step in steps]
    assert [(span.attributes or {}).get("fxai.run.replayed") for span in replayed] == [True, True]
    assert not any(span.links or "fxai.run.replayed" in (span.attributes or {}) for span in first.spans)


def test_a_run_that_was_not_traced_is_linked_to_nothing(tmp_path: Path) -> None:
    """It is replayed all the same."""
    location, traces = tmp_path / "runs.db", Traces()
    fx.run(_program(location, None))

    assert fx.run(_program(location, traces)).text == "It is paid."
    assert not any(span.links for span in traces.spans)
