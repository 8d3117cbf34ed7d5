"""Keys of calls: the same in every program that goes on with a run, and another one's never."""

from __future__ import annotations

from typing import Any

import pytest

from fxai import Agent, Tool, Toolkit, fx
from fxai.annotations import Idempotent
from fxai.durable import Reply, Runs, durable
from fxai.effects import EffectOf
from fxai.testing import ScriptedModel, call, text
from fxai.tools import CallContext

pay = Tool.make("pay", parameters=int, success=str)
again = Tool.make("again", parameters=int, success=str).annotate(Idempotent, True)
KIT = Toolkit.make(pay, again)


class Crash(BaseException):
    """The process ends."""


def _model(*tools: str) -> ScriptedModel:
    """A model that calls the tools in one turn, whichever program asks it."""
    return ScriptedModel.make([[call(name, 1) for name in tools], text("Done.")])


def _program(runs: Runs, keys: list[str], model: ScriptedModel, *, breaks: bool = False, run: str = "run") -> Any:
    def handle(cents: int, context: CallContext) -> EffectOf[str]:
        def do() -> str:
            keys.append(context.idempotency_key)
            if breaks:
                raise Crash
            return f"paid {cents}"

        return fx.sync(do)

    live: Any = pay.handler(handle) | again.handler(handle) | model.layer
    return Agent.make("clerk", toolkit=KIT).execute("Pay.").provide(durable(live, run=run, store=runs))


def test_a_call_has_its_own_key_and_none_outside_of_a_durable_run() -> None:
    """Two calls of a run, and the same calls of another run, have different ones; each is long enough to be unique."""
    runs, keys, more = Runs.in_process(), list[str](), list[str]()
    fx.run(_program(runs, keys, _model("pay", "again")))
    fx.run(_program(runs, more, _model("pay", "again"), run="other"))
    assert len({*keys, *more}) == 4
    assert {len(key) for key in (*keys, *more)} == {32}

    bare: list[str] = []

    def note(_: int, context: CallContext) -> EffectOf[str]:
        return fx.sync(lambda: bare.append(context.idempotency_key)).as_("paid")

    fx.run(KIT.call("pay", 1).provide(pay.handler(note) | again.handler(note)))
    assert bare == [""]


def test_a_call_that_is_run_again_keeps_its_key() -> None:
    """An idempotent one is run again when its run goes on: what it asks of others is the same request."""
    runs, keys, model = Runs.in_process(), list[str](), _model("again")
    with pytest.raises(Crash):
        fx.run(_program(runs, keys, model, breaks=True))
    fx.run_result(_program(runs, keys, model))
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_call_that_a_person_has_run_again_is_another_one() -> None:
    """Whoever says so knows what became of the first one."""
    runs, keys, model = Runs.in_process(), list[str](), _model("pay")
    with pytest.raises(Crash):
        fx.run(_program(runs, keys, model, breaks=True))
    fx.run_result(_program(runs, keys, model))
    (question,) = fx.run(runs.show("run")).questions
    fx.run(runs.answer("run", question.id, Reply.again()))
    fx.run_result(_program(runs, keys, model))
    assert len(keys) == len(set(keys)) == 2


def test_a_run_that_was_removed_and_begun_anew_has_other_keys() -> None:
    """Its name is the same, and its calls are not."""
    runs, before, after = Runs.in_process(), list[str](), list[str]()
    fx.run(_program(runs, before, _model("pay")))
    fx.run(runs.remove("run"))
    fx.run(_program(runs, after, _model("pay")))
    assert not {*before} & {*after}
