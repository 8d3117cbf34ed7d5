"""Python types that a schema can be of, of every kind that msgspec knows, with codecs among them.

>>> from hypothesis import find
>>> find(type_of(), lambda tp: tp is not None) is not None
True
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cache
from itertools import count
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, Union
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.codec import Schema

__all__ = ["struct_of", "type_of"]

_DICT: Final[Any] = dict
_LIST: Final[Any] = list
_SET: Final[Any] = set
_FROZEN: Final[Any] = frozenset
_TUPLE: Final[Any] = tuple
_UNION: Final[Any] = Union
_NUMBERS: Final = count()


class Colour(Enum):
    """A choice of words."""

    RED = "red"
    DARK_BLUE = "dark blue"


class Level(IntEnum):
    """A choice of numbers."""

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
    Annotated[
        time, msgspec.Meta(tz=True)
    ],  # without a zone their schema has no format: the schema does not say what they are
    Annotated[datetime, msgspec.Meta(tz=True)],
    timedelta,
    UUID,
    Decimal,
    bytes,
)


@cache
def type_of(*, exact: bool = True) -> SearchStrategy[Any]:
    """Python types; with `exact`, those whose JSON Schema says all that their decoder asks."""
    leaves = st.sampled_from(_EXACT if exact else (*_EXACT, *_INEXACT))
    return st.recursive(leaves, _grown, max_leaves=5)


@cache
def struct_of(*, exact: bool = True) -> SearchStrategy[Any]:
    """Struct classes, as parameters of tools are."""
    return _structs(st.lists(type_of(exact=exact), max_size=3))


def _grown(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
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
        some.map(_dataclass) | some.map(_typed_dict) | some.map(_named_tuple),
        st.tuples(some, some).map(_tagged),
    )


def _named(prefix: str) -> str:
    return f"{prefix}{next(_NUMBERS)}"


@st.composite
def _structs(draw: DrawFn, some: SearchStrategy[list[Any]]) -> Any:
    """A struct class with such members, open or closed, some of them optional."""
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
    return msgspec.defstruct(_named("Made"), members, frozen=True, module=__name__, **config)


def _tagged(groups: tuple[list[Any], list[Any]]) -> Any:
    """A union of two structs that a tag tells apart."""
    arms = [
        _struct([(f"m{index}", tp) for index, tp in enumerate(types)], {"tag": tag, "tag_field": "kind"})
        for tag, types in zip(("one", "two"), groups, strict=True)
    ]
    return _UNION[tuple(arms)]


def _dataclass(types: list[Any]) -> Any:
    members: list[Any] = [(f"m{index}", tp) for index, tp in enumerate(types)]
    made = make_dataclass(_named("Made"), [*members, ("more", int, field(default=3))])
    made.__module__ = __name__
    return made


def _typed_dict(types: list[Any]) -> Any:
    make: Any = TypedDict
    members = {f"m{index}": tp if index else NotRequired[tp] for index, tp in enumerate(types)}
    made = make(_named("Made"), members)
    made.__module__ = __name__
    return made


def _named_tuple(types: list[Any]) -> Any:
    make: Any = NamedTuple
    made = make(_named("Made"), [(f"m{index}", tp) for index, tp in enumerate(types)])
    made.__module__ = __name__
    return made
