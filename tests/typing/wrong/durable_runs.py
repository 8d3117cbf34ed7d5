"""Durable runs, steps, and replies that do not fit."""

from __future__ import annotations

from fxai import Effect, Layer, fx
from fxai.durable import DurableFailure, Reply, Runs, durable, step, version
from fxai.models import LanguageModel
from tests.typing.desk import AGENT, MODEL, Lost, rows

runs = Runs.in_process()

durable(MODEL)  # wrong: no run
durable(MODEL, "run-1")  # wrong: the run has a name
durable(MODEL, run=3)  # wrong: a run is a string
durable(AGENT, run="a")  # wrong: an agent is not a layer
durable(MODEL, run="a", on_change="ignore")  # wrong: no such rule
durable(MODEL, run="a", patience="1m")  # wrong: seconds are a number
durable(MODEL, run="a", store=3)  # wrong: a number is not a store
kept: Layer[LanguageModel] = durable(MODEL, run="a")  # wrong: it can fail
fx.run(rows(1).provide(durable(MODEL, run="a")))  # wrong: a model is not a database
step("count", 3, int)  # wrong: a value is not an effect
step("count", fx.succeed(1))  # wrong: no type
step("count", lambda: fx.succeed(1), int)  # wrong: a function is not an effect
step(fx.succeed(1), "count", int)  # wrong: the name comes first
text: str = fx.run(step("count", fx.succeed(1), int))  # wrong: another type of value
surely: Effect[int] = step("count", rows(1).map(len), int)  # wrong: it can fail, and needs a database
version(3)  # wrong: a version is a string
Runs.sqlite(3)  # wrong: a path
runs.list(status="dead")  # wrong: no such status
runs.answer("run", "question", True)  # wrong: a bool is not a reply
runs.answer("run", "question", Reply.approve)  # wrong: a function that was not called
runs.work({"desk": AGENT})  # wrong: a function of a run
runs.work({"desk": lambda _: 3})  # wrong: it must give an effect
runs.recover(AGENT)  # wrong: a function of a run
cancelled: Effect[None] = runs.cancel("run")  # wrong: it can fail
fx.run(runs.list()).state  # wrong: there are many
Reply.deny(3)  # wrong: a reason is a string
shown: Effect[DurableFailure] = runs.show("run")  # wrong: a report is not a failure
lost: Effect[int, str] = step("count", fx.fail(Lost(1)).as_(1), int)  # wrong: another failure
