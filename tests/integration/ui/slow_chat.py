"""A chat application that answers in many pieces, on a port of loopback that it says; it is given the version."""

from __future__ import annotations

import sys
from typing import Any, cast

import uvicorn

from fxai import Agent
from fxai.effects import StreamOf
from fxai.testing import ScriptedModel, delay
from fxai.ui import AppOptions, ChatTurn, StreamOptions, Version, chat_app


def count(turn: ChatTurn) -> StreamOf[Any, Any, None]:
    """Counts to forty; slowly, the first time that it is asked."""
    pause = 0.002 if len(turn.history) else 0.2
    script = [part for n in range(40) for part in (f"{n} ", delay(pause))]
    return Agent.make("counter").stream(turn.prompt).provide(ScriptedModel.make([script]).layer)


if __name__ == "__main__":
    version = cast("Version", int(sys.argv[1]))
    options = AppOptions(stream=StreamOptions(version), turns_per_minute=6000)
    uvicorn.run(chat_app(count, options=options), host="127.0.0.1", port=0)
