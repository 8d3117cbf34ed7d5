"""What the checkers infer of layers: what they supply, how building them can fail, what they need."""

from __future__ import annotations

from typing import Any, Never, assert_type

from fxai.effects import EffectOf, Layer, LayerOf, Runtime, fx, runtime
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
    MyClock,
    MyDb,
    NetFault,
    asks_time,
    four,
    make_db,
    reads,
    report,
)

assert_type(DB_LIVE, LayerOf[Db, CfgFault | LogFault, Cfg | Log | None])
assert_type(fx.scoped(make_db()), EffectOf[MyDb, CfgFault | LogFault, Cfg | Log | None])

# --- feeding
assert_type(DB_LIVE.provide(CFG), LayerOf[Db, CfgFault | LogFault, Log | None])
assert_type(DB_LIVE.provide(CFG).provide(LOG), LayerOf[Db, CfgFault | LogFault, None])
assert_type(DB_LIVE.provide(CFG | LOG), LayerOf[Db, CfgFault | LogFault, None])
assert_type(DB_LIVE.provide_merge(LOG), LayerOf[Db | Log, CfgFault | LogFault, Cfg | None])
assert_type(DB_LIVE.provide_merge(CFG | LOG) | API_KEY, LayerOf[Db | Cfg | Log | ApiKey, CfgFault | LogFault, None])
assert_type(DB_LIVE.provide(CFG | LOG).or_die(), LayerOf[Db, Never, None])
assert_type(DB_LIVE.map_error(lambda e: str(e)), LayerOf[Db, str, Cfg | Log | None])
assert_type(DB_LIVE.fresh(), LayerOf[Db, CfgFault | LogFault, Cfg | Log | None])
assert_type(four.provide(DB_LIVE), EffectOf[str, DbFault | LogFault | CfgFault, Cfg | Log | Clock | ApiKey | None])

# --- merging, side by side: needs and failures of both
KEYED = Layer.effect(ApiKey, asks_time.map(str))
assert_type(KEYED, LayerOf[ApiKey, Never, Clock | None])
assert_type(DB_LIVE | KEYED, LayerOf[Db | ApiKey, CfgFault | LogFault, Cfg | Log | Clock | None])
assert_type(DB_LIVE.merge(KEYED).provide(CLOCK), LayerOf[Db | ApiKey, CfgFault | LogFault, Cfg | Log | None])
assert_type((DB_LIVE | KEYED).provide(CLOCK | CFG | LOG), LayerOf[Db | ApiKey, CfgFault | LogFault, None])
assert_type(
    (DB_LIVE | KEYED).provide(CLOCK) | CLOCK, LayerOf[Db | ApiKey | Clock, CfgFault | LogFault, Cfg | Log | None]
)
NONE: LayerOf[Never, Never, None] = Layer.empty()

# --- a layer may supply more and need less than is declared
wide: Layer[Db, CfgFault | LogFault, Cfg | Log | Clock] = DB_LIVE
narrow: Layer[Db] = DB | LOG

# --- chosen while it runs
assert_type(Layer.suspend(lambda: DB), LayerOf[Db, Never, None])


def chosen(key: str) -> Layer[Clock, NetFault]:
    return Layer.sync(Clock, MyClock)


assert_type(Layer.unwrap(fx.service(ApiKey).map(chosen)), LayerOf[Clock, NetFault, ApiKey | None])


# --- built once, used many times
async def host() -> None:
    async with runtime(DB | LOG | API_KEY) as built:
        assert_type(built, Runtime[Db | Log | ApiKey])
        assert_type(await built.run(report("x")), str)
        assert_type(await built.run(reads), list[str])


def generic(layer: LayerOf[Db, Any, None]) -> list[str]:
    return fx.run(reads.provide(layer))
