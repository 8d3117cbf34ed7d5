"""Hints: the annotations of a function, with each name in them resolved.

>>> def twice(n: "int", context: "CallContext") -> "int":
...     return n * 2
>>> sorted(hints_of(twice, {"CallContext": object}))
['context', 'n', 'return']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, GenericAlias
from typing import Any, get_type_hints

from fxai.effects.effect import EffectOf, Gen
from fxai.effects.stream import StreamOf

__all__ = ["hints_of", "meant", "names_around", "written"]

_FROM_PYTHON = "fxai."


class _Kept:
    """Stands for a class whose subscripts are for checkers only, so that those of a written annotation are kept."""

    def __class_getitem__(cls, arguments: Any) -> Any:
        return GenericAlias(cls, arguments)


class _Effect(_Kept):
    pass


class _Stream(_Kept):
    pass


class _Gen(_Kept):
    pass


_KEPT: tuple[tuple[Any, Any], ...] = ((EffectOf, _Effect), (StreamOf, _Stream), (Gen, _Gen))


def meant(origin: Any) -> Any:
    """The class that is meant by the origin of a hint that `hints_of` gave."""
    return next((cls for cls, stand in _KEPT if origin is stand), origin)


def written(f: Callable[..., Any]) -> Any:
    """The function that was written: inside partials, wrappers, methods and objects that can be called."""
    found: Any = f
    while True:
        if isinstance(found, partial):
            found = found.func
        elif inspect.ismethod(found):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        elif inspect.isroutine(found) or inspect.isclass(found):
            return found
        else:
            found = type(found).__call__


def hints_of(f: Callable[..., Any], around: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of `f` by parameter, and of what it returns by `"return"`.

    Names are looked for in `around`, then among what the function closes over, then in its module.

    Raises:
        NameError: a name is not defined, or not yet.
    """
    function = written(f)
    globals_: dict[str, Any] = getattr(function, "__globals__", {})
    local = {**_closed_over(function), **around}
    scope = {**globals_, **local}
    kept = {name: stand for name, value in scope.items() for erased, stand in _KEPT if value is erased}
    return get_type_hints(function, globals_, {**local, **kept}, include_extras=True)


def _closed_over(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def names_around() -> dict[str, Any]:
    """The local names of the code outside of this package that called it, as they are now."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_FROM_PYTHON):
        frame = frame.f_back
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)
