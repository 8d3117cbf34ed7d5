"""Type hints: the annotations of a function, with each name in them resolved.

>>> def twice(n: "int", context: "CallContext") -> "int":
...     return n * 2
>>> sorted(hints_of(twice, {"CallContext": object}))
['context', 'n', 'return']
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from types import FrameType, GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Gen
from fxai.effects.scope import Scope
from fxai.effects.service import ReferenceMeta
from fxai.effects.stream import StreamOf

__all__ = ["WRITTEN", "hints_of", "meant", "names_around", "needed_services", "written"]

WRITTEN = "__fx_written__"
"""The attribute by which a function that was made of another one names it."""
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


def needed_services(f: Callable[..., Any]) -> tuple[Any, ...]:
    """The keys of the services that the return annotation of `f` names, of an effect, a generator or a stream.

    Where none can be read, those that a generator asks for by their names: `db = yield from Db`.

    >>> from fxai.effects.service import Service
    >>> class Db(Service): ...
    >>> def find(name: str) -> "Gen[str, str, Db | None]": ...
    >>> needed_services(find) == (Db,)
    True
    """
    function = getattr(f, WRITTEN, f)
    try:
        hint: Any = hints_of(function, {}).get("return")
    except Exception:  # what it names may be there for checkers alone
        hint = None
    found = tuple(_services(hint)) or tuple(_yielded(written(function)))  # without its future import it is erased
    return tuple(dict.fromkeys(found))


def _yielded(function: Any) -> Iterator[Any]:
    code = getattr(function, "__code__", None)
    names = {**getattr(function, "__globals__", {}), **_closed_over(function)} if code is not None else {}
    for before, after in pairwise(dis.get_instructions(code) if code is not None else ()):
        if after.opname == "GET_YIELD_FROM_ITER" and before.opname.startswith("LOAD_"):
            yield from _services(names.get(str(before.argval)), needed=True)


def _services(hint: Any, *, needed: bool = False) -> Iterator[Any]:
    """The keys in a hint: in the place of what is needed, or anywhere in it where `needed` says so."""
    if isinstance(hint, type) and get_origin(hint) is None:
        key = getattr(hint, "__fx_key__", None) if needed and not isinstance(hint, ReferenceMeta) else None
        if key is not None and hint is not Scope:
            yield key()
        return
    origin, arguments = meant(get_origin(hint)), get_args(hint)
    if origin in (EffectOf, StreamOf, Gen):
        yield from _services(arguments[2] if len(arguments) > 2 else None, needed=True)
        return
    for argument in arguments:
        yield from _services(argument, needed=needed or origin is ContextOf)


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
