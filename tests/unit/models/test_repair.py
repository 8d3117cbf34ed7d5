"""Repair: an invalid call is mended once, by a function or by a model, before it counts as failed."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Failure, Success

from fxai.effects import Backend, Effect, Timeout, fx
from fxai.messages import Prompt, Response, ToolCall
from fxai.models import LanguageModel, ToolChoice, repair_by_model
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Denied, HandlerFailed, InvalidParameters, Tool, Toolkit, UnknownTool
from tests.kit.every import every
from tests.kit.rounds import Desk, asked, exit_of, streamed
from tests.kit.samples import TooBig, add, on_add

ONE = {"a": 1, "b": 2}


def _mending(*mended: ToolCall | None) -> tuple[Any, list[Any]]:
    seen: list[Any] = []
    left = list(mended)

    def repair(failed: ToolCall, failure: UnknownTool | InvalidParameters) -> Effect[ToolCall | None]:
        seen.append((failed.id, type(failure)))
        return fx.succeed(left.pop(0))

    return repair, seen


def test_a_function_mends_a_call(backend: Backend) -> None:
    """The mended call runs in its place, and stands there in response and history, under the first call's id."""
    repair, seen = _mending(call("add", ONE, id="other"))
    broken = ToolCall("c", "add", {"a": "x"}, metadata={"acme": {"item": 1}})
    response = asked(Desk(), [broken, call("add", ONE, id="d")], backend, repair=repair)
    said: Any = Prompt.from_parts(response.content)[0].content

    assert [(r.id, r.result) for r in response.tool_results] == [("c", 3), ("d", 3)]
    assert seen == [("c", InvalidParameters)]
    assert response.tool_calls == (
        ToolCall("c", "add", ONE, repaired=True, metadata={"acme": {"item": 1}}),
        ToolCall("d", "add", ONE),
    )
    assert [(part.id, part.params) for part in said] == [("c", ONE), ("d", ONE)]


def test_a_stream_tells_the_mended_call_before_it_runs(backend: Backend) -> None:
    """A second call of the same id, marked, behind the model's own and before the result; gathered, it is the only one.

    The turn stands as where it is not streamed.
    """
    scripted = [text("I add."), call("ad", {"a": "x"}, id="c"), call("add", ONE, id="d")]
    parts, _ = streamed(Desk(), scripted, backend, repair=_mending(call("add", ONE))[0], concurrency=1)
    whole = asked(Desk(), scripted, backend, repair=_mending(call("add", ONE))[0])
    kinds = [(part.type, part.id) for part in parts if part.type in ("tool-call", "tool-result")]

    assert kinds == [
        ("tool-call", "c"),
        ("tool-call", "d"),
        ("tool-call", "c"),
        ("tool-result", "c"),
        ("tool-result", "d"),
    ]
    assert [part.repaired for part in parts if part.type == "tool-call"] == [False, False, True]
    assert Response.from_stream(parts) == whole
    assert Response.from_json(whole.to_json()).unwrap().tool_calls == whole.tool_calls


def test_a_failing_stream_tells_the_mended_call(backend: Backend) -> None:
    """The response that a failure holds has it in the broken one's place."""
    _, ended = streamed(Desk(), [call("duoble", ONE, id="c")], backend, repair=_mending(call("double", ONE))[0])
    failure: Any = ended.cause.failures[0]

    assert [(made.name, made.repaired) for made in failure.response.tool_calls] == [("double", True)]
    assert [(told.name, told.is_failure) for told in failure.response.tool_results] == [("double", True)]


def test_the_model_is_shown_the_result_as_the_mended_tool_says(backend: Backend) -> None:
    """`to_model_output` is that of the tool that ran; the call is dynamic where that tool is."""
    shown = Tool.dynamic("shown", success=str, to_model_output=lambda value: f"<{value}>")
    made = LanguageModel.generate_text("go", toolkit=Toolkit.make(shown), repair=_mending(call("shown", {}))[0])
    model = ScriptedModel.make([call("show", {}, id="c")])
    response = fx.run(made.provide(shown.handler(lambda _: Success("a"))).provide(model.layer), backend=backend)

    assert [(r.name, r.encoded_result, r.dynamic) for r in response.tool_results] == [("shown", "<a>", True)]
    assert [(one.name, one.dynamic) for one in response.tool_calls] == [("shown", True)]


def test_a_function_may_give_up(backend: Backend) -> None:
    """None lets the call fail as it would have."""
    repair, seen = _mending(None)
    response = asked(Desk(), [call("nope", {}, id="c")], backend, repair=repair)

    assert isinstance(response.tool_results[0].result, UnknownTool)
    assert response.tool_calls == (ToolCall("c", "nope", {}, dynamic=True),)
    assert seen == [("c", UnknownTool)]


def test_a_call_is_mended_once(backend: Backend) -> None:
    """What is still invalid counts as failed; the function is not asked again."""
    repair, seen = _mending(call("add", {"b": 1}))
    response = asked(Desk(), [call("add", {}, id="c")], backend, repair=repair)

    assert isinstance(response.tool_results[0].result, InvalidParameters)
    assert len(seen) == 1
    assert response.tool_calls[0].params == {"b": 1}  # what the failure is about


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


def _giving(given: object) -> Any:
    """A repair that gives always the same."""

    def repair(_: ToolCall, __: object) -> object:
        return given

    return repair


def _of_one(broken: ToolCall) -> ToolCall:
    return broken


FAILING: list[tuple[Any, str]] = [
    (_giving(fx.fail("no idea")), "no idea"),
    (_giving(Failure("no idea")), "no idea"),
    (_giving(call("wipe", {})), "it returned a call of 'wipe', which is not allowed here"),
    (_giving(fx.succeed(call("guarded", {}))), "it returned a call of 'guarded', which needs an approval"),
]


@every("streams", [False, True])
@every(("repair", "why"), FAILING)
def test_a_repair_that_fails_is_told_in_the_result_and_as_a_warning(
    repair: Any, why: str, streams: bool, backend: Backend
) -> None:
    """The call fails as it would have, its failure is not the round's; the siblings run."""
    kit = Desk().kit.merge(Toolkit.make(Tool.make("guarded", needs_approval=True)))
    said = [call("add", {}, id="c"), call("nope", {}, id="n"), call("add", ONE, id="d")]
    options: Any = {"repair": repair, "toolkit": kit}
    if streams:
        response = Response.from_stream(streamed(Desk(), said, backend, **options)[0])
    else:
        response = asked(Desk(), said, backend, **options)
    first, second, third = response.tool_results

    assert isinstance(first.result, InvalidParameters)
    assert isinstance(second.result, UnknownTool)
    assert (first.is_failure, second.is_failure, third.result) == (True, True, 3)
    for one in (first, second):
        assert str(one.result.repair).startswith(why)
        assert one.encoded_result["repair"] == one.result.repair
        assert f"(the repair of the call failed: {why}" in one.encoded_result["message"]
    assert [(w.kind, w.subject) for w in response.warnings] == [("other", "add"), ("other", "nope")]
    assert response.warnings[0].message.startswith(f"repair of the call 'c' of 'add' failed: {why}")
    assert [(one.name, one.repaired) for one in response.tool_calls] == [
        ("add", False),
        ("nope", False),
        ("add", False),
    ]


def test_a_repair_that_fails_is_told_where_mistakes_are_errors(backend: Backend) -> None:
    """`on_invalid_call="error"`: in the failure itself, whose response has the warning too."""
    repair: Any = FAILING[0][0]
    ended = exit_of(Desk(), [call("add", {}, id="c")], backend, repair=repair, on_invalid_call="error")
    (failure,) = ended.cause.failures

    assert isinstance(failure, InvalidParameters)
    assert failure.repair == "no idea"
    assert failure.response is not None
    assert [warning.subject for warning in failure.response.warnings] == ["add"]
    assert failure.response.tool_results[0].encoded_result["repair"] == "no idea"


async def _awaited(_: ToolCall, __: Any) -> ToolCall | None:
    return call("add", ONE)


async def _nothing(_: ToolCall, __: Any) -> ToolCall | None:
    return None


@every(
    ("repair", "mends"),
    [
        (_giving(call("add", ONE)), True),
        (_giving(None), False),
        (_giving(Success(call("add", ONE))), True),
        (_giving(fx.succeed(call("add", ONE))), True),
        (_awaited, True),
        (_nothing, False),
    ],
)
def test_a_repair_may_give_a_call_in_any_form(repair: Any, mends: bool, backend: Backend) -> None:
    """A plain call, None, a Result, an effect, an awaitable; where it gives none, nothing is said of a repair."""
    response = asked(Desk(), [call("add", {"a": "x"}, id="c")], backend, repair=repair)
    (result,) = response.tool_results

    assert (result.id, result.is_failure, response.warnings) == ("c", not mends, ())
    assert result.result == 3 if mends else result.result.repair is None
    assert response.tool_calls[0].repaired is mends


def _raising(_: ToolCall, __: Any) -> Any:
    raise ZeroDivisionError("boom")


@every(
    ("repair", "why"),
    [
        (_raising, "ZeroDivisionError: boom"),
        (_giving(fx.sync(lambda: _raising(call("add", {}), None))), "ZeroDivisionError: boom"),
        (_giving(5), "TypeError: repair returned 5. Return a ToolCall, None"),
        (_giving(fx.succeed("add")), "TypeError: repair returned 'add'"),
        (_of_one, "TypeError"),
    ],
)
def test_a_repair_that_raises_names_itself(repair: Any, why: str, backend: Backend) -> None:
    """A defect of the repair, which the model is not shown, and not of the tool; the siblings' results are kept."""
    said = [call("add", {}, id="c"), call("add", ONE, id="d")]
    parts, ended = streamed(Desk(), said, backend, repair=repair)
    whole = exit_of(Desk(), said, backend, repair=repair)
    (defect,) = whole.cause.defects
    broke, kept = (part for part in parts if part.type == "tool-result")
    told, other = (broke, kept) if broke.id == "c" else (kept, broke)

    assert str(defect).startswith(f"repair of the call 'c' of 'add' raised {why}")
    assert isinstance(defect.__cause__, ZeroDivisionError | TypeError)
    assert [str(one) for one in ended.cause.defects] == [str(defect)]
    assert (
        told.result.reason
        == "the repair of the call raised an unexpected error. Its details are not available to the model."
    )
    assert other.result == 3


def test_a_repair_that_is_cancelled_is_no_failure_of_it(backend: Backend) -> None:
    """The round is cut where it stands."""
    model = ScriptedModel.make([call("add", {}, id="c")])
    asked_ = LanguageModel.generate_text("go", toolkit=Toolkit.make(add), repair=_giving(fx.never()))
    served: Any = asked_.provide(add.handler(on_add)).provide(model.layer).timeout(0.01)

    assert isinstance(fx.run_result(served, backend=backend).failure(), Timeout)


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
