"""Workers of a queue, or programs, that are killed in mid-call: what is run again, and who has the result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="fxai[durable] is not installed")

from fxai.distributed import Cluster, distribute
from fxai.durable import Reply, Runs
from fxai.effects import EffectOf, fx
from fxai.storage.work_queue import WorkQueue
from fxai.tools import HandlerUnavailable, OutcomeUnknown
from tests.kit import cluster_tools as tools
from tests.kit import hostile_desk, queue_program, queues
from tests.kit.cluster_tools import Pair, kit, records
from tests.kit.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.cluster_tools:desk"


def _on(location: str, program: EffectOf[Any, Any, Any], **options: Any) -> Any:
    live = distribute(tools.desk, TARGET, **options).provide(Cluster.queue_layer(location))
    return fx.run_exit(program.provide(live))


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_call_whose_worker_is_killed_is_run_again_only_where_that_is_the_same(folder: None, tmp_path: Path) -> None:
    """The idempotent one gives its result, run by another worker; of the other one the outcome is not known."""
    with queues.start(str(tmp_path / "jobs.db")) as queue:
        for worker in [queue.start_worker(TARGET) for _ in range(4)]:
            worker.found(queues.READY)
        calls = [kit.call("kill_again", "queued first"), kit.call("kill", "queued second"), tools.add.call(Pair(1, 2))]
        again, once, other = _on(queue.location, fx.for_each(calls, lambda each: each.exit())).value

    assert again.value.result == "alive"
    assert records("kill queued first") == ["kill queued first"] * 3
    (failure,) = once.cause.failures
    assert isinstance(failure, OutcomeUnknown)
    assert "was lost or closed" in failure.reason
    assert records("kill queued second") == ["kill queued second"]
    assert other.value == 3


def test_a_call_without_any_worker_fails_in_time_and_is_not_run_later(folder: None, tmp_path: Path) -> None:
    """It says that nobody serves its target; one whose last worker was lost is not known to have ended."""
    with queues.start(str(tmp_path / "jobs.db")) as queue:
        alone = _on(queue.location, tools.add.call(Pair(1, 2)), wait=0.3)
        queue.add_worker(TARGET)
        lost = _on(queue.location, kit.call("kill", "queued, the last one"), wait=0.3)
        queue.add_worker(TARGET)
        after = _on(queue.location, tools.add.call(Pair(2, 2)))

    (defect,) = alone.cause.defects
    assert isinstance(defect.failure, HandlerUnavailable)
    assert f"no worker of {TARGET} in " in defect.failure.reason
    (failure,) = lost.cause.failures
    assert isinstance(failure, OutcomeUnknown)
    assert records("kill queued, the last one") == ["kill queued, the last one"]
    assert after.value == 4


def test_a_worker_that_is_told_to_end_lets_its_calls_end(folder: None, tmp_path: Path) -> None:
    """SIGTERM: the call that runs gives its result, and the process ends as terminated."""
    with queues.start(str(tmp_path / "jobs.db")) as queue:
        worker = queue.add_worker(TARGET)

        @fx.gen
        def program() -> Any:
            counting = yield from fx.fork(kit.handle("count", 30).collect())
            while not records("counted 5"):
                yield from fx.sleep(0.02)
            worker.signal(signal.SIGTERM)
            return (yield from counting.join())

        end = _on(queue.location, fx.scoped(program()))
        assert worker.wait() == 128 + signal.SIGTERM
    assert end.value[-1].result == 30


def test_a_handler_that_holds_its_thread_does_not_keep_its_worker(folder: None, tmp_path: Path) -> None:
    """SIGTERM: after the grace it is left behind, the process ends, and of the call the outcome is not known."""
    target = "tests.kit.hostile_desk:desk"
    with queues.start(str(tmp_path / "jobs.db")) as queue:
        worker = queue.add_worker(target, "--grace", "0.5")

        @fx.gen
        def program() -> Any:
            holding = yield from fx.fork(hostile_desk.kit.call("hold", "a queue"))
            while not records("holds a queue"):
                yield from fx.sleep(0.02)
            worker.signal(signal.SIGTERM)
            code = yield from fx.in_thread(worker.wait)
            yield from fx.in_thread(lambda: queue.add_worker(target))
            return code, (yield from holding.join().result()).failure()

        live = distribute(hostile_desk.desk, target).provide(Cluster.queue_layer(queue.location))
        code, failure = fx.run(fx.scoped(program()).provide(live))
    assert code == 128 + signal.SIGTERM
    assert isinstance(failure, OutcomeUnknown)
    assert records("holds a queue") == ["holds a queue"]


def test_a_forged_row_has_nothing_imported(folder: None, tmp_path: Path) -> None:
    """Whoever can write to the database can have calls of a worker's targets made, and no other module loaded."""

    def forged(key: str, target: str) -> str:
        return json.dumps({"key": key, "target": target, "tool": "add", "digest": "", "params": {"a": 1, "b": 2}})

    texts = {"other": forged("other", "this:desk"), "id": forged("others", TARGET), "none": "[1]", "cut": '{"key":'}
    with queues.start(str(tmp_path / "jobs.db")) as running:
        worker = running.add_worker(TARGET)

        @fx.gen
        def program() -> Any:
            queue = yield from WorkQueue.open(running.location)
            for name, text in texts.items():
                yield from queue.submit(f"call {TARGET}", name, text)
            return (yield from fx.for_each(texts, queue.result))

        ends = fx.run(fx.scoped(program()))
        assert "Zen of Python" not in worker.output
    assert ["another target or ID" in str(end.text) for end in ends] == [True, True, False, False]
    assert [end.status for end in ends] == ["done", "done", "failed", "failed"]


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Where the journal and the queue are."""
    return str(tmp_path / "all.db")


def _start(location: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.kit.queue_program", location], cwd=ROOT)


def test_a_run_that_goes_on_joins_its_call(folder: None, location: str) -> None:
    """The program is killed in mid-call; the call ends meanwhile, and the next program has its result: nobody asks."""
    name = queue_program.name_of(location)
    with queues.start(f"{location}.jobs") as queue:
        queue.add_worker(queue_program.TARGET)
        first = _start(location)
        _until(lambda: records(f"begun {name}"))
        first.kill()
        assert first.wait() == -signal.SIGKILL
        second = _start(location)
        _until(lambda: fx.run(Runs.at(location).show("run")).state.status == "running")
        second.kill()
        second.wait()
        queue_program.let_go(location)
        _until(lambda: records(f"ended {name}"))
        assert queue_program.run(location).text == "It is paid."

    keys = [line.partition(" by ")[2] for line in records(f"begun {name}")]
    assert len(keys) == 1
    assert len(keys[0]) == 32
    assert fx.run(Runs.at(location).show("run")).questions == ()


def test_a_call_in_doubt_is_asked_about_and_run_again_under_another_key(folder: None, location: str) -> None:
    """Program and worker are killed in mid-call: a person says that it is to be made again, and it is, once."""
    name = queue_program.name_of(location)
    with queues.start(f"{location}.jobs") as queue:
        worker = queue.add_worker(queue_program.TARGET)
        program = _start(location)
        _until(lambda: records(f"begun {name}"))
        for pid in (program.pid, worker.pid):
            os.kill(pid, signal.SIGKILL)
        program.wait()
        queue.add_worker(queue_program.TARGET)
        queue_program.let_go(location)
        failed: Any = fx.run_result(queue_program.program(location)).failure()
        assert isinstance(failed, OutcomeUnknown)
        (question,) = fx.run(Runs.at(location).show("run")).questions
        assert (question.kind, question.tool) == ("doubt", "hold")
        fx.run(Runs.at(location).answer("run", question.id, Reply.again()))
        assert queue_program.run(location).text == "It is paid."

    keys = {line.partition(" by ")[2] for line in records(f"begun {name}")}
    assert len(keys) == 2
