"""What the checkers infer of streams and schedules."""

from __future__ import annotations

from typing import Never, assert_type

from returns.maybe import Maybe

from fxai.effects import Effect, EffectOf, Gen, Layer, LayerOf, Ref, Schedule, Stream, StreamOf, fx
from tests.typing.world import (
    API_KEY,
    CFG,
    DB,
    DB_LIVE,
    LOG,
    ApiKey,
    Cfg,
    CfgFault,
    Clock,
    Db,
    DbFault,
    Log,
    LogFault,
    NetFault,
    asks_key,
    asks_time,
    logs,
    reads,
)

numbers = Stream.make(1, 2, 3)
rows = Stream.from_effect(reads)
assert_type(numbers, StreamOf[int, Never, None])
assert_type(rows, StreamOf[list[str], DbFault, Db | None])
assert_type(Stream.from_iterable("abc"), StreamOf[str, Never, None])
assert_type(Stream.fail(NetFault()), StreamOf[Never, NetFault, None])

# --- one value after another
assert_type(numbers.map(str), StreamOf[str, Never, None])
assert_type(numbers.map_effect(lambda _: reads), StreamOf[list[str], DbFault, Db | None])
assert_type(rows.tap(lambda _: logs), StreamOf[list[str], DbFault | LogFault, Db | Log | None])
assert_type(rows.filter(bool).take(3).drop(1), StreamOf[list[str], DbFault, Db | None])
assert_type(numbers.grouped(2), StreamOf[tuple[int, ...], Never, None])
assert_type(numbers.flat_map(lambda _: rows), StreamOf[list[str], DbFault, Db | None])

# --- two streams
assert_type(rows.concat(Stream.from_effect(logs)), StreamOf[list[str] | None, DbFault | LogFault, Db | Log | None])
assert_type(rows.merge(numbers), StreamOf[list[str] | int, DbFault, Db | None])
assert_type(rows.zip(numbers), StreamOf[tuple[list[str], int], DbFault, Db | None])

# --- failures
assert_type(rows.map_error(lambda _: NetFault()), StreamOf[list[str], NetFault, Db | None])
assert_type(rows.catch_all(lambda _: numbers), StreamOf[list[str] | int, Never, Db | None])

# --- read as an effect
assert_type(rows.collect(), EffectOf[list[list[str]], DbFault, Db | None])
assert_type(numbers.fold(0, lambda total, n: total + n), EffectOf[int, Never, None])
assert_type(rows.for_each(lambda _: logs), EffectOf[None, DbFault | LogFault, Db | Log | None])
assert_type(rows.first(), EffectOf[Maybe[list[str]], DbFault, Db | None])

# --- layers
assert_type(rows.provide(DB), StreamOf[list[str], DbFault, None])
assert_type(rows.tap(lambda _: logs).provide(DB), StreamOf[list[str], DbFault | LogFault, Log | None])
assert_type(rows.provide(DB_LIVE), StreamOf[list[str], DbFault | CfgFault | LogFault, Cfg | Log | None])
assert_type(rows.provide(DB_LIVE.provide(CFG | LOG)), StreamOf[list[str], DbFault | CfgFault | LogFault, None])
fx.run(rows.collect().provide(DB))
fx.run(rows.provide(DB).collect())


def declared() -> Stream[list[str] | int, DbFault, Db | Log]:
    return rows.merge(numbers)


async def read() -> list[list[str]]:
    async with rows.provide(DB).iterate() as items:
        return [item async for item in items]


# --- again and again
def is_busy(fault: DbFault) -> bool:
    return fault.code == 1


def is_empty(key: str) -> bool:
    return not key


assert_type(reads.retry(Schedule.recurs(3)), EffectOf[list[str], DbFault, Db | None])
assert_type(reads.repeat(Schedule.recurs(3)), EffectOf[list[str], DbFault, Db | None])
assert_type(reads.retry(Schedule.exponential(0.1) & Schedule.recurs(5)), EffectOf[list[str], DbFault, Db | None])
assert_type(reads.retry(Schedule.spaced(1).up_to(30).while_input(is_busy)), EffectOf[list[str], DbFault, Db | None])
assert_type(asks_key.repeat(Schedule.forever().until_input(is_empty)), EffectOf[str, Never, ApiKey | None])
assert_type(Schedule.recurs(1) & Schedule.spaced(1), Schedule[object, tuple[int, int]])
assert_type(DB_LIVE.retry(Schedule.recurs(2)), LayerOf[Db, CfgFault | LogFault, Cfg | Log | None])


# --- state that is shared
@fx.gen
def counted() -> Gen[int]:
    counter = yield from Ref.make(0)
    assert_type(counter, Ref[int])
    yield from counter.update(lambda n: n + 1)
    return (yield from counter.get())


fx.run(counted())


def timed(seconds: float) -> Effect[float, Never, Clock | ApiKey]:
    return fx.all_(asks_time, asks_key).map(lambda both: both[0] + seconds)


fx.run(timed(1).provide(API_KEY).provide(Layer.effect(Clock, fx.fail("none").or_die())))
