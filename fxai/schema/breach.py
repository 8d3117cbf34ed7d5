"""The keywords of a document that a value breaks. Use this module to find why the engine refuses a value.

The walk follows the parts of the engine, and passes over each part that accepts its value.

>>> from fxai.schema.engine import Engine
>>> engine = Engine({"properties": {"a": {"type": "integer"}}, "required": ["b"]})
>>> [(breach.keyword, breach.path) for breach in Finder(engine.root, Work()).breaches({"a": "x"})]
[('type', ('a',)), ('required', ())]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, ExhaustedError, new_stack
from fxai.schema.constraint import evaluated_items, evaluated_names
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import pointer_of
from fxai.schema.part import Check, Part, Work, join
from fxai.schema.pattern import PatternTimeoutError, in_time

_VISIT: Final = 20  # steps that the visit of a value by a part costs that refuses it
_UNIONS: Final = 2  # unions inside each other whose alternatives are walked
_MOST_FOLLOWED: Final = 32  # references one after the other

Path: TypeAlias = tuple[str | int, ...]


@final
class Breach(msgspec.Struct, frozen=True, eq=False):
    """One keyword that a value breaks.

    Attributes:
        keyword: The keyword. `false` for a schema that accepts nothing, `late` for a pattern that took too long.
        part: The part that contains the keyword.
        path: The place of the value.
        value: The value.
        names: The properties that the keyword is about.
        branches: The breaches by each alternative of `anyOf` or `oneOf`. Empty if several alternatives of `oneOf`
            accept the value.
        said: The words for a keyword that has none of its own.
    """

    keyword: str
    part: Part
    path: Path
    value: Any
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""

    @property
    def pointer(self) -> str:
        """The place of the value, as a JSON pointer."""
        return pointer_of(self.path)

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


class _EnoughError(ExhaustedError):
    """As many breaches are found as fxai reports."""


@final
class Finder:
    """One search for the breaches of a value, within its budget."""

    __slots__ = ("_root", "_unions", "found", "work")

    def __init__(self, root: Part, work: Work) -> None:
        self._root = root
        self._unions = 0
        self.found: list[Breach] = []
        self.work: Work = work

    def breaches(self, value: Any) -> list[Breach]:
        """Return the first breaches of a value that the document refuses, as far as the budget goes."""
        with suppress(ExhaustedError):
            self._walk(self._root, value, ())
        return self.found

    def add(self, part: Part, keyword: str, value: Any, path: Path, names: Iterable[str] = (), said: str = "") -> None:
        """Note a breach of a keyword, with the first properties that the keyword is about."""
        self.append(Breach(keyword, part, path, value, (*names,)[:MAX_FAULTS], said=said))

    def append(self, breach: Breach) -> None:
        """Note a breach."""
        self.found.append(breach)
        if len(self.found) >= MAX_FAULTS:
            raise _EnoughError

    def of(self, part: Part, value: Any, path: Path) -> None:
        """Note the breaches of a value by a part."""
        if not self.takes(part, value):
            self._walk(part, value, path)

    def inside(self, part: Part, value: Any, path: Path, token: str | int) -> None:
        """Note the breaches of a value inside the value at `path` by a part."""
        if type(value) not in part.free and not self.takes(part, value):
            self._walk(part, value, (*path, token))

    def takes(self, part: Part, value: Any) -> bool:
        """Return whether a part accepts a value. If a pattern takes too long, its keyword reports it."""
        try:
            return part.takes(value, self.work)
        except PatternTimeoutError:
            return False

    def _walk(self, part: Part, value: Any, path: Path) -> None:
        self.work.take(_VISIT)
        before, entered = len(self.found), len(self.work.resources)
        try:
            self._by_keyword(part, value, path)
        except RecursionError:
            del self.found[before:], self.work.resources[entered:]
            new_stack(lambda: self._by_keyword(part, value, path))

    def _by_keyword(self, part: Part, value: Any, path: Path) -> None:
        if part.schema is False:
            self.add(part, "false", value, path)
            return
        self.work.resources.append(part.resource)
        for rule in _rules(part) if part.rules is None else part.rules:
            try:
                if rule.find is not None:
                    rule.find(self, rule, value, path)
                elif not rule.check(value, self.work):
                    self.add(part, rule.keyword, value, path)
            except PatternTimeoutError as timeout:
                self.add(part, "late", value, path, said=in_time(timeout.args[0]))
        self.work.resources.pop()

    def by_alternative(self, choices: Iterable[Part], value: Any, path: Path) -> tuple[tuple[Breach, ...], ...]:
        """Return the breaches by each alternative of a union."""
        around, branches = self.found, list[tuple[Breach, ...]]()
        self._unions += 1
        try:
            for choice in choices:
                self.found = []
                with suppress(_EnoughError):
                    self.of(choice, value, path)
                branches.append((*self.found,))
        finally:
            self.found = around
            self._unions -= 1
        return tuple(branches)

    @property
    def is_deep(self) -> bool:
        """True if the walk is inside so many unions that it does not walk the alternatives of one more."""
        return self._unions >= _UNIONS


class _Rule(NamedTuple):
    """One keyword of a part, for the walk.

    Attributes:
        keyword: The keyword.
        part: The part.
        inner: The schemas in the keyword, compiled.
        check: Decides by the keyword alone.
        find: Finds the breaches of the keyword. None if the keyword has no members.
    """

    keyword: str
    part: Part
    inner: Any
    check: Check
    find: _Find | None

    def note(self, to: Finder, value: Any, path: Path, names: Iterable[str] = ()) -> None:
        """Note that a value breaks the keyword."""
        to.add(self.part, self.keyword, value, path, names)


def _rules(part: Part) -> tuple[_Rule, ...]:
    """Return the keywords of a part, and store them in the part."""
    alone = part.dialect.ref_alone and "$ref" in part.schema
    made: list[_Rule] = []
    for keyword in ("$ref",) if alone else part.schema:
        clause = part.clauses.get(keyword)
        if clause is not None:
            inner = _inner(part, keyword) if keyword in _FINDERS else None
            made.append(_Rule(keyword, part, inner, join([clause], part.dialect)[0], _FINDERS.get(keyword)))
    part.rules = tuple(made)
    return part.rules


def _inner(part: Part, keyword: str) -> Any:
    rule = part.schema[keyword]
    if keyword in _NAMED:
        return {name: inner if is_array(inner) else part.under(inner) for name, inner in rule.items()}
    if keyword in _PLAIN:
        return rule
    return [part.under(inner) for inner in rule] if is_array(rule) else part.under(rule)


# ---- members


def _properties(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_object(value):
        inner = rule.inner
        for name in inner if len(inner) <= len(value) else value:
            if name in value and name in inner:
                to.inside(inner[name], value[name], path, name)


def _pattern_properties(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_object(value):
        for pattern, inner in rule.inner.items():
            for name, item in value.items():
                if to.work.matcher.matches(pattern, name):
                    to.inside(inner, item, path, name)


def _additional(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if not is_object(value):
        return
    schema = rule.part.schema
    known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    extras = [name for name in value if name not in known]
    extras = [name for name in extras if not any(to.work.matcher.matches(pattern, name) for pattern in patterns)]
    if rule.inner.schema is False and extras:
        rule.note(to, value, path, extras)
    elif is_object(rule.inner.schema):
        for name in extras:
            to.inside(rule.inner, value[name], path, name)


def _unevaluated_properties(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_object(value):
        known = evaluated_names(rule.part, value, to.work, beside=True)
        wrong = [name for name in value if name not in known and not rule.inner.takes(value[name], to.work)]
        if wrong:
            rule.note(to, value, path, wrong)


def _unevaluated_items(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_array(value):
        known = evaluated_items(rule.part, value, to.work, beside=True)
        if any(place not in known and not rule.inner.takes(item, to.work) for place, item in enumerate(value)):
            rule.note(to, value, path)


def _property_names(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_object(value):
        wrong = [name for name in value if not rule.inner.takes(name, to.work)]
        if wrong:
            rule.note(to, value, path, wrong)


def _missing(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_object(value) and is_array(rule.inner):
        missing = [name for name in rule.inner if name not in value]
        if missing:
            rule.note(to, value, path, missing)


def _dependencies(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if not is_object(value):
        return
    wanted = [name for given, names in rule.inner.items() if given in value and is_array(names) for name in names]
    missing = [*dict.fromkeys(name for name in wanted if name not in value)]
    if missing:
        rule.note(to, value, path, missing)
    for name, inner in rule.inner.items():
        if name in value and isinstance(inner, Part):
            to.of(inner, value, path)


# ---- items


def _items(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_array(rule.inner):  # before 2020-12
        _places(to, rule, value, path)
    elif is_array(value):
        newest = "prefixItems" in rule.part.dialect.keywords
        first = len(rule.part.schema.get("prefixItems", ())) if newest else 0
        _rest(to, rule, value, path, first, at_once=newest)


def _additional_items(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    places = rule.part.schema.get("items")
    if is_array(places) and is_array(value):
        _rest(to, rule, value, path, len(places), at_once=True)


def _rest(to: Finder, rule: _Rule, value: list[Any], path: Path, first: int, *, at_once: bool) -> None:
    if rule.inner.schema is False and at_once:
        if len(value) > first:
            rule.note(to, value, path)
        return
    for place in range(first, len(value)):
        to.inside(rule.inner, value[place], path, place)


def _places(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if is_array(value):
        for place, (inner, item) in enumerate(zip(rule.inner, value, strict=False)):
            to.inside(inner, item, path, place)


# ---- schemas in place


def _reference(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    for target in rule.part.targets(to.work):
        to.of(target, value, path)


def _all_of(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    for inner in rule.inner:
        to.of(inner, value, path)


def _union(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    if rule.check(value, to.work):
        return
    if to.is_deep:
        to.add(rule.part, "alternatives", value, path, said="one of the alternatives")
        return
    fits = any(choice.takes(value, to.work) for choice in rule.inner)
    branches = () if fits else to.by_alternative(rule.inner, value, path)
    to.append(Breach(rule.keyword, rule.part, path, value, branches=branches))


def _if(to: Finder, rule: _Rule, value: Any, path: Path) -> None:
    branch = "then" if rule.inner.takes(value, to.work) else "else"
    if branch in rule.part.schema:
        to.of(rule.part.under(rule.part.schema[branch]), value, path)


_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies"))
_PLAIN: Final = frozenset(("required", "$ref", "$dynamicRef", "$recursiveRef"))
_Find: TypeAlias = Callable[[Finder, _Rule, Any, Path], None]
_FINDERS: Final[dict[str, _Find]] = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), _reference),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _dependencies),
    **dict.fromkeys(("anyOf", "oneOf"), _union),
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
    "propertyNames": _property_names,
    "required": _missing,
    "items": _items,
    "prefixItems": _places,
    "additionalItems": _additional_items,
    "allOf": _all_of,
    "if": _if,
}
