"""Queues of runs. Any program submits a run, and workers on other machines start or resume it.

A job of a work queue is one stretch of a run: until the run ends or waits for an answer. The answer submits the next
job, so that no process keeps a waiting run in memory. The journal of the run decides: if a job is lost, doubled, or
late, a worker only reads the journal once more.

>>> import tempfile
>>> from fxai.durable.runs import Runs
>>> with tempfile.TemporaryDirectory() as folder:
...     runs = Runs.sqlite(f"{folder}/runs.db")
...     fx.run(runs.submit("order-17", "shop:handle_order")), fx.run(runs.submit("order-17", "shop:handle_order"))
...     fx.run(runs.list())[0].status
(True, False)
'queued'
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias, TypeVar, cast, final

import msgspec

from fxai.durable.failure import JournalFailure, RunAsleep, RunCancelled, RunOwned
from fxai.durable.frame import Hold
from fxai.durable.record import Submitted
from fxai.durable.run_journal import CLOCK, RunJournal
from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.constructor import attempt_work
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, EffectOf, Generate, Local, Suspend
from fxai.effects.schedule import Schedule
from fxai.effects.scope import scoped

if TYPE_CHECKING:
    from fxai.storage.job_worker import Job
    from fxai.storage.work_queue import WorkQueue

_A = TypeVar("_A")
_R = TypeVar("_R")

Program: TypeAlias = Callable[[str], EffectOf[Any, Any, _R]]
"""The program of a run with its durable layer, as a function of the name of the run."""

Read: TypeAlias = Callable[[str], EffectOf[RunJournal, JournalFailure, None]]
"""Reads the journal of a run, which need not exist yet."""

_LONGEST: Final = 200  # characters of the name of a program
_AWAY: Final = Schedule.spaced(1.0) & Schedule.recurs(30)
_PATIENCE: Final = 60.0  # maximum seconds between two checks of a run that another program owns


class _Order(msgspec.Struct, frozen=True):
    """The text of a job."""

    run: str
    tries: int = 0
    """The number of times that another program owned the run when a worker took the job."""


@final
class RunQueue:
    """The queue of the runs of a store."""

    def __init__(self, read: Read, location: Path | str) -> None:
        self._read = read
        self._location = location

    # -- for programs

    def submit(
        self, run: str, program: str, *, priority: int, delay: float
    ) -> EffectOf[bool, RunCancelled | JournalFailure, None]:
        """Submit a run, as `Runs.submit`."""
        if not 0 < len(program) <= _LONGEST:
            raise ValueError(f"program must have 1 to {_LONGEST} characters, got {program!r}")
        return Generate(self._submit, (run, program, priority, delay), {})

    def _submit(self, run: str, program: str, priority: int, delay: float) -> Generator[AnyEffect, Any, bool]:
        journal: RunJournal = yield self._read(run)
        known = journal.known
        if known.cancelled is not None:
            yield fx.fail(RunCancelled(run))
        if known.status == "done":
            return False
        if known.submitted:
            last = known.submitted[-1]
            state = yield self._ask(run, lambda queue: queue.look_up(last.job))
            if state.status == "gone" and last.program == program:  # another program recorded it and submits it now
                return cast(bool, (yield self._put(run, program, last.job, priority, delay)))
            if not state.is_over:
                return False
        return (yield from self._enqueue(journal, program, priority, delay))

    def submit_again(self, journal: RunJournal) -> Generator[AnyEffect, Any, None]:
        """Submit a run again after its questions were answered.

        If the program of the run has not stopped yet, the worker of its job checks again when the program stops.
        """
        known = journal.known
        if not known.submitted or known.questions or known.status != "stopped":
            return
        last = known.submitted[-1]
        is_left = known.closed is not None
        if is_left or (yield self._ask(known.run, lambda queue: queue.look_up(last.job))).is_over:
            yield from self._enqueue(journal, last.program, last.priority, 0.0)

    def _enqueue(
        self, journal: RunJournal, program: str, priority: int, delay: float
    ) -> Generator[AnyEffect, Any, bool]:
        """Submit a new job of a run. Two programs that submit concurrently use the same ID."""
        run = journal.known.run
        job = f"{run} {len(journal.known.submitted)}"
        yield journal.append(Submitted((yield CLOCK).now(), program, job, priority))
        return cast(bool, (yield self._put(run, program, job, priority, delay)))

    def _put(
        self, run: str, program: str, job: str, priority: int, delay: float
    ) -> EffectOf[bool, JournalFailure, None]:
        """Submit a job. Return True if it is new."""
        text = msgspec.json.encode(_Order(run)).decode()
        return self._ask(run, lambda queue: queue.submit(_kind(program), job, text, priority=priority, delay=delay))

    def withdraw(self, journal: RunJournal) -> Generator[AnyEffect, Any, None]:
        """Cancel the job of a cancelled run if no worker has it. A worker with the job notices the cancellation."""
        known = journal.known
        if not known.submitted:
            return
        job = known.submitted[-1].job

        def cancel(queue: WorkQueue) -> EffectOf[None, OSError, None]:
            return queue.look_up(job).flat_map(
                lambda state: queue.cancel(job) if state.status == "waiting" else fx.succeed(None)
            )

        yield self._ask(known.run, cancel)

    def _ask(
        self, run: str, f: Callable[[WorkQueue], EffectOf[_A, OSError, None]], *, keeps: bool = True
    ) -> EffectOf[_A, JournalFailure]:
        """Return the result of a function of the queue. The process keeps the queue of a server open by default."""
        from fxai.storage.work_queue import WorkQueue  # it requires DBOS

        def fail(error: object) -> JournalFailure:
            return JournalFailure(run, f"queue: {error}")

        asked: EffectOf[_A, Any, Any] = (
            WorkQueue.keep(self._location).flat_map(f)
            if keeps and isinstance(self._location, str)
            else scoped(WorkQueue.open(self._location).flat_map(f))
        )
        return asked.map_error(fail)

    def is_served(self, program: str) -> EffectOf[bool, JournalFailure, None]:
        """Return True if a worker of a program runs, as `Runs.is_served`."""
        kind = _kind(program)

        def find(queue: WorkQueue) -> EffectOf[bool, OSError, None]:
            return attempt_work(lambda: queue.is_served(kind), OSError)

        return self._ask("", find)

    # -- for workers

    def work(
        self,
        programs: Mapping[str, Program[_R]],
        *,
        concurrency: int,
        grace: float,
        hold: float | None,
        attempts: int,
        on_ready: Callable[[str], object] | None,
    ) -> EffectOf[Never, JournalFailure, _R | None]:
        """Return the effect of a worker, as `Runs.work`."""

        def serve(queue: WorkQueue) -> AnyEffect:
            handlers = {
                _kind(name): partial(self._run, queue, hold, name, program) for name, program in programs.items()
            }
            return queue.serve(handlers, concurrency=concurrency, grace=grace, attempts=attempts, on_ready=on_ready)

        working: EffectOf[Never, JournalFailure, Any] = self._ask("", cast(Any, serve), keeps=False)
        return working

    def _run(self, queue: WorkQueue, hold: float | None, name: str, program: Program[Any], job: Job) -> AnyEffect:
        def mark(context: AnyContext) -> AnyContext:
            return context if hold is None else context.put(Hold, Hold(hold))

        # a stretch fails only if the journal or the queue is unavailable; then it starts again from the journal
        stretch: AnyEffect = Generate(self._run_stretch, (queue, name, program, job), {})
        return Local(stretch.retry(_AWAY), mark)

    def _run_stretch(
        self, queue: WorkQueue, name: str, program: Program[Any], job: Job
    ) -> Generator[AnyEffect, Any, str]:
        """Run the program until it ends or waits for an answer. Return the status of the run."""
        order = msgspec.json.decode(job.text, type=_Order)
        known = (yield self._read(order.run)).known
        if known.status in ("done", "cancelled"):
            return cast(str, known.status)
        while True:
            opened = len(known.opened)
            end: Exit[Any, Any] = yield Suspend(lambda: program(order.run)).exit()
            if any(isinstance(one, RunOwned) for one in _failures(end)):
                # a lost program owns the run, or a program that is no worker
                later = msgspec.json.encode(_Order(order.run, order.tries + 1)).decode()
                id_, delay = f"{job.id.partition('~')[0]}~{order.tries + 1}", min(_PATIENCE, 2.0**order.tries)
                yield queue.submit(_kind(name), id_, later, delay=delay)
                return "owned"
            asleep = next((one for one in _failures(end) if isinstance(one, RunAsleep)), None)
            if asleep is not None:
                journal: RunJournal = yield self._read(order.run)
                yield from self._enqueue(journal, name, journal.known.submitted[-1].priority, asleep.seconds)
                return "asleep"
            known = (yield self._read(order.run)).known
            is_answered = known.status == "stopped" and known.closed is not None
            if not is_answered:  # otherwise an answer arrived while the program stopped
                break
        is_opened = len(known.opened) > opened
        broken = next((one for one in _failures(end) if isinstance(one, JournalFailure)), None)
        is_interrupted = not isinstance(end, Succeeded) and end.cause.interrupted
        is_lost = known.closed is None and not is_interrupted if is_opened else broken is not None
        if is_lost:
            yield fx.fail(broken or JournalFailure(order.run, "cannot write the end of its program"))
        if known.status in ("failed", "stopped") or (not is_opened and known.status != "cancelled"):
            _log(order.run, end)
        return cast(str, known.status)


def _failures(end: Exit[Any, Any]) -> tuple[Any, ...]:
    return () if isinstance(end, Succeeded) else end.cause.failures


def _kind(program: str) -> str:
    return f"fxai run {program}"


def _log(run: str, end: Exit[Any, Any]) -> None:
    import logging  # most runs end well

    why = "its program ended, but the run did not" if isinstance(end, Succeeded) else end.cause.squash()
    logging.getLogger("fxai.durable").warning("the run %r did not end: %s", run, why)
