"""Contexts: the services that a program can use, in an immutable map from keys to services.

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
    """Identity `I`, which is the member of `R`, and the service `S` that it stands for."""

    def __fx_id__(self, x: _I, /) -> _I: ...
    def __fx_service__(self, x: _S, /) -> _S: ...
    def __fx_key__(self) -> object: ...


class ServiceKey(Protocol[_I_co, _S_co]):
    """A key, for what only asks by it: covariant in both, so that mypy infers it where the answer is an argument."""

    def __fx_id__(self, x: Any, /) -> _I_co: ...
    def __fx_service__(self, x: Any, /) -> _S_co: ...
    def __fx_key__(self) -> object: ...


class MissingServiceError(LookupError):
    """A program was run without a service that it needs: the checkers say so first, unless `Any` hid it."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        self.key = key

    @property
    def service(self) -> str:
        """The name of the service."""
        return getattr(self.key, "__qualname__", None) or str(self.key)

    def __str__(self) -> str:
        remedy = "add `.provide(…)` with a layer that supplies it"
        return f"the service {self.service} is needed and no layer gave it: {remedy}"


@final
class ContextOf(msgspec.Struct, Generic[_I_contra], frozen=True, eq=False):
    """An immutable map from keys to services; a context of `A | B` is a context of `A`."""

    services: Mapping[object, Any]
    """By raw key; never changed."""

    @staticmethod
    def empty() -> ContextOf[None]:
        """The context without services."""
        return EMPTY

    @staticmethod
    def make(key: Key[_I, _S], service: _S) -> ContextOf[_I | None]:
        """The context of one service."""
        return ContextOf({key.__fx_key__(): service})

    def add(self, key: Key[_I, _S], service: _S) -> ContextOf[_I_contra | _I]:
        """The context with one service more; one of the same key is replaced."""
        return ContextOf({**self.services, key.__fx_key__(): service})

    def merge(self, other: ContextOf[_I]) -> ContextOf[_I_contra | _I]:
        """The context of both; for keys in both, the services of `other`."""
        if not self.services:
            return cast("ContextOf[_I_contra | _I]", other)
        if not other.services:
            return cast("ContextOf[_I_contra | _I]", self)
        return ContextOf({**self.services, **other.services})

    @staticmethod
    def of_all(contexts: Iterable[ContextOf[Any]]) -> ContextOf[Any]:
        """The context of all the services of all; for a key in several, the service of the last."""
        services: dict[object, Any] = {}
        for context in contexts:
            services.update(context.services)
        return ContextOf(services)

    @staticmethod
    def get(context: ContextOf[_I], key: Key[_I, _S]) -> _S:
        """The service of `key`, which the checkers know to be there.

        Raises:
            MissingServiceError: it is not there after all.
        """
        return cast(_S, context.fetch(key.__fx_key__()))

    # -- by raw key, untyped: for the floors above that make keys of their own

    def fetch(self, key: object) -> Any:
        """The service under a raw key.

        Raises:
            MissingServiceError: there is none.
        """
        try:
            return self.services[key]
        except KeyError:
            default = getattr(key, "__fx_default__", None)
            if default is None:
                raise MissingServiceError(key) from None
            return default()

    def find(self, key: object, default: Any = None) -> Any:
        """The service under a raw key, or `default`."""
        return self.services.get(key, default)

    def put(self, key: object, service: object) -> ContextOf[Any]:
        """The context with a service under a raw key."""
        return ContextOf({**self.services, key: service})

    def __iter__(self) -> Iterator[object]:
        return iter(self.services)

    def __repr__(self) -> str:
        return f"Context({', '.join(getattr(k, '__qualname__', None) or repr(k) for k in self.services)})"


EMPTY: ContextOf[None] = ContextOf({})


@final
class Enclosure(msgspec.Struct, frozen=True, eq=False):
    """What a layer puts around each program that it is provided to: no type names it, it is found under its class."""

    around: Callable[[Any], Any]


class Branches(Protocol):
    """The places of the children of one concurrent operator."""

    def context_of(self, index: int) -> Any:
        """Return the context of the child with this index."""
        ...

    def cut(self) -> None:
        """Note that the operator interrupted children, which may have reached less than before."""
        ...

    def deadline(self, scope: Any, clock: Any, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context in which the scope of the only child is cancelled at the deadline of a timeout."""
        ...

    async def is_late(self, *, has_fired: bool) -> bool:
        """Return whether the timeout of the only child counts as fired. An earlier program may have noted that."""
        ...


class Branching(Protocol):
    """Gives each child of a concurrent operator a place of its own. A context holds it under this class.

    The order in which children run depends on the schedule. Their index does not.
    """

    def branch(self, kind: str, context: Any) -> Branches:
        """Return the places of the children of an operator that starts now in this context."""
        ...


class Placed:
    """A service that each child of a concurrent operator has its own of. Layers do not depend on the child."""

    __slots__ = ()

    @property
    def trunk_of(self) -> object:
        """The same object for all children."""
        raise NotImplementedError


def branches_of(context: ContextOf[Any], kind: str) -> Branches | None:
    """Return the places of the children of an operator. None if nothing in the context needs them."""
    branching: Branching | None = context.services.get(Branching)
    return None if branching is None else branching.branch(kind, context)


def enclose(effect: _S, services: ContextOf[Any]) -> _S:
    """The effect with what the layer that has built these services puts around it, if that does."""
    found: Enclosure | None = services.services.get(Enclosure)
    return effect if found is None else cast(_S, found.around(effect))


if TYPE_CHECKING:
    Context: TypeAlias = ContextOf[_R | None]
else:
    Context = ContextOf
