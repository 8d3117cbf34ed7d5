"""The JSON messages between a program and the workers that run its handlers.

A `CallEnvelope` names the target and the tool, and contains the parameters in the encoding of the schema of the tool. A
worker answers with a `Reply`. Values and failures use the schemas of the tool, too. fxai pickles no object, because
both sides have the tool.

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
from typing import Any, Final, Literal, TypeAlias, final

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
    Refused,
    UnknownTool,
)
from fxai.tools.tool_info import ToolInfo

WIDE: Final = Limits(max_bytes=1 << 30, max_depth=500, max_values=50_000_000)
"""The limits for messages of the other side, which the program trusts."""


FORM: Final = 1
"""The version of envelopes and replies. It changes if an older side would read them wrongly."""


@final
class CallEnvelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call on its way to a worker."""

    key: str
    """The key of the call on the cluster. Each call has its own key."""
    target: str
    """`module:name` of the tools with their handlers."""
    tool: str
    """The name of the tool in the target."""
    digest: str
    """The digest of the tool in the program. It must be equal to the digest on the worker."""
    params: msgspec.Raw
    once: bool = True
    """True if the call must not start a second time after its worker was lost."""
    client: str = ""
    """The address to which the worker sends preliminary values. Empty if no program reads them."""
    call_id: str = ""
    seconds: float | None = None
    """Seconds until the deadline of the run. None if it has no deadline."""
    sent: float = 0.0
    """The time of `seconds`, in seconds since 1970, if the call can wait in a queue. 0 means now."""
    idempotency_key: str = ""
    """The idempotency key of the call for its handler. Empty means `key`."""
    messages: str | None = None
    """The conversation in the form of `Prompt.to_json`. None if the program did not send it."""
    form: int = 0
    """The value of `FORM` in the program."""
    trace: dict[str, str] = {}
    """The carrier of the trace that contains the spans of the handler."""


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
    """The handler returned a value that does not match the types of its tool."""

    faults: tuple[Fault, ...]
    declared: str
    preliminary: bool


@final
class RefusedReason(msgspec.Struct, frozen=True, tag="refused"):
    """A guard on the worker refused the arguments or the result."""

    guard: str
    at: Literal["arguments", "result"]
    reason: str


@final
class LostReason(msgspec.Struct, frozen=True, tag="lost"):
    """No answer exists. The worker did not start the handler, or its end is unknown, so that it may have run."""

    reason: str
    begun: bool


@final
class DefectReason(msgspec.Struct, frozen=True, tag="defect"):
    """An exception as text."""

    kind: str
    text: str
    trace: str


@final
class InterruptReason(msgspec.Struct, frozen=True, tag="interrupt"):
    """The handler was cancelled."""


ReplyReason: TypeAlias = FailReason | MisfitReason | LostReason | RefusedReason | DefectReason | InterruptReason


@final
class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The handler did not succeed. It contains each reason, in order."""

    reasons: tuple[ReplyReason, ...]


Reply: TypeAlias = Gave | Gone

_WRITER: Final = msgspec.json.Encoder()
encode: Final = _WRITER.encode
"""Return an envelope or a reply as JSON text."""
read_call: Final = msgspec.json.Decoder(CallEnvelope).decode
"""Return the envelope in JSON text."""
read_reply: Final = msgspec.json.Decoder(Gave | Gone).decode
"""Return the reply in JSON text."""


def lost_reply(reason: str, *, begun: bool) -> Gone:
    """Return the reply of a call without an answer."""
    return Gone((LostReason(reason, begun),))


def digest_of(identity: Identity) -> str:
    """Return the digest of a tool. Equal tools have equal digests: kind, first name, schemas, and failure mode."""
    kind, name, *schemas, mode = identity.__reduce__()[1][:6]
    documents = [each.to_dict() if isinstance(each, JsonSchema) else each.json_schema() for each in schemas]
    return sha256(msgspec.json.encode([kind, name, documents, mode], order="deterministic")).hexdigest()[:32]


# -- causes


class WorkerDefectError(RuntimeError):
    """A handler on a worker raised an exception. `kind` is the class of the exception, `trace` its traceback.

    The last note of the exception contains the traceback as text.
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
    """Return the reply of a handler that did not succeed.

    Raises:
        DecodeError: If a failure does not have the type that the tool declares.
    """
    return Gone(tuple(_encode_reason(tool, reason) for reason in cause.reasons))


def _encode_reason(tool: ToolInfo, reason: Fail[Any] | Die | Interrupt) -> ReplyReason:
    match reason:
        case Interrupt():
            return InterruptReason()
        case Die(CallFailureError(failure=Refused() as failure)) | Fail(Refused() as failure):
            return RefusedReason(failure.guard, failure.at, failure.reason)
        case Die(CallFailureError(failure=InvalidResult() as failure)) | Fail(InvalidResult() as failure):
            return MisfitReason(failure.faults, failure.declared, failure.preliminary)
        case Die(CallFailureError(failure=(HandlerUnavailable() | OutcomeUnknown()) as failure)) | Fail(
            (HandlerUnavailable() | OutcomeUnknown()) as failure
        ):
            return LostReason(failure.reason, isinstance(failure, OutcomeUnknown))
        case Fail((UnknownTool() | InvalidParameters()) as mistake):
            return LostReason(f"the worker requires other parameters: {mistake}", begun=False)
        case Die(defect):
            lines = traceback.format_exception(defect)
            return DefectReason(type(defect).__name__, str(defect), "".join(lines))
        case Fail(error):
            given: Any = error
            value = given.error if isinstance(error, HandlerFailed) else error
            return FailReason(msgspec.Raw(tool.failure.encode_json_unsafe(value)))


def decode_cause(tool: ToolInfo, reply: Gone) -> Cause[Any]:
    """Return the cause of the reply, as a handler in this process would end."""
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
        case RefusedReason(guard, at, why):
            return Die(CallFailureError(Refused(tool.name, guard=guard, at=at, reason=why)))
        case MisfitReason(faults, declared, preliminary):
            return Die(CallFailureError(InvalidResult(tool.name, faults, declared, preliminary)))
        case FailReason(value):
            try:
                return Fail(tool.failure.decode_json_unsafe(bytes(value), WIDE))
            except DecodeError as error:
                return Die(CallFailureError(InvalidResult(tool.name, error.failure.faults, "failure")))
