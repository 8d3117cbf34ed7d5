"""Memories: the conformance cases of the area `concerto.memory`, and those of other areas that are about a memory.

Their memory counts messages, ours counts turns: where a case speaks of messages that are appended one by one, a turn is
committed here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fxai.agents import Compaction, Memory
from fxai.effects import Backend, fx
from fxai.messages import AssistantMessage, Prompt, UserMessage
from tests.kit.conformance import Case, case
from tests.kit.memories import KINDS, chat, commit_all, memory_of

of_each_kind = pytest.mark.parametrize("kind", KINDS)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


@of_each_kind
@case("CO005")
def test_messages_come_back_in_order(case: Case, kind: str, tmp_path: Path, backend: Backend) -> None:
    """What the user said and what the model answered, with their roles and contents."""
    memory = memory_of(kind, tmp_path)
    fx.run(memory.commit(Prompt([UserMessage.make("Hello"), AssistantMessage.make("Hi there")])), backend=backend)
    said = fx.run(memory.load(), backend=backend)

    assert [len(said)] == _numbers(case.expect)
    assert str(said) == "user: Hello\nassistant: Hi there"


@of_each_kind
@case("CO006", "CO089")
def test_a_window_slides(case: Case, kind: str, tmp_path: Path, backend: Backend) -> None:
    """Of four turns the newest three are given, and the first of these is the second; changed: turns, not messages."""
    most, appends = _numbers(case.given)
    memory = memory_of(kind, tmp_path, Compaction.window(most))
    fx.run(commit_all(memory, [chat(f"msg{n}") for n in range(1, appends + 1)]), backend=backend)
    said = [one.text for one in fx.run(memory.load(), backend=backend) if one.role == "user"]

    assert len(said) == _numbers(case.expect)[0]
    assert said == ["msg2", "msg3", "msg4"]


@of_each_kind
@case("CO008")
def test_a_memory_is_cleared(case: Case, kind: str, tmp_path: Path, backend: Backend) -> None:
    """Two turns, then none."""
    memory = memory_of(kind, tmp_path)
    fx.run(commit_all(memory, [chat("a"), chat("b")]), backend=backend)
    before = len(fx.run(memory.turns(), backend=backend))
    fx.run(memory.clear(), backend=backend)

    assert [before, len(fx.run(memory.turns(), backend=backend))] == _numbers(case.expect)


@case("CO073")
def test_a_bound_is_said_where_the_memory_is_made(case: Case) -> None:
    """As a window of so many turns, or as how many are kept."""
    (most,) = _numbers(case.expect)
    shown, kept = Memory.in_process(Compaction.window(most)), Memory.in_process(keep=most)
    for memory in (shown, kept):
        fx.run_sync(commit_all(memory, [chat(str(n)) for n in range(most + 10)]))

    assert _numbers(case.given) == [most]
    assert len(fx.run_sync(shown.load())) == len(fx.run_sync(kept.load())) == 2 * most
    assert [len(fx.run_sync(memory.turns())) for memory in (shown, kept)] == [most + 10, most]


@of_each_kind
@case("CO-D18")
def test_a_window_splits_no_turn(case: Case, kind: str, tmp_path: Path, backend: Backend) -> None:
    """Changed: theirs begins with an answer whose question is gone; ours gives the turns that fit whole."""
    (most,) = _numbers(case.given)
    memory = memory_of(kind, tmp_path, Compaction.window(tokens=most, count=len))
    fx.run(commit_all(memory, [chat("a"), chat("b")]), backend=backend)

    assert case.expect.endswith("(starts with assistant)")
    assert fx.run(memory.load(), backend=backend) == chat("b")


@case("CO-D19")
def test_a_negative_count_is_refused(case: Case) -> None:
    """Changed: theirs gives everything, ours says what is wrong."""
    count = int(case.name.removeprefix("last(").removesuffix(")"))

    with pytest.raises(ValueError, match=f"window must be at least 1, got {count} turns"):
        Compaction.window(count)
    with pytest.raises(ValueError, match=f"keep must be at least 1, got {count}"):
        Memory.in_process(keep=count)


@case("tokenizer/199")
def test_a_window_of_tokens_holds_whole_turns(case: Case) -> None:
    """Of the newest turns as many as fit. There single messages are counted, so that an answer stands alone."""
    sizes: dict[str, int] = case.given["messages"]

    def count(turn: Prompt) -> int:
        return sum(sizes[one.text] for one in turn if one.role == "user" or one.role == "assistant")

    memory = Memory.in_process(Compaction.window(tokens=case.given["tokens"], count=count))
    turns = [
        Prompt([UserMessage.make("user"), AssistantMessage.make("assistant")]),
        Prompt([UserMessage.make("user2")]),
    ]
    fx.run_sync(commit_all(memory, turns))

    assert case.expect["roles"] == ["assistant", "user"]
    assert [one.role for one in fx.run_sync(memory.load())] == ["user"]
