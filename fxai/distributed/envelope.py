"""Envelopes: what goes between a program and the workers that run its handlers, as JSON.

A `CallEnvelope` names the target, the tool and the parameters, encoded by the tool's own schema. What comes back is a
`Reply`, whose value and failures are encoded so, too. No object is pickled: both sides have the tool.

>>> from fxai.tools import Tool
>>> from fxai.effects import Cause, Fail
>>> half = Tool.make("half", parameters=int, success=int, failure=str)
>>> reply = encode_cause(half, Cause((Fail("odd"),)))
>>> encode(reply)
b'{"type":"gone","reasons":[{"type":"fail","value":"odd"}]}'
>>> decode_cause(half, reply)
Cause(reasons=(Fail(error='odd'),))
"""

from __future__ import annotations

import traceback
from hashlib import sha256
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.effects.cause import Cause, Die, Fail, Interrupt
from fxai.schema.fault import DecodeError, Fault
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import Limits
from fxai.tools.identity import Identity
from fxai.tools.tool_error import (
    CallFailureError,
    HandlerFailed,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    OutcomeUnknown,
    UnknownTool,
)
from fxai.tools.tool_options import ToolInfo

WIDE: Final = Limits(max_bytes=1 << 30, max_depth=500, max_values=50_000_000)
"""What a side reads of the other one, which the program trusts."""


FORM: Final = 1
"""Of envelopes and replies; another one where an older side would read them wrongly."""


@final
class CallEnvelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call on its way to a worker."""

    key: str
    """What the call is called on the cluster: each has its own."""
    target: str
    """`module:name` of what has the tool and its handler."""
    tool: str
    """What the tool is called there."""
    digest: str
    """Of what the program takes the tool for; the worker's has to be the same."""
    params: msgspec.Raw
    once: bool = True
    """Whether it must not be begun a second time, when its worker is lost."""
    client: str = ""
    """Who reads the preliminary values; empty: nobody does."""
    call_id: str = ""
    seconds: float | None = None
    """How long the run has left; None: it is not known to end."""
    sent: float = 0.0
    """When that was, in seconds since 1970, where the call may wait for long; 0: now."""
    idempotency_key: str = ""
    """What its handler is told that the call is named by; empty: by its `key`."""
    messages: str | None = None
    """The conversation, as `Prompt.to_json` writes it; None: it was not sent."""
    form: int = 0
    """That of the program, as in `FORM`."""
    trace: dict[str, str] = {}
    """What the spans of the handler belong to."""


@final
class Gave(msgspec.Struct, frozen=True, tag="gave"):
    """The handler succeeded."""

    value: msgspec.Raw


@final
class FailReason(msgspec.Struct, frozen=True, tag="fail"):
    """A typed failure."""

    value: msgspec.Raw


@final
class MisfitReason(msgspec.Struct, frozen=True, tag="invalid-result"):
    """What the handler gave does not fit what its tool declares."""

    faults: tuple[Fault, ...]
    declared: str
    preliminary: bool


@final
class LostReason(msgspec.Struct, frozen=True, tag="lost"):
    """There is no answer: the handler was not reached, or not heard to its end, so that it may have been run."""

    reason: str
    begun: bool


@final
class DefectReason(msgspec.Struct, frozen=True, tag="defect"):
    """An exception, in words."""

    kind: str
    text: str
    trace: str


@final
class InterruptReason(msgspec.Struct, frozen=True, tag="interrupt"):
    """It was cancelled."""


ReplyReason: TypeAlias = FailReason | MisfitReason | LostReason | DefectReason | InterruptReason


@final
class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The handler did not succeed; each reason, in order."""

    reasons: tuple[ReplyReason, ...]


Reply: TypeAlias = Gave | Gone

_WRITER: Final = msgspec.json.Encoder()
encode: Final = _WRITER.encode
"""An envelope or a reply as JSON text."""
read_call: Final = msgspec.json.Decoder(CallEnvelope).decode
"""The envelope that JSON text holds."""
read_reply: Final = msgspec.json.Decoder(Gave | Gone).decode
"""The reply that JSON text holds."""


def lost_reply(reason: str, *, begun: bool) -> Gone:
    """The reply of a call that has no answer."""
    return Gone((LostReason(reason, begun),))


def digest_of(identity: Identity) -> str:
    """What is the same on both sides where the tools are: of kind, first name, schemas and failure mode."""
    kind, name, *schemas, mode = identity.__reduce__()[1][:6]
    documents = [each.to_dict() if isinstance(each, JsonSchema) else each.json_schema() for each in schemas]
    return sha256(msgspec.json.encode([kind, name, documents, mode], order="deterministic")).hexdigest()[:32]


# -- causes


class WorkerDefectError(RuntimeError):
    """A handler on a worker raised an exception that no type declares; `kind` is its class, `trace` its traceback.

    The traceback, in words, is the last of the exception's notes.
    """

    def __init__(self, kind: str, text: str, trace: str) -> None:
        super().__init__(kind, text, trace)
        self.kind = kind
        self.text = text
        self.trace = trace
        self.add_note(f"on the worker:\n{trace}")

    def __str__(self) -> str:
        return f"a handler on a worker raised {self.kind}: {self.text}"


def encode_cause(tool: ToolInfo, cause: Cause[Any]) -> Gone:
    """The reply of a handler that did not succeed.

    Raises:
        DecodeError: a failure is not of the type that the tool declares.
    """
    return Gone(tuple(_encode_reason(tool, reason) for reason in cause.reasons))


def _encode_reason(tool: ToolInfo, reason: Fail[Any] | Die | Interrupt) -> ReplyReason:
    match reason:
        case Interrupt():
            return InterruptReason()
        case Die(CallFailureError(failure=failure)) | Fail(
            (InvalidResult() | HandlerUnavailable() | OutcomeUnknown()) as failure
        ):
            return _encode_failure(failure)
        case Fail((UnknownTool() | InvalidParameters()) as mistake):
            return LostReason(f"the worker takes other parameters: {mistake}", begun=False)
        case Die(defect):
            lines = traceback.format_exception(defect)
            return DefectReason(type(defect).__name__, str(defect), "".join(lines))
        case Fail(error):
            given: Any = error
            value = given.error if isinstance(error, HandlerFailed) else error
            return FailReason(msgspec.Raw(tool.failure.encode_json_unsafe(value)))


def _encode_failure(failure: InvalidResult | HandlerUnavailable | OutcomeUnknown) -> ReplyReason:
    if isinstance(failure, InvalidResult):
        return MisfitReason(failure.faults, failure.declared, failure.preliminary)
    return LostReason(failure.reason, isinstance(failure, OutcomeUnknown))


def decode_cause(tool: ToolInfo, reply: Gone) -> Cause[Any]:
    """Why the handler did not succeed, as a handler in this process would have said it."""
    return Cause(tuple(_decode_reason(tool, reason) for reason in reply.reasons))


def _decode_reason(tool: ToolInfo, reason: ReplyReason) -> Fail[Any] | Die | Interrupt:
    match reason:
        case InterruptReason():
            return Interrupt()
        case DefectReason(kind, text, trace):
            return Die(WorkerDefectError(kind, text, trace))
        case LostReason(why, begun):
            failure = OutcomeUnknown(tool.name, why) if begun else HandlerUnavailable(tool.name, why)
            return Die(CallFailureError(failure))
        case MisfitReason(faults, declared, preliminary):
            return Die(CallFailureError(InvalidResult(tool.name, faults, declared, preliminary)))
        case FailReason(value):
            try:
                return Fail(tool.failure.decode_json_unsafe(bytes(value), WIDE))
            except DecodeError as error:
                return Die(CallFailureError(InvalidResult(tool.name, error.failure.faults, "failure")))
