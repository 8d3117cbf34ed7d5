"""Level 6. Durable: runs that go on after a crash, in another process, from a journal."""

from __future__ import annotations

from fxai.durable.failure import (
    AnyDurableFailure,
    DurableError,
    DurableFailure,
    JournalFailure,
    ProgramChanged,
    QuestionUnknown,
    Reply,
    RunCancelled,
    RunEnded,
    RunOwned,
    RunQuestion,
    RunUnknown,
    RunWaiting,
)
from fxai.durable.layer import OnChange, durable
from fxai.durable.program import step, version
from fxai.durable.record import RunState, RunStatus, Sent
from fxai.durable.runs import RunReport, Runs, RunStep

__all__ = [
    "AnyDurableFailure",
    "DurableError",
    "DurableFailure",
    "JournalFailure",
    "OnChange",
    "ProgramChanged",
    "QuestionUnknown",
    "Reply",
    "RunCancelled",
    "RunEnded",
    "RunOwned",
    "RunQuestion",
    "RunReport",
    "RunState",
    "RunStatus",
    "RunStep",
    "RunUnknown",
    "RunWaiting",
    "Runs",
    "Sent",
    "durable",
    "step",
    "version",
]
