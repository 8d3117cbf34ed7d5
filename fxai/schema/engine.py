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
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from fractions import Fraction
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias, final
from urllib.parse import urldefrag

from fxai.schema.budget import REMEMBERED, Work
from fxai.schema.data import JsonArray, JsonObject, every_object, is_array, is_object, number_identity
from fxai.schema.dialect import CONVERTS, LATEST, WIRE, Dialect, dialect_of
from fxai.schema.fault import pointer_to
from fxai.schema.location import MISSING, References, Site
from fxai.schema.part import Check, Clause, Follow, Part, Visit, always, join, never
from fxai.schema.pattern import matches

_DYNAMIC: Final = frozenset(("$dynamicRef", "$recursiveRef"))
_META: Final = "https://json-schema.org/draft/20"  # the metaschemas with dynamic references


@final
class Engine:
    """A compiled document. `root` is the part of the document itself."""

    def __init__(self, document: Any, dialect: Dialect = LATEST) -> None:
        """Compile a valid document in its own dialect, or in `dialect`. Do not change the document afterwards."""
        self.references: References = References(Site("", document))
        self._numbers: dict[Any, object] = {}
        self._parts: dict[int, Part] = {}
        self._pending: list[Part] = []
        self._lock = threading.RLock()
        self.is_dynamic: bool = dialect is LATEST and _is_dynamic(document)
        self.dialect: Dialect = dialect_of(document, dialect)  # of the current schema during the compilation
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
            known = Part(self.part, False, self.references, self.dialect)
            known.takes = _refuse
        if known is None:
            found = self.references.known.get(id(schema))
            dialect, resource = (self.dialect, "") if found is None else (found.dialect, found.resource)
            known = Part(self.part, schema, self.references, dialect, resource)
            if is_object(schema):
                known.takes = lambda value, work: known.takes(value, work)  # noqa: PLW0108  # `_compile` replaces it
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
                    self._refer(clause, part, self._follow(part, keyword, rule))
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

    def _follow(self, part: Part, keyword: str, reference: str) -> Follow:
        """Return the function that finds the target of a reference.

        On the path to the reference, a `$dynamicRef` leads to the first resource with the anchor. A `$recursiveRef`
        leads to the first of the last consecutive resources with an anchor.
        """
        target = self.references.target(part.resource, reference, self.dialect)
        name = urldefrag(reference).fragment
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

    def _refer(self, clause: Clause, part: Part, find: Follow) -> None:
        """Apply the target of a reference. In a long validation, the check decides once about a value."""

        def check(value: object, work: Work) -> bool:
            if work.left > REMEMBERED or not (is_object(value) or is_array(value)):
                return find(work).takes(value, work)
            key = (id(part), id(value), *(work.resources if self.is_dynamic else ()))
            known = work.known.get(key)
            if known is None:
                known = work.known[key] = find(work).takes(value, work)
            return known

        part.follows += (find,)
        clause.visit("any", lambda value, work: ((find(work), value, ""),), check)

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


# ---- keywords

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
        fitting = (one for one in checks if one(value, work))
        return next(fitting, None) is not None and next(fitting, None) is None

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


def _evaluated_keys(part: Part, value: Any, work: Work, *, beside: bool = False) -> Collection[object]:
    """Return the names of the properties, or the indices of the items, that a schema evaluates.

    With `beside`, the schema ignores its own `unevaluated…` keyword.
    """
    schema = part.schema
    if isinstance(schema, bool):
        return ()
    work.take(1 + (len(value) + len(schema)) // _LIST)
    everything: Collection[object] = value if is_object(value) else range(len(value))
    own, keyword = (_own_names, "unevaluatedProperties") if is_object(value) else (_own_items, "unevaluatedItems")
    found = None if keyword in schema and not beside else own(part, value, work)
    if found is None:
        return everything
    for inner in _at_same_value(part, value, work):
        found.update(_evaluated_keys(inner, value, work))
    return found


def _own_names(part: Part, value: Any, work: Work) -> set[object] | None:
    """Return the names that the keywords of a schema evaluate. None for all names."""
    schema = part.schema
    if "additionalProperties" in schema:
        return None
    patterns = schema.get("patternProperties", ())
    return {
        name
        for name in value
        if name in schema.get("properties", ()) or any(matches(pattern, name, work) for pattern in patterns)
    }


def _own_items(part: Part, value: Any, work: Work) -> set[object] | None:
    """Return the indices that the keywords of a schema evaluate. None for all indices."""
    schema = part.schema
    items = schema.get("items")
    if "additionalItems" in schema if is_array(items) else items is not None:
        return None
    first = schema.get("prefixItems", ()) if "prefixItems" in part.dialect.keywords else items or ()
    takes = part.under(schema["contains"]).takes if "contains" in schema else never
    return {at for at, item in enumerate(value) if at < len(first) or takes(item, work)}


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
        known = _evaluated_keys(to.part(schema), value, work, beside=True)
        return (name for name, item in value.items() if name not in known and not inner(item, work))

    clause.refuse(wrong)


@_keyword("unevaluatedItems")
def _unevaluated_items(to: Engine, clause: Clause, rule: object, schema: JsonObject) -> None:
    inner = to.of(rule).takes

    def check(value: JsonArray, work: Work) -> bool:
        locations = _evaluated_keys(to.part(schema), value, work, beside=True)
        return all(index in locations or inner(item, work) for index, item in enumerate(value))

    clause.add("array", check)
