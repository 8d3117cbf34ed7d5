"""The laws of handlers: every valid call ends as its tool declares, and what is invalid never reaches the handler.

>>> from returns.result import Success
>>> from fxai.testing.law import Trial
>>> from fxai.tools.tool import Tool
>>> share = Tool.make("share", parameters=int, success=float)
>>> HANDLER_LAWS[0].check(Handled(share, share.handler(lambda n: Success(12 / n))), "share", Trial(seed=1))
Traceback (most recent call last):
fxai.testing.law.LawError: share breaks a law: every valid call ends in a success or a declared failure ...
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import run_exit
from fxai.effects.spawn import event_loop
from fxai.testing.law import Break, Law, NoExamples, Trial
from fxai.testing.tool_law import engines
from fxai.tools.call import Outcome
from fxai.tools.failure import HandlerFailed, InvalidParameters, InvalidResult
from fxai.tools.tool import AnyTool
from fxai.tools.toolkit import HandlerError, Toolkit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["HANDLER_LAWS", "LAYER_LAWS", "Handled", "apart"]

_A = TypeVar("_A")


@final
class Handled:
    """A tool, the layer that holds its handler, and the data that it is called with."""

    __slots__ = ("given", "layer", "tool")

    def __init__(self, tool: AnyTool, layer: AnyLayer, given: SearchStrategy[Any] | None = None) -> None:
        self.tool = tool
        self.layer = layer
        self.given = given

    def outcome(self, given: Any) -> Exit[Outcome, Any]:
        """How a call with plain JSON data ends; the layer is built for it anew."""
        call: AnyEffect = Toolkit.make(self.tool).call(self.tool.name, given)
        return run_exit(cast("EffectOf[Any, Any]", call.provide(self.layer)))


def apart(check: Callable[[], _A]) -> _A:
    """What a check gives, in a thread of its own where an event loop runs in this one: handlers need a loop."""
    if event_loop() is None:
        return check()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(check).result()


def _calls(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import parameters

    given = parameters(subject.tool) if subject.given is None else subject.given
    return apart(lambda: trial.broken(given, partial(_ends, subject)))


def _ends(subject: Handled, given: Any) -> Break | None:
    exit_ = subject.outcome(given)
    if not isinstance(exit_, Succeeded):
        return _wrong(exit_.cause, given)
    outcome = exit_.value
    if isinstance(outcome.result, InvalidParameters) and outcome.is_failure:
        return Break(
            given, outcome.result.faults[0].pointer, str(outcome.result), "draw parameters that the tool takes"
        )
    tool = subject.tool
    schema = tool.failure if outcome.is_failure else tool.success
    for engine in engines():
        if faults := schema.document.validate(outcome.encoded_result, engine=engine):
            said = f"it gave {Break(outcome.encoded_result, '', '', '').json}, which its schema refuses: {faults[0]}"
            return Break(given, "", said, "declare the type that the handler gives")
    return None


def _wrong(cause: Cause[Any], given: Any) -> Break | None:
    """What is wrong with how a call ended, unless that is a declared failure."""
    for reason in cause.reasons:
        if isinstance(reason, Die):
            error = reason.defect
            said = f"the handler crashed: {type(error).__name__}: {error}"
            return Break(given, "", said, "return Failure(...) of the tool's failure type, or refuse it in the schema")
        if not isinstance(reason, Fail):
            return Break(given, "", "the handler interrupted itself", "return Failure(...) instead")
        if isinstance(reason.error, InvalidResult):
            return Break(given, "", str(reason.error), "return what the tool declares, or declare what is returned")
        if not isinstance(reason.error, HandlerFailed):
            return Break(given, "", f"the call failed: {reason.error}", "let the layer's own failures not get here")
    return None


def _strangers(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import invalid_parameters

    try:
        return apart(lambda: trial.broken(invalid_parameters(subject.tool), partial(_refused, subject)))
    except NoExamples:
        return None  # it takes everything


def _refused(subject: Handled, given: Any) -> Break | None:
    exit_ = subject.outcome(given)
    if isinstance(exit_, Succeeded) and isinstance(exit_.value.result, InvalidParameters):
        return None
    return Break(
        given, "", f"the call ended in {exit_!r}", "report it: invalid parameters are refused before the handler"
    )


def _complete(subject: tuple[Toolkit[Any], AnyLayer], _: Trial) -> Break | None:
    kit, layer = subject
    built: Any = kit.to_layer(layer)
    exit_ = apart(lambda: run_exit(Succeed(None).provide(built)))
    if isinstance(exit_, Succeeded):
        return None
    names = [tool.name for tool in kit]
    error = next((reason.defect for reason in exit_.cause.reasons if isinstance(reason, Die)), None)
    if isinstance(error, HandlerError):
        return Break(names, "", str(error), "give each tool one handler, and nothing else")
    return Break(names, "", f"the layer cannot be built: {exit_.cause}", "give the layer what it needs")


HANDLER_LAWS: Final = (
    Law("calls end as declared", "every valid call ends in a success or a declared failure", _calls),
    Law("invalid calls are refused", "what the schema refuses never reaches the handler", _strangers),
)
"""What holds for every handler, each law for itself."""

LAYER_LAWS: Final = (Law("handlers are complete", "the layer has one handler for each tool that needs one", _complete),)
"""What holds for every toolkit and its layer."""
