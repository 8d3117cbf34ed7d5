"""Step requests: what one step of a run asks, of which model, and how its calls are run.

>>> StepRequest(None, ModelRequest(Prompt.make("Hello")), Resolution({})).resolves
True
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, final

import msgspec

from fxai.agents.deadline import LATE
from fxai.agents.pairing import unpaired
from fxai.agents.run import Run
from fxai.agents.step import Steps
from fxai.agents.step_setup import StepSetup, is_effect
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import EffectOf, FailCause, Generate, Local, Succeed
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError, InvalidUserInputError
from fxai.messages.prompt import Prompt
from fxai.models.held import HeldModels, hold
from fxai.models.language_model import LanguageModel, RoundOptions, prepare
from fxai.models.request import ModelRequest
from fxai.models.resolve import Resolution
from fxai.tools.source import BoundToolkit
from fxai.tools.toolkit import Toolkit

__all__ = ["StepRequest", "step_request", "tools_now"]

_Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]


@final
class StepRequest(msgspec.Struct, frozen=True, eq=False):
    """One question to a model, and how the calls of its answer are run."""

    model: LanguageModel | None
    """The model that is asked; None for the one of the run."""
    request: ModelRequest
    resolution: Resolution
    resolves: bool = True
    """Whether calls are run."""
    layer: LayerOf[Any, Any, Any] | None = None
    """The handlers that are there for this step alone."""


def step_request(run: Run) -> EffectOf[Any, Any, Any] | StepRequest:
    """What the next step of a run asks; `LATE` where the time was up before that was known.

    It is no effect where nothing is to be found out: most runs ask the same way in every step.
    """
    plan = run.plan
    if plan.prepare_step or plan.tools_now is not None:
        return Generate(_prepared, (run,), {})
    options: RoundOptions = {**run.options, "tool_choice": "none"} if run.is_last else run.options
    asked = _made(run, run.told, plan.toolkit, options)
    return _refused(asked) if isinstance(asked, AiError) else asked


def tools_now(run: Run) -> EffectOf[Any, Any, Any]:
    """The tools of the next step with their handlers, `LATE` where the time was up; those of the run have none here."""
    live = run.plan.tools_now
    return Succeed(BoundToolkit(run.plan.toolkit, ())) if live is None else run.cut(live)


def _prepared(run: Run) -> _Steps:
    run.in_round = False
    bound = yield tools_now(run)
    if bound is LATE:
        return LATE
    setup = StepSetup(len(run.steps) + 1, Steps(run.steps), run.told, bound.toolkit, run.options)
    for prepare_step in run.plan.prepare_step:
        given: Any = prepare_step(setup)
        setup = (yield run.cut(given)) if is_effect(given) else given
        if setup is LATE:
            return LATE
        if not isinstance(setup, StepSetup):
            raise TypeError(f"prepare_step gave {setup!r}: it gives the setup, changed or as it is, or an effect of it")
    if run.is_last:
        setup = setup.with_choice("none")
    model = None
    if setup.model is not None:
        held: HeldModels = yield _held(run)
        model = held.model_of(setup.model)
    layer = None if run.plan.tools_now is None else bound.layer
    run.in_round = True
    if setup.messages is not run.told:
        yield from _paired(run, setup.messages)
    asked = _made(run, setup.messages, setup.toolkit, setup.options, model, layer)
    return (yield _refused(asked)) if isinstance(asked, AiError) else asked


def _paired(run: Run, shown: Prompt) -> _Steps:
    """Fails where the messages of a step were changed so that a call stands without its result."""
    split = set(unpaired(shown))
    split = split and split.difference(unpaired(run.told))  # what was so before is the caller's
    if split:
        said = ", ".join(sorted(split))
        description = (
            f"prepare_step shows a call without its result right behind it, or a result without its call: {said}; "
            "keep both or leave out both"
        )
        yield _refused(AiError("Agent", "prepare_step", InvalidUserInputError(description)))


def _made(
    run: Run,
    told: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    model: LanguageModel | None = None,
    layer: LayerOf[Any, Any, Any] | None = None,
) -> StepRequest | AiError:
    prepared = prepare(told, toolkit, options, is_hidden=run.plan.is_hidden)
    if isinstance(prepared, AiError):
        return prepared
    request, resolution = prepared
    if run.plan.output is not None:
        request = request.answered_as(run.plan.output)
    return StepRequest(model, request, resolution, options.get("resolve_tools", True), layer)


def _refused(error: AiError) -> EffectOf[Any, AiError, Any]:
    return FailCause(Cause((Fail(error),)))


def _held(run: Run) -> EffectOf[HeldModels, Any, Any]:
    """What holds the models of single steps until the run is over."""
    if run.held is not None:
        return Succeed(run.held)

    def kept(held: HeldModels) -> HeldModels:
        run.held = held
        return held

    return Local(hold(), lambda context: context.put(Scope, run.scope)).map(kept)
