"""Answers that are held to a schema: how a request asks for one, and the way back to what the schema says.

A model with structured outputs is asked in its own way, by the strict form of the schema. One without, or a schema
that has no strict form, is asked by a tool whose parameters are the answer. Either takes an object alone: a schema of
anything else is asked for as the one member of an object.

>>> numbers = JsonSchema.of({"type": "array", "items": {"type": "integer"}})
>>> answer = Answer.of(numbers)
>>> answer.text('{"value": [1, 2]}')
'[1,2]'
"""

from __future__ import annotations

from typing import Any, Final, cast, final

import msgspec
from returns.result import Success

from fxai.schema.data import is_array, is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, Obstacle, StrictForm, strict_form

__all__ = ["Answer"]

_MEMBER: Final = "value"
_DATA: Final = ("enum", "const", "default", "examples")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_KEPT: Final = ("#/$defs/", "#/definitions/")


@final
class Answer(msgspec.Struct, frozen=True):
    """An answer that is held to a schema.

    Attributes:
        asked: The schema that is asked for: of an object.
        wrapped: Whether the answer is a member of that object.
        tool: The tool whose parameters are the answer, by its name on the wire; None where the model needs none.
        obstacles: Why the schema has no strict form; none where it has one.
    """

    asked: JsonSchema
    wrapped: bool = False
    tool: str | None = None
    obstacles: tuple[Obstacle, ...] = ()

    @staticmethod
    def of(schema: JsonSchema) -> Answer:
        """The answer that a schema describes, in the model's own way where the schema has a strict form."""
        found = strict_form(schema, ANTHROPIC)
        if isinstance(found, Success):
            return Answer(schema)
        if schema.get("type") == "object":
            return Answer(schema, obstacles=found.failure())
        wrapped = _wrapped(schema)
        again = strict_form(wrapped, ANTHROPIC)
        return Answer(wrapped, wrapped=True, obstacles=() if isinstance(again, Success) else again.failure())

    def by_tool(self, name: str) -> Answer:
        """The same answer, as the parameters of a tool."""
        if self.asked.get("type") == "object":
            return msgspec.structs.replace(self, tool=name)
        return msgspec.structs.replace(self, asked=_wrapped(self.asked), wrapped=True, tool=name)

    @property
    def form(self) -> StrictForm | None:
        """Its strict form; None where it is the parameters of a tool, or has none."""
        return None if self.tool is not None or self.obstacles else strict_form(self.asked, ANTHROPIC).unwrap()

    @property
    def document(self) -> dict[str, Any]:
        """The schema as it is sent, a fresh plain copy."""
        form = self.form
        return cast("dict[str, Any]", (self.asked if form is None else form.document).to_dict())

    @property
    def verbatim(self) -> bool:
        """Whether what the model writes is the answer as it stands."""
        form = self.form
        return form is not None and not self.wrapped and form.document == self.asked

    def value(self, written: Any) -> Any:
        """What the schema says, of what the model wrote; what is not in that form stays as it is."""
        form = self.form
        value = written if form is None else form.back(written)
        return value[_MEMBER] if self.wrapped and is_object(value) and list(value) == [_MEMBER] else value

    def text(self, written: str) -> str:
        """The answer's JSON text, of the text that the model wrote; what is no JSON stays as it is."""
        if self.verbatim:
            return written
        try:
            plain = msgspec.json.decode(written)
        except (msgspec.DecodeError, RecursionError):
            return written
        value = self.value(plain)
        return written if value == plain else msgspec.json.encode(value).decode()


def _wrapped(schema: JsonSchema) -> JsonSchema:
    """The schema of an object with one member that is an instance of `schema`."""
    inner: Any = schema.to_dict()
    held: dict[str, Any] = {}
    if is_object(inner) and "$id" not in inner:  # with one, its references are to itself wherever it stands
        held = {key: inner.pop(key) for key in ("$schema", "$defs", "definitions") if key in inner}
        inner, held = _moved(inner), _moved(held)
    own = {"type": "object", "properties": {_MEMBER: inner}, "required": [_MEMBER], "additionalProperties": False}
    return JsonSchema.trusted({**own, **held})


def _moved(schema: Any) -> Any:
    """The schema with its references to the root as references to the member."""
    if is_array(schema):
        return [_moved(one) for one in schema]
    if not is_object(schema):
        return schema
    return {key: _moved_at(key, one) for key, one in schema.items()}


def _moved_at(key: str, one: Any) -> Any:
    """What stands at a keyword; under some of them, the names are not keywords."""
    if key in _NAMED and is_object(one):
        return {name: _moved(schema) for name, schema in one.items()}
    return one if key in _DATA else _target(one) if key == "$ref" else _moved(one)


def _target(reference: Any) -> Any:
    local = isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))
    if not local or reference.startswith(_KEPT):
        return reference
    return f"#/properties/{_MEMBER}{reference[1:]}"
