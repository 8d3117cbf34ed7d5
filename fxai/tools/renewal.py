"""Renewals: what live tools have become, made anew only where they changed.

Tools of others come and go in the middle of a run, and must not end it. What was made of them stays as it was where it
cannot be made of what they are now, and a newcomer does not take a name that another tool has. Both are logged.

>>> from fxai.effects import fx
>>> from fxai.tools.source import BoundToolkit
>>> from fxai.tools.tool import Tool
>>> from fxai.tools.toolkit import Toolkit
>>> first, then = (BoundToolkit(Toolkit.make(Tool.make(name, success=int)), ()) for name in ("add", "double"))
>>> live = BoundToolkit(first.toolkit, (), fx.succeed(then)).prefix("sum_")
>>> live, fx.run_sync(live.now)
(BoundToolkit(sum_add), BoundToolkit(sum_double))
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, final

from fxai.effects.effect import EffectOf, Generate

if TYPE_CHECKING:
    from fxai.tools.source import BoundToolkit

__all__ = ["Bounds", "Make", "merged_again", "renewed"]

_Bound: TypeAlias = "BoundToolkit[Any, Any, Any]"

Bounds: TypeAlias = "tuple[BoundToolkit[Any, Any, Any], ...]"
"""Some bound toolkits, as they are at one time."""

Make: TypeAlias = "Callable[[Bounds, Bounds, BoundToolkit[Any, Any, Any]], BoundToolkit[Any, Any, Any]]"
"""Makes one of those that there are now, of those that there were, and of what it was then."""


def renewed(made: _Bound, of: Bounds, make: Make) -> EffectOf[Any]:
    """The effect of what is made of some bound toolkits as they are when it runs: `made` is, of what they were.

    It is the same value as long as none of them changes; else `make(now, before, made)` says what it is now.
    """
    return Generate(_Renewal(made, of, make).steps, (), {})


@final
class _Renewal:
    """What was last made, and of what."""

    __slots__ = ("_last", "_make", "_of")

    def __init__(self, made: _Bound, of: Bounds, make: Make) -> None:
        self._of = of
        self._make = make
        self._last = (of, made)  # one value: runs in several threads see what belongs together

    def steps(self) -> Generator[EffectOf[Any], Any, _Bound]:
        """The steps of asking them all, and of making it."""
        now: Bounds = ()
        for bound in self._of:
            now = (*now, (yield bound.now))
        before, made = self._last
        if any(one is not then for one, then in zip(now, before, strict=True)):
            made = self._made(now, before, made)
            self._last = (now, made)
        return made

    def _made(self, now: Bounds, before: Bounds, made: _Bound) -> _Bound:
        try:
            return self._make(now, before, made)
        except Exception as error:  # of a function that was written for the tools that there were
            _warn("the tools stay as they were, for nothing can be made of what they are now: %s", error)
            return made


def merged_again(now: Bounds, before: Bounds, made: _Bound) -> _Bound:
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


def _is_of_second(name: str, before: Bounds, made: _Bound) -> bool:
    was = made.toolkit.tools.get(name)
    first, second = (bound.toolkit.tools.get(name) for bound in before)
    return was is not None and was == second and was != first


def _omitting(bound: _Bound, names: set[str]) -> _Bound:
    return bound.with_toolkit(lambda kit: kit.filter(lambda tool: tool.name not in names)) if names else bound


def _warn(message: str, *about: object) -> None:
    import logging  # few tools change

    logging.getLogger("fxai.tools").warning(message, *about)
