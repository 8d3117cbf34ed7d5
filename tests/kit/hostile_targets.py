"""What says everything that could do something to a terminal: tools, agents, models, failures and warnings."""

from __future__ import annotations

import logging
import sys
from typing import Any, Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, CallContext, Gen, Layer, Tool, Toolkit, tool
from fxai.messages import Finish, NetworkError
from fxai.testing import ScriptedModel, call, fails, text

EVIL = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\u202ee\u2066f\u200bg\u2028h\x85i\rj\x08k\x7fl\U000e0041m\ufeffn\u3164o"
"""Escapes, C1 codes, changes of direction, what shows nothing, and ends of lines that are none."""
NAME = f"look{EVIL}"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": EVIL,
    "properties": {
        f"p{EVIL}": {"type": "string", "description": EVIL, "default": EVIL, "enum": [EVIL, "b"]},
        "q": {"type": "string", "pattern": "a", "description": EVIL},
    },
}


class Lost(msgspec.Struct, frozen=True):
    """A failure that says it, too."""

    why: str


look = Tool.dynamic(NAME, description=EVIL, parameters=SCHEMA, success=str, failure=Lost, failure_mode="return")
lose = Tool.make("lose", description=EVIL, success=str, failure=Lost, failure_mode="return")
smash = Tool.make("smash", description=EVIL, success=str)
ask = Tool.dynamic(f"ask{EVIL}", description=EVIL, parameters=SCHEMA, success=str, needs_approval=True)
kit = Toolkit.make(look, lose, smash, ask)


def on_look(_: Any, context: CallContext) -> Gen[str, Never]:
    """Prints and logs on the way."""
    print(EVIL)  # noqa: T201  # what handlers print is printed
    logging.getLogger("fxai.hostile").warning("%s", EVIL)
    print(EVIL, file=sys.stderr)  # noqa: T201  # so is this
    sys.stdout.buffer.write(EVIL.encode())
    yield from context.preliminary(EVIL)
    return EVIL


def on_lose(_: Any) -> Result[str, Lost]:
    """Fails."""
    return Failure(Lost(EVIL))


def on_smash(_: Any) -> Result[str, Never]:
    """Breaks."""
    raise RuntimeError(EVIL)


def on_ask(_: Any) -> Result[str, Never]:
    """Answers."""
    return Success(EVIL)


handlers = kit.to_layer(look.handler(on_look) | lose.handler(on_lose) | smash.handler(on_smash) | ask.handler(on_ask))
agent = Agent.make(f"agent{EVIL}", instructions=EVIL, toolkit=kit)
turns: list[Any] = [
    [EVIL, call(NAME, {"q": EVIL}), call("lose", {}), call(EVIL, {EVIL: EVIL}), Finish("tool-calls")],
    [EVIL, Finish("length")],
]


def scripted(*said: Any) -> Any:
    """The handlers, and a model that says these turns each time that it is asked to."""
    return handlers.merge(Layer.suspend(lambda: ScriptedModel.make(said).layer))


talks = scripted(*turns)
asks = scripted(call(f"ask{EVIL}", {"q": EVIL}), text(EVIL))
breaks = scripted(call("smash", {}))
away = scripted(fails(NetworkError("TransportError", EVIL)))
number = 3


@tool
def served(word: str) -> str:
    """Answers."""
    return word + EVIL
