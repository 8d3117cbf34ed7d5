r"""A reader of JSON text that is still arriving: the value so far, and the errors of its complete members.

The time to read grows linearly with the text, for any division of the text into pieces.

>>> reader = JsonReader()
>>> for piece in ('{"city": "Os', 'lo", "days": 1', '2}'):
...     reader.feed(piece)
...     print(reader.value)
{'city': 'Os'}
{'city': 'Oslo'}
{'city': 'Oslo', 'days': 12}
>>> parse_partial('{"city": "Oslo", "da')
{'city': 'Oslo'}
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, final

import msgspec

from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeError, Fault, pointer_to
from fxai.schema.json_schema import JsonSchema, engine_of
from fxai.schema.parsing import LIMITS, parse_json_unsafe

if TYPE_CHECKING:
    from fxai.schema.part import Part

OpenKind: TypeAlias = Literal["{", "[", '"']
"""The kind of a value that can be incomplete: an object, an array, or a string."""

_State: TypeAlias = Literal["value", "first value", "key", "first key", "colon", "after", "string", "atom", "end"]

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ATOM: Final = re.compile(r"[-+.0-9A-Za-z]+")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_HEX: Final = "[0-9a-fA-F]"
_UNIT: Final = rf"\\u(?:(?![dD][89a-fA-F]){_HEX}{{4}}|[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})"
_STRING: Final = re.compile(rf'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|{_UNIT})*+')
_PAIR: Final = rf"[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
_CUT: Final = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|{_PAIR})?)?")
_TYPES: Final[Mapping[OpenKind, str]] = {"{": "object", "[": "array", '"': "string"}
_WORDS: Final = ("true", "false", "null")
_MOST_APPLIED: Final = 64  # maximum number of schemas that apply to one member
_NO_PARTS: tuple[Part, ...] = ()
_ABSENT: Final = object()


def parse_partial(text: str) -> Any:
    """Return the value of an incomplete JSON text.

    A string ends at the end of the text. The value omits keys without a value, incomplete escapes, and single halves of
    a surrogate pair. The result agrees with `parsePartialJson` of the package `ai` of the npm registry, version
    7.0.173, except for such halves.

    Returns `msgspec.UNSET` if the text is empty or is not the beginning of a JSON text.
    """
    reader = JsonReader()
    reader.feed(text)
    reader.complete_atom()
    return msgspec.UNSET if reader.is_broken else reader.value


@final
class _Opened:
    """An object, an array, or a string that started."""

    __slots__ = ("end", "ends", "inner", "key", "kind", "members", "name", "parts", "pointer", "start")

    def __init__(self, kind: OpenKind, start: int, name: str, parts: tuple[Part, ...], pointer: str | None) -> None:
        self.kind: OpenKind = kind
        self.members: Any = {} if kind == "{" else []
        """The complete members. For a string, its pieces."""
        self.start, self.name, self.parts, self.pointer = start, name, parts, pointer
        self.key = ""
        """The key of its last member, if it is an object. Its own key is `name`."""
        self.end: int | None = None
        self.ends: list[int] = []
        """The version at which each member became complete."""
        self.inner: dict[int, _Opened] = {}
        """The members that started as objects, arrays, or strings, by their index."""

    @property
    def whole(self) -> Any:
        """The complete value."""
        return "".join(self.members) if self.kind == '"' else self.members

    def at(self, version: int) -> Any:
        """Return the value at a version."""
        if self.end is not None and self.end <= version:
            return self.whole
        count = bisect_right(self.ends, version)
        if self.kind == '"':
            return "".join(self.members[:count])
        inner = self.inner.get(count)
        if inner is not None and inner.start > version:
            inner = None
        if self.kind == "[":
            return self.members[:count] if inner is None else [*self.members[:count], inner.at(version)]
        shown = dict(islice(self.members.items(), count))
        return shown if inner is None else {**shown, inner.name: inner.at(version)}


class JsonListener(Protocol):
    """A receiver of the values of a reader in the order of the text. `key` is the key or the index of a value."""

    def start(self, kind: OpenKind, key: str | int, /) -> None:
        """Receive the start of an object, an array, or a string."""

    def add(self, piece: str, /) -> None:
        """Receive a piece of a string."""

    def end(self, value: Any, key: str | int, /, *, began: bool) -> None:
        """Receive a complete value. `began` is false for numbers and words, which have no start."""


@final
class JsonReader:
    """A reader of one JSON text in pieces.

    Each value is a beginning of the following values: strings and arrays grow at their end, objects gain members, and
    numbers appear when they are complete. The version numbers the values.

    Args:
        listener: A receiver of the values, or None.
        document: The schema of the whole value, or None. With a schema, the reader validates each complete member below
            the root, and refuses a second member with the same key.
    """

    def __init__(self, document: JsonSchema | None = None, listener: JsonListener | None = None) -> None:
        self.version: int = 0
        """The number of the present value. It grows only if the value grows."""
        self.faults: tuple[Fault, ...] = ()
        """The errors of the first invalid member. The reader stops at this member."""
        self.is_broken: bool = False
        """True if the text is not the beginning of a JSON text, or is nested too deeply."""
        self._listener = listener
        engine = None if document is None else engine_of(document)
        self._members = None if engine is None or engine.is_dynamic else _Members(engine.root)
        root = _NO_PARTS if self._members is None else self._members.root
        self._top = _Opened("[", 0, "", root, None)  # its only member is the whole value
        self._stack = [self._top]
        self._state: _State = "value"
        self._rest = ""  # an incomplete escape
        self._pieces: list[str] = []  # a key, a number, or a word
        self._string: _Opened | None = None
        self._next = 1

    @property
    def value(self) -> Any:
        """The value so far, or `msgspec.UNSET` before its start."""
        return self.at(self.version)

    @property
    def is_complete(self) -> bool:
        """True if the whole value arrived. The reader ignores the text after it."""
        return self._state == "end"

    def at(self, version: int) -> Any:
        """Return the value at an earlier version. Values share their complete members, so do not change them."""
        shown = self._top.at(version)
        return shown[0] if shown else msgspec.UNSET

    def feed(self, piece: str) -> None:
        """Read a piece of the text."""
        text, at = self._rest + piece, 0
        self._rest, self._next = "", self.version + 1
        while at < len(text) and self._state != "end" and not self.is_broken and not self.faults:
            if self._state == "string":
                at = self._read_string(text, at)
            elif self._state == "atom":
                at = self._read_atom(text, at)
            else:
                found = _SPACE.match(text, at)
                at = at if found is None else found.end()
                if at < len(text):
                    at += self._read_mark(text[at])

    def complete_atom(self) -> None:
        """Complete a number or a word at the end of the text: a number from its first digits, a word by its rest."""
        if self._state != "atom":
            return
        text = "".join(self._pieces)
        number = _NUMBER.match(text)
        word = next((word for word in _WORDS if word.startswith(text)), None)
        if word is not None or number is not None:
            self._end_atom(word or text[: 0 if number is None else number.end()])
        elif text != "-":
            self.is_broken = True

    # -- tokens

    def _read_mark(self, mark: str) -> int:
        """Read a character outside of strings, numbers, and words. Return the number of read characters."""
        state, around = self._state, self._stack[-1]
        if state in ("value", "first value"):
            if mark in "{[":
                self._stack.append(self._start("{" if mark == "{" else "["))
                self._state = "first key" if mark == "{" else "first value"
                self.is_broken = len(self._stack) > LIMITS.max_depth + 1
            elif mark == '"':
                self._string = self._start('"')
                self._state = "string"
            elif mark == "]" and state == "first value":
                self._close()
            else:
                self._state, self._pieces = "atom", []
                self.is_broken = _ATOM.match(mark) is None
                return 0
        elif mark == '"' and state in ("key", "first key"):
            self._state, self._pieces = "string", []
        elif mark == ":" and state == "colon":
            self._state = "value"
        elif mark == "," and state == "after":
            self._state = "key" if around.kind == "{" else "value"
        elif state in ("after", "first key") and mark == ("}" if around.kind == "{" else "]"):
            self._close()
        else:
            self.is_broken = True
        return 1

    def _read_string(self, text: str, at: int) -> int:
        found = _STRING.match(text, at)
        end = at if found is None else found.end()
        if end > at:
            written = text[at:end]
            piece = str(parse_json_unsafe(f'"{written}"')) if "\\" in written else written
            if self._string is None:
                self._pieces.append(piece)
            else:
                if self._listener is not None:
                    self._listener.add(piece)
                self._string.members.append(piece)
                self._string.ends.append(self._grow())
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string()
        elif _CUT.fullmatch(text, end):
            self._rest = text[end:]
            return len(text)
        else:
            self.is_broken = True
        return end + 1

    def _end_string(self) -> None:
        string, self._string = self._string, None
        if string is not None:
            string.end = self._next
            self._complete(string.whole, string.parts, string.pointer, began=True)
            return
        around, self._state = self._stack[-1], "colon"
        around.key = "".join(self._pieces)
        if self._members is not None and around.key in around.members:
            pointer = pointer_to(around.pointer or "", around.key)
            self.faults = (Fault(pointer, "a property that occurs once", "a second property of this name"),)

    def _read_atom(self, text: str, at: int) -> int:
        found = _ATOM.match(text, at)
        end = at if found is None else found.end()
        self._pieces.append(text[at:end])
        if end < len(text):
            self._end_atom("".join(self._pieces))
        return end

    def _end_atom(self, written: str) -> None:
        try:
            value = parse_json_unsafe(written)
        except DecodeError:
            self.is_broken = True
            return
        parts, pointer = self._location()
        self._complete(value, parts, pointer)

    # -- members

    def _grow(self) -> int:
        self.version = self._next
        return self._next

    def _location(self) -> tuple[tuple[Part, ...], str | None]:
        """Return the schemas and the location of the next member."""
        around = self._stack[-1]
        if around is self._top:
            return around.parts, ""
        key = around.key if around.kind == "{" else len(around.members)
        pointer = "" if around.pointer is None else around.pointer
        parts = _NO_PARTS if self._members is None else self._members.inside(around.parts, key)
        return parts, pointer_to(pointer, key)

    def _start(self, kind: OpenKind) -> _Opened:
        parts, pointer = self._location()
        around = self._stack[-1]
        if self._members is not None and kind != '"':
            parts = self._members.narrow(parts, kind)
        if self._listener is not None:
            self._listener.start(kind, around.key if around.kind == "{" else len(around.members))
        opened = _Opened(kind, self._next, around.key, parts, pointer)
        if _may_be(parts, kind):  # otherwise the value never shows this member
            around.inner[len(around.ends)] = opened
            self._grow()
        return opened

    def _close(self) -> None:
        closed = self._stack.pop()
        closed.end = self._next
        self._complete(closed.members, closed.parts, closed.pointer, began=True)

    def _complete(self, value: Any, parts: tuple[Part, ...], pointer: str | None, *, began: bool = False) -> None:
        around = self._stack[-1]
        if self._listener is not None:
            self._listener.end(value, around.key if around.kind == "{" else len(around.members), began=began)
        is_complete = around is self._top
        if self._members is not None and not is_complete:  # decoding judges the whole value
            self.faults = tuple(self._members.faults(parts, value, pointer or ""))
            if self.faults:
                return
        if around.kind == "{":
            around.members[around.key] = value
        else:
            around.members.append(value)
        around.ends.append(self._grow())
        self._state = "end" if is_complete else "after"


# -- the schemas of members


@final
class _Members:
    """The schemas of the members of a document. A member can have more schemas, and all of them apply.

    Members whose schemas depend on other members have no schema here: fxai validates them with the enclosing member.
    """

    def __init__(self, root: Part) -> None:
        self._known: dict[tuple[int, ...], tuple[Part, ...]] = {}
        self.root = self._all((root,))

    def inside(self, parts: tuple[Part, ...], key: str | int) -> tuple[Part, ...]:
        """Return the schemas of a member of a value."""
        found = [(part, inner) for part in parts if (inner := _inner_schema(part, key)) is not _ABSENT]
        if not found:
            return _NO_PARTS
        ids = tuple([id(inner) if is_object(inner) else int(bool(inner)) for _, inner in found])
        known = self._known.get(ids)
        if known is None:
            known = self._known[ids] = self._all(part.under(inner) for part, inner in found)
        return known

    def narrow(self, parts: tuple[Part, ...], kind: OpenKind) -> tuple[Part, ...]:
        """Return the schemas of an object or an array, also of the only alternative of a union that can be valid."""
        more: list[Part] = []
        for part in parts:
            for keyword in ("anyOf", "oneOf"):
                choices = part.schema.get(keyword) if is_object(part.schema) and keyword in part.clauses else None
                if is_array(choices):
                    fitting = [one for one in map(part.under, choices) if _may_be(self._all((one,)), kind)]
                    more += fitting if len(fitting) == 1 else ()
        return (*parts, *self.narrow(self._all(more), kind)) if more else parts

    def faults(self, parts: tuple[Part, ...], value: Any, pointer: str) -> Iterator[Fault]:
        """Yield the validation errors of a complete member by its first schema that refuses it."""
        for part in parts:
            if type(value) in part.free or part.accepts(value):
                continue
            from fxai.schema.validation import find_faults

            for fault in find_faults(part, value):
                yield msgspec.structs.replace(fault, pointer=pointer + fault.pointer)
            return

    def _all(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """Return the parts, and the parts that apply with them: the targets of references and each `allOf`."""
        found: dict[int, Part] = {}
        pending = list(parts)
        while pending and len(found) < _MOST_APPLIED:
            part = pending.pop()
            if id(part) in found:
                continue
            found[id(part)] = part
            pending += [follow(None) for follow in part.follows]
            if "allOf" in part.clauses:
                pending += map(part.under, part.schema["allOf"])
        return tuple(found.values())


def _inner_schema(part: Part, key: str | int) -> Any:
    """Return the schema of a member that depends on its key alone, or `_ABSENT`."""
    schema = part.schema
    if not is_object(schema) or (part.dialect.ref_alone and "$ref" in schema):
        return _ABSENT
    if isinstance(key, str):
        named = schema.get("properties", {})
        if key in named:
            return named[key]
        return _ABSENT if "patternProperties" in schema else schema.get("additionalProperties", _ABSENT)
    items = schema.get("items", _ABSENT)
    first = items if is_array(items) else schema.get("prefixItems", ())
    if key < len(first):
        return first[key]
    return schema.get("additionalItems", _ABSENT) if is_array(items) else items


def _may_be(parts: tuple[Part, ...], kind: OpenKind) -> bool:
    name = _TYPES[kind]
    for part in parts:
        schema = part.schema if is_object(part.schema) else {}
        types = schema.get("type", name)
        if part.schema is False or name not in ([types] if isinstance(types, str) else types):
            return False
    return True
