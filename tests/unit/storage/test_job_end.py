"""The ends of jobs: followers that learn that the queue failed, jobs that a closed worker drops, and their errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from fxai.storage import job_table, work_queue
from fxai.storage.job_table import JobState, JobTable, NewJob, raising_os_errors
from fxai.storage.job_worker import Dispatcher
from fxai.storage.postgres import ServerAwayError


class Table:
    """A table of jobs that a test fills. It fails while `error` is not None."""

    location = "the table"

    def __init__(self) -> None:
        self.known: dict[str, JobState] = {}
        self.shown: list[tuple[str, int, str]] = []
        self.error: OSError | None = None

    def states(self, jobs: list[str]) -> dict[str, JobState]:
        """Return the states of jobs."""
        self._check()
        return {job: self.known[job] for job in jobs}

    def read_shown(self, offsets: dict[str, int]) -> list[tuple[str, int, str]]:
        """Return the preliminary values of jobs from their offsets."""
        return [one for one in self.shown if one[1] >= offsets.get(one[0], 1 << 60)]

    def losses(self, jobs: list[str]) -> dict[str, int]:
        """Return how often each job was lost."""
        self._check()
        return dict.fromkeys(jobs, 0)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


class Clerk:
    """The part of a queue that reads, without its thread."""

    def __init__(self, table: Table, *jobs: str, offset: int | None = None) -> None:
        self._clerk: Any = cast("Any", work_queue.QueueThread)(table)
        self._clerk._thread = object()  # so that it starts no thread
        self.woken: list[str] = []
        self.followed = [self._clerk.follow(job, self._waker(job), offset) for job in jobs]

    def _waker(self, job: str) -> Callable[[], None]:
        return lambda: self.woken.append(job)

    def read(self) -> bool:
        """Read once."""
        return bool(self._clerk._read())


def test_queue_reads_again_soon_only_if_something_is_new() -> None:
    """A job that does not change makes the pauses longer."""
    table = Table()
    table.known = {"a": JobState("a", "running"), "b": JobState("b", "waiting")}
    clerk = Clerk(table, "a", "b", offset=0)
    first, second = clerk.read(), clerk.read()
    table.shown = [("a", 0, "half")]
    third, fourth = clerk.read(), clerk.read()

    assert [first, second, third, fourth] == [True, False, True, False]
    assert clerk.woken == ["a", "b", "a"]
    assert [*clerk.followed[0].shown] == ["half"]


def test_followers_learn_that_a_database_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short failure is not told; after the patience, each follower has the error, and the queue reads no more."""
    table = Table()
    table.known = {"a": JobState("a", "running")}
    clerk = Clerk(table, "a")
    table.error = OSError("the disk is away")
    clerk.read()
    before = clerk.followed[0].failure
    monkeypatch.setattr(work_queue, "_PATIENCE", -1.0)
    clerk.read()
    table.error = None

    assert before is None
    assert str(clerk.followed[0].failure) == "the disk is away"
    assert clerk.woken == ["a"]
    assert clerk.read() is False


def _dispatcher(table: Table) -> Any:
    made: Any = Dispatcher(Path("jobs.db"), ["add"])
    made._table = table
    return made


def test_worker_that_cannot_read_the_losses_of_its_jobs_keeps_them() -> None:
    """The jobs are taken when the database is there again."""

    async def use() -> tuple[str, list[str]]:
        table = Table()
        dispatcher = _dispatcher(table)
        running = asyncio.create_task(dispatcher.run("add", "a", "[1, 2]"))
        await asyncio.sleep(0)
        table.error = OSError("the disk is away")
        with pytest.raises(OSError, match="the disk is away") as raised:
            dispatcher.take(["add"], 9)
        table.error = None
        taken = [one.id for one in dispatcher.take(["add"], 9)]
        running.cancel()
        return str(raised.value), taken

    assert asyncio.run(use()) == ("the disk is away", ["a"])


def test_closed_worker_drops_jobs_that_arrive() -> None:
    """DBOS gives them to another worker."""

    async def use() -> bool:
        dispatcher = _dispatcher(Table())
        dispatcher.refuse()
        with pytest.raises(asyncio.CancelledError):
            await dispatcher.run("add", "a", "[1, 2]")
        return bool(dispatcher.has_jobs())

    assert asyncio.run(use()) is False


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (psycopg.OperationalError("connection refused"), ServerAwayError),
        (psycopg.ProgrammingError("no such table"), OSError),
        (ValueError("database is locked"), OSError),
    ],
)
def test_error_of_the_database_of_jobs_has_its_kind(cause: Exception, kind: type[OSError]) -> None:
    """A worker tries again only if the server is away."""
    said = f"work queue in the table failed: {cause}. Check the database and its owner."
    with pytest.raises(OSError, match=said) as raised, raising_os_errors("the table"):
        raise OperationalError("SELECT 1", None, cause)

    assert type(raised.value) is kind


def test_old_sqlite_gets_the_time_that_dbos_asks_for() -> None:
    """Only in parts of a second."""
    module: Any = job_table

    assert isinstance(module._unix_time("subsec"), float)
    assert module._unix_time("auto") is None


def test_job_that_is_submitted_soon_is_written(tmp_path: Path) -> None:
    """The future states that the job is new."""
    with JobTable.open(tmp_path / "jobs.db") as table:
        queue: Any = work_queue.WorkQueue(table, tmp_path / "jobs.db")
        first, second = (queue.thread.submit(NewJob("add", "a", "[1]")).result(30) for _ in range(2))
        queue.thread.close()

        assert (first, second, table.states(["a"])["a"].status) == (True, False, "waiting")
