"""Handlers on other machines that are not whole, or are placed wrongly."""

from __future__ import annotations

from fxai import BoundToolkit, fx
from fxai.distributed import Cluster, Placement, distribute
from tests.typing.desk import AGENT, DATABASE, DESK, HANDLERS, mail, weather

bound = BoundToolkit.of(DESK, HANDLERS.provide(DATABASE))

distribute(DESK, "shop:desk")  # wrong: the handlers are missing
distribute(AGENT, "shop:desk")  # wrong: an agent has no handlers
distribute(BoundToolkit.of(DESK, HANDLERS), "shop:desk")  # wrong: the database is missing
distribute(mail, "shop:mail")  # wrong: the mailer is missing
distribute(bound)  # wrong: no target
distribute(bound, 3)  # wrong: a target is a string
distribute(bound, "shop:desk", placement={})  # wrong: a misspelt option
distribute(bound, "shop:desk", placements={"search": 3})  # wrong: a number is not a placement
distribute(bound, "shop:desk", wait="long")  # wrong: seconds are a number
fx.run(DESK.call("search", {}).provide(distribute(bound, "shop:desk")))  # wrong: no cluster
fx.run(DESK.call("search", {}).provide(distribute(weather, "shop:desk")))  # wrong: another tool
Placement(resource={"gpu": 1})  # wrong: a misspelt field
Placement(resources={"gpu": "one"})  # wrong: a number
Placement(concurrency="4")  # wrong: a number
Cluster()  # wrong: it is abstract
