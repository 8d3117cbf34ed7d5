"""Relocation: a JSON Schema document is moved into another one, and each reference in it still finds its target.

Its definitions go to the definitions of the new document, under names that are free there. What it says in an older
dialect is said in 2020-12. Its own names (`$id`, `$anchor`) are gone: references go by pointers.

>>> city = JsonSchema.of({"$ref": "#/$defs/City", "$defs": {"City": {"type": "string"}}})
>>> shared: dict[str, Any] = {}
>>> relocated(city, "/properties/args", shared, "weather"), shared
({'$ref': '#/$defs/weather.City'}, {'weather.City': {'type': 'string'}})
"""

from __future__ import annotations

from typing import Any, Final, cast, final
from urllib.parse import quote

from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import LATEST, Dialect, dialect_of
from fxai.schema.fault import pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import References, Site, absolute, subschemas

__all__ = ["relocated"]

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES: Final = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
_BESIDE_REF: Final = ("title", "description", "default", "examples")  # what an old `$ref` hides, but says no rule
_SAFE: Final = "/~!$&'()*+,;=:@?-._"


def relocated(document: JsonSchema, to: str, definitions: dict[str, Any], prefix: str) -> Any:
    """The document as plain data that is the caller's own, as it stands at `to`.

    Args:
        document: what is moved.
        to: the JSON pointer where it will stand in the new document.
        definitions: the `$defs` of the new document, to which those of this one are added.
        prefix: what the names of its definitions begin with there.
    """
    plain = document.to_dict()
    if not is_object(plain):
        return plain
    return _Move(plain, to, definitions, prefix).done()


@final
class _Schema:
    """A schema on the way: what it is, where it will stand, and what its references start from."""

    __slots__ = ("dialect", "members", "resource", "to")

    def __init__(self, members: dict[str, Any], to: str, resource: str, dialect: Dialect) -> None:
        self.members = members
        self.to = to
        self.resource = resource
        self.dialect = dialect


@final
class _Move:
    """One relocation: every schema of the document by its identity, then each rewritten where it is."""

    def __init__(self, root: dict[str, Any], to: str, definitions: dict[str, Any], prefix: str) -> None:
        self._root = root
        self._to = to
        self._definitions = definitions
        self._prefix = prefix
        self._schemas: dict[int, _Schema] = {}
        self._places: dict[int, str] = {}
        self._references = References(Site(to, root))
        self._moved: dict[tuple[str, str], str] = {}  # where the definitions of the root go, by keyword and name

    def done(self) -> Any:
        """The document, moved."""
        dialect = dialect_of(self._root)
        hoisted = self._hoisted()
        self._walk(self._root, self._to, "", dialect)
        for name, schema in hoisted.items():
            self._walk(schema, pointer_to("/$defs", name), "", dialect)
        self._follow(dialect)
        rewritten = [(schema, self._pointers(schema)) for schema in self._schemas.values()]
        for schema, pointers in rewritten:
            _rewrite(schema, pointers)
        for keyword in ("$defs", "definitions"):
            if is_object(self._root.get(keyword)):
                del self._root[keyword]
        self._definitions.update(hoisted)
        return self._root

    def _hoisted(self) -> dict[str, Any]:
        """The definitions of the root, by their names in the new document."""
        hoisted: dict[str, Any] = {}
        for keyword in ("$defs", "definitions"):
            held = self._root.get(keyword)
            for name, schema in held.items() if is_object(held) else ():
                new = f"{self._prefix}.{name}"
                while new in self._definitions or new in hoisted:
                    new += "_"
                hoisted[new] = schema
                self._moved[keyword, name] = pointer_to("/$defs", new)
                if is_object(schema):
                    self._places[id(schema)] = self._moved[keyword, name]
        return hoisted

    def _walk(self, schema: Any, to: str, resource: str, around: Dialect) -> None:
        if not is_object(schema) or id(schema) in self._schemas:
            return
        dialect = dialect_of(schema, around)
        resource = self._references.enter(Site(to, schema), resource, dialect)
        self._schemas[id(schema)] = _Schema(schema, to, resource, dialect)
        self._places[id(schema)] = to
        for keyword, at, inner in subschemas(schema, dialect):
            below = at.removeprefix(pointer_to("", keyword))
            place = pointer_to(to, _modern(schema, keyword, dialect)) + below
            self._walk(inner, self._places.get(id(inner), place), resource, dialect)

    def _follow(self, dialect: Dialect) -> None:
        """Walks what references lead to and no keyword holds, such as `#/components/City`."""
        waiting = list(self._schemas.values())
        while waiting:
            schema = waiting.pop()
            for keyword in _REFERENCES:
                target, to = self._target(schema, schema.members.get(keyword))
                if is_object(target) and id(target) not in self._schemas and to is not None:
                    known = set(self._schemas)
                    self._walk(target, to, schema.resource, dialect)
                    waiting += [found for at, found in self._schemas.items() if at not in known]

    def _target(self, schema: _Schema, reference: object) -> tuple[Any, str | None]:
        """What a reference leads to, and where that will stand; None for a metaschema."""
        if not isinstance(reference, str):
            return None, None
        located = self._references.locate(absolute(schema.resource, reference))
        if located is None:
            return None, None
        value, place, tokens = located[0].schema, located[0].pointer, located[1]
        if value is self._root and tuple(tokens[:2]) in self._moved:
            place = self._moved[tokens[0], tokens[1]]
            value, tokens = value[tokens[0]][tokens[1]], tokens[2:]
        return self._inside(value, place, tokens)

    def _inside(self, value: Any, place: str, tokens: list[str]) -> tuple[Any, str]:
        """What stands at a path from `value`, and where that will stand."""
        for token in tokens:
            known = self._schemas.get(id(value))
            keyword = token if known is None else _modern(value, token, known.dialect)
            value = value[int(token)] if is_array(value) else value[token]
            place += pointer_to("", keyword)
            if is_object(value):
                place = self._places.get(id(value), place)
        return value, place

    def _pointers(self, schema: _Schema) -> list[str]:
        """Where the references of a schema will lead."""
        pointers: list[str] = []
        for keyword in _REFERENCES:
            reference = schema.members.get(keyword)
            if isinstance(reference, str) and keyword in schema.dialect.keywords:
                _, place = self._target(schema, reference)
                pointers.append(reference if place is None else "#" + quote(place, safe=_SAFE))
        return pointers


def _rewrite(schema: _Schema, pointers: list[str]) -> None:
    members = schema.members
    if schema.dialect.ref_alone and "$ref" in members:
        for keyword in [k for k in members if k not in ("$ref", *_BESIDE_REF, "$defs", "definitions")]:
            del members[keyword]
    for keyword in (*_NAMES, *_REFERENCES, schema.dialect.id_keyword):
        members.pop(keyword, None)
    if pointers:
        members["$ref"] = pointers[0]
    if pointers[1:]:
        members["allOf"] = [*members.get("allOf", ()), *({"$ref": pointer} for pointer in pointers[1:])]
    if schema.dialect is not LATEST:
        _modernise(members)


def _modern(schema: dict[str, Any], keyword: str, dialect: Dialect) -> str:
    """What 2020-12 calls a keyword that holds schemas."""
    if dialect is LATEST:
        return keyword
    if is_array(schema.get("items")):
        keyword = {"items": "prefixItems", "additionalItems": "items"}.get(keyword, keyword)
    return "dependentSchemas" if keyword == "dependencies" else keyword


def _modernise(members: dict[str, Any]) -> None:
    """Says in 2020-12 what an older dialect said."""
    for bound in ("Maximum", "Minimum"):
        exclusive = members.get(f"exclusive{bound}")
        if isinstance(exclusive, bool):
            del members[f"exclusive{bound}"]
            if exclusive:
                members[f"exclusive{bound}"] = members.pop(bound.lower())
    if is_array(members.get("items")):
        members["prefixItems"] = members.pop("items")
        if "additionalItems" in members:
            members["items"] = members.pop("additionalItems")
    dependencies = members.pop("dependencies", None)
    if is_object(dependencies):
        listed = {name: given for name, given in dependencies.items() if is_array(given)}
        schemas = {name: given for name, given in dependencies.items() if not is_array(given)}
        members |= cast("dict[str, Any]", {"dependentRequired": listed} if listed else {})
        members |= {"dependentSchemas": schemas} if schemas else {}
