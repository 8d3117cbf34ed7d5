"""What is talked to in these tests: agents with scripted models, calls that wait, a source that keeps a journal."""

from __future__ import annotations

from typing import Any, Never

from returns.result import Result, Success

from fxai import Agent, BoundToolkit, Gen, Layer, Memory, Scope, Tool, Toolkit, ToolSource, fx, tool
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, call, fails, text

wipe = Tool.make("wipe", description="Wipes a disk.", parameters=str, success=str, needs_approval=True)
snap = Tool.make("snap", success=str)
weigh = Tool.make("weigh", parameters=str, success=float).external()
kit = Toolkit.make(wipe, snap, weigh)
agent = Agent.make("keeper", instructions="Keep.", toolkit=kit)

models: list[ScriptedModel] = []
"""The models that were made, the newest last: what they were asked is there."""
journal: list[str] = []
"""What was opened and closed."""


def on_wipe(disk: str) -> Result[str, Never]:
    """Empties it."""
    return Success(f"{disk} is empty")


def on_snap(_: Any) -> Result[str, Never]:
    """Breaks."""
    raise RuntimeError("in two")


handlers = kit.to_layer(wipe.handler(on_wipe) | snap.handler(on_snap))


def model(*turns: Any) -> Layer[Any]:
    """A model that says these turns; made anew for each start."""

    def made() -> Layer[Any]:
        models.append(ScriptedModel.make(turns))
        return models[-1].layer

    return Layer.suspend(made)


def scripted(*turns: Any) -> Layer[Any]:
    """The handlers, and a model."""
    return handlers.merge(model(*turns))


three = model(text("one"), text("two"), text("three"))
talks = handlers.merge(three)
asks = scripted(call("wipe", "a"), text("Done."), call("wipe", "b"), text("Again."))
wants = scripted(call("weigh", "a"), text("So heavy."))
fragile = scripted(text("one"), fails(NetworkError("TransportError", "it is away")), text("three"))
snaps = scripted(call("snap", {}), text("two"))


@tool
def count(word: str) -> int:
    """Counts letters."""
    return len(word)


@fx.gen
def _opened() -> Gen[BoundToolkit[Any], Never, Scope]:
    opened = fx.sync(lambda: journal.append("opened"))
    yield from fx.acquire_release(opened, lambda _: fx.sync(lambda: journal.append("closed")))
    return BoundToolkit.make(count)


source: ToolSource[Any] = ToolSource(_opened())
counting = Agent.make("counter").with_tools(source)
counts = model(call("count", {"word": "four"}), text("4."), call("count", {"word": "six"}), text("3."))
own_model = Agent.make("own", model=three)
own_memory = Memory.in_process()
remembering = Agent.make("rememberer").with_memory(own_memory)
reading = Agent.make("reader").with_memory(own_memory, auto_append=False)
