"""Effects of a stateful prompt, and the renders around them: when they run, in runs that go on, fail and wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fxai.agents.stateful import PromptState, Render, RenderError, RenderFailed, StatefulPrompt, StepPatch, StepView
from fxai.effects import Backend, Failed, fx
from fxai.messages import Prompt, RateLimitError, ToolMessage
from fxai.testing import ScriptedModel, Turn, call, fails
from fxai.tools import BoundToolkit, Tool, Toolkit
from tests.kit.renders import cause_of_play, plain_tool, play_out

act = plain_tool("act")
pay: Tool[object, object, Any] = Tool.dynamic("pay", parameters={"type": "object"}, needs_approval=True)


class Journal:
    """A prompt that counts calls, and notes its renders and what its effects saw."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.prompt = StatefulPrompt.make("journal", self.render)

    def render(self, at: Render) -> None:
        """Renders, and says so."""
        count = at.state("count", 0)
        number, value = at.number, count.value
        self.lines.append(f"render {number}: {value}")

        def note(name: str) -> None:
            self.lines.append(f"{name} {number}: {value}")

        at.tool(act, lambda _: count.update(lambda n: n + 1).as_(f"from {number}: {value}"))
        at.tool(pay, lambda _: count.update(lambda n: n + 10).as_(f"from {number}: {value}"))
        at.effect("once", lambda _: note("once"), deps=())
        at.effect("count", lambda _: note("count"), deps=(value,))

    def run(
        self, prompt: Any, *script: Turn, state: PromptState | None = None, backend: Backend = "asyncio"
    ) -> tuple[Any, list[str]]:
        """The answer of a run, or what it failed with, and the lines that it wrote."""
        self.lines.clear()
        model = ScriptedModel.make(list(script))
        ended = fx.run_exit(self.prompt.execute(prompt, state=state).provide(model.layer), backend=backend)
        return (ended.cause.failures[0] if isinstance(ended, Failed) else ended.value), list(self.lines)


FIRST = ["render 1: 0", "once 1: 0", "count 1: 0"]


def test_streams_render_as_runs_do() -> None:
    """Step by step, on either backend."""
    script: list[Turn] = [call("act", {}), [call("act", {}), call("act", {})], "done"]
    expected = [*FIRST, "render 2: 1", "count 2: 1", "render 3: 3", "count 3: 3"]
    backends: tuple[Backend, ...] = ("asyncio", "trio")

    for backend in backends:
        assert Journal().run("go", *script, backend=backend)[1] == expected
        streamed, model = Journal(), ScriptedModel.make(script)
        fx.run(streamed.prompt.stream("go").collect().provide(model.layer), backend=backend)
        assert streamed.lines == expected


def test_a_conversation_that_goes_on_is_rendered_once_for_a_step() -> None:
    """Its history has calls, and all of them have results: there is nothing to be run before its first step."""
    journal = Journal()
    answer, lines = journal.run("go", call("act", {}), "done")

    assert lines == [*FIRST, "render 2: 1", "count 2: 1"]
    assert journal.run(answer.history.concat("more"), "done")[1] == FIRST
    assert journal.run(answer.history.concat("more"), "done", state=answer.state)[1] == ["render 1: 1"]


def test_a_run_that_failed_goes_on_from_its_history_and_state() -> None:
    """What the calls before changed is kept, and what ran is not run again."""
    journal = Journal()
    failure, lines = journal.run("go", call("act", {}), fails(RateLimitError()))

    assert lines == [*FIRST, "render 2: 1", "count 2: 1"]
    assert failure.state.values == {"count": 1}

    answer, lines = journal.run(failure.history, "done", state=failure.state)

    assert lines == ["render 1: 1"]
    assert answer.state.values == {"count": 1}


@pytest.mark.parametrize("is_written", [False, True])
def test_an_approved_call_sees_the_values_of_its_step(is_written: bool) -> None:
    """Those before the other calls of its turn; what it changes is added to what these changed."""
    journal = Journal()
    waiting, _ = journal.run("go", call("act", {}), [call("act", {}), call("pay", {})])
    assert (waiting.ended, waiting.state.values) == ("pending", {"count": 2})

    history, state = waiting.history, waiting.state
    if is_written:
        history = Prompt.from_json(history.to_json()).unwrap()
        state = PromptState.from_json(state.to_json()).unwrap()
    answered = history.append(ToolMessage((waiting.pending[0].approve(),)))
    answer, lines = journal.run(answered, "done", state=state)

    assert [result.result for result in answer.steps[0].results] == ["from 2: 1"]
    assert lines == ["render 2: 1", "render 1: 12", "count 1: 12"]
    assert answer.state.values == {"count": 12}
    assert not answer.state.pending


def test_an_approved_call_is_run_by_the_step_that_made_it_until_it_is_answered() -> None:
    """Also where another call of that turn still waits when the run goes on."""
    journal = Journal()
    waiting, _ = journal.run("go", call("act", {}), [call("pay", {"n": 1}), call("pay", {"n": 2})])
    results: list[object] = []
    for _ in range(2):
        answered = waiting.history.append(ToolMessage((waiting.pending[0].approve(),)))
        waiting, _ = journal.run(answered, "done", state=waiting.state)
        results += [result.result for result in waiting.steps[0].results]

    assert results == ["from 2: 1"] * 2
    assert (waiting.ended, waiting.state.values) == ("done", {"count": 21})


def test_an_approved_call_that_was_not_run_keeps_its_step() -> None:
    """Where the run fails before it could, and goes on from what it failed with."""
    broken = [False]

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        number, value = at.number, count.value
        at.tool(act, lambda _: count.update(lambda n: n + 1))
        at.tool(pay, lambda _: fx.succeed(f"from {number}: {value}"))
        if broken[0]:
            at.data("one", 1)
            at.data("one", 2)

    def run(history: Any, state: PromptState | None, *script: Turn) -> Any:
        asked = StatefulPrompt.make("it", prompt).execute(history, state=state)
        ended = fx.run_exit(asked.provide(ScriptedModel.make(list(script)).layer))
        return ended.cause.failures[0] if isinstance(ended, Failed) else ended.value

    waiting = run("go", None, call("act", {}), [call("act", {}), call("pay", {})])
    broken[0] = True
    failure = run(waiting.history.append(ToolMessage((waiting.pending[0].approve(),))), waiting.state)
    broken[0] = False
    answer = run(failure.history, failure.state, "done")

    assert isinstance(failure, RenderFailed)
    assert [result.result for result in answer.steps[0].results] == ["from 2: 1"]
    assert not answer.state.pending


def test_what_several_effects_give_stands_in_their_order() -> None:
    """Messages, and sections behind those of the render."""

    def prompt(at: Render) -> None:
        at.system("role", "You add.")
        at.effect(
            "one", lambda _: StepPatch.message("One.") + StepPatch.system("first", "1") + StepPatch.message("Two.")
        )
        at.effect("other", lambda _: StepPatch.message("Three.") + StepPatch.system("second", "2"))

    played = play_out(prompt)

    assert played.said == [[("user", "go"), ("user", "One."), ("user", "Two."), ("user", "Three.")]]
    assert played.systems == ["<role>\nYou add.\n</role>\n<first>\n1\n</first>\n<second>\n2\n</second>"]


def test_a_render_changes_no_state() -> None:
    """It would have to be rendered anew for it; reading what is there now is no change."""
    read: list[int] = []

    def reads(at: Render) -> None:
        read.append(fx.run_sync(at.state("it", 0).now))

    def writes(at: Render) -> None:
        fx.run_sync(at.state("it", 0).set(1))

    play_out(reads)
    (failure,) = cause_of_play(writes).failures

    assert read == [0]
    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.step) == ("unsettled", 1)


def test_a_value_that_an_effect_changes_is_no_change_of_deps_in_the_same_step() -> None:
    """Dependencies are those of the render; the effect runs in the next step."""
    ran: list[int] = []

    def prompt(at: Render) -> None:
        mode = at.state("mode", "a")
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("change", lambda _: mode.set("b"), deps=())
        at.effect("follow", lambda step: ran.append(step.number), deps=(mode.value,))

    play_out(prompt, call("act", {}), call("act", {}))

    assert ran == [1, 2]


def test_a_patch_does_not_reach_the_effects_behind_it() -> None:
    """All of them see the step as it was rendered, whatever order they stand in."""
    seen: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def look(step: StepView) -> None:
        seen.append((step.tools, step.sections))

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("before", look)
        at.effect("patch", lambda _: StepPatch.hide("act") + StepPatch.data("more", 1))
        at.effect("after", look)

    played = play_out(prompt)

    assert seen == [(("act",), ())] * 2
    assert played.offered == [[]]


def test_a_patch_adds_no_tool_whose_calls_may_wait() -> None:
    """When an approval comes the patch is over: nobody could answer the call. Those that are answered elsewhere may."""

    def never(*_: object) -> bool:
        return False

    asks: Tool[object, object, Any] = Tool.dynamic("asks", parameters=object, needs_approval=never)
    elsewhere: Tool[object, object, Any] = Tool.dynamic("elsewhere", parameters=object, needs_approval=True)
    patches: list[Callable[[], StepPatch]] = [
        lambda: StepPatch.tool(pay, lambda _: fx.succeed(None)),
        lambda: StepPatch.tool(asks, lambda _: fx.succeed(None)),
        lambda: StepPatch.tools(BoundToolkit.of(Toolkit.make(pay), pay.handler(lambda _: fx.succeed(None)))),
    ]
    for patch in patches:
        with pytest.raises(RenderError, match="Define it in the render"):
            patch()

    def prompt(at: Render) -> None:
        at.effect("patch", lambda _: StepPatch.tools(elsewhere.external()))

    waiting = play_out(prompt, call("elsewhere", {})).answer
    answered = waiting.history.append(ToolMessage((waiting.pending[0].answer("from elsewhere"),)))
    model = ScriptedModel.make(["done"])
    answer = fx.run(StatefulPrompt.make("p", prompt).execute(answered, state=waiting.state).provide(model.layer))

    assert (answer.ended, answer.text) == ("done", "done")
    assert "from elsewhere" in str(model.requests[0].prompt)
