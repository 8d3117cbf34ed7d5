"""Cancelling a run that goes on: its program is interrupted wherever it is, and the journal says what is true."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from returns.result import Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import Reply, RunCancelled, Runs, durable, step
from fxai.effects import Gen, Layer
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel, call, text
from tests.kit.every import every

Make = Callable[["Scene"], Any]


class Scene:
    """A program in the middle of something that never ends, and what is seen of its end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.log: list[str] = []

    def hang(self, *_: object) -> Any:
        """An effect that has begun, and never ends."""
        return fx.sync(self.begun.set).and_then(fx.never()).ensuring(fx.sync(lambda: self.log.append("finalizer")))

    @property
    def agent(self) -> Any:
        """An agent that makes a call which never ends."""
        return Agent.make("clerk", toolkit=Toolkit.make(_charge))

    @property
    def live(self) -> Any:
        """Its model and its handler."""
        model = ScriptedModel.make([call("charge", 5), text("Done.")])
        handler: Any = _charge.handler(self.hang)
        return handler | model.layer


class _Hangs(LanguageModel):
    """A model that never answers."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def ask(self, request: ModelRequest) -> Any:
        """Nothing, ever."""
        return self._scene.hang(request)


_charge = Tool.make("charge", parameters=int, success=int)
_wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)


def _in_turn(scene: Scene) -> Any:
    asked: Any = Agent.make("clerk").execute("Go.")
    return asked.provide(Layer.succeed(LanguageModel, _Hangs(scene)))


def _in_streamed_turn(scene: Scene) -> Any:
    asked: Any = Agent.make("clerk").stream("Go.").collect()
    return asked.provide(Layer.succeed(LanguageModel, _Hangs(scene)))


def _in_call(scene: Scene) -> Any:
    return scene.agent.execute("Go.").provide(scene.live)


def _in_sub_agent(scene: Scene) -> Any:
    model = ScriptedModel.make([call("clerk", {"prompt": "Charge."}), call("charge", 5)])
    asked: Any = Agent.make("boss").with_tools(scene.agent.as_tool()).execute("Go.")
    return asked.provide(_charge.handler(scene.hang) | model.layer)


def _in_sleep(scene: Scene) -> Any:
    slept: Any = fx.sync(scene.begun.set).and_then(fx.sleep(7 * 86_400))
    return slept.ensuring(fx.sync(lambda: scene.log.append("finalizer")))


def _in_step(scene: Scene) -> Any:
    return step("hang", scene.hang(), int)


def _beside_all_parts(scene: Scene) -> Any:
    return scene.hang()


def _while_it_waits(scene: Scene) -> Any:
    agent = Agent.make("clerk", toolkit=Toolkit.make(_wipe))
    layer: Any = _wipe.handler(Success) | ScriptedModel.make([call("wipe", 1)]).layer
    asked: Any = fx.sync(scene.begun.set).and_then(agent.execute("Go."))
    return asked.ensuring(fx.sync(lambda: scene.log.append("finalizer"))).provide(layer)


PLACES = [
    _in_turn, _in_streamed_turn, _in_call, _in_sub_agent, _in_sleep, _in_step, _beside_all_parts, _while_it_waits
]  # fmt: skip


@every("make", PLACES, ids=lambda make: make.__name__.strip("_"))
def test_a_run_is_cancelled_in_the_middle(make: Make, backend: Any) -> None:
    """Wherever it is: its finalizers run, it fails with `RunCancelled`, and it is listed as cancelled."""
    runs = Runs.in_process()
    _check(make, runs, runs, backend)


@pytest.mark.parametrize("make", [_in_call, _while_it_waits], ids=lambda make: make.__name__.strip("_"))
def test_a_run_is_cancelled_by_another_program(make: Make, tmp_path: Path) -> None:
    """Which has nothing in common with it but the database."""
    _check(make, Runs.sqlite(tmp_path / "runs.db"), Runs.sqlite(tmp_path / "runs.db"), "asyncio")


def _check(make: Make, mine: Runs, others: Runs, backend: Any) -> None:
    scene = Scene()

    def cancel() -> None:
        assert scene.begun.wait(30)
        fx.run(others.cancel("r"))

    thread = threading.Thread(target=cancel)
    thread.start()
    program = make(scene).provide(durable(Layer.empty(), run="r", store=mine, patience=1e6))
    end: Any = fx.run_exit(program, backend=backend)
    thread.join()
    assert [type(one) for one in end.cause.failures] == [RunCancelled]
    assert scene.log == ["finalizer"]
    assert fx.run(others.show("r")).state.status == "cancelled"
    again: Any = fx.run_exit(make(scene).provide(durable(Layer.empty(), run="r", store=mine)))
    assert [type(one) for one in again.cause.failures] == [RunCancelled]


def test_a_call_under_way_stays_in_doubt(tmp_path: Path) -> None:
    """Whether it ran is not known, and the journal does not say that it is."""
    scene = Scene()
    runs = Runs.sqlite(tmp_path / "runs.db")
    both: Any = fx.all_(
        _in_call(scene).provide(durable(Layer.empty(), run="r", store=runs)).exit(),
        fx.in_thread(lambda: scene.begun.wait(30)).and_then(runs.cancel("r")),
    )
    fx.run(both)
    steps = fx.run(runs.show("r")).steps
    assert [(one.name, one.status) for one in steps] == [("turn", "ended"), ("charge", "in doubt")]


def test_a_cancelled_run_asks_nothing() -> None:
    """What was open is no question any more, and an answer to it is refused with the reason."""
    scene, runs = Scene(), Runs.in_process()
    fx.run_exit(_while_it_waits(scene).provide(durable(Layer.empty(), run="r", store=runs)))
    question = fx.run(runs.show("r")).questions[0]
    fx.run(runs.cancel("r"))
    assert fx.run(runs.show("r")).questions == ()
    assert fx.run(runs.list())[0].questions == 0
    refused: Any = fx.run_exit(runs.answer("r", question.id, Reply.approve()))
    assert "cancelled" in refused.cause.failures[0].why


def test_a_stream_is_cancelled_in_the_middle() -> None:
    """Also where the layer is provided to the stream itself: who reads it gets the failure."""
    scene, runs = Scene(), Runs.in_process()
    stream: Any = scene.agent.stream("Go.").provide(durable(scene.live, run="r", store=runs))
    both: Any = fx.all_(stream.collect().exit(), fx.in_thread(lambda: scene.begun.wait(30)).and_then(runs.cancel("r")))
    end = fx.run(both)[0]
    assert [type(one) for one in end.cause.failures] == [RunCancelled]
    assert scene.log == ["finalizer"]
    assert fx.run(runs.show("r")).state.status == "cancelled"


def test_what_may_not_be_interrupted_is_not(tmp_path: Path) -> None:
    """An uninterruptible part goes on to its end, and the run ends behind it."""
    scene = Scene()
    runs = Runs.sqlite(tmp_path / "runs.db")
    released = threading.Event()
    working: Any = fx.sync(scene.begun.set).and_then(fx.in_thread(lambda: released.wait(30))).uninterruptible()
    program: Any = working.and_then(fx.sync(lambda: scene.log.append("worked"))).uninterruptible()

    def cancel() -> Gen[None, Any]:
        yield from fx.in_thread(lambda: scene.begun.wait(30))
        yield from runs.cancel("r")
        released.set()

    both: Any = fx.all_(
        program.and_then(fx.never()).provide(durable(Layer.empty(), run="r", store=runs)).exit(), fx.gen(cancel)()
    )
    assert isinstance(fx.run(both)[0].cause.failures[0], RunCancelled)
    assert scene.log == ["worked"]


def test_a_run_that_is_done_stays_done() -> None:
    """It is not cancelled afterwards."""
    runs = Runs.in_process()
    program: Any = fx.succeed(1)
    fx.run(program.provide(durable(Layer.empty(), run="r", store=runs)))
    fx.run(runs.cancel("r"))
    assert fx.run(runs.show("r")).state.status == "done"


@pytest.mark.slow
def test_a_crowd_of_runs_has_one_watch(tmp_path: Path) -> None:
    """Runs of one store are watched by one thread, which ends with them; one that is cancelled ends alone."""
    runs, counts, size = Runs.sqlite(tmp_path / "runs.db"), list[int](), 60
    begun: list[str] = []

    def watches() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "fxai journal watch"]

    def one(name: str) -> Any:
        hang: Any = fx.sync(lambda: begun.append(name)).and_then(fx.sleep(3600))
        return hang.provide(durable(Layer.empty(), run=name, store=tmp_path / "runs.db")).exit()

    def cancel() -> Gen[None, Any]:
        while len(begun) < size:
            yield from fx.sleep(0.01)
        counts.append(len(watches()))
        for at in range(size):
            yield from runs.cancel(str(at))

    both: Any = fx.all_(fx.for_each(map(str, range(size)), one, concurrency=None), fx.gen(cancel)())
    ends = fx.run(both)[0]
    assert {type(failure) for end in ends for failure in end.cause.failures} == {RunCancelled}
    assert counts == [1]
    for thread in watches():
        thread.join(30)
    assert watches() == []
