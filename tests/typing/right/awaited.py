"""What a coroutine gets of an effect that needs nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Never, assert_type

from fxai.effects import Effect, EffectOf, Gen, fx
from tests.typing.world import API_KEY, CFG, DB, DB_LIVE, LOG, Db, DbFault, LogFault, reads, report


@fx.gen
def counted(n: int) -> Gen[int, DbFault, Db]:
    return n + len((yield from reads))


class Repo:
    """A service with plain methods that give effects."""

    def exists(self, name: str) -> Effect[bool, DbFault]:
        return fx.succeed(name != "")


async def main(repo: Repo, program: Effect[int, str]) -> None:
    assert_type(await fx.succeed(1), int)
    assert_type(await program, int)
    assert_type(await reads.provide(DB), list[str])
    assert_type(await counted(1).provide(DB), int)
    assert_type(await report("x").provide(DB | LOG | API_KEY), str)
    assert_type(await reads.provide(DB_LIVE).provide(CFG | LOG), list[str])
    assert_type(await fx.fail(1).or_else(fx.succeed("x")), str)
    assert_type(await fx.scoped(fx.succeed(1)), int)
    assert_type(await asyncio.wait_for(reads.provide(DB), 1), list[str])
    rows, one = await asyncio.gather(reads.provide(DB), fx.succeed(1))
    assert_type(rows, list[str])
    assert_type(one, int)
    if await repo.exists("x"):
        print(f"{await repo.exists('y')}")
    waiting: Awaitable[list[str]] = reads.provide(DB)
    await waiting


async def awaits(effect: Effect[int, LogFault]) -> int:
    return await effect


assert_type(fx.wait(lambda: awaits(fx.succeed(1))), EffectOf[int, Never, None])


async def generic(effect: Effect[Any, Any]) -> object:
    return await effect
