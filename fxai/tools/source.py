"""Sources: tools that come with their handlers, opened for as long as they are needed.

A `ToolSource` gives a `BoundToolkit`, and may have to open something first: it is what every origin of tools gives, be
it functions, the methods of an object, or a server.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import tool
>>> @tool
... def add(a: int, b: int) -> int:
...     return a + b
>>> fx.run_sync(ToolSource.of(add).use(lambda kit: kit.call("add", {"a": 1, "b": 2}))).result
3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, Protocol, Self, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.scope import Scope, scoped
from fxai.effects.stream import AnyStream, StreamOf
from fxai.tools.handler import Gives
from fxai.tools.identity import OnConflict
from fxai.tools.toolkit import AnyBound, BoundToolkit, Toolkit, bound_of

_A = TypeVar("_A")
_T = TypeVar("_T")
_T2 = TypeVar("_T2")
_E = TypeVar("_E")
_E2 = TypeVar("_E2")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)


class Sourced(Protocol[_T_co, _E_co, _R_co]):
    """What tools with their handlers may come from: a function tool, a composite, a bound toolkit, a source."""

    def __fx_gives__(self) -> Gives[_T_co, _E_co, _R_co]:
        """For checkers: what it gives."""
        ...

    def __fx_bound__(self) -> Any:
        """A tool and its layer, a bound toolkit, or the effect that opens one."""


@final
class ToolSource(msgspec.Struct, Generic[_T, _E_co, _R_co], frozen=True):
    """Where tools come from: a toolkit with its layer, there for as long as a scope is open.

    `T` is the union of the handlers, `E` what opening it fails with, `R` what opening it and the handlers need.
    """

    open: EffectOf[BoundToolkit[_T, _E_co, _R_co], _E_co, Scope | _R_co | None]
    """Opens it into the scope around, with which it closes."""

    @staticmethod
    def of(origin: Sourced[_T2, _E, _R]) -> ToolSource[_T2, _E, _R]:
        """The source of a function tool, a composite or a bound toolkit; of a source, itself."""
        bound = bound_of(origin)
        return ToolSource(origin.__fx_bound__() if bound is None else Succeed(bound))

    def use(
        self, f: Callable[[Toolkit[_T]], EffectOf[_A, _E2, _T | _R2]]
    ) -> EffectOf[_A, _E_co | _E2, _R_co | _R2 | None]:
        """What the program gives that `f` makes of the tools: opened before it, with their handlers, and closed after.

        Fails as opening does, and as the program does.
        """

        def run(opened: AnyBound) -> AnyEffect:
            return f(opened.toolkit).provide(opened.layer)

        return scoped(cast("AnyEffect", self.open).flat_map(run))

    def use_stream(
        self, f: Callable[[Toolkit[_T]], StreamOf[_A, _E2, _T | _R2]]
    ) -> StreamOf[_A, _E_co | _E2, _R_co | _R2 | None]:
        """The items of the stream that `f` makes of the tools: opened before the first, with their handlers.

        It is closed when the stream ends or is left. Fails as opening does, and as the stream does.
        """

        def run(opened: AnyBound) -> AnyStream:
            return f(opened.toolkit).provide(opened.layer)

        return StreamOf.unwrap(cast("AnyEffect", self.open).map(run))

    def merge(
        self, other: ToolSource[_T2, _E2, _R2], *, on_conflict: OnConflict = "error"
    ) -> ToolSource[_T | _T2, _E_co | _E2, _R_co | _R2]:
        """The tools of both; opened one after the other, closed in reverse.

        Opening it raises `ToolConflictError` as a defect where two different tools have one name, unless
        `on_conflict` says which to keep.
        """
        both: AnyEffect = cast("AnyEffect", self.open).flat_map(
            lambda first: other.open.map(lambda second: first.merge(second, on_conflict=on_conflict))
        )
        return ToolSource(both)

    def with_toolkit(self, f: Callable[[Toolkit[_T]], Toolkit[_T]]) -> Self:
        """The same handlers, with what `f` makes of the tools once they are known."""
        changed: Any = self.open.map(lambda opened: opened.with_toolkit(f))
        return msgspec.structs.replace(self, open=changed)

    def prefix(self, prefix: str) -> Self:
        """The same, with `prefix` before the tools' names."""
        return self.with_toolkit(lambda kit: kit.prefix(prefix))

    def __fx_gives__(self) -> Gives[_T, _E_co, _R_co]:
        """For checkers: what it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> EffectOf[Any, Any, Any]:
        """What opens it."""
        return self.open

    @override
    def __hash__(self) -> int:
        return id(self.open)
