"""What handlers, targets, workers and programs should not do on a cluster, and what becomes of the others then."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import warnings
from collections.abc import Generator
from typing import Any

import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from fxai.distributed import Cluster, WorkerDefectError, distribute
from fxai.effects import Backend, Timeout, fx
from fxai.tools import HandlerUnavailable, InvalidResult, OutcomeUnknown
from tests.kit import clusters
from tests.kit import hostile_desk as tools
from tests.kit.cluster_tools import records
from tests.kit.hostile_desk import desk, kit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.hostile_desk:desk"


@pytest.fixture(scope="module")
def two(folder: None) -> Generator[clusters.RunningCluster]:
    """Two workers that take many calls each."""
    with clusters.start() as running:
        workers = [running.start_worker(TARGET, "--threads", "500") for _ in range(2)]
        for worker in workers:
            worker.found(clusters.READY)
        yield running


def _live(cluster: clusters.RunningCluster, target: str = TARGET, **options: Any) -> Any:
    return distribute(desk, target, **options).provide(Cluster.layer(cluster.address))


@pytest.mark.parametrize("name", ["leave", "leave_beside"])
def test_a_handler_that_exits_ends_its_call_alone(two: clusters.RunningCluster, backend: Backend, name: str) -> None:
    """It is a defect of the call, also from a parallel part of it; the worker and its other calls go on."""
    beside = kit.call("wait", len(records("waits"))).exit()

    end = fx.run(fx.race(beside, kit.call(name, 3).exit()).provide(_live(two)), backend=backend)
    (defect,) = end.cause.defects
    assert isinstance(defect, WorkerDefectError)
    assert "SystemExit" in defect.trace
    sizes = fx.for_each(range(20), lambda n: kit.call("size", "x" * n), concurrency=20)
    assert [one.result for one in fx.run(sizes.provide(_live(two)), backend=backend)] == list(range(20))


def test_a_failure_that_is_none_of_the_tools_is_the_handlers_mistake(two: clusters.RunningCluster) -> None:
    """As it is where the handler is in the program."""
    ends: list[Any] = [fx.run_exit(kit.call("misfail", 3).provide(live)) for live in (_live(two), desk.layer)]
    there, here = ends
    assert there == here
    assert isinstance(there.cause.failures[0], InvalidResult)


def test_calls_and_replies_of_many_megabytes_are_sent(two: clusters.RunningCluster) -> None:
    """Dask's advice about them is for its own users: it is none here, where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size = fx.run(kit.call("size", "x" * 12_000_000).provide(_live(two)))
        text = fx.run(kit.call("repeat", 20_000_000).provide(_live(two)))
    assert size.result == 12_000_000
    assert text.result == "x" * 20_000_000


def test_a_thousand_calls_are_cancelled_at_once(two: clusters.RunningCluster, backend: Backend) -> None:
    """Those that ran and those that waited: none goes on, none begins after it, and the next call is answered."""
    before = len(records("waits"))
    many = fx.for_each(range(1200), tools.wait.call, concurrency=1200)

    end: Any = fx.run_exit(many.timeout(3.0).provide(_live(two)), backend=backend)
    assert isinstance(end.cause.failures[0], Timeout)
    begun, over = len(records("waits")) - before, len(records("waited"))
    assert over == begun + before
    assert fx.run(kit.call("size", "xx").provide(_live(two)), backend=backend).result == 2
    assert len(records("waits")) == begun + before


def test_programs_on_one_cluster_have_their_own_calls(two: clusters.RunningCluster) -> None:
    """Tools, call ids and times are the same: each has its own results."""
    found: dict[int, list[int]] = {}

    def program(number: int) -> None:
        sizes = fx.for_each(range(50), lambda n: kit.call("size", "x" * (n * 3 + number), call_id="c1"), concurrency=10)
        found[number] = [one.result for one in fx.run(sizes.provide(_live(two)))]

    threads = [threading.Thread(target=program, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [n * 3 + number for n in range(50)] for number in range(3)}


def test_calls_under_way_end_when_their_layer_does(two: clusters.RunningCluster) -> None:
    """Nobody knows what became of them, and they say so; their handlers are cancelled."""
    number = 5000 + len(records("waits"))

    async def run() -> Any:
        async with fx.runtime(_live(two)) as services:
            running = asyncio.create_task(services.run_exit(kit.call("wait", number)))
            await asyncio.to_thread(_wait_for, f"waits {number}")
        return await running

    end = asyncio.run(run())
    assert isinstance(end.cause.failures[0], OutcomeUnknown)
    _wait_for(f"waited {number}")


def test_replies_that_cannot_be_read_are_typed_failures(folder: None, backend: Backend) -> None:
    """A worker sends what is no reply, and what is none for the tool: each call ends, and says what is wrong."""
    with clusters.start() as cluster:
        cluster.add_worker("tests.kit.rubbish_target:desk")
        calls = fx.for_each(range(7), lambda _: kit.call("size", "x").exit())
        ends: Any = fx.run(calls.provide(_live(cluster, "tests.kit.rubbish_target:desk")), backend=backend)

    failures = [end.cause.failures[0] for end in ends]
    assert [type(failure) for failure in failures] == [OutcomeUnknown] * 6 + [InvalidResult]
    assert all("unreadable reply" in str(failure) for failure in failures[:6])


def test_a_worker_that_reads_calls_in_another_form_does_not_run_them(
    two: clusters.RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another version of fxai: it says which of both, and what to do."""
    monkeypatch.setattr("fxai.distributed.distribution.FORM", 99)
    failed = fx.run_result(kit.call("size", "x").provide(_live(two))).failure()
    assert isinstance(failed, HandlerUnavailable)
    assert "the program writes calls in form 99, but this worker reads form 1" in failed.reason


# -- workers that are told to end


def _ends(worker: clusters.Process, number: int = signal.SIGTERM) -> None:
    worker.signal(number)
    assert worker.wait() == 128 + number, worker.output


def test_a_worker_whose_handler_holds_its_thread_ends(folder: None) -> None:
    """In the time that handlers are given; that it is left behind is in the log. Its call is of unknown outcome."""
    with clusters.start() as cluster:
        worker = cluster.add_worker(TARGET, "--grace", "0.3")
        ends: list[Any] = []
        held = kit.call("hold", "the thread").exit().provide(_live(cluster, wait=0.3))
        program = threading.Thread(target=lambda: ends.append(fx.run(held)))
        program.start()
        _wait_for("holds the thread")
        _ends(worker)
        program.join()
        assert "the thread of handlers did not end" in worker.output

    assert isinstance(ends[0].cause.failures[0], OutcomeUnknown)


def test_a_target_that_hangs_in_its_import_holds_up_its_own_calls_alone(
    folder: None, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    """They can be cancelled, those of others run, and the worker ends."""
    monkeypatch.setenv("FXAI_TEST_IMPORT", "hang")
    with clusters.start() as cluster:
        worker = cluster.add_worker(TARGET, "--grace", "0.3")
        hanging = kit.call("size", "x").timeout(0.5).provide(_live(cluster, "tests.kit.hanging_target:desk"))
        end: Any = fx.run_exit(hanging, backend=backend)
        assert isinstance(end.cause.failures[0], Timeout)
        assert fx.run(kit.call("size", "xx").provide(_live(cluster)), backend=backend).result == 2
        _ends(worker, signal.SIGINT)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tests.kit.hanging_target:desk", "cannot be used: SystemExit: 4"),
        ("tests.kit.hostile_desk:closed", "closed: SystemExit: 3"),
    ],
)
def test_a_target_that_exits_is_a_failure_of_its_calls(
    two: clusters.RunningCluster, target: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the reason why a worker that is to answer it does not start."""
    monkeypatch.setenv("FXAI_TEST_IMPORT", "exit")
    worker = two.start_worker(target)
    assert worker.wait() == 1
    assert said in worker.output
    assert "Traceback" not in worker.output


def test_a_worker_that_is_told_to_end_takes_no_new_calls(folder: None) -> None:
    """While one runs that it waits for, others are told that there is no worker."""
    with clusters.start() as cluster:
        worker = cluster.add_worker(TARGET, "--grace", "60")

        @fx.gen
        def program() -> Any:
            first = yield from fx.fork(kit.call("wait", 77).exit())
            while not records("waits 77"):
                yield from fx.sleep(0.02)
            worker.signal(signal.SIGTERM)
            yield from fx.sleep(0.5)  # longer than Dask takes to look at its memory
            refused = yield from kit.call("size", "x").exit()
            yield from first.interrupt()
            return refused

        end = fx.run(fx.scoped(program()).provide(_live(cluster, wait=0.3)))
        assert worker.wait() == 143, worker.output

    assert isinstance(end.cause.failures[0], HandlerUnavailable)


def _wait_for(line: str) -> None:
    end = time.monotonic() + 30
    while not records(line) and time.monotonic() < end:
        time.sleep(0.02)
    assert records(line)
