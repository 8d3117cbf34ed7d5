"""The keywords of a document that a value violates. Use this module to find out why the engine refuses a value.

The search follows the parts of the engine and skips each part that accepts its value.

>>> from fxai.schema.engine import Engine
>>> engine = Engine({"properties": {"a": {"type": "integer"}}, "required": ["b"]})
>>> finder = Finder()
>>> finder.walk(engine.root, {"a": "x"}, "")
>>> [(breach.keyword, breach.pointer) for breach in finder.found]
[('type', '/a'), ('required', '')]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, ExhaustedError, Work, new_stack
from fxai.schema.data import is_object
from fxai.schema.fault import pointer_to
from fxai.schema.part import TYPES, Check, Clause, Part, kind_of, never
from fxai.schema.pattern import PatternTimeoutError, in_time

_VISIT: Final = 20  # the steps of a visit of a refused value
_UNIONS: Final = 2  # the maximum number of nested unions whose alternatives the search visits
_MOST_FOLLOWED: Final = 32  # the maximum number of consecutive references
_UNORDERED: Final = frozenset(
    ("patternProperties", "dependentRequired", "dependentSchemas", "dependencies", "allOf")
)  # the keywords that find breaches in another order than the value


@final
class Breach(msgspec.Struct, frozen=True, eq=False):
    """A violation of a keyword by a value.

    Attributes:
        keyword: The keyword. `false` means a schema that accepts no value, and `late` means a pattern that exceeded
            its time limit.
        part: The part that contains the keyword.
        pointer: The JSON pointer of the value.
        value: The value.
        names: The properties that violate the keyword.
        branches: The breaches of each alternative of `anyOf` or `oneOf`. Empty if multiple alternatives of `oneOf`
            accept the value.
        words: The expectation in the message. Empty if the keyword determines the expectation.
    """

    keyword: str
    part: Part
    pointer: str
    value: Any
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    words: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The schema that contains the keyword."""
        return self.part.schema if is_object(self.part.schema) else {}

    def follow(self, schema: Any) -> Any:
        """Return the target of the `$ref` of a schema inside `schema`, with the keywords next to the `$ref`."""
        engine, resource = self.part.engine, self.part.resource
        for _ in range(_MOST_FOLLOWED):
            if not is_object(schema) or "$ref" not in schema:
                break
            resource = engine.resource_of(schema, resource)
            beside = {} if self.part.dialect.ref_alone else {key: schema[key] for key in schema if key != "$ref"}
            schema = engine.target(resource, schema["$ref"])
            resource = engine.resource_of(schema, resource)
            schema = {**schema, **beside} if is_object(schema) and beside else schema
        return schema


class EnoughError(ExhaustedError):
    """The end of a search that has found all breaches that fxai reports."""


@final
class Finder(Work, eq=False):
    """A search for the breaches of a value within a budget.

    Attributes:
        found: The breaches.
        unions: The number of enclosing unions whose alternatives the search visits.
        stacks: The number of stacks that the search can still start.
        is_mixed: True if the breaches can be duplicates or in another order than the value.
        integers: The JSON pointers of whole numbers, such as `3.0`, that represent an integer. None to report them.
    """

    found: list[Breach] = []  # noqa: RUF012  # msgspec copies it
    unions: int = 0
    stacks: int = 32
    is_mixed: bool = False
    integers: list[str] | None = None

    def of(self, part: Part, value: Any, pointer: str, token: str | int | None = None) -> None:
        """Find the breaches of a part by a value and add them.

        Args:
            part: The part.
            value: The value.
            pointer: The JSON pointer of the value, or of an enclosing value.
            token: The name or the index of the value in the enclosing value. Default: None.

        Raises:
            EnoughError: If the number of breaches reaches the maximum.
            ExhaustedError: If the search exceeds its budget.
        """
        kind = value.__class__
        if kind in part.free:
            return
        if len(self.found) >= MAX_FAULTS:
            raise EnoughError
        rules = (part.rules or rules_of(part)).get(kind, ())
        only = rules[0] if len(rules) == 1 and rules[0][1] is never else None
        if only is None:
            try:
                if id(value) not in self.suspects and part.takes(value, self):
                    return
            except PatternTimeoutError:
                pass  # the keyword reports it
        at = pointer if token is None else pointer_to(pointer, token)
        if only is None:
            self.walk(part, value, at)
        elif kind is not float or not self._is_integer(part, value, at):
            self.found.append(Breach(only[0], part, at, value))

    def walk(self, part: Part, value: Any, pointer: str) -> None:
        """Add the breaches of a part by a value that the part refuses.

        Raises:
            EnoughError: If the number of breaches reaches the maximum.
            ExhaustedError: If the search exceeds its budget.
        """
        self.left: int = self.left - _VISIT
        if self.left < 0:
            raise ExhaustedError
        if value.__class__ is float and self._is_integer(part, value, pointer):
            return
        found, before, entered = self.found, len(self.found), len(self.resources)
        self.resources.append(part.resource)
        rules = part.rules or rules_of(part)
        try:
            for keyword, check, clause in rules.get(value.__class__) or rules[kind_of(value)]:
                count = len(found)
                try:
                    if clause.visits is not None:
                        for inner, item, token in clause.visits(value, self):
                            self.of(inner, item, pointer, token)
                    if (clause.visits is None or clause.names is not None) and not check(value, self):
                        names = () if clause.names is None else (*islice(clause.names(value, self), MAX_FAULTS),)
                        if keyword in ("anyOf", "oneOf"):
                            self._refuse_union(keyword, part, value, pointer)
                        elif names or clause.visits is None:
                            found.append(Breach(keyword, part, pointer, value, names))
                except PatternTimeoutError as timeout:
                    found.append(Breach("late", part, pointer, value, words=in_time(timeout.args[0])))
                self.is_mixed |= len(found) > count and (count > before or keyword in _UNORDERED)
        except RecursionError:
            self.stacks -= 1
            if self.stacks < 0:
                raise ExhaustedError from None
            del self.found[before:]
            new_stack(lambda: self.walk(part, value, pointer))
        finally:
            del self.resources[entered:]

    def _is_integer(self, part: Part, value: float, pointer: str) -> bool:
        """Return whether a part accepts a whole number as an integer. Record its location."""
        if self.integers is None or not value.is_integer() or not part.takes(int(value), self):
            return False
        self.integers.append(pointer)
        return True

    def _refuse_union(self, keyword: str, part: Part, value: Any, pointer: str) -> None:
        """Add the breach of a union with the breaches of each alternative."""
        if self.unions >= _UNIONS:
            self.found.append(Breach("alternatives", part, pointer, value, words="one of the alternatives"))
            return
        around, branches = self.found, list[tuple[Breach, ...]]()
        choices = [part.under(choice) for choice in part.schema[keyword]]
        if keyword == "oneOf" and any(choice.takes(value, self) for choice in choices):
            choices = []
        self.unions += 1
        try:
            for choice in choices:
                self.found, count = [], len(self.integers or ())
                with suppress(EnoughError):
                    self.of(choice, value, pointer)
                if self.found and self.integers:
                    del self.integers[count:]
                branches.append((*self.found,))
        finally:
            self.found = around
            self.unions -= 1
        if all(branches) or not self.integers:  # otherwise, an alternative accepts the value with integers
            around.append(Breach(keyword, part, pointer, value, branches=(*branches,)))


def rules_of(part: Part) -> Mapping[type, tuple[tuple[str, Check, Clause], ...]]:
    """Return the keywords of a part that can refuse a value, by the type of the value. Store them in the part."""
    made: dict[type, tuple[tuple[str, Check, Clause], ...]] = dict.fromkeys(TYPES, ())
    if part.schema is False:
        made = dict.fromkeys(TYPES, (("false", never, Clause()),))
    for keyword, clause in part.clauses.items():
        for tp, check in clause.by_type.items():
            made[tp] += ((keyword, check, clause),)
    part.rules = made
    return made
