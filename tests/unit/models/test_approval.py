"""Approvals: what is asked, what is answered, and how a run goes on."""

from __future__ import annotations

from typing import Any, cast

import pytest
from returns.result import Failure, Result, Success

from fxai.effects import Backend, EffectOf, Failed, fx
from fxai.messages import (
    AiError,
    ApprovalRequest,
    AssistantMessage,
    Prompt,
    Response,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolkitRequiredError,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import LanguageModel, ObjectPending
from fxai.models.approval import read_approvals, without_requests
from fxai.schema import DecodeFailure, Fault
from fxai.testing import ScriptedModel, TestClock, call, text
from fxai.tools import CallContext, HandlerFailed, Tool, Toolkit, UnknownTool
from fxai.tools.call import PREDICATE_SECONDS
from tests.kit.approvals import HOW, How, Office, Wipe, answered
from tests.kit.every import every

WIPE_A, WIPE_B = call("wipe", {"disk": "a"}, id="c1"), call("wipe", {"disk": "b"}, id="c2")
LOOK = call("look", {}, id="l")


def _without_settled(prompt: Prompt) -> Prompt:
    """What a model is shown of a history."""
    return Prompt(without_requests(prompt, read_approvals(prompt)))


def _kinds(content: Any) -> list[str]:
    return [part.type for part in content]


def _said(prompt: Prompt) -> list[tuple[str, list[str]]]:
    return [(message.role, _kinds(message.content)) for message in prompt if message.role != "system"]


# -- asking


def test_what_needs_no_approval_runs_beside_what_does(backend: Backend) -> None:
    """Requests and results stand in the order of the calls, and the turn waits."""
    office = Office()
    response: Response = office.exit("generate_text", "go", [[WIPE_A, LOOK]], backend).value

    assert _kinds(response.content) == ["tool-call", "tool-call", "tool-approval-request", "tool-result", "finish"]
    assert (office.ran, response.finish_reason) == (["look"], "pending")
    assert [(one.id, one.name, one.params) for one in response.pending] == [("c1", "wipe", {"disk": "a"})]


def test_a_streamed_turn_asks_too(backend: Backend) -> None:
    """The same parts, and the same response."""
    office = Office()
    parts = office.exit("stream_text", "go", [[WIPE_A, LOOK]], backend).value
    response = Response.from_stream(parts)

    assert (office.ran, parts[-1].reason, _kinds(parts).count("tool-approval-request")) == (["look"], "pending", 1)
    assert [one.id for one in response.pending] == ["c1"]


def test_a_request_is_bound_and_signed() -> None:
    """It holds a digest, an end and a signature; of a second one for the same call all but the digest differ."""
    office = Office()
    first, second = (cast(Response, office.exit("generate_text", "go", [WIPE_A]).value) for _ in range(2))
    (one,), (other,) = first.approval_requests, second.approval_requests

    assert one.digest == other.digest
    assert len(one.digest) == 64
    assert one.approval_id != other.approval_id
    assert one.signature != other.signature
    assert one.expires is not None


def test_an_object_waits_as_well(backend: Backend) -> None:
    """There is no value yet: a typed failure that holds the response to go on from."""
    office = Office()
    ended: Any = office.exit("generate_object", "go", [WIPE_A], backend)
    failure = ended.cause.failures[0]

    assert isinstance(failure, ObjectPending)
    assert [one.id for one in failure.response.pending] == ["c1"]
    assert str(failure) == "no answer yet: calls are pending (wipe (c1)). Answer them, and continue from the history."


def test_an_invalid_call_is_not_asked_for(backend: Backend) -> None:
    """It would never be run: the model is told, and calls again."""
    office = Office()
    response: Response = office.exit("generate_text", "go", [call("wipe", {"disk": 1}, id="c1")], backend).value

    assert (response.pending, response.tool_results[0].encoded_result["type"]) == ((), "invalid-parameters")


def _always(*_: object) -> bool:
    return True


@every("how", HOW)
@every("needs", [True, _always])
def test_a_call_that_was_invalid_when_nobody_was_asked_does_not_run(how: How, needs: Any, backend: Backend) -> None:
    """A validation that says no, and then yes, as one that runs out of time does, lets no call pass unasked."""
    looks: list[Any] = []

    def validate(value: Any) -> Result[Any, DecodeFailure]:
        looks.append(value)
        return Success(value) if len(looks) > 1 else Failure(DecodeFailure((Fault("", "time", "none left"),)))

    office = Office(Tool.dynamic("wipe", parameters={}, success=str, validation=validate, needs_approval=needs))
    office.exit(how, "go", [[WIPE_A], text("{}")], backend)

    assert office.ran == []


def test_a_mended_call_is_not_asked_for(backend: Backend) -> None:
    """Nobody could see what they approve: the model is told of its mistake instead, and makes the call itself."""

    def repair(broken: ToolCall, _: object) -> EffectOf[ToolCall]:
        return fx.succeed(ToolCall(broken.id, "wipe", {"disk": "a"}))

    office = Office()
    mistake = call("wipe", {"disk": 1}, id="c1")
    response: Response = office.exit("generate_text", "go", [mistake], backend, repair=repair).value

    assert (office.ran, response.pending) == ([], ())
    assert response.tool_results[0].encoded_result["type"] == "invalid-parameters"


def test_a_call_of_an_external_tool_is_not_asked_for(backend: Backend) -> None:
    """Whoever runs it asks, or does not: it waits for its result."""
    office = Office(cast(Any, Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True)).external())
    model = ScriptedModel.make([WIPE_A])
    asked: Any = LanguageModel.generate_text("go", toolkit=Toolkit.of([office.wipe]))
    response: Response = fx.run(asked.provide(model.layer), backend=backend)

    assert (response.approval_requests, response.finish_reason) == ((), "pending")
    assert response.pending[0].answer("gone").result == "gone"


def _giving(what: Any) -> Any:
    def needs(*_: object) -> Any:
        return what

    return needs


def _raises(*_: object) -> bool:
    raise ZeroDivisionError("boom")


@every(
    "predicate",
    [_raises, *map(_giving, (fx.fail("lost"), fx.die(RuntimeError()), None, fx.succeed(0)))],
    ids=["raises", "fails", "breaks", "nothing", "zero"],
)
@every("how", ["generate_text", "stream_text", "execute"])
def test_a_predicate_that_does_not_say_no_asks(how: How, predicate: Any, backend: Backend) -> None:
    """Only `False` lets a call run unasked."""
    office = Office(Tool.make("wipe", parameters=Wipe, success=str, needs_approval=predicate))
    ended = office.exit(how, "go", [WIPE_A], backend)

    assert office.ran == []
    assert not isinstance(ended, Failed)


def test_the_log_is_told_of_a_predicate_that_breaks(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Which tool's, and what it ended with; nothing of one that gives no answer."""
    for predicate in (_raises, _giving(None)):
        office = Office(Tool.make("wipe", parameters=Wipe, success=str, needs_approval=predicate))
        office.exit("generate_text", "go", [WIPE_A], backend)
    told = [one.getMessage() for one in caplog.records if one.name == "fxai.tools"]

    assert len(told) == 1
    assert "call of 'wipe' requires an approval" in told[0]
    assert "ZeroDivisionError('boom')" in told[0]


def test_a_predicate_that_hangs_asks(backend: Backend) -> None:
    """When its time is over, by the clock; its finalizers have run then."""
    left: list[str] = []
    clock = TestClock()

    def hangs(*_: object) -> Any:
        return fx.never().ensuring(fx.sync(lambda: left.append("predicate")))

    office = Office(Tool.make("wipe", parameters=Wipe, success=str, needs_approval=hangs))
    program = office.program("generate_text", "go", [WIPE_A])
    both: Any = fx.all_(program, clock.advance(PREDICATE_SECONDS + 1)).map(lambda pair: pair[0])
    response: Response = fx.run(both.provide(clock.layer), backend=backend)

    assert (office.ran, left, response.finish_reason) == ([], ["predicate"], "pending")


def test_a_predicate_needs_no_event_loop() -> None:
    """One that does not wait is asked in a synchronous run too."""
    office = Office(Tool.make("wipe", parameters=Wipe, success=str, needs_approval=_giving(fx.succeed(False))))

    assert fx.run_sync(office.program("generate_text", "go", [WIPE_A])).tool_results[0].result == "gone"


def test_a_predicate_sees_the_call(backend: Backend) -> None:
    """Decoded parameters, and the context that the handler would get."""
    seen: list[tuple[Any, str]] = []

    def needs(params: Wipe, context: CallContext) -> bool:
        seen.append((params, context.call_id))
        return params.disk == "a"

    office = Office(Tool.make("wipe", parameters=Wipe, success=str, needs_approval=needs))
    response: Response = office.exit("generate_text", "go", [[WIPE_A, WIPE_B]], backend).value

    assert seen == [(Wipe("a"), "c1"), (Wipe("b"), "c2")]
    assert (office.ran, [one.id for one in response.pending]) == ([Wipe("b")], ["c1"])


# -- answering


@every("how", HOW)
def test_an_approved_call_runs_before_the_model_is_asked(how: How, backend: Backend) -> None:
    """Once, and the model is shown its result, without a word of approvals."""
    office = Office()
    ended = office.exit(how, answered(office.asked()), [text('{"it": "is gone"}')], backend)
    (request,) = office.models[-1].requests

    assert not isinstance(ended, Failed), ended
    assert office.ran == [Wipe("a")]
    assert _said(request.prompt) == [("user", ["text"]), ("assistant", ["tool-call"]), ("tool", ["tool-result"])]


@every("how", HOW)
def test_a_denied_call_is_answered_by_a_denial(how: How, backend: Backend) -> None:
    """Nothing runs; the model reads the reason."""
    office = Office()
    ended = office.exit(how, answered(office.asked(), approve=False), [text('{"it": "stays"}')], backend)
    (request,) = office.models[-1].requests
    (result,) = cast(ToolMessage, request.prompt[-1]).content

    assert not isinstance(ended, Failed), ended
    assert office.ran == []
    assert result.type == "tool-result"
    assert (result.is_failure, result.result) == (True, {"type": "execution-denied", "reason": "not today"})


def test_results_of_approved_calls_come_first(backend: Backend) -> None:
    """In a response, in a stream, and in the first step of a run."""
    office = Office()
    whole = office.exit("generate_text", answered(office.asked()), [text("Done.")], backend).value
    streamed = office.exit("stream_text", answered(office.asked()), [text("Done.")], backend).value
    answer = office.exit("execute", answered(office.asked()), [text("Done.")], backend).value

    assert _kinds(whole.content) == ["tool-result", "text", "finish"]
    assert _kinds(streamed)[0] == "tool-result"
    assert Response.from_stream(streamed).tool_results == whole.tool_results
    assert answer.steps[0].response.tool_results == whole.tool_results


@pytest.mark.parametrize("how", ["execute", "stream"])
def test_a_run_goes_on_from_its_history(how: How, backend: Backend) -> None:
    """It may call, wait and be answered again; each call runs once, in its place of the history."""
    office = Office()
    first = office.asked()
    if how == "stream":
        parts = office.exit("stream", answered(first), [[LOOK], [WIPE_B]], backend).value
        second = answered(first).with_response(parts)
    else:
        second = office.exit("execute", answered(first), [[LOOK], [WIPE_B]], backend).value.history
    last = office.exit("execute", answered(second), [text("All done.")], backend).value

    assert office.ran == [Wipe("a"), "look", Wipe("b")]
    assert last.text == "All done."
    assert _said(last.history) == [
        ("user", ["text"]),
        ("assistant", ["tool-call", "tool-approval-request"]),
        ("tool", ["tool-approval-response", "tool-result"]),
        ("assistant", ["tool-call"]),
        ("tool", ["tool-result"]),
        ("assistant", ["tool-call", "tool-approval-request"]),
        ("tool", ["tool-approval-response", "tool-result"]),
        ("assistant", ["text"]),
    ]
    assert all("approval" not in kind for _, kinds in _said(office.models[-1].requests[-1].prompt) for kind in kinds)


def test_a_history_goes_on_after_json(backend: Backend) -> None:
    """Written, read and answered: nothing that an approval is bound to is lost, nor changed by `1.0` for `1`."""
    office = Office(Tool.dynamic("wipe", parameters={"type": "object"}, success=str, needs_approval=True))
    history = office.asked(call("wipe", {"weight": 1.0, "ü": [1, {"deep": None}]}, id="c1"))
    written = history.to_json()
    read = Prompt.from_json(written.replace('"weight":1.0', '"weight":1')).unwrap()
    ended = office.exit("execute", answered(read), [text("Done.")], backend)

    assert '"weight":1.0' in written
    assert ended.value.text == "Done."
    assert office.ran == [{"weight": 1, "ü": [1, {"deep": None}]}]


def test_a_user_may_speak_behind_the_answer(backend: Backend) -> None:
    """The result stands right behind the turn that made the call all the same."""
    office = Office()
    history = answered(office.asked()).append(UserMessage.make("And be quick."))
    answer = office.exit("execute", history, [text("Done.")], backend).value

    assert [role for role, _ in _said(answer.history)] == ["user", "assistant", "tool", "user", "assistant"]
    assert _said(answer.history)[2][1] == ["tool-approval-response", "tool-result"]


def test_some_answers_leave_the_others_open(backend: Backend) -> None:
    """What is approved runs; the model is not asked until all calls of its turn have an answer."""
    office = Office()
    history = office.asked(WIPE_A, WIPE_B)
    first, second = history.pending
    half = office.exit("execute", history.append(ToolMessage.make(first.approve())), [], backend).value
    whole = office.exit("execute", half.history.append(ToolMessage.make(second.approve())), [text("Done.")], backend)

    assert (half.finish_reason, [one.id for one in half.pending]) == ("pending", ["c2"])
    assert (whole.value.text, office.ran) == ("Done.", [Wipe("a"), Wipe("b")])


@pytest.mark.parametrize("how", ["generate_text", "stream_text", "execute", "stream"])
def test_an_unanswered_history_waits_on(how: How, backend: Backend) -> None:
    """Nobody is asked, and nothing runs."""
    office = Office()
    ended = office.exit(how, office.asked(), [], backend)

    assert (office.ran, office.requests) == ([], 0)
    assert not isinstance(ended, Failed)


def test_a_conversation_may_leave_a_request_behind(backend: Backend) -> None:
    """Where a user says something else, the model is asked; the call stays open."""
    office = Office()
    ended = office.exit("generate_text", office.asked().append(UserMessage.make("Never mind.")), [text("Ok.")], backend)

    assert (ended.value.text, office.ran, office.requests) == ("Ok.", [], 1)


def test_results_of_others_come_back_in_a_tool_message(backend: Backend) -> None:
    """A run with external calls goes on when all of them are there."""
    client: Any = Tool.make("client", success=str).external()
    kit: Toolkit[Any] = Toolkit.of([client])
    office = Office()
    calls = [call("client", {}, id="x"), call("client", {}, id="y")]
    answer = office.exit("execute", "go", [calls], backend, toolkit=kit).value
    x, y = answer.pending
    half = office.exit("execute", answer.history.append(ToolMessage.make(x.answer(1))), [], backend, toolkit=kit).value
    done = office.exit(
        "execute", half.history.append(ToolMessage.make(y.answer(2))), ["Ok."], backend, toolkit=kit
    ).value

    assert (half.finish_reason, [one.id for one in half.pending]) == ("pending", ["y"])
    assert (done.text, office.requests) == ("Ok.", 1)


def test_an_approved_call_may_fail(backend: Backend) -> None:
    """In mode "error" the failure holds every result and the history; the model is not asked."""
    wipe: Any = Tool.make("wipe", parameters=Wipe, success=str, failure=str, needs_approval=True)
    office = Office(wipe)
    history = answered(office.asked(WIPE_A, WIPE_B))

    def on_wipe(params: Wipe) -> Result[str, str]:
        return Failure("jammed") if params.disk == "a" else Success("gone")

    handlers = wipe.handler(on_wipe)
    model = ScriptedModel.make([])
    asked: Any = LanguageModel.generate_text(history, toolkit=Toolkit.of([wipe]))
    ended: Any = fx.run_exit(asked.provide(handlers).provide(model.layer), backend=backend)
    failure = ended.cause.failures[0]

    assert isinstance(failure, HandlerFailed)
    assert [(one.id, one.encoded_result) for one in cast(Response, failure.response).tool_results] == [
        ("c1", "jammed"),
        ("c2", "gone"),
    ]
    assert model.requests == []


def test_answers_need_their_toolkit(backend: Backend) -> None:
    """Without one, or with one that lacks the tool, nothing runs and nobody is asked."""
    office = Office()
    none = office.exit("generate_text", answered(office.asked()), [], backend, toolkit=Toolkit.empty())
    other = office.exit("generate_text", answered(office.asked()), [], backend, toolkit=Toolkit.of([office.look]))
    error: AiError = none.cause.failures[0]

    assert error.reason == ToolkitRequiredError(("wipe",))
    assert other.cause.failures == (UnknownTool("wipe", ("look",)),)
    assert (office.ran, office.requests) == ([], 0)


def test_a_round_that_resolves_no_tools_settles_none(backend: Backend) -> None:
    """With `resolve_tools=False` nothing of ours is run, approved or not."""
    office = Office()
    office.exit("generate_text", answered(office.asked()), [text("Hm.")], backend, resolve_tools=False)

    assert (office.ran, office.requests) == ([], 1)


def test_a_provider_keeps_its_own_approvals(backend: Backend) -> None:
    """A request for a call that the provider runs is its own: the turn waits, and the answer goes to it untouched."""
    theirs = ToolCall("m", "remote", {}, provider_executed=True)
    office = Office()
    answer = office.exit("execute", "go", [[theirs, ApprovalRequest("m", "m")]], backend).value
    (open_one,) = answer.pending
    history = answer.history.append(ToolMessage.make(open_one.approve()))
    office.exit("execute", history, [text("Ok.")], backend)

    assert (answer.finish_reason, open_one.name) == ("pending", "remote")
    assert office.models[-1].requests[0].prompt == history


def test_a_composite_asks_once_for_all_of_its_calls(backend: Backend) -> None:
    """Before anything runs; the parameters list the entries, and all of them run when it is approved."""
    office = Office()
    composite = office.kit.as_tool("both")
    kit: Toolkit[Any] = Toolkit.of([composite.tool])
    entries: list[Any] = [{"name": "look", "args": {}}, {"name": "wipe", "args": {"disk": "a"}}]
    calls: Any = {"calls": entries}
    layer: Any = composite.layer.provide(office.handlers)

    def run(prompt: Any, states: Any) -> Response:
        model = ScriptedModel.make([states])
        asked: Any = LanguageModel.generate_text(prompt, toolkit=kit).provide(layer).provide(model.layer)
        response: Response = fx.run(asked, backend=backend)
        return response

    first = run("go", call("both", calls, id="c"))
    before = list(office.ran)
    history = Prompt.make("go").with_response(first.content)
    second = run(answered(history), text("Done."))

    assert (before, first.pending[0].params) == ([], calls)
    assert office.ran == ["look", Wipe("a")]
    assert [one["result"] for one in second.tool_results[0].encoded_result["results"]] == ["dust", "gone"]


def test_a_handler_hears_the_conversation_before_the_call(backend: Backend) -> None:
    """`context.messages` of an approved call is the history that was answered."""
    heard: list[int] = []
    wipe: Any = Tool.make("wipe", parameters=Wipe, success=str, needs_approval=True)
    office = Office(wipe)
    history = answered(office.asked())

    def on_wipe(_: Wipe, context: CallContext) -> Any:
        heard.append(len(context.messages))
        return Success("gone")

    asked: Any = LanguageModel.generate_text(history, toolkit=Toolkit.of([wipe])).provide(wipe.handler(on_wipe))
    fx.run(asked.provide(ScriptedModel.make([text("Ok.")]).layer), backend=backend)

    assert heard == [3]


def test_what_waits_is_answered_in_its_own_way() -> None:
    """An approval is approved or denied, a call of somebody else's is answered."""
    office = Office()
    (asked,) = office.asked().pending
    with pytest.raises(ValueError, match="approve or deny"):
        asked.answer("gone")
    (external,) = Response((ToolCall("x", "client", {}),)).pending
    with pytest.raises(ValueError, match="Use answer"):
        external.approve()
    with pytest.raises(ValueError, match="Use answer"):
        external.deny()

    assert (asked.approve("fine").reason, asked.deny().approved) == ("fine", False)


def test_a_history_that_begins_with_a_result_goes_on() -> None:
    """Its call was cut off: nothing waits for it."""
    office = Office()
    history = Prompt((ToolMessage.make(ToolResultPart("c0", "look", "dust")),))

    assert office.exit("generate_text", history, [text("Ok.")]).value.text == "Ok."


def test_a_history_of_texts_is_left_alone() -> None:
    """Where there is nothing of approvals, the model is shown the very prompt."""
    office = Office()
    prompt = Prompt((UserMessage.make("a"), AssistantMessage((TextPart("b"),)), UserMessage.make("c")))
    office.exit("generate_text", prompt, [text("d")])

    assert office.models[-1].requests[0].prompt is prompt


def test_what_the_user_and_the_system_said_is_shown_whole() -> None:
    """Where a settled request and its answer are left out."""
    office = Office()
    finished = [ToolMessage.make(ToolResultPart("c1", "wipe", "gone"))]
    history = Prompt((SystemMessage("Be brief."), *answered(office.asked()).messages, *finished))
    seen = _without_settled(history)

    assert len(seen.messages) == len(history.messages) - 1
    assert seen.messages[0] == SystemMessage("Be brief.")
    assert seen.messages[1] == history.messages[1]
