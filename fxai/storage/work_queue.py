"""Work queues: jobs that other processes run, and that survive the loss of whoever submitted or runs them.

A job has a kind, an id and a text, as its result has: JSON, for whoever reads them. It stands in a SQLite or PostgreSQL
database from the moment in which `submit` has succeeded, until it is removed; a second one of the same id is the first.
A worker runs it. Where the worker is lost, however that went, another one runs the job again, and is told so.

The database is one of DBOS, which the extra `durable` brings; see `fxai.storage.job_table` for how it is used.

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
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, cast, final

import msgspec

from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.constructor import attempt_work, succeed
from fxai.effects.effect import AwaitExit, EffectOf, Fetch, FlatMap
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.waker import Waker, result_of
from fxai.storage.job_table import JobState, JobTable, NewJob, location_of, read_location
from fxai.storage.job_worker import Job, JobWorkerOptions, os_error, serve_jobs
from fxai.storage.private_file import warn
from fxai.storage.worker_lock import is_served

if TYPE_CHECKING:
    from pathlib import Path

_A = TypeVar("_A")
_R = TypeVar("_R")

_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25  # seconds between two looks at the jobs that are followed
_PATIENCE: Final = 30.0  # seconds that a database may be away, before those who follow a job are told
_LONGEST: Final = 400  # characters of an id and of a kind


@final
class Following:
    """What is known of a job that is followed, until `close`."""

    __slots__ = ("_clerk", "_wake", "failure", "job", "offset", "shown", "state")

    def __init__(self, clerk: _Clerk, job: str, wake: Callable[[], None], offset: int | None) -> None:
        self._clerk = clerk
        self._wake = wake
        self.job: str = job
        """The id of the job."""
        self.offset: int | None = offset
        """The next preliminary value that is read; None: none is."""
        self.state: JobState | None = None
        """What is known; None: nothing yet."""
        self.shown: deque[str] = deque()
        """Preliminary values that were not taken yet."""
        self.failure: OSError | None = None
        """Why nothing more will be known of it."""

    def note(self, state: JobState | None, shown: list[str]) -> bool:
        """Notes what was read; gives whether that is new."""
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
        """Nothing more will be known."""
        self.failure = failure
        self._wake()

    def close(self) -> None:
        """Follows it no more."""
        self._clerk.drop(self)


@final
class WorkQueue:
    """The jobs of one database.

    Its effects may be run on asyncio and on trio; `follow` and what ends in `_soon` may be called in any thread.
    """

    def __init__(self, table: JobTable, location: Path | str) -> None:
        self._table = table
        self._location = location
        self._clerk = _Clerk(table)

    @staticmethod
    def open(location: str | os.PathLike[str]) -> EffectOf[WorkQueue, OSError, Scope]:
        """The queue at a place, until the scope closes; what stands there stays.

        Args:
            location: the path of a SQLite database, which is made where it is not there, and which its owner alone can
                read; or `postgresql://USER:PASSWORD@HOST/DATABASE`, whose tables are in the schema `dbos`.

        Fails with:
            OSError: the database cannot be opened.

        Raises:
            ImportError: the extra `durable` is not installed.
            ValueError: it is no such place.
        """
        where = read_location(location)
        held = ExitStack()

        def start() -> WorkQueue:
            queue = WorkQueue(held.enter_context(JobTable.open(where)), where)
            held.callback(queue._clerk.close)
            return queue

        def close(_: object) -> EffectOf[None]:
            return attempt_work(held.close, os_error).catch_all(lambda _: NOTHING)

        def within(scope: Scope) -> EffectOf[WorkQueue, OSError, None]:
            def keep(queue: WorkQueue) -> WorkQueue:
                scope.add(close)
                return queue

            return attempt_work(start, os_error).map(keep).uninterruptible()

        return FlatMap(Fetch(Scope), within)

    @staticmethod
    def keep(url: str) -> EffectOf[WorkQueue, OSError]:
        """The queue of a PostgreSQL database, which this process keeps open until it ends.

        A program that submits often does not connect, and does not look at the tables, each time.

        Args:
            url: The URL, as for `open`.

        Fails with:
            OSError: The database cannot be opened.
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
                    held.callback(found._clerk.close)
                    atexit.register(_close_kept, url, found, held)
                return found

        return attempt_work(find, os_error)

    @property
    def location(self) -> str:
        """Where it is, in words, without user and password."""
        return location_of(self._location)

    # -- asked by programs

    def submit(
        self, kind: str, job: str, text: str, *, priority: int = 0, delay: float = 0.0
    ) -> EffectOf[bool, OSError]:
        """Submits a job; gives whether it is new: of one that was there nothing is changed.

        Args:
            kind: which workers run it, at most 400 characters.
            job: its id, at most 400 characters.
            text: what its worker is given; it stands in the database as it is.
            priority: jobs of a higher one go first, then those that came first.
            delay: how many seconds it waits at least.

        Fails with:
            OSError: the database refuses.

        Raises:
            ValueError: the kind or the id is too long or empty, or a text holds half a surrogate pair.
        """
        new = new_job(kind, job, text, priority=priority, delay=delay)
        return _of_future(lambda: self._clerk.submit(new))

    def submit_soon(self, job: NewJob) -> Future[bool]:
        """As `submit`, of a job as `new_job` makes it; jobs that come together are written together."""
        return self._clerk.submit(job)

    def look_up(self, job: str) -> EffectOf[JobState, OSError]:
        """What is known of a job."""
        return attempt_work(lambda: self._table.states([job])[job], os_error)

    def result(self, job: str) -> EffectOf[JobState, OSError]:
        """What a job ended as: it is `done`, `failed`, `cancelled`, or `gone`. Waits for that, without end.

        All that wait in this process are served by one query at a time.
        """
        return AwaitExit(lambda _: self._wait(job))

    async def _wait(self, job: str) -> Exit[JobState, OSError]:
        waker = Waker()
        following = self.follow(job, waker)
        try:
            while following.failure is None:
                if following.state is not None and following.state.is_over:
                    return Succeeded(following.state)
                await waker.wait()
        finally:
            following.close()
        return Failed(Cause((Fail(following.failure),)))

    def follow(self, job: str, wake: Callable[[], None], *, offset: int | None = None) -> Following:
        """Follows a job: `wake` is called in another thread, and must return at once, when something is new.

        Args:
            job: its id.
            wake: see above.
            offset: of the first preliminary value that is read, from 0; None: none is.
        """
        return self._clerk.follow(job, wake, offset)

    def read_shown(self, job: str, offset: int = 0) -> EffectOf[tuple[str, ...], OSError]:
        """The preliminary values of a job from an offset on, as far as there are any."""
        shown = attempt_work(lambda: self._table.read_shown({job: offset}), os_error)
        return shown.map(lambda rows: tuple([text for _, _, text in rows]))

    def cancel(self, *jobs: str) -> EffectOf[None, OSError]:
        """Cancels jobs, also those that others wait for: their workers interrupt them in about a second."""
        return attempt_work(lambda: self._table.cancel(jobs), os_error)

    def remove(self, *jobs: str) -> EffectOf[None, OSError]:
        """Removes jobs with all that is known of them; those that run are interrupted."""
        return attempt_work(lambda: self._table.remove(jobs), os_error)

    def cancel_soon(self, job: str) -> None:
        """Cancels a job, from any thread."""
        self._clerk.cancel(job)

    def remove_soon(self, job: str) -> None:
        """Removes a job, from any thread; several together. One that cannot be removed is removed when it is old."""
        self._clerk.remove(job)

    def is_served(self, kind: str) -> bool:
        """Whether a worker lives that runs jobs of a kind; it blocks.

        Raises:
            OSError: the system or the database refuses.
        """
        return is_served(self._location, kind)

    # -- asked by workers

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
        """Runs jobs until it is cancelled: then it takes no new ones, and lets those that run end.

        Every second it looks for jobs that were cancelled, and for workers that are lost, whose jobs it lets wait
        again: exactly those whose lock is free. A job whose effect fails has failed; it is not run again. An id that is
        cancelled interrupts its effect, and its finalizers run.

        Args:
            handlers: by kind, the effect of a job, which gives its result.
            concurrency: how many jobs it runs at once.
            grace: how many seconds jobs that run have to end when it is cancelled; then they are interrupted, and wait
                for another worker.
            attempts: how often a job is given to a worker, if each is lost; then it has failed.
            retention: jobs are removed that ended so many seconds ago; 30 days by default.
            on_ready: is called with the name of this worker, unique for ever, when it is ready.

        Fails with:
            OSError: the database refuses, or the lock of this worker was lost; what it ran was interrupted.
        """
        options = JobWorkerOptions(concurrency, grace, attempts, retention)
        return cast(
            "EffectOf[Never, OSError, _R]", serve_jobs(self._table, self._location, handlers, options, on_ready)
        )


def new_job(kind: str, job: str, text: str, *, priority: int = 0, delay: float = 0.0) -> NewJob:
    """A job to be submitted, as `WorkQueue.submit` describes it."""
    for what, name in (("kind", kind), ("id", job)):
        if not 0 < len(name) <= _LONGEST or "\0" in name or name.isspace():
            raise ValueError(f"the {what} of a job has 1 to {_LONGEST} characters, not {name[:80]!r}")
    try:
        for each in (kind, job, text):
            each.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a job holds half a surrogate pair at character {error.start}") from error
    return NewJob(kind, job, text, priority, delay)


def _of_future(start: Callable[[], Future[_A]]) -> EffectOf[_A, OSError]:
    async def wait() -> Exit[_A, OSError]:
        try:
            return Succeeded(await result_of(start()))
        except OSError as error:
            return Failed(Cause((Fail(error),)))

    return AwaitExit(lambda _: wait())


_kept: Final[dict[str, WorkQueue]] = {}  # by URL
_keeping: Final = threading.RLock()
_inherited: Final[list[WorkQueue]] = []  # of the process that this one was forked from, which uses and closes them


def _close_kept(url: str, queue: WorkQueue, held: ExitStack) -> None:
    if _kept.get(url) is queue:
        with suppress(Exception):  # the server may have ended before this process
            held.close()


def _forget_kept() -> None:
    _inherited.extend(_kept.values())
    _kept.clear()


if hasattr(os, "register_at_fork"):  # the lock is held at a fork, so that no other thread has it then
    os.register_at_fork(before=_keeping.acquire, after_in_parent=_keeping.release, after_in_child=_keeping.release)
    os.register_at_fork(after_in_child=_forget_kept)


class _Orders(msgspec.Struct, eq=False):
    """What is to be written."""

    new: list[tuple[NewJob, Future[bool]]] = []
    cancelled: list[str] = []
    removed: list[str] = []


@final
class _Clerk:
    """The thread that writes for all of a process what comes together, and reads for all of it what they follow."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._changed = threading.Condition()
        self._orders = _Orders()
        self._followed: dict[str, list[Following]] = {}
        self._is_closed = False
        self._is_new = False  # something to be looked at soon
        self._failing_since: float | None = None
        self._thread: threading.Thread | None = None

    # -- called in any thread

    def submit(self, job: NewJob) -> Future[bool]:
        """Writes a job."""
        future: Future[bool] = Future()
        if not self._order(lambda orders: orders.new.append((job, future))):
            future.set_exception(OSError("the work queue is closed"))
        return future

    def cancel(self, job: str) -> None:
        """Cancels a job."""
        self._order(lambda orders: orders.cancelled.append(job))

    def remove(self, job: str) -> None:
        """Removes a job."""
        self._order(lambda orders: orders.removed.append(job))

    def follow(self, job: str, wake: Callable[[], None], offset: int | None) -> Following:
        """Reads what becomes of a job."""
        following = Following(self, job, wake, offset)

        def add(_: object) -> None:
            self._followed.setdefault(job, []).append(following)

        if not self._order(add):
            following.fail(OSError("the work queue is closed"))
        return following

    def drop(self, following: Following) -> None:
        """Reads it no more."""
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
        """Writes what was ordered, and ends."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        for following in self._all():
            following.fail(OSError("the work queue is closed"))

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
        except Exception as error:  # nobody waits for it
            warn("jobs in %s could not be cancelled or removed: %s", self._table.location, error)

    def _insert(self, new: list[tuple[NewJob, Future[bool]]]) -> None:
        try:
            added = self._table.insert([job for job, _ in new])
        except Exception as error:
            for _, future in new:
                future.set_exception(error)
            return
        for job, future in new:
            future.set_result(job.id in added)
            added.discard(job.id)  # of two that came together one is new

    def _read(self) -> bool:
        """Reads all that is followed; gives whether something is new."""
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
        except Exception as error:  # nobody else is there to be told
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
