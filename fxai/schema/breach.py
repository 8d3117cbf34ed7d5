"""The keywords of a document that a value breaks. Use this module to find why the engine refuses a value.

The walk follows the parts of the engine, and passes over each part that accepts its value.

>>> engine = Engine({"properties": {"a": {"type": "integer"}}, "required": ["b"]})
>>> [(breach.keyword, breach.path) for breach in Finder(engine).breaches({"a": "x"})]
[('type', ('a',)), ('required', ())]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, ExhaustedError, new_stack
from fxai.schema.constraint import Work
from fxai.schema.data import is_array, is_object
from fxai.schema.engine import Engine, Part
from fxai.schema.evaluated import evaluated_items, evaluated_names
from fxai.schema.fault import pointer_of
from fxai.schema.pattern import PatternTimeoutError, in_time

_VISIT: Final = 20  # steps that the visit of a value by a part costs that refuses it
_UNIONS: Final = 2  # unions inside each other whose alternatives are walked
_LEVELS: Final = 48  # parts inside each other on one stack
_MOST_FOLLOWED: Final = 32  # references one after the other

Path: TypeAlias = tuple[str | int, ...]


@final
class Breach(msgspec.Struct, frozen=True):
    """One keyword that a value breaks.

    Attributes:
        keyword: The keyword. `false` for a schema that accepts nothing, `late` for a pattern that took too long.
        schema: The schema that contains the keyword.
        path: The place in the value.
        names: The properties that the keyword is about.
        branches: The breaches by each alternative of `anyOf` or `oneOf`. Empty if several alternatives of `oneOf`
            accept the value.
        said: The words for a keyword that has none of its own.
        part: The part that contains the keyword. None if the schema is `False`.
    """

    keyword: str
    schema: Mapping[str, Any]
    path: Path
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""
    part: Part | None = None

    @property
    def pointer(self) -> str:
        """The place in the value, as a JSON pointer."""
        return pointer_of(self.path)

    def at(self, root: object) -> Any:
        """Return what stands at the place, in the whole value."""
        there: Any = root
        for token in self.path:
            there = there[token]
        return there

    def follow(self, schema: Any) -> Any:
        """Return what a schema inside `schema` says: the target of its `$ref`, with the keywords beside it."""
        if self.part is None or not is_object(schema) or "$ref" not in schema:
            return schema
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


@final
class Finder:
    """One search for the breaches of a value, within its budget."""

    __slots__ = ("_engine", "_level", "_unions", "work")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._level = 0
        self._unions = 0
        self.work: Work = Work()

    @property
    def late(self) -> str | None:
        """The pattern that took too long. None if none did."""
        return self.work.matcher.late

    def breaches(self, value: Any) -> list[Breach]:
        """Return the first breaches of a value that the document refuses, as far as the budget goes."""
        found: list[Breach] = []
        root = self._engine.root
        walked = self.of(root, value, ()) if root.schema is False else self._by_keyword(root, value, ())
        with suppress(ExhaustedError):
            found.extend(islice(walked, MAX_FAULTS))
        return found

    def of(self, part: Part, value: Any, path: Path) -> Iterator[Breach]:
        """Iterate over the breaches of a value by a part."""
        if part.schema is False:
            yield Breach("false", {}, path)
        elif not self._takes(part, value):
            self.work.take(_VISIT)
            self._level += 1
            if self._level % _LEVELS:
                yield from self._by_keyword(part, value, path)
            else:
                yield from new_stack(lambda: [*islice(self._by_keyword(part, value, path), MAX_FAULTS)])
            self._level -= 1

    def _takes(self, part: Part, value: Any) -> bool:
        try:
            return part.takes(value, self.work)
        except PatternTimeoutError:
            return False  # the keyword tells which

    def _by_keyword(self, part: Part, value: Any, path: Path) -> Iterator[Breach]:
        self.work.resources.append(part.resource)
        alone = part.dialect.ref_alone and "$ref" in part.schema
        for keyword in ("$ref",) if alone else part.schema:
            find = _FINDERS.get(keyword)
            try:
                if find is not None and (keyword in part.dialect.keywords or part.knows(keyword)):
                    yield from find(self, part, part.schema[keyword], value, path)
                elif part.knows(keyword) and not part.check(keyword)(value, self.work):
                    yield breach(part, keyword, path)
            except PatternTimeoutError as timeout:
                yield msgspec.structs.replace(breach(part, "late", path), said=in_time(timeout.args[0]))
        self.work.resources.pop()

    def by_alternative(self, part: Part, value: Any, path: Path, choices: list[Any]) -> tuple[tuple[Breach, ...], ...]:
        """Return the breaches by each alternative of a union."""
        self._unions += 1
        found = [(*islice(self.of(part.under(choice), value, path), MAX_FAULTS),) for choice in choices]
        self._unions -= 1
        return tuple(found)

    @property
    def is_deep(self) -> bool:
        """Whether the walk is inside so many unions that the alternatives of one more are not walked."""
        return self._unions >= _UNIONS


def breach(part: Part, keyword: str, path: Path, names: list[str] | None = None) -> Breach:
    """Return the breach of a keyword, with the first properties that it is about."""
    return Breach(keyword, part.schema, path, tuple(names[:MAX_FAULTS]) if names else (), part=part)


# ---- members


def _properties(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        for name in rule if len(rule) <= len(value) else value:
            if name in value and name in rule:
                yield from to.of(part.under(rule[name]), value[name], (*path, name))


def _pattern_properties(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        for pattern, inner in rule.items():
            for name, item in value.items():
                if to.work.matcher.matches(pattern, name):
                    yield from to.of(part.under(inner), item, (*path, name))


def _additional(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if not is_object(value):
        return
    known, patterns = part.schema.get("properties", ()), part.schema.get("patternProperties", ())
    extras = [
        name
        for name in value
        if name not in known and not any(to.work.matcher.matches(pattern, name) for pattern in patterns)
    ]
    if rule is False and extras:
        yield breach(part, "additionalProperties", path, extras)
    elif is_object(rule):
        for name in extras:
            yield from to.of(part.under(rule), value[name], (*path, name))


def _unevaluated_properties(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        inner = part.under(rule)
        known = evaluated_names(part, value, to.work, beside=True)
        wrong = [name for name in value if name not in known and not inner.takes(value[name], to.work)]
        if wrong:
            yield breach(part, "unevaluatedProperties", path, wrong)


def _unevaluated_items(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_array(value):
        inner = part.under(rule)
        known = evaluated_items(part, value, to.work, beside=True)
        if any(place not in known and not inner.takes(item, to.work) for place, item in enumerate(value)):
            yield breach(part, "unevaluatedItems", path)


def _property_names(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        inner = part.under(rule)
        wrong = [name for name in value if not inner.takes(name, to.work)]
        if wrong:
            yield breach(part, "propertyNames", path, wrong)


def _required(_: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value) and is_array(rule):
        missing: list[str] = [name for name in rule if name not in value]
        if missing:
            yield breach(part, "required", path, missing)


def _dependent_required(_: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    yield from _missing(part, "dependentRequired", rule, value, path)


def _missing(part: Part, keyword: str, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        asked = [name for given, names in rule.items() if given in value and is_array(names) for name in names]
        missing = [*dict.fromkeys(name for name in asked if name not in value)]
        if missing:
            yield breach(part, keyword, path, missing)


def _dependent_schemas(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_object(value):
        for name, inner in rule.items():
            if name in value and not is_array(inner):
                yield from to.of(part.under(inner), value, path)


def _dependencies(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    yield from _missing(part, "dependencies", rule, value, path)
    yield from _dependent_schemas(to, part, rule, value, path)


# ---- items


def _items(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_array(rule):  # before 2020-12
        yield from _places(to, part, rule, value, path)
    elif is_array(value):
        newest = "prefixItems" in part.dialect.keywords
        yield from _rest(to, part, "items", value, path, len(part.schema.get("prefixItems", ())) if newest else 0)


def _additional_items(to: Finder, part: Part, _: Any, value: Any, path: Path) -> Iterator[Breach]:
    places = part.schema.get("items")
    if is_array(places) and is_array(value):
        yield from _rest(to, part, "additionalItems", value, path, len(places))


def _rest(to: Finder, part: Part, keyword: str, value: list[Any], path: Path, first: int) -> Iterator[Breach]:
    rule = part.schema[keyword]
    if rule is False and (keyword == "additionalItems" or "prefixItems" in part.dialect.keywords):
        if len(value) > first:
            yield breach(part, keyword, path)
        return
    for place in range(first, len(value)):
        yield from to.of(part.under(rule), value[place], (*path, place))


def _places(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    if is_array(value):
        for place, (inner, item) in enumerate(zip(rule, value, strict=False)):
            yield from to.of(part.under(inner), item, (*path, place))


# ---- schemas in place


def _reference(to: Finder, part: Part, _: Any, value: Any, path: Path) -> Iterator[Breach]:
    for target in part.targets(to.work):
        yield from to.of(target, value, path)


def _all_of(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    for inner in rule:
        yield from to.of(part.under(inner), value, path)


def _union(keyword: str) -> _Find:
    def find(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
        if part.check(keyword)(value, to.work):
            return
        if to.is_deep:
            yield msgspec.structs.replace(breach(part, "alternatives", path), said="one of the alternatives")
            return
        fits = any(part.under(choice).takes(value, to.work) for choice in rule)
        branches = () if fits else to.by_alternative(part, value, path, rule)
        yield msgspec.structs.replace(breach(part, keyword, path), branches=branches)

    return find


def _if(to: Finder, part: Part, rule: Any, value: Any, path: Path) -> Iterator[Breach]:
    branch = "then" if part.under(rule).takes(value, to.work) else "else"
    if branch in part.schema:
        yield from to.of(part.under(part.schema[branch]), value, path)


_Find: TypeAlias = Callable[[Finder, Part, Any, Any, Path], Iterator[Breach]]
_FINDERS: Final[dict[str, _Find]] = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "$recursiveRef": _reference,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
    "propertyNames": _property_names,
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependencies,
    "items": _items,
    "prefixItems": _places,
    "additionalItems": _additional_items,
    "allOf": _all_of,
    "anyOf": _union("anyOf"),
    "oneOf": _union("oneOf"),
    "if": _if,
}
