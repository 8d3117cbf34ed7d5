"""Attacks on approvals: whatever is tried, nothing runs that was not approved as it stands."""

from __future__ import annotations

import hmac
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from fxai.effects import Backend, Failed, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    AuthenticationError,
    Prompt,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolMessage,
    ToolResultPart,
    UnknownError,
    UserMessage,
)
from fxai.models import ApprovalKey, ApprovalLedger
from fxai.models.approval import Authority, digest_of
from fxai.testing import TestClock, call, text
from fxai.tools import Tool
from tests.kit.approvals import HOW, How, Office, Wipe, answered, changed, problem_of
from tests.kit.every import every

SECRET, OTHER = "a secret that is long enough", "another secret, as long as that"
LATER = 86_400 + 1.0


def _at_key(part: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(part, **fields) if part.type == "tool-approval-request" else part


def _refused(office: Office, history: Prompt, problem: str, backend: Backend = "asyncio", **options: Any) -> bool:
    """Whether each way of asking refuses the history: nothing runs, the model is not asked."""
    for how in HOW:
        before = list(office.ran)
        ended = office.exit(how, history, [], backend, **options)

        assert problem_of(ended) == problem
        assert (office.ran, office.requests) == (before, 0)

    return True


# -- altered


@pytest.mark.parametrize("params", [{"disk": "b"}, {"disk": "a", "more": 1}, {}, None], ids=str)
def test_altered_parameters(params: Any, backend: Backend) -> None:
    """Other parameters than those that were asked about."""
    office = Office()

    def altered(part: Any) -> Any:
        return msgspec.structs.replace(part, params=params) if part.type == "tool-call" else part

    assert _refused(office, changed(answered(office.asked()), altered), "altered", backend)


def test_an_altered_text_of_parameters(backend: Backend) -> None:
    """Parameters slipped in as text beside those that were asked about."""
    office = Office()

    def altered(part: Any) -> Any:
        return msgspec.structs.replace(part, params_text='{"disk": "b"}') if part.type == "tool-call" else part

    assert _refused(office, changed(answered(office.asked()), altered), "altered", backend)


@every(("asked", "run"), [("shop/staging", "shop/production"), ("", "shop"), ("shop", "")])
def test_another_realm(asked: str, run: str, backend: Backend) -> None:
    """An approval of one realm runs nothing in another realm, though the secret and the tool are the same."""
    office = Office()
    history = answered(office.asked(layer=ApprovalKey(SECRET, realm=asked).layer))
    other, same = ApprovalKey(SECRET, realm=run).layer, ApprovalKey(SECRET, realm=asked).layer

    assert _refused(office, history, "altered", backend, layer=other)
    office.exit("execute", history, [text("gone")], backend, layer=same)
    assert office.ran == [Wipe("a")]


def test_an_altered_name(backend: Backend) -> None:
    """The approval of one tool used for another."""
    office = Office()
    other: Any = Tool.make("erase", parameters=Wipe, success=str, needs_approval=True)

    def altered(part: Any) -> Any:
        return msgspec.structs.replace(part, name="erase") if part.type == "tool-call" else part

    history = changed(answered(office.asked()), altered)
    assert _refused(office, history, "altered", backend, toolkit=office.kit.of([office.wipe, other]))


def _others() -> list[Any]:
    made: list[Any] = [
        Tool.make("wipe", parameters=Wipe, success=int, needs_approval=True),
        Tool.make("wipe", parameters=Wipe, success=str, failure=str, needs_approval=True),
        Tool.make("wipe", parameters=Wipe, success=str, failure_mode="return", needs_approval=True),
        Tool.make("wipe", parameters=dict[str, str], success=str, needs_approval=True),
        Tool.dynamic("wipe", parameters={"type": "object"}, needs_approval=True),
        Tool.make("clean", parameters=Wipe, success=str, needs_approval=True).rename("wipe"),
    ]
    return made


@every("other", _others(), ids=["success", "failure", "mode", "parameters", "kind", "first name"])
def test_an_altered_tool(other: Any, backend: Backend) -> None:
    """A tool of the same name that is not the one that was asked about."""
    history = answered(Office().asked())
    office = Office(other)

    assert _refused(office, history, "altered", backend)


def test_an_altered_tool_inside_a_composite() -> None:
    """The digest covers the tools inside, whatever the document says of them."""

    def office(inner: Any) -> tuple[Any, Any]:
        made = Office(inner)
        return made, made.kit.as_tool("both")

    first, composite = office(None)
    second, altered = office(Tool.make("wipe", parameters=Wipe, success=int, needs_approval=True))
    asked = call("both", {"calls": [{"name": "wipe", "args": {"disk": "a"}}]}, id="c")
    ended = first.exit("execute", "go", [asked], toolkit=first.kit.of([composite.tool]))
    history = answered(ended.value.history)

    assert composite.tool.parameters == altered.tool.parameters
    assert problem_of(second.exit("execute", history, [], toolkit=second.kit.of([altered.tool]))) == "altered"


def test_what_does_not_make_another_tool_is_allowed(backend: Backend) -> None:
    """A new description or annotation, and a predicate that has changed its mind."""
    history = answered(Office().asked())
    said = {"description": "Wipes.", "needs_approval": False}
    office = Office(Tool.make("wipe", parameters=Wipe, success=str, **cast(Any, said)))

    assert office.exit("execute", history, [text("Done.")], backend).value.text == "Done."
    assert office.ran == [Wipe("a")]


# -- forged


@every(
    "fields",
    [
        {"signature": ""},
        {"signature": "0" * 64},
        {"signature": "ü"},
        {"digest": "0" * 64},
        {"expires": None},
        {"expires": 9e15},
        {"approval_id": "mine"},
    ],
    ids=str,
)
def test_a_forged_request(fields: Any, backend: Backend) -> None:
    """Any field of a request changed, its answer with it."""
    office = Office()

    def forged(part: Any) -> Any:
        return _at_key(part, **fields) if getattr(part, "tool_call_id", "") == "c1" else part

    history = changed(office.asked(call("wipe", {"disk": "a"}, id="c1"), call("wipe", {"disk": "a"}, id="c2")), forged)

    assert _refused(office, answered(history), "forged", backend)


def test_a_renamed_call(backend: Backend) -> None:
    """A request is about the call of its id, so that it cannot be carried to another one."""
    office = Office()

    def renamed(part: Any) -> Any:
        if part.type == "tool-call":
            return msgspec.structs.replace(part, id="c2")
        return _at_key(part, tool_call_id="c2")

    assert _refused(office, answered(changed(office.asked(), renamed)), "forged", backend)


def test_a_request_out_of_nothing(backend: Backend) -> None:
    """A call and a request that somebody wrote by hand."""
    office = Office()
    asked = office.asked()
    call_part = cast(AssistantMessage, asked[1]).content[0]
    forged = AssistantMessage.make(call_part, ToolApprovalRequestPart("a", "c1"))

    assert _refused(office, answered(Prompt((UserMessage.make("go"), forged))), "forged", backend)


def test_a_request_signed_with_another_key(backend: Backend) -> None:
    """Or by a process without one; an older key that is still accepted is good."""
    office = Office()
    theirs = answered(office.asked(layer=ApprovalKey(OTHER).layer))
    ours = ApprovalKey(SECRET).layer

    assert _refused(office, theirs, "forged", backend, layer=ours)
    assert _refused(office, theirs, "forged", backend)
    assert _refused(office, answered(office.asked()), "forged", backend, layer=ours)
    rotated = ApprovalKey(SECRET, accept=[OTHER]).layer
    assert office.exit("execute", theirs, [text("Done.")], backend, layer=rotated).value.text == "Done."


PROGRAM = """
import sys
from fxai.messages import Prompt
from tests.kit.approvals import Office, answered, problem_of
office = Office()
ended = office.exit("execute", answered(Prompt.from_json(sys.stdin.read()).unwrap()), [])
print(problem_of(ended), office.ran, office.requests)
"""


def test_a_request_of_another_process() -> None:
    """Without a key of ours, what another process asked is not known here."""
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    said = Office().asked().to_json()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=said, env=env, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("forged [] 0\n", "")


# -- too late


def test_an_expired_request(backend: Backend) -> None:
    """A day later by the clock it cannot be approved; it can still be denied."""
    office = Office()
    clock = TestClock()
    history = office.asked(layer=clock.layer)
    fx.run(clock.advance(LATER).provide(clock.layer))

    assert _refused(office, answered(history), "expired", backend, layer=clock.layer)
    denied = office.exit("execute", answered(history, approve=False), [text("Ok.")], backend, layer=clock.layer)
    assert (denied.value.text, office.ran) == ("Ok.", [])


# -- twice


@every("how", HOW)
def test_a_replayed_history(how: How, backend: Backend) -> None:
    """The same answer to the same request runs the call once, whoever sends it again."""
    office = Office()
    history = answered(office.asked())
    ledger: Any = ApprovalLedger.in_process()
    states = [text('{"it": "is gone"}')]
    first, second = office.program(how, history, states), office.program(how, history, states)
    ended: Any = fx.run_exit(first.exit().and_then(second).provide(ledger), backend=backend)

    assert problem_of(ended) == "used"
    assert "it was used before: call 'c1' of 'wipe'" in str(ended.cause.failures[0])
    assert office.ran == [Wipe("a")]


def test_a_replay_while_it_runs(backend: Backend) -> None:
    """Of two at once, one runs the call."""
    office = Office()
    history = answered(office.asked())
    programs = [office.program("execute", history, [text("Done.")]).exit() for _ in range(3)]
    ends: Any = fx.run(
        fx.for_each(programs, lambda one: one, concurrency=None).provide(ApprovalLedger.in_process()), backend=backend
    )

    assert office.ran == [Wipe("a")]
    assert [isinstance(end, Failed) for end in ends] == [False, True, True]


def test_an_approval_beside_the_result(backend: Backend) -> None:
    """A call that has its result is not run again, and no second answer to it is taken."""
    office = Office()
    history = office.exit("execute", answered(office.asked()), [text("Done.")], backend).value.history
    (response,) = [part for part in history[2].content if isinstance(part, ToolApprovalResponsePart)]
    again = Prompt((*history.messages[:3], ToolMessage.make(response)))

    assert office.exit("execute", Prompt(history.messages[:3]), [text("Ok.")], backend).value.text == "Ok."
    assert _refused(office, again, "used", backend)
    assert office.ran == [Wipe("a")]


def test_an_answer_in_a_later_turn(backend: Backend) -> None:
    """An answer belongs behind the turn that asked."""
    office = Office()
    asked = office.asked()
    later = asked.append(
        UserMessage.make("Hm?"), AssistantMessage.make("Well."), ToolMessage.make(asked.pending[0].approve())
    )

    assert _refused(office, later, "no-request", backend)


def test_a_request_moved_to_another_conversation(backend: Backend) -> None:
    """It asks about one call: beside another one of the same id it is altered."""
    office = Office()
    (request,) = [part for part in office.asked()[1].content if isinstance(part, ToolApprovalRequestPart)]
    other = cast(AssistantMessage, office.asked(call("wipe", {"disk": "b"}, id="c1"))[1]).content[0]
    history = Prompt((UserMessage.make("go"), AssistantMessage.make(other, request)))

    assert _refused(office, answered(history), "altered", backend)


# -- approve and deny


@every("order", [(True, False), (False, True), (True, False, True)])
@every("apart", [True, False])
def test_a_denial_wins(order: tuple[bool, ...], apart: bool, backend: Backend) -> None:
    """In whichever order, in one message or in several."""
    office = Office()
    history = office.asked()
    (one,) = history.pending
    answers = [one.approve() if yes else one.deny("no") for yes in order]
    messages = [ToolMessage.make(each) for each in answers] if apart else [ToolMessage.make(*answers)]
    answer = office.exit("execute", history.extend(messages), [text("Ok.")], backend).value

    assert office.ran == []
    assert [r.encoded_result for r in answer.steps[0].response.tool_results] == [
        {"type": "execution-denied", "reason": "no"}
    ]


def test_two_approvals_are_one(backend: Backend) -> None:
    """A button pressed twice runs the call once."""
    office = Office()
    history = answered(answered(office.asked()))
    twice = office.asked()
    (one,) = twice.pending

    assert office.exit("execute", history, [text("Ok.")], backend).value.text == "Ok."
    office.exit("execute", twice.append(ToolMessage.make(one.approve(), one.approve())), [text("Ok.")], backend)
    assert office.ran == [Wipe("a"), Wipe("a")]


# -- what there is no request for


def test_an_answer_to_nothing(backend: Backend) -> None:
    """Nobody asked that; nor does a denial need no request."""
    office = Office()
    for yes in (True, False):
        stray = office.asked().append(ToolMessage.make(ToolApprovalResponsePart("stray", yes)))

        assert _refused(office, stray, "no-request", backend)


def test_a_request_without_its_call(backend: Backend) -> None:
    """The call was taken out of the history, or is there twice."""
    office = Office()
    history = answered(office.asked())
    turn = cast(AssistantMessage, history[1])
    one, request = turn.content

    for content in ((request,), (one, one, request)):
        assert _refused(office, Prompt((history[0], AssistantMessage(content), history[2])), "no-call", backend)


def test_two_requests_for_one_call(backend: Backend) -> None:
    """Which of them was answered cannot be known."""
    office = Office()
    history = answered(office.asked())
    one, request = cast(AssistantMessage, history[1]).content
    other = _at_key(request, approval_id="other")

    for second in (request, other):
        doubled = Prompt((history[0], AssistantMessage((one, request, second)), history[2]))
        assert _refused(office, doubled, "altered", backend)


def test_one_bad_answer_and_nothing_runs(backend: Backend) -> None:
    """A good approval beside a forged one waits for a history that is in order, and is not used up."""
    office = Office()
    history = office.asked(call("wipe", {"disk": "a"}, id="c1"), call("wipe", {"disk": "b"}, id="c2"))

    def forged(part: Any) -> Any:
        return _at_key(part, signature="") if getattr(part, "tool_call_id", "") == "c2" else part

    assert _refused(office, answered(changed(history, forged)), "forged", backend)
    office.exit("execute", answered(history), [text("Ok.")], backend)
    assert office.ran == [Wipe("a"), Wipe("b")]


def test_a_result_in_the_name_of_an_open_request(backend: Backend) -> None:
    """Then the call has its result, and an approval behind it is too late."""
    office = Office()
    history = office.asked()
    (one,) = history.pending
    faked = history.append(ToolMessage.make(ToolResultPart("c1", "wipe", "gone"), one.approve()))

    assert _refused(office, faked, "used", backend)


# -- keys and ledgers


def test_a_key_is_in_no_text() -> None:
    """Neither repr, nor error, nor pickle, nor request shows it."""
    key = ApprovalKey(SECRET)
    office = Office()
    history = office.asked(layer=ApprovalKey(SECRET).layer)
    ended = office.exit("execute", answered(history), [], layer=ApprovalKey(OTHER).layer)

    assert repr(key) == str(key) == "ApprovalKey(…)"
    assert SECRET not in history.to_json() + str(ended) + repr(ApprovalKey(SECRET).layer)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize(
    "arguments", [{"secret": "short"}, {"secret": SECRET, "accept": [""]}, {"secret": SECRET, "lifetime": 0}]
)
def test_a_key_that_protects_nothing_is_refused(arguments: Any) -> None:
    """Too short, or too old as soon as it signs."""
    with pytest.raises(ValueError, match="ApprovalKey"):
        ApprovalKey(**arguments)


def test_a_signature_is_made_of_these_bytes_and_no_others() -> None:
    """HMAC-SHA256 in hexadecimal: what one version signed, the next one knows, and any other program can check."""
    key = ApprovalKey(SECRET)
    who = Authority(key, ApprovalLedger.default(), TestClock())
    signed = b'["fxai approval 1","approval_1","c1","00ff",1767225600]'
    expected = "6d23ace2cef129b8a1c2fc46fb31fbcc226902b5ecaa1a0deeade2d42ba89c5b"
    request = ToolApprovalRequestPart("approval_1", "c1", "00ff", 1767225600.0, expected)

    assert key.sign(signed) == expected == hmac.new(SECRET.encode(), signed, "sha256").hexdigest()
    assert who.is_signed(request)
    for field, value in {"approval_id": "a", "tool_call_id": "c2", "digest": "00", "expires": 1.0}.items():
        assert not who.is_signed(msgspec.structs.replace(request, **{field: value}))
    assert not who.is_signed(msgspec.structs.replace(request, expires=float("nan")))


def test_a_digest_is_made_of_these_bytes_and_no_others() -> None:
    """What one version asked, the next one knows: SHA-256 over sorted JSON, each whole number in one form."""
    wipe: Any = Tool.dynamic("wipe", parameters={"type": "object"}, success=str, needs_approval=True)

    assert (
        digest_of(wipe, {"b": [1.0, None], "a": "ü"})
        == "821e4509602be086010f8cb5ec5e80cba9d84cf61a943530ca3bb1203ec35930"
    )


def test_numbers_beyond_what_a_float_holds_are_no_other_numbers() -> None:
    """A float from 2⁵³ on may stand for several whole numbers, so it is none of them; NaN has no digest at all."""
    wipe: Any = Tool.dynamic("wipe", parameters={"type": "object"}, needs_approval=True)
    for sign in (1, -1):
        assert digest_of(wipe, sign * float(2**53)) != digest_of(wipe, sign * 2**53)
        assert digest_of(wipe, sign * float(2**53 - 1)) == digest_of(wipe, sign * (2**53 - 1))
        assert digest_of(wipe, sign * 1.5) != digest_of(wipe, sign)
    for number in ("nan", "inf", "-inf"):
        with pytest.raises(ValueError, match="JSON compliant"):
            digest_of(wipe, float(number))


@pytest.mark.parametrize("params", [{"disk": float("nan")}, {"disk": b"a"}, {"disk": {1, 2}}], ids=str)
def test_parameters_that_are_no_json(params: Any, backend: Backend) -> None:
    """A history made by hand may hold what no model can say: it is altered, and no defect."""
    office = Office()

    def altered(part: Any) -> Any:
        return msgspec.structs.replace(part, params=params) if part.type == "tool-call" else part

    assert _refused(office, changed(answered(office.asked()), altered), "altered", backend)


def test_secrets_are_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen are enough, from the environment too, where blanks around do not count; older ones count as well."""
    sixteen = "ü" * 8
    monkeypatch.setenv("OTHER_KEY", f" {sixteen}\n")

    @fx.gen
    def found() -> Any:
        return (yield from ApprovalKey)

    key: ApprovalKey = fx.run(found().provide(ApprovalKey.from_env("OTHER_KEY", lifetime=5.0)))
    rotated = ApprovalKey(SECRET, accept=[sixteen.encode()])

    assert (key.lifetime, key.sign(b"x")) == (5.0, ApprovalKey(sixteen).sign(b"x"))
    assert rotated.verify(b"x", key.sign(b"x"))
    assert not rotated.verify(b"y", key.sign(b"x"))
    assert not ApprovalKey(SECRET).verify(b"x", key.sign(b"x"))
    assert rotated.sign(b"x") == ApprovalKey(SECRET).sign(b"x")
    assert ApprovalKey(SECRET).lifetime == 86_400.0
    for short in ({"secret": "ü" * 7 + "x"}, {"secret": SECRET, "accept": [b"short"]}):
        with pytest.raises(ValueError, match="at least 16 bytes"):
            ApprovalKey(**cast(Any, short))


def test_a_request_lives_as_long_as_the_key_says(backend: Backend) -> None:
    """To the second; a lifetime of None is for ever."""
    office, clock = Office(), TestClock()
    brief, endless = (ApprovalKey(SECRET, lifetime=lifetime).layer for lifetime in (60.0, None))
    history, open_ = office.asked(layer=brief | clock.layer), office.asked(layer=endless | clock.layer)
    fx.run(clock.advance(60).provide(clock.layer))
    office.exit("execute", answered(history), [text("Ok.")], backend, layer=brief | clock.layer)
    fx.run(clock.advance(0.5).provide(clock.layer))

    assert office.ran == [Wipe("a")]
    assert _refused(office, answered(history), "expired", backend, layer=brief | clock.layer)
    fx.run(clock.advance(1e9).provide(clock.layer))
    office.exit("execute", answered(open_), [text("Ok.")], backend, layer=endless | clock.layer)
    assert office.ran == [Wipe("a"), Wipe("a")]


def test_a_key_from_the_environment(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    """Read when the layer is built; without it a typed failure names the variable."""
    office = Office()
    monkeypatch.setenv("FXAI_APPROVAL_KEY", SECRET)
    history = office.asked(layer=ApprovalKey.from_env())
    done = office.exit("execute", answered(history), [text("Ok.")], backend, layer=ApprovalKey(SECRET).layer)
    monkeypatch.setenv("FXAI_APPROVAL_KEY", "short")
    failed = office.exit("execute", answered(history), [], backend, layer=ApprovalKey.from_env())
    error: AiError = failed.cause.failures[0]

    assert done.value.text == "Ok."
    assert isinstance(error.reason, AuthenticationError)
    assert "FXAI_APPROVAL_KEY is too short" in str(error)


def test_a_ledger_for_many_processes(tmp_path: Path, backend: Backend) -> None:
    """What one ledger in a file has claimed, another one on the same file knows; what is over it forgets."""
    clock = TestClock()

    def claim(**uses: float | None) -> Any:
        @fx.gen
        def claimed() -> Any:
            ledger = yield from ApprovalLedger
            return (yield from ledger.claim(uses))

        layer: Any = ApprovalLedger.sqlite(tmp_path / "deep" / "ledger.db")
        return fx.run(claimed().provide(layer).provide(clock.layer), backend=backend)

    now = 0.0
    assert claim(a=now + 10, b=None) == ()
    assert claim(b=None, c=None) == ("b",)
    assert claim(c=None) == ()
    assert claim() == ()
    fx.run(clock.advance(10_000_000_000).provide(clock.layer))
    assert claim(a=None) == ()


def test_a_ledger_that_cannot_be_read_lets_nothing_run(tmp_path: Path, backend: Backend) -> None:
    """Whether an approval was used is not known then."""
    (tmp_path / "ledger.db").write_text("this is no database, but a text of some length" * 30)
    office = Office()
    ended = office.exit(
        "execute", answered(office.asked()), [], backend, layer=ApprovalLedger.sqlite(tmp_path / "ledger.db")
    )
    error: AiError = ended.cause.failures[0]

    assert isinstance(error.reason, UnknownError)
    assert (error.module, error.method) == ("ApprovalLedger", "claim")
    assert "ledger cannot find uses" in error.reason.description
    assert (office.ran, office.requests) == ([], 0)
