"""Drafts: what is kept of a turn that was stopped, failed, or took several runs."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Success

from fxai import Agent, Prompt, Tool, Toolkit, fx
from fxai.agents.draft import Draft
from fxai.agents.memory import merge_commits
from fxai.agents.stateful import PromptState, Render, StatefulPrompt
from fxai.effects import Failed
from fxai.messages import StreamPart, ToolMessage
from fxai.messages.calls import insert_late
from fxai.testing import ScriptedModel, call, text
from tests.kit.every import every


class City(msgspec.Struct, frozen=True):
    """The parameters of the tool."""

    city: str


WEATHER = Tool.make("weather", parameters=City, success=int)
KIT = Toolkit.make(WEATHER)
AGENT = Agent.make("desk", toolkit=KIT)


def _run(draft: Draft, new: Prompt, model: ScriptedModel, *, stop_at: int | None = None, agent: Any = AGENT) -> None:
    """Runs a turn; with `stop_at` it is left when so many parts have come."""
    parts = draft.stream(agent, new).provide(KIT.to_layer(WEATHER.handler(lambda _: Success(21)))).provide(model.layer)
    if stop_at is None:
        fx.run(parts.drain())
    else:
        fx.run(parts.take(stop_at).drain())
        draft.stop("the user stopped it")


def _roles(prompt: Prompt) -> list[str]:
    return [message.role for message in prompt]


def test_a_turn_that_ended_is_what_the_agent_committed() -> None:
    """The messages of a turn that has ended are those that the agent committed, each once."""
    draft = Draft(Prompt.make("Before."))
    _run(draft, Prompt.make("Warm?"), ScriptedModel.make([call("weather", {"city": "Oslo"}), text("21.")]))
    draft.end()
    assert _roles(draft.messages) == ["user", "assistant", "tool", "assistant"]
    assert draft.messages[-1] == Prompt.make([{"role": "assistant", "content": "21."}])[0]


@every("stop_at", range(1, 10))
def test_a_turn_that_was_stopped_anywhere_leaves_no_call_open(stop_at: int) -> None:
    """Wherever a turn is stopped, the user's message stays first and every call in it has a result."""
    draft = Draft(Prompt.make("Before."))
    model = ScriptedModel.make([call("weather", {"city": "Oslo"}), text("21.")])
    _run(draft, Prompt.make("Warm?"), model, stop_at=stop_at)
    assert _roles(draft.messages)[0] == "user"
    assert not draft.messages.pending
    assert Prompt.from_json(draft.messages.to_json()) == Success(draft.messages)


def test_a_call_that_did_not_end_says_that_it_was_stopped() -> None:
    """The result of a call that was cut off says that it was interrupted, and why."""
    draft = Draft(Prompt.empty)
    _run(draft, Prompt.make("Warm?"), ScriptedModel.make([call("weather", {"city": "Oslo"})]), stop_at=2)
    last = draft.messages[-1]
    assert isinstance(last, ToolMessage)
    assert getattr(last.content[0], "result", None) == {
        "type": "execution-interrupted",
        "name": "weather",
        "reason": "the user stopped it",
    }


def test_text_that_had_come_is_kept_when_a_turn_is_stopped() -> None:
    """The text that had come when the turn was stopped stays in the conversation."""
    draft = Draft(Prompt.empty)
    parts: list[StreamPart] = []
    draft.start(Prompt.make("Hello"))
    model = ScriptedModel.make([text("Good day.")])
    fx.run(
        Agent.make("a").stream("Hello").for_each(lambda part: fx.sync(lambda: parts.append(part))).provide(model.layer)
    )
    for part in parts[:2]:
        draft.note(part)
    draft.stop("stopped")
    assert _roles(draft.messages) == ["user", "assistant"]
    assert draft.messages[1].content


def test_a_failed_run_keeps_its_results() -> None:
    """A run that fails behind a call keeps the call and its result, so that nothing is run again unknowingly."""
    draft = Draft(Prompt.empty)
    model = ScriptedModel.make([call("weather", {"city": "Oslo"})])
    parts = draft.stream(AGENT, Prompt.make("Warm?")).provide(KIT.to_layer(WEATHER.handler(lambda _: Success(21))))
    end = fx.run_exit(parts.drain().provide(model.layer))
    assert isinstance(end, Failed)
    draft.stop("the run failed")
    assert _roles(draft.messages) == ["user", "assistant", "tool"]
    assert getattr(draft.messages[-1].content[0], "result", None) == 21


def test_the_state_of_the_last_step_is_kept_when_the_turn_is_stopped() -> None:
    """What a step did to the state of a stateful prompt is kept where the turn is stopped behind it."""

    def desk(at: Render) -> None:
        count = at.state("count", 0)
        at.effect("count", lambda _: count.update(lambda n: n + 1), ())

    draft = Draft(Prompt.empty)
    agent = Agent.make("desk", prompt=StatefulPrompt.make("desk", desk))
    fx.run(draft.stream(agent, Prompt.make("Hello")).take(4).drain().provide(ScriptedModel.make([text("Hi.")]).layer))
    draft.stop("stopped")
    assert isinstance(draft.state, PromptState)
    assert draft.state.values == {"count": 1}


def test_an_approved_call_that_was_cut_off_says_so() -> None:
    """A call that was approved, and cut off before it had a result, gets one, so that the next run can go on."""
    wipe = Tool.make("wipe", parameters=City, success=int, needs_approval=True)
    agent = Agent.make("keeper", toolkit=Toolkit.make(wipe))
    handler = wipe.handler(lambda _: Success(1))
    model = ScriptedModel.make([call("wipe", {"city": "Oslo"}), text("Well.")])
    draft = Draft(Prompt.empty)
    fx.run(draft.stream(agent, Prompt.make("Go.")).provide(handler).provide(model.layer).drain())

    draft.start(Prompt((ToolMessage.make(draft.messages.pending[0].approve()),)))
    draft.stop("the user stopped it")
    kept = draft.messages
    fx.run(Draft(kept).stream(agent, Prompt.make("And?")).provide(handler).provide(model.layer).drain())

    last = kept[-1]
    assert isinstance(last, ToolMessage)
    assert [part.type for part in last.content] == ["tool-approval-response", "tool-result"]
    assert [message.role for message in model.requests[-1].prompt] == ["user", "assistant", "tool", "user"]


@every("is_cut", [True, False])
def test_a_late_answer_is_behind_its_call(is_cut: bool) -> None:
    """A turn that answers an earlier call keeps the answer and the result, also if it was cut off."""
    wipe = Tool.make("wipe", parameters=City, success=int, needs_approval=True)
    agent = Agent.make("keeper", toolkit=Toolkit.make(wipe))
    model = ScriptedModel.make([call("wipe", {"city": "Oslo"}), text("It waits."), text("Done."), text("Yes.")])

    def run(draft: Draft, said: str) -> Prompt:
        parts = draft.stream(agent, Prompt.make(said)).provide(wipe.handler(lambda _: Success(1)))
        fx.run(parts.provide(model.layer).drain())
        return draft.messages

    first = run(Draft(Prompt.empty), "Go.")
    before = first + run(Draft(first), "Wait.")
    late = Draft(before, late=Prompt((ToolMessage.make(first.pending[0].approve()),)))
    if is_cut:
        late.start(Prompt.make("I answered."))
        late.stop("the user stopped it")
    else:
        run(late, "I answered.")
    whole = Prompt(insert_late(merge_commits(before + late.messages)))
    run(Draft(whole), "And?")

    answered = whole[2]
    assert isinstance(answered, ToolMessage)
    assert [part.type for part in answered.content] == ["tool-approval-response", "tool-result"]
    assert [part.is_failure for part in answered.content if part.type == "tool-result"] == [is_cut]
    assert _roles(model.requests[-1].prompt)[:4] == ["user", "assistant", "tool", "user"]
