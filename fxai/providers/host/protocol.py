r"""The protocol of hosts: its messages, one JSON object a line, and the parts of a model's turn that they make.

>>> read(b'{"type": "progress", "message": "Looking it up"}')
Progress(id=None, message='Looking it up', value=UNSET)
>>> read(b"It is fine.")
Result(id=None, text='It is fine.', value=UNSET, finish_reason='stop', usage=Tokens(...), model=None)
>>> read(b'{"type": "resul')
Unreadable(description='a line that begins like a JSON object and is none: expected JSON...')
>>> reply = Reply("translate", {})
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
from fxai.messages.part import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    Usage,
    WarningPart,
)
from fxai.messages.response import stream_of
from fxai.schema.parsing import Limits, parse_json

VERSION: Final = 1
"""The version of the protocol, said in `init`."""


class _Message(msgspec.Struct, frozen=True, tag_field="type"):
    """A message: it may name the request that it belongs to."""

    id: int | None = None


@final
class Acknowledged(_Message, frozen=True, tag="init_ack"):
    """The answer to `init`: it may say what the host takes beside messages."""

    takes: tuple[str, ...] = ()


@final
class Progress(_Message, frozen=True, tag="progress"):
    """What the host is doing: a `message` for people, or of a tool a preliminary `value`."""

    message: str = ""
    value: Any = msgspec.UNSET


@final
class Delta(_Message, frozen=True, tag="delta", kw_only=True):
    """More of the answer's text."""

    text: str


@final
class Thought(_Message, frozen=True, tag="reasoning", kw_only=True):
    """More of the reasoning."""

    text: str


@final
class Called(_Message, frozen=True, tag="tool_call", kw_only=True):
    """A tool that the model asks for."""

    name: str
    params: Any = {}
    call_id: str | None = None


@final
class Warned(_Message, frozen=True, tag="warning", kw_only=True):
    """Something that was asked for and not done."""

    message: str
    subject: str | None = None


@final
class Tokens(msgspec.Struct, frozen=True):
    """What an answer took."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@final
class Result(_Message, frozen=True, tag="result"):
    """The answer is complete. Text that came in pieces need not be said again; a tool gives a `value`."""

    text: str | None = None
    value: Any = msgspec.UNSET
    finish_reason: Literal["stop", "length", "content-filter", "other"] = "stop"
    usage: Tokens = Tokens()
    model: str | None = None


@final
class Reported(_Message, frozen=True, tag="error", kw_only=True):
    """There is no answer."""

    message: str
    retryable: bool = False
    retry_after: float | None = None


@final
class Unreadable(msgspec.Struct, frozen=True):
    """A line that is no message, and why."""

    description: str


Message: TypeAlias = Acknowledged | Progress | Delta | Thought | Called | Warned | Result | Reported
"""A message of a host."""

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


def encode_line(data: object) -> bytes:
    """JSON data as one line."""
    return msgspec.json.encode(data) + b"\n"


@final
class Broken(msgspec.Struct, frozen=True):
    """Why the messages do not make a turn."""

    description: str


@final
class Reply:
    """A model's turn as its messages come: the text so far, and the part that is open."""

    __slots__ = ("_begun", "_called", "_count", "_dynamic", "_name", "_open", "_text", "warnings")

    warnings: tuple[WarningPart, ...]
    """What was asked for and not sent to the host; these parts come first."""

    def __init__(self, name: str, dynamic: Mapping[str, bool]) -> None:
        """A turn of the program `name`; `dynamic` are the tools by name, and whether each is a dynamic one."""
        self.warnings = ()
        self._name = name
        self._dynamic = dynamic
        self._begun = False
        self._called = False
        self._count = 0
        self._open: Literal["text", "reasoning"] | None = None
        self._text: list[str] = []

    def parts(self, message: Message) -> Iterator[StreamPart | Broken]:
        """The parts of a message that comes before the answer is complete."""
        yield from self._begin(None)
        match message:
            case Delta(text=text):
                yield from self._add("text", text)
            case Thought(text=text):
                yield from self._add("reasoning", text)
            case Progress(message=text, value=value):
                yield from self._close()
                yield from self._add("reasoning", text)
                extra = {} if value is msgspec.UNSET else {"value": value}
                yield from self._close({"host": {"type": "progress", **extra}})
            case Called():
                yield from self._call(message)
            case Warned(message=text, subject=subject):
                yield WarningPart(text, subject=subject)
            case Acknowledged():
                yield Broken('it said "init_ack", and was not asked for it')
            case _:
                return

    def end(self, result: Result) -> Iterator[StreamPart | Broken]:
        """The parts of the message that ends the answer."""
        yield from self._begin(result.model)
        text = _text_of(result)
        sent = "".join(self._text)
        if text is not None and not text.startswith(sent):
            yield Broken("the text of its result does not begin with the pieces that it gave before")
            return
        if text is not None and text != sent:
            yield from self._add("text", text[len(sent) :])
        yield from self._close()
        usage = Usage(result.usage.input_tokens, result.usage.output_tokens)
        yield Finish("tool-calls" if self._called else result.finish_reason, usage)

    def _begin(self, model: str | None) -> Iterator[StreamPart]:
        if not self._begun:
            yield from self.warnings
        if not self._begun or model is not None:
            yield ResponseMetadata(model=model or self._name)
        self._begun = True

    def _add(self, kind: Literal["text", "reasoning"], text: str) -> Iterator[StreamPart]:
        """More of the part of this kind, which begins here unless it is open."""
        if kind == "text":
            self._text.append(text)
        if self._open != kind:
            yield from self._close()
            self._open, self._count = kind, self._count + 1
            yield TextStart(str(self._count)) if kind == "text" else ReasoningStart(str(self._count))
        yield TextDelta(str(self._count), text) if kind == "text" else ReasoningDelta(str(self._count), text)

    def _close(self, metadata: Metadata | None = None) -> Iterator[StreamPart]:
        kind, self._open = self._open, None
        if kind == "text":
            yield TextEnd(str(self._count))
        elif kind == "reasoning":
            yield ReasoningEnd(str(self._count), metadata=metadata or {})

    def _call(self, called: Called) -> Iterator[StreamPart]:
        yield from self._close()
        self._called = True
        id_ = called.call_id or f"call_{secrets.token_hex(8)}"
        dynamic = self._dynamic.get(called.name, False)
        yield from stream_of([ToolCall(id_, called.name, called.params, dynamic=dynamic)])


def _text_of(result: Result) -> str | None:
    value: Any = result.value
    if result.text is None and value is not msgspec.UNSET:
        return msgspec.json.encode(value).decode()
    return result.text
