"""The keywords of a schema as checks of values. The engine compiles the keywords of a document with this module.

Each check counts its steps. Names and items cost steps by their number. To compare constants, the engine assigns
a number to each distinct value. It determines the number of each array and object only once.

>>> work, constants = Work(9), {}
>>> number_of([1, 2.0], constants, {}, work) is number_of([1.0, 2], constants, {}, work), work.left
(True, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fxai.schema.budget import Work
from fxai.schema.data import JsonArray, JsonObject, is_array, is_object, number_identity
from fxai.schema.dialect import CONVERTS, WIRE
from fxai.schema.fault import pointer_to
from fxai.schema.part import Check, Clause, Part, Visit, always, never
from fxai.schema.pattern import matches

if TYPE_CHECKING:
    from fxai.schema.engine import Engine

_FEW: Final = 2  # this number of items costs one step
_LIST: Final = 8  # lookups of this number of names, or comparisons of this number of values, cost one step
_FRACTION: Final = 32  # the steps of a division by a number that is not an integer
_DIGITS: Final = 512  # the division of an integer with this number of bits costs one step
_PATTERN: Final = 6  # the steps of a search, in addition to the time limit of all searches
_CONVERSION: Final = 4  # the steps of a conversion
_UNSET: Final = object()  # the value of a missing property
_MISSING: Final = frozenset((object,))


_Maker: TypeAlias = Callable[["Engine", Clause, Any, JsonObject], None]
MAKERS: Final[dict[str, _Maker]] = {}
"""The functions that add keywords to a clause. Each receives the value of its keyword, and the schema around it."""


def _keyword(*names: str) -> Callable[[_Maker], _Maker]:
    """Return a decorator that records the function of keywords."""

    def record(make: _Maker) -> _Maker:
        MAKERS.update(dict.fromkeys(names, make))
        return make

    return record


# ---- values


def number_of(value: Any, constants: dict[Hashable, object], known: dict[Hashable, object], work: Work) -> object:
    """Return a hashable key. Two values have the same key if JSON Schema defines them as equal, and only then.

    `known` stores the keys of arrays and objects by identity, so each of them costs steps only once. The key of a
    value of the data, which is in `work.numbers`, is stored there by content too, and not among the constants.
    """
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
        if number is None:  # only the current decision stores the numbers of the data
            number = (known if known is work.numbers else constants).setdefault(key, object())
        known[id(value)] = number
    return number


@_keyword("enum")
def _enum(to: Engine, clause: Clause, values: JsonArray, _: object) -> None:
    listed = frozenset(map(to.number, values))
    if all(isinstance(value, str) for value in values):
        clause.only("string")
        clause.add("string", lambda value, _: value in listed)
    else:
        clause.add("any", lambda value, work: to.number_in(value, work) in listed)
        if to.dialect is WIRE:
            clause.by_type[float] = never


@_keyword("const")
def _const(to: Engine, clause: Clause, value: object, schema: JsonObject) -> None:
    _enum(to, clause, [value], schema)


@_keyword("type")
def _type(to: Engine, clause: Clause, rule: Any, _: object) -> None:
    kinds = rule if is_array(rule) else [rule]
    clause.only(*kinds)
    if "integer" in kinds and "number" not in kinds:
        is_strict = to.dialect.name in ("draft-04", WIRE.name)
        clause.by_type[float] = never if is_strict else lambda value, _: value.is_integer()


_BOUNDS: Final[dict[str, Callable[[float], Check]]] = {
    "minimum": lambda limit: lambda value, _: value >= limit,
    "exclusiveMinimum": lambda limit: lambda value, _: value > limit,
    "maximum": lambda limit: lambda value, _: value <= limit,
    "exclusiveMaximum": lambda limit: lambda value, _: value < limit,
    "at least": lambda limit: lambda value, _: len(value) >= limit,
    "at most": lambda limit: lambda value, _: len(value) <= limit,
}


def _limit(kind: str, bound: str, strict: str = "") -> _Maker:
    """Return the maker of a bound. In draft 4, the boolean keyword `strict` makes the bound exclusive."""

    def make(_: Engine, clause: Clause, limit: float, schema: JsonObject) -> None:
        if not isinstance(limit, bool):
            clause.add(kind, _BOUNDS[strict if schema.get(strict) is True else bound](limit))

    return make


MAKERS.update(
    {
        "minimum": _limit("number", "minimum", "exclusiveMinimum"),
        "maximum": _limit("number", "maximum", "exclusiveMaximum"),
        "exclusiveMinimum": _limit("number", "exclusiveMinimum"),
        "exclusiveMaximum": _limit("number", "exclusiveMaximum"),
        "minLength": _limit("string", "at least"),
        "maxLength": _limit("string", "at most"),
        "minProperties": _limit("object", "at least"),
        "maxProperties": _limit("object", "at most"),
        "minItems": _limit("array", "at least"),
        "maxItems": _limit("array", "at most"),
    }
)


def is_multiple(value: float, step: float) -> bool:
    """Return True if a number is a multiple of a step. Decimal fractions are exact: 0.3 is a multiple of 0.1."""
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    exact = _exact(step)
    return (_exact(value) * exact.denominator) % exact.numerator == 0


def _exact(number: float) -> Fraction:
    """Return the exact value of a number. A whole float equals an integer, as for `const` and `maximum`."""
    return Fraction(number) if isinstance(number, int) or number.is_integer() else Fraction(str(number))


@_keyword("multipleOf")
def _multiple(_: Engine, clause: Clause, step: float, __: object) -> None:
    size = _exact(step)
    bits = size.numerator.bit_length() + size.denominator.bit_length()

    def check(value: float, work: Work) -> bool:
        far = value.bit_length() if isinstance(value, int) else 0 if isinstance(step, int) else 4 * _DIGITS
        work.take((far + bits) ** 2 // _DIGITS**2)
        return is_multiple(value, step)

    clause.add("number", check, 1 if isinstance(step, int) else _FRACTION)


@_keyword("pattern")
def _pattern(_: Engine, clause: Clause, pattern: str, __: object) -> None:
    clause.add("string", lambda value, work: matches(pattern, value, work), _PATTERN)


class Converter(NamedTuple):
    """The value of the keyword `CONVERTS`: a check of strings, and the words for the valid strings."""

    accepts: Callable[[str], bool]
    words: str


@_keyword(CONVERTS)
def _converts(_: Engine, clause: Clause, converter: object, __: object) -> None:
    if isinstance(converter, Converter):  # an annotation of a user can have this name
        clause.add("string", lambda value, _: converter.accepts(value), _CONVERSION)


# ---- members


@_keyword("properties")
def _properties(to: Engine, clause: Clause, properties: JsonObject, _: object) -> None:
    parts = {name: to.of(inner) for name, inner in properties.items()}
    rows = tuple((name, part.free | _MISSING, part.takes) for name, part in parts.items())
    located = {name: (part, pointer_to("", name)) for name, part in parts.items()}
    few = len(rows) * 2 // 3

    def visits(value: JsonObject, _: Work) -> Iterator[Visit]:
        for name, item in value.items():
            known = located.get(name)
            if known is not None and type(item) not in known[0].free:
                yield known[0], item, known[1]

    def check(value: JsonObject, work: Work) -> bool:
        if len(value) < few:
            work.left -= len(value) // _LIST
            return all(part.takes(item, work) for part, item, _ in visits(value, work))
        find = value.get
        work.left -= len(rows) // _LIST
        for name, free, takes in rows:
            item = find(name, _UNSET)
            if type(item) not in free and not takes(item, work):
                break
        else:
            return True
        return False

    clause.visit("object", visits, check)


@_keyword("required")
def _required_names(_: Engine, clause: Clause, names: object, __: object) -> None:
    if is_array(names):
        wanted = frozenset(names)
        clause.refuse(
            lambda value, _: (name for name in names if name not in value),
            lambda value, _: value.keys() >= wanted,
            1 + len(wanted) // _LIST,
        )


@_keyword("additionalProperties")
def _additional(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    inner, known = to.of(rule), frozenset(schema.get("properties", ()))
    patterns = tuple(schema.get("patternProperties", ()))

    def extras(value: JsonObject, work: Work) -> Iterator[str]:
        work.take(len(value) // _FEW)
        for name in value:
            if name not in known:
                work.take(_PATTERN * len(patterns))
                if not any(matches(pattern, name, work) for pattern in patterns):
                    yield name

    if inner.takes is never:
        check: Check | None = None if patterns else lambda value, _: value.keys() <= known
        clause.refuse(extras, check, 1 + _PATTERN * len(patterns) + len(known) // _LIST)
    elif inner.takes is not always:
        clause.visit(
            "object",
            lambda value, work: ((inner, value[name], pointer_to("", name)) for name in extras(value, work)),
            lambda value, work: all(inner.takes(value[name], work) for name in extras(value, work)),
            1 + _PATTERN * len(patterns),
        )


@_keyword("patternProperties")
def _pattern_properties(to: Engine, clause: Clause, patterns: JsonObject, _: object) -> None:
    parts = {pattern: to.of(inner) for pattern, inner in patterns.items()}

    def visits(value: JsonObject, work: Work) -> Iterator[Visit]:
        for pattern, part in parts.items():
            work.take(_PATTERN * len(value))
            for name, item in value.items():
                if matches(pattern, name, work):
                    yield part, item, pointer_to("", name)

    clause.visit("object", visits, weight=1 + _PATTERN * len(parts))


@_keyword("propertyNames")
def _names(to: Engine, clause: Clause, rule: object, _: object) -> None:
    inner = to.of(rule).takes
    clause.refuse(lambda value, work: (name for name in value if not inner(name, work)))


@_keyword("dependentRequired")
def _dependent_required(_: Engine, clause: Clause, dependencies: JsonObject, __: object) -> None:
    wanted = {name: asked for name, asked in dependencies.items() if is_array(asked)}

    def missing(value: JsonObject, _: Work) -> Iterable[str]:
        required = (name for given, asked in wanted.items() if given in value for name in asked)
        return dict.fromkeys(name for name in required if name not in value)

    clause.refuse(missing, weight=1 + sum(1 + len(asked) for asked in wanted.values()) // _LIST)


@_keyword("dependentSchemas")
def _dependent_schemas(to: Engine, clause: Clause, dependencies: JsonObject, _: object) -> None:
    parts = {name: to.of(inner) for name, inner in dependencies.items() if not is_array(inner)}
    clause.visit(
        "object",
        lambda value, _: ((part, value, "") for name, part in parts.items() if name in value),
        weight=1 + len(parts) // _LIST,
    )


@_keyword("dependencies")
def _dependencies(to: Engine, clause: Clause, dependencies: JsonObject, schema: JsonObject) -> None:
    _dependent_required(to, clause, dependencies, schema)
    _dependent_schemas(to, clause, dependencies, schema)


# ---- items


@_keyword("items")
def _items(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    if is_array(rule):  # before 2020-12
        _locations(to, clause, rule, schema)
    elif "prefixItems" in to.dialect.keywords:
        _rest(to, clause, rule, len(schema.get("prefixItems", ())))
    else:
        _rest(to, clause, rule, 0, is_each=True)


@_keyword("additionalItems")
def _additional_items(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    locations = schema.get("items")
    if is_array(locations):
        _rest(to, clause, rule, len(locations))


@_keyword("prefixItems")
def _locations(to: Engine, clause: Clause, rule: JsonArray, _: object) -> None:
    parts = tuple(map(to.of, rule))
    pointers = [f"/{index}" for index in range(len(parts))]
    clause.visit("array", lambda value, _: zip(parts, value, pointers, strict=False))


def _rest(to: Engine, clause: Clause, rule: object, first: int, *, is_each: bool = False) -> None:
    """Apply a schema to the items after the first ones. `is_each` reports each item that no schema accepts."""
    inner = to.of(rule)
    takes, free = inner.takes, inner.free

    def visits(value: JsonArray, work: Work) -> Iterator[Visit]:
        for location in work.suspects.get(id(value)) or range(first, len(value)):
            yield inner, value[location], f"/{location}"

    def check(value: JsonArray, work: Work) -> bool:
        work.take(len(value) // _FEW)
        for item in value[first:] if first else value:
            if type(item) not in free and not takes(item, work):
                break
        else:
            return True
        return False

    if takes is never and not is_each:
        clause.add("array", lambda value, _: len(value) <= first)
    elif takes is not always:
        clause.visit("array", visits, check)


@_keyword("contains")
def _contains(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    counted = "minContains" in to.dialect.keywords
    least = schema.get("minContains", 1) if counted else 1
    most = schema.get("maxContains") if counted else None
    inner = to.of(rule).takes

    def check(value: JsonArray, work: Work) -> bool:
        found = 0
        for item in value:
            found += inner(item, work)
            if most is None and found >= least:
                return True
            if most is not None and found > most:
                return False
        return bool(found >= least)

    clause.add("array", check)


@_keyword("uniqueItems")
def _unique(to: Engine, clause: Clause, rule: object, _: object) -> None:
    def check(value: JsonArray, work: Work) -> bool:
        work.take(len(value) // _FEW)
        return len({to.number_in(item, work) for item in value}) == len(value)

    if rule is True:
        clause.add("array", check)


# ---- schemas in place


@_keyword("allOf")
def _all_of(to: Engine, clause: Clause, rule: JsonArray, _: object) -> None:
    parts = tuple(map(to.of, rule))
    clause.visit("any", lambda value, _: ((part, value, "") for part in parts))


@_keyword("anyOf")
def _any_of(to: Engine, clause: Clause, rule: JsonArray, schema: JsonObject) -> None:
    listed = [_constants(one) for one in rule]
    if all(values is not None for values in listed):  # a union of constants needs only one lookup
        _enum(to, clause, [value for values in listed for value in values or ()], schema)
        return
    checks = tuple(to.of(inner).takes for inner in rule)
    clause.add("any", lambda value, work: any(one(value, work) for one in checks))


def _constants(schema: object) -> JsonArray | None:
    """Return the values of a schema that has only a `const` or an `enum`. Return None for any other schema."""
    if not is_object(schema) or len(schema.keys() - _WORDS) != 1:
        return None
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if is_array(values) else None


_WORDS: Final = frozenset(("title", "description"))


@_keyword("oneOf")
def _one_of(to: Engine, clause: Clause, rule: JsonArray, _: object) -> None:
    checks = tuple(to.of(inner).takes for inner in rule)

    def check(value: object, work: Work) -> bool:
        found = False
        for one in checks:
            if one(value, work):
                if found:
                    return False
                found = True
        return found

    clause.add("any", check)


@_keyword("not")
def _not(to: Engine, clause: Clause, rule: object, _: object) -> None:
    inner = to.of(rule).takes
    clause.add("any", lambda value, work: not inner(value, work))


@_keyword("if")
def _if(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    inner, then, otherwise = map(to.of, (rule, schema.get("then", True), schema.get("else", True)))
    clause.visit("any", lambda value, work: ((then if inner.takes(value, work) else otherwise, value, ""),))


# ---- the properties and items that a schema and its applied schemas evaluate


def evaluated_names(part: Part, value: JsonObject, work: Work, *, beside: bool = False) -> Collection[str]:
    """Return the names of the properties of an object that a schema evaluates.

    Args:
        part: The schema.
        value: The object.
        work: The current decision.
        beside: True to ignore the `unevaluatedProperties` of the schema itself. Default: False.
    """
    schema = part.schema
    if isinstance(schema, bool):
        return ()
    work.take(1 + (len(value) + len(schema)) // _LIST)
    if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not beside):
        return value.keys()
    names = {name for name in schema.get("properties", ()) if name in value}
    for pattern in schema.get("patternProperties", ()):
        names.update(name for name in value if matches(pattern, name, work))
    for inner in _at_same_value(part, value, work):
        names.update(evaluated_names(inner, value, work))
    return names


def evaluated_items(part: Part, value: JsonArray, work: Work, *, beside: bool = False) -> Collection[int]:
    """Return the indices of the items of an array that a schema evaluates. See `evaluated_names`."""
    schema = part.schema
    if isinstance(schema, bool):
        return ()
    work.take(1 + (len(value) + len(schema)) // _LIST)
    items = schema.get("items")
    first = (
        schema.get("prefixItems", ()) if "prefixItems" in part.dialect.keywords else items if is_array(items) else ()
    )
    everything = range(len(value))
    has_rest = "additionalItems" in schema if is_array(items) else items is not None
    if has_rest or ("unevaluatedItems" in schema and not beside):
        return everything
    locations = set(range(len(first)))
    if "contains" in schema:
        takes = part.under(schema["contains"]).takes
        locations.update(
            location for location in everything if location not in locations and takes(value[location], work)
        )
    for inner in _at_same_value(part, value, work):
        locations.update(evaluated_items(inner, value, work))
    return locations


def _at_same_value(part: Part, value: Any, work: Work) -> Iterator[Part]:
    """Iterate over the schemas that apply to the same value and accept it."""
    work.resources.append(part.resource)
    yield from part.targets(work)
    schema = part.schema
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value:
            yield part.under(inner)
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (one for inner in schema.get(keyword, ()) if (one := part.under(inner)).takes(value, work))
    if "if" in schema:
        condition = part.under(schema["if"])
        holds = condition.takes(value, work)
        if holds:
            yield condition
        branch = "then" if holds else "else"
        if branch in schema:
            yield part.under(schema[branch])
    work.resources.pop()


@_keyword("unevaluatedProperties")
def _unevaluated_properties(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    inner = to.of(rule).takes

    def wrong(value: JsonObject, work: Work) -> Iterator[str]:
        known = evaluated_names(to.part(schema), value, work, beside=True)
        return (name for name, item in value.items() if name not in known and not inner(item, work))

    clause.refuse(wrong)


@_keyword("unevaluatedItems")
def _unevaluated_items(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    inner = to.of(rule).takes

    def check(value: JsonArray, work: Work) -> bool:
        locations = evaluated_items(to.part(schema), value, work, beside=True)
        return all(index in locations or inner(item, work) for index, item in enumerate(value))

    clause.add("array", check)
