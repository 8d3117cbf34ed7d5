"""The compiled form of a type. `Schema` uses it to decode and encode values at the speed of `msgspec`.

If `msgspec` refuses a value, this module finds every error of the value. It also accepts a whole number such as `3.0`
for an integer.

>>> from fxai.schema.parsing import LIMITS
>>> pair = Compiled(dict[str, int])
>>> pair.decode_text('{"a": 1}', LIMITS), pair.encode_text({"a": 1})
({'a': 1}, b'{"a":1}')
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Never, NoReturn, TypeAlias, cast, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, Work, with_stack
from fxai.schema.conversion import Conversion, UnfitError, codec_faults
from fxai.schema.data import JSON_ERRORS, every_object, hold_hashes_apart
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, SchemaError, found_in, in_order, with_integers
from fxai.schema.parsing import (
    REFUSALS,
    Limits,
    is_plain,
    parse_whole,
    plain_faults,
    read_text,
    too_deep,
    written,
)
from fxai.schema.pattern import shared_matcher
from fxai.schema.plan import Plan, derive, plan_of

if TYPE_CHECKING:
    from fxai.schema.explain import Explainer
    from fxai.schema.json_schema import JsonSchema

Refuse: TypeAlias = Callable[[tuple[Fault, ...]], Any]
"""A function that receives the errors of invalid data. It returns a replacement for the value, or raises."""

ROOTS: Final = frozenset((dict, list, str, int, float, bool, type(None)))
"""The types of plain JSON data."""

_DECODE: Final = msgspec.json.Decoder().decode
_TAGS: Final = 'Tag each class to distinguish their values: `class A(msgspec.Struct, tag=True)` writes "type": "A".'
_CODEC: Final = "Change the type, or declare a codec: Annotated[..., Schema.codec(wire=…, decode=…, encode=…)]."
_NOT_FINITE: Final = re.compile(r"[+-]?(nan|inf(inity)?)", re.IGNORECASE)
_TOO_DEEP: Final = too_deep(MAX_LEVELS)


def raise_faults(faults: tuple[Fault, ...]) -> NoReturn:
    """Raise the errors as a `DecodeError`."""
    raise DecodeError(DecodeFailure(faults)) from None


@final
class Compiled:
    """The decoders, conversions, and checks of a type.

    `read` reads a value of the wire type from JSON text, and `take` converts plain JSON data to this value. If the type
    is `direct`, this value is the Python value itself.

    Raises:
        SchemaError: If the type has no JSON form. The message names the type, the location, and the remedy.
    """

    def __init__(self, tp: Any) -> None:
        self.plan: Plan = plan_of(tp)
        self.wire: Any = Never if self.plan.wire is NoReturn else self.plan.wire
        survey = self.plan.survey
        self._explainer: Explainer | None = None  # a `cached_property` would make each access to an attribute slower
        self._document: JsonSchema | None = None
        self.direct: bool = self.plan.step is None
        self.atom: type[Any] | None = self.wire if self.direct and self.wire in (int, bool, type(None)) else None
        """The type if each of its values is its own JSON data, or None."""
        self.own_form: Callable[[object], bool] | None = (
            _OWN_FORMS.get(self.wire) if self.direct and isinstance(self.wire, type) else None
        )
        self.checked: bool = survey.open_ended or survey.floats
        """True if the type accepts values that JSON cannot represent."""
        self._sound = self.plan.step is not None and self.plan.step.sound
        self.read: Callable[[bytes | str], Any] = self._decoder()
        self.take: Callable[[object], Any] = partial(msgspec.convert, type=self.wire, str_keys=True)
        if self.wire is Never or self.wire is Any:
            self.take = _refuse_any if self.wire is Never else lambda data: data
        if survey.float_keys:
            self.take = partial(self._take_finite, self.take)
        if survey.hashed:
            self.take = partial(_take_apart, self.take)
        if survey.indirect or survey.float_keys or survey.hashed:
            self.read = partial(_read_data, self.read, self.take)

    def _decoder(self) -> Callable[[bytes | str], Any]:
        if self.wire is Never:
            return _refuse_any
        try:
            return msgspec.json.Decoder(self.wire).decode
        except (TypeError, ValueError, RecursionError, NameError) as error:
            message, remedy = str(error).replace("\n", " "), _CODEC
            if "must be tagged" in message or "more than one dict-like type" in message:
                remedy = _TAGS
            raise SchemaError(f"cannot create a schema of {self.plan.type!r}: {message}. {remedy}") from None

    def _take_finite(self, take: Callable[[object], Any], data: object) -> object:
        """Convert data of a type with numbers as keys. `msgspec` accepts the keys `"NaN"` and `"Infinity"`."""
        value = take(data)
        odd = any(map(_NOT_FINITE.fullmatch, (name for one in every_object(data) for name in one)))
        if odd and not self._explain().engine.root.takes(data, Work(sys.maxsize)):
            raise msgspec.ValidationError("Expected finite numbers as keys")
        return value

    def _explain(self) -> Explainer:
        if self._explainer is None:
            from fxai.schema.explain import Explainer

            self._explainer = Explainer(self.wire)
        return self._explainer

    # ---- decoding: `refuse` receives the errors

    def decode_text(self, text: bytes | str, limits: Limits, refuse: Refuse = raise_faults) -> Any:
        """Return the value of JSON text."""
        try:
            wire = read_text(text, limits, self.read, bounded=not self.plan.survey.open_ended)
        except msgspec.ValidationError as error:
            return self.mend_text(text, limits, refuse, error)
        except DecodeError as error:
            return refuse(error.failure.faults)
        return wire if self.direct else self.inward(wire, refuse)

    def mend_text(self, text: bytes | str, limits: Limits, refuse: Refuse, why: Exception) -> Any:
        """Return the value of text that the decoder refused. The text is blank, or contains `3.0` for an integer.

        Otherwise, pass the errors of the text to `refuse`.
        """
        try:
            data = _DECODE(text)
        except JSON_ERRORS:
            try:
                data = parse_whole(text, limits)
            except DecodeError as error:
                return refuse(error.failure.faults)
            try:  # the text is blank
                wire = self.take(data)
            except msgspec.ValidationError as error:
                why = error
            else:
                return wire if self.direct else self.inward(wire, refuse)
        return self._mend(data, refuse, why)

    def unsound(self, data: object) -> tuple[Fault, ...]:
        """Return the errors of data that the type accepts and JSON cannot represent, such as NaN among numbers."""
        sound = type(data) in ROOTS
        if sound and not self.plan.survey.open_ended:
            with suppress(TypeError, ValueError, RecursionError):
                if b"null" not in written(data):  # msgspec writes NaN as null
                    return ()
        return () if sound and is_plain(data) else plain_faults(data)

    def mend_data(self, data: object, refuse: Refuse, why: Exception, *, plain: bool) -> Any:
        """Return the value of data that `msgspec` refused, with `3.0` as an integer.

        Otherwise, pass the errors of the data to `refuse`.
        """
        if isinstance(why, RecursionError):
            return refuse(_TOO_DEEP.faults)
        faults = () if plain or is_plain(data) else plain_faults(data)
        return refuse(faults) if faults else self._mend(data, refuse, why)

    def _mend(self, data: object, refuse: Refuse, why: Exception) -> Any:
        if self.wire is Never:
            return refuse((_no_value_fault(data),))
        try:
            take = self.take if self.direct else None
            faults, integers = self._explain().faults_of_data(data, str(why), take)
            if integers and not faults:
                with suppress(msgspec.ValidationError):
                    wire = self.take(with_integers(data, integers))
                    return wire if self.direct else self.inward(wire, refuse)
            return refuse((faults if self.direct else self._with_codecs(faults, data)) or (_retell(why, data),))
        except RecursionError:
            return refuse(_TOO_DEEP.faults)

    def _with_codecs(self, faults: tuple[Fault, ...], data: object) -> tuple[Fault, ...]:
        """Return the errors of wire data with the errors of the codecs. An error of a codec replaces other errors."""
        if self.plan.step is None:
            return faults
        with shared_matcher():
            of_codecs = (*islice(codec_faults(self.plan.step, data), MAX_FAULTS),)
        reported = {fault.pointer for fault in of_codecs}
        stated = (fault for fault in faults if fault.pointer not in reported)
        return in_order((*stated, *of_codecs), data)[:MAX_FAULTS] if of_codecs else faults

    @property
    def document(self) -> JsonSchema:
        """The JSON Schema of the type, derived once.

        Raises:
            SchemaError: If the document exceeds the budget.
        """
        if self._document is None:
            from fxai.schema.json_schema import JsonSchema

            self._document = with_stack(lambda: JsonSchema.derive(derive(self.plan)))
        return self._document

    def inward(self, wire: object, refuse: Refuse) -> Any:
        """Return the Python value of a wire value, by the conversions of the plan."""
        return _convert(cast(Conversion, self.plan.step).inward, wire, refuse)

    # ---- encoding: a `DecodeError` if the value is not of the type

    def encode_data(self, value: object) -> Any:
        """Return the plain JSON data of a value as a new copy."""
        encoded = self.encode_raw(value)
        return _DECODE(encoded) if encoded.__class__ is msgspec.Raw else encoded

    def encode_raw(self, value: object) -> Any:
        """Return the plain JSON data of a value as a new copy, or its JSON text as `msgspec.Raw`."""
        if self.direct:
            return msgspec.Raw(self.write(value))
        wire = self._outward(value)
        return wire if self._sound else msgspec.Raw(self.write(wire))

    def encode_text(self, value: object) -> bytes:
        """Return the JSON text of a value."""
        wire = value if self.direct else self._outward(value)
        return written(wire) if self._sound else self.write(wire)

    def _outward(self, value: object) -> Any:
        return _convert(cast(Conversion, self.plan.step).outward, value, raise_faults)

    def write(self, wire: object) -> bytes:
        """Return the text of a wire value. If the text decodes to an equal value, the value is of the type."""
        text: bytes | None = None
        why: Exception | None = None
        try:
            try:
                text = written(wire)
                if self.read(text) == wire and not self.plan.survey.blurred:
                    return text
            except RecursionError:
                raise
            except REFUSALS as error:
                why = error
            if self.wire is Never:
                raise DecodeError(DecodeFailure((_no_value_fault(wire),)))
            faults = self._explain().faults_of_value(wire)
            if not faults and text is not None and why is not None:
                data = _DECODE(text)
                faults = self._with_codecs(self._explain().faults_of_data(data)[0], data) or (_retell(why, data),)
            if not faults and text is None:
                faults = plain_faults(wire) or (Fault("", "a JSON value", f"{found_in(wire)} ({why})"),)
            if faults or text is None:
                raise DecodeError(DecodeFailure(faults))
        except RecursionError:
            raise DecodeError(_TOO_DEEP) from None
        return text


def _convert(convert: Callable[[object], object], value: object, refuse: Refuse) -> Any:
    with shared_matcher():
        try:
            return convert(value)
        except UnfitError as error:
            if refuse is raise_faults:
                raise DecodeError(DecodeFailure(error.args)) from error
            return refuse(error.args)
        except RecursionError:
            return refuse(_TOO_DEEP.faults)


def _retell(error: Exception, data: object) -> Fault:
    from fxai.schema.explain import fault_of_message

    return fault_of_message(str(error), data)


def _read_data(read: Callable[[bytes | str], Any], take: Callable[[object], Any], text: bytes | str) -> object:
    try:
        data = _DECODE(text)
    except JSON_ERRORS:
        return read(text)  # raises the error
    return take(data)


def _take_apart(take: Callable[[object], Any], data: object) -> object:
    hold_hashes_apart(data)
    return take(data)


def _refuse_any(data: object) -> NoReturn:
    raise msgspec.ValidationError(f"no value is of this type, {found_in(data)} neither")


def _no_value_fault(value: object) -> Fault:
    return Fault("", "nothing: no value is of this type", found_in(value))


_OWN_FORMS: Final[dict[type, Callable[[Any], bool]]] = {
    str: lambda value: type(value) is str and value.isascii(),
    float: lambda value: type(value) is float and math.isfinite(value),
}
"""Functions by type. A function returns True if a value is certainly its own plain JSON data."""
