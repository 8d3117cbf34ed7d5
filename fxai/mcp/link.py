"""Links: one connection to a server by the SDK's client, which runs in a task of its own, and the requests over it.

The SDK's client holds task groups, which one task must enter and leave; so a link runs in the background of a scope,
and calls come to it from other tasks. Each failure becomes an `McpError` with what is known of the connection.

>>> Deadlines().is_still
False
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeVar, cast, final

import anyio
import mcp_types as wire
from anyio.lowlevel import checkpoint
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from fxai.effects.effect import EffectOf
from fxai.effects.runtime import run_async
from fxai.effects.waker import Home
from fxai.mcp.http_client import address_transport
from fxai.mcp.report import REOPEN, Report, is_lost, leaf
from fxai.mcp.result import LinkError, McpError
from fxai.mcp.settings import Elicit, ElicitAnswer, Elicitation, ServerProgram, ServerSettings
from fxai.mcp.stdio_client import program_transport
from fxai.mcp.tool_definition import ToolDefinition
from fxai.mcp.watch import Watch, watch_streams


@final
class Deadlines:
    """The deadlines of the calls over one connection, which pause while a person is asked for something."""

    def __init__(self) -> None:
        self._left: dict[anyio.CancelScope, float] = {}  # the seconds that each has left while they pause
        self._questions = 0

    @property
    def is_still(self) -> bool:
        """Whether they pause now."""
        return self._questions > 0

    @contextmanager
    def within(self, seconds: float | None) -> Generator[None]:
        """Bounds the time of the block, without the pauses. Raises `TimeoutError`: it took longer."""
        with anyio.fail_after(seconds) as scope:
            self._left[scope] = math.inf if seconds is None else seconds
            if self.is_still:
                scope.deadline = math.inf
            try:
                yield
            finally:
                del self._left[scope]

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Pauses every deadline for the time of the block."""
        if not self.is_still:
            now = anyio.current_time()
            for scope in self._left:
                self._left[scope], scope.deadline = scope.deadline - now, math.inf
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self.is_still:
                now = anyio.current_time()
                for scope, left in self._left.items():
                    scope.deadline = now + left


_A = TypeVar("_A")

_log = logging.getLogger("fxai.mcp")

_ROUNDS: Final = 10
_RELISTEN, _RELISTEN_LAST = 1.0, 60.0  # seconds before a lost subscription is asked for again, at first and at last
_ANSWERS: Final[TypeAdapter[Any]] = TypeAdapter(wire.CallToolResult | wire.InputRequiredResult)
_FAREWELL: Final = 5.0  # seconds to close a connection, beside what its program is given
_LAST_WORDS: Final = 0.5  # seconds in which a program that closed its output may end
_RAISE: Final = "leave it out, or give it other limits="
_tokens: Final = itertools.count(1)

About = tuple[str, str, str, str | None, dict[str, Any]]
"""A server's own name and version, the protocol version, its instructions and its capabilities."""

Answer = tuple[list[dict[str, Any]], Any, bool, bool]
"""A result: content blocks, structured content, whether there is any, and whether it is marked as an error."""


@final
class Link:
    """A connection: `run` holds it open until it is cancelled; the other methods send requests over it."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.on_changed: Callable[[], None] = lambda: None
        self._ready = anyio.Event()
        self._leaving = anyio.Event()
        self._left = anyio.Event()
        self._client: Client | None = None
        self._failure: McpError | None = None
        self.about: About = ("", "", "", None, {})
        self._lock = anyio.Lock()
        self._home = Home(f"the connection to the MCP server {settings.name!r}")
        self._deadlines = Deadlines()
        self.watch: Watch = self._new_watch()
        self._report = Report(settings, self.watch)

    # -- opening

    async def run(self) -> None:
        """Connects, and stays connected until `leave` is called, it is cancelled, or the connection is lost."""
        try:
            with suppress(_OldServerError):
                await self._connect(self._settings.mode)
                return
            self.watch = self._report.watch = self._new_watch()
            await self._connect("legacy")
        except Exception as raised:
            self._failure = self._report.failure(raised, "start")
        finally:
            self._client = None
            self._ready.set()
            self._left.set()

    async def leave(self) -> None:
        """Closes the connection as the protocol has it, and waits until it is closed, for a limited time."""
        self._leaving.set()
        endpoint = self._settings.endpoint
        grace = endpoint.grace if isinstance(endpoint, ServerProgram) else 0.0
        with anyio.move_on_after(_FAREWELL + 2 * grace):
            await self._left.wait()

    async def ready(self) -> None:
        """Waits until the server has answered or failed; the next request raises the failure.

        Raises `LinkError`: neither happened in time.
        """
        with anyio.move_on_after(self._settings.timeout):
            await self._ready.wait()
            return
        if self.watch.trouble is not None:
            raise LinkError(self._report.problem(*self.watch.trouble))
        said = f"it did not answer within {self._settings.timeout:g} s of being started"
        raise LinkError(self._report.problem("timeout", said, "see that it speaks MCP here, or give a longer timeout="))

    async def _connect(self, mode: str) -> None:
        elicit = self._settings.elicit
        client = Client(
            _transport(self._settings, self.watch),
            mode=mode,
            cache=None,
            client_info=wire.Implementation(name="fxai", version=_version()),
            log_level=None if self._settings.on_log is None else "debug",
            elicitation_callback=None if elicit is None else partial(self._elicit, elicit),
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(client)
            except Exception as error:
                if mode == "auto" and self._is_old(leaf(error)):
                    raise _OldServerError from error
                raise
            await self._serve(client)

    def _is_old(self, error: BaseException) -> bool:
        """Whether its program ended at a request of the newest protocol, as some old servers do."""
        return is_lost(error) and self.watch.process() is not None and self.watch.trouble is None

    async def _serve(self, client: Client) -> None:
        self._client = client
        self.watch.version = client.protocol_version
        self.watch.on_changed = self.on_changed
        self.about = self._about(client)
        async with anyio.create_task_group() as tasks:
            tools = client.server_capabilities.tools
            if tools and tools.list_changed:
                tasks.start_soon(self._subscription, client)
            self._ready.set()
            await self._leaving.wait()
            tasks.cancel_scope.cancel()

    async def _subscription(self, client: Client) -> None:
        """Subscribes to changes of the tools, where the protocol has subscriptions; a lost one is renewed."""
        pause = _RELISTEN
        while not self.watch.is_cut:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    self.on_changed()  # for changes from before the subscription
                    pause = _RELISTEN
                    async for _ in subscription:
                        pass  # the watch calls `on_changed`
            except ListenNotSupportedError:  # an older protocol, which notifies without a subscription
                return
            except MCPError as error:
                if error.code == wire.METHOD_NOT_FOUND:
                    return
            except (RuntimeError, TimeoutError):
                pass  # it was lost
            await anyio.sleep(pause)
            pause = min(pause * 2, _RELISTEN_LAST)

    def _new_watch(self) -> Watch:
        watch = Watch(self._settings.limits)
        watch.on_log = self._settings.on_log
        return watch

    def _about(self, client: Client) -> About:
        info = client.server_info
        capabilities = client.server_capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
        name, version = (info.name, info.version) if info is not None else ("", "")
        return name, version, client.protocol_version, client.instructions, capabilities

    # -- requests

    async def listing(self) -> tuple[list[ToolDefinition], dict[str, str]]:
        """All tools, of all pages, and those that are no tools at all, with the reason.

        Raises `LinkError`: it did not answer in time, or with more than the limits allow.
        """
        if self._client is not None:
            self._home.require()
        async with self._lock:
            return await self._in_time(self._settings.timeout, self._pages, "list its tools", None)

    async def call(
        self, name: str, arguments: Mapping[str, Any], progress: Callable[[dict[str, Any]], None] | None
    ) -> Answer:
        """The result of a tool. Raises `LinkError`: the server did not answer, or with a protocol error."""
        if self._client is not None:
            self._home.require()
        token = f"fxai-{next(_tokens)}"
        if progress is not None:
            self.watch.progress[token] = progress
        try:
            return await self._in_time(
                self._settings.call_timeout, lambda: self._rounds(name, dict(arguments), token), "answer", name
            )
        finally:
            self.watch.progress.pop(token, None)

    async def _in_time(
        self, seconds: float | None, ask: Callable[[], Awaitable[_A]], doing: str, tool: str | None
    ) -> _A:
        try:
            with self._deadlines.within(seconds):
                return await ask()
        except LinkError:
            raise
        except TimeoutError:
            option = "timeout" if tool is None else "call_timeout"
            said = f"it did not {doing} within {seconds:g} s"
            raise LinkError(self._report.problem("timeout", said, f"give a longer {option}=", tool)) from None
        except Exception as raised:
            await self._wait_for_exit()
            raise LinkError(self._report.failure(raised, "answer", tool)) from raised

    async def _wait_for_exit(self) -> None:
        """Waits a little for the exit code and the last output of a program that is ending."""
        if isinstance(self._settings.endpoint, ServerProgram) and self.watch.is_cut:
            with anyio.move_on_after(_LAST_WORDS):
                while self.watch.process() is None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                await anyio.sleep(0.01)

    async def _pages(self) -> tuple[list[ToolDefinition], dict[str, str]]:
        limits = self._settings.limits
        self.watch.refused, self.watch.listed = {}, 0
        tools: list[ToolDefinition] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(limits.pages):
            page = await self._open().session.list_tools(params=wire.PaginatedRequestParams(cursor=cursor))
            if self.watch.listed > limits.tools:
                raise LinkError(self._report.problem("limit", f"it lists more than {limits.tools} tools", _RAISE))
            for tool in page.tools:
                tools.append(_definition(tool))
                await checkpoint()  # other tasks run between two of them
            cursor = page.next_cursor
            if not cursor:
                return tools, dict(self.watch.refused)
            if cursor in seen:
                said = f"its listing of tools never ends: the cursor {cursor[:60]!r} came twice"
                raise LinkError(self._report.problem("protocol", said, "tell its makers"))
            seen.add(cursor)
        raise LinkError(
            self._report.problem("limit", f"its listing of tools has more than {limits.pages} pages", _RAISE)
        )

    async def _rounds(self, name: str, arguments: dict[str, Any], token: str) -> Answer:
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
            answer = await self._send(wire.CallToolRequest(params=params))
            if isinstance(answer, wire.CallToolResult):
                return _answer(answer)
            state = answer.request_state
            responses = await self._inputs(name, answer.input_requests)
        said = f"it asked for input in more than {_ROUNDS} rounds"
        raise LinkError(self._report.problem("input-required", said, "tell its makers", name))

    async def _send(self, request: wire.CallToolRequest) -> Any:
        session = self._open().session
        try:
            return await session.send_request(request, _ANSWERS)
        except MCPError as error:
            if error.code != wire.HEADER_MISMATCH:
                raise
        await self._pages()  # the headers follow the listed schema, which has changed: list, and send once more
        return await session.send_request(request, _ANSWERS)

    async def _inputs(self, tool: str, requests: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if not requests:
            await anyio.sleep(0.05)  # it only wants the call repeated
            return None
        most = self._settings.limits.requests
        if len(requests) > most:
            raise LinkError(self._report.problem("limit", f"it made more than {most} requests at once", _RAISE, tool))
        session = self._open().session
        answers: dict[str, Any] = {}
        for key, request in requests.items():
            answer = await session.dispatch_input_request(
                ClientRequestContext(session=session, request_id=key), request
            )
            if isinstance(answer, wire.ErrorData):
                said = f"it asks for input ({request.method}), and is not answered: {answer.message}"
                remedy = "give elicit=, a function that answers" if "elicit" in request.method else "leave the tool out"
                raise LinkError(self._report.problem("input-required", said, remedy, tool))
            answers[key] = answer
        return answers

    async def _elicit(
        self,
        elicit: Elicit,
        context: ClientRequestContext,  # noqa: ARG002
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        said = params.model_dump(by_alias=True, mode="json", exclude_unset=True)
        schema: Any = said.get("requestedSchema") or {}
        asked = Elicitation(self._settings.name, params.message, schema, said.get("url"))
        try:
            with self._deadlines.standing_still():
                given = elicit(asked)
                answer: ElicitAnswer = await run_async(given) if isinstance(given, EffectOf) else given
            content: Any = None if answer.content is None else dict(answer.content)
            return wire.ElicitResult(action=answer.action, content=content)
        except Exception:  # a bug in `elicit`: the server is told no details
            _log.exception("`elicit` of the MCP server %r failed", self._settings.name)
            return wire.ErrorData(code=wire.INTERNAL_ERROR, message="answering failed; the log of the client says how")

    # -- failures

    def _open(self) -> Client:
        if self._client is None:
            raise LinkError(self._failure or self._report.problem("connection", "its connection is closed", REOPEN))
        return self._client


def _version() -> str:
    try:
        return version("fxai")
    except PackageNotFoundError:  # run from its sources
        return "0"


class _OldServerError(Exception):
    """The server ended at a request of the newest protocol."""


@asynccontextmanager
async def _transport(settings: ServerSettings, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """The transport of a server's endpoint, watched, as the SDK's client enters it."""
    endpoint = settings.endpoint
    transport = (
        program_transport(endpoint, watch)
        if isinstance(endpoint, ServerProgram)
        else address_transport(endpoint, settings.limits, settings.timeout)
    )
    async with transport as streams:
        yield watch_streams(streams, watch)


def _definition(tool: wire.Tool) -> ToolDefinition:
    hints = tool.annotations.model_dump(by_alias=True, mode="json", exclude_none=True) if tool.annotations else {}
    return ToolDefinition(
        tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema, hints, dict(tool.meta or {})
    )


def _answer(result: wire.CallToolResult) -> Answer:
    content = [block.model_dump(by_alias=True, mode="json", exclude_unset=True) for block in result.content]
    return content, result.structured_content, result.structured_content is not None, result.is_error
