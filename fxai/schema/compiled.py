"""A type made ready: decoding and encoding at msgspec's speed, and every fault where that fails.

>>> from fxai.schema.parsing import LIMITS
>>> pair = Compiled(dict[str, int])
>>> pair.decode_text('{"a": 1}', LIMITS), pair.encode_text({"a": 1})
({'a': 1}, b'{"a":1}')
>>> pair.decode_data({"a": "x", "b": []})
Traceback (most recent call last):
fxai.schema.fault.DecodeError: /a: expected integer, found string 'x'; /b: expected integer, found array of 0 items
"""

from __future__ import annotations

import math
from typing import Any, Final, Never, NoReturn, final

import msgspec

from fxai.schema.carrier import Unfit
from fxai.schema.conformity import misfits
from fxai.schema.diagnosis import faults_in, retold, whole_integers
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, SchemaError, found_in, in_order
from fxai.schema.parsing import Limits, parse_whole, read_text, too_deep
from fxai.schema.plain import MAX_LEVELS, is_plain, plain_faults
from fxai.schema.plan import plan_of

__all__ = ["Compiled"]

_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder().decode
_ROOTS: Final = frozenset((dict, list, str, int, float, bool, type(None)))
_REFUSED = (msgspec.ValidationError, TypeError, ValueError, OverflowError)


@final
class Compiled:
    """Decoders, steps and checks of one type.

    Raises:
        SchemaError: the type has no JSON form; the message names the type, the place and the remedy.
    """

    __slots__ = ("_node", "atom", "direct", "loose", "plan", "read", "wire")

    def __init__(self, tp: Any) -> None:
        self.plan = plan_of(tp)
        self.wire = Never if self.plan.wire is NoReturn else self.plan.wire
        found = self.plan.survey
        self.atom = self.wire if self.wire in (int, str, bool, type(None)) and self.plan.step is None else None
        self.direct = not (found.floats or found.listed or found.blurred)
        self.loose = found.floats or found.open_ended
        self.read = self._decoder()
        self._node: msgspec.inspect.Type | None = None

    def _decoder(self) -> Any:
        if self.wire is Never:
            return _nothing
        try:
            return msgspec.json.Decoder(self.wire).decode
        except (TypeError, ValueError, RecursionError, NameError) as error:
            said = str(error).replace("\n", " ")
            raise SchemaError(
                f"no schema of {self.plan.type!r}: {said}; change the type there, or carry it by a codec"
                " (Annotated[..., Schema.codec(wire=…, decode=…, encode=…)])"
            ) from None

    @property
    def node(self) -> msgspec.inspect.Type:
        """Msgspec's description of the wire type."""
        if self._node is None:
            self._node = msgspec.inspect.type_info(self.wire)
        return self._node

    # ---- decoding

    def decode_text(self, text: bytes | str, limits: Limits) -> Any:
        """The value that JSON text says. Raises `DecodeError`."""
        try:
            wire = read_text(self.read, text, limits, bounded=not self.plan.survey.open_ended)
        except msgspec.ValidationError as error:
            wire = self._mended(parse_whole(text, limits), error)
        return wire if self.plan.step is None else self._inward(wire)

    def decode_data(self, data: object) -> Any:
        """The value that plain JSON data says. Raises `DecodeError`."""
        if type(data) not in _ROOTS:
            self._hold_plain(data)
        if self.loose and not is_plain(data):
            self._hold_plain(data)
        try:
            wire = self._converted(data)
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None
        return wire if self.plan.step is None else self._inward(wire)

    def _converted(self, data: object) -> Any:
        try:
            return self._convert(data)
        except msgspec.ValidationError as error:
            self._hold_plain(data)
            return self._mended(data, error)

    def _convert(self, data: object) -> Any:
        if self.wire is Never:
            return _nothing(data)
        return msgspec.convert(data, self.wire, str_keys=True)

    def _hold_plain(self, data: object) -> None:
        if faults := plain_faults(data):
            raise DecodeError(DecodeFailure(faults))

    def _mended(self, data: object, error: msgspec.ValidationError) -> Any:
        """The value of data with `3.0` read as the integer it is, where that was all; else every fault is raised."""
        if self.wire is Never:
            raise DecodeError(DecodeFailure((Fault("", "nothing: no value is of this type", found_in(data)),)))
        try:
            whole = whole_integers(self.node, data)
            if whole is not data:
                try:
                    return self._convert(whole)
                except msgspec.ValidationError as again:
                    error, data = again, whole
            faults = self._faults(data) or (retold(str(error), data),)
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None
        raise DecodeError(DecodeFailure(faults))

    def _faults(self, data: object) -> tuple[Fault, ...]:
        faults = list(faults_in(self.node, data))
        if self.plan.step is not None:
            faults += self.plan.step.data_faults(data, "")
        return in_order(faults, data)

    def _inward(self, wire: Any) -> Any:
        step = self.plan.step
        assert step is not None
        try:
            try:
                return step.inward(wire)
            except Unfit as error:
                faults = tuple(step.inward_faults(wire, ""))
                raise DecodeError(DecodeFailure(faults or (_unplaced(error, wire),))) from error
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None

    # ---- encoding

    def encode_data(self, value: Any) -> Any:
        """The plain JSON data of a value, a fresh copy. Raises `DecodeError`."""
        if self.atom is not None and type(value) is self.atom and (self.atom is not str or value.isascii()):
            return value
        if self.wire is float and type(value) is float and math.isfinite(value):
            return value
        wire = value if self.plan.step is None else self._outward(value)
        if self.direct:
            try:
                data = msgspec.to_builtins(wire, str_keys=True)
                if msgspec.convert(data, self.wire, str_keys=True) == wire:
                    return data
            except (*_REFUSED, RecursionError):
                pass
        return _DECODE(self._written(wire))

    def encode_text(self, value: Any) -> bytes:
        """The JSON text of a value. Raises `DecodeError`."""
        return self._written(value if self.plan.step is None else self._outward(value))

    def _outward(self, value: Any) -> Any:
        step = self.plan.step
        assert step is not None
        try:
            try:
                return step.outward(value)
            except Unfit as error:
                faults = tuple(step.outward_faults(value, ""))
                raise DecodeError(DecodeFailure(faults or (_unplaced(error, value),))) from error
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None

    def _written(self, wire: Any) -> bytes:
        text: bytes | None = None
        refused: Exception | None = None
        try:
            text = _ENCODE(wire)
            if bool(self.read(text) == wire) and not self.plan.survey.blurred:
                return text
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None
        except _REFUSED as error:
            refused = error
        try:
            return self._judged(wire, text, refused)
        except RecursionError:
            raise DecodeError(too_deep(MAX_LEVELS)) from None

    def _judged(self, wire: Any, text: bytes | None, refused: Exception | None) -> bytes:
        """The text of a value that the quick check could not pass, or every fault of the value."""
        if self.wire is Never:
            raise DecodeError(DecodeFailure((Fault("", "nothing: no value is of this type", found_in(wire)),)))
        faults = tuple(misfits(self.node, wire))
        if not faults and text is not None and refused is not None:
            data = _DECODE(text)
            faults = tuple(faults_in(self.node, data)) or (retold(str(refused), data),)
        if not faults and text is None:
            faults = plain_faults(wire) or (Fault("", "what JSON can carry", f"{found_in(wire)} ({refused})"),)
        if faults or text is None:
            raise DecodeError(DecodeFailure(faults))
        return text


def _nothing(data: object) -> NoReturn:
    raise msgspec.ValidationError(f"no value is of this type, {found_in(data)} neither")


def _unplaced(error: Unfit, value: object) -> Fault:
    return Fault("", str(error.__cause__ or "another value"), found_in(value))
