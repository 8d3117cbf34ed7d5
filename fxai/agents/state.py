"""State: what a stateful prompt keeps from step to step, by key, and from run to run.

A render reads a key by `at.state(key, initial)` and sees the value that it had when the render began. Handlers and
effects change it by `set`, `update` and `modify`, which are effects and atomic: parallel calls lose no update. A
change shows in the next render. What all keys hold after a run is a `PromptState`, which another run can go on from.

Arrays and objects are frozen, all the way down: a value changes only by these effects.

>>> from fxai.effects import fx
>>> store = StateStore()
>>> store.declare("n", 1, None, dict(store.cells))
1
>>> fx.run_sync(State("n", 1, store).update(lambda n: n + 1))
>>> store.snapshot().values["n"], PromptState.from_json(store.snapshot().to_json()).unwrap().values["n"]
(2, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, is_dataclass
from hashlib import sha256
from inspect import iscoroutine
from threading import RLock, get_ident
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, cast, final

import msgspec
from msgspec.structs import force_setattr
from returns.result import Result
from typing_extensions import TypeVar, override

from fxai.effects.effect import EffectOf, Sync
from fxai.messages.calls import Pending
from fxai.messages.wire import HISTORY_LIMITS
from fxai.schema.codec import Schema
from fxai.schema.data import FrozenArray, FrozenObject, frozen, is_array, is_listed, is_object
from fxai.schema.fault import DecodeError, DecodeFailure, SchemaError
from fxai.schema.parsing import Limits, parse_json_unsafe

_A = TypeVar("_A")
_T = TypeVar("_T")

RenderReason: TypeAlias = Literal["conflict", "state", "late", "unsettled", "name", "value"]
"""Why a render is wrong.

`conflict`: two different things are defined under one key. `state`: a key of the state has another type than before, or
what was read from JSON does not fit it. `late`: something is defined when the render is over. `unsettled`: the render
changes the state, gives something else than None, or defines things without end. `name`: a section cannot be called so.
`value`: what is defined is nothing that a prompt can hold.
"""


class RenderError(Exception):
    """A render is wrong: why, and what to do. It ends the run with `RenderFailed`."""

    def __init__(self, reason: RenderReason, message: str) -> None:
        super().__init__(message)
        self.reason: RenderReason = reason


class StateError(ValueError):
    """A state cannot be written as JSON so that it is read back the same; the message names the key."""


# -- one value

Form: TypeAlias = "type[Any] | Schema[Any]"
"""The type of a key: the schema that it was declared with, else the type of its initial value."""


_LIMITS: Final = Limits(HISTORY_LIMITS.max_bytes, max_values=HISTORY_LIMITS.max_values)
"""Of the text of one value: it is less deep than that of a whole state may be."""


@final
class Cell(msgspec.Struct, frozen=True):
    """The value of one key."""

    value: Any
    form: Any = None
    """Its `Form`; None of a value that was read from JSON, and that no render has declared yet."""

    def check(self, key: str) -> Cell:
        """Itself, as the cell that a key begins with.

        Raises:
            RenderError: the value is none of the schema that was declared for it.
        """
        if self.form is not None and not isinstance(self.form, type):  # nothing to check of `type(initial)`
            schema = _schema(self.form)
            try:
                _ = schema.decode_unsafe(schema.encode_unsafe(self.value))
            except (DecodeError, SchemaError) as error:
                why = f"the state {key!r} begins with {self.value!r}, which is none of its schema"
                raise RenderError("state", f"{why}: {error}; give an initial value that is") from None
        return self

    def read_as(self, key: str, form: Form) -> Cell:
        """The value that was read from JSON, as one of a type.

        Raises:
            RenderError: it does not fit.
        """
        if form is type(None):  # of `None` at first nothing is known but that it may be anything
            return Cell(_freeze(self.value), form)
        try:
            return Cell(_freeze(_schema(form).decode_unsafe(self.value)), form)
        except DecodeError as error:
            why = f"the state {key!r} does not fit what the render declares, {_name(form)}: {error.failure}"
            raise RenderError("state", f"{why}; give the state of a run of this prompt, or migrate it") from None

    def to_data(self, key: str) -> Any:
        """The value as plain JSON data.

        Raises:
            StateError: it would not be read back the same.
        """
        if self.form is None:
            return self.value
        schema = Schema[Any].of(Any) if self.form is type(None) else _schema(self.form)
        try:
            data = schema.encode_unsafe(self.value)
            if schema.decode_unsafe(parse_json_unsafe(msgspec.json.encode(data), _LIMITS)) == self.value:
                return data
            why = "it would be read back as another value"
        except (DecodeError, SchemaError) as error:
            why = str(error)
        except RecursionError:
            why = "it is too deep"
        raise StateError(
            f"the state {key!r} cannot be written as JSON, {why}: say its type as at.state({key!r}, …, schema=…)"
        )


def _cell(key: str, value: Any, form: Form | None) -> Cell:
    """A value that a program gave, frozen.

    Raises:
        RenderError: it is too deep, or holds itself, or it is what an `async` function gave that nobody waits for.
    """
    if iscoroutine(value):
        value.close()
        raise RenderError(
            "value", f"the state {key!r} is given a coroutine: `update` and `modify` take plain functions"
        )
    try:
        return Cell(_freeze(value), form)
    except RecursionError:
        raise RenderError("value", f"the state {key!r} is given a value that is too deep, or holds itself") from None


_FROZEN: Final = frozenset({FrozenObject, FrozenArray, str, int, float, bool, type(None)})


def _freeze(value: Any) -> Any:
    """A value whose arrays and objects cannot be changed, within tuples, structs and dataclasses too."""
    if type(value) in _FROZEN:
        return value
    if is_object(value):
        return FrozenObject({key: _freeze(one) for key, one in value.items()})
    if is_array(value):
        return FrozenArray([_freeze(one) for one in value])
    if is_listed(value):  # a tuple, which holds what may change
        kind: type[Any] = type(value)
        make: Any = tuple if kind is tuple else getattr(kind, "_make", None)
        return value if make is None else make(map(_freeze, value))
    if isinstance(value, msgspec.Struct):
        return _freeze_fields(value, value.__struct_fields__)
    if is_dataclass(value) and not isinstance(value, type):
        return _freeze_fields(value, [field.name for field in fields(value)])
    return frozen(value)


def _freeze_fields(value: Any, names: Iterable[str]) -> Any:
    """A copy whose fields are frozen; the value itself where nothing in them is to be."""
    given = {name: getattr(value, name) for name in names if hasattr(value, name)}
    kept = {name: _freeze(one) for name, one in given.items()}
    if all(kept[name] is one for name, one in given.items()):
        return value
    made = copy(value)
    put = force_setattr if isinstance(made, msgspec.Struct) else object.__setattr__
    for name, one in kept.items():
        put(made, name, one)
    return made


def _schema(form: Form) -> Schema[Any]:
    return form if isinstance(form, Schema) else Schema[Any].of(form)


def _name(form: Form) -> str:
    return form.__name__ if isinstance(form, type) else repr(form)


def form_of(initial: object, schema: object) -> Form:
    """The type of a key, of its initial value and the schema that it was declared with, if there is one."""
    if schema is not None:
        return Schema[Any].of(cast(Any, schema))
    if isinstance(initial, FrozenArray | FrozenObject):  # the value of a state
        return list if isinstance(initial, FrozenArray) else dict
    return type(initial)


# -- the dependencies of effects


def _digest(deps: tuple[Hashable, ...]) -> str | None:
    """A digest of dependencies; None where they are no JSON data, so that their effect runs again."""
    try:
        image = msgspec.json.encode(deps, order="deterministic")
        if b"null" in image:  # NaN is null in JSON, and no None
            image += msgspec.msgpack.encode(deps, order="deterministic")
        return sha256(image).hexdigest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def same_deps(before: tuple[Hashable, ...] | str, now: tuple[Hashable, ...]) -> bool:
    """Whether an effect that ran with dependencies, or their digest, need not run with these."""
    return before == _digest(now) if isinstance(before, str) else before == now


# -- all values


@final
class Asked(msgspec.Struct, frozen=True):
    """What a step was rendered from whose calls wait: they are run by the handlers of that render."""

    number: int
    """The number of the step, from 1."""
    cells: Mapping[str, Cell]
    calls: tuple[str, ...] = ()
    """The calls that wait, by `call_key`."""


def call_key(call: Pending) -> str:
    """What a call that waits is known by: its approval, which is its own even where ids of calls come again."""
    return call.id if call.approval_id is None else call.approval_id


class _AskedForm(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1)]
    values: dict[str, Any]
    calls: list[str]


class _StateForm(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A state as JSON."""

    values: dict[str, Any]
    effects: dict[str, str] = {}
    pending: list[_AskedForm] = []


_FORM: Schema[_StateForm] = Schema.of(_StateForm)


@final
class PromptState(msgspec.Struct, frozen=True):
    """The state of a stateful prompt after a run, which another run can go on from: an immutable value.

    It holds the values of all keys; which effects ran with which dependencies, so that what ran once does not run again
    when the run goes on; and of calls that wait, the values that the step which made them was rendered from.
    """

    cells: Mapping[str, Cell] = {}
    effects: Mapping[str, tuple[Hashable, ...] | str] = {}
    """The dependencies that each effect last ran with, by its key; read from JSON, their digest."""
    pending: tuple[Asked, ...] = ()
    """The steps whose calls wait; with a memory, those of other turns as well."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The values by key; of a state that was read from JSON, and not used yet, they are plain data."""
        return {key: cell.value for key, cell in self.cells.items()}

    def to_data(self) -> dict[str, Any]:
        """The state as plain JSON data: `{"values": {…}, "effects": {…}, "pending": […]}`.

        Dependencies are written as digests; effects whose dependencies are no JSON data run again.

        Raises:
            StateError: a value would not be read back the same.
        """
        digests = {key: deps if isinstance(deps, str) else _digest(deps) for key, deps in self.effects.items()}
        data: dict[str, Any] = {"values": _to_data(self.cells)}
        effects = {key: digest for key, digest in digests.items() if digest is not None}
        if effects:
            data["effects"] = effects
        pending = [{"number": one.number, "values": _to_data(one.cells), "calls": [*one.calls]} for one in self.pending]
        if pending:
            data["pending"] = pending
        return data

    def to_json(self) -> str:
        """The state as JSON text, in the form of `to_data`.

        Raises:
            StateError: a value would not be read back the same.
        """
        return msgspec.json.encode(self.to_data()).decode()

    @staticmethod
    def from_data(data: object) -> Result[PromptState, DecodeFailure]:
        """The state that plain JSON data holds; its values are read when a render declares their types.

        Fails with:
            DecodeFailure: it is no state; every fault with its place.
        """
        return _FORM.decode(data).map(_of_form)

    @staticmethod
    def from_json(text: str | bytes) -> Result[PromptState, DecodeFailure]:
        """The state that JSON text holds; as `from_data`.

        Fails with:
            DecodeFailure: it is no JSON text, or no state, or beyond the limits of histories (`HISTORY_LIMITS`).

        >>> PromptState.from_json('{"values": {"mode": "basic"}}').unwrap().values["mode"]
        'basic'
        """
        return _FORM.decode_json(text, HISTORY_LIMITS).map(_of_form)

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self.cells))  # the values may be plain data


def _to_data(cells: Mapping[str, Cell]) -> dict[str, Any]:
    return {key: cell.to_data(key) for key, cell in cells.items()}


def _of_form(form: _StateForm) -> PromptState:
    pending = [Asked(one.number, _raw(one.values), tuple(one.calls)) for one in form.pending]
    return PromptState(_raw(form.values), form.effects, tuple(pending))


def _raw(values: Mapping[str, Any]) -> dict[str, Cell]:
    return {key: Cell(frozen(value)) for key, value in values.items()}


# -- the values of a run


@final
class StateStore:
    """The values of one run, as they are now. Its own lock makes each change atomic, across threads too."""

    __slots__ = ("_lock", "_renders", "_restored", "cells", "effects", "is_over")

    def __init__(self, state: PromptState | None = None) -> None:
        self.cells: dict[str, Cell] = {} if state is None else dict(state.cells)
        self.effects: dict[str, tuple[Hashable, ...] | str] = {} if state is None else dict(state.effects)
        self._renders: int | None = None  # the thread that renders
        self.is_over: bool = False
        self._restored: dict[str, int] = {}
        self._lock = RLock()

    def declare(self, key: str, initial: Any, schema: object, seen: dict[str, Cell]) -> Any:
        """The value of a key among the values that a render sees; the initial one where there is none yet.

        Raises:
            RenderError: the key has had another type, or the initial value is none of its schema.
        """
        form = form_of(initial, schema)
        with self._lock:
            for cells in (self.cells, seen):
                cell = cells.get(key)
                if cell is None:
                    cells[key] = _cell(key, initial, form).check(key)
                elif cell.form is None:
                    cells[key] = cell.read_as(key, form)
                elif cell.form is not form and cell.form != form:
                    was, now = _name(cell.form), _name(form)
                    why = f"the state {key!r} was of type {was} and is of type {now} now"
                    raise RenderError("state", f"{why}: declare it alike in every render, or give another key")
        return seen[key].value

    @contextmanager
    def refuse_changes(self) -> Generator[None]:
        """Within it this thread changes nothing: it renders. Others may, and that shows in the next render."""
        self._renders = get_ident()
        try:
            yield
        finally:
            self._renders = None

    def change(self, key: str, f: Callable[[Any], tuple[_A, Any]]) -> _A:
        """Gives the first of `f(value)` and puts the second in; an exception in `f` changes nothing.

        Raises:
            RenderError: a render changes it, or it is given what no state can hold.
            RuntimeError: the run is over, or `f` changes it itself.
        """
        with self._lock:
            if self._renders == get_ident():
                why = f"the render changes the state {key!r}: it would have to be rendered again, without end"
                raise RenderError("unsettled", f"{why}; change it in a handler or in at.effect(…)")
            if self.is_over:
                raise RuntimeError(f"the run is over: the state {key!r} cannot be changed any more")
            cell = self.cells[key]
            given, value = f(cell.value)
            if self.cells[key] is not cell:
                raise RuntimeError(f"the state {key!r} is changed by the function that is to say its next value")
            self.cells[key] = _cell(key, value, cell.form)
            return given

    # -- what a call has changed, for what journals it

    def begin_changes(self) -> Mapping[str, Cell]:
        """The values as they are now, for `changes_since`."""
        with self._lock:
            return dict(self.cells)

    def changes_since(self, before: Mapping[str, Cell]) -> dict[str, Any]:
        """The values that are others than before, as plain JSON data by key.

        Raises:
            StateError: one of them would not be read back the same.
        """
        now = self.begin_changes()
        return {key: cell.to_data(key) for key, cell in now.items() if before.get(key) is not cell}

    def restore(self, changes: Mapping[str, Any], number: int) -> None:
        """Puts values in that were changed before; of two for a key, the one of the higher number stays.

        Raises:
            RenderError: one of them does not fit the type of its key.
        """
        with self._lock:
            for key, data in changes.items():
                if number <= self._restored.get(key, 0):
                    continue
                self._restored[key] = number
                there = self.cells.get(key)
                cell = Cell(frozen(data))
                self.cells[key] = cell if there is None or there.form is None else cell.read_as(key, there.form)

    def snapshot(self, pending: tuple[Asked, ...] = ()) -> PromptState:
        """All of it, as it is now."""
        with self._lock:
            return PromptState(dict(self.cells), dict(self.effects), pending)


@final
class State(Generic[_T]):
    """One key of a prompt's state, as one render sees it."""

    __slots__ = ("_store", "_value", "key")

    key: str

    def __init__(self, key: str, value: _T, store: StateStore) -> None:
        self.key = key
        self._value = value
        self._store = store

    @property
    def value(self) -> _T:
        """What it was when the render began; lists and objects are frozen."""
        return self._value

    def set(self, value: _T) -> EffectOf[None]:
        """Puts `value` in."""
        return self.modify(lambda _: (None, value))

    def update(self, f: Callable[[_T], _T]) -> EffectOf[None]:
        """Puts `f(value)` in, of the value as it is when this runs: parallel updates lose nothing."""
        return self.modify(lambda value: (None, f(value)))

    def modify(self, f: Callable[[_T], tuple[_A, _T]]) -> EffectOf[_A]:
        """Gives the first of `f(value)` and puts the second in; an exception in `f` changes nothing."""
        return Sync(lambda: self._store.change(self.key, f))

    @property
    def now(self) -> EffectOf[_T]:
        """What it is when this effect runs, and not when the render began."""
        return Sync(lambda: self._store.cells[self.key].value)

    @override
    def __repr__(self) -> str:
        return f"State({self.key!r}, {self.value!r})"
