"""Handlers that hold up the event loop are reported; in a server, plain functions run in threads."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from returns.result import Success

from fxai import Agent, tool
from fxai.effects import Backend, Gen, fx
from fxai.effects.blocking import HELD_SECONDS
from fxai.mcp import ToolServer
from fxai.testing import ScriptedModel, call, text
from fxai.tools import BoundToolkit, Tool, Toolkit
from fxai.tools.handler import in_threads
from tests.kit.mcp_client import used

HELD = HELD_SECONDS * 1.5


def _messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "fxai.tools"]


def _called(fetch: Any, seconds: float) -> Any:
    return Toolkit.make(fetch.tool).call("fetch", {"seconds": seconds}).provide(fetch.layer)


def test_a_plain_handler_that_holds_up_the_loop_is_reported_once(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """By name, with the remedy; a quick one is not."""

    @tool
    def fetch(seconds: float) -> str:
        """Fetch a page."""
        time.sleep(seconds)
        return "page"

    for seconds in (0.0, HELD, HELD):
        fx.run(_called(fetch, seconds), backend=backend)

    (message,) = _messages(caplog)
    assert "'fetch'" in message
    assert "blocking=True" in message


def test_a_coroutine_that_holds_up_the_loop_between_two_waits_is_reported_once(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """A long wait is no reason; the remedy is another one."""

    @tool
    async def fetch(seconds: float) -> str:
        """Fetch a page."""
        await anyio.sleep(HELD)
        time.sleep(seconds)  # noqa: ASYNC251
        await anyio.lowlevel.checkpoint()
        time.sleep(seconds)  # noqa: ASYNC251
        return "page"

    for seconds in (0.0, HELD):
        fx.run(_called(fetch, seconds), backend=backend)

    (message,) = _messages(caplog)
    assert "'fetch'" in message
    assert "in_thread" in message


def test_a_generator_that_holds_up_the_loop_between_two_steps_is_reported_once(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """Its value, its failures and its cancellation are as ever."""
    ended: list[str] = []

    @tool
    @fx.gen
    def fetch(seconds: float) -> Gen[str]:
        """Fetch a page."""
        try:
            yield from fx.sleep(HELD)
            time.sleep(seconds)
            yield from fx.never() if seconds == 0 else fx.checkpoint()
        finally:
            ended.append("closed")
        return "page"

    late: Any = fx.run_exit(_called(fetch, 0.0).timeout(HELD * 2), backend=backend)
    page = fx.run(_called(fetch, HELD), backend=backend)

    (message,) = _messages(caplog)
    assert "'fetch'" in message
    assert (late.cause.failures != (), page.result, ended) == (True, "page", ["closed"] * 2)


def test_without_an_event_loop_and_in_a_thread_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """No other program waits there."""
    slow: Any = Tool.make("slow", success=str)

    def handler(_: object) -> Any:
        time.sleep(HELD)
        return Success("done")

    fx.run_sync(slow.call(None).provide(slow.handler(handler)))
    fx.run(slow.call(None).provide(slow.handler(handler, blocking=True)))

    assert _messages(caplog) == []


# -- servers

HERE: list[tuple[str, int]] = []
"""Where handlers ran: a name, and the thread."""


def _note(name: str) -> str:
    HERE.append((name, threading.get_ident()))
    return name


@tool
def plain(n: int) -> str:
    """Run a plain function."""
    return _note("plain")


@tool(blocking=False)
def inline(n: int) -> str:
    """Run a plain function that opted out."""
    return _note("inline")


@tool
async def coroutine(n: int) -> str:
    """Run a coroutine function."""
    return _note("coroutine")


@tool
def effect(n: int) -> Any:
    """Return an effect from a plain function."""
    _note("effect made")
    return fx.sync(lambda: Success(_note("effect"))).flat_map(lambda result: fx.succeed(result.unwrap()))


@tool
@fx.gen
def generator(n: int) -> Gen[str]:
    """Return a generator of effects."""
    return (yield from fx.sync(lambda: _note("generator")))


TOOLS: Any = (plain, inline, coroutine, effect, generator)
IN_THREADS = {"plain", "effect made"}


def _check(loop: int) -> None:
    assert {name for name, _ in HERE} == {"plain", "inline", "coroutine", "effect made", "effect", "generator"}
    assert {name for name, thread in HERE if thread != loop} == IN_THREADS


def test_an_mcp_server_runs_plain_functions_in_threads(backend: str) -> None:
    """An effect or a generator that a function returns runs on the loop, and `blocking=False` opts out."""
    HERE.clear()
    kit = BoundToolkit.make(plain)
    for one in TOOLS[1:]:
        kit = kit.merge(BoundToolkit.make(one))

    async def use(client: Any, _: ToolServer) -> tuple[int, list[str]]:
        said = [await client.call_tool(one.name, {"n": 1}) for one in TOOLS]
        return threading.get_ident(), [one.content[0].text for one in said]

    loop, said = used(kit, use, backend)

    assert said == ["plain", "inline", "coroutine", "effect", "generator"]
    _check(loop)


def test_a_server_context_reaches_the_handlers_of_an_agent(backend: Backend) -> None:
    """As `chat_app` gives it to its runs; elsewhere handlers run inline."""
    loops: list[int] = []
    agent: Any = Agent.make("a").with_tools(*TOOLS)
    run = fx.sync(lambda: loops.append(threading.get_ident())).and_then(agent.execute("go"))
    script = [[call(one.name, {"n": 1}) for one in TOOLS], text("end")]

    def program() -> Any:
        return run.provide(ScriptedModel.make(script).layer)

    HERE.clear()
    fx.run(fx.context().flat_map(lambda context: program().provide_context(in_threads(context))), backend=backend)
    _check(loops[-1])

    HERE.clear()
    fx.run(program(), backend=backend)
    assert {thread for _, thread in HERE} == {loops[-1]}
