"""Refs, which are atomic cells. Use them to share a value between programs of any thread and event loop.

>>> from fxai.effects import fx
>>> cell = Ref.of(1)
>>> fx.run_sync(cell.update(lambda n: n + 1).and_then(cell.get()))
2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, final

from typing_extensions import TypeVar

from fxai.effects.concurrency import Lock
from fxai.effects.effect import EffectOf, OnExit, Succeed, Suspend, Sync, Then
from fxai.effects.scope import Scope

_A = TypeVar("_A")
_B = TypeVar("_B")
_E = TypeVar("_E")
_R = TypeVar("_R")


@final
class Ref(Generic[_A]):
    """A cell with one value. Every change is atomic, so concurrent programs lose no update."""

    __slots__ = ("__lock__", "__value__")

    def __init__(self, value: _A) -> None:
        self.__value__: _A = value
        self.__lock__: Lock = Lock()

    @staticmethod
    def of(value: _B) -> Ref[_B]:
        """Return a new cell, which all programs that use it share."""
        return Ref(value)

    @staticmethod
    def make(value: _B) -> EffectOf[Ref[_B], Never, None]:
        """Return the effect of a new cell. Each run creates its own cell."""
        return Sync(lambda: Ref(value))

    def get(self) -> EffectOf[_A, Never, None]:
        """Return the effect of the value."""
        return Sync(lambda: self.__value__)

    def set(self, value: _A) -> EffectOf[None, Never, None]:
        """Return the effect that stores `value`."""
        return self.modify(lambda _: (None, value))

    def update(self, f: Callable[[_A], _A]) -> EffectOf[None, Never, None]:
        """Return the effect that stores `f(value)`."""
        return self.modify(lambda value: (None, f(value)))

    def get_and_update(self, f: Callable[[_A], _A]) -> EffectOf[_A, Never, None]:
        """Return the effect that stores `f(value)` and returns the previous value."""
        return self.modify(lambda value: (value, f(value)))

    def update_and_get(self, f: Callable[[_A], _A]) -> EffectOf[_A, Never, None]:
        """Return the effect that stores and returns `f(value)`."""

        def both(value: _A) -> tuple[_A, _A]:
            changed = f(value)
            return changed, changed

        return self.modify(both)

    def modify(self, f: Callable[[_A], tuple[_B, _A]]) -> EffectOf[_B, Never, None]:
        """Return the effect of the first item of `f(value)`, which stores the second. An exception changes nothing."""

        def put() -> _B:
            return _put(self, f(self.__value__))

        def change() -> EffectOf[_B, Never, None]:
            with self.__lock__.guard:
                if not self.__lock__.is_held:
                    return Succeed(put())
            waiting: EffectOf[_B, Never, None] = Sync(put)
            return _alone(self, waiting)

        return Suspend(change)

    def modify_effect(self, f: Callable[[_A], EffectOf[tuple[_B, _A], _E, _R]]) -> EffectOf[_B, _E, _R]:
        """Return the effect of `modify` with an effect as `f(value)`. Other changes wait. A failure changes nothing."""
        return _alone(self, Suspend(lambda: f(self.__value__)).map(lambda both: _put(self, both)))


def _put(ref: Ref[_A], both: tuple[_B, _A]) -> _B:
    given, ref.__value__ = both
    return given


def _alone(ref: Ref[Any], change: EffectOf[_B, _E, _R]) -> EffectOf[_B, _E, _R]:
    def start() -> EffectOf[_B, _E, _R]:
        scope = Scope()
        return OnExit(Then(scope.around(ref.__lock__.hold()), change), scope.release)

    return Suspend(start)
