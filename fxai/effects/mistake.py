"""Types and errors for common mistakes with effects, such as using an effect as its value. Checkers use the types."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Never, Protocol, TypeAlias, final

from typing_extensions import TypeVar

_T_co = TypeVar("_T_co", covariant=True)

MYPY = False
"""A condition that mypy reads as true. mypy warns of a condition that is always true if it sees no `__bool__`."""


class Unprovided:
    """The type, for checkers, of an awaited effect that still needs services."""


class NotItsValue:
    """The type, for checkers, of an effect in the place of its value."""


class PlainAwaitable(Protocol[_T_co]):
    """An awaitable that is not an effect.

    Checkers distinguish the two by the type that `__await__` yields, which is None for this protocol. fxai rejects an
    effect here, because it would raise its typed failures and run without the current services.
    """

    def __await__(self) -> Generator[Any, None, _T_co]: ...


class NoEffect(Protocol):
    """The type, for checkers, of a value that is not an effect. `__sizeof__` of every other object returns an `int`."""

    def __sizeof__(self) -> int: ...


Discarded: TypeAlias = NoEffect | type[object] | PlainAwaitable[object] | None
"""The type, for checkers, of a value that a program can discard. If it discards an effect, fxai never runs the effect.

mypy finds no method of `object` in a class or in a protocol, so the union names classes and awaitables.
"""


@final
class EffectInEffect:
    """A service without a layer. For checkers, a program needs it if a function of a value returns an effect."""

    def __sizeof__(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> NotItsValue:
        refuse_as_value(self)


def refuse_as_value(effect: object, *_: object) -> Never:
    """Reject a method of a value on an effect or a stream, because fxai has not run it to get the value.

    Raises:
        TypeError: Always. The message states how to get the value.
    """
    if type(effect).__name__ == "StreamOf":
        raise TypeError("a stream is not its items. To read them, write `items = yield from stream.collect()`.")
    raise TypeError(
        "an effect is not its value. Write `value = yield from effect`, or `value = await effect` in a coroutine."
        " To show the effect itself, use repr(effect)."
    )


def not_an_effect(given: object) -> TypeError:
    """Return the error for an object that is not an effect."""
    remedy = _remedy(given)
    what = "None" if given is None else f"{given!r:.200}"
    return TypeError(f"expected an effect, got {what}. {remedy}.")


def not_a_layer(given: object) -> TypeError:
    """Return the error for an object that is not a layer."""
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    remedy = f"Supply a service with Layer.succeed({name}, …)"
    if isinstance(given, list | tuple):
        remedy = "Pass the layers one by one: Layer.merge_all(*layers)"
    return TypeError(f"layer must be a Layer, got {given!r:.200}. {remedy}.")


def _remedy(given: Any) -> str:
    kind = type(given).__name__
    name = getattr(given, "__name__", kind)
    if given is None:
        return "Add the missing `return` to the function, or a value to the bare `yield` of the generator"
    if kind == "generator":
        return f"Put @fx.gen on the function {name}, and write `yield from {name}(…)` inside another generator"
    if hasattr(given, "__await__"):
        return f"Await it with fx.wait(lambda: {name}(…)), so that it can run more than once"
    if hasattr(given, "__fx_key__"):
        plain = f"`yield from {name}`, or " if isinstance(given, Iterable) else ""
        return f"Write {plain}fx.service({name}) to get the service of this key"
    if kind == "StreamOf":
        return "Read a stream with .collect(), .drain(), .first(), or .for_each(…), which return effects"
    if kind == "LayerOf":
        return "Provide a layer to a program: program.provide(layer)"
    if hasattr(given, "unwrap"):
        return "Convert a container to an effect: fx.lift(…)"
    if callable(given):
        return f"Call it: {name}(…)"
    return "Convert a value to an effect: fx.succeed(…). Inside a generator, write `return` and the value"
