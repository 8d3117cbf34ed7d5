"""Tools that change while a server runs: replaced by hand, or followed where they change by themselves."""

from __future__ import annotations

from typing import Any

import anyio
import mcp
import pytest
from mcp_types import ToolListChangedNotification
from returns.result import Success

from fxai import BoundToolkit, tool
from fxai.effects import EffectOf, Layer, Tag, fx
from fxai.mcp import Defect, ToolServer
from fxai.mcp.server.server_options import ToolServerSettings
from fxai.tools import Tool, Toolkit
from tests.kit.mcp_client import Era, text, used


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
        with anyio.fail_after(60):
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
            with anyio.fail_after(60):
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


def test_handlers_that_nobody_uses_are_released_at_once(backend: str) -> None:
    """What the layer of replaced tools acquired is released by the replacement where no call runs, and only once."""
    log: list[str] = []

    async def use(_: mcp.Client, server: ToolServer) -> None:
        for name in ("first", "second"):
            await fx.run_async(server.replace(_holding(name, log, None)))
            log.append(f"{name} is there")

    used(old, use, backend)

    assert log == ["first is there", "-first", "second is there", "-second"]


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
    live: BoundToolkit[Any] = BoundToolkit(first.toolkit, first.parts, fx.sync(lambda: now[0]))

    async def use(client: mcp.Client, _: ToolServer) -> Any:
        now[0] = BoundToolkit.make(old if name == "old" else new)
        listed = [one.name for one in (await client.list_tools()).tools]
        return listed, text(await client.call_tool(name, {}))

    assert used(live, use, backend) == ([name], name)


def _live(now: EffectOf[BoundToolkit[Any]]) -> BoundToolkit[Any]:
    """Tools that are `old` when they are opened, and later what `now` gives."""
    first = BoundToolkit.make(old)
    return BoundToolkit(first.toolkit, first.parts, now)


def test_clients_hear_of_tools_that_change_by_themselves(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any request the tools are looked at again and again: each change is told."""
    monkeypatch.setattr("fxai.mcp.server.tool_server._WATCH", 0.01)
    now: list[BoundToolkit[Any]] = [BoundToolkit.make(old)]
    told: list[anyio.Event] = [anyio.Event(), anyio.Event()]
    left = iter(told)

    async def hear(_: Any) -> None:
        next(left).set()

    async def use(client: mcp.Client, server: ToolServer) -> list[list[str]]:
        seen: list[list[str]] = []
        await client.list_tools()  # before its answer, the server reads that the client is initialized
        for kit, event in ((BoundToolkit.make(new), told[0]), (BoundToolkit.make(old, new), told[1])):
            now[0] = kit
            with anyio.fail_after(60):
                await event.wait()
            seen.append([one["name"] for one in server.documents])
        return seen

    seen = used(_live(fx.sync(lambda: now[0])), use, backend, "legacy", {"message_handler": hear})

    assert seen == [["new"], ["old", "new"]]


def test_tools_that_were_replaced_by_others_are_followed_no_more(backend: str) -> None:
    """After `replace` by tools that stay as they are, what the first ones have become is not looked at."""
    looked: list[str] = []

    def look() -> BoundToolkit[Any]:
        looked.append("live")
        return BoundToolkit.make(old)

    live = _live(fx.sync(look))

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        await fx.run_async(server.replace(BoundToolkit.make(new)))
        looked.clear()
        return [one.name for one in (await client.list_tools()).tools]

    assert (used(live, use, backend), looked) == (["new"], [])


def test_a_look_that_fails_is_told_and_changes_nothing(backend: str) -> None:
    """Where tools cannot be looked at again the old ones go on, and `on_defect` has the cause, of no tool."""
    told: list[Defect] = []

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        called = text(await client.call_tool("old", {}))
        return called, [one.name for one in server.tools.toolkit]

    live: Any = _live(fx.die(RuntimeError("the registry")))

    assert used(live, use, backend, on_defect=told.append) == ("old", ["old"])
    assert {(one.tool, str(one.cause.defects[0])) for one in told} == {("", "the registry")}


def test_a_server_knows_what_it_offers_and_who_listens(backend: str) -> None:
    """`documents` is what clients are told; older clients listen unasked, newer ones do not."""

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        await client.call_tool("old", {})
        (document,) = server.documents
        return document["name"], document["description"], server.listening

    eras: tuple[Era, ...] = ("auto", "legacy")

    assert [used(old, use, backend, era) for era in eras] == [("old", "The old one.", 0), ("old", "The old one.", 1)]


def test_a_client_that_has_left_is_told_nothing(backend: str) -> None:
    """An older client listens until it leaves; a change after that is told to those that are there."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def use(client: mcp.Client, server: ToolServer) -> Any:
        await client.list_tools()
        async with mcp.Client(server.sdk, mode="legacy", message_handler=hear) as other:
            await other.list_tools()
            both = server.listening
        await anyio.wait_all_tasks_blocked()
        await fx.run_async(server.replace(BoundToolkit.make(new)))
        return both, server.listening

    assert (used(old, use, backend, "legacy"), heard) == ((2, 1), [])


def test_a_server_without_tools_says_how_to_open_it() -> None:
    """One that was made by hand offers nothing, and says what opens it."""
    with pytest.raises(RuntimeError, match=r"ToolServer\.open"):
        _ = ToolServer(ToolServerSettings()).tools


def test_subscriptions_end_with_the_server(backend: str) -> None:
    """A newer client that listens is not left waiting when the scope of the server is closed."""

    async def go() -> list[str]:
        heard: list[str] = []
        listens, ended = anyio.Event(), anyio.Event()

        async def listen(server: ToolServer) -> None:
            async with mcp.Client(server.sdk) as client, client.listen(tools_list_changed=True) as events:
                listens.set()
                heard.extend([type(event).__name__ async for event in events])
                ended.set()

        async with anyio.create_task_group() as group:

            def use(server: ToolServer) -> EffectOf[None]:
                group.start_soon(listen, server)
                return fx.wait(listens.wait)

            with anyio.fail_after(10):
                await fx.run_async(fx.scoped(ToolServer.open(old).flat_map(use)))
                await ended.wait()
            group.cancel_scope.cancel()
        return heard

    assert anyio.run(go, backend=backend) == []
