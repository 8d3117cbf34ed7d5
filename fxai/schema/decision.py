"""The decision whether plain data is an instance of a document, by functions compiled from its schemas.

Their steps are counted, and where schemas multiply, a decision about a value is remembered. Only yes or no is decided:
`jsonschema` finds the faults.

>>> from fxai.schema.dialect import LATEST
>>> decider = decider_of({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, LATEST)
>>> decider.takes({"a": 1}), decider.takes({"a": "1"}), decider_of({"$dynamicRef": "#"}, LATEST)
(True, False, None)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, final

from fxai.schema.constraint import MAKERS, Check, Parts, Work, always, never, number_of
from fxai.schema.data import is_array, is_object
from fxai.schema.dialect import Dialect
from fxai.schema.location import lookup, names_inside

_NOT_COMPILED: Final = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")


@final
class Decider:
    """A document, compiled to decide.

    Attributes:
        dialect: the dialect of the document.
        heaviest: what a visit of a value by one of its schemas costs at most, per value inside.
    """

    __slots__ = ("_checks", "_multiplies", "_numbers", "_pending", "_root", "_shared", "dialect", "heaviest")

    def __init__(self, document: Any, dialect: Dialect, *, multiplies: bool) -> None:
        self._root = document
        self.dialect: Dialect = dialect
        self._multiplies = multiplies
        self._numbers: dict[Hashable, object] = {}
        self._checks: dict[int, Check] = {}
        self._shared: dict[int, list[Check]] = {}
        self._pending: list[Any] = [document]
        self.heaviest: int = 1
        while self._pending:
            schema = self._pending.pop()
            self._shared[id(schema)].append(self.of(schema)) if id(schema) in self._shared else self.of(schema)

    def takes(self, value: object, work: Work | None = None) -> bool:
        """Whether plain data is an instance of the document.

        Raises `ExhaustedError`: the steps are used up. `PatternTimeoutError`: the time of the patterns is used up.
        """
        return self._checks[id(self._root)](value, work or Work())

    def check_of(self, schema: object) -> Check | None:
        """What decides by one of the document's own schemas."""
        return self._checks.get(id(schema))

    # ---- schemas

    def of(self, schema: Any) -> Check:
        """What decides by a schema inside the document."""
        if not is_object(schema):
            return always if schema else never
        known = self._checks.get(id(schema))
        if known is None:
            known = self._checks[id(schema)] = self._compile(schema)
        return known

    def _compile(self, schema: dict[str, Any]) -> Check:
        if "$ref" in schema and self.dialect.ref_alone:
            return self._reference(schema["$ref"])
        parts = Parts()
        if "$ref" in schema:
            parts.deep = True
            parts.add("any", self._reference(schema["$ref"]))
        for keyword, rule in schema.items():
            make = MAKERS.get(keyword)
            if make is not None and (keyword in self.dialect.keywords or self._is_known(keyword)):
                make(self, parts, rule, schema)
        self.heaviest = max(self.heaviest, parts.weight)
        return parts.check(self.dialect)

    def _is_known(self, keyword: str) -> bool:
        """Whether a keyword whose shape is no matter of the dialect's table is asserted all the same."""
        return keyword == "dependencies" or (keyword == "const" and self.dialect.name != "draft-04")

    def _reference(self, reference: str) -> Check:
        """What decides by the schema that a reference leads to, which may not be made yet."""
        target = lookup(reference, self._root)
        if not is_object(target):
            return self.of(target)
        made = self._shared.get(id(target))
        if made is None:
            made = self._shared[id(target)] = []
            self._pending.append(target)

        def check(value: Any, work: Work) -> bool:
            return made[0](value, work)

        return _with_memory(check, id(target)) if self._multiplies else check

    def number(self, value: Any) -> object:
        """The number of a constant."""
        return number_of(value, self._numbers, {}, Work(10**9))

    def number_in(self, value: Any, work: Work) -> object:
        """The number of a value of the data: that of the constant that it equals, or one of its own."""
        return value if type(value) is str else number_of(value, self._numbers, work.numbers_of, work)


def decider_of(document: Any, dialect: Dialect, *, multiplies: bool = False) -> Decider | None:
    """The decider of a usable document; None for one that holds what only `jsonschema` knows.

    Args:
        document: plain data, which must not change.
        dialect: its dialect.
        multiplies: its schemas multiply over the data, so that what is decided is remembered.
    """
    if not is_object(document) or names_inside(document) or _is_strange(document):
        return None
    return Decider(document, dialect, multiplies=multiplies)


def _is_strange(document: Any) -> bool:
    """Whether something in a document is not compiled, or leads out of it."""
    pending: list[Any] = [document]
    while pending:
        value = pending.pop()
        if is_object(value):
            reference = value.get("$ref", "#")
            if not value.keys().isdisjoint(_NOT_COMPILED) or ("$schema" in value and value is not document):
                return True
            if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
                return True
            pending += value.values()
        elif is_array(value):
            pending += value
    return False


def _with_memory(check: Check, schema: int) -> Check:
    """The same decision, made once for each value that holds others."""

    def once(value: Any, work: Work) -> bool:
        if not (is_object(value) or is_array(value)):
            return check(value, work)
        key = (schema, id(value))
        known = work.known.get(key)
        if known is None:
            known = work.known[key] = check(value, work)
        return known

    return once
