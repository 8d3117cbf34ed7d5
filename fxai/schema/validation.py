"""The validation of plain JSON data. Use this module to find out why the engine refuses a value.

A `Finder` follows the compiled schemas and skips each schema that accepts its value. Each keyword that the value
violates is a `Breach`. The words of the breaches are the validation errors.

>>> from fxai.schema.engine import Engine
>>> root = Engine({"properties": {"a": {"type": "integer"}}, "required": ["b"]}).root
>>> [str(fault) for fault in find_faults(root, {"a": "x"})]
["/a: expected integer, found string 'x'", '/b: expected a value, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_STEPS, ExhaustedError, Work, new_stack
from fxai.schema.data import JsonObject, is_array, is_object, is_same
from fxai.schema.dialect import CONVERTS
from fxai.schema.engine import Converter, UnresolvedError
from fxai.schema.fault import (
    BOUNDS,
    NOTHING,
    Fault,
    describe,
    either,
    found_in,
    in_order,
    pointer_of,
    pointer_to,
    quantity,
)
from fxai.schema.location import MISSING, value_at
from fxai.schema.parsing import too_deep
from fxai.schema.part import Part, kind_of, never, rules_of
from fxai.schema.pattern import PatternTimeoutError, in_time

_VISIT: Final = 20  # the steps of a visit of a refused value
_UNIONS: Final = 2  # the maximum number of nested unions whose alternatives the search visits
_MOST_FOLLOWED: Final = 32  # the maximum number of consecutive references
_UNORDERED: Final = frozenset(
    ("patternProperties", "dependentRequired", "dependentSchemas", "dependencies", "allOf")
)  # the keywords that find breaches in another order than the value


@final
class Breach(msgspec.Struct, frozen=True, eq=False):
    """A violation of a keyword of `part` by the value at `pointer`."""

    keyword: str
    """The keyword. `false` means a schema that accepts no value, and `late` a pattern that exceeded its time limit."""
    part: Part
    pointer: str
    value: Any
    names: tuple[str, ...] = ()
    """The properties that violate the keyword."""
    branches: tuple[tuple[Breach, ...], ...] = ()
    """The breaches of each alternative of a union. Empty if multiple alternatives of `oneOf` accept the value."""
    words: str = ""
    """The expectation in the message. Empty if the keyword determines the expectation."""

    @property
    def schema(self) -> JsonObject:
        """The schema that contains the keyword."""
        return self.part.schema if is_object(self.part.schema) else {}

    def follow(self, schema: object) -> Any:
        """Return the target of the `$ref` of a schema inside `schema`, with the keywords next to the `$ref`."""
        references, resource = self.part.references, self.part.resource
        for _ in range(_MOST_FOLLOWED):
            if not is_object(schema) or "$ref" not in schema:
                break
            resource = references.resource_of(schema, resource)
            beside = {} if self.part.dialect.ref_alone else {key: schema[key] for key in schema if key != "$ref"}
            schema = references.target(resource, schema["$ref"], self.part.dialect)
            resource = references.resource_of(schema, resource)
            schema = {**schema, **beside} if is_object(schema) and beside else schema
        return schema


class EnoughError(ExhaustedError):
    """The end of a search that has found all breaches that fxai reports."""


@final
class Finder(Work, eq=False):
    """A search for the breaches of a value within a budget."""

    found: list[Breach] = []  # noqa: RUF012  # msgspec copies it
    unions: int = 0
    """The number of enclosing unions whose alternatives the search visits."""
    stacks: int = 32
    """The number of stacks that the search can still start."""
    is_mixed: bool = False
    """True if the breaches can be duplicates or in another order than the value."""
    integers: list[str] | None = None
    """The JSON pointers of whole numbers, such as `3.0`, that represent an integer. None to report them."""

    def of(self, part: Part, value: Any, pointer: str, suffix: str = "") -> None:
        """Add the breaches of a part by the value at `pointer + suffix`.

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
        if len(rules) == 1 and rules[0][1] is never:
            if kind is not float or not self._is_integer(part, value, pointer + suffix):
                self.found.append(Breach(rules[0][0], part, pointer + suffix, value))
            return
        try:
            if id(value) not in self.suspects and part.takes(value, self):
                return
        except PatternTimeoutError:
            pass  # the keyword reports it
        self.walk(part, value, pointer + suffix)

    def walk(self, part: Part, value: Any, pointer: str) -> None:
        """Add the breaches of a part by a value that the part refuses. See `of`."""
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
                count, visits = len(found), clause.visits
                try:
                    if visits is not None:
                        for inner, item, suffix in visits(value, self):
                            self.of(inner, item, pointer, suffix)
                    if (visits is None or clause.names is not None) and not check(value, self):
                        names = () if clause.names is None else (*islice(clause.names(value, self), MAX_FAULTS),)
                        if keyword in ("anyOf", "oneOf"):
                            self._refuse_union(keyword, part, value, pointer)
                        elif names or visits is None:
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

    def _refuse_union(self, keyword: str, part: Part, value: object, pointer: str) -> None:
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


# ---- the words of a breach

_Follow: TypeAlias = Callable[[Any], Any]
"""A function that returns the target of the reference in a schema."""


def _faults(breach: Breach) -> Iterable[Fault]:
    """Return the validation errors of a breach, by the function for its keyword or by a description of the keyword."""
    keyword, words = breach.keyword, breach.part.words
    expected = words.get(keyword)
    if expected is None:
        if (teller := _TELLERS.get(keyword)) is not None:
            return teller(breach)
        expected = breach.words
        if not expected:
            alone = _alone(keyword, breach.schema)
            expected = words[keyword] = describe(alone, breach.follow) if keyword in breach.schema else "no value"
    return (Fault(breach.pointer, expected, found_in(breach.value)),)


def _alone(keyword: str, schema: Mapping[str, Any]) -> JsonObject:
    """Return the keywords of a schema that the expectation of one keyword names."""
    if keyword in BOUNDS:  # they have one expectation together
        return {name: schema[name] for name in schema if name in BOUNDS}
    names = (keyword,) if keyword in ("enum", "const") else ("type", keyword)
    return {name: schema[name] for name in names if name in schema}


# ---- keywords for members


def _missing(breach: Breach) -> Iterator[Fault]:
    known = breach.schema.get("properties", {})
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), describe(known.get(name, True), breach.follow), NOTHING)


def _additional(breach: Breach) -> Iterator[Fault]:
    inner = breach.schema.get(breach.keyword, False)
    expected = "no property of this name" if inner is False else describe(inner, breach.follow)
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, found_in(breach.value[name]))


def _property_names(breach: Breach) -> Iterator[Fault]:
    inner = breach.schema.get("propertyNames", False)
    converter = inner.get(CONVERTS) if is_object(inner) else None
    if isinstance(converter, Converter):
        kind, noun, expected = "key", "key", converter.words
    else:
        kind, noun, expected = "property name", "name", describe(inner, breach.follow)
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), f"a {kind} that is {expected}", f"{noun} {name!r}")


def _items(breach: Breach) -> Iterator[Fault]:
    locations: Any = breach.schema.get("prefixItems" if breach.keyword == "items" else "items")
    most = len(locations) if is_array(locations) else 0
    if breach.keyword == "unevaluatedItems":
        expected = "array without items beyond those described"
    elif breach.schema.get("maxItems") == most:  # the same expectation as of this keyword
        expected = describe(_alone("maxItems", breach.schema), breach.follow)
    else:
        expected = f"array of at most {quantity(most, 'item')}"
    yield Fault(breach.pointer, expected, found_in(breach.value))


def _contains(breach: Breach) -> Iterator[Fault]:
    schema = breach.schema
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    bounds = [f"at least {least}"] if least else []
    if most is not None:
        bounds.append(f"at most {most}")
    inner = describe(schema.get("contains", True), breach.follow)
    expected = f"array with {' and '.join(bounds)} of its items being {inner}"
    yield Fault(breach.pointer, expected, found_in(breach.value))


def _alternatives(breach: Breach) -> Iterator[Fault]:
    """Iterate over the errors of the intended alternative, or over an error that names all alternatives."""
    there, pointer = breach.value, breach.pointer
    branches = [branch for branch in breach.branches if branch]
    choices = breach.schema.get(breach.keyword, [])
    if not branches or len(branches) < len(breach.branches) or len(branches) < len(choices):
        expected = f"exactly one of: {_either(choices, breach.follow)}"
        yield Fault(pointer, expected, f"{found_in(there)}, which is several of them")
        return
    left = _leaves(breach)
    left = [leaf for leaf in left if not any(_is_of_another_kind(inner, breach) for inner in leaf[1])] or left
    while is_object(there) and len(left) > 1:
        narrower: list[_Leaf] = []
        for path, tags in _shared_tags(left, breach.follow):
            found = value_at(there, path)
            if found is MISSING and not all(needed for _, needed in tags):
                continue  # the tag does not decide
            fitting = [
                leaf for leaf, (values, _) in zip(left, tags, strict=True) if any(map(partial(is_same, found), values))
            ]
            if not fitting:
                every = either(value for values, _ in tags for value in values)
                yield Fault(pointer + pointer_of(path), every, NOTHING if found is MISSING else found_in(found))
                return
            if not narrower and len(fitting) < len(left):
                narrower = fitting
        if not narrower:
            break
        left = narrower
    yield from _closest(left, breach)


def _closest(left: list[_Leaf], breach: Breach) -> Iterator[Fault]:
    """Iterate over the errors of the alternative for the kind of the value, or an error for all alternatives."""
    there, pointer = breach.value, breach.pointer
    inside = pointer.count("/") + 1

    def is_kind(inner: Breach) -> bool:  # the value has another kind or another tag than the alternative accepts
        tagged = inner.pointer.count("/") == inside and inner.keyword in ("const", "enum")
        return tagged or _is_of_another_kind(inner, breach)

    deeper = [leaf for leaf in left if not any(map(is_kind, leaf[1]))]
    only = left if len(left) == 1 and is_object(there) else deeper
    if len(only) == 1:
        for one in only[0][1]:
            yield from _faults(one)
        return
    expected = _either([schema for schema, _ in left], breach.follow)
    if expected == "object" and is_object(there):
        expected = " or ".join(dict.fromkeys(_with_names(breach.follow(schema)) for schema, _ in left))
    yield Fault(pointer, expected, found_in(there))


def _with_names(schema: object) -> str:
    names: list[Any] = schema.get("required", []) if is_object(schema) else []
    return f"object with {' and '.join(map(repr, names))}" if is_array(names) and names else "object"


_Leaf: TypeAlias = tuple[Any, tuple[Breach, ...]]
"""The schema of an alternative that is not a union, with the breaches of the value."""


def _leaves(breach: Breach) -> list[_Leaf]:
    """Return the alternatives of a union, including the alternatives of nested unions."""
    found: list[_Leaf] = []
    for schema, branch in zip(breach.schema.get(breach.keyword, []), breach.branches, strict=False):
        inner = next((one for one in branch if one.branches and one.pointer == breach.pointer), None)
        if inner is None or any(not part for part in inner.branches):
            found.append((schema, branch))
            continue
        rest = tuple(one for one in branch if one is not inner)
        around = breach.follow(schema)
        if is_object(around):
            around = {key: words for key, words in around.items() if key not in ("anyOf", "oneOf")}
        found += [({"allOf": [around, inner.follow(leaf)]}, (*rest, *breaches)) for leaf, breaches in _leaves(inner)]
    return found


def _is_of_another_kind(inner: Breach, outer: Breach) -> bool:
    return inner.pointer == outer.pointer and inner.keyword in ("type", "enum", "const", "false", "not")


def _either(choices: Any, follow: _Follow) -> str:
    return " or ".join(dict.fromkeys(describe(choice, follow) for choice in choices)) or "an alternative"


# ---- tags, which distinguish alternatives

_DEEPEST_TAG: Final = 3
_MOST_LOOKED_AT: Final = 500  # schemas of a union that fxai searches for tags

_Path: TypeAlias = tuple[str, ...]
_Tag: TypeAlias = tuple[list[Any], bool]
"""The constants of an alternative at a location inside an object, and whether the alternative requires them."""


def _shared_tags(leaves: list[_Leaf], follow: _Follow) -> list[tuple[_Path, list[_Tag]]]:
    """Return the tags of all alternatives by their location, the outermost location first."""
    work = Work(_MOST_LOOKED_AT)
    try:
        by_leaf = [dict(_tags(schema, follow, (), work, needed=True)) for schema, _ in leaves]
    except ExhaustedError:
        return []
    shared = [path for path in by_leaf[0] if all(path in tags for tags in by_leaf)]
    return [(path, [tags[path] for tags in by_leaf]) for path in sorted(shared, key=len)]


def _tags(
    schema: Any, follow: _Follow, path: _Path, work: Work, names: tuple[Any, ...] = (), *, needed: bool
) -> Iterator[tuple[_Path, _Tag]]:
    """Iterate over the locations with constants in an object. The schemas around the schema require the names."""
    work.take()
    schema = follow(schema)
    if not is_object(schema) or len(path) > _DEEPEST_TAG:
        return
    required: Any = schema.get("required", ())
    names = (*names, *required) if is_array(required) else names
    for part in schema.get("allOf", ()):
        yield from _tags(part, follow, path, work, names, needed=needed)
    if path and ("const" in schema or is_array(schema.get("enum"))):
        yield path, ([schema["const"]] if "const" in schema else schema["enum"], needed)
    for name, inner in schema.get("properties", {}).items():
        yield from _tags(inner, follow, (*path, name), work, needed=needed and name in names)


# ---- validation

_TELLERS: Final[Mapping[str, Callable[[Breach], Iterator[Fault]]]] = {
    **dict.fromkeys(("required", "dependentRequired", "dependencies"), _missing),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), _additional),
    "propertyNames": _property_names,
    CONVERTS: lambda one: iter([Fault(one.pointer, one.schema[CONVERTS].words, found_in(one.value))]),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems"), _items),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    **dict.fromkeys(("anyOf", "oneOf"), _alternatives),
}


def find_faults(part: Part, value: object, refused: Finder | None = None) -> tuple[Fault, ...]:
    """Return the validation errors of plain JSON data by a compiled schema. `()` if the data is valid.

    If the budget is too small to find the reasons, a single error describes the whole value. `refused` is the search
    for errors in data that `msgspec` refused. Its result can be `()` too.
    """
    finder = refused or Finder()
    faults: list[Fault] = []
    try:
        if refused is None:
            with suppress(PatternTimeoutError):  # the search reports the pattern
                if part.takes(value, finder):
                    return ()
            finder.left = MAX_STEPS
        finder.walk(part, value, "")
    except ExhaustedError:
        if not finder.found and refused is None:
            return (Fault("", f"data that is decided within {MAX_STEPS} steps", found_in(value)),)
    except UnresolvedError:
        return (Fault("", "references that can be followed", found_in(value)),)
    except RecursionError:
        return too_deep(MAX_LEVELS).faults
    for breach in finder.found:
        faults += _faults(breach)
    late = finder.searches and finder.searches.late
    if late and not any(one.keyword == "late" for one in finder.found):
        faults.append(Fault("", in_time(late), found_in(value)))  # the pattern exceeded its time before the search
    if finder.is_mixed and len(faults) > 1:
        return in_order(faults, value)[:MAX_FAULTS]
    return (*faults[:MAX_FAULTS],) or (() if refused else (Fault("", describe(part.schema), found_in(value)),))
