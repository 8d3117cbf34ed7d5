"""Schemas: decode JSON to values of a Python type, and encode values of the type to JSON.

An invalid value is a failure with the location of every error. You can create a schema of any type that `msgspec`
understands. If the Python form of a field differs from its JSON form, declare a codec in `Annotated`.

>>> from datetime import datetime, timezone
>>> import msgspec
>>> class Stamp(msgspec.Struct, frozen=True):
...     name: str
...     at: Schema.EpochMillis
>>> stamps = Schema.of(Stamp)
>>> stamps.decode_json('{"name": "start", "at": 1000}').unwrap().at
datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
>>> stamps.encode(Stamp("end", datetime(1970, 1, 1, tzinfo=timezone.utc))).unwrap()
{'name': 'end', 'at': 0}
>>> print(stamps.decode({"name": 3, "at": 0}).failure())
/name: expected string, found integer 3
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    TypeAlias,
    TypeGuard,
    cast,
    final,
    get_args,
    get_origin,
    overload,
)

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar

from fxai.schema.budget import with_stack
from fxai.schema.codecs import (
    DECIMAL_STRING,
    DURATION_MILLIS,
    DURATION_SECONDS,
    EPOCH_MILLIS,
    EPOCH_SECONDS,
    INT_STRING,
    Codec,
)
from fxai.schema.compiled import ROOTS, Compiled, raise_faults
from fxai.schema.data import JSON_ERRORS, JsonObject
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import CALL_LIMITS, LIMITS, Limits
from fxai.schema.plan import derive
from fxai.schema.surrogate import mend_data

if TYPE_CHECKING:
    from fxai.schema.core_schema import Caveat

_A = TypeVar("_A")
_B = TypeVar("_B")
_W = TypeVar("_W")


@final
class Schema(Generic[_A]):
    """A Python type and its JSON form. A schema is an immutable value, equal to every schema of an equal type.

    `Schema.of` creates a schema. fxai compiles the type once, at the first use. The types named `Schema.…` are Python
    types with a codec, for annotations.
    """

    __slots__ = ("__compiled__", "__type__", "__written__")

    EpochMillis: TypeAlias = Annotated[datetime, EPOCH_MILLIS]
    """An aware `datetime`. Its JSON form is whole milliseconds since 1970 (UTC), without finer parts."""
    EpochSeconds: TypeAlias = Annotated[datetime, EPOCH_SECONDS]
    """An aware `datetime`. Its JSON form is whole seconds since 1970 (UTC), without finer parts."""
    DecimalString: TypeAlias = Annotated[Decimal, DECIMAL_STRING]
    """A finite `Decimal`. Its JSON form is a string with every digit."""
    IntString: TypeAlias = Annotated[int, INT_STRING]
    """An `int` of at most 4,300 characters. Its JSON form is a string of digits."""
    DurationSeconds: TypeAlias = Annotated[timedelta, DURATION_SECONDS]
    """A `timedelta`. Its JSON form is a number of seconds."""
    DurationMillis: TypeAlias = Annotated[timedelta, DURATION_MILLIS]
    """A `timedelta`. Its JSON form is a number of milliseconds."""

    __type__: Any
    __compiled__: Compiled | None
    __written__: JsonSchema | None

    def __init__(self, type_: Any) -> None:
        """Store the type. Use `Schema.of`, which returns the same schema for the same type."""
        object.__setattr__(self, "__type__", type_)
        object.__setattr__(self, "__compiled__", None)
        object.__setattr__(self, "__written__", None)

    # ---- constructors

    @overload
    @staticmethod
    def of(type_: Schema[_B]) -> Schema[_B]: ...
    @overload
    @staticmethod
    def of(type_: builtins.type[_B]) -> Schema[_B]: ...
    @overload  # other types: a union, `Literal`, `Annotated`, `NewType`, `None`, an alias
    @staticmethod
    def of(type_: TypeForm[_B]) -> Schema[_B]: ...
    @staticmethod
    def of(type_: Any) -> Schema[Any]:
        """Return the schema of a type. The same type has the same schema. A schema is returned unchanged.

        fxai accepts all types of `msgspec`: `Struct`, dataclass, `TypedDict`, `NamedTuple`, attrs, `Literal`, `Enum`,
        unions, `Annotated[..., Meta(...)]`, and containers. `None` accepts only null. `Any` and `object` accept any
        JSON value. `Never` accepts no value. Checkers infer each type: `Schema.of(int | None)` is a
        `Schema[int | None]`.

        If the argument is not a type, or has neither a JSON form nor a codec, the first use of the schema raises
        `SchemaError`. The message names the location and the remedy. A string raises `SchemaError` immediately.
        """
        if _is_schema(type_):
            return type_
        if isinstance(type_, str):
            raise SchemaError(f"type must be a type, got the string {type_!r}. Pass the type itself, without quotes.")
        try:
            return _schema_of(type_)
        except TypeError:  # a type with unhashable annotations
            return Schema(type_)

    @staticmethod
    def codec(
        *,
        wire: builtins.type[_W],
        decode: Callable[[_W], _B],
        encode: Callable[[_B], _W],
        json_schema: Mapping[str, Any] | None = None,
    ) -> Codec:
        """Create a codec for `Annotated[T, Schema.codec(...)]`, which converts `T` to another type in JSON.

        Args:
            wire: The type in JSON. fxai uses its JSON Schema for the field.
            decode: A function from a wire value to the Python value. A `ValueError` is a validation error.
            encode: A function from a Python value to the wire value. A `ValueError` is a validation error.
            json_schema: More keywords for the field, such as a `format`. Default: None.

        >>> from pathlib import PurePosixPath
        >>> Location = Annotated[PurePosixPath, Schema.codec(wire=str, decode=PurePosixPath, encode=str)]
        >>> Schema.of(list[Location]).decode(["a/b"])
        <Success: [PurePosixPath('a/b')]>
        """
        return Codec(wire, decode, encode, None if json_schema is None else msgspec.json.encode(dict(json_schema)))

    # ---- attributes

    @property
    def type(self) -> Any:
        """The Python type."""
        return self.__type__

    @property
    def document(self) -> JsonSchema:
        """The JSON Schema of the type (2020-12) as an immutable value, derived once.

        The root is the type itself. `$defs` contains the classes that it refers to.

        Raises:
            SchemaError: If the type has no JSON form, or if its document exceeds the budget. For example, the document
                is nested too deep, or the expansion of a pattern is too long.
        """
        return (self.__compiled__ or _compile(self)).document

    @property
    def written_document(self) -> JsonSchema:
        """The JSON Schema of the data that the type encodes, as an immutable value.

        It equals `document`, unless a type of pydantic has computed fields, serializers, or aliases for encoding only.

        Raises:
            SchemaError: Like `document`.
        """
        if self.__written__ is None:
            plan = (self.__compiled__ or _compile(self)).plan
            differs = any(one.written is not one.document for one in plan.foreigners.values())
            made = with_stack(lambda: JsonSchema.derive(derive(plan, written=True))) if differs else self.document
            object.__setattr__(self, "__written__", made)
        return cast("JsonSchema", self.__written__)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The laws between the type and its JSON Schema that are true in one direction only.

        The tuple is empty, except for a type with a type of pydantic: its validators can refuse more than its JSON
        Schema, and it can write other data than it reads.
        """
        plan = (self.__compiled__ or _compile(self)).plan
        return tuple(dict.fromkeys(one for step in plan.foreigners.values() for one in step.caveats))

    def json_schema(self) -> JsonObject:
        """Return the JSON Schema of the type as a new plain copy.

        >>> from msgspec import Meta
        >>> Schema.of(dict[str, Annotated[int, Meta(ge=0)]]).json_schema()
        {'type': 'object', 'additionalProperties': {'type': 'integer', 'minimum': 0}}
        """
        return cast("JsonObject", self.document.to_dict())

    @property
    def description(self) -> str | None:
        """The description of the type by its `Meta(description=...)` or its docstring, or None."""
        description = self.document.get("description")
        return description if isinstance(description, str) else None

    @property
    def name(self) -> str | None:
        """The name of the type by its `Meta(title=...)`, its class, or its alias, or None.

        >>> from typing import NamedTuple
        >>> Pair = NamedTuple("Pair", [("a", int)])
        >>> Schema.of(Pair).name, Schema.of(list[Pair]).name
        ('Pair', None)
        """
        title = self.document.get("title")
        return title if isinstance(title, str) else _name_of(self.__type__)

    def check(self) -> None:
        """Check that fxai can decode and encode the type. Without this call, the first use checks it.

        Raises:
            SchemaError: If the type is not a type, or has neither a JSON form nor a codec.
            NameError: If the type contains a name that is not defined yet.
        """
        _ = self.__compiled__ or _compile(self)

    # ---- decoding

    def decode(self, value: object, *, plain: bool = False) -> Result[_A, DecodeFailure]:
        """Return the value of plain JSON data, or every error of the data.

        Args:
            value: Plain JSON data. A value that JSON cannot represent (NaN, other Python objects) is an error.
            plain: True if the value is certainly plain JSON data, for example from `parse_json`. fxai then does not
                check this. Default: False.

        >>> Schema.of(list[int]).decode([1, 2.0])
        <Success: [1, 2]>
        >>> print(Schema.of(list[int]).decode([1, "2"]).failure())
        /1: expected integer, found string '2'
        """
        try:
            return Success(self.decode_unsafe(value, plain=plain))
        except DecodeError as error:
            return Failure(error.failure)

    def decode_json(self, text: bytes | str, limits: Limits = LIMITS) -> Result[_A, DecodeFailure]:
        """Return the value of JSON text, or every error of the text. Blank text is `{}`.

        >>> Schema.of(dict[str, int]).decode_json('{"a": 1}')
        <Success: {'a': 1}>
        >>> print(Schema.of(dict[str, int]).decode_json('{"a": }').failure())
        expected JSON, found text that is not JSON: Expecting value at line 1 column 7
        """
        try:
            return Success(self.decode_json_unsafe(text, limits))
        except DecodeError as error:
            return Failure(error.failure)

    def decode_unsafe(self, value: object, *, plain: bool = False) -> _A:
        """Return the value of plain JSON data.

        Raises:
            DecodeError: If `decode` returns a failure.
        """
        return self.decode_or(value, raise_faults, plain=plain)

    def decode_json_unsafe(self, text: bytes | str, limits: Limits = LIMITS) -> _A:
        """Return the value of JSON text.

        Raises:
            DecodeError: If `decode_json` returns a failure.
        """
        return self.decode_json_or(text, raise_faults, limits)

    def decode_or(self, value: object, refused: Callable[[tuple[Fault, ...]], _B], *, plain: bool = False) -> _A | _B:
        """Return the value of plain JSON data, or the result of `refused` for the errors of the data.

        Use it in code that handles errors as values, because it raises almost no exceptions.
        """
        ready = self.__compiled__ or _compile(self)
        if not plain and (ready.checked or type(value) not in ROOTS) and (faults := ready.unsound(value)):
            return refused(faults)
        try:
            taken: _A = ready.take(value)
        except (msgspec.ValidationError, RecursionError) as error:
            mended: _A | _B = ready.mend_data(value, refused, error, plain=plain)
            return mended
        decoded: _A | _B = taken if ready.direct else ready.inward(taken, refused)
        return decoded

    def decode_json_or(
        self, text: bytes | str, refused: Callable[[tuple[Fault, ...]], _B], limits: Limits = LIMITS
    ) -> _A | _B:
        """Return the value of JSON text, or the result of `refused` for the errors of the text, like `decode_or`."""
        ready = self.__compiled__ or _compile(self)
        usual = limits is LIMITS or limits is CALL_LIMITS
        if ready.direct and usual and len(text) <= 128 and (type(text) is str or text.isascii()):
            try:
                read: _A = ready.read(text)
                return read
            except JSON_ERRORS as error:
                mended: _A | _B = ready.mend_text(text, limits, refused, error)
                return mended
        decoded: _A | _B = ready.decode_text(text, limits, refused)
        return decoded

    # ---- encoding

    def encode(self, value: _A) -> Result[Any, DecodeFailure]:
        """Return the plain JSON data of a value as a new copy, or every error of the value.

        NaN and the infinities are errors. If the type accepts anything (`Any`), fxai writes tuples, sets, dates,
        structs, and similar values like `msgspec`.

        >>> Schema.of(tuple[int, str]).encode((1, "a"))
        <Success: [1, 'a']>
        >>> print(Schema.of(list[float]).encode([1.0, float("nan")]).failure())
        /1: expected number, found NaN
        """
        try:
            return Success(self.encode_unsafe(value))
        except DecodeError as error:
            return Failure(error.failure)

    def encode_json(self, value: _A) -> Result[bytes, DecodeFailure]:
        """Return the JSON text of a value in UTF-8, or every error of the value.

        >>> Schema.of(list[int]).encode_json([1, 2])
        <Success: b'[1,2]'>
        """
        try:
            return Success(self.encode_json_unsafe(value))
        except DecodeError as error:
            return Failure(error.failure)

    def encode_unsafe(self, value: _A) -> Any:
        """Return the plain JSON data of a value.

        Raises:
            DecodeError: If `encode` returns a failure.
        """
        ready = self.__compiled__ or _compile(self)
        if type(value) is ready.atom or (ready.own_form is not None and ready.own_form(value)):
            return value
        return ready.encode_data(value)

    def encode_mended(self, value: _A) -> Any:
        """Return the JSON data of a value like `encode_unsafe`, or its JSON text as `msgspec.Raw`, unparsed.

        U+FFFD replaces each half of a surrogate pair, which no JSON text can contain.

        Raises:
            DecodeError: If `encode` returns a failure for another reason.
        """
        ready = self.__compiled__ or _compile(self)
        if type(value) is ready.atom or (ready.own_form is not None and ready.own_form(value)):
            return value
        try:
            return msgspec.Raw(ready.write(value)) if ready.direct else ready.encode_raw(value)
        except DecodeError:
            mended = mend_data(value)
            if mended is value:
                raise
            return ready.encode_raw(mended)

    def encode_json_unsafe(self, value: _A) -> bytes:
        """Return the JSON text of a value.

        Raises:
            DecodeError: If `encode_json` returns a failure.
        """
        return (self.__compiled__ or _compile(self)).encode_text(value)

    # ---- as a value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: a Schema is immutable. Create another Schema.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r}: a Schema is immutable")

    def __eq__(self, other: object) -> bool:
        return bool(self.__type__ == other.__type__) if _is_schema(other) else NotImplemented

    def __hash__(self) -> int:
        try:
            return hash((Schema, self.__type__))
        except TypeError:
            return hash((Schema, repr(self.__type__)))

    def __repr__(self) -> str:
        return f"Schema.of({self.__type__.__qualname__ if isinstance(self.__type__, type) else repr(self.__type__)})"

    def __reduce__(self) -> tuple[Callable[[object], Schema[Any]], tuple[Any]]:
        return _schema_of, (self.__type__,)


def _compile(schema: Schema[Any]) -> Compiled:
    try:
        compiled = Compiled(schema.type)
    except SchemaError:
        raise
    except TypeError as error:  # an unhashable object, such as a list
        raise SchemaError(f"{schema.type!r} is not a type: {error}. Pass a class or an annotation.") from None
    object.__setattr__(schema, "__compiled__", compiled)
    return compiled


def _name_of(type_: Any) -> str | None:
    """Return the name of a class and its arguments, or of an alias. Types of Python itself have no name."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _name_of(get_args(type_)[0])
    named: Any = type_ if origin is None else origin
    name = getattr(named, "__name__", None)
    if not isinstance(name, str) or getattr(named, "__module__", None) in ("builtins", "typing", "types"):
        return None
    inside = [_name_of(one) or getattr(one, "__name__", None) for one in get_args(type_)]
    return "_".join([name, *(one for one in inside if isinstance(one, str))])


def _is_schema(value: object) -> TypeGuard[Schema[Any]]:
    return isinstance(value, Schema)


@lru_cache(maxsize=4096)
def _schema_of(type_: object) -> Schema[Any]:
    return Schema(type_)
