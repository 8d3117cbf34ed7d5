"""The memory of a turn: the garbage collector has nothing to do after it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from fxai.agents import Agent
from fxai.testing import ScriptedModel, text
from fxai.ui import chat_app
from tests.benchmarks.rivals.inputs import Exchange, ui_body


@pytest.mark.parametrize("leaves", [False, True])
def test_a_turn_leaves_no_cycle_of_references(leaves: bool) -> None:
    """A turn is free at once after it ended, also if its client left after the first chunk."""

    async def main() -> list[Any]:
        app = chat_app(Agent.make("greeter"), layer=ScriptedModel.make([text("Hello."), text("Hello.")]).layer)
        await Exchange(app, ui_body(1)).read()  # starts the application
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        exchange = Exchange(app, ui_body(2))
        await (exchange.read_first() if leaves else exchange.read())
        await app.aclose()
        gc.collect()
        return [type(one) for one in gc.garbage if type(one).__module__.startswith("fxai.ui")]

    gc.disable()
    try:
        assert asyncio.run(main()) == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
