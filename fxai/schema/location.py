"""Locations in a JSON Schema document: its schemas, what references lead to, and what several schemas ask of one value.

The one walker over schemas: `subschemas` and `walk` go from a schema to those inside it, `References` from a `$ref` to
what it names. A `Site` is one schema with the JSON pointer to it; what one value must fulfil is a tuple of sites, which
`DocumentReader.together` opens into one flat conjunction, `$ref` and `allOf` followed, within a budget of work.

>>> reader = DocumentReader({"allOf": [{"$ref": "#/$defs/a"}, {"maximum": 9}], "$defs": {"a": {"type": "integer"}}})
>>> [site.pointer for site in reader.together((reader.root,))]
['', '/allOf/0', '/$defs/a', '/allOf/1']
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any, Final, final
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from fxai.schema.budget import MAX_LOCATIONS, MAX_POINTER, MAX_SCHEMAS, Work
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import LATEST, METASCHEMAS, Dialect, dialect_of
from fxai.schema.fault import SchemaError, pointer_to, pointer_tokens

ANNOTATIONS: Final = frozenset(("title", "description", "default", "examples", "deprecated"))
"""Keywords that describe a value and do not restrict it."""

_SILENT: Final = frozenset(
    ("$schema", "$id", "id", "$comment", "$anchor", "$defs", "definitions", "$vocabulary", "readOnly", "writeOnly")
)
_NAMED: Final = ("named schemas", "patterned schemas", "dependencies")
_NAMES: Final = ("$id", "id", "$anchor", "$dynamicAnchor")
_AT_SAME_VALUE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"))
_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
_MOST_FOLLOWED: Final = 200  # references one after the other, and levels of schemas

MISSING: Final = object()
"""What a pointer or a reference to nowhere leads to."""


# ---- from a schema to those inside it


def subschemas(schema: dict[str, Any], dialect: Dialect) -> Iterator[tuple[str, str, Any]]:
    """Each schema directly inside a schema: its keyword, its pointer from there, and itself."""
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
    """A schema of a document, and where it stands.

    Attributes:
        pointer: where, from the document's root.
        schema: the schema.
        dialect: the draft that it is written in.
        keyword: the keyword that it stands under; empty at the root.
        name: the property's name, where it is a property.
        around: the schema around it, and so on, that holds for the same value; nearest first.
    """

    pointer: str
    schema: dict[str, Any]
    dialect: Dialect
    keyword: str = ""
    name: str | None = None
    around: tuple[dict[str, Any], ...] = ()


def walk(document: Any) -> Iterator[Subschema]:
    """Each schema of a document that is an object, the root first; a definition that repeats the root is left out.

    The document need not be usable: of one beyond the budget the first schemas come, and an unknown `$schema` is passed
    over.

    >>> [inner.pointer for inner in walk({"properties": {"a": {"items": {}}}})]
    ['', '/properties/a', '/properties/a/items']
    """
    if not is_object(document):
        return
    bare = {keyword: value for keyword, value in document.items() if keyword != "$defs"}
    pending = [Subschema("", document, _known_dialect(document, LATEST))]
    for _ in range(MAX_SCHEMAS):
        if not pending:
            return
        outer = pending.pop()
        yield outer
        if outer.pointer.count("/") > _MOST_FOLLOWED or len(outer.pointer) > MAX_POINTER:
            continue
        inside: list[Subschema] = []
        for keyword, at, inner in subschemas(outer.schema, outer.dialect):
            if is_object(inner) and not (keyword == "$defs" and inner == bare):
                around = (outer.schema, *outer.around) if keyword in _AT_SAME_VALUE else ()
                name = pointer_tokens(at)[-1] if keyword == "properties" else None
                dialect = _known_dialect(inner, outer.dialect)
                inside.append(Subschema(outer.pointer + at, inner, dialect, keyword, name, around))
        pending += reversed(inside)


def _known_dialect(schema: dict[str, Any], around: Dialect) -> Dialect:
    try:
        return dialect_of(schema, around)
    except SchemaError:
        return around


# ---- from a reference to what it names


def value_at(value: Any, tokens: list[str]) -> Any:
    """What stands at the tokens of a JSON pointer; `MISSING` where nothing does."""
    for token in tokens:
        if is_object(value) and token in value:
            value = value[token]
        elif is_array(value) and _INDEX.fullmatch(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


def lookup(reference: str, document: Any) -> Any:
    """What a reference by a JSON pointer (`#/…`) leads to in a document without names; `MISSING` for nowhere."""
    return value_at(document, pointer_tokens(unquote(reference.removeprefix("#"))))


def target(schema: Any, document: Any) -> Any:
    """The schema that a `$ref` into the document leads to, one after the other; any other schema is itself.

    `MISSING` where the reference leads nowhere. References by `$id` and `$anchor` are not followed.

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
    """The absolute form of a reference; a fragment alone stays with its resource, whatever its scheme."""
    return resource + reference if reference.startswith("#") else urljoin(resource, reference)


def names_inside(document: Any) -> bool:
    """Whether schemas inside of a document may have names of their own."""
    pending = [document]
    while pending:
        value = pending.pop()
        if is_object(value):
            if value is not document and not value.keys().isdisjoint(_NAMES):
                return True
            pending += value.values()
        elif is_array(value):
            pending += value
    return False


@final
class Site:
    """One schema inside a document, without the keywords that are looked at elsewhere."""

    __slots__ = ("hidden", "pointer", "schema")

    def __init__(self, pointer: str, schema: Any, hidden: frozenset[str] = frozenset()) -> None:
        self.pointer: str = pointer
        self.schema: Any = schema
        self.hidden: frozenset[str] = hidden

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """Its identity among the sites of the document."""
        return (self.pointer, self.hidden)

    def get(self, keyword: str, default: Any = None) -> Any:
        """The value of a keyword."""
        return self.schema.get(keyword, default) if keyword in self else default

    def __contains__(self, keyword: str) -> bool:
        return is_object(self.schema) and keyword in self.schema and keyword not in self.hidden

    def under(self, *tokens: str | int) -> Site:
        """The schema below."""
        schema, pointer = self.schema, self.pointer
        for token in tokens:
            schema, pointer = schema[token], pointer_to(pointer, token)
        return Site(pointer, schema)

    @property
    def leading(self) -> int:
        """How many items of an array, from the first, have a schema of their own."""
        items = self.get("items")
        return len(items if is_array(items) else self.get("prefixItems", ()))

    def item(self, index: int) -> Site | None:
        """The schema of the item at an index, if there is one."""
        first, rest = ("items", "additionalItems") if is_array(self.get("items")) else ("prefixItems", "items")
        if index < self.leading:
            return self.under(first, index)
        return next((self.under(keyword) for keyword in (rest, "unevaluatedItems") if keyword in self), None)

    def without(self, *keywords: str) -> Site:
        """The same schema, some of its keywords not looked at."""
        return Site(self.pointer, self.schema, self.hidden.union(keywords))


Location = tuple[Site, ...]
"""The schemas that one value must fulfil together; without any, any value will do."""


@final
class References:
    """The names that the schemas of a document have (`$id`, `$anchor`), and what references by them lead to.

    Nothing is fetched. Who walks through a document notes the names on the way by `enter`; `of` does it at once.

    >>> city = {"$id": "city", "$anchor": "name", "type": "string"}
    >>> References.of({"$defs": {"a": city}}).find("city#name")["type"]
    'string'
    """

    __slots__ = ("_anchors", "_nested", "_resources")

    def __init__(self, root: Site) -> None:
        self._resources: dict[str, Site] = {"": root}
        self._anchors: dict[tuple[str, str], Site] = {}
        self._nested: dict[str, str] = {}

    @staticmethod
    def of(document: Any) -> References:
        """The references of a whole document."""
        made = References(Site("", document))
        for inner in walk(document) if names_inside([document]) else ():
            made.enter(Site(inner.pointer, inner.schema), made.resource_at(inner.pointer), inner.dialect)
        return made

    def enter(self, site: Site, resource: str, dialect: Dialect) -> str:
        """Note the names of a schema; gives the resource (a URI) that references start from, there and inside."""
        own = site.schema.get(dialect.id_keyword)
        hidden = dialect.ref_alone and "$ref" in site.schema
        if isinstance(own, str) and not hidden and is_reference(own, resource):
            uri, fragment = urldefrag(absolute(resource, own))
            if uri != resource or not fragment:
                resource = uri
                self._resources.setdefault(resource, site)
                self._nested[site.pointer] = resource
            if fragment:
                self._anchors[resource, fragment] = site
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in dialect.keywords and isinstance(anchor := site.schema.get(keyword), str):
                self._anchors[resource, anchor] = site
        return resource

    def resource_at(self, pointer: str) -> str:
        """The resource that the references of a schema start from; that of the document is empty where it has none."""
        while pointer and pointer not in self._nested:
            pointer = pointer.rpartition("/")[0]
        return self._nested.get(pointer, "")

    def locate(self, uri: str) -> tuple[Site, list[str]] | None:
        """The schema that an absolute reference starts from, and the path from there; None for an unknown name."""
        resource, fragment = urldefrag(uri)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            named = self._anchors.get((resource, fragment))
            return None if named is None else (named, [])
        start = self._resources.get(resource)
        return None if start is None else (start, pointer_tokens(fragment))

    def find(self, uri: str) -> Any:
        """What an absolute reference leads to: None for a metaschema that validators know, `MISSING` for nowhere."""
        located = self.locate(uri)
        if located is None:
            resource = urldefrag(uri).url
            return None if resource not in self._resources and resource in METASCHEMAS else MISSING
        return value_at(located[0].schema, located[1])


def is_reference(reference: str, resource: str) -> bool:
    """Whether a reference can be joined to a resource and looked up."""
    try:
        urldefrag(absolute(resource, reference))
    except ValueError:  # a host in brackets that is no address
        return False
    return True


# ---- what several schemas ask of one value


class LocationError(Exception):
    """A schema that cannot be followed or expressed: its place in the document, the keyword there, and why."""

    def __init__(self, pointer: str, keyword: str, reason: str) -> None:
        super().__init__(pointer, keyword, reason)
        self.pointer: str = pointer
        self.keyword: str = keyword
        self.reason: str = reason


@final
class _AnyName:
    def __contains__(self, name: object) -> bool:
        return True


_ANY: Final = _AnyName()


@final
class DocumentReader:
    """A document, read place by place, within the budget of what is made of one document."""

    def __init__(self, document: Any) -> None:
        self.root: Site = Site("", document)
        self.dialect: Dialect = dialect_of(document)
        self.steps: Work = Work(MAX_LOCATIONS)
        """How much may still be read; `ExhaustedError` is raised beyond it."""
        self._evaluated: dict[str, Container[str]] = {}
        self._nulls: dict[str, bool] = {}
        self._references = References.of(document)
        self._base = urldefrag(str(self.root.get(self.dialect.id_keyword, ""))).url

    def follow(self, site: Site) -> Site:
        """The schema that a `$ref` at a site names.

        Raises:
            PlaceError: it names one by a way that is not followed here.
        """
        reference: str = site.get("$ref")
        own = self._references.resource_at("")
        if self._references.resource_at(site.pointer) != own:
            raise LocationError(site.pointer, "$ref", f"{reference!r} starts at the `$id` of a schema around")
        base, fragment = urldefrag(reference)
        if base not in ("", self._base):
            raise LocationError(site.pointer, "$ref", f"{reference!r} names a schema by its address: refer to $defs")
        located = self._references.locate(f"{own}#{fragment}")
        if located is None:
            raise LocationError(site.pointer, "$ref", f"{reference!r} names an anchor that is not in $defs")
        found, tokens = located
        try:
            for token in tokens:
                found = found.under(int(token) if is_array(found.schema) else token)
        except (LookupError, ValueError, TypeError):
            raise LocationError(site.pointer, "$ref", f"there is nothing at {reference!r}") from None
        return found

    def alone(self, site: Site) -> bool:
        """Whether a site is a `$ref` and nothing else."""
        return "$ref" in site and (self.dialect.ref_alone or not self._beside(site, _SILENT))

    def has_words_only(self, site: Site) -> bool:
        """Whether a site is a `$ref` with nothing beside it but annotations."""
        return "$ref" in site and not self._beside(site, _SILENT | ANNOTATIONS)

    def _beside(self, site: Site, but: frozenset[str]) -> bool:
        return any(k in self.dialect.keywords and k not in but and k in site for k in site.schema if k != "$ref")

    def holds(self, site: Site) -> bool:
        """Whether a site restricts its value by itself, beside `$ref` and `allOf`."""
        return self._beside(site, _SILENT | ANNOTATIONS | {"allOf"})

    def together(self, location: Location) -> list[Site]:
        """Every schema that a value of the place must fulfil: `$ref` followed, `allOf` opened, each once.

        Raises:
            PlaceError: a `$ref` that cannot be followed.
        """
        found: dict[tuple[str, frozenset[str]], Site] = {}
        for site in location:
            self._gather(site, found)
        return list(found.values())

    def _gather(self, site: Site, found: dict[tuple[str, frozenset[str]], Site]) -> None:
        self.steps.take(1, site.pointer)
        if site.key in found:
            return
        hidden = self.dialect.ref_alone and "$ref" in site
        if not hidden:
            found[site.key] = site
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in site:
                raise LocationError(site.pointer, keyword, "is resolved only while validating: use $ref")
        if "$ref" in site:
            self._gather(self.follow(site), found)
        if not hidden:
            for inner in _branches(site, "allOf"):
                self._gather(inner, found)

    def takes_null(self, location: Location) -> bool:
        """Whether every schema of a place takes null.

        Raises:
            PlaceError: a `$ref` that cannot be followed.
        """
        return all(self._takes_null(site) for site in location)

    def _takes_null(self, site: Site) -> bool:
        if not is_object(site.schema):
            return bool(site.schema)
        if site.pointer not in self._nulls:
            self._nulls[site.pointer] = True  # a schema that comes back to itself by references alone adds nothing
            self._nulls[site.pointer] = self._decides_null(Site(site.pointer, site.schema))
        return self._nulls[site.pointer]

    def _decides_null(self, site: Site) -> bool:
        if "$ref" in site:
            if not self._takes_null(self.follow(site)):
                return False
            if self.dialect.ref_alone:
                return True
        kinds = site.get("type", "null")
        listed = "null" in kinds if is_array(kinds) else kinds == "null"
        if not listed or site.get("const") is not None or None not in site.get("enum", (None,)):
            return False
        branches = {k: [self._takes_null(s) for s in _branches(site, k)] for k in ("allOf", "anyOf", "oneOf")}
        if not all(branches["allOf"]) or not any(branches["anyOf"] or [True]):
            return False
        if "oneOf" in site and sum(branches["oneOf"]) != 1:
            return False
        return self._not_against_null(site)

    def _not_against_null(self, site: Site) -> bool:
        if "not" in site and self._takes_null(site.under("not")):
            return False
        if "if" not in site:
            return True
        branch = "then" if self._takes_null(site.under("if")) else "else"
        return branch not in site or self._takes_null(site.under(branch))

    def evaluated_names(self, site: Site) -> Container[str]:
        """The names of properties that an object may have, where a schema refuses those that it does not look at."""
        if site.get("unevaluatedProperties") is not False:
            return _ANY
        known = self._evaluated.get(site.pointer)
        if known is None:
            names = self.declared_names(Site(site.pointer, site.schema))
            open_to = any(name.startswith(f"{site.pointer}/") for name in names)
            known = self._evaluated[site.pointer] = _ANY if open_to else names
        return known

    def declared_names(self, site: Site) -> set[str]:
        """The names of properties that a schema declares, wherever it applies to the same value."""
        return set(self._declared_names(site, set()))

    def _declared_names(self, site: Site, seen: set[str]) -> Iterator[str]:
        self.steps.take(1, site.pointer)
        if site.pointer in seen or not is_object(site.schema):
            return
        seen.add(site.pointer)
        yield from site.get("properties", {})
        for keyword in ("patternProperties", "additionalProperties", "propertyNames"):
            if isinstance(site.get(keyword), dict):
                yield f"{site.pointer}/{keyword}"  # no name, but something of its own
        if "$ref" in site:
            yield from self._declared_names(self.follow(site), seen)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for inner in _branches(site, keyword):
                yield from self._declared_names(inner, seen)
        for keyword in ("if", "then", "else", "not"):
            if keyword in site:
                yield from self._declared_names(site.under(keyword), seen)
        for keyword in ("dependentSchemas", "dependencies"):
            for name, inner in site.get(keyword, {}).items():
                if is_object(inner):
                    yield from self._declared_names(site.under(keyword, name), seen)


def _branches(site: Site, keyword: str) -> Iterator[Site]:
    return (site.under(keyword, index) for index in range(len(site.get(keyword, ()))))
