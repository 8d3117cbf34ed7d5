"""Memo maps: in one program each layer is built once, and released by its last user.

The outermost `provide` brings a memo map into the context, nested ones find it there. An entry is shared by whoever
asks for the same layer in a context where no service is another than in the one it was built in, so a layer that is
fed other services is built anew. Each user of an entry holds it by a finalizer in its own scope; the last one to
let go closes the scope of the entry, and with it what the layer acquired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast, final

import anyio

from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Await, EffectOf, FailCause, Succeed, Suspend, Within
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.service import ReferenceMeta

__all__ = ["Build", "MemoMap"]

Build: TypeAlias = "Callable[[MemoMap, Scope], EffectOf[ContextOf[Any], Any, Any]]"

_ABSENT = object()


@final
class MemoMap:
    """The layers that are built or being built, in one program."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[object, list[_Entry]] = {}

    @staticmethod
    def of(context: ContextOf[Any]) -> MemoMap:
        """The memo map of the program around, or a new one."""
        found = context.find(MemoMap)
        return MemoMap() if found is None else cast(MemoMap, found)

    def into(self, context: ContextOf[Any]) -> ContextOf[Any]:
        """The context in which nested provides share this map."""
        return context if context.find(MemoMap) is self else context.put(MemoMap, self)

    def share(self, layer: object, build: Build, scope: Scope) -> AnyEffect:
        """What `layer` builds: shared where it is built in such a context already; held until `scope` closes."""

        def begin(context: ContextOf[Any]) -> AnyEffect:
            for entry in self._entries.get(layer, ()):
                if entry.serves(context):
                    entry.hold(scope)
                    return entry.joined(lambda: self.share(layer, build, scope))

            entry = _Entry(self, layer, context)
            self._entries.setdefault(layer, []).append(entry)
            entry.hold(scope)
            return entry.built(build)

        return Within(begin)

    def forget(self, entry: _Entry) -> None:
        """Takes the entry out, so that the layer is built anew when asked for again."""
        entries = self._entries.get(entry.layer, [])
        if entry in entries:
            entries.remove(entry)
        if not entries:
            self._entries.pop(entry.layer, None)


class _Entry:
    __slots__ = ("_context", "_exit", "_holders", "_memo", "_ready", "_scope", "layer")

    def __init__(self, memo: MemoMap, layer: object, context: ContextOf[Any]) -> None:
        self._memo = memo
        self.layer = layer
        self._context = context
        self._scope = Scope()
        self._holders = 0
        self._exit: Exit[ContextOf[Any], Any] | None = None
        self._ready: anyio.Event | None = None

    def serves(self, context: ContextOf[Any]) -> bool:
        """True when nothing that was there when this was built is another in `context`.

        A service that is not there any more is none that the layer needs; a reference is, by its default.
        """
        mine = self._context
        return mine is context or all(_same(key, mine.find(key), context.find(key, _ABSENT)) for key in mine)

    def hold(self, scope: Scope) -> None:
        """Keeps the entry until `scope` closes."""
        self._holders += 1
        scope.add(self._let_go)

    def _let_go(self, exit_: Exit[Any, Any]) -> EffectOf[Any, Any, None]:
        self._holders -= 1
        if self._holders:
            return NOTHING

        self._memo.forget(self)
        return self._scope.close(exit_)

    def built(self, build: Build) -> EffectOf[ContextOf[Any], Any, Any]:
        """Builds it, and wakes those who wait for it."""

        def settle(exit_: Exit[ContextOf[Any], Any]) -> EffectOf[None]:
            self._exit = exit_
            if isinstance(exit_, Succeeded):
                return self._wake()
            self._memo.forget(self)
            return self._scope.close(exit_).ensuring(Suspend(self._wake))

        return Suspend(lambda: build(self._memo, self._scope)).on_exit(settle)

    def _wake(self) -> EffectOf[None]:
        if self._ready is not None:
            self._ready.set()
        return NOTHING

    def joined(self, again: Callable[[], AnyEffect]) -> EffectOf[ContextOf[Any], Any, Any]:
        """What another fiber builds; built by this one after all where that was interrupted."""
        if self._exit is not None:
            return self._outcome(self._exit, again)

        ready = self._ready = self._ready or anyio.Event()
        waited: EffectOf[Any] = Await(lambda _: ready.wait())
        return waited.flat_map(lambda _: self._outcome(cast("Exit[ContextOf[Any], Any]", self._exit), again))

    @staticmethod
    def _outcome(exit_: Exit[ContextOf[Any], Any], again: Callable[[], AnyEffect]) -> AnyEffect:
        if isinstance(exit_, Succeeded):
            return Succeed(exit_.value)
        return again() if exit_.cause.interrupted else FailCause(exit_.cause)


def _same(key: object, built_with: object, found: object) -> bool:
    if key is Scope or key is MemoMap:
        return True
    return found is built_with or (found is _ABSENT and not isinstance(key, ReferenceMeta))
