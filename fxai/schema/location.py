"""Locations in a JSON Schema document. Use this module to find inner schemas and the targets of references.

- `subschemas` and `walk` iterate over the schemas inside a schema.
- `References` finds the target of a `$ref`.
- A `Site` is a schema with its JSON pointer. A tuple of sites contains all schemas of a value.
- `DocumentReader.together` follows the `$ref` and `allOf` of these schemas and returns one flat list, within a budget.

>>> reader = DocumentReader({"allOf": [{"$ref": "#/$defs/a"}, {"maximum": 9}], "$defs": {"a": {"type": "integer"}}})
>>> [site.pointer for site in reader.together((reader.root,))]
['', '/allOf/0', '/$defs/a', '/allOf/1']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any, Final, final
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from fxai.schema.budget import MAX_LOCATIONS, MAX_POINTER, MAX_SCHEMAS, Work
from fxai.schema.data import JsonObject, every_object, is_array, is_object
from fxai.schema.dialect import LATEST, Dialect, dialect_of, is_metaschema
from fxai.schema.fault import SchemaError, pointer_to, pointer_tokens

ANNOTATIONS: Final = frozenset(("title", "description", "default", "examples", "deprecated"))
"""The keywords that describe a value and do not restrict it."""

AT_SAME_VALUE: Final = frozenset(
    ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
)
"""The keywords whose schemas apply to the same value as the schema around them."""

_SILENT: Final = frozenset(
    ("$schema", "$id", "id", "$comment", "$anchor", "$defs", "definitions", "$vocabulary", "readOnly", "writeOnly")
)
_NAMED: Final = ("named schemas", "patterned schemas", "dependencies")
_NAMES: Final = frozenset(("$id", "id", "$anchor", "$dynamicAnchor"))
_INDEX: Final = "0|[1-9][0-9]{0,8}"
_MOST_FOLLOWED: Final = 200  # the maximum number of consecutive references, and of levels of schemas

MISSING: Final = object()
"""The target of a pointer or a reference that leads to no value."""


# ---- inner schemas


def subschemas(schema: JsonObject, dialect: Dialect) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the schemas directly inside a schema, as keyword, JSON pointer from the outer schema, and schema."""
    for keyword, value in schema.items():
        shape = dialect.keywords.get(keyword, "")
        at = pointer_to("", keyword)
        if is_array(value) and "schemas" in shape:
            for index, item in enumerate(value):
                yield keyword, pointer_to(at, index), item
        elif is_object(value) and shape in _NAMED:
            for name, item in value.items():
                if not is_array(item):
                    yield keyword, pointer_to(at, name), item
        elif isinstance(value, (dict, bool)) and shape.startswith("schema"):
            yield keyword, at, value


@final
class Subschema(msgspec.Struct, frozen=True):
    """A schema of a document with its location."""

    pointer: str
    """The JSON pointer from the root of the document."""
    schema: JsonObject
    dialect: Dialect
    resource: str
    """The base URI of the references in the schema."""
    inside: tuple[tuple[str, str, Any], ...]
    """The schemas directly inside the schema, as `subschemas` returns them."""
    keyword: str = ""
    """The keyword that contains the schema. Empty at the root."""
    around: tuple[JsonObject, ...] = ()
    """The enclosing schemas that apply to the same value, the nearest schema first."""

    @property
    def name(self) -> str | None:
        """The name of the property, or None if the schema is not the schema of a property."""
        return pointer_tokens(self.pointer)[-1] if self.keyword == "properties" else None


def walk(document: Any) -> Iterator[Subschema]:
    """Iterate over the schemas of a document that are objects, starting with the root.

    The function skips a definition that equals the root. The document can be unusable. If it is beyond the budget, the
    function returns only the first schemas. It ignores an unknown `$schema`.

    >>> [inner.pointer for inner in walk({"properties": {"a": {"items": {}}}})]
    ['', '/properties/a', '/properties/a/items']
    """
    if not is_object(document):
        return iter(())
    names, defined = References(Site("", document)), document.get("$defs")
    bare = {keyword: value for keyword, value in document.items() if keyword != "$defs"}
    copies = [inner for inner in (defined.values() if is_object(defined) else ()) if inner == bare]
    return islice(names.walk(document, skip=map(id, copies)), MAX_SCHEMAS)


# ---- targets of references


def value_at(value: Any, tokens: Iterable[str]) -> Any:
    """Return the value at the tokens of a JSON pointer, or `MISSING` if no value exists there."""
    for token in tokens:
        if is_object(value) and token in value:
            value = value[token]
        elif is_array(value) and re.fullmatch(_INDEX, token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


def lookup(reference: str, document: Any) -> Any:
    """Return the target of a reference by JSON pointer (`#/…`), or `MISSING` if no value exists there."""
    return value_at(document, pointer_tokens(unquote(reference.removeprefix("#"))))


def target(schema: Any, document: Any) -> Any:
    """Follow the consecutive `$ref` of a schema and return the last target. Return any other schema unchanged.

    Return `MISSING` if a reference leads to no value. The function does not follow references by `$id` and `$anchor`.

    >>> target({"$ref": "#/$defs/a"}, {"$defs": {"a": {"type": "string"}}})
    {'type': 'string'}
    """
    for _ in range(_MOST_FOLLOWED):
        reference = schema.get("$ref") if is_object(schema) else None
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            break
        schema = lookup(reference, document)
    return schema


def absolute(resource: str, reference: str) -> str:
    """Return the absolute form of a reference. A fragment extends the URI of its resource, for any scheme."""
    return resource + reference if reference.startswith("#") else urljoin(resource, reference)


def names_inside(document: Any) -> bool:
    """Return True if schemas inside a document can have names, such as `$id` and `$anchor`."""
    return any(one is not document and not _NAMES.isdisjoint(one) for one in every_object(document))


@final
class Site(msgspec.Struct, frozen=True, eq=False):
    """A schema of a document. It hides keywords that other code handles."""

    pointer: str
    schema: Any
    hidden: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """The identity of the site in its document."""
        return (self.pointer, self.hidden)

    def get(self, keyword: str, default: Any = None) -> Any:
        """Return the value of a keyword, or `default` if the schema does not have the keyword or hides it."""
        return self.schema.get(keyword, default) if keyword in self else default

    def __contains__(self, keyword: str) -> bool:
        return is_object(self.schema) and keyword in self.schema and keyword not in self.hidden

    def under(self, *tokens: str | int) -> Site:
        """Return the inner schema at a path."""
        schema, pointer = self.schema, self.pointer
        for token in tokens:
            schema, pointer = schema[token], pointer_to(pointer, token)
        return Site(pointer, schema)

    @property
    def leading(self) -> int:
        """The number of items at the start of an array that have a separate schema."""
        items = self.get("items")
        return len(items if is_array(items) else self.get("prefixItems", ()))

    def item(self, index: int) -> Site | None:
        """Return the schema of the item at an index, or None if the item has no schema."""
        first, rest = ("items", "additionalItems") if is_array(self.get("items")) else ("prefixItems", "items")
        if index < self.leading:
            return self.under(first, index)
        return next((self.under(keyword) for keyword in (rest, "unevaluatedItems") if keyword in self), None)

    def without(self, *keywords: str) -> Site:
        """Return the site with additional hidden keywords."""
        return Site(self.pointer, self.schema, self.hidden.union(keywords))


Location = tuple[Site, ...]
"""All schemas of a value. A value must satisfy each of them. An empty place accepts any value."""


@final
class References:
    """The schemas of a document, with their names, such as `$id` and `$anchor`, and the targets of references.

    fxai fetches nothing. `known` contains the schemas that a walk has reached, by identity.
    """

    def __init__(self, root: Site) -> None:
        self.known: dict[int, Subschema] = {}
        self._resources: dict[str, Site] = {"": root}
        self._anchors: dict[tuple[str, str], Site] = {}

    def enter(self, schema: Any, pointer: str = "", resource: str = "", dialect: Dialect = LATEST) -> None:
        """Walk through a schema to the end."""
        for _ in self.walk(schema, pointer, resource, dialect):
            pass

    def walk(
        self, schema: Any, pointer: str = "", resource: str = "", dialect: Dialect = LATEST, skip: Iterable[int] = ()
    ) -> Iterator[Subschema]:
        """Iterate over a schema and the schemas inside it that are objects, each only once, and record their names.

        `resource` and `dialect` apply around the schema. The walk ignores an unknown `$schema`, and does not enter the
        schemas with an identity in `skip`.
        """
        skipped = frozenset(skip)
        pending: list[tuple[Any, str, Subschema | None, str]] = [(schema, pointer, None, "")]
        while pending:
            schema, pointer, outer, keyword = pending.pop()
            if not is_object(schema) or id(schema) in self.known or id(schema) in skipped:
                continue
            base, own = (resource, dialect) if outer is None else (outer.resource, outer.dialect)
            if "$schema" in schema or not _NAMES.isdisjoint(schema):
                with suppress(SchemaError):
                    own = dialect_of(schema, own)
                base = self._name(Site(pointer, schema), base, own)
            around = () if outer is None or keyword not in AT_SAME_VALUE else (outer.schema, *outer.around)
            inside = (*subschemas(schema, own),)
            found = self.known[id(schema)] = Subschema(pointer, schema, own, base, inside, keyword, around)
            yield found
            if pointer.count("/") <= _MOST_FOLLOWED and len(pointer) <= MAX_POINTER:
                pending += [(inner, pointer + at, found, keyword) for keyword, at, inner in reversed(inside)]

    def _name(self, site: Site, resource: str, dialect: Dialect) -> str:
        """Record the names of a schema. Return the base URI of the references in the schema and inside it."""
        own = site.schema.get(dialect.id_keyword)
        hidden = dialect.ref_alone and "$ref" in site.schema
        if isinstance(own, str) and not hidden and is_reference(own, resource):
            uri, fragment = urldefrag(absolute(resource, own))
            if uri != resource or not fragment:
                resource = uri
                self._resources.setdefault(resource, site)
            if fragment:
                self._anchors[resource, fragment] = site
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in dialect.keywords and isinstance(anchor := site.schema.get(keyword), str):
                self._anchors[resource, anchor] = site
        return resource

    def resource_of(self, schema: object, default: str = "") -> str:
        """Return the base URI of the references in a schema, or `default` for an unknown schema."""
        known = self.known.get(id(schema))
        return default if known is None else known.resource

    def locate(self, uri: str) -> tuple[Site, list[str]] | None:
        """Return the named schema of an absolute reference, and the path from it. Return None for an unknown name."""
        resource, fragment = urldefrag(uri)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            named = self._anchors.get((resource, fragment))
            return None if named is None else (named, [])
        start = self._resources.get(resource)
        return None if start is None else (start, pointer_tokens(fragment))

    def dynamic(self, resource: str, name: str) -> JsonObject | None:
        """Return the schema of a resource with a `$dynamicAnchor`, or with `$recursiveAnchor` if the name is empty."""
        site = self._anchors.get((resource, name)) if name else self._resources.get(resource)
        mark, value = ("$dynamicAnchor", name) if name else ("$recursiveAnchor", True)
        return site.schema if site is not None and site.get(mark) == value else None

    def target(self, resource: str, reference: str, dialect: Dialect) -> Any:
        """Return the target of a reference after a walk through it, or `MISSING` without a target."""
        uri = absolute(resource, reference)
        found, base = self.find(uri), urldefrag(uri).url
        if found is None:  # a metaschema of `jsonschema`
            contents: Any = import_module("jsonschema_specifications").REGISTRY.contents(base)
            self.enter(contents, f"metaschema {base}", base, dialect_of(contents))
            found = self.find(uri)
        self.enter(found, f"reference {uri}", base, dialect)
        return found

    def find(self, uri: str) -> Any:
        """Return the target of an absolute reference, None for a bundled metaschema, or `MISSING` without a target."""
        located = self.locate(uri)
        if located is None:
            resource = urldefrag(uri).url
            return None if resource not in self._resources and is_metaschema(resource) else MISSING
        return value_at(located[0].schema, located[1])


def is_reference(reference: str, resource: str) -> bool:
    """Return True if a reference and its resource form a URI."""
    try:
        urldefrag(absolute(resource, reference))
    except ValueError:  # a host in brackets that is not an address
        return False
    return True


# ---- all schemas of a value


class LocationError(Exception):
    """An error for a schema that fxai cannot follow or express: its JSON pointer, the keyword, and the reason."""

    def __init__(self, pointer: str, keyword: str, reason: str) -> None:
        super().__init__(pointer, keyword, reason)
        self.pointer: str = pointer
        self.keyword: str = keyword
        self.reason: str = reason


@final
class DocumentReader:
    """A reader of the places of a document, with one budget for all its work."""

    def __init__(self, document: Any) -> None:
        self.root: Site = Site("", document)
        self.dialect: Dialect = dialect_of(document)
        self.steps: Work = Work(MAX_LOCATIONS)
        """The budget. The methods raise an `ExhaustedError` if they exceed it."""
        self._evaluated: dict[str, set[str] | None] = {}
        self._references = References(self.root)
        if names_inside([document]):
            self._references.enter(document)

    def follow(self, site: Site) -> Site:
        """Return the target of the `$ref` of a site.

        Raises:
            LocationError: If the reader does not support the reference, or if the target does not exist.
        """
        reference: str = site.get("$ref")
        located = self._references.locate(absolute(self._references.resource_of(site.schema), reference))
        if located is None:
            raise LocationError(site.pointer, "$ref", f"{reference!r} names a schema outside, so refer to $defs")
        found, tokens = located
        try:
            for token in tokens:
                found = found.under(int(token) if is_array(found.schema) else token)
        except (LookupError, ValueError, TypeError):
            raise LocationError(site.pointer, "$ref", f"{reference!r} leads to no schema") from None
        return found

    def alone(self, site: Site) -> bool:
        """Return True if a site has only a `$ref`."""
        return "$ref" in site and (self.dialect.ref_alone or not self._beside(site, _SILENT))

    def has_words_only(self, site: Site) -> bool:
        """Return True if a site has only a `$ref` and annotations."""
        return "$ref" in site and not self._beside(site, _SILENT | ANNOTATIONS)

    def _beside(self, site: Site, but: frozenset[str]) -> bool:
        return any(k in self.dialect.keywords and k not in but and k in site for k in site.schema if k != "$ref")

    def holds(self, site: Site) -> bool:
        """Return True if a site restricts its value by other keywords than `$ref` and `allOf`."""
        return self._beside(site, _SILENT | ANNOTATIONS | {"allOf"})

    def together(self, location: Location) -> list[Site]:
        """Return every schema that a value of the place must satisfy, including the targets of `$ref` and `allOf`.

        Raises:
            LocationError: If the reader cannot follow a reference.
        """
        found: dict[tuple[str, frozenset[str]], Site] = {}
        pending = [*reversed(location)]
        while pending:
            site = pending.pop()
            self.steps.take(1, site.pointer)
            if site.key in found:
                continue
            hidden = self.dialect.ref_alone and "$ref" in site
            if not hidden:
                found[site.key] = site
                pending += [site.under("allOf", index) for index in reversed(range(len(site.get("allOf", ()))))]
            for keyword in ("$dynamicRef", "$recursiveRef"):
                if keyword in site:
                    raise LocationError(site.pointer, keyword, "the target depends on the validation, so use $ref")
            if "$ref" in site:
                pending.append(self.follow(site))
        return list(found.values())

    def allows(self, site: Site, name: str) -> bool:
        """Return False if `unevaluatedProperties` is false and no schema that applies declares the name."""
        if site.get("unevaluatedProperties") is not False:
            return True
        if site.pointer not in self._evaluated:
            names = self.declared_names(Site(site.pointer, site.schema))
            is_open = any(one.startswith(f"{site.pointer}/") for one in names)
            self._evaluated[site.pointer] = None if is_open else names
        known = self._evaluated[site.pointer]
        return known is None or name in known

    def declared_names(self, site: Site) -> set[str]:
        """Return the names of properties that a schema and its applied schemas declare for the same value."""
        names, seen, pending = set[str](), set[str](), [site]
        while pending:
            site = pending.pop()
            self.steps.take(1, site.pointer)
            if site.pointer in seen or not is_object(site.schema):
                continue
            seen.add(site.pointer)
            names.update(site.get("properties", {}))
            for keyword in ("patternProperties", "additionalProperties", "propertyNames"):
                if isinstance(site.get(keyword), dict):
                    names.add(f"{site.pointer}/{keyword}")  # marks other properties
            if "$ref" in site:
                pending.append(self.follow(site))
            for keyword, at, inner in subschemas(site.schema, self.dialect):
                if keyword in AT_SAME_VALUE and keyword in site:
                    pending.append(Site(site.pointer + at, inner))
        return names
