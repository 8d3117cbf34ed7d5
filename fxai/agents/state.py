"""State: store the values of a stateful prompt from step to step, and from run to run. Renders use this module.

A render reads a key with `at.state(key, initial)`, and sees its value at the start of the render. Handlers and effects
change it with `set`, `update`, and `modify`. These methods return atomic effects, so that parallel calls lose no
update. The next render sees the change. After a run, a `PromptState` contains the values of all keys. Another run can
continue from it.

fxai freezes arrays and objects at every depth. Only these effects can change a value.

>>> from fxai.effects import fx
>>> store = StateStore()
>>> store.declare("n", 1, None, dict(store.cells))
1
>>> fx.run_sync(State("n", 1, store).update(lambda n: n + 1))
>>> store.snapshot().values["n"], PromptState.from_json(store.snapshot().to_json()).unwrap().values["n"]
(2, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from hashlib import sha256
from inspect import iscoroutine
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, Never, TypeAlias, cast, final

import msgspec
from msgspec.structs import force_setattr
from returns.result import Result
from typing_extensions import TypeVar, override

from fxai.effects.effect import EffectOf, Sync
from fxai.effects.mistake import MYPY, NotItsValue
from fxai.messages.calls import Pending
from fxai.messages.wire import HISTORY_LIMITS
from fxai.schema.codec import Schema
from fxai.schema.data import FrozenArray, FrozenObject, JsonObject, frozen, is_array, is_listed, is_object
from fxai.schema.fault import DecodeError, DecodeFailure, SchemaError
from fxai.schema.parsing import Limits, parse_json_unsafe

_A = TypeVar("_A")
_T = TypeVar("_T")

RenderReason: TypeAlias = Literal["conflict", "state", "late", "unsettled", "name", "value"]
"""The reason why a render is invalid.

- `conflict`: two different definitions have the same key.
- `state`: a key of the state has another type than before, or a value from JSON does not have its type.
- `late`: a definition follows after the end of the render.
- `unsettled`: the render changes the state, returns a value, or does not finish.
- `name`: the name of a section is invalid.
- `value`: a definition has an invalid value.
"""


class RenderError(Exception):
    """An invalid render, with its reason and remedy. The run fails with `RenderFailed`."""

    def __init__(self, reason: RenderReason, message: str) -> None:
        super().__init__(message)
        self.reason: RenderReason = reason


class StateError(ValueError):
    """A state that has no lossless JSON form. The message names the key."""


# -- a value

Form: TypeAlias = "type[Any] | Schema[Any]"
"""The type of a key: the declared schema, or the type of its initial value."""


_LIMITS: Final = Limits(HISTORY_LIMITS.max_bytes, max_values=HISTORY_LIMITS.max_values)
"""The limits for the JSON of a value. Its maximum depth is less than the depth of a whole state."""


@final
class Cell(msgspec.Struct, frozen=True):
    """The value of a key."""

    value: Any
    form: Any = None
    """The `Form`, or None for a value from JSON that no render has declared."""

    def check(self, key: str) -> Cell:
        """Return the cell itself. Raise `RenderError` if its first value does not satisfy its declared schema."""
        if self.form is not None and not isinstance(self.form, type):  # a value always satisfies its own type
            schema = _schema(self.form)
            try:
                _ = schema.decode_unsafe(schema.encode_unsafe(self.value))
            except (DecodeError, SchemaError) as error:
                why = f"initial value of state {key!r} does not satisfy its schema, got {self.value!r}"
                raise RenderError("state", f"{why}: {error}. Pass a valid initial value.") from None
        return self

    def read_as(self, key: str, form: Form) -> Cell:
        """Return the cell with a value from JSON, converted to a type. Raise `RenderError` if it has another type."""
        if form is type(None):  # an initial `None` allows any type
            return Cell(_freeze(self.value), form)
        try:
            return Cell(_freeze(_schema(form).decode_unsafe(self.value)), form)
        except DecodeError as error:
            why = f"state {key!r} does not have the type that the render declares, {_name(form)}: {error.failure}"
            raise RenderError("state", f"{why}. Pass the state of a run of this prompt, or migrate it.") from None

    def to_data(self, key: str) -> Any:
        """Return the value as a JSON value. Raise `StateError` if the JSON form is not lossless."""
        if self.form is None:
            return self.value
        schema = Schema[Any].of(Any) if self.form is type(None) else _schema(self.form)
        try:
            data = schema.encode_unsafe(self.value)
            if schema.decode_unsafe(parse_json_unsafe(msgspec.json.encode(data), _LIMITS)) == self.value:
                return data
            why = "fxai would read another value from the JSON"
        except (DecodeError, SchemaError) as error:
            why = str(error)
        except RecursionError:
            why = "it is too deep"
        raise StateError(
            f"state {key!r} has no lossless JSON form: {why}. Declare its type: at.state({key!r}, …, schema=…)."
        )


def _cell(key: str, value: Any, form: Form | None) -> Cell:
    """Return a cell with a frozen value from a program.

    Raises:
        RenderError: If the value is too deep, contains itself, or is a coroutine of an `async` function.
    """
    if iscoroutine(value):
        value.close()
        raise RenderError(
            "value", f"state {key!r} received a coroutine. Pass functions without async to `update` and `modify`."
        )
    try:
        return Cell(_freeze(value), form)
    except RecursionError:
        raise RenderError("value", f"state {key!r} received a value that is too deep or contains itself") from None


_FROZEN: Final = frozenset({FrozenObject, FrozenArray, str, int, float, bool, type(None)})


def _freeze(value: Any) -> Any:
    """Return a value with immutable arrays and objects, also inside tuples, structs, and dataclasses."""
    if type(value) in _FROZEN:
        return value
    if is_object(value):
        return FrozenObject({key: _freeze(one) for key, one in value.items()})
    if is_array(value):
        return FrozenArray([_freeze(one) for one in value])
    if is_listed(value):  # a tuple can contain mutable values
        kind: type[Any] = type(value)
        make: Any = tuple if kind is tuple else getattr(kind, "_make", None)
        return value if make is None else make(map(_freeze, value))
    if isinstance(value, msgspec.Struct):
        return _freeze_fields(value, value.__struct_fields__)
    if is_dataclass(value) and not isinstance(value, type):
        return _freeze_fields(value, [field.name for field in fields(value)])
    return frozen(value)


def _freeze_fields(value: Any, names: Iterable[str]) -> Any:
    """Return a copy with frozen fields, or the value itself if all fields are already frozen."""
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
    """Return the type of a key: its declared schema, or the type of its initial value."""
    if schema is not None:
        return Schema[Any].of(cast(Any, schema))
    if isinstance(initial, FrozenArray | FrozenObject):  # the value of a state
        return list if isinstance(initial, FrozenArray) else dict
    return type(initial)


# -- the dependencies of effects


def _digest(deps: tuple[Hashable, ...]) -> str | None:
    """Return a digest of dependencies, or None if they are not JSON values. Then their effect runs again."""
    try:
        image = msgspec.json.encode(deps, order="deterministic")
        if b"null" in image:  # JSON has null for NaN, but NaN is not None
            image += msgspec.msgpack.encode(deps, order="deterministic")
        return sha256(image).hexdigest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def same_deps(before: tuple[Hashable, ...] | str, now: tuple[Hashable, ...]) -> bool:
    """Return whether dependencies are unchanged since the last run of their effect. `before` can be a digest."""
    return before == _digest(now) if isinstance(before, str) else before == now


# -- all values


@final
class Asked(msgspec.Struct, frozen=True):
    """The state that a step with pending calls read. The handlers of that render run these calls."""

    number: int
    """The number of the step, from 1."""
    cells: Mapping[str, Cell]
    calls: tuple[str, ...] = ()
    """The pending calls by `call_key`."""


def call_key(call: Pending) -> str:
    """Return the key of a pending call: the id of its approval, which is unique even if call ids repeat."""
    return call.id if call.approval_id is None else call.approval_id


class _AskedForm(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1)]
    values: dict[str, Any]
    calls: list[str]


class _StateForm(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The JSON form of a state."""

    values: dict[str, Any]
    effects: dict[str, str] = {}
    pending: list[_AskedForm] = []


_FORM: Schema[_StateForm] = Schema.of(_StateForm)


@final
class PromptState(msgspec.Struct, frozen=True):
    """The state of a stateful prompt after a run, as an immutable value. Another run can continue from it.

    It contains the values of all keys. It also contains the dependencies of effects, so that an effect that runs once
    does not run again in the next run. For pending calls, it contains the values that their step read.
    """

    cells: Mapping[str, Cell] = {}
    effects: Mapping[str, tuple[Hashable, ...] | str] = {}
    """The dependencies at the last run of each effect by key. After reading from JSON, the digests of them."""
    pending: tuple[Asked, ...] = ()
    """The steps with pending calls. With a memory, this includes steps of other turns."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The values by key. After reading from JSON, values that no render has declared are JSON values."""
        return {key: cell.value for key, cell in self.cells.items()}

    def to_data(self) -> JsonObject:
        """Return the state as a JSON value: `{"values": {…}, "effects": {…}, "pending": […]}`.

        It contains digests of dependencies. Effects with dependencies that are not JSON values run again.

        Raises:
            StateError: If the JSON form of a value is not lossless.
        """
        digests = {key: deps if isinstance(deps, str) else _digest(deps) for key, deps in self.effects.items()}
        data: JsonObject = {"values": _to_data(self.cells)}
        effects = {key: digest for key, digest in digests.items() if digest is not None}
        if effects:
            data["effects"] = effects
        pending = [{"number": one.number, "values": _to_data(one.cells), "calls": [*one.calls]} for one in self.pending]
        if pending:
            data["pending"] = pending
        return data

    def to_json(self) -> str:
        """Return the state as a JSON string, in the form of `to_data`.

        Raises:
            StateError: If the JSON form of a value is not lossless.
        """
        return msgspec.json.encode(self.to_data()).decode()

    @staticmethod
    def from_data(data: object) -> Result[PromptState, DecodeFailure]:
        """Return the state from a JSON value. fxai converts its values when a render declares their types.

        Fails with:
            DecodeFailure: If the value is not a state. The failure contains all validation errors and their locations.
        """
        return _FORM.decode(data).map(_of_form)

    @staticmethod
    def from_json(text: str | bytes) -> Result[PromptState, DecodeFailure]:
        """Return the state from a JSON string. See `from_data`.

        Fails with:
            DecodeFailure: If the string is not JSON, not a state, or exceeds the limits for histories
                (`HISTORY_LIMITS`).

        >>> PromptState.from_json('{"values": {"mode": "basic"}}').unwrap().values["mode"]
        'basic'
        """
        return _FORM.decode_json(text, HISTORY_LIMITS).map(_of_form)

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self.cells))  # the values may be unhashable


def _to_data(cells: Mapping[str, Cell]) -> JsonObject:
    return {key: cell.to_data(key) for key, cell in cells.items()}


def _of_form(form: _StateForm) -> PromptState:
    pending = [Asked(one.number, _raw(one.values), tuple(one.calls)) for one in form.pending]
    return PromptState(_raw(form.values), form.effects, tuple(pending))


def _raw(values: Mapping[str, Any]) -> dict[str, Cell]:
    return {key: Cell(frozen(value)) for key, value in values.items()}


# -- the values of a run


@final
class StateStore:
    """The current values of a run. A lock makes each change atomic, also across threads."""

    def __init__(self, state: PromptState | None = None) -> None:
        self.cells: dict[str, Cell] = {} if state is None else dict(state.cells)
        self.effects: dict[str, tuple[Hashable, ...] | str] = {} if state is None else dict(state.effects)
        self.renderer: int | None = None  # the thread of the current render; other threads can make changes
        self.is_over: bool = False
        self._restored: dict[str, int] = {}
        self._lock = RLock()

    def declare(self, key: str, initial: Any, schema: object, seen: dict[str, Cell]) -> Any:
        """Return the value of a key among the values of a render. A new key has its initial value.

        Raises:
            RenderError: If the key had another type, or the initial value does not satisfy its schema.
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
                    why = f"state {key!r} was declared with type {was} and now with type {now}"
                    raise RenderError("state", f"{why}. Declare the same type in every render, or use another key.")
        return seen[key].value

    def change(self, key: str, f: Callable[[Any], tuple[_A, Any]]) -> _A:
        """Apply `f`. Return the first item of its result and store the second. If `f` raises, store nothing.

        Raises:
            RenderError: If a render makes the change, or the new value is invalid.
            RuntimeError: If the run ended, or `f` itself changes the value.
        """
        with self._lock:
            if self.renderer == get_ident():
                why = f"the render changes the state {key!r} and would never finish"
                raise RenderError("unsettled", f"{why}. Change the state in a handler or in at.effect(…).")
            if self.is_over:
                raise RuntimeError(f"state {key!r} cannot change, because the run ended")
            cell = self.cells[key]
            given, value = f(cell.value)
            if self.cells[key] is not cell:
                raise RuntimeError(f"state {key!r} changed during its own update. Do not change it in the function.")
            self.cells[key] = _cell(key, value, cell.form)
            return given

    # -- changes of a call, for a journal

    def start_changes(self) -> Mapping[str, Cell]:
        """Return the current values for `changes_since`."""
        with self._lock:
            return dict(self.cells)

    def changes_since(self, before: Mapping[str, Cell]) -> JsonObject:
        """Return the changed values as JSON by key. Raise `StateError` if the JSON form of a value is not lossless."""
        now = self.start_changes()
        return {key: cell.to_data(key) for key, cell in now.items() if before.get(key) is not cell}

    def restore(self, changes: Mapping[str, Any], number: int) -> None:
        """Restore recorded changes. If two changes concern the same key, keep the change with the higher number.

        Raises:
            RenderError: If a value does not have the type of its key.
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
        """Return the current state."""
        with self._lock:
            return PromptState(dict(self.cells), dict(self.effects), pending)


@final
class State(Generic[_T]):
    """A key of a prompt's state in a render."""

    __slots__ = ("_store", "_value", "key")

    key: str

    def __init__(self, key: str, value: _T, store: StateStore) -> None:
        self.key = key
        self._value = value
        self._store = store

    @property
    def value(self) -> _T:
        """The value at the start of the render. Lists and objects are frozen."""
        return self._value

    def set(self, value: _T) -> EffectOf[None]:
        """Return an effect that stores `value`."""
        return self.modify(lambda _: (None, value))

    def update(self, f: Callable[[_T], _T]) -> EffectOf[None]:
        """Return an effect that stores `f(current value)`. Parallel updates lose nothing."""
        return self.modify(lambda value: (None, f(value)))

    def modify(self, f: Callable[[_T], tuple[_A, _T]]) -> EffectOf[_A]:
        """Return an effect that applies `f` to the value. It succeeds with the first item and stores the second.

        If `f` raises, the value does not change.
        """
        return Sync(lambda: self._store.change(self.key, f))

    @property
    def now(self) -> EffectOf[_T]:
        """An effect of the value at the time when the effect runs."""
        return Sync(lambda: self._store.cells[self.key].value)

    def _refuse(self, *_: object) -> Never:
        raise RenderError("value", f"state {self.key!r} is not its value. Write state.value.")

    if not TYPE_CHECKING:
        __str__ = __format__ = __contains__ = __iter__ = __len__ = __getitem__ = _refuse
        __add__ = __radd__ = __sub__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

        def __eq__(self, other: object) -> bool:
            return self is other or self._refuse()

        __hash__ = object.__hash__

    if not MYPY:

        def __bool__(self) -> NotItsValue:  # noqa: PLE0304  # pyright reports each use as an error
            self._refuse()

    @override
    def __repr__(self) -> str:
        return f"State({self.key!r}, {self.value!r})"
