"""The engine of validation. It compiles a document once, to decide about values and to explain their errors.

Each schema of a document becomes a `Part` with a function that decides whether a value is valid. The function counts
its steps. In a long validation, the engine stores its decisions about values, because schemas can multiply over the
data. `fxai.schema.validation` reads the same parts to find the errors of an invalid value.

A reference leads into the document or to a metaschema of `jsonschema`. fxai fetches nothing.

>>> engine = Engine({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
>>> engine.root.takes({"a": 1}, Work()), engine.root.takes({"a": "1"}, Work())
(True, False)
"""

from __future__ import annotations

import threading
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, final
from urllib.parse import urldefrag

from fxai.schema.budget import REMEMBERED, Work
from fxai.schema.data import every_object, is_array, is_object
from fxai.schema.dialect import LATEST, Dialect, dialect_of
from fxai.schema.location import MISSING, References, Site, absolute
from fxai.schema.part import MAKERS, Check, Clause, Follow, Part, Visits, join, number_of

_DYNAMIC: Final = frozenset(("$dynamicRef", "$recursiveRef"))
_META: Final = "https://json-schema.org/draft/20"  # the metaschemas with dynamic references


@final
class Engine:
    """A compiled document.

    Attributes:
        root: The part of the document itself.
        dialect: The dialect of the current schema during the compilation.
        references: The schemas and the names of the document.
        is_dynamic: True if the target of a reference can depend on the way to it.
    """

    def __init__(self, document: Any, dialect: Dialect = LATEST) -> None:
        """Compile a valid document in its own dialect, or in `dialect`. Do not change the document afterwards."""
        self.references: References = References(Site("", document))
        self._numbers: dict[Any, object] = {}
        self._parts: dict[int, Part] = {}
        self._pending: list[Part] = []
        self._lock = threading.RLock()
        self.is_dynamic: bool = dialect is LATEST and _is_dynamic(document)
        self.dialect: Dialect = dialect_of(document, dialect)
        self.references.enter(document, dialect=self.dialect)
        self.root: Part = self.part(document)

    # ---- the schemas of the document

    def part(self, schema: Any) -> Part:
        """Return the compiled form of a schema of the document, or of a boolean."""
        made = self._parts.get(id(schema))
        if made is None or self._pending:
            with self._lock:
                made = self._part(schema)
                while self._pending:
                    self._compile(self._pending[-1])
        return made

    def _part(self, schema: object) -> Part:
        """Return the part of a schema. The engine compiles a new part later."""
        known = self._parts.get(id(schema))
        if schema is MISSING:
            known = Part(self, False, self.dialect, "")
            known.takes = _refuse
        if known is None:
            found = self.references.known.get(id(schema))
            dialect, resource = (self.dialect, "") if found is None else (found.dialect, found.resource)
            known = Part(self, schema, dialect, resource)
            if is_object(schema):
                known.takes = _late(known)
                self._pending.append(known)
            self._parts[id(schema)] = known
        return known

    def of(self, schema: object) -> Part:
        """Return the part of a schema inside the current schema. The engine compiles a circle later."""
        part = self._part(schema)
        if self._pending and self._pending[-1] is part:
            self._compile(part)
        return part

    def _compile(self, part: Part) -> None:
        around, dialect, schema = self.dialect, part.dialect, part.schema
        self.dialect = dialect
        self._pending.remove(part)
        is_hidden = dialect.ref_alone and "$ref" in schema
        try:
            for keyword, rule in schema.items():
                clause = Clause()
                if keyword == "$ref" or (keyword in _DYNAMIC and keyword in dialect.keywords):
                    find = self._follow(part, keyword, rule)
                    part.follows += (find,)
                    clause.visit("any", _visits(find), self._remembering(part, find))
                elif keyword in MAKERS and keyword in dialect.keywords and not is_hidden:
                    MAKERS[keyword](self, clause, rule, schema)
                else:
                    continue
                part.clauses[keyword] = clause
            check, part.free = join(part.clauses.values())
            part.takes = _within(part.resource, check) if self.is_dynamic else check
        finally:
            self.dialect = around

    # ---- references

    def target(self, resource: str, reference: str) -> Any:
        """Return the target of a reference."""
        uri = absolute(resource, reference)
        found = self.references.find(uri)
        base = urldefrag(uri).url
        if found is MISSING:
            return MISSING
        if found is None:  # a metaschema of `jsonschema`
            contents: Any = import_module("jsonschema_specifications").REGISTRY.contents(base)
            self.references.enter(contents, f"metaschema {base}", base, dialect_of(contents))
            found = self.references.find(uri)
        self.references.enter(found, f"reference {uri}", base, self.dialect)
        return found

    def _follow(self, part: Part, keyword: str, reference: str) -> Follow:
        """Return the function that finds the target of a reference.

        On the path to the reference, a `$dynamicRef` leads to the first resource with the anchor. A `$recursiveRef`
        leads to the first of the last consecutive resources with an anchor.
        """
        target, name = self.target(part.resource, reference), urldefrag(reference).fragment
        first, is_recursive = self._part(target), keyword == "$recursiveRef"
        is_dynamic = keyword == "$dynamicRef" and is_object(target) and target.get("$dynamicAnchor") == name
        if not (is_recursive or is_dynamic):
            return lambda _: first

        def find(work: Work | None) -> Part:
            resources = () if work is None else work.resources
            named = [self.references.dynamic(resource, "" if is_recursive else name) for resource in resources]
            if is_recursive:
                named = [*takewhile(is_object, reversed(named))][-1:]
            found = next(filter(is_object, named), None)
            return first if found is None else self.part(found)

        return find

    def _remembering(self, part: Part, find: Follow) -> Check:
        """Return the check by the target of a reference. In a long validation, it decides once about a value."""

        def check(value: object, work: Work) -> bool:
            if work.left > REMEMBERED or not (is_object(value) or is_array(value)):
                return find(work).takes(value, work)
            key = (id(part), id(value), *(work.resources if self.is_dynamic else ()))
            known = work.known.get(key)
            if known is None:
                known = work.known[key] = find(work).takes(value, work)
            return known

        return check

    # ---- constants

    def number(self, value: object) -> object:
        """Return the number of a constant. Equal values have the same number."""
        return number_of(value, self._numbers, {}, Work(10**9))

    def number_in(self, value: object, work: Work) -> object:
        """Return the number of a value in the data. It is the number of a constant if the two are equal."""
        return value if type(value) is str else number_of(value, self._numbers, work.numbers, work)


class UnresolvedError(Exception):
    """An error for a reference that leads nowhere, in a document that fxai did not check."""


def _refuse(_: object, __: Work) -> bool:
    raise UnresolvedError


def _late(part: Part) -> Check:
    """Return a check by a part that the engine compiles later."""

    def check(value: object, work: Work) -> bool:
        return part.takes(value, work)

    return check


def _visits(find: Follow) -> Visits:
    return lambda value, work: ((find(work), value, ""),)


def _within(resource: str, check: Check) -> Check:
    """Return a check that adds the resource of its schema, for the references inside."""

    def within(value: object, work: Work) -> bool:
        if work.resources and work.resources[-1] == resource:
            return check(value, work)
        work.resources.append(resource)
        try:
            return check(value, work)
        finally:
            work.resources.pop()

    return within


def _is_dynamic(document: object) -> bool:
    """Return whether the target of a reference can depend on the path to the reference."""
    return any(
        not _DYNAMIC.isdisjoint(one) or (isinstance(reference := one.get("$ref"), str) and reference.startswith(_META))
        for one in every_object(document)
    )
