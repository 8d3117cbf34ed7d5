"""Calls: decode the parameters, run the handler, encode what it gave.

The model's mistakes become failed outcomes that it can read and correct; a typed failure becomes one too, or goes into
the error channel, as the tool's failure mode says. A defect stays a defect.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> ping = Tool.make("ping", success=str)
>>> called = Call({"ping": ping}, "ping", {}).effect.provide(ping.handler(lambda _: Success("pong")))
>>> fx.run_sync(called).encoded_json
b'"pong"'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeAlias, cast, final

import msgspec
from returns.result import Failure, Success
from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, FailCause, Fold, Instruction, Succeed, Suspend, Within
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError, DecodeFailure, Fault
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import LIMITS, Limits, parse_json_unsafe
from fxai.tools.approval import needs_asking
from fxai.tools.failure import HandlerFailed, InvalidParameters, InvalidResult, ToolError, UnknownTool, encode_failure
from fxai.tools.handler import Answering, CallContext, missing_handler
from fxai.tools.options import described

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt
    from fxai.tools.tool import Tool

__all__ = ["Call", "OnInvalidCall", "Outcome"]

_ENCODE: Final = msgspec.json.Encoder().encode

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
        return _ENCODE(self.encoded_result)

    @override
    def __hash__(self) -> int:
        return hash((self.is_failure, self.preliminary))


class _Refused(msgspec.Struct, eq=False):
    """Parameters that do not fit: what is wrong with them."""

    faults: tuple[Fault, ...]


@final
class Call(msgspec.Struct, eq=False):
    """A call that is about to be run: `Call(…).effect` is the effect of its final outcome."""

    tools: Mapping[str, Tool[Any, Any, Any]]
    name: str
    given: Any
    """The parameters: plain JSON data, or JSON text."""
    is_text: bool = False
    call_id: str = ""
    on_invalid_call: OnInvalidCall = "return"
    limits: Limits = LIMITS
    prompt: Prompt | None = None
    deadline: float | None = None
    emit: Callable[[Outcome], EffectOf[None]] | None = None
    """What is given the preliminary outcomes."""

    @property
    def effect(self) -> EffectOf[Outcome, ToolError, Any]:
        """The effect of the final outcome."""
        return Within(self._start)

    def needs_approval(self, context: CallContext | None = None) -> EffectOf[bool, Never, Any]:
        """Whether the call must be approved first; an invalid one need not be: it is never run.

        Args:
            context: what the tool's predicate may know of the call; by default what the handler may.
        """
        return Suspend(lambda: self._asked(context))

    def context(self, tool: Tool[Any, Any, Any]) -> CallContext:
        """What the handler may know of the call."""
        shown = None if self.emit is None else _shown(tool, self.emit)
        return CallContext(tool, self.call_id, self.prompt, self.deadline, shown)

    def _asked(self, context: CallContext | None) -> EffectOf[bool, Never, Any]:
        tool = self.tools.get(self.name)
        if tool is None or tool.needs_approval is False:
            return Succeed(False)
        params = self._decoded(tool)
        if params.__class__ is _Refused:
            return Succeed(False)
        return needs_asking(tool, params, context or self.context(tool))

    def _start(self, services: ContextOf[Any]) -> EffectOf[Outcome, ToolError, Any]:
        tool = self.tools.get(self.name)
        if tool is None:
            return self._mistake(UnknownTool(self.name, tuple(self.tools)))
        params = self._decoded(tool)
        if params.__class__ is _Refused:
            return self._mistake(InvalidParameters(self.name, params.faults))
        handler: Answering | None = services.services.get(tool.identity)
        if handler is None:
            raise missing_handler(tool)

        answer = handler.answer(params, tool, self, services)
        kind = answer.__class__
        if kind is Success:
            return _succeeded(tool, answer.unwrap())
        if kind is Failure:
            return _failed(tool, answer.failure())
        return _Settling(answer, tool)

    def _decoded(self, tool: Tool[Any, Any, Any]) -> Any:
        """The parameters as the handler takes them, or `_Refused`."""
        parameters = tool.parameters
        if parameters.__class__ is Schema:
            schema: Any = parameters
            if self.is_text:
                return schema.decode_json_or(self.given, _Refused, self.limits)
            return schema.decode_or(self.given, _Refused)
        try:
            return _raw(tool, parse_json_unsafe(self.given, self.limits) if self.is_text else self.given)
        except DecodeError as error:
            return _Refused(error.failure.faults)

    def _mistake(self, failure: UnknownTool | InvalidParameters) -> EffectOf[Outcome, ToolError]:
        if self.on_invalid_call == "error":
            return FailCause(Cause((Fail(failure),)))
        return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))


@final
class _Settling(Instruction, eq=False):
    """The outcome of what a handler's effect gives."""

    source: EffectOf[Any, Any, Any]
    tool: Tool[Any, Any, Any]
    op = Fold.op

    def on_value(self, value: Any) -> EffectOf[Outcome, ToolError]:
        return _succeeded(self.tool, value)

    def on_cause(self, cause: Cause[Any]) -> EffectOf[Outcome, ToolError] | None:
        return _caught(self.tool, cause)


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
    """The first typed failure settled; defects and interruption beside it stay, so that none is swallowed."""
    first = next((r for r in cause.reasons if isinstance(r, Fail)), None)
    if first is None:
        return None
    settled = _failed(tool, first.error)
    others = Cause[Any](tuple(r for r in cause.reasons if not isinstance(r, Fail)))
    if not others.reasons:
        return settled
    return FailCause(settled.cause.combine(others) if isinstance(settled, FailCause) else others)


def _shown(tool: Tool[Any, Any, Any], emit: Callable[[Outcome], EffectOf[None]]) -> Callable[[Any], EffectOf[None]]:
    return lambda value: emit(_preliminary(tool, value))


def _preliminary(tool: Tool[Any, Any, Any], value: Any) -> Outcome:
    try:
        return Outcome(value, tool.success.encode_unsafe(value), preliminary=True)
    except DecodeError as error:
        raise TypeError(
            f"the handler of {tool.name!r} gave a preliminary value that is not of its success type: {error.failure}"
        ) from None
