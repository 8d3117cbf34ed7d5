"""Evaluations of agents: the services that they need, and the types that their laws receive."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import Agent, LanguageModel, fx
from fxai.effects import EffectOf, Tag
from fxai.evaluation import (
    Case,
    Evaluation,
    EvaluationResult,
    RunLaw,
    Verdict,
    answer_contains,
    model_judge,
    output_satisfies,
)
from tests.typing.desk import AGENT, HANDLERS, MODEL, Database


def is_small(number: int) -> bool:
    """Return True for a digit."""
    return number < 10


class Style(Tag[str]):
    """A word."""


counter = Agent.make("counter", output=int)
small = output_satisfies("small", is_small)
assert_type(small, RunLaw[int])
polite = RunLaw.make("polite", lambda answer: fx.service(Style).map(lambda word: Verdict(word in answer.text)))

plain = Case.make("plain", "Hello", answer_contains("day"))
judged = Case.make("judged", "Hello", model_judge("kind", "The answer is kind."))
assert_type(
    Evaluation.make("desk", AGENT, [plain]).run().provide(HANDLERS).provide(MODEL),
    EffectOf[EvaluationResult, Never, Database | None],
)
styled: EffectOf[EvaluationResult, Never, LanguageModel | Style | None] = Evaluation.make(
    "styled", Agent.make("a"), [Case.make("one", "Hello", polite)]
).run()
asked: EffectOf[EvaluationResult, Never, LanguageModel | None] = Evaluation.make(
    "counts", counter, [Case.make("one", "Count.", output_satisfies("positive", lambda number: number > 0))]
).run()
