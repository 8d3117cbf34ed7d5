"""Mistakes: what is raised where something is no effect, and where an effect is taken for its value."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Never, Protocol, TypeAlias, final

from typing_extensions import TypeVar

_T_co = TypeVar("_T_co", covariant=True)

MYPY = False
"""Which mypy takes for true: it warns of a condition that always holds where it sees no `__bool__`."""


class Unprovided:
    """For checkers: what an effect that still needs services gives where it is awaited."""


class NotItsValue:
    """For checkers: what an effect gives where its value is asked for."""


class PlainAwaitable(Protocol[_T_co]):
    """An awaitable that is no effect: checkers tell it by what is sent while it waits, which for an effect is not None.

    An effect in its place would raise the failures that its type declares, and run without the services around.
    """

    def __await__(self) -> Generator[Any, None, _T_co]: ...


class NoEffect(Protocol):
    """A value that is no effect, for checkers. The size of each other object is an `int`."""

    def __sizeof__(self) -> int: ...


Discarded: TypeAlias = NoEffect | type[object] | PlainAwaitable[object] | None
"""For checkers: a value that a program may discard. If it discards an effect, nothing runs that effect.

mypy finds no method of `object` in a class or in a protocol, so the union names classes and awaitables.
"""


@final
class EffectInEffect:
    """A service that nothing provides. For checkers, a program needs it if a function for a value returns an effect."""

    def __sizeof__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> NotItsValue:
        refuse_as_value(self)


def refuse_as_value(effect: object, *_: object) -> Never:
    """Refuse a method of a value, because nothing has run the effect or the stream that would give the value.

    Raises:
        TypeError: Always. The message says how to get the value.
    """
    if type(effect).__name__ == "StreamOf":
        raise TypeError("a stream is not its items: `items = yield from stream.collect()` reads them")
    raise TypeError(
        "an effect is not its value: `value = yield from effect` runs it and gives that, as `await effect` does in a"
        " coroutine (repr(effect) shows the effect itself)"
    )


def not_an_effect(given: object) -> TypeError:
    """Return the error for an object in the place of an effect."""
    remedy = _remedy(given)
    what = "nothing (None)" if given is None else f"{given!r:.200}"
    return TypeError(f"an effect is needed here, and this is {what}: {remedy}")


def _remedy(given: Any) -> str:
    kind = type(given).__name__
    name = getattr(given, "__name__", kind)
    if given is None:
        return "a function that should return an effect has no `return`, or a generator has a bare `yield`"
    if kind == "generator":
        return f"put @fx.gen on the function {name}, and write `yield from {name}(…)` inside of another generator"
    if hasattr(given, "__await__"):
        return f"await it by fx.wait(lambda: {name}(…)), so that it can be run more than once"
    if hasattr(given, "__fx_key__"):
        plain = f"`yield from {name}`, or " if isinstance(given, Iterable) else ""
        return f"write {plain}fx.service({name}), to ask for the service of this key"
    if kind == "StreamOf":
        return "a stream is read by .collect(), .drain(), .first() or .for_each(…), which give effects"
    if kind == "LayerOf":
        return "a layer builds services for a program: program.provide(layer)"
    if hasattr(given, "unwrap"):
        return "fx.lift(…) makes an effect of a container"
    if callable(given):
        return f"call it: {name}(…)"
    return "fx.succeed(…) makes an effect of a value; inside of a generator, `return` gives one"
