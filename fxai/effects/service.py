"""Service classes, which are keys of a context. Use them to declare the services that programs need.

If a class names `Service` among its bases, the class is a key. Its implementations are the services of this key. `Tag`
makes a key for a service of any type, and `ClassKey` makes a key for a class of another package. `Reference` makes a
key with a default, so no layer must supply its service. The reference `Clock` supplies the time. A test can replace
the clock.

>>> from abc import abstractmethod
>>> from fxai.effects import fx
>>> class Random(Reference):
...     @abstractmethod
...     def draw(self) -> int: ...
...     @classmethod
...     def default(cls):
...         return Four()
>>> class Four(Random):
...     def draw(self):
...         return 4
>>> fx.run_sync(fx.reference(Random).map(lambda random: random.draw()))
4
"""

from __future__ import annotations

import time
from abc import ABCMeta, abstractmethod
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Generic, Never, Self, final

import anyio
from typing_extensions import TypeVar, override

from fxai.effects.context import Key
from fxai.effects.effect import EffectOf, Fetch, Suspend

_I = TypeVar("_I")
_S = TypeVar("_S")
_T = TypeVar("_T")


class ServiceMeta(ABCMeta):
    """The metaclass that makes `db = yield from Db` return the service of the class `Db`."""

    def __iter__(cls: type[_T]) -> Generator[EffectOf[Any, Never, _T | None], Any, _T]:
        key: Any = cls
        service: _T = yield key.__fx_fetch__
        return service


class Service(metaclass=ServiceMeta):
    """The base class of service interfaces: `class Db(Service)` with abstract methods.

    A class that names `Service` among its bases is a key. Implementations inherit from the key and are not keys.
    """

    __fx_root__: ClassVar[Any] = None
    __fx_fetch__: ClassVar[Any] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Service in cls.__bases__ or Reference in cls.__bases__:
            cls.__fx_root__ = cls
            cls.__fx_fetch__ = Fetch(cls)
        else:
            cls.__fx_fetch__ = Suspend(lambda: Fetch(cls.__fx_key__()))

    @classmethod
    def __fx_key__(cls) -> object:
        if cls.__fx_root__ is not cls:
            root = getattr(cls.__fx_root__, "__name__", "a service")
            raise TypeError(f"{cls.__name__} implements {root} and is not a key itself. Use {root} as the key.")
        return cls

    @classmethod
    def __fx_id__(cls, x: Self, /) -> Self:
        return x

    @classmethod
    def __fx_service__(cls, x: Self, /) -> Self:
        return x


class ReferenceMeta(ServiceMeta):
    """The metaclass that makes `clock = yield from Clock` return the service without an addition to `R`."""

    def __iter__(cls: type[_T]) -> Generator[EffectOf[Any, Never, None], Any, _T]:
        key: Any = cls
        service: _T = yield key.__fx_fetch__
        return service

    def __fx_default__(cls) -> Any:
        """Return the default service, for a context without this key."""
        reference: Any = cls
        return reference.default()


class Reference(Service, metaclass=ReferenceMeta):
    """The base class of services with a default. Using one adds nothing to `R`. A layer can replace the default."""

    @classmethod
    @abstractmethod
    def default(cls) -> Self:
        """Return the service for programs without a layer for this key."""


class TagMeta(type):
    """The metaclass that makes `key = yield from ApiKey` return the service of the tag `ApiKey`."""

    def __iter__(cls: Key[_I, _S]) -> Generator[EffectOf[Any, Never, _I | None], Any, _S]:
        service: _S = yield Fetch(cls.__fx_key__())
        return service


class Tag(Generic[_S], metaclass=TagMeta):
    """A key with a service of any type: `class ApiKey(Tag[str])`. `key = yield from ApiKey` returns the service."""

    @classmethod
    def __fx_key__(cls) -> object:
        return cls

    @classmethod
    def __fx_id__(cls, x: Self, /) -> Self:
        return x

    @classmethod
    def __fx_service__(cls, x: _S, /) -> _S:
        return x


@final
class ClassKey(Generic[_T]):
    """A key for a class of another package: `pool = ClassKey(Pool)`. `yield from pool` returns the service."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type[_T]) -> None:
        self._cls = cls

    def __iter__(self) -> Generator[EffectOf[Any, Never, _T | None], Any, _T]:
        service: _T = yield Fetch(self._cls)
        return service

    def __fx_key__(self) -> object:
        return self._cls

    def __fx_id__(self, x: _T, /) -> _T:
        return x

    def __fx_service__(self, x: _T, /) -> _T:
        return x


class Clock(Reference):
    """The service that measures time and waits."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00Z."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return the seconds since a fixed moment. The number never decreases."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. If `seconds` is 0 or less, return after one turn of the event loop."""

    @abstractmethod
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        """Return a context that cancels `scope` after `seconds`."""

    @classmethod
    @override
    def default(cls) -> Self:
        """Return the real clock."""
        return LIVE  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # the key's only default


class _Live(Clock):
    @override
    def now(self) -> float:
        return time.time()

    @override
    def monotonic(self) -> float:
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(seconds, 0))

    @override
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        scope.deadline = anyio.current_time() + seconds
        return nullcontext()


LIVE: Clock = _Live()
