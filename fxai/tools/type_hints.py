"""Type hints are the resolved annotations of a function. fxai uses this module to read the type of a tool's result.

>>> def twice(n: "int", context: "CallContext") -> "int":
...     return n * 2
>>> sorted(hints_of(twice, {"CallContext": object}))
['context', 'n', 'return']
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import is_dataclass
from functools import partial
from types import FrameType, NoneType, UnionType
from typing import Annotated, Any, Literal, Never, Union, final, get_args, get_origin, get_type_hints

import msgspec
from returns.context import RequiresContext, RequiresContextFutureResult, RequiresContextIOResult, RequiresContextResult
from returns.future import Future, FutureResult
from returns.io import IO, IOFailure, IOResult
from returns.maybe import Maybe
from returns.result import Failure, Result
from typing_extensions import TypeAliasType

from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Gen
from fxai.effects.scope import Scope
from fxai.effects.service import ReferenceMeta
from fxai.effects.stream import StreamOf
from fxai.schema.codec import Schema
from fxai.schema.codecs import Codec
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema

WRITTEN = "__fx_written__"
"""The attribute of a wrapper that contains the original function."""
_FROM_PYTHON = "fxai."


def innermost(f: Callable[..., Any]) -> Any:
    """Return the original function inside partials, wrappers, methods, and callable objects."""
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


def name_of(f: Any) -> str:
    """Return the name of a function. For a partial, use its function. For another object, use its class."""
    function: Any = f.func if isinstance(f, partial) else f
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def hints_of(f: Callable[..., Any], around: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of `f` by parameter, and its return annotation under `"return"`.

    The function resolves names in `around`, then in the closure of `f`, then in its module.

    Raises:
        NameError: If a name is undefined, or not defined yet.
    """
    function = innermost(f)
    globals_: dict[str, Any] = getattr(function, "__globals__", {})
    local = {**_closed_over(function), **around}
    return get_type_hints(function, globals_, local, include_extras=True)


def needed_services(f: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the keys of the services that the return annotation of a function names.

    The annotation is an effect, a generator, or a stream. `()` if fxai cannot resolve the annotation.

    >>> from fxai.effects.service import Service
    >>> class Db(Service): ...
    >>> def find(name: str) -> "Gen[str, str, Db | None]": ...
    >>> needed_services(find) == (Db,)
    True
    """
    function = getattr(f, WRITTEN, f)
    try:
        hint: Any = hints_of(function, {}).get("return")
    except Exception:  # a name may exist only for checkers
        hint = None
    return tuple(dict.fromkeys(_services(hint)))


def services_in(hint: Any) -> tuple[Any, ...]:
    """Return the keys of the services in a hint of requirements, such as `Db | Log | None`."""
    return tuple(dict.fromkeys(_services(hint, needed=True)))


def _services(hint: Any, *, needed: bool = False) -> Iterator[Any]:
    """Yield the keys in a hint: in the argument for requirements, or in the whole hint if `needed` is True."""
    if isinstance(hint, type) and get_origin(hint) is None:
        key = getattr(hint, "__fx_key__", None) if needed and not isinstance(hint, ReferenceMeta) else None
        if key is not None and hint is not Scope:
            yield key()
        return
    origin, arguments = get_origin(hint), get_args(hint)
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
        except ValueError:  # the variable has no value yet
            continue
    return found


def names_around() -> dict[str, Any]:
    """Return the current local names of the nearest caller outside of this package."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_FROM_PYTHON):
        frame = frame.f_back
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


_PAIRS: tuple[Any, ...] = (EffectOf, StreamOf, Gen, Result, IOResult, FutureResult, RequiresContextFutureResult)
_AWAITED: tuple[Any, ...] = (Awaitable, Coroutine)
_ASYNC_ITEMS: tuple[Any, ...] = (AsyncGenerator, AsyncIterator, AsyncIterable)
_NAME_BOTH: tuple[Any, ...] = (
    Gen,
    *(EffectOf, StreamOf, Result, IOResult, FutureResult),
    *(RequiresContextResult, RequiresContextIOResult, RequiresContextFutureResult),
)
_NAME_ONE: tuple[Any, ...] = (IO, Future, RequiresContext)
_IN_A_THREAD: tuple[Any, ...] = (Result, IOResult)
_ALIAS: tuple[Any, ...] = (TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType))
_ANNOTATED: Any = Annotated
_STRUCT: type[Any] = type(msgspec.Struct)
_PROGRAMS: tuple[Any, ...] = (EffectOf, StreamOf)
_SURELY_DATA = frozenset((str, int, bool, float, object, NoneType))
_UNION: Any = Union


@final
class Returned(msgspec.Struct, frozen=True):
    """The return type of a function."""

    success: Any
    """The type of the success."""
    failure: Any = Never
    """The type of the failure."""
    bare: bool = False
    """True if the return value is the success itself."""
    awaited: bool = False
    """True if the bare success must be awaited."""
    threaded: bool = False
    """True if a worker thread can run the function."""


def read_return(
    hint: Any, name: str, *, awaited: bool = False, success: Any = msgspec.UNSET, failure: Any = msgspec.UNSET
) -> Returned:
    """Return the success and failure in a function's return annotation. `awaited` is True for an `async def`.

    A `Result`, `IOResult`, `FutureResult`, `RequiresContextFutureResult`, `Effect`, `Gen`, or `Stream` contains both
    types, and so does a union of them. Any other type is the success, without a failure. The options `success` and
    `failure` replace the types of the annotation.

    Raises:
        SchemaError: If the annotation contains no types, or mixes a bare success with another form.
    """
    origin, arguments = _taken_apart(hint)
    if origin in _AWAITED and arguments:
        return read_return(arguments[-1], name, awaited=True, success=success, failure=failure)
    arms = arguments if origin in (Union, UnionType) else (hint,)
    pairs = [_pair(arm, name, success) for arm in arms]
    declared = [pair for pair in pairs if pair is not None]
    if not declared:
        value = _choose_type(name, "success", success, None if hint is NoneType else hint)
        return Returned(
            value, _choose_type(name, "failure", failure, Never), bare=True, awaited=awaited, threaded=not awaited
        )
    if len(declared) < len(pairs):
        raise SchemaError(
            f"function {name!r} returns {hint!r}, a union of a bare success and another form. "
            "Return a Result in each case."
        )
    threaded = not awaited and all(_taken_apart(arm)[0] in _IN_A_THREAD for arm in arms)
    value = _choose_type(name, "success", success, _union([s for s, _ in declared]))
    return Returned(value, _choose_type(name, "failure", failure, _union([f for _, f in declared])), threaded=threaded)


def _choose_type(name: str, what: Literal["success", "failure"], given: Any, found: Any) -> Any:
    """Return the type of an option. Without the option, return the type of the return annotation.

    The function compares only classes, because a generic type or a class of another library may describe the same data.

    Raises:
        SchemaError: If a class in the annotation and the option are not subclasses of each other.
    """
    if given is msgspec.UNSET:
        return found
    options, returned = _plain_classes(given), _plain_classes(found)
    for one in returned if options else ():
        wider = float if one is int else one
        if not any(issubclass(one, other) or issubclass(other, one) or other is wider for other in options):
            declared, option = inspect.formatannotation(found), inspect.formatannotation(given)
            raise SchemaError(
                f"function {name!r}: the return annotation contains the {what} {declared}, but the option is "
                f"{what}={option}. Omit the option, or correct the annotation."
            )
    return given


def _plain_classes(hint: Any) -> list[type]:
    """Return the members of a union of classes, or a single class. Return an empty list if it has another member."""
    origin, arguments = _taken_apart(hint)
    arms = arguments if origin in (Union, UnionType) else (hint,)
    arms = tuple(NoneType if one is None else one for one in arms)
    plain = [one for one in arms if one in _SURELY_DATA or isinstance(one, _STRUCT) or is_dataclass(one)]
    return [one for one in plain if isinstance(one, type)] if len(plain) == len(arms) else []


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin and the arguments of a type, without aliases and annotations."""
    if isinstance(hint, _ALIAS):
        return _taken_apart(hint.__value__)
    origin = get_origin(hint)
    if isinstance(origin, _ALIAS):
        return _taken_apart(origin.__value__[get_args(hint)])
    if origin is _ANNOTATED:
        inner, arguments = _taken_apart(get_args(hint)[0])
        return (inner, arguments) if inner in _PAIRS else (hint, ())
    return (hint, ()) if origin is None else (origin, get_args(hint))


def _pair(hint: Any, name: str, success: Any = msgspec.UNSET) -> tuple[Any, Any] | None:
    """Return the success and failure of a form with both types, or None for a bare success."""
    origin, arguments = _taken_apart(hint)
    if (origin in _PAIRS or origin is Generator) and not arguments:
        if success is not msgspec.UNSET:
            return success, Never
        raise SchemaError(
            f"function {name!r}: the return annotation contains no types. Write them in brackets, such as "
            "`Result[int, str]`, or pass success=… and failure=…."
        )
    if origin in _PAIRS:
        return arguments[0], arguments[1] if len(arguments) > 1 else Never
    if origin is Generator:
        return arguments[2], _failure_of_steps(arguments[0], name)
    if origin is Maybe:
        raise SchemaError(
            f"function {name!r} must not return a Maybe. Return a Result, or T | None for a bare success."
        )
    if origin in _ASYNC_ITEMS:
        raise SchemaError(f"function {name!r} must not yield items. Return a Stream, whose last item is the result.")
    return None


def _failure_of_steps(step: Any, name: str) -> Any:
    origin, arguments = _taken_apart(step)
    steps = arguments if origin in (Union, UnionType) else (step,)
    failures: list[Any] = []
    for each in steps:
        origin, arguments = _taken_apart(each)
        if origin is not EffectOf:
            raise SchemaError(
                f"generator function {name!r} must yield effects, got {each!r}. Annotate it with Gen[success, failure, "
                "services], or return a list."
            )
        failures.append((_pair(each, name) or (None, Never))[1])
    return _union(failures)


def _union(types: list[Any]) -> Any:
    kept = [NoneType if each is None else each for each in dict.fromkeys(types) if each is not Never]
    if not kept:
        return Never
    joined = kept[0] if len(kept) == 1 else _UNION[tuple(kept)]
    return None if joined is NoneType else joined


def data_meant(given: Any, what: Literal["parameters", "success", "failure"]) -> str | None:
    """Return the reason why a type is a handler's return type and not data, with advice. Return None if it may be data.

    The check includes the type and its arguments. A location with a codec is data.

    >>> print(data_meant(Result[int, str], "success"))
    success must be a data type, got returns.result.Result[int, str]. Pass success=int and failure=str.
    """
    if type(given) is _STRUCT and not issubclass(given, _PROGRAMS):
        return None
    if given is Never or (type(given) is type and given in _SURELY_DATA):
        return None
    advice = _answering(given, what, ())
    if advice is None:
        return None
    return f"{what} must be a data type, got {_type_name(given)}. {advice}."


def _answering(given: Any, what: str, around: tuple[Any, ...]) -> str | None:
    """Return advice for a type that is a handler's return type. `around` contains the enclosing aliases."""
    alias = given if isinstance(given, _ALIAS) else get_origin(given)
    if isinstance(alias, _ALIAS):
        if alias in around:
            return None
        around = (*around, alias)
    if get_origin(given) is _ANNOTATED and any(isinstance(note, Codec) for note in get_args(given)[1:]):
        return None
    bare = get_args(given)[0] if get_origin(given) is _ANNOTATED else given
    origin, arguments = _taken_apart(bare)
    if isinstance(bare, (*_NAME_BOTH, *_NAME_ONE, Maybe)):
        return f"It is a value. Pass the type of its content, as in {what}=int"
    if isinstance(origin, type):
        advice = _advice_on(origin, [_type_name(one) for one in arguments], what)
        if advice is not None:
            return advice
    inside = () if origin is Literal else arguments
    return next((advice for one in inside if (advice := _answering(one, what, around)) is not None), None)


def _advice_on(origin: type, inside: list[str], what: str) -> str | None:
    first = inside[0] if inside else "int"
    if issubclass(origin, (Failure, IOFailure)):
        return f"Pass failure={first}. The handler returns the Failure"
    if issubclass(origin, _NAME_BOTH):
        both = f"Pass success={first}" + (f" and failure={inside[1]}" if len(inside) > 1 else "")
        return f"Pass {what}={first}" if what == "parameters" else both
    if issubclass(origin, Maybe):
        return f"Pass {what}={first} | None"
    if issubclass(origin, _NAME_ONE) or origin in _AWAITED:
        return f"Pass {what}={inside[-1] if inside else 'int'}, the type of its content"
    if origin is Generator:
        return f"Pass {what}={inside[2] if len(inside) > 2 else first}, the type of its return value"
    if origin in (*_ASYNC_ITEMS, Iterator, Iterable):
        return f"Pass {what}=list[{first}], or return a Stream, whose items have the success type"
    return None


def _type_name(given: Any) -> str:
    return given.__name__ if isinstance(given, type) and not get_args(given) else repr(given)


def data_schema(type_: Any, name: str, what: Literal["parameters", "success", "failure"]) -> Schema[Any]:
    """Return the schema of a type of the tool `name`.

    Raises:
        SchemaError: If the type has no JSON form, or is the return type of a handler. If a field of a class names an
            undefined class, the check happens at the first use.
    """
    if isinstance(type_, Mapping | JsonSchema):
        remedy = f"Use Tool.dynamic({name!r}, parameters=…)" if what == "parameters" else f"Use {what}=object"
        raise SchemaError(f"tool {name!r}: {what} must be a type, got a JSON Schema document. {remedy}.")
    try:
        schema: Schema[Any] = Schema.of(type_)
    except SchemaError as error:
        raise SchemaError(f"tool {name!r}: {what}: {error}") from None
    meant = data_meant(schema.type, what)
    if meant is not None:
        raise SchemaError(f"tool {name!r}: {meant}")
    try:
        schema.check()
    except SchemaError as error:
        raise SchemaError(f"tool {name!r}: {what}: {error}") from None
    except NameError:
        pass  # a field names a class that the module defines later
    return schema
