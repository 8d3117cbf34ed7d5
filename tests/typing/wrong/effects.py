"""Effects whose services are missing, whose failures are undeclared, whose values are of another type."""

from __future__ import annotations

from fxai.effects import Effect, fx, runtime
from tests.typing.world import (
    API_KEY,
    CFG,
    CLOCK,
    DB,
    DB_LIVE,
    LOG,
    ApiKey,
    Db,
    DbFault,
    Log,
    LogFault,
    NetFault,
    asks_key,
    asks_time,
    four,
    logs,
    reads,
    report,
)

# --- services that nobody gave
fx.run(reads)  # wrong: nothing is provided
three_missing = four.provide(DB)
fx.run(three_missing)  # wrong: Log, Clock and ApiKey are missing
one_missing = four.provide(DB).provide(LOG).provide(API_KEY)
fx.run(one_missing)  # wrong: Clock is missing
fx.run(four.provide(DB))  # wrong: missing, inline
fx.run(four.provide(CLOCK | LOG | API_KEY))  # wrong: the merge lacks Db
fx.run(reads.provide(DB_LIVE))  # wrong: the layer's own inputs are missing
fx.run(reads.provide(DB_LIVE.provide(CFG)))  # wrong: one of the layer's inputs is missing
fx.run_sync(asks_key)  # wrong: ApiKey
fx.run_exit(asks_time)  # wrong: Clock
fx.run_result(logs)  # wrong: Log
fx.run(fx.all_(reads, asks_time).provide(DB))  # wrong: the other half's service
fx.run(fx.race(asks_time, asks_key).provide(CLOCK))  # wrong: the other runner's service
each = fx.for_each([1], lambda _: reads)
fx.run(each)  # wrong: the service of each item
released = fx.scoped(fx.acquire_release(reads, lambda _: fx.succeed(None)))
fx.run(released)  # wrong: the service of what is acquired
unscoped = fx.acquire_release(fx.succeed(1), lambda _: fx.succeed(None))
fx.run(unscoped)  # wrong: no scope
unscoped_fork = fx.fork(fx.succeed(1))
fx.run(unscoped_fork)  # wrong: a fiber without a scope
finalized = fx.succeed(1).ensuring(asks_key.as_(None))
fx.run(finalized)  # wrong: the service of the finalizer
recovered = fx.fail(1).catch_all(lambda _: asks_key)
fx.run(recovered)  # wrong: the service of the recovery


def undeclared_service() -> Effect[str, DbFault | LogFault, Log | ApiKey]:
    return four.provide(DB)  # wrong: Clock is not declared


async def host() -> None:
    await fx.run_async(reads)  # wrong: Db
    async with runtime(DB | LOG) as built:
        await built.run(report("x"))  # wrong: ApiKey is not in the runtime
    async with runtime(DB_LIVE) as unfed:  # wrong: a layer with inputs
        print(unfed)


# --- failures
def other_failure() -> Effect[str, DbFault]:
    return fx.fail(LogFault())  # wrong: another failure


def failure_not_declared() -> Effect[list[str], LogFault, Db]:
    return reads  # wrong: DbFault is not declared


def none_declared() -> Effect[int]:
    return fx.fail("no")  # wrong: no failure is declared


changed = reads.catch_all(lambda _: fx.fail(NetFault()))
unchanged: Effect[list[str], DbFault, Db] = changed  # wrong: it fails otherwise now
widened = reads.timeout(1)
still: Effect[list[str], DbFault, Db] = widened  # wrong: Timeout is a failure too
fx.succeed(1).ensuring(fx.fail("no"))  # wrong: a finalizer does not fail
reads.on_exit(lambda _: reads)  # wrong: nor does this one

# --- values
number: Effect[int, DbFault, Db] = reads  # wrong: rows are not number
reads.map(lambda rows: rows.upper())  # wrong: a list has no upper
reads.flat_map(len)  # wrong: it gives no effect
