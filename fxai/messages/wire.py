"""Messages and parts as plain data and as JSON, nothing lost either way.

>>> messages_from_data([{"role": "user", "content": "hi"}]).unwrap()[0].content
(TextPart(text='hi', metadata={}),)
>>> print(part_from_data({"type": "finish", "reason": "bored"}).failure())
/reason: expected ..., found string 'bored'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from returns.result import Failure, Result, Success

from fxai.messages.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from fxai.messages.part import AnyPart, Part, ToolResult
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, found_in
from fxai.schema.parsing import Limits, parse_json_unsafe
from fxai.schema.surrogate import mend_data

_A = TypeVar("_A")
_Messages: TypeAlias = tuple[Message, ...]
_Parts: TypeAlias = tuple[Part, ...]
_AnyParts: TypeAlias = tuple[AnyPart, ...]

_MESSAGES: Final = Schema.of(_Messages)
_PARTS: Final = Schema.of(_Parts)
_ANY_PARTS: Final = Schema.of(_AnyParts)

HISTORY_LIMITS: Final = Limits(max_bytes=1024 * 1024 * 1024, max_depth=256, max_values=2**62)
"""What is read of a history at most: more than of one answer, because it holds many of them, and files."""


class MessageError(ValueError):
    """What cannot be made or written: a mistake in the program. Data from outside gives a failure instead."""


def messages_of(content: object) -> list[Message]:
    """The messages that a program wrote as records or as plain data, in any mixture.

    Raises:
        MessageError: Something is not a message; the text names it and its place.
    """
    if isinstance(content, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return [content]
    if not _is_list(content):
        raise MessageError(f"a prompt is made of a string, a message or a list of messages, not {found_in(content)}")
    return [_message_of(one, place) for place, one in enumerate(cast("Iterable[object]", content))]


def _is_list(content: object) -> bool:
    return isinstance(content, Iterable) and not isinstance(content, Mapping)


def _message_of(one: object, place: int) -> Message:
    if isinstance(one, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return one
    if not isinstance(one, Mapping):
        fault = Fault(f"/{place}", "a message such as UserMessage or {'role': 'user', 'content': 'hi'}", found_in(one))
        raise MessageError(str(fault))
    try:
        return _MESSAGES.decode_unsafe(_with_parts([msgspec.to_builtins(one)]))[0]
    except (TypeError, RecursionError) as error:
        raise MessageError(f"/{place}: {error}") from error
    except DecodeError as error:
        faults = (Fault(f"/{place}" + fault.pointer[2:], fault.expected, fault.found) for fault in error.failure.faults)
        raise MessageError("; ".join(map(str, faults))) from error


def _with_parts(data: object) -> object:
    """The data with the content of users and assistants as parts where it is a mere string."""
    if not isinstance(data, list | tuple):
        return data
    return [_message_with_parts(message) for message in cast("list[object]", data)]


def _message_with_parts(message: object) -> object:
    if not isinstance(message, Mapping):
        return message
    fields = cast("Mapping[str, Any]", message)
    content = fields.get("content")
    if isinstance(content, str) and fields.get("role") in ("user", "assistant"):  # a tuple: a role may have no hash
        return {**fields, "content": [{"type": "text", "text": content}]}
    return fields


def messages_from_data(data: object) -> Result[tuple[Message, ...], DecodeFailure]:
    """The messages that plain data holds, or everything that is wrong with it."""
    return _MESSAGES.decode(_with_parts(data))


def messages_from_json(
    text: str | bytes, limits: Limits = HISTORY_LIMITS
) -> Result[tuple[Message, ...], DecodeFailure]:
    """The messages that JSON text holds, or everything that is wrong with it."""
    read = _MESSAGES.decode_json(text, limits)
    if isinstance(read, Success):
        return read
    try:
        return messages_from_data(parse_json_unsafe(text, limits))
    except DecodeError as error:
        return Failure(error.failure)


def messages_to_data(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """The messages as plain data; raises a `MessageError` that names a payload which is no JSON data.

    UTF-8 has no form for half a surrogate pair, so U+FFFD is in its place.
    """
    encoded = _MESSAGES.encode(messages)
    whole = encoded if isinstance(encoded, Success) else _MESSAGES.encode(mend_data(messages))
    data = cast("list[dict[str, Any]]", _require_json(whole))
    for message in map(_drop_empty, data):
        for part in message["content"] if message["role"] != "system" else ():
            _drop_empty(part)
    return data


def messages_to_json(messages: tuple[Message, ...]) -> str:
    """The messages as JSON text; raises as `messages_to_data` does."""
    encoded = _MESSAGES.encode_json(messages)
    text = _require_json(encoded if isinstance(encoded, Success) else _MESSAGES.encode_json(mend_data(messages)))
    return (msgspec.json.encode(messages_to_data(messages)) if b'"metadata":{}' in text else text).decode()


def _drop_empty(record: dict[str, Any]) -> dict[str, Any]:
    """The data of a message or part without metadata that has nothing in it, whether that was given or not."""
    if "metadata" in record and not record["metadata"]:
        del record["metadata"]
    return record


def _require_json(encoded: Result[_A, DecodeFailure]) -> _A:
    if isinstance(encoded, Failure):
        why = encoded.failure()
        raise MessageError(f"JSON cannot carry this: {why}; parameters, results and metadata are plain JSON data")
    return encoded.unwrap()


def part_from_data(data: object) -> Result[AnyPart, DecodeFailure]:
    """The part, streamed or whole, that plain data holds, or everything that is wrong with it."""
    return _ANY_PARTS.decode([data]).map(lambda parts: parts[0]).alt(_without_index)


def _without_index(failure: DecodeFailure) -> DecodeFailure:
    return DecodeFailure(tuple(Fault(fault.pointer[2:], fault.expected, fault.found) for fault in failure.faults))


def part_to_data(part: AnyPart) -> dict[str, Any]:
    """The part as plain data; of a tool's result the encoded form.

    Raises:
        MessageError: A payload is no JSON data; the message names it.
    """
    wired = msgspec.structs.replace(part, result=part.encoded_result) if isinstance(part, ToolResult) else part
    data = cast("list[dict[str, Any]]", _require_json(_ANY_PARTS.encode((wired,))))[0]
    if isinstance(part, ToolResult):
        del data["encoded_result"]
    return _drop_empty(data)


def parts_to_data(parts: Iterable[AnyPart]) -> list[dict[str, Any]]:
    """The parts as plain data, each as `part_to_data` gives it."""
    return [part_to_data(part) for part in parts]


def parts_to_json(parts: Iterable[AnyPart]) -> str:
    """The parts as JSON text, in the form of `parts_to_data`."""
    return msgspec.json.encode(parts_to_data(parts)).decode()


def parts_from_data(data: object) -> Result[tuple[Part, ...], DecodeFailure]:
    """The parts of a whole response that plain data holds, or everything that is wrong with it."""
    return _PARTS.decode(data)


def parts_from_json(text: str | bytes, limits: Limits = HISTORY_LIMITS) -> Result[tuple[Part, ...], DecodeFailure]:
    """The parts of a whole response that JSON text holds, or everything that is wrong with it."""
    return _PARTS.decode_json(text, limits)
