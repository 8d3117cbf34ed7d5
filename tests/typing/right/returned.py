"""Right programs whose types are declared and only checked: expected types are pushed inwards, nothing may break."""

from __future__ import annotations

from fxai.effects import Context, ContextOf, Effect, Layer, Scope, fx
from tests.typing.world import (
    API_KEY,
    CFG,
    CLOCK,
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
    MyDb,
    MyLog,
    four,
    logs,
    make_db,
    reads,
)


def one() -> Layer[Db]:
    return Layer.succeed(Db, MyDb(""))


def two() -> Layer[Db | Log]:
    return DB | LOG


def two_inline() -> Layer[Db | Log]:
    return Layer.succeed(Db, MyDb("")) | Layer.succeed(Log, MyLog())


def more_than_asked() -> Layer[Db]:
    return DB | LOG


def more_than_asked_inline() -> Layer[Db]:
    return Layer.succeed(Db, MyDb("")) | Layer.succeed(Log, MyLog())


def three() -> Layer[Db | Log | Clock]:
    return DB | LOG | CLOCK


def partly_fed() -> Layer[Db | Log, CfgFault | LogFault, Log]:
    return DB_LIVE.provide(CFG) | LOG


def wholly_fed() -> Layer[Db | Log, CfgFault | LogFault]:
    return DB_LIVE.provide(CFG | LOG) | LOG


def fed_and_shown() -> Layer[Db | Log | Cfg, CfgFault | LogFault]:
    return DB_LIVE.provide_merge(CFG | LOG)


def scoped() -> Layer[Db, CfgFault | LogFault, Cfg | Log]:
    return Layer.scoped(Db, make_db())


def merged_both_unfed(flag: bool) -> Layer[Db, CfgFault | LogFault, Cfg | Log | Clock]:
    return DB if flag else DB_LIVE


def all_provided() -> Effect[str, DbFault | LogFault]:
    return four.provide(DB | LOG | CLOCK | API_KEY)


def three_provided() -> Effect[str, DbFault | LogFault, Clock]:
    return four.provide(DB | LOG | API_KEY)


def two_provided() -> Effect[str, DbFault | LogFault, Clock | ApiKey]:
    return four.provide(DB).provide(LOG)


def wider_than_needed() -> Effect[str, DbFault | LogFault | CfgFault, Clock | ApiKey | Cfg]:
    return four.provide(DB).provide(LOG)


def context() -> Context[Db]:
    return ContextOf.make(Db, MyDb(""))


def wider_context() -> Context[Db | Log]:
    return ContextOf.make(Db, MyDb("")).add(Log, MyLog())


def one_kind_caught() -> Effect[list[str], DbFault, Db | Log]:
    handled = reads.flat_map(lambda rows: logs.as_(rows))
    return handled.catch_all(lambda e: fx.fail(e) if isinstance(e, DbFault) else fx.succeed([""]))


def matched() -> Effect[int, Log | DbFault, Db]:
    return reads.match(lambda _: 0, lambda rows: len(rows))


def both() -> Effect[tuple[list[str], None], DbFault | LogFault, Db | Log]:
    return fx.all_(reads, logs)


def each() -> Effect[list[list[str]], DbFault, Db]:
    return fx.for_each([1, 2], lambda _: reads, concurrency=2)


def chained() -> Effect[str, DbFault]:
    return fx.service(Db).flat_map(lambda db: db.query("")).map(lambda rows: rows[0]).provide(DB)


def either(flag: bool) -> Effect[list[str] | None, DbFault | LogFault, Db | Log]:
    return reads if flag else logs


def early(flag: bool) -> Effect[int, DbFault | LogFault]:
    if flag:
        return fx.fail(LogFault())
    return fx.succeed(1)


def with_scope() -> Effect[MyDb, CfgFault | LogFault, Cfg | Log | Scope]:
    return make_db()


fx.run(fx.scoped(make_db()).provide(CFG | LOG))
fx.run(fx.service(Db).flat_map(lambda db: db.query("")).provide(Layer.succeed(Db, MyDb(""))))
fx.run(four.provide(Layer.succeed(Db, MyDb("")) | Layer.succeed(Log, MyLog()) | CLOCK | API_KEY))
fx.run(four.provide(DB_LIVE.provide_merge(CFG | LOG) | CLOCK | API_KEY))
