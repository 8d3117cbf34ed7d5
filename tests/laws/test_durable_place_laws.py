"""Laws of the places in durable runs: a crash, a schedule, or a changed program never swaps or doubles an effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, final

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import Reply, Runs, durable, step
from fxai.effects import Layer
from fxai.messages import Finish, Text, ToolCall
from fxai.models import ModelRequest
from tests.kit.stopping_journals import stop_after
from tests.kit.trials import examples

Node = Any
"""A leaf, which is a name of a step or a prompt of an agent with its number, or the kind of a group with its nodes."""

leaves: st.SearchStrategy[Node] = st.sampled_from([("step", "mail"), ("step", "log"), ("agent", "a"), ("agent", "b")])
nodes: st.SearchStrategy[Node] = st.recursive(
    leaves,
    lambda inner: st.tuples(
        st.sampled_from(["each", "pairs", "fork", "sequence"]), st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=5,
)
delays: st.SearchStrategy[list[int]] = st.lists(st.integers(0, 4), min_size=1, max_size=7)


def _number(node: Node, numbers: Iterator[int]) -> Node:
    """Returns the node, in which each leaf has a number of its own."""
    kind, about = node
    if kind in ("step", "agent"):
        return (kind, about, next(numbers))
    return (kind, tuple(_number(one, numbers) for one in about))


def _leaves(node: Node) -> list[Node]:
    return [node] if len(node) == 3 else [leaf for one in node[1] for leaf in _leaves(one)]


def _change(node: Node, number: int, how: str) -> Node:
    """Returns the node, in which the leaf with a number has another name or prompt."""
    if len(node) == 2:
        return (node[0], tuple(_change(one, number, how) for one in node[1]))
    kind, about, own = node
    return (kind, f"{how} {about}", own) if own == number else node


@final
class _World(LanguageModel):
    """The effects of the leaves, and a model that calls the tool once."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.turns: Iterator[int] = iter(())

    def _after(self, f: Callable[[], Any]) -> Any:
        async def wait() -> Any:
            for _ in range(next(self.turns)):
                await anyio.lowlevel.checkpoint()
            return f()

        return fx.wait(wait)

    def ask(self, request: ModelRequest) -> Any:
        """Returns a call with the prompt, then the result of the call."""
        last = request.prompt[-1]
        if last.role != "tool":
            call = ToolCall("c", "pay", str(getattr(request.prompt[-1], "text", "")))
            return self._after(lambda: (call, Finish("tool-calls")))
        result: Any = last.content[0]
        return self._after(lambda: (Text(str(result.result)), Finish("stop")))

    def note(self, key: str) -> Any:
        """Does the effect of a leaf, after a while."""

        def do() -> str:
            self.done[key] += 1
            return key

        return self._after(do)

    def program(self, node: Node) -> Any:
        """Returns the program of a node; its value tells which effect each leaf has the value of."""
        if len(node) == 3:
            kind, about, number = node
            if kind == "step":
                return self._after(lambda: None).and_then(step(about, self.note(f"{about} {number}"), str))
            name = "auditor" if about.startswith("name") else "clerk"
            return Agent.make(name, toolkit=Toolkit.make(pay)).execute(about.removeprefix("name ")).map(_text)
        parts = [self.program(one) for one in node[1]]
        match node[0]:
            case "each":
                return fx.for_each(parts, lambda one: one, concurrency=None)
            case "pairs":
                return fx.for_each(parts, lambda one: one, concurrency=2)
            case "fork":
                return fx.scoped(fx.for_each(parts, fx.fork).flat_map(_join_all))
            case _:
                return fx.collect(parts)

    def run(self, node: Node, store: Any, schedule: list[int]) -> Any:
        """Runs the program once, in a schedule; returns how it ended."""
        self.turns = iter((schedule * 2000)[:2000])
        layer: Any = pay.handler(self.note) | Layer.succeed(LanguageModel, self)
        runs = Runs(store, "this process")
        return fx.run_exit(self.program(node).provide(durable(layer, run="r", store=runs)))

    def answer(self, store: Any) -> int:
        """Lets each call and step in doubt run again; returns how many there were."""
        runs = Runs(store, "this process")
        questions = fx.run(runs.show("r")).questions
        for question in questions:
            fx.run(runs.answer("r", question.id, Reply.again()))
        return len(questions)


def _text(answer: Any) -> str:
    return str(answer.text)


def _join_all(handles: Any) -> Any:
    return fx.for_each(handles, lambda handle: handle.join())


pay = Tool.make("pay", parameters=str, success=str)


def _expected(node: Node) -> Any:
    if len(node) == 2:
        return [_expected(one) for one in node[1]]
    kind, about, number = node
    return f"{about} {number}" if kind == "step" else about.removeprefix("name ")


def _effects(node: Node) -> Counter[str]:
    return Counter(_expected(leaf) for leaf in _leaves(node))


def _status(store: Any) -> str:
    return fx.run(Runs(store, "this process").show("r")).state.status


def _records(store: Any) -> int:
    entries: list[Any] = store.journal("r").read(list)
    return sum(len(entry.parts) for entry in entries)


@settings(max_examples=examples(60), deadline=None)
@given(nodes, delays, delays, st.data())
def test_a_crash_swaps_loses_and_doubles_no_effect(
    node: Node, first: list[int], second: list[int], data: st.DataObject
) -> None:
    """After a crash at any record, in another schedule, each leaf has the value of its own effect, which ran once.

    An effect in doubt runs again only if a person says so, and the run is done when no outcome is unknown.
    """
    node = _number(node, count())
    whole, world = Runs.in_process().store, _World()
    assert world.run(node, whole, first).value == _expected(node)
    assert (_status(whole), world.done) == ("done", _effects(node))

    store, world = Runs.in_process().store, _World()
    stop = data.draw(st.integers(0, _records(whole)))
    _ = world.run(node, stop_after(stop, store), first)
    end, doubts = world.run(node, store, second), 0
    while (asked := world.answer(store)) and doubts <= len(_leaves(node)):
        end, doubts = world.run(node, store, second), doubts + asked
    assert end.value == _expected(node)
    assert _status(store) == "done"
    extra = world.done - _effects(node)
    assert sum(extra.values()) <= doubts
    assert not _effects(node) - world.done


@settings(max_examples=examples(60), deadline=None)
@given(nodes, delays, delays, st.sampled_from(["text", "name"]), st.data())
def test_a_changed_program_never_runs_an_effect_again(
    node: Node, first: list[int], second: list[int], how: str, data: st.DataObject
) -> None:
    """If a leaf that the journal has gets another name or prompt, the run is refused, and no effect runs twice.

    Before the change, the program may run a second time, and leave again because of effects in doubt.
    """
    node = _number(node, count())
    changed_leaf = data.draw(st.sampled_from(_leaves(node)))
    changed = _change(node, changed_leaf[2], how)
    store, world = Runs.in_process().store, _World()
    whole = Runs.in_process().store
    _ = _World().run(node, whole, first)
    _ = world.run(node, stop_after(data.draw(st.integers(0, _records(whole))), store), first)
    if data.draw(st.booleans()):
        _ = world.run(node, stop_after(data.draw(st.integers(0, _records(whole))), store), second)
    end: Any = world.run(changed, store, second)
    assert world.done.total() <= len(_leaves(node))
    if _status(store) == "done":
        assert end.value == _expected(changed)
        assert world.done == _effects(changed)
    else:
        kinds = {type(one).__name__ for one in end.cause.failures}
        assert kinds <= {"ProgramChanged", "OutcomeUnknown"}
        original: Any = world.run(node, store, second)  # the journal is still the journal of the first program
        assert "ProgramChanged" not in repr(original)
        assert world.done.total() <= len(_leaves(node))
