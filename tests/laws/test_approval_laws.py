"""What holds for every approval, whatever was asked for and however the history was changed since."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.effects import Exit, Failed, fx
from fxai.messages import Prompt
from fxai.messages.content import ToolApprovalRequestPart, ToolApprovalResponsePart, ToolCallPart
from fxai.messages.errors import AiError
from fxai.messages.message import AssistantMessage, ToolMessage, UserMessage
from fxai.messages.part import ToolCall
from fxai.models import ApprovalLedger, LanguageModel
from fxai.models.answered import shown
from fxai.models.approval import Authority, authority, digest_of
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit

LAW = settings(deadline=None, max_examples=60)

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


@LAW
@given(st.lists(PARAMS, min_size=1, max_size=3), st.data())
def test_whatever_is_changed_nothing_runs(asked: list[Any], data: st.DataObject) -> None:
    """One field of one part of the turn: everything is refused, and the model is not asked."""
    turn = _turn(asked)
    at = data.draw(st.integers(0, len(turn.content) - 1))
    part = turn.content[at]
    names = [name for name in part.__struct_fields__ if name not in ("metadata", "dynamic", "provider_executed")]
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


@LAW
@given(PARAMS, PARAMS)
def test_other_parameters_have_another_digest(one: Any, other: Any) -> None:
    """Two parameters have one digest only where they are equal JSON; `True` is not `1`."""
    same = _typed(one) == _typed(other)

    assert (digest_of(wipe, one) == digest_of(wipe, other)) is same


def _typed(data: Any) -> Any:
    """The data with booleans told from numbers."""
    if isinstance(data, bool):
        return ("bool", data)
    if isinstance(data, list):
        items: Any = cast(Any, data)
        return [_typed(one) for one in items]
    if isinstance(data, dict):
        return {key: _typed(value) for key, value in cast("dict[str, Any]", data).items()}
    return data


@LAW
@given(st.lists(PARAMS, min_size=1, max_size=3), st.lists(st.booleans(), max_size=3))
def test_what_is_shown_keeps_calls_and_results(asked: list[Any], answers: list[bool]) -> None:
    """Of a history a model is shown all but what is settled, and what it is shown is shown as it is."""
    turn = _turn(asked)
    said = [ToolApprovalResponsePart(id_, yes) for id_, yes in zip(_asked(turn), answers, strict=False)]
    history = Prompt((UserMessage.make("go"), turn, ToolMessage(tuple(said))))
    seen = shown(history)
    calls = [part for message in seen if message.role == "assistant" for part in message.content]

    assert shown(seen) == seen
    assert [part for part in calls if part.type == "tool-call"] == [p for p in turn.content if p.type == "tool-call"]
    assert sum(part.type == "tool-approval-request" for part in calls) == len(asked) - len(said)


def test_errors_of_approvals_are_written_and_read() -> None:
    """They are values, as all reasons."""
    _, ended, _ = _run(_turn([{}]), [ToolApprovalResponsePart("stray", True)])
    error: AiError = ended.cause.failures[0]

    assert AiError.from_json(error.to_json()).unwrap() == error
