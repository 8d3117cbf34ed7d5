"""The failures of tool calls. Use this module to match the failures of a call.

The model can correct `UnknownTool` and `InvalidParameters`, so it receives them. `HandlerFailed` contains the typed
failure of a handler. `InvalidResult` is a mistake of the handler. `HandlerUnavailable` and `OutcomeUnknown` concern
handlers in other processes: fxai could not reach the handler, or received no result from it. `Refused` is the refusal
of a guard, see `fxai.guards.guard`. `Denied`,
`ApprovalExpired`, `ApprovalUnavailable`, and `Interrupted` contain the reason why fxai did not run a call. `InDoubt`
means that the call may have run. Every other exception is a defect, and no model sees it.

>>> print(UnknownTool("wether", ("weather", "add")))
unknown tool 'wether' (did you mean 'weather'?). Call one of these tools: weather, add
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

import fxai.messages
from fxai.effects.cause import AnyCause
from fxai.schema.fault import Fault

if TYPE_CHECKING:
    from fxai.messages.message import ToolCallPart
    from fxai.messages.part import ToolCall, ToolResult

_F_co = TypeVar("_F_co", covariant=True, default=Any)
_LONGEST_NAME = 128


class _Failure(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    name: str
    """The name of the called tool."""

    @property
    def message(self) -> str:
        """The failure and the remedy, in one line."""
        return str(self)


class ToolError(_Failure, frozen=True, kw_only=True):
    """A failure of one call in the error channel. `exact` lists the possible classes.

    `response` contains the results of the other calls. `ToolError` is one class and not a union, because type checkers
    print every member of a union in each message.
    """

    response: fxai.messages.Response | None = None  # imported if `msgspec` decodes the failure
    """The model's response with the result of every call. None if no model made the call."""
    history: fxai.messages.Prompt | None = None
    """The whole conversation with all results. None outside an agent."""
    state: Any = None
    """The `PromptState` at the time of the failure. None without a stateful prompt."""
    usage: Any = None
    """The `Usage` of the run with the turn that made the call, or None outside an agent."""

    @property
    def exact(self) -> CallFailure:
        """The failure itself, typed as a union of all classes. Use it in a `match` that must be exhaustive."""
        return cast("CallFailure", self)


@final
class UnknownTool(ToolError, frozen=True, tag="unknown-tool"):
    """The model called a tool that it did not receive. `known` lists the names of the tools that it received."""

    known: tuple[str, ...] = ()
    """The names of the tools that the model received."""
    repair: str | None = None
    """The reason why a repair of the call failed. None if fxai did not try a repair."""

    @override
    def __str__(self) -> str:
        known = f"Call one of these tools: {', '.join(self.known)}" if self.known else "No tools exist"
        return f"unknown tool {self.name!r}{nearest_name(self.name, self.known)}. {known}{_repair_note(self.repair)}"


@final
class InvalidParameters(ToolError, frozen=True, tag="invalid-parameters"):
    """The arguments do not match the schema of the tool. `faults` lists every validation error with its location."""

    faults: tuple[Fault, ...]
    """Every validation error."""
    repair: str | None = None
    """The reason why a repair of the call failed. None if fxai did not try a repair."""

    @override
    def __str__(self) -> str:
        faults = "; ".join(map(str, self.faults))
        repair = "" if self.repair is None else _repair_note(self.repair)
        return f"invalid arguments for {self.name!r}: {faults}. Correct them and call the tool again{repair}"


@final
class HandlerFailed(ToolError, Generic[_F_co], frozen=True, tag="handler-failed"):
    """The handler failed with `error`, a value of the tool's failure type."""

    error: _F_co
    """The typed failure of the handler."""

    @override
    def __str__(self) -> str:
        return f"tool {self.name!r} failed: {self.error!r}"


@final
class InvalidResult(ToolError, frozen=True, tag="invalid-result"):
    """The handler returned a value that does not match the declared type. fxai did not send the value."""

    faults: tuple[Fault, ...]
    """Every validation error."""
    declared: str = "success"
    """The schema that the value violates: `"success"` or `"failure"`."""
    preliminary: bool = False
    """True if the value is preliminary. fxai then stopped the handler."""

    @override
    def __str__(self) -> str:
        faults = "; ".join([str(fault) for fault in self.faults])
        what = "a preliminary value" if self.preliminary else "a value"
        return f"handler of {self.name!r} returned {what} that its {self.declared} type does not allow: {faults}"


@final
class HandlerUnavailable(ToolError, frozen=True, tag="handler-unavailable"):
    """fxai could not reach the handler in another process. The call did not start, so you can repeat it."""

    reason: str
    """The reason."""

    @override
    def __str__(self) -> str:
        return f"tool {self.name!r} did not run: {self.reason}"


@final
class OutcomeUnknown(ToolError, frozen=True, tag="outcome-unknown"):
    """The call started in another process, but fxai received no result. It may have run, so fxai does not repeat it."""

    reason: str
    """The reason."""

    @override
    def __str__(self) -> str:
        return f"outcome of {self.name!r} unknown: {self.reason}"


@final
class Refused(ToolError, frozen=True, tag="refused"):
    """A guard refused the arguments or the result of the call."""

    guard: str
    """The name of the guard."""
    at: Literal["arguments", "result"]
    """`"arguments"` if the handler did not run, or `"result"` if the handler ran."""
    reason: str
    """The reason of the guard."""

    @override
    def __str__(self) -> str:
        return f"guard {self.guard!r} refused the {self.at} of {self.name!r}: {self.reason}"


@final
class CallFailureError(Exception):
    """An exception that ends a handler with the typed failure `failure` of its call.

    Raise it in a substitute for a handler, such as a layer that runs handlers in another process. An `InvalidResult`
    enters the error channel. fxai treats the other failures like a failure of the handler. With the failure mode
    `"return"`, they are a failed outcome for the model. `tool.call` knows only the failures of the handler, so there
    this exception is a defect.
    """

    def __init__(self, failure: InvalidResult | HandlerUnavailable | OutcomeUnknown | Refused) -> None:
        super().__init__(failure)
        self.failure = failure


class NotRun(_Failure, frozen=True):
    """A call that fxai did not run, or whose outcome is unknown. `Denied`, `InDoubt`, and others are its subclasses.

    `NotRun` is one class and not a union, because type checkers print every member of a union in each message.
    """

    reason: str
    """The reason for the model."""

    @override
    def __str__(self) -> str:
        return f"tool {self.name!r} did not run: {self.reason}"


@final
class Denied(NotRun, frozen=True, tag="execution-denied"):
    """fxai did not run the call, because nobody approved it or because `tool_choice` does not allow the tool."""


@final
class ApprovalExpired(NotRun, frozen=True, tag="approval-expired"):
    """fxai did not run the call, because its approval was not answered in time. Nobody denied the call."""


@final
class ApprovalUnavailable(NotRun, frozen=True, tag="approval-unavailable"):
    """fxai did not run the call, because no person could receive the approval request. Nobody denied the call."""


@final
class InDoubt(NotRun, frozen=True, tag="execution-in-doubt"):
    """The approved call started before, and its outcome is unknown. It may have run."""

    @override
    def __str__(self) -> str:
        return f"outcome of {self.name!r} unknown: {self.reason}"


@final
class Interrupted(NotRun, frozen=True, tag="execution-interrupted"):
    """fxai did not run the call, or did not finish it, because the turn or the run was interrupted."""

    @override
    def __str__(self) -> str:
        return f"tool {self.name!r} was interrupted: {self.reason}"


CallFailure: TypeAlias = (
    "UnknownTool | InvalidParameters | HandlerFailed | InvalidResult | HandlerUnavailable | OutcomeUnknown | Refused"
)
"""Every class of `ToolError`."""

Unanswered: TypeAlias = (
    UnknownTool
    | InvalidParameters
    | HandlerUnavailable
    | OutcomeUnknown
    | Refused
    | Denied
    | ApprovalExpired
    | ApprovalUnavailable
    | InDoubt
    | Interrupted
)
"""A failure of a call whose handler did not run, or whose result was lost or refused."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name closest to a wrong name, as a question in parentheses, or an empty string.

    A model invents wrong names. The comparison takes quadratic time, so names over 128 characters are not compared.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    import difflib  # only a wrong name needs it

    near = difflib.get_close_matches(name, [one for one in known if len(one) <= _LONGEST_NAME], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _repair_note(why: str | None) -> str:
    return "" if why is None else f" (the repair of the call failed: {why})"


def encode_failure(failure: Unanswered) -> dict[str, Any]:
    """Return the data that a model receives for a failure without a schema."""
    data: dict[str, Any] = {"type": failure.__struct_config__.tag, "name": failure.name}
    if isinstance(failure, InvalidParameters):
        data["faults"] = [*map(msgspec.structs.asdict, failure.faults)]
    elif isinstance(failure, UnknownTool):
        data["known"] = list(failure.known)
    else:
        data["reason"] = failure.reason
        return {**data, "guard": failure.guard, "at": failure.at} if isinstance(failure, Refused) else data
    if failure.repair is not None:
        data["repair"] = failure.repair
    data["message"] = failure.__str__()
    return data


def failed_result(call: ToolCall | ToolCallPart, failure: Unanswered) -> ToolResult:
    """Return the result of a call that failed before or inside its handler."""
    from fxai.messages.part import ToolResult  # a program without a model does not need the messages

    return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)


def interrupt_calls(calls: Iterable[ToolCall | ToolCallPart], why: str) -> list[ToolResult]:
    """Return one result per call with the reason why the call did not finish."""
    return [failed_result(call, Interrupted(call.name, why)) for call in calls]


def with_responses(cause: AnyCause, response: fxai.messages.Response) -> AnyCause:
    """Return `cause` with `response` in each failure of a tool. `response` contains every result.

    A defect is an exception of any class. `take_response` returns the response of a defect.
    """
    for defect in cause.defects:
        vars(defect)[_RESPONSE] = response
    return cause.map(
        lambda error: msgspec.structs.replace(error, response=response) if isinstance(error, ToolError) else error
    )


_RESPONSE: Final = "__fxai_response__"


def take_response(defect: BaseException) -> fxai.messages.Response | None:
    """Return the response that `with_responses` stored in a defect, and remove it from the defect."""
    response: fxai.messages.Response | None = vars(defect).pop(_RESPONSE, None)
    return response
