"""Reasoning in the text of an answer: read whole and in pieces, and written again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from fxai.messages import (
    AssistantMessage,
    Finish,
    Part,
    Reasoning,
    ReasoningPart,
    Response,
    StreamPart,
    Text,
    TextDelta,
    TextEnd,
    TextPart,
    TextStart,
    ToolCall,
    ToolCallPart,
    WarningPart,
)
from fxai.messages.think_tag import ThinkTags, split_thoughts, with_tags, without_thoughts
from tests.kit.every import every

MARK = {"acme": {"field": "think"}}
WORDS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "Hm.", "Yes", "{}", "\ufeff"]), max_size=8
).map("".join)


def _stream(text: str, cuts: Iterable[int], metadata: dict[str, str] | None = None) -> list[StreamPart]:
    locations = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    deltas = [TextDelta("0", text[start:end]) for start, end in pairwise(locations)]
    return [TextStart("0"), *deltas, TextEnd("0", metadata=metadata or {})]


def _read(parts: Iterable[StreamPart]) -> tuple[Part, ...]:
    tags = ThinkTags("acme")
    return Response.from_stream([one for part in parts for one in tags.read(part)]).content


@every(
    ("text", "thoughts", "rest"),
    [
        ("Yes.", [], "Yes."),
        ("<think>Hm.</think>Yes.", ["Hm."], "Yes."),
        ("\n <think>\nHm.\n</think>\n\nYes. ", ["Hm."], "Yes. "),
        ("<think>a < b </b></think> Yes.", ["a < b </b>"], "Yes."),
        ("<think>A</think>\n<think>B</think>Yes.", ["A", "B"], "Yes."),
        ("<think>\n\n</think>\n\nYes.", [""], "Yes."),
        ("<think>Hm", ["Hm"], ""),
        ("\ufeff<think>Hm.</think>{}", ["Hm."], "{}"),
        ("Say <think>Hm.</think>", [], "Say <think>Hm.</think>"),
        (" \n", [], " \n"),
        ("<thin", [], "<thin"),
        ("", [], ""),
    ],
)
def test_tags_before_a_text_are_reasoning(text: str, thoughts: list[str], rest: str) -> None:
    """Only before the text; an answer that only mentions the tag is an answer."""
    parts = split_thoughts([Text(text)], "acme")

    assert [part.text for part in parts if isinstance(part, Reasoning)] == thoughts
    assert [part.text for part in parts if isinstance(part, Text)] == ([rest] if rest or not thoughts else [])


@given(WORDS, st.lists(st.integers(0, 99)), st.booleans())
@example("<think>Hm. </think> Yes.", [5, 11, 14], False)
def test_any_cut_gives_the_parts_of_the_whole(text: str, cuts: list[int], has_metadata: bool) -> None:
    """Wherever the deltas are cut, reasoning and text are those of the whole text."""
    metadata = {"acme": "x"} if has_metadata else {}

    assert _read(_stream(text, cuts, metadata)) == split_thoughts([Text(text, metadata=metadata)], "acme")


@given(WORDS)
def test_no_words_are_lost(text: str) -> None:
    """All characters but tags, space and byte order marks are in the reasoning or in the text."""
    parts = split_thoughts([Text(text)], "acme")
    found = "".join(part.text for part in parts if isinstance(part, Reasoning | Text))

    def words(written: str) -> str:
        return "".join(written.replace("<think>", "").replace("</think>", "").replace("\ufeff", "").split())

    assert words(found) == words(text)


def test_other_parts_keep_their_places() -> None:
    """Parts before, between and after texts pass unchanged, also between the start of a text and its first piece."""
    warning, call = WarningPart("careful"), ToolCall("c", "add", {})
    parts: list[StreamPart] = [warning, TextStart("0"), call, TextDelta("0", "Yes."), TextEnd("0"), Finish("stop")]

    assert _read(parts) == (warning, Text("Yes."), call, Finish("stop"))
    assert [part.type for part in ThinkTags("acme").read(TextDelta("9", "<think>"))] == ["text-delta"]


@every(
    ("text", "rest"),
    [
        ("<think>Hm.</think>\n{}", "{}"),
        ("Hm.</think>\n{}", "{}"),
        ("{}", "{}"),
        ('{"a": "<think>"}', '{"a": "<think>"}'),
        ("<think>Hm.", ""),
    ],
)
def test_a_text_without_its_thoughts(text: str, rest: str) -> None:
    """Some templates write the first tag into the prompt, so that the answer has only the last one."""
    assert without_thoughts(text) == rest


def test_reasoning_from_tags_goes_back_in_tags() -> None:
    """Before the text that follows it, or alone before a call; other reasoning stays reasoning."""
    call = ToolCallPart("c", "add", {})
    thought, other = ReasoningPart("Hm.", metadata=MARK), ReasoningPart("No.", metadata={"other": MARK["acme"]})
    message = AssistantMessage(
        (other, thought, TextPart("Yes.", metadata={"acme": {"id": "m"}}), thought, call, thought)
    )

    assert with_tags(message, "acme").content == (
        other,
        TextPart("<think>\nHm.\n</think>\n\nYes.", metadata={"acme": {"id": "m"}}),
        TextPart("<think>\nHm.\n</think>\n\n"),
        call,
        TextPart("<think>\nHm.\n</think>\n\n"),
    )
    assert with_tags(message, "none") is message


def _in_history(parts: Iterable[Part]) -> Iterable[ReasoningPart | TextPart]:
    for part in parts:
        if part.type == "reasoning":
            yield ReasoningPart(part.text, metadata=part.metadata)
        elif part.type == "text":
            yield TextPart(part.text)


@given(WORDS)
def test_a_text_goes_back_as_it_came(text: str) -> None:
    """Reasoning and text are together the text that the model wrote, to the last space."""
    content = tuple(_in_history(split_thoughts([Text(text)], "acme")))
    message = AssistantMessage(content)
    written = "".join(one.text for one in with_tags(message, "acme").content if isinstance(one, TextPart))

    assert written == text
