"""Layers around layers keep exact types: `limit`, `trace`, and `Layer.merge_all` of layers that are made in place."""

from __future__ import annotations

from typing import Never, assert_type

from fxai.effects import Effect, EffectOf, Layer, LayerOf, MergedOf, fx
from fxai.models import LanguageModel, limit
from fxai.telemetry import trace
from tests.typing.world import ApiKey, Cfg, CfgFault, Clock, Db, Log, MyCfg, MyClock, MyDb, MyLog, asks_time


def around(
    model: Layer[LanguageModel],
    remote: Layer[LanguageModel, CfgFault, Cfg],
    ask: Effect[int, Never, LanguageModel],
    count: Effect[int, Never, LanguageModel | Db],
) -> None:
    """A layer that may fail and needs services, and one that does not."""
    assert_type(limit(model), LayerOf[LanguageModel, Never, None])
    assert_type(limit(remote), LayerOf[LanguageModel, CfgFault, Cfg | None])
    assert_type(trace(model), LayerOf[LanguageModel, Never, None])
    assert_type(trace(limit(remote)), LayerOf[LanguageModel, CfgFault, Cfg | None])
    assert_type(limit(remote).provide(Layer.succeed(Cfg, MyCfg())), LayerOf[LanguageModel, CfgFault, None])
    plain: Layer[LanguageModel] = trace(limit(model))
    needy: Layer[LanguageModel, CfgFault, Cfg] = limit(trace(remote))
    assert_type(fx.run(ask.provide(plain)), int)
    assert_type(fx.run(ask.provide(trace(limit(model)))), int)
    assert_type(ask.provide(needy), EffectOf[int, CfgFault, Cfg | None])
    assert_type(fx.run(count.provide(trace(limit(model)) | Layer.succeed(Db, MyDb("a")))), int)


def in_place(two: Effect[int, Never, Db | Log], four: Effect[int, Never, Db | Log | Clock | Cfg]) -> None:
    """Layers that are made where they are merged."""
    assert_type(
        Layer.merge_all(Layer.succeed(Db, MyDb("a")), Layer.succeed(Log, MyLog())), MergedOf[Db | Log, Never, None]
    )
    assert_type(fx.run(two.provide(Layer.merge_all(Layer.succeed(Db, MyDb("a")), Layer.succeed(Log, MyLog())))), int)
    assert_type(
        fx.run(
            four.provide(
                Layer.merge_all(
                    Layer.succeed(Db, MyDb("a")),
                    Layer.sync(Log, MyLog),
                    Layer.succeed(Clock, MyClock()),
                    Layer.effect(Cfg, fx.sync(MyCfg)),
                )
            )
        ),
        int,
    )
    assert_type(
        two.provide(Layer.merge_all(Layer.succeed(Db, MyDb("a")), Layer.succeed(ApiKey, "k"))),
        EffectOf[int, Never, Log | None],
    )
    assert_type(
        asks_time.provide(Layer.merge_all(Layer.succeed(Db, MyDb("a")), Layer.succeed(Clock, MyClock()))),
        EffectOf[float, Never, None],
    )
