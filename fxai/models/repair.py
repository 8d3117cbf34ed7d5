"""Repair of invalid calls: correct an invalid call from a model once before it fails. Rounds use this module.

>>> from returns.result import Success
>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> from fxai.testing import ScriptedModel, call, text
>>> from fxai.tools.tool import Tool
>>> from fxai.tools.toolkit import Toolkit
>>> ping = Tool.make("ping", success=str)
>>> def rename(call, failure):
...     return ToolCall(call.id, "ping", {})
>>> asked = LanguageModel.generate_text("Ping!", toolkit=Toolkit.make(ping), repair=rename)
>>> answered = asked.provide(ping.handler(lambda _: Success("pong")))
>>> [result.result for result in fx.run(answered.provide(ScriptedModel.make([call("pong", {})]).layer)).tool_results]
['pong']
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, final

import msgspec
from returns.result import Success

from fxai.effects.cause import Cause, Die, Exit, Failed
from fxai.effects.constructor import fail, is_plain_awaitable, lift_any
from fxai.effects.effect import AnyEffect, EffectOf, FailCause, Succeed, Suspend
from fxai.messages.message import merge_metadata
from fxai.messages.part import ToolCall, WarningPart
from fxai.messages.response import Response
from fxai.models.interceptor import LeftRunError, WorkInfo
from fxai.models.model_request import Repair, ToolChoices, allows
from fxai.tools.call import Call, Outcome
from fxai.tools.tool_error import Interrupted, InvalidParameters, OutcomeUnknown, UnknownTool, encode_failure
from fxai.tools.tool_info import ToolInfo


@final
class RepairBrokeError(RuntimeError):
    """A defect of a repair, as opposed to a defect of the tool."""

    @staticmethod
    def of(call: ToolCall, bug: BaseException) -> BaseException:
        """Return the defect of a repair with its bug as the cause. Return a `LeftRunError` unchanged."""
        if not isinstance(bug, Exception) or isinstance(bug, LeftRunError):
            return bug
        broke = RepairBrokeError(f"repair of the call {call.id!r} of {call.name!r} raised {type(bug).__name__}: {bug}")
        broke.__cause__ = bug
        return broke


def mend(
    repair: Repair,
    call: ToolCall,
    failure: UnknownTool | InvalidParameters,
    choice: ToolChoices,
    make: Callable[[ToolCall], Call],
    run: Callable[[Call], AnyEffect],
    replace: Callable[[ToolCall | WarningPart], EffectOf[None]],
    around: Callable[[AnyEffect], AnyEffect] | None = None,
) -> Generator[AnyEffect, Any, Any]:
    """Ask a repair for another call, run this call instead of the invalid call, and return its outcome.

    If the new call needs an approval, it does not run, and fxai requests no approval, because the user could not see
    its origin. The failure tells the model to make the call itself. `run` returns the effect of a call that `make`
    prepared. `replace` replaces the invalid call with the call that runs, or adds the warning that no call replaces it.
    `around` wraps the effect of the repair.
    """
    asking = _ask_in_words(repair, call, failure)
    given: ToolCall | str | None = yield asking if around is None else around(asking)
    made = make(call)
    if given is None:
        return (yield _mistake(failure, made))
    if isinstance(given, str):
        why = given
    elif (other := _replacement(call, given, choice, made.tools)) is None:
        why = f"it returned a call of {given.name!r}, which is not allowed here"
    else:
        made = make(other)
        if not (yield made.needs_approval()):
            yield replace(call_as_read(other, made))
            return (yield run(made))
        why = f"it returned a call of {other.name!r}, which needs an approval. The model must make this call"
    warning = f"repair of the call {call.id!r} of {call.name!r} failed: {why}"
    yield replace(WarningPart(message=warning, subject=call.name))
    return (yield _mistake(msgspec.structs.replace(failure, repair=why), made))


def _ask_in_words(repair: Repair, call: ToolCall, failure: UnknownTool | InvalidParameters) -> AnyEffect:
    """Return the call of a repair, or the reason for its failure as a string."""

    def read(end: Exit[ToolCall | None, Any]) -> AnyEffect:
        if not isinstance(end, Failed):
            return Succeed(end.value)
        why = _why_it_failed(end.cause, call)
        return FailCause(why) if isinstance(why, Cause) else Succeed(why)

    return Suspend(lambda: _ask(repair, call, failure)).exit().flat_map(read)


def repair_work(location: str | None, at: int, call: ToolCall) -> WorkInfo:
    """Return the description of a repair as work of the run, with a result that a journal can store."""

    def encode(given: ToolCall | str | None) -> Any:
        return Response((given,)).to_data() if isinstance(given, ToolCall) else given

    def decode(data: Any) -> Any:
        return data if data is None or isinstance(data, str) else Response.from_data(data).unwrap().content[0]

    name = f"repair {call.id}" if location is None else f"repair {location}/{at}"
    return WorkInfo(name, encode, decode, unique=location is not None)


def _why_it_failed(cause: Cause[Any], call: ToolCall) -> str | Cause[Any]:
    """Return the reason for a failed repair for the model, or the cause after a defect or an interruption."""
    if cause.defects:
        broken = [RepairBrokeError.of(call, defect) for defect in cause.defects]
        return Cause((*map(Die, broken), *(reason for reason in cause.reasons if not isinstance(reason, Die))))
    if not cause.failures or len(cause.failures) < len(cause.reasons):
        return cause
    return "; ".join(map(str, cause.failures))


def _mistake(failure: UnknownTool | InvalidParameters, made: Call) -> AnyEffect:
    """Return the failure of the model's call as a failed outcome or as a failed effect."""
    if made.on_invalid_call == "error":
        return fail(failure)
    return Succeed(Outcome(failure, encode_failure(failure), is_failure=True))


def _replacement(
    call: ToolCall, other: ToolCall, choice: ToolChoices, tools: Mapping[str, ToolInfo]
) -> ToolCall | None:
    """Return the call that replaces `call`, or None if it is not allowed either."""
    tool = tools.get(other.name)
    if tool is None or not allows(choice, other.name):
        return None
    return ToolCall(
        call.id,
        other.name,
        other.params,
        dynamic=tool.identity.kind == "dynamic",
        params_text=other.params_text,
        repaired=True,
        metadata=merge_metadata(call.metadata, other.metadata),
    )


def call_as_read(call: ToolCall, made: Call) -> ToolCall:
    """Return the call with the parameters that run, or the call itself if fxai parsed no JSON text in them."""
    if not made.json_text:
        return call
    return msgspec.structs.replace(call, params=made.given, params_text=None, repaired=True, json_text=made.json_text)


def _ask(repair: Repair, call: ToolCall, failure: UnknownTool | InvalidParameters) -> EffectOf[ToolCall | None]:
    """Return an effect of the call that a repair returns in any form."""
    given: Any = repair(call, failure)
    if given is None or isinstance(given, ToolCall):
        return Succeed(given)
    effect = lift_any(_await(given) if is_plain_awaitable(given) else given)
    return Succeed(_check_call(given)) if effect is None else effect.map(_check_call)


async def _await(given: Any) -> Any:
    awaited = await given
    return awaited if lift_any(awaited) is not None else Success(awaited)


def _check_call(given: Any) -> ToolCall | None:
    if given is None or isinstance(given, ToolCall):
        return given
    raise TypeError(f"repair returned {given!r}. Return a ToolCall, None, or an effect of one of them.")


def explain_break(call: ToolCall, cause: Cause[Any]) -> OutcomeUnknown | Interrupted:
    """Return the reason why a call has no result: its run stopped, or a defect, without details for the model."""
    left = next((defect.failure for defect in cause.defects if isinstance(defect, LeftRunError)), None)
    if left is not None:
        return left if isinstance(left, OutcomeUnknown) else Interrupted(call.name, str(left))
    broke = "the repair of the call" if any(isinstance(d, RepairBrokeError) for d in cause.defects) else "the tool"
    return Interrupted(call.name, f"{broke} raised an unexpected error. Its details are not available to the model.")
