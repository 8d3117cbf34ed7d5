"""The official SDK's server, as we use it: two requests answered, changes told to clients of both eras.

Until 2025-11-25 a change is a notification on each connection that was initialised; since 2026-07-28 clients subscribe
to it. Clients of both may be there at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import CallToolRequestParams, NotificationParams, PaginatedRequestParams
from typing_extensions import override

from fxai.mcp.server.exchange import Exchange
from fxai.mcp.server.option import ToolServerSettings

__all__ = ["Protocol"]

_PATIENCE: Final = 5.0  # seconds that a client may take to hear of a change
_SUBSCRIBERS: Final = 1024


@final
class _Server(Server[Any]):
    """A server that says in the handshake that its tools may change."""

    @override
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@final
class Protocol:
    """The protocol side of a server: `sdk` is what transports run."""

    def __init__(self, settings: ToolServerSettings, exchange: Exchange, lookup: Any) -> None:
        """Answer by `exchange`; `lookup` gives the input schema of a tool by its name, or None."""
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus, max_subscriptions=_SUBSCRIBERS)
        self._sessions: dict[int, ServerSession] = {}  # of the older protocols, by their connection
        self.sdk: Final[Server[Any]] = _Server(
            settings.name,
            version=settings.version,
            title=settings.title,
            description=settings.description,
            instructions=settings.instructions,
            get_tool_input_schema=lookup,
            on_subscriptions_listen=self._listeners,
        )
        self.sdk.add_request_handler("tools/list", PaginatedRequestParams, exchange.list_tools)
        self.sdk.add_request_handler("tools/call", CallToolRequestParams, exchange.call_tool)
        security = RequestStateSecurity.ephemeral(ttl=settings.approval_timeout)
        self.sdk.middleware.append(RequestStateBoundary(security, default_audience=settings.name))
        self.sdk.add_notification_handler("notifications/initialized", NotificationParams, self._initialised)

    async def _initialised(self, ctx: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        connection = ctx.session._connection  # the SDK gives handlers no public way to know when a client leaves
        self._sessions[id(connection)] = ctx.session
        connection.exit_stack.callback(self._sessions.pop, id(connection), None)

    @property
    def listening(self) -> int:
        """How many clients of the older protocols would be told of a change."""
        return len(self._sessions)

    async def changed(self) -> None:
        """Tells every client that the tools have changed; one that does not listen in time is not waited for."""
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for session in list(self._sessions.values()):
                group.start_soon(_announce, session)

    def close(self) -> None:
        """Ends the subscriptions of all clients."""
        self._listeners.close()


async def _announce(session: ServerSession) -> None:
    gone = (anyio.BrokenResourceError, anyio.ClosedResourceError)
    with anyio.move_on_after(_PATIENCE), suppress(*gone):  # it may leave at that moment
        await session.send_tool_list_changed()
