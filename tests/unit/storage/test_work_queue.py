"""Work queues keep their jobs, give each to one worker, and give back those of workers that are lost."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sql
from dbos import DBOS

from fxai import fx
from fxai.effects import EffectOf
from fxai.effects.effect import AnyEffect
from fxai.storage.job_table import JobState, JobTable, NewJob, read_location
from fxai.storage.job_worker import Job
from fxai.storage.work_queue import WorkQueue
from fxai.storage.worker_lock import WorkerLock
from tests.kit.postgres import POSTGRES, fresh_database, server_of
from tests.kit.queues import claim_for


@pytest.fixture(params=["sqlite", POSTGRES])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database."""
    if request.param == "sqlite":
        return str(tmp_path / "jobs.db")
    return fresh_database(server_of(request.param, request))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A fresh database of SQLite, for what no database is asked."""
    return str(tmp_path / "jobs.db")


def _run(
    location: str, program: Callable[[WorkQueue], Generator[AnyEffect, Any, Any]], backend: str = "asyncio"
) -> Any:
    def body() -> Generator[AnyEffect, Any, Any]:
        queue: WorkQueue = yield from WorkQueue.open(location)
        return (yield from program(queue))

    return fx.run(fx.scoped(fx.gen(body)()), backend=cast(Any, backend))


def _together(effects: list[EffectOf[Any, Any, Any]]) -> EffectOf[list[Any], Any, Any]:
    return fx.for_each(effects, lambda effect: effect, concurrency=None)


def _double(job: Job) -> EffectOf[str]:
    return fx.succeed(str(2 * int(job.text)))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_jobs_are_run_and_kept(location: str, backend: str) -> None:
    """A job that was there is not run again; its result stays until it is removed, also for another program."""

    def first(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"double": _double}, concurrency=3))
        new = yield from fx.collect(queue.submit("double", str(n), str(n)) for n in range(12))
        ends = yield from _together([queue.result(str(n)) for n in range(12)])
        again = yield from queue.submit("double", "3", "1000")
        return new, [end.text for end in ends], again

    assert _run(location, first, backend) == ([True] * 12, [str(2 * n) for n in range(12)], False)

    def second(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        before = yield from queue.result("3")
        yield from queue.remove("3")
        return before, (yield from queue.look_up("3")), (yield from queue.result("unknown"))

    before, after, unknown = _run(location, second, backend)
    assert (before.status, before.text, before.attempt) == ("done", "6", 1)
    assert after == JobState("3", "gone")
    assert unknown.status == "gone"


@pytest.mark.slow
def test_those_of_a_higher_priority_go_first_and_delayed_ones_wait(file: str) -> None:
    """One worker that runs one job at a time takes them so."""
    ran: list[str] = []

    def note(job: Job) -> EffectOf[str]:
        ran.append(job.id)
        return fx.succeed("")

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("note", "late", "", delay=1.5, priority=9)
        yield from queue.submit("note", "low", "", priority=-2)
        yield from queue.submit("note", "high", "", priority=5)
        yield from queue.submit("note", "middle", "")
        yield from fx.fork(queue.serve({"note": note}, concurrency=1))
        yield from queue.result("late")

    _run(file, program)
    assert ran == ["high", "middle", "low", "late"]


def test_a_kind_that_nobody_serves_waits(location: str) -> None:
    """A worker takes the kinds that it has handlers for, and no other."""

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("other", "a", "1")
        yield from fx.fork(queue.serve({"double": _double}))
        yield from queue.submit("double", "b", "2")
        yield from queue.result("b")
        return (yield from queue.look_up("a")), queue.is_served("other"), queue.is_served("double")

    state, *served = _run(location, program)
    assert (state.status, state.attempt, served) == ("waiting", 0, [False, True])


def test_a_job_that_fails_says_why(file: str, caplog: pytest.LogCaptureFixture) -> None:
    """Failures and defects end it, in words; it is not run again."""
    caplog.set_level(logging.ERROR, "fxai.storage")

    def fail(job: Job) -> EffectOf[str, str]:
        return fx.fail("no such account") if job.text == "1" else fx.sync(lambda: str(1 // 0))

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"fail": fail}))
        yield from queue.submit("fail", "a", "1")
        yield from queue.submit("fail", "b", "2")
        return (yield from _together([queue.result("a"), queue.result("b")]))

    a, b = _run(file, program)
    assert (a.status, a.text) == ("failed", "no such account")
    assert (b.status, b.text) == ("failed", "ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_job_that_runs_is_cancelled(location: str, backend: str) -> None:
    """Its effect is interrupted, its finalizers run before the program hears of it, with the job's last words."""
    finalized: list[str] = []

    def hang(job: Job) -> EffectOf[str]:
        def end() -> None:
            job.last_words = "bye"
            finalized.append(job.id)

        return fx.never().ensuring(fx.sync(end))

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("hang", "waits", "")
        yield from queue.cancel("waits")
        waited = yield from queue.result("waits")
        yield from fx.fork(queue.serve({"hang": hang}))
        yield from queue.submit("hang", "runs", "")
        while (yield from queue.look_up("runs")).status != "running":
            yield from fx.sleep(0.01)
        yield from queue.cancel("runs")
        ended = yield from queue.result("runs")
        return waited, ended, list(finalized)

    waited, ended, then = _run(location, program, backend)
    assert (waited.status, waited.attempt, waited.text) == ("cancelled", 0, None)
    assert (ended.status, ended.attempt, ended.text) == ("cancelled", 1, "bye")
    assert then == ["runs"]


def test_preliminary_values_are_read_from_an_offset(location: str) -> None:
    """They come in order, to those who follow the job and to those who come later."""

    def count(job: Job) -> EffectOf[str, OSError]:
        shows = [job.show(str(n)) for n in range(int(job.text))]
        return fx.for_each(shows, lambda show: show).as_("done")

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("count", "a", "5")
        following = queue.thread.follow("a", lambda: None, offset=2)
        yield from fx.fork(queue.serve({"count": count}))
        yield from queue.result("a")
        while len(following.shown) < 3:
            yield from fx.sleep(0.01)
        following.close()
        return list(following.shown), (yield from queue.read_shown("a")), (yield from queue.read_shown("a", 4))

    assert _run(location, program) == (["2", "3", "4"], ("0", "1", "2", "3", "4"), ("4",))


@pytest.mark.slow
def test_a_worker_that_is_cancelled_lets_its_jobs_end(file: str) -> None:
    """Within the grace; what is not ready by then is interrupted, and another worker is told that it was begun."""
    attempts: list[int] = []

    def slow(job: Job) -> EffectOf[str]:
        attempts.append(job.attempt)
        wait = fx.sleep(0.3) if job.id == "short" or job.started_before else fx.never()
        return wait.as_(f"attempt {job.attempt}")

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        worker = yield from fx.fork(queue.serve({"slow": slow}, grace=1.0))
        yield from queue.submit("slow", "short", "")
        yield from queue.submit("slow", "long", "")
        while len(attempts) < 2:
            yield from fx.sleep(0.01)
        yield from worker.interrupt()
        between = yield from _together([queue.look_up("short"), queue.look_up("long")])
        yield from fx.fork(queue.serve({"slow": slow}))
        return between, (yield from queue.result("long"))

    (short, long), ended = _run(file, program)
    assert (short.status, short.text) == ("done", "attempt 1")
    assert long.status == "waiting"
    assert (ended.status, ended.text) == ("done", "attempt 2")


@pytest.mark.slow
def test_jobs_of_a_lost_worker_are_run_by_another_worker(location: str) -> None:
    """The worker runs each job once more. A cancelled job counts as stopped."""
    ran: list[tuple[str, int]] = []

    def note(job: Job) -> EffectOf[str]:
        ran.append((job.id, job.attempt))
        return fx.succeed("")

    where = read_location(location)
    with JobTable.open(where) as table:
        table.insert([NewJob("note", str(n), "") for n in range(10)])
        claim_for(location, "lost", *map(str, range(10)))
        table.cancel(["9"])
        assert table.states(["9"])["9"].status == "stopping"

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"note": note}))
        return (yield from _together([queue.result(str(n)) for n in range(10)]))

    ends = _run(location, program)
    assert sorted(ran) == [(str(n), 2) for n in range(9)]
    assert [end.status for end in ends] == ["done"] * 9 + ["cancelled"]


@pytest.mark.slow
def test_jobs_of_a_worker_that_lives_stay_its_own(location: str) -> None:
    """However long it is silent: its lock says that it lives."""
    where = read_location(location)

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"double": _double}))
        yield from fx.sleep(2.5)
        during = yield from queue.look_up("a")
        held.__exit__(None, None, None)
        return during, (yield from queue.result("a"))

    with JobTable.open(where) as table:
        held = WorkerLock.hold(where, "silent")
        held.__enter__()
        table.insert([NewJob("double", "a", "1")])
        claim_for(location, "silent", "a")
        during, after = _run(location, program)
    assert (during.status, during.worker) == ("running", "silent")
    assert (after.text, after.attempt) == ("2", 2)
    with WorkerLock.hold(where, "silent"):
        pass


@pytest.mark.slow
def test_a_job_that_kills_its_workers_fails_in_the_end(file: str) -> None:
    """It is given to a worker `attempts` times, and no more."""
    where = read_location(file)
    with JobTable.open(where) as table:
        table.insert([NewJob("double", "a", "1")])
        for n in range(3):
            claim_for(file, f"lost-{n}", "a")
            assert table.give_back(f"lost-{n}") == 1

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"double": _double}, attempts=3))
        return (yield from queue.result("a"))

    ended = _run(file, program)
    assert (ended.status, ended.text) == ("failed", "3 workers died while they ran the job")


@pytest.mark.slow
def test_jobs_that_a_worker_has_and_does_not_know_of_are_run(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker runs a job that the database gave it in a lost reply. A job that runs already does not run again."""
    from fxai.storage import job_worker

    monkeypatch.setattr(job_worker, "_LAG", 1.0)
    may_end, names = threading.Event(), list[str]()

    def wait(job: Job) -> EffectOf[str]:
        return fx.in_thread(may_end.wait).as_(str(job.attempt))

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("wait", "a", "")
        yield from fx.fork(queue.serve({"wait": wait}, on_ready=names.append))
        while (yield from queue.look_up("a")).status != "running":
            yield from fx.sleep(0.01)
        yield from queue.submit("wait", "b", "", delay=600)
        claim_for(file, names[0], "b")
        while (yield from queue.look_up("b")).attempt < 2:
            yield from fx.sleep(0.01)
        may_end.set()
        ended = yield from _together([queue.result("a"), queue.result("b")])
        return [state.text for state in ended]

    assert _run(file, program) == ["1", "2"]


@pytest.mark.slow
def test_a_job_that_dbos_cannot_read_is_cancelled_in_the_end(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gives the job back `attempts` times. Then it cancels the job, and does not take it for ever."""
    from fxai.storage import job_worker

    monkeypatch.setattr(job_worker, "_LAG", 0.1)

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("double", "a", "1")
        with queue._table.engine.begin() as database:
            database.execute(sql.text("UPDATE workflow_status SET serialization = 'of another program'"))
        yield from fx.fork(queue.serve({"double": _double}, attempts=1))
        return (yield from queue.result("a"))

    assert _run(file, program).status == "cancelled"


@pytest.mark.slow
def test_workers_of_one_process_share_its_jobs(file: str) -> None:
    """Each worker runs as many jobs as it may at once, and the second worker continues if the first one ends."""
    running, most = [0], [0]

    def count(job: Job) -> EffectOf[str]:
        def change(by: int) -> None:
            running[0] += by
            most[0] = max(most[0], running[0])

        work = fx.sync(lambda: change(1)).and_then(fx.sleep(0.5)).ensuring(fx.sync(lambda: change(-1)))
        return work.as_(job.id)

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        first = yield from fx.fork(queue.serve({"count": count}, concurrency=1))
        yield from fx.fork(queue.serve({"count": count}, concurrency=2))
        for n in range(4):
            yield from queue.submit("count", str(n), "")
        ends = yield from _together([queue.result(str(n)) for n in range(4)])
        yield from first.interrupt()
        yield from queue.submit("count", "later", "")
        return [end.text for end in ends], (yield from queue.result("later")).text

    assert _run(file, program) == (["0", "1", "2", "3"], "later")
    assert most == [3]


def test_a_worker_of_other_jobs_is_refused(file: str) -> None:
    """A process has one instance of DBOS: a second worker of other kinds is refused, and the first one continues."""

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        ready = threading.Event()
        yield from fx.fork(queue.serve({"double": _double}, on_ready=lambda _: ready.set()))
        yield from fx.in_thread(ready.wait)
        refused = yield from queue.serve({"other": _double}).result()
        yield from queue.submit("double", "a", "1")
        return refused, (yield from queue.result("a"))

    refused, ended = _run(file, program)
    assert "has a worker of other jobs" in str(refused.failure())
    assert ended.text == "2"


def test_a_process_that_uses_dbos_has_no_worker(file: str) -> None:
    """An instance of DBOS that belongs to the program is refused by name, and stays."""
    own = DBOS(config={"name": "another", "system_database_url": f"sqlite:///{file}.own", "log_level": "ERROR"})

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        return (yield from queue.serve({"double": _double}).result())

    try:
        assert "already uses DBOS in this process" in str(_run(file, program).failure())
        assert DBOS(config={"name": "third"}) is own
    finally:
        DBOS.destroy()


@pytest.mark.slow
def test_a_worker_without_its_lock_stops(tmp_path: Path) -> None:
    """Others take it for dead, so it interrupts what it runs and fails."""
    location = str(tmp_path / "jobs.db")
    interrupted: list[str] = []

    def hang(job: Job) -> EffectOf[str]:
        return fx.never().ensuring(fx.sync(lambda: interrupted.append(job.id)))

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("hang", "a", "")
        worker = yield from fx.fork(queue.serve({"hang": hang}))
        while (yield from queue.look_up("a")).status != "running":
            yield from fx.sleep(0.01)
        for lock in tmp_path.glob("jobs.db.worker-*"):
            lock.unlink()
        return (yield from worker.join().result())

    assert "has lost its lock" in str(_run(location, program).failure())
    assert interrupted == ["a"]


@pytest.mark.slow
def test_a_worker_that_another_program_replaced_stops(postgres_url: str) -> None:
    """Its lease ended, and its name was taken: it interrupts what it runs, fails, and another worker has the job."""
    location = fresh_database(postgres_url)
    interrupted: list[int] = []

    def hang(job: Job) -> EffectOf[str]:
        if job.started_before:
            return fx.succeed("later")
        return fx.never().ensuring(fx.sync(lambda: interrupted.append(job.attempt)))

    def replace() -> None:
        with psycopg.connect(location, autocommit=True) as admin:
            admin.execute("UPDATE fxai_journal_owner SET holder = 'lost', epoch = epoch + 1, until = now()")

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("hang", "a", "")
        worker = yield from fx.fork(queue.serve({"hang": hang}))
        while (yield from queue.look_up("a")).status != "running":
            yield from fx.sleep(0.01)
        yield from fx.in_thread(replace)
        failed = yield from worker.join().result()
        yield from fx.fork(queue.serve({"hang": hang}))
        return failed, (yield from queue.result("a"))

    failed, ended = _run(location, program)
    assert "has lost its lock" in str(failed.failure())
    assert interrupted == [1]
    assert (ended.text, ended.attempt) == ("later", 2)


@pytest.mark.slow
def test_a_worker_whose_connections_are_cut_goes_on(postgres_url: str) -> None:
    """It replaces them, and its jobs stay its own."""
    location = fresh_database(postgres_url)

    def slow(job: Job) -> EffectOf[str]:
        return fx.sleep(2.5).as_(str(job.attempt))

    def cut() -> None:
        with psycopg.connect(location, autocommit=True) as admin:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}".encode())

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("slow", "a", "")
        yield from fx.fork(queue.serve({"slow": slow}))
        yield from fx.fork(queue.serve({"slow": slow}))
        while (yield from queue.look_up("a")).status != "running":
            yield from fx.sleep(0.01)
        yield from fx.in_thread(cut)
        return (yield from queue.result("a"))

    ended = _run(location, program)
    assert (ended.text, ended.attempt) == ("1", 1)


class _Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["FXAI_BOMB"],)


def test_a_row_can_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to the database can have jobs done, and nothing else: a pickle there is only a bad job."""
    monkeypatch.setenv("FXAI_BOMB", str(tmp_path / "exploded"))
    bomb = base64.b64encode(pickle.dumps({"args": (_Bomb(),), "kwargs": {}})).decode()
    location = tmp_path / "jobs.db"
    with JobTable.open(location) as table:
        table.insert([NewJob("double", name, "1") for name in ("input", "output", "error", "worker")])
    claim_for(str(location), "../../elsewhere", "worker")
    with sqlite3.connect(location) as database:
        pickled = "UPDATE workflow_status SET serialization = 'py_pickle', "
        database.execute("UPDATE workflow_input SET inputs = ?", (bomb,))
        database.execute(f"{pickled} inputs = ? WHERE workflow_uuid = 'input'", (bomb,))
        database.execute(f"{pickled} status = 'SUCCESS', output = ? WHERE workflow_uuid = 'output'", (bomb,))
        database.execute(f"{pickled} status = 'ERROR', error = ? WHERE workflow_uuid = 'error'", (bomb,))
        database.execute("INSERT INTO workflow_output VALUES ('output', ?, NULL, 0)", (bomb,))
    database.close()

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"double": _double}))
        names = ("input", "output", "error", "worker")
        return (yield from _together([queue.result(name) for name in names]))

    ends = _run(str(location), program)
    assert [end.status for end in ends] == ["failed"] * 4
    assert not (tmp_path / "exploded").exists()
    assert sorted(path.name for path in tmp_path.parent.glob("elsewhere*")) == []


def test_old_jobs_are_removed(file: str) -> None:
    """Those that ended before the retention; those that wait or run stay."""
    with JobTable.open(read_location(file)) as table:
        table.insert([NewJob("double", name, "1") for name in ("ended", "runs")])
        table.insert([NewJob("other", "waits", "1")])
        claim_for(file, "one", "runs")
        with table.engine.begin() as database:
            ended = "UPDATE workflow_status SET status = 'SUCCESS', completed_at = :now WHERE workflow_uuid = 'ended'"
            database.execute(sql.text(ended), {"now": int(time.time() * 1000)})
        assert table.remove_old(time.time() - 60) == 0
        assert table.remove_old(time.time() + 60) == 1
        found = table.states(["ended", "runs", "waits"])
    assert [state.status for state in found.values()] == ["gone", "running", "waiting"]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """The database, its journals and the locks of workers have the mode 0600."""
    modes: set[int] = set()

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from fx.fork(queue.serve({"double": _double}))
        yield from queue.submit("double", "a", "1")
        yield from queue.result("a")
        modes.update(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())

    _run(str(tmp_path / "jobs.db"), program)
    assert modes == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.db"]


def test_what_cannot_be_a_job_or_a_place_is_refused(tmp_path: Path) -> None:
    """The errors say what is wrong, and no password."""
    with pytest.raises(ValueError, match="1 to 400 characters"):
        NewJob("", "a", "1")
    with pytest.raises(ValueError, match="half a surrogate"):
        NewJob("k", "a", "\ud800")
    with pytest.raises(ValueError, match="postgresql://"):
        fx.run(fx.scoped(WorkQueue.open("mysql://ann@localhost/jobs")))
    with pytest.raises(ValueError, match="is a directory"):
        fx.run(fx.scoped(WorkQueue.open("/")))
    failed: Any = fx.run_exit(fx.scoped(WorkQueue.open("postgresql://ann:secret@127.0.0.1:1/jobs")))
    assert "secret" not in str(failed.cause.failures[0])
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be one" * 99)
    refused: Any = fx.run_exit(fx.scoped(WorkQueue.open(tmp_path / "text.db")))
    assert isinstance(refused.cause.failures[0], OSError)


def test_without_dbos_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A queue says which extra brings what it needs."""

    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr("fxai.storage.job_table.find_spec", find_nothing)
    with pytest.raises(ImportError, match=r"pip install 'fxai\[durable\]'"):
        fx.run(fx.scoped(WorkQueue.open(tmp_path / "jobs.db")))


def test_a_closed_queue_tells_so(file: str) -> None:
    """To a program that submits, waits, or follows; none of them waits without end."""

    def keep(queue: WorkQueue) -> Generator[AnyEffect, Any, WorkQueue]:
        yield from fx.succeed(None)
        return queue

    queue = _run(file, keep)
    woken: list[int] = []
    following = queue.thread.follow("a", lambda: woken.append(1))
    assert "is closed" in str(following.failure)
    assert woken == [1]
    for asked in (queue.result("a"), queue.submit("double", "a", "1")):
        assert "is closed" in str(fx.run_result(asked).failure())


def test_jobs_that_cannot_be_cancelled_are_in_the_log(
    file: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No program waits for that."""

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(JobTable, "cancel", refuse)

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, None]:
        yield from queue.submit("double", "a", "1")
        queue.thread.cancel("a")

    _run(file, program)
    assert "cancellation or removal of jobs in " in caplog.text


@pytest.mark.slow
def test_a_database_that_stays_away_is_told_to_those_who_wait(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the first failure: after a time in which it could have come back."""
    from fxai.storage import work_queue

    monkeypatch.setattr(work_queue, "_PATIENCE", 0.3)
    failures, states = [3], JobTable.states

    def refuse(self: JobTable, ids: Any) -> Any:
        failures[0] -= 1
        if failures[0] < 0:
            return states(self, ids)
        raise OSError("the disk is away")

    monkeypatch.setattr(JobTable, "states", refuse)

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, Any]:
        yield from queue.submit("double", "a", "1")
        yield from fx.fork(queue.serve({"double": _double}))
        ended = yield from queue.result("a")
        failures[0] = 1_000_000
        return ended, (yield from queue.result("a").result())

    ended, failed = _run(file, program)
    assert ended.text == "2"
    assert "the disk is away" in str(failed.failure())


def test_a_job_is_followed_only_while_a_program_waits(file: str) -> None:
    """A result that arrived, and a wait that was cut, leave nothing that the queue reads."""

    def program(queue: WorkQueue) -> Generator[AnyEffect, Any, list[int]]:
        left: list[int] = []
        yield from queue.submit("double", "a", "1")
        yield from queue.submit("nobody", "b", "1")
        yield from fx.fork(queue.serve({"double": _double}))
        yield from queue.result("a")
        left.append(len(queue.thread._followed))
        yield from queue.result("b").timeout(0.05).result()
        left.append(len(queue.thread._followed))
        return left

    assert _run(file, program) == [0, 0]
