"""What holds for every type of pydantic: the JSON Schema decides, whichever way fxai takes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from returns.result import Failure, Success

from fxai.schema import Schema
from fxai.schema.fault import pointer_tokens
from fxai.schema.foreign import Foreign, foreign
from fxai.testing import LawError, OneSidedLawWarning, check_tool
from fxai.testing.strategies import instances, not_instances
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.trials import examples

LAW = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)


class Color(Enum):
    """Constants."""

    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    """A model that contains itself."""

    name: Annotated[str, Field(max_length=3)]
    children: list[Tree] = []


class Cat(BaseModel):
    """An alternative."""

    kind: Literal["cat"] = "cat"
    lives: Annotated[int, Field(le=9)]


class Dog(BaseModel):
    """The other alternative."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["dog"]
    name: str | None = None


ANNOTATED: Any = Annotated
LIST: Any = list
DICT: Any = dict
Pet: TypeAlias = Annotated[Cat | Dog, Field(discriminator="kind")]
PETS: Any = Pet
LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        int,
        float,
        str,
        bool,
        Any,
        Color,
        Tree,
        PETS,
        Literal["a", "b"],
        Literal[1, "x", None],
        Annotated[int, Field(ge=-3, lt=5)],
        Annotated[int, Field(multiple_of=3)],
        Annotated[float, Field(gt=0.5)],
        Annotated[str, Field(min_length=1, max_length=2)],
        Annotated[str, Field(pattern="^[ab]*$")],
    ]
)
NAMES = st.sampled_from(["a", "b", "kind", "int", "Cat", "x/y~z"])


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda tp: LIST[tp])
    short = inner.map(lambda tp: ANNOTATED[LIST[tp], Field(max_length=2)])
    unions = st.tuples(inner, inner).map(lambda both: both[0] | both[1] if both[0] is not both[1] else both[0] | None)
    return (
        lists | short | inner.map(lambda tp: DICT[str, tp]) | inner.map(lambda tp: tp | None) | unions | _models(inner)
    )


@st.composite
def _models(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    """Draw a model whose fields have aliases and defaults, and that is closed, open, or ignores undeclared data."""
    fields: dict[str, Any] = {}
    for number, alias in enumerate(draw(st.lists(NAMES, max_size=3, unique=True))):
        tp = draw(inner)
        fields[f"f{number}"] = (
            (tp | None, Field(default=None, alias=alias)) if draw(st.booleans()) else (tp, Field(alias=alias))
        )
    extra: Any = draw(st.sampled_from(["ignore", "forbid", "allow"]))
    return create_model("Drawn", __config__=ConfigDict(extra=extra), **fields)


TYPES = _models(st.recursive(LEAVES, _containers, max_leaves=4))


@st.composite
def _type_and_data(draw: st.DrawFn) -> tuple[Any, Any]:
    tp = draw(TYPES)
    document = Schema[Any].of(tp).document
    data = draw(instances(document) | not_instances(document))
    return tp, data


def _slow(tp: Any) -> Foreign:
    """Return the step of a type without its quick check."""
    step = Foreign(tp)
    object.__setattr__(step, "_check", None)
    return step


@pytest.mark.law
@LAW
@given(_type_and_data())
def test_the_strict_validator_agrees_with_the_json_schema(drawn: tuple[Any, Any]) -> None:
    """One strict validator of pydantic decides as the JSON Schema does, and builds the same value."""
    tp, data = drawn
    schema: Schema[Any] = Schema.of(tp)
    fast, slow = schema.decode(data), _slow(tp)
    accepted = not schema.document.validate(data)

    assert isinstance(fast, Success) == accepted
    if isinstance(fast, Success):
        value = slow.inward(data)
        assert fast.unwrap() == value
        assert schema.decode_json(msgspec.json.encode(data)) == fast
        assert schema.encode(value).unwrap() == slow.outward(value)
        assert not schema.written_document.validate(schema.encode(value).unwrap())


@pytest.mark.law
@LAW
@given(_type_and_data())
def test_every_validation_error_is_at_a_real_location(drawn: tuple[Any, Any]) -> None:
    """The parent of each location is in the data; only the last name can be missing."""
    tp, data = drawn
    result = Schema[Any].of(msgspec.defstruct("Holder", [("held", LIST[tp])])).decode({"held": [data]})
    assume(isinstance(result, Failure))

    for fault in result.failure().faults:
        there: Any = {"held": [data]}
        for token in pointer_tokens(fault.pointer)[:-1]:
            there = there[int(token) if isinstance(there, list) else token]
        assert isinstance(there, (dict, list)), fault


@pytest.mark.law
@LAW
@given(TYPES.flatmap(lambda tp: st.tuples(st.just(tp), instances(Schema[Any].of(tp)))))
def test_a_struct_decodes_its_models_as_they_decode_alone(drawn: tuple[Any, Any]) -> None:
    """A model in a struct, a dataclass, or a list has the value that it has alone."""
    tp, data = drawn
    held: Schema[Any] = Schema.of(msgspec.defstruct("Holder", [("one", tp), ("many", DICT[int, tp])]))
    alone = Schema[Any].of(tp).decode(data).unwrap()
    value = held.decode({"one": data, "many": {"1": data}}).unwrap()

    assert (value.one, value.many) == (alone, {1: alone})
    assert held.decode(held.encode(value).unwrap()) == Success(value)


class Pattern(BaseModel):
    """A model whose strings pydantic and fxai search on their own."""

    text: Annotated[str, Field(pattern="a")]


def test_most_drawn_types_have_a_quick_check() -> None:
    """The law above compares two ways: most types without patterns have the quick check."""
    tree: Any = foreign(
        create_model(
            "Kinds",
            tree=(Tree, ...),
            pet=(PETS, ...),
            color=(Color | None, None),
            n=(float, 1),
        )
    )
    pattern: Any = foreign(Pattern)

    assert tree._check is not None
    assert pattern._check is None


@pytest.mark.law
@LAW
@given(_type_and_data())
def test_the_quick_check_accepts_no_other_data_than_the_json_schema(case: tuple[Any, Any]) -> None:
    """A check by msgspec or by pydantic accepts only data that satisfies the JSON Schema."""
    tp, data = case
    check: Any = foreign(tp)
    check = check._check
    assume(check is not None)

    try:
        check(data)
    except ValueError:
        return
    assert Schema[Any].of(tp).document.validate(data) == ()


class Order(BaseModel):
    """A model that passes every law."""

    pet: Pet
    tree: Tree | None = None


class Record(msgspec.Struct):
    """A struct that contains a model."""

    order: Order
    count: Annotated[int, msgspec.Meta(ge=0)]


@pytest.mark.law
@every("tp", [Order, Record, Tree, list[Order], Annotated[int, Field(gt=0)]])
def test_tools_over_both_kinds_of_types_pass_the_laws(tp: Any) -> None:
    """`check_tool` accepts types of pydantic, of msgspec, and of both."""
    check_tool(Tool.make("t", parameters=tp, success=tp, failure=tp), max_examples=examples(20), seed=1)


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


class Even(BaseModel):
    """A model with a validator that its JSON Schema does not describe."""

    number: Annotated[int, AfterValidator(_even)]


@pytest.mark.law
def test_check_tool_says_that_a_law_is_one_sided() -> None:
    """With a validator of its own, the decoder can refuse more than the JSON Schema; `check_tool` warns of it."""
    with pytest.warns(OneSidedLawWarning, match="tool 'even': .*one-sided.*Even has validators"):
        check_tool(Tool.make("even", parameters=Even), max_examples=examples(20), seed=1)


@pytest.mark.law
def test_a_failing_law_of_a_struct_is_still_found() -> None:
    """A type of msgspec gets no exception from the types of pydantic beside it."""
    odd: Any = Annotated[int, Schema.codec(wire=int, decode=_even, encode=int)]
    with pytest.raises(LawError, match="must be even"):
        check_tool(Tool.make("odd", parameters=msgspec.defstruct("Odd", [("n", odd), ("order", Order)])), seed=1)
