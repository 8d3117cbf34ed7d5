"""Prompts: one immutable value, cheap to append to, made from what is at hand."""

from __future__ import annotations

import copy
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, cast

import pytest
from returns.result import Failure

from fxai.messages import (
    AssistantMessage,
    FilePart,
    FileUrl,
    Message,
    MessageError,
    Prompt,
    ReasoningPart,
    SystemMessage,
    Text,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    part_to_data,
)
from fxai.schema import Limits
from tests.kit.every import every

THREE: Any = 3
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
LOOSE: Any = {"role": "user"}
SAID = UserMessage.make("said")
ANSWERED = AssistantMessage.make("answered")
EVERYTHING = Prompt(
    (
        SystemMessage("You help.", metadata={"acme": {"cache": True}}),
        UserMessage.make(
            "Look: ", FilePart("image/png", b"\x00\xff", "a.png"), FilePart.of_url("text/plain", "https://e.org/")
        ),
        AssistantMessage.make(
            "First ",
            ReasoningPart("hm", metadata={"acme": {"signature": "S"}}),
            ToolCallPart("1", "add", {"a": [1, None, 2.5]}),
            "then",
            ToolCallPart("2", "find", None, params_text="{oops"),
            ToolCallPart("3", "search", {}, provider_executed=True),
            ToolResultPart("3", "search", ["x"], provider_executed=True),
            ToolApprovalRequestPart("a1", "1"),
        ),
        ToolMessage.make(
            ToolApprovalResponsePart("a1", approved=False, reason="no"),
            ToolResultPart("1", "add", {"type": "execution-denied"}, is_failure=True, dynamic=True),
        ),
    )
)


def test_a_prompt_is_a_sequence_of_messages() -> None:
    """It has a length, can be iterated any number of times, and gives a message by place from either end."""
    prompt = Prompt((SAID, ANSWERED))

    assert len(prompt) == 2
    assert list(prompt) == list(prompt) == [SAID, ANSWERED]
    assert (prompt[0], prompt[-1]) == (SAID, ANSWERED)
    assert list(reversed(prompt)) == [ANSWERED, SAID]
    assert SAID in prompt
    for location in (2, -3):
        with pytest.raises(IndexError, match=f"message {location} does not exist: the prompt has 2 messages"):
            prompt[location]


def test_appending_leaves_the_prompt_as_it_was() -> None:
    """Appending gives another prompt, whoever appended before."""
    prompt = Prompt.make("hi")
    first, second = prompt.append(SAID), prompt.append(ANSWERED)

    assert len(prompt) == 1
    assert first.messages == (prompt[0], SAID)
    assert second.messages == (prompt[0], ANSWERED)
    assert first.append(ANSWERED).messages == (*first.messages, ANSWERED)
    assert prompt.append() is prompt


def test_an_iterator_is_not_disturbed_by_appending() -> None:
    """Who reads a prompt sees that prompt's messages, even when more are appended in between."""
    prompt = Prompt.make("hi")
    reading = iter(prompt)
    prompt.append(SAID)

    assert list(reading) == [prompt[0]]


def test_appending_in_a_loop_copies_nothing() -> None:
    """A thousand prompts, each the last one and two messages more, share one row of messages."""
    tracemalloc.start()
    try:
        prompts = [Prompt.make("hi")]
        for _ in range(1000):
            prompts.append(prompts[-1].append(SAID, ANSWERED))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(prompts[-1]) == 2001
    assert peak < 1_000_000  # copies would take 8 MB


def test_the_empty_prompt_never_grows() -> None:
    """Appending to the shared empty prompt writes nothing into it, so that it keeps no conversation alive."""
    held = sys.getrefcount(SAID)
    Prompt.empty.append(SAID)

    assert sys.getrefcount(SAID) == held
    assert Prompt.empty.append(ANSWERED).messages == (ANSWERED,)


def test_two_threads_that_append_to_one_prompt_both_get_their_own() -> None:
    """Only one of two threads writes behind the shared end; the other copies."""
    mine: list[Message] = [UserMessage.make(str(number)) for number in range(200)]
    shared = Prompt.make("hi")
    with ThreadPoolExecutor(8) as pool:
        grown = list(pool.map(shared.append, mine))

    assert [prompt.messages for prompt in grown] == [(shared[0], message) for message in mine]


def test_equal_prompts_are_equal_however_they_were_made() -> None:
    """Equality and hash are by messages; metadata counts for equality and not for the hash."""
    grown = Prompt.empty.append(SAID).append(ANSWERED)
    marked = Prompt((SAID, AssistantMessage(ANSWERED.content, metadata={"acme": {"id": 1}})))

    assert grown == Prompt((SAID, ANSWERED))
    assert hash(grown) == hash(Prompt((SAID, ANSWERED))) == hash(marked)
    assert grown != marked
    assert grown != Prompt((SAID,))
    assert grown != [SAID, ANSWERED]


def test_a_prompt_can_be_pickled_and_copied() -> None:
    """What comes back equals what went in, and holds no more than it."""
    prompt = Prompt(islice(EVERYTHING, 2))
    EVERYTHING.append(SAID)

    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert pickle.loads(pickle.dumps(EVERYTHING)) == EVERYTHING
    assert copy.deepcopy(EVERYTHING) == copy.copy(EVERYTHING) == EVERYTHING


def test_everything_survives_json() -> None:
    """Interleaved parts, files, signatures, broken parameters and approvals come back as they were."""
    assert Prompt.from_json(EVERYTHING.to_json()).unwrap() == EVERYTHING
    assert Prompt.from_json(EVERYTHING.to_json().encode()).unwrap() == EVERYTHING
    assert Prompt.from_data(EVERYTHING.to_data()).unwrap() == EVERYTHING
    assert Prompt.make(EVERYTHING.to_data()) == EVERYTHING


def test_files_are_base64_or_an_address() -> None:
    """Bytes are written as base64 text, a URL as an object, so that neither is ever taken for the other."""
    message = EVERYTHING.to_data()[1]

    assert message["content"][1] == {"type": "file", "media_type": "image/png", "data": "AP8=", "file_name": "a.png"}
    assert message["content"][2] == {"type": "file", "media_type": "text/plain", "data": {"url": "https://e.org/"}}


def test_deep_payloads_come_back_too() -> None:
    """What a model may write, 128 levels deep, can be stored in a history and read again."""
    params: object = 1
    for _ in range(128):
        params = [params]
    prompt = Prompt((AssistantMessage.make(ToolCallPart("1", "t", params)),))

    assert Prompt.from_json(prompt.to_json()).unwrap() == prompt


def test_limits_can_be_set() -> None:
    """Text beyond the limits is a failure; those of a history are wide, and a caller can narrow them."""
    text = EVERYTHING.to_json()

    assert "at most 8 bytes" in str(Prompt.from_json(text, Limits(max_bytes=8)).failure())
    assert "levels" in str(Prompt.from_json(text, Limits(max_depth=2)).failure())


@every(
    ("text", "pointer"),
    [
        ("nonsense", ""),
        ("{}", ""),
        ('"hi"', ""),
        ('["hi"]', "/0"),
        ('[{"role": "user"}]', "/0/content"),
        ('[{"role": "nobody", "content": "A"}]', "/0/role"),
        ('[{"content": "A"}]', "/0/role"),
        ('[{"role": ["user"], "content": "A"}]', "/0/role"),
        (
            '[{"role": "user", "content": "A"}, {"role": "user", "content": [{"type": "reasoning", "text": "t"}]}]',
            "/1/content/0/type",
        ),
        ('[{"role": "tool", "content": [{"type": "text", "text": "t"}]}]', "/0/content/0/type"),
        ('[{"role": "tool", "content": "t"}]', "/0/content"),
        ('[{"role": "system", "content": []}]', "/0/content"),
        ('[{"role": "user", "content": [{"type": "file", "media_type": "a/b", "data": 3}]}]', "/0/content/0/data"),
        ('[{"role": "user", "content": "A", "name": "bob"}]', "/0/name"),
    ],
)
def test_what_is_no_prompt_is_a_failure_with_a_place(text: str, pointer: str) -> None:
    """Garbage, unknown roles, unknown fields and parts that a role cannot say are failures that point at the place."""
    read = Prompt.from_json(text)

    assert isinstance(read, Failure)
    assert [fault.pointer for fault in read.failure().faults] == [pointer]


@every(
    ("make", "words"),
    [
        (lambda: Prompt.make(THREE), "got integer 3"),
        (lambda: Prompt.make(LOOSE), "got object with 1 property"),
        (lambda: Prompt.make([THREE]), "/0: expected a message"),
        (
            lambda: Prompt.make([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "x"}]}]),
            "/1/content/0/type: ",
        ),
        (lambda: Prompt.make([{"role": "user", "content": [object()]}]), "/0: "),
        (lambda: Prompt.make([{"role": "user", "content": ENDLESS}]), "/0: "),
        (
            lambda: Prompt((AssistantMessage.make(ToolCallPart("1", "t", {"n": float("nan")})),)).to_json(),
            "/0/content/0/params/n",
        ),
        (
            lambda: Prompt((AssistantMessage.make(ToolCallPart("1", "t", {"n": object()})),)).to_data(),
            "/0/content/0/params/n",
        ),
    ],
)
def test_mistakes_of_a_program_are_errors_that_say_where(make: Callable[[], object], words: str) -> None:
    """What a program gets wrong is raised, with the place and what was found there."""
    with pytest.raises(MessageError, match=words):
        make()


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, ToolMessage])
def test_content_is_a_tuple(kind: Callable[[object], Message]) -> None:
    """A list or a string as content is refused, and the message names what makes one."""
    for loose in ("hi", [TextPart("hi")]):
        with pytest.raises(TypeError, match="make"):
            kind(loose)


def test_make_takes_what_is_at_hand() -> None:
    """A string, a prompt, a message, messages as records and as plain data, with parts as either."""
    said = Prompt.make("hi")
    part = TextPart("hi", metadata={"acme": {"cache": 1}})

    assert said.messages == (UserMessage((TextPart("hi"),)),)
    assert Prompt.make(said) is said
    assert Prompt.make(SAID).messages == (SAID,)
    assert Prompt.make([SAID, {"role": "assistant", "content": "answered"}]).messages == (SAID, ANSWERED)
    assert Prompt.make([{"role": "user", "content": [part]}]).messages == (UserMessage((part,)),)
    assert Prompt.make([{"role": "user", "content": [{"type": "file", "media_type": "a/b", "data": b"x"}]}])[
        0
    ] == UserMessage.make(FilePart("a/b", b"x"))
    assert Prompt.make([]) == Prompt.empty


def test_system_messages() -> None:
    """All texts are read together; taking them away leaves the rest."""
    prompt = Prompt((SystemMessage("A"), SAID, SystemMessage("B")))

    assert prompt.system() == "A\n\nB"
    assert Prompt.make("hi").system() is None
    assert prompt.without_system().messages == (SAID,)
    assert prompt.set_system("C").messages == (SystemMessage("C"), SAID)


def test_editing_a_system_message_keeps_its_metadata() -> None:
    """A cache mark on a system message stays when text is put before or behind it."""
    prompt = Prompt((SystemMessage("A", metadata={"acme": {"cache": True}}),))

    assert prompt.append_system("B")[0] == SystemMessage("AB", metadata={"acme": {"cache": True}})


def test_a_prompt_reads_as_a_transcript() -> None:
    """`str` shows who said what, with files, calls, results and approvals in short; `repr` shows the value."""
    assert str(EVERYTHING).splitlines() == [
        "system: You help.",
        "user: Look: ",
        "user: [image/png] 2 bytes",
        "user: [text/plain] https://e.org/",
        "assistant: First ",
        "assistant: [reasoning] hm",
        'assistant: [call 1] add {"a": [1, null, 2.5]}',
        "assistant: then",
        "assistant: [call 2] find {oops",
        "assistant: [call 3] search {}",
        'assistant: [result 3] search ["x"]',
        "assistant: [approval a1] asked for call 1",
        "tool: [approval a1] denied: no",
        'tool: [failure 1] add {"type": "execution-denied"}',
    ]
    assert repr(Prompt((SystemMessage("A"),))) == "Prompt((SystemMessage(content='A', metadata={}),))"


def test_messages_say_their_text() -> None:
    """The texts of a message, without files and reasoning."""
    assert UserMessage.make("a", FilePart("x/y", FileUrl("u")), "b").text == "ab"
    assert AssistantMessage.make("a", ReasoningPart("hm"), "b").text == "ab"


def test_parts_can_be_members_of_sets() -> None:
    """A part with parameters and metadata has a hash, and equal parts have equal ones."""
    calls = [ToolCallPart("1", "t", {"a": [number]}, metadata={"acme": {"id": []}}) for number in (1, 2, 1)]

    assert len(set(calls)) == 2
    assert hash(calls[0]) == hash(calls[1])


def test_empty_metadata_is_shared_and_is_never_written() -> None:
    """Records without metadata share one empty mapping that cannot be changed; one that was given is left out too."""
    given = Prompt((UserMessage((TextPart("Hello", metadata={}),), metadata={}),))
    assert given == Prompt.make("Hello")
    assert given.to_json() == Prompt.make("Hello").to_json()
    assert given.to_data() == Prompt.make("Hello").to_data()
    assert part_to_data(Text("Hello", metadata={})) == part_to_data(Text("Hello"))
    assert TextPart("a").metadata is UserMessage.make("b").metadata
    with pytest.raises(TypeError, match="cannot change immutable data"):
        cast(Any, TextPart("a").metadata)["acme"] = 1
