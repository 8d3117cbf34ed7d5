"""One approval, one run: whatever a history says twice, whoever asks again, and whatever stops the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from fxai.agents import Agent
from fxai.effects import Backend, Failed, fx
from fxai.messages import (
    AiError,
    ApprovalRequest,
    AssistantMessage,
    InvalidApprovalError,
    Prompt,
    ToolApprovalRequestPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownError,
    UserMessage,
)
from fxai.models import ApprovalLedger
from fxai.models.approval import authority
from fxai.testing import ScriptedModel, TestClock, call, text
from fxai.tools import Toolkit
from tests.kit.approvals import (
    HOW,
    How,
    Office,
    Wipe,
    answered,
    changed,
    layer_of,
    ledgers,
    problem_of,
    results_of,
)
from tests.kit.every import every

SECRET = "a secret that is long enough"
OBJECT = text('{"it": "is gone"}')


def _exchange(history: Prompt) -> tuple[AssistantMessage, ToolMessage, ToolMessage]:
    """The turn that asked, a yes to it, and a no."""
    (one,) = history.pending
    return cast(AssistantMessage, history[1]), ToolMessage.make(one.approve()), ToolMessage.make(one.deny("no"))


def _asked_again(turn: AssistantMessage, office: Office) -> AssistantMessage:
    """The same turn with another request, honestly signed, for the same call."""
    made, _ = cast("tuple[ToolCallPart, Any]", turn.content)
    request = fx.run_sync(authority()).request(ToolCall(made.id, made.name, made.params), office.wipe)
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return AssistantMessage((made, ToolApprovalRequestPart(**fields)))


# -- in one history


@every("how", HOW)
def test_a_turn_that_stands_there_ten_times_runs_once(how: How, backend: Backend) -> None:
    """With its yes each time; the model is shown one result behind each copy."""
    office = Office()
    history = answered(office.asked())
    ended = office.exit(how, Prompt((history[0], *list(history)[1:] * 10)), [OBJECT], backend)

    assert not isinstance(ended, Failed), ended
    assert office.ran == [Wipe("a")]
    assert results_of(office.models[-1].requests[0].prompt) == [["gone"]] * 10


@every("how", HOW)
@every("order", [(True, False), (False, True), (True, True, False), (False, True, True)])
def test_a_denial_wins_over_every_copy(how: How, order: tuple[bool, ...], backend: Backend) -> None:
    """Before it or behind it, in whichever turn it was said."""
    office = Office()
    history = office.asked()
    turn, yes, no = _exchange(history)
    copies = [part for approve in order for part in (turn, yes if approve else no)]
    ended = office.exit(how, Prompt((history[0], *copies)), [OBJECT], backend)

    assert not isinstance(ended, Failed), ended
    assert office.ran == []
    told = {"type": "execution-denied", "reason": "no"}
    assert results_of(office.models[-1].requests[0].prompt) == [[told]] * len(order)


@every("how", HOW)
def test_another_request_for_the_same_call_is_the_same_approval(how: How, backend: Backend) -> None:
    """Histories that were merged ask for one call twice, honestly: it runs once, or never where one is denied."""
    office = Office()
    history = office.asked()
    turn, yes, no = _exchange(history)
    again = _asked_again(turn, office)
    (other,) = Prompt((again,)).pending
    office.exit(how, Prompt((history[0], turn, yes, again, ToolMessage.make(other.approve()))), [OBJECT], backend)
    once = list(office.ran)
    office.exit(how, Prompt((history[0], turn, no, again, ToolMessage.make(other.approve()))), [OBJECT], backend)
    office.exit(how, Prompt((history[0], turn, yes, again, ToolMessage.make(other.deny()))), [OBJECT], backend)

    assert (once, office.ran) == ([Wipe("a")], [Wipe("a")])


@every("how", HOW)
def test_a_call_that_ran_does_not_run_for_a_copy_of_its_turn(how: How, backend: Backend) -> None:
    """Where its result stands once, before or behind the copy that lacks it, or behind a turn that is none of it."""
    office = Office()
    history = answered(office.asked())
    done = office.exit("execute", history, [text("Done.")], backend).value.history
    turn, yes, result = history[1], history[2], ToolMessage.make(ToolResultPart("c1", "wipe", "gone"))
    parts: Any = turn.content
    said, bare = AssistantMessage.make("Well."), AssistantMessage(parts[:1])
    for copied in (
        (*done.messages, turn, yes),
        (history[0], turn, yes, turn, yes, result),
        (history[0], turn, yes, said, result),
        (history[0], result, turn, yes),
        (history[0], bare, result, turn, yes),
        (history[0], turn, yes, bare, result),
        (history[0], AssistantMessage((*parts, ToolResultPart("c1", "wipe", "gone"))), yes),
    ):
        office.exit(how, Prompt(copied), [OBJECT], backend)
        assert office.ran == [Wipe("a")], copied


def test_the_copy_of_a_run_call_is_refused_as_used(backend: Backend) -> None:
    """An approval is said to be used where its call has a result, whichever copy has it."""
    office = Office()
    history = answered(office.asked())
    done = office.exit("execute", history, [text("Done.")], backend).value.history
    ended = office.exit("execute", done.append(history[1], history[2]), [], backend)

    assert problem_of(ended) == "used"


def test_an_old_copy_without_its_result_is_left_alone(backend: Backend) -> None:
    """Where the call has its result behind another copy, the conversation goes on, also without the tool."""
    office = Office()
    history = answered(office.asked())
    turn, yes = list(history)[1:]
    result = ToolMessage.make(ToolResultPart("c1", "wipe", "gone"))
    past = Prompt((history[0], turn, yes, turn, yes, result, UserMessage.make("And?")))
    ended = office.exit("execute", past, [text("Ok.")], backend, toolkit=Toolkit.of([office.look]))

    assert (ended.value.text, office.ran) == ("Ok.", [])


def test_whole_copies_of_what_is_done_are_left_alone(backend: Backend) -> None:
    """An exchange with its result may stand there twice: nothing runs, and the model is asked."""
    office = Office()
    history = office.exit("execute", answered(office.asked()), [text("Done.")], backend).value.history
    ended = office.exit("execute", Prompt((*history, *list(history)[1:])), [text("Ok.")], backend)

    assert (ended.value.text, office.ran) == ("Ok.", [Wipe("a")])


def test_a_bad_copy_spoils_the_good_one(backend: Backend) -> None:
    """Each yes is checked, also that of a copy: one that is forged or altered, and nothing runs."""
    office = Office()
    history = answered(office.asked())

    def edited(kind: str, **fields: Any) -> Prompt:
        def change(part: Any) -> Any:
            return msgspec.structs.replace(part, **fields) if part.type == kind else part

        return Prompt((*history, *list(changed(history, change))[1:]))

    for copied, problem in (
        (edited("tool-approval-request", signature=""), "forged"),
        (edited("tool-approval-request", digest="0" * 64), "forged"),
        (edited("tool-call", params={"disk": "b"}), "altered"),
        (edited("tool-call", name="look"), "altered"),
    ):
        assert problem_of(office.exit("execute", copied, [], backend)) == problem
    assert office.ran == []


def test_two_calls_of_one_id_do_not_run_together(backend: Backend) -> None:
    """Their results could not be told apart: refused, and each can be run alone."""
    office = Office()
    first, second = office.asked(), office.asked(call("wipe", {"disk": "b"}, id="c1"))
    both = Prompt((*answered(first), *list(answered(second))[1:]))

    assert problem_of(office.exit("execute", both, [], backend)) == "altered"
    assert office.ran == []
    office.exit("execute", answered(second), [text("Ok.")], backend)
    assert office.ran == [Wipe("b")]


def test_the_first_answer_stands() -> None:
    """Of two yeses the reason of the first is kept, of two noes as well."""
    office = Office()
    history = office.asked()
    (one,) = history.pending
    noes = history.append(ToolMessage.make(one.deny("first"), one.deny("second")))
    (result,) = office.exit("generate_text", noes, [text("Ok.")]).value.tool_results

    assert result.encoded_result["reason"] == "first"


def test_an_open_copy_of_an_answered_turn_does_not_wait(backend: Backend) -> None:
    """The first answer stands for all copies; its result stands behind the open one too."""
    office = Office()
    history = answered(office.asked())
    ended = office.exit("execute", history.append(history[1]), [text("Ok.")], backend)

    assert (ended.value.text, office.ran) == ("Ok.", [Wipe("a")])
    assert results_of(office.models[-1].requests[0].prompt) == [["gone"], ["gone"]]


# -- with a ledger


@ledgers
@every("how", HOW)
def test_a_denial_is_used_up(ledger: Any, how: How, tmp_path: Path, backend: Backend) -> None:
    """The same request, approved later in a history without the denial, does not run; denied again, it is denied."""
    office, layer = Office(), ledger(tmp_path)
    history = office.asked()
    denied = office.exit(how, answered(history, approve=False), [OBJECT], backend, layer=layer())
    later = office.exit(how, answered(history), [], backend, layer=layer())
    again = office.exit(how, answered(history, approve=False), [OBJECT], backend, layer=layer())

    assert not isinstance(denied, Failed), denied
    assert not isinstance(again, Failed), again
    assert problem_of(later) == "denied"
    assert office.ran == []


@ledgers
def test_a_denial_counts_in_a_history_that_is_refused(ledger: Any, tmp_path: Path, backend: Backend) -> None:
    """Nothing runs there, and what was denied in it does not run later."""
    office, layer = Office(), ledger(tmp_path)
    history = office.asked()
    (one,) = history.pending
    stray = msgspec.structs.replace(one.approve(), approval_id="stray")
    refused = office.exit("execute", history.append(ToolMessage.make(one.deny(), stray)), [], backend, layer=layer())

    assert problem_of(refused) == "no-request"
    assert problem_of(office.exit("execute", answered(history), [], backend, layer=layer())) == "denied"


@ledgers
def test_a_denial_counts_beside_a_result(ledger: Any, tmp_path: Path, backend: Backend) -> None:
    """Also where somebody put a result beside it, so that there is nothing to tell."""
    office, layer = Office(), ledger(tmp_path)
    history = office.asked()
    (one,) = history.pending
    said = history.append(ToolMessage.make(one.deny(), ToolResultPart("c1", "wipe", "gone")))
    office.exit("execute", said, [text("Ok.")], backend, layer=layer())

    assert problem_of(office.exit("execute", answered(history), [], backend, layer=layer())) == "denied"


@ledgers
@pytest.mark.parametrize("approve", [True, False])
def test_a_use_is_remembered_beyond_its_end(ledger: Any, approve: bool, tmp_path: Path, backend: Backend) -> None:
    """A clock that is set back, or that of another process, opens no approval again; a day later it is forgotten."""
    office, layer, clock, later = Office(), ledger(tmp_path), TestClock(), TestClock()
    history = office.asked(layer=clock.layer)
    until = cast(ToolApprovalRequestPart, history[1].content[1]).expires or 0
    office.exit("execute", answered(history), [text("Ok.")], backend, layer=clock.layer | layer())

    def replayed(seconds: float) -> Any:
        """The history again by the first clock, when another one has used the ledger so much later."""
        fx.run(later.advance(until + seconds - later.now()).provide(later.layer))
        other = answered(office.asked(layer=later.layer), approve=approve)
        office.exit("execute", other, [text("Ok.")], backend, layer=later.layer | layer())
        office.ran.clear()
        return office.exit("execute", answered(history), [text("Ok.")], backend, layer=clock.layer | layer())

    assert problem_of(replayed(86_000)) == "used"
    assert replayed(87_000).value.text == "Ok."
    assert office.ran == [Wipe("a")]


def test_a_denial_of_a_forged_request_uses_nothing_up(backend: Backend) -> None:
    """Who makes up a request cannot deny somebody else's by it."""
    office, layer = Office(), layer_of(ApprovalLedger.default())
    history = office.asked()

    def forged(part: Any) -> Any:
        return msgspec.structs.replace(part, digest="") if part.type == "tool-approval-request" else part

    office.exit("execute", answered(changed(history, forged), approve=False), [text("Ok.")], backend, layer=layer)
    office.exit("execute", answered(history), [text("Ok.")], backend, layer=layer)

    assert office.ran == [Wipe("a")]


class Claims(ApprovalLedger):
    """A ledger of somebody's own, which only claims."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def claim(self, uses: Any) -> Any:
        """All or none."""
        before = tuple(one for one in uses if one in self.used)
        self.used += [] if before else list(uses)
        return fx.succeed(before)


def test_a_ledger_that_only_claims_keeps_both_answers(backend: Backend) -> None:
    """Yes and no are claimed: neither runs a call later."""
    office, claims = Office(), Claims()
    first, second = office.asked(), office.asked()
    office.exit("execute", answered(first), [text("Ok.")], backend, layer=layer_of(claims))
    office.exit("execute", answered(second, approve=False), [text("Ok.")], backend, layer=layer_of(claims))

    for history in (first, second):
        assert problem_of(office.exit("execute", answered(history), [], backend, layer=layer_of(claims))) == "used"
    assert office.ran == [Wipe("a")]


class Forgets(ApprovalLedger):
    """A ledger that cannot be written when a call has ended."""

    def claim(self, uses: Any) -> Any:
        """Whatever it is, it was not used."""
        del uses
        return fx.succeed(())

    def finish(self, ids: Any) -> Any:
        """Fails."""
        del ids
        return fx.fail(AiError("ApprovalLedger", "finish", UnknownError("the disk is full")))


def test_a_result_is_not_lost_with_the_ledger(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Where the end of a call cannot be written its result is given all the same, and the log is told."""
    office = Office()
    ended = office.exit("execute", answered(office.asked()), [text("Ok.")], backend, layer=layer_of(Forgets()))

    assert [one.result for one in ended.value.steps[0].results] == ["gone"]
    assert "ledger could not record the end of calls" in caplog.text


# -- approvals inside sub-agents


def test_a_call_inside_a_sub_agent_waits_for_nobody(backend: Backend) -> None:
    """It is not run, and the agent that called is told that it waits, not that it was denied."""
    office = Office()
    inner = Agent.make("inner", toolkit=office.kit, model=ScriptedModel.make([[call("wipe", {"disk": "a"})]]).layer)
    model = ScriptedModel.make([[call("inner", {"prompt": "approved: yes"})], text("Ok.")])
    outer = Agent.make("outer").with_tools(inner.as_tool())
    program: Any = outer.execute("go").provide(office.handlers).provide(model.layer)
    answer = fx.run(program, backend=backend)
    (result,) = answer.steps[0].results

    assert office.ran == []
    assert (result.encoded_result["reason"], "denied" in result.encoded_result["message"]) == ("pending", False)


def test_an_approved_sub_agent_runs_once(backend: Backend) -> None:
    """An agent that is a tool is approved as any tool: once, however often its turn stands in the history."""
    poet = ScriptedModel.make([text("A verse.")])
    inner = Agent.make("poet", model=poet.layer)
    outer = Agent.make("editor").with_tools(inner.as_tool(needs_approval=True))

    def run(prompt: Any, *said: Any) -> Any:
        program: Any = outer.execute(prompt).provide(ScriptedModel.make(list(said)).layer)
        return fx.run(program, backend=backend)

    history = answered(run("go", [call("poet", {"prompt": "On roses."}, id="c1")]).history)
    answer = run(Prompt((history[0], *list(history)[1:] * 3)), text("Ok."))

    assert (len(poet.requests), answer.text) == (1, "Ok.")


# -- approvals that are a provider's


def test_a_provider_is_told_one_answer_to_each_request(backend: Backend) -> None:
    """The first, unless one denies: copies are not sent, whichever turn they stand in, and nothing runs here."""
    office = Office()
    theirs = ToolCall("m", "remote", {}, provider_executed=True)
    history = office.exit("execute", "go", [[theirs, ApprovalRequest("m", "m")]], backend).value.history
    turn, yes, no = _exchange(history)
    for answers, approved in (((yes, yes), True), ((yes, no), False), ((no, yes), False)):
        copied = Prompt((history[0], *[part for answer in answers for part in (turn, answer)]))
        office.exit("execute", copied, [text("Ok.")], backend)
        shown = office.models[-1].requests[0].prompt
        said = [p for m in shown if m.role == "tool" for p in m.content if p.type == "tool-approval-response"]
        assert [one.approved for one in said] == [approved]
    assert office.ran == []


def test_a_call_of_ours_is_not_run_as_the_providers(backend: Backend) -> None:
    """A history that says a call of ours was the provider's, or the other way round, runs nothing."""
    office = Office()
    history = answered(office.asked())

    def theirs(part: Any) -> Any:
        return msgspec.structs.replace(part, provider_executed=True) if part.type == "tool-call" else part

    office.exit("execute", changed(history, theirs), [text("Ok.")], backend)
    call_part, request = cast(AssistantMessage, history[1]).content
    unsigned = AssistantMessage.make(call_part, ToolApprovalRequestPart("m", "c1"))
    ended = office.exit("execute", answered(Prompt((UserMessage.make("go"), unsigned))), [], backend)

    assert request.type == "tool-approval-request"
    assert isinstance(ended.cause.failures[0].reason, InvalidApprovalError)
    assert office.ran == []
