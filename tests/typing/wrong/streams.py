"""Streams, schedules and references that are joined as they do not fit."""

from __future__ import annotations

from typing import Never

from fxai.effects import Effect, Ref, Schedule, Stream, fx
from tests.typing.world import (
    CLOCK,
    DB,
    DB_LIVE,
    LOG,
    Db,
    Log,
    LogFault,
    NetFault,
    asks_key,
    logs,
    reads,
)

numbers = Stream.make(1, 2, 3)
rows = Stream.from_effect(reads)
logged = rows.tap(lambda _: logs)

# --- services
fx.run(rows.collect())  # wrong: Db
fx.run(logged.provide(DB).collect())  # wrong: Log
fx.run(rows.provide(DB_LIVE).collect())  # wrong: the layer's own inputs
fx.run(rows.collect().provide(LOG))  # wrong: another service
fx.run(rows.merge(numbers).collect())  # wrong: the service of one half
keyed = numbers.map_effect(lambda _: asks_key)
fx.run(keyed.drain())  # wrong: the service of each step


async def read() -> None:
    async with rows.iterate():  # wrong: Db
        pass


# --- failures
def calm() -> Stream[list[str], Never, Db]:
    return rows  # wrong: DbFault is not declared


def other() -> Stream[list[str], NetFault, Db | Log]:
    return logged  # wrong: it fails with DbFault and LogFault


def drained() -> Effect[None, Never, Db]:
    return rows.drain()  # wrong: the failure of the stream is that of reading it


# --- values
texts: Stream[str] = numbers  # wrong: numbers are not strings
numbers.map(lambda n: n.upper())  # wrong: a number has no upper
numbers.flat_map(lambda n: fx.succeed(n))  # wrong: an effect is not a stream
numbers.map_effect(lambda n: n + 1)  # wrong: a number is not an effect


# --- schedules
def is_log(fault: LogFault) -> bool:
    return True


def is_text(value: str) -> bool:
    return True


reads.retry(Schedule.recurs(3).while_input(is_log))  # wrong: it fails with DbFault
reads.repeat(Schedule.recurs(3).while_input(is_text))  # wrong: it gives rows
reads.retry(3)  # wrong: a number is not a schedule
again = reads.retry(Schedule.recurs(3))
fx.run(again)  # wrong: trying again needs the service as well
fx.run(again.provide(CLOCK))  # wrong: another service

# --- references
counter = Ref.of(0)
counter.set("1")  # wrong: it holds a number
counter.update(str)  # wrong: a number becomes a number
text: Effect[str] = counter.get()  # wrong: it holds a number
keeps: Ref[object] = counter  # wrong: what can be set is not covariant
