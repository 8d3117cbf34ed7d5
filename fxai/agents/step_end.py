"""The end of a step: whoever listens is told, and the run is over or goes on.

>>> from fxai.agents.budget import Budget
>>> from fxai.agents.plan import RunPlan
>>> from fxai.effects import fx
>>> from fxai.messages.part import Finish, Text
>>> from fxai.messages.prompt import Prompt
>>> from fxai.tools.toolkit import Toolkit
>>> run = Run(Prompt.make("Hello"), RunPlan(Toolkit.empty(), {}))
>>> fx.run_sync(fx.gen(finished)(run, Response((Text("Good day."), Finish("stop")))))
>>> run.answer.text
'Good day.'
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from fxai.agents.deadline import LATE
from fxai.agents.run import Run
from fxai.agents.step import Step, Steps
from fxai.agents.step_setup import OnStep, is_effect
from fxai.effects.cause import Cause, Die
from fxai.effects.effect import EffectOf, Fold, Succeed
from fxai.messages.response import Response

__all__ = ["finished"]

_Steps: TypeAlias = Generator[EffectOf[Any, Any, Any], Any, None]


def finished(run: Run, response: Response) -> _Steps:
    """The steps of ending a round with `response`: the listeners are told, and the run is over or goes on."""
    step = run.take(response)
    plan = run.plan
    if plan.on_step:
        yield from _told(run, step)
    run.judge(response)
    if plan.stop_when and run.goes_on and not run.is_last:
        yield from _stopped(run)
    if run.goes_on:
        run.limit()


def _told(run: Run, step: Step) -> _Steps:
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


def _stopped(run: Run) -> _Steps:
    run.in_round = False
    steps = Steps(run.steps)
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
