"""What the checkers infer of durable runs and steps."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import fx
from fxai.durable import DurableFailure, JournalFailure, Reply, RunReport, Runs, RunState, RunUnknown, durable, step
from fxai.effects import Effect, EffectOf, LayerOf
from fxai.models import LanguageModel
from tests.typing.desk import MODEL, Database, Lost, rows

runs = Runs.in_process()
assert_type(durable(MODEL, run="a", store=runs), LayerOf[LanguageModel, DurableFailure, None])
assert_type(step("count", rows(1), list[int]), EffectOf[list[int], Lost, Database | None])
assert_type(step("count", fx.succeed(1), int, idempotent=True), EffectOf[int, Never, None])


def maybe() -> Effect[int | None]:
    return fx.succeed(1)


assert_type(step("maybe", maybe(), int | None), EffectOf[int | None, Never, None])
assert_type(runs.list(status="waiting"), EffectOf[tuple[RunState, ...], JournalFailure, None])
assert_type(runs.show("run"), EffectOf[RunReport, RunUnknown | JournalFailure, None])
assert_type(runs.work({"desk": lambda run: rows(len(run))}), EffectOf[Never, JournalFailure, Database | None])
runs.answer("run", "question", Reply.approve())
