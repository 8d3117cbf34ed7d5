"""A queue of runs: what is submitted is run by a worker, once, and waits without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from returns.result import Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.durable import JournalFailure, Reply, RunCancelled, Runs, durable, run_queue, step
from fxai.durable.record import Closed, Opened, Submitted
from fxai.durable.run_journal import RunJournal
from fxai.effects import Gen, Layer, Schedule
from fxai.messages import Finish, Text, ToolCall
from fxai.models import ModelRequest

wipe = Tool.make("wipe", parameters=int, success=int, needs_approval=True)


class _Wiping(LanguageModel):
    """A model that wipes once."""

    def ask(self, request: ModelRequest) -> Any:
        """A call, then the answer."""
        if any(message.role == "assistant" for message in request.prompt):
            return fx.succeed((Text("Done."), Finish("stop")))
        return fx.succeed((ToolCall("w", "wipe", 1), Finish("tool-calls")))


class Shop:
    """Runs of a store, what their program does, and workers."""

    def __init__(self, folder: Path) -> None:
        self.location = folder / "runs.db"
        self.runs = Runs.sqlite(self.location)
        self.log: list[Any] = []

    def wiping(self, run: str) -> Any:
        """The program of a run that asks for an approval."""
        return self._wipe(run, lambda asked: asked)

    def _wipe(self, run: str, make: Callable[[Any], Any]) -> Any:
        def do(number: int) -> Any:
            self.log.append((run, number))
            return Success(number)

        layer: Any = wipe.handler(do) | Layer.succeed(LanguageModel, _Wiping())
        asked: Any = Agent.make("clerk", toolkit=Toolkit.make(wipe)).execute("Go.")
        return make(asked).provide(durable(layer, run=run, store=self.location))

    def hasty(self, run: str) -> Any:
        """The program of a run that asks for an approval, and gets it when it has stopped waiting."""

        def answer() -> Gen[None, Any, Any]:
            for question in (yield from self.runs.show(run)).questions:
                yield from self.runs.answer(run, question.id, Reply.approve())
            yield from step("read", fx.succeed(1), int)

        def answer_after(_: object) -> Any:
            return fx.gen(answer)()

        return self._wipe(run, lambda asked: asked.tap(answer_after))

    def plain(self, run: str) -> Any:
        """The program of a run that does one thing."""
        noted: Any = fx.sync(lambda: self.log.append(run))
        return noted.provide(durable(Layer.empty(), run=run, store=self.location))

    def hanging(self, run: str) -> Any:
        """The program of a run that never ends."""
        hanging: Any = fx.sync(lambda: self.log.append(run)).and_then(fx.never())
        return hanging.provide(durable(Layer.empty(), run=run, store=self.location))

    def with_worker(self, do: Callable[[], Any], workers: int = 1, **options: Any) -> Any:
        """What `do` gives while workers work."""
        programs = {"wiping": self.wiping, "hasty": self.hasty, "plain": self.plain, "hanging": self.hanging}

        def program() -> Gen[Any, Any, Any]:
            for _ in range(workers):
                yield from fx.fork(self.runs.work(programs, grace=0.1, **options))
            return cast(Any, (yield from do()))

        scope: Any = fx.scoped(fx.gen(program)())
        return fx.run(scope)

    def until(self, run: str, status: str) -> Gen[None, Any, Any]:
        """Waits until a run stands so."""
        while (yield from self.runs.show(run)).state.status != status:
            yield from fx.sleep(0.02)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """One of its own."""
    return Shop(tmp_path)


def test_what_is_submitted_is_run(shop: Shop) -> None:
    """By a worker that is started later; until then it is queued."""
    assert fx.run(shop.runs.submit("a", "plain"))
    assert fx.run(shop.runs.show("a")).state.status == "queued"
    assert [one.status for one in fx.run(shop.runs.list())] == ["queued"]
    shop.with_worker(lambda: shop.until("a", "done"))
    assert shop.log == ["a"]


def test_the_same_run_twice_is_the_same_job(shop: Shop) -> None:
    """While it is queued, and when it is done."""
    assert fx.run(shop.runs.submit("a", "plain"))
    assert not fx.run(shop.runs.submit("a", "plain"))
    shop.with_worker(lambda: shop.until("a", "done"), workers=2)
    assert not fx.run(shop.runs.submit("a", "plain"))
    assert shop.log == ["a"]


@pytest.mark.slow
def test_two_programs_that_submit_a_run_at_once_make_one_job(shop: Shop) -> None:
    """One of them is told that it is new."""
    submitting = fx.for_each(range(4), lambda _: shop.runs.submit("a", "plain"), concurrency=None)
    assert sorted(fx.run(submitting)) == [False, False, False, True]
    shop.with_worker(lambda: shop.until("a", "done"), workers=2)
    assert shop.log == ["a"]


@pytest.mark.slow
def test_a_job_that_is_noted_and_not_submitted_yet_is_the_same(shop: Shop) -> None:
    """Its program was killed in between, or is about to submit it: no second job is made beside it."""
    noted = shop.runs.open("a", may_begin=True).flat_map(lambda one: one.append(Submitted(1.0, "plain", "a 0", 0)))
    fx.run(noted)
    assert [fx.run(shop.runs.submit("a", "plain")) for _ in range(2)] == [True, False]
    assert [one.job for one in fx.run(shop.runs.open("a")).known.submitted] == ["a 0"]
    shop.with_worker(lambda: shop.until("a", "done"))
    assert shop.log == ["a"]


@pytest.mark.slow
def test_a_run_that_waits_leaves_the_worker_and_comes_back(shop: Shop) -> None:
    """No worker has it while it waits; the answer submits it again, and any worker goes on."""
    fx.run(shop.runs.submit("a", "wiping"))
    shop.with_worker(lambda: shop.until("a", "waiting"))
    question = fx.run(shop.runs.show("a")).questions[0]
    fx.run(shop.runs.answer("a", question.id, Reply.approve()))
    assert fx.run(shop.runs.show("a")).state.status == "queued"
    shop.with_worker(lambda: shop.until("a", "done"))
    assert shop.log == [("a", 1)]


@pytest.mark.slow
def test_an_answer_that_comes_at_once_is_not_lost(shop: Shop) -> None:
    """However the end of the stretch and the answer meet."""
    names = [f"r{number}" for number in range(8)]

    def answer_all() -> Gen[None, Any, Any]:
        for name in names:
            yield from shop.runs.submit(name, "wiping")
        for name in names:
            while not (found := (yield from shop.runs.show(name)).questions):
                yield from fx.sleep(0)
            yield from shop.runs.answer(name, found[0].id, Reply.approve())
        for name in names:
            yield from shop.until(name, "done")

    shop.with_worker(fx.gen(answer_all), workers=2)
    assert sorted(shop.log) == [(name, 1) for name in names]


@pytest.mark.slow
def test_an_answer_that_comes_while_a_run_stops_is_used_by_the_same_worker(shop: Shop) -> None:
    """The run has not ended, although its program has: the worker runs the program again."""
    assert fx.run(shop.runs.submit("a", "hasty"))
    shop.with_worker(lambda: shop.until("a", "done"))
    assert shop.log == [("a", 1)]
    assert len(fx.run(shop.runs.open("a")).known.submitted) == 1


def test_a_queued_run_is_cancelled(shop: Shop) -> None:
    """No worker begins it, and it is not submitted again."""
    fx.run(shop.runs.submit("a", "plain"))
    fx.run(shop.runs.cancel("a"))
    fx.run(shop.runs.submit("b", "plain"))
    shop.with_worker(lambda: shop.until("b", "done"))
    assert shop.log == ["b"]
    assert fx.run(shop.runs.show("a")).state.status == "cancelled"
    end: Any = fx.run_exit(shop.runs.submit("a", "plain"))
    assert [type(one) for one in end.cause.failures] == [RunCancelled]


@pytest.mark.slow
def test_a_run_of_a_worker_is_cancelled(shop: Shop) -> None:
    """Its program is interrupted, and the worker goes on with others."""

    def cancel() -> Gen[None, Any, Any]:
        yield from shop.runs.submit("a", "hanging")
        yield from shop.until("a", "running")
        yield from shop.runs.cancel("a")
        yield from shop.until("a", "cancelled")
        yield from shop.runs.submit("b", "plain")
        yield from shop.until("b", "done")

    shop.with_worker(fx.gen(cancel), concurrency=1)
    assert shop.log == ["a", "b"]


@pytest.mark.slow
def test_a_run_that_another_program_has_is_tried_later(shop: Shop) -> None:
    """The worker does not wait for it, and does not lose it."""
    begun: list[int] = []

    def go_on() -> Gen[None, Any, Any]:
        holding: Any = fx.sync(lambda: begun.append(1)).and_then(fx.sleep(0.5))
        yield from fx.fork(holding.provide(durable(Layer.empty(), run="a", store=shop.location)))
        while not begun:
            yield from fx.sleep(0.01)
        yield from shop.runs.submit("a", "plain")
        yield from shop.runs.submit("b", "plain")
        yield from shop.until("b", "done")
        yield from shop.until("a", "done")

    shop.with_worker(fx.gen(go_on), concurrency=1)
    assert "b" in shop.log


@pytest.mark.slow
def test_a_higher_priority_goes_first_and_a_delay_waits(shop: Shop) -> None:
    """Of those that are queued."""
    for name, priority, delay in (("low", 0, 0.0), ("late", 9, 3600.0), ("high", 5, 0.0)):
        fx.run(shop.runs.submit(name, "plain", priority=priority, delay=delay))
    shop.with_worker(lambda: shop.until("low", "done"), concurrency=1)
    assert shop.log == ["high", "low"]


@pytest.mark.slow
def test_a_run_that_failed_is_submitted_again(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """How it failed is in the log and in the journal."""
    crashes = [True]

    def program(run: str) -> Any:
        failing: Any = fx.suspend(lambda: fx.fail("no money") if crashes[0] else fx.succeed("paid"))
        return failing.provide(durable(Layer.empty(), run=run, store=shop.location))

    def failed() -> Gen[None, Any, Any]:
        yield from shop.until("a", "failed")
        for _ in range(500):  # the log follows the journal
            if "no money" not in caplog.text:
                yield from fx.sleep(0.02)

    shop.plain = program  # type: ignore[method-assign]
    fx.run(shop.runs.submit("a", "plain"))
    shop.with_worker(failed)
    assert "no money" in caplog.text
    crashes[0] = False
    assert fx.run(shop.runs.submit("a", "plain"))
    shop.with_worker(lambda: shop.until("a", "done"))


@pytest.mark.slow
@pytest.mark.parametrize("record", [Opened, Closed])
def test_a_run_goes_on_when_its_journal_can_be_written_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, record: type[Any]
) -> None:
    """Its beginning or its end could not be written: the job is not over."""
    write, failed = RunJournal.write, list[Any]()

    def fail_once(journal: RunJournal, written: Any, now: float = 0.0) -> None:
        if isinstance(written, record) and not failed:
            failed.append(written)
            raise OSError("the disk is full")
        write(journal, written, now)

    monkeypatch.setattr(RunJournal, "write", fail_once)
    monkeypatch.setattr(run_queue, "_AWAY", Schedule.recurs(1))
    fx.run(shop.runs.submit("a", "plain"))
    shop.with_worker(lambda: shop.until("a", "done"))
    assert len(failed) == 1


@pytest.mark.slow
def test_a_program_that_fails_before_its_run_begins_is_in_the_log(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """The run stays queued, and is submitted again by the next `submit`."""

    def program(run: str) -> Any:
        return fx.fail("no settings")

    plain, shop.plain = shop.plain, program  # type: ignore[method-assign]
    fx.run(shop.runs.submit("a", "plain"))

    def wait() -> Gen[None, Any, Any]:
        while "the run 'a' did not end: no settings" not in caplog.text:
            yield from fx.sleep(0.02)

    shop.with_worker(fx.gen(wait))
    assert fx.run(shop.runs.show("a")).state.status == "queued"
    shop.plain = plain  # type: ignore[method-assign]
    assert fx.run(shop.runs.submit("a", "plain"))
    shop.with_worker(lambda: shop.until("a", "done"))


def test_what_cannot_be_submitted_is_refused(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(ValueError, match="SQLite or PostgreSQL"):
        _ = Runs.in_process().submit("a", "plain")
    with pytest.raises(ValueError, match="1 to 200"):
        _ = Runs.sqlite(tmp_path / "runs.db").submit("a", "")
    end: Any = fx.run_exit(Runs.sqlite("/proc/nothing/runs.db").submit("a", "plain"))
    assert isinstance(end.cause.failures[0], JournalFailure)


@pytest.mark.slow
@pytest.mark.parametrize("is_forked", [False, True])
def test_a_run_that_sleeps_long_leaves_the_worker(shop: Shop, is_forked: bool) -> None:
    """It is queued until then, and another run has its place; where it forked two sleeps, the first of them counts."""

    def sleep(run: str) -> Any:
        def go() -> Gen[None, Any, Any]:
            shop.log.append(f"begin {run}")
            woke = step("wake", fx.sync(lambda: shop.log.append(f"woke {run}")), type(None))
            handle = yield from fx.fork(fx.sleep(1.2).and_then(woke))
            if is_forked:
                yield from fx.sleep(2.4)
            yield from handle.join()

        program: Any = fx.scoped(fx.gen(go)())
        return program.provide(durable(Layer.empty(), run=run, store=shop.location))

    def both() -> Gen[None, Any, Any]:
        yield from shop.runs.submit("a", "hanging")
        yield from shop.until("a", "running")
        yield from shop.until("a", "queued")
        yield from shop.runs.submit("b", "plain")
        yield from shop.until("b", "done")
        yield from shop.until("a", "done")

    shop.hanging = sleep  # type: ignore[method-assign]
    shop.with_worker(fx.gen(both), concurrency=1, hold=0.1)
    assert shop.log.index("b") < shop.log.index("woke a")
    assert shop.log.count("woke a") == 1
    assert shop.log.count("begin a") >= 2


@pytest.mark.slow
def test_a_run_that_does_something_beside_its_sleep_stays(shop: Shop) -> None:
    """What is under way would be lost, or in doubt."""

    def program(run: str) -> Any:
        working: Any = step("work", fx.sleep(0.6).as_(1), int)
        both: Any = fx.all_(fx.sleep(1.2), working)
        return (
            fx.sync(lambda: shop.log.append(run))
            .and_then(both)
            .provide(durable(Layer.empty(), run=run, store=shop.location))
        )

    def until() -> Gen[None, Any, Any]:
        yield from shop.runs.submit("a", "hanging")
        yield from shop.until("a", "done")

    shop.hanging = program  # type: ignore[method-assign]
    shop.with_worker(fx.gen(until), hold=0.1)
    assert fx.run(shop.runs.show("a")).questions == ()
    assert [(one.name, one.status) for one in fx.run(shop.runs.show("a")).steps if one.name == "work"] == [
        ("work", "ended")
    ]
