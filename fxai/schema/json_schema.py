"""JSON Schema documents as immutable values. Use this module to create a document and to validate values with it.

fxai checks a document when you create it. The document must be JSON, its dialect must be known, and its keywords must
have valid values. Its references must stay inside the document, and its patterns must compile. A document never causes
network or file access.

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
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, SchemaError
from fxai.schema.parsing import containers_in, is_plain, plain_faults

if TYPE_CHECKING:
    from fxai.schema.engine import Engine

_SMALL: Final = 16 * 1024  # a document beyond the budget is larger or contains a pattern
_ENCODE: Final = msgspec.json.Encoder().encode
_SORTED: Final = msgspec.json.Encoder(order="sorted").encode
_DECODE: Final = msgspec.json.Decoder().decode


@final
class JsonSchema:
    """An immutable JSON Schema document. You can hash, compare, and pickle documents.

    Two documents are equal if their JSON values are equal. The order of members does not count, and `1` equals `1.0`.
    """

    __slots__ = ("__canonical__", "__engine__", "__text__")

    __text__: bytes
    __canonical__: bytes | None
    __engine__: Engine | None

    def __init__(self, text: bytes) -> None:
        """Store JSON text without a check. Use `JsonSchema.of` to create a document."""
        object.__setattr__(self, "__text__", text)
        object.__setattr__(self, "__canonical__", None)
        object.__setattr__(self, "__engine__", None)

    @staticmethod
    def of(document: Mapping[str, Any] | bool | JsonSchema) -> JsonSchema:
        """Check a JSON value and create a document from it.

        The document stores a copy, so later changes to the value do not affect the document.

        Args:
            document: A JSON Schema as a JSON value, or a document. `$schema` names the dialect, from draft 4 to
                2020-12. Default dialect: 2020-12.

        Raises:
            SchemaError: If the value is not JSON, has an unknown dialect, or has an invalid keyword or pattern. If a
                reference leads to a missing schema, to the network, to a file, or into a cycle. If the document is
                beyond its budget (see `fxai.schema.budget`). The message names each location and the expectation.

        >>> JsonSchema.of({"properties": {"a": {"$ref": "file:///etc/passwd"}}})
        Traceback (most recent call last):
        fxai.schema.fault.SchemaError: unusable JSON Schema: /properties/a/$ref: expected a reference into this ...
        """
        if isinstance(document, JsonSchema):
            return document
        plain: object = dict(document) if isinstance(document, Mapping) else document
        return with_stack(lambda: JsonSchema(_check(plain)))

    @staticmethod
    def trust(document: Mapping[str, Any] | bool) -> JsonSchema:
        """Create a document from a JSON value without a check. The value must be a usable JSON Schema."""
        return JsonSchema(_ENCODE(document))

    @staticmethod
    def derive(document: JsonObject) -> JsonSchema:
        """Create a document from the JSON Schema of a type. fxai checks only the budget.

        Raises:
            SchemaError: If the document is beyond the budget. The message names the location and the limit.
        """
        text = _ENCODE(document)
        if b'"pattern":' in text or len(text) > _SMALL or text.count(b"{") + text.count(b"[") > MAX_LEVELS:
            from fxai.schema.document import document_faults

            _hold_sound(document_faults(document, shapes=False))
        return JsonSchema(text)

    def to_dict(self) -> Any:
        """Return the document as a new `dict` or `bool`. The copy equals the original value."""
        return with_stack(lambda: _DECODE(self.__text__))

    def to_json(self) -> bytes:
        """Return the document as JSON text in UTF-8. The members have their original order."""
        return self.__text__

    def get(self, keyword: str, default: Any = None) -> Any:
        """Return a new copy of the value of a keyword of the root, or `default` if the root has no such keyword.

        >>> JsonSchema.of({"type": "object"}).get("type"), JsonSchema.of(True).get("type")
        ('object', None)
        """
        document = self.to_dict()
        return document.get(keyword, default) if is_object(document) else default

    def validate(self, value: object, *, plain: bool = False) -> tuple[Fault, ...]:
        """Return the validation errors of a JSON value. `()` if the value is valid.

        fxai compiles the document at the first validation. The keywords `format` and `content…` are annotations, so
        fxai does not enforce them. If a pattern exceeds its time limit, or if a validation exceeds its budget, the
        result contains an error about the limit. fxai returns at most 100 errors.

        Args:
            value: The JSON value. A Python value without a JSON form is a validation error.
            plain: True to skip the check for Python values without a JSON form, for example for a value from
                `parse_json`. Default: False.
        """
        if not plain and not is_plain(value) and (faults := plain_faults(value)):
            return faults
        from fxai.schema.validation import find_faults

        return find_faults((self.__engine__ or engine_of(self)).root, value)

    # ---- as a value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r} of an immutable JsonSchema. Use JsonSchema.of instead.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r} of an immutable JsonSchema. Use JsonSchema.of instead.")

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
    """Return the engine of a document. The first call compiles the document."""
    known = document.__engine__
    if known is None:
        from fxai.schema.engine import Engine

        known = with_stack(lambda: Engine(document.to_dict()))
        object.__setattr__(document, "__engine__", known)
    return known


def _content(document: JsonSchema) -> bytes:
    if document.__canonical__ is None:
        object.__setattr__(
            document, "__canonical__", with_stack(lambda: _SORTED(with_whole_numbers(document.to_dict())))
        )
    return cast("bytes", document.__canonical__)


def _check(plain: object) -> bytes:
    try:
        text = _ENCODE(plain)
    except (TypeError, ValueError, RecursionError):
        text = b""  # `plain_faults` finds the errors
    if len(text) > MAX_BYTES:
        _hold_sound((Fault("", f"at most {MAX_BYTES} bytes of JSON", f"{len(text)} bytes"),))
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS and containers_in(text) > MAX_CONTAINERS:
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
        raise SchemaError(f"unusable JSON Schema: {DecodeFailure(faults[:MAX_FAULTS])}{more}")


def with_whole_numbers(data: Any) -> Any:
    """Return a copy with whole numbers such as `3.0` as integers. Equal numbers then have the same text.

    Draft 4 does not accept `3.0` as an integer.
    """
    if isinstance(data, float):
        return int(data) if data.is_integer() else data
    if is_object(data):
        return {name: with_whole_numbers(item) for name, item in data.items()}
    return [with_whole_numbers(item) for item in data] if is_array(data) else data
