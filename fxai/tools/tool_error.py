"""Failures of a call, all of them.

`UnknownTool` and `InvalidParameters` are the model's mistakes: it reads of them and may correct itself. `HandlerFailed`
holds the typed failure of a handler. `InvalidResult` is a handler's mistake. `HandlerUnavailable` and `OutcomeUnknown`
are of handlers in other processes: one that was not reached, and one that was not heard to its end. `Denied`,
`ApprovalExpired`, `ApprovalUnavailable` and `Interrupted` say why nothing was run, `InDoubt` that it may have been.
Everything else is a defect, which no model sees.

>>> print(UnknownTool("wether", ("weather", "add")))
there is no tool 'wether' (did you mean 'weather'?); the tools are: weather, add
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.cause import Cause
from fxai.messages.message import ToolCallPart
from fxai.messages.part import ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.schema.fault import Fault

_F_co = TypeVar("_F_co", covariant=True, default=Any)
_LONGEST_NAME = 128


class _Failure(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    name: str
    """What the tool of the call is called."""

    @property
    def message(self) -> str:
        """What happened and what to do, in one line."""
        return str(self)


class ToolError(_Failure, frozen=True, kw_only=True):
    """A failure of one call in the error channel, with the results of the others; each is one of those in `exact`.

    One class, and no union, because checkers write out unions in every message.
    """

    response: Response | None = None
    """The model's response with the result of every call, where a model made this one."""
    history: Prompt | None = None
    """The whole conversation, results included, where a loop made it."""
    state: Any = None
    """The `PromptState` then, where the loop was that of a stateful prompt."""

    @property
    def exact(self) -> CallFailure:
        """Itself, as one of all that there are: what a `match` takes that is to leave out none."""
        return cast("CallFailure", self)


@final
class UnknownTool(ToolError, frozen=True, tag="unknown-tool"):
    """There is no tool of this name among those that the model was given; `known` are their names."""

    known: tuple[str, ...] = ()
    repair: str | None = None
    """Why the call could not be repaired, where that was tried and failed."""

    @override
    def __str__(self) -> str:
        known = f"the tools are: {', '.join(self.known)}" if self.known else "there are no tools"
        return (
            f"there is no tool {self.name!r}{nearest_name(self.name, self.known)}; {known}{_repair_note(self.repair)}"
        )


@final
class InvalidParameters(ToolError, frozen=True, tag="invalid-parameters"):
    """The parameters do not fit the tool's schema; every fault is named, with its place."""

    faults: tuple[Fault, ...]
    repair: str | None = None
    """Why the call could not be repaired, where that was tried and failed."""

    @override
    def __str__(self) -> str:
        faults = "; ".join(map(str, self.faults))
        repair = "" if self.repair is None else _repair_note(self.repair)
        return f"the parameters of {self.name!r} do not fit its schema: {faults}; correct them and call again{repair}"


@final
class HandlerFailed(ToolError, Generic[_F_co], frozen=True, tag="handler-failed"):
    """The handler failed with `error`, a value of the tool's failure type."""

    error: _F_co

    @override
    def __str__(self) -> str:
        return f"the tool {self.name!r} failed: {self.error!r}"


@final
class InvalidResult(ToolError, frozen=True, tag="invalid-result"):
    """What the handler gave does not fit what the tool declares, so it was not sent: a mistake of the handler."""

    faults: tuple[Fault, ...]
    declared: str = "success"
    preliminary: bool = False
    """Whether it is a preliminary value that does not fit; the handler was stopped there."""

    @override
    def __str__(self) -> str:
        faults = "; ".join([str(fault) for fault in self.faults])
        what = "a preliminary value that" if self.preliminary else "what"
        return f"the handler of {self.name!r} gave {what} its {self.declared} type does not allow: {faults}"


@final
class HandlerUnavailable(ToolError, frozen=True, tag="handler-unavailable"):
    """The handler, in another process, could not be reached: the call was not begun, and may be made again."""

    reason: str

    @override
    def __str__(self) -> str:
        return f"the tool {self.name!r} was not run: {self.reason}"


@final
class OutcomeUnknown(ToolError, frozen=True, tag="outcome-unknown"):
    """The call was begun, and what became of it is not known: it may have been run, and is not run again."""

    reason: str

    @override
    def __str__(self) -> str:
        return f"whether the tool {self.name!r} was run is not known: {self.reason}"


@final
class CallFailureError(Exception):
    """Ends a handler whose call has no answer: a defect inside of it, and `failure` is the typed failure of its call.

    It is for what stands in for a handler, such as a layer that runs handlers elsewhere. An `InvalidResult` goes into
    the error channel; the two others do as the handler's own failures do: where the failure mode is `"return"`, they
    are a failed outcome, which the model reads. In `tool.call`, which knows the handler's failures alone, it is a
    defect.
    """

    def __init__(self, failure: InvalidResult | HandlerUnavailable | OutcomeUnknown) -> None:
        super().__init__(failure)
        self.failure = failure


class NotRun(_Failure, frozen=True):
    """A call that was not run, or of which it is not known: what `Denied`, `InDoubt` and the others of them are.

    One class, and no union, because checkers write out unions in every message.
    """

    reason: str

    @override
    def __str__(self) -> str:
        return f"the tool {self.name!r} was not run: {self.reason}"


@final
class Denied(NotRun, frozen=True, tag="execution-denied"):
    """The call was not run, because it was not approved or not among the tools that the model may choose."""


@final
class ApprovalExpired(NotRun, frozen=True, tag="approval-expired"):
    """The call was not run, because its approval was not answered in time. It was not denied either."""


@final
class ApprovalUnavailable(NotRun, frozen=True, tag="approval-unavailable"):
    """The call was not run, because there was no one to ask for its approval. It was not denied either."""


@final
class InDoubt(NotRun, frozen=True, tag="execution-in-doubt"):
    """The call was approved and begun before, and what became of it is not known: it may have been run."""

    @override
    def __str__(self) -> str:
        return f"whether the tool {self.name!r} was run is not known: {self.reason}"


@final
class Interrupted(NotRun, frozen=True, tag="execution-interrupted"):
    """The call was not run, or not to its end, because the turn or the run was cut off."""

    @override
    def __str__(self) -> str:
        return f"the tool {self.name!r} was interrupted: {self.reason}"


CallFailure: TypeAlias = (
    UnknownTool | InvalidParameters | HandlerFailed[Any] | InvalidResult | HandlerUnavailable | OutcomeUnknown
)
"""Every `ToolError` that there is."""

Unanswered: TypeAlias = (
    UnknownTool
    | InvalidParameters
    | HandlerUnavailable
    | OutcomeUnknown
    | Denied
    | ApprovalExpired
    | ApprovalUnavailable
    | InDoubt
    | Interrupted
)
"""A failure of a call that has no answer of the handler: it was not asked, or not heard to its end."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """The known name that is most like a wrong one, as a question in parentheses; empty where none is like it.

    A model makes the wrong name up: one of more than 128 characters is compared with none, since that takes the square.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    import difflib  # only where a name is wrong

    near = difflib.get_close_matches(name, [one for one in known if len(one) <= _LONGEST_NAME], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _repair_note(why: str | None) -> str:
    return "" if why is None else f" (a repair was tried and failed: {why})"


def encode_failure(failure: Unanswered) -> dict[str, Any]:
    """What a model reads of a failure that has no schema of the tool's own: its `type`, its data and its message."""
    if isinstance(failure, InvalidParameters):
        faults = [*map(msgspec.structs.asdict, failure.faults)]
        data: dict[str, Any] = {"type": "invalid-parameters", "name": failure.name, "faults": faults}
        if failure.repair is not None:
            data["repair"] = failure.repair
        data["message"] = failure.__str__()
        return data
    if isinstance(failure, UnknownTool):
        about = {"known": list(failure.known), **_repair(failure.repair), "message": str(failure)}
        return {"type": "unknown-tool", "name": failure.name, **about}
    return {"type": failure.__struct_config__.tag, "name": failure.name, "reason": failure.reason}


def _repair(why: str | None) -> dict[str, Any]:
    return {} if why is None else {"repair": why}


def failed_result(call: ToolCall | ToolCallPart, failure: Unanswered) -> ToolResult:
    """The result of a call that failed before its handler ran, or in it."""
    return ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)


def interrupt_calls(calls: Iterable[ToolCall | ToolCallPart], why: str) -> list[ToolResult]:
    """A result for each call, which says why it was not run to its end."""
    return [failed_result(call, Interrupted(call.name, why)) for call in calls]


def with_responses(cause: Cause[Any], response: Response) -> Cause[Any]:
    """The cause, each failure of a tool with the response that holds every result.

    A defect is an exception of any class, so `take_response` returns the response that belongs to it.
    """
    for defect in cause.defects:
        vars(defect)[_RESPONSE] = response
    return cause.map(
        lambda error: msgspec.structs.replace(error, response=response) if isinstance(error, ToolError) else error
    )


_RESPONSE: Final = "__fxai_response__"


def take_response(defect: BaseException) -> Response | None:
    """Return the response that `with_responses` stored with a defect, and remove it there."""
    response: Response | None = vars(defect).pop(_RESPONSE, None)
    return response
