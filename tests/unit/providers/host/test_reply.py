"""A turn out of a host's messages: parts begin, go on and end; what does not make a turn is told."""

from __future__ import annotations

import re
from typing import Any

from fxai.messages import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Response,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    Usage,
    WarningPart,
)
from fxai.providers.host.protocol import (
    Broken,
    Called,
    Delta,
    HostProgress,
    HostReply,
    HostThought,
    Message,
    Result,
    Tokens,
    Warned,
)
from tests.kit.every import every

BEGUN = ResponseMetadata(model="it")


def parts(*messages: Message, result: Result, **dynamic: bool) -> list[Any]:
    """The parts of a whole turn of the program `it`."""
    reply = HostReply("it", dynamic)
    heard = [part for message in messages for part in reply.parts(message)]
    return [*heard, *reply.end(result)]


@every(
    ("messages", "result", "expected"),
    [
        ([], Result(text="a"), [BEGUN, TextStart("1"), TextDelta("1", "a"), TextEnd("1"), Finish("stop", Usage())]),
        ([], Result(), [BEGUN, Finish("stop", Usage())]),
        ([], Result(text=""), [BEGUN, Finish("stop", Usage())]),
        (
            [],
            Result(model="large", usage=Tokens(3, 4), finish_reason="length"),
            [ResponseMetadata(model="large"), Finish("length", Usage(3, 4))],
        ),
        (
            [Delta(text="a"), Delta(text="b")],
            Result(text="abc", model="large"),
            [
                BEGUN,
                TextStart("1"),
                TextDelta("1", "a"),
                TextDelta("1", "b"),
                ResponseMetadata(model="large"),
                TextDelta("1", "c"),
                TextEnd("1"),
                Finish("stop", Usage()),
            ],
        ),
        (
            [HostThought(text="h"), Delta(text="a"), HostThought(text="m")],
            Result(text="a"),
            [
                BEGUN,
                ReasoningStart("1"),
                ReasoningDelta("1", "h"),
                ReasoningEnd("1"),
                TextStart("2"),
                TextDelta("2", "a"),
                TextEnd("2"),
                ReasoningStart("3"),
                ReasoningDelta("3", "m"),
                ReasoningEnd("3"),
                Finish("stop", Usage()),
            ],
        ),
        (
            [HostThought(text="h"), HostProgress(message="p"), HostProgress(message="q", value=None)],
            Result(),
            [
                BEGUN,
                ReasoningStart("1"),
                ReasoningDelta("1", "h"),
                ReasoningEnd("1"),
                ReasoningStart("2"),
                ReasoningDelta("2", "p"),
                ReasoningEnd("2", metadata={"host": {"type": "progress"}}),
                ReasoningStart("3"),
                ReasoningDelta("3", "q"),
                ReasoningEnd("3", metadata={"host": {"type": "progress", "value": None}}),
                Finish("stop", Usage()),
            ],
        ),
        (
            [Delta(text="a"), Warned(message="w", subject="s")],
            Result(text="a"),
            [
                BEGUN,
                TextStart("1"),
                TextDelta("1", "a"),
                WarningPart("w", subject="s"),
                TextEnd("1"),
                Finish("stop", Usage()),
            ],
        ),
        (
            [],
            Result(value={"n": 1}),
            [BEGUN, TextStart("1"), TextDelta("1", '{"n":1}'), TextEnd("1"), Finish("stop", Usage())],
        ),
        (
            [],
            Result(text="t", value=1),
            [BEGUN, TextStart("1"), TextDelta("1", "t"), TextEnd("1"), Finish("stop", Usage())],
        ),
        (
            [Delta(text="ab")],
            Result(text="b"),
            [
                BEGUN,
                TextStart("1"),
                TextDelta("1", "ab"),
                Broken("the text of the result does not start with the earlier pieces"),
            ],
        ),
    ],
)
def test_messages_become_the_parts_of_a_turn(messages: list[Message], result: Result, expected: list[Any]) -> None:
    """One part is open at a time, each with a number of its own; what the result repeats is said once."""
    assert parts(*messages, result=result) == expected


def test_warnings_come_first_and_once() -> None:
    """What the program was not given stands before all that it says."""
    reply = HostReply("it", {})
    reply.warnings = (WarningPart("left out"),)
    heard = [*reply.parts(Delta(text="a")), *reply.parts(Delta(text="b")), *reply.end(Result())]

    assert [part.type for part in heard if not isinstance(part, Broken)] == [
        "warning",
        "response-metadata",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish",
    ]


def test_a_call_ends_what_is_open_and_makes_the_turn_one_of_calls() -> None:
    """A call has the program's id or one of its own, and is dynamic where its tool is."""
    called = parts(
        Delta(text="a"),
        Called(name="add", params={"a": 1}, call_id="c1"),
        Called(name="raw", params={"b": 2}),
        Called(name="none"),
        result=Result(text="a"),
        add=False,
        raw=True,
    )
    response = Response.from_stream(called)
    first, second, third = response.tool_calls

    assert first == ToolCall("c1", "add", {"a": 1}, dynamic=False)
    assert (second.name, second.params, second.dynamic) == ("raw", {"b": 2}, True)
    assert (third.name, third.params, third.dynamic) == ("none", {}, False)
    assert re.fullmatch("call_[0-9a-f]{16}", second.id)
    assert second.id != third.id
    assert [part.type for part in called].index("text-end") < [part.type for part in called].index("tool-params-start")
    assert response.finish_reason == "tool-calls"
