"""What a turn leaves open, and where the results of earlier calls go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.messages import (
    AnyPart,
    ApprovalRequest,
    AssistantMessage,
    Finish,
    Pending,
    Prompt,
    Text,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolResult,
    ToolResultPart,
    UserMessage,
)
from fxai.messages.calls import insert_late, insert_results, pending_in

A, B = ToolCall("a", "add", {"n": 1}), ToolCall("b", "add", {"n": 2}, dynamic=True)


def _kinds(prompt: Prompt) -> list[tuple[str, list[str]]]:
    return [(m.role, [part.type for part in m.content]) for m in prompt if m.role != "system"]


def test_calls_without_results_and_requests_without_answers_are_open() -> None:
    """In order; preliminary results answer nothing, and a provider's own calls are its own."""
    parts: list[AnyPart] = [
        A,
        B,
        ToolCall("p", "search", {}, provider_executed=True),
        ApprovalRequest("r", "b"),
        ToolResult("a", "add", 1, preliminary=True),
    ]

    assert pending_in(parts) == (Pending("a", "add", {"n": 1}), Pending("b", "add", {"n": 2}, "r", dynamic=True))
    assert pending_in([*parts, ToolResult("a", "add", 2), ToolApprovalResponsePart("r", False)]) == ()


def test_a_request_without_its_call_is_open_too() -> None:
    """It can be denied; there is nothing to show of the call."""
    (one,) = pending_in([ApprovalRequest("r", "gone")])

    assert (one.id, one.name, one.params, one.deny().approved) == ("gone", "", None, False)
    assert len({one, Pending("gone", "", {"other": 1}, "r")}) == 2


def test_each_open_call_can_be_replied_to() -> None:
    """All answers stand in one tool message; a call that gets none waits on; where nothing waits, nothing is added."""
    calls = AssistantMessage.make(
        ToolCallPart("a", "add", {}), ToolCallPart("b", "wipe", {}), ToolApprovalRequestPart("r", "b")
    )
    history = Prompt((UserMessage.make("x"), calls))

    answered = history.reply(lambda one: one.approve() if one.approval_id else one.answer(5))
    half = history.reply(lambda one: one.deny("no") if one.approval_id else None)

    assert answered[-1] == ToolMessage.make(ToolResultPart("a", "add", 5), ToolApprovalResponsePart("r", True))
    assert [one.id for one in half.pending] == ["a"]
    assert history.reply(lambda _: None) is history
    assert answered.reply(Pending.approve) is answered
    with pytest.raises(ValueError, match="needs a result, not an approval"):
        history.reply(Pending.approve)


@pytest.mark.parametrize("strange", [True, "yes", {"approve": True}, Pending.approve])
def test_reply_rejects_a_function_that_returns_no_answer(strange: Any) -> None:
    """A function that returns a bool, a string, or a record raises an error with the possible answers."""
    history = Prompt((AssistantMessage.make(ToolCallPart("c", "add", {})),))

    with pytest.raises(TypeError, match=r"the function must return an answer, got .* Return call.approve\(\)"):
        history.reply(lambda _: strange)


def test_of_a_history_the_last_turn_counts() -> None:
    """What an earlier one left open has been passed over."""
    turn = AssistantMessage.make(ToolCallPart("a", "add", {}))
    history = Prompt((UserMessage.make("x"), turn, UserMessage.make("y")))

    assert [one.id for one in history.pending] == ["a"]
    assert history.append(AssistantMessage.make("z")).pending == ()
    assert Prompt.empty.pending == ()


def test_a_response_goes_behind_its_prompt() -> None:
    """Results of earlier calls behind the turn that made them, with what came back before; the rest at the end."""
    turn = AssistantMessage.make(ToolCallPart("a", "add", {}), ToolCallPart("b", "add", {}))
    prompt = Prompt((turn, ToolMessage.make(ToolResultPart("a", "add", 1)), UserMessage.make("and?")))
    early, later = ToolResult("b", "add", 2), ToolResult("c", "add", 3)
    grown = prompt.with_response([early, Text("So:"), ToolCall("c", "add", {}), later, Finish("tool-calls")])

    assert _kinds(grown) == [
        ("assistant", ["tool-call", "tool-call"]),
        ("tool", ["tool-result", "tool-result"]),
        ("user", ["text"]),
        ("assistant", ["text", "tool-call"]),
        ("tool", ["tool-result"]),
    ]
    assert prompt.with_response([Text("x")]) == prompt + Prompt.from_parts([Text("x")])
    assert _kinds(prompt) == _kinds(Prompt(prompt.messages))


def test_a_result_goes_to_the_latest_call_of_its_id() -> None:
    """Ids are unique in a turn alone; one whose call is nowhere goes to the end."""
    turn = AssistantMessage.make(ToolCallPart("a", "add", {}))
    messages = insert_results(
        [turn, turn, UserMessage.make("x")], [ToolResultPart("a", "add", 1), ToolResultPart("z", "add", 2)]
    )

    assert [m.role for m in messages] == ["assistant", "assistant", "tool", "user", "tool"]
    assert insert_results([], []) == []
    assert [m.role for m in insert_results([], [ToolResultPart("z", "add", 2)])] == ["tool"]


def _turn(id_: str) -> AssistantMessage:
    return AssistantMessage.make(ToolCallPart(id_, "add", {}), ToolApprovalRequestPart(f"approval-{id_}", id_))


def test_late_answers_and_results_go_behind_their_calls() -> None:
    """Each goes to the turn that it is about; an answer that is there already stays alone, and the rest stays."""
    yes, result = ToolApprovalResponsePart("approval-a", True), ToolResultPart("a", "add", 1)
    own = ToolApprovalResponsePart("approval-b", True)
    said = UserMessage.make("x")
    messages: list[Any] = [_turn("a"), said, _turn("b"), ToolMessage.make(own, yes), ToolMessage.make(yes, result)]

    placed = insert_late(messages)

    assert placed == [_turn("a"), ToolMessage.make(yes, result), said, _turn("b"), ToolMessage.make(own)]
    assert insert_late(placed) == placed


MESSAGES = st.lists(
    st.sampled_from("ab").map(_turn)
    | st.sampled_from("abc").map(lambda id_: ToolMessage.make(ToolResultPart(id_, "add", 1)))
    | st.sampled_from("abc").map(lambda id_: ToolMessage.make(ToolApprovalResponsePart(f"approval-{id_}", True)))
    | st.just(UserMessage.make("x")),
    max_size=8,
)


@given(MESSAGES)
def test_placing_late_parts_loses_nothing(messages: list[Any]) -> None:
    """Every part is there afterwards, turns and users keep their order, and a second time changes nothing."""
    placed = insert_late(messages)

    assert [one for one in placed if one.role != "tool"] == [one for one in messages if one.role != "tool"]
    assert all(part in [each for one in placed for each in one.content] for one in messages for part in one.content)
    assert insert_late(placed) == placed
