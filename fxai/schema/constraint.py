"""The keywords of a schema as functions that decide about a value and count their steps.

A step costs about the same wherever it is taken, so that the budget bounds the time: a visit of a value by a schema
costs one and one for each keyword, names and items that are looked at cost by their number, and constants are compared
by a number that each distinct value has, found once.

>>> work, constants = Work(9), {}
>>> number_of([1, 2.0], constants, {}, work) is number_of([1.0, 2], constants, {}, work), work.left
(True, 3)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from fxai.schema.budget import MAX_STEPS, STRIDE, ExhaustedError, new_stack
from fxai.schema.data import is_array, is_object, number_identity
from fxai.schema.dialect import Dialect
from fxai.schema.evaluated import evaluated_items, evaluated_names
from fxai.schema.pattern import SECONDS, Matcher

if TYPE_CHECKING:
    from fxai.schema.engine import Part

_FEW: Final = 2  # how many distinct items cost as much as a visit
_LIST: Final = 8  # how many names that are looked up, or values that are compared, cost as much as a visit
_FRACTION: Final = 32  # what reckoning with a step that is no integer costs
_DIGITS: Final = 512  # how many bits of an integer that is divided cost as much as a visit
_PATTERN: Final = 6  # what a search costs, beside the time that all searches have
_DEEPEST: Final = 4_000


@final
class Work:
    """What one decision may still do, and what it knows."""

    __slots__ = ("known", "left", "level", "matcher", "numbers", "numbers_of", "resources")

    def __init__(self, left: int = MAX_STEPS, matcher: Matcher | None = None) -> None:
        self.left: int = left
        self.level: int = 0
        self.matcher: Matcher = matcher or Matcher(SECONDS)
        self.known: dict[Hashable, bool] = {}
        self.resources: list[str] = []
        self.numbers: dict[Hashable, object] = {}
        self.numbers_of: dict[int, object] = {}

    def take(self, steps: int) -> None:
        """Count steps. Raises `ExhaustedError`: so many are not left."""
        self.left -= steps
        if self.left < 0:
            raise ExhaustedError


Check: TypeAlias = Callable[[Any, Work], bool]
"""Whether a value is taken; raises `ExhaustedError` and `PatternTimeoutError`."""


# ---- one schema


def always(_: Any, __: Work) -> bool:
    """Take everything."""
    return True


def never(_: Any, __: Work) -> bool:
    """Take nothing."""
    return False


_KINDS: Final = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_TYPES: Final = (dict, list, str, int, float, bool, type(None))


def _kind(value: Any) -> type:
    """The JSON type of a value whose own is another one: a subclass, or what is written as one."""
    if isinstance(value, tuple):
        return list
    return next((tp for tp in (bool, dict, list, str, int, float) if isinstance(value, tp)), type(None))


@final
class Parts:
    """What one schema asks, by the type of the value."""

    __slots__ = ("by_type", "deep", "kinds", "weight")

    def __init__(self) -> None:
        self.by_type: dict[type, list[Check]] = {tp: [] for tp in _TYPES}
        self.kinds: frozenset[str] | None = None
        self.deep: bool = False
        self.weight: int = 1

    def add(self, kind: str, check: Check, weight: int = 1) -> None:
        """Ask something of every value of a kind, or of `any` kind."""
        for tp in _TYPES if kind == "any" else _KINDS[kind]:
            self.by_type[tp].append(check)
        self.weight += weight

    def check(self, dialect: Dialect) -> Check:
        """What decides by all of it."""
        table: dict[type, tuple[Check, ...]] = {tp: tuple(checks) for tp, checks in self.by_type.items()}
        if self.kinds is not None:
            allowed = {tp for kind in self.kinds for tp in _KINDS[kind]}
            if "integer" in self.kinds and "number" not in self.kinds:
                whole = never if dialect.name == "draft-04" else _is_whole
                table[float] = (whole, *table[float])
            table = {tp: checks if tp in allowed else (never,) for tp, checks in table.items()}
        return _deep(table, self.weight) if self.deep else _flat(table, self.weight)


def _flat(table: Mapping[type, tuple[Check, ...]], weight: int) -> Check:
    find = table.get

    def check(value: object, work: Work) -> bool:
        work.left -= weight
        if work.left < 0:
            raise ExhaustedError
        checks = find(type(value))
        for one in table[_kind(value)] if checks is None else checks:
            if not one(value, work):
                break
        else:
            return True
        return False

    return check


def _deep(table: Mapping[type, tuple[Check, ...]], weight: int) -> Check:
    """The same for a schema that others stand in: now and then it is decided on a new stack."""
    flat = _flat(table, weight)

    def check(value: Any, work: Work) -> bool:
        work.level = level = work.level + 1
        if level > _DEEPEST:
            raise ExhaustedError
        try:
            return flat(value, work) if level % STRIDE else new_stack(lambda: flat(value, work))
        finally:
            work.level = level - 1

    return check


def _is_whole(value: float, _: Work) -> bool:
    return value.is_integer()


# ---- values


def number_of(value: Any, constants: dict[Hashable, object], known: dict[int, object], work: Work) -> object:
    """What is the same for values that JSON Schema calls equal, and for no others; a value is gone through once."""
    if value is None or isinstance(value, (str, int, float)):
        if isinstance(value, bool):
            return (value,)
        return value if value is None or isinstance(value, str) else number_identity(value)
    number = known.get(id(value))
    if number is None:
        work.take(1 + len(value))
        key: Hashable = (
            frozenset((name, number_of(one, constants, known, work)) for name, one in value.items())
            if is_object(value)
            else ("[", *(number_of(one, constants, known, work) for one in value))
        )
        number = constants.get(key)
        if number is None:  # one of the data is known to this decision alone
            number = (work.numbers if work.numbers_of is known else constants).setdefault(key, object())
        known[id(value)] = number
    return number


class Checks(Protocol):
    """The checks of a document, as its keywords see them: those of the schemas inside, and the numbers of constants."""

    dialect: Dialect

    def of(self, schema: Any, /) -> Check:
        """What decides by a schema inside the document."""
        ...

    def part(self, schema: Any, /) -> Part:
        """The compiled form of a schema of the document."""
        ...

    def number(self, value: Any, /) -> object:
        """The number of a constant."""

    def number_in(self, value: Any, work: Work, /) -> object:
        """The number of a value of the data."""


def _enum(to: Checks, parts: Parts, values: Any, _: Any) -> None:
    listed = frozenset(map(to.number, values))

    def check(value: Any, work: Work) -> bool:
        return to.number_in(value, work) in listed

    parts.add("any", check)


def _const(to: Checks, parts: Parts, value: Any, _: Any) -> None:
    _enum(to, parts, [value], _)


def _type(_: Checks, parts: Parts, rule: Any, __: Any) -> None:
    parts.kinds = frozenset(rule if is_array(rule) else [rule])


def _size_bound(kind: str, holds: Callable[[Any, Any], bool]) -> _Maker:
    """A bound of the values of a kind; a boolean beside a bound, in draft 4, is none by itself."""

    def make(_: Checks, parts: Parts, limit: Any, __: Any) -> None:
        if not isinstance(limit, bool):
            parts.add(kind, lambda value, _: holds(value, limit))

    return make


def _at_least(value: Any, least: Any) -> bool:
    return bool(len(value) >= least)


def _at_most(value: Any, most: Any) -> bool:
    return bool(len(value) <= most)


def _number_bound(holds: Callable[[Any, Any], bool], strictly: Callable[[Any, Any], bool], beside: str) -> _Maker:
    """A bound of numbers, which draft 4 makes exclusive by a keyword beside it."""

    def make(_: Checks, parts: Parts, limit: Any, schema: Any) -> None:
        chosen = strictly if schema.get(beside) is True else holds
        parts.add("number", lambda value, _: chosen(value, limit))

    return make


def is_multiple(value: Any, step: Any) -> bool:
    """Whether a number is a multiple of another one, fractions as they are written: 0.3 is a multiple of 0.1."""
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    exact = _exact(step)
    return (_exact(value) * exact.denominator) % exact.numerator == 0


def _exact(number: Any) -> Fraction:
    """What a number is: a whole float the integer that it equals, as `const` and `maximum` take it, too."""
    return Fraction(number) if isinstance(number, int) or number.is_integer() else Fraction(str(number))


def _multiple(_: Checks, parts: Parts, step: Any, __: Any) -> None:
    size = _exact(step)
    bits = size.numerator.bit_length() + size.denominator.bit_length()

    def check(value: Any, work: Work) -> bool:
        far = value.bit_length() if isinstance(value, int) else 0 if isinstance(step, int) else 4 * _DIGITS
        work.take((far + bits) ** 2 // _DIGITS**2)
        return is_multiple(value, step)

    parts.add("number", check, 1 if isinstance(step, int) else _FRACTION)


def _pattern(_: Checks, parts: Parts, pattern: str, __: Any) -> None:
    parts.add("string", lambda value, work: work.matcher.matches(pattern, value), _PATTERN)


# ---- members


def _properties(to: Checks, parts: Parts, properties: Any, _: Any) -> None:
    checks = {name: to.of(inner) for name, inner in properties.items()}

    def check(value: Any, work: Work) -> bool:
        if len(checks) <= len(value):
            work.left -= len(checks) // _LIST
            for name, inner in checks.items():
                if name in value and not inner(value[name], work):
                    break
            else:
                return True
            return False
        work.left -= len(value) // _LIST
        for name, item in value.items():
            found = checks.get(name)
            if found is not None and not found(item, work):
                return False
        return True

    parts.deep = True
    parts.add("object", check)


def _required_names(_: Checks, parts: Parts, names: Any, __: Any) -> None:
    if is_array(names):
        wanted = frozenset(names)
        parts.add("object", lambda value, _: wanted <= value.keys(), 1 + len(wanted) // _LIST)


def _additional(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    inner, names = to.of(rule), schema.get("properties", {})
    patterns = tuple(schema.get("patternProperties", ()))

    def check(value: Any, work: Work) -> bool:
        work.take(len(value) // _LIST)
        for name, item in value.items():
            if name in names or (patterns and _any_found(patterns, name, work)):
                continue
            if not inner(item, work):
                return False
        return True

    parts.deep = True
    if inner is not always:
        parts.add("object", check, 1 + _PATTERN * len(patterns))


def _any_found(patterns: Iterable[str], name: str, work: Work) -> bool:
    for pattern in patterns:
        work.take(_PATTERN)
        if work.matcher.matches(pattern, name):
            return True
    return False


def _pattern_properties(to: Checks, parts: Parts, patterns: Any, _: Any) -> None:
    checks = {pattern: to.of(inner) for pattern, inner in patterns.items()}

    def check(value: Any, work: Work) -> bool:
        for pattern, inner in checks.items():
            work.take(_PATTERN * len(value))
            for name, item in value.items():
                if work.matcher.matches(pattern, name) and not inner(item, work):
                    return False
        return True

    parts.deep = True
    parts.add("object", check, 1 + _PATTERN * len(checks))


def _names(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    inner = to.of(rule)
    parts.deep = True
    parts.add("object", lambda value, work: all(inner(name, work) for name in value))


def _dependent_required(_: Checks, parts: Parts, dependencies: Any, __: Any) -> None:
    wanted = {name: frozenset(asked) for name, asked in dependencies.items() if is_array(asked)}

    def check(value: Any, _: Work) -> bool:
        return all(asked <= value.keys() for name, asked in wanted.items() if name in value)

    parts.add("object", check, 1 + sum(1 + len(asked) for asked in wanted.values()) // _LIST)


def _dependent_schemas(to: Checks, parts: Parts, dependencies: Any, _: Any) -> None:
    checks = {name: to.of(inner) for name, inner in dependencies.items() if not is_array(inner)}

    def check(value: Any, work: Work) -> bool:
        return all(inner(value, work) for name, inner in checks.items() if name in value)

    parts.deep = True
    parts.add("object", check, 1 + len(checks) // _LIST)


def _dependencies(to: Checks, parts: Parts, dependencies: Any, schema: Any) -> None:
    _dependent_required(to, parts, dependencies, schema)
    _dependent_schemas(to, parts, dependencies, schema)


# ---- items


def _items(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    if is_array(rule):  # before 2020-12
        _places(to, parts, rule, schema)
    else:
        old = "prefixItems" not in to.dialect.keywords
        _rest(to, parts, rule, 0 if old else len(schema.get("prefixItems", ())))


def _additional_items(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    places = schema.get("items")
    if is_array(places):
        _rest(to, parts, rule, len(places))


def _places(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    checks = tuple(map(to.of, rule))
    parts.deep = True
    parts.add("array", lambda value, work: all(one(item, work) for one, item in zip(checks, value, strict=False)))


def _rest(to: Checks, parts: Parts, rule: Any, first: int) -> None:
    inner = to.of(rule)

    def check(value: Any, work: Work) -> bool:
        for item in value[first:] if first else value:
            if not inner(item, work):
                break
        else:
            return True
        return False

    parts.deep = True
    if inner is never:
        parts.add("array", lambda value, _: len(value) <= first)
    elif inner is not always:
        parts.add("array", check)


def _contains(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    counted = "minContains" in to.dialect.keywords
    least = schema.get("minContains", 1) if counted else 1
    most = schema.get("maxContains") if counted else None
    inner = to.of(rule)

    def check(value: Any, work: Work) -> bool:
        found = 0
        for item in value:
            found += inner(item, work)
            if most is None and found >= least:
                return True
            if most is not None and found > most:
                return False
        return bool(found >= least)

    parts.deep = True
    parts.add("array", check)


def _unique(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    def check(value: Any, work: Work) -> bool:
        work.take(len(value) // _FEW)
        return len({to.number_in(item, work) for item in value}) == len(value)

    if rule is True:
        parts.add("array", check)


# ---- schemas in place


def _all_of(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    checks = tuple(map(to.of, rule))
    parts.deep = True
    parts.add("any", lambda value, work: all(one(value, work) for one in checks))


def _any_of(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    listed = [_constants(one) for one in rule]
    if all(values is not None for values in listed):  # a union of constants, looked up
        _enum(to, parts, [value for values in listed for value in values or ()], _)
        return
    checks = tuple(map(to.of, rule))
    parts.deep = True
    parts.add("any", lambda value, work: any(one(value, work) for one in checks))


def _constants(schema: Any) -> list[Any] | None:
    """The values of a schema that is a `const` or an `enum` and nothing else."""
    if not is_object(schema) or len(schema.keys() - _WORDS) != 1:
        return None
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if is_array(values) else None


_WORDS: Final = frozenset(("title", "description"))


def _one_of(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    checks = tuple(map(to.of, rule))

    def check(value: Any, work: Work) -> bool:
        found = False
        for one in checks:
            if one(value, work):
                if found:
                    return False
                found = True
        return found

    parts.deep = True
    parts.add("any", check)


def _not(to: Checks, parts: Parts, rule: Any, _: Any) -> None:
    inner = to.of(rule)
    parts.deep = True
    parts.add("any", lambda value, work: not inner(value, work))


def _if(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    inner, then, otherwise = to.of(rule), to.of(schema.get("then", True)), to.of(schema.get("else", True))
    parts.deep = True
    parts.add("any", lambda value, work: (then if inner(value, work) else otherwise)(value, work))


# ---- what nothing beside it evaluates


def _unevaluated_properties(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    inner = to.of(rule)

    def check(value: Any, work: Work) -> bool:
        names = evaluated_names(to.part(schema), value, work, beside=True)
        return all(name in names or inner(item, work) for name, item in value.items())

    parts.deep = True
    parts.add("object", check)


def _unevaluated_items(to: Checks, parts: Parts, rule: Any, schema: Any) -> None:
    inner = to.of(rule)

    def check(value: Any, work: Work) -> bool:
        places = evaluated_items(to.part(schema), value, work, beside=True)
        return all(place in places or inner(item, work) for place, item in enumerate(value))

    parts.deep = True
    parts.add("array", check)


_Maker: TypeAlias = "Callable[[Checks, Parts, Any, Any], None]"
MAKERS: Final[dict[str, _Maker]] = {
    "enum": _enum,
    "const": _const,
    "type": _type,
    "minimum": _number_bound(operator.ge, operator.gt, "exclusiveMinimum"),
    "maximum": _number_bound(operator.le, operator.lt, "exclusiveMaximum"),
    "exclusiveMinimum": _size_bound("number", operator.gt),
    "exclusiveMaximum": _size_bound("number", operator.lt),
    "multipleOf": _multiple,
    "minLength": _size_bound("string", _at_least),
    "maxLength": _size_bound("string", _at_most),
    "pattern": _pattern,
    "properties": _properties,
    "required": _required_names,
    "additionalProperties": _additional,
    "patternProperties": _pattern_properties,
    "propertyNames": _names,
    "minProperties": _size_bound("object", _at_least),
    "maxProperties": _size_bound("object", _at_most),
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependencies,
    "items": _items,
    "prefixItems": _places,
    "additionalItems": _additional_items,
    "contains": _contains,
    "minItems": _size_bound("array", _at_least),
    "maxItems": _size_bound("array", _at_most),
    "uniqueItems": _unique,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
