"""Locations in a document: what several schemas say of one value together.

A `Site` is one schema inside the document with the JSON pointer to it. What one value must keep is a tuple of sites:
`Reader.together` follows each `$ref` and `allOf`, so that a place can be read as one flat conjunction.

>>> reader = Reader({"allOf": [{"$ref": "#/$defs/a"}, {"maximum": 9}], "$defs": {"a": {"type": "integer"}}})
>>> [site.pointer for site in reader.together((reader.root,))]
['', '/allOf/0', '/$defs/a', '/allOf/1']
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final, Protocol, final
from urllib.parse import unquote, urldefrag

import msgspec

from fxai.schema.budget import MAX_PLACES, Steps
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import dialect_of
from fxai.schema.document import is_inside, resources_inside, subschemas
from fxai.schema.fault import pointer_to, pointer_tokens
from fxai.schema.pattern import Matcher
from fxai.schema.strict.node import Node
from fxai.schema.strict.rules import StrictRules

__all__ = ["NULL_LOST", "SILENT", "TOLD", "Obstacle", "Place", "Places", "Reader", "Site", "StrictError", "Weakening"]

TOLD: Final = frozenset(("title", "description", "default", "examples", "deprecated"))
"""Keywords that are words about a value and hold it to nothing."""

SILENT: Final = frozenset(
    ("$schema", "$id", "id", "$comment", "$anchor", "$defs", "definitions", "$vocabulary", "readOnly", "writeOnly")
)
"""Keywords that say nothing of a value."""


NULL_LOST: Final = (
    "null is sent for what is left out, so that null itself cannot be said: the tool's annotation ExplicitNull keeps"
    " the two apart"
)
"""Why the null of an optional property is weakened, where leaving it out means something else."""


@final
class Obstacle(msgspec.Struct, frozen=True):
    """Why a schema cannot be strict: the place in it, the keyword there, and the reason."""

    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.pointer or '/'}: {self.keyword}: {self.reason}"


@final
class Weakening(msgspec.Struct, frozen=True):
    """What a provider cannot carry: the keyword at a place, and what became of it."""

    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.pointer or '/'}: {self.keyword}: {self.reason}"


class StrictError(Exception):
    """A place that cannot be strict; carries the `Obstacle`."""

    def __init__(self, pointer: str, keyword: str, reason: str) -> None:
        super().__init__(pointer, keyword, reason)
        self.obstacle = Obstacle(pointer, keyword, reason)


@final
class Site:
    """One schema inside a document, without the keywords that are looked at elsewhere."""

    __slots__ = ("hidden", "pointer", "schema")

    def __init__(self, pointer: str, schema: Any, hidden: frozenset[str] = frozenset()) -> None:
        self.pointer = pointer
        self.schema = schema
        self.hidden = hidden

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """What tells it from other sites of the document."""
        return (self.pointer, self.hidden)

    def get(self, keyword: str, default: Any = None) -> Any:
        """What a keyword says."""
        return self.schema.get(keyword, default) if keyword in self else default

    def __contains__(self, keyword: str) -> bool:
        return is_object(self.schema) and keyword in self.schema and keyword not in self.hidden

    def under(self, *tokens: str | int) -> Site:
        """The schema below."""
        schema, pointer = self.schema, self.pointer
        for token in tokens:
            schema, pointer = schema[token], pointer_to(pointer, token)
        return Site(pointer, schema)

    def without(self, *keywords: str) -> Site:
        """The same schema, some of its keywords not looked at."""
        return Site(self.pointer, self.schema, self.hidden.union(keywords))


@final
class _Any:
    """Every name."""

    def __contains__(self, name: object) -> bool:
        return True


_ANY: Final = _Any()

Place = tuple[Site, ...]
"""The schemas that one value must keep together; none at all lets anything be."""


@final
class Reader:
    """A document, read place by place, within the budget of what is made of one document."""

    def __init__(self, document: Any) -> None:
        self.root = Site("", document)
        self.dialect = dialect_of(document)
        self.steps = Steps(MAX_PLACES)
        """How much may still be read; `Exhausted` is raised beyond it."""
        self._evaluated: dict[str, Container[str]] = {}
        self._anchors: dict[str, str] = {}
        self._nulls: dict[str, bool] = {}
        self._base = str(document.get(self.dialect.id_keyword, "")) if is_object(document) else ""
        self._resources = frozenset(resources_inside(document))
        self._note(document, "")

    def _note(self, schema: Any, pointer: str) -> None:
        if not is_object(schema):
            return
        for keyword in ("$anchor", self.dialect.id_keyword):
            name = schema.get(keyword)
            if isinstance(name, str) and (keyword == "$anchor" or name.startswith("#")):
                self._anchors.setdefault(name.removeprefix("#"), pointer)
        for _, at, inner in subschemas(schema, self.dialect):
            self._note(inner, pointer + at)

    def follow(self, site: Site) -> Site:
        """The schema that a `$ref` at a site names.

        Raises:
            StrictError: it names one by a way that is not followed here.
        """
        reference: str = site.get("$ref")
        if is_inside(site.pointer, self._resources):
            raise StrictError(site.pointer, "$ref", f"{reference!r} starts at the `$id` of a schema around")
        base, fragment = urldefrag(reference)
        fragment = unquote(fragment)
        if base not in ("", urldefrag(self._base)[0]):
            raise StrictError(site.pointer, "$ref", f"{reference!r} names a schema by its address: refer to $defs")
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise StrictError(site.pointer, "$ref", f"{reference!r} names an anchor that is not in $defs")
            fragment = self._anchors[fragment]
        found = self.root
        for token in pointer_tokens(fragment):
            found = found.under(int(token) if is_array(found.schema) else token)
        return Site(found.pointer, found.schema)

    def alone(self, site: Site) -> bool:
        """Whether a site is a `$ref` and says nothing else."""
        if "$ref" not in site:
            return False
        return self.dialect.ref_alone or not self._beside(site, SILENT)

    def has_words_only(self, site: Site) -> bool:
        """Whether a site is a `$ref` with nothing beside it but words."""
        return "$ref" in site and not self._beside(site, SILENT | TOLD)

    def _beside(self, site: Site, but: frozenset[str]) -> bool:
        return any(k in self.dialect.keywords and k not in but and k in site for k in site.schema if k != "$ref")

    def holds(self, site: Site) -> bool:
        """Whether a site holds its value to anything by itself, beside `$ref` and `allOf`."""
        return self._beside(site, SILENT | TOLD | {"allOf"})

    def together(self, place: Place) -> list[Site]:
        """Every schema that a value of the place must keep: `$ref` followed, `allOf` opened, each once.

        Raises:
            StrictError: a `$ref` that cannot be followed.
        """
        found: dict[tuple[str, frozenset[str]], Site] = {}
        for site in place:
            self._gather(site, found)
        return list(found.values())

    def _gather(self, site: Site, found: dict[tuple[str, frozenset[str]], Site]) -> None:
        self.steps.take(site.pointer)
        if site.key in found:
            return
        hidden = self.dialect.ref_alone and "$ref" in site
        if not hidden:
            found[site.key] = site
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in site:
                raise StrictError(site.pointer, keyword, "is resolved only while validating: use $ref")
        if "$ref" in site:
            self._gather(self.follow(site), found)
        if not hidden:
            for index in range(len(site.get("allOf", ()))):
                self._gather(site.under("allOf", index), found)

    def takes_null(self, place: Place) -> bool:
        """Whether every schema of a place takes null, by the original's own word.

        Raises:
            StrictError: a `$ref` that cannot be followed.
        """
        return all(self._takes_null(site) for site in place)

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

    def evaluated(self, site: Site) -> Container[str]:
        """The names of properties that may be in an object, by what a schema says of those that it does not look at."""
        if site.get("unevaluatedProperties") is not False:
            return _ANY
        known = self._evaluated.get(site.pointer)
        if known is None:
            names = self.declared(Site(site.pointer, site.schema))
            open_to = any(name.startswith(f"{site.pointer}/") for name in names)
            known = self._evaluated[site.pointer] = _ANY if open_to else names
        return known

    def declared(self, site: Site) -> set[str]:
        """The names of properties that a schema speaks of, wherever it applies to the same value."""
        return set(self._declared(site, set()))

    def _declared(self, site: Site, seen: set[str]) -> Iterator[str]:
        self.steps.take(site.pointer)
        if site.pointer in seen or not is_object(site.schema):
            return
        seen.add(site.pointer)
        yield from site.get("properties", {})
        for keyword in ("patternProperties", "additionalProperties", "propertyNames"):
            if isinstance(site.get(keyword), dict):
                yield f"{site.pointer}/{keyword}"  # no name, but something of its own
        if "$ref" in site:
            yield from self._declared(self.follow(site), seen)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for index in range(len(site.get(keyword, ()))):
                yield from self._declared(site.under(keyword, index), seen)
        for keyword in ("if", "then", "else", "not"):
            if keyword in site:
                yield from self._declared(site.under(keyword), seen)
        for keyword in ("dependentSchemas", "dependencies"):
            for name, inner in site.get(keyword, {}).items():
                if is_object(inner):
                    yield from self._declared(site.under(keyword, name), seen)


class Places(Protocol):
    """A transformation, as the rules of one type see it: what it reads, and how it goes on with a part of the value."""

    reader: Reader
    rules: StrictRules
    null: str
    """The property that marks a null beside the one for what is left out; empty where they are not told apart."""
    nodes: dict[str, Node]
    """The definitions so far, by name."""
    matcher: Matcher

    def place(self, place: Place, at: str, /) -> Node | None:
        """What a place takes; None when nothing can be there. `at` is where it stands, for messages."""
        ...

    def weaken(self, site: Site, keyword: str, reason: str, /) -> None:
        """Note that a keyword is not carried."""
        ...

    def is_root(self, at: str, /) -> bool:
        """Whether a place is the root, where providers want an object."""
        ...

    def with_words(self, node: Node, /) -> Node:
        """The node with its own words in its description."""
        ...


def _branches(site: Site, keyword: str) -> list[Site]:
    return [site.under(keyword, index) for index in range(len(site.get(keyword, ())))]
