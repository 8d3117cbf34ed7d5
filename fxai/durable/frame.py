"""Frames: where a program stands in a durable run, and the time there.

A frame has a path and is one sequence of the program. A part of the program is identified by its place: the path of
the frame, the name of the part, and its ordinal among parts with the same name in this sequence. Each child of a
concurrent operator has a frame of its own, whose path contains the index of the child. So the schedule does not change
the place of a part. The journal has the content of parts next to their paths: a difference is `ProgramChanged`.

>>> from fxai.storage.journal import ProcessJournal
>>> frame = Frame.root(RunJournal("order-17", ProcessJournal()))
>>> frame.next("clerk"), frame.next("clerk"), frame.next("auditor")
('/clerk', '/clerk+1', '/auditor')
>>> branch = frame.branch("each", frame.into(ContextOf.empty())).context_of(2).fetch(Frame)
>>> branch.next("clerk")
'/each/2/clerk'
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import blake2b
from typing import Any, Final, TypeAlias, final

import anyio
import msgspec
from typing_extensions import override

from fxai.durable.failure import (
    DurableError,
    DurableFailure,
    JournalFailure,
    ProgramChanged,
    Question,
    RunCancelled,
)
from fxai.durable.record import AnyRecord, Asked, Ended, Part, TimedRecord, Timer
from fxai.durable.run_journal import RunJournal
from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.context import Branches, Branching, ContextOf, Placed
from fxai.effects.effect import AnyEffect, Await, EffectOf, FailCause, Fetch, Generate, Succeed, Suspend, Sync
from fxai.effects.scope import Scope
from fxai.effects.service import Clock

_SHORT: Final = 1.0  # seconds: what sleeps less begins anew
_SHOWN: Final = 5  # paths in a message
_REPLAYED: Final = 5.0  # seconds for the replay of an effect whose timeout fired


def digest(*texts: bytes) -> str:
    """A short digest of texts."""
    state = blake2b(digest_size=6)
    for text in texts:
        state.update(len(text).to_bytes(8) + text)
    return state.hexdigest()


@final
class Frame(msgspec.Struct, Placed, eq=False):
    """The part of a run that a program stands in; it is found in the context, under its class."""

    journal: RunJournal
    path: str
    version: str
    patience: float = 0.0
    """How many seconds a call waits here for an answer, before the run is left."""
    leaves: bool = False
    """Whether the run is left from here by a defect, which an agent, or a call, around it makes a failure again."""
    around: Frame | None = None
    """The frame that it is in."""
    past: float | None = None
    """How far what the journal holds was gone through here, in seconds of the run; None: new things are done."""
    since: float = 0.0
    """When that was, by the clock: time goes on there, except in an agent, whose parts stand in the journal."""
    is_agent: bool = False
    trunk: Frame | None = None
    """The frame of the agent, the call, or the program that this branch is in. None: it is not a branch."""
    up: Frame | None = None
    """The sequence whose concurrent operator started this branch."""
    outer: Frame | None = None
    """The frame that created this frame."""
    fired: anyio.CancelScope | None = None
    """What is cancelled before something new runs, because the timeout of this branch fired in an earlier program."""
    repeats: bool = False
    """True if all of it runs again unless it ended, such as a request. The journal needs no parts of it."""
    gave_up: bool = False
    """True if the sequence stopped waiting for an answer. With the answer, it may take another way."""
    asked: str = ""
    """The path of the last turn that the sequence requested without an agent. Its calls are inside of it."""
    late: set[anyio.CancelScope] = set()
    """What is cut when something new is to be done, as its time was up before."""
    counts: dict[str, int] = {}
    calls: dict[int, tuple[object, str]] = {}
    """The calls that have a path, by their identity; they are held, so that it stays theirs."""

    @staticmethod
    def root(journal: RunJournal, version: str = "", patience: float = 0.0) -> Frame:
        """The frame of the whole program."""
        past = 0.0 if len(journal.known.opened) > 1 else None
        return Frame(journal, "", version, patience, past=past)

    def next(self, name: str) -> str:
        """Return the path of the next part with this name in the sequence."""
        key = _escape(name)
        count = self.counts.get(key, 0)
        self.counts[key] = count + 1
        path = f"{self.path}/{key}" if not count else f"{self.path}/{key}+{count}"
        self.journal.reached.meet(path)
        return path

    def at(self, place: str) -> str:
        """Return the path of a part whose place in the trunk is known."""
        path = f"{self.base.path}/{place}"
        self.journal.reached.meet(path)
        return path

    def verify(self, path: str, content: str = "") -> AnyEffect:
        """Leave the run if the next part shows that the program is not the program that began the run.

        The content must be the recorded content. A part that is new must not come before recorded parts.
        """
        journal, known = self.journal, self.journal.known
        recorded, change = known.contents.get(path), None
        is_new = recorded is None and path not in known.parts
        if is_new and not self.gave_up:
            left = journal.reached.left_in(self.path)
            change = f"{path} is new, and the journal has {_list(left)} in its place" if left else None
        elif recorded not in (None, content):
            change = f"content of {path}"
        if change is not None and not journal.reached.tolerant:
            return leave(ProgramChanged(known.run, (change,)), self)
        if is_new and not self.gave_up:
            journal.noted[path] = content
        return Succeed(None)

    # -- its branches

    @property
    def base(self) -> Frame:
        """The frame of the agent, the call, or the program: this frame, unless it is a branch."""
        return self.trunk or self

    @property
    @override
    def trunk_of(self) -> object:
        return self.base

    def branch(self, kind: str, context: ContextOf[Any]) -> Branches:
        """Return the places of the children of a concurrent operator."""
        return _FrameBranches(self, self.next(kind), context)

    def child(self, path: str) -> Frame:
        """Return the frame of a child of a concurrent operator. Its time is the time of the trunk."""
        base, here = self.base, self
        return Frame(
            self.journal, path, self.version, self.patience, self.leaves, base.around, trunk=base, up=here, outer=here
        )

    def inside(self, path: str, begun: float | None = None, *, agent: bool = False, leaves: bool = False) -> Frame:
        """The frame of a part.

        Args:
            path: of the part.
            begun: when it was begun, in seconds of the run, where an earlier program did that.
            agent: whether it is the run of an agent.
            leaves: whether the run is left from there by a defect, which what stands around the part looks for.
        """
        base = self.base
        past = base.past if begun is None else begun
        leaves = self.leaves or leaves or agent
        inner = Frame(self.journal, path, self.version, self.patience, leaves, base, past, is_agent=agent, outer=self)
        inner.gave_up, inner.repeats = self.gave_up, self.repeats
        return inner

    def give_up(self, part: Part) -> None:
        """Note that the program stopped waiting for the answer to a question.

        The sequence and the enclosing sequences may take another way with the answer. Sequences that run at the same
        time do not know about it, so they are still compared with the journal.
        """
        part.given_up = True
        frame: Frame | None = self
        while frame is not None:
            frame.gave_up = True
            frame = frame.outer

    # -- its time

    def reach(self, time: float) -> None:
        """What the journal holds until then was gone through."""
        frame: Frame | None = self.base
        while frame is not None:
            if frame.past is not None:
                frame.past, frame.since = max(frame.past, time), frame.journal.monotonic
            frame = frame.around

    def go_on(self) -> AnyEffect:
        """Prepare for something new: cut what was late before."""
        return Await(lambda _: anyio.lowlevel.checkpoint()) if self.cut_late() else Succeed(None)

    def cut_late(self) -> bool:
        """Cancel what was late before. Return whether there was anything to cancel."""
        late = self._find_late()
        for scope in late:
            scope.cancel()
        return bool(late)

    def _find_late(self) -> list[anyio.CancelScope]:
        frame: Frame | None = self
        while frame is not None:
            if frame.fired is not None:
                return [frame.fired]  # nothing new is done inside, so that the time stays where it is
            frame = frame.outer
        late: list[anyio.CancelScope] = []
        frame = self.base
        while frame is not None:
            frame.past = None
            late += frame.late
            frame = frame.around
        return late

    async def write(self, record: Timer | Ended) -> None:
        """Append a record in the middle of a wait.

        Raises:
            DurableError: The journal cannot be written.
        """
        journal, marked = self.journal, self.mark(record)
        try:
            if journal.journal.blocks:
                from anyio import to_thread  # it imports what threads need

                await to_thread.run_sync(journal.write, marked)
            else:
                journal.write(marked)
        except OSError as error:
            raise DurableError(JournalFailure(journal.known.run, str(error))) from error

    def mark(self, record: AnyRecord) -> AnyRecord:
        """Return the record, which states if the sequence stopped waiting for an answer before."""
        if not self.gave_up or not isinstance(record, TimedRecord):
            return record
        return msgspec.structs.replace(record, aside=True)

    def into(self, context: ContextOf[Any]) -> ContextOf[Any]:
        """The context of the programs in this frame: also their time is the frame's."""
        return context.merge(self.services(context))

    def services(self, context: ContextOf[Any]) -> ContextOf[Any]:
        """What is new in that context."""
        clock: Clock = context.fetch(Clock)
        base = clock.base if isinstance(clock, FrameClock) else clock
        self.since = base.monotonic()
        return ContextOf({Frame: self, Branching: self, Clock: FrameClock(base, self)})

    @staticmethod
    def of(context: ContextOf[Any]) -> Frame | None:
        """The frame of a context; None outside of durable runs."""
        frame: Frame | None = context.services.get(Frame)
        return frame


@final
class _FrameBranches:
    """The frames of the children of one concurrent operator."""

    def __init__(self, frame: Frame, path: str, context: ContextOf[Any]) -> None:
        self._frame = frame
        self._path = path
        self._context = context
        self._gave_up = frame.gave_up  # what a child does later is nothing that the next child knows
        self._fired: anyio.CancelScope | None = None

    def context_of(self, index: int) -> ContextOf[Any]:
        """Return the context of a child."""
        frame = self._frame.child(f"{self._path}/{index}")
        frame.gave_up, frame.repeats, frame.fired = self._gave_up, self._frame.repeats, self._fired
        frame.journal.reached.meet(frame.path)
        services: dict[object, Any] = {**self._context.services, Frame: frame, Branching: frame}
        clock = services.get(Clock)
        if isinstance(clock, FrameClock):
            services[Clock] = FrameClock(clock.base, frame)
        return ContextOf(services)

    def cut(self) -> None:
        """Note that children were interrupted: the journal may have parts that they do not reach now."""
        self._frame.journal.reached.end(self._path)

    @property
    def _firing(self) -> Ended | None:
        return self._frame.journal.known.part(self._path).ended

    def deadline(self, scope: anyio.CancelScope, clock: Clock, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context in which the scope is cancelled at the deadline.

        If the timeout fired in an earlier program, the scope is cancelled before something new runs. An effect that
        waits for something outside the journal is cancelled soon.
        """
        if self._firing is None:
            return clock.deadline(scope, seconds)
        self._fired = scope
        base = clock.base if isinstance(clock, FrameClock) else clock
        return base.deadline(scope, min(seconds, _REPLAYED))

    async def is_late(self, *, has_fired: bool) -> bool:
        """Return whether the timeout counts as fired, and record it if it fired now."""
        firing, frame = self._firing, self._frame
        if firing is not None:
            frame.reach(firing.time)
            self.cut()
        elif has_fired:
            self.cut()
            if not frame.repeats:
                frame.cut_late()
                await frame.write(Ended(self._path, "failure", "timeout"))
        return has_fired or firing is not None


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F").replace("+", "%2B")


def _list(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:_SHOWN]) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")


@final
class FrameClock(Clock, Placed):
    """A clock that goes on after a crash as if the run had gone on all the time.

    Of long sleeps it is journalled when they end. What the journal holds is gone through in the time in which it was
    done, so that a limit of time holds over all programs of a run together, and never cuts what had ended before.
    """

    def __init__(self, base: Clock, frame: Frame) -> None:
        self.base = base
        self._frame = frame

    @property
    @override
    def trunk_of(self) -> object:
        return self._frame.base

    @override
    def now(self) -> float:
        return self.base.now()

    @override
    def monotonic(self) -> float:
        frame, now = self._frame.base, self.base.monotonic()
        if frame.past is None:
            return now
        then = frame.journal.on_clock(frame.past)
        return then if frame.is_agent else min(then + now - frame.since, now)

    @override
    async def sleep(self, seconds: float) -> None:
        path = self._frame.next("sleep")  # also a short sleep counts: jitter must not change the ordinals
        if seconds < _SHORT:
            await self.base.sleep(seconds)
            return
        until = self._frame.journal.known.part(path).until
        if until is None:
            _ = self._frame.go_on()
            until = self.base.now() + seconds
            await self._frame.write(Timer(path, until))
        elif until > self.base.now():
            _ = self._frame.go_on()
        await self._sleep_until(until)

    async def _sleep_until(self, until: float) -> None:
        """Sleeps; where a worker has the run, and nothing else is under way in it, the run is left meanwhile."""
        journal = self._frame.journal
        journal.sleeping.append(until)
        try:
            while journal.hold is not None and until - self.base.now() > journal.hold:
                await self.base.sleep(journal.hold)
                journal.leave_asleep(self.base.now())
            await self.base.sleep(until - self.base.now())
        finally:
            journal.sleeping.remove(until)

    @override
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        left = seconds + self.monotonic() - self.base.monotonic()
        return self.base.deadline(scope, left) if left > 0 or seconds <= 0 else self._late(scope, seconds)

    @asynccontextmanager
    async def _late(self, scope: anyio.CancelScope, seconds: float) -> AsyncGenerator[None]:
        """What the journal holds is gone through to its end; what is done besides has as long again."""
        late = self._frame.base.late
        late.add(scope)
        try:
            async with self.base.deadline(scope, seconds):
                yield
        finally:
            late.discard(scope)


@final
class Hold(msgspec.Struct, frozen=True):
    """How many seconds a worker holds a run that sleeps; it is found in the context, under its class."""

    seconds: float


# -- what a program in a frame may have to do

Steps: TypeAlias = Generator[AnyEffect, Any, Any]

_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)


def append(frame: Frame, record: AnyRecord) -> AnyEffect:
    """Appends a record; where that fails, the run is left, and nothing more is run."""
    written: EffectOf[None, DurableFailure] = frame.journal.append(frame.mark(record))
    return written.catch_all(lambda failure: leave(failure, frame))


def under_way(frame: Frame, effect: AnyEffect) -> AnyEffect:
    """The effect, while which the run is not left for a sleep: its work would be lost, or in doubt."""
    journal = frame.journal

    def end() -> None:
        journal.under_way -= 1

    def begin() -> AnyEffect:
        journal.under_way += 1
        return effect.ensuring(Sync(end))

    return Suspend(begin)


def under_way_in_scope(frame: Frame) -> AnyEffect:
    """The same, until the scope around closes."""
    journal = frame.journal

    def end() -> None:
        journal.under_way -= 1

    def begin(scope: Scope) -> AnyEffect:
        journal.under_way += 1
        scope.add(lambda _: Sync(end))
        return Succeed(None)

    scope: EffectOf[Scope, Any, Any] = Fetch(Scope)
    return scope.flat_map(begin)


def leave(failure: Any, frame: Frame) -> AnyEffect:
    """Leaves the run: by a failure, or by a defect where an agent or a call is around, whose outermost makes it one."""
    if not frame.leaves:
        return FailCause(Cause((Fail(failure),)))
    return FailCause(Cause((Die(DurableError(failure)),)))


def leave_openly(cause: Cause[Any]) -> FailCause | None:
    """What leaves the run, as typed failures again; None where nothing does."""
    if not any(isinstance(reason, Die) and isinstance(reason.defect, DurableError) for reason in cause.reasons):
        return None
    return FailCause(Cause(tuple(map(_open_reason, cause.reasons))))


def _open_reason(reason: Any) -> Any:
    if not isinstance(reason, Die) or not isinstance(reason.defect, DurableError):
        return reason
    return Fail(reason.defect.failure)


def stop_cancelled(frame: Frame) -> AnyEffect:
    """Leaves a run that somebody cancelled."""
    cancelled = frame.journal.known.cancelled is not None
    return leave(RunCancelled(frame.journal.known.run), frame) if cancelled else Succeed(None)


def ask(frame: Frame, question: Question) -> AnyEffect:
    """Asks a question, which is open until it is answered, in this program or another one."""
    return append(frame, Asked(question))


def _news(frame: Frame, clock: Clock, seconds: float) -> AnyEffect:
    return Await(lambda _: frame.journal.news(clock, seconds))


def wait(frame: Frame, part: Part) -> AnyEffect:
    """Waits until the question about a part is answered, as long as the run has patience."""
    return Generate(_wait, (frame, part), {})


def _wait(frame: Frame, part: Part) -> Steps:
    refresh = frame.journal.refresh().catch_all(lambda failure: leave(failure, frame))
    yield refresh
    yield frame.go_on()
    clock: Clock = yield _CLOCK
    base = clock.base if isinstance(clock, FrameClock) else clock  # looking for answers is nothing that the run does
    until = base.monotonic() + frame.patience
    while not part.answered and base.monotonic() < until:
        yield stop_cancelled(frame)
        yield _news(frame, base, until - base.monotonic())
    yield stop_cancelled(frame)
