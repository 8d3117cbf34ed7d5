"""Generators of JSON Schema documents and Python types. `fxai.testing.strategies` uses this module.

The documents cover each draft, references, recursion, and all kinds of keywords. Nearly all of them have instances,
because bounds agree and a schema refers to itself only where data can end. The types cover every kind that msgspec
supports, and codecs.

>>> from hypothesis import find
>>> find(document_of("2020-12", objects=True), lambda document: "required" in document)["type"]
'object'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cache
from itertools import count
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict, Union, final
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.codec import Schema
from fxai.schema.dialect import DIALECTS, Dialect
from fxai.schema.document import document_faults
from fxai.testing.generation.instance import ANYTHING, SCALARS
from fxai.testing.generation.scalar import characters

Draft: TypeAlias = Literal["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]
"""The supported drafts of JSON Schema."""

Keywords: TypeAlias = dict[str, Any]
"""A JSON Schema as a JSON object."""

_LEVELS: Final = 3
_NAMES: Final = st.sampled_from(
    ["a", "b", "c", "kind", "item_id", "camelCase", "x-y", "$ref", "type", "required", "a/b", "m~n", "ä", ""]
)
_PATTERNS: Final = ["^a", "[0-9]", "^[a-z]+$", "^[A-Z]{2}-[0-9]{1,3}$", r"^\w+(-\w+)*$", "^(x|y)?$", r"\.json$"]
_FORMATS: Final = ["date-time", "date", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname", "regex", "made-up"]
_RESTS: Final = ("", "closed", "open", "map", "uneven")
_ATOMS: Final = ("string", "integer", "number", "boolean", "null")


@cache
def document_of(draft: Draft, *, objects: bool) -> SearchStrategy[Keywords]:
    """Generate documents of a draft, see `fxai.testing.strategies.json_schemas`."""
    dialect = next(known for known in DIALECTS.values() if known.name == draft)

    @st.composite
    def documents(draw: DrawFn) -> Keywords:
        document = Writing(draw, dialect).document(objects=objects)
        if document_faults(document):
            raise UnsatisfiedAssumption("circular references")
        return document

    return documents()


@final
class Writing:
    """The state of a generated document, with its dialect and the definitions that it can refer to."""

    def __init__(self, draw: DrawFn, dialect: Dialect) -> None:
        self.draw = draw
        self.dialect = dialect
        self.location = "$defs" if "$defs" in dialect.keywords else "definitions"
        self.names: list[str] = []
        self.drawn: int = 0

    def document(self, *, objects: bool) -> Keywords:
        """Generate a whole document."""
        self.names = [f"D{index}" for index in range(self.draw(st.sampled_from([0, 0, 1, 2])))]
        definitions: Keywords = {}
        for index, name in enumerate(self.names):
            self.drawn = index
            definitions[name] = self.schema(2)
        self.drawn = len(self.names)
        root = self._object(0) if objects else self.schema(0)
        if self.dialect.ref_alone and "$ref" in root:
            root = {"allOf": [root]}
        if self.dialect.name != "2020-12" or self._now_and_then():
            root = {"$schema": self.dialect.uri, **root}
        return {**root, self.location: definitions} if definitions else root

    def schema(self, level: int, *, loose: bool = False) -> Keywords:
        """Generate a schema. If it is optional (`loose`), it can refer to the enclosing schema."""
        forms: list[Callable[[int], Keywords]] = [self._atom, self._values]
        if level < _LEVELS:
            forms += [self._object, self._object, self._array, self._tuple, self._union, self._both, self._one]
            forms.append(lambda _: {})
        if self.drawn or (loose and self.names):
            forms.append(lambda _: self._reference(loose=loose))
        if loose:
            forms.append(lambda _: {"$ref": "#"})
        made = self.draw(st.sampled_from(forms))(level)
        return self._annotate(made) if not (self.dialect.ref_alone and "$ref" in made) else made

    # ---- forms

    def _atom(self, _: int) -> Keywords:
        name = self.draw(st.sampled_from(_ATOMS))
        schema: Keywords = {"type": name}
        if name in ("integer", "number"):
            schema |= self._bounds(name)
        elif name == "string":
            schema |= self._text()
        if self._now_and_then():
            schema["type"] = list(dict.fromkeys([name, self.draw(st.sampled_from(_ATOMS))]))
        if self._now_and_then():
            schema["not"] = self.draw(st.sampled_from([{"enum": ["a", 0]}, {"enum": [""]}, {"type": "array"}]))
        return schema

    def _bounds(self, name: str) -> Keywords:
        low, span = self.draw(st.integers(-100, 100)), self.draw(st.integers(2, 200))
        numbers: Keywords = {"minimum": low, "maximum": low + span}
        kept = {keyword: bound for keyword, bound in numbers.items() if self.draw(st.booleans())}
        if kept and self._now_and_then():
            bound = next(iter(kept))
            exclusive = f"exclusive{bound.capitalize()}"
            if self.dialect.name == "draft-04":
                kept[exclusive] = True
            else:
                kept[exclusive] = kept.pop(bound)
        if self._now_and_then():
            kept["multipleOf"] = self.draw(st.sampled_from([1, 2] if name == "integer" else [1, 0.5, 0.25]))
        return kept

    def _text(self) -> Keywords:
        form = self.draw(st.sampled_from(["", "lengths", "pattern", "format", "content"]))
        if form == "lengths":
            least = self.draw(st.integers(0, 4))
            lengths = {"minLength": least, "maxLength": least + self.draw(st.integers(0, 6))}
            return {keyword: length for keyword, length in lengths.items() if self.draw(st.booleans())}
        if form == "pattern":
            return {"pattern": self.draw(st.sampled_from(_PATTERNS))}
        if form == "format":
            return {"format": self.draw(st.sampled_from(_FORMATS))}
        return {"contentEncoding": "base64"} if form == "content" and self._knows("contentEncoding") else {}

    def _values(self, _: int) -> Keywords:
        values = self.draw(st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr))
        values = [value for index, value in enumerate(values) if value not in values[:index]]
        if self._knows("const") and self._now_and_then():
            return {"const": self.draw(ANYTHING)}
        if self.draw(st.booleans()):
            return {"enum": values}
        words = self.draw(st.lists(st.text(characters, max_size=5), min_size=1, max_size=3, unique=True))
        return {"type": "string", "enum": words}

    def _object(self, level: int) -> Keywords:
        names = self.draw(st.lists(_NAMES, max_size=3, unique=True))
        required = [name for name in names if self.draw(st.booleans())]
        properties = {name: self.schema(level + 1, loose=name not in required) for name in names}
        schema: Keywords = {"type": "object"}
        named = self.draw(st.booleans())
        if properties or named:
            schema["properties"] = properties
        if required:
            schema["required"] = required
        rest = self.draw(st.sampled_from(_RESTS))
        if rest == "uneven" and self._knows("unevaluatedProperties"):
            schema["unevaluatedProperties"] = False
        elif rest in ("closed", "open"):
            schema["additionalProperties"] = rest == "open"
        elif rest == "map":
            schema["additionalProperties"] = self.schema(level + 1, loose=True)
        return {**schema, **self._rules(names, level)} if self._often() else schema

    def _rules(self, names: list[str], level: int) -> Keywords:
        """Generate keywords for a whole object that agree with its properties."""
        rules: dict[str, Callable[[], Any]] = {
            "patternProperties": lambda: {"^x-": {}, "[0-9]$": self.schema(level + 1, loose=True)},
            "maxProperties": lambda: len(names) + 2,
            "propertyNames": lambda: {"maxLength": 12},
        }
        if len(names) > 1:
            first, second = names[:2]
            rules["dependentRequired"] = lambda: {first: [second]}
            rules["dependentSchemas"] = lambda: {first: {"required": [second]}}
            rules["dependencies"] = lambda: {first: [second], second: {"minProperties": 1}}
            rules["not"] = lambda: {"required": ["never", "both"]}
            rules["anyOf"] = lambda: [{"required": [first]}, {"required": [second]}]
            rules["if"] = lambda: {"required": [first]}
        chosen = [keyword for keyword in rules if self._knows(keyword) and self._often()]
        made = {keyword: rules[keyword]() for keyword in chosen}
        if "if" in made:
            made[self.draw(st.sampled_from(["then", "else"]))] = {"required": [names[1]]}
        return made

    def _array(self, level: int) -> Keywords:
        schema: Keywords = {"type": "array"}
        least = self.draw(st.sampled_from([0, 0, 0, 1, 2]))
        if self.draw(st.integers(0, 4)) > 0:
            schema["items"] = self.schema(level + 1, loose=least == 0)
        if least:
            schema["minItems"] = least
        if self._now_and_then():
            schema["maxItems"] = least + self.draw(st.integers(0, 3))
        if self._now_and_then() and least < 2:
            schema["uniqueItems"] = True
        if self._knows("contains") and "items" not in schema and self._now_and_then():
            schema["contains"] = self._atom(level)
            schema["maxItems"] = 4
        return schema

    def _tuple(self, level: int) -> Keywords:
        locations = [self.schema(level + 1) for _ in range(self.draw(st.integers(1, 3)))]
        latest = self._knows("prefixItems")
        schema: Keywords = {"type": "array", "prefixItems" if latest else "items": locations}
        form = self.draw(st.sampled_from(["", "closed", "exact", "more"]))
        if form in ("closed", "exact"):
            schema["items" if latest else "additionalItems"] = False
        if form == "exact":
            schema |= {"minItems": len(locations), "maxItems": len(locations)}
        elif form == "more":
            schema["items" if latest else "additionalItems"] = self._atom(level)
        return schema

    def _union(self, level: int) -> Keywords:
        return {"anyOf": [self.schema(level + 1) for _ in range(self.draw(st.integers(1, 3)))]}

    def _one(self, level: int) -> Keywords:
        """Generate alternatives that exclude each other: by type, or by the value of one property."""
        if self.draw(st.booleans()):
            kinds = self.draw(
                st.lists(st.sampled_from(["string", "integer", "null", "boolean"]), min_size=1, unique=True)
            )
            return {"oneOf": [{"type": kind} for kind in kinds]}
        arms: list[Keywords] = []
        for tag in ("a", "b"):
            arm = self._object(level + 1)
            arm["properties"] = {
                "kind": {"enum": [tag]},
                **{k: v for k, v in arm.get("properties", {}).items() if k != "kind"},
            }
            arm["required"] = list(dict.fromkeys(["kind", *arm.get("required", [])]))
            arms.append(arm)
        return {"oneOf": arms}

    def _both(self, level: int) -> Keywords:
        first = self.schema(level + 1)
        second = self.draw(
            st.sampled_from([{}, {"minLength": 1}, {"minimum": -50}, {"title": "Both"}, {"maxItems": 5}])
        )
        return {"allOf": [first, second] if second or self.draw(st.booleans()) else [first]}

    def _reference(self, *, loose: bool) -> Keywords:
        known = self.names if loose else self.names[: self.drawn]
        return {"$ref": f"#/{self.location}/{self.draw(st.sampled_from(known))}"}

    # ---- choices

    def _annotate(self, schema: Keywords) -> Keywords:
        """Return the schema, sometimes with an annotation."""
        if not self._now_and_then():
            return schema
        note = self.draw(st.sampled_from(["title", "description", "default", "examples", "readOnly", "deprecated"]))
        if not self._knows(note):
            return schema
        value: Any = "An annotation." if note in ("title", "description") else note in ("readOnly", "deprecated")
        if note in ("default", "examples"):
            value = self.draw(SCALARS) if note == "default" else [self.draw(SCALARS)]
        return {note: value, **schema}

    def _knows(self, keyword: str) -> bool:
        if keyword == "dependencies":
            return "dependentRequired" not in self.dialect.keywords
        if keyword in ("const", "default"):  # they accept any value, so the table of shapes omits them
            return keyword == "default" or self.dialect.name != "draft-04"
        return keyword in self.dialect.keywords

    def _often(self) -> bool:
        return self.draw(st.integers(0, 2)) == 2

    def _now_and_then(self) -> bool:
        return self.draw(st.integers(0, 4)) == 4


_DICT: Final[Any] = dict
_LIST: Final[Any] = list
_SET: Final[Any] = set
_FROZEN: Final[Any] = frozenset
_TUPLE: Final[Any] = tuple
_UNION: Final[Any] = Union
_NUMBERS: Final = count()


class Colour(Enum):
    """An enum of strings."""

    RED = "red"
    DARK_BLUE = "dark blue"


class Level(IntEnum):
    """An enum of integers."""

    LOW = 0
    HIGH = 10


_HASHABLE: Final[tuple[Any, ...]] = (
    bool,
    int,
    str,
    Literal["a", "b"],
    Colour,
    Level,
    Annotated[str, msgspec.Meta(min_length=1, max_length=4)],
    Annotated[int, msgspec.Meta(ge=-5, lt=5)],
)
_EXACT: Final[tuple[Any, ...]] = (
    *_HASHABLE,
    float,
    type(None),
    Literal[1, "one", None],
    Annotated[int, msgspec.Meta(multiple_of=3)],
    Annotated[float, msgspec.Meta(gt=0, le=1.5)],
    Annotated[str, msgspec.Meta(pattern="^[a-z]+(-[0-9]{2})?$", description="A word.")],
    Schema.EpochMillis,
    Schema.EpochSeconds,
    Schema.DecimalString,
    Schema.IntString,
    Schema.DurationSeconds,
    Schema.DurationMillis,
)
_INEXACT: Final[tuple[Any, ...]] = (
    date,
    Annotated[time, msgspec.Meta(tz=True)],  # without a time zone, the schema has no format
    Annotated[datetime, msgspec.Meta(tz=True)],
    timedelta,
    UUID,
    Decimal,
    bytes,
)


@cache
def type_of(*, exact: bool = True) -> SearchStrategy[Any]:
    """Generate Python types. With `exact`, the JSON Schema of each type is as strict as its decoder."""
    leaves = st.sampled_from(_EXACT if exact else (*_EXACT, *_INEXACT))
    return st.recursive(leaves, _extend, max_leaves=5)


@cache
def struct_of(*, exact: bool = True) -> SearchStrategy[Any]:
    """Generate Struct classes, like the parameters of tools."""
    return _structs(st.lists(type_of(exact=exact), max_size=3))


def _extend(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    atoms = st.sampled_from(_HASHABLE)
    return st.one_of(
        inner.map(lambda tp: _LIST[tp]),
        inner.map(lambda tp: _UNION[tp, None]),
        inner.map(lambda tp: _DICT[str, tp]),
        inner.map(lambda tp: _TUPLE[tp, ...]),
        inner.map(lambda tp: Annotated[_LIST[tp], msgspec.Meta(min_length=1, max_length=3)]),
        some.map(lambda types: _TUPLE[tuple(types)]),
        atoms.map(lambda tp: _SET[tp]) | atoms.map(lambda tp: _FROZEN[tp]),
        _structs(some),
        st.builds(_class, st.sampled_from(("dataclass", "typed dict", "named tuple")), some),
        st.tuples(some, some).map(_tagged_union),
    )


def _fresh_name(prefix: str) -> str:
    return f"{prefix}{next(_NUMBERS)}"


@st.composite
def _structs(draw: DrawFn, some: SearchStrategy[list[Any]]) -> Any:
    types = draw(some)
    optional = draw(st.integers(0, len(types)))
    config: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"forbid_unknown_fields": True},
                {},
                {"rename": "camel"},
                {"array_like": True},
                {"omit_defaults": True},
                {"tag": "t"},
            ]
        )
    )
    members: list[Any] = []
    for index, tp in enumerate(types):
        name = f"member_{index}"
        members.append((name, tp) if index < optional else (name, _UNION[tp, None], None))
    return _struct(members, config)


def _struct(members: list[Any], config: dict[str, Any]) -> Any:
    return msgspec.defstruct(_fresh_name("Made"), members, frozen=True, module=__name__, **config)


def _tagged_union(groups: tuple[list[Any], list[Any]]) -> Any:
    arms = [
        _struct([(f"m{index}", tp) for index, tp in enumerate(types)], {"tag": tag, "tag_field": "kind"})
        for tag, types in zip(("one", "two"), groups, strict=True)
    ]
    return _UNION[tuple(arms)]


def _class(kind: str, types: list[Any]) -> Any:
    name, members = _fresh_name("Made"), [(f"m{index}", tp) for index, tp in enumerate(types)]
    if kind == "dataclass":
        made: Any = make_dataclass(name, [*members, ("more", int, field(default=3))])
    else:
        make: Any = NamedTuple if kind == "named tuple" else TypedDict
        made = make(name, members if make is NamedTuple else {**dict(members), "m0": NotRequired[types[0]]})
    made.__module__ = __name__
    return made
