"""What the tests of the loop share: one run of a script, whole or streamed, and how it ended."""

from __future__ import annotations

from typing import Any, Literal

from fxai.agents import Answer
from fxai.agents.loop import OnAnswer, run_loop
from fxai.agents.run import RunPlan
from fxai.effects import Backend, StreamOf, fx, stream_steps
from fxai.messages import Prompt, Response
from fxai.testing import ScriptedModel, TestClock
from tests.kit.every import every
from tests.kit.journal import turns
from tests.kit.rounds import Desk

__all__ = ["BOTH", "ONE", "End", "Way", "end_of", "plan_of", "stream_loop", "unanswered"]

Way = Literal["whole", "stream"]

BOTH = every("way", ["whole", "stream"])
"""Runs a test for a run that is read whole, and for one that is streamed."""

ONE = {"a": 1, "b": 2}
_TURNS = 250


class End:
    """How a run ended: its answer or its cause, the parts of its stream, and whom it asked."""

    def __init__(self, desk: Desk, model: ScriptedModel) -> None:
        self.desk = desk
        self.model = model
        self.answers: list[Answer[Any]] = []
        self.parts: list[Any] = []
        self.cause: Any = None

    @property
    def answer(self) -> Answer[Any]:
        """The answer of a run that ended well; a stream tells it once."""
        assert self.cause is None, self.cause
        (answer,) = self.answers
        return answer

    @property
    def failure(self) -> Any:
        """What the run failed with."""
        assert not self.answers
        (failure,) = self.cause.failures
        return failure

    @property
    def rounds(self) -> list[Response]:
        """The response of each round of the stream: they end with their finish."""
        rounds: list[list[Any]] = [[]]
        for part in self.parts:
            rounds[-1].append(part)
            if part.type == "finish":
                rounds.append([])
        return [Response.from_stream(round_) for round_ in rounds if round_]

    @property
    def shown(self) -> list[list[str]]:
        """The roles of the messages of each request."""
        return [[message.role for message in request.prompt] for request in self.model.requests]


def plan_of(desk: Desk, **changes: Any) -> RunPlan:
    """A plan with the desk's tools."""
    changes.setdefault("toolkit", desk.kit)
    changes.setdefault("options", {})
    return RunPlan(**changes)


def stream_loop(prompt: Prompt, plan: RunPlan, on_answer: OnAnswer | None = None) -> StreamOf[Any, Any, Any]:
    """The parts of a run."""
    return stream_steps(lambda emit: run_loop(prompt, plan, on_answer, emit=emit))


def end_of(
    way: Way,
    backend: Backend,
    script: list[Any],
    *,
    prompt: Any = "go",
    desk: Desk | None = None,
    layer: Any = None,
    passes: float = 0,
    steps: int = 12,
    **plan: Any,
) -> End:
    """A run of a script, in which the clock goes on by `passes` seconds, in `steps`; `layer` has more handlers."""
    desk = Desk() if desk is None else desk
    end = End(desk, ScriptedModel.make(script))
    program = _program(way, end, Prompt.make(prompt), plan_of(desk, **plan))
    moved: Any = fx.all_(program, _passing(desk.clock, passes, steps))
    moved = moved if layer is None else moved.provide(layer)
    ended: Any = fx.run_exit(desk.served(moved, end.model).provide(desk.clock.layer), backend=backend)
    end.cause = getattr(ended, "cause", None)
    return end


def _passing(clock: TestClock, seconds: float, steps: int) -> Any:
    """Time that passes in steps, each when everything waits for it: a stream takes many turns of the event loop."""
    if not seconds:
        return fx.succeed(None)
    settled = fx.wait(lambda: turns(_TURNS))
    return fx.for_each(range(steps), lambda _: settled.and_then(clock.advance(seconds / steps)))


def _program(way: Way, end: End, prompt: Prompt, plan: RunPlan) -> Any:
    def told(answer: Answer[Any]) -> Any:
        return fx.sync(lambda: end.answers.append(answer))

    if way == "whole":
        return run_loop(prompt, plan).tap(told)
    return stream_loop(prompt, plan, told).for_each(lambda part: fx.sync(lambda: end.parts.append(part)))


def unanswered(history: Prompt) -> list[str]:
    """The ids of the calls that do not have exactly one result, in the message behind them and in their order."""
    messages, wrong = list(history), list[str]()
    for at, message in enumerate(messages):
        if message.role != "assistant":
            continue
        calls = [part.id for part in message.content if part.type == "tool-call" and not part.provider_executed]
        behind = messages[at + 1] if at + 1 < len(messages) else None
        said = behind.content if behind is not None and behind.role == "tool" else ()
        results = [part.id for part in said if part.type == "tool-result"]
        if calls != results:
            wrong += calls
    return wrong
