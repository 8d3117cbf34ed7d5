"""The dispatcher of a worker process. It runs DBOS, delivers jobs to the workers, and writes the results.

DBOS has a single instance per process, so the workers of a process share it. This module uses only the public API of
DBOS.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, Final, cast, final
from uuid import uuid4

import msgspec

from fxai.storage.job_table import APPLICATION, VERSION, Held, JobTable, location_of, raising_os_errors, result_of
from fxai.storage.worker_lock import WorkerLock

_PAUSE: Final = 0.1  # seconds between two queries of DBOS for jobs, for each kind
_LAG: Final = 10.0  # maximum seconds for DBOS to deliver a job that it took, and to write a result


@final
class ClaimedJob(msgspec.Struct, frozen=True):
    """A job that belongs to one worker."""

    kind: str
    id: str
    text: str
    damage: str = ""
    """The error in the row of the database, or an empty string for a valid job."""
    attempt: int = 0
    """The number of workers that have received the job, starting at 1. Earlier workers died or ended."""


class _JobEnd(msgspec.Struct, frozen=True):
    text: str
    is_failure: bool


@final
class Dispatcher:
    """The instance of DBOS in this process, which the workers of the process share."""

    def __init__(self, location: Path | str, kinds: Iterable[str]) -> None:
        self.name: str = uuid4().hex
        """The unique name of the workers for other processes."""
        self._location = location
        self._kinds = [*kinds]
        self._held = ExitStack()
        self._wakes: dict[Callable[[], object], int] = {}  # by worker: its maximum number of jobs
        self._turn = threading.Lock()
        self._arrived: dict[str, ClaimedJob] = {}  # by ID, in the order of arrival
        self._futures: dict[str, list[Future[_JobEnd]]] = {}  # for jobs that arrived and have not ended
        self._ended: dict[str, tuple[float, str | None]] = {}  # end times of jobs whose results DBOS writes
        self._strange: dict[str, float] = {}  # jobs that did not arrive, with the time of their first check
        self._is_closed = False

    @staticmethod
    def join(location: Path | str, kinds: Iterable[str], most: int, wake: Callable[[], object]) -> Dispatcher:
        """Return the dispatcher of this process for a further worker.

        Args:
            location: The location of the work queue.
            kinds: The kinds of the jobs.
            most: Maximum number of concurrent jobs of the worker.
            wake: The callback for each new job. The dispatcher calls it in another thread.

        Raises:
            OSError: If this process has a worker of other jobs or another instance of DBOS, or if the database refuses.
        """
        with _starting:
            found = _current[0] if _current else Dispatcher(location, kinds)
            if found._location != location or not {*kinds} <= {*found._kinds}:
                raise OSError(
                    "a process has a single instance of DBOS, and this process has a worker of other jobs. "
                    "Start the second worker in another process, or pass all jobs to the first worker."
                )
            if not _current:
                found._start(most)
                _current.append(found)
            found._wakes[wake] = most
            found._table.register(found._kinds, sum(found._wakes.values()), _PAUSE)
            return found

    def _start(self, most: int) -> None:
        from dbos import DBOS, DBOSPortableJSONSerializer

        with raising_os_errors(location_of(self._location)), ExitStack() as stack:
            self._table = stack.enter_context(JobTable.open(self._location))
            self._lock = stack.enter_context(WorkerLock.hold(self._location, self.name, self._kinds))
            self._table.register(self._kinds, most, _PAUSE)
            config: Any = {
                "name": APPLICATION,
                "system_database_engine": self._table.engine,
                "executor_id": self.name,
                "application_version": VERSION,
                "serializer": DBOSPortableJSONSerializer(),
                "use_listen_notify": False,
                "run_migrations": False,
                "log_level": "WARNING",
            }
            DBOS(config=config)
            if DBOS.executor_id != self.name:
                raise OSError("the program already uses DBOS in this process. Start the worker in another process.")
            stack.callback(DBOS.destroy)
            for kind in self._kinds:
                _register(kind)
            DBOS.listen_queues(self._kinds)
            DBOS.launch()
            self._held = stack.pop_all()

    def leave(self, wake: Callable[[], object]) -> None:
        """Release the jobs of a worker that ends, so that other workers can run them. The last worker also ends DBOS.

        Raises:
            OSError: If the database refuses. Then other workers release the jobs when the lock is free.
        """
        with _starting:
            self._wakes.pop(wake, None)
            try:
                if not self._wakes:
                    self.refuse()
                    self._wait_for_results()
                    self._end_dbos(0)
                if self._lock.holds():
                    with self._turn:
                        own = self._futures.keys() | self._ended.keys()
                    self._table.give_back(self.name, running=own)
            finally:
                if not self._wakes:
                    self._end_dbos(0)
                    self._held.close()

    def stop(self, wake: Callable[[], object], grace: float) -> None:
        """Stop accepting jobs for a worker that ends.

        Args:
            wake: The callback of the worker, as for `join`.
            grace: Maximum seconds to wait for the running jobs of the last worker.
        """
        with _starting:
            if [*self._wakes] == [wake]:
                self.refuse()
                self._end_dbos(grace)

    def _end_dbos(self, grace: float) -> None:
        from dbos import DBOS

        if self in _current:
            _current.clear()
            DBOS.destroy(workflow_completion_timeout_sec=ceil(grace))

    def refuse(self) -> None:
        """Drop the arrived jobs that no worker has taken, and all jobs that arrive later."""
        with self._turn:
            self._is_closed = True
            given = [*self._arrived]
        for job in given:
            self.drop(job)

    # -- called in the event loop of DBOS

    async def run(self, kind: str, job: str, text: object) -> dict[str, str]:
        """Wait for the result of a job, and return it."""
        from dbos import PortableWorkflowError

        future: Future[_JobEnd] = Future()
        with self._turn:
            if self._is_closed:
                raise asyncio.CancelledError
            self._strange.pop(job, None)
            if job in self._futures:  # a worker still runs the job, but another process returned it to the queue
                self._futures[job].append(future)
            else:
                self._futures[job] = [future]
                damage = "" if isinstance(text, str) else "the row in the database does not contain the text of a job"
                self._arrived[job] = ClaimedJob(kind, job, text if isinstance(text, str) else "", damage)
        for wake in [*self._wakes]:
            wake()
        end = await asyncio.wrap_future(future)
        if end.is_failure:
            raise PortableWorkflowError(end.text, "JobError")
        return result_of(end.text)

    # -- called by the worker

    def has_jobs(self) -> bool:
        """Return True if a worker can take jobs that have arrived."""
        return bool(self._arrived)

    def take(self, kinds: Container[str], most: int) -> list[ClaimedJob]:
        """Return at most `most` arrived jobs of the kinds."""
        with self._turn:
            given = [*islice((one for one in self._arrived.values() if one.kind in kinds), most)]
            for one in given:
                del self._arrived[one.id]
        try:
            losses = self._table.losses([one.id for one in given]) if given else {}
        except OSError:
            with self._turn:
                self._arrived = {one.id: one for one in given} | self._arrived
            raise
        return [msgspec.structs.replace(one, attempt=1 + losses.get(one.id, 0)) for one in given]

    def end(self, job: str, text: str, *, is_failure: bool = False) -> None:
        """Let DBOS write the result of a job. DBOS ignores it if the job was cancelled or has another worker."""
        with self._turn:
            futures = self._futures.pop(job, [])
            self._ended[job] = time.monotonic(), None if is_failure else text
        for future in futures:
            future.set_result(_JobEnd(text, is_failure))

    def drop(self, job: str) -> str | None:
        """Forget a job, so that DBOS writes no result. Return its result if the job ended less than 10 seconds ago."""
        with self._turn:
            self._arrived.pop(job, None)
            futures = self._futures.pop(job, [])
            _, text = self._ended.get(job, (0.0, None))
        for future in futures:
            future.cancel()
        return text

    def look(self, seen: Held) -> set[str]:
        """Confirm cancelled jobs that no worker runs. Return the jobs that DBOS took but did not deliver.

        Args:
            seen: The jobs of this process in the database.
        """
        with self._turn:
            stopped = seen.stopping - (self._futures.keys() - self._arrived.keys())
        self._table.confirm_cancelled({job: self.drop(job) for job in stopped})
        now = time.monotonic()
        with self._turn:
            self._ended = {job: one for job, one in self._ended.items() if now - one[0] < _LAG}
            known = self._futures.keys() | self._ended.keys()
            self._strange = {job: self._strange.get(job, now) for job in seen.running - known}
            return {job for job, since in self._strange.items() if now - since > _LAG}

    def bury(self, other: str) -> None:
        """Release the jobs of another process if that process is dead."""
        if self._lock.take(other):
            try:
                self._table.give_back(other)
            finally:
                self._lock.free(other)

    def holds(self) -> bool:
        """Return True if this process has its lock. Otherwise, other workers consider it dead."""
        return self._lock.holds()

    def _wait_for_results(self) -> None:
        """Wait at most 10 seconds until DBOS has written the results of the ended jobs."""
        until = time.monotonic() + _LAG
        while time.monotonic() < until:
            held = self._table.jobs_by_worker().get(self.name)
            with self._turn:
                if held is None or not held.running & self._ended.keys():
                    break
            time.sleep(0.05)
        with self._turn:
            self._ended.clear()


_starting: Final = threading.Lock()
_current: Final[list[Dispatcher]] = []  # at most one dispatcher
_registered: Final[set[str]] = set()  # DBOS cannot unregister a workflow


def _register(kind: str) -> None:
    from dbos import DBOS

    async def run_job(text: object = None, *_: object) -> dict[str, str]:
        if not _current:
            raise asyncio.CancelledError
        return await _current[0].run(kind, cast(str, DBOS.workflow_id), text)

    if kind not in _registered:
        decorate: Any = DBOS.workflow(name=kind, max_recovery_attempts=None)
        decorate(run_job)
        _registered.add(kind)
