"""Work queues. Other processes run the jobs, and a job survives a crash of its submitter and of its worker.

A job has a kind, an ID, and an input. The input and the result are strings, usually JSON. When `submit` succeeds, the
job is in a SQLite or PostgreSQL database, and stays there until you remove it. If you submit a second job with the same
ID, fxai keeps the first job. If a worker dies, another worker runs the job again. `Job.attempt` counts the workers.

DBOS manages the database. The extra `durable` installs DBOS. `fxai.storage.job_table` describes its use.

>>> from fxai.effects import fx
>>> import tempfile
>>> def add(job: Job) -> EffectOf[str]:
...     return fx.succeed(str(sum(map(int, job.text.split()))))
>>> @fx.gen
... def program(location):
...     queue = yield from WorkQueue.open(location)
...     yield from fx.fork(queue.serve({"add": add}))
...     yield from queue.submit("add", "a", "1 2 3")
...     ended = yield from queue.result("a")
...     return ended.text
>>> with tempfile.TemporaryDirectory() as folder:
...     fx.run(fx.scoped(program(f"{folder}/jobs.db")))
'6'
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, cast, final

import msgspec

from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import attempt_async, in_thread, succeed
from fxai.effects.effect import AwaitExit, Effect, EffectOf
from fxai.effects.fiber import Fiber
from fxai.effects.scope import NOTHING, Scope, acquire_release
from fxai.effects.waker import Waker, result_of
from fxai.storage.job_table import JobState, JobTable, NewJob, location_of, read_location
from fxai.storage.job_worker import Job, Worker
from fxai.storage.private_file import warn
from fxai.storage.worker_lock import is_served

if TYPE_CHECKING:
    from pathlib import Path

_A = TypeVar("_A")
_R = TypeVar("_R")

_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25  # seconds between two queries for the followed jobs
_PATIENCE: Final = 30.0  # seconds of database downtime before the followers of a job fail


@final
class Following:
    """The state of a followed job. It changes until `close`."""

    __slots__ = ("_thread", "_wake", "failure", "job", "offset", "shown", "state")

    def __init__(self, thread: QueueThread, job: str, wake: Callable[[], None], offset: int | None) -> None:
        self._thread = thread
        self._wake = wake
        self.job: str = job
        """The ID of the job."""
        self.offset: int | None = offset
        """The offset of the next preliminary value, or None if fxai does not read the preliminary values."""
        self.state: JobState | None = None
        """The latest state of the job, or None before the first query."""
        self.shown: deque[str] = deque()
        """The preliminary values that the follower has not consumed yet."""
        self.failure: OSError | None = None
        """The error that ended the updates, or None."""

    def note(self, state: JobState | None, shown: list[str]) -> bool:
        """Record the results of a query. Return whether they are new."""
        changed = bool(shown) or (state is not None and state != self.state)
        self.shown.extend(shown)
        if self.offset is not None:
            self.offset += len(shown)
        if state is not None:
            self.state = state
        if changed:
            self._wake()
        return changed

    def fail(self, failure: OSError) -> None:
        """End the updates with an error."""
        self.failure = failure
        self._wake()

    def close(self) -> None:
        """Stop following the job."""
        self._thread.drop(self)


@final
class WorkQueue:
    """The jobs of a database.

    You can run the effects on asyncio and on trio. You can call the methods of `thread` in any thread.
    """

    def __init__(self, table: JobTable, location: Path | str) -> None:
        self._table = table
        self._location = location
        self.thread: QueueThread = QueueThread(table)
        """The thread for changes and for followed jobs."""

    @staticmethod
    def open(location: str | os.PathLike[str]) -> Effect[WorkQueue, OSError, Scope]:
        """Open a queue until the scope closes. The jobs remain in the database.

        Args:
            location: The path of a SQLite database, or the URL `postgresql://USER:PASSWORD@HOST/DATABASE`. fxai creates
                a missing SQLite database that only its owner can read. The tables in PostgreSQL are in the schema
                `dbos`.

        Fails with:
            OSError: If fxai cannot open the database.

        Raises:
            ImportError: If the extra `durable` is not installed.
            ValueError: If the location is neither a valid path nor a URL of PostgreSQL.
        """
        where = read_location(location)
        held = ExitStack()

        def start() -> WorkQueue:
            queue = WorkQueue(held.enter_context(JobTable.open(where)), where)
            held.callback(queue.thread.close)
            return queue

        def close(_: object) -> EffectOf[None]:
            return in_thread(held.close, OSError).catch_all(lambda _: NOTHING)

        return acquire_release(in_thread(start, OSError), close)

    @staticmethod
    def keep(url: str) -> EffectOf[WorkQueue, OSError]:
        """Return the queue of a PostgreSQL database that stays open until the process ends.

        Use it if the program submits jobs often. fxai connects and checks the tables only once.

        Args:
            url: The URL, as for `open`.

        Fails with:
            OSError: If fxai cannot open the database.
        """
        kept = _kept.get(url)
        if kept is not None:
            return succeed(kept)

        def find() -> WorkQueue:
            with _keeping:
                found = _kept.get(url)
                if found is None:
                    held = ExitStack()
                    found = _kept[url] = WorkQueue(held.enter_context(JobTable.open(url)), url)
                    held.callback(found.thread.close)
                    atexit.register(_close_kept, url, found, held)
                return found

        return in_thread(find, OSError)

    @property
    def location(self) -> str:
        """The location of the queue, for messages, without user and password."""
        return location_of(self._location)

    # -- for programs

    def submit(
        self, kind: str, job: str, text: str, *, priority: int = 0, delay: float = 0.0
    ) -> EffectOf[bool, OSError]:
        """Submit a job. Return whether the job is new. An existing job with this ID remains unchanged.

        Args:
            kind: The kind of the job, which selects its workers. At most 400 characters.
            job: The ID of the job. At most 400 characters.
            text: The input for the worker. The database contains this text unencrypted.
            priority: The priority. Jobs with a higher priority run first, then older jobs. Default: 0.
            delay: Minimum seconds until the job runs. Default: 0.

        Fails with:
            OSError: If the database refuses.

        Raises:
            ValueError: If the kind or the ID is empty or too long, or a string contains half a surrogate pair.
        """
        new = NewJob(kind, job, text, priority, delay)
        return attempt_async(lambda: result_of(self.thread.submit(new)), OSError)

    def look_up(self, job: str) -> EffectOf[JobState, OSError]:
        """Return the current state of a job."""
        return in_thread(lambda: self._table.states([job])[job], OSError)

    def result(self, job: str) -> EffectOf[JobState, OSError]:
        """Wait until a job is `done`, `failed`, `cancelled`, or `gone`, and return its state.

        The wait has no time limit. All waits of a process share their queries.
        """
        return AwaitExit(lambda _: self._wait(job))

    async def _wait(self, job: str) -> Exit[JobState, OSError]:
        waker = Waker()
        following = self.thread.follow(job, waker)
        try:
            while following.failure is None:
                if following.state is not None and following.state.is_over:
                    return Succeeded(following.state)
                await waker.wait()
        finally:
            following.close()
        return Failed(Cause((Fail(following.failure),)))

    def read_shown(self, job: str, offset: int = 0) -> EffectOf[tuple[str, ...], OSError]:
        """Return the existing preliminary values of a job, starting at an offset."""
        shown = in_thread(lambda: self._table.read_shown({job: offset}), OSError)
        return shown.map(lambda rows: tuple([text for _, _, text in rows]))

    def cancel(self, *jobs: str) -> EffectOf[None, OSError]:
        """Cancel jobs, even if other programs wait for them. Workers interrupt running jobs within about a second."""
        return in_thread(lambda: self._table.cancel(jobs), OSError)

    def remove(self, *jobs: str) -> EffectOf[None, OSError]:
        """Remove jobs with all their data. Workers interrupt running jobs."""
        return in_thread(lambda: self._table.remove(jobs), OSError)

    def is_served(self, kind: str) -> bool:
        """Return whether a living worker runs jobs of a kind. The method blocks.

        Raises:
            OSError: If the system or the database refuses.
        """
        return is_served(self._location, kind)

    # -- for workers

    def serve(
        self,
        handlers: Mapping[str, Callable[[Job], EffectOf[str, Any, _R]]],
        *,
        concurrency: int = 16,
        grace: float = 30.0,
        attempts: int = 4,
        retention: float = 30 * 86_400.0,
        on_ready: Callable[[str], object] | None = None,
    ) -> EffectOf[Never, OSError, _R]:
        """Run jobs until the effect is cancelled.

        After a cancellation, the worker accepts no new jobs, and the running jobs can end. Every second, the worker
        checks for cancelled jobs and for dead workers, whose locks are free. It releases the jobs of dead workers to
        the queue. If the effect of a job fails, the job is `failed` and does not run again. If a program cancels a job,
        the worker interrupts its effect, and the finalizers run.

        Args:
            handlers: The handlers by kind. A handler returns the effect of a job, whose value is the result.
            concurrency: Maximum number of concurrent jobs. Default: 16.
            grace: Seconds for the running jobs to end after a cancellation. Then the worker interrupts them, and other
                workers can run them. Default: 30.
            attempts: Maximum number of workers that receive a job. If all of them die, the job is `failed`. Default: 4.
            retention: Seconds until a worker removes an ended job. Default: 30 days.
            on_ready: The callback for the start. It receives the unique name of this worker.

        Fails with:
            OSError: If the database refuses, or the worker lost its lock. The worker has interrupted its jobs.
        """
        options: Any = {"concurrency": concurrency, "grace": grace, "attempts": attempts, "retention": retention}

        def start(fiber: Fiber) -> Awaitable[Exit[Any, OSError]]:
            return Worker(self._table, self._location, cast(Any, handlers), fiber.env, **options).run(on_ready)

        return cast("EffectOf[Never, OSError, _R]", AwaitExit(start))


_kept: Final[dict[str, WorkQueue]] = {}  # by URL
_keeping: Final = threading.RLock()
_inherited: Final[list[WorkQueue]] = []  # queues of the parent process, which uses and closes them


def _close_kept(url: str, queue: WorkQueue, held: ExitStack) -> None:
    if _kept.get(url) is queue:
        with suppress(Exception):  # the server may have ended before this process
            held.close()


def _forget_kept() -> None:
    _inherited.extend(_kept.values())
    _kept.clear()


if hasattr(os, "register_at_fork"):  # locked during a fork, so that no other thread has the lock
    os.register_at_fork(before=_keeping.acquire, after_in_parent=_keeping.release, after_in_child=_keeping.release)
    os.register_at_fork(after_in_child=_forget_kept)


class _Orders(msgspec.Struct, eq=False):
    """The changes to write."""

    new: list[tuple[NewJob, Future[bool]]] = []
    cancelled: list[str] = []
    removed: list[str] = []


@final
class QueueThread:
    """The thread that combines the changes of a process, and queries all followed jobs of the process together."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._changed = threading.Condition()
        self._orders = _Orders()
        self._followed: dict[str, list[Following]] = {}
        self._is_closed = False
        self._is_new = False  # True if the thread must query again immediately
        self._failing_since: float | None = None
        self._thread: threading.Thread | None = None

    # -- called in any thread

    def submit(self, job: NewJob) -> Future[bool]:
        """Submit a job. The thread inserts concurrent jobs in one transaction."""
        future: Future[bool] = Future()
        if not self._order(lambda orders: orders.new.append((job, future))):
            future.set_exception(OSError("the work queue is closed. Submit jobs inside its scope."))
        return future

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._order(lambda orders: orders.cancelled.append(job))

    def remove(self, job: str) -> None:
        """Remove a job. If this fails, a worker removes the job after the retention time."""
        self._order(lambda orders: orders.removed.append(job))

    def follow(self, job: str, wake: Callable[[], None], offset: int | None = None) -> Following:
        """Follow the state of a job.

        Args:
            job: The ID of the job.
            wake: The callback for each change. fxai calls it in another thread, and it must return immediately.
            offset: The offset of the first preliminary value to read, starting at 0. Default: no values.
        """
        following = Following(self, job, wake, offset)

        def add(_: object) -> None:
            self._followed.setdefault(job, []).append(following)

        if not self._order(add):
            following.fail(OSError("the work queue is closed. Submit jobs inside its scope."))
        return following

    def drop(self, following: Following) -> None:
        """Stop following a job."""
        with self._changed:
            others = self._followed.get(following.job, [])
            with suppress(ValueError):
                others.remove(following)
            if not others:
                self._followed.pop(following.job, None)

    def _order(self, change: Callable[[_Orders], object]) -> bool:
        with self._changed:
            if self._is_closed:
                return False
            change(self._orders)
            self._is_new = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fxai-jobs", daemon=True)
                self._thread.start()
            self._changed.notify()
        return True

    def close(self) -> None:
        """Write the remaining changes, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        for following in self._all():
            following.fail(OSError("the work queue is closed. Submit jobs inside its scope."))

    # -- in its thread

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            with self._changed:
                if not self._is_new and not self._is_closed:
                    self._changed.wait(pause if self._followed else None)
                orders, self._orders = self._orders, _Orders()
                was_new, self._is_new = self._is_new, False
                closing = self._is_closed
            self._write(orders)
            if closing:
                return
            changed = self._read()
            pause = _FIRST_PAUSE if changed or was_new else min(1.5 * pause, _LAST_PAUSE)

    def _write(self, orders: _Orders) -> None:
        new = [(job, future) for job, future in orders.new if future.set_running_or_notify_cancel()]
        if new:
            self._insert(new)
        try:
            if orders.cancelled:
                self._table.cancel(orders.cancelled)
            if orders.removed:
                self._table.remove(orders.removed)
        except Exception as error:  # no caller waits for the result
            warn("cancellation or removal of jobs in %s failed: %s", self._table.location, error)

    def _insert(self, new: list[tuple[NewJob, Future[bool]]]) -> None:
        try:
            added = self._table.insert([job for job, _ in new])
        except Exception as error:
            for _, future in new:
                future.set_exception(error)
            return
        for job, future in new:
            future.set_result(job.id in added)
            added.discard(job.id)  # if a batch contains an ID twice, only the first job is new

    def _read(self) -> bool:
        """Query all followed jobs. Return whether any state is new."""
        with self._changed:
            followed = {job: list(those) for job, those in self._followed.items()}
        if not followed:
            return False
        try:
            states = self._table.states(list(followed))
            offsets = {
                job: min(one.offset for one in those if one.offset is not None)
                for job, those in followed.items()
                if any(one.offset is not None for one in those)
            }
            shown = self._table.read_shown(offsets) if offsets else []
        except Exception as error:  # no other code receives the error
            return self._note_failure(error if isinstance(error, OSError) else OSError(repr(error)))
        self._failing_since = None
        return self._tell(followed, states, shown)

    def _tell(
        self,
        followed: dict[str, list[Following]],
        states: dict[str, JobState],
        shown: list[tuple[str, int, str]],
    ) -> bool:
        values: dict[str, list[tuple[int, str]]] = {}
        for job, offset, text in shown:
            values.setdefault(job, []).append((offset, text))
        changed = False
        for job, those in followed.items():
            for one in those:
                own = [] if one.offset is None else [text for at, text in values.get(job, ()) if at >= one.offset]
                changed |= one.note(states[job], own)
        return changed

    def _note_failure(self, error: OSError) -> bool:
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since > _PATIENCE:
            for following in self._all():
                following.fail(error)
                self.drop(following)
        return False

    def _all(self) -> list[Following]:
        with self._changed:
            return [one for those in self._followed.values() for one in those]
