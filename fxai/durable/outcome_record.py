"""The end of a call as a record, the outcome in such a record, and the questions about a call.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> double = Tool.make("double", parameters=int, success=int)
>>> ended = end_of("/clerk/1/0", Outcome(4, 4))
>>> fx.run_sync(read_outcome(double, "double", ended)).result
4
>>> fits(double, Ended("/clerk/1/0", "success", "four"))
"expected integer, found string 'four'"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from fxai.durable.failure import QuestionKind, RunQuestion, RunWaiting, explain_questions
from fxai.durable.frame import Frame, Steps, append, leave, wait
from fxai.durable.record import Asked, Ended, Known, OutcomeKind, Part, TurnRecord
from fxai.durable.run_journal import CLOCK
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import AnyEffect, FailCause, Succeed
from fxai.effects.service import Clock
from fxai.messages.errors import AiError
from fxai.messages.part import ApprovalRequest
from fxai.models.approval import digest_of
from fxai.models.approved_calls import encode_denial
from fxai.models.interceptor import InterceptedCall
from fxai.schema.fault import DecodeError
from fxai.tools.call import Outcome
from fxai.tools.tool_error import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerFailed,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    InvalidParameters,
    OutcomeUnknown,
    Refused,
    UnknownTool,
    encode_failure,
)
from fxai.tools.tool_info import ToolInfo

_UNKNOWN: Final = "the call started but did not finish. Check its effect before you call it again"
_REPORTED: Final[tuple[type[Any], ...]] = (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    OutcomeUnknown,
    Refused,
)
_BY_TAG: Final[Mapping[Any, Callable[..., Any]]] = {kind.__struct_config__.tag: kind for kind in _REPORTED}


def end_of(path: str, outcome: Outcome) -> Ended:
    """Return the record of a call with an outcome."""
    if not outcome.is_failure:
        return Ended(path, "success", outcome.encoded_result, json_text=outcome.json_text, handle=outcome.handle)
    if isinstance(outcome.result, UnknownTool | InvalidParameters):
        return Ended(path, "refused")
    is_reported = isinstance(outcome.result, _REPORTED)
    kind: OutcomeKind = "told" if is_reported else "failure"
    return Ended(path, kind, outcome.encoded_result, json_text=outcome.json_text, handle=outcome.handle)


def bad_end_of(path: str, tool: ToolInfo, cause: Cause[Any]) -> Ended:
    """Return the record of a call without an outcome: it failed in the error channel, or it broke."""
    error: Any = cause.failures[0] if cause.failures else None
    if cause.defects or error is None:
        return Ended(path, "broken", repr(cause.squash()))
    if isinstance(error, HandlerFailed):
        return Ended(path, "error", tool.failure.encode_unsafe(cast(Any, error).error))
    is_refused = isinstance(error, Refused) and error.at == "arguments"
    if is_refused or isinstance(error, UnknownTool | InvalidParameters | HandlerUnavailable):
        return Ended(path, "refused")
    return Ended(path, "broken", str(error))


def read_outcome(tool: ToolInfo, name: str, ended: Ended) -> AnyEffect:
    """Return the outcome in a record, or its failure in the error channel. The kind must have one.

    A `DecodeError` reports a value of another type than the tool declares.
    """
    value = ended.value
    if ended.handle:  # the round reads the value from the store of large results
        is_failure = ended.kind != "success"
        return Succeed(Outcome(msgspec.UNSET, value, is_failure, json_text=ended.json_text, handle=ended.handle))
    match ended.kind:
        case "success":
            return Succeed(Outcome(tool.success.decode_unsafe(value), value, json_text=ended.json_text))
        case "failure":
            result = tool.failure.decode_unsafe(value)
            return Succeed(Outcome(result, value, is_failure=True, json_text=ended.json_text))
        case "error":
            return FailCause(Cause((Fail(HandlerFailed(name, tool.failure.decode_unsafe(value))),)))
        case _:
            failure = _BY_TAG[value["type"]](**{key: one for key, one in value.items() if key != "type"})
            return Succeed(Outcome(failure, value, is_failure=True))


def find_turn(frame: Frame, path: str) -> TurnRecord | None:
    """Return the turn that the journal has. A turn that failed in this program can be requested again."""
    known = frame.journal.known
    part = known.part(path)
    return None if part.turn is None or (part.turn.failures and part.last > known.before) else part.turn


def note_failed_turn(
    frame: Frame, path: str, request: dict[str, str], trace: str, cause: Cause[Any]
) -> AnyEffect | None:
    """Record why a turn failed, so that the program takes the same path again. None for a defect or an interruption."""
    failures = [one for one in cause.failures if isinstance(one, AiError)]
    if not failures or cause.defects or cause.interrupted or len(failures) < len(cause.failures):
        return None
    data = [AiError(one.module, one.method, one.reason).to_data() for one in failures]  # also of classes with a history
    turn = TurnRecord(path, [], request, trace, failures=tuple(data))
    return append(frame, turn).and_then(FailCause(cause))


def fits(tool: ToolInfo, ended: Ended) -> str | None:
    """Return the validation error of a value that a person entered. None if the value has the type of the tool."""
    schema = tool.success if ended.kind == "success" else tool.failure
    try:
        _ = schema.decode_unsafe(ended.value)
    except DecodeError as error:
        return str(error)
    return None


def why_in_doubt(part: Part) -> str:
    """Return the reason why the outcome of a part is unknown."""
    if part.ended is not None and part.ended.kind == "broken":
        return f"the call broke: {part.ended.value}"
    is_step = part.begun is not None and part.begun.path.rpartition("/")[2].startswith("step ")
    return f"the {'step' if is_step else 'call'} started but did not finish"


def missing_questions(known: Known, now: float, *, last: int) -> list[RunQuestion]:
    """Return the questions about parts in doubt up to the record `last` that no program has asked."""
    return [
        RunQuestion(known.run, path, "doubt", part.begun.name, part.begun.params, why_in_doubt(part), asked=now)
        for path, part in [*known.parts.items()]
        if part.begun is not None and part.is_open and part.question is None and part.began <= last
    ]


def resolve_doubt(frame: Frame, name: str, part: Part) -> Steps:
    """Wait for the outcome of a part in doubt. Without an answer, stop the run with all open questions.

    fxai also asks about all other parts that earlier programs left in doubt, so that one list contains all questions.
    """
    known = frame.journal.known
    now = (yield CLOCK).now()
    for question in missing_questions(known, now, last=known.before):
        yield append(frame, Asked(question))
    yield from wait(frame, part)
    if part.answered:
        return
    frame.give_up(part)
    left = "Its answer arrived just after the program stopped waiting. Run the program again."
    if known.questions:
        left = f"The run {known.run!r} has {explain_questions(known.run, known.questions)}"
    yield leave(OutcomeUnknown(name, f"{why_in_doubt(part)}. {left}"), frame)


# -- questions about calls

_REASONS: Final[Mapping[QuestionKind, str]] = {
    "approval": "it requires an approval before it runs",
    "result": "its result comes from outside",
}


def ask_about(
    frame: Frame,
    path: str,
    about: InterceptedCall,
    kind: QuestionKind,
    reason: str = "",
    request: ApprovalRequest | None = None,
) -> AnyEffect:
    """Ask a person about a call. For an approval, the question contains the digest of the call."""
    call, run = about.call, frame.journal.known.run
    name = "" if request is None else request.approval_id
    bound = "" if request is None else digest_of(about.tool, call.params)  # without the realm, which the key contains
    text = reason or _REASONS[kind]

    def ask_now(clock: Clock) -> AnyEffect:
        now = clock.now()
        question = RunQuestion(run, path, kind, call.name, call.params, text, call.id, name, bound, now)
        return append(frame, Asked(question))

    return CLOCK.flat_map(ask_now)


def is_for(question: RunQuestion, about: InterceptedCall) -> bool:
    """Return True if the question is about the call that would run now."""
    return not question.digest or question.digest == digest_of(about.tool, about.call.params)


def take_reply(frame: Frame, path: str, about: InterceptedCall, part: Part) -> Steps:
    """Return the outcome in a reply, and record it. None if the call must run."""
    reply = part.reply
    if reply is None or reply.kind in ("approve", "again"):
        return None
    name = about.call.name
    if reply.kind == "deny":
        encoded = encode_denial(reply.reason)
        return Outcome(Denied(name, encoded["reason"]), encoded, is_failure=True)
    if reply.kind == "unknown":
        unknown = OutcomeUnknown(name, _UNKNOWN)
        outcome = Outcome(unknown, encode_failure(unknown), is_failure=True)
        yield append(frame, end_of(path, outcome))
        return outcome
    failure: OutcomeKind = "failure" if about.tool.failure_mode == "return" else "error"
    ended = Ended(path, "success" if reply.kind == "result" else failure, reply.value)
    why = fits(about.tool, ended)
    if why is not None:
        yield ask_about(
            frame, path, about, "doubt" if about.tool.requires_handler else "result", f"invalid answer: {why}"
        )
        frame.give_up(part)
        yield leave(RunWaiting(frame.journal.known.run, frame.journal.known.questions), frame)
    yield append(frame, ended)
    return (yield read_outcome(about.tool, name, ended))
