"""Laws of failures in durable runs. After a crash, a program takes the way that it took before the crash."""

from __future__ import annotations

from collections import Counter
from typing import Any, final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Agent, LanguageModel, fx
from fxai.durable import Runs, durable, step
from fxai.effects import Gen, Layer, Schedule, Succeeded, Timeout
from fxai.messages import AiError, Finish, Text, UnknownError
from fxai.models import ModelRequest
from fxai.testing import TestClock
from tests.kit.stopping_journals import stop_after
from tests.kit.trials import examples

kinds = st.sampled_from(["ask", "stream", "retry", "late", "late ask", "both"])
worlds = st.lists(st.booleans(), min_size=1, max_size=5)


@final
class _World(LanguageModel):
    """A model that fails or is late. A list states when it does."""

    def __init__(self, fails: list[bool], clock: TestClock) -> None:
        self._fails = (fails * 50)[:50]
        self._clock = clock  # one for all programs of a run, because time does not go back
        self.done: list[str] = []
        self._is_caught = True

    def ask(self, request: ModelRequest) -> Any:
        """Return an answer or a failure. A slow answer can take 20 s."""
        away = AiError("demo", "ask", UnknownError(description="away"))
        is_bad = self._fails.pop()
        if "slow" in str(request.prompt[-1]):
            return fx.sleep(20.0 if is_bad else 0.1).and_then(fx.succeed((Text("ok"), Finish("stop"))))
        return fx.fail(away) if is_bad else fx.succeed((Text("ok"), Finish("stop")))

    def note(self, what: str) -> Any:
        """Return a step that notes what it did."""
        return step(what, fx.sync(lambda: self.done.append(what)).as_(what), str)

    def program(self, nodes: list[str]) -> Any:
        """Return the program that runs the nodes one after another."""
        return fx.for_each(list(enumerate(nodes)), self._node)

    def _node(self, node: tuple[int, str]) -> Any:
        number, kind = node
        agent: Any = Agent.make(f"agent {number}")
        match kind:
            case "ask":
                part: Any = agent.execute("Go.").as_("ok")
            case "stream":
                part = agent.stream("Go.").drain().as_("ok")
            case "retry":
                part = agent.execute("Go.").as_("ok").retry(Schedule.recurs(2))
            case "late ask":
                part = agent.execute("Be slow.").as_("ok").timeout(10)
            case "both":
                two = [self._node((number, "ask")), self._node((number, "late"))]
                part = fx.for_each(two, lambda one: one, concurrency=None).as_("ok")
            case _:
                wait: Any = fx.suspend(lambda: fx.sleep(20.0 if self._fails.pop() else 2.0))
                part = self.note(f"begin {number}").and_then(wait).as_("ok").timeout(10)
        caught: Any = part.catch_all(_name) if self._is_caught else part

        def note(end: str) -> Any:
            return self.note(f"{kind} {number} {end}")

        return caught.flat_map(note)

    def run(self, nodes: list[str], store: Any, *, is_caught: bool = True) -> Any:
        """Run the program, and return how it ended."""
        self._is_caught = is_caught
        clock = self._clock
        layer: Any = Layer.succeed(LanguageModel, self)
        asked: Any = self.program(nodes).provide(durable(layer, run="r", store=Runs(store, "this process")))

        def go() -> Gen[Any, Any, Any]:
            handle = yield from fx.fork(asked.exit())
            yield from clock.advance(500)
            return (yield from handle.join())

        return clock.run(fx.gen(go)())


def _name(error: Any) -> Any:
    if isinstance(error, AiError):
        return fx.succeed("failed")
    return fx.succeed("late") if isinstance(error, Timeout) else fx.fail(error)


def _records(store: Any) -> int:
    entries: list[Any] = store.journal("r").read(list)
    return sum(len(entry.parts) for entry in entries)


def _effects(nodes: list[str]) -> Counter[str]:
    """Return the effects of a program that has these nodes."""
    effects: Counter[str] = Counter()
    for number, node in enumerate(nodes):
        for kind in ["ask", "late"] if node == "both" else [node]:
            effects[f"{kind} {number}"] += 1
            effects.update([f"begin {number}"] if kind == "late" else [])
        effects.update([f"both {number}"] if node == "both" else [])
    return effects


def _without_ends(names: list[str]) -> Counter[str]:
    return Counter([name if name.startswith("begin") else name.rpartition(" ")[0] for name in names])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(kinds, min_size=1, max_size=4), worlds, worlds, st.data())
def test_a_crash_changes_no_way_that_a_program_took(
    nodes: list[str], first: list[bool], second: list[bool], data: st.DataObject
) -> None:
    """After a crash at any record, the program takes the same way in another world, and each effect runs once."""
    whole, clock = Runs.in_process().store, TestClock()
    world = _World(first, clock)
    assert isinstance(world.run(nodes, whole), Succeeded)
    assert _without_ends(world.done) == _effects(nodes)

    store, world = Runs.in_process().store, _World(first, clock)
    _ = world.run(nodes, stop_after(data.draw(st.integers(0, _records(whole))), store))
    after = _World(second, clock)
    end: Any = after.run(nodes, store)
    if isinstance(end, Succeeded):
        assert _without_ends(world.done + after.done) == _effects(nodes)
        again = _World(first, clock)
        assert (again.run(nodes, store), again.done) == (end, [])
    else:
        assert {type(one).__name__ for one in end.cause.failures} == {"OutcomeUnknown"}
        assert Counter(world.done + after.done) <= _effects_of(world.done + after.done)


def _effects_of(names: list[str]) -> Counter[str]:
    return Counter({*names})


@pytest.mark.parametrize("kind", ["ask", "stream"])
def test_a_run_that_ended_by_a_failure_tries_again(kind: str) -> None:
    """If no part follows a failed turn, the next program requests the turn again, and the run is done."""
    store, clock = Runs.in_process().store, TestClock()
    assert not isinstance(_World([True], clock).run([kind], store, is_caught=False), Succeeded)
    assert isinstance(_World([False], clock).run([kind], store, is_caught=False), Succeeded)
