"""What a client of AG-UI does with events, in few words: it holds their order, and puts messages together of them.

Source of both: `verifyEvents` and `defaultApplyEvents` of the package `@ag-ui/client` 1.0.0 of npm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from ag_ui.core import Event
from pydantic import TypeAdapter

from fxai.schema.partial_json import parse_partial

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_ENDS = {
    "TEXT_MESSAGE_END": ("TEXT_MESSAGE_START", "messageId"),
    "REASONING_MESSAGE_END": ("REASONING_MESSAGE_START", "messageId"),
    "REASONING_END": ("REASONING_START", "messageId"),
    "TOOL_CALL_END": ("TOOL_CALL_START", "toolCallId"),
    "STEP_FINISHED": ("STEP_STARTED", "stepName"),
}
_STARTS = dict(_ENDS.values())
_WITHIN = {
    "TEXT_MESSAGE_CONTENT": ("TEXT_MESSAGE_START", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("REASONING_MESSAGE_START", "messageId"),
    "TOOL_CALL_ARGS": ("TOOL_CALL_START", "toolCallId"),
}


def check_events(events: list[dict[str, Any]]) -> None:
    """Asserts that these are the events of one run: each of its form, and each start with its one end."""
    for event in events:
        read = _EVENT.validate_json(msgspec.json.encode(event))
        assert msgspec.json.decode(read.model_dump_json(by_alias=True)) == event
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    open_: set[tuple[str, str]] = set()
    for event in events[1:-1]:
        type_ = event["type"]
        assert not type_.startswith("RUN_")
        if type_ in _STARTS:
            assert (type_, event[_STARTS[type_]]) not in open_
            open_.add((type_, event[_STARTS[type_]]))
        elif type_ in _ENDS:
            start, name = _ENDS[type_]
            open_.remove((start, event[name]))
        elif type_ in _WITHIN:
            start, name = _WITHIN[type_]
            assert (start, event[name]) in open_
    assert open_ == set()


def read_messages(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that a client has put together of the events."""
    messages: list[dict[str, Any]] = []

    def of(message_id: str) -> dict[str, Any] | None:
        return next((message for message in messages if message["id"] == message_id), None)

    def of_call(call_id: str) -> dict[str, Any] | None:
        calls = (message for message in messages for call in message.get("toolCalls", ()) if call["id"] == call_id)
        return next(calls, None)

    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                assert of(event["messageId"]) is None
                messages.append({"id": event["messageId"], "role": event["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                message = of(event["messageId"])
                assert message is not None
                message["content"] += event["delta"]
            case "TOOL_CALL_START":
                message = of(event["parentMessageId"])
                if message is None:
                    messages.append({"id": event["parentMessageId"], "role": "assistant"})
                    message = messages[-1]
                calls: list[dict[str, Any]] = message.setdefault("toolCalls", [])
                function = {"name": event["toolCallName"], "arguments": ""}
                made: dict[str, Any] = {"id": event["toolCallId"], "type": "function", "function": function}
                calls.append(made)
            case "TOOL_CALL_ARGS":
                message = of_call(event["toolCallId"])
                assert message is not None
                (call,) = [call for call in message["toolCalls"] if call["id"] == event["toolCallId"]]
                call["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                _location(messages, of_call(event["toolCallId"]), event)
            case _:
                pass
    return messages


def _location(messages: list[dict[str, Any]], caller: dict[str, Any] | None, event: dict[str, Any]) -> None:
    location = len(messages) if caller is None else messages.index(caller) + 1
    while location < len(messages) and messages[location]["role"] == "tool":
        location += 1
    names = {"messageId": "id", "toolCallId": "toolCallId", "role": "role", "content": "content"}
    message = {theirs: event[ours] for ours, theirs in names.items()}
    messages.insert(location, {**message, **({"metadata": event["metadata"]} if "metadata" in event else {})})


def without_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages to be compared: without the ids, parameters read, the results of one message in one order."""
    compared: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    end: dict[str, Any] = {"role": "end"}
    for message in [*messages, end]:
        if message["role"] == "tool":
            results.append(message)
            continue
        compared += sorted(results, key=lambda result: result["toolCallId"])
        results = []
        made: list[dict[str, Any]] = message.get("toolCalls", [])
        calls = [{**call, "function": _read(call["function"])} for call in made]
        one = {name: value for name, value in message.items() if name != "id"}
        compared.append({**one, "toolCalls": calls} if calls else one)
    return compared[:-1]


def _read(function: dict[str, Any]) -> dict[str, Any]:
    """With the parameters themselves; of a call that was cut those that had come."""
    params = parse_partial(function["arguments"])
    return {**function, "arguments": "" if params is msgspec.UNSET else params}
