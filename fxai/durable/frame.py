"""Frames: the position and the clock of a program inside a durable run.

A frame is one sequence of the program and has a path. The place of a part is the path of the frame, the name of the
part, and its ordinal among the parts with the same name in this sequence. Each child of a concurrent operator has its
own frame, whose path contains the index of the child. Scheduling therefore does not affect the place of a part. The
journal contains the content of each part next to its path. If the content differs, the run fails with `ProgramChanged`.

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

from fxai.durable.failure import DurableError, DurableFailure, JournalFailure, ProgramChanged, RunCancelled
from fxai.durable.record import AnyRecord, Ended, Part, TimedRecord, Timer
from fxai.durable.run_journal import CLOCK, RunJournal
from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.context import AnyContext, Branches, Branching, ContextOf, Placed
from fxai.effects.effect import AnyEffect, Await, EffectOf, FailCause, Succeed, Suspend, Sync
from fxai.effects.service import Clock

_SHORT: Final = 1.0  # seconds; a shorter sleep starts again after a crash
_SHOWN: Final = 5  # paths in a message
_REPLAYED: Final = 5.0  # seconds for the replay of an effect whose timeout fired


def digest(*texts: bytes) -> str:
    """Return a short digest of byte strings."""
    state = blake2b(digest_size=6)
    for text in texts:
        state.update(len(text).to_bytes(8) + text)
    return state.hexdigest()


@final
class Frame(msgspec.Struct, Placed, eq=False):
    """The part of a durable run that a program executes. The context stores it under the key `Frame`."""

    journal: RunJournal
    path: str
    version: str
    patience: float = 0.0
    """Maximum number of seconds that a call waits for an answer before the run stops."""
    leaves: bool = False
    """True if the run stops with a defect here. The enclosing agent or call converts the defect back into a failure."""
    around: Frame | None = None
    """The enclosing frame."""
    past: float | None = None
    """During replay, the run time of the last replayed record, in seconds; None after replay."""
    since: float = 0.0
    """Clock reading when `past` changed; time advances from here. An agent reads its time from the journal instead."""
    is_agent: bool = False
    trunk: Frame | None = None
    """The frame of the agent, call, or program that contains this branch. None if the frame is not a branch."""
    outer: Frame | None = None
    """The frame that created this frame. For a branch, it is the sequence with the concurrent operator."""
    fired: anyio.CancelScope | None = None
    """The cancel scope of this branch if its timeout fired in an earlier program. fxai cancels it before new work."""
    repeats: bool = False
    """True if the whole part runs again unless it ended, such as a request. The journal then needs no inner parts."""
    gave_up: bool = False
    """True if the sequence stopped waiting for an answer. With the answer, the sequence can take another path."""
    asked: str = ""
    """The path of the last turn that the sequence requested without an agent. Its calls are inside the turn."""
    late: set[anyio.CancelScope] = set()
    """Cancel scopes that passed their deadline before the crash. `go_on` cancels them before new work starts."""
    counts: dict[str, int] = {}
    calls: dict[int, tuple[object, str]] = {}
    """The path of each call, by the `id()` of the call. Keeping the call alive prevents reuse of its `id()`."""

    @staticmethod
    def root(journal: RunJournal, version: str = "", patience: float = 0.0) -> Frame:
        """Return the frame of the whole program."""
        past = 0.0 if len(journal.known.opened) > 1 else None
        return Frame(journal, "", version, patience, past=past)

    def next(self, name: str) -> str:
        """Return the path of the next part with this name in the sequence."""
        key = name.replace("%", "%25").replace("/", "%2F").replace("+", "%2B")
        count = self.counts.get(key, 0)
        self.counts[key] = count + 1
        path = f"{self.path}/{key}" if not count else f"{self.path}/{key}+{count}"
        self.journal.reached.meet(path)
        return path

    def at(self, location: str) -> str:
        """Return the path of a part whose place in the trunk is known."""
        path = f"{self.base.path}/{location}"
        self.journal.reached.meet(path)
        return path

    def verify(self, path: str, content: str = "") -> AnyEffect:
        """Stop the run if the next part shows that the program differs from the program that started the run.

        The content must be the recorded content. A part that is new must not come before recorded parts.
        """
        journal, known = self.journal, self.journal.known
        recorded, change = known.contents.get(path), None
        is_new = recorded is None and path not in known.parts
        if is_new and not self.gave_up:
            left = journal.reached.left_in(self.path)
            shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
            change = f"{path} is new, and the journal has {shown} in its place" if left else None
        elif recorded not in (None, content):
            change = f"content of {path}"
        if change is not None and not journal.reached.tolerant:
            return leave(ProgramChanged(known.run, (change,)), self)
        if is_new and not self.gave_up:
            journal.noted[path] = content
        return Succeed(None)

    # -- branches

    @property
    def base(self) -> Frame:
        """The frame of the agent, the call, or the program. It is this frame, unless this frame is a branch."""
        return self.trunk or self

    @property
    @override
    def trunk_of(self) -> object:
        return self.base

    def branch(self, kind: str, context: AnyContext) -> Branches:
        """Return the frames of the children of a concurrent operator."""
        return _FrameBranches(self, self.next(kind), context)

    def child(self, path: str) -> Frame:
        """Return the frame of a child of a concurrent operator. Its time is the time of the trunk."""
        base = self.base
        return Frame(self.journal, path, self.version, self.patience, self.leaves, base.around, trunk=base, outer=self)

    def inside(self, path: str, begun: float | None = None, *, agent: bool = False, leaves: bool = False) -> Frame:
        """Return the frame of a nested part, which can be the run of an agent.

        An earlier program started the part at the run time `begun`, in seconds. If `leaves` is True, the run stops with
        a defect in this part, which the code around the part catches.
        """
        base = self.base
        past = base.past if begun is None else begun
        leaves = self.leaves or leaves or agent
        inner = Frame(self.journal, path, self.version, self.patience, leaves, base, past, is_agent=agent, outer=self)
        inner.gave_up, inner.repeats = self.gave_up, self.repeats
        return inner

    def give_up(self, part: Part) -> None:
        """Record that the program stopped waiting for the answer to a question.

        With the answer, the sequence and the enclosing sequences can take another path. Concurrent sequences do not
        know about it, so fxai still compares them with the journal.
        """
        part.given_up = True
        frame: Frame | None = self
        while frame is not None:
            frame.gave_up = True
            frame = frame.outer

    # -- time

    def reach(self, time: float) -> None:
        """Record that replay has reached the run time `time`, in this frame and the enclosing frames."""
        frame: Frame | None = self.base
        while frame is not None:
            if frame.past is not None:
                frame.past, frame.since = max(frame.past, time), frame.journal.monotonic
            frame = frame.around

    def go_on(self) -> AnyEffect:
        """End replay in this frame and its parents, and cancel the scopes in `late`. Run this before new work."""
        return Await(lambda _: anyio.lowlevel.checkpoint()) if self.cut_late() else Succeed(None)

    def cut_late(self) -> bool:
        """Cancel the scopes that passed their deadline before the crash. Return True if any exist."""
        frame: Frame | None = self
        while frame is not None:
            if frame.fired is not None:
                frame.fired.cancel()  # no new work follows, so the time does not advance
                return True
            frame = frame.outer
        late: list[anyio.CancelScope] = []
        frame = self.base
        while frame is not None:
            frame.past = None
            late += frame.late
            frame = frame.around
        for scope in late:
            scope.cancel()
        return bool(late)

    async def write(self, record: Timer | Ended) -> None:
        """Append a record during a wait. Raise a `DurableError` if that fails."""
        journal, marked = self.journal, self.mark(record)
        try:
            if journal.journal.blocks:
                from anyio import to_thread  # a late import: `to_thread` loads the threading support

                await to_thread.run_sync(journal.write, marked)
            else:
                journal.write(marked)
        except OSError as error:
            raise DurableError(JournalFailure(journal.known.run, str(error))) from error

    def mark(self, record: AnyRecord) -> AnyRecord:
        """Return the record. It states if the sequence stopped waiting for an answer before."""
        if not self.gave_up or not isinstance(record, TimedRecord):
            return record
        return msgspec.structs.replace(record, aside=True)

    def into(self, context: AnyContext) -> AnyContext:
        """Return `context` with this frame and its clock."""
        return context.merge(self.services(context))

    def services(self, context: AnyContext) -> AnyContext:
        """Return the services that `into` adds: the frame and its clock."""
        clock: Clock = context.fetch(Clock)
        base = clock.base if isinstance(clock, FrameClock) else clock
        self.since = base.monotonic()
        return ContextOf({Frame: self, Branching: self, Clock: FrameClock(base, self)})

    @staticmethod
    def of(context: AnyContext) -> Frame | None:
        """Return the frame in `context`, or None outside a durable run."""
        frame: Frame | None = context.services.get(Frame)
        return frame


@final
class _FrameBranches:
    """The frames of the children of one concurrent operator."""

    def __init__(self, frame: Frame, path: str, context: AnyContext) -> None:
        self._frame = frame
        self._path = path
        self._context = context
        self._gave_up = frame.gave_up  # a later change in one child does not affect the next child
        self._fired: anyio.CancelScope | None = None

    def context_of(self, index: int) -> AnyContext:
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
        """Record that children were interrupted, so that the journal can contain parts that they do not reach now."""
        self._frame.journal.reached.end(self._path)

    @property
    def _firing(self) -> Ended | None:
        return self._frame.journal.known.part(self._path).ended

    def deadline(self, scope: anyio.CancelScope, clock: Clock, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context in which the scope is cancelled at the deadline.

        If the timeout fired in an earlier program, fxai cancels the scope before new work starts. An effect that waits
        for an event outside the journal is cancelled soon.
        """
        if self._firing is None:
            return clock.deadline(scope, seconds)
        self._fired = scope
        base = clock.base if isinstance(clock, FrameClock) else clock
        return base.deadline(scope, min(seconds, _REPLAYED))

    async def is_late(self, *, has_fired: bool) -> bool:
        """Return True if the timeout counts as fired. Record it if it fired now."""
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


@final
class FrameClock(Clock, Placed):
    """A clock that continues after a crash as if the run had never stopped.

    The clock records the end time of each long sleep in the journal. During replay, it reports the time at which the
    journal recorded each part. A time limit therefore covers all programs of a run together, and a replay never cancels
    a part that finished in time.
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
        path = self._frame.next("sleep")  # short sleeps count too: jitter must not change the ordinals
        if seconds < _SHORT:
            await self.base.sleep(seconds)
            return
        until = self._frame.journal.known.part(path).until
        if until is None:
            _ = self._frame.cut_late()
            until = self.base.now() + seconds
            await self._frame.write(Timer(path, until))
        elif until > self.base.now():
            _ = self._frame.cut_late()
        await self._sleep_until(until)

    async def _sleep_until(self, until: float) -> None:
        """Sleep until the time `until`. If a worker owns the run and no other work is active, suspend the run."""
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
        """Let replay finish although the deadline has passed; give other work `seconds` more."""
        late = self._frame.base.late
        late.add(scope)
        try:
            async with self.base.deadline(scope, seconds):
                yield
        finally:
            late.discard(scope)


@final
class Hold(msgspec.Struct, frozen=True):
    """Number of seconds that a worker keeps a sleeping run. The context stores it under the key `Hold`."""

    seconds: float


# -- operations of a program in a frame

Steps: TypeAlias = Generator[AnyEffect, Any, Any]


def append(frame: Frame, record: AnyRecord) -> AnyEffect:
    """Append a record to the journal. If the write fails, stop the run."""
    written: EffectOf[None, DurableFailure] = frame.journal.append(frame.mark(record))
    return written.catch_all(lambda failure: leave(failure, frame))


def under_way(frame: Frame, effect: AnyEffect) -> AnyEffect:
    """Run `effect` and keep the run from being suspended, so that the work of `effect` is not lost."""
    journal = frame.journal

    def start() -> AnyEffect:
        journal.start_part()
        return effect.ensuring(Sync(journal.end_part))

    return Suspend(start)


def leave(failure: Any, frame: Frame) -> AnyEffect:
    """Stop the run: fail with `failure`, or raise it as a defect inside an agent or a call.

    The outermost agent or call converts the defect back into a failure with `leave_openly`.
    """
    if not frame.leaves:
        return FailCause(Cause((Fail(failure),)))
    return FailCause(Cause((Die(DurableError(failure)),)))


def leave_openly(cause: Cause[Any]) -> FailCause | None:
    """Convert the defects that stop the run back into typed failures; return None if `cause` has no such defect."""
    if not any(isinstance(reason, Die) and isinstance(reason.defect, DurableError) for reason in cause.reasons):
        return None

    def open_reason(reason: Any) -> Any:
        if isinstance(reason, Die) and isinstance(reason.defect, DurableError):
            return Fail(reason.defect.failure)
        return reason

    return FailCause(Cause(tuple(map(open_reason, cause.reasons))))


def stop_cancelled(frame: Frame) -> AnyEffect:
    """Fail with `RunCancelled` if a user cancelled the run."""
    cancelled = frame.journal.known.cancelled is not None
    return leave(RunCancelled(frame.journal.known.run), frame) if cancelled else Succeed(None)


def wait(frame: Frame, part: Part) -> Steps:
    """Wait for the answer to the question about `part`, for at most `frame.patience` seconds."""
    yield frame.journal.refresh().catch_all(lambda failure: leave(failure, frame))
    yield frame.go_on()
    clock: Clock = yield CLOCK
    base = clock.base if isinstance(clock, FrameClock) else clock  # polling for answers does not use run time
    until = base.monotonic() + frame.patience
    while not part.answered and base.monotonic() < until:
        yield stop_cancelled(frame)
        yield Await(lambda _: frame.journal.news(base, until - base.monotonic()))
    yield stop_cancelled(frame)
