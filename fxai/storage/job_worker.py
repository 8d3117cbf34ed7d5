"""Workers of a work queue. They run jobs, and release the jobs of dead workers.

A dispatcher runs DBOS, delivers jobs to the workers, and writes the results. DBOS has a single instance per process, so
the workers of a process share it. This module uses only the public API of DBOS.

>>> from fxai.effects import fx
>>> fx.sync(lambda: Job("add", "a", "[1, 2]", 2).started_before).pipe(fx.run)
True
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final
from uuid import uuid4

import anyio
import msgspec

from fxai.effects import thread
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import in_thread
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.fiber import run_fiber
from fxai.effects.waker import Waker
from fxai.storage.job_table import APPLICATION, VERSION, Held, JobTable, location_of, raising_os_errors, result_of
from fxai.storage.postgres import ServerAwayError
from fxai.storage.postgres_owner import LEASE
from fxai.storage.private_file import warn
from fxai.storage.worker_lock import WorkerLock

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


_PAUSE: Final = 0.1  # seconds between two queries of DBOS for jobs, for each kind
_LAG: Final = 10.0  # maximum seconds for DBOS to deliver a job that it took, and to write a result


@final
class Job:
    """A job that a worker runs."""

    __slots__ = ("_table", "attempt", "damage", "id", "kind", "last_words", "text")

    def __init__(
        self, kind: str, job: str, text: str, attempt: int, table: JobTable | None = None, damage: str = ""
    ) -> None:
        self.kind: str = kind
        self.id: str = job
        self.text: str = text
        self.attempt: int = attempt
        """The number of the attempt, starting at 1."""
        self.last_words: str | None = None
        """The text that programs read if the job was cancelled. Set it before the effect of the job ends."""
        self.damage: str = damage
        """The error in the row of the database. A handler receives only valid jobs, for which it is empty."""
        self._table = table

    @property
    def started_before(self) -> bool:
        """True if an earlier worker had the job and died or ended. The job may have run before."""
        return self.attempt > 1

    def show(self, text: str) -> EffectOf[None, OSError]:
        """Add a preliminary value for programs that follow the job. The value remains until the job is removed.

        Fails with:
            OSError: If the database refuses.
        """
        table = cast(JobTable, self._table)
        return in_thread(lambda: table.show(self.id, text), OSError)


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
        self._arrived: dict[str, Job] = {}  # by ID, in the order of arrival
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
                self._arrived[job] = Job(kind, job, text if isinstance(text, str) else "", 1, self._table, damage)
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

    def take(self, kinds: Container[str], most: int) -> list[Job]:
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
        for one in given:
            one.attempt = 1 + losses.get(one.id, 0)
        return given

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


_A = TypeVar("_A")

_LOOK: Final = 1.0  # seconds between two checks for cancelled jobs and dead workers
_SWEEP: Final = 3600.0  # seconds between two removals of old jobs


@final
class Worker:
    """A worker with its lock. Blocking work runs in threads. All other code runs in the event loop of its effect."""

    def __init__(
        self,
        table: JobTable,
        location: Path | str,
        handlers: Mapping[str, Callable[[Job], AnyEffect]],
        env: Any,
        *,
        concurrency: int,
        grace: float,
        attempts: int,
        retention: float,
    ) -> None:
        """Create a worker. `env` is the environment of its effect. The other parameters are as in `WorkQueue.serve`."""
        self._table = table
        self._location = location
        self._handlers = dict(handlers)
        self._env = env
        self._concurrency = concurrency
        self._grace = grace
        self._attempts = attempts
        self._retention = retention
        self._dispatcher = cast(Dispatcher, None)  # until `_open`
        self._held = ExitStack()
        self._limiter = anyio.CapacityLimiter(concurrency + 4)
        self._running: dict[str, anyio.CancelScope] = {}
        self._cancelled: set[str] = set()
        self._wake = Waker()
        self._ended = anyio.Event()
        self._is_ending = False
        self._failure: OSError | None = None
        self._swept = 0.0
        self._away_since: float | None = None

    async def run(self, on_ready: Callable[[str], object] | None) -> Exit[Any, OSError]:
        """Run jobs until the worker is cancelled or fails."""
        try:
            await self._in_thread(self._open)
            if on_ready is not None:
                on_ready(self._dispatcher.name)
            async with anyio.create_task_group() as group:
                group.start_soon(self._work)
                try:
                    await self._ended.wait()
                except BaseException:
                    self._end()
                    raise
        except OSError as error:
            self._failure = error
        finally:
            await shield(thread.in_thread(self._close))
        return Failed(Cause((Fail(self._failure or OSError("the worker has ended")),)))

    def _open(self) -> None:
        self._dispatcher = Dispatcher.join(self._location, self._handlers, self._concurrency, self._wake)
        self._held.callback(self._dispatcher.leave, self._wake)

    def _close(self) -> None:
        """Release unfinished jobs while this worker still has its lock."""
        try:
            self._held.close()
        except OSError as error:
            self._failure = self._failure or error  # other workers release the jobs when the lock is free

    async def _in_thread(self, work: Callable[[], _A]) -> _A:
        return await thread.in_thread(work, limiter=self._limiter)

    def _end(self, failure: OSError | None = None) -> None:
        """Accept no new jobs. After a failure, interrupt the running jobs immediately."""
        self._is_ending = True
        if failure is not None:
            self._failure = self._failure or failure
            for scope in self._running.values():
                scope.cancel()
        self._wake()

    # -- the jobs

    async def _work(self) -> None:
        """Run jobs. An outer cancellation lets the running jobs end first."""
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as watching, anyio.create_task_group() as jobs:
                    watching.start_soon(self._watch)
                    await self._claim(jobs)
                    await self._drain()
                    watching.cancel_scope.cancel()
            finally:
                self._ended.set()

    async def _claim(self, jobs: TaskGroup) -> None:
        while not self._is_ending:
            free = self._concurrency - len(self._running)
            if free > 0 and self._dispatcher.has_jobs():
                for job in await self._try(partial(self._dispatcher.take, self._handlers, free)) or []:
                    self._running[job.id] = anyio.CancelScope()
                    jobs.start_soon(self._run, job)
            with anyio.move_on_after(_LOOK):  # then retry, because the server may have been away
                await self._wake.wait()

    async def _try(self, work: Callable[[], _A]) -> _A | None:
        """Run a function and return its value. Return None if the server is away, or if the failure ends the worker."""
        try:
            done = await self._in_thread(work)
        except ServerAwayError as error:
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since > LEASE:
                self._end(error)
            return None
        except OSError as error:
            self._end(error)
            return None
        self._away_since = None
        return done

    async def _drain(self) -> None:
        """Wait for the running jobs. After the grace period, interrupt them, so that other workers can run them."""
        if not self._running:
            return
        async with anyio.create_task_group() as stopping:
            stopping.start_soon(self._in_thread, partial(self._dispatcher.stop, self._wake, self._grace + 1))
            with anyio.move_on_after(self._grace):
                while self._running:
                    await self._wake.wait()
            for scope in self._running.values():
                scope.cancel()
            while self._running:
                await self._wake.wait()

    async def _run(self, job: Job) -> None:
        try:
            await self._answer(job, self._running[job.id])
        except OSError as error:
            self._end(error)
        finally:
            del self._running[job.id]
            self._cancelled.discard(job.id)
            self._dispatcher.drop(job.id)
            self._wake()

    async def _answer(self, job: Job, scope: anyio.CancelScope) -> None:
        if job.damage or job.attempt > self._attempts:
            lost = f"{job.attempt - 1} workers died while they ran the job"
            self._dispatcher.end(job.id, job.damage or lost, is_failure=True)
            return
        end: Exit[Any, Any] | None = None
        with scope:
            end = await run_fiber(self._handlers[job.kind](job), self._env)
        if isinstance(end, Succeeded):
            self._dispatcher.end(job.id, end.value)
        elif scope.cancel_called:
            if job.id in self._cancelled:
                await self._try(partial(self._table.confirm_cancelled, {job.id: job.last_words}))
        elif end is not None:
            error, failures = end.cause.squash(), end.cause.failures
            why = str(failures[0]) if failures else f"{type(error).__name__}: {error}"
            warn("job %r of the kind %r failed: %s", job.id, job.kind, why)
            self._dispatcher.end(job.id, why, is_failure=True)

    # -- checks

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(_LOOK)
            running = {*self._running}
            held = await self._try(self._look)
            if self._failure is not None:
                return
            for job in running & self._running.keys() - (running if held is None else held.running):
                self._cancelled.add(job)
                self._running[job].cancel()

    def _look(self) -> Held:
        """Check the lock, the own jobs, dead workers, and old jobs. Return the jobs of this process in the database."""
        if not self._dispatcher.holds():
            raise OSError(f"the worker of {self._table.location} has lost its lock. Start another worker.")
        workers = self._table.jobs_by_worker()
        held = workers.pop(self._dispatcher.name, Held())
        lost = self._dispatcher.look(held)
        if lost:  # release jobs that DBOS took but did not deliver, and cancel jobs that it cannot deliver
            losses = self._table.losses([*lost])
            hopeless = [job for job, times in losses.items() if times >= self._attempts]
            self._table.cancel(hopeless)
            self._table.confirm_cancelled(dict.fromkeys(hopeless))
            self._table.give_back(self._dispatcher.name, running=held.running - lost)
        for other in workers:
            self._dispatcher.bury(other)
        now = time.time()
        if now - self._swept > _SWEEP:
            self._swept = now
            while self._table.remove_old(now - self._retention):
                pass
        return held
