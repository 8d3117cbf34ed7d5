"""Prompts: the conformance cases of the areas `prompt.*`."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.messages import (
    AnyPart,
    AssistantMessage,
    File,
    Message,
    MessageError,
    Prompt,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    SystemMessage,
    TextDelta,
    TextEnd,
    TextPart,
    TextStart,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.kit.conformance import Case, case


def _said(prompt: Prompt) -> list[list[Any]]:
    """Each message as `[role, content]`: a text as itself, parts by their kinds."""
    return [[one.role, one.content if one.role == "system" else [part.type for part in one.content]] for one in prompt]


def _texts(prompt: Prompt) -> list[list[str]]:
    return [line.split(": ", 1) for line in str(prompt).splitlines()]


def _message(words: str) -> Message:
    """A message of a role and a text, as the cases write it: "user hi"."""
    role, text = words.split(" ", 1)
    match role:
        case "system":
            return SystemMessage(text)
        case "user":
            return UserMessage.make(text)
        case _:
            return AssistantMessage.make(text)


@case("prompt.fold/128")
def test_calls_and_results_are_two_messages(case: Case) -> None:
    """Tool calls go to an assistant message, results to a following tool message."""
    made: dict[str, AnyPart] = {"tool-call": ToolCall("1", "t", {}), "tool-result": ToolResult("1", "t", "ok")}
    prompt = Prompt.from_parts(made[kind] for kind in case.given["parts"])

    assert [message.role for message in prompt] == case.expect["roles"]


@case("prompt.fold/130")
def test_preliminary_results_are_dropped(case: Case) -> None:
    """Only the final result is kept, as the encoded value."""
    results = [dict(one) for one in case.given["results"]]
    parts: list[AnyPart] = [ToolCall("1", "t", {})]
    for result in results:
        preliminary = result.pop("preliminary", False)
        parts.append(ToolResult("1", "t", object(), result, preliminary=preliminary))
    kept = Prompt.from_parts(parts)[-1]

    assert kept.role == "tool"
    assert [part.result for part in kept.content if part.type == "tool-result"] == case.expect["tool message"]


@case("prompt.fold/131")
def test_metadata_is_kept(case: Case) -> None:
    """Signatures and item ids survive, whether they came with a whole part, a start, a delta or an end."""
    metadata = case.given["reasoning.metadata"]
    streams: list[list[AnyPart]] = [
        [Reasoning("r", metadata=metadata)],
        [ReasoningStart("1", metadata=metadata), ReasoningDelta("1", "r"), ReasoningEnd("1")],
        [ReasoningStart("1"), ReasoningDelta("1", "r", metadata=metadata), ReasoningEnd("1")],
        [ReasoningStart("1"), ReasoningDelta("1", "r"), ReasoningEnd("1", metadata=metadata)],
    ]
    for parts in streams:
        message = Prompt.from_parts(parts)[0]

        assert message.role == "assistant"
        assert message.content[0].metadata == case.expect["reasoning.options"]


@case("prompt.fold/133")
def test_a_part_keeps_the_place_where_it_started(case: Case) -> None:
    """A text that starts before a call stands before it, wherever it ends."""
    made: dict[str, AnyPart] = {
        "text-start 1": TextStart("1"),
        "text-delta": TextDelta("1", "x"),
        "tool-call": ToolCall("c", "t", {}),
        "text-end 1": TextEnd("1"),
    }
    prompt = Prompt.from_parts(made[one] for one in case.given["parts"])

    assert _said(prompt) == [["assistant", case.expect["assistant"]]]


@case("prompt.fold/134")
def test_results_of_the_provider_stay_with_their_calls(case: Case) -> None:
    """What the provider ran stays in the assistant message."""
    call = ToolCall("1", "search", {}, provider_executed=True)
    prompt = Prompt.from_parts([call, ToolResult("1", "search", "found", provider_executed=True)])

    assert _said(prompt) == case.expect["roles"]


@case("prompt.fold/135")
def test_generated_files_are_kept(case: Case) -> None:
    """A file that the model made stays in the assistant message."""
    message = Prompt.from_parts([File("image/png", b"\x89PNG")])[0]

    assert message.role == "assistant"
    assert len(message.content) == case.expect["assistant parts"]


@case("prompt.concat/136")
def test_concat_appends(case: Case) -> None:
    """Concat puts one prompt behind another; an empty side gives the other; a string is a user's message."""
    left, right = (Prompt(map(_message, case.given[side])) for side in ("left", "right"))

    assert [message.role for message in left.concat(right)] == case.expect["roles"]
    assert left.concat(Prompt.empty) is left
    assert Prompt.empty.concat(right) is right
    assert left.concat("hi") == left.append(UserMessage.make("hi"))


@case("prompt.make/137")
def test_a_string_is_one_user_message(case: Case) -> None:
    """A string becomes one user message of one text."""
    message = Prompt.make(case.given["make"])[0]

    assert message.role == "user"
    assert [["user", [["text", message.text]]]] == case.expect["messages"]
    assert [part.type for part in message.content] == ["text"]


@case("prompt.make/138")
def test_string_content_and_unknown_roles(case: Case) -> None:
    """A user's or assistant's string becomes a text part, a system's stays a string; an unknown role is an error."""
    made = Prompt.make([{"role": role, "content": "A"} for role in ("user", "assistant", "system")])

    assert made == Prompt((UserMessage.make("A"), AssistantMessage.make("A"), SystemMessage("A")))
    assert case.expect == {"error": True}
    with pytest.raises(MessageError, match=r"/0/role: expected .*'user'.* found string 'nobody'"):
        Prompt.make(case.given["make"])


@case("prompt.codec/139")
def test_nothing_is_lost_in_json(case: Case) -> None:
    """All parts of a message and their metadata survive encoding and decoding."""
    parts = tuple(TextPart(text, metadata=(rest or [{}])[0]) for _, text, *rest in case.given["user"])
    prompt = Prompt((UserMessage(parts),))

    assert case.expect == {"decode(encode(p))": "equals p"}
    assert Prompt.from_json(prompt.to_json()).unwrap() == prompt
    assert Prompt.from_data(prompt.to_data()).unwrap() == prompt


@case("prompt.system/140")
def test_set_system_replaces_all(case: Case) -> None:
    """Setting the system message leaves one, at the front."""
    prompt = Prompt(map(_message, case.given["messages"])).set_system(case.given["set"])

    assert _texts(prompt) == case.expect["messages"]


@case("prompt.system/141")
def test_prepend_and_append_edit_in_place(case: Case) -> None:
    """The first system message is edited where it stands; without one, one is made at the front."""
    prompt = Prompt(map(_message, case.given["messages"]))

    assert _texts(prompt.prepend_system(case.given["prepend"])) == case.expect["prepend"]
    assert _texts(prompt.append_system(case.given["append"])) == case.expect["append"]
    assert Prompt.make("hi").prepend_system("S") == Prompt.make("hi").append_system("S")
    assert Prompt.make("hi").append_system("S").system() == "S"
