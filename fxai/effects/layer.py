"""Layers, which build services. Use them to supply the services that a program needs.

A `Layer[Out, E, In]` builds the services `Out`, can fail with `E`, and needs the services `In` to build them. One build
builds each layer value once and shares it. When the program that received the layer ends, fxai releases the acquired
resources in reverse order. If an enclosing program has already built a layer, fxai shares it and does not build it
again.

The class `MemoMap` implements this sharing. The outermost `provide` adds a memo map to the context, and nested calls
find it there. A program shares a built layer if its context contains the services with which the layer was built. If
the context contains other services, fxai builds the layer again. Each user of a layer adds a finalizer to its own
scope. The last scope to close releases the resources of the layer.

>>> from fxai.effects import Tag, fx
>>> class Name(Tag[str]):
...     pass
>>> class Greeting(Tag[str]):
...     pass
>>> greeting = Layer.effect(Greeting, fx.service(Name).map(lambda name: f"Hello, {name}."))
>>> fx.run_sync(fx.service(Greeting).provide(greeting).provide(Layer.succeed(Name, "Ann")))
'Hello, Ann.'
"""

# pyright takes the overloads for hundreds of arguments for ones that also match a few, and reads what is for mypy.
# pyright: reportOverlappingOverload=false, reportRedeclaration=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, TypeAlias, cast, final, overload

import anyio
import msgspec
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects.cause import AnyExit, Exit, Succeeded
from fxai.effects.concurrency import parallel
from fxai.effects.context import EMPTY, AnyContext, Branching, ContextOf, Key, Placed, enclose
from fxai.effects.effect import (
    AnyEffect,
    Ask,
    Await,
    EffectOf,
    FailCause,
    FlatMap,
    Instruction,
    Local,
    Needs,
    OnExit,
    Succeed,
    Suspend,
    Within,
)
from fxai.effects.mistake import MYPY, not_a_layer
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.service import ReferenceMeta
from fxai.effects.stream import StreamOf, provide_stream

if TYPE_CHECKING:
    from fxai.effects.schedule import Schedule

Build: TypeAlias = "Callable[[MemoMap, Scope], EffectOf[AnyContext, Any, Any]]"
Make: TypeAlias = Callable[[AnyContext], AnyContext]

_ABSENT = object()


@final
class MemoMap(msgspec.Struct, eq=False):
    """The layers of one program that are built or in construction."""

    _entries: dict[object, list[_Entry]] = {}

    @staticmethod
    def of(context: AnyContext) -> MemoMap:
        """Return the memo map of the context, or a new memo map."""
        found = context.find(MemoMap)
        return MemoMap() if found is None else cast(MemoMap, found)

    def into(self, context: AnyContext) -> AnyContext:
        """Return the context in which nested programs share this map."""
        return context if context.find(MemoMap) is self else context.put(MemoMap, self)

    def share(self, layer: object, build: Build, scope: Scope) -> AnyEffect:
        """Return the effect of the services of `layer`, held until `scope` closes.

        The effect shares the services if they were built in a matching context. Otherwise it builds them.
        """

        def start(context: AnyContext) -> AnyEffect:
            for entry in self._entries.get(layer, ()):
                if entry.serves(context):
                    entry.hold(scope, is_shared=True)
                    return entry.join(lambda: self.share(layer, build, scope))

            entry = _Entry(self, layer, context, Scope())
            self._entries.setdefault(layer, []).append(entry)
            entry.hold(scope)
            return entry.build(build)

        return Within(start)

    def forget(self, entry: _Entry) -> None:
        """Remove the entry, so that the next program builds the layer again."""
        entries = self._entries.get(entry.layer, [])
        if entry in entries:
            entries.remove(entry)
        if not entries:
            self._entries.pop(entry.layer, None)


class _Entry(msgspec.Struct, eq=False):
    _memo: MemoMap
    layer: object
    _context: AnyContext
    _scope: Scope
    _holders: int = 0
    _exit: Exit[AnyContext, Any] | None = None
    _ready: anyio.Event | None = None

    def serves(self, context: AnyContext) -> bool:
        """Return true if every service of the context of this entry is also in `context`.

        A service that is missing in `context` is not a dependency of the layer, so fxai ignores it. A missing
        reference is a difference, because it has a default.
        """
        mine = self._context
        return mine is context or all(_same(key, mine.find(key), context.find(key, _ABSENT)) for key in mine)

    def hold(self, scope: Scope, *, is_shared: bool = False) -> None:
        """Hold the entry until `scope` closes."""
        self._holders += 1
        self._scope.is_of_one = scope.is_of_one and not is_shared
        scope.add(self._let_go)

    def _let_go(self, exit_: AnyExit) -> EffectOf[Any, Any, None]:
        self._holders -= 1
        if self._holders:
            return NOTHING

        self._memo.forget(self)
        return self._scope.close(exit_)

    def build(self, build: Build) -> EffectOf[AnyContext, Any, Any]:
        """Return the effect that builds the layer and wakes the waiting programs."""

        def finish(exit_: Exit[AnyContext, Any]) -> EffectOf[None]:
            self._exit = exit_
            if isinstance(exit_, Succeeded):
                return self._wake()
            self._memo.forget(self)
            return self._scope.close(exit_).ensuring(Suspend(self._wake))

        return OnExit(Suspend(lambda: build(self._memo, self._scope)), finish)

    def _wake(self) -> EffectOf[None]:
        if self._ready is not None:
            self._ready.set()
        return NOTHING

    def join(self, again: Callable[[], AnyEffect]) -> EffectOf[AnyContext, Any, Any]:
        """Return the effect that waits for the build of another fiber. If that was interrupted, this fiber builds."""
        if self._exit is not None:
            return self._outcome(self._exit, again)

        ready = self._ready = self._ready or anyio.Event()
        waited: EffectOf[Any] = Await(lambda _: ready.wait())
        return waited.flat_map(lambda _: self._outcome(cast("Exit[AnyContext, Any]", self._exit), again))

    @staticmethod
    def _outcome(exit_: Exit[AnyContext, Any], again: Callable[[], AnyEffect]) -> AnyEffect:
        if isinstance(exit_, Succeeded):
            return Succeed(exit_.value)
        return again() if exit_.cause.interrupted else FailCause(exit_.cause)


def _same(key: object, built_with: object, found: object) -> bool:
    if key is Scope or key is MemoMap or key is Branching:
        return True
    if isinstance(found, Placed) and isinstance(built_with, Placed):
        return found.trunk_of is built_with.trunk_of
    return found is built_with or (found is _ABSENT and not isinstance(key, ReferenceMeta))


if TYPE_CHECKING:
    _A = TypeVar("_A")
    _E = TypeVar("_E")
    _E2 = TypeVar("_E2")
    _R = TypeVar("_R")
    _X = TypeVar("_X", default=Never)
    _N = TypeVar("_N", default=None)
    _R2 = TypeVar("_R2")
    _I = TypeVar("_I")
    _I2 = TypeVar("_I2")
    _I3 = TypeVar("_I3")
    _I4 = TypeVar("_I4")
    _S = TypeVar("_S")
    _T = TypeVar("_T")
    _Out2 = TypeVar("_Out2")
    _A_co = TypeVar("_A_co", covariant=True)
    _N_co = TypeVar("_N_co", covariant=True)
    _T_co = TypeVar("_T_co", covariant=True)
    _T_contra = TypeVar("_T_contra", contravariant=True)

_Out = TypeVar("_Out", default=Never)
_Out_contra = TypeVar("_Out_contra", contravariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_In_co = TypeVar("_In_co", covariant=True, default=None)


@final
class Many:
    """A member of large unions, which keeps mypy from joining them to `object`. Only type checkers use it."""


if TYPE_CHECKING:
    # Each type variable takes at most 60 arguments: pyright drops types after the 62nd, and the time of mypy grows with
    # the third power of the number.
    _Fifteen = TypeAliasType(
        "_Fifteen", tuple[_T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T], type_params=(_T,)
    )
    Over60 = TypeAliasType(
        "Over60",
        tuple[*_Fifteen[_I], *_Fifteen[_I2], *_Fifteen[_I3], *_Fifteen[_I4], _T, *tuple[_T, ...]],
        type_params=(_I, _I2, _I3, _I4, _T),
    )
    """Arguments of five types, at least 61: fifteen of each of the first four."""
    Over120 = TypeAliasType(
        "Over120",
        tuple[*_Fifteen[_I], *_Fifteen[_I2], *_Fifteen[_I3], *_Fifteen[_I4], *Over60[_I, _I2, _I3, _I4, _T]],
        type_params=(_I, _I2, _I3, _I4, _T),
    )
    """Arguments of five types, at least 121: thirty of each of the first four."""
    Over180 = TypeAliasType(
        "Over180",
        tuple[*_Fifteen[_I], *_Fifteen[_I2], *_Fifteen[_I3], *_Fifteen[_I4], *Over120[_I, _I2, _I3, _I4, _T]],
        type_params=(_I, _I2, _I3, _I4, _T),
    )
    """Arguments of five types, at least 181: 45 of each of the first four."""
    Over240 = TypeAliasType(
        "Over240",
        tuple[*_Fifteen[_I], *_Fifteen[_I2], *_Fifteen[_I3], *_Fifteen[_I4], *Over180[_I, _I2, _I3, _I4, _T]],
        type_params=(_I, _I2, _I3, _I4, _T),
    )
    """Arguments of five types, at least 241: sixty of each of the first four."""

    class _Ready(Protocol[_A_co, _N_co, _E_co]):
        """An effect, seen by what it needs."""

        def __fx_ends__(self) -> EffectOf[_A_co, _E_co, Any]: ...
        def __fx_needs__(self) -> _N_co: ...

    @final
    class StillMissing(Generic[_T, _E_co, _In_co]):
        """The required services that a layer does not supply, with its failures and needs. For type checkers only."""

    @final
    class Supply(Generic[_Out_contra, _E_co, _In_co]):
        """The services that a layer supplies. Only type checkers use this class. It has no instances."""

        if MYPY:  # mypy needs the third power of time to find what is missing: first, whether nothing is

            @overload
            def __call__(self, needs: Needs[_Out_contra | None], /) -> StillMissing[None, _E_co, _In_co]: ...
            @overload
            def __call__(self, needs: Needs[_Out_contra | _R2], /) -> StillMissing[_R2, _E_co, _In_co]: ...
            def __call__(self, needs: Needs[Any], /) -> StillMissing[Any, _E_co, _In_co]:  # noqa: D102
                raise NotImplementedError

        else:

            def __call__(self, needs: Needs[_Out_contra | Many | _N | None], /) -> StillMissing[_N, _E_co, _In_co]:
                """Return what is still missing of the services that a program needs, or None if nothing is missing."""
                raise NotImplementedError

    class _Built(Protocol[_T_co, _E_co, _In_co]):
        """The type of a layer, reduced to the services that it builds."""

        def __fx_built__(self) -> EffectOf[_T_co, _E_co, _In_co]: ...

    class _Supplies(Protocol[_T_co, _E_co, _In_co]):
        """The type of one of a few layers, reduced to the services that it builds."""

        def __fx_supplies__(self) -> EffectOf[_T_co, _E_co, _In_co]: ...

    class _Joins(Protocol[_T_contra, _T_co]):
        """The type of a layer, reduced to the merged layer that it forms with another layer."""

        def __fx_join__(self, first: _T_contra, /) -> _T_co: ...


@final
class Merging(Generic[_Out_contra, _E_co, _In_co]):
    """The marker that `provide_merge` passes to another layer. It has the type parameters of the layer."""

    __slots__ = ("layer",)

    def __init__(self, layer: LayerOf[_Out_contra, _E_co, _In_co]) -> None:
        self.layer: LayerOf[_Out_contra, _E_co, _In_co] = layer


class LayerOf(Generic[_Out_contra, _E_co, _In_co]):
    """A constructor of the services `Out`. A layer of `A | B` is also a layer of `A`."""

    __slots__ = ("__fx_build__", "__fx_make__", "__fx_merged__", "__fx_shared__")

    def __init__(self, build: Build, *, shared: bool = True) -> None:
        self.__fx_build__: Build = build
        self.__fx_make__: Make | None = None  # the whole build, if it runs no effect and acquires nothing
        self.__fx_shared__: bool = shared
        self.__fx_merged__: Sequence[AnyLayer] = ()  # the layers that `merge` combined

    if not TYPE_CHECKING:

        @classmethod
        def __class_getitem__(cls, _: Any) -> Any:
            return cls  # only checkers use subscripts

    # -- constructors

    @staticmethod
    def succeed(key: Key[_I, _S], service: _S) -> LayerOf[_I, Never, None]:
        """Return the layer of an existing service.

        Raises:
            TypeError: If `key` is not a key of a service.
        """
        context: AnyContext = ContextOf.make(key, service)
        return layer_from_context(lambda _: context)

    @staticmethod
    def sync(key: Key[_I, _S], make: Callable[[], _S]) -> LayerOf[_I, Never, None]:
        """Return the layer of the service that `make` returns. Each build calls `make` once.

        Raises:
            TypeError: If `make` is a class with abstract methods.
        """
        missing = ", ".join(sorted(getattr(make, "__abstractmethods__", ())))
        if missing:
            raise TypeError(f"Layer.sync cannot call {make!r}, which does not define {missing}. Pass a concrete class.")
        return LayerOf(lambda _, __: Suspend(lambda: Succeed(ContextOf.make(key, make()))))

    @staticmethod
    def effect(key: Key[_I, _S], effect: EffectOf[_S, _E, _R]) -> LayerOf[_I, _E, _R | None]:
        """Return the layer of the value of `effect`."""
        return LayerOf(lambda _, __: effect.map(lambda service: ContextOf.make(key, service)))

    @staticmethod
    def scoped(key: Key[_I, _S], effect: EffectOf[_S, _E, Scope | _R2]) -> LayerOf[_I, _E, _R2 | None]:
        """Return the layer of the value of `effect`. The layer releases the resources of `effect`."""
        return LayerOf(lambda _, scope: scope.around(effect).map(lambda service: ContextOf.make(key, service)))

    @staticmethod
    def effect_context(effect: EffectOf[ContextOf[_I], _E, _R]) -> LayerOf[_I, _E, _R | None]:
        """Return the layer of all services in the context that `effect` returns."""
        return LayerOf(lambda _, __: effect)

    @staticmethod
    def scoped_context(effect: EffectOf[ContextOf[_I], _E, Scope | _R2]) -> LayerOf[_I, _E, _R2 | None]:
        """Return the layer of all services in a context. The layer releases the resources of `effect`."""
        return LayerOf(lambda _, scope: scope.around(effect))

    @staticmethod
    def empty() -> LayerOf[Never, Never, None]:
        """Return the layer without services. `layer.merge(Layer.empty())` equals `layer`."""
        return layer_from_context(lambda _: EMPTY)

    @staticmethod
    def suspend(make: Callable[[], LayerOf[_Out2, _E, _R]]) -> LayerOf[_Out2, _E, _R]:
        """Return a layer that calls `make` when it is built and builds the layer that `make` returns."""
        return LayerOf(lambda memo, scope: Suspend(lambda: build_layer(make(), memo, scope)))

    @overload  # with Never first: pyright solves `E | E2` to Unknown when both are Never
    @staticmethod
    def unwrap(effect: EffectOf[LayerOf[_Out2, _E, _R], Never, _R2]) -> LayerOf[_Out2, _E, _R | _R2]: ...
    @overload
    @staticmethod
    def unwrap(effect: EffectOf[LayerOf[_Out2, _E, _R], _E2, _R2]) -> LayerOf[_Out2, _E | _E2, _R | _R2]: ...
    @staticmethod
    def unwrap(effect: EffectOf[AnyLayer, Any, Any]) -> AnyLayer:
        """Return a layer that runs `effect` and builds the layer that `effect` returns."""
        return LayerOf(lambda memo, scope: effect.flat_map(lambda layer: build_layer(layer, memo, scope)))

    # -- building

    def build(self) -> EffectOf[ContextOf[_Out_contra], _E_co, _In_co | Scope | None]:
        """Return the effect that builds the layer in the enclosing scope."""

        def start(context: AnyContext) -> EffectOf[ContextOf[_Out_contra], _E_co, _In_co]:
            return build_layer(self, MemoMap.of(context), context.fetch(Scope))

        return Within(start)

    # -- combination

    @overload
    def merge(self, other: LayerOf[_Out2, _E2, _R2]) -> LayerOf[_Out_contra | _Out2, _E_co | _E2, _In_co | _R2]: ...
    @overload  # for mypy, if the target is declared and the other layer supplies several services
    def merge(self, other: _Joins[LayerOf[_Out_contra, _E_co, _In_co], _T]) -> _T: ...
    def merge(self, other: Any) -> Any:
        """Return the layer of the services of both layers, built concurrently. For a common key, `other` wins."""
        return _merge((self, other))

    __or__ = merge

    if not MYPY:  # pyright infers no union of variables from the parameter of `to_layer`

        @overload
        @staticmethod
        def merge_all(a: _Supplies[_I, _E, _R], b: _Supplies[_I, _E, _R], /) -> MergedOf[_I, _E, _R]: ...
        @overload
        @staticmethod
        def merge_all(
            a: _Supplies[_I, _E, _R], b: _Supplies[_I, _E, _R], c: _Supplies[_I, _E, _R], /
        ) -> MergedOf[_I, _E, _R]: ...
        @overload
        @staticmethod
        def merge_all(
            a: _Supplies[_I, _E, _R], b: _Supplies[_I, _E, _R], c: _Supplies[_I, _E, _R], d: _Supplies[_I, _E, _R], /
        ) -> MergedOf[_I, _E, _R]: ...

    # mypy infers the type of an inline `Layer.succeed(…)` from the parameter, so the first four layers have own types.
    @overload
    @staticmethod
    def merge_all(a: LayerOf[_I, _E, _R], b: LayerOf[_I2, _E, _R], /) -> MergedOf[_I | _I2, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        a: LayerOf[_I, _E, _R], b: LayerOf[_I2, _E, _R], c: LayerOf[_I3, _E, _R], /
    ) -> MergedOf[_I | _I2 | _I3, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        a: LayerOf[_I, _E, _R], b: LayerOf[_I2, _E, _R], c: LayerOf[_I3, _E, _R], d: LayerOf[_I4, _E, _R], /
    ) -> MergedOf[_I | _I2 | _I3 | _I4, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        *layers: *Over240[
            _Built[_I, _E, _R], _Built[_I2, _E, _R], _Built[_I3, _E, _R], _Built[_I4, _E, _R], _Built[_T, _E, _R]
        ],
    ) -> MergedOf[_I | _I2 | _I3 | _I4 | _T, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        *layers: *Over180[
            _Built[_I, _E, _R], _Built[_I2, _E, _R], _Built[_I3, _E, _R], _Built[_I4, _E, _R], _Built[_T, _E, _R]
        ],
    ) -> MergedOf[_I | _I2 | _I3 | _I4 | _T, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        *layers: *Over120[
            _Built[_I, _E, _R], _Built[_I2, _E, _R], _Built[_I3, _E, _R], _Built[_I4, _E, _R], _Built[_T, _E, _R]
        ],
    ) -> MergedOf[_I | _I2 | _I3 | _I4 | _T, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(
        *layers: *Over60[
            _Built[_I, _E, _R], _Built[_I2, _E, _R], _Built[_I3, _E, _R], _Built[_I4, _E, _R], _Built[_T, _E, _R]
        ],
    ) -> MergedOf[_I | _I2 | _I3 | _I4 | _T, _E, _R]: ...
    @overload
    @staticmethod
    def merge_all(*layers: _Built[_I, _E, _R]) -> MergedOf[_I, _E, _R]: ...
    @staticmethod
    def merge_all(*layers: Any) -> AnyLayer:
        """Return the layer of the services of any number of layers: `Layer.merge_all(a, b, c)`.

        fxai builds the layers concurrently. Use this method for many layers: checkers need minutes for a hundred
        layers in the form `a | b | c`. If layers fail differently, mypy infers only `object` as the failure. If a
        target is declared, mypy infers exact types with `Layer.merge_all(a, b, c).layer`.

        Raises:
            TypeError: If a value is not a layer.
        """
        return _merge(layers)

    def provide(self, dependency: Callable[[LayerOf[_Out_contra, _E_co, _In_co | None]], _T]) -> _T:
        """Return this layer with the services of `dependency`, which are neither needed nor in the output.

        Raises:
            TypeError: If `dependency` is not a layer.
        """
        if isinstance(dependency, type) or not callable(dependency):
            raise not_a_layer(dependency)
        return dependency(self)

    def provide_merge(self, dependency: Callable[[Merging[_Out_contra, _E_co, _In_co | None]], _T]) -> _T:
        """Return this layer with the services of `dependency`, which stay in the output.

        The result equals `a.provide(b) | b`. Write that form if mypy reports a false error. mypy does so if this layer
        supplies several services and still needs several other services.
        """
        return dependency(Merging(self))

    def fresh(self) -> LayerOf[_Out_contra, _E_co, _In_co]:
        """Return a layer without sharing. Each use builds it again, with its own inputs."""

        def build(_: MemoMap, scope: Scope) -> AnyEffect:
            return Suspend(lambda: self.__fx_build__(MemoMap(), scope))

        return LayerOf(build, shared=False)

    def map_error(self, f: Callable[[_E_co], _E2]) -> LayerOf[_Out_contra, _E2, _In_co]:
        """Return the layer with `f` applied to each typed failure."""
        return LayerOf(lambda memo, scope: build_layer(self, memo, scope).map_error(f))

    def or_die(self) -> LayerOf[_Out_contra, Never, _In_co]:
        """Return the layer with its typed failures as defects."""
        return LayerOf(lambda memo, scope: build_layer(self, memo, scope).or_die())

    def catch_all(self, f: Callable[[_E_co], LayerOf[_Out2, _E2, _R2]]) -> LayerOf[_Out2, _E2, _In_co | _R2]:
        """Return a layer that handles a typed failure with the layer `f(failure)`.

        fxai first releases the resources of the failed layer. Annotate the target: `Out` is the set of services that
        both layers supply.
        """

        def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
            built: AnyEffect = _attempt(lambda own: build_layer(self, memo, own), scope)
            return built.catch_all(lambda error: build_layer(f(error), memo, scope))

        return LayerOf(build)

    def retry(self, schedule: Schedule[_E_co, Any]) -> LayerOf[_Out_contra, _E_co, _In_co]:
        """Return a layer that builds again after typed failures until `schedule` ends.

        fxai releases the resources of a failed attempt before the next attempt.
        """
        return LayerOf(lambda memo, scope: _attempt(lambda own: self.__fx_build__(memo, own), scope).retry(schedule))

    # -- for checkers: the supplied services

    def __fx_join__(
        self, first: LayerOf[_Out2, _E2, _R2], /
    ) -> LayerOf[_Out2 | _Out_contra, _E2 | _E_co, _R2 | _In_co]:
        raise NotImplementedError

    def __fx_built__(self) -> EffectOf[_Out_contra | Many, _E_co, _In_co]:
        raise NotImplementedError

    def __fx_supplies__(self) -> EffectOf[_Out_contra, _E_co, _In_co]:
        raise NotImplementedError

    @property
    def __fx_supply__(self) -> Supply[_Out_contra, _E_co, _In_co]:
        raise NotImplementedError

    # -- use: `provide` calls the layer

    @overload
    def __call__(self, target: _Ready[_A, Needs[_Out_contra | None], _E]) -> EffectOf[_A, _E | _E_co, _In_co]: ...
    @overload
    def __call__(self, target: EffectOf[_A, _E, _Out_contra | _R2]) -> EffectOf[_A, _E | _E_co, _In_co | _R2]: ...
    @overload
    def __call__(self, target: StreamOf[_A, _E, _Out_contra | _R2]) -> StreamOf[_A, _E | _E_co, _In_co | _R2]: ...
    @overload
    def __call__(self, target: LayerOf[_Out2, _E2, _Out_contra | _R2]) -> LayerOf[_Out2, _E2 | _E_co, _In_co | _R2]: ...
    @overload
    def __call__(
        self, target: Merging[_Out2, _E2, _Out_contra | _R2]
    ) -> LayerOf[_Out2 | _Out_contra, _E2 | _E_co, _In_co | _R2]: ...
    def __call__(self, target: Any) -> Any:
        """Return `target` with the services of this layer. Users write `target.provide(layer)`."""
        if isinstance(target, EffectOf):
            make = self.__fx_make__
            return _Provided(target, self) if make is None else _JoinedContext(target, make)
        if isinstance(target, StreamOf):
            return provide_stream(cast(Any, target), self.build())
        if isinstance(target, Merging):
            return _feed(cast(Any, target).layer, self, keep=True)
        return _feed(target, self, keep=False)


@final
class MergedOf(LayerOf[_Out, _E_co, _In_co]):
    """Many layers as one layer. For checkers, it supplies exactly the services `Out`."""

    __slots__ = ()

    @property
    def layer(self) -> LayerOf[_Out, _E_co, _In_co]:
        """The layer as the type `LayerOf`."""
        return self


def layer_from_context(make: Make) -> AnyLayer:
    """Return the layer of `make(context)`. Building it runs no effect, acquires nothing, and shares nothing."""
    layer: AnyLayer = LayerOf(lambda _, __: Ask(make), shared=False)
    layer.__fx_make__ = make
    return layer


def build_layer(layer: LayerOf[_I, _E, _R], memo: MemoMap, scope: Scope) -> EffectOf[ContextOf[_I], _E, _R]:
    """Return the effect that builds the layer or shares it from `memo`. Closing `scope` releases the layer."""
    if not layer.__fx_shared__:
        return layer.__fx_build__(memo, scope)
    return memo.share(layer, layer.__fx_build__, scope)


def map_layer_context(layer: LayerOf[_I, _E, _R], f: Make, *, is_pure: bool = False) -> LayerOf[_I, _E, _R]:
    """Return the layer with `f` applied to its context in each use. `f` must keep the services of the layer.

    With `is_pure`, the layer and `f` depend only on services, so the layer stores its context for no services.
    """
    make = layer.__fx_make__
    if make is None:
        return LayerOf(lambda memo, scope: build_layer(layer, memo, scope).map(f), shared=False)
    stored: AnyContext | None = None

    def remake(context: AnyContext) -> AnyContext:
        nonlocal stored
        if context is not EMPTY or not is_pure:
            return f(make(context))
        if stored is None:
            stored = f(make(context))
        return stored

    return layer_from_context(remake)


@final
class _JoinedContext(Instruction, eq=False):
    """An effect with services that need no effect to build."""

    source: Any
    make: Make
    op = Local.op

    def f(self, context: AnyContext) -> AnyContext:
        services = {**context.services, **self.make(context).services}
        if MemoMap not in services:
            services[MemoMap] = MemoMap()
        return ContextOf(services)


@final
class _Provided(Instruction, eq=False):
    """An effect with the services of a layer. It builds the layer at its start and releases the layer at its end."""

    source: Any
    layer: AnyLayer
    op = Within.op

    def f(self, context: AnyContext) -> AnyEffect:
        memo = MemoMap.of(context)
        scope = Scope()
        scope.is_of_one = True
        built = FlatMap(
            build_layer(self.layer, memo, scope),
            lambda services: Local(enclose(self.source, services), lambda around: memo.into(around.merge(services))),
        )
        return OnExit(built, scope.release)


def _merge(layers: tuple[AnyLayer, ...]) -> MergedOf[Any, Any, Any]:
    """Return the layer of the services of all layers. For a common key, the last layer wins."""
    for layer in layers:
        if not isinstance(cast(object, layer), LayerOf):
            raise not_a_layer(layer)
    parts: list[AnyLayer] = list(layers)
    makes: list[Make] = []

    def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
        _flatten(parts)
        return parallel([build_layer(part, memo, scope) for part in parts]).map(ContextOf.of_all)

    def make(context: AnyContext) -> AnyContext:
        if not makes:
            _flatten(parts)
            makes[:] = [cast(Make, part.__fx_make__) for part in parts]
        return ContextOf.of_all([make(context) for make in makes])

    merged: MergedOf[Any, Any, Any] = MergedOf(build, shared=False)
    merged.__fx_merged__ = parts
    if all(layer.__fx_make__ is not None for layer in layers):
        merged.__fx_make__ = make
    return merged


def _flatten(parts: list[AnyLayer]) -> None:
    """Replace merged layers by their own parts. The first use of a merged layer does this, not each `merge`."""
    if any(part.__fx_merged__ for part in parts):
        flat: list[AnyLayer] = []
        waiting = parts[::-1]
        while waiting:
            layer = waiting.pop()
            waiting.extend(reversed(layer.__fx_merged__))
            if not layer.__fx_merged__:
                flat.append(layer)
        parts[:] = flat


def _feed(target: AnyLayer, dependency: AnyLayer, *, keep: bool) -> AnyLayer:
    """Return `target` with the services of `dependency`. With `keep`, these services stay in its output."""

    def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
        def feed(given: AnyContext) -> EffectOf[AnyContext, Any, Any]:
            made = Local(build_layer(target, memo, scope), lambda context: context.merge(given))
            return made.map(given.merge) if keep else made

        return build_layer(dependency, memo, scope).flat_map(feed)

    return LayerOf(build)


def _attempt(build: Callable[[Scope], AnyEffect], scope: Scope) -> AnyEffect:
    """Return the effect of `build` in its own scope. The scope closes with `scope`, or immediately after a failure."""

    def start() -> AnyEffect:
        own = Scope()
        scope.add(own.close)
        return build(own).on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else own.close(end))

    return Suspend(start)


AnyLayer: TypeAlias = LayerOf[Any, Any, Any]
"""A layer of unknown types."""

if TYPE_CHECKING:
    Layer: TypeAlias = LayerOf[_Out, _X, _N | None]
else:
    Layer = LayerOf
