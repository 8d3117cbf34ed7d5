"""Methods: what an object can do, as tools."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai import BoundToolkit, Outcome, Readonly, SchemaError, Tool, Toolkit, fx, tool
from fxai.tools import MethodsOf, NameMap, NameRule
from tests.kit.every import every


class Mode(msgspec.Struct, frozen=True):
    """A way to round."""

    digits: int = 0


class Calculator:
    """Calculates."""

    def __init__(self, start: int = 0) -> None:
        """Begin with a memory."""
        self.memory = start

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: The first number
            b: The second number
        """
        return a + b

    def divide(self, a: int, b: int) -> Result[float, str]:
        """Divides."""
        return Success(a / b) if b else Failure("by zero")

    async def remember(self, n: int) -> int:
        """Adds to the memory."""
        self.memory += n
        return self.memory

    def undescribed(self, a: int) -> int:  # noqa: D102  # so that it is not offered
        return a

    def _private(self, a: int) -> int:
        """Not offered."""
        return a

    @property
    def described_property(self) -> int:
        """A property is no method, and is not read."""
        raise AssertionError("a property was read")

    @cached_property
    def cached(self) -> int:
        """No method either."""
        raise AssertionError("a property was read")

    @staticmethod
    def negate(a: int) -> int:
        """Negates."""
        return -a

    @classmethod
    def title(cls) -> str:
        """Names the class."""
        return cls.__name__

    @tool(annotations={Readonly: True}, name="recall")
    def read(self) -> int:
        """Reads the memory."""
        return self.memory


def _called(bound: BoundToolkit[Any, Any, Any], name: str, params: dict[str, Any]) -> Outcome:
    outcome: Outcome = fx.run(bound.toolkit.call(name, params).provide(bound.layer))
    return outcome


def test_public_described_methods_are_offered() -> None:
    """In the order they are written; nothing private, undescribed, or that is no method."""
    tools = Toolkit.from_object(Calculator()).toolkit

    assert list(tools.tools) == [
        "Calculator.add",
        "Calculator.divide",
        "Calculator.remember",
        "Calculator.negate",
        "Calculator.title",
        "Calculator.recall",
    ]


def test_a_method_is_described_as_a_function_is() -> None:
    """Names and descriptions of its parameters, without `self`."""
    add = Toolkit.from_object(Calculator()).toolkit.tools["Calculator.add"]

    assert add.description == "Adds two numbers."
    assert add.json_schema() == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number"},
            "b": {"type": "integer", "description": "The second number"},
        },
        "required": ["a", "b"],
    }


def test_the_names_go_over_the_wire() -> None:
    """And come back."""
    tools = Toolkit.from_object(Calculator()).toolkit
    names = NameMap.of(tools, NameRule(64))

    assert names.sent("Calculator.add") == "Calculator__add"
    assert names.meant("Calculator__add") == "Calculator.add"


def test_methods_run_on_their_object() -> None:
    """Of every kind."""
    calculator = Calculator(1)
    bound = Toolkit.from_object(calculator)
    given: list[tuple[str, dict[str, Any]]] = [
        ("add", {"a": 1, "b": 2}),
        ("divide", {"a": 1, "b": 2}),
        ("remember", {"n": 4}),
        ("negate", {"a": 1}),
        ("title", {}),
        ("recall", {}),
    ]

    assert [_called(bound, f"Calculator.{name}", params).result for name, params in given] == [
        3,
        0.5,
        5,
        -1,
        "Calculator",
        5,
    ]
    assert calculator.memory == 5


def test_what_stands_before_the_name_can_be_said() -> None:
    """Another word, or nothing; the dot comes with it."""
    assert list(Toolkit.from_object(Calculator(), name="math", only=["add"]).toolkit.tools) == ["math.add"]
    assert list(Toolkit.from_object(Calculator(), name="", only=["add", "read"]).toolkit.tools) == ["add", "recall"]


def test_only_some_methods_may_be_offered() -> None:
    """Those named, which must be there."""
    assert len(Toolkit.from_object(Calculator(), only=["negate", "add"]).toolkit) == 2
    with pytest.raises(
        SchemaError, match=r"no public method 'minus', 'undescribed' with a docstring\. Use one of: add, divide"
    ):
        Toolkit.from_object(Calculator(), only=["add", "undescribed", "minus"])


def test_options_are_for_each_tool() -> None:
    """Also for those that are tools already; their own annotations stay."""
    bound = Toolkit.from_object(Calculator(), failure_mode="return")

    assert {each.failure_mode for each in bound.toolkit} == {"return"}
    assert bound.toolkit.tools["Calculator.recall"].get(Readonly) is True
    assert _called(bound, "Calculator.divide", {"a": 1, "b": 0}).encoded_result == "by zero"


def test_methods_of_a_base_come_first() -> None:
    """Those that are overridden run as overridden, and inherit their description."""

    class Scientific(Calculator):
        def add(self, a: int, b: int) -> int:
            return 1000

        def root(self, a: float, mode: Mode = Mode()) -> float:  # noqa: B008  # a frozen value
            """Takes the root."""
            return round(math.sqrt(a), mode.digits)

    bound = Toolkit.from_object(Scientific(), name="s")

    assert next(iter(bound.toolkit.tools)) == "s.add"
    assert list(bound.toolkit.tools)[-1] == "s.root"
    assert bound.toolkit.tools["s.add"].description == "Adds two numbers."
    assert _called(bound, "s.add", {"a": 1, "b": 1}).result == 1000
    assert _called(bound, "s.root", {"a": 9.0}).result == 3.0


def test_a_decorated_method_is_seen_through() -> None:
    """Such as one that is cached."""

    class Cached:
        @lru_cache  # noqa: B019  # a class for this test only
        def slow(self, a: int) -> int:
            """Takes a while."""
            return a + 1

    assert _called(Toolkit.from_object(Cached()), "Cached.slow", {"a": 1}).result == 2


class Nothing:
    """Has nothing to offer."""

    def quiet(self) -> None: ...  # noqa: D102  # so that it is not offered


class Broken:
    """Has a method that cannot be a tool."""

    def run(self, *args: int) -> None:
        """Runs."""


@every(
    ("make", "said"),
    [
        (lambda: Calculator, r"cannot create tools from the class Calculator. Pass an object: Calculator\(…\)"),
        (Nothing, "Nothing has no public method with a docstring"),
        (Broken, r"cannot create a tool from Broken.run: .* cannot have the parameter \*args"),
        (lambda: 3, "int has no public method"),
        (dict, "dict has no public method"),
    ],
)
def test_what_offers_nothing_is_refused(make: Callable[[], object], said: str) -> None:
    """With what to do."""
    with pytest.raises(SchemaError, match=said):
        Toolkit.from_object(make())


def test_one_object_twice_is_once() -> None:
    """Two bound toolkits of it are equal, and merge into one."""
    calculator = Calculator(1)
    one, other = Toolkit.from_object(calculator), Toolkit.from_object(calculator)

    assert one == other
    assert one.merge(other) == one
    assert _called(one.merge(other), "Calculator.recall", {}).result == 1


def test_objects_of_one_class_need_names() -> None:
    """Their tools are alike, and each has its own handler."""
    one, two = Toolkit.from_object(Calculator(1), name="one"), Toolkit.from_object(Calculator(2), name="two")
    both = one.merge(two)

    assert one.toolkit.tools["one.add"] != two.toolkit.tools["two.add"]
    assert _called(both, "one.remember", {"n": 1}).result == 2
    assert _called(both, "two.remember", {"n": 1}).result == 3


def test_the_type_of_their_handlers_is_no_value() -> None:
    """It speaks to checkers only."""
    with pytest.raises(TypeError, match="MethodsOf is only a type"):
        MethodsOf[int]()


def test_tools_are_user_defined() -> None:
    """As those of `Tool.make`."""
    assert all(Tool.is_user_defined(each) for each in Toolkit.from_object(Calculator()).toolkit)
