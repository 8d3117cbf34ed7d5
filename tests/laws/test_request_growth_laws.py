"""The laws of requests that only grow, over programs that are data.

No step alters earlier bytes of a request without a recorded break. With appended changes, no break occurs unless the
program causes one. A model that reads appended changes in order knows the state that a rewritten head shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import Agent, Changes, Compaction, Memory, StepSetup
from fxai.effects import Layer, fx
from fxai.messages import Prompt, SystemMessage
from fxai.models import ModelFacts, ModelRequest
from fxai.providers import anthropic, openai
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
from tests.kit.change_reader import read_state
from tests.kit.reaching import Reached
from tests.kit.step_programs import Program, Script, agent_of, programs, scripts, turns_of

FACTS = ModelFacts(provider="acme", model="m", binds_thinking=True, system_between=True, tool_changes_between=True)

WIRES: dict[str, Callable[[ModelRequest], dict[str, Any]]] = {
    "messages, with system messages between": lambda request: (
        anthropic.prepare_request(request, model="claude-fable-5-1").body
    ),
    "messages, without": lambda request: anthropic.prepare_request(request, model="claude-sonnet-5").body,
    "responses": lambda request: openai.prepare_request(request, model="gpt-5.5").body,
    "chat": lambda request: openai.prepare_request(request, model="gpt-5.5", api="chat").body,
}

CHANGE_TOOLS = ("messages, with system messages between", "responses")
"""The wires that have a form of their own for tools that are added later."""


def _run(program: Program, script: Script, changes: Changes, facts: ModelFacts | None = None) -> tuple[Any, Any]:
    model = ScriptedModel.make(turns_of(script), facts=facts)
    agent = agent_of(program, instructions="Help.", changes=changes)
    return fx.run(agent.execute("go").provide(model.layer)), model


def _extends(before: ModelRequest, after: ModelRequest) -> bool:
    """Return True if the messages and the tools begin with those of the request before; tools may come by a message."""
    old, new = [*before.prompt], [*after.prompt]
    added = {name for one in new[len(old) :] if isinstance(one, SystemMessage) for name in one.added_tools}
    known = {tool.name for tool in before.tools}
    rest = [tool for tool in after.tools if tool.name in known or tool.name not in added]
    return new[: len(old)] == old and [*before.tools] == rest


def test_no_step_alters_a_request_without_a_recorded_break() -> None:
    """The record of a step names a break exactly if its request does not extend the one before."""
    reached = Reached()

    @settings(max_examples=40)
    @given(programs(), scripts(), st.sampled_from(["rewrite", "append"]), st.booleans())
    def law(program: Program, script: Script, changes: Changes, knows: bool) -> None:
        answer, model = _run(program, script, changes, FACTS if knows else None)
        breaks = [step.record.prefix_break for step in answer.steps]
        found = [_extends(before, after) for before, after in pairwise(model.requests)]

        assert [one is None for one in breaks] == [True, *found]
        assert [step.response.prefix_break for step in answer.steps] == breaks
        reached("a break", not all(found))
        reached("growth", any(found))

    reached.by(law, **{"a break": 5, "growth": 5})


def test_appended_changes_break_nothing() -> None:
    """A prompt may change sections, tools and messages in each step; every request extends the one before."""
    reached = Reached()

    @settings(max_examples=40)
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        answer, model = _run(program, script, "auto", FACTS)

        assert [step.record.prefix_break for step in answer.steps] == [None] * len(answer.steps)
        assert all(_extends(before, after) for before, after in pairwise(model.requests))
        reached("a change", any(one.role == "system" for one in [*model.requests[-1].prompt][2:]))
        reached("tools come or go", len({step.record.tools for step in answer.steps}) > 1)

    reached.by(law, **{"a change": 5, "tools come or go": 5})


@pytest.mark.slow
def test_a_reader_of_appended_changes_knows_the_rewritten_state() -> None:
    """Sections and tools of each step are the same, read from the changes or from the rewritten head."""
    reached = Reached()

    @settings(max_examples=40)
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        appended, grown = _run(program, script, "append", FACTS)
        rewritten, plain = _run(program, script, "rewrite")

        for after, before in zip(grown.requests, plain.requests, strict=True):
            assert read_state(after, has_instructions=True) == read_state(before, has_instructions=True)
        assert [step.record.tools for step in appended.steps] == [step.record.tools for step in rewritten.steps]
        assert [step.results for step in appended.steps] == [step.results for step in rewritten.steps]
        reached("sections come or go", len({frozenset(read_state(one).sections) for one in plain.requests}) > 1)

    reached.by(law, **{"sections come or go": 5})


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_the_bytes_of_each_wire_grow(wire: str) -> None:
    """The body of each request starts with the blocks of the body before, and keeps the tools of its head."""
    reached = Reached()

    @settings(max_examples=25)
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        _, model = _run(program, script, "append", FACTS)
        sent = [_flat(WIRES[wire](request)) for request in model.requests]

        for before, after in pairwise(sent):
            assert after[: len(before)] == before
        heads = [json.dumps(WIRES[wire](request).get("tools")) for request in model.requests]
        assert len(set(heads)) == 1 or wire not in CHANGE_TOOLS
        reached("more than one", len(sent) > 1)

    reached.by(law, **{"more than one": 5})


def _flat(body: dict[str, Any]) -> list[str]:
    """Return the blocks of a body in order, as text: messages of one role in a row are one message."""
    head = [json.dumps(body.get("system"), sort_keys=True)]
    blocks: list[str] = []
    for message in body.get("messages") or body["input"]:
        content = message.get("content") if isinstance(message.get("content"), list) else [message]
        blocks += [json.dumps([message.get("role"), block], sort_keys=True) for block in content]
    return [*head, *blocks]


# -- from run to run


KIT = [Tool.make(name, success=str) for name in ("one", "two", "three")]


HANDLERS: Any = Layer.merge_all(*[one.handler(lambda _: fx.succeed("done")) for one in KIT])


class _Turn:
    def __init__(self, instructions: str | None, tools: frozenset[int]) -> None:
        self.instructions, self.tools = instructions, tools


TURNS = st.lists(
    st.builds(_Turn, st.sampled_from(["Be brief.", "Be long.", None]), st.frozensets(st.integers(0, 2))),
    min_size=2,
    max_size=6,
)


def _talk(turns: Sequence[_Turn], changes: Changes, memory: Memory, **options: Any) -> tuple[Any, Any]:
    model = ScriptedModel.make([text(f"Answer {at}.") for at in range(len(turns))], facts=FACTS)
    answers: list[Any] = []
    for turn in turns:
        make: Any = Agent.make
        agent = make("a", instructions=turn.instructions, changes=changes, **options)
        kit = Toolkit.make(*[KIT[at] for at in sorted(turn.tools)])
        program: Any = agent.with_tools(kit).with_memory(memory).execute("go")
        answers.append(fx.run(program.provide(HANDLERS).provide(model.layer)))
    return [answer.steps[0].record for answer in answers], model


def test_runs_of_a_memory_break_nothing() -> None:
    """Runs with other instructions and other tools extend the requests before, and show the state of the run."""
    reached = Reached()

    @settings(max_examples=40)
    @given(TURNS)
    def law(turns: Sequence[_Turn]) -> None:
        records, model = _talk(turns, "auto", Memory.in_process())

        assert [record.prefix_break for record in records] == [None] * len(turns)
        assert all(_extends(before, after) for before, after in pairwise(model.requests))
        for turn, record, request in zip(turns, records, model.requests, strict=True):
            state = read_state(request, has_instructions=turns[0].instructions is not None)
            assert state.instructions == (turn.instructions or "")
            assert state.tools == {KIT[at].name for at in turn.tools} == {*record.tools}
        reached("a tool is back", any(turns[at].tools - turns[at - 1].tools for at in range(2, len(turns))))

    reached.by(law, **{"a tool is back": 5})


def test_breaks_that_the_program_causes_are_recorded() -> None:
    """Windows, edits and rewritten changes are recorded exactly if the request does not extend the one before."""
    reached = Reached()

    def edit(setup: StepSetup) -> StepSetup:
        return setup.with_messages(Prompt([*setup.messages][1:]) if len(setup.messages) % 4 == 3 else setup.messages)

    @settings(max_examples=40)
    @given(TURNS, st.sampled_from(["rewrite", "append"]), st.integers(1, 3) | st.none(), st.booleans())
    def law(turns: Sequence[_Turn], changes: Changes, window: int | None, edits: bool) -> None:
        memory = Memory.in_process(None if window is None else Compaction.window(window))
        records, model = _talk(turns, changes, memory, **({"prepare_step": edit} if edits else {}))
        found = [_extends(before, after) for before, after in pairwise(model.requests)]

        assert [record.prefix_break is None for record in records] == [True, *found]
        for record in records:
            reached(str(record.prefix_break))

    reached.by(law, window=5, edit=5, tools=5, instructions=5)
