"""What the checkers infer of traces and spans."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import Aspect, HandlerOf, fx, telemetry
from fxai.effects import EffectOf, LayerOf
from fxai.models import LanguageModel
from tests.typing.desk import HANDLERS, MODEL, Database, Lost, Mailer, Query, Refund, rows

assert_type(telemetry.trace(MODEL), LayerOf[LanguageModel, Never, None])
assert_type(
    telemetry.trace(HANDLERS),
    LayerOf[HandlerOf[Query, list[str], Never] | HandlerOf[Refund, int, Lost], Never, Database | None],
)
assert_type(rows(1).span("rows", number=1, words=["a"]), EffectOf[list[int], Lost, Database | None])
assert_type(fx.annotate_span({"found": 3}), EffectOf[None, Never, None])
asking = Aspect.make(before=lambda call: fx.service(Mailer).as_(None))
assert_type(asking, Aspect[Mailer | None])
