"""Changes that are appended: of instructions, sections, messages and tools, within a run and from run to run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from returns.result import Success

from fxai.agents import Agent, Memory, StepSetup
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import fx
from fxai.messages import Pending, Prompt
from fxai.models import Chat
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit
from tests.kit.binding_server import BindingServer, calls, states

look = Tool.make("look", success=str)
pay = Tool.make("pay", success=str)
kit = Toolkit.make(look)
live = look.handler(lambda _: Success("found"))


def desk(at: Render[None]) -> None:
    """Show a counter, data for one step, a message, and a tool for the first two steps."""
    count = at.state("count", 0)
    at.system("count", f"There were {count.value} steps.")
    if count.value == 1:
        at.data("hint", {"step": count.value})
    at.message(f"Use {at.tool(look, lambda _: Success('found'))}.")
    if count.value < 2:
        at.tool(pay, lambda _: Success("paid"))
    at.effect("count", lambda _: count.update(lambda n: n + 1))


GONE = "The tool <pay> is no longer available. A call of this tool fails."


def _counted(steps: int) -> list[str]:
    return ["The section <count> changed. It now reads:", "<count>", f"There were {steps} steps.", "</count>"]


def _grows(model: ScriptedModel) -> bool:
    sent = [[*request.prompt] for request in model.requests]
    return all(after[: len(before)] == before for before, after in pairwise(sent))


def _warned(model: ScriptedModel) -> list[str]:
    return [one.content for one in model.requests[-1].prompt if one.role == "system"]


def test_changes_of_sections_and_tools_are_appended() -> None:
    """A changed section is shown again, and a removed section and a removed tool are retracted."""
    model = ScriptedModel.make([call("look", {}), call("look", {}), call("pay", {}), text("Done.")])
    answer = fx.run(StatefulPrompt.make("desk", desk, changes="append").execute("Go.").provide(model.layer))

    assert _grows(model)
    assert [step.record.prefix_break for step in answer.steps] == [None] * 4
    assert [told.splitlines() for told in _warned(model)[1:]] == [
        [*_counted(1), "The section <hint> is new:", "<data>", "<hint>", "step: 1", "</hint>", "</data>"],
        [*_counted(2), "The section <hint> no longer applies.", GONE],
        _counted(3),
    ]


def test_a_retracted_tool_stays_declared_and_cannot_be_executed() -> None:
    """The request keeps the definition, the record lists only executable tools, and a call of the tool fails."""
    model = ScriptedModel.make([call("look", {}), call("look", {}), call("pay", {}), text("Done.")])
    answer = fx.run(StatefulPrompt.make("desk", desk, changes="append").execute("Go.").provide(model.layer))

    assert [[tool.name for tool in request.tools] for request in model.requests] == [["look", "pay"]] * 4
    assert [step.record.tools for step in answer.steps] == [("look", "pay"), ("look", "pay"), ("look",), ("look",)]
    assert [result.is_failure for result in answer.steps[2].results] == [True]


def test_rewrite_is_the_default_for_unknown_models() -> None:
    """Without facts, a request shows the new state at its usual place, and the record names the break."""
    model = ScriptedModel.make([call("look", {}), text("Done.")])
    answer = fx.run(StatefulPrompt.make("desk", desk).execute("Go.").provide(model.layer))

    assert not _grows(model)
    assert [step.record.prefix_break for step in answer.steps] == [None, "rewrite"]
    assert answer.response.prefix_break == "rewrite"


def test_an_unknown_policy_is_refused() -> None:
    """The message names the policies."""
    later: Any = "later"
    with pytest.raises(ValueError, match="must be 'auto', 'append', or 'rewrite', got 'later'"):
        Agent.make("a", changes=later)


def _memory(kind: str, path: Path) -> Callable[[], Memory]:
    if kind == "process":
        memory = Memory.in_process()
        return lambda: memory
    return lambda: Memory.file(path / "memory.json") if kind == "file" else Memory.sqlite(path / "memory.db")


@pytest.mark.parametrize("kind", ["process", "file", "sqlite"])
def test_changed_instructions_are_appended_from_run_to_run(kind: str, tmp_path: Path) -> None:
    """The instructions of the first run stay at the start; the memory survives a restart with the changes."""
    memory, model = _memory(kind, tmp_path), ScriptedModel.make([text("One."), text("Two."), text("Three.")])
    for instructions in ("Be brief.", "Be long.", "Be long."):
        agent = Agent.make("a", instructions=instructions, changes="append").with_memory(memory())
        fx.run(agent.execute("Go.").provide(model.layer))

    assert _grows(model)
    assert _warned(model) == [
        "Be brief.",
        "The instructions changed. These instructions replace the earlier ones:\n\nBe long.",
    ]


def test_a_stateful_prompt_continues_its_sections_from_run_to_run() -> None:
    """The next run of a memory knows which sections the model has read, and appends only what changed since."""
    memory, model = Memory.in_process(), ScriptedModel.make([call("look", {}), text("One."), text("Two.")])
    agent = Agent.make("a", instructions="Help.", prompt=StatefulPrompt.make("desk", desk), changes="append")
    answers = [fx.run(agent.with_memory(memory).execute("Go.").provide(model.layer)) for _ in range(2)]

    assert _grows(model)
    assert answers[1].steps[0].record.prefix_break is None
    assert "There were 2 steps." in _warned(model)[-1]
    assert "pay> is no longer available" in _warned(model)[-1]


def test_a_history_carries_its_changes() -> None:
    """A program that passes the history to the next run, through JSON, gets the same requests as a memory."""
    model = ScriptedModel.make([text("One."), text("Two."), text("Three.")])
    history = Prompt.empty
    for instructions in ("Be brief.", "Be long.", None):
        agent = Agent.make("a", instructions=instructions, changes="append")
        answer = fx.run(agent.execute(history.without_system() + Prompt.make("Go.")).provide(model.layer))
        history = Prompt.from_json(answer.history.to_json()).unwrap()

    assert _grows(model)
    assert _warned(model)[-1] == "The earlier instructions no longer apply."


def test_an_added_tool_is_a_break_without_a_form_of_the_provider() -> None:
    """The tools of a request are part of its start: the head shows the new state, and the record names the tools."""
    model = ScriptedModel.make([text("One."), text("Two."), text("Three.")])
    memory = Memory.in_process()
    agent = Agent.make("a", instructions="Help.", changes="append").with_memory(memory)
    runs = [agent, agent.with_tools(kit), agent]
    found = [fx.run(one.execute("Go.").provide(live).provide(model.layer)).steps[0].record.prefix_break for one in runs]

    assert found == [None, "tools", None]
    assert [[tool.name for tool in request.tools] for request in model.requests] == [[], ["look"], ["look"]]
    assert _warned(model)[-1] == "The tool <look> is no longer available. A call of this tool fails."


def test_a_hook_that_picks_tools_is_appended() -> None:
    """A step whose hook hides a tool retracts it, and the next step offers it again."""

    def pick(setup: StepSetup) -> StepSetup:
        return setup.with_tools(setup.toolkit.pick("look")) if setup.number == 2 else setup

    model = ScriptedModel.make([call("look", {}), call("look", {}), text("Done.")])
    agent = Agent.make("a", toolkit=Toolkit.make(look, pay), prepare_step=pick, changes="append")
    handlers = live | pay.handler(lambda _: Success("paid"))
    answer = fx.run(agent.execute("Go.").provide(handlers).provide(model.layer))

    assert _grows(model)
    assert [step.record.prefix_break for step in answer.steps] == [None] * 3
    assert [step.record.tools for step in answer.steps] == [("look", "pay"), ("look",), ("look", "pay")]
    assert _warned(model) == [
        GONE,
        "The tool <pay> is available from now on.",
    ]


def test_a_chat_of_an_agent_carries_its_changes() -> None:
    """Turns of a chat that an agent answers continue the instructions of the turns before."""
    model = ScriptedModel.make([text("One."), text("Two.")])

    def turn(instructions: str) -> Any:
        agent = Agent.make("a", instructions=instructions, changes="append")

        def answer(history: Prompt) -> Any:
            return agent.execute(history.without_system() + Prompt.make("Go.")).map(lambda one: (one, one.history))

        return _talk(answer)

    fx.run(turn("Be brief.").and_then(turn("Be long.")).provide(Chat.layer()).provide(model.layer))

    assert _grows(model)
    assert "Be long." in _warned(model)[-1]


@fx.gen
def _talk(answer: Any) -> Any:
    chat = yield from Chat
    return (yield from chat.turn(answer))


def test_a_model_that_binds_keeps_its_thinking_with_append() -> None:
    """A stateful prompt and changed instructions lose no thinking: every request extends the one before."""
    server = BindingServer([calls("look"), calls("look"), calls("look"), states("Done."), states("Again.")])
    agent = Agent.make("a", instructions="Help.", prompt=StatefulPrompt.make("desk", desk), changes="append")
    memory = Memory.in_process()
    first = fx.run(agent.with_memory(memory).execute("Go.").provide(server.layer))
    second = fx.run(agent.with_memory(memory).execute("And?").provide(server.layer))

    assert (server.refused, server.sent, server.dropped) == ([], [0, 1, 2, 3, 4], [0] * 5)
    assert [step.record.prefix_break for step in (*first.steps, *second.steps)] == [None] * 5


@pytest.mark.parametrize("kind", ["process", "file"])
def test_an_approval_in_a_memory_carries_its_changes(kind: str, tmp_path: Path) -> None:
    """A run that continues after an approval appends its changes, and the next run knows the changes."""
    refund = Tool.make("refund", success=str, needs_approval=True)

    def teller(at: Render[None]) -> None:
        paid = at.state("paid", 0)
        at.system("paid", f"{paid.value} refunds.")
        at.tool(refund, lambda _: paid.update(lambda n: n + 1).as_("done"))

    memory = _memory(kind, tmp_path)
    server = BindingServer([calls("refund"), states("Paid."), states("Yes.")])
    agent = Agent.make("a", prompt=StatefulPrompt.make("teller", teller))
    waiting = fx.run(agent.with_memory(memory()).execute("Pay.").provide(server.layer))
    asked = waiting.history.reply(Pending.approve)
    paid = fx.run(agent.with_memory(memory()).execute(asked[-1]).provide(server.layer))
    after = fx.run(agent.with_memory(memory()).execute("And?").provide(server.layer))

    assert (paid.text, after.text) == ("Paid.", "Yes.")
    assert (server.refused, server.sent, server.dropped) == ([], [0, 1, 2], [0, 0, 0])
    assert "1 refunds." in str(server.bodies[1]["messages"][-1])
