"""The loop: a model asked again and again, its calls run in between, until it is done.

Ask, run the calls, append the results, ask again: until a turn calls no tool, or leaves calls open that wait for an
approval or for somebody else, or was cut; or a stop condition holds, or the budget is spent. A turn that the provider
paused is asked to go on. Approvals that the history answers are settled before the first turn.

>>> from fxai.agents.plan import RunPlan
>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.tools.toolkit import Toolkit
>>> run = run_loop(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}))
>>> fx.run(run.provide(ScriptedModel.make([text("Good day.")]).layer)).text
'Good day.'
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from fxai.agents.answer import Answer
from fxai.agents.deadline import LATE
from fxai.agents.failure import RunError
from fxai.agents.interruption import TIME_IS_UP, closed
from fxai.agents.plan import RunPlan
from fxai.agents.run import Run
from fxai.agents.run_start import begun, settling
from fxai.agents.step_end import finished
from fxai.agents.step_request import StepRequest, step_request
from fxai.agents.streamed import OnAnswer, StreamedRun
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import EffectOf, FailCause, Fetch, Fold, Generate, Suspend
from fxai.effects.scope import Scope
from fxai.effects.stream import StreamOf
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt
from fxai.models.answered import concerns
from fxai.models.language_model import LanguageModel
from fxai.models.resolve import Turn, with_responses
from fxai.models.settlement import OnSettled

__all__ = ["run_loop", "stream_loop"]

_Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]


def run_loop(
    prompt: Prompt, plan: RunPlan, *, on_settled: OnSettled | None = None
) -> EffectOf[Answer[Any], RunError, Any]:
    """The answer of a run that starts from `prompt` and goes as `plan` says.

    Args:
        prompt: what was said before.
        plan: how it goes.
        on_settled: is told of the calls that `prompt` approves, before they run and when they have ended; what it fails
            with fails the run.
    """

    def start() -> EffectOf[Any, Any, Any]:
        run = Run(prompt, plan, on_settled)
        looped = Fold(Generate(_loop, (run,), {}), run.failed, None)
        if not plan.prepare_step:
            return looped
        run.scope = Scope()
        return looped.on_exit(run.scope.close)

    return Suspend(start)


def stream_loop(
    prompt: Prompt, plan: RunPlan, on_answer: OnAnswer | None = None, *, on_settled: OnSettled | None = None
) -> StreamOf[StreamPart, RunError, Any]:
    """The parts of a run that starts from `prompt` and goes as `plan` says; each round ends with its `finish`.

    Args:
        prompt: what was said before.
        plan: how it goes.
        on_answer: is told the answer, before the last `finish` is given; what it fails with fails the stream. A run
            that fails, or whose reader leaves before, has none.
        on_settled: as of `run_loop`.
    """
    return StreamOf(Suspend(lambda: StreamedRun(Run(prompt, plan, on_settled), on_answer).open()))


def _loop(run: Run) -> _Steps:
    yield from begun(run)
    if concerns(run.history):
        yield from settling(run, None)
    while run.goes_on:
        asked = step_request(run)
        if not isinstance(asked, StepRequest):
            asked = yield asked
        response = None if asked is LATE else (yield from _round(run, asked))
        if response is None:
            run.exceed("seconds")
        else:
            yield from finished(run, response)
    if run.failure is not None:
        yield FailCause(Cause((Fail(run.failure),)))
    return run.answer


def _round(run: Run, asked: StepRequest) -> _Steps:
    """One round: the model's turn and the results of its calls; None where the time was up before the turn was."""
    model = asked.model or run.model or (yield Fetch(LanguageModel))
    parts = yield run.cut(model.ask(asked.request))
    if parts is LATE:
        return None
    if not asked.resolves:
        return Turn(parts, asked.resolution).response()
    turn = Turn(run.limited(parts, asked.resolution), asked.resolution)
    running = turn.resolve()
    late = yield run.cut(running if asked.layer is None else running.provide(asked.layer))
    response = run.ordered(turn.response())
    if late is LATE:
        response = closed(response, TIME_IS_UP, asked.resolution)
    if turn.failed is not None:
        yield FailCause(with_responses(turn.failed, response))
    return response
