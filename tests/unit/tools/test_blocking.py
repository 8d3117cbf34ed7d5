"""Handlers that block: they run in a thread, and cancellation waits for them a while."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from returns.io import IOSuccess
from returns.result import Failure, Success

from fxai.effects import Backend, Effect, fx
from fxai.tools import CallContext, HandlerFailed, Toolkit
from tests.kit.samples import Sum, TooBig, add, add_kit, defect_of, double, failure_of, giving, outcome_of

GOOD = {"a": 1, "b": 2}


def _blocking(f: Any, tool: Any = add, **options: Any) -> Any:
    return tool.handler(f, blocking=True, **options)


def test_it_runs_in_another_thread(backend: Backend) -> None:
    """The event loop is free meanwhile."""
    threads: list[int] = []

    def handler(p: Sum) -> Any:
        threads.append(threading.get_ident())
        return Success(p.a + p.b)

    assert outcome_of(add_kit.call("add", GOOD).provide(_blocking(handler)), backend).result == 3
    assert threads[0] != threading.get_ident()


def test_the_event_loop_goes_on_meanwhile(backend: Backend) -> None:
    """A handler that waits for what another program does gets it."""
    gate = threading.Event()

    def handler(_: Sum) -> Any:
        assert gate.wait(10)
        return Success(1)

    called = add_kit.call("add", GOOD).provide(_blocking(handler))

    assert fx.run(fx.all_(called, fx.sync(gate.set)), backend=backend)[0].result == 1


@pytest.mark.parametrize("wrap", [Success, IOSuccess])
def test_it_returns_a_result_or_an_io_result(wrap: Any, backend: Backend) -> None:
    """Both are read in the thread's place."""

    def handler(p: Sum) -> Any:
        return wrap(p.a)

    assert outcome_of(add_kit.call("add", GOOD).provide(_blocking(handler)), backend).result == 1


def test_its_typed_failure_and_its_exceptions_stay_apart(backend: Backend) -> None:
    """A failure is a failure; what it raises is a defect, and so is a bare value."""
    boom = RuntimeError("boom")

    def fails(_: Sum) -> Any:
        return Failure(TooBig(3))

    def breaks(_: Sum) -> Any:
        raise boom

    kit = Toolkit.make(double)
    failed = kit.call("double", GOOD).provide(_blocking(fails, double))

    assert failure_of(failed, backend) == HandlerFailed("double", TooBig(3))
    assert defect_of(add_kit.call("add", GOOD).provide(_blocking(breaks)), backend) is boom
    bare = defect_of(add_kit.call("add", GOOD).provide(_blocking(giving(5))), backend)
    assert "'add'" in str(bare)
    assert "Return a Result" in str(bare)


def test_an_effect_from_a_thread_runs_in_the_event_loop(backend: Backend) -> None:
    """The thread runs only the function."""
    threads: list[int] = []

    def handler(p: Sum) -> Effect[int]:
        threads.append(threading.get_ident())
        return fx.sync(lambda: threads.append(threading.get_ident())).as_(p.a)

    assert outcome_of(add_kit.call("add", GOOD).provide(_blocking(handler)), backend).result == 1
    assert threads[0] != threads[1] == threading.get_ident()


def test_it_can_take_the_context(backend: Backend) -> None:
    """Two parameters: the call is given, in the thread too."""

    def handler(_: Sum, call: CallContext) -> Any:
        return Success(len(call.call_id))

    called = add_kit.call("add", GOOD, call_id="four").provide(_blocking(handler))

    assert outcome_of(called, backend).result == 4


def test_a_coroutine_function_is_refused() -> None:
    """It would not block: the message says to leave the option out."""

    async def handler(_: Sum) -> Any:
        return Success(1)

    with pytest.raises(TypeError, match="Omit blocking=True"):
        _blocking(handler)


def test_a_cancellation_waits_for_the_thread(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Within the grace the handler ends first, and nothing is logged."""
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def handler(_: Sum) -> Any:
        begun.set()
        assert gate.wait(10)
        ended.set()
        return Success(1)

    async def main() -> bool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, add_kit.call("add", GOOD).provide(_blocking(handler, grace=30)))
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
            gate.set()
        return ended.is_set()

    with caplog.at_level(logging.WARNING, "fxai.tools"):
        assert anyio.run(main, backend=backend)

    assert caplog.records == []


def test_cancellations_by_asyncio_itself_wait_for_the_thread_too() -> None:
    """However many: the second one does not cut the waiting short."""
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def handler(_: Sum) -> Any:
        begun.set()
        assert gate.wait(10)
        ended.set()
        return Success(1)

    async def main() -> tuple[bool, bool]:
        program = add_kit.call("add", GOOD).provide(_blocking(handler, grace=30))
        task = asyncio.ensure_future(fx.run_async(program))
        await anyio.to_thread.run_sync(begun.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.001)
        waited = not task.done()
        gate.set()
        await asyncio.wait([task])
        return waited, task.cancelled()

    assert asyncio.run(main()) == (True, True)
    assert ended.is_set()


def test_a_thread_that_goes_on_is_left_behind_and_said_so(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """After the grace the cancellation goes through; the log names the handler."""
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def handler(_: Sum) -> Any:
        begun.set()
        gate.wait(10)
        ended.set()
        return Success(1)

    async def main() -> bool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, add_kit.call("add", GOOD).provide(_blocking(handler, grace=0.01)))
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
        return ended.is_set()

    with caplog.at_level(logging.WARNING, "fxai.tools"):
        still_running = not anyio.run(main, backend=backend)
        gate.set()
        assert ended.wait(10)

    assert still_running
    assert ["'add'" in record.getMessage() for record in caplog.records] == [True]


def test_a_cancellation_before_a_thread_is_free_goes_through_at_once(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that never began is not waited for, and never begins."""
    ran: list[int] = []

    def handler(p: Sum) -> Any:
        ran.append(p.a)
        return Success(1)

    async def main() -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        async with limiter, anyio.create_task_group() as tasks:
            tasks.start_soon(fx.run_async, add_kit.call("add", GOOD).provide(_blocking(handler, grace=3600)))
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    with caplog.at_level(logging.WARNING, "fxai.tools"):
        anyio.run(main, backend=backend)

    assert ran == []
    assert caplog.records == []
