"""Stateful prompts with a memory: a run goes on from the state of the run before, and from its messages."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from fxai import Tool, fx
from fxai.agents import Agent, Budget, Compaction, Memory, MemoryFailure
from fxai.agents.stateful import PromptState, RenderOf, StatefulPrompt
from fxai.effects import Backend, Effect, Failed
from fxai.messages import NetworkError, Prompt, ToolMessage
from fxai.testing import ScriptedModel, call, fails, text
from tests.kit.memories import KINDS, OwnMemory, memory_of

WAYS = ("execute", "stream")
of_each_kind = pytest.mark.parametrize("kind", KINDS)

add = Tool.make("add", success=int)
wipe = Tool.make("wipe", success=str, needs_approval=True)
DATA = {"add": call("add", {})}


def counter(at: RenderOf[Any, Any]) -> None:
    """Counts the calls of `add`; `wipe` is there when there was one, and counts ten."""
    n = at.state("n", 0)
    at.system("count", f"{n.value} so far")
    at.tool(add, lambda _: n.update(lambda n: n + 1).as_(n.value + 1))
    if n.value:
        at.tool(wipe, lambda _: n.update(lambda n: n + 10).as_(f"wiped at {n.value}"))


COUNTER: Any = StatefulPrompt.make("counter", counter)
AGENT: Any = Agent.make("a", prompt=COUNTER)


def _exit(agent: Any, said: Any, turns: list[Any], backend: Backend, way: str = "execute", **given: Any) -> Any:
    """How a run ended, and what the model was shown."""
    model = ScriptedModel.make(turns)
    program = agent.execute(said, **given) if way == "execute" else agent.stream(said, **given).drain()
    ended = fx.run_exit(program.provide(model.layer), backend=backend)
    return ended, [request.prompt.system() for request in model.requests]


def _run(agent: Any, said: Any, turns: list[Any], backend: Backend, way: str = "execute", **given: Any) -> Any:
    """What came of it, and what the model was shown."""
    ended, shown = _exit(agent, said, turns, backend, way, **given)
    assert not isinstance(ended, Failed), ended
    return ended.value, shown


def _n(memory: Memory) -> Any:
    state = fx.run(memory.load_state())
    return None if state is None else state.values["n"]


def _waiting(memory: Memory, at: int = -1) -> ToolMessage:
    """The approval of the calls that wait in a turn."""
    turn = fx.run(memory.turns())[at]
    return ToolMessage.make(*[one.approve() for one in turn.pending])


@of_each_kind
@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_from_the_state_of_the_run_before(kind: str, way: str, tmp_path: Path, backend: Backend) -> None:
    """Each from what the memory holds, opened anew; plain agents that use it in between change nothing about it."""
    agent = AGENT.with_memory(memory_of(kind, tmp_path))
    _, first = _run(agent, "one", [call("add", {}), text("1")], backend, way)
    plain = agent if kind == "in process" else AGENT.with_memory(memory_of(kind, tmp_path))
    memory = plain.remembering.memory
    _run(Agent.make("plain").with_memory(memory), "plain", [text("yes")], backend, way)
    _, second = _run(plain, "two", [call("add", {}), call("add", {}), text("3")], backend, way)

    said = [system.split("\n")[1] for system in (*first, *second)]
    assert said == ["0 so far", "1 so far", "1 so far", "2 so far", "3 so far"]
    assert (_n(memory), len(fx.run(memory.turns()))) == (3, 3)


def test_a_state_that_is_given_goes_before_that_of_the_memory(backend: Backend) -> None:
    """And is kept; without `auto_append` nothing is, and the run still goes on from the memory."""
    memory = Memory.in_process()
    given = PromptState.from_data({"values": {"n": 7}}).unwrap()
    _run(AGENT.with_memory(memory), "one", [call("add", {}), text("1")], backend)
    answer, _ = _run(AGENT.with_memory(memory), "two", [call("add", {}), text("8")], backend, state=given)
    reading = AGENT.with_memory(memory, auto_append=False)
    read, shown = _run(reading, "three", [call("add", {}), text("9")], backend)

    assert answer.state.values["n"] == 8
    assert shown[0] == "<count>\n8 so far\n</count>"
    assert (read.state.values["n"], _n(memory), len(fx.run(memory.turns()))) == (9, 8, 2)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_fails_leaves_the_state_as_it_was(way: str, backend: Backend) -> None:
    """The failure has what it was then."""
    memory = Memory.in_process()
    agent = AGENT.with_memory(memory)
    _run(agent, "one", [call("add", {}), text("1")], backend)
    ended, _ = _exit(agent, "two", [call("add", {}), [fails(NetworkError("TransportError"))]], backend, way)

    assert ended.cause.failures[0].state.values["n"] == 2
    assert (_n(memory), len(fx.run(memory.turns()))) == (1, 1)


def test_neither_a_window_nor_keep_loses_the_state(backend: Backend) -> None:
    """The run is shown one turn, and goes on from the state of one that is gone."""
    memory = Memory.in_process(Compaction.window(1), keep=1)
    agent = AGENT.with_memory(memory)
    _run(agent, "one", [call("add", {}), text("1")], backend)
    _run(Agent.make("plain").with_memory(memory), "plain", [text("yes")], backend)
    _, shown = _run(agent, "two", [text("1")], backend)

    assert shown == ["<count>\n1 so far\n</count>"]


# -- runs that wait


@of_each_kind
@pytest.mark.parametrize("way", WAYS)
def test_an_approved_call_is_run_by_the_step_that_made_it(
    kind: str, way: str, tmp_path: Path, backend: Backend
) -> None:
    """With the values of that step; what it changes is there for the next step, and is kept."""
    memory = memory_of(kind, tmp_path)
    asked, _ = _run(AGENT.with_memory(memory), "wipe", [call("add", {}), call("wipe", {})], backend)
    waiting, then = _n(memory), memory_of(kind, tmp_path) if kind != "in process" else memory
    _, shown = _run(AGENT.with_memory(then), _waiting(then), [text("done")], backend, way)
    (turn,) = fx.run(then.turns())

    assert (asked.ended, waiting, _n(then)) == ("pending", 1, 11)
    assert shown == ["<count>\n11 so far\n</count>"]
    assert "wiped at 1" in str(turn)
    assert turn.pending == ()


@of_each_kind
@pytest.mark.parametrize("first", [0, 1])
def test_calls_that_wait_in_several_turns_are_each_run_by_their_own_step(
    kind: str, first: int, tmp_path: Path, backend: Backend
) -> None:
    """In any order, and with other runs in between, which leave them as they are."""
    memory = memory_of(kind, tmp_path)
    agent = AGENT.with_memory(memory)
    _run(agent, "one", [call("add", {}), call("wipe", {})], backend)
    _run(agent, "two", [call("add", {}), call("wipe", {})], backend)
    both = [_waiting(memory, 0), _waiting(memory, 1)]
    between, _ = _run(agent, "three", [text("yes")], backend)
    _run(agent, both[first], [text("done")], backend)
    _run(agent, both[1 - first], [text("done")], backend)
    state, turns = fx.run(memory.load_state()), fx.run(memory.turns())

    assert len(between.state.pending) == 2
    assert [f"wiped at {n}" in str(turns[n - 1]) for n in (1, 2)] == [True, True]
    assert state is not None
    assert (state.values["n"], state.pending) == (22, ())


@pytest.mark.parametrize("way", WAYS)
def test_what_an_approved_call_changed_stays_where_the_run_fails(way: str, backend: Backend) -> None:
    """As its result does: the next run must not count on the old state."""
    memory = Memory.in_process()
    agent = AGENT.with_memory(memory)
    _run(agent, "wipe", [call("add", {}), call("wipe", {})], backend)
    _exit(agent, _waiting(memory), [[fails(NetworkError("TransportError"))]], backend, way)
    (turn,) = fx.run(memory.turns())
    _, shown = _run(agent, "and now?", [text("wiped")], backend)

    assert "wiped at 1" in str(turn)
    assert shown == ["<count>\n11 so far\n</count>"]


# -- memories that fail, or keep no state


@pytest.mark.parametrize("way", WAYS)
def test_a_memory_without_states_is_told_before_the_model_is_asked(way: str, backend: Backend) -> None:
    """It serves plain agents as ever, and a stateful prompt that only reads it."""
    memory = OwnMemory()
    _run(Agent.make("plain").with_memory(memory), "plain", [text("yes")], backend, way)
    ended, shown = _exit(AGENT.with_memory(memory), "one", [text("1")], backend, way)
    _run(AGENT.with_memory(memory, auto_append=False), "two", [text("2")], backend, way)

    (failure,) = ended.cause.failures
    assert isinstance(failure, MemoryFailure)
    assert "Define `load_state` and `commit_with` in the class." in failure.description
    assert (shown, len(memory.kept)) == ([], 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_cannot_be_kept_is_told_with_the_history_and_the_state(
    way: str, tmp_path: Path, backend: Backend
) -> None:
    """Another run can go on from both."""

    def odd(at: RenderOf[Any, Any]) -> None:
        """Its state is no JSON data."""
        at.state("odd", {1: object})

    prompt: Any = StatefulPrompt.make("odd", odd)
    memory = Memory.file(tmp_path / "memory.jsonl")
    ended, _ = _exit(Agent.make("a", prompt=prompt).with_memory(memory), "one", [text("1")], backend, way)

    (failure,) = ended.cause.failures
    assert isinstance(failure, MemoryFailure)
    assert "state 'odd' has no lossless JSON form" in failure.description
    assert failure.history is not None
    assert "1" in str(failure.history)
    assert failure.state is not None
    assert failure.state.values["odd"] == {1: object}
    assert fx.run(memory.turns()) == ()


def test_a_state_that_cannot_be_loaded_fails_the_run(tmp_path: Path, backend: Backend) -> None:
    """Before the model is asked; a plain agent is told nothing of it where it reads the turns alone."""
    path = tmp_path / "memory.db"
    agent = AGENT.with_memory(Memory.sqlite(path))
    _run(agent, "one", [call("add", {}), text("1")], backend)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("UPDATE memory_state SET state = '{}'")
    database.close()
    ended, shown = _exit(agent, "two", [text("1")], backend)

    assert shown == []
    assert "Restore the database from a backup, or append another state." in str(ended.cause.failures[0])


class Slow(OwnMemory):
    """Its state never comes."""

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        return fx.never()

    @override
    def commit_with(self, messages: Prompt, state: PromptState | None) -> Any:
        return self.commit(messages)


@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_loaded_in_the_time_of_the_run(way: str, backend: Backend) -> None:
    """One that never comes is let go when the time is up; what the run says then is not kept."""
    memory = Slow()
    agent: Any = Agent.make("a", prompt=COUNTER, budget=Budget(seconds=0.3), at_limit="answer").with_memory(memory)
    _, shown = _run(agent, "one", [text("0")], backend, way)

    assert (shown, memory.kept) == (["<count>\n0 so far\n</count>"], [])
