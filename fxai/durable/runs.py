"""A store of durable runs. Use it to list, answer, cancel, and resume runs from any program.

>>> from fxai.effects import fx
>>> runs = Runs.in_process()
>>> fx.run_sync(runs.list())
()
>>> print(fx.run_sync(runs.cancel("order-17").result()).failure())
run 'order-17' does not exist in this process. To list the runs, run fxai runs list.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.agents.inbox import user_messages
from fxai.durable.failure import (
    JournalFailure,
    QuestionUnknown,
    Reply,
    RunCancelled,
    RunEnded,
    RunOwned,
    RunQuestion,
    RunUnknown,
)
from fxai.durable.record import Answered, CancelWish, Input, Part, RunState, RunStatus, Sent
from fxai.durable.run_journal import CLOCK, COLUMNS, FORM, RunJournal
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import for_each
from fxai.effects.constructor import attempt_work, fail
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Generate, Succeed
from fxai.effects.scope import scoped
from fxai.messages.prompt import Prompt, PromptInput
from fxai.storage.journal import Selection
from fxai.storage.journal_store import JournalStore, ProcessJournals, TableJournals

if TYPE_CHECKING:
    from fxai.agents.records.run_record import RunRecord
    from fxai.durable.run_queue import Program, RunQueue

_A = TypeVar("_A")
_R = TypeVar("_R")

DEFAULT: Final = "fxai-runs.db"
"""The default SQLite database, in the current directory."""


@final
class RunReport(msgspec.Struct, frozen=True):
    """The state, the questions, and the steps of a run."""

    state: RunState
    """The state of the run."""
    questions: tuple[RunQuestion, ...]
    """The open questions."""
    steps: tuple[RunStep, ...]
    """The turns and calls of the run, in the order in which they started."""
    input: Input | None = None
    """The prompt and the options from the command line."""
    unread: tuple[Sent, ...] = ()
    """The messages of `Runs.steer` and `Runs.queue` that no step has read yet."""

    @override
    def __hash__(self) -> int:
        return hash((self.state, self.questions))


@final
class RunStep(msgspec.Struct, frozen=True):
    """A turn, a call, or other work of a run."""

    path: str
    """The path of the work in the run."""
    name: str
    """The name of the tool or of the work, "turn" for a turn, and "sleep" for a sleep."""
    status: str
    """`ended`, `failed`, `in doubt`, `interrupted` (it may run again), or `waiting`."""


@final
class Runs:
    """The runs of one store. Each method is an effect that any program can run, also if another program owns a run."""

    def __init__(self, store: JournalStore, location: str, jobs: Path | str | None = None) -> None:
        self._store = store
        self._location = location
        self._jobs = jobs  # the location of the queue

    @override
    def __repr__(self) -> str:
        return f"Runs({self._location})"

    @property
    def location(self) -> str:
        """The location of the store for people, without a password."""
        return self._location

    @property
    def store(self) -> JournalStore:
        """The journals of the runs, by the name of the run."""
        return self._store

    # -- constructors

    @staticmethod
    def in_process() -> Runs:
        """Return a new store that ends with the process. Use it in tests."""
        return Runs(ProcessJournals(), "this process")

    @staticmethod
    def sqlite(path: str | os.PathLike[str] = DEFAULT) -> Runs:
        """Return the store in a SQLite database. The first use creates it, and only its owner can read it.

        Raises:
            ValueError: If no database can have that path.
        """
        from fxai.storage.database import database_path  # only SQLite needs it

        where = database_path(path)
        return Runs(TableJournals(where, FORM), str(where), where.with_name(f"{where.name}.jobs"))

    @staticmethod
    def postgres(url: str) -> Runs:
        """Return the store in a PostgreSQL database, for programs on many machines. Requires the extra `postgres`.

        Args:
            url: `postgresql://USER:PASSWORD@HOST/DATABASE`. Missing parts come from the environment, as in libpq. A
                user who can write to the database controls the runs: give it its own role.

        Raises:
            ValueError: If the URL is invalid.
        """
        from fxai.storage.journal_postgres import PostgresJournals

        store = PostgresJournals(url, FORM)
        return Runs(store, store.location, url)

    @staticmethod
    def at(location: str | os.PathLike[str] | None = None) -> Runs:
        """Return the store at a location.

        Args:
            location: URL of PostgreSQL, or path of a SQLite database. Default: the environment variable `FXAI_RUNS`, or
                `fxai-runs.db` in the current directory.

        Raises:
            TypeError: If the location is neither a string nor a path.
            ValueError: If the location is invalid.
        """
        where = os.environ.get("FXAI_RUNS") or DEFAULT if location is None else location
        try:
            text = os.fspath(where)
        except TypeError:
            raise TypeError(f"store must be a path, a URL of PostgreSQL, or Runs, got {where!r}") from None

        return Runs.postgres(text) if "://" in text else Runs.sqlite(text)

    # -- reading

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
            JournalFailure: If the store cannot be read.
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
        is_complete = False
        while not is_complete and (limit is None or len(shown) < limit):
            after_ = (states[-1].began, states[-1].run) if states else None
            stored = "stopped" if status == "running" else status  # the store does not know the owners
            selection = Selection(stored, prefix, after_, None if limit is None else limit - len(shown))
            states = yield self._attempt("", partial(self._store.select, COLUMNS, selection))
            for state in states:
                running = state.status == "stopped" and (yield self._is_owned(state.run))
                found = msgspec.structs.replace(state, status="running") if running else state
                if status is None or found.status == status:
                    shown.append(found)
            is_complete = selection.most is None or len(states) < selection.most
        return tuple(shown)

    def _is_owned(self, run: str) -> EffectOf[bool, JournalFailure, None]:
        owning: AnyEffect = scoped(RunJournal(run, self._store.journal(run)).own())

        def judge(end: Exit[Any, Any]) -> EffectOf[bool, JournalFailure, None]:
            if isinstance(end, Succeeded):
                return Succeed(False)
            is_owned = any(isinstance(error, RunOwned) for error in end.cause.failures)
            return Succeed(True) if is_owned else FailCause(end.cause)

        return owning.exit().flat_map(judge)

    def show(self, run: str) -> EffectOf[RunReport, RunUnknown | JournalFailure, None]:
        """Return the state, the questions, and the steps of a run.

        Fails with:
            RunUnknown: If the run does not exist.
            JournalFailure: If the run cannot be read.
        """
        return Generate(self._show, (run,), {})

    def _show(self, run: str) -> Generator[AnyEffect, Any, RunReport]:
        journal: RunJournal = yield self.open(run)
        now = (yield CLOCK).now()
        state = journal.known.state(now)
        if state.status == "stopped" and (yield self._is_owned(run)):
            state = msgspec.structs.replace(state, status="running")
        return RunReport(state, journal.known.questions, _steps(journal), journal.known.input, journal.known.unread)

    def record(self, run: str) -> EffectOf[RunRecord, RunUnknown | JournalFailure, None]:
        """Return a run as a value that you can store, compare with another run, and replay.

        The record contains the turns and calls of all agents, in any state of the run. It does not contain the values
        of durable steps.

        Fails with:
            RunUnknown: If the run does not exist.
            JournalFailure: If the run cannot be read.
        """

        def read(journal: RunJournal) -> RunRecord:
            from fxai.durable.run_reader import read_record  # most programs never read a run

            return read_record(journal.known)

        return self.open(run).map(read)

    def open(self, run: str, *, may_begin: bool = False) -> EffectOf[RunJournal, RunUnknown | JournalFailure, None]:
        """Return the journal of a run in its current state. This does not make the program its owner.

        Args:
            run: Name of the run.
            may_begin: True to accept a run that does not exist yet. Default: False.

        Fails with:
            RunUnknown: If the run does not exist.
            JournalFailure: If the run cannot be read.
        """

        def check(journal: RunJournal) -> EffectOf[RunJournal, RunUnknown, None]:
            return Succeed(journal) if may_begin or journal.known.last else fail(RunUnknown(run, self._location))

        return self._attempt(run, lambda: RunJournal.open(run, self._store)).flat_map(check)

    def _attempt(self, run: str, work: Callable[[], _A]) -> EffectOf[_A, JournalFailure, None]:
        working = attempt_work(work, OSError, in_thread=self._store.blocks)
        return working.map_error(lambda error: JournalFailure(run, str(error)))

    # -- answering and cancelling

    def answer(
        self, run: str, question: str, reply: Reply
    ) -> EffectOf[None, RunUnknown | QuestionUnknown | JournalFailure, None]:
        """Answer a question of a run. A waiting program continues; otherwise the run continues when it is resumed.

        Args:
            run: Name of the run.
            question: The `id` of the question, or the ID that the model gave the call.
            reply: Answer of a kind that the question allows.

        Fails with:
            QuestionUnknown: If no such question is open, or it does not allow this answer.
            RunUnknown, JournalFailure: As `show`.
        """
        return Generate(self._answer, (run, {question: reply}), {})

    def answer_all(
        self, run: str, replies: Mapping[str, Reply]
    ) -> EffectOf[None, RunUnknown | QuestionUnknown | JournalFailure, None]:
        """Answer several questions of a run together. If one answer is impossible, no question is answered.

        Args:
            run: Name of the run.
            replies: Answers, by the `id` of the question or the ID that the model gave the call.

        Fails with:
            QuestionUnknown, RunUnknown, JournalFailure: As `answer`.
        """
        return Generate(self._answer, (run, replies), {})

    def _answer(self, run: str, replies: Mapping[str, Reply]) -> Generator[AnyEffect, Any, None]:
        journal: RunJournal = yield self.open(run)
        chosen: list[tuple[RunQuestion, Reply]] = []
        for name, reply in replies.items():
            found = _find_question(journal, name, reply)
            if isinstance(found, QuestionUnknown):
                yield fail(found)
            chosen.append((cast(RunQuestion, found), reply))
        for question, reply in chosen:
            yield journal.append(Answered(question.path, reply, (yield CLOCK).now()))
        if journal.known.submitted:
            yield from self._queue.submit_again(journal)

    def cancel(self, run: str) -> EffectOf[None, RunUnknown | JournalFailure, None]:
        """Cancel a run. It never continues.

        A program that runs it is interrupted within about a second, in any process: its finalizers run, and it fails
        with `RunCancelled`. A running call is interrupted too, and stays in doubt in the journal. fxai waits for
        uninterruptible effects and for blocking functions in threads. A run that succeeded keeps its status.

        Fails with:
            RunUnknown, JournalFailure: As `show`.
        """
        return Generate(self._cancel, (run,), {})

    def _cancel(self, run: str) -> Generator[AnyEffect, Any, None]:
        journal: RunJournal = yield self.open(run)
        if journal.known.cancelled is None and journal.known.status != "done":
            yield journal.append(CancelWish((yield CLOCK).now()))
            if journal.known.submitted:
                yield from self._queue.withdraw(journal)

    def steer(
        self, run: str, message: PromptInput, *, id: str | None = None
    ) -> EffectOf[None, RunUnknown | RunCancelled | RunEnded | JournalFailure, None]:
        """Send a message to the next step of a run, from any program. See `Inbox.steer`.

        The program of the run must provide an `Inbox`. The journal stores the message, so that a run that is stopped
        reads it when it resumes. Each message joins the run once. `RunReport.unread` contains the other messages.

        Args:
            run: Name of the run.
            message: Text, user messages, or a `Prompt` of user messages.
            id: The id of the message. A second message with the same id has no effect. Default: a random id.

        Fails with:
            RunEnded: If the run succeeded.
            RunCancelled: If a user cancelled the run.
            RunUnknown, JournalFailure: As `show`.

        Raises:
            TypeError: If a message is not a user message.
            ValueError: If the prompt contains no message.
        """
        return self._send(run, message, "steer", id)

    def queue(
        self, run: str, message: PromptInput, *, id: str | None = None
    ) -> EffectOf[None, RunUnknown | RunCancelled | RunEnded | JournalFailure, None]:
        """Send a message to the end of a run, from any program. See `Inbox.queue`, and `steer` for the arguments."""
        return self._send(run, message, "queue", id)

    def _send(
        self, run: str, message: PromptInput, delivery: Literal["steer", "queue"], id_: str | None
    ) -> EffectOf[None, Any, None]:
        data = Prompt(user_messages(message)).to_data()

        def send() -> Generator[AnyEffect, Any, None]:
            journal: RunJournal = yield self.open(run)
            known = journal.known
            name = id_ or secrets.token_urlsafe(12)
            if name in known.sent:
                return
            if known.status in ("done", "cancelled"):
                yield fail(RunEnded(run) if known.status == "done" else RunCancelled(run))
            yield journal.append(Sent(name, delivery, data, (yield CLOCK).now()))

        return Generate(send, (), {})

    # -- workers

    def submit(
        self, run: str, program: str, *, priority: int = 0, delay: float = 0.0
    ) -> EffectOf[bool, RunCancelled | JournalFailure, None]:
        """Submit a run to the workers, which start or resume it. Return True if the submission is new.

        fxai does not submit a run again if it is queued, a worker has it, or it succeeded. An answer submits the run
        that waits for it. Requires the extra `durable`. The queue of a SQLite database is a second file, whose name
        ends in `.jobs`. The queue of a PostgreSQL database is in its schema `dbos`.

        Args:
            run: Name of the run, as for `durable`.
            program: Name of the program for workers, at most 200 characters, such as "shop:handle_order".
            priority: Priority. Runs with a higher priority start first, then earlier submissions. Default: 0.
            delay: Minimum seconds to wait. Default: 0.

        Fails with:
            RunCancelled: If a user cancelled the run.
            JournalFailure: If the journal or the queue cannot be read or written.

        Raises:
            ValueError: If the runs are in this process, or the name of the program is invalid.
        """
        return self._queue.submit(run, program, priority=priority, delay=delay)

    def is_served(self, program: str) -> EffectOf[bool, JournalFailure, None]:
        """Return True if a worker of a program runs.

        Args:
            program: Name of the program, as for `submit`.

        Fails with:
            JournalFailure: If the queue cannot be read.
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
        """Run submitted runs until the worker is cancelled. Then it waits for the runs that it has.

        A run leaves the worker if it ends, fails, or waits for an answer. If a worker is lost, other workers resume its
        runs from their journals. fxai records how a run ends, and writes its failure to the log `fxai.durable`.

        Args:
            programs: For each name of `submit`: a function from the name of a run to its program with its durable
                layer.
            concurrency: Maximum number of concurrent runs. Default: 16.
            grace: Seconds that runs have to finish after the worker is cancelled. Then fxai interrupts them, and other
                workers resume them. Default: 30.
            hold: Seconds of a sleep after which a run leaves the worker, if at least as many remain. The queue contains
                the run until then. A run stays while a turn, a call, or a step runs, or a question is open. None keeps
                all runs. Default: 60.
            attempts: Maximum number of workers for a submitted run if each is lost. `submit` starts a new count.
                Default: 20.
            on_ready: Function that receives the name of the worker when it is ready.

        Fails with:
            JournalFailure: If the queue cannot be read or written.

        Raises:
            ValueError: If the runs are in this process.
        """
        return self._queue.work(
            programs, concurrency=concurrency, grace=grace, hold=hold, attempts=attempts, on_ready=on_ready
        )

    @property
    def _queue(self) -> RunQueue:
        from fxai.durable.run_queue import RunQueue  # few programs have workers

        if self._jobs is None:
            raise ValueError("the runs of this process have no workers. Store them in SQLite or PostgreSQL.")

        def read(run: str) -> EffectOf[RunJournal, JournalFailure, None]:
            return self._attempt(run, lambda: RunJournal.open(run, self._store))

        return RunQueue(read, self._jobs)

    # -- resuming

    def recover(
        self,
        program: Callable[[str], EffectOf[Any, Any, _R]],
        *,
        concurrency: int | None = 4,
        prefix: str = "",
        limit: int | None = None,
    ) -> EffectOf[tuple[str, ...], JournalFailure, _R | None]:
        """Resume each run that is `stopped`, once. Return the names of the runs that succeeded.

        A run is `stopped` if its program was killed, or if all its questions were answered. If workers do this
        concurrently, one worker gets each run. `runs.recover(program).repeat(Schedule.spaced(10))` is a worker.

        Args:
            program: Function from the name of a run to its program with its durable layer. fxai records how it ends,
                and writes its failure to the log `fxai.durable`.
            concurrency: Maximum number of concurrent runs. None: no limit. Default: 4.
            prefix: First characters of the names of the runs. Default: any.
            limit: Maximum number of runs, the newest first. Default: all.

        Fails with:
            JournalFailure: If the store cannot be read.
        """

        def go_on(state: RunState) -> EffectOf[str | None, Any, Any]:
            def note(end: Exit[Any, Any]) -> str | None:
                if isinstance(end, Succeeded):
                    return state.run
                if not any(isinstance(failure, RunOwned) for failure in end.cause.failures):
                    import logging  # most runs end well

                    why = end.cause.squash()
                    logging.getLogger("fxai.durable").warning("the run %r did not end: %s", state.run, why)
                return None

            return program(state.run).exit().map(note)

        def go_on_with_all(states: tuple[RunState, ...]) -> EffectOf[tuple[str, ...], Any, Any]:
            ended = for_each(states, go_on, concurrency=concurrency)
            return ended.map(lambda names: tuple([name for name in names if name is not None]))

        return self.list(status="stopped", prefix=prefix, limit=limit).flat_map(go_on_with_all)

    def remove(self, run: str) -> EffectOf[None, RunUnknown | RunOwned | JournalFailure, None]:
        """Remove a run with its journal.

        Fails with:
            RunOwned: If a program runs it.
            RunUnknown, JournalFailure: As `show`.
        """

        def remove() -> Generator[AnyEffect, Any, None]:
            journal: RunJournal = yield self.open(run)
            yield journal.own()
            yield self._attempt(run, lambda: self._store.remove(run))

        return scoped(Generate(remove, (), {}))


def _find_question(journal: RunJournal, name: str, reply: Reply) -> RunQuestion | QuestionUnknown:
    """Return the open question with a name, or the reason why the reply cannot answer it."""
    known = journal.known
    found = [one for one in known.questions if name in (one.id, one.call_id)]
    if len(found) != 1:
        open_ = ", ".join(one.id for one in known.questions) or "none"
        why = "two calls have this ID. Use the ID of the question." if found else f"not open. Answer one of: {open_}"
        why = "the run was cancelled" if known.cancelled is not None else why
        return QuestionUnknown(known.run, name, why)
    question = found[0]
    if reply.kind in question.replies:
        return question
    why = f"a question of the kind {question.kind} requires {' or '.join(question.replies)}, got {reply.kind}"
    return QuestionUnknown(known.run, name, why)


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
