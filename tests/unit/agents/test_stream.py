"""Streamed runs: what is given when, what is held for how long, and who hears of the answer."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from fxai.agents import Answer, Budget, BudgetExceeded
from fxai.agents.loop import run_loop
from fxai.agents.run import RunPlan
from fxai.effects import Backend, Effect, Layer, LayerOf, Stream, StreamOf, fx
from fxai.messages import (
    AiError,
    Finish,
    Part,
    Prompt,
    Response,
    StreamPart,
    TextDelta,
    TextStart,
    ToolParamsDelta,
    ToolParamsStart,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, call, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.rounds import Desk
from tests.kit.runs import ONE, end_of, plan_of, stream_loop

SCRIPTS: dict[str, list[Any]] = {
    "text": [["Good ", "day."]],
    "calls": [["So: ", call("add", ONE, id="a"), call("raw", {}, id="r")], call("nope", {}, id="u"), text("ok")],
    "slow": [[call("slow", {"a": 1, "b": 2}, id="s"), call("slow", {"a": 2, "b": 1}, id="t")], text("ok")],
    "pause": [["Hm ", finish("pause")], text("ok")],
    "cut": [["x", ToolParamsStart("c", "add"), ToolParamsDelta("c", '{"a"'), finish("length")]],
}


@every("budget", [Budget(), Budget(seconds=60, calls=9)], ids=["free", "timed"])
@every("script", list(SCRIPTS))
def test_a_stream_comes_to_the_same_answer(script: str, budget: Budget, backend: Backend) -> None:
    """The same steps, and the same history; its parts fold to the turns."""
    whole = end_of("whole", backend, SCRIPTS[script], budget=budget, passes=9).answer
    end = end_of("stream", backend, SCRIPTS[script], budget=budget, passes=9)

    assert end.answer == whole
    assert [round_.text for round_ in end.rounds] == [step.text for step in whole.steps]
    assert [round_.tool_calls for round_ in end.rounds] == [step.calls for step in whole.steps]
    assert [round_.tool_results for round_ in end.rounds] == [step.results for step in whole.steps]


def test_the_answer_is_told_before_the_last_part(backend: Backend) -> None:
    """A reader that stops at the last `finish` has not come too early."""
    log: list[str] = []
    model = ScriptedModel.make([call("add", ONE), text("ok")])
    desk = Desk()
    stream = stream_loop(Prompt.make("go"), plan_of(desk), lambda answer: fx.sync(lambda: log.append(answer.text)))

    def read(part: StreamPart) -> Any:
        return fx.sync(lambda: log.append(f"{part.type} {part.reason}") if part.type == "finish" else None)

    parts: Any = stream.tap(read).take_while(lambda part: part.type != "finish" or part.reason != "stop")
    fx.run(desk.served(parts.drain(), model), backend=backend)

    assert log == ["finish tool-calls", "ok", "finish stop"]


def test_what_cannot_keep_the_answer_fails_the_stream(backend: Backend) -> None:
    """Before the last part is given."""
    given: list[str] = []
    stream = stream_loop(Prompt.make("go"), RunPlan(Toolkit.empty(), {}), lambda _: fx.fail("disk full"))
    read: Any = stream.map(lambda part: part.type).for_each(lambda kind: fx.sync(lambda: given.append(kind)))
    ended: Any = fx.run_exit(read.provide(ScriptedModel.make([text("ok")]).layer), backend=backend)

    assert ended.cause.failures == ("disk full",)
    assert given == ["text-start", "text-delta", "text-end"]


def test_a_run_that_fails_has_no_answer(backend: Backend) -> None:
    """The parts of its last round are given, its `finish` too, and then the failure."""
    end = end_of("stream", backend, [call("add", ONE)] * 3, budget=Budget(rounds=2))

    assert isinstance(end.failure, BudgetExceeded)
    assert [round_.finish_reason for round_ in end.rounds] == ["tool-calls", "tool-calls"]


def test_a_reader_that_leaves_stops_everything(backend: Backend) -> None:
    """The handlers that run, and the run: nobody is told an answer."""
    desk, answers = Desk(), list[Answer[Any]]()
    model = ScriptedModel.make([["So: ", call("slow", {"a": 1, "b": 60}), call("add", ONE)]])
    stream = stream_loop(Prompt.make("go"), plan_of(desk), lambda one: fx.sync(lambda: answers.append(one)))
    parts: Any = stream.take_while(lambda part: part.type != "tool-result").collect()
    fx.run(desk.served(parts, model).provide(desk.clock.layer), backend=backend)

    assert desk.journal.lines == ["start 1", "add 1", "left 1"]
    assert answers == []


def test_a_stream_can_be_read_twice(backend: Backend) -> None:
    """Each reading is a run."""
    desk = Desk()
    stream: Any = stream_loop(Prompt.make("go"), plan_of(desk)).collect()
    model = ScriptedModel.make([call("add", ONE), text("one"), text("two")])
    first, second = fx.run(desk.served(fx.all_(stream, stream.delay(0)), model), backend=backend)

    assert {Response.from_stream(first).text, Response.from_stream(second).text} <= {"one", "two"}
    assert len(model.requests) == 3


class _Held(LanguageModel):
    """A model that says for how long it holds a connection."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        raise AssertionError("a stream asks for a stream")

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def note(line: str) -> Any:
            return fx.sync(lambda: self._log.append(f"{line} {len(request.prompt)}"))

        called = len(request.prompt) < 5
        said: list[Any] = [call("add", ONE)] if called else [TextStart("t"), TextDelta("t", "ok")]
        parts = StreamOf.from_iterable([*said, Finish("tool-calls" if called else "stop")])
        opened: Any = fx.acquire_release(note("open"), lambda _: note("close"))
        return StreamOf.unwrap(opened.as_(parts))


def test_what_a_round_holds_is_released_with_it(backend: Backend) -> None:
    """A long run does not hold a connection for each of its rounds."""
    log, desk = list[str](), Desk()
    layer: Any = LayerOf.succeed(LanguageModel, _Held(log))
    stream: Any = stream_loop(Prompt.make("go"), plan_of(desk)).drain().provide(desk.layer).provide(layer)
    fx.run(stream, backend=backend)

    assert log == ["open 1", "close 1", "open 3", "close 3", "open 5", "close 5"]


class _NoEnd(LanguageModel):
    """A model whose stream has no `finish`, or two of them."""

    def __init__(self, *finishes: Finish) -> None:
        self._finishes = finishes

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        raise AssertionError("a stream asks for a stream")

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return StreamOf.make(TextStart("t"), TextDelta("t", "ok"), *self._finishes)


@pytest.mark.parametrize("finishes", [(), (Finish("stop"), Finish("stop"))])
def test_a_turn_without_a_proper_end_ends_all_the_same(finishes: tuple[Finish, ...], backend: Backend) -> None:
    """What was said is the answer; nothing is given twice."""
    answers: list[Answer[Any]] = []
    stream = stream_loop(
        Prompt.make("go"), RunPlan(Toolkit.empty(), {}), lambda one: fx.sync(lambda: answers.append(one))
    )
    layer: Layer[LanguageModel] = LayerOf.succeed(LanguageModel, _NoEnd(*finishes))
    parts = fx.run(stream.collect().provide(layer), backend=backend)

    assert [part.type for part in parts] == ["text-start", "text-delta", *["finish"] * len(finishes)]
    assert [answer.text for answer in answers] == ["ok"]


def test_runs_of_one_plan_do_not_mix(backend: Backend) -> None:
    """Many at once, whole and streamed, each with its own budget."""
    look = Tool.make("look", success=int)
    plan = RunPlan(Toolkit.make(look), {}, Budget(rounds=3, calls=2, seconds=60))

    def run(n: int) -> Any:
        model = ScriptedModel.make([call("look", {}), call("look", {}), text(str(n))])
        prompt = Prompt.make(f"{n}?")
        whole: Any = run_loop(prompt, plan).map(lambda answer: answer.text)
        parts: Any = stream_loop(prompt, plan).collect().map(lambda parts: Response.from_stream(parts).text)
        handled = (whole if n % 2 else parts).provide(look.handler(lambda _: fx.checkpoint().as_(n)))
        return handled.provide(model.layer)

    answers: list[str] = fx.run(fx.for_each(range(40), run, concurrency=None), backend=backend)

    assert answers == [str(n) for n in range(40)]
