"""Links: the requests to one server, sent over sessions of the SDK's client. Connections use this module.

The SDK's client contains task groups, and one task must enter and leave a task group. A link therefore runs in the
background of a scope, and other tasks send calls to it. Each failure becomes an `McpError` with the data of the
connection.

>>> from fxai.mcp.settings import ServerProgram, ServerSettings
>>> Link(ServerSettings(ServerProgram("git-server"), "git")).session.is_open
False
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar, cast, final

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from fxai.effects.waker import Home
from fxai.mcp.client_transport import HTTP_STATUS, NETWORK, SESSION_GONE
from fxai.mcp.result import CallResult, LinkError, McpError, count_contents, read_result
from fxai.mcp.session import REPORT, Deadline, Deadlines, Session, is_lost
from fxai.mcp.settings import ServerProgram, ServerSettings
from fxai.mcp.tool_definition import MEMBERS, ToolDefinition
from fxai.schema.data import JsonObject

_A = TypeVar("_A")

_ROUNDS: Final = 10
_ANSWERS: Final[TypeAdapter[Any]] = TypeAdapter(wire.CallToolResult | wire.InputRequiredResult)
_FAREWELL: Final = 5.0  # seconds to close a connection, added to the grace of its program
_RAISE: Final = "Omit it, or pass other limits="
_tokens: Final = itertools.count(1)


@final
class Link:
    """A connection. `run` keeps it open until it is cancelled. The other methods send requests."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.on_changed: Callable[[], None] = lambda: None
        self.on_flaw: Callable[[str], None] = lambda _: None
        self._leaving = anyio.Event()
        self._left = anyio.Event()
        self._listing = anyio.Lock()
        self._renewing = anyio.Lock()
        self._home = Home(f"the connection to the MCP server {settings.name!r}")
        self._deadlines = Deadlines()
        self._sessions: TaskGroup | None = None
        self.session: Session = self._new_session()
        """The present session."""

    # -- opening

    async def run(self) -> None:
        """Keep the sessions open until `leave` is called or this task is cancelled."""
        try:
            async with anyio.create_task_group() as sessions:
                self._sessions = sessions
                sessions.start_soon(self.session.hold)
                await self._leaving.wait()
                self.session.end()
        finally:
            self._left.set()

    async def leave(self) -> None:
        """Close the connection by the protocol, and wait for a limited time until it is closed."""
        self._leaving.set()
        endpoint = self._settings.endpoint
        grace = endpoint.grace if isinstance(endpoint, ServerProgram) else 0.0
        with anyio.move_on_after(_FAREWELL + 2 * grace):
            await self._left.wait()

    def _new_session(self) -> Session:
        return Session(self._settings, self._deadlines, lambda: self.on_changed())  # noqa: PLW0108 - it is replaced later

    async def _successor(self, forgotten: Session) -> Session:
        """Return the session after a forgotten session. The first request that needs it starts it.

        Raise `LinkError` if the server does not open the session.
        """
        async with self._renewing:
            if self.session is forgotten and self._sessions is not None and not self._leaving.is_set():
                fresh = self._new_session()
                self._sessions.start_soon(fresh.hold)
                try:
                    await fresh.wait_until_open()
                    _ = fresh.client
                except BaseException:
                    fresh.cancel()
                    raise
                self.session = fresh
                forgotten.retire()
                self.on_changed()  # another version of the server may have replaced it
            return self.session

    # -- requests

    def _require_home(self) -> None:
        if self._sessions is not None and not self._left.is_set():
            self._home.require()

    async def listing(self) -> tuple[list[ToolDefinition], dict[str, str]]:
        """Return the valid tools of all pages, and the invalid tools with the reasons.

        Raise `LinkError` if the server did not answer in time or exceeded a limit.
        """
        self._require_home()
        async with self._listing:
            return await self._in_time(lambda _, session: self._pages(session), "list its tools", None)

    async def call(
        self, name: str, arguments: Mapping[str, Any], progress: Callable[[JsonObject], None] | None
    ) -> CallResult:
        """Return the result of a tool.

        Raise `LinkError` if the server did not answer, or answered with a protocol error.
        """
        self._require_home()

        async def ask(deadline: Deadline, session: Session) -> CallResult:
            token = f"fxai-{next(_tokens)}"

            def hear(params: JsonObject) -> None:
                deadline.extend()
                if progress is not None:
                    progress(params)

            session.watch.progress[token] = hear
            try:
                return await self._rounds(session, name, dict(arguments), token)
            finally:
                session.watch.progress.pop(token, None)
                session.watch.results.pop(token, None)

        return await self._in_time(ask, "answer", name)

    async def _in_time(self, ask: Callable[[Deadline, Session], Awaitable[_A]], doing: str, tool: str | None) -> _A:
        settings = self._settings
        seconds = settings.timeout if tool is None else settings.call_timeout
        deadline: Deadline | None = None
        try:
            with self._deadlines.within(seconds, settings.total_timeout) as deadline:
                return await self._in_session(partial(ask, deadline))
        except LinkError:
            raise
        except TimeoutError:
            raise LinkError(self._too_late(deadline, seconds, doing, tool)) from None
        except Exception as raised:
            await self.session.wait_for_exit()
            raise LinkError(self.session.report.failure(raised, "answer", tool)) from raised

    def _too_late(self, deadline: Deadline | None, seconds: float | None, doing: str, tool: str | None) -> McpError:
        message, option = f"did not {doing} within {seconds:g} s", "timeout" if tool is None else "call_timeout"
        if deadline is not None and deadline.is_extended and deadline.is_spent:
            total = max(self._settings.total_timeout or 0.0, seconds or 0.0)
            message, option = f"did not {doing} within {total:g} s in total", "total_timeout"
        elif deadline is not None and deadline.is_extended:
            message = f"reported no progress for {seconds:g} s"
        return self.session.report.problem("timeout", message, f"Pass a longer {option}=", tool)

    async def _in_session(self, ask: Callable[[Session], Awaitable[_A]]) -> _A:
        """Send a request. If the server forgot the session, send the request again in a new session."""
        session = self.session
        try:
            with session.in_use():
                return await ask(session)
        except MCPError as error:
            if error.code != SESSION_GONE:
                raise
        session = await self._successor(session)
        with session.in_use():
            return await ask(session)

    async def _pages(self, session: Session) -> tuple[list[ToolDefinition], dict[str, str]]:
        limits = self._settings.limits
        session.watch.refused, session.watch.listed = {}, 0
        tools: list[ToolDefinition] = []
        before: dict[str, ToolDefinition] = {}  # definitions of earlier pages
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(limits.pages):
            page = await self._page(session, cursor)
            if session.watch.listed > limits.tools:
                raise LinkError(session.report.problem("limit", f"listed more than {limits.tools} tools", _RAISE))
            definitions: list[ToolDefinition] = []
            sent = iter(session.watch.page)
            for tool in page.tools:
                definition = _definition(next(one for one in sent if one["name"] == tool.name))
                if before.get(definition.name) != definition:
                    definitions.append(definition)
                await checkpoint()  # let other tasks run
            tools += definitions
            before |= {definition.name: definition for definition in definitions}
            cursor = page.next_cursor
            if session.watch.has_bad_cursor:
                self.on_flaw("the list of tools has a cursor that is not a string, so fxai stopped there")
            if cursor is not None and cursor in seen:
                self.on_flaw(f"the list of tools repeats the cursor {cursor[:60]!r}, so fxai stopped there")
            if cursor is None or cursor in seen:
                return tools, dict(session.watch.refused)
            seen.add(cursor)
        raise LinkError(
            session.report.problem("limit", f"the list of tools has more than {limits.pages} pages", _RAISE)
        )

    async def _page(self, session: Session, cursor: str | None) -> wire.ListToolsResult:
        """Return one page. Many servers mark the end with an empty cursor, so a refused one is an empty page."""
        try:
            return await session.client.session.list_tools(params=wire.PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if cursor != "" or error.code in (SESSION_GONE, HTTP_STATUS, NETWORK) or is_lost(error):
                raise
        self.on_flaw("the list of tools has an empty cursor, and the server refuses it, so fxai stopped there")
        return wire.ListToolsResult(tools=[])

    async def _rounds(self, session: Session, name: str, arguments: JsonObject, token: str) -> CallResult:
        responses: Any = None
        state: str | None = None
        for _ in range(_ROUNDS):
            params = wire.CallToolRequestParams(
                name=name,
                arguments=arguments,
                input_responses=responses,
                request_state=state,
                _meta=cast(Any, {"progressToken": token}),
            )
            answer = await self._send(session, wire.CallToolRequest(params=params))
            if isinstance(answer, wire.CallToolResult):
                result, most = session.watch.results.pop(token, {}), self._settings.limits.contents
                if (count := count_contents(result)) > most:
                    message = f"the result has {count} content blocks, more than {most}"
                    raise LinkError(session.report.problem("limit", message, _RAISE, name))
                return read_result(result)
            state = answer.request_state
            responses = await self._inputs(session, name, answer.input_requests)
        message = f"requested input in more than {_ROUNDS} rounds"
        raise LinkError(session.report.problem("input-required", message, REPORT, name))

    async def _send(self, session: Session, request: wire.CallToolRequest) -> Any:
        sending = session.client.session
        try:
            return await sending.send_request(request, _ANSWERS)
        except MCPError as error:
            if error.code != wire.HEADER_MISMATCH:
                raise
        await self._pages(session)  # the headers follow the listed schema, which has changed, so list and send again
        return await sending.send_request(request, _ANSWERS)

    async def _inputs(self, session: Session, tool: str, requests: Mapping[str, Any] | None) -> JsonObject | None:
        if not requests:
            await anyio.sleep(0.05)  # the server only requires a repeated call
            return None
        most = self._settings.limits.requests
        if len(requests) > most:
            raise LinkError(
                session.report.problem("limit", f"made more than {most} requests at the same time", _RAISE, tool)
            )
        asked = session.client.session
        answers: JsonObject = {}
        for key, request in requests.items():
            answer = await asked.dispatch_input_request(ClientRequestContext(session=asked, request_id=key), request)
            if isinstance(answer, wire.ErrorData):
                message = f"requested input ({request.method}) without an answer: {answer.message}"
                remedy = "Pass elicit=, a function that answers" if "elicit" in request.method else "Omit the tool"
                raise LinkError(session.report.problem("input-required", message, remedy, tool))
            answers[key] = answer
        return answers


def _definition(tool: JsonObject) -> ToolDefinition:
    """Return the definition of a valid tool, with all members that the server sent."""
    return ToolDefinition(
        tool["name"],
        tool.get("title"),
        tool.get("description"),
        tool["inputSchema"],
        tool.get("outputSchema"),
        tool.get("annotations") or {},
        tool.get("_meta") or {},
        {name: value for name, value in tool.items() if name not in MEMBERS and value is not None},
    )
