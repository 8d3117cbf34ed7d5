"""Wrong programs about types of any form: each line with `wrong` must be reported by both checkers, and no other."""

from typing import Any

import msgspec
from returns.result import Result, Success

from fxai import Agent, CallContext, LanguageModel, Schema, Tool


class Order(msgspec.Struct, frozen=True):
    number: int


class Broken(msgspec.Struct, frozen=True, tag=True):
    code: int


class Other(msgspec.Struct, frozen=True, tag=True):
    why: str


lie: Schema[int | None] = Schema.of(str | bytes)  # wrong: another union
Schema.of(3)  # wrong: a value
Schema.of([int])  # wrong: a list
Schema.of("no type")  # wrong: a text
Schema.of({"type": "object"})  # wrong: a document
Tool.make("a", parameters=3)  # wrong: a value
Tool.make("a", parameters=[int])  # wrong: a list
Tool.make("a", success="no type")  # wrong: a text
Tool.make("a", failure=Order(1))  # wrong: a value of the type
Tool.make("a", parameters={"type": "object"})  # wrong: a document; that is for `dynamic`
Agent.make("a", output=3)  # wrong: a value
LanguageModel.generate_object("Well?", "no type")  # wrong: a text
narrow: Tool[Order, int, Broken] = Tool.make("a", parameters=Order, success=int, failure=Broken | Other)  # wrong: wider


def other_failure(order: Order) -> Result[int, str]:
    return Success(order.number)


pay = Tool.make("pay", parameters=Order, success=int, failure=Broken | Other)
pay.handler(other_failure)  # wrong: another failure

raw = Tool.dynamic("raw", parameters={"type": "object"})


def on_order(order: Order) -> Result[object, Any]:
    return Success(order.number)


raw.handler(on_order)  # wrong: a raw document is not decoded


def by_text(params: str, call: CallContext) -> bool:
    return params == call.call_id


def by_one(params: Order) -> bool:
    return params.number > 1


Tool.make("a", parameters=Order, needs_approval=by_text)  # wrong: other parameters
Tool.make("a", parameters=Order, needs_approval=by_one)  # wrong: the context is missing
Tool.make("a", needs_approval=by_text)  # wrong: there are not parameters
Tool.make("a", parameters=Order, needs_approval=lambda order, call: order.total > 1)  # wrong: no such field
Tool.make("a", success=Order, to_model_output=lambda order: order.total)  # wrong: no such field
pay.with_options(needs_approval=by_text)  # wrong: other parameters
pay.with_options(to_model_output=lambda cents: cents.total)  # wrong: no such attribute
