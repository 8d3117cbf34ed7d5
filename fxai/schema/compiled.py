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
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, Never, NoReturn, TypeAlias, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_STEPS, Exhausted
from fxai.schema.carrier import Unfit, Work
from fxai.schema.conformity import misfits
from fxai.schema.diagnosis import Judge, faults_of, judge_of
from fxai.schema.fault import DecodeError, DecodeFailure, Fault, SchemaError, found_in, in_order
from fxai.schema.mending import retold, whole_integers
from fxai.schema.parsing import Limits, builtin, is_plain, parse_whole, plain_faults, read_text, too_deep, written
from fxai.schema.pattern import shared_matcher
from fxai.schema.plan import plan_of

__all__ = ["Compiled", "Refused", "raised"]

Refused: TypeAlias = Callable[[tuple[Fault, ...]], Any]
"""Takes the faults of data that is no value of the type, and gives what is to be given in its place, or raises."""

_DECODE: Final = msgspec.json.Decoder().decode
_ROOTS: Final = frozenset((dict, list, str, int, float, bool, type(None)))
_REFUSED = (msgspec.ValidationError, TypeError, ValueError, OverflowError)
_LARGE: Final = 2048
_TOO_DEEP: Final = too_deep(MAX_LEVELS)


def raised(faults: tuple[Fault, ...]) -> NoReturn:
    """Raises the faults as a `DecodeError`."""
    raise DecodeError(DecodeFailure(faults)) from None


@final
class Compiled:
    """Decoders, steps and checks of one type.

    Attributes:
        plan: the wire type, and the steps from it.
        read: what reads the wire type from JSON text, at once.
        take: what makes the wire type of plain JSON data, at once.
        direct: `read` gives the Python value itself.

    Raises:
        SchemaError: the type has no JSON form; the message names the type, the place and the remedy.
    """

    __slots__ = (
        "_judge",
        "_node",
        "atom",
        "direct",
        "loose",
        "open_ended",
        "own_form",
        "plain_forms",
        "plan",
        "read",
        "take",
        "wire",
    )

    def __init__(self, tp: Any) -> None:
        self.plan = plan_of(tp)
        self.wire = Never if self.plan.wire is NoReturn else self.plan.wire
        found = self.plan.survey
        self.direct = self.plan.step is None
        self.atom = self.wire if self.direct and self.wire in (int, bool, type(None)) else None
        self.own_form = _own_form(self.wire) if self.direct else None
        self.open_ended = found.open_ended
        self.loose = found.open_ended or found.floats
        self.plain_forms = not (found.listed or found.blurred)
        self.read = self._decoder()
        self.take = self._converter()
        self._node: msgspec.inspect.Type | None = None
        self._judge: Judge | None = None

    def _decoder(self) -> Callable[[bytes | str], Any]:
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

    def _converter(self) -> Callable[[Any], Any]:
        if self.wire is Never or self.wire is Any:
            return _nothing if self.wire is Never else _itself
        return partial(msgspec.convert, type=self.wire, str_keys=True)

    @property
    def node(self) -> msgspec.inspect.Type:
        """Msgspec's description of the wire type."""
        if self._node is None:
            self._node = msgspec.inspect.type_info(self.wire)
        return self._node

    @property
    def judge(self) -> Judge:
        """What finds the faults of plain data."""
        if self._judge is None:
            self._judge = judge_of(self.node)
        return self._judge

    # ---- decoding: `refused` says what becomes of faults, which is to raise them as a `DecodeError`

    def decode_text(self, text: bytes | str, limits: Limits, refused: Refused = raised) -> Any:
        """The value that JSON text says."""
        try:
            wire = read_text(self.read, text, limits, bounded=not self.open_ended)
        except msgspec.ValidationError as error:
            return self.mend_text(text, limits, refused, error)
        except DecodeError as error:
            return refused(error.failure.faults)
        return wire if self.direct else self._inward(wire, refused)

    def mend_text(
        self, text: bytes | str, limits: Limits, refused: Refused = raised, why: Exception | None = None
    ) -> Any:
        """The value of text that the decoder refused, and why it did: blank, or with `3.0` for `3`."""
        try:
            data = parse_whole(text, limits)
        except DecodeError as error:
            return refused(error.failure.faults)
        if data or text.strip():
            return self._mended(data, refused, why)
        return self.decode_data(data, plain=True, refused=refused)

    def decode_data(self, data: object, *, plain: bool = False, refused: Refused = raised) -> Any:
        """The value that plain JSON data says; `plain` where it is known to be that."""
        if not plain and (self.loose or type(data) not in _ROOTS) and (faults := self._unsound(data)):
            return refused(faults)
        try:
            wire = self.take(data)
        except msgspec.ValidationError as error:
            faults = () if is_plain(data) else plain_faults(data)
            return refused(faults) if faults else self._mended(data, refused, error)
        except RecursionError:
            return refused(_TOO_DEEP.faults)
        return wire if self.direct else self._inward(wire, refused)

    def _unsound(self, data: object) -> tuple[Fault, ...]:
        """What JSON cannot carry, where the type would take it: NaN among numbers, anything where it is open."""
        sound = type(data) in _ROOTS and (is_plain(data) if self.open_ended else _is_written(data))
        return () if sound else plain_faults(data)

    def _mended(self, data: object, refused: Refused, why: Exception | None = None) -> Any:
        """The value of data with `3.0` read as the integer it is, where that was all that is wrong."""
        if self.wire is Never:
            return refused((_no_value(data),))
        try:
            found = faults_of(self._judge or self.judge, data)
            step = self.plan.step
            if found.whole and step is not None:
                found += _first_faults(lambda work: step.data_faults(data, "", work), MAX_FAULTS - len(found))
            if found:
                return refused(in_order(found, data) if len(found) > 1 else tuple(found))
            if not found.whole:  # msgspec names the first fault of any data
                return refused((_undecided(data) if why is None else retold(str(why), data),))
            try:
                wire = self.take(whole_integers(self.node, data))
            except msgspec.ValidationError as again:
                return refused((retold(str(again), data),))
        except RecursionError:
            return refused(_TOO_DEEP.faults)
        return wire if self.direct else self._inward(wire, refused)

    def _inward(self, wire: Any, refused: Refused) -> Any:
        step = self.plan.step
        assert step is not None
        with shared_matcher():
            try:
                try:
                    return step.inward(wire)
                except Unfit as error:
                    faults = _first_faults(lambda work: step.inward_faults(wire, "", work)) or (_unplaced(error, wire),)
                    if refused is raised:
                        raise DecodeError(DecodeFailure(faults)) from error
                    return refused(faults)
            except RecursionError:
                return refused(_TOO_DEEP.faults)

    # ---- encoding

    def encode_data(self, value: Any) -> Any:
        """The plain JSON data of a value, a fresh copy. Raises `DecodeError`."""
        if type(value) is self.atom or (self.own_form is not None and self.own_form(value)):
            return value
        wire = value if self.direct else self._outward(value)
        large = self._of_large(wire) if self.plain_forms else None
        return _DECODE(self._written(wire)) if large is None else large

    def _of_large(self, wire: Any) -> Any:
        """The plain data of a large value, for which its text is the longer way; nothing where that is no verdict."""
        try:
            text = written(wire)
            if len(text) < _LARGE or b"null" in text:  # null may have been NaN
                return None
            data = msgspec.to_builtins(wire, str_keys=True, enc_hook=builtin)
            return data if self.take(data) == wire else None
        except (*_REFUSED, RecursionError):
            return None

    def encode_text(self, value: Any) -> bytes:
        """The JSON text of a value. Raises `DecodeError`."""
        return self._written(value if self.direct else self._outward(value))

    def _outward(self, value: Any) -> Any:
        step = self.plan.step
        assert step is not None
        with shared_matcher():
            try:
                try:
                    return step.outward(value)
                except Unfit as error:
                    faults = _first_faults(lambda work: step.outward_faults(value, "", work))
                    raise DecodeError(DecodeFailure(faults or (_unplaced(error, value),))) from error
            except RecursionError:
                raise DecodeError(_TOO_DEEP) from None

    def _written(self, wire: Any) -> bytes:
        """The text of a wire value, which reads back as an equal one: so it is of the type, NaN and all looked for."""
        text: bytes | None = None
        refused: Exception | None = None
        try:
            text = written(wire)
            if self.read(text) == wire and not self.plan.survey.blurred:
                return text
        except RecursionError:
            raise DecodeError(_TOO_DEEP) from None
        except _REFUSED as error:
            refused = error
        try:
            return self._judged(wire, text, refused)
        except RecursionError:
            raise DecodeError(_TOO_DEEP) from None

    def _judged(self, wire: Any, text: bytes | None, refused: Exception | None) -> bytes:
        """The text of a value that the quick check could not pass, or every fault of the value."""
        if self.wire is Never:
            raise DecodeError(DecodeFailure((_no_value(wire),)))
        faults = tuple(misfits(self.node, wire))
        if not faults and text is not None and refused is not None:
            data = _DECODE(text)
            faults = tuple(faults_of(self.judge, data)) or (retold(str(refused), data),)
        if not faults and text is None:
            faults = plain_faults(wire) or (Fault("", "what JSON can carry", f"{found_in(wire)} ({refused})"),)
        if faults or text is None:
            raise DecodeError(DecodeFailure(faults))
        return text


def _first_faults(walk: Callable[[Work], Iterator[Fault]], most: int = MAX_FAULTS) -> tuple[Fault, ...]:
    """The faults that a walk finds: as many as are told, as far as the budget goes."""
    found: list[Fault] = []
    with suppress(Exhausted), shared_matcher():
        found.extend(islice(walk(Work()), most))
    return tuple(found)


def _undecided(data: object) -> Fault:
    return Fault("", f"data that is decided within {MAX_STEPS} steps", found_in(data))


def _itself(data: Any) -> Any:
    return data


def _nothing(data: object) -> NoReturn:
    raise msgspec.ValidationError(f"no value is of this type, {found_in(data)} neither")


def _no_value(value: object) -> Fault:
    return Fault("", "nothing: no value is of this type", found_in(value))


def _is_own_text(value: Any) -> bool:
    """Whether a value of the type `str` is its own plain JSON data for certain."""
    return type(value) is str and value.isascii()


def _is_own_number(value: Any) -> bool:
    """Whether a value of the type `float` is its own plain JSON data for certain."""
    return type(value) is float and math.isfinite(value)


def _own_form(wire: Any) -> Callable[[Any], bool] | None:
    return _is_own_text if wire is str else _is_own_number if wire is float else None


def _is_written(data: object) -> bool:
    """Whether data of known types holds no NaN, which msgspec writes as null, and no half of a surrogate pair."""
    try:
        return b"null" not in written(data) or is_plain(data)
    except (TypeError, ValueError, RecursionError):
        return False


def _unplaced(error: Unfit, value: object) -> Fault:
    return Fault("", str(error.__cause__ or "another value"), found_in(value))
