r"""The protocol: what is said to a host and what it says, one JSON object a line.

>>> read(b'{"type": "progress", "message": "Looking it up"}')
Progress(id=None, message='Looking it up', value=UNSET)
>>> read(b"It is fine.")
Result(id=None, text='It is fine.', value=UNSET, finish_reason='stop', usage=Tokens(...), model=None)
>>> read(b'{"type": "resul')
Unreadable(description='a line that begins like a JSON object and is none: expected JSON...')
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure

from fxai.schema.parsing import Limits, parse_json

__all__ = [
    "VERSION",
    "Acknowledged",
    "Called",
    "Delta",
    "Message",
    "Progress",
    "Reported",
    "Result",
    "Thought",
    "Tokens",
    "Unreadable",
    "Warned",
    "read",
    "read_text",
    "written",
]

VERSION: Final = 1
"""The version of the protocol, said in `init`."""


class _Said(msgspec.Struct, frozen=True, tag_field="type"):
    """What every message may have: the request that it belongs to."""

    id: int | None = None


@final
class Acknowledged(_Said, frozen=True, tag="init_ack"):
    """The answer to `init`: it may say what the host takes beside messages."""

    takes: tuple[str, ...] = ()


@final
class Progress(_Said, frozen=True, tag="progress"):
    """What the host is doing: a `message` for people, or of a tool a preliminary `value`."""

    message: str = ""
    value: Any = msgspec.UNSET


@final
class Delta(_Said, frozen=True, tag="delta", kw_only=True):
    """More of the answer's text."""

    text: str


@final
class Thought(_Said, frozen=True, tag="reasoning", kw_only=True):
    """More of the reasoning."""

    text: str


@final
class Called(_Said, frozen=True, tag="tool_call", kw_only=True):
    """A tool that the model asks for."""

    name: str
    params: Any = {}
    call_id: str | None = None


@final
class Warned(_Said, frozen=True, tag="warning", kw_only=True):
    """Something that was asked for and not done."""

    message: str
    subject: str | None = None


@final
class Tokens(msgspec.Struct, frozen=True):
    """What an answer took."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@final
class Result(_Said, frozen=True, tag="result"):
    """The answer is complete. Text that came in pieces need not be said again; a tool gives a `value`."""

    text: str | None = None
    value: Any = msgspec.UNSET
    finish_reason: Literal["stop", "length", "content-filter", "other"] = "stop"
    usage: Tokens = Tokens()
    model: str | None = None


@final
class Reported(_Said, frozen=True, tag="error", kw_only=True):
    """There is no answer."""

    message: str
    retryable: bool = False
    retry_after: float | None = None


@final
class Unreadable(msgspec.Struct, frozen=True):
    """A line that is no message, and why."""

    description: str


Message: TypeAlias = Acknowledged | Progress | Delta | Thought | Called | Warned | Result | Reported
"""What a host says."""

_CONVERT: Final[Any] = Message
_NO_LIMIT: Final = 2**62


def read(line: bytes) -> Message | Unreadable | None:
    """The message of a line; None of a blank one.

    A line that is no JSON object is the answer itself, in words. So is an object without a `type`: its `text` where it
    has one, else the line.
    """
    text = line.strip()
    if not text.startswith(b"{"):
        return read_text(line.rstrip()) if text else None
    parsed = parse_json(text, Limits(max_bytes=_NO_LIMIT, max_values=_NO_LIMIT))
    if isinstance(parsed, Failure):
        return Unreadable(f"a line that begins like a JSON object and is none: {parsed.failure()}")
    data: Any = parsed.unwrap()
    if "type" not in data:
        return Result(text=data["text"]) if isinstance(data.get("text"), str) else read_text(text)
    try:
        message: Message = msgspec.convert(data, _CONVERT)
    except msgspec.ValidationError as error:
        return Unreadable(f"a message of the type {data['type']!r}: {error}")
    return message


def read_text(line: bytes) -> Result | Unreadable:
    """The answer that a line of plain text is."""
    try:
        return Result(text=line.decode())
    except UnicodeDecodeError as error:
        return Unreadable(f"a line that is not UTF-8, at byte {error.start}")


def written(data: object) -> bytes:
    """The line of JSON data."""
    return msgspec.json.encode(data) + b"\n"
