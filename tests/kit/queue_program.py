"""A durable run whose one call is on a queue, and waits to be let go: `python -m tests.kit.queue_program PLACE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final, final

from fxai.agents import Agent, Answer
from fxai.distributed import Cluster, distribute
from fxai.durable import durable
from fxai.effects import Effect, EffectOf, Layer, fx
from fxai.messages import Finish, Part, Text, ToolCall
from fxai.models import LanguageModel, ModelRequest
from fxai.tools import BoundToolkit, CallContext, Tool, Toolkit
from tests.kit.cluster_tools import FOLDER, record

TARGET: Final = "tests.kit.queue_program:desk"

hold = Tool.make("hold", description="Holds.", parameters=str, success=str)


def _gate(name: str) -> Path:
    return Path(os.environ[FOLDER]) / f"gate-{name}"


def name_of(location: str) -> str:
    """What is held in the run at a place."""
    return Path(location).parent.name


def let_go(location: str) -> None:
    """Lets the call of the run at a place end."""
    _gate(name_of(location)).touch()


def _hold(name: str, context: CallContext) -> EffectOf[str]:
    record(f"begun {name} by {context.idempotency_key}")

    @fx.gen
    def wait() -> Any:
        while not _gate(name).exists():
            yield from fx.sleep(0.02)
        record(f"ended {name}")
        return "paid"

    return wait()


desk: BoundToolkit[Any] = BoundToolkit.of(Toolkit.make(hold), hold.handler(_hold))


@final
class _Clerk(LanguageModel):
    """Asks for one call, and answers when it has the result; what it says follows from what it is asked."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], Any]:
        if any(message.role == "tool" for message in request.prompt):
            return fx.succeed((Text("It is paid."), Finish("stop")))
        return fx.succeed((ToolCall("1", "hold", self._name), Finish("tool-calls")))


def program(location: str) -> EffectOf[Answer, Any]:
    """The run, with its journal at a place and its queue beside."""
    model = Layer.succeed(LanguageModel, _Clerk(name_of(location)))
    asked: Any = Agent.make("clerk", toolkit=Toolkit.make(hold)).execute("Pay.")
    there: Any = distribute(desk, TARGET).provide(Cluster.queue_layer(f"{location}.jobs"))
    made: EffectOf[Answer, Any] = asked.provide(durable(model | there, run="run", store=location))
    return made


def run(location: str) -> Answer:
    """The answer of the run."""
    return fx.run(program(location))


if __name__ == "__main__":
    run(sys.argv[1])
