"""Frames and records: when a sleeping run leaves its worker, what leaves a run, and what a journal may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from fxai import Agent, fx
from fxai.durable import DurableError, RunCancelled, Runs, durable, step
from fxai.durable.failure import RunAsleep
from fxai.durable.frame import Hold, leave_openly
from fxai.durable.record import Begun, Opened, decode, encode
from fxai.durable.run_journal import RunJournal
from fxai.durable.run_queue import RunQueue
from fxai.effects import Cause, Clock, Die, Fail, Gen, Layer
from fxai.effects.effect import Local
from fxai.storage.job_worker import Job
from fxai.testing import ScriptedModel, TestClock, delay, text
from tests.kit.every import every

HOLD = 60.0


def _on_a_worker(program: Any, seconds: float, *script: Any) -> Any:
    """How a program ends that a worker holds for 60 s while it sleeps; None if it still goes on after the seconds."""
    clock, layer = TestClock(), ScriptedModel.make([*script]).layer if script else Layer.empty()
    made: Any = durable(layer, run="r", store=Runs.in_process())
    held = Local(program.provide(made), lambda context: context.put(Hold, Hold(HOLD)))

    def go() -> Gen[Any, Any, Any]:
        handle: Any = yield from fx.fork(held.exit())
        for _ in range(int(seconds) // 10):
            yield from clock.advance(10)
        return cast(Any, (yield from handle.join())) if handle.ended else None

    return clock.run(fx.gen(go)())


def _asleep(end: Any) -> float:
    failure = end.cause.failures[0]
    assert isinstance(failure, RunAsleep)
    return failure.seconds


def test_a_run_leaves_its_worker_in_its_second_sleep() -> None:
    """A sleep that has ended does not count as one that still ends soon."""
    two: Any = fx.sleep(20).and_then(fx.sleep(500))
    assert _asleep(_on_a_worker(two, 100)) == 440
    assert _on_a_worker(two, 70) is None


def test_the_first_sleep_that_ends_counts() -> None:
    """Of two at once; a run whose next sleep ends within the hold stays."""
    both: Any = fx.all_(fx.sleep(500), fx.sleep(300))
    assert _asleep(_on_a_worker(both, 100)) == 240
    soon: Any = fx.all_(fx.sleep(500), fx.sleep(110))
    assert _on_a_worker(soon, 70) is None


@every("is_stream", [False, True])
def test_a_run_stays_while_a_model_is_asked(is_stream: bool) -> None:
    """And leaves in the sleep after its turn, which is in the journal."""
    agent: Any = Agent.make("clerk")
    asked: Any = agent.stream("Go.").collect() if is_stream else agent.execute("Go.")
    turn = [delay(200), text("Done.")]
    assert _asleep(_on_a_worker(asked.and_then(fx.sleep(500)), 400, turn)) == 440
    assert _on_a_worker(fx.all_(asked, fx.sleep(500)), 190, turn) is None


def _killed() -> Any:
    def kill() -> None:
        raise KeyboardInterrupt

    return fx.sync(kill)


def _kill(_: object) -> Any:
    return _killed()


def _say_late(_: object) -> Any:
    return fx.succeed("late")


def _until_it_waits(clock: TestClock, program: Any) -> Any:
    """How a program ends without any time; None if it waits."""

    def go() -> Gen[Any, Any, Any]:
        handle: Any = yield from fx.fork(program.exit())
        for _ in range(100):
            yield from fx.checkpoint()
        return cast(Any, (yield from handle.join())) if handle.ended else None

    return clock.run(fx.gen(go)())


def test_a_timeout_that_fired_takes_no_time_again() -> None:
    """A sleep that would still last is cut at once: the next program takes the way of the timeout."""
    clock, runs = TestClock(), Runs.in_process()

    def program(last: Any) -> Any:
        slow: Any = fx.sleep(50).as_("slept").timeout(10)
        cut: Any = slow.catch_all(_say_late)
        asked: Any = cut.flat_map(last)
        return asked.provide(durable(Layer.empty(), run="r", store=runs))

    def go() -> Gen[None, Any, Any]:
        yield from fx.fork(program(_kill).exit())
        yield from clock.advance(20)

    with pytest.raises(KeyboardInterrupt):
        clock.run(fx.gen(go)())
    assert _until_it_waits(clock, program(fx.succeed)).value == "late"


def test_time_goes_on_while_a_journal_is_replayed() -> None:
    """A program measures how long its short sleeps last, also before it does something new."""
    clock, runs = TestClock(), Runs.in_process()
    measured: list[float] = []

    def work(last: Any) -> Any:
        def body() -> Gen[Any, Any, Any]:
            own: Any = yield from fx.service(Clock)
            begun = own.monotonic()
            yield from fx.sleep(0.5)
            measured.append(own.monotonic() - begun)
            yield from fx.sleep(100)
            measured.append(own.monotonic() - begun)
            return cast(Any, (yield from last))

        program: Any = fx.gen(body)()
        return program.provide(durable(Layer.empty(), run="r", store=runs))

    def go(last: Any) -> Gen[Any, Any, Any]:
        handle: Any = yield from fx.fork(work(last).exit())
        for _ in range(6):
            yield from clock.advance(0.5)
        yield from clock.advance(200)
        return cast(Any, (yield from handle.join()))

    with pytest.raises(KeyboardInterrupt):
        clock.run(fx.gen(go)(_killed()))
    assert clock.run(fx.gen(go)(fx.succeed(1))).value == 1
    assert measured[0] == measured[2] == 0.5


def test_resumed_program_measures_the_time_of_each_recorded_step() -> None:
    """Later records of the journal do not change the time at the end of a step."""
    clock, runs = TestClock(), Runs.in_process()
    measured: list[float] = []

    def work(last: Any) -> Any:
        def body() -> Gen[Any, Any, Any]:
            own: Any = yield from fx.service(Clock)
            begun = own.monotonic()
            for name in ("a", "b"):
                yield from step(name, fx.sleep(10).as_(1), int)
                measured.append(own.monotonic() - begun)
            return cast(Any, (yield from last))

        program: Any = fx.gen(body)()
        return program.provide(durable(Layer.empty(), run="r", store=runs))

    def go(last: Any) -> Gen[Any, Any, Any]:
        handle: Any = yield from fx.fork(work(last).exit())
        for _ in range(6):
            yield from clock.advance(5)
        return cast(Any, (yield from handle.join()))

    with pytest.raises(KeyboardInterrupt):
        clock.run(fx.gen(go)(_killed()))
    assert clock.run(fx.gen(go)(fx.succeed(1))).value == 1
    assert measured == [10, 20, 10, 20]


def test_what_leaves_a_run_is_a_failure_next_to_the_others() -> None:
    """Other reasons of the cause stay as they are; a cause without such a reason is not changed."""
    left, bug = RunCancelled("r"), ValueError("a bug")
    cause: Any = Cause((Fail("no money"), Die(DurableError(left)), Die(bug)))
    opened = leave_openly(cause)
    assert opened is not None
    assert opened.cause.reasons == (Fail("no money"), Fail(left), Die(bug))
    assert leave_openly(Cause((Fail("no money"), Die(bug)))) is None


@pytest.mark.parametrize(
    "written",
    [b'{"record":"begun","path":"/a","name":"b","colour":1}', b'{"record":"gone"}', b"[]", b"\xff", b"[" * 100_000],
)
def test_a_record_of_a_newer_version_is_an_error(written: bytes) -> None:
    """It tells so; records of this version are read."""
    with pytest.raises(OSError, match="a newer version of fxai may have written it"):
        decode(written)
    assert decode(encode(Begun("/a", "b", 5)).encode()) == Begun("/a", "b", 5)


def test_a_journal_is_read_only_if_it_has_new_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What watches it tells the number of its newest record, also if the program knows it."""
    runs = Runs.sqlite(tmp_path / "runs.db")
    journal, other = RunJournal.open("r", runs.store), RunJournal.open("r", runs.store)
    fx.run(journal.append(Opened(0.0)))
    read: list[int] = []
    inner = journal.journal.read

    def note(f: Any) -> Any:
        read.append(journal.known.last)
        return inner(f)

    monkeypatch.setattr(journal.journal, "read", note)
    journal._look(1)
    assert read == []
    fx.run(other.append(Opened(1.0)))
    journal._look(2)
    assert (read, journal.known.last) == ([1], 2)


class _Queue:
    """A queue that notes what is submitted."""

    def __init__(self) -> None:
        self.submitted: list[tuple[str, str, str, float]] = []

    def submit(self, kind: str, job: str, text: str, *, delay: float) -> Any:
        """Notes a job."""
        self.submitted.append((kind, job, text, delay))
        return fx.succeed(True)


def test_a_run_that_another_program_has_is_tried_later(tmp_path: Path) -> None:
    """After a second, then twice as long each time, up to a minute; each time as another job of the same run."""
    queue: Any = _Queue()

    def owned(run: str) -> Any:
        program: Any = fx.succeed(None).provide(durable(Layer.empty(), run=run, store=runs))
        return program.provide(durable(Layer.empty(), run=run, store=runs))

    runs = Runs.sqlite(tmp_path / "runs.db")

    def read(run: str) -> Any:
        return runs.open(run, may_begin=True)

    job = Job("fxai run plain", "r 0", '{"run":"r"}', 1)
    for _ in range(8):
        made: Any = RunQueue(read, tmp_path / "jobs.db")
        assert fx.run(made._run(queue, None, "plain", owned, job)) == "owned"
        _, name, text_, _ = queue.submitted[-1]
        job = Job("fxai run plain", name, text_, 1)
    assert [delay for *_, delay in queue.submitted] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [name for _, name, *_ in queue.submitted] == [f"r 0~{number}" for number in range(1, 9)]
