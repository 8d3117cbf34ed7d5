"""Repair: an invalid call is mended once, by a function or by a model, before it counts as failed."""

from __future__ import annotations

from typing import Any

import msgspec

from fxai.effects import Effect, fx
from fxai.effects.runtime import Backend
from fxai.messages.part import ToolCall
from fxai.models import LanguageModel, ToolChoice, repair_by_model
from fxai.testing import ScriptedModel, call
from fxai.tools import Denied, HandlerFailed, InvalidParameters, Toolkit, UnknownTool
from tests.unit.models.rounds import Desk, asked, exit_of
from tests.unit.tools.samples import TooBig, add, on_add

ONE = {"a": 1, "b": 2}


def _mending(*mended: ToolCall | None) -> tuple[Any, list[Any]]:
    seen: list[Any] = []
    left = list(mended)

    def repair(failed: ToolCall, failure: UnknownTool | InvalidParameters) -> Effect[ToolCall | None]:
        seen.append((failed.id, type(failure)))
        return fx.succeed(left.pop(0))

    return repair, seen


def test_a_function_mends_a_call(backend: Backend) -> None:
    """The mended call runs in its place; the result is the first call's."""
    repair, seen = _mending(call("add", ONE, id="other"))
    response = asked(Desk(), [call("add", {"a": "x"}, id="c"), call("add", ONE, id="d")], backend, repair=repair)

    assert [(r.id, r.result) for r in response.tool_results] == [("c", 3), ("d", 3)]
    assert seen == [("c", InvalidParameters)]


def test_a_function_may_give_up(backend: Backend) -> None:
    """None lets the call fail as it would have."""
    repair, seen = _mending(None)
    response = asked(Desk(), [call("nope", {}, id="c")], backend, repair=repair)

    assert isinstance(response.tool_results[0].result, UnknownTool)
    assert seen == [("c", UnknownTool)]


def test_a_call_is_mended_once(backend: Backend) -> None:
    """What is still invalid counts as failed; the function is not asked again."""
    repair, seen = _mending(call("add", {"b": 1}))
    response = asked(Desk(), [call("add", {}, id="c")], backend, repair=repair)

    assert isinstance(response.tool_results[0].result, InvalidParameters)
    assert len(seen) == 1


def test_a_mended_name_runs_that_tool(backend: Backend) -> None:
    """Its failures are encoded by its own schema."""
    repair, _ = _mending(call("double", ONE))
    ended = exit_of(Desk(), [call("duoble", {}, id="c")], backend, repair=repair)
    failure: Any = ended.cause.failures[0]

    assert type(failure) is HandlerFailed
    assert failure.error == TooBig(1)
    assert failure.response is not None
    assert failure.response.tool_results[0].encoded_result == {"limit": 1}


def test_a_mended_call_obeys_the_tool_choice(backend: Backend) -> None:
    """A repair cannot run what the model may not call."""
    desk = Desk()
    repair, _ = _mending(call("broken", {}))
    response = asked(desk, [call("add", {}, id="c")], backend, repair=repair, tool_choice=ToolChoice.tool("add"))

    assert isinstance(response.tool_results[0].result, InvalidParameters)
    assert desk.journal.lines == []


def test_a_repair_that_fails_lets_the_call_fail(backend: Backend) -> None:
    """Its failure is not the round's."""

    def repair(failed: ToolCall, failure: Any) -> Effect[None, str]:
        return fx.fail("no idea")

    response = asked(Desk(), [call("add", {}, id="c")], backend, repair=repair)

    assert isinstance(response.tool_results[0].result, InvalidParameters)


def test_calls_that_are_refused_or_fail_are_not_mended(backend: Backend) -> None:
    """Only the model's mistakes are; a typed failure of a handler is no mistake of the model."""
    repair, seen = _mending()
    refused = asked(Desk(), [call("add", ONE)], backend, repair=repair, tool_choice="none")
    failed = exit_of(Desk(), [call("double", ONE)], backend, repair=repair)

    assert isinstance(refused.tool_results[0].result, Denied)
    assert isinstance(failed.cause.failures[0], HandlerFailed)
    assert seen == []


def test_a_model_mends_a_call(backend: Backend) -> None:
    """It is shown what was wrong, and must call the same tool; for an unknown tool, any."""
    kit = Toolkit.make(add)
    script: list[Any] = [
        [call("add", {"a": "x"}, id="c"), msgspec.structs.replace(call("sum", {}), id="d")],
        call("add", ONE),
        call("add", {"a": 2, "b": 2}),
    ]
    model = ScriptedModel.make(script)
    asked_ = LanguageModel.generate_text("go", toolkit=kit, repair=repair_by_model(kit), concurrency=1)
    response = fx.run(asked_.provide(add.handler(on_add)).provide(model.layer), backend=backend)

    assert [(r.id, r.result) for r in response.tool_results] == [("c", 3), ("d", 4)]
    assert [request.tool_choice for request in model.requests] == ["auto", ToolChoice.tool("add"), "required"]
    assert "/a" in str(model.requests[1].prompt.to_data())


def test_a_model_that_makes_no_call_mends_nothing(backend: Backend) -> None:
    """The call fails as it would have."""
    kit = Toolkit.make(add)
    model = ScriptedModel.make([[call("add", {}, id="c")], "I cannot."])
    asked_ = LanguageModel.generate_text("go", toolkit=kit, repair=repair_by_model(kit))
    response = fx.run(asked_.provide(add.handler(on_add)).provide(model.layer), backend=backend)

    assert isinstance(response.tool_results[0].result, InvalidParameters)
