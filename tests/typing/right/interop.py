"""The vocabulary of `returns`, in and out."""

from __future__ import annotations

from typing import Never, assert_type

import anyio
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.result import Result, Success

from fxai.effects import ContextOf, EffectOf, fx
from tests.typing.world import Db, DbFault, LogFault, reads


def inwards(
    result: Result[int, DbFault],
    effectful: IOResult[int, DbFault],
    future: FutureResult[int, DbFault],
    reader: RequiresContextFutureResult[int, DbFault, Db],
) -> None:
    assert_type(fx.lift(result), EffectOf[int, DbFault, None])
    assert_type(fx.lift(effectful), EffectOf[int, DbFault, None])
    assert_type(fx.lift(future), EffectOf[int, DbFault, None])
    assert_type(fx.from_reader(reader, Db), EffectOf[int, DbFault, Db | None])
    assert_type(fx.lift(result).map_error(lambda _: LogFault()), EffectOf[int, LogFault, None])


def outwards(result: Result[int, DbFault]) -> None:
    _future: FutureResult[int, DbFault] = fx.to_future_result(fx.lift(result))
    assert_type(fx.to_reader(reads), RequiresContextFutureResult[list[str], DbFault, ContextOf[Db | None]])
    assert_type(fx.run_result(fx.lift(result)), Result[int, DbFault])


async def waited() -> Result[int, DbFault]:
    return Success(1)


assert_type(fx.lift(waited()), EffectOf[int, DbFault, None])
assert_type(fx.lift(reads), EffectOf[list[str], DbFault, Db | None])
assert_type(fx.wait(lambda: anyio.sleep(1)), EffectOf[None, Never, None])
