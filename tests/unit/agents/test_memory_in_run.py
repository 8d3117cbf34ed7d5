"""Memories in runs: what a run is told of earlier ones, and what of it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from returns.result import Result, Success
from typing_extensions import override

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Budget, BudgetExceeded, Compaction, Memory, MemoryFailure, step_count_is
from fxai.effects import Backend, Effect, Layer, Succeeded, Tag, fx
from fxai.messages import (
    NetworkError,
    Prompt,
    SystemMessage,
    ToolApprovalResponsePart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.testing import ScriptedModel, TestClock, call, fails, text
from fxai.tools import CallContext, Tool, Toolkit
from tests.kit.every import every
from tests.kit.journal import Journal
from tests.kit.memories import KINDS, begun_with, memory_of
from tests.kit.samples import giving

WAYS = ("execute", "stream")


@tool
def triple(n: int) -> int:
    """Triples a number."""
    return 3 * n


class Topic(msgspec.Struct, frozen=True):
    """What to write about."""

    name: str


def _run(bound: Any, said: Any, way: str, model: ScriptedModel, backend: Backend) -> Any:
    """How a run ended."""
    program: Any = bound.execute(said) if way == "execute" else bound.stream(said).drain()
    return fx.run_exit(program.provide(model.layer), backend=backend)


def _run_at(clock: TestClock, program: Any, model: ScriptedModel, backend: Backend) -> None:
    """Runs it by that clock."""
    fx.run(program.provide(model.layer).provide(clock.layer), backend=backend)


def _turns(memory: Memory, backend: Backend) -> list[list[str]]:
    """The roles of the messages of each turn that is kept."""
    return [[one.role for one in turn] for turn in fx.run(memory.turns(), backend=backend)]


def _shown(model: ScriptedModel, at: int) -> list[str]:
    return [one.content if one.role == "system" else str(Prompt([one])) for one in model.requests[at].prompt]


@every("way", WAYS)
@every("kind", KINDS)
def test_the_next_run_is_told_of_the_last_one(kind: str, way: str, tmp_path: Path, backend: Backend) -> None:
    """Instructions once, then what the memory holds, then what is said; calls and their results too."""
    memory = memory_of(kind, tmp_path)
    agent = Agent.make("a", instructions="Be brief.").with_tools(triple).with_memory(memory)
    model = ScriptedModel.make([call("triple", {"n": 2}), text("6"), text("You asked for 6.")])
    _run(agent, "Three times 2?", way, model, backend)
    _run(agent, "What was it?", way, model, backend)

    assert [one.role for one in model.requests[2].prompt] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert "Three times 2?" in _shown(model, 2)[1]
    assert "What was it?" in _shown(model, 2)[5]
    assert _turns(memory, backend) == [["user", "assistant", "tool", "assistant"], ["user", "assistant"]]


@pytest.mark.parametrize("way", WAYS)
def test_without_auto_append_nothing_is_kept(way: str, backend: Backend) -> None:
    """It is told what the memory holds all the same."""
    memory = Memory.in_process()
    agent = Agent.make("a")
    model = ScriptedModel.make([text("one"), text("two")])
    _run(agent.with_memory(memory), "first", way, model, backend)
    _run(agent.with_memory(memory, auto_append=False), "second", way, model, backend)

    assert "first" in _shown(model, 1)[0]
    assert len(_turns(memory, backend)) == 1


def test_the_last_memory_counts(backend: Backend) -> None:
    """With its own `auto_append`, whatever the one before had."""
    a, b = Memory.in_process(), Memory.in_process()
    bound = Agent.make("a").with_memory(a, auto_append=False).with_memory(b)
    _run(bound, "hello", "execute", ScriptedModel.make([text("hi")]), backend)

    assert (_turns(a, backend), _turns(b, backend)) == ([], [["user", "assistant"]])


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_fails_is_not_kept(way: str, backend: Backend) -> None:
    """Whether the model failed, the budget was spent, or a hook failed."""
    memory = Memory.in_process()
    agent = Agent.make("a", budget=Budget(rounds=2)).with_tools(triple).with_memory(memory)
    again: list[Any] = [call("triple", {"n": 1})] * 3
    endings = [
        _run(agent, "?", way, ScriptedModel.make([[fails(NetworkError("TransportError"))]]), backend),
        _run(agent, "?", way, ScriptedModel.make(again), backend),
        _run(agent.on_step(lambda _: fx.fail("no")), "?", way, ScriptedModel.make([text("hi")]), backend),
    ]

    assert all(ended.cause.failures for ended in endings)
    assert _turns(memory, backend) == []


class Slow(Memory):
    """A memory of which nothing comes before `waiting` is over; it notes what it is told."""

    def __init__(self, waiting: Any) -> None:
        self.waiting = waiting
        self.told: list[Prompt] = []
        self.closed = 0

    @override
    def load(self) -> Any:
        return self.waiting.as_(Prompt.make("Earlier.")).on_exit(self._close)

    @override
    def commit(self, messages: Prompt) -> Any:
        return fx.sync(lambda: self.told.append(messages))

    @override
    def turns(self) -> Any:
        return fx.succeed(tuple(self.told))

    @override
    def clear(self) -> Any:
        return fx.succeed(None)

    def _close(self, _: Any) -> Any:
        def close() -> None:
            self.closed += 1

        return fx.sync(close)


@pytest.mark.slow
@every("way", WAYS)
@every("at_limit", ["fail", "answer", "last_text"])
def test_a_memory_is_loaded_in_the_time_of_the_run(at_limit: Any, way: str, backend: Backend) -> None:
    """One that never is, is let go when the time is up; the run ends as its budget says, and is not kept."""
    memory = Slow(fx.never())
    model = ScriptedModel.make([text("without it")])
    agent = Agent.make("a", budget=Budget(seconds=0.3), at_limit=at_limit).with_memory(memory)
    ended = _run(agent, "?", way, model, backend)

    assert (memory.closed, memory.told) == (1, [])
    if at_limit == "answer":
        assert isinstance(ended, Succeeded)
        assert _shown(model, 0) == [str(Prompt.make("?"))]
    else:
        assert ended.cause.failures == (BudgetExceeded("seconds", 0.3, Prompt.make("?")),)


def test_what_loading_takes_is_not_there_for_the_rest(backend: Backend) -> None:
    """The time runs from before the memory is loaded: calls are told when it ends."""
    clock, ends = TestClock(), list[float | None]()
    until = Tool.make("until", success=int)

    def on_until(_: Any, about: CallContext) -> Result[int, Any]:
        ends.append(about.deadline)
        return Success(1)

    agent = Agent.make("a", budget=Budget(seconds=5), toolkit=Toolkit.make(until))
    remembering: Any = agent.with_memory(Slow(clock.advance(3)))
    begun = clock.monotonic()
    model = ScriptedModel.make([call("until", {}), text("ok")])
    _run_at(clock, remembering.execute("?").provide(until.handler(on_until)), model, backend)

    assert ends == [begun + 5]


def test_where_tools_took_the_time_a_memory_is_loaded_all_the_same(backend: Backend) -> None:
    """For the last question, as long as that may take: it is told of it, and kept."""
    clock = TestClock()
    never: Any = clock.advance(6).and_then(fx.never())
    late: Any = ToolSource(never)
    memory = Slow(clock.advance(3))
    agent: Any = Agent.make("a", budget=Budget(seconds=5), at_limit="answer").with_tools(late).with_memory(memory)
    model = ScriptedModel.make([text("ok")])
    _run_at(clock, agent.execute("?"), model, backend)

    assert "Earlier." in _shown(model, 0)[0]
    assert len(memory.told) == 1


def test_an_output_is_kept_when_it_was_decoded(backend: Backend) -> None:
    """One that never fits is not; a run that a condition stopped before there was one is not."""
    memory = Memory.in_process()
    agent = Agent.make("a", output=Topic, output_retries=0).with_tools(triple).with_memory(memory)
    bad = _run(agent, "bad", "execute", ScriptedModel.make([text("no JSON")]), backend)
    kept = list(_turns(memory, backend))
    stopped = agent.stop_when(step_count_is(1))
    _run(stopped, "stopped", "execute", ScriptedModel.make([call("triple", {"n": 1})]), backend)
    kept += _turns(memory, backend)
    good = _run(agent, "good", "execute", ScriptedModel.make([text('{"name": "x"}')]), backend)

    assert bad.cause.failures
    assert kept == []
    assert good.value.output == Topic("x")
    assert _turns(memory, backend) == [["user", "assistant"]]


def test_a_stream_that_is_left_early_is_not_kept(backend: Backend) -> None:
    """One that is read to its last part is."""
    memory = Memory.in_process()
    bound = Agent.make("a").with_memory(memory)
    left: Any = bound.stream("?").take(1).drain()
    fx.run(left.provide(ScriptedModel.make([["one ", "two"]]).layer), backend=backend)
    before = _turns(memory, backend)
    fx.run(bound.stream("?").provide(ScriptedModel.make([["one ", "two"]]).layer).drain(), backend=backend)

    assert before == []
    assert _turns(memory, backend) == [["user", "assistant"]]


def test_a_stream_is_kept_before_its_last_part_is_read(backend: Backend) -> None:
    """Whoever sees the last `finish` can read the memory."""
    memory = Memory.in_process()
    seen: list[int] = []

    def look(part: Any) -> Any:
        kept = memory.turns().map(lambda turns: seen.append(len(turns)))
        return kept if part.type == "finish" else fx.succeed(None)

    stream: Any = Agent.make("a").with_memory(memory).stream("?").tap(look)
    fx.run(stream.drain().provide(ScriptedModel.make([text("hi")]).layer), backend=backend)

    assert seen == [1]


# -- what comes from elsewhere


def test_a_memory_may_be_given_by_a_layer(backend: Backend) -> None:
    """As the service `Memory`, or under a key of its own."""

    class Notes(Tag[Memory]):
        pass

    memory, notes = Memory.in_process(), Memory.in_process()
    model = ScriptedModel.make([text("one"), text("two")])
    plain = Agent.make("a").with_memory(Memory).execute("a").provide(memory.layer)
    other = Agent.make("a").with_memory(Notes).execute("b").provide(Layer.succeed(Notes, notes))
    fx.run(plain.provide(model.layer), backend=backend)
    fx.run(other.provide(model.layer), backend=backend)

    assert [len(_turns(one, backend)) for one in (memory, notes)] == [1, 1]


def test_a_memory_that_fails_fails_the_run(backend: Backend) -> None:
    """On loading, before the model is asked; on committing, after, and the failure holds the conversation."""

    class Broken(Memory):
        def __init__(self, where: str) -> None:
            self.where = where

        def load(self) -> Effect[Prompt, MemoryFailure]:
            return self.no("load") if self.where == "load" else fx.succeed(Prompt.empty)

        def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
            return self.no("commit")

        def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
            return fx.succeed(())

        def clear(self) -> Effect[None, MemoryFailure]:
            return fx.succeed(None)

        def no(self, what: Any) -> Effect[Any, MemoryFailure]:
            return fx.fail(MemoryFailure("nowhere", what, "it is full"))

    for where, asked in (("load", 0), ("commit", 1)):
        for way in WAYS:
            model = ScriptedModel.make([text("hi")])
            ended = _run(Agent.make("a").with_memory(Broken(where)), "?", way, model, backend)

            (failure,) = ended.cause.failures
            assert isinstance(failure, MemoryFailure)
            assert (failure.history is not None and "hi" in str(failure.history)) == (where == "commit")
            assert len(model.requests) == asked


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["load", "commit"])
def test_a_run_can_be_cancelled_while_its_memory_works(way: str, where: str, backend: Backend) -> None:
    """It ends at once, its source is closed, and nothing of it is kept."""
    journal, kept = Journal(), Memory.in_process()

    class Slow(Memory):
        def load(self) -> Effect[Prompt, MemoryFailure]:
            return self.waiting("load").and_then(kept.load())

        def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
            return self.waiting("commit").and_then(kept.commit(messages))

        def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
            return kept.turns()

        def clear(self) -> Effect[None, MemoryFailure]:
            return kept.clear()

        def waiting(self, what: str) -> Effect[None]:
            return journal.note(what).and_then(fx.sleep(3600 if what == where else 0))

    opened = fx.acquire_release(journal.note("open"), lambda _: journal.note("close"))
    source: Any = ToolSource(opened.as_(BoundToolkit.make(triple)))
    bound: Any = Agent.make("a").with_tools(source).with_memory(Slow())
    program: Any = bound.execute("?") if way == "execute" else bound.stream("?").drain()
    model = ScriptedModel.make([text("hi")])
    fx.run_exit(program.provide(model.layer).timeout(0.05), backend=backend)

    assert journal.lines == ["open", "load", *(["commit"] if where == "commit" else []), "close"]
    assert _turns(kept, backend) == []


def test_what_is_no_memory_is_refused() -> None:
    """A path is none; the message says how to have one."""
    bind: Any = Agent.make("a").with_memory

    with pytest.raises(TypeError, match=r"memory must be a Memory, such as Memory.file\(path\), .*got 'notes.db'"):
        bind("notes.db")


# -- what is said


def test_system_messages_of_the_prompt_stay_in_front(backend: Backend) -> None:
    """Before what the memory holds; they are not kept."""
    memory = Memory.in_process()
    agent = Agent.make("a", instructions="Be brief.").with_memory(memory)
    model = ScriptedModel.make([text("one"), text("two")])
    _run(agent, "first", "execute", model, backend)
    _run(agent, [SystemMessage("Rhyme."), UserMessage.make("second")], "execute", model, backend)

    assert [one.role for one in model.requests[1].prompt] == ["system", "system", "user", "assistant", "user"]
    assert _shown(model, 1)[:2] == ["Be brief.", "Rhyme."]
    assert _turns(memory, backend) == [["user", "assistant"]] * 2


def test_a_window_narrows_what_a_run_is_told(backend: Backend) -> None:
    """The last turns, whole."""
    memory = Memory.in_process(Compaction.window(1))
    agent = Agent.make("a").with_tools(triple).with_memory(memory)
    model = ScriptedModel.make([text("one"), call("triple", {"n": 1}), text("two"), text("three")])
    for said in ("first", "second", "third"):
        _run(agent, said, "execute", model, backend)

    assert [one.role for one in model.requests[3].prompt] == ["user", "assistant", "tool", "assistant", "user"]
    assert "second" in _shown(model, 3)[0]


# -- runs that wait


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("approved", [True, False])
def test_a_run_that_waits_is_kept_and_goes_on(way: str, approved: bool, backend: Backend) -> None:
    """With the answer alone: the call is run, or not, and all of it is one turn."""
    journal, memory = Journal(), Memory.in_process()
    send: Any = Tool.make("send", success=str, needs_approval=True)
    sends: Any = send.handler(giving(journal.note("sent").as_("sent")))
    agent: Any = Agent.make("a", instructions="Help.", toolkit=Toolkit.make(send, triple)).with_memory(memory)
    model = ScriptedModel.make([[call("triple", {"n": 2}, id="t"), call("send", {}, id="s")], text("All done.")])

    def run(said: Any) -> Any:
        program: Any = agent.execute(said) if way == "execute" else agent.stream(said).drain()
        return fx.run(program.provide(sends | triple.layer).provide(model.layer), backend=backend)

    run("Send it.")
    (turn,) = fx.run(memory.turns(), backend=backend)
    (waiting,) = turn.pending
    assert waiting.approval_id is not None
    answered = ToolApprovalResponsePart(waiting.approval_id, approved=approved)
    run([ToolMessage((answered,))])
    (whole,) = fx.run(memory.turns(), backend=backend)
    results = [part for one in whole if one.role == "tool" for part in one.content if part.type == "tool-result"]

    assert journal.lines == (["sent"] if approved else [])
    assert sorted(part.id for part in results) == ["s", "t"]
    assert whole.pending == ()
    assert [one.role for one in model.requests[1].prompt][:2] == ["system", "user"]
    assert whole[len(whole) - 1].role == "assistant"
    assert "All done." in str(whole)


def test_an_older_run_that_waits_goes_on(backend: Backend) -> None:
    """Others ended in between: the results are kept with the turn that waited, each once."""
    memory = Memory.in_process()
    send: Any = Tool.make("send", success=str, needs_approval=True)
    agent: Any = Agent.make("a", toolkit=Toolkit.make(send)).with_memory(memory)
    model = ScriptedModel.make([call("send", {}, id="s"), text("Later."), text("Sent.")])

    def run(said: Any) -> Any:
        handled = agent.execute(said).provide(send.handler(giving(Success("sent"))))
        return fx.run(handled.provide(model.layer), backend=backend)

    waiting = run("Send it.").pending[0]
    run("Never mind. Hello?")
    run([ToolMessage((ToolApprovalResponsePart(waiting.approval_id, approved=True),))])
    first, second = fx.run(memory.turns(), backend=backend)

    assert [part.id for one in first if one.role == "tool" for part in one.content if part.type == "tool-result"] == [
        "s"
    ]
    assert "Sent." in str(first)
    assert [one.role for one in second] == ["user", "assistant"]


def test_a_call_of_somebody_else_goes_on_with_its_result(backend: Backend) -> None:
    """The result is said; the turn is whole."""
    memory = Memory.in_process()
    client: Any = Tool.make("client", success=str).external()
    agent: Any = Agent.make("a", toolkit=Toolkit.make(client)).with_memory(memory)
    model = ScriptedModel.make([call("client", {}, id="x"), text("Thanks.")])
    first = fx.run(agent.execute("?").provide(model.layer), backend=backend)
    given = ToolMessage((ToolResultPart("x", "client", "here"),))
    fx.run(agent.execute([given]).provide(model.layer), backend=backend)

    assert first.ended == "pending"
    assert _turns(memory, backend) == [["user", "assistant", "tool", "assistant"]]


# -- many at once


@pytest.mark.parametrize("kind", KINDS)
def test_runs_at_once_lose_nothing(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Each is a turn of its own, whole."""
    memory = memory_of(kind, tmp_path)
    agent: Any = Agent.make("a").with_tools(triple).with_memory(memory)

    def one(n: int) -> Any:
        model = ScriptedModel.make([call("triple", {"n": n}), text(f"{n}")])
        return agent.execute(f"{n}").provide(model.layer)

    fx.run(fx.for_each(range(20), one, concurrency=None), backend=backend)
    turns = fx.run(memory.turns(), backend=backend)

    assert sorted(int(begun_with(turn)) for turn in turns) == list(range(20))
    assert {tuple(one.role for one in turn) for turn in turns} == {("user", "assistant", "tool", "assistant")}
