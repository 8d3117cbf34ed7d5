"""Answer writers: convert the JSON text of an answer from the strict form of a provider while it arrives.

A strict form can wrap the answer in an object, and state null for an absent property. The writer converts objects and
arrays member by member. It delays only values that it cannot convert before they are complete, such as members of
unions. Providers use this module to stream typed answers.

>>> from fxai.models.structured_output import AnswerForm
>>> from fxai.schema.json_schema import JsonSchema
>>> from fxai.schema.strict import OPENAI
>>> document = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}
>>> writer = AnswerForm.of(JsonSchema.of(document), OPENAI).writer()
>>> [writer.feed(piece) for piece in ('{"value": [{"a"', ': 1}, {"a":', ' null}', ']}')]
['[{', '"a":1},{', '}', ']']
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from fxai.schema.partial_json import JsonReader, OpenKind
from fxai.schema.strict.node import Node, Way, lead

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
    """A writer of one answer.

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
