"""Windows: how many turns fit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from fxai.agents import Compaction
from fxai.messages import (
    AssistantMessage,
    FilePart,
    Prompt,
    ReasoningPart,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.models import estimated_tokens
from tests.kit.memories import asked, chat, looked_up, window_of

TURNS = (looked_up("one"), chat("two"), looked_up("three"), chat("four"))  # of 4, 2, 4 and 2 messages


def _sizes(window: Compaction) -> list[int]:
    return [len(turn) for turn in window_of(window).newest(reversed(TURNS))]


def test_a_window_of_turns() -> None:
    """The newest, as many as it says, or all that there are."""
    assert [_sizes(Compaction.window(n)) for n in (1, 2, 4, 9)] == [[2], [4, 2], [4, 2, 4, 2], [4, 2, 4, 2]]


def test_a_window_of_tokens() -> None:
    """The newest that fit together; behind one that does not fit, none, though an older one would."""
    assert [_sizes(Compaction.window(tokens=n, count=len)) for n in (2, 5, 6, 7, 8, 12)] == [
        *([2], [2], [4, 2], [4, 2], [2, 4, 2], [4, 2, 4, 2]),
    ]


def test_the_newest_turn_is_always_given() -> None:
    """Though it alone takes more: what is open in it could not be answered otherwise."""
    assert _sizes(Compaction.window(tokens=1, count=len)) == [2]
    assert window_of(Compaction.window(tokens=1)).newest([asked("a")]) == (asked("a"),)


def test_both_bounds_hold() -> None:
    """The one that is reached first ends it."""
    assert _sizes(Compaction.window(2, tokens=100, count=len)) == [4, 2]
    assert _sizes(Compaction.window(3, tokens=6, count=len)) == [4, 2]


def test_no_more_turns_are_asked_for_than_needed() -> None:
    """So a long memory is not read to its beginning."""
    asked_for: list[int] = []

    def turns() -> Iterator[Prompt]:
        for location, turn in enumerate(reversed(TURNS)):
            asked_for.append(location)
            yield turn

    window_of(Compaction.window(2)).newest(turns())
    seen = list(asked_for)
    asked_for.clear()
    window_of(Compaction.window(tokens=4, count=len)).newest(turns())

    assert (seen, asked_for) == ([0, 1], [0, 1])


@pytest.mark.parametrize("most", [0, -1])
def test_a_window_that_shows_nothing_is_refused(most: int) -> None:
    """A count below 1 is a mistake, never everything."""
    with pytest.raises(ValueError, match=rf"window must be at least 1, got {most} turns\. Pass None"):
        Compaction.window(most)
    with pytest.raises(ValueError, match=f"window must be at least 1, got {most} tokens"):
        Compaction.window(tokens=most)


def test_a_window_is_a_value() -> None:
    """Equal when its bounds are, hashable, and it can be sent."""
    window = Compaction.window(tokens=100)

    assert window == Compaction.window(None, tokens=100) != Compaction.window(100)
    assert pickle.loads(pickle.dumps(window)) == window
    assert len({window, Compaction.window(tokens=100), Compaction.window(1)}) == 2


def test_the_estimate_counts_everything_that_is_sent() -> None:
    """Texts, names, parameters, results and files; more of one is never fewer tokens."""
    prompts = [
        Prompt([UserMessage.make("a" * 400)]),
        Prompt([AssistantMessage.make(ReasoningPart("a" * 400))]),
        Prompt([AssistantMessage.make(ToolCallPart("c", "add", {"a": "a" * 400}))]),
        Prompt([ToolMessage.make(ToolResultPart("c", "add", ["a" * 400]))]),
        Prompt([UserMessage.make(FilePart("text/plain", b"a" * 400))]),
    ]

    assert [estimated_tokens(one) for one in prompts] == [104, 104, 108, 107, 104]
    assert estimated_tokens(Prompt([UserMessage.make(FilePart("image/png", b"a" * 400))])) == 1504
    assert estimated_tokens(Prompt([UserMessage.make(FilePart.of_url("a/b", "https://a.example"))])) == 1504
    assert estimated_tokens(asked("a")) == estimated_tokens(Prompt(asked("a").messages[:1])) + 14
    assert estimated_tokens(Prompt([SystemMessage("Be brief.")])) == 7
    assert estimated_tokens(Prompt.empty) == 0
