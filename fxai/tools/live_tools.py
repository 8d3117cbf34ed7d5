"""Live tools change during a run, such as the tools of a server. Bound toolkits use this module.

A change of the tools must not end a run. If fxai cannot apply a combination to the changed tools, it keeps the previous
tools. A new tool cannot take the name of an existing tool.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, final

from msgspec.structs import force_setattr

from fxai.effects.effect import EffectOf, Generate
from fxai.tools.identity import OnConflict, newcomers

Bound: TypeAlias = Any
"""A bound toolkit. Its module imports this module, so the type is not available here."""

Bounds: TypeAlias = tuple[Bound, ...]
Make: TypeAlias = Callable[[Bounds, Bounds, Bound], Bound]
"""A function that combines the current bound toolkits, from their previous state and the previous combination."""


def follow(made: Bound, of: Bounds, make: Make) -> None:
    """Make `made`, a combination of `of`, follow later changes of `of`."""
    if any(bound.is_live for bound in of):
        force_setattr(made, "renewal", Generate(_Renewal(made, of, make).steps, (), {}))


@final
class _Renewal:
    """The latest combination and its parts. The value stays the same until a part changes."""

    __slots__ = ("_last", "_make", "_of")

    def __init__(self, made: Bound, of: Bounds, make: Make) -> None:
        self._of = of
        self._make = make
        self._last = (of, made)  # one attribute, so that other threads see a consistent pair

    def steps(self) -> Generator[EffectOf[Any], Any, Bound]:
        """Read the current parts and combine them."""
        now: Bounds = ()
        for bound in self._of:
            now = (*now, (yield bound.now))
        before, made = self._last
        if any(each is not then for each, then in zip(now, before, strict=True)):
            try:
                made = self._make(now, before, made)
            except Exception as error:  # from a function for the previous tools
                _warn("cannot apply the change of the tools, so the previous tools stay: %s", error)
            self._last = (now, made)
        return made


def merge_again(now: Bounds, before: Bounds, made: Bound, on_conflict: OnConflict) -> Bound:
    """Merge two bound toolkits again. If two tools now have the same name, remove one instead of raising an error."""
    first, second = now
    if on_conflict != "error":
        return first.merge(second, on_conflict=on_conflict)
    then = [bound.toolkit.tools for bound in before]
    left_out, new = newcomers((first.toolkit.tools, second.toolkit.tools), (then[0], then[1]), made.toolkit.tools)
    for name in new:
        _warn("ignored the new tool %r, because another tool has this name. Add a prefix to one source.", name)
    return _omit(first, left_out[0]).merge(_omit(second, left_out[1]))


def _omit(bound: Bound, names: set[str]) -> Bound:
    def omit(kit: Any) -> Any:
        return kit.omit(*names)

    return bound.with_toolkit(omit) if names else bound


def _warn(message: str, *about: object) -> None:
    import logging  # only live tools need it

    logging.getLogger("fxai.tools").warning(message, *about)
