"""What the command line is pointed at in these tests: agents, layers and a few things that are neither."""

from __future__ import annotations

from typing import Any, Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, CallContext, Effect, Gen, Layer, Service, Tool, Toolkit, fx
from fxai.messages import Finish, Usage
from fxai.testing import ScriptedModel, call, text


class City(msgspec.Struct, frozen=True):
    """Where."""

    name: str


class NoSuchCity(msgspec.Struct, frozen=True):
    """Nobody knows it."""

    name: str


class Db(Service):
    """A service that nobody supplies here."""


weather = Tool.make("weather", parameters=City, success=float, failure=NoSuchCity, failure_mode="return")
slow = Tool.make("slow", success=str)
kit = Toolkit.make(weather, slow)
agent = Agent.make("forecaster", toolkit=kit)
number = 3


def on_weather(city: City) -> Result[float, NoSuchCity]:
    """Knows one city."""
    return Success(21.5) if city.name == "Oslo" else Failure(NoSuchCity(city.name))


def on_slow(_: Any, context: CallContext) -> Gen[str, Never]:
    """Says that it is half way."""
    yield from context.preliminary("half")
    return "done"


def on_broken(_: Any) -> Result[str, Never]:
    """Breaks."""
    raise RuntimeError("inside\nof it")


handlers = kit.to_layer(weather.handler(on_weather) | slow.handler(on_slow))


def scripted(*turns: Any) -> Layer[Any]:
    """The handlers, and a model that says these turns each time that it is asked to."""
    return handlers.merge(Layer.suspend(lambda: ScriptedModel.make(turns).layer))


oslo = scripted(
    ["Let me see.", call("weather", {"name": "Oslo"}), Finish("tool-calls", Usage(10, 2))],
    ["It is ", "21.5 degrees.", Finish("stop", Usage(20, 5))],
)
lost = scripted([call("weather", {"name": "Nowhere"}), call("weather", {"nam": 1}), call("fly", {})], text("Sorry."))
steps = scripted(call("slow", {}), text("\x1b[31mred\x1b[0m"))
forever = scripted(*[call("slow", {})] * 30)
cut = scripted([Finish("length")])
thrice = Layer.suspend(lambda: ScriptedModel.make([text("one"), text("two"), text("three")]).layer)
silent = Layer.suspend(lambda: ScriptedModel.make([text("ok")]).layer)
one_of_two: Any = weather.handler(on_weather)  # Any hides from the checkers that a handler is missing
half = kit.to_layer(one_of_two)
broken = kit.to_layer(weather.handler(on_weather) | slow.handler(on_broken)).merge(
    Layer.suspend(lambda: ScriptedModel.make([call("slow", {})]).layer)
)
wanted = fx.service(Db)
needy = Layer.effect(Db, wanted)
failing: Layer[Any, str] = Layer.effect(Db, fx.fail("the database is away"))


class Holder:
    """Holds a layer."""

    layer = oslo


def effect() -> Effect[None]:
    """No layer."""
    return fx.succeed(None)
