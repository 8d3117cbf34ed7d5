"""Live tools: those of a server, say, which come and go in the middle of a run, and must not end it.

What was made of live tools stays as it was where it cannot be made of what they are now, and a newcomer does not take a
name that another tool has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, final

from msgspec.structs import force_setattr

from fxai.effects.effect import EffectOf, Generate
from fxai.tools.identity import OnConflict, newcomers

Bound: TypeAlias = Any
"""A bound toolkit, whose module uses this one."""

Bounds: TypeAlias = tuple[Bound, ...]
Make: TypeAlias = Callable[[Bounds, Bounds, Bound], Bound]
"""Makes one of those now, given those before, and what was made of them."""


def follow(made: Bound, of: Bounds, make: Make) -> None:
    """Let `made`, which was just made of others, be made anew when those have changed."""
    if any(bound.is_live for bound in of):
        force_setattr(made, "renewal", Generate(_Renewal(made, of, make).steps, (), {}))


@final
class _Renewal:
    """What was last made, and of what: the same value as long as none of those changes."""

    __slots__ = ("_last", "_make", "_of")

    def __init__(self, made: Bound, of: Bounds, make: Make) -> None:
        self._of = of
        self._make = make
        self._last = (of, made)  # one value: runs in several threads see what belongs together

    def steps(self) -> Generator[EffectOf[Any], Any, Bound]:
        """The steps of asking them all, and of making it."""
        now: Bounds = ()
        for bound in self._of:
            now = (*now, (yield bound.now))
        before, made = self._last
        if any(each is not then for each, then in zip(now, before, strict=True)):
            try:
                made = self._make(now, before, made)
            except Exception as error:  # of a function that was written for the tools that there were
                _warn("the tools stay as they were, for nothing can be made of what they are now: %s", error)
            self._last = (now, made)
        return made


def merge_again(now: Bounds, before: Bounds, made: Bound, on_conflict: OnConflict) -> Bound:
    """Two bound toolkits as one, where two tools may have come to have one name; nothing raises then."""
    first, second = now
    if on_conflict != "error":
        return first.merge(second, on_conflict=on_conflict)
    then = [bound.toolkit.tools for bound in before]
    left_out, new = newcomers((first.toolkit.tools, second.toolkit.tools), (then[0], then[1]), made.toolkit.tools)
    for name in new:
        _warn("a new tool %r is left out, because another one is called so: prefix those of one source", name)
    return _omit(first, left_out[0]).merge(_omit(second, left_out[1]))


def _omit(bound: Bound, names: set[str]) -> Bound:
    def omit(kit: Any) -> Any:
        return kit.omit(*names)

    return bound.with_toolkit(omit) if names else bound


def _warn(message: str, *about: object) -> None:
    import logging  # few tools change

    logging.getLogger("fxai.tools").warning(message, *about)
