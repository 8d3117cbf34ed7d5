"""Services, contexts and layers that do not fit their keys."""

from __future__ import annotations

from typing import Never

from fxai.effects import Context, ContextOf, Layer, fx
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
