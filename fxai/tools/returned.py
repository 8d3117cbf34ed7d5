"""What a function returns, by its annotation: a bare success, or a form that says success and failure.

>>> from returns.result import Result
>>> declared = returned(Result[int, str], "half")
>>> declared.success, declared.failure, declared.bare
(<class 'int'>, <class 'str'>, False)
>>> returned(int, "add").bare
True
"""

from __future__ import annotations

import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Coroutine, Generator
from types import NoneType, UnionType
from typing import Annotated, Any, Never, Union, final, get_args, get_origin

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Result
from typing_extensions import TypeAliasType

from fxai.effects.effect import EffectOf, Gen
from fxai.effects.stream import StreamOf
from fxai.schema.fault import SchemaError
from fxai.tools.hint import meant

__all__ = ["Returned", "returned"]

_PAIRS: tuple[Any, ...] = (EffectOf, StreamOf, Gen, Result, IOResult, FutureResult, RequiresContextFutureResult)
_AWAITED: tuple[Any, ...] = (Awaitable, Coroutine)
_ASYNC_ITEMS: tuple[Any, ...] = (AsyncGenerator, AsyncIterator, AsyncIterable)
_IN_A_THREAD: tuple[Any, ...] = (Result, IOResult)
_ALIAS: tuple[Any, ...] = (TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType))
_ANNOTATED: Any = Annotated
_UNION: Any = Union


@final
class Returned(msgspec.Struct, frozen=True):
    """What a function gives."""

    success: Any
    """The type of what comes out."""
    failure: Any = Never
    """The type of what can go wrong."""
    bare: bool = False
    """Whether what is returned is the success itself."""
    awaited: bool = False
    """Whether the bare success has to be awaited."""
    threaded: bool = False
    """Whether a worker thread may run the function."""


def returned(
    hint: Any, name: str, *, awaited: bool = False, success: Any = msgspec.UNSET, failure: Any = msgspec.UNSET
) -> Returned:
    """What a function called `name` gives, by its return annotation; `awaited` for an `async def`.

    A `Result`, `IOResult`, `FutureResult`, `RequiresContextFutureResult`, `Effect`, `Gen` or `Stream` says success
    and failure, and so does a union of them; anything else is the success itself, and no failure is declared. A type
    that is given as `success` or `failure` takes the place of what the annotation says.

    Raises:
        SchemaError: the annotation says neither, or both.
    """
    origin, arguments = _taken_apart(hint)
    if origin in _AWAITED and arguments:
        return returned(arguments[-1], name, awaited=True, success=success, failure=failure)
    arms = arguments if origin in (Union, UnionType) else (hint,)
    pairs = [_pair(arm, name, success) for arm in arms]
    said = [pair for pair in pairs if pair is not None]
    if not said:
        found = _one(success, None if hint is NoneType else hint), _one(failure, Never)
        return Returned(*found, bare=True, awaited=awaited, threaded=not awaited)
    if len(said) < len(pairs):
        raise SchemaError(
            f"the function {name!r} returns {hint!r}, of which a part is a bare success and a part is not: "
            "return a Result in each case"
        )
    threaded = not awaited and all(_taken_apart(arm)[0] in _IN_A_THREAD for arm in arms)
    found = _one(success, _union([s for s, _ in said])), _one(failure, _union([f for _, f in said]))
    return Returned(*found, threaded=threaded)


def _one(given: Any, found: Any) -> Any:
    return found if given is msgspec.UNSET else given


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a type is of, and its arguments; aliases and notes are seen through."""
    if isinstance(hint, _ALIAS):
        return _taken_apart(hint.__value__)
    origin = get_origin(hint)
    if isinstance(origin, _ALIAS):
        return _taken_apart(origin.__value__[get_args(hint)])
    if origin is _ANNOTATED:
        inner, arguments = _taken_apart(get_args(hint)[0])
        return (inner, arguments) if inner in _PAIRS else (hint, ())
    return (meant(hint), ()) if origin is None else (meant(origin), get_args(hint))


def _pair(hint: Any, name: str, success: Any = msgspec.UNSET) -> tuple[Any, Any] | None:
    """Success and failure of a form that says both; None for a bare success."""
    origin, arguments = _taken_apart(hint)
    if (origin in _PAIRS or origin is Generator) and not arguments:
        if success is not msgspec.UNSET:
            return success, Never
        raise SchemaError(
            f"the return annotation of the function {name!r} says no types, or none that are kept at run time: begin "
            "its module with `from __future__ import annotations`, or say success=… and failure=…"
        )
    if origin in _PAIRS:
        return arguments[0], arguments[1] if len(arguments) > 1 else Never
    if origin is Generator:
        return arguments[2], _failure_of_steps(arguments[0], name)
    if origin is Maybe:
        raise SchemaError(f"the function {name!r} returns a Maybe: return a Result, or T | None for a bare success")
    if origin in _ASYNC_ITEMS:
        raise SchemaError(f"the function {name!r} gives items: return a Stream of them, whose last one is the result")
    return None


def _failure_of_steps(step: Any, name: str) -> Any:
    origin, arguments = _taken_apart(step)
    steps = arguments if origin in (Union, UnionType) else (step,)
    failures: list[Any] = []
    for each in steps:
        origin, arguments = _taken_apart(each)
        if origin is not EffectOf:
            raise SchemaError(
                f"the generator function {name!r} yields {each!r}, not effects: annotate it with Gen[success, failure, "
                "services], or return a list"
            )
        failures.append((_pair(each, name) or (None, Never))[1])
    return _union(failures)


def _union(types: list[Any]) -> Any:
    kept = [NoneType if each is None else each for each in dict.fromkeys(types) if each is not Never]
    if not kept:
        return Never
    joined = kept[0] if len(kept) == 1 else _UNION[tuple(kept)]
    return None if joined is NoneType else joined
