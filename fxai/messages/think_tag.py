r"""Think tags: convert reasoning in a model's text, `<think>…</think>`, to reasoning parts and back. Providers use it.

Many open models start an answer with their reasoning in tags. Servers that do not separate it send it as text.

>>> from fxai.messages.part import Text
>>> split_thoughts([Text("<think>\nHm.\n</think>\n\nYes.")], "acme")
(Reasoning(text='Hm.', metadata={'acme': {'field': 'think'}}), Text(text='Yes.', metadata={}))
>>> tags = ThinkTags("acme")
>>> pieces = (TextStart("0"), TextDelta("0", "<thi"), TextDelta("0", "nk>Hm."), TextDelta("0", "</think>Yes."))
>>> [part.delta for piece in pieces for part in tags.read(piece) if part.type in ("reasoning-delta", "text-delta")]
['Hm.', 'Yes.']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.messages.message import AssistantContent, AssistantMessage, ReasoningPart, TextPart
from fxai.messages.part import (
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamPart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
)
from fxai.schema.data import is_listed, is_object

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
_SPACE: Final = "\ufeff \t\r\n"
_FIELD: Final = {"field": "think"}
_USUAL: Final = ["", "\n", "\n", "\n\n"]

_State: TypeAlias = Literal["before", "inside", "text"]


@final
class _Text:
    """A splitter of text pieces: into numbered thoughts, and the text after them."""

    def __init__(self, start: TextStart | None = None) -> None:
        self.start = start
        """The start of the text, until the reader receives it."""
        self._state: _State = "before"
        self._rest = ""
        self._spaces: list[list[str]] = []  # for each thought: the space before and after both tags
        self._has_words = False  # True if the open thought contains words

    @property
    def count(self) -> int:
        """The number of started thoughts."""
        return len(self._spaces)

    def mark(self, number: int) -> dict[str, Any]:
        """Return the metadata of a thought with its surrounding space, to restore the text of the model."""
        space = self._spaces[number - 1]
        is_cut = self._state == "inside" and number == self.count
        return {**_FIELD, **({} if space == _USUAL else {"space": list(space)}), **({"cut": True} if is_cut else {})}

    def feed(self, piece: str) -> Iterator[tuple[int, str]]:
        """Yield certain pieces: a number and a piece of a thought, or 0 and a piece of the text."""
        self._rest += piece
        while self._rest and self._state != "text":
            if self._state == "inside":
                words, tag, after = self._rest.partition(_CLOSE)
                if not tag:
                    # trailing space and the start of a closing tag are uncertain
                    cut = next((at for at in range(len(_CLOSE) - 1, 0, -1) if self._rest.endswith(_CLOSE[:at])), 0)
                    at = len(self._rest[: len(self._rest) - cut].rstrip(_SPACE))
                    words, self._rest = self._rest[:at], self._rest[at:]
                    yield from self._think(words)
                    return
                yield from self._last(words)
                self._state, self._rest = "before", after
                continue
            words = self._rest.lstrip(_SPACE)
            if _OPEN.startswith(words) and words != _OPEN:
                return
            if words.startswith(_OPEN):
                space = self._rest[: len(self._rest) - len(words)]  # also the space after the previous thought
                self._spaces.append(["" if self._spaces else space, "", "", ""])
                if self.count > 1:
                    self._spaces[-2][3] = space
                self._state, self._rest, self._has_words = "inside", words[len(_OPEN) :], False
                yield self.count, ""
            else:
                self._start_text(words)
        if self._rest:
            yield 0, self._rest
            self._rest = ""

    def end(self) -> Iterator[tuple[int, str]]:
        """Yield the pieces that were uncertain until the end of the text."""
        rest, self._rest = self._rest, ""
        if self._state == "inside":
            yield from self._last(rest)
        elif self._state == "before":
            self._rest = rest
            self._start_text(rest.lstrip(_SPACE))
            if self._rest:
                yield 0, self._rest

    def _start_text(self, words: str) -> None:
        self._state = "text"
        if self._spaces:
            self._spaces[-1][3] = self._rest[: len(self._rest) - len(words)]
            self._rest = words

    def _think(self, words: str) -> Iterator[tuple[int, str]]:
        if not self._has_words:
            bare = words.lstrip(_SPACE)
            self._spaces[-1][1] += words[: len(words) - len(bare)]
            words = bare
        if words:
            self._has_words = True
            yield self.count, words

    def _last(self, words: str) -> Iterator[tuple[int, str]]:
        """Yield the last words of a thought."""
        bare = words.rstrip(_SPACE)
        if bare or self._has_words:
            self._spaces[-1][2] = words[len(bare) :]
            words = bare
        yield from self._think(words)


@final
class ThinkTags:
    """A reader of a stream that converts `<think>…</think>` before the text to reasoning.

    It delays a piece that can be part of a tag until the next piece.

    Args:
        provider: The provider name in the metadata of the reasoning.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._texts: dict[str, _Text] = {}
        self._open: dict[str, int] = {}  # the open thought of each text

    def read(self, part: StreamPart) -> Iterator[StreamPart]:
        """Yield the parts that replace a part."""
        match part:
            case TextStart():
                yield from self._starts()
                self._texts[part.id] = _Text(part)
            case TextDelta() if part.id in self._texts:
                for number, piece in self._texts[part.id].feed(part.delta):
                    yield from self._piece(part, number, piece)
            case TextEnd() if part.id in self._texts:
                yield from self._end(part)
            case _:
                yield from self._starts()
                yield part

    def _starts(self) -> Iterator[StreamPart]:
        """Yield starts of text without a piece, because another part arrives before its pieces."""
        for text in self._texts.values():
            if text.start is not None and not text.count:
                yield text.start
                text.start = None

    def _piece(self, delta: TextDelta, number: int, piece: str) -> Iterator[StreamPart]:
        id_ = f"{delta.id}:think:{number}"
        if not number or self._open.get(delta.id, number) != number:
            yield from self._close(delta.id)
        text = self._texts[delta.id]
        if number:
            if delta.id not in self._open:
                self._open[delta.id] = number
                yield ReasoningStart(id_)
            if piece:
                yield ReasoningDelta(id_, piece)
            return
        if text.start is not None:
            yield text.start
            text.start = None
        yield msgspec.structs.replace(delta, delta=piece)

    def _close(self, id_: str) -> Iterator[StreamPart]:
        number = self._open.pop(id_, None)
        if number is not None:
            yield ReasoningEnd(f"{id_}:think:{number}", metadata={self._provider: self._texts[id_].mark(number)})

    def _end(self, end: TextEnd) -> Iterator[StreamPart]:
        text = self._texts[end.id]
        for number, piece in text.end():
            yield from self._piece(TextDelta(end.id, ""), number, piece)
        yield from self._close(end.id)
        del self._texts[end.id]
        if text.start is not None and text.count and not end.metadata:
            return  # the text contains only thoughts
        if text.start is not None:
            yield text.start
        yield end


def split_thoughts(parts: Iterable[Part], provider: str) -> tuple[Part, ...]:
    """Return the parts with `<think>…</think>` before the text as reasoning.

    Args:
        parts: The parts in a response.
        provider: The provider name in the metadata of the reasoning.
    """
    found: list[Part] = []
    for part in parts:
        if not isinstance(part, Text) or not part.text.lstrip(_SPACE).startswith(_OPEN):
            found.append(part)
            continue
        thoughts, rest = _pieces(part.text)
        found.extend(Reasoning(thought, metadata={provider: mark}) for thought, mark in thoughts)
        if rest or part.metadata:
            found.append(msgspec.structs.replace(part, text=rest))
    return tuple(found)


def _pieces(text: str) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Return the thoughts before the text with metadata, and the text."""
    reader = _Text()
    pieces = [*reader.feed(text), *reader.end()]
    numbers = range(1, reader.count + 1)
    thoughts = [("".join(piece for at, piece in pieces if at == one), reader.mark(one)) for one in numbers]
    return thoughts, "".join(piece for at, piece in pieces if not at)


def without_thoughts(text: str) -> str:
    r"""Return the text without `<think>…</think>` before it. The first tag can be missing, as in some templates.

    >>> without_thoughts("<think>Hm.</think>\n{}"), without_thoughts("Hm.</think>{}"), without_thoughts("{}")
    ('{}', '{}', '{}')
    """
    rest = _pieces(text)[1]
    return rest.rpartition(_CLOSE)[2].lstrip(_SPACE) if _OPEN not in rest else rest


def with_tags(message: AssistantMessage, provider: str) -> AssistantMessage:
    """Return a message with reasoning from tags in its text again, as the model wrote it.

    Args:
        message: A turn from the model.
        provider: The name of the provider that sent the tags.
    """
    if not any(_is_from_tags(part, provider) for part in message.content):
        return message
    content: list[AssistantContent] = []
    before = ""
    for part in message.content:
        if part.type == "reasoning" and _is_from_tags(part, provider):
            before += _tagged_text(part.text, part.metadata[provider])
            continue
        if before and part.type == "text":
            part = msgspec.structs.replace(part, text=before + part.text)
        elif before:
            content.append(TextPart(before))
        before = ""
        content.append(part)
    return msgspec.structs.replace(message, content=(*content, *([TextPart(before)] if before else [])))


def _tagged_text(thought: str, mark: Mapping[str, Any]) -> str:
    """Return a thought with its tags."""
    found = mark.get("space")
    space = [one for one in found if isinstance(one, str)] if is_listed(found) else []
    before, first, last, after = space if len(space) == len(_USUAL) else _USUAL
    return f"{before}{_OPEN}{first}{thought}{last}" + ("" if mark.get("cut") else f"{_CLOSE}{after}")


def _is_from_tags(part: AssistantContent, provider: str) -> bool:
    own = part.metadata.get(provider)
    return isinstance(part, ReasoningPart) and is_object(own) and own.get("field") == _FIELD["field"]
