"""Tools that change while a server runs: replaced by hand, or followed where they change by themselves."""

from __future__ import annotations

from typing import Any

import anyio
import mcp
import pytest
from mcp_types import ToolListChangedNotification
from returns.result import Success

from fxai.effects import Layer, Tag, fx
from fxai.effects.effect import EffectOf
from fxai.mcp import ToolServer
from fxai.tools.function import tool
from fxai.tools.source import BoundToolkit
from fxai.tools.tool import Tool
from fxai.tools.toolkit import Toolkit
from tests.unit.mcp.server.client import Era, text, used


@tool
def old() -> str:
    """The old one."""
    return "old"


@tool
def new() -> str:
    """The new one."""
    return "new"


def test_older_clients_hear_of_a_change(backend: str) -> None:
    """A client that was initialised is sent `notifications/tools/list_changed`, and finds the new tools."""
    heard: list[Any] = []
    told = anyio.Event()

    async def hear(message: Any) -> None:
        heard.append(message)
        told.set()

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        before = [one.name for one in (await client.list_tools()).tools]
        await fx.run_async(server.replace(BoundToolkit.make(new)))
        with anyio.fail_after(5):
            await told.wait()
        return before, text(await client.call_tool("new", {}))

    before, answer = used(old, use, backend, "legacy", {"message_handler": hear})

    assert (before, answer) == (["old"], "new")
    assert [type(one) for one in heard] == [ToolListChangedNotification]


def test_newer_clients_hear_of_a_change_where_they_listen(backend: str) -> None:
    """A client that subscribed is told; the next list is the new one."""

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        async with client.listen(tools_list_changed=True) as events:
            await fx.run_async(server.replace(BoundToolkit.make(new)))
            with anyio.fail_after(5):
                async for event in events:
                    return type(event).__name__, [one.name for one in (await client.list_tools()).tools]
        return None

    assert used(old, use, backend) == ("ToolsListChanged", ["new"])


def test_every_client_is_told_that_tools_may_change(backend: str) -> None:
    """Both eras' handshakes say that the list of tools may change."""

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        return client.server_capabilities.tools

    eras: tuple[Era, ...] = ("auto", "legacy")

    assert [used(old, use, backend, era).list_changed for era in eras] == [True, True]


def test_the_same_tools_again_are_no_change(backend: str) -> None:
    """Nobody is told where the tools that clients see stay the same."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def use(client: mcp.Client, server: ToolServer) -> None:
        await fx.run_async(server.replace(BoundToolkit.make(old)))
        await client.call_tool("old", {})

    used(old, use, backend, "legacy", {"message_handler": hear})

    assert heard == []


class Held(Tag[str]):
    """What handlers hold."""


def _holding(name: str, log: list[str], gate: anyio.Event | None) -> BoundToolkit[Any]:
    made = Tool.make(name, success=str)
    acquire = fx.acquire_release(fx.sync(lambda: f"{name}'s"), lambda _: fx.sync(lambda: log.append(f"-{name}")))

    def run(_: Any) -> EffectOf[str, Any, Any]:
        held = fx.service(Held)
        wait: EffectOf[Any] = fx.succeed(None) if gate is None else fx.wait(gate.wait)
        return wait.and_then(held).tap(lambda held: fx.sync(lambda: log.append(f"{name} ran with {held}")))

    layer = made.handler(run).provide(Layer.scoped(Held, acquire))
    return BoundToolkit.of(Toolkit.make(made), layer)


def test_calls_that_run_keep_their_handlers(backend: str) -> None:
    """A call that began before its tool was replaced ends with what its layer acquired, which is released after it."""
    log: list[str] = []
    results: list[str] = []

    async def use(client: mcp.Client, server: ToolServer) -> None:
        gate = anyio.Event()
        await fx.run_async(server.replace(_holding("first", log, gate)))

        async def call() -> None:
            results.append(text(await client.call_tool("first", {})))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.sleep(0.05)
            await fx.run_async(server.replace(_holding("second", log, None)))
            log.append("replaced")
            gate.set()
        await client.call_tool("second", {})

    used(old, use, backend)

    assert results == ["first's"]
    assert log == ["replaced", "first ran with first's", "-first", "second ran with second's", "-second"]


def test_a_change_that_cannot_be_made_changes_nothing(backend: str) -> None:
    """Where the new handlers cannot be built, `replace` fails as building them does, and the old tools go on."""
    made = Tool.make("never", success=str)
    layer: Any = made.handler(lambda _: Success("never")).provide(Layer.effect(Held, fx.fail("no disk")))

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        ended = await fx.run_async_exit(server.replace(BoundToolkit.of(Toolkit.make(made), layer)))
        return ended, text(await client.call_tool("old", {}))

    ended, answer = used(old, use, backend)

    assert (ended.cause.failures, answer) == (("no disk",), "old")


@pytest.mark.parametrize("name", ["old", "new"])
def test_tools_that_change_by_themselves_are_followed(backend: str, name: str) -> None:
    """A live bound toolkit is looked at for each request: what it is now is what is listed and called."""
    now: list[BoundToolkit[Any]] = [BoundToolkit.make(old)]
    first = now[0]
    live: BoundToolkit[Any] = BoundToolkit(first.toolkit, first._parts, fx.sync(lambda: now[0]))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        now[0] = BoundToolkit.make(old if name == "old" else new)
        listed = [one.name for one in (await client.list_tools()).tools]
        return listed, text(await client.call_tool(name, {}))

    assert used(live, use, backend) == ([name], name)
