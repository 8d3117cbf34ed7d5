"""JSON Schema documents as immutable values, and validation by them.

A document is checked when it is made: it is JSON, its dialect is known, its keywords are what they must be, its
references stay inside it, its patterns compile. It is immutable, and never causes network or file access.

>>> limits = JsonSchema.of({"type": "object", "properties": {"limit": {"type": "number", "maximum": 100}}})
>>> [str(fault) for fault in limits.validate({"limit": 1000})]
['/limit: expected number at most 100, found integer 1000']
>>> limits.to_dict()["properties"]["limit"]
{'type': 'number', 'maximum': 100}
>>> limits == JsonSchema.of(limits.to_dict())
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec

from fxai.schema.budget import MAX_BYTES, MAX_CONTAINERS, MAX_FAULTS, MAX_LEVELS, with_stack
from fxai.schema.data import containers_in, is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, SchemaError
from fxai.schema.parsing import is_plain, plain_faults

if TYPE_CHECKING:
    from fxai.schema.engine import Engine

_SMALL: Final = 16 * 1024  # what holds more work than the budget, and no pattern, is larger
_ENCODE: Final = msgspec.json.Encoder().encode
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_DECODE: Final = msgspec.json.Decoder().decode


@final
class JsonSchema:
    """An immutable JSON Schema document: hashable and comparable by content, picklable.

    Two documents are equal when they are equal as JSON: the order of members does not count, nor `1` against `1.0`.
    """

    __slots__ = ("__canonical__", "__engine__", "__text__")

    __text__: bytes
    __canonical__: bytes | None
    __engine__: Engine | None

    def __init__(self, text: bytes) -> None:
        """Keep JSON text that is known to be a usable document; use `JsonSchema.of`."""
        object.__setattr__(self, "__text__", text)
        object.__setattr__(self, "__canonical__", None)
        object.__setattr__(self, "__engine__", None)

    @staticmethod
    def of(document: Mapping[str, Any] | bool | JsonSchema) -> JsonSchema:
        """The document of plain JSON data, checked; it keeps a copy, so later changes to the data do not show.

        The dialect is the one that `$schema` names (draft 4 to 2020-12); 2020-12 by default.

        Raises:
            SchemaError: it is not JSON, of an unknown dialect, against its metaschema, refers outside of itself (to
                the network, a file, or nowhere) or in a circle, holds a pattern that does not compile, or asks for
                more work than a document may (`fxai.schema.budget`). The message names each place, and the limit.

        >>> JsonSchema.of({"properties": {"a": {"$ref": "file:///etc/passwd"}}})
        Traceback (most recent call last):
        fxai.schema.fault.SchemaError: no usable JSON Schema: /properties/a/$ref: expected a reference into this ...
        """
        if isinstance(document, JsonSchema):
            return document
        plain: object = dict(document) if isinstance(document, Mapping) else document
        return with_stack(lambda: JsonSchema(_check(plain)))

    @staticmethod
    def trust(document: Mapping[str, Any] | bool) -> JsonSchema:
        """The document of plain JSON data that is known to be a JSON Schema, such as a derived one; not checked."""
        return JsonSchema(_ENCODE(document))

    @staticmethod
    def derive(document: dict[str, Any]) -> JsonSchema:
        """The document derived from a type, known to be a JSON Schema; only the budget is checked.

        Raises:
            SchemaError: it is beyond the budget of a document.
        """
        text = _ENCODE(document)
        if b'"pattern":' in text or len(text) > _SMALL or text.count(b"{") + text.count(b"[") > MAX_LEVELS:
            from fxai.schema.document import excess_of

            _hold_sound(excess_of(document))
        return JsonSchema(text)

    def to_dict(self) -> Any:
        """The document as a fresh plain copy: a `dict` (or a `bool`), equal to what it was made of."""
        return with_stack(lambda: _DECODE(self.__text__))

    def to_json(self) -> bytes:
        """The document as JSON text in UTF-8, members in the order they were given."""
        return self.__text__

    def get(self, keyword: str, default: Any = None) -> Any:
        """A fresh plain copy of the value of a keyword of the root; `default` without one.

        >>> JsonSchema.of({"type": "object"}).get("type"), JsonSchema.of(True).get("type")
        ('object', None)
        """
        document = self.to_dict()
        return document.get(keyword, default) if is_object(document) else default

    def validate(self, value: object, *, plain: bool = False) -> tuple[Fault, ...]:
        """Return the validation errors of plain JSON data. `()` if the data is valid.

        fxai compiles the document once, at the first validation. `format` and `content…` are annotations. A pattern
        that takes too long is an error that says so, and so is data that the document cannot decide within its budget.
        At most 100 errors are returned.

        Args:
            value: Plain JSON data. A value that JSON cannot carry is an error.
            plain: True if the value is known to be plain JSON data, for example from `parse_json`. Default: False.
        """
        if not plain and not is_plain(value) and (faults := plain_faults(value)):
            return faults
        from fxai.schema.validation import find_faults

        return find_faults(self.__engine__ or engine_of(self), value)

    # ---- as a value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a JsonSchema is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a JsonSchema is immutable: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsonSchema):
            return NotImplemented
        return self.__text__ == other.__text__ or _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash((JsonSchema, _content(self)))

    def __repr__(self) -> str:
        return with_stack(lambda: f"JsonSchema.of({self.to_dict()!r})")

    def __reduce__(self) -> tuple[Callable[[bytes], JsonSchema], tuple[bytes]]:
        return JsonSchema, (self.__text__,)


def engine_of(document: JsonSchema) -> Engine:
    """Return the engine of a document, which is compiled once."""
    known = document.__engine__
    if known is None:
        from fxai.schema.engine import Engine

        known = with_stack(lambda: Engine(document.to_dict()))
        object.__setattr__(document, "__engine__", known)
    return known


def _content(document: JsonSchema) -> bytes:
    if document.__canonical__ is None:
        object.__setattr__(document, "__canonical__", with_stack(lambda: _SORTED(_with_integers(document.to_dict()))))
    return cast("bytes", document.__canonical__)


def _check(plain: object) -> bytes:
    """The JSON text of a document that can be used."""
    try:
        text = _ENCODE(plain)
    except (TypeError, ValueError, RecursionError):
        text = b""  # the faults are found below
    if len(text) > MAX_BYTES:
        _hold_sound((Fault("", f"at most {MAX_BYTES} bytes of JSON", f"{len(text)} bytes"),))
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS and containers_in(plain, MAX_CONTAINERS) > MAX_CONTAINERS:
        _hold_sound((Fault("", f"at most {MAX_CONTAINERS} arrays and objects in one document", "more"),))
    if not is_plain(plain):
        _hold_sound(plain_faults(plain))
        text = _ENCODE(plain)
    from fxai.schema.document import document_faults

    _hold_sound(document_faults(_DECODE(text)))
    return text


def _hold_sound(faults: tuple[Fault, ...]) -> None:
    if faults:
        more = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
        raise SchemaError(f"no usable JSON Schema: {DecodeFailure(faults[:MAX_FAULTS])}{more}")


def _with_integers(data: Any) -> Any:
    """The data with whole numbers written as integers, so that equal numbers are equal text."""
    if isinstance(data, float):
        return int(data) if data.is_integer() else data
    if is_object(data):
        return {name: _with_integers(item) for name, item in data.items()}
    return [_with_integers(item) for item in data] if is_array(data) else data
