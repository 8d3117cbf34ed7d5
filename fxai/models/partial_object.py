r"""Partial objects: a typed answer while the model writes it. `stream_object` and providers use this module.

>>> from fxai.messages.part import TextDelta, TextStart
>>> reader = AnswerReader(Schema.of(list[int]))
>>> pieces = (TextStart("0"), TextDelta("0", "```json\n[1, "), TextDelta("0", "2, 3"), TextDelta("0", ']\n```'))
>>> [reader.value for piece in pieces if reader.read(piece)]
[[1], [1, 2], [1, 2, 3]]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, final

import msgspec
from returns.result import Success
from typing_extensions import TypeVar

from fxai.messages.errors import AiError
from fxai.messages.part import StreamPart, TextDelta
from fxai.messages.reason import StructuredOutputError
from fxai.messages.response import Response
from fxai.messages.think_tag import ThinkTags
from fxai.models.structured_output import json_texts
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeFailure
from fxai.schema.parsing import parse_json
from fxai.schema.partial_json import JsonReader, OpenKind
from fxai.schema.strict.node import Node, Way, lead

_V_co = TypeVar("_V_co", covariant=True)

_SPACE: Final = "\ufeff \t\r\n"
_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})[ \t]*[\w.+-]*[ \t]*\n?")
_LONGEST_LEAD: Final = 200  # maximum number of characters of a fence


@final
class ObjectPart(msgspec.Struct, Generic[_V_co], frozen=True, eq=False):
    """A state of a typed answer that grows. The partial of each part is a beginning of the next partial."""

    read: Callable[[], Any]
    """Returns the partial. `partial` calls it."""
    value: _V_co | None = None
    """The typed value in the last part of the stream, otherwise None."""
    response: Response | None = None
    """The turn with the results of its calls in the last part of the stream, otherwise None."""

    @property
    def partial(self) -> Any:
        """The JSON value so far, or `msgspec.UNSET` if only the last part has one.

        Strings and arrays grow at their end, objects gain members, and numbers appear when they are complete. Each
        complete member satisfies its schema. Each access assembles the value in time proportional to its open objects,
        arrays, and strings. Parts share complete members, so do not change them.
        """
        return self.read()


@final
class AnswerReader:
    """A reader of the parts of a turn for the JSON of its answer.

    It reads the JSON at the start of the text, also after reasoning in tags, a byte order mark, or the start of a
    fenced block. JSON at another position has no partial values.

    Args:
        schema: The type of the answer.
    """

    def __init__(self, schema: Schema[Any]) -> None:
        self._schema = schema
        self._json = JsonReader(schema.document)
        self._tags = ThinkTags("fxai")
        self._texts: list[str] = []
        self._lead: str | None = ""  # the text before the JSON, or None after its start

    @property
    def value(self) -> Any:
        """The JSON value so far, or `msgspec.UNSET`."""
        return self._json.value

    @property
    def at_present(self) -> Callable[[], Any]:
        """A function that returns the present value at any time."""
        return partial(self._json.at, self._json.version)

    def read(self, part: StreamPart) -> bool:
        """Read a part of the turn. Return whether the value grew."""
        before = self._json.version
        if part.type == "text-delta":
            self._texts.append(part.delta)
        for piece in self._tags.read(part):
            if isinstance(piece, TextDelta):
                self._read_text(piece.delta)
        return self._json.version > before

    def _read_text(self, text: str) -> None:
        if self._lead is None:
            self._json.feed(text)
            return
        self._lead += text
        rest = self._lead.lstrip(_SPACE)
        if rest[:1] in ("`", "~") and len(rest) <= _LONGEST_LEAD:
            fence = _FENCE.match(rest)
            rest = "" if fence is None else rest[fence.end() :].lstrip(_SPACE)
        if rest:
            self._lead = None
            self._json.feed(rest)

    def error(self, module: str, method: str) -> AiError | None:
        """Return the error of the first invalid member, with the text so far and the location, or None."""
        if not self._json.faults:
            return None
        failure = DecodeFailure(self._json.faults)
        pointer = failure.faults[0].pointer
        reason = StructuredOutputError(text="".join(self._texts), pointer=pointer, description=str(failure))
        return AiError(module, method, reason)

    def whole(self, text: str) -> Callable[[], Any]:
        """Return a function that returns the whole JSON value of the text of a valid answer."""
        if self._json.is_complete:
            return self.at_present
        text = next(one for one in json_texts(text) if isinstance(self._schema.decode_json(one), Success))
        return lambda: parse_json(text).unwrap()


# -- the answer in the form of a provider


_MEMBER: Final = "value"
_OPENING: Final = {"{": "{", "[": "[", '"': '"'}
_CLOSING: Final = {"{": "}", "[": "]", '"': '"'}


@final
class _Level:
    """An object, an array, or a string that the writer has started."""

    __slots__ = ("count", "is_wrapper", "kind", "node")

    def __init__(self, kind: OpenKind, node: Node | None, *, is_wrapper: bool = False) -> None:
        self.kind: OpenKind = kind
        self.node = node
        """The strict schema, or None if its values stay unchanged."""
        self.is_wrapper = is_wrapper
        self.count = 0


@final
class AnswerWriter:
    """A writer that converts the JSON text of an answer from the strict form of a provider while the text arrives.

    A strict form can wrap the answer in an object, and state null for an absent property. The writer converts objects
    and arrays member by member. It delays only values that it cannot convert before they are complete, such as members
    of unions.

    >>> from fxai.models.structured_output import AnswerForm
    >>> from fxai.schema.json_schema import JsonSchema
    >>> from fxai.schema.strict import OPENAI
    >>> document = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> writer = AnswerForm.of(JsonSchema.of(document), OPENAI).writer()
    >>> [writer.feed(piece) for piece in ('{"value": [{"a"', ': 1}, {"a":', ' null}', ']}')]
    ['[{', '"a":1},{', '}', ']']

    Args:
        node: The strict schema of the text, or None if its values stay unchanged.
        wrapped: True if the answer is the single member of an object.
    """

    def __init__(self, node: Node | None, *, wrapped: bool) -> None:
        self.has_written: bool = False
        """True if the writer has returned text. Otherwise, convert the whole text at its end."""
        self._node = node
        self._wrapped = wrapped
        self._reader = JsonReader(listener=self)
        self._levels: list[_Level] = []
        self._out: list[str] = []
        self._held = 0  # the number of open values from a value that is complete before its conversion
        self._way: Way = None
        self._has_failed = False

    def feed(self, piece: str) -> str:
        """Read a piece of the text, and return the next piece of the answer."""
        if not self._has_failed:
            self._reader.feed(piece)
        written, self._out = "".join(self._out), []
        self.has_written = self.has_written or bool(written)
        return written

    # -- events of the reader

    def start(self, kind: OpenKind, key: str | int) -> None:
        """Start an object, an array, or a string."""
        if self._held or self._has_failed:
            self._held += 1
            return
        if not self._levels and self._wrapped:
            self._has_failed = kind != "{"
            self._levels.append(_Level(kind, self._node, is_wrapper=True))
            return
        member = self._member(key)
        if member is None:
            return
        way, node, _ = member
        if not _can_stream(kind, way, node):
            self._held, self._way = 1, way
            return
        self._write_key(key)
        self._out.append(_OPENING[kind])
        self._levels.append(_Level(kind, None if way is None else node))

    def add(self, piece: str) -> None:
        """Continue a string."""
        if not self._held and not self._has_failed:
            self._out.append(_encode(piece)[1:-1])

    def end(self, value: Any, key: str | int, *, began: bool) -> None:
        """Complete a value. `began` is false for numbers and words."""
        if self._has_failed:
            return
        if self._held:
            self._held -= began
            if not self._held:
                self._write_key(key)
                self._out.append(_encode(lead(self._way, value)))
            return
        if began:
            level = self._levels.pop()
            if not level.is_wrapper:
                self._out.append(_CLOSING[level.kind])
            return
        member = self._member(key)
        if member is not None and (value is not None or not member[2]):
            self._write_key(key)
            self._out.append(_encode(lead(member[0], value)))

    # -- members

    def _member(self, key: str | int) -> tuple[Way, Node | None, bool] | None:
        """Return the conversion of a member, its strict schema, and True if null means that it is absent.

        Return None if the answer has no such member.
        """
        if not self._levels:
            return (None if self._node is None else self._node.back), self._node, False
        level = self._levels[-1]
        if level.is_wrapper and key != _MEMBER:
            self._has_failed = True
            return None
        node = level.node
        if node is None or node.shape is None:
            return None, None, False
        if node.members is None:
            item = _resolve(node.shape.parts[0])
            return item.back, item, False
        member = node.members.get(str(key))
        if member is None:
            return None, None, False
        return member.back, None if member.null else _resolve(member.node), member.drops_null

    def _write_key(self, key: str | int) -> None:
        level = self._levels[-1] if self._levels else None
        if level is None or level.is_wrapper:
            return
        if level.count:
            self._out.append(",")
        level.count += 1
        if level.kind == "{":
            self._out.append(f"{_encode(key)}:")


def _can_stream(kind: OpenKind, way: Way, node: Node | None) -> bool:
    """Return whether the writer can convert a value before it is complete."""
    if way is None:
        return True
    if node is None or node.shape is None:
        return False
    return node.members is not None if kind == "{" else kind == "[" and node.shape.kind == "list"


def _resolve(node: Node) -> Node:
    return node if node.target is None else _resolve(node.target())


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
