"""The laws of approvals in runs of stateful prompts: a call that waits is run by the handlers of the step that made it.

A run in which some calls wait to be approved, approved and gone on from its history and state, comes to what a run
comes to in which nothing waits: the same tools and sections in each step, the same results, and the same state.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import Agent
from fxai.agents.stateful import PromptState, RenderOf, StatefulPrompt
from fxai.effects import Backend, fx
from fxai.messages import Prompt, ToolMessage
from fxai.models import ApprovalLedger
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool
from tests.kit.reaching import Reached
from tests.kit.trials import examples

LOOPS = pytest.mark.parametrize("backend", ["asyncio", "trio"])

_NAMES = ("one", "two", "three")
_CALLS = st.lists(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3), min_size=1, max_size=3)


def _agent(asking: set[str]) -> Any:
    """Tools that add one, two or three; a tool comes when the sum is large enough, and shows the sum of its render."""
    tools: dict[str, Any] = {name: Tool.make(name, success=str, needs_approval=name in asking) for name in _NAMES}

    def render(at: RenderOf[Any, Any]) -> None:
        total, ran = at.state("total", 0), at.state("ran", 0)
        at.system("sum", f"It is {total.value}.")
        for more, name in enumerate(_NAMES, 1):
            if total.value + 2 >= more:

                def handle(_: object, more: int = more, name: str = name) -> Any:
                    for _ in range(3):
                        yield from fx.checkpoint()
                    yield from total.update(lambda value: value + more)
                    return f"{name} saw {total.value}"

                at.tool(tools[name], handle)
        at.effect("once", lambda _: ran.update(lambda value: value + 1).as_(None), ())

    make: Any = Agent.make
    return make("a", prompt=StatefulPrompt.make("p", render))


def _results(history: Prompt) -> dict[str, str]:
    return {
        part.id: str(part.result)
        for message in history
        if message.role == "tool"
        for part in message.content
        if part.type == "tool-result"
    }


def _run(agent: Any, model: ScriptedModel, prompt: Any, state: Any, backend: Backend) -> Any:
    program = agent.execute(prompt, state=state).provide(model.layer)
    return fx.run(program.provide(ApprovalLedger.in_process()), backend=backend)


@pytest.mark.slow
@LOOPS
def test_calls_that_were_approved_are_run_by_the_handlers_of_their_step(backend: Backend) -> None:
    """With its values and its number, whatever others have changed since; also where the state was JSON between."""
    reached = Reached()

    @settings(max_examples=examples(40, least=40))
    @given(_CALLS, st.sets(st.sampled_from(_NAMES), min_size=1), st.booleans())
    def law(turns: list[list[str]], asking: set[str], as_json: bool) -> None:
        script: list[Any] = [
            *[[call(name, {}, id=f"c{n}_{i}") for i, name in enumerate(names)] for n, names in enumerate(turns)],
            text("ok"),
        ]
        whole = ScriptedModel.make(script)
        expected = _run(_agent(set()), whole, "go", None, backend)

        model, prompt, state = ScriptedModel.make(script), Prompt.make("go"), None
        agent = _agent(asking)
        while True:
            answer = _run(agent, model, prompt, state, backend)
            state = answer.state
            if as_json:
                state = PromptState.from_json(state.to_json()).unwrap()
            if answer.ended != "pending":
                break
            reached("pending")
            reached("pending beside others", len(answer.steps[-1].results) > 0)
            approved = [one.approve() for one in answer.history.pending]
            prompt = answer.history.append(ToolMessage(tuple(approved)))

        assert answer.text == expected.text
        for mine, theirs in zip(model.requests, whole.requests, strict=True):
            assert [tool.name for tool in mine.tools] == [tool.name for tool in theirs.tools]
            assert mine.prompt.system() == theirs.prompt.system()
        assert dict(answer.state.values) == dict(expected.state.values)
        assert not answer.state.pending
        assert _results(answer.history) == _results(expected.history)

    reached.by(law, **{"pending": 10, "pending beside others": 3})
