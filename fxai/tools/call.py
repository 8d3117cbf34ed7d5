"""Calls: decode the parameters, run the handler, encode what it gave.

The model's mistakes become failed outcomes that it can read and correct; a typed failure becomes one too, or goes into
the error channel, as the tool's failure mode says. A defect stays a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, final

import msgspec
from returns.result import Failure, Success
from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, FailCause, Fold, Succeed, Within
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError, DecodeFailure
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json_unsafe
from fxai.tools.failure import HandlerFailed, InvalidParameters, InvalidResult, ToolError, UnknownTool, encode_failure
from fxai.tools.handler import CallContext, Handler, missing_handler
from fxai.tools.options import described

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt
    from fxai.tools.tool import Tool

__all__ = ["OnInvalidCall", "Outcome", "run_call"]

OnInvalidCall: TypeAlias = Literal["return", "error"]
"""Where the model's mistakes go: to the model as a failed outcome (the default), or into the error channel."""


@final
class Outcome(msgspec.Struct, frozen=True):
    """What a call gave."""

    result: Any
    """The success or failure itself, as Python has it."""
    encoded_result: Any
    """The same as plain JSON data: what the model and the history get."""
    is_failure: bool = False
    """Whether it is a failure: the handler's, in failure mode `"return"`, or the model's mistake."""
    preliminary: bool = False
    """Whether the handler goes on: each stream of outcomes ends with the one that is not preliminary."""

    @property
    def encoded_json(self) -> bytes:
        """`encoded_result` as JSON text."""
        return msgspec.json.encode(self.encoded_result)

    @override
    def __hash__(self) -> int:
        return hash((self.is_failure, self.preliminary))


Decode: TypeAlias = "Callable[[Tool[Any, Any, Any]], Any]"


def decode_value(tool: Tool[Any, Any, Any], value: Any) -> Any:
    """The parameters for the handler, of plain JSON data.

    Raises:
        DecodeError: they do not fit.
    """
    parameters = tool.parameters
    return parameters.decode_unsafe(value) if isinstance(parameters, Schema) else _raw(tool, value)


def decode_text(tool: Tool[Any, Any, Any], text: bytes | str) -> Any:
    """The parameters for the handler, of JSON text; blank text is an empty object.

    Raises:
        DecodeError: the text is no JSON within the limits, or does not fit.
    """
    parameters = tool.parameters
    if isinstance(parameters, Schema):
        return parameters.decode_json_unsafe(text)
    return _raw(tool, parse_json_unsafe(text))


def _raw(tool: Tool[Any, Any, Any], value: Any) -> Any:
    validation = tool.validation
    if validation == "schema":
        faults = cast(JsonSchema, tool.parameters).validate(value)
        if faults:
            raise DecodeError(DecodeFailure(faults))
        return value
    if validation == "none":
        return value
    checked = validation(value)
    if isinstance(checked, Success):
        return checked.unwrap()
    raise DecodeError(described(checked.failure()))


def run_call(
    tools: Any,
    name: str,
    decode: Decode,
    *,
    call_id: str = "",
    prompt: Prompt | None = None,
    deadline: float | None = None,
    emit: Callable[[Outcome], EffectOf[None]] | None = None,
    on_invalid_call: OnInvalidCall = "return",
) -> EffectOf[Outcome, ToolError, Any]:
    """The final outcome of a call; `emit` is given the preliminary ones."""

    def start(services: ContextOf[Any]) -> EffectOf[Outcome, ToolError, Any]:
        tool: Tool[Any, Any, Any] | None = tools.get(name)
        if tool is None:
            return _mistake(UnknownTool(name, tuple(tools)), on_invalid_call)
        try:
            params = decode(tool)
        except DecodeError as error:
            return _mistake(InvalidParameters(name, error.failure.faults), on_invalid_call)
        handler: Handler | None = services.find(tool.identity)
        if handler is None:
            raise missing_handler(tool.identity)

        shown = None if emit is None else _shown(tool, emit)
        answer = handler.answer(params, CallContext(tool, call_id, prompt, deadline, shown), services)
        kind = answer.__class__
        if kind is Success:
            return _succeeded(tool, answer.unwrap())
        if kind is Failure:
            return _failed(tool, answer.failure())
        return Fold(answer, lambda cause: _caught(tool, cause), lambda value: _succeeded(tool, value))

    return Within(start)


def _mistake(failure: UnknownTool | InvalidParameters, on_invalid_call: OnInvalidCall) -> EffectOf[Outcome, ToolError]:
    if on_invalid_call == "error":
        return FailCause(Cause((Fail(failure),)))
    return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))


def _succeeded(tool: Tool[Any, Any, Any], value: Any) -> EffectOf[Outcome, ToolError]:
    try:
        return Succeed(Outcome(value, tool.success.encode_unsafe(value)))
    except DecodeError as error:
        return FailCause(Cause((Fail(InvalidResult(tool.name, error.failure.faults)),)))


def _failed(tool: Tool[Any, Any, Any], value: Any) -> EffectOf[Outcome, ToolError]:
    try:
        encoded = tool.failure.encode_unsafe(value)
    except DecodeError as error:
        return FailCause(Cause((Fail(InvalidResult(tool.name, error.failure.faults, "failure")),)))
    if tool.failure_mode == "return":
        return Succeed(Outcome(value, encoded, is_failure=True))
    return FailCause(Cause((Fail(HandlerFailed(tool.name, value)),)))


def _caught(tool: Tool[Any, Any, Any], cause: Cause[Any]) -> EffectOf[Outcome, ToolError] | None:
    """A typed failure settled; what went wrong beside it stays."""
    failures = [r for r in cause.reasons if isinstance(r, Fail)]
    if not failures:
        return None
    settled = _failed(tool, failures[0].error)
    others = tuple(r for r in cause.reasons if r is not failures[0])
    return settled if not others else settled.flat_map(lambda _: FailCause(Cause(others)))


def _shown(tool: Tool[Any, Any, Any], emit: Callable[[Outcome], EffectOf[None]]) -> Callable[[Any], EffectOf[None]]:
    return lambda value: emit(_preliminary(tool, value))


def _preliminary(tool: Tool[Any, Any, Any], value: Any) -> Outcome:
    try:
        return Outcome(value, tool.success.encode_unsafe(value), preliminary=True)
    except DecodeError as error:
        raise TypeError(
            f"the handler of {tool.name!r} gave a preliminary value that is not of its success type: {error.failure}"
        ) from None
