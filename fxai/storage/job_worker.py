"""Workers of a work queue. They run jobs, and release the jobs of dead workers.

>>> from fxai.effects import fx
>>> fx.sync(lambda: Job("add", "a", "[1, 2]", 2).started_before).pipe(fx.run)
True
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import anyio

from fxai.effects import thread
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import in_thread
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.fiber import run_fiber
from fxai.effects.waker import Waker
from fxai.storage.job_dispatch import ClaimedJob, Dispatcher
from fxai.storage.job_table import Held, JobTable
from fxai.storage.postgres import ServerAwayError
from fxai.storage.postgres_owner import LEASE
from fxai.storage.private_file import warn

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import TaskGroup

_A = TypeVar("_A")

_LOOK: Final = 1.0  # seconds between two checks for cancelled jobs and dead workers
_SWEEP: Final = 3600.0  # seconds between two removals of old jobs


@final
class Job:
    """A job that a worker runs."""

    __slots__ = ("_table", "attempt", "id", "kind", "last_words", "text")

    def __init__(self, kind: str, job: str, text: str, attempt: int, table: JobTable | None = None) -> None:
        self.kind: str = kind
        self.id: str = job
        self.text: str = text
        self.attempt: int = attempt
        """The number of the attempt, starting at 1."""
        self.last_words: str | None = None
        """The text that programs read if the job was cancelled. Set it before the effect of the job ends."""
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

    async def _run(self, claimed: ClaimedJob) -> None:
        try:
            await self._answer(claimed, self._running[claimed.id])
        except OSError as error:
            self._end(error)
        finally:
            del self._running[claimed.id]
            self._cancelled.discard(claimed.id)
            self._dispatcher.drop(claimed.id)
            self._wake()

    async def _answer(self, claimed: ClaimedJob, scope: anyio.CancelScope) -> None:
        if claimed.damage or claimed.attempt > self._attempts:
            lost = f"{claimed.attempt - 1} workers died while they ran the job"
            self._dispatcher.end(claimed.id, claimed.damage or lost, is_failure=True)
            return
        job = Job(claimed.kind, claimed.id, claimed.text, claimed.attempt, self._table)
        end: Exit[Any, Any] | None = None
        with scope:
            end = await run_fiber(self._handlers[claimed.kind](job), self._env)
        if isinstance(end, Succeeded):
            self._dispatcher.end(claimed.id, end.value)
        elif scope.cancel_called:
            if claimed.id in self._cancelled:
                await self._try(partial(self._table.confirm_cancelled, {claimed.id: job.last_words}))
        elif end is not None:
            error, failures = end.cause.squash(), end.cause.failures
            why = str(failures[0]) if failures else f"{type(error).__name__}: {error}"
            warn("job %r of the kind %r failed: %s", claimed.id, claimed.kind, why)
            self._dispatcher.end(claimed.id, why, is_failure=True)

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
