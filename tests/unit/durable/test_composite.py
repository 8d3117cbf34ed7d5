"""Composites in a durable run: each call inside is journalled by itself."""

from __future__ import annotations

from typing import Any

import pytest

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.annotations import Idempotent, Resumable
from fxai.durable import Reply, Runs, durable
from fxai.effects import Context, Layer
from fxai.testing import ScriptedModel, call, text
from fxai.tools import OutcomeUnknown
from fxai.tools.aspects import Aspect

pay = Tool.make("pay", parameters=int, success=int, failure=str, failure_mode="return")
look = Tool.make("look", parameters=int, success=int).annotate(Idempotent, True)
inner = Toolkit.make(pay, look)


class Crash(BaseException):
    """Stands for the end of the process."""


class Desk:
    """Handlers that write down what they did, and crash at a number."""

    def __init__(self) -> None:
        self.runs = Runs.in_process()
        self.log: list[Any] = []
        self.crash = 0

    def _do(self, name: str) -> Any:
        def handle(number: int) -> Any:
            def do() -> Any:
                self.log.append((name, number))
                if number == self.crash:
                    raise Crash
                return fx.fail("no money") if name == "pay" and number < 0 else fx.succeed(number * 10)

            return fx.suspend(do)

        return handle

    @property
    def handlers(self) -> Any:
        """Those of the sub-tools."""
        handlers: Any = pay.handler(self._do("pay")) | look.handler(self._do("look"))
        return handlers

    def run(self, *script: Any, composite: Any = None, layer: Any = None) -> Any:
        """How a program ends that goes on with the run."""
        made = inner.as_tool("both") if composite is None else composite
        built = made.layer.provide(self.handlers) if layer is None else layer
        asked: Any = Agent.make("clerk", toolkit=Toolkit.make(made.tool)).execute("Go.")
        model: Any = ScriptedModel.make([*script]).layer
        return fx.run_exit(asked.provide(durable(built | model, run="r", store=self.runs)))


def _both(*calls: tuple[str, int]) -> Any:
    return call("both", {"calls": [{"name": name, "args": number} for name, number in calls]})


def _results(end: Any) -> Any:
    return end.value.steps[0].results[0].encoded_result["results"]


def test_what_has_ended_inside_is_not_run_again() -> None:
    """After a crash in the middle the composite is gone on with: only what was under way is in doubt."""
    desk = Desk()
    desk.crash = 2
    with pytest.raises(Crash):
        desk.run(_both(("pay", 1), ("pay", -3), ("look", 2), ("pay", 4)))
    desk.crash = 0
    end = desk.run(text("Done."))
    assert [one["result"] for one in _results(end)] == [10, {"error": "no money"}, 20, 40]
    assert desk.log == [("pay", 1), ("pay", -3), ("look", 2), ("look", 2), ("pay", 4)]
    assert _results(desk.run()) == _results(end)


@pytest.mark.parametrize("concurrency", [1, None])
def test_a_call_inside_that_is_in_doubt_is_asked_about(concurrency: int | None) -> None:
    """By its own name and parameters; the composite goes on with the answer."""
    desk, composite = Desk(), inner.as_tool("both", concurrency=concurrency)
    desk.crash = 2
    with pytest.raises(Crash):
        desk.run(_both(("pay", 1), ("pay", 2)), composite=composite)
    desk.crash = 0
    left = desk.run(composite=composite)
    assert isinstance(left.cause.failures[0], OutcomeUnknown)
    (question,) = fx.run(desk.runs.show("r")).questions
    assert (question.kind, question.tool, question.params) == ("doubt", "pay", 2)
    fx.run(desk.runs.answer("r", question.id, Reply.result(99)))
    end = desk.run(text("Done."), composite=composite)
    assert [one["result"] for one in _results(end)] == [10, 99]
    assert desk.log == [("pay", 1), ("pay", 2)]


def test_a_composite_in_a_composite_is_journalled_too() -> None:
    """As deep as they are."""
    desk = Desk()
    deep = inner.as_tool("deep")
    outer = Toolkit.make(deep.tool).as_tool("both")
    layer = outer.layer.provide(deep.layer.provide(desk.handlers))
    asked = [{"name": "pay", "args": 1}, {"name": "look", "args": 2}]
    script = call("both", {"calls": [{"name": "deep", "args": {"calls": asked}}]})
    desk.crash = 2
    with pytest.raises(Crash):
        desk.run(script, composite=outer, layer=layer)
    desk.crash = 0
    end = desk.run(text("Done."), composite=outer, layer=layer)
    assert _results(end)[0]["result"]["results"][1]["result"] == 20
    assert desk.log == [("pay", 1), ("look", 2), ("look", 2)]


def test_a_composite_with_something_around_it_is_in_doubt_itself() -> None:
    """What an aspect around it does is not known; when it is run again, what has ended inside is not."""
    desk, composite = Desk(), inner.as_tool("both")
    aspect: Any = Aspect.around(lambda _, proceed: proceed)
    layer = aspect.wrap(composite.layer.provide(desk.handlers))
    desk.crash = 2
    with pytest.raises(Crash):
        desk.run(_both(("pay", 1), ("look", 2)), composite=composite, layer=layer)
    desk.crash = 0
    assert isinstance(desk.run(composite=composite, layer=layer).cause.failures[0], OutcomeUnknown)
    (question,) = fx.run(desk.runs.show("r")).questions
    assert question.tool == "both"
    fx.run(desk.runs.answer("r", question.id, Reply.again()))
    end = desk.run(text("Done."), composite=composite, layer=layer)
    assert [one["result"] for one in _results(end)] == [10, 20]
    assert desk.log == [("pay", 1), ("look", 2), ("look", 2)]


def test_without_an_agent_the_run_is_left_by_a_failure() -> None:
    """What is in doubt inside is a failure of the program, and not a result that the model reads."""
    desk, composite = Desk(), inner.as_tool("both")

    def ask(*script: Any) -> Any:
        asked: Any = LanguageModel.generate_text("Go.", toolkit=Toolkit.make(composite.tool))
        layer: Any = composite.layer.provide(desk.handlers) | ScriptedModel.make([*script]).layer
        return fx.run_exit(asked.provide(durable(layer, run="r", store=desk.runs)))

    desk.crash = 2
    with pytest.raises(Crash):
        ask(_both(("pay", 1), ("pay", 2)))
    desk.crash = 0
    assert [type(one) for one in ask().cause.failures] == [OutcomeUnknown]
    assert fx.run(desk.runs.list())[0].status == "waiting"


class _Elsewhere:
    """Stands in for a handler of another process, of whose inside nothing is journalled."""

    is_elsewhere = True

    def answer(self, *_: Any) -> Any:
        """Ends the process."""
        raise Crash

    def missing(self, _: Any) -> tuple[Any, ...]:
        """Nothing."""
        return ()


@pytest.mark.parametrize("wraps", [False, True])
def test_what_runs_elsewhere_is_not_gone_on_with(wraps: bool) -> None:
    """A sub-agent on a worker journals nothing, so that it is in doubt itself, also with an aspect around."""
    runs, ship = Runs.in_process(), Tool.make("ship", parameters=int, success=int).annotate(Resumable, True)
    layer: Any = Layer.effect_context(fx.succeed(Context.empty().put(ship.identity, _Elsewhere())))
    aspect: Any = Aspect.around(lambda _, proceed: proceed)
    handlers = aspect.wrap(layer) if wraps else layer

    def ask(*script: Any) -> Any:
        asked: Any = Agent.make("clerk", toolkit=Toolkit.make(ship)).execute("Go.")
        model: Any = ScriptedModel.make([*script]).layer
        return fx.run_exit(asked.provide(durable(handlers | model, run="r", store=runs)))

    with pytest.raises(Crash):
        ask(call("ship", 1))
    assert isinstance(ask().cause.failures[0], OutcomeUnknown)
