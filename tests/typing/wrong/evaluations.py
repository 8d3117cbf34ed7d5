"""Evaluations that get something else, or lack a service."""

from __future__ import annotations

from fxai import Agent, fx
from fxai.evaluation import (
    Case,
    Evaluation,
    RunLaw,
    answer_contains,
    at_most,
    calls,
    compare_rates,
    output_equals,
)
from tests.typing.desk import AGENT, HANDLERS, MODEL

greets = Case.make("greets", "Hello", answer_contains("day"))
desk = Evaluation.make("desk", AGENT, [greets])
fx.run(desk.run())  # wrong: no handlers and no model
fx.run(desk.run().provide(MODEL))  # wrong: no handlers
fx.run(desk.run().provide(HANDLERS))  # wrong: no model
Case.make("greets", "Hello", "day")  # wrong: a string is not a law
Case.make("greets", 3, calls("search"))  # wrong: a number is not a prompt
RunLaw.make("x", lambda answer: "yes")  # wrong: a string is no judgement
calls("search", "x")  # wrong: parameters are a mapping
at_most(rounds=3)  # wrong: no such limit
Evaluation.make("desk", AGENT, greets)  # wrong: cases are a list
Evaluation.make("desk", AGENT, [greets], runs="3")  # wrong: a number
COUNTER = Agent.make("a", output=int)
WORD = output_equals("1")
Evaluation.make("counts", COUNTER, [Case.make("x", "?", WORD)])  # wrong: the output is a number
compare_rates(desk, desk)  # wrong: results, not evaluations
