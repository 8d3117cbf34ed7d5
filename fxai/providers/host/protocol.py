r"""The protocol of hosts: one JSON message on each line. The host converts the messages to the parts of a model's turn.

>>> read(b'{"type": "progress", "message": "Looking it up"}')
HostProgress(id=None, message='Looking it up', value=UNSET)
>>> read(b"It is fine.")
Result(id=None, text='It is fine.', value=UNSET, finish_reason='stop', usage=Tokens(...), model=None)
>>> read(b'{"type": "resul')
Unreadable(description='a line starts like a JSON object, but is invalid: expected JSON...')
>>> reply = HostReply("translate", {})
>>> [part.type for part in reply.parts(Delta(text="Guten "))]
['response-metadata', 'text-start', 'text-delta']
>>> [part.type for part in reply.end(Result(text="Guten Tag"))]
['text-delta', 'text-end', 'finish']
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure

from fxai.messages.message import Metadata
from fxai.messages.part import Finish, ResponseMetadata, StreamPart, ToolCall, Usage, WarningPart
from fxai.messages.response import stream_of
from fxai.providers.http.reply import Blocks, reasoning_blocks, text_blocks
from fxai.schema.parsing import Limits, parse_json

VERSION: Final = 1
"""The version of the protocol. fxai sends it in `init`."""


class _Message(msgspec.Struct, frozen=True, tag_field="type"):
    """A message. It can contain the id of its request."""

    id: int | None = None


@final
class Acknowledged(_Message, frozen=True, tag="init_ack"):
    """The answer to `init`. It can list the data that the host accepts in addition to messages."""

    takes: tuple[str, ...] = ()


@final
class HostProgress(_Message, frozen=True, tag="progress"):
    """The progress of the host: a `message` for people, or a preliminary `value` of a tool."""

    message: str = ""
    value: Any = msgspec.UNSET


@final
class Delta(_Message, frozen=True, tag="delta", kw_only=True):
    """A piece of the answer's text."""

    text: str


@final
class HostThought(_Message, frozen=True, tag="reasoning", kw_only=True):
    """A piece of the reasoning."""

    text: str


@final
class Called(_Message, frozen=True, tag="tool_call", kw_only=True):
    """A tool call of the model."""

    name: str
    params: Any = {}
    call_id: str | None = None


@final
class Warned(_Message, frozen=True, tag="warning", kw_only=True):
    """A warning for a part of the request that the host ignored."""

    message: str
    subject: str | None = None


@final
class Tokens(msgspec.Struct, frozen=True):
    """The usage of an answer."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@final
class Result(_Message, frozen=True, tag="result"):
    """The end of the answer. The host can omit text that it already sent in pieces. A tool returns a `value`."""

    text: str | None = None
    value: Any = msgspec.UNSET
    finish_reason: Literal["stop", "length", "content-filter", "other"] = "stop"
    usage: Tokens = Tokens()
    model: str | None = None


@final
class Reported(_Message, frozen=True, tag="error", kw_only=True):
    """An error instead of an answer."""

    message: str
    retryable: bool = False
    retry_after: float | None = None


@final
class Unreadable(msgspec.Struct, frozen=True):
    """A line that is not a message, and the reason."""

    description: str


Message: TypeAlias = Acknowledged | HostProgress | Delta | HostThought | Called | Warned | Result | Reported
"""A message of a host."""

_CONVERT: Final[Any] = Message
_NO_LIMIT: Final = 2**62


def read(line: bytes) -> Message | Unreadable | None:
    """Read the message of a line. Return None for a blank line.

    A line that is not a JSON object is the answer as text. An object without a `type` is also an answer: its string
    `text`, or the whole line.
    """
    text = line.strip()
    if not text.startswith(b"{"):
        return read_text(line.rstrip()) if text else None
    parsed = parse_json(text, Limits(max_bytes=_NO_LIMIT, max_values=_NO_LIMIT))
    if isinstance(parsed, Failure):
        return Unreadable(f"a line starts like a JSON object, but is invalid: {parsed.failure()}")
    data: Any = parsed.unwrap()
    if "type" not in data:
        return Result(text=data["text"]) if isinstance(data.get("text"), str) else read_text(text)
    try:
        message: Message = msgspec.convert(data, _CONVERT)
    except msgspec.ValidationError as error:
        return Unreadable(f"a message of type {data['type']!r}: {error}")
    return message


def read_text(line: bytes) -> Result | Unreadable:
    """Read a line of plain text as an answer."""
    try:
        return Result(text=line.decode())
    except UnicodeDecodeError as error:
        return Unreadable(f"a line is not UTF-8, at byte {error.start}")


def encode_line(data: object) -> bytes:
    """Encode JSON data as one line."""
    return msgspec.json.encode(data) + b"\n"


@final
class Broken(msgspec.Struct, frozen=True):
    """The reason why messages do not form a turn."""

    description: str


@final
class HostReply:
    """A model's turn during its messages: the text until now, and the open part."""

    __slots__ = ("_begun", "_called", "_count", "_dynamic", "_name", "_reasoning", "_text", "_texts", "warnings")

    warnings: tuple[WarningPart, ...]
    """Warnings for parts of the request that the host did not receive. They precede all other parts."""

    def __init__(self, name: str, dynamic: Mapping[str, bool]) -> None:
        """Create the turn of the program `name`. `dynamic` maps the names of tools to True for dynamic tools."""
        self.warnings = ()
        self._name = name
        self._dynamic = dynamic
        self._begun = False
        self._called = False
        self._count = 0
        self._texts = text_blocks()
        self._reasoning = reasoning_blocks()
        self._text: list[str] = []

    def parts(self, message: Message) -> Iterator[StreamPart | Broken]:
        """Return the parts of a message before the end of the answer."""
        yield from self._start(None)
        match message:
            case Delta(text=text):
                yield from self._add(self._texts, text)
            case HostThought(text=text):
                yield from self._add(self._reasoning, text)
            case HostProgress(message=text, value=value):
                yield from self._close()
                yield from self._add(self._reasoning, text)
                extra = {} if value is msgspec.UNSET else {"value": value}
                yield from self._close({"host": {"type": "progress", **extra}})
            case Called(name=name, params=params):
                yield from self._close()
                self._called = True
                id_ = message.call_id or f"call_{secrets.token_hex(8)}"
                yield from stream_of([ToolCall(id_, name, params, dynamic=self._dynamic.get(name, False))])
            case Warned(message=text, subject=subject):
                yield WarningPart(text, subject=subject)
            case Acknowledged():
                yield Broken('unexpected message "init_ack" after the start of a request')
            case _:
                return

    def end(self, result: Result) -> Iterator[StreamPart | Broken]:
        """Return the parts of the last message."""
        yield from self._start(result.model)
        text, value = result.text, result.value
        if text is None and value is not msgspec.UNSET:
            text = msgspec.json.encode(value).decode()
        sent = "".join(self._text)
        if text is not None and not text.startswith(sent):
            yield Broken("the text of the result does not start with the earlier pieces")
            return
        if text is not None and text != sent:
            yield from self._add(self._texts, text[len(sent) :])
        yield from self._close()
        usage = Usage(result.usage.input_tokens, result.usage.output_tokens)
        yield Finish("tool-calls" if self._called else result.finish_reason, usage)

    def _start(self, model: str | None) -> Iterator[StreamPart]:
        if not self._begun:
            yield from self.warnings
        if not self._begun or model is not None:
            yield ResponseMetadata(model=model or self._name)
        self._begun = True

    def _add(self, blocks: Blocks, text: str) -> Iterator[StreamPart]:
        """Append text to the open part of this kind. If another part is open, end it and start a new part."""
        if blocks is self._texts:
            self._text.append(text)
        if not blocks.ids:
            yield from self._close()
            self._count += 1
        yield from blocks.write(str(self._count), text)

    def _close(self, metadata: Metadata | None = None) -> Iterator[StreamPart]:
        for blocks in (self._texts, self._reasoning):
            for id_ in blocks.ids:
                yield from blocks.close(id_, metadata=metadata)
