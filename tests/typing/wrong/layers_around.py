"""Programs that lack a service around `limit`, `trace`, and `Layer.merge_all`."""

from __future__ import annotations

from typing import Never

from fxai.effects import Effect, Layer, fx
from fxai.models import LanguageModel, limit
from fxai.telemetry import trace
from tests.typing.world import Cfg, CfgFault, Db, Log, MyDb


def around(
    model: Layer[LanguageModel],
    remote: Layer[LanguageModel, CfgFault, Cfg],
    ask: Effect[int, Never, LanguageModel],
    count: Effect[int, Never, LanguageModel | Db],
) -> None:
    fx.run(ask.provide(limit(remote)))  # wrong: Cfg is missing
    fx.run(ask.provide(trace(remote)))  # wrong: Cfg is missing
    fx.run(count.provide(limit(model)))  # wrong: Db is missing
    fx.run(count.provide(trace(limit(model))))  # wrong: Db is missing
    plain: Layer[LanguageModel] = limit(remote)  # wrong: it may fail
    traced: Layer[LanguageModel] = trace(remote)  # wrong: it may fail
    other: Layer[Db] = trace(model)  # wrong: it builds a model
    another: Layer[Db] = limit(model)  # wrong: it builds a model
    limit(ask)  # wrong: it is not a layer
    trace("model")  # wrong: it is not a layer
    fx.run(ask.provide(plain | traced | other | another))


def in_place(two: Effect[int, Never, Db | Log]) -> None:
    twice = Layer.merge_all(Layer.succeed(Db, MyDb("a")), Layer.succeed(Db, MyDb("a")))
    fx.run(two.provide(twice))  # wrong: Log is missing
    Layer.merge_all(Layer.succeed(Db, 1), Layer.succeed(Db, MyDb("a")))  # wrong: a number is not a Db
