"""Interceptors stand around runs, turns, calls and the work of memories, without a word of them in any type."""

from __future__ import annotations

from typing import Any

from returns.result import Success

from fxai import Agent, LanguageModel, Memory, Tool, Toolkit, fx
from fxai.effects import Layer
from fxai.models import InterceptedCall, Interceptor, RunInfo, TurnInfo, WorkInfo, intercept
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Outcome

double = Tool.make("double", parameters=int, success=int)
KIT = Toolkit.make(double)
HANDLERS = KIT.to_layer(double.handler(lambda n: Success(2 * n)))


class Notes(Interceptor):
    """Writes down what it stands around, and how often it is asked."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[str] = []

    def _note(self, what: str, effect: Any) -> Any:
        def start() -> Any:
            self.seen.append(f"{self.name}{what}")
            return effect

        return fx.suspend(start)

    def run(self, about: RunInfo, running: Any) -> Any:
        """Notes the agent."""
        return self._note(f"run {about.agent}", running)

    def turn(self, about: TurnInfo, asking: Any) -> Any:
        """Notes the place."""
        return self._note(f"turn {about.location}", asking)

    def stream_turn(self, about: TurnInfo, parts: Any) -> Any:
        """Notes the place."""
        self.seen.append(f"{self.name}stream {about.location}")
        return parts

    def admit(self, about: InterceptedCall, asking: Any) -> Any:
        """Notes the tool."""
        return self._note(f"admit {about.call.name}", asking)

    def call(self, about: InterceptedCall, running: Any) -> Any:
        """Notes the place and the tool."""
        return self._note(f"call {about.location}/{about.index} {about.call.name}", running)

    def work(self, about: WorkInfo, working: Any) -> Any:
        """Notes the name."""
        return self._note(about.name, working)


def _layer(notes: Interceptor, inner: Any = None) -> Any:
    made: Any = fx.succeed(notes)
    return intercept(Layer.empty() if inner is None else inner, lambda _: made)


def _script() -> Any:
    return ScriptedModel.make([(call("double", 1), call("double", 2)), text("Done.")]).layer


def test_it_stands_around_a_run_its_turns_its_calls_and_its_memory() -> None:
    """Each part is seen once, by its place in the run."""
    notes = Notes()
    agent = Agent.make("clerk", toolkit=KIT).with_memory(Memory.in_process())
    answer = fx.run(agent.execute("Go.").provide(HANDLERS).provide(_script()).provide(_layer(notes)))
    assert answer.text == "Done."
    calls = ["call 1/0 double", "call 1/1 double"]
    assert notes.seen == ["run clerk", "memory", "turn 1", *calls, "turn 2", "commit 1"]


def test_it_stands_around_the_turns_of_a_stream() -> None:
    """A streamed run is seen as a whole one is."""
    notes = Notes()
    agent = Agent.make("clerk", toolkit=KIT)
    fx.run(agent.stream("Go.").collect().provide(HANDLERS).provide(_script()).provide(_layer(notes)))
    calls = ["call 1/0 double", "call 1/1 double"]
    assert notes.seen == ["run clerk", "stream 1", *calls, "stream 2"]


def test_what_it_gives_stands_in_the_place_of_the_call() -> None:
    """A call that an interceptor answers does not reach its handler."""

    class Seven(Interceptor):
        def call(self, about: InterceptedCall, running: Any) -> Any:
            return fx.succeed(Outcome(7, 7))

    def never(_: int) -> Success[int]:
        raise AssertionError("the handler was called")

    model = ScriptedModel.make([call("double", 1)])
    asked = LanguageModel.generate_text("Go.", toolkit=KIT).provide(KIT.to_layer(double.handler(never)))
    response = fx.run(asked.provide(model.layer).provide(_layer(Seven())))
    assert [result.result for result in response.tool_results] == [7]


def test_a_call_that_is_answered_outside_may_be_answered_by_it() -> None:
    """An external tool waits for its result, unless an interceptor has it."""

    class Known(Interceptor):
        def admit(self, about: InterceptedCall, asking: Any) -> Any:
            return fx.succeed(Outcome(5, 5)) if about.call.params == 1 else asking

    outside = Tool.make("outside", parameters=int, success=int).external()
    model = ScriptedModel.make([(call("outside", 1), call("outside", 2))])
    asked = LanguageModel.generate_text("Go.", toolkit=Toolkit.make(outside))
    response = fx.run(asked.provide(model.layer).provide(_layer(Known())))
    assert [result.result for result in response.tool_results] == [5]
    assert [one.params for one in response.pending] == [2]


def test_an_approval_is_asked_for_inside_of_it() -> None:
    """It may name the request, and answer in its place."""

    class Named(Interceptor):
        def admit(self, about: InterceptedCall, asking: Any) -> Any:
            about.approval_id = f"number-{about.index}"
            return asking

    model = ScriptedModel.make([call("wipe", 1)])
    wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)
    kit = Toolkit.make(wipe)
    handlers = kit.to_layer(wipe.handler(Success))
    asked = LanguageModel.generate_text("Go.", toolkit=kit).provide(handlers).provide(model.layer)
    response = fx.run(asked.provide(_layer(Named())))
    assert [one.approval_id for one in response.approval_requests] == ["number-0"]


def test_an_outer_layer_stands_outside() -> None:
    """Of two interceptors that of the outer layer is asked first, each of them once."""
    outer, inner = Notes("outer "), Notes("inner ")
    inner.seen = outer.seen
    model = _layer(outer, _layer(inner, ScriptedModel.make([text("Hello.")]).layer))
    fx.run(LanguageModel.generate_text("Hello").provide(model))
    assert outer.seen == ["outer turn None", "inner turn None"]
    outer.seen.clear()
    nested = LanguageModel.generate_text("Hello").provide(ScriptedModel.make([text("Hello.")]).layer)
    fx.run(nested.provide(_layer(inner)).provide(_layer(outer)))
    assert outer.seen == ["outer turn None", "inner turn None"]
