"""Values that threads share, each with an event loop: they work, or refuse by name; no program waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from returns.result import Success

from fxai import Chat
from fxai.effects import Backend, Effect, EffectOf, FiberHandle, Ref, fx, runtime
from fxai.effects.concurrency import Lock, Locks
from fxai.effects.waker import Home, OtherLoopError, SharedEvent
from fxai.models import ChatStore, LanguageModel
from fxai.providers import openai
from fxai.testing import ScriptedModel, TestClock, delay, text
from fxai.tools import Tool
from fxai.tools.aspects import cache, rate_limit

SLOW = 0.02
PATIENCE = 20.0


def in_threads(work: Callable[[int], Any], number: int = 3) -> list[Any]:
    """Do `work(n)` in this many threads at once; return what each returned, or raised."""
    done: dict[int, Any] = {}

    def run(n: int) -> None:
        try:
            done[n] = work(n)
        except Exception as error:
            done[n] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    return [done[n] for n in range(number)]


def of_threads(backend: Backend, program: Callable[[int], EffectOf[Any, Any, Any]]) -> list[Any]:
    """Run `program(n)` in threads with an event loop each."""
    return in_threads(lambda n: fx.run(program(n), backend=backend))


def test_a_lock_is_held_by_one_program_of_all_threads(backend: Backend) -> None:
    """Programs that wait on other loops are woken there, and the lock is free in the end."""
    lock, inside, most = Lock(), [0], [0]

    def enter() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])

    def leave() -> None:
        inside[0] -= 1

    turn = fx.sync(enter).and_then(fx.sleep(SLOW / 10)).and_then(fx.sync(leave))
    hold: Any = lock.hold()
    held: Any = fx.scoped(hold.and_then(turn))

    of_threads(backend, lambda _: fx.for_each(range(5), lambda _: held, concurrency=None))

    assert most == [1]
    assert not lock.is_held


def test_a_lock_is_not_lost_with_a_loop_that_was_stopped(backend: Backend) -> None:
    """A program that is cancelled while it waits gives its turn to the next one, on another loop."""
    lock = Lock()

    def hold(n: int) -> Any:
        taken: Any = lock.hold()
        holding: Any = fx.scoped(taken.and_then(fx.sleep(SLOW)))
        return holding.timeout(SLOW / 2).exit() if n == 1 else holding

    of_threads(backend, hold)

    assert not lock.is_held


def test_locks_by_key_and_their_alternative() -> None:
    """`hold_or` does not wait, whichever thread holds the lock; locks by key are shared by threads."""
    lock, locks = Lock(), Locks()
    counts = [0]

    def count() -> None:
        now = counts[0]
        counts[0] = now + 1

    taken: Any = locks.hold("a")
    step: Any = fx.scoped(taken.and_then(fx.checkpoint()).and_then(fx.sync(count)))
    of_threads("asyncio", lambda _: fx.for_each(range(50), lambda _: step))
    first: Any = lock.hold()
    refused: Any = fx.scoped(first.and_then(fx.scoped(lock.hold_or(fx.fail("held")))).exit())

    assert counts == [150]
    assert len(locks) == 0
    assert "held" in repr(fx.run_sync(refused))


def test_a_ref_loses_no_update_of_any_thread(backend: Backend) -> None:
    """Plain changes and changes by effects, at once."""
    ref = Ref.of(0)

    def changed(_: int) -> Any:
        slow: Any = ref.modify_effect(lambda value: fx.checkpoint().as_((None, value + 1)))
        quick: Any = ref.update(lambda value: value + 1)
        return fx.run(fx.for_each([slow, quick] * 50, lambda one: one, concurrency=4), backend=backend)

    in_threads(changed)

    assert fx.run_sync(ref.get()) == 300


def test_a_ref_is_changed_without_an_event_loop_in_many_threads() -> None:
    """`run_sync` in each thread: no update is lost, and none is refused."""
    ref = Ref.of(0)

    def grow(value: int) -> int:
        return sum([1] * 20) - 19 + value

    done = in_threads(lambda _: [fx.run_sync(ref.update(grow)) for _ in range(500)])

    assert not any(isinstance(one, Exception) for one in done)
    assert fx.run_sync(ref.get()) == 1500


def _slow_model(n: int) -> Any:
    return ScriptedModel.make([[delay(SLOW), text(f"answer {n}")]]).layer


def test_a_chat_takes_the_turns_of_all_threads(backend: Backend) -> None:
    """One after another, and none is lost."""
    chat = fx.run(Chat.from_prompt())

    said = of_threads(backend, lambda n: chat.generate_text("hi").map(lambda reply: reply.text).provide(_slow_model(n)))

    assert sorted(said) == ["answer 0", "answer 1", "answer 2"]
    assert len(fx.run(chat.history)) == 6


def test_a_store_of_chats_serves_all_threads(backend: Backend) -> None:
    """Each has its own `Chat` of one id."""
    store = ChatStore.in_process()

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        return (yield from chat.generate_text("hi")).text

    def run(n: int) -> EffectOf[Any, Any, Any]:
        return talk().provide(Chat.stored("ann")).provide(store.layer).provide(_slow_model(n))

    assert sorted(of_threads(backend, run)) == ["answer 0", "answer 1", "answer 2"]


def test_an_event_is_set_by_any_thread_and_waited_for_on_any_loop(backend: Backend) -> None:
    """Before and after it was set."""
    event = SharedEvent()

    def wait(n: int) -> EffectOf[Any, Any, Any]:
        return fx.sleep(SLOW).map(lambda _: event.set()) if n == 0 else fx.wait(event.wait)

    of_threads(backend, wait)

    assert event.is_set()
    fx.run(fx.wait(event.wait), backend=backend)


def test_a_cache_of_handlers_is_shared_by_threads() -> None:
    """A call that another thread runs is waited for."""
    slow: Any = Tool.make("slow", success=str)
    ran: list[int] = []

    def handle(_: object) -> Effect[str]:
        return fx.sync(lambda: ran.append(1)).and_then(fx.sleep(SLOW)).as_("done")

    async def serve() -> list[Any]:
        async with runtime(cache().wrap(slow.handler(handle))) as services:
            return await anyio.to_thread.run_sync(
                lambda: in_threads(lambda _: anyio.run(services.run, slow.call(slow.parameters.decode({}).unwrap())))
            )

    assert anyio.run(serve) == ["done"] * 3


def test_a_clock_of_tests_wakes_sleepers_of_other_loops() -> None:
    """It is advanced in one thread, and programs sleep in another."""
    clock = TestClock()

    def run(n: int) -> Any:
        if n:
            return fx.run(fx.sleep(5).as_("slept").provide(clock.layer))
        while clock.sleepers < 2:
            threading.Event().wait(0.001)
        return fx.run(clock.advance(5))

    assert in_threads(run) == [None, "slept", "slept"]


def test_a_home_refuses_other_loops_by_name(backend: Backend) -> None:
    """The error names the value and the remedy; a value that was made without a loop is everywhere at home."""
    home = fx.run(fx.wait(lambda: _made("the connection")), backend=backend)
    elsewhere = Home("nothing")

    fx.run(fx.sync(elsewhere.require), backend=backend)
    with pytest.raises(OtherLoopError, match=r"^the connection belongs to the event loop"):
        fx.run(fx.sync(home.require), backend=backend)


async def _made(name: str) -> Home:
    home = Home(name)
    home.require()
    return home


def test_a_forked_program_is_awaited_on_its_own_loop(backend: Backend) -> None:
    """Another loop refuses to join it and to stop it, and reads the end of one that has ended."""
    handles: list[FiberHandle[None]] = []
    forked, left, asked = threading.Event(), threading.Event(), threading.Barrier(2)

    def run(n: int) -> Any:
        if n == 0:
            keep = fx.fork(fx.never()).map(handles.append).and_then(fx.sync(forked.set))
            return fx.run(fx.scoped(keep.and_then(fx.in_thread(left.wait))), backend=backend)
        forked.wait()
        try:
            return fx.run(handles[0].join() if n == 1 else handles[0].interrupt(), backend=backend)
        except RuntimeError as error:
            return str(error)
        finally:
            asked.wait(10)
            left.set()

    _, joined, stopped = in_threads(run)

    assert "forked on another event loop" in joined
    assert "forked on another event loop" in stopped
    assert fx.run(handles[0].exit(), backend=backend) is not None


def test_a_client_of_an_http_api_refuses_other_loops_by_name() -> None:
    """A model whose connections belong to one loop is not used on another: a wait for them could last for ever."""

    async def serve() -> list[Any]:
        async with runtime(openai.layer("gpt-6-sol", api_key="k", base_url="http://127.0.0.1:9")) as services:
            ask = LanguageModel.generate_text("hi")
            return await anyio.to_thread.run_sync(lambda: in_threads(lambda _: anyio.run(services.run, ask), 2))

    refused = anyio.run(serve)

    assert [type(one) for one in refused] == [OtherLoopError] * 2
    assert "a client of an HTTP API" in str(refused[0])


def test_a_rate_limit_of_handlers_is_exact_for_all_threads() -> None:
    """Threads that share the layer share its bucket, and no token is given twice."""
    quick: Any = Tool.make("quick", success=str, failure=str)
    limited = rate_limit(5, per=3600, tool=quick, failure=lambda _call, _seconds: "late")
    ended: list[str] = []

    def handle(_: object) -> Any:
        return Success("done")

    async def serve() -> None:
        async with runtime(limited.wrap(quick.handler(handle))) as services:
            one: Any = quick.call(quick.parameters.decode({}).unwrap()).match(str, str).map(ended.append)
            many: Any = fx.for_each(range(20), lambda _: one)
            await anyio.to_thread.run_sync(lambda: in_threads(lambda _: anyio.run(services.run, many)))

    anyio.run(serve)

    assert (len(ended), ended.count("done")) == (60, 5)
