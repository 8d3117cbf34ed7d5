"""Messages as clients send them: what is taken, and what is told of all else."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fxai.schema import DecodeFailure
from fxai.schema.data import is_array, is_object
from fxai.ui import UIMessage, read_message, read_messages
from tests.kit.every import every

Json = dict[str, Any]


def message(*parts: Any, **members: Any) -> Json:
    """The data of a message."""
    return {"id": "m", "role": "assistant", "parts": list(parts), **members}


def tool(state: Any = "output-available", **members: Any) -> Json:
    """The data of a call."""
    given: Json = {"type": "tool-add", "toolCallId": "c", "state": state, "input": {}, "output": 1}
    return {**given, **members}


def faults(data: object) -> list[str]:
    """What is told of a message."""
    return [str(fault) for fault in read_message(data).failure().faults]


KNOWN: list[Json] = [
    {"type": "text", "text": "Hi", "state": "done", "providerMetadata": {"acme": {"a": 1}}},
    {"type": "reasoning", "text": "Hm", "id": "r"},
    {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,", "filename": "a.png"},
    {"type": "reasoning-file", "mediaType": "image/png", "url": "data:image/png;base64,"},
    {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
    {"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "A"},
    {"type": "custom", "kind": "acme.x"},
    {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "Faster!"}]},
    {"type": "step-start"},
    {"type": "data-progress", "id": "p", "data": None},
    tool(),
    tool(preliminary=True, providerExecuted=False, title="Adds"),
    tool(type="dynamic-tool", toolName="add"),
    {"type": "tool-add", "toolCallId": "c", "state": "input-streaming"},
    tool("input-available"),
    tool("approval-requested", approval={"id": "a", "signature": "S"}),
    tool("approval-responded", approval={"id": "a", "approved": False, "reason": "no"}),
    tool("output-denied", approval={"id": "a"}),
    tool("output-denied"),
    {"type": "tool-add", "toolCallId": "c", "state": "output-error", "errorText": "no", "rawInput": "{"},
]


@every("part", KNOWN, ids=lambda part: f"{part['type']} {part.get('state', '')}")
def test_each_kind_of_part_is_taken_as_it_is(part: Json) -> None:
    """With members that no version knows."""
    data = message({**part, "later": [1]}, metadata={"a": 1})
    assert read_message(data).unwrap().to_data() == data


def test_a_message_is_a_value() -> None:
    """Equal where its data is, with a hash, its texts as one text, and metadata only where it has some."""
    made = UIMessage.make("u", "user", "Hel", {"type": "file", "mediaType": "a/b", "url": "x"}, "lo")
    assert made == read_message(made.to_data()).unwrap()
    assert made.text == "Hello"
    assert "metadata" not in made.to_data()
    assert {made, read_message(made.to_data()).unwrap()} == {made}


@every(
    ("data", "told"),
    [
        (5, ["expected object, found integer 5"]),
        (
            {},
            [
                "/id: expected string, found nothing",
                "/parts: expected array, found nothing",
                '/role: expected "system", "user" or "assistant", found nothing',
            ],
        ),
        (message(id=7), ["/id: expected string, found integer 7"]),
        (message(role="tool"), ['/role: expected "system", "user" or "assistant", found string \'tool\'']),
        (message(role=["user"]), ['/role: expected "system", "user" or "assistant", found array of 1 item']),
        (message(parts={"0": 1}), ["/parts: expected array, found object with 1 property"]),
        (message("Hi"), ["/parts/0: expected object, found string 'Hi'"]),
        (message({"text": "Hi"}), ["/parts/0/type: expected string, found nothing"]),
        (message({"type": "audio"}), ["/parts/0/type: expected the type of a part, data-NAME or tool-NAME"]),
        (message({"type": "tool-", "toolCallId": "c"}), ["/parts/0/type: expected the type of a part"]),
        (message({"type": "text", "text": None}), ["/parts/0/text: expected string, found null"]),
        (message({"type": "text", "text": "", "state": 1}), ["/parts/0/state: expected string, found integer 1"]),
        (message({"type": "file", "url": "x"}), ["/parts/0/mediaType: expected string, found nothing"]),
        (
            message({"type": "text", "text": "", "providerMetadata": {"acme": {}, "other/one": 5}}),
            ["/parts/0/providerMetadata/other~1one: expected object, found integer 5"],
        ),
        (message(tool(callProviderMetadata=[])), ["/parts/0/callProviderMetadata: expected object, found array"]),
        (message({"type": "data-x"}), ["/parts/0/data: expected a value, found nothing"]),
        (message(tool("done")), ["/parts/0/state: expected the state of a call, found string 'done'"]),
        (message(tool(["x"])), ["/parts/0/state: expected string, found array of 1 item"]),
        (message({**tool(), "toolCallId": 1}), ["/parts/0/toolCallId: expected string, found integer 1"]),
        (message(tool(type="dynamic-tool")), ["/parts/0/toolName: expected string, found nothing"]),
        (message({k: v for k, v in tool().items() if k != "output"}), ["/parts/0/output: expected a value"]),
        (message(tool("output-error")), ["/parts/0/errorText: expected string, found nothing"]),
        (message(tool("approval-requested")), ["/parts/0/approval: expected object, found nothing"]),
        (message(tool("approval-requested", approval="a")), ["/parts/0/approval: expected object, found string 'a'"]),
        (
            message(tool("approval-responded", approval={"id": "a"})),
            ["/parts/0/approval/approved: expected boolean, found nothing"],
        ),
        (
            message(tool("approval-responded", approval={"id": "a", "approved": 1, "reason": 2})),
            [
                "/parts/0/approval/reason: expected string, found integer 2",
                "/parts/0/approval/approved: expected boolean, found integer 1",
            ],
        ),
        (
            message({"type": "steering-message", "id": "s", "parts": [{"type": "text"}, tool(), "x"]}),
            [
                "/parts/0/parts/0/text: expected string, found nothing",
                "/parts/0/parts/1: expected text or a file, found object",
                "/parts/0/parts/2: expected text or a file, found string 'x'",
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(data: object, told: list[str]) -> None:
    """All of it, in its order."""
    found = faults(data)
    assert len(found) == len(told)
    assert [line for line, start in zip(found, told, strict=True) if not line.startswith(start)] == []


@every(
    ("part", "told"),
    [
        ({"type": "text", "text": "\ud800"}, "/parts/0/text: expected text of whole characters"),
        ({"type": "data-x", "data": math.nan}, "/parts/0/data: expected a finite number"),
        ({"type": "data-x", "data": {"a": [math.inf]}}, "/parts/0/data/a/0: expected a finite number"),
        ({"type": "data-x", "data": {1: 2, None: 3}}, "/parts/0/data"),
        ({"type": "data-x", "data": object()}, "/parts/0/data: expected a JSON value"),
        ({"type": "data-\udfff", "data": 1}, "/parts/0/type: expected text of whole characters"),
        (tool(output={"\ud83d": 1}), "/parts/0/output: expected keys of whole characters"),
    ],
    ids=["half a character", "no number", "infinity", "no keys", "no data", "half a name", "half a key"],
)
def test_what_json_cannot_carry_is_refused(part: Json, told: str) -> None:
    """Nothing is kept that could not be written again."""
    (fault,) = faults(message(part)) or [""]
    assert fault.startswith(told)


def test_ids_and_metadata_are_whole_characters_and_numbers_too() -> None:
    """They are kept as the parts are."""
    assert faults(message(id="\ud800")) == ["/id: expected text of whole characters, found half a surrogate pair"]
    (fault,) = faults(message(metadata={"a": math.nan}))
    assert fault.startswith("/metadata/a: expected a finite number")


def test_data_that_is_nested_too_deeply_or_holds_itself_is_refused() -> None:
    """With its place, and without a crash."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    circle: Json = {"type": "data-x"}
    circle["data"] = circle
    for part in ({"type": "data-x", "data": deep}, tool(input=deep), circle):
        assert all(fault.startswith("/parts/0") for fault in faults(message(part)))
    assert faults(message(metadata=deep))[0].startswith("/metadata")


def test_of_many_faults_the_first_are_told() -> None:
    """A client that sends nothing but faults is not sent as many back."""
    assert len(faults(message(*range(10_000)))) == 20
    assert len(read_messages([1] * 10_000).failure().faults) == 20


def test_messages_are_an_array_and_their_ids_differ() -> None:
    """The place of the second one of two is told, behind the pointer that was given."""
    one, other = message(), message(id="n")
    assert [each.id for each in read_messages([one, other]).unwrap()] == ["m", "n"]
    assert str(read_messages([one, other, one], "/messages").failure()) == (
        "/messages/2/id: expected an id that no other message has, found string 'm'"
    )
    assert str(read_messages({"0": one}, "/messages").failure()).startswith("/messages: expected array of messages")
    assert str(read_messages([one, {}]).failure()).startswith("/1/id: expected string, found nothing")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(st.characters(), max_size=4),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=4), some, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_a_message_with_something_else_in_a_place_is_read_or_told(data: st.DataObject) -> None:
    """Whatever stands there: it is no crash, and what is read can be written."""
    text = json.dumps(message(*KNOWN, metadata={}))
    drawn = json.loads(text)
    location: Any = drawn
    while True:
        keys: list[Any] = list(location) if is_object(location) else list(range(len(location)))
        key = data.draw(st.sampled_from(keys))
        inside: Any = location[key]
        if not (is_object(inside) or is_array(inside)) or not inside or data.draw(st.booleans()):
            break
        location = inside
    location[key] = data.draw(JSON)
    read = read_message(drawn)
    told = read.swap().value_or(None)
    assert isinstance(told, DecodeFailure) or msgspec.json.encode(read.unwrap().to_data())
