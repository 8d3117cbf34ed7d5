"""Services, contexts and layers that do not fit their keys."""

from __future__ import annotations

from typing import Never

from fxai.effects import ClassKey, Context, ContextOf, Effect, Gen, Layer, Stream, fx
from tests.typing.world import (
    CFG,
    DB,
    DB_LIVE,
    LOG,
    ApiKey,
    Cfg,
    CfgFault,
    Clock,
    Db,
    Log,
    LogFault,
    MyClock,
    MyDb,
    MyLog,
    NetFault,
    asks_time,
    reads,
)

# --- keys and what stands for them
Layer.succeed(Db, MyLog())  # wrong: not a Db
Layer.succeed(ApiKey, 1)  # wrong: not a string
Layer.sync(Db, MyLog)  # wrong: not a Db
Layer.effect(Db, fx.succeed(MyLog()))  # wrong: not a Db
Layer.effect(ApiKey, asks_time)  # wrong: a float
Db()  # wrong: abstract
ContextOf.make(Db, MyLog())  # wrong: not a Db

# --- what a layer supplies, needs and fails with
fed: Layer[Db] = DB_LIVE  # wrong: it has inputs and failures
more: Layer[Db | Log, CfgFault | LogFault, Cfg | Log] = DB_LIVE  # wrong: Log is not in the output
calm: Layer[Db, Never, Cfg | Log] = DB_LIVE  # wrong: building it can fail
swapped: Layer[Log] = DB  # wrong: another service
half_fed: Layer[Db, CfgFault | LogFault] = DB_LIVE.provide(CFG)  # wrong: Log is still needed
hidden = DB_LIVE.provide(CFG | LOG)
shown: Layer[Db | Cfg, CfgFault | LogFault] = hidden  # wrong: provide hides what it fed
keyed = Layer.effect(ApiKey, asks_time.map(str))
merged: Layer[Log | ApiKey] = LOG | keyed  # wrong: the merge needs Clock


def other_failure() -> Layer[Clock, CfgFault]:
    return Layer.unwrap(fx.fail(NetFault()).as_(Layer.sync(Clock, MyClock)))  # wrong: another failure


# --- contexts
small: Context[Db | Log] = ContextOf.make(Db, MyDb(""))  # wrong: Log is not in it
reads.provide_context(ContextOf.make(Log, MyLog()))  # wrong: another service
ContextOf.get(ContextOf.make(Log, MyLog()), Db)  # wrong: Db is not in it

# --- asked for in the middle of something else
both = fx.all_(fx.service(Db), fx.service(Log))
fx.run(both.provide(DB))  # wrong: Log is missing
pair: Effect[tuple[Log, Db], Never, Db | Log] = both  # wrong: the other way round
Layer.effect(ApiKey, fx.service(Db))  # wrong: a Db is not a string
fed_by_log: Layer[ApiKey, Never, Log] = Layer.effect(ApiKey, fx.service(Cfg).map(Cfg.url))  # wrong: Cfg is needed
reads.and_then(fx.service(ApiKey)).map(lambda key: key.bit_count())  # wrong: a string has no bit_count
fx.run(fx.service(Db))  # wrong: nobody gave it
fx.service(MyLog().info)  # wrong: a method is not a key
fx.service("Db")  # wrong: nor is a name
undeclared: Effect[Db] = fx.service(Db)  # wrong: Db is not declared

# --- what a release or a finalizer needs
told = fx.acquire_release(fx.succeed(1), lambda _: fx.service(Log))
fx.run(fx.scoped(told))  # wrong: the release needs Log
finalized = fx.scoped(fx.add_finalizer(lambda _: fx.service(Log)))
fx.run(finalized)  # wrong: the finalizer needs Log
closing: Layer[Db] = Layer.scoped(Db, told.as_(MyDb("")))  # wrong: the release needs Log
fx.scoped(fx.acquire_release(fx.succeed(1), lambda n: fx.sync(n.upper)))  # wrong: a number has no upper
fx.run(Stream.make(1).ensuring(fx.service(Log)).drain())  # wrong: the finalizer of a stream needs Log


# --- a tag or a foreign class that is asked for by its name and not declared
@fx.gen
def tagged() -> Gen[str]:
    return (yield from ApiKey)  # wrong: ApiKey is not declared


@fx.gen
def foreign() -> Gen[int, Never, ApiKey]:
    yield from ClassKey(int)  # wrong: int is not declared
    key: int = yield from ApiKey  # wrong: a string
    return key
