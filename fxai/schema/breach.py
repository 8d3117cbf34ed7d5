"""What a validator found, told as faults: the same words whichever package found it.

>>> broken = Breach("required", {"required": ["a", "b"], "properties": {"b": {"type": "integer"}}}, ())
>>> [str(fault) for fault in faults_of([broken], {"a": 1})]
['/b: expected integer, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.budget import Exhausted, Steps
from fxai.schema.data import is_array, is_object, is_same
from fxai.schema.expectation import either, listed
from fxai.schema.fault import NOTHING, Fault, found_in, in_order, pointer_of, pointer_to

__all__ = ["Breach", "described", "faults_of"]


@final
class Breach(msgspec.Struct, frozen=True):
    """One keyword that a value breaks.

    Attributes:
        keyword: the keyword; `false` for a schema that takes nothing.
        schema: the schema that the keyword stands in, as far as it is known.
        path: where in the value.
        names: the properties it is about, where it is about some.
        branches: what is wrong by each alternative, of `anyOf` and `oneOf`.
        said: the validator's own message, for a keyword that is not known here.
        follow: gives what a schema inside of `schema` says, where it is a reference.
    """

    keyword: str
    schema: Mapping[str, Any]
    path: tuple[str | int, ...]
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""
    follow: Callable[[Any], Any] = lambda schema: schema

    @property
    def pointer(self) -> str:
        """Where in the value, as a JSON pointer."""
        return pointer_of(self.path)

    def at(self, root: object) -> Any:
        """What stands there, in the whole value."""
        there: Any = root
        for token in self.path:
            there = there[token]
        return there


def faults_of(breaches: Iterable[Breach], root: object) -> tuple[Fault, ...]:
    """The faults of what was found, each once, in the order of the value."""
    return in_order((fault for breach in breaches for fault in _faults(breach, root)), root)


def _faults(breach: Breach, root: object) -> Iterator[Fault]:
    there, pointer = breach.at(root), breach.pointer
    teller = _TELLERS.get(breach.keyword)
    if teller is not None:
        yield from teller(breach, root)
    elif breach.keyword == "false":
        yield Fault(pointer, "no value", found_in(there))
    elif breach.keyword in breach.schema:
        yield Fault(pointer, described(_alone(breach.keyword, breach.schema), breach.follow), found_in(there))
    else:
        yield Fault(pointer, breach.said or f"what {breach.keyword!r} says", found_in(there))


def _alone(keyword: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema cut down to one keyword and the type that it is about."""
    beside = {"maximum": "exclusiveMaximum", "minimum": "exclusiveMinimum"}
    names = {keyword, beside.get(keyword, ""), *(name for name, other in beside.items() if other == keyword)}
    if keyword not in ("enum", "const"):
        names.add("type")
    return {name: schema[name] for name in names if name in schema}


# ---- keywords that are about members


def _missing(breach: Breach, root: object) -> Iterator[Fault]:
    schema, there = breach.schema, breach.at(root)
    if breach.names:
        wanted = list(breach.names)
    elif breach.keyword == "required":
        wanted = [name for name in schema.get("required", breach.names) if isinstance(name, str)]
    else:
        given = cast("Mapping[str, Any]", schema.get(breach.keyword, {}))
        lists = [names for name, names in given.items() if name in there and is_array(names)]
        wanted = [name for names in lists for name in cast("list[str]", names)]
    for name in wanted or breach.names:
        if name not in there:
            known = schema.get("properties", {}).get(name, True)
            yield Fault(pointer_to(breach.pointer, name), described(known, breach.follow), NOTHING)


def _additional(breach: Breach, root: object) -> Iterator[Fault]:
    inner = breach.schema.get(breach.keyword, False)
    expected = "no property of this name" if inner is False else described(inner, breach.follow)
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, found_in(breach.at(root)[name]))


def _named(breach: Breach, _: object) -> Iterator[Fault]:
    expected = f"a property name that is {described(breach.schema.get('propertyNames', False), breach.follow)}"
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, f"name {name!r}")


def _items(breach: Breach, root: object) -> Iterator[Fault]:
    if breach.keyword == "unevaluatedItems":
        expected = "array without items beyond those described"
    else:
        places: Any = breach.schema.get("prefixItems" if breach.keyword == "items" else "items")
        expected = f"array of at most {_counted(len(places) if is_array(places) else 0, 'item')}"
    yield Fault(breach.pointer, expected, found_in(breach.at(root)))


def _contains(breach: Breach, root: object) -> Iterator[Fault]:
    schema = breach.schema
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    bounds = [f"at least {least}"] if least else []
    if most is not None:
        bounds.append(f"at most {most}")
    inner = described(schema.get("contains", True), breach.follow)
    expected = f"array with {' and '.join(bounds)} of its items being {inner}"
    yield Fault(breach.pointer, expected, found_in(breach.at(root)))


def _alternatives(breach: Breach, root: object) -> Iterator[Fault]:
    """Of the alternatives, the one that the value is meant for, with its own faults; else what they all expect."""
    there, pointer = breach.at(root), breach.pointer
    branches = [branch for branch in breach.branches if branch]
    choices = breach.schema.get(breach.keyword, [])
    if not branches or len(branches) < len(breach.branches) or len(branches) < len(choices):
        expected = f"exactly one of: {_either(choices, breach.follow)}"
        yield Fault(pointer, expected, f"{found_in(there)}, which is several of them")
        return
    left: list[_Leaf] = _leaves(breach)
    left = [leaf for leaf in left if not any(_is_of_another_kind(inner, breach) for inner in leaf.breaches)] or left
    while is_object(there) and len(left) > 1:
        tags = [tag for tag in _shared_tags(left, breach.follow) if tag.told_of(there)]
        wrong = next((tag for tag in tags if not tag.fitting(there)), None)
        if wrong is not None:
            yield wrong.fault(there, pointer)
            return
        narrower = [found for tag in tags if len(found := tag.fitting(there)) < len(left)]
        if not narrower:
            break
        left = [left[index] for index in narrower[0]]
    yield from _closest(left, breach, root)


def _closest(left: list[_Leaf], breach: Breach, root: object) -> Iterator[Fault]:
    """Of what is left of the alternatives, the one whose kind the value is of; else what they expect."""
    there, pointer = breach.at(root), breach.pointer
    deeper = [leaf for leaf in left if not any(_is_kind(inner, breach) for inner in leaf.breaches)]
    only = left if len(left) == 1 and is_object(there) else deeper
    if len(only) == 1:
        yield from faults_of(only[0].breaches, root)
        return
    expected = _either([leaf.schema for leaf in left], breach.follow)
    if expected == "object" and is_object(there):
        expected = " or ".join(dict.fromkeys(_with_names(breach.follow(leaf.schema)) for leaf in left))
    yield Fault(pointer, expected, found_in(there))


def _with_names(schema: Any) -> str:
    """An object in words, where that it is one says nothing: by the names that it needs."""
    names: list[Any] = schema.get("required", []) if is_object(schema) else []
    return f"object with {' and '.join(map(repr, names))}" if is_array(names) and names else "object"


@final
class _Leaf(msgspec.Struct, frozen=True, eq=False):
    """One alternative that is no union itself: what it says, and what is wrong by it."""

    schema: Any
    breaches: tuple[Breach, ...]


def _leaves(breach: Breach) -> list[_Leaf]:
    """The alternatives of a union, those of unions inside it among them."""
    found: list[_Leaf] = []
    for schema, branch in zip(breach.schema.get(breach.keyword, []), breach.branches, strict=False):
        inner = next((one for one in branch if one.branches and one.path == breach.path), None)
        if inner is None or any(not part for part in inner.branches):
            found.append(_Leaf(schema, branch))
            continue
        rest = tuple(one for one in branch if one is not inner)
        around = breach.follow(schema)
        found += [
            _Leaf({"allOf": [_without_union(around), inner.follow(leaf.schema)]}, (*rest, *leaf.breaches))
            for leaf in _leaves(inner)
        ]
    return found


def _without_union(schema: Any) -> Any:
    return {key: said for key, said in schema.items() if key not in ("anyOf", "oneOf")} if is_object(schema) else schema


def _is_of_another_kind(inner: Breach, outer: Breach) -> bool:
    """Whether a breach is that the value itself is of another kind than an alternative takes."""
    return inner.path == outer.path and inner.keyword in ("type", "enum", "const", "false", "not")


def _is_kind(inner: Breach, outer: Breach) -> bool:
    """Whether a breach is that the value itself is of another kind, or of another tag, than an alternative takes."""
    tagged = len(inner.path) == len(outer.path) + 1 and inner.keyword in ("const", "enum")
    return tagged or _is_of_another_kind(inner, outer)


def _either(choices: Any, follow: Callable[[Any], Any], level: int = 0) -> str:
    return " or ".join(dict.fromkeys(described(choice, follow, level) for choice in choices)) or "an alternative"


# ---- what tells alternatives apart

_ABSENT: Final = object()
_DEEPEST_TAG: Final = 3
_MOST_LOOKED_AT: Final = 500  # schemas, to find what tells the alternatives of one union apart


@final
class _Tag(msgspec.Struct, frozen=True, eq=False):
    """A place inside of an object at which each alternative lists its values, and whether each must have it."""

    path: tuple[str, ...]
    values: tuple[tuple[list[Any], bool], ...]

    def told_of(self, there: Any) -> bool:
        """Whether the place decides: it is there, or missing where all need it."""
        return self._at(there) is not _ABSENT or all(needed for _, needed in self.values)

    def fitting(self, there: Any) -> list[int]:
        """The alternatives whose values have what is there."""
        found = self._at(there)
        return [at for at, (values, _) in enumerate(self.values) if any(is_same(found, value) for value in values)]

    def fault(self, there: Any, pointer: str) -> Fault:
        """That none of them has it."""
        found = self._at(there)
        every = [value for values, _ in self.values for value in values]
        at = pointer + pointer_of(self.path)
        return Fault(at, either(every), NOTHING if found is _ABSENT else found_in(found))

    def _at(self, there: Any) -> Any:
        for name in self.path:
            there = there.get(name, _ABSENT) if is_object(there) else _ABSENT
        return there


def _shared_tags(leaves: list[_Leaf], follow: Callable[[Any], Any]) -> list[_Tag]:
    """The tags that all alternatives have, the outermost first."""
    steps = Steps(_MOST_LOOKED_AT)
    try:
        by_leaf = [dict(_tags(leaf.schema, follow, (), steps, needed=True)) for leaf in leaves]
    except Exhausted:
        return []
    shared = [path for path in by_leaf[0] if all(path in tags for tags in by_leaf)]
    return [_Tag(path, tuple(tags[path] for tags in by_leaf)) for path in sorted(shared, key=len)]


def _tags(
    schema: Any, follow: Callable[[Any], Any], path: tuple[str, ...], steps: Steps, *, needed: bool
) -> Iterator[tuple[tuple[str, ...], tuple[list[Any], bool]]]:
    """The places in an object at which a schema lists values, with the values, and whether they must be there."""
    steps.take()
    schema = follow(schema)
    if not is_object(schema) or len(path) > _DEEPEST_TAG:
        return
    for part in schema.get("allOf", ()):
        yield from _tags(part, follow, path, steps, needed=needed)
    if path and ("const" in schema or is_array(schema.get("enum"))):
        yield path, ([schema["const"]] if "const" in schema else schema["enum"], needed)
    required: Any = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        must = needed and is_array(required) and name in required
        yield from _tags(inner, follow, (*path, name), steps, needed=must)


def _late(breach: Breach, root: object) -> Iterator[Fault]:
    yield Fault(breach.pointer, breach.said, found_in(breach.at(root)))


_Teller = Callable[[Breach, object], Iterator[Fault]]
_TELLERS: Final[dict[str, _Teller]] = {
    **dict.fromkeys(("required", "dependentRequired", "dependencies"), _missing),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), _additional),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems"), _items),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    **dict.fromkeys(("anyOf", "oneOf"), _alternatives),
    "propertyNames": _named,
    "late": _late,
}


# ---- schemas in words

_DEEPEST_TOLD: Final = 4  # schemas inside each other

_KINDS: Final = {
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "items", "prefixItems"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties", "properties", "required", "additionalProperties"), "object"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matching {!r}",
}
_LENGTHS: Final = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "property"),
    "maxProperties": ("at most", "property"),
}


def described(schema: Any, follow: Callable[[Any], Any] = lambda schema: schema, level: int = 0) -> str:
    """What a schema takes, in a few words; `follow` gives what a reference in it names.

    >>> described({"type": "string", "minLength": 1}), described({"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}]})
    ('string of at least 1 character', "one of 'C', 'F' or null")
    """
    schema = follow(schema) if level < _DEEPEST_TOLD else True
    if not isinstance(schema, Mapping):
        return "a value" if schema else "no value"
    members = cast("Mapping[str, Any]", schema)
    if "const" in members:
        return listed([members["const"]])
    if isinstance(members.get("enum"), list):
        return listed(members["enum"])
    if isinstance(members.get("$ref"), str):
        return f"what {members['$ref']} says"
    for keyword in ("anyOf", "oneOf"):
        if members.get(keyword):
            return _either(members[keyword], follow, level + 1)
    kind = _kind(members)
    if kind == "a value" and members.get("allOf"):
        told = (described(part, follow, level + 1) for part in members["allOf"])
        return next((words for words in told if words != "a value"), "a value")
    notes = [*_lengths(members), *_limits(members)]
    if members.get("uniqueItems") is True:
        notes.append("without doubled items")
    if "not" in members:
        notes.append(f"that is not {described(members['not'], follow, level + 1)}")
    return " ".join([kind, *([" and ".join(notes)] if notes else [])])


def _kind(schema: Mapping[str, Any]) -> str:
    said = schema.get("type")
    if isinstance(said, str):
        return said
    if is_array(said):
        return " or ".join(sorted(cast("list[str]", said)))
    return next((kind for keyword, kind in _KINDS.items() if keyword in schema), "a value")


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, text in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is None or isinstance(limit, bool):
            continue
        exclusive = schema.get(f"exclusive{keyword.capitalize()}") is True  # draft 4
        yield _BOUNDS[f"exclusive{keyword.capitalize()}"].format(limit) if exclusive else text.format(limit)


def _lengths(schema: Mapping[str, Any]) -> Iterator[str]:
    for keyword, (bound, unit) in _LENGTHS.items():
        if keyword in schema:
            yield f"of {bound} {_counted(schema[keyword], unit)}"


_LARGE: Final = 1e15


def _counted(count: float, unit: str) -> str:
    number = f"{count:g}" if count < _LARGE else f"{Decimal(count):.6g}"  # no float holds every integer
    return f"{number} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"
