"""Recall: agents with memories, and calls that wait while others talk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fxai.agents import Agent, Compaction, Memory
from fxai.agents.recall import recall
from fxai.effects import Backend, fx
from fxai.messages import (
    AssistantMessage,
    Prompt,
    RateLimitError,
    ToolApprovalRequestPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from fxai.testing import ScriptedModel, call, fails, text
from tests.kit.approvals import Office
from tests.kit.memories import (
    KINDS,
    answered,
    approved,
    asked,
    begun_with,
    chat,
    commit_all,
    looked_up,
    memory_of,
)

of_each_kind = pytest.mark.parametrize("kind", KINDS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def _run(office: Office, memory: Memory, states: list[Any], prompt: Any, backend: Backend, *, streamed: bool) -> Any:
    """What became of a run of an agent with this memory, and what its model was asked."""
    model = ScriptedModel.make(states)
    agent = Agent.make("a", instructions="Be brief.", toolkit=office.kit).with_memory(memory)
    run: Any = agent.stream(prompt).drain() if streamed else agent.execute(prompt)
    ended = fx.run_result(run.provide(office.handlers).provide(model.layer), backend=backend)
    return ended, [request.prompt for request in model.requests]


def _approval(memory: Memory, backend: Backend) -> ToolMessage:
    """The answer that lets everything run that waits in any turn."""
    turns = fx.run(memory.turns(), backend=backend)
    return ToolMessage.make(*[one.approve() for turn in turns for one in turn.pending])


# -- agents


@of_each_kind
@both_ways
def test_a_run_is_told_the_turns_before_and_kept_when_it_succeeds(
    kind: str, streamed: bool, tmp_path: Path, backend: Backend
) -> None:
    """Instructions, what was said, then the prompt; a run that fails leaves the memory as it was."""
    office, memory = Office(), memory_of(kind, tmp_path)
    _run(office, memory, [call("look", {}), text("Dust.")], "Look.", backend, streamed=streamed)
    failed, _ = _run(office, memory, [call("look", {}), fails(RateLimitError())], "Again.", backend, streamed=streamed)
    _, (shown,) = _run(office, memory, [text("Yes.")], "Sure?", backend, streamed=streamed)
    turns = fx.run(memory.turns(), backend=backend)

    assert failed.failure().is_retryable
    assert [one.role for one in shown] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert [[one.role for one in turn] for turn in turns] == [
        ["user", "assistant", "tool", "assistant"],
        ["user", "assistant"],
    ]


@of_each_kind
@both_ways
def test_an_approval_may_come_after_other_runs(kind: str, streamed: bool, tmp_path: Path, backend: Backend) -> None:
    """The call runs once, behind its turn; the model reads its result there. What was said in between stays."""
    office, memory = Office(), memory_of(kind, tmp_path)
    _run(office, memory, [call("wipe", {"disk": "a"})], "Wipe a.", backend, streamed=streamed)
    _, (between,) = _run(office, memory, [text("Hello.")], "Hello?", backend, streamed=streamed)
    before = list(office.ran)
    answer = _approval(memory, backend)
    _, (shown,) = _run(office, memory, [text("Gone.")], answer, backend, streamed=streamed)
    _, (later,) = _run(office, memory, [text("Bye.")], "Bye.", backend, streamed=streamed)

    assert (before, len(office.ran)) == ([], 1)
    assert [one.role for one in between] == ["system", "user", "assistant", "tool", "user"]
    assert "did not run" in str(between[3])
    assert [one.role for one in shown] == ["system", "user", "assistant", "user", "assistant", "tool"]
    assert "gone" in str(shown[5])
    assert [one.role for one in later] == [
        *("system", "user", "assistant", "tool", "assistant", "user", "assistant", "user"),
    ]


@of_each_kind
def test_two_calls_are_approved_in_two_runs(kind: str, tmp_path: Path, backend: Backend) -> None:
    """The first answer runs the first call and waits on; the second one lets the model go on."""
    office, memory = Office(), memory_of(kind, tmp_path)
    calls = [call("wipe", {"disk": disk}) for disk in "ab"]
    _run(office, memory, [[*calls]], "Wipe both.", backend, streamed=False)
    for at in range(2):
        ((first, *rest),) = [turn.pending for turn in fx.run(memory.turns(), backend=backend)]
        said = [text("Both are gone.")] if at else []
        ended, _ = _run(office, memory, said, ToolMessage.make(first.approve()), backend, streamed=False)

        assert len(rest) == 1 - at
        assert len(office.ran) == 1 + at
        assert ended.unwrap().ended == ("done" if at else "pending")

    assert len(fx.run(memory.turns(), backend=backend)) == 1


@pytest.mark.slow
@of_each_kind
def test_agents_at_once_on_one_memory(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Ten runs with a call each, at the same time: ten turns, each with its call and its result."""
    office, memory = Office(), memory_of(kind, tmp_path)

    def one(number: int) -> Any:
        model = ScriptedModel.make([call("look", {}, id=f"c{number}"), text(f"{number}!")])
        run: Any = Agent.make("a", toolkit=office.kit).with_memory(memory).execute(str(number))
        return run.provide(office.handlers).provide(model.layer)

    fx.run(fx.for_each(range(10), one, concurrency=None), backend=backend)
    turns = fx.run(memory.turns(), backend=backend)

    assert sorted(map(begun_with, turns)) == [str(n) for n in range(10)]
    assert all([m.role for m in turn] == ["user", "assistant", "tool", "assistant"] for turn in turns)


def test_an_approval_whose_turn_is_out_of_the_window_is_refused(backend: Backend) -> None:
    """What a run is not told, it cannot go on with: nothing runs, and the turn still waits."""
    office, memory = Office(), Memory.in_process(Compaction.window(1))
    _run(office, memory, [call("wipe", {"disk": "a"})], "Wipe a.", backend, streamed=False)
    _run(office, memory, [text("Hello.")], "Hello?", backend, streamed=False)
    ended, _ = _run(office, memory, [], _approval(memory, backend), backend, streamed=False)

    assert "no open request has this id" in str(ended.failure())
    assert office.ran == []
    assert fx.run(memory.turns(), backend=backend)[0].pending


# -- what is told


HELLO = Prompt.make("Hello?")


def _past(*turns: Prompt) -> Prompt:
    memory = Memory.in_process()
    fx.run_sync(commit_all(memory, turns))
    return fx.run_sync(memory.load())


def test_a_past_without_open_calls_is_told_as_it_is() -> None:
    """Not even copied."""
    past = _past(chat("a"), looked_up("b"), asked("c"), approved())

    assert all(recall(past, new) is past for new in (HELLO, approved(), Prompt.empty))
    assert recall(Prompt.empty, HELLO) == Prompt.empty


def test_what_waits_has_a_result_for_a_run_that_says_something_else() -> None:
    """Each open call, right behind it; calls that were answered keep their results."""
    past = _past(asked("a", "w1", "a1"), looked_up("b"), asked("c", "w2", "a2"))
    told = recall(past, HELLO)

    assert [one.role for one in told] == [
        *("user", "assistant", "tool"),
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool"),
    ]
    assert told.pending == ()
    assert [str(told[at]).count("the call needs an answer and did not run") for at in (2, 5, 9)] == [1, 0, 1]


def test_what_is_answered_comes_last_and_stays_open() -> None:
    """The others that wait have a result."""
    first, second = asked("a", "w1", "a1"), asked("b", "w2", "a2")
    told = recall(_past(first, second, chat("c")), approved("w1", "a1"))

    assert Prompt(told.messages[-2:]) == first
    assert [one.role for one in told] == ["user", "assistant", "tool", "user", "assistant", "user", "assistant"]
    assert [one.approval_id for one in told.pending] == ["a1"]


def test_without_anything_new_what_came_last_stays_open() -> None:
    """The run ends at once, and says what waits."""
    told = recall(_past(asked("a", "w1", "a1"), asked("b", "w2", "a2")), Prompt.empty)

    assert [one.id for one in told.pending] == ["w2"]
    assert len(told) == 5


def test_an_answer_to_nothing_is_left_to_the_run_to_refuse() -> None:
    """What waits has a result, as for any other prompt."""
    past = _past(asked("a"))

    assert recall(past, answered("other")) == recall(past, HELLO)


def test_calls_that_a_provider_runs_are_the_providers() -> None:
    """They wait for no result of ours."""
    asks = ToolApprovalRequestPart("a9", "p")
    theirs = AssistantMessage.make(ToolCallPart("p", "web_search", {}, provider_executed=True), asks)
    past = Prompt([UserMessage.make("a"), theirs, *asked("b")])
    told = recall(past, HELLO)

    assert [one.role for one in told] == ["user", "assistant", "user", "assistant", "tool"]
