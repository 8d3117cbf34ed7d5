"""What a validator found, told as faults: the same words whichever package found it.

>>> broken = Breach("required", {"required": ["a", "b"], "properties": {"b": {"type": "integer"}}}, ())
>>> [str(fault) for fault in told([broken], {"a": 1})]
['/b: expected integer, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast, final

import msgspec

from fxai.schema.data import is_array
from fxai.schema.expectation import listed
from fxai.schema.fault import NOTHING, Fault, found_in, in_order, pointer_of, pointer_to

__all__ = ["Breach", "described", "told"]


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
    """

    keyword: str
    schema: Mapping[str, Any]
    path: tuple[str | int, ...]
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""

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


def told(breaches: Iterable[Breach], root: object) -> tuple[Fault, ...]:
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
        yield Fault(pointer, described(_alone(breach.keyword, breach.schema)), found_in(there))
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
            yield Fault(pointer_to(breach.pointer, name), described(known), NOTHING)


def _additional(breach: Breach, root: object) -> Iterator[Fault]:
    inner = breach.schema.get(breach.keyword, False)
    expected = "no property of this name" if inner is False else described(inner)
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, found_in(breach.at(root)[name]))


def _named(breach: Breach, _: object) -> Iterator[Fault]:
    expected = f"a property name that is {described(breach.schema.get('propertyNames', False))}"
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
    inner = described(schema.get("contains", True))
    expected = f"array with {' and '.join(bounds)} of its items being {inner}"
    yield Fault(breach.pointer, expected, found_in(breach.at(root)))


def _alternatives(breach: Breach, root: object) -> Iterator[Fault]:
    """Of the alternatives, the one whose kind the value is of, with its own faults; else what they all expect."""
    there, pointer = breach.at(root), breach.pointer
    branches = [branch for branch in breach.branches if branch]
    choices = breach.schema.get(breach.keyword, [])
    if not branches or len(branches) < len(breach.branches) or len(branches) < len(choices):
        yield Fault(pointer, f"exactly one of: {_either(choices)}", f"{found_in(there)}, which is several of them")
        return
    deeper = [told(branch, root) for branch in branches if not any(_is_kind(inner, breach) for inner in branch)]
    if len(deeper) == 1:
        yield from deeper[0]
    else:
        yield Fault(pointer, _either(choices), found_in(there))


def _is_kind(inner: Breach, outer: Breach) -> bool:
    """Whether a breach is that the value itself is of another kind, or of another tag, than an alternative takes."""
    if inner.path == outer.path:
        return inner.keyword in ("type", "enum", "const", "false", "not")
    return len(inner.path) == len(outer.path) + 1 and inner.keyword in ("const", "enum")


def _either(choices: Any) -> str:
    return " or ".join(dict.fromkeys(described(choice) for choice in choices)) or "an alternative"


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


def described(schema: Any) -> str:
    """What a schema takes, in a few words.

    >>> described({"type": "string", "minLength": 1}), described({"anyOf": [{"enum": ["C", "F"]}, {"type": "null"}]})
    ('string of at least 1 character', "one of 'C', 'F' or null")
    """
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
            return _either(members[keyword])
    kind = _kind(members)
    notes = [*_lengths(members), *_limits(members)]
    if members.get("uniqueItems") is True:
        notes.append("without doubled items")
    if "not" in members:
        notes.append(f"that is not {described(members['not'])}")
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


def _counted(count: float, unit: str) -> str:
    return f"{count:g} {unit if count == 1 else {'property': 'properties'}.get(unit, unit + 's')}"
