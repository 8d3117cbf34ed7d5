"""Effects that are awaited, or run, before they can be."""

from __future__ import annotations

import asyncio

from fxai import Effect, fx
from tests.typing.desk import AGENT, DATABASE, MODEL, Lost, rows


async def fetch(number: int) -> int:
    return number


async def main(program: Effect[int, Lost]) -> None:
    number: str = await program  # wrong: another type of value
    count: list[int] = await rows(1)  # wrong: the database is missing
    (await AGENT.execute("Hello").provide(MODEL)).text  # wrong: the handlers are missing
    program + 1  # wrong: an effect is not its value
    (await rows(1).provide(DATABASE)).words  # wrong: a list has no such field
    await rows  # wrong: a function that was not called
    async for _ in program:  # wrong: an effect is not a stream
        pass
    async with program:  # wrong: an effect is not a resource
        pass
    fx.run_async(fetch(1))  # wrong: a coroutine is not an effect
    await fx.wait(fetch(1))  # wrong: a coroutine for a function of one


asyncio.run(fx.succeed(1))  # wrong: an effect is not a coroutine
fx.run(fetch(1))  # wrong: a coroutine is not an effect
