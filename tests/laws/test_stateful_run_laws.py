"""The laws of runs of stateful prompts, over renders that are data: what a run does, a small reference says.

The renders define tools, sections, messages and effects while the state says so; effects and handlers change the state,
and effects give patches. Runs agree with the reference, with each other, with their streams, and with themselves cut in
two. What a step advertises is what can be executed in it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import Budget, BudgetExceeded, Memory, StepSetup
from fxai.agents.stateful import PromptState
from fxai.effects import Backend, fx
from fxai.testing import ScriptedModel
from tests.kit.reaching import Reached
from tests.kit.step_programs import CALLED, Program, Script, agent_of, answer_of, programs, scripts, seen_in, turns_of
from tests.kit.step_reference import reference
from tests.kit.trials import examples

LOOPS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@LOOPS
def test_a_run_does_what_the_reference_says(backend: Backend) -> None:
    """Tools, sections, messages, reminders, results and states of each step."""
    reached = Reached()

    @settings(max_examples=examples(60, least=60))
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        expected = reference(program, script)
        reached(
            "a patch adds", any("patched" in dict(step.sections).values() or "pt1" in step.tools for step in expected)
        )
        reached("a call is refused", any(result == "UnknownTool" for step in expected for _, result in step.results))
        reached("a handler ran", any("saw" in result for step in expected for _, result in step.results))
        reached("an effect ran once", any(item.deps == () for item in program.items if item.kind == "effect"))
        reached("tools come or go", len({step.tools for step in expected}) > 1)
        reached("a reminder", any(step.reminded for step in expected))

        answer, model = answer_of(program, script, backend)

        assert seen_in(answer, model) == expected
        assert answer.state is not None
        assert {**expected[-1].after} == {"a": 0, "b": 0, "c": 0, **dict(answer.state.values)}

    cases = [
        "a patch adds",
        "a call is refused",
        "a handler ran",
        "an effect ran once",
        "tools come or go",
        "a reminder",
    ]
    reached.by(law, **dict.fromkeys(cases, 5))


@pytest.mark.slow
@LOOPS
def test_a_render_is_a_function_of_state_and_step(backend: Backend) -> None:
    """Two runs over one script give equal requests, records and states."""
    reached = Reached()

    @settings(max_examples=examples(25, least=25))
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        first, second = answer_of(program, script, backend), answer_of(program, script, backend)
        reached("patches", any(step.record.patches for step in first[0].steps))

        assert first[1].requests == second[1].requests
        assert first[0] == second[0]
        assert first[0].state == second[0].state
        assert [step.record for step in first[0].steps] == [step.record for step in second[0].steps]

    reached.by(law, patches=5)


@pytest.mark.slow
@LOOPS
def test_a_run_cut_at_any_step_goes_on_from_its_history_and_state(backend: Backend) -> None:
    """The requests of both halves are those of the whole run, and so is the state; also from JSON."""
    reached = Reached()

    @settings(max_examples=examples(30, least=30))
    @given(programs(), scripts(), st.integers(1, 4), st.booleans())
    def law(program: Program, script: Script, at: int, as_json: bool) -> None:
        at = min(at, len(script))
        made, model = answer_of(program, script, backend)
        whole: Any = made
        half = ScriptedModel.make(turns_of(script))
        first = agent_of(program, budget=Budget(rounds=at)).execute("go")
        ended: Any = fx.run_exit(first.provide(half.layer), backend=backend)
        (failure,) = ended.cause.failures
        assert isinstance(failure, BudgetExceeded)
        state: Any = failure.state
        reached("state changed", any(value for value in state.values.values()))
        if as_json:
            state = PromptState.from_json(state.to_json()).unwrap()
        second = agent_of(program).execute(failure.history, state=state)
        answer: Any = fx.run(second.provide(half.layer), backend=backend)

        assert half.requests == model.requests
        assert answer.history == whole.history
        assert dict(answer.state.values) == dict(whole.state.values)
        assert answer.state.to_json() == whole.state.to_json()
        assert as_json or answer.state == whole.state

    reached.by(law, **{"state changed": 10})


@pytest.mark.slow
@LOOPS
def test_a_stream_is_the_run_that_is_not_streamed(backend: Backend) -> None:
    """The same requests, turns, records and states, and the same in the memory."""
    reached = Reached()

    @settings(max_examples=examples(25, least=25))
    @given(programs(), scripts())
    def law(program: Program, script: Script) -> None:
        found: list[Any] = []
        for streamed in (False, True):
            memory, steps = Memory.in_process(), list[Any]()
            model = ScriptedModel.make(turns_of(script))
            agent = agent_of(program, on_step=steps.append).with_memory(memory)
            run = agent.stream("go").drain() if streamed else agent.execute("go")
            fx.run(run.provide(model.layer), backend=backend)
            kept = fx.run(memory.load_state()), fx.run(memory.load())
            found.append((model.requests, steps, [step.record for step in steps], *kept))
        reached("state changed", any(found[0][3].values.values()))

        assert found[0] == found[1]
        assert found[0][3].values == found[0][2][-1].after.values

    reached.by(law, **{"state changed": 5})


@pytest.mark.slow
@LOOPS
def test_what_is_advertised_is_what_can_be_executed(backend: Backend) -> None:
    """In each step every name is called: it succeeds, or fails as its handler says, exactly if the request had it.

    Also where hooks of the agent leave out tools.
    """
    reached = Reached()

    @settings(max_examples=examples(40, least=40))
    @given(programs(), st.lists(st.sampled_from(CALLED), max_size=3), st.booleans())
    def law(program: Program, left_out: list[str], streamed: bool) -> None:
        def leave_out(setup: StepSetup) -> StepSetup:
            return setup.with_tools(setup.toolkit.omit(*[one for one in left_out if one in setup.toolkit]))

        steps: list[Any] = []
        model = ScriptedModel.make(turns_of((CALLED, CALLED, CALLED)))
        agent = agent_of(program, prepare_step=leave_out, on_step=steps.append)
        run = agent.stream("go").drain() if streamed else agent.execute("go")
        fx.run(run.provide(model.layer), backend=backend)

        for step, request in zip(steps[:3], model.requests, strict=False):
            advertised = [tool.name for tool in request.tools]
            unknown = [one.name for one in step.results if type(one.result).__name__ == "UnknownTool"]
            reached("left out", len(advertised) < len(CALLED) - 1)
            reached("patched in", "pt1" in advertised)
            assert len(set(advertised)) == len(advertised)
            assert sorted([*advertised, *unknown]) == sorted(CALLED)
            assert list(step.record.tools) == advertised

    reached.by(law, **{"left out": 5, "patched in": 5})
