"""What the checkers infer of handlers on other machines."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import BoundToolkit, HandlerOf
from fxai.distributed import Cluster, Placement, distribute
from fxai.effects import EffectOf, LayerOf
from fxai.tools import Outcome, ToolError
from tests.typing.desk import DATABASE, DESK, HANDLERS, Lost, Query, Refund, weather

bound = BoundToolkit.of(DESK, HANDLERS.provide(DATABASE))
assert_type(bound, BoundToolkit[HandlerOf[Query, list[str], Never] | HandlerOf[Refund, int, Lost], Never, None])
far = distribute(bound, "shop:desk", placements={"search": Placement(concurrency=4, resources={"gpu": 0.5})})
assert_type(far, LayerOf[HandlerOf[Query, list[str], Never] | HandlerOf[Refund, int, Lost], Never, Cluster | None])
assert_type(DESK.call("search", {}).provide(far), EffectOf[Outcome, ToolError, Cluster | None])
distribute(weather, "shop:weather", wait=None)
