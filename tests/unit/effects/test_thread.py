"""Threads: what blocks is done to its end, and a cancellation by anybody waits for it."""

from __future__ import annotations

import asyncio
import pkgutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread

from fxai.agents import Memory
from fxai.effects import Backend, EffectOf, fx
from fxai.effects.thread import in_thread
from fxai.mcp import Pins
from fxai.messages import Prompt
from fxai.models import ApprovalLedger, ChatStore
from tests.kit.every import every
from tests.kit.journal import boom, turns


class Work:
    """What blocks until it is let go; it says when it began and that it ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.ended = False

    def __call__(self) -> int:
        """Blocks."""
        self.begun.set()
        self.gate.wait()
        self.ended = True
        return 1

    async def start(self) -> None:
        """Waits until a thread works at it."""
        while not self.begun.is_set():
            await anyio.lowlevel.checkpoint()


def test_a_cancellation_by_asyncio_waits_for_the_thread() -> None:
    """Also the second one; then it goes on, and both are counted."""

    async def main() -> None:
        work = Work()
        task = asyncio.ensure_future(in_thread(work))
        await work.start()
        for message in ("one", "two"):
            task.cancel(message)
            await turns(5)
            assert not task.done()
        work.gate.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert work.ended
        assert (caught.value.args, task.cancelling()) == (("one",), 2)

    asyncio.run(main())


def test_a_cancel_scope_waits_for_the_thread(backend: Backend) -> None:
    """As anyio has it."""
    work = Work()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_thread, work)
            await work.start()
            tasks.cancel_scope.cancel()
            work.gate.set()

    anyio.run(main, backend=backend)

    assert work.ended


def test_the_thread_is_told_of_a_cancellation_by_asyncio() -> None:
    """`check_cancelled` raises in it, so that long work can stop."""
    told: list[type[BaseException]] = []

    work = Work()

    def asking() -> None:
        work.begun.set()
        try:
            while True:
                from_thread.check_cancelled()
        except BaseException as raised:
            told.append(type(raised))
            raise

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(asking))
        await work.start()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())

    assert told == [asyncio.CancelledError]


def test_work_that_has_not_begun_is_not_begun() -> None:
    """It waits for a free thread when it is cancelled."""

    async def main() -> None:
        first, second = Work(), Work()
        limiter = anyio.CapacityLimiter(1)
        tasks = [asyncio.ensure_future(in_thread(work, limiter=limiter)) for work in (first, second)]
        await first.start()
        tasks[1].cancel()
        await asyncio.wait([tasks[1]])
        first.gate.set()
        assert await tasks[0] == 1
        assert not second.begun.is_set()

    asyncio.run(main())


def test_as_many_threads_work_as_the_limiter_allows_though_asyncio_cancels() -> None:
    """The place is free when the thread has ended, and not before."""

    async def main() -> None:
        first, second = Work(), Work()
        limiter = anyio.CapacityLimiter(1)
        tasks = [asyncio.ensure_future(in_thread(work, limiter=limiter)) for work in (first, second)]
        await first.start()
        tasks[0].cancel()
        await turns(5)
        assert limiter.borrowed_tokens == 1
        assert not second.begun.is_set()
        first.gate.set()
        second.gate.set()
        assert await tasks[1] == 1
        assert tasks[0].cancelled()

    asyncio.run(main())


def test_what_fails_in_a_thread_that_was_cancelled_is_attached() -> None:
    """The cancellation goes on with it in a note."""
    work = Work()

    def failing() -> None:
        work()
        boom()

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(failing))
        await work.start()
        task.cancel()
        await turns(2)
        work.gate.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert caught.value.__notes__ == ["meanwhile: defect ZeroDivisionError('boom')"]

    asyncio.run(main())


def test_a_failure_is_raised(backend: Backend) -> None:
    """As itself."""
    with pytest.raises(ZeroDivisionError):
        anyio.run(in_thread, boom, backend=backend)


def _saved(folder: Path) -> EffectOf[Any, Any, Any]:
    store: EffectOf[ChatStore, Any, Any] = fx.service(ChatStore)
    return store.flat_map(lambda store: store.save("c", Prompt.make("Hello"), None)).provide(ChatStore.files(folder))


def _claimed(folder: Path) -> EffectOf[Any, Any, Any]:
    return (
        fx.service(ApprovalLedger)
        .flat_map(lambda one: one.claim({"a": None}))
        .provide(ApprovalLedger.sqlite(folder / "ledger.db"))
    )


WRITERS: dict[str, tuple[str, Callable[[Path], EffectOf[Any, Any, Any]]]] = {
    "memory file": (
        "fxai.storage.journal_file.lock_file",
        lambda folder: Memory.file(folder / "memory.jsonl").commit(Prompt.make("Hello")),
    ),
    "memory database": (
        "fxai.storage.database.connect",
        lambda folder: Memory.sqlite(folder / "memory.db").commit(Prompt.make("Hello")),
    ),
    "chat file": ("fxai.storage.journal_file.replace_file", _saved),
    "ledger": ("fxai.storage.database.connect", _claimed),
    "pins": ("fxai.mcp.pin.update_file", lambda folder: Pins.file(folder / "pins.json").forget("server")),
}


@every("writer", WRITERS)
def test_what_writes_to_the_disk_has_ended_when_the_cancellation_goes_on(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written by a run that nobody waits for any more."""
    location, program = WRITERS[writer]
    work = Work()
    real = pkgutil.resolve_name(location)

    def slow(*args: Any, **options: Any) -> Any:
        work()
        return real(*args, **options)

    monkeypatch.setattr(location, slow)

    async def main() -> None:
        task = asyncio.ensure_future(fx.run_async(program(tmp_path)))
        await work.start()
        task.cancel()
        await turns(10)
        assert not task.done()
        work.gate.set()
        await asyncio.wait([task])
        assert task.cancelled()
        written = _times(tmp_path)
        await turns(10)
        assert written == _times(tmp_path)

    asyncio.run(main())


def _times(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mtime_ns for one in folder.iterdir()}
