"""The contents of types. Use this module to find members, arms of unions, and codecs by the annotations of a type.

The functions read the annotations of a type, including the metadata of `Annotated`. They replace the type variables of
generic classes.

>>> from typing import NamedTuple
>>> class Point(NamedTuple):
...     x: int
...     y: int = 0
>>> [(member.name, member.type, member.required) for member in members_of(Point) or ()]
[('x', <class 'int'>, True), ('y', <class 'int'>, False)]
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import sys
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    Never,
    NoReturn,
    NotRequired,
    Required,
    TypeGuard,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
)

import msgspec
from typing_extensions import ReadOnly, TypeAliasType, get_type_hints, is_typeddict

from fxai.schema.codecs import Codec, Matching
from fxai.schema.data import JsonObject
from fxai.schema.fault import SchemaError, unwrap
from fxai.schema.mapping_keys import states_bounds
from fxai.schema.pattern import compiled_pattern

Kind = Literal["struct", "dataclass", "typed-dict", "named-tuple", "attrs"]

ABSENT: Final = msgspec.NODEFAULT
"""The default of a member without a default."""

# JSON can represent the values of these types as keys. Enums and literals can also be keys.
_DATES: Final = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
_KEYS: Final = frozenset((str, int, float, bytes, decimal.Decimal, uuid.UUID, *_DATES))
_UNION: Final[Any] = Union
_WRAPPERS: Final = (Required, NotRequired, ReadOnly)


@final
class Member(msgspec.Struct, frozen=True):
    """A field of a struct, dataclass, TypedDict, named tuple, or attrs class."""

    name: str
    """The name of the attribute."""
    type: Any
    required: bool
    default: Any
    default_factory: Any
    encode_name: str
    """The name in JSON."""
    init_name: str
    """The name of the parameter of the constructor."""


def plain_type(tp: Any) -> Any:
    """Return the type that an alias, a `NewType`, or a type variable names. Keep an alias that contains itself."""
    while True:
        if contains_itself(tp):
            return tp
        if isinstance(tp, TypeAliasType):
            tp = tp.__value__
        elif isinstance(origin := get_origin(tp), TypeAliasType):
            tp = _fill(origin.__value__, dict(zip(origin.__type_params__, get_args(tp), strict=False)))
        elif hasattr(tp, "__supertype__"):
            tp = tp.__supertype__
        elif isinstance(tp, TypeVar):
            tp = tp.__bound__ or (_UNION[tp.__constraints__] if tp.__constraints__ else Any)
        elif tp is None:
            return type(None)
        else:
            return tp


def codec_of(tp: Any) -> tuple[Any, Codec, tuple[Any, ...]] | None:
    """Return the Python type, the codec, and the metadata after the codec of an `Annotated` type with a codec.

    Return None for any other type. A `Meta` with a pattern counts as a codec.

    Raises:
        SchemaError: If a `Meta` precedes the codec.
    """
    if get_origin(tp) is not Annotated:
        return None
    for index, note in enumerate(tp.__metadata__):
        if isinstance(note, Codec):
            before = [meta for meta in tp.__metadata__[:index] if isinstance(meta, msgspec.Meta)]
            if before:
                raise SchemaError(
                    f"{tp!r} has a Meta before its codec. Move the Meta after the codec, because it describes the JSON."
                )
            return tp.__origin__, *_search_in_time(note, tp.__metadata__[index + 1 :])
    codec, after = _search_in_time(None, tp.__metadata__, tp.__origin__)
    return None if codec is None else (tp.__origin__, codec, after)


def _search_in_time(codec: Any, after: tuple[Any, ...], tp: Any = None) -> tuple[Any, tuple[Any, ...]]:
    """Move the pattern of a `Meta` into a codec with a time limit. Return the codec and the metadata after it.

    `msgspec` searches with `re`. A search can then take exponential time, and fxai cannot stop it. If `codec` is None,
    the result is a codec with only the pattern.
    """
    patterns = [note.pattern for note in after if isinstance(note, msgspec.Meta) and note.pattern is not None]
    if not patterns:
        return codec, after
    names = [name for name in dir(msgspec.Meta) if name[0] != "_" and name != "pattern"]
    after = tuple(
        msgspec.Meta(**{name: value for name in names if (value := getattr(note, name)) is not None})
        if isinstance(note, msgspec.Meta)
        else note
        for note in after
    )
    if codec is None:
        check = Matching(patterns[-1])
        return Codec(tp, check, check, msgspec.json.encode({"pattern": check.pattern})), after
    keywords: JsonObject = codec.json_schema() or {}
    if "pattern" in keywords:  # both patterns apply
        keywords["allOf"] = [*keywords.get("allOf", ()), {"pattern": keywords.pop("pattern")}]
    wire: Any = Annotated
    wire = wire[codec.wire, msgspec.Meta(pattern=patterns[-1])]
    return Codec(wire, codec.decode, codec.encode, msgspec.json.encode(keywords) if keywords else None), after


def contains_itself(tp: object) -> bool:
    """Return True if a type is an alias whose value contains the alias or an unresolved name."""
    alias = tp if isinstance(tp, TypeAliasType) else get_origin(tp)
    if not isinstance(alias, TypeAliasType):
        return False
    waiting: list[Any] = [alias.__value__]
    seen: set[TypeAliasType] = set()
    while waiting:
        part = waiting.pop()
        named = part if isinstance(part, TypeAliasType) else get_origin(part)
        if named is alias or isinstance(part, (str, ForwardRef)):
            return True
        if isinstance(named, TypeAliasType) and named not in seen:
            seen.add(named)
            waiting.append(named.__value__)
        waiting += _parts_of(part)
    return False


def _parts_of(tp: object) -> tuple[Any, ...]:
    origin = get_origin(tp)
    if origin is Annotated:
        return get_args(tp)[:1]
    return () if origin is None or origin is Literal else get_args(tp)


def arms_of(tp: object) -> tuple[Any, ...] | None:
    """Return the alternatives of a union without `Never` and `NoReturn`. Return None for any other type."""
    if get_origin(tp) in (Union, types.UnionType):
        return tuple(arm for arm in get_args(tp) if arm not in (Never, NoReturn))
    return None


def is_class(tp: Any) -> TypeGuard[type[Any]]:
    """Return True if a type is a class."""
    return isinstance(tp, type)


def kind_of(tp: object) -> Kind | None:
    """Return the kind of a class with members, or None for any other type."""
    cls = get_origin(tp) or tp
    if not is_class(cls):
        return None
    if issubclass(cls, msgspec.Struct):
        return "struct"
    if is_typeddict(cls):
        return "typed-dict"
    if tuple in cls.__mro__:
        return "named-tuple" if hasattr(cls, "_fields") else None
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    return "attrs" if hasattr(cls, "__attrs_attrs__") else None


def members_of(tp: Any) -> tuple[Member, ...] | None:
    """Return the members of a class in order, including inherited members. Return None for a type without members.

    Raises:
        SchemaError: If an annotation contains an undefined name.
    """
    kind, cls = kind_of(tp), get_origin(tp) or tp
    if kind is None:
        return None
    try:
        if kind == "struct":
            return tuple(
                Member(one.name, one.type, one.required, one.default, one.default_factory, one.encode_name, one.name)
                for one in msgspec.structs.fields(tp)
            )
        filled = _variables(tp)
        hints = {name: _fill(hint, filled) for name, hint in get_type_hints(cls, include_extras=True).items()}
        return tuple(_read_members(kind, cls, hints))
    except NameError as error:
        raise SchemaError(
            f"cannot resolve an annotation of {name_of(tp)}: {error}. Define the type at module level, or import it"
            " outside TYPE_CHECKING."
        ) from None


def name_of(tp: object) -> str:
    """Return the name of a type in a message."""
    return tp.__qualname__ if isinstance(tp, type) and not get_args(tp) else str(tp)


def _read_members(kind: Kind, cls: Any, hints: dict[str, Any]) -> Iterator[Member]:
    """Iterate over the members of a class that is not a struct."""
    match kind:
        case "typed-dict":
            for name, hint in hints.items():
                required = name in cls.__required_keys__
                while get_origin(hint) in _WRAPPERS:
                    required = {Required: True, NotRequired: False}.get(get_origin(hint), required)
                    hint = get_args(hint)[0]
                yield Member(name, hint, required, ABSENT, ABSENT, name, name)
        case "named-tuple":
            for name in cls._fields:
                default = cls._field_defaults.get(name, ABSENT)
                yield Member(name, hints.get(name, Any), default is ABSENT, default, ABSENT, name, name)
        case "attrs":
            import attrs

            for field in attrs.fields(cls):
                given: Any = field.default
                made, missing = hasattr(given, "takes_self"), given is attrs.NOTHING
                default = ABSENT if missing or made else given
                factory = given.factory if made and not given.takes_self else ABSENT
                names = field.name, field.alias or field.name
                if field.init:
                    yield Member(field.name, hints.get(field.name, Any), missing, default, factory, *names)
        case _:
            for field in dataclasses.fields(cls):
                default = ABSENT if field.default is dataclasses.MISSING else field.default
                factory = ABSENT if field.default_factory is dataclasses.MISSING else field.default_factory
                required = default is ABSENT and factory is ABSENT
                if field.init:
                    yield Member(field.name, hints[field.name], required, default, factory, field.name, field.name)


def _variables(tp: Any) -> dict[Any, Any]:
    cls = get_origin(tp)
    own = dict(zip(getattr(cls, "__parameters__", ()), get_args(tp), strict=False)) if cls is not None else {}
    for parent in getattr(cls or tp, "__orig_bases__", ()):
        for variable, given in _variables(parent).items():
            own.setdefault(variable, _fill(given, own))
    return own


def _fill(tp: Any, variables: Mapping[Any, Any]) -> Any:
    if isinstance(tp, TypeVar):
        return variables.get(tp, tp)
    parameters = getattr(tp, "__parameters__", ())
    if (isinstance(tp, type) and not get_args(tp)) or not parameters:
        return tp
    generic: Any = tp
    return generic[tuple(variables.get(parameter, parameter) for parameter in parameters)]


def without_notes(tp: Any) -> Any:
    """Return the plain type inside `Annotated`."""
    while get_origin(tp := plain_type(tp)) is Annotated:
        tp = tp.__origin__
    return tp


# ---- types that fxai refuses


def check_key(tp: object, location: str) -> None:
    """Raise a `SchemaError` if JSON cannot represent a type as the keys of a mapping."""
    tp = plain_type(tp)
    if (coded := codec_of(tp)) is not None:
        check_key(coded[1].wire, location)
    elif get_origin(tp) is Annotated:
        check_key(get_args(tp)[0], location)
        if not states_bounds(unwrap(msgspec.inspect.type_info(tp))):
            raise SchemaError(
                f"{tp} at {location} cannot be the key of a mapping, because a JSON Schema cannot state the bounds of a"
                " number that is text. Use an int that is at least 0 or has at most 100 values, or use a list of pairs."
            )
    elif (arms := arms_of(tp)) is not None:
        for arm in arms:
            check_key(arm, location)
    elif not _is_key(tp):
        raise SchemaError(
            f"{name_of(tp)} at {location} cannot be the key of a mapping, because a key in JSON is text. Use str, int,"
            " or an enum as the key, or use a list of pairs."
        )


def _is_key(tp: Any) -> bool:
    if get_origin(tp) is Literal:
        return all(type(value) in (str, int) for value in get_args(tp))
    if tp in (Any, object, Never, NoReturn) or isinstance(tp, TypeVar):
        return True
    return is_class(tp) and (tp in _KEYS or issubclass(tp, enum.Enum))


def check_pattern(codec: Codec, location: str) -> None:
    """Raise a `SchemaError` if fxai cannot search the pattern of a codec with a time limit."""
    if isinstance(codec.decode, Matching):
        try:
            compiled_pattern(codec.decode.pattern, python=True)
        except ValueError as error:
            raise SchemaError(
                f"cannot search the pattern {codec.decode.pattern!r} of {location} with a time limit: {error}."
                " Write a simpler pattern, or check the text in a codec: Annotated[str, Schema.codec(wire=str,"
                " decode=…, encode=…)]"
            ) from None


def check_defaults(tp: object) -> None:
    """Refuse a `Field` of pydantic as a default, because only a model of pydantic interprets the default."""
    field = getattr(sys.modules.get("pydantic.fields"), "FieldInfo", None)
    if field is None:
        return
    for member in members_of(tp) or ():
        if isinstance(member.default, field):
            raise SchemaError(
                f"{name_of(tp)}.{member.name} has a pydantic Field as its default. Write the Field into the type:"
                f" `{member.name}: Annotated[…, Field(…)]`."
            )
