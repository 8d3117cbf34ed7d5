"""Types of any form as parameters, success, failure, output and schema: what checkers infer of them."""

import abc
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Never, NewType, Protocol, TypeAlias, TypedDict, assert_type

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeAliasType, TypeVar

from fxai import Agent, AiError, CallContext, Chat, Effect, LanguageModel, RunError, Schema, Tool, ToolError, fx
from fxai.agents.stateful import Render, State
from fxai.effects import EffectOf, LayerOf
from fxai.models import ObjectPending
from fxai.schema import Empty
from fxai.tools import HandlerOf

T = TypeVar("T")


class Broken(msgspec.Struct, frozen=True, tag=True):
    code: int


class Other(msgspec.Struct, frozen=True, tag=True):
    why: str


@dataclass
class Order:
    number: int


class Location(TypedDict):
    name: str


class Colour(enum.Enum):
    RED = "red"


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


class Named(Protocol):
    @property
    def name(self) -> str: ...


UserId = NewType("UserId", int)
Trouble: TypeAlias = Broken | Other
Either = TypeAliasType("Either", int | str)
Page = TypeAliasType("Page", list[T], type_params=(T,))
Positive = Annotated[int, msgspec.Meta(gt=0)]

# --- what is no class: of a tool

pay = Tool.make("pay", parameters=Order, success=int | None, failure=Broken | Other)
assert_type(pay, Tool[Order, int | None, Broken | Other])
assert_type(Tool.make("a", failure=Trouble), Tool[Empty, None, Broken | Other])
level = Tool.make("level", parameters=Literal["low", "high"], success=Positive, failure=UserId)
assert_type(level, Tool[Literal["low", "high"], int, UserId])
lists = Tool.make("lists", parameters=dict[str, Order], success=tuple[int, ...], failure=list[Order] | None)
assert_type(lists, Tool[dict[str, Order], tuple[int, ...], list[Order] | None])
aliases = Tool.make("aliases", parameters=Either, success=Page[int], failure=Location)
assert_type(aliases, Tool[int | str, list[int], Location])
nothing = Tool.make("nothing", parameters=None, success=None, failure=Never)
assert_type(nothing, Tool[None, None, Never])
anything = Tool.make("anything", parameters=Shape, success=object, failure=Colour)
assert_type(anything, Tool[Shape, object, Colour])
given = Tool.make("given", parameters=Schema.of(int | None), success=str, failure=Schema.of(Broken | Other))
assert_type(given, Tool[int | None, str, Broken | Other])
made = Tool.dynamic("made", parameters=int | str, failure=Broken | Other)
assert_type(made, Tool[int | str, object, Broken | Other])
run_there = Tool.provider_defined(
    id="acme.run", name="run", provider_name="run", requires_handler=True, parameters=Literal["a"], failure=int | str
)
assert_type(run_there(), Tool[Literal["a"], None, int | str])


def settle(order: Order) -> Result[int | None, Broken | Other]:
    return Failure(Broken(order.number)) if order.number else Success(None)


paid = pay.call(Order(1)).provide(pay.handler(settle))
assert_type(fx.run(paid.result()), Result[int | None, Broken | Other])

# --- of a schema

assert_type(Schema.of(int | None), Schema[int | None])
assert_type(Schema.of(Literal["a", "b"]), Schema[Literal["a", "b"]])
assert_type(Schema.of(Positive), Schema[int])
assert_type(Schema.of(UserId), Schema[UserId])
assert_type(Schema.of(None), Schema[None])
assert_type(Schema.of(Never), Schema[Never])
assert_type(Schema.of(Page[Order]), Schema[list[Order]])
assert_type(Schema.of(Shape), Schema[Shape])
assert_type(Schema.of(Named), Schema[Named])


def rows_of(one: type[T], many: Schema[T]) -> None:
    """Types that a caller chooses stay those of the caller."""
    assert_type(Schema.of(one), Schema[T])
    assert_type(Tool.make("rows", parameters=one, success=many), Tool[T, T, Never])


def known_at_run_time(form: Any) -> Schema[Any]:
    return Schema.of(form)


# --- of an agent, and of a typed answer

desk = Agent.make("desk", output=Broken | Other)
by_agent: Effect[Broken | Other, RunError, LanguageModel] = desk.execute("Well?").map(lambda answer: answer.output)
asked = LanguageModel.generate_object("Well?", int | None).map(lambda answer: answer.value)
assert_type(asked, EffectOf[int | None, AiError | ToolError | ObjectPending, LanguageModel | None])


def in_chat(chat: Chat) -> None:
    answered = chat.generate_object("Well?", Either).map(lambda answer: answer.value).or_die()
    assert_type(answered, EffectOf[int | str, Never, LanguageModel | None])


def rendered(at: Render) -> None:
    assert_type(at.state("count", None, schema=int | None), State[int | None])
    assert_type(at.state("size", "small", schema=Literal["small", "large"]), State[Literal["small", "large"]])


# --- a raw document: its handler receives any JSON value, or the value that `validation` returns

raw = Tool.dynamic("raw", parameters={"type": "object"}, success=int | None)
assert_type(raw, Tool[object, int | None, Never])


def as_mapping(value: object) -> Result[Mapping[str, object], str]:
    try:
        return Success(msgspec.convert(value, dict[str, object]))
    except msgspec.ValidationError as error:
        return Failure(str(error))


checked = Tool.dynamic("checked", parameters={"type": "object"}, validation=as_mapping, success=int | None)
assert_type(checked, Tool[Mapping[str, object], int | None, Never])


def on_mapping(params: Mapping[str, object]) -> Result[int | None, Never]:
    return Success(len(params))


def on_object(params: object) -> Result[int | None, Never]:
    return Success(len(str(params)))


assert_type(raw.handler(on_object), LayerOf[HandlerOf[object, int | None, Never], Never, None])
assert_type(checked.handler(on_mapping), LayerOf[HandlerOf[Mapping[str, object], int | None, Never], Never, None])
called: Effect[int | None, Never, HandlerOf[object, int | None, Never]] = raw.call({"a": 1})

# --- options know parameters and success

Tool.make("a", parameters=Order, needs_approval=lambda order, call: order.number > 1 and call.call_id != "")
Tool.make("a", parameters=int | None, needs_approval=lambda number, call: number is None)
Tool.make("a", success=Order, to_model_output=lambda order: order.number)
Tool.make("a", success=int | None, to_model_output=lambda number: number or 0)
pay.with_options(needs_approval=lambda order, call: order.number > 1, to_model_output=lambda cents: cents or 0)


def always(params: object, call: object) -> bool:
    return True


def ask(order: Order, call: CallContext) -> EffectOf[bool]:
    return fx.succeed(order.number > 1)


assert_type(Tool.make("a", parameters=Order, needs_approval=always), Tool[Order, None, Never])
assert_type(Tool.make("a", parameters=Order, needs_approval=ask), Tool[Order, None, Never])
choose: Callable[[Any, Any], bool] = always
assert_type(Tool.make("a", parameters=Order, needs_approval=choose), Tool[Order, None, Never])
