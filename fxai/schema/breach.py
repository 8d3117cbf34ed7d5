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

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, ExhaustedError, Work, new_stack
from fxai.schema.constraint import evaluated_names
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import pointer_to
from fxai.schema.part import TYPES, Check, Part, kind_of, never
from fxai.schema.pattern import PatternTimeoutError, in_time, matches

_VISIT: Final = 20  # the steps of a visit of a refused value
_UNIONS: Final = 2  # the maximum number of nested unions whose alternatives the search visits
_MOST_FOLLOWED: Final = 32  # the maximum number of consecutive references


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
        suspects: The only items of an array that can be invalid, by the identity of the array. None for an enclosing
            value. In an array without suspects, every item can be invalid.
        integers: The JSON pointers of whole numbers, such as `3.0`, that represent an integer. None to report them.
    """

    found: list[Breach] = []  # noqa: RUF012  # msgspec copies it
    unions: int = 0
    stacks: int = 32
    is_mixed: bool = False
    suspects: dict[int, list[int] | None] = {}  # noqa: RUF012
    integers: list[str] | None = None

    def of(self, part: Part, value: Any, pointer: str, suffix: str = "") -> None:
        """Find the breaches of a part by a value and add them.

        Args:
            part: The part.
            value: The value.
            pointer: The JSON pointer of the value, or of an enclosing value.
            suffix: The JSON pointer from the enclosing value to the value. Default: empty.

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
        if len(rules) == 1 and rules[0].check is never:
            if kind is not float or not self._is_integer(part, value, pointer + suffix):
                self.found.append(Breach(rules[0].keyword, part, pointer + suffix, value))
            return
        with suppress(PatternTimeoutError):  # the keyword reports it
            if id(value) not in self.suspects and part.takes(value, self):
                return
        self.walk(part, value, pointer + suffix)

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
            for rule in rules.get(value.__class__) or rules[kind_of(value)]:
                count = len(found)
                try:
                    if rule.is_plain and rule.check(value, self):
                        continue
                    if rule.find is None:
                        found.append(Breach(rule.keyword, part, pointer, value))
                    else:
                        rule.find(self, rule, value, pointer)
                except PatternTimeoutError as timeout:
                    found.append(Breach("late", part, pointer, value, words=in_time(timeout.args[0])))
                if len(found) > count and (count > before or not rule.is_ordered):
                    self.is_mixed = True
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

    def by_alternative(self, choices: Iterable[Part], value: Any, pointer: str) -> tuple[tuple[Breach, ...], ...]:
        """Return the breaches of each alternative of a union."""
        around, branches = self.found, list[tuple[Breach, ...]]()
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
        return tuple(branches)


@final
class KeywordRule(msgspec.Struct, frozen=True, eq=False):
    """A keyword of a part, for the search.

    Attributes:
        keyword: The keyword.
        part: The part.
        inner: The compiled schemas in the keyword.
        check: Decides about a value by this keyword.
        find: Finds the breaches of the keyword. None if the keyword does not concern inner values or properties.
        is_plain: True if a value that `check` accepts cannot have a breach.
        is_ordered: True if `find` finds the breaches in the order of the value.
    """

    keyword: str
    part: Part
    inner: Any
    check: Check
    find: Find | None
    is_plain: bool = True
    is_ordered: bool = True

    def note(self, to: Finder, value: Any, pointer: str, names: Iterable[str] = ()) -> None:
        """Add a breach of the keyword with at most `MAX_FAULTS` properties."""
        to.found.append(Breach(self.keyword, self.part, pointer, value, (*names,)[:MAX_FAULTS]))


def rules_of(part: Part) -> Mapping[type, tuple[KeywordRule, ...]]:
    """Return the keywords of a part that can refuse a value, by the type of the value. Store them in the part."""
    made: dict[type, tuple[KeywordRule, ...]] = dict.fromkeys(TYPES, ())
    if part.schema is False:
        made = dict.fromkeys(TYPES, (KeywordRule("false", part, None, never, None),))
    for keyword, clause in part.clauses.items():
        find = _FINDERS.get(keyword)
        inner = None if find is None else _inner(part, keyword)
        for tp, check in clause.by_type.items():
            is_plain = find is None or keyword in _NAMES
            made[tp] += (KeywordRule(keyword, part, inner, check, find, is_plain, find in _ORDERED),)
    part.rules = made
    return made


def _inner(part: Part, keyword: str) -> Any:
    rule = part.schema[keyword]
    if keyword == "properties":
        return {name: (part.under(inner), pointer_to("", name)) for name, inner in rule.items()}
    if keyword in _NAMED:
        return {name: inner if is_array(inner) else part.under(inner) for name, inner in rule.items()}
    if keyword in _PLAIN:
        return rule
    return [part.under(inner) for inner in rule] if is_array(rule) else part.under(rule)


# ---- members


def _properties(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    inner, of = rule.inner, to.of
    for name, item in value.items():
        known = inner.get(name)
        if known is not None and type(item) not in known[0].free:
            of(known[0], item, pointer, known[1])


def _pattern_properties(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    for pattern, inner in rule.inner.items():
        for name, item in value.items():
            if matches(pattern, name, to):
                to.of(inner, item, pointer, pointer_to("", name))


def _additional(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    schema = rule.part.schema
    known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    extras = [name for name in value if name not in known]
    extras = [name for name in extras if not any(matches(pattern, name, to) for pattern in patterns)]
    if rule.inner.schema is False and extras:
        rule.note(to, value, pointer, extras)
    elif is_object(rule.inner.schema):
        for name in extras:
            to.of(rule.inner, value[name], pointer, pointer_to("", name))


def _unevaluated_properties(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    known = evaluated_names(rule.part, value, to, beside=True)
    wrong = (name for name in value if name not in known and not rule.inner.takes(value[name], to))
    rule.note(to, value, pointer, wrong)


def _property_names(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    rule.note(to, value, pointer, [name for name in value if not rule.inner.takes(name, to)])


def _missing(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    rule.note(to, value, pointer, [name for name in rule.inner if name not in value])


def _dependencies(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    wanted = [name for given, names in rule.inner.items() if given in value and is_array(names) for name in names]
    missing = [*dict.fromkeys(name for name in wanted if name not in value)]
    if missing:
        rule.note(to, value, pointer, missing)
    for name, inner in rule.inner.items():
        if name in value and isinstance(inner, Part):
            to.of(inner, value, pointer)


# ---- items


def _items(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    if is_array(rule.inner):  # before 2020-12
        _locations(to, rule, value, pointer)
    else:
        newest = "prefixItems" in rule.part.dialect.keywords
        first = len(rule.part.schema.get("prefixItems", ())) if newest else 0
        _rest(to, rule, value, pointer, first, at_once=newest)


def _additional_items(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    locations = rule.part.schema.get("items")
    if is_array(locations):
        _rest(to, rule, value, pointer, len(locations), at_once=True)


def _rest(to: Finder, rule: KeywordRule, value: list[Any], pointer: str, first: int, *, at_once: bool) -> None:
    if rule.inner.schema is False and at_once:
        if len(value) > first:
            rule.note(to, value, pointer)
        return
    for location in to.suspects.get(id(value)) or range(first, len(value)):
        to.of(rule.inner, value[location], pointer, f"/{location}")


def _locations(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    for index, (inner, item) in enumerate(zip(rule.inner, value, strict=False)):
        to.of(inner, item, pointer, f"/{index}")


# ---- schemas in place


def _reference(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    for target in rule.part.targets(to):
        to.of(target, value, pointer)


def _all_of(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    for inner in rule.inner:
        to.of(inner, value, pointer)


def _union(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    if to.unions >= _UNIONS:
        to.found.append(Breach("alternatives", rule.part, pointer, value, words="one of the alternatives"))
        return
    fits = any(choice.takes(value, to) for choice in rule.inner)
    branches = () if fits else to.by_alternative(rule.inner, value, pointer)
    if to.integers and branches and not all(branches):
        return  # an alternative accepts the value with integers
    to.found.append(Breach(rule.keyword, rule.part, pointer, value, branches=branches))


def _if(to: Finder, rule: KeywordRule, value: Any, pointer: str) -> None:
    branch = "then" if rule.inner.takes(value, to) else "else"
    if branch in rule.part.schema:
        to.of(rule.part.under(rule.part.schema[branch]), value, pointer)


_NAMED: Final = frozenset(("patternProperties", "dependentSchemas", "dependentRequired", "dependencies"))
_PLAIN: Final = frozenset(("required", "$ref", "$dynamicRef", "$recursiveRef"))
_NAMES: Final = frozenset(("required", "propertyNames", "unevaluatedProperties", "anyOf", "oneOf"))
Find: TypeAlias = Callable[[Finder, KeywordRule, Any, str], None]
_ORDERED: Final = (None, _properties, _items, _additional_items, _locations, _reference, _missing, _union, _if)
_FINDERS: Final[dict[str, Find]] = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), _reference),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _dependencies),
    **dict.fromkeys(("anyOf", "oneOf"), _union),
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated_properties,
    "propertyNames": _property_names,
    "required": _missing,
    "items": _items,
    "prefixItems": _locations,
    "additionalItems": _additional_items,
    "allOf": _all_of,
    "if": _if,
}
