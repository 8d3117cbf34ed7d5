"""Services: keys of a context that are classes.

A class that names `Service` among its bases is a key, and what implements it is its service. `Tag` makes a key whose
service is any type, `ClassKey` one of a class of another package, and `Reference` one with a default, which no layer
has to give. `Clock`, the time, is such a reference: a test gives its own.

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
    """Lets a service class be asked for by its name: `db = yield from Db`."""

    def __iter__(cls: type[_T]) -> Generator[EffectOf[Any, Never, _T | None], Any, _T]:
        key: Any = cls
        service: _T = yield key.__fx_fetch__
        return service


class Service(metaclass=ServiceMeta):
    """The root of service interfaces: `class Db(Service)` with abstract methods.

    The class that names `Service` among its bases is the key; implementations inherit it and are no keys.
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
            raise TypeError(f"{cls.__name__} implements {root} and is no key itself; use {root} as the key")
        return cls

    @classmethod
    def __fx_id__(cls, x: Self, /) -> Self:
        return x

    @classmethod
    def __fx_service__(cls, x: Self, /) -> Self:
        return x


class ReferenceMeta(ServiceMeta):
    """Lets a reference be asked for by its name, with nothing added to `R`."""

    def __iter__(cls: type[_T]) -> Generator[EffectOf[Any, Never, None], Any, _T]:
        key: Any = cls
        service: _T = yield key.__fx_fetch__
        return service

    def __fx_default__(cls) -> Any:
        """The service where a context has none."""
        reference: Any = cls
        return reference.default()


class Reference(Service, metaclass=ReferenceMeta):
    """The root of services that have a default: asking for one adds nothing to `R`, a layer replaces it."""

    @classmethod
    @abstractmethod
    def default(cls) -> Self:
        """The service where no layer gives one."""


class TagMeta(type):
    """Lets a tag be asked for by its name: `key = yield from ApiKey`."""

    def __iter__(cls: Key[_I, _S]) -> Generator[EffectOf[Any, Never, _I | None], Any, _S]:
        service: _S = yield Fetch(cls.__fx_key__())
        return service


class Tag(Generic[_S], metaclass=TagMeta):
    """A key whose identity is not its interface: `class ApiKey(Tag[str])`; `key = yield from ApiKey` asks for it."""

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
    """A key for a class of another package: `pool = ClassKey(ConnectionPool)`; `yield from pool` asks for it."""

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
    """What time it is, and waiting."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since 1970-01-01T00:00Z."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Returns `seconds` later; at once, after a turn of the event loop, when that is not positive."""

    @abstractmethod
    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        """A context in which `scope` is cancelled once `seconds` have passed."""

    @classmethod
    @override
    def default(cls) -> Self:
        """The live clock."""
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
