"""Stateful prompts for the command line: a desk that learns, one that asks, those that are wrong, and their models."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Never

from fxai import Agent, BoundToolkit, Effect, Gen, Layer, Memory, Service, Tool, Toolkit, fx
from fxai.agents import MemoryFailure
from fxai.agents.stateful import Render, StatefulPrompt, StepView
from fxai.messages import NetworkError, Prompt
from fxai.testing import ScriptedModel, call, fails, text

models: list[ScriptedModel] = []
"""The models that were made, the newest last: what they were asked is there."""


class Orders(Service):
    """Where orders are."""

    @abstractmethod
    def find(self, words: str) -> Effect[str]:
        """What is found."""


class Fixed(Orders):
    """Always the same one."""

    def find(self, words: str) -> Effect[str]:
        """Order 7."""
        return fx.succeed(f"order 7: {words}")


search = Tool.make("search", description="Searches orders.", parameters=str, success=str)
upgrade = Tool.make("upgrade", description="Asks for more rights.", success=str)
refund = Tool.make("refund", description="Refunds an order.", parameters=str, success=str, needs_approval=True)
ping = Tool.make("ping", description="Answers.", success=str)


def on_search(words: str) -> Gen[str, Never, Orders]:
    """Asks where orders are."""
    orders = yield from Orders
    return (yield from orders.find(words))


def desk(at: Render[Orders]) -> None:
    """In advanced mode it refunds, and it counts the searches."""
    mode = at.state("mode", "basic")
    found = at.state("found", 0)
    at.system("role", f"You are in {mode.value} mode; {found.value} searches so far.")
    at.tool(search, on_search)
    at.tool(upgrade, lambda _: mode.set("advanced").as_("granted"))
    if mode.value == "advanced":
        at.tool(refund, lambda order: mode.set("basic").as_(f"refunded {order}"))

    def count(step: StepView) -> Effect[None]:
        return found.update(lambda n: n + sum(one.name == "search" for one in step.last_calls))

    at.effect("count", count)


prompt = StatefulPrompt.make("desk", desk)
agent = Agent.make("office", instructions="Be brief.", prompt=prompt)
live = Layer.succeed(Orders, Fixed())


def scripted(*turns: Any) -> Layer[Any]:
    """Orders, and a model that says these turns; made anew for each start."""

    def made() -> Layer[Any]:
        models.append(ScriptedModel.make(turns))
        return models[-1].layer

    return live.merge(Layer.suspend(made))


searches = scripted(call("search", "7"), text("One."), call("search", "8"), text("Two."))
upgrades = scripted(call("upgrade", {}), text("Granted."), text("Yes."), text("Still."))
refunds = scripted(call("upgrade", {}), call("refund", "7"), text("Refunded."), text("Again?"))
fragile = scripted(
    text("Hello."), call("upgrade", {}), fails(NetworkError("TransportError", "it is away")), text("Here.")
)
fails_later = scripted(call("upgrade", {}), fails(NetworkError("TransportError", "it is away")))
bare = Layer.suspend(lambda: ScriptedModel.make([text("never")]).layer)


# -- what is wrong


def _raises(at: Render) -> None:
    at.tool(ping, lambda _: fx.succeed("pong"))
    raise RuntimeError("in two")


def _conflict(at: Render) -> None:
    at.tool(ping, lambda _: fx.succeed("pong"))
    at.tool(Tool.make("ping", success=int), lambda _: fx.succeed(1))


def _pings(at: Render) -> None:
    at.tool(ping, lambda _: fx.succeed("pong"))


def _calls_a_section_ping(at: Render) -> None:
    at.system("ping", "Be fast.")


def _waits(at: Render) -> Any:
    at.tool(ping, lambda _: fx.succeed("pong"))
    yield fx.succeed(None)


def _retyped(at: Render) -> None:
    at.state("mode", 0)


class Opaque:
    """What is no JSON."""


def _opaque(at: Render) -> None:
    at.state("thing", Opaque())


def _late(at: Any) -> None:
    def define(_: StepView) -> None:
        at.system("more", "Too late.")

    at.effect("late", define)


def _later(at: Render[Orders]) -> None:
    if at.state("n", 0).value > 0:
        at.tool(search, on_search)


def _effecting(at: Any) -> None:
    at.effect("look", _look)


def _look(_: StepView) -> Effect[None, Never, Orders | None]:
    return fx.service(Orders).as_(None)


def _unanswered(at: Any) -> None:
    at.tools(ping)


later, effecting, unanswered = (
    StatefulPrompt.make(f.__name__.strip("_"), f) for f in (_later, _effecting, _unanswered)
)
raises, conflict, waits, retyped, opaque, late = (
    StatefulPrompt.make(f.__name__.strip("_"), f) for f in (_raises, _conflict, _waits, _retyped, _opaque, _late)
)
talks = scripted(text("one"), text("two"), text("three"))


class Plain(Memory):
    """A memory of somebody's own, which knows nothing of states."""

    def load(self) -> Effect[Prompt, MemoryFailure]:
        """Nothing."""
        return fx.succeed(Prompt.empty)

    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        """Forgets them."""
        return fx.succeed(None)

    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        """None."""
        return fx.succeed(())

    def clear(self) -> Effect[None, MemoryFailure]:
        """Nothing to do."""
        return fx.succeed(None)


forgetful = agent.with_memory(Plain())
remembering = agent.with_memory(Memory.in_process())
reading = agent.with_memory(Memory.in_process(), auto_append=False)
ponging = ping.handler(lambda _: fx.succeed("pong")).merge(talks)
plain = Agent.make("plain")
other_ping = Tool.make("ping", success=int)
others = BoundToolkit.of(Toolkit.make(other_ping), other_ping.handler(lambda _: fx.succeed(1)))
clashing = Agent.make("clashing", toolkit=others, prompt=StatefulPrompt.make("pings", _pings))
naming = Agent.make("naming", toolkit=others, prompt=StatefulPrompt.make("names", _calls_a_section_ping))
sharing = Agent.make("sharing", toolkit=Toolkit.make(ping), prompt=StatefulPrompt.make("pings", _pings))
