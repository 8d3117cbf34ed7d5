"""Sources are tools with their handlers, open for a limited time. Use a source for a server or for any origin of tools.

A `ToolSource` returns a `BoundToolkit` and can open a resource first. Functions, objects with methods, and servers are
all origins of tools.

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
from fxai.tools.handler_types import Gives
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
    """An origin of tools with handlers: a function tool, a composite, a bound toolkit, or a source."""

    def __fx_gives__(self) -> Gives[_T_co, _E_co, _R_co]:
        """Tell type checkers the handlers, their failures, and their requirements."""
        ...

    def __fx_bound__(self) -> Any:
        """Return a tool and its layer, a bound toolkit, or the effect that opens a bound toolkit."""


@final
class ToolSource(msgspec.Struct, Generic[_T, _E_co, _R_co], frozen=True):
    """An origin of tools. It is a toolkit with its layer while a scope is open.

    `T` is the union of the handlers. `E` is the failure of opening the source. `R` is the set of services that opening
    the source and the handlers need.
    """

    open: EffectOf[BoundToolkit[_T, _E_co, _R_co], _E_co, Scope | _R_co | None]
    """The effect that opens the source in the enclosing scope. The source closes with the scope."""

    @staticmethod
    def of(origin: Sourced[_T2, _E, _R]) -> ToolSource[_T2, _E, _R]:
        """Return the source of a function tool, composite, or bound toolkit. Return a source unchanged."""
        bound = bound_of(origin)
        return ToolSource(origin.__fx_bound__() if bound is None else Succeed(bound))

    def use(
        self, f: Callable[[Toolkit[_T]], EffectOf[_A, _E2, _T | _R2]]
    ) -> EffectOf[_A, _E_co | _E2, _R_co | _R2 | None]:
        """Run the program that `f` builds from the tools. The source stays open, with its handlers, during the run.

        The effect fails if opening the source fails or if the program fails.
        """

        def run(opened: AnyBound) -> AnyEffect:
            return f(opened.toolkit).provide(opened.layer)

        return scoped(cast("AnyEffect", self.open).flat_map(run))

    def use_stream(
        self, f: Callable[[Toolkit[_T]], StreamOf[_A, _E2, _T | _R2]]
    ) -> StreamOf[_A, _E_co | _E2, _R_co | _R2 | None]:
        """Return the stream that `f` builds from the tools. The source opens, with its handlers, before the first item.

        The source closes when the stream ends or a reader closes it. The stream fails if opening the source fails or if
        the stream from `f` fails.
        """

        def run(opened: AnyBound) -> AnyStream:
            return f(opened.toolkit).provide(opened.layer)

        return StreamOf.unwrap(cast("AnyEffect", self.open).map(run))

    def merge(
        self, other: ToolSource[_T2, _E2, _R2], *, on_conflict: OnConflict = "error"
    ) -> ToolSource[_T | _T2, _E_co | _E2, _R_co | _R2]:
        """Return a source of the tools of both. It opens one source after the other and closes them in reverse.

        If two different tools have the same name and `on_conflict` is `"error"`, opening it raises `ToolConflictError`
        as a defect.
        """
        both: AnyEffect = cast("AnyEffect", self.open).flat_map(
            lambda first: other.open.map(lambda second: first.merge(second, on_conflict=on_conflict))
        )
        return ToolSource(both)

    def with_toolkit(self, f: Callable[[Toolkit[_T]], Toolkit[_T]]) -> Self:
        """Return a source whose toolkit is the result of `f`, with the same handlers. `f` runs at each opening."""
        changed: Any = self.open.map(lambda opened: opened.with_toolkit(f))
        return msgspec.structs.replace(self, open=changed)

    def prefix(self, prefix: str) -> Self:
        """Return the source with `prefix` before the names of its tools."""
        return self.with_toolkit(lambda kit: kit.prefix(prefix))

    def __fx_gives__(self) -> Gives[_T, _E_co, _R_co]:
        """Tell type checkers the handlers, their failures, and their requirements."""
        raise NotImplementedError

    def __fx_bound__(self) -> AnyEffect:
        """Return the effect that opens the source."""
        return self.open

    @override
    def __hash__(self) -> int:
        return id(self.open)
