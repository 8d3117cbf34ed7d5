"""Programs with a model that binds its thinking to the prefix: the API refuses no request."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Success

from fxai.agents import Agent, Changes, Compaction, Memory, StepSetup
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import fx
from fxai.messages import AssistantMessage, Pending, Prompt, ReasoningPart, ToolCallPart, UserMessage
from fxai.models import Chat, LanguageModel
from fxai.tools import Tool, Toolkit
from tests.kit.binding_server import BindingServer, calls, states

look = Tool.make("look", success=str)
pay = Tool.make("pay", success=str, needs_approval=True)
kit = Toolkit.make(look)
live = look.handler(lambda _: Success("found"))


def _run(program: Any, server: BindingServer) -> Any:
    return fx.run(program.provide(server.layer))


def test_a_run_that_only_grows_keeps_all_thinking() -> None:
    """Each step sends the thinking of all steps before it, also with several blocks in one answer."""
    server = BindingServer([calls("look", "look"), calls("look"), states("Done.")])
    agent = Agent.make("a", instructions="Be brief.", toolkit=kit)
    answer = _run(agent.execute("Go.").provide(live), server)

    assert answer.text == "Done."
    assert server.refused == []
    assert server.sent == [0, 2, 3]
    assert server.dropped == [0, 0, 0]


def test_a_streamed_run_keeps_all_thinking() -> None:
    """The parts of a stream carry the same digests as a whole answer."""
    server = BindingServer([calls("look", "look"), calls("look"), states("Done.")])
    agent = Agent.make("a", instructions="Be brief.", toolkit=kit)
    parts = _run(agent.stream("Go.").provide(live).collect(), server)

    assert parts[-1].type == "finish"
    assert (server.refused, server.sent) == ([], [0, 2, 3])


def test_a_stateful_prompt_that_is_rewritten_goes_on() -> None:
    """A changed section costs the thinking from before the change; the run continues."""

    def desk(at: Render[None]) -> None:
        count = at.state("count", 0)
        at.system("count", f"There were {count.value} steps.")
        at.tool(look, lambda _: Success("found"))
        at.effect("count", lambda _: count.update(lambda n: n + 1))

    server = BindingServer([calls("look"), calls("look"), states("Done.")])
    answer = _run(StatefulPrompt.make("desk", desk, changes="rewrite").execute("Go."), server)

    assert (answer.text, server.refused, server.sent) == ("Done.", [], [0, 0, 0])
    assert [step.record.prefix_break for step in answer.steps] == [None, "rewrite", "rewrite"]


@pytest.mark.parametrize("turns", [1, 2])
def test_a_window_of_a_memory_goes_on(turns: int) -> None:
    """Runs continue after the window dropped their oldest turns."""
    memory = Memory.in_process(Compaction.window(turns))
    server = BindingServer(lambda _: states("Yes."))
    agent = Agent.make("a").with_memory(memory)
    breaks = [_run(agent.execute(f"Question {n}"), server).steps[0].record.prefix_break for n in range(6)]

    assert server.refused == []
    assert len(server.bodies) == 6
    assert breaks == [None] * (turns + 1) + ["window"] * (5 - turns)


def test_prepare_step_that_edits_goes_on() -> None:
    """A hook that shows a hint for one step breaks the prefix, and the record names the break."""

    def hint(setup: StepSetup) -> StepSetup:
        return setup.with_messages(setup.messages + Prompt.make(f"This is step {setup.number}."))

    server = BindingServer([calls("look"), calls("look"), states("Done.")])
    answer = _run(Agent.make("a", toolkit=kit, prepare_step=hint).execute("Go.").provide(live), server)

    assert server.refused == []
    assert [step.record.prefix_break for step in answer.steps] == [None, "edit", "edit"]


def test_an_approval_keeps_the_prefix() -> None:
    """A run that continues after an approval extends the request before the approval."""
    server = BindingServer([calls("pay"), states("Paid.")])
    agent = Agent.make("a", toolkit=Toolkit.make(pay))
    handled = pay.handler(lambda _: Success("paid"))
    waiting = _run(agent.execute("Pay.").provide(handled), server)
    answer = _run(agent.execute(waiting.history.reply(Pending.approve)).provide(handled), server)

    assert (answer.text, server.refused, server.sent) == ("Paid.", [], [0, 1])


def test_an_edited_history_goes_on() -> None:
    """The request omits the thinking after an edited message only, and the response names the edit."""
    server = BindingServer([states("One."), states("Two."), states("Three.")])
    agent = Agent.make("a")
    first = _run(agent.execute("First?"), server).history
    second = _run(agent.execute(first + Prompt.make("Second?")), server).history
    edited = Prompt(UserMessage.make("Changed?") if at == 2 else one for at, one in enumerate(second))
    answer = _run(agent.execute(edited + Prompt.make("Third?")), server)

    assert (server.refused, server.sent) == ([], [0, 1, 1])
    assert answer.steps[0].record.prefix_break == "edit"
    assert answer.response.prefix_break == "edit"
    assert "thinking" in answer.steps[0].warnings[0].message


def test_branches_of_a_history_keep_their_thinking() -> None:
    """Two conversations that continue one history both extend it."""
    server = BindingServer(lambda _: states("Yes."))
    agent = Agent.make("a")
    root = _run(agent.execute("First?"), server).history
    left = _run(agent.execute(root + Prompt.make("Left?")), server).history
    right = _run(agent.execute(root + Prompt.make("Right?")), server).history
    _run(agent.execute(left + Prompt.make("On?")), server)
    _run(agent.execute(right + Prompt.make("On?")), server)

    assert (server.refused, server.sent) == ([], [0, 1, 1, 2, 2])


def test_a_history_survives_json() -> None:
    """The digests are plain metadata: a restarted program sends the same thinking."""
    server = BindingServer(lambda _: states("Yes."))
    root = _run(Agent.make("a").execute("First?"), server).history
    read = Prompt.from_json(root.to_json()).unwrap()
    _run(Agent.make("a").execute(read + Prompt.make("Second?")), server)
    other = Agent.make("a", instructions="Other.", changes="rewrite")
    _run(other.execute(read + Prompt.make("Second?")), server)

    assert (server.refused, server.sent) == ([], [0, 1, 0])


def test_thinking_of_unknown_origin_is_left_to_the_api() -> None:
    """The API itself drops thinking without digests if the prefix does not fit."""
    server = BindingServer(lambda _: states("Yes."))
    root = _run(Agent.make("a", instructions="Old.").execute("First?"), server).history
    bare = _without_digests(root)
    for _ in range(2):
        agent = Agent.make("a", instructions="New.", changes="rewrite")
        bare = _run(agent.execute(bare + Prompt.make("On?")), server).history

    assert server.refused == []
    assert server.dropped == [0, 1, 1]
    assert server.bodies[1]["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}


def _without_digests(history: Prompt) -> Prompt:
    def strip(part: Any) -> Any:
        if not isinstance(part, ReasoningPart):
            return part
        own = {key: value for key, value in part.metadata["anthropic"].items() if key != "bound"}
        return ReasoningPart(part.text, metadata={"anthropic": own})

    return Prompt(
        AssistantMessage(tuple(map(strip, one.content))) if isinstance(one, AssistantMessage) else one
        for one in history
    )


def test_a_changed_call_leaves_out_the_thinking_after_it() -> None:
    """An edit of a call inside an answer invalidates the thinking after it in the same answer."""
    server = BindingServer([calls("look", "look"), states("Done.")])
    history = _run(Agent.make("a", toolkit=kit).execute("Go.").provide(live), server).history
    turn = history[1]
    assert isinstance(turn, AssistantMessage)
    changed = [ToolCallPart(one.id, "look", {"x": 1}) if one.type == "tool-call" else one for one in turn.content]
    edited = Prompt(AssistantMessage(tuple(changed)) if at == 1 else one for at, one in enumerate(history))
    server = _again(server)
    _run(Agent.make("a", toolkit=kit).execute(edited + Prompt.make("And?")).provide(live), server)

    assert server.refused == []


def _again(server: BindingServer) -> BindingServer:
    server.go_on(lambda _: states("Yes."))
    return server


def test_a_chat_goes_on() -> None:
    """Turns of a chat extend each other; other tools and an edited history do not, and no turn fails."""
    server = BindingServer(lambda _: states("Yes."))

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        first = yield from chat.generate_text("One?")
        second = yield from chat.generate_text("Two?")
        third = yield from chat.generate_text("Three?", toolkit=kit)
        fourth = yield from chat.generate_text("Four?", toolkit=kit)
        return [one.prefix_break for one in (first, second, third, fourth)]

    breaks = _run(talk().provide(Chat.layer("Hello.")).provide(live), server)

    assert server.refused == []
    assert server.sent == [0, 1, 0, 1]
    assert breaks == [None, None, "tools", None]


def test_another_model_goes_on() -> None:
    """A history of other models is sent to a model that binds, and back again."""
    server = BindingServer(lambda _: states("Yes."))
    other, agent = server.of("claude-opus-4-8"), Agent.make("a")
    history = fx.run(agent.execute("First?").provide(other)).history
    for model in (server.layer, other, server.layer, server.layer):
        history = fx.run(agent.execute(history + Prompt.make("On?")).provide(model)).history

    assert server.refused == []


def test_a_fallback_to_another_model_goes_on() -> None:
    """A step that another model answers does not stop the run."""
    server = BindingServer([calls("look"), calls("look"), states("Done.")])
    other = server.of("claude-sonnet-5-5")

    def second(setup: StepSetup) -> StepSetup:
        return setup.with_model(other) if setup.number == 2 else setup

    answer = _run(Agent.make("a", toolkit=kit, prepare_step=second).execute("Go.").provide(live), server)

    assert server.refused == []
    assert [step.record.prefix_break for step in answer.steps] == [None, "model", "model"]


@pytest.mark.parametrize(
    ("changes", "breaks", "sent"),
    [
        ("rewrite", [None, None, "tools", "tools", None], [0, 1, 0, 2, 3]),
        ("auto", [None] * 5, [0, 1, 2, 3, 4]),
    ],
)
def test_tools_of_one_run_go_on(changes: Changes, breaks: list[str | None], sent: list[int]) -> None:
    """A run with other tools on the same memory continues; with appended changes, no thinking is lost."""
    server = BindingServer([calls("look"), states("Done."), states("Yes."), calls("look"), states("Done.")])
    agent = Agent.make("a", changes=changes).with_memory(Memory.in_process())
    first = _run(agent.with_tools(kit).execute("Look.").provide(live), server)
    second = _run(agent.execute("And now?"), server)
    third = _run(agent.with_tools(kit).execute("Look.").provide(live), server)

    assert (server.refused, server.sent) == ([], sent)
    assert [step.record.prefix_break for run in (first, second, third) for step in run.steps] == breaks


def test_tools_that_come_and_go_keep_the_prefix() -> None:
    """A stateful prompt adds a tool, removes it and adds it again: the head stays, and the provider's form is valid."""

    def desk(at: Render[None]) -> None:
        count = at.state("count", 0)
        at.tool(look, lambda _: Success("found"))
        if count.value % 2:
            at.tool(pay, lambda _: Success("paid"))
        at.effect("count", lambda _: count.update(lambda n: n + 1))

    server = BindingServer([calls("look"), calls("look"), calls("look"), calls("look"), states("Done.")])
    answer = _run(StatefulPrompt.make("desk", desk).execute("Go."), server)

    assert (server.refused, server.sent) == ([], [0, 1, 2, 3, 4])
    assert [[tool["name"] for tool in body["tools"]] for body in server.bodies] == [["look"]] * 5
    assert [step.record.tools for step in answer.steps[:3]] == [("look",), ("look", "pay"), ("look",)]


def test_a_sub_agent_has_a_conversation_of_its_own() -> None:
    """The steps of a sub-agent do not disturb the prefix of its parent."""
    server = BindingServer([calls("helper", prompt="Help."), states("Helped."), states("Done.")])
    helper = Agent.make("helper", instructions="Help.")
    parent = Agent.make("parent").with_tools(helper.as_tool(description="Helps."))
    answer = _run(parent.execute("Go."), server)

    assert (answer.text, server.refused, server.sent) == ("Done.", [], [0, 0, 1])
    assert [step.record.prefix_break for step in answer.steps] == [None, None]


def test_the_server_refuses_what_the_api_refuses() -> None:
    """The server of these tests refuses a changed head and a changed block, in the words of the API."""
    server = BindingServer(lambda _: states("Yes."))
    history = _run(LanguageModel.generate_text("Hello"), server)
    prompt = _without_digests(Prompt.make("Hello").with_response(history.content)).set_system("Changed.")
    thinking: Any = {"type": "adaptive", "block_binding": {}}
    asked = LanguageModel.generate_text(
        prompt + Prompt.make("On?"), provider_options={"anthropic": {"thinking": thinking}}
    )
    failed = fx.run_result(asked.provide(server.layer))

    assert "bound to a different conversation" in server.refused[0]
    assert "bound to a different conversation" in str(failed.failure())


def test_a_paused_turn_goes_on() -> None:
    """The API refuses thinking after a message that only one request contained, so fxai omits that thinking."""
    server = BindingServer(lambda _: states("Yes."))
    agent = Agent.make("a")
    history = _run(agent.execute("First?"), server).history
    history = _run(agent.execute(history), server).history
    _run(agent.execute(history + Prompt.make("On?")), server)

    assert server.bodies[1]["messages"][-1]["content"][0]["text"] == "Continue."
    assert (server.refused, server.sent) == ([], [0, 1, 1])
