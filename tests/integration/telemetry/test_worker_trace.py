"""Traces over processes: what handlers do on the workers of a cluster is in the trace of the program."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from fxai import Agent
from fxai.distributed import Cluster, distribute
from fxai.effects import Layer, fx
from fxai.testing import ScriptedModel, call
from fxai.tools import OutcomeUnknown, Toolkit
from tests.kit import clusters, queues
from tests.kit.collector import Collected, collector
from tests.kit.traced_tools import COLLECTOR, desk, kit, plain
from tests.kit.traces import Traces

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WORKER = "tests.kit.traced_worker"


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Generator[Collected]:
    """What the workers of a test export."""
    with collector() as collected:
        monkeypatch.setenv(COLLECTOR, collected.url)
        yield collected


def _run(cluster: clusters.RunningCluster, tools: Any, name: str, program: Any, tracer: Layer[Any]) -> Any:
    remote = distribute(tools, f"{WORKER}:{name}").provide(Cluster.layer(cluster.address))
    return fx.run(program.provide(remote).provide(tracer))


def _tree(collected: Collected, traces: Traces) -> dict[str, list[str]]:
    """Above which spans of both processes a span of a name stands, all in the one trace that there is."""
    names = {span.span_id: span.name for span in collected.spans()}
    names |= {span.context.span_id.to_bytes(8, "big"): span.name for span in traces.spans if span.context}
    there = {(span.name, span.trace_id, span.parent_span_id) for span in collected.spans()}
    (trace_id,) = {trace_id for _, trace_id, _ in there}
    assert {span.context.trace_id.to_bytes(16, "big") for span in traces.spans if span.context} <= {trace_id}
    found: dict[str, list[str]] = {}
    for name, _, parent in sorted(there):
        found.setdefault(names.get(parent, "nothing"), []).append(name)
    return found


def test_spans_of_handlers_are_children_of_the_calls_span(collected: Collected) -> None:
    """One trace over two processes, and one span of the call, which is the program's; what is exported at the end."""
    asking = Agent.make("clerk", toolkit=kit).execute("Look.")
    asking = asking.provide(ScriptedModel.make([call("look", "tea", id="c1"), "Found."]).layer)
    traces = Traces()
    with clusters.start() as cluster:
        worker = cluster.add_worker(f"{WORKER}:desk")
        answer = _run(cluster, desk, "desk", asking, traces.layer())
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143, worker.output

    assert answer.text == "Found."
    assert _tree(collected, traces) == {"execute_tool look": ["left", "right", "search"]}
    assert [span.name for span in traces.spans].count("execute_tool look") == 1


def test_a_worker_is_traced_by_an_option_too(collected: Collected) -> None:
    """Function tools have no layer for a tracer; what other libraries trace in them stands in the call's span."""
    traces = Traces()
    with clusters.start() as cluster:
        worker = cluster.add_worker(f"{WORKER}:plain", f"{WORKER}:bare", "--telemetry")
        assert (
            _run(cluster, plain, "plain", Toolkit.make(plain).call("plain", {"key": "a"}), traces.layer()).result == "A"
        )
        assert _run(cluster, desk, "bare", kit.handle("look", "b").collect(), traces.layer())[-1].result == "B"
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143, worker.output

    above = {span.span_id: span.name for span in collected.spans()}
    above |= {span.context.span_id.to_bytes(8, "big"): span.name for span in traces.spans if span.context}
    assert sorted((span.name, above[span.parent_span_id]) for span in collected.spans()) == [
        ("left", "execute_tool look"),
        ("request", "execute_tool plain"),
        ("right", "execute_tool look"),
        ("search", "execute_tool look"),
    ]


def test_a_call_on_a_queue_is_in_the_trace_of_the_program(collected: Collected, tmp_path: Path) -> None:
    """What names the span stands in the database with the call, and the worker's spans stand under it."""
    traces, location = Traces(), str(tmp_path / "calls.db")
    with queues.start(location) as queue:
        worker = queue.add_worker(f"{WORKER}:desk")
        remote = distribute(desk, f"{WORKER}:desk").provide(Cluster.queue_layer(location))
        assert fx.run(kit.call("look", "tea").provide(remote).provide(traces.layer())).result == "TEA"
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143, worker.output

    assert _tree(collected, traces) == {"execute_tool look": ["left", "right", "search"]}


def test_a_worker_with_a_tracer_has_the_calls_span_where_the_program_has_none(collected: Collected) -> None:
    """It is the root of a trace of the worker's own."""
    with clusters.start() as cluster:
        worker = cluster.add_worker(f"{WORKER}:desk")
        assert _run(cluster, desk, "desk", kit.call("look", "tea"), Layer.empty()).result == "TEA"
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130, worker.output

    assert _tree(collected, Traces()) == {
        "execute_tool look": ["left", "right", "search"],
        "nothing": ["execute_tool look"],
    }


def test_a_traced_worker_that_is_killed_holds_nothing_up(collected: Collected) -> None:
    """The span of the call ends in the program, and says how."""
    traces = Traces()
    with clusters.start() as cluster:
        workers = [cluster.add_worker(f"{WORKER}:desk") for _ in range(2)]
        lost = _run(cluster, desk, "desk", kit.call("lose", "tea").exit(), traces.layer())
        (killed,) = [worker for worker in workers if worker.has_ended()]
        assert killed.wait() == -signal.SIGKILL

    (failure,) = lost.cause.failures
    assert isinstance(failure, OutcomeUnknown)
    assert traces.attributes("execute_tool lose")["error.type"] == "OutcomeUnknown"
    assert collected.spans() == []


def test_workers_without_a_tracer_import_none() -> None:
    """Nor does a program; a traced program leaves them as they are."""
    with clusters.start() as cluster:
        cluster.add_worker("tests.kit.traced_tools:desk")
        remote = distribute(desk, "tests.kit.traced_tools:desk").provide(Cluster.layer(cluster.address))
        traced = fx.run(kit.call("imported", {}).provide(remote).provide(Traces().layer()))

        program = cluster.start("-c", _PROGRAM, cluster.address)
        assert program.wait() == 0, program.output
    assert traced.result == []


_PROGRAM = """
import sys
from fxai.distributed import Cluster, distribute
from fxai.effects import fx
from tests.kit.traced_tools import desk, kit
remote = distribute(desk, "tests.kit.traced_tools:desk").provide(Cluster.layer(sys.argv[1]))
assert fx.run(kit.call("look", "tea").provide(remote)).result == "TEA"
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_a_worker_that_is_to_be_traced_needs_a_provider() -> None:
    """Spans would go nowhere, in silence: it says what to do."""
    process = clusters.Process(
        ("-m", "fxai", "worker", "tcp://127.0.0.1:1", "tests.kit.traced_tools:desk", "--telemetry")
    )
    try:
        assert process.wait() == 1
        assert "OpenTelemetry has no TracerProvider in this process. Set a provider in a module of" in process.output
        assert "Traceback" not in process.output
    finally:
        process.end()
