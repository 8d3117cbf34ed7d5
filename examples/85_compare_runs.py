"""A recorded run as a fixture: the same agent with changed tools, with another model, and with a changed model.

Run it with `python examples/85_compare_runs.py`. It needs no network and no key.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from returns.result import Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.agents import RunDiverged, RunRecord, diff_runs, replay_results, replay_turns
from fxai.durable import Runs, durable
from fxai.effects import Failed
from fxai.testing import ScriptedModel, call, text

price = Tool.make("price", description="Returns the price in cents.", parameters=str, success=int)
order = Tool.make("order", description="Orders a product.", parameters=str, success=dict[str, int])
handlers = price.handler(lambda _: Success(250)) | order.handler(lambda item: Success({"number": len(item)}))
asked = Agent.make("clerk", toolkit=Toolkit.make(price, order)).execute("Buy tea.")

# Record a run: here from the journal of a durable run.
runs = Runs.in_process()
model = ScriptedModel.make([call("price", "tea"), call("order", "tea"), text("I ordered tea.")])
fx.run(asked.provide(handlers).provide(durable(model.layer, run="buy-tea", store=runs)))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "buy-tea.json")
    fx.run(runs.record("buy-tea")).write(path)
    before = RunRecord.read(path)

# Unchanged code has no difference.
again = fx.run(asked.provide(handlers).provide(replay_turns(before, strict=True)))
print(f"unchanged: {diff_runs(before, RunRecord.of(again))}")

# Changed tools: the model answers from the record.
dear = price.handler(lambda _: Success(300)) | order.handler(lambda item: Success({"number": len(item)}))
changed = fx.run(asked.provide(dear).provide(replay_turns(before)))
print(f"changed tools: {diff_runs(before, RunRecord.of(changed))}")

# A changed model: the tools answer from the record, so nothing is ordered.
quick = ScriptedModel.make([[call("price", "tea"), call("order", "tea")], text("Done.")])
tried = fx.run(asked.provide(handlers).provide(replay_results(quick.layer, before)))
print(f"changed model: {diff_runs(before, RunRecord.of(tried))}")

# A model that does something else stops at the call that the record does not contain.
other = ScriptedModel.make([call("order", "coffee"), text("Done.")])
ended = fx.run_exit(asked.provide(handlers).provide(replay_results(other.layer, before)))
assert isinstance(ended, Failed)
(failure,) = ended.cause.failures
assert isinstance(failure, RunDiverged)
print(f"other model: {failure.problem}")
