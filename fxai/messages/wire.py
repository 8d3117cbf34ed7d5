"""Messages and parts as JSON values and JSON strings, without loss. Use this module to store or send messages.

>>> messages_from_data([{"role": "user", "content": "hi"}]).unwrap()[0].content
(TextPart(text='hi', metadata={}),)
>>> print(part_from_data({"type": "finish", "reason": "bored"}).failure())
/reason: expected ..., found string 'bored'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects.constructor import is_success
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
PARTS: Final = Schema.of(_Parts)
"""The schema of the parts of a whole response."""
_ANY_PARTS: Final = Schema.of(_AnyParts)

HISTORY_LIMITS: Final = Limits(max_bytes=1024 * 1024 * 1024, max_depth=256, max_values=2**62)
"""The default limits of a history in JSON. They exceed the limits of an answer, because it contains many answers."""


class MessageError(ValueError):
    """An invalid message from a program. Invalid data from outside is a failure instead."""


def unwrap_or_raise(read: Result[_A, DecodeFailure], raised: Callable[[DecodeFailure], Exception] = ValueError) -> _A:
    """Return the value, or raise the exception that `raised` makes from the failure."""
    if is_success(read):
        return read.unwrap()
    raise raised(read.failure())


def messages_of(content: object) -> list[Message]:
    """Return the messages of a program from records, JSON values, or a mixture.

    Raise `MessageError` if a value is not a message. The error contains the value and its location.
    """
    if isinstance(content, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return [content]
    if not _is_list(content):
        raise MessageError(f"prompt must be a string, a message, or a list of messages, got {found_in(content)}")
    return [_message_of(one, index) for index, one in enumerate(cast("Iterable[object]", content))]


def _is_list(content: object) -> bool:
    return isinstance(content, Iterable) and not isinstance(content, Mapping)


def _message_of(one: object, location: int) -> Message:
    if isinstance(one, SystemMessage | UserMessage | AssistantMessage | ToolMessage):
        return one
    if not isinstance(one, Mapping):
        fault = Fault(
            f"/{location}", "a message such as UserMessage or {'role': 'user', 'content': 'hi'}", found_in(one)
        )
        raise MessageError(str(fault))
    try:
        return _MESSAGES.decode_unsafe(_with_parts([msgspec.to_builtins(one)]))[0]
    except (TypeError, RecursionError) as error:
        raise MessageError(f"/{location}: {error}") from error
    except DecodeError as error:
        faults = (
            Fault(f"/{location}" + fault.pointer[2:], fault.expected, fault.found) for fault in error.failure.faults
        )
        raise MessageError("; ".join(map(str, faults))) from error


def _with_parts(data: object) -> object:
    """Return the data with parts instead of a string as the content of users and assistants."""
    if not isinstance(data, list | tuple):
        return data
    return [_message_with_parts(message) for message in cast("list[object]", data)]


def _message_with_parts(message: object) -> object:
    if not isinstance(message, Mapping):
        return message
    fields = cast("Mapping[str, Any]", message)
    content = fields.get("content")
    if isinstance(content, str) and fields.get("role") in ("user", "assistant"):  # a role can lack a hash
        return {**fields, "content": [{"type": "text", "text": content}]}
    return fields


def messages_from_data(data: object) -> Result[tuple[Message, ...], DecodeFailure]:
    """Return the messages from JSON values, or all validation errors."""
    return _MESSAGES.decode(_with_parts(data))


def messages_from_json(
    text: str | bytes, limits: Limits = HISTORY_LIMITS
) -> Result[tuple[Message, ...], DecodeFailure]:
    """Return the messages from a JSON string, or all validation errors."""
    read = _MESSAGES.decode_json(text, limits)
    if isinstance(read, Success):
        return read
    try:
        return messages_from_data(parse_json_unsafe(text, limits))
    except DecodeError as error:
        return Failure(error.failure)


def messages_to_data(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the messages as JSON values. Raise a `MessageError` that names a payload without a JSON form.

    U+FFFD replaces half of a surrogate pair, because UTF-8 cannot encode it.
    """
    encoded = _MESSAGES.encode(messages)
    whole = encoded if isinstance(encoded, Success) else _MESSAGES.encode(mend_data(messages))
    data = cast("list[dict[str, Any]]", _require_json(whole))
    for message in map(_drop_empty, data):
        for part in message["content"] if message["role"] != "system" else ():
            _drop_empty(part)
    return data


def messages_to_json(messages: tuple[Message, ...]) -> str:
    """Return the messages as a JSON string. Raise like `messages_to_data`."""
    encoded = _MESSAGES.encode_json(messages)
    text = _require_json(encoded if isinstance(encoded, Success) else _MESSAGES.encode_json(mend_data(messages)))
    return (msgspec.json.encode(messages_to_data(messages)) if b'"metadata":{}' in text else text).decode()


def _drop_empty(record: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a message or part without empty metadata."""
    if "metadata" in record and not record["metadata"]:
        del record["metadata"]
    return record


def _require_json(encoded: Result[_A, DecodeFailure]) -> _A:
    if isinstance(encoded, Failure):
        why = encoded.failure()
        raise MessageError(f"JSON cannot carry this: {why}. Pass JSON values as parameters, results, and metadata.")
    return encoded.unwrap()


def part_from_data(data: object) -> Result[AnyPart, DecodeFailure]:
    """Return the streamed or whole part from a JSON value, or all validation errors."""
    read = _ANY_PARTS.decode([data])
    if isinstance(read, Success):
        return Success(read.unwrap()[0])
    faults = read.failure().faults
    return Failure(DecodeFailure(tuple(Fault(one.pointer[2:], one.expected, one.found) for one in faults)))


def part_to_data(part: AnyPart) -> dict[str, Any]:
    """Return the part as a JSON value, with the encoded form of a tool's result.

    Raises:
        MessageError: If a payload is not a JSON value. The message names it.
    """
    wired = msgspec.structs.replace(part, result=part.encoded_result) if isinstance(part, ToolResult) else part
    data = cast("list[dict[str, Any]]", _require_json(_ANY_PARTS.encode((wired,))))[0]
    if isinstance(part, ToolResult):
        del data["encoded_result"]
    return _drop_empty(data)
