"""Handlers on a real cluster, and of a work queue: a program sees what it would see of handlers in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from fxai.agents import Agent
from fxai.distributed import Cluster, Placement, WorkerDefectError, distribute
from fxai.effects import Backend, Cause, EffectOf, Fail, Failed, Succeeded, fx
from fxai.testing import ScriptedModel, call
from fxai.tools import HandlerUnavailable, Toolkit
from tests.kit import cluster_tools as tools
from tests.kit.cluster_tools import Pair, Refused, kit, records
from tests.kit.clusters import RunningCluster
from tests.kit.queues import RunningQueue

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.cluster_tools:desk"


@pytest.fixture(params=["cluster", "queue"])
def run(request: pytest.FixtureRequest, backend: Backend) -> Callable[..., Any]:
    """Runs a program whose handlers are on the cluster, or answer a queue, and gives its exit."""
    running = request.getfixturevalue(request.param)
    there = Cluster.layer(running.address) if request.param == "cluster" else Cluster.queue_layer(running.location)
    return _runner(there, backend)


@pytest.fixture
def run_on_cluster(cluster: RunningCluster, backend: Backend) -> Callable[..., Any]:
    """Runs a program whose handlers are on the cluster, for what only that has."""
    return _runner(Cluster.layer(cluster.address), backend)


def _runner(there: Any, backend: Backend) -> Callable[..., Any]:
    def run(program: EffectOf[Any, Any, Any], **options: Any) -> Any:
        live = distribute(tools.desk, TARGET, **options).provide(there)
        return fx.run_exit(program.provide(live), backend=backend)

    return run


def test_results_and_failures_are_those_of_handlers_here(run: Callable[..., Any]) -> None:
    """Typed calls and calls in JSON, of both failure modes, give what they give in this process."""
    programs: list[Any] = [
        tools.add.call(Pair(1, 2)),
        tools.halve.call(3),
        kit.call("halve", 4),
        kit.call("halve", 3),
        kit.call("told", 3),
        kit.call("plain", {"n": 3}),
        kit.call("misfit", {}),
        kit.call("interrupted", {}).timeout(0.5),
    ]

    there = run(fx.for_each([program.exit() for program in programs], lambda each: each, concurrency=8)).value
    here = [fx.run(program.exit().provide(tools.desk.layer)) for program in programs]
    assert there == here
    assert there[:2] == [Succeeded(3), Failed(Cause((Fail(Refused("3 is odd")),)))]


def test_a_defect_keeps_its_class_and_its_traceback_in_words(run: Callable[..., Any]) -> None:
    """It is a defect here, too, and says where on the worker it was raised."""
    end = run(tools.crash.call(7))
    (defect,) = end.cause.defects

    assert isinstance(defect, WorkerDefectError)
    assert (defect.kind, defect.text) == ("ValueError", "no 7")
    assert 'raise ValueError(f"no {n}")' in defect.trace
    assert defect.trace in defect.__notes__[0]
    assert not end.cause.failures


def test_a_cancellation_that_nobody_requested_is_a_defect_of_its_call(run: Callable[..., Any]) -> None:
    """The worker reports the defect, continues, and answers the call beside it."""
    lost, added = run(fx.all_(tools.lost.call(1).exit(), tools.add.call(Pair(1, 2)).exit())).value

    assert added == Succeeded(3)
    assert [defect.kind for defect in lost.cause.defects] == ["ForeignCancellationError"]


def test_services_are_built_once_on_each_worker(run: Callable[..., Any]) -> None:
    """Calls run in two processes that are not this one, and each process has built its desk once."""
    asking = fx.for_each(range(60), lambda _: kit.call("who", {}).map(lambda given: given.result), concurrency=16)
    locations: set[Any] = set()
    for _ in range(30):  # one of them may be quick enough to have all of a round
        locations.update(run(asking).value)
        if len(locations) > 1:
            break

    assert len(locations) == 2
    assert len({pid for pid, _ in locations}) == 2
    assert [tools.count_built(pid) for pid, _ in locations] == [1, 1]


def test_preliminary_values_come_in_order_and_the_handler_waits_for_their_reader(
    run_on_cluster: Callable[..., Any],
) -> None:
    """One is shown when the one before was taken."""
    seen: list[tuple[Any, int]] = []
    before = len(records("counted"))

    def look(outcome: Any) -> EffectOf[None]:
        return fx.sleep(0.05).map(lambda _: seen.append((outcome.result, len(records("counted")) - before)))

    run_on_cluster(kit.handle("count", 4).for_each(look))
    assert [value for value, _ in seen] == [0, 1, 2, 3, 4]
    assert [counted <= value + 1 for value, counted in seen[:-1]] == [True] * 4


def test_many_readers_at_once_have_their_own_values(run: Callable[..., Any]) -> None:
    """Values of calls that run side by side are not mixed."""
    reads = [kit.handle("count", n).collect() for n in range(6)]

    assert [
        [one.result for one in read] for read in run(fx.for_each(reads, lambda each: each, concurrency=6)).value
    ] == [list(range(n + 1)) for n in range(6)]


def test_leaving_a_stream_early_stops_the_handler(run: Callable[..., Any]) -> None:
    """It would never end: when the program has ended, its finalizer has run, and nothing was counted after that."""
    name = f"counting {uuid4().hex}"

    first = run(kit.handle("count_on", name).take(2).collect())
    assert [one.result for one in first.value] == [0, 1]
    *counted, last = records(name)
    assert last == f"{name} stopped"
    assert counted == [f"{name} {at}" for at in range(len(counted))]


def test_cancelling_a_call_runs_the_finalizers_of_its_handler_first(run: Callable[..., Any]) -> None:
    """When the cancelled program has ended, they have run on the worker."""
    name = f"cancelled {uuid4().hex}"

    def cancel(begun: float) -> EffectOf[Any, Any, Any]:
        return tools.forever.call(name).timeout(begun)

    end = run(cancel(2.0))
    assert len(end.cause.failures) == 1
    assert records(f"begun {name}") == [f"begun {name}"]
    assert records(f"ended {name}") == [f"ended {name}"]


def test_a_handler_knows_its_call(run: Callable[..., Any]) -> None:
    """Id, tool and deadline are there; the conversation is where it was asked for, else a defect says how to."""
    there = run(kit.call("about", {}, call_id="c1"), messages=True)
    bare = run(kit.call("about", {}))

    assert there.value.result == {"call_id": "c1", "tool": "about", "messages": 0, "has_deadline": False}
    assert "distribute(…, messages=True)" in str(bare.cause.defects[0])


def test_a_run_of_an_agent_calls_tools_on_the_cluster(run: Callable[..., Any]) -> None:
    """The history is that of a run whose handlers are here: results, failures, and what a handler sees of the run."""
    asked = [call("add", {"a": 1, "b": 2}, id="1"), call("told", 3, id="2"), call("about", {}, id="3")]
    answers: list[Any] = [asked, "Three, and no half."]
    asking = Agent.make("clerk", toolkit=kit).execute("Add and halve.")

    there = run(asking.provide(ScriptedModel.make(answers).layer), messages=True).value
    here = fx.run(asking.provide(ScriptedModel.make(answers).layer).provide(tools.desk.layer))
    assert there.history == here.history
    assert there.text == "Three, and no half."


def test_a_layer_can_hold_its_calls_back(run: Callable[..., Any]) -> None:
    """No more of a tool's calls than its placement says are on the cluster at once; the others wait here."""
    start = f"held back {uuid4().hex}"
    names = [f"{start} {number}" for number in range(3)]
    placed = {"forever": Placement(concurrency=1)}
    calls = fx.for_each(names, lambda name: tools.forever.call(name).timeout(0.8).exit(), concurrency=3)

    run(calls, placements=placed)
    assert len(records(f"begun {start}")) <= 2


def test_calls_go_where_the_resources_are(run_on_cluster: Callable[..., Any]) -> None:
    """A call that takes a resource of one worker runs there; one that takes what no worker has fails, and says so."""
    fed = run_on_cluster(kit.call("hungry", {}), placements={"hungry": Placement(resources={"food": 1})})
    starved = run_on_cluster(kit.call("hungry", {}), placements={"hungry": Placement(resources={"drink": 1})}, wait=0.3)

    assert fed.value.result == "fed"
    (failure,) = starved.cause.failures
    assert isinstance(failure, HandlerUnavailable)
    assert "no worker with the resources {'drink': 1}" in failure.reason


def test_a_queue_has_no_resources(queue: RunningQueue) -> None:
    """A placement that takes one is refused when the layer is built, and told what to do instead."""
    there = distribute(tools.desk, TARGET, placements={"hungry": tools.placed("food")})

    failed: Any = fx.run_exit(kit.call("hungry", {}).provide(there.provide(Cluster.queue_layer(queue.location))))
    (defect,) = failed.cause.defects
    assert "'hungry' requires {'food': 1}: a work queue has no resources" in str(defect)


def test_a_layer_that_cannot_be_built_on_a_worker_is_a_failure_of_the_call(
    cluster: RunningCluster, backend: Backend
) -> None:
    """It says what failed, and that nothing was run."""
    live = distribute(tools.broken, "tests.kit.cluster_tools:broken").provide(Cluster.layer(cluster.address))

    failed = fx.run_result(kit.call("add", {"a": 1, "b": 2}).provide(live), backend=backend).failure()
    assert isinstance(failed, HandlerUnavailable)
    assert "cannot build the layer of tests.kit.cluster_tools:broken: " in failed.reason
    assert "no desk is left" in failed.reason


def test_a_worker_with_another_version_of_a_tool_is_not_asked(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's tool takes something else than the worker's: the call is not run, and it says what to do."""
    monkeypatch.setattr(tools, "shout", tools.whisper)
    live = distribute(tools.whisper, "tests.kit.cluster_tools:shout").provide(Cluster.layer(cluster.address))

    called = Toolkit.make(tools.whisper).call("shout", {"text": "a", "times": 2})
    failed = fx.run_result(called.provide(live)).failure()
    assert isinstance(failed, HandlerUnavailable)
    assert "differs from the tool of the program. Restart the worker" in failed.reason


def test_a_program_that_is_killed_leaves_no_handler_behind(cluster: RunningCluster) -> None:
    """Its handlers are cancelled on their workers, and their finalizers run."""
    program = cluster.start("-m", "tests.kit.cluster_program", cluster.address, "orphan")
    _wait_for("begun orphan")
    program.signal(9)

    program.wait()
    _wait_for("ended orphan")
    assert records("ended orphan") == ["ended orphan"]


def _wait_for(line: str) -> None:
    end = time.monotonic() + 30
    while not records(line) and time.monotonic() < end:
        time.sleep(0.05)


def test_parameters_that_are_no_json_are_a_defect_that_says_so(run: Callable[..., Any]) -> None:
    """A typed call is given what its type does not allow."""
    wrong: Any = "three"
    end = run(tools.halve.call(wrong))

    assert "cannot encode the parameters of 'halve' as JSON for a worker" in str(end.cause.defects[0])
