"""A chat application for clients of AG-UI, on a free port of loopback: it plays what the client names."""

from __future__ import annotations

from typing import Any

import msgspec
import uvicorn
from returns.result import Success

from fxai import Agent, Tool, Toolkit
from fxai.effects import StreamOf
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, call, fails, reasoning, text
from fxai.ui import AppOptions, ChatTurn, DataPart, StreamOptions, chat_app


class City(msgspec.Struct, frozen=True):
    """A city."""

    city: str


weather = Tool.make("weather", parameters=City, success=int)
wipe = Tool.make("wipe", parameters=City, success=bool, needs_approval=True)
locate = Tool.make("locate", success=City).external()
kit = Toolkit.make(weather, wipe, locate)
handlers = kit.to_layer(weather.handler(lambda _: Success(21)) | wipe.handler(lambda _: Success(True)))

PARIS = {"city": "Paris"}
SCRIPTS: dict[str, list[Any]] = {
    "tools": [[reasoning("Hm."), text("I look."), call("weather", PARIS, id="k1")], [text("21 degrees.")]],
    "approval": [[call("wipe", PARIS, id="k2")]],
    "external": [[text("Where are you?"), call("locate", {}, id="k3")]],
    "fails": [fails(NetworkError("TransportError", "secret"))],
}


def answer(turn: ChatTurn) -> StreamOf[Any, Any, None]:
    """The parts of the answer that the client has named."""
    name = turn.body.get("forwardedProps", {}).get("scenario", "")
    if name == "data":
        return StreamOf.make(DataPart("state", {"n": 1}), DataPart("progress", 50))
    model = ScriptedModel.make(SCRIPTS.get(name, [text(f"{len(turn.history)} messages before.")]))
    return Agent.make("desk", toolkit=kit).stream(turn.prompt).provide(handlers).provide(model.layer)


app = chat_app(answer, options=AppOptions(ag_ui=True, stream=StreamOptions(version=5)))

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=0)
