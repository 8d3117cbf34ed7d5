"""Mistakes that no checker sees are refused when the tool or its handler is made, by name."""

from __future__ import annotations

import pickle
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest
from returns.result import Result

from fxai import tool
from fxai.annotations import CacheControl, Meta, Namespace, Readonly, Strict, Title
from fxai.effects import Gen
from fxai.schema import Schema, SchemaError
from fxai.tools import Tool, Toolkit


class Order(msgspec.Struct):
    """A success."""

    id: int


class Paid(Order):
    """A narrower one."""

    cents: int


class Other(msgspec.Struct):
    """One of the same fields."""

    id: int


def _function(returned: Any) -> Callable[..., Any]:
    def count(n: int) -> Any:
        """Counts."""
        return n

    count.__annotations__["return"] = returned
    return count


@pytest.mark.parametrize(
    ("returned", "option", "said"),
    [
        (int, {"success": str}, "contains the success int, but the option is success=str"),
        (int | None, {"success": int}, r"contains the success int \| None, but the option is success=int"),
        (Order, {"success": Other}, "contains the success .*Order, but the option is success=.*Other"),
        (Awaitable[int], {"success": str}, "contains the success int"),
        (Result[int, str], {"success": str}, "contains the success int"),
        (Result[int, str], {"failure": int}, "contains the failure str, but the option is failure=int"),
        (Gen[int, str], {"success": Order}, "contains the success int"),
    ],
)
def test_an_option_that_contradicts_the_annotation_is_refused(returned: Any, option: Any, said: str) -> None:
    """The error names the function, the annotation, and the option."""
    with pytest.raises(SchemaError, match=f"function 'count': the return annotation {said}"):
        tool(**option)(_function(returned))


@pytest.mark.parametrize(
    ("returned", "success"),
    [
        (int, float),
        (bool, int),
        (int, int | str),
        (Paid, Order),
        (Order, Paid),
        (object, int),
        (Any, int),
        (dict[str, int], Order),
        (Annotated[int, msgspec.Meta(ge=1)], int),
        (int, Annotated[int, msgspec.Meta(ge=1)]),
        (Literal["a"], str),
        (int, Schema.of(str)),
        (Result[int, str], int),
    ],
)
def test_an_option_that_may_describe_the_same_data_is_accepted(returned: Any, success: Any) -> None:
    """A wider or narrower class, a type with arguments, and a schema of the program's own."""
    assert tool(success=success)(_function(returned)).name == "count"


def test_an_asynchronous_generator_is_no_handler() -> None:
    """It is refused when the layer is made, and the error says what to return."""

    async def items(_: object) -> AsyncIterator[int]:
        yield 1

    counting: Any = Tool.make("counting", success=int)
    with pytest.raises(TypeError, match=r"handler of 'counting' is an asynchronous generator.*Stream\.from_async"):
        counting.handler(items)


def test_one_text_is_no_list_of_methods() -> None:
    """`only="deposit"` would be the methods d, e, p, and so on."""

    class Bank:
        def deposit(self, cents: int) -> int:
            """Deposits."""
            return cents

    with pytest.raises(SchemaError, match=r"only must be a list of method names, got 'deposit'.*only=\['deposit'\]"):
        Toolkit.from_object(Bank(), only="deposit")
    assert list(Toolkit.from_object(Bank(), only=["deposit"]).toolkit.tools) == ["Bank.deposit"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (Readonly, "yes", "a bool"),
        (Readonly, 1, "a bool"),
        (Strict, "auto", "a bool or None"),
        (Title, 3, "a str or None"),
        (Meta, "a", "a Mapping"),
        (CacheControl, 5, "a str or None"),
        (Namespace, "crm", "a ToolNamespace or None"),
    ],
)
def test_an_annotation_of_another_type_is_refused(key: Any, value: object, expected: str) -> None:
    """A text such as "yes" counts as true everywhere, also if it says "no"."""
    find: Any = Tool.make("find")
    pattern = f"annotation {key.name!r} must be {expected}, got {value!r}$"
    with pytest.raises(TypeError, match=pattern):
        find.annotate(key, value)
    with pytest.raises(TypeError, match=pattern):
        find.annotate_all({key: value})
    with pytest.raises(TypeError, match=pattern):
        Toolkit.make(find).annotate_all({pickle.loads(pickle.dumps(key)): value})


class Bag:
    """A class without a JSON form."""


def _takes(kind: Any) -> Callable[..., Any]:
    def keep(value: Any) -> str:
        """Keeps a value."""
        return str(value)

    keep.__annotations__["value"] = kind
    return keep


@pytest.mark.parametrize(
    ("kind", "named", "location"),
    [
        (Bag, "Bag", "value"),
        (list[Bag], "Bag", "value[]"),
        (dict[str, Bag], "Bag", "value[]"),
        (Bag | None, "Bag", "value"),
        (tuple[int, Bag], "Bag", "value[]"),
        (Annotated[Bag, "A bag"], "Bag", "value"),
    ],
)
def test_a_function_with_an_unsupported_parameter_type_is_refused(kind: Any, named: str, location: str) -> None:
    """`@tool` names the tool, the type, the parameter, and the remedy when it makes the tool."""
    with pytest.raises(SchemaError) as error:
        tool(_takes(kind))

    message = str(error.value)
    assert message.startswith("tool 'keep': parameters: ")
    assert re.search(rf"{named}.* at \S*keep\.parameters\.{re.escape(location)} has no JSON form", message)
    assert "Declare a codec: Annotated[" in message
