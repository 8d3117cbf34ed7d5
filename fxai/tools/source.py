"""Sources: tools that come with their handlers, opened for as long as they are needed.

A `BoundToolkit` is a toolkit with its layer. A `ToolSource` gives one, and may have to open something first: it is
what every origin of tools gives, be it functions, the methods of an object, or a server.

Tools of a server come and go in the middle of a run, and must not end it. What was made of such live tools stays as it
was where it cannot be made of what they are now, and a newcomer does not take a name that another tool has. Both are
logged.

>>> from fxai.effects import fx
>>> from fxai.tools.function import tool
>>> @tool
... def add(a: int, b: int) -> int:
...     return a + b
>>> @tool
... def double(n: int) -> int:
...     return n * 2
>>> tools = BoundToolkit.make(add, double)
>>> fx.run_sync(tools.toolkit.call("double", {"n": 4}).provide(tools.layer)).result
8
>>> fx.run_sync(tools.source.use(lambda kit: kit.call("add", {"a": 1, "b": 2}))).result
3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Generic, Never, Protocol, Self, TypeAlias, cast, final, overload

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, EffectOf, Generate, Succeed
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.scope import Scope, scoped
from fxai.effects.stream import AnyStream, StreamOf
from fxai.tools.handler import Given, Gives
from fxai.tools.toolkit import HandlerError, OnConflict, Toolkit

__all__ = ["AnyBound", "BoundToolkit", "Bounds", "Make", "Sourced", "ToolSource", "merged_again", "renewed"]

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
_1 = TypeVar("_1")
_2 = TypeVar("_2")
_3 = TypeVar("_3")
_4 = TypeVar("_4")
_5 = TypeVar("_5")
_6 = TypeVar("_6")
_R1 = TypeVar("_R1")
_R3 = TypeVar("_R3")
_R4 = TypeVar("_R4")
_R5 = TypeVar("_R5")
_R6 = TypeVar("_R6")


AnyBound: TypeAlias = "BoundToolkit[Any, Any, Any]"
"""A bound toolkit whose types are looked at nowhere."""

Bounds: TypeAlias = "tuple[AnyBound, ...]"
"""Some bound toolkits, as they are at one time."""

Make: TypeAlias = "Callable[[Bounds, Bounds, AnyBound], AnyBound]"
"""Makes one of those that there are now, of those that there were, and of what it was then."""


class Sourced(Protocol[_T_co, _E_co, _R_co]):
    """What tools may come from: a function tool, a bound toolkit or a source."""

    def __fx_gives__(self) -> Gives[_T_co, _E_co, _R_co]:
        """For checkers: what it gives."""
        ...

    def __fx_source__(self) -> ToolSource[Any, Any, Any]:
        """The source that it is."""
        ...


class _Bound(Protocol[_T_co, _R_co]):
    """A function tool or a bound toolkit, whose layer cannot fail."""

    def __fx_gives__(self) -> Gives[_T_co, Never, _R_co]: ...

    def __fx_bound__(self) -> AnyBound: ...


@final
class BoundToolkit(Generic[_T, _E_co, _R_co]):
    """A toolkit with the layer of its handlers: an immutable value, equal to one of the same tools and handlers.

    `T` is the union of the handlers, `E` what building them fails with, `R` what they need. One that is live comes
    from where tools come and go, such as a server: `now` gives it as it is then.
    """

    __slots__ = ("_now", "_parts", "_toolkit")

    def __init__(
        self,
        toolkit: Toolkit[_T],
        parts: tuple[tuple[object, AnyLayer], ...],
        now: EffectOf[Any] | None = None,
    ) -> None:
        """Keep all; use `BoundToolkit.of` or `BoundToolkit.make`. A part is where a layer is from, and the layer."""
        self._toolkit = toolkit
        self._parts = parts
        self._now = now

    # -- constructors

    @staticmethod
    def of(
        toolkit: Toolkit[_T2],
        layer: LayerOf[_T2, _E, _R],
        *,
        origin: object = None,
        now: EffectOf[BoundToolkit[_T2, _E, _R]] | None = None,
    ) -> BoundToolkit[_T2, _E, _R]:
        """A toolkit with its layer, such as `toolkit.to_layer(…)` gives.

        Args:
            toolkit: the tools.
            layer: the layer of their handlers.
            origin: where the handlers are from: bound toolkits of one origin are not merged twice. By default it is
                the layer itself.
            now: gives the bound toolkit as it is when it is asked, where its tools may change; by default they do not.
        """
        return BoundToolkit(toolkit, ((layer if origin is None else origin, layer),), now)

    @overload
    @staticmethod
    def make() -> BoundToolkit[Never]: ...
    @overload
    @staticmethod
    def make(a: _Bound[_1, _R1], /) -> BoundToolkit[_1, Never, _R1]: ...
    @overload
    @staticmethod
    def make(a: _Bound[_1, _R1], b: _Bound[_2, _R2], /) -> BoundToolkit[_1 | _2, Never, _R1 | _R2]: ...
    @overload
    @staticmethod
    def make(
        a: _Bound[_1, _R1], b: _Bound[_2, _R2], c: _Bound[_3, _R3], /
    ) -> BoundToolkit[_1 | _2 | _3, Never, _R1 | _R2 | _R3]: ...
    @overload
    @staticmethod
    def make(
        a: _Bound[_1, _R1], b: _Bound[_2, _R2], c: _Bound[_3, _R3], d: _Bound[_4, _R4], /
    ) -> BoundToolkit[_1 | _2 | _3 | _4, Never, _R1 | _R2 | _R3 | _R4]: ...
    @overload
    @staticmethod
    def make(
        a: _Bound[_1, _R1], b: _Bound[_2, _R2], c: _Bound[_3, _R3], d: _Bound[_4, _R4], e: _Bound[_5, _R5], /
    ) -> BoundToolkit[_1 | _2 | _3 | _4 | _5, Never, _R1 | _R2 | _R3 | _R4 | _R5]: ...
    @overload
    @staticmethod
    def make(
        a: _Bound[_1, _R1],
        b: _Bound[_2, _R2],
        c: _Bound[_3, _R3],
        d: _Bound[_4, _R4],
        e: _Bound[_5, _R5],
        f: _Bound[_6, _R6],
        /,
    ) -> BoundToolkit[_1 | _2 | _3 | _4 | _5 | _6, Never, _R1 | _R2 | _R3 | _R4 | _R5 | _R6]: ...
    @overload  # of seven at least: where both this one and one above fit, `Any` in a type makes mypy give up
    @staticmethod
    def make(
        a: _Bound[_T2, _R],
        b: _Bound[_T2, _R],
        c: _Bound[_T2, _R],
        d: _Bound[_T2, _R],
        e: _Bound[_T2, _R],
        f: _Bound[_T2, _R],
        g: _Bound[_T2, _R],
        /,
        *tools: _Bound[_T2, _R],
    ) -> BoundToolkit[_T2, Never, _R]: ...
    @staticmethod
    def make(*tools: Any) -> Any:
        """Function tools and bound toolkits as one; up to six of different types, any number of one type.

        Raises:
            ToolConflictError: two different tools have one name.
        """
        made: AnyBound = BoundToolkit(Toolkit.empty(), ())
        for each in tools:
            made = made.merge(each.__fx_bound__())
        return made

    # -- what it holds

    @property
    def toolkit(self) -> Toolkit[_T]:
        """The tools."""
        return self._toolkit

    @property
    def layer(self) -> LayerOf[_T, _E_co, _R_co]:
        """The layer of their handlers.

        Building it raises `HandlerError` where one tool has two different handlers.
        """
        merged: AnyLayer = LayerOf.empty()
        for _, layer in self._parts:
            merged = merged | layer
        return merged.map_context(_checked)

    @property
    def is_live(self) -> bool:
        """True where its tools may change while it is open."""
        return self._now is not None

    @property
    def now(self) -> EffectOf[BoundToolkit[_T, _E_co, _R_co]]:
        """The bound toolkit as it is when the effect runs: itself, unless it is live."""
        return Succeed(self) if self._now is None else self._now

    @property
    def source(self) -> ToolSource[_T, _E_co, _R_co]:
        """The source of these tools, with nothing to open."""
        return ToolSource(Succeed(self))

    def __fx_gives__(self) -> Gives[_T, _E_co, _R_co]:
        """For checkers: what it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> BoundToolkit[_T, _E_co, _R_co]:
        """Itself."""
        return self

    def __fx_source__(self) -> ToolSource[_T, _E_co, _R_co]:
        """The source that it is."""
        return self.source

    # -- bound toolkits from bound toolkits

    def merge(
        self, other: BoundToolkit[_T2, _E2, _R2], *, on_conflict: OnConflict = "error"
    ) -> BoundToolkit[_T | _T2, _E_co | _E2, _R_co | _R2]:
        """The tools of both, these first, with the handlers of both; handlers of one origin are taken once.

        Where one is live and gets a tool whose name another one has, the newcomer is left out and that is logged.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        kept = [origin for origin, _ in self._parts]
        parts = (*self._parts, *(part for part in other._parts if part[0] not in kept))
        toolkit = self._toolkit.merge(other._toolkit, on_conflict=on_conflict)
        made: AnyBound = BoundToolkit(toolkit, parts)
        return made._following((self, other), lambda now, was, made: _merged(now, was, made, on_conflict))

    def without_handlers_of(self, other: AnyBound) -> Self:
        """The same tools, with those handlers whose origin is none of `other`'s; a live one is itself."""
        theirs = [origin for origin, _ in other._parts]
        parts = tuple(part for part in self._parts if part[0] not in theirs)
        return self if self.is_live else type(self)(self._toolkit, parts)

    def with_toolkit(self, f: Callable[[Toolkit[_T]], Toolkit[_T]]) -> Self:
        """The same handlers, with what `f` makes of the tools: `lambda kit: kit.omit("reset").prefix("calc.")`.

        Of live ones it is asked again when they have changed. Where it raises then, they stay as they were, and that is
        logged.
        """
        made = type(self)(f(self._toolkit), self._parts)
        return made._following((self,), lambda now, _before, _made: now[0].with_toolkit(f))

    def prefix(self, prefix: str) -> Self:
        """The same, with `prefix` before the tools' names."""
        return self.with_toolkit(lambda kit: kit.prefix(prefix))

    def _following(self, of: Bounds, make: Make) -> Self:
        """This, just made of others, which is made anew when those have changed; see `renewed`."""
        if any(bound.is_live for bound in of):
            self._now = renewed(self, of, make)
        return self

    # -- as a value

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundToolkit):
            return NotImplemented
        theirs: AnyBound = cast(Any, other)
        return self._toolkit == theirs._toolkit and [p[0] for p in self._parts] == [p[0] for p in theirs._parts]

    @override
    def __hash__(self) -> int:
        return hash((BoundToolkit, self._toolkit))

    @override
    def __repr__(self) -> str:
        return f"BoundToolkit({', '.join(self._toolkit.tools)})"


def _merged(now: Bounds, before: Bounds, made: Any, on_conflict: OnConflict) -> AnyBound:
    """A merge that is made anew: where the names of others clash in the middle of a run, nothing raises."""
    if on_conflict == "error":
        return merged_again(now, before, made)
    return now[0].merge(now[1], on_conflict=on_conflict)


def _checked(context: ContextOf[Any]) -> ContextOf[Any]:
    givers = Counter(key.identity for key in context if isinstance(key, Given))
    doubled = [identity.name for identity, number in givers.items() if number > 1]
    if doubled:
        raise HandlerError(
            f"two handlers for: {', '.join(doubled)}; tools made alike from two objects need different names when "
            "they are made, such as by Toolkit.from_object(obj, name=…)"
        )
    return context


@final
class ToolSource(msgspec.Struct, Generic[_T, _E_co, _R_co], frozen=True):
    """Where tools come from: a toolkit with its layer, there for as long as a scope is open.

    `T` is the union of the handlers, `E` what opening it fails with, `R` what opening it and the handlers need.
    """

    open: EffectOf[BoundToolkit[_T, _E_co, _R_co], _E_co, Scope | _R_co | None]
    """Opens it into the scope around, with which it closes."""

    @staticmethod
    def of(origin: Sourced[_T2, _E, _R]) -> ToolSource[_T2, _E, _R]:
        """The source of a function tool, of a bound toolkit, or of a source, which is itself."""
        return origin.__fx_source__()

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

    def __fx_source__(self) -> ToolSource[_T, _E_co, _R_co]:
        """Itself."""
        return self

    @override
    def __hash__(self) -> int:
        return id(self.open)


# -- live tools: what they have become, made anew only where they changed


def renewed(made: AnyBound, of: Bounds, make: Make) -> EffectOf[Any]:
    """The effect of what is made of some bound toolkits as they are when it runs: `made` is, of what they were.

    It is the same value as long as none of them changes; else `make(now, before, made)` says what it is now.

    >>> from fxai.effects import fx
    >>> from fxai.tools.tool import Tool
    >>> first, then = (BoundToolkit(Toolkit.make(Tool.make(name, success=int)), ()) for name in ("add", "double"))
    >>> live = BoundToolkit(first.toolkit, (), fx.succeed(then)).prefix("sum_")
    >>> live, fx.run_sync(live.now)
    (BoundToolkit(sum_add), BoundToolkit(sum_double))
    """
    return Generate(_Renewal(made, of, make).steps, (), {})


@final
class _Renewal:
    """What was last made, and of what."""

    __slots__ = ("_last", "_make", "_of")

    def __init__(self, made: AnyBound, of: Bounds, make: Make) -> None:
        self._of = of
        self._make = make
        self._last = (of, made)  # one value: runs in several threads see what belongs together

    def steps(self) -> Generator[EffectOf[Any], Any, AnyBound]:
        """The steps of asking them all, and of making it."""
        now: Bounds = ()
        for bound in self._of:
            now = (*now, (yield bound.now))
        before, made = self._last
        if any(one is not then for one, then in zip(now, before, strict=True)):
            made = self._made(now, before, made)
            self._last = (now, made)
        return made

    def _made(self, now: Bounds, before: Bounds, made: AnyBound) -> AnyBound:
        try:
            return self._make(now, before, made)
        except Exception as error:  # of a function that was written for the tools that there were
            _warn("the tools stay as they were, for nothing can be made of what they are now: %s", error)
            return made


def merged_again(now: Bounds, before: Bounds, made: AnyBound) -> AnyBound:
    """Two bound toolkits as one, where two tools may have come to have one name: the one that was there stays.

    Where both are new, it is the first one's.
    """
    first, second = now
    theirs = second.toolkit.tools
    taken = {tool.name for tool in first.toolkit if theirs.get(tool.name, tool) != tool}
    if not taken:
        return first.merge(second)
    stays = {name for name in taken if _is_of_second(name, before, made)}
    for name in sorted(taken):
        if not all(name in bound.toolkit for bound in before):
            _warn("a new tool %r is left out, because another one is called so: prefix those of one source", name)
    return _omitting(first, stays).merge(_omitting(second, taken - stays))


def _is_of_second(name: str, before: Bounds, made: AnyBound) -> bool:
    was = made.toolkit.tools.get(name)
    first, second = (bound.toolkit.tools.get(name) for bound in before)
    return was is not None and was == second and was != first


def _omitting(bound: AnyBound, names: set[str]) -> AnyBound:
    return bound.with_toolkit(lambda kit: kit.filter(lambda tool: tool.name not in names)) if names else bound


def _warn(message: str, *about: object) -> None:
    import logging  # few tools change

    logging.getLogger("fxai.tools").warning(message, *about)
