"""What the checkers infer of steps, their setups, and what a run fails with."""

from __future__ import annotations

from typing import assert_type

import msgspec
from returns.result import Result

from fxai.agents import Answer, BudgetExceeded, HasToolCall, RunError, RunFailed, Step, Steps, StepSetup, has_tool_call
from fxai.messages import AiError, Prompt, ToolCall, ToolResult
from fxai.testing import ScriptedModel, text
from fxai.tools import NotRun, Tool, ToolError


class Query(msgspec.Struct, frozen=True):
    text: str


search = Tool.make("search", parameters=Query, success=list[str])


def note(step: Step, steps: Steps) -> None:
    assert_type(step.calls, tuple[ToolCall, ...])
    assert_type(step.results, tuple[ToolResult, ...])
    assert_type(step.results_of(search), tuple[Result[list[str], ToolError | NotRun], ...])
    assert_type(steps[-1], Step)
    assert_type(steps[:2], tuple[Step, ...])


def prepared(setup: StepSetup) -> StepSetup:
    other = setup.with_model(ScriptedModel.make([text("done")]).layer).with_tools(setup.toolkit.pick("search"))
    return other.with_choice("required").with_messages("Only this.").with_options(max_tokens=7)


def told(answer: Answer[int], failure: RunError) -> Prompt | None:
    assert_type(answer.output, int)
    assert_type(has_tool_call("search"), HasToolCall)
    if isinstance(failure, AiError):
        assert_type(failure, RunFailed)
        return failure.history
    if isinstance(failure, BudgetExceeded):
        assert_type(failure.history, Prompt)
    return None
