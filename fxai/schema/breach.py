"""The keywords of a document that a value breaks. Use this module to find why the engine refuses a value.

The walk follows the parts of the engine, and passes over each part that accepts its value.

>>> from fxai.schema.engine import Engine
>>> engine = Engine({"properties": {"a": {"type": "integer"}}, "required": ["b"]})
>>> [(breach.keyword, breach.pointer) for breach in find_breaches(engine.root, {"a": "x"}, Work())]
[('type', '/a'), ('required', '')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, ExhaustedError, new_stack
from fxai.schema.constraint import evaluated_names
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import pointer_to
from fxai.schema.part import Check, Part, Work, join, never
from fxai.schema.pattern import PatternTimeoutError, in_time

_VISIT: Final = 20  # steps that the visit of a value by a part costs that refuses it
_UNIONS: Final = 2  # unions inside each other whose alternatives are walked
_MOST_FOLLOWED: Final = 32  # references one after the other


@final
class Breach(msgspec.Struct, frozen=True, eq=False):
    """A keyword that a value breaks.

    Attributes:
        keyword: The keyword. `false` for a schema that accepts nothing, `late` for a pattern that took too long.
        part: The part that contains the keyword.
        pointer: The place of the value, as a JSON pointer.
        value: The value.
        names: The properties that the keyword is about.
        branches: The breaches by each alternative of `anyOf` or `oneOf`. Empty if several alternatives of `oneOf`
            accept the value.
        said: The words for a keyword that has none of its own.
    """

    keyword: str
    part: Part
    pointer: str
    value: Any
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""

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
    """The end of a search that has found all breaches that fxai reports."""


@final
class Finder(msgspec.Struct, eq=False):
    """One search for the breaches of a value, within its budget.

    Attributes:
        work: The budget.
        found: The breaches.
        unions: The unions around the value whose alternatives are walked.
        stacks: The stacks that the search may still start.
    """

    work: Work
    found: list[Breach] = []
    unions: int = 0
    stacks: int = 32

    def add(self, breach: Breach) -> None:
        """Note a breach."""
        self.found.append(breach)
        if len(self.found) >= MAX_FAULTS:
            raise _EnoughError

    def of(self, part: Part, value: Any, pointer: str, token: str | int | None = None) -> None:
        """Note the breaches of a value by a part.

        Args:
            part: The part.
            value: The value.
            pointer: The place of the value, or of the value around it.
            token: The name or index of the value inside the value at `pointer`. Default: none.
        """
        if type(value) in part.free:
            return
        try:
            if part.takes(value, self.work):
                return
        except PatternTimeoutError:
            pass  # the keyword reports it
        self.walk(part, value, pointer if token is None else pointer_to(pointer, token))

    def walk(self, part: Part, value: Any, pointer: str) -> None:
        """Note the breaches of a value that a part refuses."""
        self.work.left -= _VISIT
        if self.work.left < 0:
            raise ExhaustedError
        before, entered = len(self.found), len(self.work.resources)
        self.work.resources.append(part.resource)
        try:
            for rule in rules_of(part) if part.rules is None else part.rules:
                try:
                    if not isinstance(value, rule.kind) or (rule.is_plain and rule.check(value, self.work)):
                        continue
                    if rule.find is None:
                        self.add(Breach(rule.keyword, part, pointer, value))
                    else:
                        rule.find(self, rule, value, pointer)
                except PatternTimeoutError as timeout:
                    self.add(Breach("late", part, pointer, value, said=in_time(timeout.args[0])))
        except RecursionError:
            self.stacks -= 1
            if self.stacks < 0:
                raise ExhaustedError from None
            del self.found[before:]
            new_stack(lambda: self.walk(part, value, pointer))
        finally:
            del self.work.resources[entered:]

    def by_alternative(self, choices: Iterable[Part], value: Any, pointer: str) -> tuple[tuple[Breach, ...], ...]:
        """Return the breaches by each alternative of a union."""
        around, branches = self.found, list[tuple[Breach, ...]]()
        self.unions += 1
        try:
            for choice in choices:
                self.found = []
                with suppress(_EnoughError):
                    self.of(choice, value, pointer)
                branches.append((*self.found,))
        finally:
            self.found = around
            self.unions -= 1
        return tuple(branches)


class Rule(NamedTuple):
    """A keyword of a part, for the walk.

    Attributes:
        keyword: The keyword.
        part: The part.
        inner: The schemas in the keyword, compiled.
        check: Decides by the keyword alone.
        kind: The Python type of the values that the keyword is about.
        find: Finds the breaches of the keyword. None if the keyword is about the value alone.
        is_plain: True if the keyword has no breach in a value that `check` accepts.
    """

    keyword: str
    part: Part
    inner: Any
    check: Check
    kind: type
    find: Find | None
    is_plain: bool

    def note(self, to: Finder, value: Any, pointer: str, names: Iterable[str] = ()) -> None:
        """Note that a value breaks the keyword, with the first properties that the keyword is about."""
        to.add(Breach(self.keyword, self.part, pointer, value, (*names,)[:MAX_FAULTS]))


def find_breaches(root: Part, value: Any, work: Work) -> list[Breach]:
    """Return the first breaches of a value that a part refuses, as far as the budget goes."""
    finder = Finder(work)
    with suppress(ExhaustedError):
        finder.walk(root, value, "")
    return finder.found


def rules_of(part: Part) -> tuple[Rule, ...]:
    """Return the keywords of a part for the walk, and store them in the part."""
    made: list[Rule] = []
    if part.schema is False:
        made.append(Rule("false", part, None, never, object, None, is_plain=True))
    for keyword, clause in part.clauses.items():
        kind, find = _FINDERS.get(keyword, (object, None))
        inner = None if find is None else _inner(part, keyword)
        check = join([clause], part.dialect)[0]
        made.append(Rule(keyword, part, inner, check, kind, find, is_plain=find is None or keyword in _NAMES))
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


def _properties(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    inner, of = rule.inner, to.of
    for name, item in value.items():
        part = inner.get(name)
        if part is not None and type(item) not in part.free:
            of(part, item, pointer, name)


def _pattern_properties(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    for pattern, inner in rule.inner.items():
        for name, item in value.items():
            if to.work.matcher.matches(pattern, name):
                to.of(inner, item, pointer, name)


def _additional(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    schema = rule.part.schema
    known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    extras = [name for name in value if name not in known]
    extras = [name for name in extras if not any(to.work.matcher.matches(pattern, name) for pattern in patterns)]
    if rule.inner.schema is False and extras:
        rule.note(to, value, pointer, extras)
    elif is_object(rule.inner.schema):
        for name in extras:
            to.of(rule.inner, value[name], pointer, name)


def _unevaluated_properties(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    known = evaluated_names(rule.part, value, to.work, beside=True)
    wrong = (name for name in value if name not in known and not rule.inner.takes(value[name], to.work))
    rule.note(to, value, pointer, wrong)


def _property_names(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    rule.note(to, value, pointer, [name for name in value if not rule.inner.takes(name, to.work)])


def _missing(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    rule.note(to, value, pointer, [name for name in rule.inner if name not in value])


def _dependencies(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    wanted = [name for given, names in rule.inner.items() if given in value and is_array(names) for name in names]
    missing = [*dict.fromkeys(name for name in wanted if name not in value)]
    if missing:
        rule.note(to, value, pointer, missing)
    for name, inner in rule.inner.items():
        if name in value and isinstance(inner, Part):
            to.of(inner, value, pointer)


# ---- items


def _items(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    if is_array(rule.inner):  # before 2020-12
        _places(to, rule, value, pointer)
    else:
        newest = "prefixItems" in rule.part.dialect.keywords
        first = len(rule.part.schema.get("prefixItems", ())) if newest else 0
        _rest(to, rule, value, pointer, first, at_once=newest)


def _additional_items(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    places = rule.part.schema.get("items")
    if is_array(places):
        _rest(to, rule, value, pointer, len(places), at_once=True)


def _rest(to: Finder, rule: Rule, value: list[Any], pointer: str, first: int, *, at_once: bool) -> None:
    if rule.inner.schema is False and at_once:
        if len(value) > first:
            rule.note(to, value, pointer)
        return
    for place in range(first, len(value)):
        to.of(rule.inner, value[place], pointer, place)


def _places(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    for place, (inner, item) in enumerate(zip(rule.inner, value, strict=False)):
        to.of(inner, item, pointer, place)


# ---- schemas in place


def _reference(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    for target in rule.part.targets(to.work):
        to.of(target, value, pointer)


def _all_of(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    for inner in rule.inner:
        to.of(inner, value, pointer)


def _union(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    if to.unions >= _UNIONS:
        to.add(Breach("alternatives", rule.part, pointer, value, said="one of the alternatives"))
        return
    fits = any(choice.takes(value, to.work) for choice in rule.inner)
    branches = () if fits else to.by_alternative(rule.inner, value, pointer)
    to.add(Breach(rule.keyword, rule.part, pointer, value, branches=branches))


def _if(to: Finder, rule: Rule, value: Any, pointer: str) -> None:
    branch = "then" if rule.inner.takes(value, to.work) else "else"
    if branch in rule.part.schema:
        to.of(rule.part.under(rule.part.schema[branch]), value, pointer)


_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies"))
_PLAIN: Final = frozenset(("required", "$ref", "$dynamicRef", "$recursiveRef"))
_NAMES: Final = frozenset(("required", "propertyNames", "unevaluatedProperties", "anyOf", "oneOf"))
Find: TypeAlias = Callable[[Finder, Rule, Any, str], None]
_FINDERS: Final[dict[str, tuple[type, Find]]] = {
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), (object, _reference)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), (dict, _dependencies)),
    **dict.fromkeys(("anyOf", "oneOf"), (object, _union)),
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional),
    "unevaluatedProperties": (dict, _unevaluated_properties),
    "propertyNames": (dict, _property_names),
    "required": (dict, _missing),
    "items": (list, _items),
    "prefixItems": (list, _places),
    "additionalItems": (list, _additional_items),
    "allOf": (object, _all_of),
    "if": (object, _if),
}
