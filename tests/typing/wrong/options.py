"""Mistakes of function tools, agents, hooks and the options of tools."""

# pyright: reportUnusedCallResult=true
from __future__ import annotations

from abc import abstractmethod
from typing import Never

import msgspec
from returns.result import Result, Success

from fxai import (
    Agent,
    Answer,
    BoundToolkit,
    Effect,
    Example,
    Gen,
    Layer,
    Service,
    Step,
    Stream,
    Tool,
    Toolkit,
    fx,
    tool,
)
from fxai.agents import Steps, StepSetup
from fxai.testing import ScriptedModel, text


class A(msgspec.Struct, frozen=True):
    a: int


class B(msgspec.Struct, frozen=True):
    b: str


class E1(msgspec.Struct, frozen=True, tag=True):
    why: str


class E2(msgspec.Struct, frozen=True, tag=True):
    code: int


class Db(Service):
    @abstractmethod
    def get(self, n: int) -> Effect[A, E1]: ...


class Bus(Service):
    @abstractmethod
    def put(self, a: A) -> Effect[None, E2]: ...


class MyDb(Db):
    def get(self, n: int) -> Effect[A, E1]:
        return fx.succeed(A(n))


db = Layer.succeed(Db, MyDb())
model = ScriptedModel.make([text("x")]).layer


@tool
def look(n: int) -> Gen[A, E1, Db]:
    """Doc."""
    db = yield from Db
    return (yield from db.get(n))


@tool
def put(n: int) -> Effect[None, E2, Bus]:
    """Doc."""
    return fx.service(Bus).flat_map(lambda b: b.put(A(n)))


@tool
async def wait(n: int) -> Result[str, E2]:
    """Doc."""
    return Success("")


@tool
def stream(n: int) -> Stream[int, Never, Db]:
    """Doc."""
    return Stream.from_effect(fx.service(Db).as_(1))


@tool
def undeclared_service(n: int) -> Gen[A, E1]:
    """Doc."""
    db = yield from Db  # wrong: not declared
    return (yield from db.get(n))


@tool
def undeclared_failure(n: int) -> Gen[A, Never, Db]:
    """Doc."""
    db = yield from Db
    return (yield from db.get(n))  # wrong: E1


@tool
def other_value(n: int) -> Gen[str, E1, Db]:
    """Doc."""
    db = yield from Db
    return (yield from db.get(n))  # wrong: an A


@tool
def forgot(n: int) -> Gen[A, E1, Db]:
    """Doc."""
    db = yield from Db
    return db.get(n)  # wrong: effect for its value


@tool
def dropped(n: int) -> Gen[str, E2, Bus]:
    """Doc."""
    bus = yield from Bus
    bus.put(A(1))  # wrong: dropped
    return "put"


x1: int = look(1)  # wrong: a generator
x2: str = wait(1)  # wrong: a coroutine
x3 = look("1")  # wrong: parameter
x4 = put()  # wrong: parameter
x5 = fx.run(look(1))  # wrong: a generator
kit = BoundToolkit.make(look, put, wait, stream)
x6 = fx.run(kit.call("look", {}))  # wrong: services
x7 = fx.run(kit.call("look", {}).provide(db))  # wrong: Bus
x8 = fx.run(kit.call("look"))  # wrong: parameters missing
x9 = kit.cal("look", {})  # wrong: misspelt
x10 = fx.run(BoundToolkit.make(stream).call("stream", {}))  # wrong: Db
x11 = BoundToolkit.make(look, Tool.make("x"))  # wrong: no handler
x12 = Toolkit.make(look).to_layer(put.layer)  # wrong: another
x13 = fx.run(look.tool.call(look.arguments(1)).provide(look.layer))  # wrong: Db
x14 = look.arguments("1")  # wrong: parameter
x15 = look.tool.call(A(1))  # wrong: parameters
x16 = tool(needs_approval=3)  # wrong: option
x17 = tool(descriptin="x")  # wrong: option

agent = Agent.make("a").with_tools(look, put)
y1 = fx.run(agent.execute("x").provide(model))  # wrong: Db, Bus
y2 = fx.run(agent.execute("x").provide(model | db))  # wrong: Bus
y3: Answer[int] = fx.run(Agent.make("b").execute("x").provide(model))  # wrong: text
y4 = fx.run(Agent.make("b", output=A).execute("x").provide(model)).output.b  # wrong: no such field
y5 = Agent.make("b", output=A, outputs=B)  # wrong: option
y6 = Agent.make("b", tools=[look])  # wrong: option
y8 = Agent.make("b", toolkit=[look])  # wrong: a list
y9 = Agent.make("b", instruction="x")  # wrong: misspelt
y10 = Agent.make("b", budget=3)  # wrong: a number
y11 = Agent.make("b", model="gpt")  # wrong: a name
y12 = Agent.make("b", model=ScriptedModel.make([]))  # wrong: no layer
y13 = Agent.make("b", temperature="hot")  # wrong: text
y14 = Agent.make("b", on_step=lambda step: fx.service(Db))  # wrong: a service
y15 = Agent.make("b", stop_when=lambda steps: len(steps))  # wrong: a number
y16 = Agent.make("b", prepare_step=lambda setup: None)  # wrong: nothing
y17 = Agent.make("b").stop_when(lambda steps: "x")  # wrong: text
y18 = Agent.make("b").prepare_step(lambda setup: setup.with_choise("none"))  # wrong: misspelt
y19 = Agent.make("b").on_step(lambda step: step.txt)  # wrong: misspelt
y20 = Agent.make("b").on_step(lambda step: 3)  # wrong: a number is not run


def listen(step: str) -> None: ...


def listen2(step: Step) -> int:
    return 1


async def listen3(step: Step) -> None: ...


async def stop_async(steps: Steps) -> bool:
    return True


def stop3(step: Step) -> bool:
    return True


async def prepare_async(setup: StepSetup) -> StepSetup:
    return setup


y21 = Agent.make("b").on_step(listen)  # wrong: a text
y22 = Agent.make("b").on_step(listen2)  # wrong: a number
y23 = Agent.make("b").on_step(listen3)  # wrong: a coroutine, never awaited
y24 = Agent.make("b").stop_when(stop_async)  # wrong: a coroutine
y25 = Agent.make("b").stop_when(stop3)  # wrong: a step
y26 = Agent.make("b").prepare_step(prepare_async)  # wrong: a coroutine
y27 = Agent.make("b", on_step=[listen])  # wrong: it does not fit
y28 = Agent.make("b", on_step=[listen3])  # wrong: it does not fit
y29 = Agent.make("b", stop_when=[stop_async])  # wrong: it does not fit
y30 = fx.run(Agent.make("b").on_step(lambda step: fx.service(Db)).execute("x").provide(model))  # wrong: Db
y31 = fx.run(Agent.make("b").stop_when(lambda s: fx.service(Db).as_(True)).execute("x").provide(model))  # wrong: Db
y32 = Agent.make("b").with_tools([look, put]).with_tools("look")  # wrong: a name
y33 = Agent.make("b").with_tools(lambda n: n)  # wrong: no tool
y34 = Agent.make("b").with_memory("file")  # wrong: text
y35 = Agent.make("b").execute(3)  # wrong: no prompt
y36 = fx.run(Agent.make("b", toolkit=kit).execute("x").provide(model))  # wrong: services
y37 = Agent.make("b").as_tool("x", parameters=A, prompt=lambda a: a.b)  # wrong: field
y38 = Agent.make("b").as_tool(3)  # wrong: a name

# options of tools
z1 = Tool.make("x", parameters=A, needs_approval=lambda a, call: call.id == "x")  # wrong: the context has no id
z2 = Tool.make("x", parameters=A, input_examples=A(1))  # wrong: one
z5 = Tool.make("x", parameters=A, input_examples={"a": 1})  # wrong: one
z6 = Tool.make("x", success=A, to_model_output=lambda a: A(1))  # wrong: no plain data
z7 = Tool.make("x", parameters=A, needs_approval=lambda a, call: "yes")  # wrong: text
z8 = Tool.make("x", parameters=A, needs_approval=lambda a: True)  # wrong: context
z9 = Tool.make("x", descripton="x")  # wrong: it does not fit
z10 = Tool.make("x", annotations={"title": "x"})  # wrong: key
z11 = Tool.make("x", failure_mode="retrun")  # wrong: it does not fit
z12 = Tool.make(3)  # wrong: it does not fit
z13 = Tool.make("x", success=3)  # wrong: it does not fit
z14 = Tool.make("x", parameters=A).with_options(needs_approval=lambda a, call: a.b > 1)  # wrong: no b
z15 = Tool.make("x", parameters=A, input_examples=[Example("x", A(1))])  # wrong: no plain data
z16 = Tool.make("x", provider_options={3: {}})  # wrong: key


def cond(step: Step) -> None:
    r1: tuple[Result[int, E1], ...] = step.results_of(Tool.make("x", success=int, failure=E2))  # wrong: E2
    r2: tuple[Result[str, E2], ...] = step.results_of(Tool.make("x", success=int, failure=E2))  # wrong: int
    for one in step.results_of(Tool.make("x", success=int, failure=E2)):
        one.failure().cod  # wrong: no such
    o = fx.run(kit.call("x", {}).provide(db))  # wrong: bus
    print(o.resutl)  # wrong: no such field
