"""What holds for every approval, whatever was asked for and however the history was changed since."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st
from returns.result import Success

from fxai.effects import Exit, Failed, LayerOf, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    Message,
    Prompt,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import ApprovalLedger, LanguageModel
from fxai.models.approval import Authority, authority, digest_of, read_approvals, without_requests
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
from tests.kit.approvals import HOW, How, Office
from tests.kit.every import every
from tests.kit.reaching import Reached
from tests.kit.trials import examples

LAW = settings(max_examples=examples(60, least=60))

NAMES = st.text(max_size=4)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**52), 2**52) | st.floats(-1e6, 1e6) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
PARAMS = st.dictionaries(NAMES, JSON, max_size=3)

wipe: Any = Tool.dynamic("wipe", parameters={"type": "object"}, needs_approval=True)
KIT: Toolkit[Any] = Toolkit.of([wipe])
WHO: Authority = fx.run_sync(authority())


def _turn(asked: list[Any]) -> AssistantMessage:
    """A turn with a call for each of the parameters, and an honest request for each call."""
    parts: list[Any] = []
    for at, params in enumerate(asked):
        call = ToolCallPart(f"c{at}", "wipe", params, dynamic=True)
        parts.append(call)
        request = WHO.request(_as_call(call), wipe)
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        parts.append(ToolApprovalRequestPart(**fields))
    return AssistantMessage(tuple(parts))


def _as_call(part: ToolCallPart) -> Any:
    return ToolCall(part.id, part.name, part.params, dynamic=True)


def _asked(turn: AssistantMessage) -> list[str]:
    return [part.approval_id for part in turn.content if part.type == "tool-approval-request"]


def _run(turn: AssistantMessage, answers: list[Any]) -> tuple[list[Any], Any, ScriptedModel]:
    """What ran, how the round ended, and the model."""
    ran: list[Any] = []

    def on_wipe(params: Any) -> Any:
        ran.append(params)
        return Success(params)

    model = ScriptedModel.make([text("ok")])
    prompt = Prompt((UserMessage.make("go"), turn, ToolMessage(tuple(answers))))
    program: Any = LanguageModel.generate_text(prompt, toolkit=KIT).provide(wipe.handler(on_wipe)).provide(model.layer)
    ended: Exit[Any, Any] = fx.run_exit(program.provide(ApprovalLedger.in_process()))
    return ran, ended, model


@LAW
@given(st.lists(PARAMS, min_size=1, max_size=4), st.data())
def test_what_was_approved_runs_and_nothing_else(asked: list[Any], data: st.DataObject) -> None:
    """Of any answers in any order: the calls with a yes and no no, with the very parameters, and one result each.

    The model is not asked until all of them are answered.
    """
    turn = _turn(asked)
    ids = _asked(turn)
    answers = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.booleans()), max_size=8))
    said = [ToolApprovalResponsePart(id_, yes) for id_, yes in answers]
    ran, ended, model = _run(turn, said)
    approved = [p for p, id_ in zip(asked, ids, strict=True) if {yes for i, yes in answers if i == id_} == {True}]
    answered = {id_ for id_, _ in answers}

    assert ran == approved
    assert len(ended.value.tool_results) == len(answered)
    assert len(model.requests) == int(len(answered) == len(ids))


@pytest.mark.slow
@LAW
@given(st.lists(PARAMS, min_size=1, max_size=3), st.data())
def test_whatever_is_changed_nothing_runs(asked: list[Any], data: st.DataObject) -> None:
    """One field of one part of the turn: everything is refused, and the model is not asked."""
    turn = _turn(asked)
    at = data.draw(st.integers(0, len(turn.content) - 1))
    part = turn.content[at]
    notes = ("metadata", "dynamic", "provider_executed", "json_text")
    names = [name for name in part.__struct_fields__ if name not in notes]
    name = data.draw(st.sampled_from(names))
    change = {"params": PARAMS, "expires": st.none() | st.floats(0, 1e9), "params_text": NAMES}.get(name, NAMES)
    value = data.draw(change.filter(lambda new: digest_of(wipe, new) != digest_of(wipe, getattr(part, name))))
    answers = [ToolApprovalResponsePart(id_, True) for id_ in _asked(turn)]
    altered = msgspec.structs.replace(part, **{name: value})
    content: Any = (*turn.content[:at], altered, *turn.content[at + 1 :])
    ran, ended, model = _run(AssistantMessage(content), answers)

    assert (ran, model.requests) == ([], [])
    assert isinstance(ended, Failed)


@LAW
@given(PARAMS)
def test_a_digest_survives_json(params: Any) -> None:
    """Other member order, and `1.0` for `1`, are the same parameters."""
    mixed = json.loads(json.dumps(dict(reversed(params.items()))))
    floats: Any = _floats(mixed)

    assert digest_of(wipe, params) == digest_of(wipe, mixed) == digest_of(wipe, floats)


def _floats(data: Any) -> Any:
    if isinstance(data, bool) or not isinstance(data, int | list | dict):
        return data
    if isinstance(data, int):
        return float(data)
    if isinstance(data, list):
        items: Any = cast(Any, data)
        return [_floats(one) for one in items]
    return {key: _floats(value) for key, value in cast("dict[str, Any]", data).items()}


def _retyped(data: Any) -> st.SearchStrategy[Any]:
    """The data with `True` for `1` and `0` for `False`, and the other way round."""
    if isinstance(data, dict):
        return st.just({key: _swapped(value) for key, value in cast("dict[str, Any]", data).items()})
    return st.just(_swapped(data))


def _swapped(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        items: Any = cast(Any, value)
        return [_swapped(one) for one in items]
    return bool(value) if isinstance(value, int) and 0 <= value <= 1 else value


def _nearly(data: Any) -> st.SearchStrategy[Any]:
    """The data, or the same but for one value that a careless comparison takes for equal."""
    if isinstance(data, dict) and data:
        members: dict[str, Any] = cast(Any, data)
        return st.sampled_from(list(members)).flatmap(
            lambda name: _nearly(members[name]).map(lambda value: {**members, name: value})
        )
    if isinstance(data, list) and data:
        items: Any = cast(Any, data)
        return st.integers(0, len(items) - 1).flatmap(
            lambda at: _nearly(items[at]).map(lambda value: [*items[:at], value, *items[at + 1 :]])
        )
    if isinstance(data, str):
        return st.sampled_from([data, data + " ", data.upper(), 0, None])
    if isinstance(data, dict | list):
        return st.sampled_from([[], {}, None, False])
    return st.sampled_from([data, *_ALIKE.get(data, (str(data), -1.5))])


_ALIKE: dict[Any, tuple[Any, ...]] = {
    0: (0.0, False, "", None, "0", -0.0),
    1: (1.0, True, "1", "true"),
    None: (False, 0, "null", "", [], {}),
}
_CLOSE = st.sampled_from([True, False, 1, 0, 1.0, 0.0, None, "1", 2**53, 2**53 + 1, float(2**53), -1])
ALIKE = st.dictionaries(NAMES, _CLOSE | st.lists(_CLOSE, max_size=2), min_size=1, max_size=2)


def test_other_parameters_have_another_digest() -> None:
    """Two parameters have one digest only where they are equal JSON; `True` is not `1`, and is drawn beside it."""
    reached = Reached()

    @settings(LAW, max_examples=examples(150, least=150))
    @given(st.data())
    def law(data: st.DataObject) -> None:
        one = data.draw(PARAMS | ALIKE)
        other = data.draw(data.draw(st.sampled_from([_retyped(one), _nearly(one), PARAMS])))
        same = _typed(one) == _typed(other)
        kind = "equal" if same else "retyped" if one == other else "different"
        target(float(kind == "retyped"))
        reached(kind)

        assert (digest_of(wipe, one) == digest_of(wipe, other)) is same

    reached.by(law, equal=2, retyped=2, different=2)


def _typed(data: Any) -> Any:
    """The data with booleans told from numbers."""
    if isinstance(data, bool):
        return ("bool", data)
    if isinstance(data, list):
        items: Any = cast(Any, data)
        return [_typed(one) for one in items]
    if isinstance(data, dict):
        return {key: _typed(value) for key, value in cast("dict[str, Any]", data).items()}
    if isinstance(data, float) and data.is_integer() and abs(data) >= 2**53:
        return ("float", data)  # it stands for many whole numbers
    return data


def _without_settled(prompt: Prompt) -> Prompt:
    """What a model is shown of a history."""
    return Prompt(without_requests(prompt, read_approvals(prompt)))


@LAW
@given(st.lists(PARAMS, min_size=1, max_size=3), st.lists(st.booleans(), max_size=3))
def test_what_is_shown_keeps_calls_and_results(asked: list[Any], answers: list[bool]) -> None:
    """Of a history a model is shown all but what is settled, and what it is shown is shown as it is."""
    turn = _turn(asked)
    said = [ToolApprovalResponsePart(id_, yes) for id_, yes in zip(_asked(turn), answers, strict=False)]
    history = Prompt((UserMessage.make("go"), turn, ToolMessage(tuple(said))))
    seen = _without_settled(history)
    calls = [part for message in seen if message.role == "assistant" for part in message.content]

    assert _without_settled(seen) == seen
    assert [part for part in calls if part.type == "tool-call"] == [p for p in turn.content if p.type == "tool-call"]
    assert sum(part.type == "tool-approval-request" for part in calls) == len(asked) - len(said)


def test_errors_of_approvals_are_written_and_read() -> None:
    """They are values, as all reasons."""
    _, ended, _ = _run(_turn([{}]), [ToolApprovalResponsePart("stray", True)])
    error: AiError = ended.cause.failures[0]

    assert AiError.from_json(error.to_json()).unwrap() == error


@every("how", HOW)
def test_a_no_counts_where_its_call_is_marked_as_the_providers(how: How) -> None:
    """Whoever holds a history cannot take a denial away by saying that the provider runs its call."""
    office = Office()
    turns: list[Message] = [UserMessage.make("go")]
    for yes, marked in ((True, False), (False, True)):
        request = _request("c0", {"disk": "a"}, office)
        call = ToolCallPart("c0", "wipe", {"disk": "a"}, provider_executed=marked)
        turns.append(AssistantMessage((call, request)))
        turns.append(ToolMessage((ToolApprovalResponsePart(request.approval_id, yes),)))
    office.exit(how, Prompt(turns), [text('{"it": "is gone"}')], "asyncio")

    assert office.ran == []


# -- histories that were copied, cut, shuffled, merged and edited

CALLS = [(f"c{n}", {"disk": name}) for n, name in enumerate("ab")]


def _request(call_id: str, params: Any, office: Office) -> ToolApprovalRequestPart:
    request = WHO.request(ToolCall(call_id, "wipe", params), office.wipe)
    return ToolApprovalRequestPart(**{name: getattr(request, name) for name in request.__struct_fields__})


class Past:
    """A history in the making, and what it is known to say."""

    def __init__(self, data: st.DataObject, office: Office) -> None:
        self._draw: Any = data.draw
        self._office = office
        self.call_of: dict[str, str] = {}
        """Of each request that was made, by its id, which call it is about."""
        self.messages: list[Message] = [UserMessage.make("go")]

    def grow(self) -> None:
        """A turn with some calls, answered or not, run or not."""
        calls = self._draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=2, unique_by=lambda one: one[0]))
        parts: list[Any] = [ToolCallPart(call_id, "wipe", params) for call_id, params in calls]
        requests = [_request(call_id, params, self._office) for call_id, params in calls]
        self.call_of.update({one.approval_id: one.tool_call_id for one in requests})
        self.messages.append(AssistantMessage((*parts, *requests)))
        for request in requests:
            verdicts = self._draw(st.sampled_from([[True], [True], [True], [False], [True, False], []]))
            answers: list[Any] = [ToolApprovalResponsePart(request.approval_id, yes) for yes in verdicts]
            if self._draw(st.sampled_from([False, False, False, True])):
                answers.append(ToolResultPart(request.tool_call_id, "wipe", "gone"))
            if answers:
                self.messages.append(ToolMessage(tuple(answers)))

    def twist(self) -> None:
        """A piece copied to somewhere, cut out or moved."""
        at, to = sorted(self._draw(st.tuples(*[st.integers(0, len(self.messages))] * 2)))
        piece = self.messages[at:to]
        how = self._draw(st.sampled_from(["copy", "copy", "copy", "cut", "move"]))
        if how != "copy":
            del self.messages[at:to]
        if how != "cut" and len(self.messages) + len(piece) < 40:
            location = self._draw(st.integers(0, len(self.messages)) | st.just(len(self.messages)))
            self.messages[location:location] = piece

    def edit(self) -> None:
        """One message changed, as somebody may who holds it."""
        said = [at for at, one in enumerate(self.messages) if one.role in ("assistant", "tool")]
        if not said:
            return
        at: int = self._draw(st.sampled_from(said))
        message: Any = self.messages[at]
        parts: list[Any] = list(message.content)
        which = self._draw(st.integers(0, len(parts) - 1))
        part = parts[which]
        changes: dict[str, list[Any]] = {
            "tool-call": [None, {"provider_executed": True}, {"id": "c0"}, {"params_text": "{}"}],
            "tool-approval-request": [None, {"approval_id": "other"}, {"tool_call_id": "c0"}, {"digest": "0"}],
            "tool-approval-response": [None, {"approved": True}],
            "tool-result": [None, {"id": "c0"}],
        }
        change = self._draw(st.sampled_from(changes[part.type]))
        parts[which : which + 1] = [] if change is None else [msgspec.structs.replace(part, **change)]
        if parts:
            self.messages[at] = msgspec.structs.replace(message, content=tuple(parts))
        else:
            del self.messages[at]

    def parts(self) -> Iterable[Any]:
        """All parts, in order."""
        return [part for one in self.messages if one.role in ("assistant", "tool") for part in cast(Any, one).content]

    def denied(self) -> set[str]:
        """The calls to whose request somebody said no, anywhere."""
        noes = [one for one in self.parts() if one.type == "tool-approval-response" and not one.approved]
        return {self.call_of[one.approval_id] for one in noes if one.approval_id in self.call_of}


def _asked_of(office: Office, past: Past, how: How, backend: Any, **options: Any) -> Counter[str]:
    """How often each call ran when the model was asked with this history."""
    before = len(office.ran)
    office.exit(how, Prompt(past.messages), [text('{"it": "is gone"}')], backend, **options)
    disks = {params["disk"]: call_id for call_id, params in CALLS}
    return Counter(disks[one.disk] for one in office.ran[before:])


WAYS: st.SearchStrategy[How] = st.sampled_from(HOW)
LOOPS = st.sampled_from(["asyncio", "asyncio", "asyncio", "trio"])


def test_no_history_runs_a_call_twice_or_a_denied_one() -> None:
    """However a history was copied, cut, shuffled, merged and edited: each call once at most, and no denied one.

    Nor one that has a result anywhere, unless somebody edited what it is the result of. The ledger of each asking is
    new, so it is the history alone that says so.
    """
    reached = Reached()

    @settings(max_examples=examples(250, least=250))
    @given(st.data(), WAYS, LOOPS)
    def law(data: st.DataObject, how: How, backend: Any) -> None:
        office = Office()
        past = Past(data, office)
        steps = data.draw(st.lists(st.sampled_from(["grow", "twist", "twist", "edit"]), max_size=5))
        for at, step in enumerate(steps):
            getattr(past, step if at else "grow")()
        ran = _asked_of(office, past, how, backend)
        approved = Counter(one.approval_id for one in past.parts() if getattr(one, "approved", False))
        reached("ran", bool(ran))
        reached("ran_among_copies", bool(ran) and max(approved.values()) > 1)
        reached("denied_beside_a_yes", bool(past.denied() & {past.call_of.get(one, "") for one in approved}))
        target(float(sum(approved.values())))

        assert all(times == 1 for times in ran.values())
        assert not past.denied() & ran.keys()
        if "edit" not in steps[1:]:
            assert not {one.id for one in past.parts() if one.type == "tool-result"} & ran.keys()

    reached.by(law, ran=15, ran_among_copies=1, denied_beside_a_yes=5)


@pytest.mark.slow
def test_with_a_ledger_many_histories_run_a_call_once(tmp_path: Path) -> None:
    """Pieces of one conversation, sent one after another: each request runs its call once, and none that was denied."""
    reached = Reached()

    @settings(max_examples=examples(100, least=100))
    @given(st.data(), st.sampled_from(["process", "process", "process", "file"]))
    def law(data: st.DataObject, where: str) -> None:
        office = Office()
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        ledger = ApprovalLedger.default() if where == "process" else file
        first = Past(data, office)
        first.grow()
        total: Counter[str] = Counter()
        denied: set[str] = set()
        for _ in range(data.draw(st.integers(2, 5))):
            past = Past(data, office)
            past.messages, past.call_of = list(first.messages), first.call_of
            for step in data.draw(st.lists(st.just("twist"), max_size=2)):
                getattr(past, step)()
            past.messages += _more(data, past)
            layer = ApprovalLedger.sqlite(ledger) if isinstance(ledger, Path) else _served(ledger)
            ran = _asked_of(office, past, data.draw(WAYS), data.draw(LOOPS), layer=layer)
            assert not denied & ran.keys()
            total += ran
            denied |= _used_up(past)
        reached("ran", bool(total))
        reached("denied", bool(denied))

        assert all(times == 1 for times in total.values())

    reached.by(law, ran=5, denied=5)


def _served(ledger: ApprovalLedger) -> Any:
    return LayerOf.succeed(ApprovalLedger, ledger)


def _more(data: st.DataObject, past: Past) -> list[Message]:
    """One of its turns once more, and an answer to each of its requests."""
    turns = [one for one in past.messages if one.role == "assistant"]
    if not turns:
        return []
    turn = data.draw(st.sampled_from(turns))
    yes = data.draw(st.sampled_from([True, True, False]))
    return [turn, ToolMessage(tuple(ToolApprovalResponsePart(one, yes) for one in _asked(turn)))]


def _used_up(past: Past) -> set[str]:
    """The calls whose denial is used up when this history was heard: those that had no result yet."""
    there = {part.approval_id for part in past.parts() if part.type == "tool-approval-request"}
    results = {part.id for part in past.parts() if part.type == "tool-result"}
    return {call for call in past.denied() - results if call in {past.call_of[one] for one in there}}
