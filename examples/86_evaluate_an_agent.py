"""Evaluate an agent: run its cases several times, and show how often each law holds.

The model is scripted and sometimes wrong, so that the rates are between 0 and 1. The script starts again at its end.
Run `python examples/86_evaluate_an_agent.py`, or with the command line:
`fxai eval examples/86_evaluate_an_agent.py:evaluation --layer examples/86_evaluate_an_agent.py:live`.
"""

from __future__ import annotations

import msgspec
from returns.result import Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.evaluation import Case, Evaluation, answer_matches, at_most, calls, never_calls
from fxai.testing import ScriptedModel, call, text


class Sum(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


add = Tool.make("add", description="Add two numbers.", parameters=Sum, success=int)
wipe = Tool.make("wipe", description="Delete all notes.", success=str)
kit = Toolkit.make(add, wipe)
agent = Agent.make("clerk", toolkit=kit)

evaluation = Evaluation.make(
    "clerk",
    agent,
    [
        Case.make(
            "adds",
            "What is 17 + 25?",
            calls("add", {"a": 17, "b": 25}),
            never_calls("wipe"),
            answer_matches(r"\b42\b"),
            at_most(steps=2),
        ),
    ],
    runs=10,
    concurrency=1,
)

right = [call("add", {"a": 17, "b": 25}), text("It is 42.")]
model = ScriptedModel.make([*right * 3, text("It is 43."), *right * 6])
handlers = kit.to_layer(add.handler(lambda both: Success(both.a + both.b)) | wipe.handler(lambda _: Success("done")))
live = handlers | model.layer


if __name__ == "__main__":
    print(fx.run(evaluation.run().provide(live)))
