"""What a function returns, by its annotation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterable, Iterator
from types import GenericAlias
from typing import Annotated, Any, Never, Union

import msgspec
import pytest
from returns.context import RequiresContextFutureResult
from returns.future import Future, FutureResult
from returns.io import IO, IOFailure, IOResult, IOSuccess
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, ResultE, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai import Schema, SchemaError, Tool, fx
from fxai.effects import EffectOf, Gen, StreamOf
from fxai.tools.type_hints import Returned, data_meant, hints_of, read_return
from tests.kit.every import every

_T = TypeVar("_T")
Named = TypeAliasType("Named", Result[int, str])
Either = TypeAliasType("Either", Result[_T, str], type_params=(_T,))
EFFECT: Any = EffectOf
STREAM: Any = StreamOf
GEN: Any = Gen
_UNION: Any = Union


def _pair(success: Any, failure: Any = Never) -> Returned:
    return Returned(success, failure)


def _step(*failures: Any) -> Any:
    """The type of a generator's steps: effects with these failures."""
    return _UNION[tuple(_of(EFFECT, Any, failure) for failure in failures)]


def _of(origin: Any, *arguments: Any) -> Any:
    return GenericAlias(origin, arguments)


@every(
    ("hint", "expected"),
    [
        (Result[int, str], Returned(int, str, threaded=True)),
        (IOResult[int, str], Returned(int, str, threaded=True)),
        (ResultE[int], Returned(int, Exception, threaded=True)),
        (Named, Returned(int, str, threaded=True)),
        (Either[int], Returned(int, str, threaded=True)),
        (Annotated[Result[int, str], "noted"], Returned(int, str, threaded=True)),
        (Result[None, str], Returned(None, str, threaded=True)),
        (Result[int, str] | Result[str, bytes], Returned(int | str, str | bytes, threaded=True)),
        (Result[int, Never] | IOResult[int, str], Returned(int, str, threaded=True)),
        (FutureResult[int, str], _pair(int, str)),
        (RequiresContextFutureResult[int, str, None], _pair(int, str)),
        (Awaitable[Result[int, str]], _pair(int, str)),
        (Coroutine[Any, Any, IOResult[int, str]], _pair(int, str)),
        (_of(EFFECT, int), _pair(int)),
        (_of(EFFECT, int, str), _pair(int, str)),
        (_of(STREAM, int, str, None), _pair(int, str)),
        (_of(GEN, int, str), _pair(int, str)),
        (_of(Generator, _step(str), object, int), _pair(int, str)),
        (_of(Generator, _step(str, bytes), object, int), _pair(int, str | bytes)),
    ],
)
def test_a_form_says_success_and_failure(hint: Any, expected: Returned) -> None:
    """Each form that a handler may return."""
    assert read_return(hint, "f") == expected


@every(
    "hint",
    [int, str | None, list[int], Annotated[int, msgspec.Meta(ge=1)], bytes | None, dict[str, Any], object, Any],
)
def test_anything_else_is_the_success(hint: Any) -> None:
    """As it is annotated; no failure is declared."""
    assert read_return(hint, "f") == Returned(hint, bare=True, threaded=True)


def test_none_is_nothing() -> None:
    """A function that returns nothing has the success that `Tool.make` has by default."""
    assert read_return(type(None), "f") == Returned(None, bare=True, threaded=True)


@pytest.mark.parametrize("hint", [Awaitable[int], Coroutine[Any, Any, int]])
def test_what_is_awaited_is_the_success(hint: Any) -> None:
    """Also where an `async def` says it by itself."""
    assert read_return(hint, "f") == read_return(int, "f", awaited=True) == Returned(int, bare=True, awaited=True)


def test_given_types_take_the_place_of_the_annotation() -> None:
    """One of them, or both; the form stays."""
    assert read_return(Result[Any, str], "f", success=int) == Returned(int, str, threaded=True)
    assert read_return(Result[int, Any], "f", failure=str) == Returned(int, str, threaded=True)
    assert read_return(object, "f", success=int, failure=str) == Returned(int, str, bare=True, threaded=True)
    assert read_return(EFFECT, "f", success=int, failure=str) == Returned(int, str)
    assert read_return(Generator, "f", success=int) == Returned(int)


@every(
    ("hint", "said"),
    [
        (EFFECT, "contains no types.* or pass success=… and failure=…"),
        (STREAM, "contains no types"),
        (GEN, "contains no types"),
        (Generator, "contains no types"),
        (Result, "contains no types"),
        (int | Result[str, str], "a union of a bare success and another form. Return a Result in each case"),
        (Generator[int, None, None], "must yield effects, got <class 'int'>. Annotate it with Gen"),
        (Maybe[int], "a Maybe. Return a Result"),
        (AsyncIterator[int], "Return a Stream"),
    ],
)
def test_what_says_neither_or_both_is_refused(hint: Any, said: str) -> None:
    """With the function, what it says, and the remedy."""
    with pytest.raises(SchemaError, match=f"'f' .*{said}|{said}"):
        read_return(hint, "f")


def test_an_iterator_is_a_bare_value() -> None:
    """Of which the schema knows nothing: it is refused where the tool is used."""
    assert read_return(Iterator[int], "f").bare


def test_written_annotations_keep_what_subscripts_drop() -> None:
    """`Effect[int, str]` has no arguments at run time; an annotation in text has."""

    def f() -> EffectOf[int, str]:
        return fx.succeed(1)

    def g() -> Gen[int, str]:
        return (yield from f())

    def h() -> StreamOf[int, str, None]:
        return StreamOf.from_effect(f())

    assert [read_return(hints_of(each, {})["return"], "f") for each in (f, g, h)] == [_pair(int, str)] * 3


# -- what is no data

MAKE: Any = Tool.make
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")
ANSWERS: list[tuple[Any, str]] = [
    (Success[int], "success=int"),
    (Success, "success=int"),
    (Failure[str], "failure=str. The handler returns the Failure"),
    (IOFailure[str], "failure=str. The handler returns the Failure"),
    (IOSuccess[int], "success=int"),
    (Result[int, str], "success=int and failure=str"),
    (ResultE[int], "success=int and failure=Exception"),
    (Named, "success=int and failure=str"),
    (Either[int], "success=int"),
    (IOResult[int, str], "success=int and failure=str"),
    (FutureResult[int, str], "success=int and failure=str"),
    (RequiresContextFutureResult[int, str, None], "success=int and failure=str"),
    (Future[int], "success=int, the type of its content"),
    (IO[int], "success=int, the type of its content"),
    (Maybe[int], "success=int | None"),
    (Some[int], "success=int | None"),
    (EffectOf, "success=int"),
    (EFFECT[int, str], "success="),
    (STREAM[int, str], "success="),
    (GEN[int, str], "success="),
    (Awaitable[int], "success=int, the type of its content"),
    (Coroutine[Any, Any, int], "success=int, the type of its content"),
    (Generator[Any, Any, int], "success=int, the type of its return value"),
    (Iterator[int], "success=list[int], or return a Stream"),
    (Iterable[int], "success=list[int], or return a Stream"),
    (AsyncIterator[int], "success=list[int], or return a Stream"),
    (Success(1), "It is a value"),
    (Nothing, "It is a value"),
    (fx.succeed(1), "It is a value"),
    (list[Success[int]], "success=int"),
    (dict[str, list[Result[int, str]]], "success=int and failure=str"),
    (Success[int] | None, "success=int"),
    (Annotated[Success[int], msgspec.Meta(description="n")], "success=int"),
    (Schema.of(Success[int]), "success=int"),
]


@every(("given", "said"), ANSWERS)
def test_how_a_handler_answers_is_no_data(given: Any, said: str) -> None:
    """Refused when the tool is made, of whatever kind, with what was meant; also inside other types, and as a value."""
    makers: list[Any] = [
        lambda: Tool.make("odd", success=given),
        lambda: Tool.dynamic("odd", success=given),
        lambda: Tool.from_function(lambda: 1, name="odd", success=given).tool,
    ]
    for make in makers:
        with pytest.raises(SchemaError) as refused:
            make()
        assert str(refused.value).startswith("tool 'odd': success must be a data type, got ")
        assert said in str(refused.value)


@pytest.mark.parametrize("what", ["parameters", "failure"])
def test_parameters_and_failures_are_data_too(what: Any) -> None:
    """Each says which of the three it is about."""
    with pytest.raises(SchemaError, match=rf"tool 'odd': {what} must be a data type, got .*Result\[int, str\]"):
        MAKE("odd", **{what: Result[int, str]})


class _Success(msgspec.Struct, frozen=True):
    """A struct of a name that says nothing."""

    value: Json


@every(
    "given",
    [
        _Success,
        Json,
        list[Json],
        int | None,
        None,
        object,
        Any,
        Never,
        Annotated[Result[int, str], Schema.codec(wire=int, decode=Success, encode=lambda one: one.unwrap())],
    ],
)
def test_data_is_left_alone(given: Any) -> None:
    """What a codec carries is data, and an alias may be of itself."""
    assert data_meant(given, "success") is None
