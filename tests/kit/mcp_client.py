"""A client of a server in memory: the official SDK's, in the era and on the event loop that a test wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

import mcp
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from fxai.effects import Effect, fx
from fxai.mcp import ToolServer
from fxai.tools import Sourced

__all__ = ["Era", "refused", "text", "used"]

Era: TypeAlias = Literal["auto", "legacy"]
Use: TypeAlias = Callable[[mcp.Client, ToolServer], Awaitable[Any]]


def used(
    origin: Sourced[Any, Any, None],
    use: Use,
    backend: str,
    era: Era = "auto",
    client: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """What `use` gives of a client of these tools; `client` are the SDK's options, `options` the server's."""

    def connect(server: ToolServer) -> Effect[Any]:
        async def go() -> Any:
            told: dict[str, Any] = dict(client or {})
            async with mcp.Client(server.sdk, mode=era, **told) as connected:
                return await use(connected, server)

        return fx.wait(go)

    opened: Effect[ToolServer, Any, Any] = ToolServer.open(origin, **options)
    return fx.run(cast("Effect[Any]", fx.scoped(opened.flat_map(connect))), backend=cast(Any, backend))


def text(result: Any) -> str:
    """The one text of a result."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def refused(calling: Awaitable[Any]) -> MCPError:
    """The error that a call ends with."""
    try:
        await calling
    except MCPError as error:
        return error
    raise AssertionError("the call was answered")
