"""Structured output: convert a JSON Schema to the form that a provider accepts for answers. Providers use this module.

A provider accepts only the schema of an object, and in strict mode only some keywords. fxai wraps any other schema as
the single member of an object. If a model cannot enforce a schema, it must call a tool whose parameters are the answer.
fxai sends the schema of these parameters unchanged.

>>> from fxai.schema.strict import OPENAI
>>> form = AnswerForm.of(JsonSchema.of({"type": "array", "items": {"type": "integer"}}), OPENAI)
>>> form.document["properties"], form.text('{"value": [1, 2]}')
({'value': {'type': 'array', 'items': {'type': 'integer'}}}, '[1,2]')
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import islice
from typing import Any, Final, cast, final

import msgspec
from returns.result import Success

from fxai.messages.think_tag import without_thoughts
from fxai.schema.data import is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json
from fxai.schema.partial_json import JsonReader, OpenKind
from fxai.schema.request_form import RequestForm, RequestRules, request_form
from fxai.schema.strict import StrictForm, StrictRules, UnsupportedFeature, strict_form
from fxai.schema.strict.node import Node, Way, lead

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST: Final = 64  # the smallest limit of the providers
_MEMBER: Final = "value"
_WHERE: Final = f"/properties/{_MEMBER}"
_DATA: Final = ("enum", "const", "default", "examples")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_HELD: Final = ("$schema", "$defs", "definitions")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_KEPT: Final = ("#/$defs/", "#/definitions/")


@final
class AnswerForm(msgspec.Struct, frozen=True):
    """The form of an answer: the requested schema and the conversion back. It is immutable and picklable."""

    asked: JsonSchema
    """The requested schema before its conversion to the strict form."""
    rules: StrictRules
    """The rules of the provider for strict mode."""
    wrapped: bool = False
    """True if the answer is the single member of an object."""
    loose: bool = False
    """True if the request contains `asked` unchanged instead of its strict form."""
    tool: str | None = None
    """The name on the wire of the tool whose parameters are the answer, or None without a tool."""
    parameters: RequestRules | None = None
    """The rules of the API for the parameters of this tool."""
    unsupported: tuple[UnsupportedFeature, ...] = ()
    """The unsupported features of the schema with locations. Empty if it has a strict form."""

    @staticmethod
    def of(schema: JsonSchema, rules: StrictRules) -> AnswerForm:
        """Return the form of an answer for `schema`, which is the strict form of these rules if it exists."""
        found = strict_form(schema, rules)
        if isinstance(found, Success):
            return AnswerForm(schema, rules)
        if _is_of_objects(schema):
            return AnswerForm(schema, rules, loose=True, unsupported=found.failure())
        wrapped = _wrap(schema)
        again = strict_form(wrapped, rules)
        if isinstance(again, Success):
            return AnswerForm(wrapped, rules, wrapped=True)
        unsupported = tuple(
            [msgspec.structs.replace(one, pointer=one.pointer.removeprefix(_WHERE)) for one in again.failure()]
        )
        return AnswerForm(wrapped, rules, wrapped=True, loose=True, unsupported=unsupported)

    def loosen(self) -> AnswerForm:
        """Return the same answer with the schema unchanged, except that its root is an object."""
        if _is_of_objects(self.asked):
            return msgspec.structs.replace(self, loose=True)
        return msgspec.structs.replace(self, asked=_wrap(self.asked), wrapped=True, loose=True)

    def by_tool(self, name: str, taken: Container[str] = (), *, rules: RequestRules | None = None) -> AnswerForm:
        """Return the same answer as the parameters of a tool `name`, or of `name_2` and so on if the name is taken."""
        count, free = 1, name
        while free in taken:
            count += 1
            free = f"{name}_{count}"
        return msgspec.structs.replace(self.loosen(), tool=free, parameters=rules)

    @property
    def form(self) -> StrictForm | None:
        """The strict form in the request, or None."""
        return None if self.loose else strict_form(self.asked, self.rules).unwrap()

    @property
    def document(self) -> dict[str, Any]:
        """The schema in the request, as a new mutable copy."""
        form = self.form or self._as_parameters
        return cast("dict[str, Any]", (self.asked if form is None else form.document).to_dict())

    @property
    def _as_parameters(self) -> RequestForm | None:
        """The form of the schema as the parameters of a tool, or None if the API accepts the schema unchanged."""
        found = None if self.parameters is None else request_form(self.asked, self.parameters)
        return found.unwrap() if isinstance(found, Success) else None

    @property
    def verbatim(self) -> bool:
        """True if the text of the model is the answer itself, so that you can show it during streaming."""
        if self.wrapped:
            return False
        form = self.form
        if form is not None:
            return form.node is None
        parameters = self._as_parameters
        return parameters is None or parameters.document == self.asked

    def writer(self) -> AnswerWriter | None:
        """Return a writer that converts the text of an answer while it arrives, or None if it must be complete."""
        parameters = None if self.form is not None else self._as_parameters
        if parameters is not None and parameters.document != self.asked:
            return None
        return AnswerWriter(None if self.form is None else self.form.node, wrapped=self.wrapped)

    def value(self, written: Any) -> Any:
        """Return the value of the answer from the model's value. Return any other value unchanged."""
        form = self.form or self._as_parameters
        value = written if form is None else form.back(written)
        return value[_MEMBER] if self.wrapped and is_object(value) and list(value) == [_MEMBER] else value

    def text(self, written: str) -> str:
        """Return the JSON text of the answer from the model's text. Return any other text unchanged.

        Reasoning in tags before the JSON stays before it.
        """
        if self.verbatim or not written.strip():
            return written
        for text in json_texts(written):
            read = parse_json(text)
            if isinstance(read, Success):
                plain = read.unwrap()
                value = self.value(plain)
                thoughts = written[: written.find(without_thoughts(written))]
                return written if value == plain else thoughts + msgspec.json.encode(value).decode()
        return written


# -- text around an answer

_OPENING: Final = re.compile(r"(`{3,}|~{3,})[ \t]*[\w.+-]*[ \t]*\n?")
_MOST_FENCES: Final = 16  # maximum number of fences to try as the start or the end of a block


def json_texts(text: str) -> Iterator[str]:
    r"""Yield the strings that can be the JSON of an answer: the answer itself, then the contents of its wrappers.

    Models wrap JSON in a fenced block, write a byte order mark or `<think>…</think>` before it, or do all of this.

    >>> list(json_texts('```json\n{"a": 1}\n```'))[-1]
    '{"a": 1}'
    """
    yield text
    bare = without_thoughts(text).strip("\ufeff \t\r\n")
    if bare and bare != text:
        yield bare
    for opening in islice(_OPENING.finditer(bare), _MOST_FENCES):
        fence, start = opening[1], opening.end()
        closing = re.compile(rf"\n[ \t]*{fence}")
        ends = [found.start() for found in islice(closing.finditer(bare, start), _MOST_FENCES)]
        last = bare.rfind(fence, start)
        ends += [end for end in (last, len(bare)) if end >= 0 and end not in ends]
        for end in ends:
            inside = bare[start:end].strip("\ufeff \t\r\n")
            if inside and (end < len(bare) or inside[-1] in "}]"):
                yield inside


def answer_name(schema: JsonSchema, name: str | None, otherwise: str) -> str:
    """Return the name of an answer on the wire: the title of its schema, its name, or `otherwise`.

    >>> answer_name(JsonSchema.of({"type": "object"}), "Größe[int]", "answer")
    'Gr_e_int'
    """
    title = schema.get("title")
    text = title if isinstance(title, str) else name or ""
    return _NO_NAME.sub("_", text)[:_LONGEST].strip("_") or otherwise


def _is_of_objects(schema: JsonSchema) -> bool:
    return bool(schema.get("type") == "object")


def _wrap(schema: JsonSchema) -> JsonSchema:
    inner: Any = schema.to_dict()
    held: dict[str, Any] = {}
    if is_object(inner) and "$id" not in inner:  # a schema with `$id` resolves its references itself
        held = {key: inner.pop(key) for key in _HELD if key in inner}
        inner, held = _move(inner), _move(held)
    own = {"type": "object", "properties": {_MEMBER: inner}, "required": [_MEMBER], "additionalProperties": False}
    return JsonSchema.trust({**own, **held})


def _move(schema: Any) -> Any:
    """Return the schema with references to the member instead of references to the root."""
    if is_array(schema):
        return [_move(one) for one in schema]
    if not is_object(schema) or "$id" in schema:
        return schema
    return {key: _move_at(key, one) for key, one in schema.items()}


def _move_at(key: str, one: Any) -> Any:
    """Convert the value of a keyword. The members of some keywords are names and not keywords."""
    if key in _NAMED and is_object(one):
        return {name: _move(schema) for name, schema in one.items()}
    return one if key in _DATA else _target(one) if key in _REFERENCES else _move(one)


def _target(reference: Any) -> Any:
    local = isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))
    if not local or reference.startswith(_KEPT):
        return reference
    return f"#{_WHERE}{reference[1:]}"


# -- the answer while it arrives


_CLOSERS: Final = {"{": "}", "[": "]", '"': '"'}


@final
class _Level(msgspec.Struct, eq=False):
    """An object, an array, or a string that the writer has started."""

    kind: OpenKind
    node: Node | None
    """The strict schema, or None if its values stay unchanged."""
    is_wrapper: bool = False
    count: int = 0


@final
class AnswerWriter:
    """A writer that converts the JSON text of an answer from the strict form of a provider while the text arrives.

    A strict form can wrap the answer in an object, and state null for an absent property. The writer converts objects
    and arrays member by member. It delays only values that it cannot convert before they are complete, such as members
    of unions. Create it with `AnswerForm.writer`.

    >>> from fxai.schema.strict import OPENAI
    >>> document = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    >>> writer = AnswerForm.of(JsonSchema.of(document), OPENAI).writer()
    >>> [writer.feed(piece) for piece in ('{"value": [{"a"', ': 1}, {"a":', ' null}', ']}')]
    ['[{', '"a":1},{', '}', ']']
    """

    def __init__(self, node: Node | None, *, wrapped: bool) -> None:
        """Create a writer. `node` is the strict schema of the text, or None if its values stay unchanged."""
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
        self._out.append(kind)
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
                self._out.append(_CLOSERS[level.kind])
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
        if node is not None and node.item is not None:
            item = _resolve(node.item)
            return item.back, item, False
        member = None if node is None or node.members is None else node.members.get(str(key))
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
    if node is None:
        return False
    return node.members is not None if kind == "{" else kind == "[" and node.item is not None


def _resolve(node: Node) -> Node:
    return node if node.target is None else _resolve(node.target())


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
