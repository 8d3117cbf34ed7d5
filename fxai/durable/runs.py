"""Runs: a store of durable runs, to be looked at, answered and cancelled from any program.

>>> from fxai.effects import fx
>>> runs = Runs.in_process()
>>> fx.run_sync(runs.list())
()
>>> print(fx.run_sync(runs.cancel("order-17").result()).failure())
no run 'order-17' in this process. `fxai runs list` shows all runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.durable.failure import JournalFailure, Question, QuestionUnknown, Reply, RunCancelled, RunOwned, RunUnknown
from fxai.durable.record import Answered, CancelWish, Input, Part, RunState, RunStatus
from fxai.durable.run_journal import COLUMNS, FORM, RunJournal
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import for_each
from fxai.effects.constructor import attempt_work, fail
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Fetch, Generate, Succeed
from fxai.effects.scope import scoped
from fxai.effects.service import Clock
from fxai.storage.journal import Selection
from fxai.storage.journal_store import JournalStore, ProcessJournals, TableJournals

if TYPE_CHECKING:
    from fxai.durable.run_queue import Program, RunQueue

_A = TypeVar("_A")
_R = TypeVar("_R")

DEFAULT: Final = "fxai-runs.db"
"""The SQLite database, in the folder of the process, where nothing else is named."""

_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)


@final
class RunReport(msgspec.Struct, frozen=True):
    """All that is known of a run."""

    state: RunState
    questions: tuple[Question, ...]
    """The questions that are open."""
    steps: tuple[RunStep, ...]
    """Its turns and calls, in the order in which they began."""
    input: Input | None = None
    """What the command line began it with."""

    @override
    def __hash__(self) -> int:
        return hash((self.state, self.questions))


@final
class RunStep(msgspec.Struct, frozen=True):
    """A turn, a call, or other work of a run."""

    path: str
    name: str
    """The name of the tool or of the work; of a turn "turn", of a sleep "sleep"."""
    status: str
    """`ended`, `failed`, `in doubt`, `interrupted` (it may run again), or `waiting`."""


@final
class Runs:
    """The runs of one store. Every method is an effect that any program may run, whoever owns the runs."""

    def __init__(self, store: JournalStore, place: str, jobs: Path | str | None = None) -> None:
        self._store = store
        self._place = place
        self._jobs = jobs  # where the queue of the workers is

    @override
    def __repr__(self) -> str:
        return f"Runs({self._place})"

    @property
    def place(self) -> str:
        """Where they are, in words, without a password."""
        return self._place

    @property
    def store(self) -> JournalStore:
        """The journals of the runs, by name."""
        return self._store

    # -- constructors

    @staticmethod
    def in_process() -> Runs:
        """A new store that ends with the process: for tests, and for programs that need no more than the law."""
        return Runs(ProcessJournals(), "this process")

    @staticmethod
    def sqlite(path: str | os.PathLike[str] = DEFAULT) -> Runs:
        """The store in a SQLite database, which is made at the first use, and which its owner alone can read.

        Raises:
            ValueError: no database can have that path.
        """
        from fxai.storage.database import database_path  # only where there is a database

        where = database_path(path)
        return Runs(TableJournals(where, FORM), str(where), where.with_name(f"{where.name}.jobs"))

    @staticmethod
    def postgres(url: str) -> Runs:
        """The store in a PostgreSQL database, for programs of many machines; it needs the extra `postgres`.

        Args:
            url: `postgresql://USER:PASSWORD@HOST/DATABASE`; what is left out is taken from the environment, as libpq
                does. Whoever can write there can make runs do things: give it a role of its own.

        Raises:
            ValueError: it is no such URL.
        """
        from fxai.storage.journal_postgres import PostgresJournals

        store = PostgresJournals(url, FORM)
        return Runs(store, store.place, url)

    @staticmethod
    def at(place: str | os.PathLike[str] | None = None) -> Runs:
        """The store at a place: a URL of PostgreSQL, or the path of a SQLite database.

        Args:
            place: None: what the environment variable `FXAI_RUNS` says, else `fxai-runs.db` in the current folder.

        Raises:
            ValueError: there can be no store.
        """
        where = os.environ.get("FXAI_RUNS") or DEFAULT if place is None else os.fspath(place)
        is_url = where.startswith(("postgresql://", "postgres://"))
        return Runs.postgres(where) if is_url else Runs.sqlite(Path(where))

    # -- what there is

    def list(
        self,
        *,
        status: RunStatus | None = None,
        prefix: str = "",
        limit: int | None = None,
        after: str | None = None,
    ) -> EffectOf[tuple[RunState, ...], JournalFailure, None]:
        """Return the states of runs, the newest first.

        Args:
            status: The status of the runs. Default: any.
            prefix: The first characters of their names. Default: any.
            limit: Maximum number of runs. Default: all.
            after: The name of the last run of the page before. Default: the first page.

        Fails with:
            JournalFailure: the store cannot be read.
        """
        return Generate(self._list, (status, prefix, limit, after), {})

    def _list(
        self, status: RunStatus | None, prefix: str, limit: int | None, after: str | None
    ) -> Generator[AnyEffect, Any, tuple[RunState, ...]]:
        last: RunState | None = None
        if after is not None:
            last = yield self._attempt(after, lambda: self._store.journal(after).read_state())
        shown: list[RunState] = []
        states: list[RunState] = [last] if last is not None else []
        is_whole = False
        while not is_whole and (limit is None or len(shown) < limit):
            selection = _select(status, prefix, states, None if limit is None else limit - len(shown))
            states = yield self._attempt("", partial(self._store.select, COLUMNS, selection))
            for state in states:
                running = state.status == "stopped" and (yield self._is_owned(state.run))
                found = msgspec.structs.replace(state, status="running") if running else state
                if status is None or found.status == status:
                    shown.append(found)
            is_whole = selection.most is None or len(states) < selection.most
        return tuple(shown)

    def _is_owned(self, run: str) -> EffectOf[bool, JournalFailure, None]:
        owning: EffectOf[Any, Any, Any] = scoped(RunJournal(run, self._store.journal(run)).own())

        def judge(end: Exit[Any, Any]) -> EffectOf[bool, JournalFailure, None]:
            if isinstance(end, Succeeded):
                return Succeed(False)
            is_owned = any(isinstance(error, RunOwned) for error in end.cause.failures)
            return Succeed(True) if is_owned else FailCause(end.cause)

        return owning.exit().flat_map(judge)

    def show(self, run: str) -> EffectOf[RunReport, RunUnknown | JournalFailure, None]:
        """All that is known of a run.

        Fails with:
            RunUnknown: there is no such run.
            JournalFailure: it cannot be read.
        """
        return Generate(self._show, (run,), {})

    def _show(self, run: str) -> Generator[AnyEffect, Any, RunReport]:
        journal: RunJournal = yield self.open(run)
        now = (yield _CLOCK).now()
        state = journal.known.state(now)
        if state.status == "stopped" and (yield self._is_owned(run)):
            state = msgspec.structs.replace(state, status="running")
        return RunReport(state, journal.known.questions, _steps(journal), journal.known.input)

    def open(self, run: str, *, may_begin: bool = False) -> EffectOf[RunJournal, RunUnknown | JournalFailure, None]:
        """The journal of a run, as it is now; nobody owns it by that.

        Args:
            run: its name.
            may_begin: whether a run that is not there yet is none the worse.

        Fails with:
            RunUnknown: there is no such run.
            JournalFailure: it cannot be read.
        """

        def check(journal: RunJournal) -> EffectOf[RunJournal, RunUnknown, None]:
            return Succeed(journal) if may_begin or journal.known.last else fail(RunUnknown(run, self._place))

        return self._attempt(run, lambda: RunJournal.open(run, self._store)).flat_map(check)

    def _attempt(self, run: str, work: Callable[[], _A]) -> EffectOf[_A, JournalFailure, None]:
        def explain(error: Exception) -> JournalFailure | None:
            return JournalFailure(run, str(error)) if isinstance(error, OSError) else None

        return attempt_work(work, explain, in_thread=self._store.blocks)

    # -- what others may say

    def answer(
        self, run: str, question: str, reply: Reply
    ) -> EffectOf[None, RunUnknown | QuestionUnknown | JournalFailure, None]:
        """Answers a question of a run. A program that waits for it goes on; else it does when the run is resumed.

        Args:
            run: the name of the run.
            question: the `id` of the question, or the model's id of its call.
            reply: the answer, of a kind that the question allows.

        Fails with:
            QuestionUnknown: there is no such question, it was answered before, or not in this way.
            RunUnknown, JournalFailure: as `show`.
        """
        return Generate(self._answer, (run, {question: reply}), {})

    def answer_all(
        self, run: str, replies: Mapping[str, Reply]
    ) -> EffectOf[None, RunUnknown | QuestionUnknown | JournalFailure, None]:
        """Answer several questions of a run together. If one reply is not possible, no question is answered.

        Args:
            run: The name of the run.
            replies: The replies, by the `id` of the question or the model's id of its call.

        Fails with:
            QuestionUnknown, RunUnknown, JournalFailure: As `answer`.
        """
        return Generate(self._answer, (run, replies), {})

    def _answer(self, run: str, replies: Mapping[str, Reply]) -> Generator[AnyEffect, Any, None]:
        journal: RunJournal = yield self.open(run)
        chosen: list[tuple[Question, Reply]] = []
        for name, reply in replies.items():
            found = _find_question(journal, name, reply)
            if isinstance(found, QuestionUnknown):
                yield fail(found)
            chosen.append((cast(Question, found), reply))
        for question, reply in chosen:
            yield journal.append(Answered(question.path, reply, (yield _CLOCK).now()))
        if journal.known.submitted:
            yield from self._queue.submit_again(journal)

    def cancel(self, run: str) -> EffectOf[None, RunUnknown | JournalFailure, None]:
        """Has a run end, and never go on.

        A program that goes on with it is interrupted within about a second, in any process and wherever it is: its
        finalizers run, and it fails with `RunCancelled`. A call under way is interrupted too, and stays in doubt in the
        journal; what is uninterruptible, or blocks in a thread, is waited for. A run that is done stays so.

        Fails with:
            RunUnknown, JournalFailure: as `show`.
        """
        return Generate(self._cancel, (run,), {})

    def _cancel(self, run: str) -> Generator[AnyEffect, Any, None]:
        journal: RunJournal = yield self.open(run)
        if journal.known.cancelled is None and journal.known.status != "done":
            yield journal.append(CancelWish((yield _CLOCK).now()))
            if journal.known.submitted:
                yield from self._queue.withdraw(journal)

    # -- workers

    def submit(
        self, run: str, program: str, *, priority: int = 0, delay: float = 0.0
    ) -> EffectOf[bool, RunCancelled | JournalFailure, None]:
        """Has a worker begin a run, or go on with it; gives whether that is new.

        A run that is queued, that a worker has, or that is done is not submitted again. One that waits for an answer
        is submitted by the answer. It needs the extra `durable`. The queue of a SQLite database is a second file, whose
        name ends in `.jobs`; that of a PostgreSQL database stands in it, in the schema `dbos`.

        Args:
            run: the name of the run, as for `durable`.
            program: what workers call its program, at most 200 characters, such as "shop:handle_order".
            priority: runs of a higher one go first, then those that came first.
            delay: how many seconds it waits at least.

        Fails with:
            RunCancelled: somebody cancelled it; it never goes on.
            JournalFailure: the journal or the queue cannot be read or written.

        Raises:
            ValueError: the runs are those of this process, or the program can have no such name.
        """
        return self._queue.submit(run, program, priority=priority, delay=delay)

    def is_served(self, program: str) -> EffectOf[bool, JournalFailure, None]:
        """Return whether a worker runs that has a program.

        Args:
            program: The name of the program, as for `submit`.

        Fails with:
            JournalFailure: The queue cannot be read.
        """
        return self._queue.is_served(program)

    def work(
        self,
        programs: Mapping[str, Program[_R]],
        *,
        concurrency: int = 16,
        grace: float = 30.0,
        hold: float | None = 60.0,
        attempts: int = 20,
        on_ready: Callable[[str], object] | None = None,
    ) -> EffectOf[Never, JournalFailure, _R | None]:
        """A worker: runs what is submitted, until it is cancelled; then it lets what it runs end.

        A run that ends, fails, or waits for an answer leaves it, and takes no room while it waits. The runs of a worker
        that is lost are gone on with by others, from their journals. How a run ends is journalled; what it fails with
        goes to the log `fxai.durable`.

        Args:
            programs: the program of a run, of its name, with its durable layer; by what `submit` calls it.
            concurrency: how many runs it has at once.
            grace: how many seconds they have when it is cancelled; then they are interrupted, and others have them.
            hold: a run that sleeps leaves when it has slept for so many seconds and has as many to sleep; it is queued
                until then. While a turn, a call or a step is under way in it, or a question is open, it stays. None: it
                always stays.
            attempts: how many workers a submitted run is given to, if each is lost; `submit` gives it to as many again.
            on_ready: is called with the name of the worker when it is ready.

        Fails with:
            JournalFailure: the queue cannot be read or written.

        Raises:
            ValueError: the runs are those of this process.
        """
        return self._queue.work(
            programs, concurrency=concurrency, grace=grace, hold=hold, attempts=attempts, on_ready=on_ready
        )

    @property
    def _queue(self) -> RunQueue:
        from fxai.durable.run_queue import RunQueue  # few programs have workers

        if self._jobs is None:
            raise ValueError("the runs of this process have no workers: keep them in SQLite or PostgreSQL")

        def read(run: str) -> EffectOf[RunJournal, JournalFailure, None]:
            return self._attempt(run, lambda: RunJournal.open(run, self._store))

        return RunQueue(read, self._jobs)

    # -- going on with them

    def recover(
        self,
        program: Callable[[str], EffectOf[Any, Any, _R]],
        *,
        concurrency: int | None = 4,
        prefix: str = "",
        limit: int | None = None,
    ) -> EffectOf[tuple[str, ...], JournalFailure, _R | None]:
        """Goes on, once, with each run that stands still and can go on; gives the names of those that had ended well.

        These are the runs that are `stopped`: their program was killed, or what they waited for is answered. Of several
        workers that do this at once, one has each run. `runs.recover(program).repeat(Schedule.spaced(10))` is a worker.

        Args:
            program: the program of a run, of its name, with its durable layer. How it ends is journalled; what it fails
                with goes to the log `fxai.durable`.
            concurrency: how many runs go on at once; None: all.
            prefix: The first characters of the names of the runs. Default: any.
            limit: Maximum number of runs, the newest first. Default: all.

        Fails with:
            JournalFailure: the store cannot be read.
        """

        def go_on(state: RunState) -> EffectOf[str | None, Any, Any]:
            return program(state.run).exit().map(lambda end: _name_ended(state.run, end))

        def go_on_with_all(states: tuple[RunState, ...]) -> EffectOf[tuple[str, ...], Any, Any]:
            ended = for_each(states, go_on, concurrency=concurrency)
            return ended.map(lambda names: tuple([name for name in names if name is not None]))

        return self.list(status="stopped", prefix=prefix, limit=limit).flat_map(go_on_with_all)

    def remove(self, run: str) -> EffectOf[None, RunUnknown | RunOwned | JournalFailure, None]:
        """Removes a run and all that is known of it.

        Fails with:
            RunOwned: a program goes on with it.
            RunUnknown, JournalFailure: as `show`.
        """

        def remove() -> Generator[AnyEffect, Any, None]:
            journal: RunJournal = yield self.open(run)
            yield journal.own()
            yield self._attempt(run, lambda: self._store.remove(run))

        return scoped(Generate(remove, (), {}))


def _select(status: RunStatus | None, prefix: str, before: Sequence[RunState], most: int | None) -> Selection:
    """Return the selection of the next states. A running run has the state of a stopped run, and an owner."""
    after = (before[-1].began, before[-1].run) if before else None
    return Selection("stopped" if status == "running" else status, prefix, after, most)


def _find_question(journal: RunJournal, name: str, reply: Reply) -> Question | QuestionUnknown:
    """Return the open question with a name, or why the reply cannot answer it."""
    known = journal.known
    found = [one for one in known.questions if name in (one.id, one.call_id)]
    if len(found) != 1:
        open_ = ", ".join(one.id for one in known.questions) or "none"
        why = "two calls have this id; say the question's" if found else f"it is not open; those that are: {open_}"
        why = "the run was cancelled, and does not go on" if known.cancelled is not None else why
        return QuestionUnknown(known.run, name, why)
    question = found[0]
    if reply.kind in question.replies:
        return question
    why = f"a question of the kind {question.kind} is answered by {' or '.join(question.replies)}"
    return QuestionUnknown(known.run, name, why)


def _name_ended(run: str, end: Exit[Any, Any]) -> str | None:
    if isinstance(end, Succeeded):
        return run
    if not any(isinstance(failure, RunOwned) for failure in end.cause.failures):
        import logging  # most runs end well

        logging.getLogger("fxai.durable").warning("the run %r did not end: %s", run, end.cause.squash())
    return None


def _steps(journal: RunJournal) -> tuple[RunStep, ...]:
    steps: list[RunStep] = []
    for path, part in [*journal.known.parts.items()]:
        if part.turn is not None:
            steps.append(RunStep(path, "turn", "failed" if part.turn.failures else "ended"))
        elif part.until is not None:
            steps.append(RunStep(path, "sleep", "ended"))
        elif part.question is not None and not part.answered and part.begun is None:
            steps.append(RunStep(path, part.question.tool, "waiting"))
        elif part.begun is not None:
            steps.append(RunStep(path, part.begun.name, _step_status(part)))
    return tuple(steps)


def _step_status(part: Part) -> str:
    if part.is_open:
        return "in doubt"
    if part.in_doubt:
        replied = part.reply is not None and part.reply.kind == "result"
        return "ended" if replied else "interrupted"
    failed = part.ended is not None and part.ended.kind in ("failure", "error", "told", "refused")
    return "failed" if failed else "ended"
