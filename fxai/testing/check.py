"""Checks of your own tools: each law that a tool, a toolkit or its handlers should hold, tried on drawn data.

>>> import msgspec
>>> from fxai.tools.tool import Tool
>>> class Share(msgspec.Struct, frozen=True):
...     of: int
...     among: int
>>> share = Tool.make("share", parameters=Share, success=int)
>>> check_tool(share, max_examples=20)
>>> from returns.result import Success
>>> check_handler(share, share.handler(lambda given: Success(given.of // given.among)), seed=1)
Traceback (most recent call last):
fxai.testing.law.LawError: the tool 'share' breaks a law: every valid call ends in a success or a declared failure
  with:  {"of":0,"among":0}
  found: the handler crashed: ZeroDivisionError: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import msgspec
from typing_extensions import Unpack

from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import run_exit
from fxai.testing.law import Break, Law, LawCase, NoExamplesError, Trial, TrialOptions
from fxai.testing.tool_law import TOOL_LAWS, TOOLKIT_LAWS, Subject
from fxai.tools.call import Outcome
from fxai.tools.handler import HandlerError
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_error import HandlerFailed, InvalidParameters, InvalidResult
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_A = TypeVar("_A")


@final
class Handled(msgspec.Struct, frozen=True, eq=False):
    """A tool, the layer that holds its handler, and the data that it is called with."""

    tool: AnyTool
    layer: AnyLayer
    given: SearchStrategy[Any] | None = None

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
    return apart(lambda: trial.find_break(given, partial(_ends, subject)))


def _ends(subject: Handled, given: Any) -> Break | None:
    exit_ = subject.outcome(given)
    if not isinstance(exit_, Succeeded):
        return _wrong(exit_.cause, given)
    outcome = exit_.value
    if isinstance(outcome.result, InvalidParameters) and outcome.is_failure:
        where = outcome.result.faults[0].pointer
        return Break(given, where, str(outcome.result), "draw parameters that the tool takes")
    tool = subject.tool
    schema = tool.failure if outcome.is_failure else tool.success
    if faults := schema.written_document.validate(outcome.encoded_result):
        found = f"it gave {Break(outcome.encoded_result, '', '', '').json}, which its schema refuses: {faults[0]}"
        return Break(given, "", found, "declare the type that the handler gives")
    return None


def _wrong(cause: Cause[Any], given: Any) -> Break | None:
    """What is wrong with how a call ended, unless that is a declared failure."""
    for reason in cause.reasons:
        if isinstance(reason, Die):
            error = reason.defect
            found = f"the handler crashed: {type(error).__name__}: {error}"
            return Break(given, "", found, "return Failure(...) of the tool's failure type, or refuse it in the schema")
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
        return apart(lambda: trial.find_break(invalid_parameters(subject.tool), partial(_refuses, subject)))
    except NoExamplesError:
        return None  # it takes everything


def _refuses(subject: Handled, given: Any) -> Break | None:
    exit_ = subject.outcome(given)
    if isinstance(exit_, Succeeded) and isinstance(exit_.value.result, InvalidParameters):
        return None
    remedy = "report it: invalid parameters are refused before the handler"
    return Break(given, "", f"the call ended in {exit_!r}", remedy)


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


def check_tool(tool: AnyTool, *, parameters: SearchStrategy[Any] | None = None, **trial: Unpack[TrialOptions]) -> None:
    """Hold a tool to every law of tools.

    What is written is read as what it was; the JSON Schema takes exactly what the decoder takes, on each validator that
    is installed; successes and failures are written as their schemas say; the strict schema of each provider says what
    the tool's own says; annotating keeps kind, schema and identity; input examples are valid.

    A type of pydantic can have validators and serializers that its JSON Schema does not describe. Then a law is true
    in one direction only. `check_tool` checks this direction, and warns with `OneSidedLawWarning`.

    Args:
        tool: any kind of tool.
        parameters: valid parameters as plain JSON data, where those drawn from the schema will not do.
        trial: how hard each law is tried: `max_examples` (100), `seed`, `derandomize`, as in `TrialOptions`.

    Raises:
        LawError: a law does not hold; says the smallest data that shows it, where, and what to do.
    """
    _check(_tool_cases(tool, parameters, Trial(**trial)))


def check_toolkit(toolkit: Toolkit[Any], **trial: Unpack[TrialOptions]) -> None:
    """Hold a toolkit to every law: each tool to its own, merging to those of a monoid, names to being reversible.

    Raises:
        LawError: as `check_tool`.
    """
    _check(laws_of(toolkit, **trial))


def check_handler(
    tool: AnyTool, layer: AnyLayer, *, parameters: SearchStrategy[Any] | None = None, **trial: Unpack[TrialOptions]
) -> None:
    """Hold a tool's handler to its word: each valid call ends in a success or a declared failure, never in a crash.

    What the handler gives is written as its schema says, and what the schema refuses never reaches it. The layer is
    built anew for each call; it must need nothing, so give it test services where it needs some. Within a running
    event loop the calls are run in a thread of their own.

    Raises:
        LawError: as `check_tool`.
    """
    _check(_handler_cases(tool, layer, parameters, Trial(**trial)))


def check_layer(
    toolkit: Toolkit[Any],
    layer: AnyLayer,
    *,
    parameters: Mapping[str, SearchStrategy[Any]] | None = None,
    **trial: Unpack[TrialOptions],
) -> None:
    """Hold a toolkit's layer to its word: one handler for each tool that needs one, each as `check_handler` says.

    Args:
        toolkit: the tools.
        layer: their handlers, which need nothing more.
        parameters: by a tool's name, valid parameters as plain JSON data.
        trial: how hard each law is tried: `max_examples` (100), `seed`, `derandomize`, as in `TrialOptions`.

    Raises:
        LawError: as `check_tool`.
    """
    _check(_layer_cases(toolkit, layer, parameters or {}, Trial(**trial)))


def laws_of(
    toolkit: Toolkit[Any] | AnyTool,
    layer: AnyLayer | None = None,
    *,
    parameters: Mapping[str, SearchStrategy[Any]] | None = None,
    **trial: Unpack[TrialOptions],
) -> list[LawCase]:
    """Every law of a toolkit (or of one tool), of its tools and, with a layer, of its handlers: one case each.

    >>> str(laws_of(Tool.make("ping"))[0])
    'ping: decoding undoes encoding'
    """
    kit: Toolkit[Any] = Toolkit.of([toolkit]) if isinstance(toolkit, Tool) else toolkit
    how, given = Trial(**trial), parameters or {}
    cases = [case for tool in kit for case in _tool_cases(tool, given.get(tool.name), how)]
    if not isinstance(toolkit, Tool):
        cases += [LawCase(law, kit, "toolkit", f"the {kit!r}", how) for law in TOOLKIT_LAWS]
    return cases if layer is None else [*cases, *_layer_cases(kit, layer, given, how)]


def _check(cases: Iterable[LawCase]) -> None:
    for case in cases:
        case.check()


def _tool_cases(tool: AnyTool, given: SearchStrategy[Any] | None, trial: Trial) -> list[LawCase]:
    subject = Subject(tool, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in TOOL_LAWS]


def _handler_cases(tool: AnyTool, layer: AnyLayer, given: SearchStrategy[Any] | None, trial: Trial) -> list[LawCase]:
    subject = Handled(tool, layer, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in HANDLER_LAWS]


def _layer_cases(
    kit: Toolkit[Any], layer: AnyLayer, given: Mapping[str, SearchStrategy[Any]], trial: Trial
) -> list[LawCase]:
    cases = [LawCase(law, (kit, layer), "layer", f"the layer of {kit!r}", trial) for law in LAYER_LAWS]
    for tool in kit:
        if tool.requires_handler:
            cases += _handler_cases(tool, layer, given.get(tool.name), trial)
    return cases
