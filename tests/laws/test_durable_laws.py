"""Laws of durable runs: what a run comes to, and what it does, depends on no crash and on no schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.agents.stateful import Render, StatefulPrompt, StepPatch
from fxai.annotations import Idempotent
from fxai.durable import Runs, durable, step
from fxai.effects import Layer
from fxai.messages import Finish, Part, Text, ToolCall
from fxai.models import ModelRequest
from tests.kit.stopping_journals import stop_after
from tests.kit.trials import examples

Tree = tuple[Any, ...]
"""The turns of an agent: each the calls that it makes at once, a number for a call, a tree for a sub-agent."""

trees: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 9),
    lambda inner: st.lists(st.lists(inner, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple),
    max_leaves=8,
).filter(lambda tree: isinstance(tree, tuple))


class _Told(LanguageModel):
    """Does what the prompt says: a turn of the tree, then the next one, then the results."""

    def __init__(self, delays: Iterator[int]) -> None:
        self._delays = delays

    def ask(self, request: ModelRequest) -> Any:
        """One turn, after a while."""
        messages = list(request.prompt)
        user: Any = next(m for m in reversed(messages) if m.role == "user")
        turn = sum(m.role == "assistant" for m in messages)
        return _after(self._delays, lambda: _turn(user.text, turn, messages))


def _turn(text: str, turn: int, messages: list[Any]) -> tuple[Part, ...]:
    tree: Tree = eval(text, {"__builtins__": {}})  # the test wrote it
    if turn == len(tree):
        results = [part.result for m in messages if m.role == "tool" for part in m.content]
        return (Text(repr(results)), Finish("stop"))
    calls: list[ToolCall] = []
    numbers = [one for one in tree[turn] if isinstance(one, int)]
    two = numbers[:2] if len(numbers) > 1 else []  # these are made by a composite
    if two:
        calls.append(ToolCall(f"{turn}.two", "two", {"calls": [{"name": "work", "args": number} for number in two]}))
    for at, one in enumerate(tree[turn]):
        if not isinstance(one, int):
            calls.append(ToolCall(f"{turn}.{at}", "sub", {"prompt": repr(one)}))
        elif one not in two:
            calls.append(ToolCall(f"{turn}.{at}", "work", one))
    return (*calls, Finish("tool-calls"))


def _after(delays: Iterator[int], f: Callable[[], Any]) -> Any:
    async def wait() -> Any:
        for _ in range(next(delays)):
            await anyio.lowlevel.checkpoint()
        return f()

    return fx.wait(wait)


class _Hooks:
    """Hooks of every kind, and how often each did something."""

    def __init__(self, turns: Iterator[int], done: Counter[str]) -> None:
        self.done = done
        self._turns = turns

    def _note(self, what: str) -> Any:
        return _after(self._turns, lambda: self.done.update([what]))

    def hear(self, _: Any) -> Any:
        """Hears of a step."""
        return self._note("on_step")

    def stop(self, _: Any) -> Any:
        """Says that it is not to stop."""
        return self._note("stop").as_(False)

    def prepare(self, setup: Any) -> Any:
        """Runs a durable step, which fxai may run again after a crash, because its outcome is unknown."""
        return step("prepare", self._note("prepare").as_(1), int, idempotent=True).as_(setup)

    def render(self, at: Render[None]) -> None:
        """Shows how many steps were counted; the effect that counts them hides nothing."""
        total = at.state("total", 0)

        def count_step(_: Any) -> Any:
            counted = self._note("effect").and_then(total.update(lambda value: value + 1))
            return counted.as_(StepPatch.hide("nothing"))

        at.effect("count", count_step, None)
        at.system("total", f"There were {total.value} steps.")


def _run(tree: Tree, store: Any, delays: list[int], done: Counter[int], heard: Counter[str] | None = None) -> Any:
    """One program that goes on with the run, in a schedule of its own."""
    turns = iter((delays * 400)[:4000])
    work = Tool.make("work", parameters=int, success=int).annotate(Idempotent, True)

    def handle(n: int) -> Any:
        def note() -> int:
            done[n] += 1
            return n + 1

        return _after(turns, note)

    hooks = _Hooks(turns, Counter() if heard is None else heard)
    two = Toolkit.make(work).as_tool("two", concurrency=None)

    def make() -> Any:
        prompt: Any = StatefulPrompt.make("counting", hooks.render)
        options: Any = {"on_step": hooks.hear, "stop_when": hooks.stop, "prepare_step": hooks.prepare}
        return Agent.make("sub", toolkit=Toolkit.make(work, two.tool), prompt=prompt, **options)

    sub = make()
    agent = sub.with_tools(sub.as_tool(), on_conflict="first")
    for _ in range(3):  # sub-agents have sub-agents
        agent = make().with_tools(agent.as_tool())
    working: Any = work.handler(handle)
    layer: Any = working | two.layer.provide(working) | Layer.succeed(LanguageModel, _Told(turns))
    asked: Any = agent.execute(repr(tree))
    return fx.run_exit(asked.provide(durable(layer, run="r", store=Runs(store, "this process"))))


def _value(end: Any) -> Any:
    assert not hasattr(end, "cause"), end
    return end.value


def _number(tree: Any, numbers: Iterator[int]) -> Any:
    """The tree, in which each call has a number of its own."""
    return next(numbers) if isinstance(tree, int) else tuple(_number(one, numbers) for one in tree)


def _records(store: Any) -> list[Any]:
    def parts(entries: Iterator[Any]) -> list[Any]:
        return [part for entry in entries for part in entry.parts]

    records: list[Any] = store.journal("r").read(parts)
    return records


def _hooked(known: list[Any]) -> Counter[str]:
    """How many hooks of each kind had ended: `step` within one is named by itself, not by the hook."""
    paths = [one.path for one in known if type(one).__name__ == "Ended" and one.kind == "value"]
    kinds = {"/on_step ": "on_step", "/stop ": "stop", "/step prepare": "prepare", "/effect ": "effect"}
    return Counter(kind for path in paths for part, kind in kinds.items() if _last(path, part))


def _last(path: str, part: str) -> bool:
    return path.rpartition(part)[2].count("/") <= 1 and part in path


def _numbers(tree: Any) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for one in tree:
            yield from _numbers(one)


@settings(max_examples=examples(60))
@given(trees, st.lists(st.integers(0, 3), min_size=1, max_size=7), st.lists(st.integers(0, 3), min_size=1), st.data())
def test_a_run_comes_to_the_same_under_every_crash_and_schedule(
    tree: Tree, first: list[int], second: list[int], data: st.DataObject
) -> None:
    """Stopped after any number of records, and gone on with in another order, it gives the same answer.

    What had ended before is not run again, calls and hooks alike: only what was in doubt may have run twice.
    """
    tree = _number(tree, count())
    whole, done, heard = Runs.in_process().store, Counter[int](), Counter[str]()
    expected = _value(_run(tree, whole, first, done, heard))
    assert done == Counter(_numbers(tree))
    records = len(_records(whole))

    store, before, after = Runs.in_process().store, Counter[int](), Counter[int]()
    stop = data.draw(st.integers(0, records - 1))
    _ = _run(tree, stop_after(stop, store), first, before)
    known = _records(store)
    assert len(known) == stop  # the program ran until there
    ended = {one.path for one in known if type(one).__name__ == "Ended" and one.kind == "success"}
    finished = {
        one.params for one in known if type(one).__name__ == "Begun" and one.path in ended and one.name == "work"
    }
    hooked, again = _hooked(known), Counter[str]()
    resumed = _value(_run(tree, store, second, after, again))
    assert resumed.text == expected.text
    assert resumed.history == expected.history
    assert not finished & after.keys()
    assert finished | after.keys() == set(_numbers(tree))
    assert max(after.values(), default=1) == 1
    assert hooked + again == heard
    assert heard["on_step"] == heard["prepare"] == heard["effect"]  # each once a step
    assert _value(_run(tree, store, first, after, again)).history == expected.history
    assert hooked + again == heard
