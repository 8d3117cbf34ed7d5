"""Contexts, which map keys to the services of a program. Use them to pass existing services to a program.

>>> from fxai.effects.service import Tag
>>> class Greeting(Tag[str]):
...     pass
>>> context = Context.make(Greeting, "hello")
>>> Context.get(context, Greeting)
'hello'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar

_I = TypeVar("_I")
_S = TypeVar("_S")
_R = TypeVar("_R", default=None)
_I_co = TypeVar("_I_co", covariant=True)
_S_co = TypeVar("_S_co", covariant=True)
_I_contra = TypeVar("_I_contra", contravariant=True)


class Key(Protocol[_I, _S]):
    """A key of a context. `I` is its identity and the member of `R`. `S` is the type of its service."""

    def __fx_id__(self, x: _I, /) -> _I: ...
    def __fx_service__(self, x: _S, /) -> _S: ...
    def __fx_key__(self) -> object: ...


class ServiceKey(Protocol[_I_co, _S_co]):
    """A key for reading only. It is covariant in both types, so mypy can infer it if the answer is an argument."""

    def __fx_id__(self, x: Any, /) -> _I_co: ...
    def __fx_service__(self, x: Any, /) -> _S_co: ...
    def __fx_key__(self) -> object: ...


class MissingServiceError(LookupError):
    """The error of a program without a service that it needs. Checkers report it first, unless `Any` hides it."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        self.key = key

    @property
    def service(self) -> str:
        """The name of the service."""
        return getattr(self.key, "__qualname__", None) or str(self.key)

    def __str__(self) -> str:
        remedy = "Add `.provide(…)` with a layer that supplies it."
        return f"the service {self.service} is missing. {remedy}"


@final
class ContextOf(msgspec.Struct, Generic[_I_contra], frozen=True, eq=False):
    """An immutable map from keys to services. A context of `A | B` is also a context of `A`."""

    services: Mapping[object, Any]
    """The services by raw key. Do not change the map."""

    @staticmethod
    def empty() -> ContextOf[None]:
        """Return the context without services."""
        return EMPTY

    @staticmethod
    def make(key: Key[_I, _S], service: _S) -> ContextOf[_I | None]:
        """Return the context of one service."""
        if not hasattr(key, "__fx_key__"):
            raise TypeError(f"service key must be a Service class or a Tag, got {key!r}")
        return ContextOf({key.__fx_key__(): service})

    def add(self, key: Key[_I, _S], service: _S) -> ContextOf[_I_contra | _I]:
        """Return the context with one more service. It replaces a service with the same key."""
        return ContextOf({**self.services, key.__fx_key__(): service})

    def merge(self, other: ContextOf[_I]) -> ContextOf[_I_contra | _I]:
        """Return the context of both. For common keys, `other` wins."""
        if not self.services:
            return cast("ContextOf[_I_contra | _I]", other)
        if not other.services:
            return cast("ContextOf[_I_contra | _I]", self)
        return ContextOf({**self.services, **other.services})

    def __fx_onto__(self, outer: AnyContext) -> AnyContext:
        """Return the context of both. For common keys, this context wins."""
        return outer.merge(self) if outer.services else self

    @staticmethod
    def of_all(contexts: Iterable[AnyContext]) -> AnyContext:
        """Return the context of all services in `contexts`. For a common key, the last context wins."""
        services: dict[object, Any] = {}
        for context in contexts:
            services.update(context.services)
        return ContextOf(services)

    @staticmethod
    def get(context: ContextOf[_I], key: Key[_I, _S]) -> _S:
        """Return the service of `key`. The type of the context contains the key.

        Raises:
            MissingServiceError: If the context does not contain the key, despite its type.
        """
        return cast(_S, context.fetch(key.__fx_key__()))

    # -- by raw key, untyped: for higher packages that make their own keys

    def fetch(self, key: object) -> Any:
        """Return the service of a raw key.

        Raises:
            MissingServiceError: If the context does not contain the key and the key has no default.
        """
        try:
            return self.services[key]
        except KeyError:
            default = getattr(key, "__fx_default__", None)
            if default is None:
                raise MissingServiceError(key) from None
            return default()

    def find(self, key: object, default: Any = None) -> Any:
        """Return the service of a raw key, or `default`."""
        return self.services.get(key, default)

    def put(self, key: object, service: object) -> AnyContext:
        """Return the context with a service under a raw key."""
        return ContextOf({**self.services, key: service})

    def __iter__(self) -> Iterator[object]:
        return iter(self.services)

    def __repr__(self) -> str:
        return f"Context({', '.join(getattr(k, '__qualname__', None) or repr(k) for k in self.services)})"


EMPTY: ContextOf[None] = ContextOf({})


AnyContext: TypeAlias = ContextOf[Any]
"""A context of any services."""


@final
class Enclosure(msgspec.Struct, frozen=True, eq=False):
    """The code of a layer that wraps each program with its services. No type names it; its key is its class."""

    around: Callable[[Any], Any]


class Branches(Protocol):
    """The contexts of the children of one concurrent operator."""

    def context_of(self, index: int) -> Any:
        """Return the context of the child with this index."""
        ...

    def cut(self) -> None:
        """Record that the operator interrupted children, so that they may have done less than before."""
        ...

    def deadline(self, scope: Any, clock: Any, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context that cancels the scope of the only child at the deadline of a timeout."""
        ...

    async def is_late(self, *, has_fired: bool) -> bool:
        """Return true if the timeout of the only child counts as fired. An earlier program can have recorded that."""
        ...


class Branching(Protocol):
    """A service that assigns a position to each child of a concurrent operator. Its key in a context is this class.

    The order in which children run depends on the schedule. Their index does not.
    """

    def branch(self, kind: str, context: Any) -> Branches:
        """Return the positions of the children of an operator that starts in this context."""
        ...


class Placed:
    """A service that differs for each child of a concurrent operator. Layers do not depend on the child."""

    __slots__ = ()

    @property
    def trunk_of(self) -> object:
        """An object that is the same for all children."""
        raise NotImplementedError


def branches_of(context: AnyContext, kind: str) -> Branches | None:
    """Return the positions of the children of an operator, or None if the context contains no `Branching`."""
    branching: Branching | None = context.services.get(Branching)
    return None if branching is None else branching.branch(kind, context)


def put_enclosure(services: AnyContext, around: Callable[[Any], Any]) -> AnyContext:
    """Return the services with code that wraps each program, around the code of an inner layer."""
    inner: Enclosure | None = services.services.get(Enclosure)
    return services.put(
        Enclosure, Enclosure(around if inner is None else lambda program: around(inner.around(program)))
    )


def enclose(effect: _S, services: AnyContext) -> _S:
    """Return the effect, wrapped by the `Enclosure` in these services if they contain one."""
    found: Enclosure | None = services.services.get(Enclosure)
    return effect if found is None else cast(_S, found.around(effect))


if TYPE_CHECKING:
    Context: TypeAlias = ContextOf[_R | None]
else:
    Context = ContextOf
