"""A PostgreSQL server that restarts while runs go on: they lose only time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import anyio
import pytest
from returns.result import Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.durable import Runs, durable, step
from fxai.effects import Gen, Succeeded
from fxai.testing import ScriptedModel, call, text
from tests.kit.postgres import PostgresServer, fresh_database, own_postgres

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that tests restart."""
    with own_postgres() as server:
        yield server


class Desk:
    """A clerk whose calls take as long as the restart of the server, and steps around it."""

    def __init__(self, server: PostgresServer) -> None:
        self.runs = Runs.at(fresh_database(server.url))
        assert self.runs.location.startswith("PostgreSQL, ")
        self.paid: list[int] = []
        self.mailed: list[int] = []
        self.pay = Tool.make("pay", parameters=int, success=str)

    async def _pay(self, number: int) -> Success[str]:
        await anyio.sleep(1.5)
        self.paid.append(number)
        return Success(f"paid {number}")

    def program_of(self, run: str) -> Any:
        """The program of a run with a name."""
        return self.program(int(run.removeprefix("run-")))

    def program(self, number: int) -> Any:
        """A run: two parallel steps with one name, and a call."""

        def mail(at: int) -> Any:
            return step("mail", fx.sync(lambda: self.mailed.append(at)).as_(at), int)

        def go() -> Gen[str, Any, Any]:
            values = yield from fx.for_each([2 * number, 2 * number + 1], mail, concurrency=None)
            assert values == [2 * number, 2 * number + 1]
            agent: Any = Agent.make("clerk", toolkit=Toolkit.make(self.pay))
            return str(cast(Any, (yield from agent.execute("Pay."))).text)

        model = ScriptedModel.make([call("pay", number), text("Paid.")])
        layer: Any = self.pay.handler(self._pay) | model.layer
        asked: Any = fx.gen(go)()
        return asked.provide(durable(layer, run=f"run-{number}", store=self.runs))


def _restart(server: PostgresServer, after: float) -> threading.Thread:
    def restart() -> None:
        server.stop()
        threading.Event().wait(0.5)
        server.start()

    thread = threading.Timer(after, restart)
    thread.start()
    return thread


def test_runs_go_on_when_the_server_restarts(server: PostgresServer) -> None:
    """Every run ends; no call and no step runs twice, and no question is asked."""
    desk = Desk(server)
    fx.run(desk.runs.open("another run", may_begin=True))  # fxai waits for a server that it has reached before
    restarting = _restart(server, 1.0)
    ends: Any = fx.run(fx.for_each(range(20), lambda number: desk.program(number).exit(), concurrency=None))
    restarting.join()
    assert [getattr(end, "value", end) for end in ends] == ["Paid."] * 20
    assert (sorted(desk.paid), sorted(desk.mailed)) == ([*range(20)], [*range(40)])
    assert {(state.status, state.questions) for state in fx.run(desk.runs.list())} == {("done", 0)}


def test_workers_go_on_when_the_server_restarts(server: PostgresServer) -> None:
    """A worker that has runs neither exits nor gives them to another one."""
    desk = Desk(server)

    def go() -> Gen[None, Any, Any]:
        for number in range(6):
            yield from desk.runs.submit(f"run-{number}", "pay")
        programs: Any = {"pay": desk.program_of}
        ready: list[str] = []
        workers: Any = [desk.runs.work(programs, concurrency=3, on_ready=ready.append) for _ in range(2)]
        handles: Any = yield from fx.for_each(workers, fx.fork)
        while len(ready) < 2:
            yield from fx.sleep(0.05)
        restarting = _restart(server, 1.0)
        while len(desk.paid) < 6 and not any(handle.ended for handle in handles):
            yield from fx.sleep(0.1)
        yield from fx.wait(lambda: anyio.to_thread.run_sync(restarting.join))
        while any(state.status != "done" for state in (yield from desk.runs.list())):
            assert not any(handle.ended for handle in handles)
            yield from fx.sleep(0.2)

    fx.run(fx.scoped(fx.gen(go)()))
    assert (sorted(desk.paid), sorted(desk.mailed)) == ([*range(6)], [*range(12)])


def test_a_run_that_starts_while_the_server_is_away_waits_for_it(server: PostgresServer) -> None:
    """Its worker has the job already, and neither loses it nor exits."""
    desk = Desk(server)
    stops = [True]

    def program(run: str) -> Any:
        if stops.pop() if stops else False:
            server.stop()
            threading.Timer(1.0, server.start).start()
        return desk.program_of(run)

    def go() -> Gen[None, Any, Any]:
        yield from desk.runs.submit("run-0", "pay")
        programs: Any = {"pay": program}
        worker: Any = yield from fx.fork(desk.runs.work(programs))
        while [state.status for state in (yield from desk.runs.list().result()).value_or(())] != ["done"]:
            assert not worker.ended
            yield from fx.sleep(0.2)

    fx.run(fx.scoped(fx.gen(go)()))
    assert (desk.paid, sorted(desk.mailed)) == ([0], [0, 1])


def test_runs_at_once_do_not_depend_on_the_connections(server: PostgresServer) -> None:
    """150 runs go on at once on a server with 20 connections."""
    desk = Desk(server)
    server.stop()
    server.start("-c", "max_connections=20")
    ends: Any = fx.run(fx.for_each(range(150), lambda number: desk.program(number).exit(), concurrency=None))
    assert [end for end in ends if not isinstance(end, Succeeded)] == []
    assert sorted(desk.paid) == [*range(150)]
