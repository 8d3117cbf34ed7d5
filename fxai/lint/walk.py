"""A walk over a document: every schema inside it, with its place and the schemas around it.

>>> [place.pointer for place in places({"properties": {"a": {"items": {}}}})]
['', '/properties/a', '/properties/a/items']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import msgspec

from fxai.schema.budget import MAX_POINTER, MAX_SCHEMAS
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import LATEST, Dialect, dialect_of
from fxai.schema.document import subschemas
from fxai.schema.fault import SchemaError, pointer_tokens

__all__ = ["Place", "places", "target"]

_IN_PLACE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"))
_ENDLESS: Final = 200


@final
class Place(msgspec.Struct, frozen=True):
    """A schema of a document, and where it stands.

    Attributes:
        pointer: where, from the document's root.
        schema: the schema.
        dialect: the draft that it is written in.
        keyword: the keyword that it stands under; empty at the root.
        name: the property's name, where it is a property.
        around: the schema around it, and so on, that says something of the same value; nearest first.
    """

    pointer: str
    schema: dict[str, Any]
    dialect: Dialect
    keyword: str = ""
    name: str | None = None
    around: tuple[dict[str, Any], ...] = ()


def places(document: Any) -> Iterator[Place]:
    """Each schema of a document that is an object, the root first; a definition that repeats the root is left out."""
    if not is_object(document):
        return
    bare = {keyword: value for keyword, value in document.items() if keyword != "$defs"}
    pending = [Place("", document, _dialect(document, LATEST))]
    for _ in range(MAX_SCHEMAS):  # a document that is not usable may hold more
        if not pending:
            return
        place = pending.pop()
        yield place
        if place.pointer.count("/") > _ENDLESS or len(place.pointer) > MAX_POINTER:
            continue
        inside: list[Place] = []
        for keyword, at, inner in subschemas(place.schema, place.dialect):
            if not is_object(inner) or (keyword == "$defs" and inner == bare):
                continue
            around = (place.schema, *place.around) if keyword in _IN_PLACE else ()
            name = pointer_tokens(at)[-1] if keyword == "properties" else None
            dialect = _dialect(inner, place.dialect)
            inside.append(Place(place.pointer + at, inner, dialect, keyword, name, around))
        pending += reversed(inside)


def _dialect(schema: dict[str, Any], around: Dialect) -> Dialect:
    try:
        return dialect_of(schema, around)
    except SchemaError:
        return around


def target(schema: Any, document: Any) -> Any:
    """The schema that a `$ref` to a place in the document leads to; for any other schema, the schema itself."""
    for _ in range(_ENDLESS):
        reference = schema.get("$ref") if is_object(schema) else None
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return schema
        schema = document
        for token in pointer_tokens(reference[1:]):
            if is_object(schema):
                schema = schema.get(token)
            elif is_array(schema) and token.isdigit() and int(token) < len(schema):
                schema = schema[int(token)]
            else:
                return None
    return schema
