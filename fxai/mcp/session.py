"""Sessions with a server. Each session uses one client of the SDK. If the server forgets it, a link starts another.

A `Report` converts exceptions of the SDK and of the network to an `McpError`.

>>> from fxai.mcp.settings import ServerProgram, ServerSettings
>>> Session(ServerSettings(ServerProgram("git-server"), "git"), Deadlines(), lambda: None).is_open
False
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast, final

import anyio
import httpx2
import mcp_types as wire
import msgspec
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fxai.effects.effect import EffectOf
from fxai.effects.runtime import run_async
from fxai.mcp.client_transport import (
    BAD_HEADER,
    HTTP_STATUS,
    NETWORK,
    NO_ANSWER,
    SESSION_GONE,
    TOO_LARGE,
    address_transport,
    program_transport,
)
from fxai.mcp.result import LinkError, McpError, McpErrorKind
from fxai.mcp.settings import Elicit, ElicitAnswer, Elicitation, HeaderError, ServerProgram, ServerSettings
from fxai.mcp.watch import UNREAD, Watch, brief, watch_streams
from fxai.schema.data import JsonObject

REOPEN: Final = "Open the server again"
"""The remedy for a lost connection."""

_HEADERS: Final = "Pass a valid token= and valid headers="
REPORT: Final = "Report this to the server's authors"
_REACH: Final = "Check that the server runs, and its URL"
_RESTART: Final = "Check the command or the URL, and the requirements of the server"

_INVALID: Final = re.compile(r"Invalid JSON: (.{1,200}?)(?: \[type=|$)", re.MULTILINE)
_LOST: Final = ("Connection closed", "SSE stream")
_OTHER_VERSION: Final = "Unsupported protocol version from the server: "
_VERSIONS: Final = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
_CODES: Final[dict[int, McpErrorKind]] = {
    wire.REQUEST_TIMEOUT: "timeout",
    TOO_LARGE: "limit",
    wire.PARSE_ERROR: "invalid-answer",
    wire.MISSING_REQUIRED_CLIENT_CAPABILITY: "input-required",
}


@final
class Report:
    """A converter of exceptions to the failures of one connection."""

    def __init__(self, settings: ServerSettings, watch: Watch) -> None:
        self._settings = settings
        self.watch = watch

    def failure(self, raised: BaseException, doing: str, tool: str | None = None) -> McpError:
        """Return the failure of an exception."""
        raised = leaf(raised)
        if isinstance(raised, LinkError):
            return raised.failure
        if self.watch.trouble is not None:
            return self.problem(*self.watch.trouble, tool)
        if isinstance(raised, MCPError):
            return self._protocol_error(raised, doing, tool)
        if isinstance(raised, ValidationError):
            message = f"the answer breaks the protocol: {brief(raised)}"
            return self.problem("invalid-answer", message, REPORT, tool)
        if isinstance(raised, HeaderError):
            return self.problem("authentication", str(raised), _HEADERS, tool)
        if isinstance(raised, RuntimeError) and str(raised).startswith(_OTHER_VERSION):
            message = f"unknown protocol version {str(raised)[len(_OTHER_VERSION) :][:60]!r}"
            return self.problem("protocol", message, f"Use a server with one of {_VERSIONS}", tool)
        if isinstance(raised, OSError) and doing == "start":
            endpoint = self._settings.endpoint
            reason = raised.strerror or str(raised)
            reason = f"{reason} ({raised.filename!r})" if raised.filename else reason
            words = endpoint.command.split() if isinstance(endpoint, ServerProgram) else []
            remedy = "Check that the program is installed and executable"
            if len(words) > 1:
                separate = ", ".join(map(repr, words))
                remedy = f"Pass its words separately, because fxai uses no shell: mcp.stdio({separate})"
            return self.problem("start", f"cannot start {endpoint.location!r}: {reason}", remedy, tool)
        if isinstance(raised, httpx2.HTTPError | httpx2.InvalidURL | OSError):
            message = f"cannot reach {self._settings.endpoint.location!r}: {raised}"
            return self.problem("connection", message, _REACH, tool)
        return self.problem("protocol", f"{type(raised).__name__}: {raised}", "", tool)

    def _protocol_error(self, error: MCPError, doing: str, tool: str | None) -> McpError:
        code, message = error.code, error.message
        remedy = _RESTART if doing == "start" else ""
        if is_lost(error):
            return self.problem("connection", self._end_of(message), remedy or REOPEN, tool)
        if code == SESSION_GONE:
            return self.problem("connection", f"the session has ended: the server answered {message}", REOPEN, tool)
        if code == BAD_HEADER:
            return self.problem("authentication", message, _HEADERS, tool)
        if code == HTTP_STATUS:
            is_ours = error.error.data in (401, 403, 407)
            remedy = "Pass a token= or headers= that the server accepts" if is_ours else "Try again later"
            return self.problem("authentication" if is_ours else "connection", f"answered {message}", remedy, tool)
        if code == NETWORK:
            location = self._settings.endpoint.location
            return self.problem("connection", f"cannot reach {location!r}: {message}", _REACH, tool)
        if code == wire.PARSE_ERROR and message.startswith(UNREAD):
            found = _INVALID.search(message)
            why = found[1].replace("recursion limit exceeded", "nested too deep") if found else "not a JSON-RPC message"
            return self.problem("invalid-answer", f"cannot read the answer as JSON: {why}", REPORT, tool)
        if code == NO_ANSWER:
            return self.problem("invalid-answer", message, REPORT, tool)
        if code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY:
            remedy = "Pass elicit=, a function that answers the server's questions"
        message = f"answered with the error {code}: {message}"
        return self.problem(_CODES.get(code, "protocol"), message, remedy, tool, code)

    def _end_of(self, message: str) -> str:
        if not isinstance(self._settings.endpoint, ServerProgram):
            return f"the connection was lost: {message}"
        code = self.watch.process()
        how = "" if code is None else f" with the exit code {code}" if code >= 0 else f" by the signal {-code}"
        return f"the program ended{how}" if how else "closed its output"

    def problem(
        self, kind: McpErrorKind, message: str, remedy: str = "", tool: str | None = None, code: int | None = None
    ) -> McpError:
        """Return a failure of the server, with the end of its standard error and other hints."""
        hints = self.watch.hints
        message = f"{message} ({hints})" if hints and hints not in message else message
        return McpError(self._settings.name, kind, message, remedy, tool, code, self.watch.stderr)


def is_lost(raised: BaseException) -> bool:
    """Return True if the connection has ended. Servers use the same code for their own errors."""
    return isinstance(raised, MCPError) and raised.code == wire.CONNECTION_CLOSED and raised.message.startswith(_LOST)


def leaf(raised: BaseException) -> BaseException:
    """Return the first exception of a group, at any depth. Return any other exception unchanged."""
    while isinstance(raised, BaseExceptionGroup):
        raised = cast("tuple[BaseException, ...]", cast(Any, raised).exceptions)[0]
    return raised


_log = logging.getLogger("fxai.mcp")

_RELISTEN, _RELISTEN_LAST = 1.0, 60.0  # first and maximum seconds before fxai renews a lost subscription
_LAST_WORDS: Final = 0.5  # seconds until a program that closed its output must end

About = tuple[str, str, str, str | None, JsonObject]
"""The server's own name and version, the protocol version, its instructions, and its capabilities."""


@final
class Deadline(msgspec.Struct, eq=False):
    """The deadline of one call: maximum seconds without progress, and maximum seconds in total."""

    clock: Deadlines
    scope: anyio.CancelScope
    seconds: float
    due: float
    """The time of `clock` when the call must have reported progress."""
    end: float
    """The time of `clock` when the call must have ended."""
    is_extended: bool = False
    """True if progress extended the deadline."""

    @property
    def is_spent(self) -> bool:
        """True if the total time has passed."""
        return self.clock.now >= self.end

    def extend(self) -> None:
        """Start the seconds without progress again, up to the total."""
        self.is_extended = True
        self.due = min(self.clock.now + self.seconds, self.end)
        self.set()

    def set(self) -> None:
        """Set the deadline of the scope, or no deadline while the clock stands still."""
        self.scope.deadline = math.inf if self.clock.is_still else self.due + self.clock.lost


@final
class Deadlines:
    """The deadlines of the calls over one connection, by a clock that stands still during a question to a person."""

    def __init__(self) -> None:
        self._all: list[Deadline] = []
        self._questions = 0
        self._stopped = 0.0  # the time at which the clock stopped
        self.lost: float = 0.0
        """The seconds of all pauses."""

    @property
    def is_still(self) -> bool:
        """True while the clock stands still."""
        return self._questions > 0

    @property
    def now(self) -> float:
        """The time of the clock in seconds."""
        return self._stopped if self.is_still else anyio.current_time() - self.lost

    @contextmanager
    def within(self, seconds: float | None, total: float | None = 0.0) -> Generator[Deadline]:
        """Limit the time of the block, without the pauses. Raise `TimeoutError` if the block takes longer.

        Args:
            seconds: Maximum seconds, or None. Each `extend` of the deadline starts them again.
            total: Maximum seconds with all extensions, or None. The value is at least `seconds`. Default: 0.
        """
        with anyio.fail_after(math.inf) as scope:
            limit = math.inf if seconds is None else seconds
            end = self.now + (math.inf if total is None else max(limit, total))
            deadline = Deadline(self, scope, limit, self.now + limit, end)
            deadline.set()
            self._all.append(deadline)
            try:
                yield deadline
            finally:
                self._all.remove(deadline)

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Stop the clock during the block."""
        if not self.is_still:
            self._stopped = self.now
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        self._questions += more
        if not self.is_still:
            self.lost = anyio.current_time() - self._stopped
        for deadline in self._all:
            deadline.set()


@final
class Session:
    """A session with an MCP server. `hold` keeps it open until `end`. A retired session ends after its last request."""

    def __init__(self, settings: ServerSettings, deadlines: Deadlines, on_changed: Callable[[], None]) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._on_changed = on_changed
        self._ready = anyio.Event()
        self._ending = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._is_cancelled = False
        self._client: Client | None = None
        self._failure: McpError | None = None
        self._requests = 0
        self._is_retired = False
        self.about: About = ("", "", "", None, {})
        self.watch: Watch = self._new_watch()
        self.report: Report = Report(settings, self.watch)

    # -- lifetime

    async def hold(self) -> None:
        """Connect, and stay connected until the session ends, is cancelled, or loses its connection."""
        try:
            with anyio.CancelScope() as self._scope:
                if self._is_cancelled:
                    return
                with suppress(_OldServerError):
                    await self._connect(self._settings.mode)
                    return
                self.watch = self.report.watch = self._new_watch()
                await self._connect("legacy")
        except Exception as raised:
            self._failure = self.report.failure(raised, "start")
        finally:
            self._client = None
            self._ready.set()

    async def wait_until_open(self) -> None:
        """Wait until the server answered or failed. `client` raises the failure.

        Raise `LinkError` if neither happened in time.
        """
        with anyio.move_on_after(self._settings.timeout):
            await self._ready.wait()
            return
        if self.watch.trouble is not None:
            raise LinkError(self.report.problem(*self.watch.trouble))
        answered = f"did not answer within {self._settings.timeout:g} s after its start"
        raise LinkError(
            self.report.problem("timeout", answered, "Check that the server speaks MCP, or pass a longer timeout=")
        )

    @property
    def is_open(self) -> bool:
        """True if the session can send requests."""
        return self._client is not None

    @property
    def client(self) -> Client:
        """The SDK's client. Raise `LinkError` if the session is not open."""
        if self._client is None:
            raise LinkError(self._failure or self.report.problem("connection", "the connection is closed", REOPEN))
        return self._client

    def end(self) -> None:
        """End the session by the protocol."""
        self._ending.set()

    def cancel(self) -> None:
        """End the session immediately."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def retire(self) -> None:
        """End the session after its last request, because another session replaces it."""
        self._is_retired = True
        if not self._requests:
            self.end()

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Count a request during the block."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            if self._is_retired and not self._requests:
                self.end()

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
                has_ended = is_lost(leaf(error)) and self.watch.process() is not None and self.watch.trouble is None
                if mode == "auto" and has_ended:  # some old servers end at a request of the newest protocol
                    raise _OldServerError from error
                raise
            self._client = client
            self.watch.version = client.protocol_version
            self.watch.on_changed = self._on_changed
            info, capabilities = client.server_info, client.server_capabilities
            described = capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
            name, version = (info.name, info.version) if info is not None else ("", "")
            self.about = name, version, client.protocol_version, client.instructions, described
            async with anyio.create_task_group() as tasks:
                tools = capabilities.tools
                if tools and tools.list_changed:
                    tasks.start_soon(self._subscription, client)
                self._ready.set()
                await self._ending.wait()
                tasks.cancel_scope.cancel()

    async def _subscription(self, client: Client) -> None:
        """Subscribe to changes of the tools if the protocol has subscriptions, and renew a lost subscription."""
        pause = _RELISTEN
        while not self.watch.is_cut:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    self._on_changed()  # a change can precede the subscription
                    pause = _RELISTEN
                    async for _ in subscription:
                        pass  # the watch calls `on_changed`
            except ListenNotSupportedError:  # older protocols notify without a subscription
                return
            except MCPError as error:
                if error.code == wire.METHOD_NOT_FOUND:
                    return
            except (RuntimeError, TimeoutError):
                pass  # the subscription was lost
            await anyio.sleep(pause)
            pause = min(pause * 2, _RELISTEN_LAST)

    def _new_watch(self) -> Watch:
        watch = Watch(self._settings.limits)
        watch.on_log = self._settings.on_log
        return watch

    async def wait_for_exit(self) -> None:
        """Wait a short time for the exit code and the last output of an ending program."""
        if isinstance(self._settings.endpoint, ServerProgram) and self.watch.is_cut:
            with anyio.move_on_after(_LAST_WORDS):
                while self.watch.process() is None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                await anyio.sleep(0.01)

    async def _elicit(
        self,
        elicit: Elicit,
        context: ClientRequestContext,  # noqa: ARG002
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        answered = params.model_dump(by_alias=True, mode="json", exclude_unset=True)
        schema: Any = answered.get("requestedSchema") or {}
        asked = Elicitation(self._settings.name, params.message, schema, answered.get("url"))
        try:
            with self._deadlines.standing_still():
                given = elicit(asked)
                answer: ElicitAnswer = await run_async(given) if isinstance(given, EffectOf) else given
            content: Any = None if answer.content is None else dict(answer.content)
            return wire.ElicitResult(action=answer.action, content=content)
        except Exception:  # hide the details of a bug in `elicit` from the server
            _log.exception("`elicit` of the MCP server %r failed", self._settings.name)
            return wire.ErrorData(code=wire.INTERNAL_ERROR, message="elicitation failed, see the log of the client")


def _version() -> str:
    try:
        return version("fxai")
    except PackageNotFoundError:  # fxai runs from its source directory
        return "0"


class _OldServerError(Exception):
    """The server ended at a request of the newest protocol."""


@asynccontextmanager
async def _transport(settings: ServerSettings, watch: Watch) -> AsyncGenerator[tuple[Any, Any]]:
    """Open the watched transport of a server's endpoint for the SDK's client."""
    endpoint = settings.endpoint
    transport = (
        program_transport(endpoint, watch)
        if isinstance(endpoint, ServerProgram)
        else address_transport(endpoint, watch, settings.timeout)
    )
    async with transport as streams:
        yield watch_streams(streams, watch)
