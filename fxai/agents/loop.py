"""The loop: a model asked again and again, its calls run in between, until it is done.

Ask, run the calls, append the results, ask again: until a turn calls no tool, or leaves calls open that wait for an
approval or for somebody else, or was cut; or a stop condition holds, or the budget is spent. A turn that the provider
paused is asked to go on. Approvals that the history answers are settled before the first turn.

A run is one generator of effects. Streamed, it is the same one, which hands each part to its reader as soon as it is
there; each round ends with its `finish`, which is handed on when all else that ends the round is done.

>>> from fxai.agents.plan import RunPlan
>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.tools.toolkit import Toolkit
>>> run = run_loop(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}))
>>> fx.run(run.provide(ScriptedModel.make([text("Good day.")]).layer)).text
'Good day.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, final

import msgspec

from fxai.agents.answer import Answer
from fxai.agents.failure import RunError
from fxai.agents.plan import RunPlan
from fxai.agents.run import Run
from fxai.agents.step import Step
from fxai.agents.step import Steps as StepsSoFar
from fxai.agents.step_setup import OnStep, StepSetup, is_effect
from fxai.effects.cause import Cause, Die, Fail
from fxai.effects.effect import Ask, EffectOf, FailCause, Fetch, Fold, Generate, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.effects.stream import StreamOf
from fxai.messages.calls import unpaired_calls
from fxai.messages.errors import AiError, InvalidUserInputError
from fxai.messages.part import Finish, StreamPart, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.answered import concerns, read, without
from fxai.models.language_model import LanguageModel, RoundOptions, prepare
from fxai.models.request import ModelRequest
from fxai.models.resolve import Emit, Resolution
from fxai.models.round import LATE, TIME_IS_UP, Deadline, Round, Steps, interrupted, take_turn
from fxai.models.selection import HeldModels, hold
from fxai.models.settlement import OnSettled, Settled, settled
from fxai.tools.source import BoundToolkit
from fxai.tools.toolkit import Toolkit

__all__ = ["OnAnswer", "run_loop", "stream_loop"]

OnAnswer: TypeAlias = Callable[[Answer[Any]], EffectOf[Any, Any, Any]]
"""Is told the answer of a run that has ended well, before its last part is given; what it fails with fails the run."""

# not there where each step is asked of a model of its own
_MODEL: EffectOf[LanguageModel | None, Any, Any] = Ask(lambda context: context.find(LanguageModel))
_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)


def run_loop(
    prompt: Prompt, plan: RunPlan, on_answer: OnAnswer | None = None, *, on_settled: OnSettled | None = None
) -> EffectOf[Answer[Any], RunError, Any]:
    """The answer of a run that starts from `prompt` and goes as `plan` says.

    Args:
        prompt: what was said before.
        plan: how it goes.
        on_answer: is told the answer of a run that has ended well; what it fails with fails the run.
        on_settled: is told of the calls that `prompt` approves, before they run and when they have ended; what it fails
            with fails the run.
    """
    return Suspend(lambda: _program(Run(prompt, plan, on_settled), None, on_answer))


def stream_loop(
    prompt: Prompt, plan: RunPlan, on_answer: OnAnswer | None = None, *, on_settled: OnSettled | None = None
) -> StreamOf[StreamPart, RunError, Any]:
    """The parts of a run that starts from `prompt` and goes as `plan` says; each round ends with its `finish`.

    Arguments as of `run_loop`. A run that fails, or whose reader leaves before its last part, has no answer.
    """
    return StreamOf.steps(lambda emit: _program(Run(prompt, plan, on_settled), emit, on_answer))


def _program(run: Run, emit: Emit | None, on_answer: OnAnswer | None) -> EffectOf[Any, Any, Any]:
    looped = Fold(Generate(_loop, (run, emit, on_answer), {}), run.failed, None)
    if not run.plan.prepare_step:
        return looped
    run.scope = Scope()
    return looped.on_exit(run.scope.close)


def _loop(run: Run, emit: Emit | None, on_answer: OnAnswer | None) -> Steps:
    yield from _begin(run)
    if concerns(run.history):
        yield from _settle(run, emit)
        yield from _hand_over(run, [Finish("pending")] if run.ended == "pending" else [], emit, on_answer)
    while run.goes_on:
        step = yield from _prepare(run)
        round_ = None if step is LATE else (yield from _ask(run, step, emit))
        if round_ is not None and round_.is_whole:
            yield from _end_step(run, round_.response)
        else:
            run.exceed("seconds")
        is_told = round_ is not None and (round_.is_whole or run.failure is None)
        yield from _hand_over(run, [*round_.unread, *round_.finish] if round_ and is_told else [], emit, on_answer)
    if run.failure is not None:
        yield FailCause(Cause((Fail(run.failure),)))
    return run.answer


def _ask(run: Run, step: StepRequest, emit: Emit | None) -> Steps:
    model = step.model or run.model or (yield Fetch(LanguageModel))
    round_: Round = yield from take_turn(
        model,
        step.request,
        step.resolution,
        emit,
        resolves=step.resolves,
        handlers=step.handlers,
        limits=run.limits,
    )
    return round_


def _hand_over(run: Run, parts: Iterable[Any], emit: Emit | None, on_answer: OnAnswer | None) -> Steps:
    """The last parts of a round; before them, where the run is over, whoever waits for its answer has that."""
    if run.ended is not None and on_answer is not None:
        run.in_round = False
        yield on_answer(run.answer)
    if emit is not None:
        for part in parts:
            yield emit(part)


# -- the start of a run: its time begins to run, and the calls that the history approves are run


def _begin(run: Run) -> Steps:
    """The run has its model, and its time runs."""
    run.model = yield _MODEL
    seconds = run.plan.budget.seconds
    if run.plan.deadline is not None:
        run.start(run.plan.deadline)
    elif seconds is not None:
        run.start(Deadline.after((yield _CLOCK), seconds))


def _settle(run: Run, emit: Emit | None) -> Steps:
    """The calls that the history approves are run, before the model is asked; what waits still ends the run."""
    if emit is None:
        yield from _run_approved(run, None)
        return
    results: StreamOf[StreamPart, Any, Any] = StreamOf.from_channel(
        lambda channel: Generate(_run_approved, (run, channel.put), {})
    )
    yield results.for_each(emit)


def _run_approved(run: Run, emit: Emit | None) -> Steps:
    if not run.options.get("resolve_tools", True):
        return
    bound = yield _tools_now(run)
    if bound is LATE:
        run.exceed("seconds")
        return
    prepared = prepare(run.history, bound.toolkit, run.options, is_hidden=run.plan.is_hidden)
    if isinstance(prepared, AiError):
        yield FailCause(Cause((Fail(prepared),)))
        return
    told: list[ToolResult] = []
    hearing = _hearing(told, emit) if run.deadline is not None else emit
    effect = settled(run.history, prepared[1], hearing, run.on_settled)
    if effect is None:
        return
    done = yield run.cut(effect if run.plan.tools_now is None else effect.provide(bound.layer))
    if done is not LATE:
        run.settle(done)
        return
    run.settle(_cut_short(run.history, told))
    if emit is not None:
        for result in run.early:
            if result not in told:
                yield emit(result)


def _hearing(told: list[ToolResult], emit: Emit | None) -> Emit:
    def hear(part: StreamPart) -> EffectOf[None]:
        if part.type == "tool-result" and not part.preliminary:
            told.append(part)
        return Succeed(None) if emit is None else emit(part)

    return hear


def _cut_short(history: Prompt, told: list[ToolResult]) -> Settled:
    """A history whose approved calls were cut: those that had not ended were interrupted."""
    said = read(history)
    known = {result.id: result for result in told}
    calls = [one.call for one in said.answered]
    open_ = [ToolCall(call.id, call.name, call.params, dynamic=call.dynamic) for call in calls if call.id not in known]
    known.update({result.id: result for result in interrupted(open_, TIME_IS_UP)})
    results = tuple([known[call.id] for call in calls])
    whole = history.with_response(results)
    return Settled(whole, Prompt(without(whole, said)), results, said.waiting)


# -- what a step asks, of which model, and how its calls are run


@final
class StepRequest(msgspec.Struct, frozen=True, eq=False):
    """One question to a model, and how the calls of its answer are run."""

    model: LanguageModel | None
    """The model that is asked; None for the one of the run."""
    request: ModelRequest
    resolution: Resolution
    resolves: bool = True
    """Whether calls are run."""
    handlers: LayerOf[Any, Any, Any] | None = None
    """Those that are there for this step alone."""


def _prepare(run: Run) -> Steps:
    """The request of the next step; `LATE` where the time was up before it was known."""
    plan = run.plan
    if plan.prepare_step or plan.tools_now is not None:
        return (yield from _prepare_anew(run))
    options: RoundOptions = {**run.options, "tool_choice": "none"} if run.is_last else run.options
    return (yield from _request(run, run.told, plan.toolkit, options))


def _tools_now(run: Run) -> EffectOf[Any, Any, Any]:
    """The tools of the next step with their handlers, `LATE` where the time was up; those of the run have none here."""
    live = run.plan.tools_now
    return Succeed(BoundToolkit(run.plan.toolkit, ())) if live is None else run.cut(live)


def _prepare_anew(run: Run) -> Steps:
    run.in_round = False
    bound = yield _tools_now(run)
    if bound is LATE:
        return LATE
    setup = StepSetup(len(run.steps) + 1, StepsSoFar(run.steps), run.told, bound.toolkit, run.options)
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
        held: HeldModels = yield _hold_models(run)
        model = held.model_of(setup.model)
    handlers = None if run.plan.tools_now is None else bound.layer
    run.in_round = True
    if setup.messages is not run.told:
        yield from _check_pairs(run, setup.messages)
    return (yield from _request(run, setup.messages, setup.toolkit, setup.options, model, handlers))


def _request(
    run: Run,
    told: Prompt,
    toolkit: Toolkit[Any],
    options: RoundOptions,
    model: LanguageModel | None = None,
    handlers: LayerOf[Any, Any, Any] | None = None,
) -> Steps:
    prepared = prepare(told, toolkit, options, is_hidden=run.plan.is_hidden)
    if isinstance(prepared, AiError):
        yield FailCause(Cause((Fail(prepared),)))
        return None
    request, resolution = prepared
    if run.plan.output is not None:
        request = request.answered_as(run.plan.output)
    return StepRequest(model, request, resolution, options.get("resolve_tools", True), handlers)


def _hold_models(run: Run) -> EffectOf[HeldModels, Any, Any]:
    """What holds the models of single steps until the run is over."""
    if run.held is not None:
        return Succeed(run.held)

    def keep(held: HeldModels) -> HeldModels:
        run.held = held
        return held

    return run.scope.around(hold()).map(keep)


def _check_pairs(run: Run, shown: Prompt) -> Steps:
    """Fails where the messages of a step were changed so that a call stands without its result."""
    split = set(unpaired_calls(shown))
    split = split and split.difference(unpaired_calls(run.told))  # what was so before is the caller's
    if split:
        said = ", ".join(sorted(split))
        description = (
            f"prepare_step shows a call without its result right behind it, or a result without its call: {said}; "
            "keep both or leave out both"
        )
        yield FailCause(Cause((Fail(AiError("Agent", "prepare_step", InvalidUserInputError(description))),)))


# -- the end of a step: whoever listens is told, and the run is over or goes on


def _end_step(run: Run, response: Response) -> Steps:
    step = run.take(response)
    plan = run.plan
    if plan.on_step:
        yield from _tell(run, step)
    run.judge(response)
    if plan.stop_when and run.goes_on and not run.is_last:
        yield from _stop(run)
    if run.goes_on:
        run.limit()


def _tell(run: Run, step: Step) -> Steps:
    run.in_round = False
    for listener in run.plan.on_step:
        heard = _heard(listener, step)
        if heard is not None and (yield run.cut(heard)) is LATE:
            break  # the next thing to be done is late, too
    run.in_round = True


def _heard(listener: OnStep[Any, Any], step: Step) -> EffectOf[Any, Any, Any] | None:
    try:
        heard: Any = listener(step)
    except Exception as bug:
        return _logged(step, bug)
    if heard is None:
        return None
    if is_effect(heard):
        return Fold(heard, lambda cause: _broken(step, cause), None)
    kind = type(heard).__name__
    return _logged(step, TypeError(f"on_step gave a {kind}: it gives None, or an effect, which is then run"))


def _broken(step: Step, cause: Cause[Any]) -> EffectOf[Any, Any, Any] | None:
    """A listener with a bug does not cost its owner the run; what it fails with as declared does."""
    if not all(isinstance(reason, Die) for reason in cause.reasons):
        return None
    return _logged(step, cause.squash())


def _logged(step: Step, bug: BaseException) -> EffectOf[None]:
    import logging  # few listeners break

    logging.getLogger("fxai.agents").error(
        "on_step broke after step %d, and the run goes on: %s", step.number, bug, exc_info=bug
    )
    return Succeed(None)


def _stop(run: Run) -> Steps:
    run.in_round = False
    steps = StepsSoFar(run.steps)
    for condition in run.plan.stop_when:
        holds: Any = condition(steps)
        if is_effect(holds):
            holds = yield run.cut(holds)
        if holds is LATE:
            break
        if not isinstance(holds, bool):
            raise TypeError(f"a stop condition gave {holds!r}: it gives True or False, or an effect of that")
        if holds:
            run.ended = "stopped"
            break
    run.in_round = True
