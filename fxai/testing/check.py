"""Checks of your own tools. Use them to test a tool, a toolkit, or handlers against every law with generated data.

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
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import msgspec
from typing_extensions import Unpack

from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import run_exit
from fxai.testing.law import Break, Law, LawCase, NoExamplesError, Trial, TrialOptions
from fxai.testing.tool_law import TOOL_LAWS, TOOLKIT_LAWS, LawSubject
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
    """A tool, the layer with its handler, and the arguments of its calls."""

    tool: AnyTool
    layer: AnyLayer
    given: SearchStrategy[object] | None = None

    def outcome(self, given: object) -> Exit[Outcome, Any]:
        """Call the tool with a JSON value and return the exit. Each call builds the layer again."""
        call: AnyEffect = Toolkit.make(self.tool).call(self.tool.name, given)
        return run_exit(cast("EffectOf[Any, Any]", call.provide(self.layer)))


def apart(check: Callable[[], _A]) -> _A:
    """Run a check and return its result. Use another thread if this thread runs an event loop, which handlers need."""
    if event_loop() is None:
        return check()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(check).result()


def _calls(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import parameters

    def end(given: object) -> Break | None:
        exit_ = subject.outcome(given)
        if not isinstance(exit_, Succeeded):
            return _wrong(exit_.cause, given)
        outcome = exit_.value
        if isinstance(outcome.result, InvalidParameters) and outcome.is_failure:
            where = outcome.result.faults[0].pointer
            return Break(given, where, str(outcome.result), "generate parameters that the tool accepts")
        schema = subject.tool.failure if outcome.is_failure else subject.tool.success
        if faults := schema.written_document.validate(outcome.encoded_result):
            returned = Break(outcome.encoded_result, "", "", "").json
            found = f"it returned {returned}, which its schema rejects: {faults[0]}"
            return Break(given, "", found, "declare the type that the handler returns")
        return None

    data = parameters(subject.tool) if subject.given is None else subject.given
    return apart(lambda: trial.find_break(data, end))


def _wrong(cause: Cause[Any], given: object) -> Break | None:
    """Return the break of a call's exit, or None if the exit is a declared failure."""
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
            return Break(given, "", f"the call failed: {reason.error}", "handle the failures of the layer in the layer")
    return None


def _unknown_members(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import invalid_parameters

    def reject(given: object) -> Break | None:
        exit_ = subject.outcome(given)
        if isinstance(exit_, Succeeded) and isinstance(exit_.value.result, InvalidParameters):
            return None
        remedy = "report this bug: fxai must reject invalid parameters before the handler runs"
        return Break(given, "", f"the call ended with {exit_!r}", remedy)

    try:
        return apart(lambda: trial.find_break(invalid_parameters(subject.tool), reject))
    except NoExamplesError:
        return None  # the tool accepts everything


def _complete(subject: tuple[Toolkit[Any], AnyLayer], _: Trial) -> Break | None:
    kit, layer = subject
    built: Any = kit.to_layer(layer)
    exit_ = apart(lambda: run_exit(Succeed(None).provide(built)))
    if isinstance(exit_, Succeeded):
        return None
    names = [tool.name for tool in kit]
    error = next((reason.defect for reason in exit_.cause.reasons if isinstance(reason, Die)), None)
    if isinstance(error, HandlerError):
        message = str(error).partition(". ")[0]
        return Break(names, "", message, "provide one handler for each tool, and no other handlers")
    return Break(names, "", f"cannot build the layer: {exit_.cause}", "provide the services that the layer needs")


HANDLER_LAWS: Final = (
    Law("calls end as declared", "every valid call ends in a success or a declared failure", _calls),
    Law("invalid calls are refused", "arguments that the schema rejects never reach the handler", _unknown_members),
)
"""The laws of every handler."""

LAYER_LAWS: Final = (Law("handlers are complete", "the layer has one handler for each tool that needs one", _complete),)
"""The laws of every toolkit with its layer."""


def check_tool(
    tool: AnyTool, *, parameters: SearchStrategy[object] | None = None, **trial: Unpack[TrialOptions]
) -> None:
    """Check a tool against every law of tools.

    - Decoding an encoded value returns the value.
    - The JSON Schema accepts the same data as the decoder, on each installed validator.
    - Encoded successes and failures match their schemas.
    - The strict schema of each provider accepts the same data as the tool's own schema.
    - Annotations preserve kind, schema, and identity.
    - Input examples are valid.

    A type of pydantic can have validators and serializers that its JSON Schema does not describe. A law is then true in
    one direction only. `check_tool` checks this direction and warns with `OneSidedLawWarning`.

    Args:
        tool: Tool of any kind.
        parameters: Strategy of valid parameters as JSON values. Default: data from the schema.
        trial: Effort per law: `max_examples` (default: 100), `seed`, and `derandomize`, see `TrialOptions`.

    Raises:
        LawError: If a law is false. The error contains the smallest counterexample, its location, and the remedy.
    """
    _check(_tool_cases(tool, parameters, Trial(**trial)))


def check_toolkit(toolkit: Toolkit[Any], **trial: Unpack[TrialOptions]) -> None:
    """Check a toolkit against every law: the laws of each tool, of merging, and of reversible names.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(laws_of(toolkit, **trial))


def check_handler(
    tool: AnyTool, layer: AnyLayer, *, parameters: SearchStrategy[object] | None = None, **trial: Unpack[TrialOptions]
) -> None:
    """Check the handler of a tool. Each valid call must end with a success or a declared failure, without a defect.

    The encoded result must match its schema, and arguments that the schema rejects must never reach the handler. Each
    call builds the layer again. The layer must need nothing, so provide test services if the handler needs services. If
    an event loop already runs, the calls run in another thread.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(_handler_cases(tool, layer, parameters, Trial(**trial)))


def check_layer(
    toolkit: Toolkit[Any],
    layer: AnyLayer,
    *,
    parameters: Mapping[str, SearchStrategy[object]] | None = None,
    **trial: Unpack[TrialOptions],
) -> None:
    """Check the layer of a toolkit. It must have one handler for each tool that needs one, as for `check_handler`.

    Args:
        toolkit: The tools.
        layer: The handlers. The layer must need nothing.
        parameters: Strategies of valid parameters as JSON values, by tool name.
        trial: Effort per law: `max_examples` (default: 100), `seed`, and `derandomize`, see `TrialOptions`.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(_layer_cases(toolkit, layer, parameters or {}, Trial(**trial)))


def laws_of(
    toolkit: Toolkit[Any] | AnyTool,
    layer: AnyLayer | None = None,
    *,
    parameters: Mapping[str, SearchStrategy[object]] | None = None,
    **trial: Unpack[TrialOptions],
) -> list[LawCase]:
    """Return one case per law of a toolkit or tool, of its tools, and, with a layer, of its handlers.

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


def _tool_cases(tool: AnyTool, given: SearchStrategy[object] | None, trial: Trial) -> list[LawCase]:
    subject = LawSubject(tool, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in TOOL_LAWS]


def _handler_cases(tool: AnyTool, layer: AnyLayer, given: SearchStrategy[object] | None, trial: Trial) -> list[LawCase]:
    subject = Handled(tool, layer, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in HANDLER_LAWS]


def _layer_cases(
    kit: Toolkit[Any], layer: AnyLayer, given: Mapping[str, SearchStrategy[object]], trial: Trial
) -> list[LawCase]:
    cases = [LawCase(law, (kit, layer), "layer", f"the layer of {kit!r}", trial) for law in LAYER_LAWS]
    for tool in kit:
        if tool.requires_handler:
            cases += _handler_cases(tool, layer, given.get(tool.name), trial)
    return cases
