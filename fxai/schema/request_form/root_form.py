"""Roots of documents. Use this module to rewrite a root as one object without a union, because APIs require this.

If several schemas describe the object at the root, they become one schema. Any other root becomes the property `value`
of an object. This property keeps every keyword.

>>> either = {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]}
>>> root = root_form(either, frozenset(("anyOf",)))
>>> root.document["required"], root.back({"value": "text"}), root.forth("text")
(['value'], 'text', {'value': 'text'})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import ExhaustedError
from fxai.schema.data import every_object, is_object
from fxai.schema.dialect import LATEST, dialect_of
from fxai.schema.document import document_faults, relocate
from fxai.schema.location import ANNOTATIONS, DocumentReader, LocationError, Site, names_inside
from fxai.schema.strict.node import describe, keyword_words
from fxai.schema.strict.rules import Weakening

VALUE: Final = "value"
"""The property that contains the value of a schema that cannot be at the root."""

Way: TypeAlias = Callable[[Any], Any]
"""A conversion of a value."""

_SILENT: Final = frozenset(("$schema", "$comment", "$defs", "definitions", "$vocabulary", "readOnly", "writeOnly"))
_OBJECT: Final = frozenset(
    (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"),
        *("maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
    )
)
_BOOLEANS: Final[Mapping[bool, dict[str, Any]]] = {True: {}, False: {"not": {}}}
_NARROWING: Final = ("anyOf", "oneOf", "not")
_IDENTIFIERS: Final = frozenset(("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"))
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MERGED: Final = frozenset(("type", "properties", "required", "$ref", "allOf")) | ANNOTATIONS | _SILENT
_LOOKS_AROUND: Final = frozenset(("additionalProperties", "unevaluatedProperties"))


@final
class Rewrite(msgspec.Struct, frozen=True):
    """A change of a document: its JSON pointer in the original, the rule, and the description of the change."""

    pointer: str
    """The JSON pointer in the original document."""
    rule: str
    """The rule."""
    change: str
    """The description of the change."""

    def __str__(self) -> str:
        """Return the location, the rule, and the change in one line."""
        return f"{self.pointer or '/'}: {self.rule}: {self.change}"


@final
class Root(msgspec.Struct, frozen=True):
    """A document with a rewritten root, the conversions of its values, and the changes."""

    document: dict[str, Any]
    rewrites: tuple[Rewrite, ...] = ()
    weakened: tuple[Weakening, ...] = ()
    back: Way | None = None
    forth: Way | None = None

    def __hash__(self) -> int:
        return hash((self.rewrites, self.weakened))


def is_plain_root(document: Mapping[str, Any], refused: Iterable[str]) -> bool:
    """Return True if a root is one object schema without a refused keyword and without a reference."""
    if document.get("type") != "object" or any(keyword in document for keyword in refused):
        return False
    return not any(keyword in document for keyword in _REFERENCES)


def modern(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document if it is also a usable document of 2020-12. Otherwise, rewrite it for 2020-12.

    >>> modern({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": False})
    {'prefixItems': [{}], 'items': False}
    """
    if dialect_of(document) is LATEST:
        return document
    if not document_faults({key: value for key, value in document.items() if key != "$schema"}):
        return document
    definitions: dict[str, Any] = {}
    moved: dict[str, Any] = relocate(document, "", definitions, "")
    return {**moved, "$defs": definitions} if definitions else moved


def with_type(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the type `object` at its root if the root has only keywords of objects."""
    if document.get("type") == ["object"]:
        return {**document, "type": "object"}
    restricting = document.keys() - ANNOTATIONS - _SILENT - _IDENTIFIERS
    if not restricting or not restricting <= _OBJECT:
        return document
    return {"type": "object", **document}


def root_form(document: Any, refused: frozenset[str]) -> Root:
    """Return the document with a root that is one object, without the refused keywords.

    Args:
        document: A usable JSON Schema as a JSON value. The function changes it.
        refused: The keywords that the root must not have.
    """
    if not is_object(document):
        return _open_root({}) if document is True else _wrapped_root(document)
    if is_plain_root(document, refused):
        return Root(document)
    if not document.keys() - ANNOTATIONS - _SILENT - _IDENTIFIERS:
        return _open_root(document)
    folded = _folded_root(document, refused)
    return _wrapped_root(document) if folded is None else folded


# -- any value


def _open_root(document: dict[str, Any]) -> Root:
    """Return an open object as the root. The property `value` contains values that are not objects."""
    rewrite = Rewrite("", "object at the root", "an open object, with other values in the property 'value'")
    return Root({"type": "object", **document, "properties": {}}, (rewrite,), (), unwrap, _wrap_others)


def _wrap_others(value: Any) -> Any:
    return value if is_object(value) and value.keys() != {VALUE} else {VALUE: value}


# -- a property for the value


def unwrap(value: Any) -> Any:
    """Return the value of the property `value` if an object has only this property. Otherwise, return the value."""
    return value[VALUE] if is_object(value) and value.keys() == {VALUE} else value


def wrap(document: Any) -> dict[str, Any]:
    """Return the schema of an object with only the property `value`. The document is the schema of the property.

    >>> wrap({"type": "string"})["properties"]
    {'value': {'type': 'string'}}
    """
    definitions: dict[str, Any] = {}
    inner: Any = relocate(document, f"/properties/{VALUE}", definitions, "")
    if isinstance(inner, bool):
        inner = _BOOLEANS[inner]
    return {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }


WRAPPED: Final = Rewrite("", "object at the root", "the value is in the property 'value'")
"""The change of `wrap`."""


def _wrapped_root(document: Any) -> Root:
    return Root(wrap(document), (WRAPPED,), (), unwrap, lambda value: {VALUE: value})


# -- one schema


def _folded_root(document: dict[str, Any], refused: frozenset[str]) -> Root | None:
    """Return the root as one object schema, or None if one object schema cannot express it."""
    if names_inside([document]) or any(_leads_into(document, keyword) for keyword in ("allOf", *_NARROWING)):
        return None
    try:
        reader = DocumentReader(document)
        sites = [site for site in reader.together((reader.root,)) if site.schema is not True]
        if not _is_one_object(sites):
            return None
        merged = _merge(sites)
        return None if merged is None else _narrow(document, merged, sites, reader, refused)
    except (LocationError, ExhaustedError):
        return None


def _leads_into(document: Any, keyword: str) -> bool:
    """Return True if a reference of the document leads into a keyword of its root."""
    return any(str(one.get("$ref", "")).startswith(f"#/{keyword}/") for one in every_object(document))


def _is_one_object(sites: Sequence[Site]) -> bool:
    """Return True if the schemas describe objects and one schema can express all of them."""
    kinds = [site.get("type") for site in sites if "type" in site]
    if any(not is_object(site.schema) for site in sites) or any(kind not in ("object", ["object"]) for kind in kinds):
        return False
    if not kinds and not any(_OBJECT & site.schema.keys() for site in sites):
        return False
    if any("enum" in site or "const" in site for site in sites):
        return False
    seen: set[str] = set()
    for site in sites:
        own = {keyword for keyword in site.schema if keyword in site} - _MERGED - set(_NARROWING)
        if own & seen:
            return False
        seen |= own
    return len(sites) == 1 or _stands_alone(sites)


def _stands_alone(sites: Sequence[Site]) -> bool:
    """Return True if keywords about other properties keep their meaning in a merged schema."""
    names = {name for site in sites for name in site.get("properties", {})}
    for site in sites:
        if "unevaluatedProperties" in site:
            return False
        if site.get("additionalProperties", True) not in (True, {}):
            patterned = any("patternProperties" in other for other in sites)
            if patterned or not names <= site.get("properties", {}).keys():
                return False
    return True


def _merge(sites: Sequence[Site]) -> dict[str, Any] | None:
    """Merge the schemas without their unions. Return None if a schema has `required` as a boolean."""
    merged: dict[str, Any] = {"type": "object"}
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    for site in sites:
        for name, inner in site.get("properties", {}).items():
            known = properties.get(name, inner)
            properties[name] = inner if known == inner else {"allOf": [known, inner]}
        if isinstance(site.get("required"), bool):
            return None
        required.update(dict.fromkeys(site.get("required", ())))
    for site in sites:
        for keyword, value in site.schema.items():
            if keyword in site and keyword not in (*_NARROWING, "$ref", "allOf", "type", "properties", "required"):
                merged.setdefault(keyword, value)
    words = dict.fromkeys(text for site in sites if isinstance(text := site.get("description"), str) and text)
    merged |= {"description": "\n".join(words)} if words else {}
    merged |= {"properties": properties} if properties or any("properties" in site for site in sites) else {}
    return merged | ({"required": list(required)} if required else {})


def _narrow(
    document: dict[str, Any],
    merged: dict[str, Any],
    sites: Sequence[Site],
    reader: DocumentReader,
    refused: frozenset[str],
) -> Root | None:
    """Describe the unions of the merged schema. Return None if a union adds properties or is too long to describe."""
    weakened: list[Weakening] = []
    words: list[str] = []
    known = set(merged.get("properties", {}))
    for site, keyword in _narrowing(sites):
        if keyword not in refused and len(sites) == 1:
            merged[keyword] = site.get(keyword)
            continue
        phrase = keyword_words(keyword, site.get(keyword))
        if not phrase or not _only_known(site, keyword, known, reader, typed="type" in site):
            return None
        weakened.append(Weakening(site.pointer, keyword, "in the description, because the root cannot contain a union"))
        words.append(phrase)
    kept: dict[str, Any] = {key: document[key] for key in ("$schema", "$defs", "definitions") if key in document}
    text = str(merged.pop("description", ""))
    folded = describe({**merged, **kept}, [], [text], words)
    change = "one object schema" + (" with its alternatives in the description" if words else "")
    return Root(folded, (Rewrite("", "object at the root", change),), tuple(weakened))


def _narrowing(sites: Sequence[Site]) -> Iterator[tuple[Site, str]]:
    return ((site, keyword) for site in sites for keyword in _NARROWING if keyword in site)


def _only_known(site: Site, keyword: str, known: set[str], reader: DocumentReader, *, typed: bool) -> bool:
    """Return True if the alternatives of a keyword describe objects and declare only known properties."""
    inner = (
        [site.under(keyword)] if keyword == "not" else [site.under(keyword, i) for i in range(len(site.get(keyword)))]
    )
    if not typed and not all(is_object(one.schema) and one.schema.keys() <= _OBJECT | ANNOTATIONS for one in inner):
        return False
    return all(reader.declared_names(one) <= known for one in inner)
