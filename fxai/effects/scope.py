"""Scopes, which release acquired resources in reverse order, each exactly once. Use them for connections and files.

>>> from fxai.effects import fx
>>> log: list[str] = []
>>> def opened(name: str):
...     acquire = fx.sync(lambda: log.append(f"+{name}"))
...     return fx.acquire_release(acquire, lambda _: fx.sync(lambda: log.append(f"-{name}")))
>>> fx.run_sync(fx.scoped(opened("a").and_then(opened("b"))))
>>> log
['+a', '+b', '-b', '-a']
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Never, TypeAlias, final, overload

from typing_extensions import TypeVar

from fxai.effects.cause import AnyExit, Cause, Die, Failed, Reason
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import (
    AnyEffect,
    As,
    Ask,
    Await,
    EffectOf,
    FailCause,
    Gen,
    Generate,
    Instruction,
    Local,
    Mask,
    OnExit,
    Succeed,
    Suspend,
    Sync,
    Within,
)
from fxai.effects.mistake import Discarded
from fxai.effects.service import Service

if TYPE_CHECKING:
    _A = TypeVar("_A")
    _E = TypeVar("_E")
    _R = TypeVar("_R")
    _R2 = TypeVar("_R2")


Finalizer: TypeAlias = Callable[[AnyExit], EffectOf[Any, Any, None]]


@final
class Scope(Service):
    """A stack of finalizers. Closing the scope runs each finalizer exactly once, the last added finalizer first."""

    closed: bool = False
    """True after closing started."""
    is_of_one: bool = False
    """True if only one program uses the services of this scope, so that the scope ends with the program."""
    _released: bool = False  # True if `add` refuses finalizers
    _finalizers: dict[object, Finalizer] | None = None  # by token, in the order of addition

    @property
    def empty(self) -> bool:
        """True if closing would run no finalizer."""
        return not self._finalizers

    def around(self, effect: EffectOf[_A, _E, Any]) -> EffectOf[_A, _E, Any]:
        """Return the effect in this scope. Closing the scope releases the resources of the effect."""
        return _Inside(effect, self)

    def require_open(self) -> None:
        """Check that you can still add finalizers. This is possible while finalizers run.

        Raises:
            RuntimeError: If the scope is closed. No close would run the finalizer.
        """
        if self._released:
            raise RuntimeError("the scope is closed. Acquire the resource in an open scope, which can release it.")

    def add(self, finalizer: Finalizer) -> object:
        """Add a finalizer, which receives the exit of the program when the scope closes. Return a token for `remove`.

        If the scope is closing, it runs the new finalizer next.

        Raises:
            RuntimeError: If the scope is closed. No close would run the finalizer.
        """
        if self._released:
            self.require_open()
        if self._finalizers is None:
            self._finalizers = {}
        token = object()
        self._finalizers[token] = finalizer
        return token

    def remove(self, token: object) -> None:
        """Remove a finalizer that has no work left."""
        if self._finalizers is not None:
            self._finalizers.pop(token, None)

    def close(self, exit_: AnyExit) -> EffectOf[None, Never, None]:
        """Return the effect that runs all finalizers, uninterrupted. A failed finalizer does not stop the others.

        Failures of finalizers become defects of the program that owns the scope. The cause contains every reason.
        """
        return Suspend(lambda: self.release(exit_))

    def release(self, exit_: AnyExit) -> EffectOf[None, Never, None]:
        """Start closing and return the effect that completes `close`. You must run this effect."""
        self.closed = True
        if self._finalizers:
            return Mask(Generate(self._run_all, (exit_,), {}))
        self._released = True
        return NOTHING

    def _run_all(self, exit_: AnyExit) -> Gen[None]:
        reasons: list[Reason[Any]] = []
        fatal: BaseException | None = None
        while self._finalizers:
            try:
                end = yield from Suspend(partial(self._finalizers.popitem()[1], exit_)).exit()
            except BaseException as raised:  # an unblockable cancellation ends this finalizer, but not the others
                fatal = raised
                continue
            if isinstance(end, Failed):
                reasons.extend(end.cause.reasons)

        self._released = True
        if fatal is not None:
            raise fatal
        if reasons:
            yield from FailCause(Cause(tuple(r if isinstance(r, Die) else Die(Cause((r,)).squash()) for r in reasons)))


NOTHING: EffectOf[None, Never, None] = Succeed(None)


def add_finalizer(
    finalizer: Callable[[AnyExit], EffectOf[Discarded, Any, _R]],
) -> EffectOf[None, Never, _R | Scope | None]:
    """Return the effect that adds `finalizer` to the enclosing scope.

    When the scope closes, `finalizer` receives the exit of the program. It runs with the current services.
    """

    def add(context: AnyContext) -> None:
        scope: Scope = context.fetch(Scope)
        scope.add(lambda exit_: Local(As(finalizer(exit_), None), lambda _: context))

    return Ask(add)


def acquire_release(
    acquire: EffectOf[_A, _E, _R], release: Callable[[_A], EffectOf[Discarded, Any, _R2]]
) -> EffectOf[_A, _E, _R | _R2 | Scope | None]:
    """Return the effect of `acquire`. When the enclosing scope closes, it runs `release` on the value.

    `release` uses the services of the acquisition. A cancellation cannot interrupt `acquire`, so every acquired
    resource has a finalizer.
    """

    def within(context: AnyContext) -> EffectOf[_A, _E, _R]:
        scope: Scope = context.fetch(Scope)
        scope.require_open()  # before the program acquires anything

        def hold(value: _A) -> _A:
            scope.add(lambda _: Local(As(release(value), None), lambda _: context))
            return value

        return acquire.map(hold)

    return Mask(Within(within))


@overload
def acquire_cm(manager: Callable[[], AbstractAsyncContextManager[_A]]) -> EffectOf[_A, Never, Scope | None]: ...
@overload
def acquire_cm(manager: Callable[[], AbstractContextManager[_A]]) -> EffectOf[_A, Never, Scope | None]: ...
def acquire_cm(manager: Callable[[], Any]) -> EffectOf[Any, Never, Any]:
    """Return the effect that enters a context manager, asynchronous or ordinary. Closing the enclosing scope exits it.

    The manager receives the exception that ended the program, if any. An exception of the manager is a defect. fxai
    enters and exits an ordinary manager inline, like `fx.sync`, so the manager should not block. fxai treats a manager
    that is both ordinary and asynchronous as asynchronous. One task must enter and exit a manager that contains its own
    cancel scope or task group. For such a manager, wrap the whole block in `fx.wait`.
    """

    def leave(entered: Any, exit_: AnyExit) -> EffectOf[Any, Any, None]:
        error = exit_.cause.squash() if isinstance(exit_, Failed) else None
        raised = type(error) if error else None, error, None
        if _is_async(entered):
            return Await(lambda _: entered.__aexit__(*raised))
        return Sync(lambda: entered.__exit__(*raised))

    def enter(entered: Any) -> EffectOf[Any, Never, Any]:
        if not _is_async(entered) and not _has(entered, "__enter__"):
            raise TypeError(f"fx.acquire_cm must get a function that returns a context manager, got {entered!r}")
        opened: EffectOf[Any, Never, None]
        opened = Await(lambda _: entered.__aenter__()) if _is_async(entered) else Sync(entered.__enter__)
        return opened.flat_map(lambda value: add_finalizer(lambda exit_: leave(entered, exit_)).as_(value))

    return Mask(Suspend(lambda: enter(manager())))


def _is_async(manager: object) -> bool:
    return _has(manager, "__aenter__")


def _has(manager: object, method: str) -> bool:
    return hasattr(type(manager), method)


def scoped(effect: EffectOf[_A, _E, Scope | _R2]) -> EffectOf[_A, _E, _R2]:
    """Return the effect in its own scope, which closes at its end. The effect no longer needs `Scope`."""
    return _Scoped(effect)


@final
class _Scoped(Instruction, eq=False):
    source: Any
    op = Suspend.op

    def f(self) -> AnyEffect:
        scope = Scope()
        return OnExit(_Inside(self.source, scope), scope.release)


@final
class _Inside(Instruction, eq=False):
    source: Any
    scope: Scope
    op = Local.op

    def f(self, context: AnyContext) -> AnyContext:
        return ContextOf({**context.services, Scope: self.scope})
