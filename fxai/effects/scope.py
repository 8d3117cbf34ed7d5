"""Scopes: resources that were acquired are released, the last one first, each exactly once.

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
from typing import Any, Never, TypeAlias, final, overload

from typing_extensions import TypeVar

from fxai.effects.cause import Cause, Die, Exit, Failed, Reason
from fxai.effects.context import ContextOf
from fxai.effects.effect import (
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

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")

Finalizer: TypeAlias = Callable[[Exit[Any, Any]], EffectOf[Any, Any, None]]


@final
class Scope(Service):
    """A stack of finalizers, run when the scope closes: last added first, each exactly once."""

    closed: bool = False
    """True once closing has begun."""
    is_of_one: bool = False
    """True if one program has the services of this scope, so that its end is the end of the program."""
    _released: bool = False  # no finalizer can be added any more
    _finalizers: dict[object, Finalizer] | None = None  # by token, in the order they were added

    @property
    def empty(self) -> bool:
        """True when closing would run nothing."""
        return not self._finalizers

    def around(self, effect: EffectOf[_A, _E, Any]) -> EffectOf[_A, _E, Any]:
        """The effect in this scope: what it acquires is released when this one closes."""
        return _Inside(effect, self)

    def require_open(self) -> None:
        """Does nothing while finalizers can be added, also while others run.

        Raises:
            RuntimeError: the scope is closed already: nothing would ever run the finalizer.
        """
        if self._released:
            raise RuntimeError("the scope is closed: what is acquired now would never be released")

    def add(self, finalizer: Finalizer) -> object:
        """Adds what is run, with the exit of the program, when the scope closes. Gives the token that `remove` takes.

        While the scope is closing, it is run next.

        Raises:
            RuntimeError: the scope is closed already: nothing would ever run the finalizer.
        """
        if self._released:
            self.require_open()
        if self._finalizers is None:
            self._finalizers = {}
        token = object()
        self._finalizers[token] = finalizer
        return token

    def remove(self, token: object) -> None:
        """Takes a finalizer out that has nothing to do any more."""
        if self._finalizers is not None:
            self._finalizers.pop(token, None)

    def close(self, exit_: Exit[Any, Any]) -> EffectOf[None, Never, None]:
        """The effect that runs all finalizers, uninterrupted; those that fail do not stop the others.

        What failed among them is a defect of the program that the scope belongs to, with every reason in it.
        """
        return Suspend(lambda: self.release(exit_))

    def release(self, exit_: Exit[Any, Any]) -> EffectOf[None, Never, None]:
        """Begins to close; gives the effect of the rest of `close`, which has to be run."""
        self.closed = True
        if self._finalizers:
            return Mask(Generate(self._run_all, (exit_,), {}))
        self._released = True
        return NOTHING

    def _run_all(self, exit_: Exit[Any, Any]) -> Gen[None]:
        reasons: list[Reason[Any]] = []
        fatal: BaseException | None = None
        while self._finalizers:
            try:
                end = yield from Suspend(partial(self._finalizers.popitem()[1], exit_)).exit()
            except BaseException as raised:  # a cancellation that cannot be held off ends this finalizer, not the rest
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
    finalizer: Callable[[Exit[Any, Any]], EffectOf[Discarded, Any, _R]],
) -> EffectOf[None, Never, _R | Scope | None]:
    """Adds `finalizer` to the scope around: it is run when that closes, with the exit of the program.

    It is run with the services that are there now.
    """

    def add(context: ContextOf[Any]) -> None:
        scope: Scope = context.fetch(Scope)
        scope.add(lambda exit_: Local(As(finalizer(exit_), None), lambda _: context))

    return Ask(add)


def acquire_release(
    acquire: EffectOf[_A, _E, _R], release: Callable[[_A], EffectOf[Discarded, Any, _R2]]
) -> EffectOf[_A, _E, _R | _R2 | Scope | None]:
    """The value of `acquire`; `release` is run on it when the scope around closes, with the services there were.

    Acquiring cannot be interrupted, so that nothing is acquired without its release being known.
    """

    def within(context: ContextOf[Any]) -> EffectOf[_A, _E, _R]:
        scope: Scope = context.fetch(Scope)
        scope.require_open()  # known before anything is acquired

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
    """What a context manager gives, an asynchronous or an ordinary one; it is left when the scope around closes.

    It is given the exception that ended the program, if one did. What it raises is a defect. An ordinary one is entered
    and left inline, as by `fx.sync`, and should not block; what is both is taken as asynchronous. Managers that hold a
    cancel scope or task group of their own must be entered and left by one task: use `fx.wait` around those.
    """

    def leave(entered: Any, exit_: Exit[Any, Any]) -> EffectOf[Any, Any, None]:
        error = exit_.cause.squash() if isinstance(exit_, Failed) else None
        raised = type(error) if error else None, error, None
        if _is_async(entered):
            return Await(lambda _: entered.__aexit__(*raised))
        return Sync(lambda: entered.__exit__(*raised))

    def enter(entered: Any) -> EffectOf[Any, Never, Any]:
        if not _is_async(entered) and not _has(entered, "__enter__"):
            raise TypeError(f"fx.acquire_cm takes a function that makes a context manager, and it made {entered!r}")
        opened: EffectOf[Any, Never, None]
        opened = Await(lambda _: entered.__aenter__()) if _is_async(entered) else Sync(entered.__enter__)
        return opened.flat_map(lambda value: add_finalizer(lambda exit_: leave(entered, exit_)).as_(value))

    return Mask(Suspend(lambda: enter(manager())))


def _is_async(manager: object) -> bool:
    return _has(manager, "__aenter__")


def _has(manager: object, method: str) -> bool:
    return hasattr(type(manager), method)


def scoped(effect: EffectOf[_A, _E, Scope | _R2]) -> EffectOf[_A, _E, _R2]:
    """The effect with a scope of its own, closed when it ends: `Scope` is no longer needed."""
    return _Scoped(effect)


@final
class _Scoped(Instruction, eq=False):
    source: Any
    op = Suspend.op

    def f(self) -> EffectOf[Any, Any, Any]:
        scope = Scope()
        return OnExit(_Inside(self.source, scope), scope.release)


@final
class _Inside(Instruction, eq=False):
    source: Any
    scope: Scope
    op = Local.op

    def f(self, context: ContextOf[Any]) -> ContextOf[Any]:
        return ContextOf({**context.services, Scope: self.scope})
