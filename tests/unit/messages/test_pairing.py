"""Pairing: which calls and results of a conversation stand without each other."""

from __future__ import annotations

from collections.abc import Sequence

from fxai.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.messages.calls import unpaired_calls
from tests.kit.every import every


def _calls(*ids: str) -> Message:
    return AssistantMessage.make(*[ToolCallPart(id_, "add", {}) for id_ in ids])


def _results(*ids: str) -> Message:
    return ToolMessage.make(*[ToolResultPart(id_, "add", 5) for id_ in ids])


_USER = UserMessage.make("Well?")
_HOSTED = ToolCallPart("h", "search", {}, provider_executed=True)


@every(
    "messages",
    [
        [],
        [_USER, _calls("a", "b"), _results("b", "a"), _USER],
        [_calls("a", "b"), _results("a"), _results("b")],
        [_calls("a"), ToolMessage.make(ToolApprovalResponsePart("x", True)), _results("a")],
        [_calls("a", "a"), _results("a", "a")],
        [_calls("a"), _results("a"), _calls("a"), _results("a")],
        [AssistantMessage.make(_HOSTED), _USER],
    ],
)
def test_pairs_are_whole(messages: Sequence[Message]) -> None:
    """In any order, in several tool messages, with one id again; a provider's own calls are its own."""
    assert unpaired_calls(messages) == []


@every(
    ("messages", "alone"),
    [
        ([_calls("a", "b"), _results("b")], ["a"]),
        ([_results("a"), _USER], ["a"]),
        ([_calls("a"), _USER, _results("a")], ["a", "a"]),
        ([_calls("a"), SystemMessage("Be brief."), _results("a")], ["a", "a"]),
        ([_calls("a"), _calls("b"), _results("a", "b")], ["a", "a"]),
        ([_calls("a"), _results("a", "b")], ["b"]),
    ],
)
def test_what_stands_alone_is_named(messages: Sequence[Message], alone: list[str]) -> None:
    """A result is right behind the turn of its call, or both are alone."""
    assert unpaired_calls(messages) == alone
