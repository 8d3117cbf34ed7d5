"""Evaluations run an agent on cases several times, and judge each run by laws. Use them to measure an agent.

>>> from fxai import Agent, fx
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.evaluation import Case, answer_contains
>>> greet = Case.make("greeting", "Hello", answer_contains("good day"))
>>> evaluation = Evaluation.make("manners", Agent.make("greeter"), [greet], runs=4)
>>> model = ScriptedModel.make([text("Good day."), text("Good day."), text("Hi."), text("Good day.")])
>>> result = fx.run(evaluation.run().provide(model.layer))
>>> result.cases[0].laws[0].rate
0.75
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Generic, Never, TypeAlias, final

import msgspec
from typing_extensions import TypeVar

from fxai.agents.agent import Agent
from fxai.agents.answer import Answer, usage_of
from fxai.effects.cause import Exit, Failed
from fxai.effects.concurrency import for_each
from fxai.effects.constructor import gen
from fxai.effects.effect import AnyEffect, EffectOf, Fetch, Gen, Succeed, Suspend
from fxai.effects.service import Clock
from fxai.evaluation.case import Case, RunLaw, Verdict
from fxai.evaluation.result import CaseResult, EvaluationResult, LawResult
from fxai.messages.part import Usage
from fxai.models.price import Price
from fxai.schema.display import one_line

_T = TypeVar("_T")
_O = TypeVar("_O")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")
_R_co = TypeVar("_R_co", covariant=True, default=None)

AnyEvaluation: TypeAlias = "Evaluation[Any]"


@final
class _Run(msgspec.Struct, frozen=True):
    """A judged run, with a verdict and a reason for each law. The verdict is None if the law could not judge."""

    verdicts: tuple[tuple[bool | None, str], ...]
    seconds: float
    usages: tuple[Usage, ...] | None
    """The usage of each turn, or None if it is unknown."""
    failure: str = ""


@final
class Evaluation(msgspec.Struct, Generic[_R_co], frozen=True):
    """An agent, and the cases to run it on. It needs the services `R` of the agent and of the laws."""

    name: str
    """The name of the evaluation."""
    agent: Agent[Any, Any, Any, Any]
    """The agent of each run."""
    cases: tuple[Case[Any, Any], ...]
    """The cases, with different names."""
    runs: int = 5
    """The number of runs of each case."""
    concurrency: int = 4
    """The maximum number of concurrent runs."""
    price: Price | None = None
    """The price of the model. None if the costs are unknown."""
    currency: str = ""
    """The currency of the price."""

    @staticmethod
    def make(
        name: str,
        agent: Agent[_T, _O, Any, _R],
        cases: Iterable[Case[_O, _R2]],
        *,
        runs: int = 5,
        concurrency: int = 4,
        price: Price | None = None,
        currency: str = "USD",
    ) -> Evaluation[_T | _R | _R2 | None]:
        """Return an evaluation.

        Args:
            name: The name of the evaluation.
            agent: The agent of each run. Runs are independent: an agent with a memory starts each run from it.
            cases: The cases, with different names.
            runs: Number of runs of each case. Rates need many runs: after 5 of 5, the true rate can still be 57 %.
            concurrency: Maximum number of concurrent runs. Default: 4.
            price: The price of the model, for the costs. Default: the costs are unknown.
            currency: The currency of the price. Default: `"USD"`.

        Raises:
            ValueError: If `cases` is empty, two cases have the same name, or a number is less than 1.
        """
        known = tuple(cases)
        names = [case.name for case in known]
        if not known:
            raise ValueError(f"evaluation {name!r} has no case. Pass Case.make(…).")
        if len(set(names)) < len(names):
            raise ValueError(f"cases of evaluation {name!r} must have different names, got {names}")
        for what, number in (("runs", runs), ("concurrency", concurrency)):
            if number < 1:
                raise ValueError(f"{what} must be at least 1, got {number}")
        return Evaluation(name, agent, known, runs, concurrency, price, currency if price is not None else "")

    def run(self) -> EffectOf[EvaluationResult, Never, _R_co]:
        """Return the effect that runs all cases and returns the results in the order of the cases.

        It never fails: a run that ends with a failure or a defect is a run that did not pass. If you cancel it, it
        stops all runs.
        """
        jobs = [case for case in self.cases for _ in range(self.runs)]

        def summarize(runs: list[_Run]) -> EvaluationResult:
            each = [runs[at : at + self.runs] for at in range(0, len(runs), self.runs)]
            found = [self._summarize(case, done) for case, done in zip(self.cases, each, strict=True)]
            return EvaluationResult(self.name, tuple(found), self.currency)

        def run(case: Case[Any, Any]) -> EffectOf[_Run, Never, Any]:
            return _judge_run(self.agent, case)

        return for_each(jobs, run, concurrency=self.concurrency).map(summarize)

    def _summarize(self, case: Case[Any, Any], runs: list[_Run]) -> CaseResult:
        laws: list[LawResult] = []
        for at, law in enumerate(case.laws):
            verdicts = [run.verdicts[at] for run in runs]
            reasons = dict.fromkeys(one_line(why)[:200] for passed, why in verdicts if passed is not True and why)
            passed, failed, not_judged = (sum(passed is kind for passed, _ in verdicts) for kind in (True, False, None))
            laws.append(LawResult(law.name, passed, failed, not_judged, tuple(reasons)[:5]))
        turns = [usage for run in runs for usage in run.usages or ()]
        costs = [None if self.price is None else self.price.cost(usage) for usage in turns]
        is_known = costs and None not in costs and all(run.usages is not None for run in runs)
        cost = sum((one for one in costs if one is not None), Decimal(0)) if is_known else None
        usage = sum(turns, Usage())
        failures = tuple([run.failure for run in runs if run.failure])
        return CaseResult(case.name, tuple(laws), tuple([run.seconds for run in runs]), failures, usage, cost)


@gen
def _judge_run(agent: Agent[Any, Any, Any, Any], case: Case[Any, Any]) -> Gen[_Run, Never, Any]:
    """Run the agent once, and judge the run."""
    clock = yield from Fetch(Clock)
    begun = clock.monotonic()
    ended: Exit[Answer[Any], Any] = yield from agent.execute(case.prompt).exit()
    seconds = clock.monotonic() - begun
    if isinstance(ended, Failed):
        failure = f"the run failed: {ended.cause.squash()}"
        usage = usage_of(ended)
        return _Run(((False, failure),) * len(case.laws), seconds, None if usage is None else (usage,), failure)
    verdicts = yield from for_each(case.laws, lambda law: _judge(law, ended.value))
    return _Run(tuple(verdicts), seconds, tuple([step.usage for step in ended.value.steps]))


def _judge(law: RunLaw[Any, Any], answer: Answer[Any]) -> EffectOf[tuple[bool | None, str], Never, Any]:
    """Return the effect of the verdict. A law that fails or raises has no verdict."""

    def judge() -> AnyEffect:
        judged: Any = law.judge(answer)
        return judged if issubclass(type(judged), EffectOf) else Succeed(judged)

    def read(ended: Exit[Any, Any]) -> tuple[bool | None, str]:
        if isinstance(ended, Failed):
            return None, f"not judged: {ended.cause.squash()}"
        match ended.value:
            case Verdict(passed, reason):
                return bool(passed), reason
            case bool(passed):
                return passed, ""
            case given:
                return None, f"not judged: the law must return True, False, or a Verdict, got {given!r}"

    return Suspend(judge).exit().map(read)
