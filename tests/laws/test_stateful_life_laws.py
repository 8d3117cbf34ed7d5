"""The laws of what outlives a step of a stateful prompt: layers of toolkits, aspects with states, runs at once."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import Aspect
from fxai.agents import Agent, Answer, Memory
from fxai.agents.stateful import RenderOf, StatefulPrompt, StepPatch
from fxai.effects import Backend, LayerOf, Service, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import BoundToolkit, Tool, Toolkit
from tests.kit.journal import Journal, turns
from tests.kit.reaching import Reached
from tests.kit.trials import examples

LOOPS = pytest.mark.parametrize("backend", ["asyncio", "trio"])

_NAMES = ("k0", "k1", "k2")


class First(Service):
    """A service of the first toolkit."""


class Second(Service):
    """A service of the second one."""


class Third(Service):
    """A service of the third one."""


_KEYS: tuple[Any, ...] = (First, Second, Third)


def _kit(number: int, journal: Journal) -> Any:
    """A toolkit whose layer holds something, which its handler needs."""
    tool: Any = Tool.make(_NAMES[number], success=str)

    def handle(_: object) -> Any:
        return journal.note(f"!{_NAMES[number]}").as_("done")

    handler: Any = tool.handler(handle)
    held: Any = LayerOf.scoped(_KEYS[number], journal.held(_NAMES[number]))
    of: Any = BoundToolkit.of
    return of(Toolkit.make(tool), handler | held)


_PATTERNS = st.lists(st.sets(st.integers(0, 2)), min_size=1, max_size=6)


@LOOPS
def test_what_a_toolkit_holds_lives_as_long_as_it_is_defined(backend: Backend) -> None:
    """It is acquired once each time that it comes, is there while it is called, and released once; also if hidden."""
    reached = Reached()

    @settings(max_examples=examples(40, least=40))
    @given(_PATTERNS, st.lists(st.sets(st.integers(0, 2)), min_size=6, max_size=6), st.booleans())
    def law(pattern: list[set[int]], hides: list[set[int]], streamed: bool) -> None:
        journal = Journal()
        kits = [_kit(number, journal) for number in range(3)]

        def render(at: RenderOf[Any, Any]) -> None:
            for number in sorted(pattern[at.number - 1]) if at.number <= len(pattern) else ():
                at.tools(kits[number])
            hidden = [_NAMES[number] for number in hides[at.number - 1]] if at.number <= len(pattern) else []
            at.effect("hide", lambda _: StepPatch.hide(*hidden))

        every = [call(name, {}) for name in _NAMES]
        model = ScriptedModel.make([*[every for _ in pattern], text("ok")])
        prompt: Any = StatefulPrompt.make("p", render)
        run = prompt.stream("go").drain() if streamed else prompt.execute("go")
        fx.run(run.provide(model.layer), backend=backend)

        for number, name in enumerate(_NAMES):
            lives = "".join(line[0] for line in journal.lines if line[1:] == name)
            defined = [number in one for one in pattern]
            hidden = [number in one for one in hides]
            comes = sum(now and not before for before, now in zip([False, *defined], defined, strict=False))
            reached("comes again", comes > 1)
            reached("is called", "!" in lives)
            reached("is hidden", any(now and gone for now, gone in zip(defined, hidden, strict=False)))
            assert lives.replace("!", "") == "+-" * lives.count("+")
            assert not any(one.startswith("!") for one in lives.split("-"))
            assert lives.count("+") <= comes
            assert lives.count("+") == comes or any(hidden)
            assert lives.count("!") == sum(now and not gone for now, gone in zip(defined, hidden, strict=False))

    reached.by(law, **{"comes again": 5, "is called": 5, "is hidden": 5})


@LOOPS
@settings(max_examples=examples(30, least=30))
@given(st.lists(st.sampled_from(["defined", "hidden", "gone"]), min_size=1, max_size=6))
def test_the_state_of_an_aspect_lasts_while_it_is_defined(backend: Backend, steps: list[str]) -> None:
    """It counts on from step to step, also where a step hides it, and anew when it was gone."""
    look: Any = Tool.make("look", success=str)
    seen: list[int] = []

    def start() -> Any:
        count = 0

        def wrap(_: object, proceed: Any) -> Any:
            nonlocal count
            count += 1
            seen.append(count)
            return proceed

        return wrap

    aspect = Aspect.of(start)

    def render(at: RenderOf[Any, Any]) -> None:
        step = steps[at.number - 1] if at.number <= len(steps) else "gone"
        if step != "gone":
            found = at.tool(look, lambda _: fx.succeed("done"), aspect=aspect)
            at.effect("hide", lambda _: found.disable() if step == "hidden" else None)

    model = ScriptedModel.make([*[call("look", {}) for _ in steps], text("ok")])
    prompt: Any = StatefulPrompt.make("p", render)
    fx.run(prompt.execute("go").provide(model.layer), backend=backend)

    expected, count = list[int](), 0
    for step in steps:
        count = 0 if step == "gone" else count + (step == "defined")
        expected += [count] if step == "defined" else []
    assert seen == expected


@LOOPS
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5))
def test_runs_at_once_have_states_of_their_own(backend: Backend, calls: list[int]) -> None:
    """One prompt, many runs, whose handlers wait: each counts its own calls."""
    count: Any = Tool.make("count", success=int)

    def render(at: RenderOf[Any, Any]) -> None:
        n = at.state("n", 0)

        def on_count(_: object) -> Any:
            for _ in range(n.value + 1):
                yield from fx.checkpoint()
            return (yield from n.modify(lambda value: (value, value + 1)))

        at.tool(count, on_count)

    prompt: Any = StatefulPrompt.make("p", render)

    def run(number: int) -> Any:
        model = ScriptedModel.make([*[call("count", {}) for _ in range(number)], text("ok")])
        return prompt.execute("go").provide(model.layer)

    all_: Any = fx.all_
    answers: list[Answer[Any]] = fx.run(all_(*map(run, calls)), backend=backend)

    states: list[Any] = [answer.state for answer in answers]
    assert [dict(state.values) for state in states] == [{"n": number} for number in calls]
    assert [[step.results[0].result for step in answer.steps[:-1]] for answer in answers] == [
        list(range(number)) for number in calls
    ]


@LOOPS
@settings(max_examples=examples(30, least=30))
@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_a_composite_of_the_same_tools_lives_on(backend: Backend, defined: list[bool]) -> None:
    """What its sub-tools hold is acquired once each time that it comes, though each render makes it."""
    journal = Journal()
    kit = _kit(0, journal)

    def render(at: RenderOf[Any, Any]) -> None:
        if at.number <= len(defined) and defined[at.number - 1]:
            at.composite("many", kit)
            at.composite("many", kit)

    inner: dict[str, Any] = {"name": "k0", "args": {}}
    turn = call("many", {"calls": [inner]})
    model = ScriptedModel.make([*[turn for _ in defined], text("ok")])
    prompt: Any = StatefulPrompt.make("p", render)
    fx.run(prompt.execute("go").provide(model.layer), backend=backend)

    runs = "".join("!" if now else " " for now in defined).split()
    assert "".join(line[0] for line in journal.lines) == "".join(f"+{run}-" for run in runs)


async def _cut_after(program: Any, pause: int, native: bool) -> bool:
    """Whether a run was cut, after so many turns of the loop: by asyncio itself, or by a cancel scope."""
    if native:
        task = asyncio.ensure_future(fx.run_async(program))
        await turns(pause)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()
    ended: list[object] = []

    async def run() -> None:
        ended.append(await fx.run_async(program))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await turns(pause)
        tasks.cancel_scope.cancel()
    return not ended


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "native"), [("asyncio", True), ("asyncio", False), ("trio", False)])
def test_a_run_that_is_cut_releases_what_its_renders_hold(backend: Backend, native: bool) -> None:
    """In whichever turn of the loop; the memory has the messages with the state, or neither."""
    reached = Reached()

    @settings(max_examples=examples(40, least=40))
    @given(st.integers(0, 60), st.booleans())
    def law(pause: int, streamed: bool) -> None:
        journal, memory = Journal(), Memory.in_process()
        kits = [_kit(number, journal) for number in range(2)]

        def render(at: RenderOf[Any, Any]) -> None:
            count = at.state("count", 0)
            at.tools(*[kit for number, kit in enumerate(kits, 1) if at.number in (number, 3)])
            at.effect("e", lambda _: fx.checkpoint().and_then(count.update(lambda value: value + 1)).as_(None))

        every = [call(name, {}) for name in _NAMES[:2]]
        model = ScriptedModel.make([every, every, every, text("ok")])
        make: Any = Agent.make
        agent = make("a", prompt=StatefulPrompt.make("p", render)).with_memory(memory)
        program = (agent.stream("go").drain() if streamed else agent.execute("go")).provide(model.layer)

        async def main() -> None:
            was_cut = await _cut_after(program, pause, native)
            noted = len(journal.lines)
            await turns(3)
            state, kept = await fx.run_async(memory.load_state()), await fx.run_async(memory.turns())
            reached("cut while something is held", was_cut and noted > 0)
            reached("not cut", not was_cut)
            assert len(journal.lines) == noted
            assert (state is None) == (not kept)
            assert was_cut or kept
            assert state is None or dict(state.values) == {"count": 4}

        anyio.run(main, backend=backend)
        for name in _NAMES[:2]:
            lives = "".join(line[0] for line in journal.lines if line[1:] == name).replace("!", "")
            assert lives == "+-" * lives.count("+")

    reached.by(law, **{"cut while something is held": 3, "not cut": 3})
