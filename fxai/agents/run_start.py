"""The start of a run: what a run does before its model is first asked, streamed or not.

Its time begins to run, and the calls that the history approves are run.

>>> from fxai.agents.plan import RunPlan
>>> from fxai.effects import fx
>>> from fxai.tools.toolkit import Toolkit
>>> run = Run(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}))
>>> fx.run_sync(fx.gen(settling)(run, None))
>>> len(run.told)
1
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from fxai.agents.deadline import LATE, Deadline
from fxai.agents.interruption import TIME_IS_UP, interrupted
from fxai.agents.run import Run
from fxai.agents.step_request import tools_now
from fxai.effects.cause import Cause, Fail
from fxai.effects.clock import Clock
from fxai.effects.effect import Ask, EffectOf, FailCause, Fetch, Succeed
from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart, ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.models.answered import read, without
from fxai.models.language_model import LanguageModel, prepare
from fxai.models.resolve import Emit
from fxai.models.settlement import Settled, settled

__all__ = ["begun", "settling"]

_Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, Any]

# not there where each step is asked of a model of its own
_MODEL: EffectOf[LanguageModel | None, Any, Any] = Ask(lambda context: context.find(LanguageModel))
_CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)


def begun(run: Run) -> _Steps:
    """The run has its model, and its time runs."""
    run.model = yield _MODEL
    seconds = run.plan.budget.seconds
    if run.plan.deadline is not None:
        run.start(run.plan.deadline)
    elif seconds is not None:
        run.start(Deadline.after((yield _CLOCK), seconds))


def settling(run: Run, emit: Emit | None) -> _Steps:
    """The calls that the history approves are run, before the model is asked; what waits still ends the run."""
    if not run.options.get("resolve_tools", True):
        return
    bound = yield tools_now(run)
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
