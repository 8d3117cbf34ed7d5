"""Inquiries: questions about calls are asked and waited for, and a run that cannot go on is left.

>>> cause = Cause((Die(DurableError("it stops here")),))
>>> [reason.error for reason in leave_openly(cause).cause.reasons]
['it stops here']
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias

from fxai.durable.failure import DurableError, DurableFailure, Question, RunCancelled
from fxai.durable.frame import Frame, FrameClock
from fxai.durable.record import AnyRecord, Asked, Part
from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.effect import AnyEffect, Await, EffectOf, FailCause, Fetch, Generate, Succeed
from fxai.effects.service import Clock

Steps: TypeAlias = Generator[AnyEffect, Any, Any]

_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)
_POLL: Final = 1.0  # seconds between two looks for an answer


def append(frame: Frame, record: AnyRecord) -> AnyEffect:
    """Appends a record; where that fails, the run is left, and nothing more is run."""
    written: EffectOf[None, DurableFailure] = frame.journal.append(record)
    return written.catch_all(lambda failure: leave(failure, frame))


def leave(failure: Any, frame: Frame) -> AnyEffect:
    """Leaves the run: by a failure where no agent is around, else by a defect, which the outermost agent makes one."""
    if not frame.agents:
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


def _sleep(clock: Clock, seconds: float) -> AnyEffect:
    return Await(lambda _: clock.sleep(seconds))


def wait(frame: Frame, part: Part) -> AnyEffect:
    """Waits until the question about a part is answered, as long as the run has patience."""
    return Generate(_wait, (frame, part), {})


def _wait(frame: Frame, part: Part) -> Steps:
    refresh = frame.journal.refresh().catch_all(lambda failure: leave(failure, frame))
    yield refresh
    clock: Clock = yield _CLOCK
    base = clock.base if isinstance(clock, FrameClock) else clock  # looking for answers is nothing that the run does
    until = base.monotonic() + frame.patience
    while not part.answered and base.monotonic() < until:
        yield stop_cancelled(frame)
        yield _sleep(base, min(_POLL, until - base.monotonic()))
        yield refresh
    yield stop_cancelled(frame)
