"""Replies: the messages of a host, as the parts of a model's turn.

>>> from fxai.providers.host.message import Delta
>>> reply = Reply("translate", {})
>>> [part.type for part in reply.heard(Delta(text="Guten "))]
['response-metadata', 'text-start', 'text-delta']
>>> [part.type for part in reply.ended(Result(text="Guten Tag"))]
['text-delta', 'text-end', 'finish']
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Literal, final

import msgspec

from fxai.messages.metadata import Metadata
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
    WarningPart,
)
from fxai.messages.response import stream_of
from fxai.messages.usage import Usage
from fxai.providers.host.message import Acknowledged, Called, Delta, Message, Progress, Result, Thought, Warned

__all__ = ["Broken", "Reply"]


@final
class Broken(msgspec.Struct, frozen=True):
    """Why the messages do not make a turn."""

    description: str


@final
class Reply:
    """One turn as it comes: what was said so far, and the part that is open."""

    __slots__ = ("_begun", "_called", "_count", "_dynamic", "_name", "_open", "_said", "warnings")

    warnings: tuple[WarningPart, ...]
    """What was asked for and the host was not given; they come first."""

    def __init__(self, name: str, dynamic: Mapping[str, bool]) -> None:
        """A turn of the program `name`; `dynamic` are the tools by name, and whether each is a dynamic one."""
        self.warnings = ()
        self._name = name
        self._dynamic = dynamic
        self._begun = False
        self._called = False
        self._count = 0
        self._open: Literal["text", "reasoning"] | None = None
        self._said: list[str] = []

    def heard(self, message: Message) -> Iterator[StreamPart | Broken]:
        """The parts of a message that comes before the answer is complete."""
        yield from self._beginning(None)
        match message:
            case Delta(text=text):
                yield from self._more("text", text)
            case Thought(text=text):
                yield from self._more("reasoning", text)
            case Progress(message=text, value=value):
                yield from self._closing()
                yield from self._more("reasoning", text)
                said = {} if value is msgspec.UNSET else {"value": value}
                yield from self._closing({"host": {"type": "progress", **said}})
            case Called():
                yield from self._call(message)
            case Warned(message=text, subject=subject):
                yield WarningPart(text, subject=subject)
            case Acknowledged():
                yield Broken('it said "init_ack", and was not asked for it')
            case _:
                return

    def ended(self, result: Result) -> Iterator[StreamPart | Broken]:
        """The parts of the message that ends the answer."""
        yield from self._beginning(result.model)
        text = _text_of(result)
        said = "".join(self._said)
        if text is not None and not text.startswith(said):
            yield Broken("the text of its result does not begin with the pieces that it gave before")
            return
        if text is not None and text != said:
            yield from self._more("text", text[len(said) :])
        yield from self._closing()
        usage = Usage(result.usage.input_tokens, result.usage.output_tokens)
        yield Finish("tool-calls" if self._called else result.finish_reason, usage)

    def _beginning(self, model: str | None) -> Iterator[StreamPart]:
        if not self._begun:
            yield from self.warnings
        if not self._begun or model is not None:
            yield ResponseMetadata(model=model or self._name)
        self._begun = True

    def _more(self, kind: Literal["text", "reasoning"], text: str) -> Iterator[StreamPart]:
        """More of the part of this kind, which begins here unless it is open."""
        if kind == "text":
            self._said.append(text)
        if self._open != kind:
            yield from self._closing()
            self._open, self._count = kind, self._count + 1
            yield TextStart(str(self._count)) if kind == "text" else ReasoningStart(str(self._count))
        yield TextDelta(str(self._count), text) if kind == "text" else ReasoningDelta(str(self._count), text)

    def _closing(self, metadata: Metadata | None = None) -> Iterator[StreamPart]:
        kind, self._open = self._open, None
        if kind == "text":
            yield TextEnd(str(self._count))
        elif kind == "reasoning":
            yield ReasoningEnd(str(self._count), metadata=metadata or {})

    def _call(self, called: Called) -> Iterator[StreamPart]:
        yield from self._closing()
        self._called = True
        id_ = called.call_id or f"call_{secrets.token_hex(8)}"
        dynamic = self._dynamic.get(called.name, False)
        yield from stream_of([ToolCall(id_, called.name, called.params, dynamic=dynamic)])


def _text_of(result: Result) -> str | None:
    value: Any = result.value
    if result.text is None and value is not msgspec.UNSET:
        return msgspec.json.encode(value).decode()
    return result.text
