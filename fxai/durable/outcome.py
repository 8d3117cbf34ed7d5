"""Outcomes: how a call ended, as a record, and the call's outcome of such a record.

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

from fxai.durable.record import Ended
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import AnyEffect, FailCause, Succeed
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
    UnknownTool,
)
from fxai.tools.tool_options import ToolInfo

_TOLD: Final[tuple[type[Any], ...]] = (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerUnavailable,
    InDoubt,
    Interrupted,
    OutcomeUnknown,
)
_BY_TAG: Final[Mapping[Any, Callable[[str, str], Any]]] = {kind.__struct_config__.tag: kind for kind in _TOLD}


def end_of(path: str, outcome: Outcome) -> Ended:
    """The record of a call that gave an outcome."""
    if not outcome.is_failure:
        return Ended(path, "success", outcome.encoded_result, json_text=outcome.json_text)
    if isinstance(outcome.result, UnknownTool | InvalidParameters):
        return Ended(path, "refused")
    is_told = isinstance(outcome.result, _TOLD)
    return Ended(path, "told" if is_told else "failure", outcome.encoded_result, json_text=outcome.json_text)


def bad_end_of(path: str, tool: ToolInfo, cause: Cause[Any]) -> Ended:
    """The record of a call that gave none: its failure in the error channel, or that it broke."""
    error: Any = cause.failures[0] if cause.failures else None
    if cause.defects or error is None or isinstance(error, OutcomeUnknown):
        return Ended(path, "broken", repr(cause.squash()))
    if isinstance(error, HandlerFailed):
        return Ended(path, "error", tool.failure.encode_unsafe(cast(Any, error).error))
    if isinstance(error, UnknownTool | InvalidParameters | HandlerUnavailable):
        return Ended(path, "refused")
    return Ended(path, "broken", str(error))


def read_outcome(tool: ToolInfo, name: str, ended: Ended) -> AnyEffect:
    """The outcome of a record, or its failure in the error channel; for kinds that have one.

    Raises:
        DecodeError: the value does not fit what the tool declares.
    """
    value = ended.value
    match ended.kind:
        case "success":
            return Succeed(Outcome(tool.success.decode_unsafe(value), value, json_text=ended.json_text))
        case "failure":
            result = tool.failure.decode_unsafe(value)
            return Succeed(Outcome(result, value, is_failure=True, json_text=ended.json_text))
        case "error":
            return FailCause(Cause((Fail(HandlerFailed(name, tool.failure.decode_unsafe(value))),)))
        case _:
            failure = _BY_TAG[value["type"]](value["name"], value["reason"])
            return Succeed(Outcome(failure, value, is_failure=True))


def fits(tool: ToolInfo, ended: Ended) -> str | None:
    """Why a value that a person gave does not fit what the tool declares; None where it does."""
    schema = tool.success if ended.kind == "success" else tool.failure
    try:
        _ = schema.decode_unsafe(ended.value)
    except DecodeError as error:
        return str(error)
    return None
