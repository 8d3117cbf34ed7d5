"""Calls decode the arguments, run the handler, and encode its result. Use this module to run one call.

A mistake of the model becomes a failed outcome, which the model can read and correct. A typed failure of the handler
becomes a failed outcome or enters the error channel, by the failure mode of the tool. A defect stays a defect.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> ping = Tool.make("ping", success=str)
>>> called = Call({"ping": ping}, "ping", {}).effect.provide(ping.handler(lambda _: Success("pong")))
>>> fx.run_sync(called).encoded_json
b'"pong"'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Never, Protocol, TypeAlias, cast, final

import msgspec
from msgspec.structs import force_setattr
from returns.maybe import Some
from returns.result import Failure, Success
from typing_extensions import override

from fxai.effects.cancellation import is_bug
from fxai.effects.cause import AnyCause, Cause, Die, Fail
from fxai.effects.context import AnyContext
from fxai.effects.effect import (
    AnyEffect,
    AwaitExit,
    EffectOf,
    Enter,
    FailCause,
    Fold,
    Instruction,
    Succeed,
    Suspend,
    Timeout,
)
from fxai.effects.fiber import Fiber
from fxai.effects.scope import NOTHING
from fxai.effects.tracing import Tracer
from fxai.schema.codec import Schema
from fxai.schema.data import copy_data, holds_more
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import (
    CALL_LIMITS,
    Limits,
    holds_nested,
    is_about_leaves,
    is_plain,
    plain_faults,
    read_text,
    written,
)
from fxai.schema.surrogate import mend_data
from fxai.tools.annotation import JsonText
from fxai.tools.handler import Answering, CoroutineAnswer, ToolExecution, answer_effect, missing_handler
from fxai.tools.tool_error import (
    CallFailure,
    CallFailureError,
    HandlerFailed,
    HandlerUnavailable,
    InvalidParameters,
    InvalidResult,
    OutcomeUnknown,
    Refused,
    ToolError,
    UnknownTool,
    encode_failure,
)
from fxai.tools.tool_info import CallContext, CallKey, ToolInfo

if TYPE_CHECKING:
    from fxai.messages.prompt import Prompt

_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder().decode

OnInvalidCall: TypeAlias = Literal["return", "error"]
"""The channel of the model's mistakes: a failed outcome for the model (default), or the error channel."""


@final
class Outcome(msgspec.Struct, frozen=True, eq=False, rename={"_encoded": "encoded_result"}):
    """The outcome of a call."""

    result: object
    """The success or failure as a Python value of any of the tools. Distinguish it with `match` or `isinstance`."""
    _encoded: Any
    is_failure: bool = False
    """True for a failure of the handler in failure mode `"return"`, and for a mistake of the model."""
    preliminary: bool = False
    """True if the handler still runs. The last outcome of a stream is not preliminary."""
    json_text: tuple[str, ...] = ()
    """The JSON pointers of strings in the arguments that fxai parsed as an object or an array."""
    handle: str = ""
    """The handle of a stored large result, or an empty string. `encoded_result` is then a preview."""

    @property
    def encoded_result(self) -> Any:
        """The encoded success or failure, a JSON value. The model and the history receive it."""
        if self._encoded.__class__ is msgspec.Raw:
            force_setattr(self, "_encoded", _DECODE(self._encoded))
        return self._encoded

    @property
    def encoded_json(self) -> bytes:
        """`encoded_result` as a JSON string."""
        return _ENCODE(self._encoded)

    def with_preview(self, preview: Any, handle: str) -> Outcome:
        """Return the outcome with a JSON value as its `encoded_result`, and the handle of the stored result."""
        return msgspec.structs.replace(self, _encoded=preview, handle=handle)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self._members == other._members

    @override
    def __hash__(self) -> int:
        return hash((self.is_failure, self.preliminary))

    @property
    def _members(self) -> tuple[Any, ...]:
        return self.result, self.encoded_result, self.is_failure, self.preliminary, self.json_text, self.handle

    @override
    def __repr__(self) -> str:
        names = ("result", "encoded_result", "is_failure", "preliminary", "json_text", "handle")
        return f"Outcome({', '.join(f'{name}={value!r}' for name, value in zip(names, self._members, strict=True))})"


class Keeper(Protocol):
    """An object that stores large results, so that the model receives a preview and a handle."""

    def keep(self, tool: ToolInfo | None, outcome: Outcome) -> EffectOf[Outcome]:
        """Return the outcome itself, or the outcome with a preview and the handle of its stored result."""
        ...

    def restore(self, tool: ToolInfo, outcome: Outcome) -> EffectOf[Outcome]:
        """Return an outcome from a journal with the value of its stored result."""
        ...


class _Refused(msgspec.Struct, eq=False):
    """Invalid arguments, with their validation errors."""

    faults: tuple[Fault, ...]


@final
class Call(msgspec.Struct, eq=False):
    """A call before it runs. `Call(…).effect` is the effect of its final outcome."""

    tools: Mapping[str, ToolInfo]
    name: str
    given: Any
    """The raw arguments, a JSON value or a JSON string."""
    is_text: bool = False
    call_id: str = ""
    on_invalid_call: OnInvalidCall = "return"
    limits: Limits = CALL_LIMITS
    prompt: Prompt | None = None
    deadline: float | None = None
    emit: Callable[[Outcome], EffectOf[None]] | None = None
    """The receiver of preliminary outcomes."""
    misfit: InvalidResult | None = None
    """The invalid preliminary value of the current run. The call then fails, even if the handler continues."""
    reads_text: bool = True
    """True if fxai can parse a JSON string instead of an object or array, if the tool also allows it."""
    rewritten: Callable[[Call], EffectOf[None]] | None = None
    """A function that runs before the handler if fxai parsed strings. `given` and `json_text` have changed then."""
    json_text: tuple[str, ...] = ()
    """The JSON pointers of parsed strings."""
    key: CallKey | None = None
    """The key of the call in a durable run."""
    refused: _Refused | None = None
    """The validation errors of an earlier approval check. fxai does not validate the arguments again."""
    keeper: Keeper | None = None
    """The object that stores a large result, or None."""

    @property
    def effect(self) -> EffectOf[Outcome, ToolError, Any]:
        """The effect of the final outcome."""
        return Enter(self.start)

    @property
    def inner_effect(self) -> EffectOf[Outcome, ToolError, Any]:
        """The effect without its own span, for a call whose span another object records."""
        ran: EffectOf[Outcome, ToolError, Any] = Enter(partial(self.start, is_inner=True))
        keeper = self.keeper
        return ran if keeper is None else ran.flat_map(lambda outcome: keeper.keep(self.tools.get(self.name), outcome))

    @property
    def check(self) -> EffectOf[Outcome | None, ToolError]:
        """The effect that validates a call and does not run it. It returns None if the call is valid.

        An invalid call has the same outcome as an invalid call of a tool with a handler.
        """
        return Suspend(self._check)

    def _check(self) -> EffectOf[Outcome | None, ToolError]:
        tool = self.tools.get(self.name)
        if tool is None:
            return self._mistake(UnknownTool(self.name, tuple(self.tools)))
        if tool.provider is not None and not tool.provider.requires_handler:
            return Succeed(None)  # the provider knows the parameters
        if self.parameters(tool) is None:
            return self._mistake(InvalidParameters(self.name, cast(_Refused, self.refused).faults))
        if self.json_text and self.rewritten is not None:
            return self.rewritten(self)
        return Succeed(None)

    def needs_approval(self, context: CallContext | None = None) -> EffectOf[bool, Never, Any]:
        """Return an effect that decides if the call needs approval. An invalid call never runs, so it needs none.

        Args:
            context: Context for the predicate of the tool. Default: the context of the handler.
        """
        return Suspend(lambda: self._ask(context))

    def parameters(self, tool: ToolInfo) -> Some[Any] | None:
        """Return the decoded arguments for the handler, or None if they are invalid."""
        params = self._decode(tool)
        if params.__class__ is _Refused:
            params = self._reread(tool, params)
        if params.__class__ is _Refused:
            self.refused = params
            return None
        return Some(params)

    def context(self, tool: ToolInfo) -> CallContext:
        """Return the context of the call for its handler."""
        return CallContext(
            tool, self.call_id, self.prompt, self.deadline, lambda value: self._emit(tool, value), self.key
        )

    def _emit(self, tool: ToolInfo, value: Any) -> EffectOf[None]:
        """Emit a preliminary value. An invalid value stops the handler, even without a reader."""
        try:
            encoded = tool.success.encode_mended(value)
        except DecodeError as error:
            failure = InvalidResult(tool.name, error.failure.faults, preliminary=True)
            return Suspend(lambda: self._stop(failure))
        return NOTHING if self.emit is None else self.emit(Outcome(value, encoded, preliminary=True))

    def _stop(self, failure: InvalidResult) -> EffectOf[Never]:
        self.misfit = failure
        return FailCause(Cause((Die(CallFailureError(failure)),)))

    def _ask(self, context: CallContext | None) -> EffectOf[bool, Never, Any]:
        tool = self.tools.get(self.name)
        if tool is None or tool.needs_approval is False:
            return Succeed(False)
        params = self.parameters(tool)
        if params is None:
            return Succeed(False)
        return needs_asking(tool, params.unwrap(), context or self.context(tool))

    def _observe(self, services: AnyContext) -> EffectOf[Outcome, ToolError, Any]:
        tracer: Tracer | None = services.find(Tracer)
        if tracer is None:
            return self.inner_effect
        operation = ToolExecution(self.name, self.tools.get(self.name), self.call_id, self.given)
        traced: EffectOf[Outcome, ToolError, Any] = tracer.trace(operation, self.inner_effect)
        return traced

    def start(self, fiber: Fiber, *, is_inner: bool = False) -> EffectOf[Outcome, ToolError, Any]:
        """Return the effect of the final outcome in a fiber. With `is_inner`, it has no span and no keeper."""
        services: AnyContext = fiber.env
        if (Tracer in services.services or self.keeper is not None) and not is_inner:
            return self._observe(services)
        if self.name not in self.tools:
            return self._mistake(UnknownTool(self.name, tuple(self.tools)))
        tool = self.tools[self.name]
        if self.refused is not None:
            return self._mistake(InvalidParameters(self.name, self.refused.faults))
        schema: Any = tool.parameters
        is_usual = self.is_text and schema.__class__ is Schema  # decoded here, in one frame less
        params = schema.decode_json_or(self.given, _Refused, self.limits) if is_usual else self._decode(tool)
        if params.__class__ is _Refused:
            if is_about_leaves(params.faults) or (params := self._reread(tool, params)).__class__ is _Refused:
                return self._mistake(InvalidParameters(self.name, params.faults))
            return self._run_reread()
        handler: Answering | None = services.services.get(tool.identity)
        if handler is None:
            raise missing_handler(tool)

        self.misfit = None  # an earlier run can have set it
        try:
            answer = handler.answer(params, tool, self, services)
            if answer.__class__ is CoroutineAnswer and fiber.starts_coroutines:
                answer = answer.start()
        except CallFailureError as ended:
            return _ended_outcome(tool, ended.failure)
        if self.misfit is None:
            kind = answer.__class__
            if kind is Success:
                return _success_outcome(tool, answer.unwrap())
            if kind is Failure:
                return _failure_outcome(tool, answer.failure())
        return _Resolving(answer_effect(answer), tool, self)

    def _run_reread(self) -> EffectOf[Outcome, ToolError, Any]:
        """Return the outcome of the call after fxai parsed JSON strings in the arguments."""
        ran: EffectOf[Outcome, ToolError, Any] = Enter(partial(self.start, is_inner=True))
        marked = ran.map(lambda outcome: msgspec.structs.replace(outcome, json_text=self.json_text))
        return marked if self.rewritten is None else self.rewritten(self).and_then(marked)

    def _decode(self, tool: ToolInfo) -> Any:
        """Return the decoded arguments for the handler, or `_Refused`."""
        parameters = tool.parameters
        if parameters.__class__ is Schema:
            schema: Any = parameters
            if self.is_text:
                return schema.decode_json_or(self.given, _Refused, self.limits)
            given = self.given
            if holds_more(given, most := self.limits.max_values):
                return _Refused((Fault("", f"at most {most} values in all", found_in(given)),))
            # A field of the type Any keeps the containers inside the data. The decoder copies all other containers.
            inside = given.values() if given.__class__ is dict else given if given.__class__ is list else ()
            return schema.decode_or(given if _CONTAINERS.isdisjoint(map(type, inside)) else _own(given), _Refused)
        try:
            value = read_text(self.given, self.limits) if self.is_text else self.given
            if tool.validation == "schema":
                faults = cast(JsonSchema, parameters).validate(value, plain=self.is_text)
                return _Refused(faults) if faults else value if self.is_text else _own(value)
            return _validate(tool, value if self.is_text else _own(value))
        except DecodeError as error:
            return _Refused(error.failure.faults)

    def _reread(self, tool: ToolInfo, refused: _Refused) -> Any:
        """Return the arguments with parsed JSON strings and store them in `given`, or return the validation errors."""
        if self.json_text or not self.reads_text:
            return refused
        if not tool.get(JsonText):
            return refused
        try:
            data = read_text(self.given, self.limits) if self.is_text else self.given
        except DecodeError:
            return refused
        if not holds_nested(data):
            return refused

        from fxai.schema.nested_text import read_texts  # it imports the validator, which typed schemas do not need

        read, locations = read_texts(_shape(tool), data, self.limits)
        if not locations:
            return refused
        as_it_was = self.given, self.is_text
        self.given, self.is_text = read, False
        again = self._decode(tool)
        if again.__class__ is _Refused:
            self.given, self.is_text = as_it_was
        else:
            self.json_text = locations
        return again

    def _mistake(self, failure: UnknownTool | InvalidParameters) -> EffectOf[Outcome, ToolError]:
        if self.on_invalid_call == "error":
            return FailCause(Cause((Fail(failure),)))
        return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))


@final
class _Resolving(Instruction, eq=False):
    """The effect that converts the exit of a handler to an outcome."""

    source: AnyEffect
    tool: ToolInfo
    call: Call
    op = Fold.op

    def on_value(self, value: Any) -> EffectOf[Outcome, ToolError]:
        misfit = self.call.misfit
        return _success_outcome(self.tool, value) if misfit is None else FailCause(Cause((Fail(misfit),)))

    def on_cause(self, cause: AnyCause) -> EffectOf[Outcome, ToolError] | None:
        """Return the effect of the first typed failure. Defects and interruptions are added, so that none is lost.

        The failure of a `CallFailureError` and an invalid preliminary value are typed failures too. They replace the
        handler's own failure. A preliminary value can belong to a run that several calls share.
        """
        reported = [one for one in cause.defects if isinstance(one, CallFailureError)]
        ended = self.call.misfit or next((one.failure for one in reported), None)
        others = tuple(r for r in cause.reasons if not isinstance(r, Fail))
        if ended is not None:
            rest = (r for r in others if not isinstance(r, Die) or r.defect not in reported)
            return _beside(_ended_outcome(self.tool, ended), Cause(tuple(rest)))
        failures = cause.failures
        return _beside(_failure_outcome(self.tool, failures[0]), Cause(others)) if failures else None


def _own(given: Any) -> Any:
    """Return a copy. A handler can change it without a change of the model's arguments or their display."""
    try:
        return copy_data(given)
    except RecursionError:  # only a tool without validation accepts data this deep
        return given


def _shape(tool: ToolInfo) -> JsonSchema:
    """Return the schema that reads the arguments."""
    if isinstance(tool.parameters, Schema):
        return tool.parameters.document
    shape: JsonSchema = getattr(tool.validation, "shape", tool.parameters)
    return shape


def _validate(tool: ToolInfo, value: Any) -> Any:
    """Return the parameters of a raw schema that have no validation, or their own, or `_Refused`."""
    validation = tool.validation
    if isinstance(validation, str):
        return value
    checked = validation(value)
    if isinstance(checked, Success):
        return checked.unwrap()
    return _Refused(as_decode_failure(checked.failure()).faults)


def as_decode_failure(error: Any) -> DecodeFailure:
    """Return the failure of a validation function as validation errors."""
    if isinstance(error, DecodeFailure):
        return error
    return DecodeFailure((Fault("", "a value that the validation of the tool accepts", str(error)),))


def _success_outcome(tool: ToolInfo, value: Any) -> EffectOf[Outcome, ToolError]:
    try:
        return Succeed(Outcome(value, tool.success.encode_mended(value)))
    except DecodeError as error:
        return FailCause(Cause((Fail(InvalidResult(tool.name, error.failure.faults)),)))


def _failure_outcome(tool: ToolInfo, value: Any) -> EffectOf[Outcome, ToolError]:
    try:
        encoded = tool.failure.encode_mended(value)
    except DecodeError as error:
        return FailCause(Cause((Fail(InvalidResult(tool.name, error.failure.faults, "failure")),)))
    if tool.failure_mode == "return":
        return Succeed(Outcome(value, encoded, is_failure=True))
    return FailCause(Cause((Fail(HandlerFailed(tool.name, value)),)))


def _beside(resolved: EffectOf[Outcome, ToolError], others: AnyCause) -> EffectOf[Outcome, ToolError]:
    """Add other reasons to a failure. If the failure became an outcome, return only the other reasons."""
    if not others.reasons:
        return resolved
    return FailCause(resolved.cause.combine(others) if isinstance(resolved, FailCause) else others)


def _ended_outcome(tool: ToolInfo, failure: CallFailure) -> EffectOf[Outcome, ToolError]:
    """Return the outcome of a call whose handler returned no result."""
    if tool.failure_mode == "return" and isinstance(failure, HandlerUnavailable | OutcomeUnknown | Refused):
        return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))
    return FailCause(Cause((Fail(failure),)))


def model_output(tool: ToolInfo, value: Any) -> Any:
    """Return the model's form of a success as a JSON value. `to_model_output` of the tool creates it.

    Raises:
        RuntimeError: If `to_model_output` raised an exception. The message names the tool, and the exception is the
            cause.
        TypeError: If `to_model_output` returned a value that JSON cannot represent.
    """
    try:
        output = tool.to_model_output(value) if tool.to_model_output is not None else tool.success.encode_unsafe(value)
    except BaseException as bug:
        if not is_bug(bug):
            raise
        raised = f"to_model_output of the tool {tool.name!r} raised {type(bug).__name__}: {bug}"
        raise RuntimeError(raised) from bug
    if is_plain(output) or is_plain(output := mend_data(output)):
        return output
    faults = plain_faults(output)
    if faults:
        found = "; ".join(str(fault) for fault in faults)
        raise TypeError(f"to_model_output of {tool.name!r} must return a JSON value: {found}")
    return msgspec.json.decode(written(output))


_CONTAINERS = frozenset((dict, list))


PREDICATE_SECONDS: Final = 10.0
"""Seconds by the `Clock` until fxai stops a predicate and requires an approval."""

_CRASHED = "call of %r requires an approval, because its needs_approval ended with %r"


def needs_asking(tool: ToolInfo, params: Any, context: CallContext) -> EffectOf[bool, Never, Any]:
    """Return an effect that decides if a call with these decoded arguments needs approval.

    A call needs approval if the predicate fails, raises, returns a value other than False, or returns an effect that
    runs longer than `PREDICATE_SECONDS`. fxai logs a failure, an exception, and a timeout to `fxai.tools`. fxai cannot
    stop a plain function that blocks forever. If the predicate must wait, return an effect.

    >>> from fxai.effects import fx
    >>> from fxai.tools.tool import Tool
    >>> pay = Tool.make("pay", parameters=int, needs_approval=lambda amount, call: amount > 100)
    >>> [fx.run_sync(needs_asking(pay, amount, CallContext(pay))) for amount in (5, 500)]
    [False, True]
    """
    needs = tool.needs_approval
    if isinstance(needs, bool):
        return Succeed(needs)

    def ask() -> AnyEffect:
        answer: Any = needs(params, context)
        is_effect = isinstance(cast(object, answer), EffectOf)
        return _in_time(answer) if is_effect else Succeed(answer)

    def on_cause(cause: AnyCause) -> EffectOf[bool] | None:
        if not cause.defects and not cause.failures:
            return None
        import logging  # only a broken predicate needs it

        logging.getLogger("fxai.tools").warning(_CRASHED, tool.name, cause.squash())
        return Succeed(True)

    return Fold(Suspend(ask), on_cause, lambda answer: Succeed(answer is not False))


def _in_time(effect: AnyEffect) -> AnyEffect:
    def start(fiber: Fiber) -> Any:  # not `Effect.timeout`, which a durable run records
        clock = fiber.clock()
        return fiber.cut(effect, lambda scope: clock.deadline(scope, PREDICATE_SECONDS), Timeout(PREDICATE_SECONDS))

    return AwaitExit(start)
