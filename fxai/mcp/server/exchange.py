"""The exchange: answers to `tools/list` and `tools/call`, over the server of the official SDK. Servers use this module.

Each outcome of a call has its own form:

- A success, a typed failure, invalid arguments, and a denied approval are results, because a model can read results and
  correct its call (SEP-1303).
- A mistake of the client, such as an unknown tool, is a JSON-RPC error with the reason.
- A bug is an internal error without details. `on_defect` receives the details.

A call that needs approval runs only after the user of the client approved it. Until protocol 2025-11-25, the call waits
for the answer (`elicitation/create`). Since 2026-07-28, the answer to the call is the question, and the client calls
again with the user's answer and a state. The SDK binds the state to the tool and its arguments. It permits one call.

>>> success_result({"y": "1"}, {"y": "1"})
{'content': [{'type': 'text', 'text': '{"y":"1"}'}], 'structuredContent': {'y': '1'}, 'isError': False}
>>> failure_result("no such city", structured=True)
{'content': [{'type': 'text', 'text': 'no such city'}], 'isError': True}
"""

from __future__ import annotations

import logging
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import quote

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    ElicitResult,
    NotificationParams,
    PaginatedRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from typing_extensions import override

from fxai.effects.cancellation import is_bug, refuse_foreign
from fxai.effects.cause import Cause, Die, Fail, Failed
from fxai.effects.context import AnyContext
from fxai.effects.effect import Await, EffectOf, Timeout, Within
from fxai.effects.fiber import run_fiber
from fxai.effects.service import LIVE, Clock
from fxai.mcp.server.server_options import Defect, ToolServerSettings
from fxai.mcp.server.snapshot import ServedTool, Snapshot, title_as_hint
from fxai.messages.message import FilePart, TextPart
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.display import in_line
from fxai.tools.annotation import Title
from fxai.tools.call import Call, Outcome
from fxai.tools.handler import in_threads
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerFailed,
    HandlerUnavailable,
    Interrupted,
    InvalidParameters,
    OutcomeUnknown,
    Refused,
    UnknownTool,
    encode_failure,
)


def text_of(value: Any) -> str:
    """Return a JSON value as a string. A string stays unchanged, and other values become JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def success_result(encoded: Any, shown: Any) -> JsonObject:
    """Return the result of a successful call, from its encoded value and its form for the model."""
    structured = {"structuredContent": encoded} if is_object(encoded) else {}
    return {"content": content_of(shown), **structured, "isError": False}


def failure_result(encoded: Any, *, structured: bool) -> JsonObject:
    """Return the result of a call with a typed failure.

    `structured` must be False if the tool has an output schema, because clients validate structured content against it.
    """
    structured_content = {"structuredContent": encoded} if structured and is_object(encoded) else {}
    return {"content": [_text(text_of(encoded))], **structured_content, "isError": True}


def content_of(shown: Any) -> list[JsonObject]:
    """Return the content blocks of a JSON value. Data in the form of a file part becomes a file."""
    if shown is None:
        return []
    return _parts(shown) or [_text(text_of(shown))]


def _parts(shown: Any) -> list[JsonObject] | None:
    """Return the blocks of texts and files if the data contains a file. Return None for other data."""
    listed = [shown] if is_object(shown) else shown
    if not is_array(listed) or not any(is_object(one) and one.get("type") == "file" for one in listed):
        return None
    try:
        parts = msgspec.convert(listed, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None
    return [_text(part.text) if isinstance(part, TextPart) else _file(part) for part in parts]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _file(part: FilePart) -> JsonObject:
    name = part.file_name or "file"
    if not isinstance(part.data, bytes):
        return {"type": "resource_link", "uri": part.data.url, "name": name, "mimeType": part.media_type}
    data = b64encode(part.data).decode()
    kind = part.media_type.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": part.media_type}
    held = {"uri": name if "://" in name else f"file:///{quote(name)}", "mimeType": part.media_type}
    try:
        text = part.data.decode() if kind == "text" else None
    except UnicodeDecodeError:
        text = None
    return {"type": "resource", "resource": {**held, **({"blob": data} if text is None else {"text": text})}}


Refusal: TypeAlias = Denied | ApprovalExpired | ApprovalUnavailable
"""The reasons to refuse a call: it was denied, no answer arrived in time, or the client cannot ask its user."""

_KEY: Final = "approval"
_ANSWER: Final = "approve"
_MOST: Final = 4096  # open questions; one more replaces the oldest
_FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {_ANSWER: {"type": "boolean", "title": "Run it", "description": "Whether the call may run"}},
    "required": [_ANSWER],
}
_NOBODY: Final = "the call needs a person's approval, and this client cannot ask a person (elicitation by a form)"
_NO: Final = "the call needs a person's approval, and no person gave it"
_LATE: Final = "the call needs a person's approval, and no person answered in time. No person denied it"


@final
class Approvals:
    """The questions for approvals. It stores the open questions."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[str, None] = {}  # by the state in the question, oldest first

    async def check(
        self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams, tool: AnyTool
    ) -> JsonObject | Refusal | None:
        """Return None for an approved call. Otherwise return the refusal, or the result with the user's question."""
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not _can_be_asked(ctx, is_modern=is_modern):
            return ApprovalUnavailable(tool.name, _NOBODY)
        title = tool.get(Title)
        called = f"{title} ({tool.name})" if title else tool.name
        arguments = in_line(params.arguments or {}, compact=True)
        question = f"May the tool {called} run with these arguments? {arguments}"
        if not is_modern:
            return await self._wait(ctx, tool, question)

        if params.request_state is not None and params.request_state in self._open:
            del self._open[params.request_state]
            return _verdict(tool, (params.input_responses or {}).get(_KEY))
        state = secrets.token_urlsafe(16)
        while len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        self._open[state] = None
        asked = {"mode": "form", "message": question, "requestedSchema": _FORM}
        return {
            "resultType": "input_required",
            "inputRequests": {_KEY: {"method": "elicitation/create", "params": asked}},
            "requestState": state,
        }

    async def _wait(self, ctx: ServerRequestContext[Any, Any], tool: AnyTool, question: str) -> Refusal | None:
        answer: ElicitResult | None = None
        with anyio.move_on_after(self._seconds) as waited:
            try:
                answer = await ctx.session.elicit_form(question, _FORM, related_request_id=ctx.request_id)
            except (MCPError, ValidationError):
                return ApprovalUnavailable(tool.name, _NOBODY)
        return ApprovalExpired(tool.name, _LATE) if waited.cancelled_caught else _verdict(tool, answer)


def _can_be_asked(ctx: ServerRequestContext[Any, Any], *, is_modern: bool) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return is_modern or ctx.session.can_send_request


def _verdict(tool: AnyTool, answer: Any) -> Denied | None:
    is_yes = isinstance(answer, ElicitResult) and answer.action == "accept" and (answer.content or {}).get(_ANSWER)
    return None if is_yes is True else Denied(tool.name, _NO)


_BUSY: Final = -32000  # the first code for servers in JSON-RPC

_COMPLETE: Final = {"resultType": "complete"}
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)  # the client disconnected during a send
_TITLED_BY_HINT: Final = ("2024-11-05", "2025-03-26")  # protocols without `title` of a tool

_Context = ServerRequestContext[Any, Any]


@final
class Exchange:
    """The answers to `tools/list` and `tools/call` from the current tools."""

    def __init__(self, settings: ToolServerSettings, current: Callable[[], Awaitable[Snapshot]]) -> None:
        """Answer by these settings. `current` returns the tools for each request."""
        self._settings = settings
        self._current = current
        self._approvals = Approvals(settings.approval_timeout)
        self._turns = anyio.Semaphore(settings.concurrency)
        self._calls = 0
        self._ended: anyio.Event  # set when no call runs or waits

    async def idle(self) -> None:
        """Wait until no call runs or waits."""
        if self._calls:
            await self._ended.wait()

    async def list_tools(self, ctx: _Context, params: PaginatedRequestParams | None) -> JsonObject:
        """Return the answer to `tools/list`, in pages if the settings require them."""
        documents = (await self._current()).documents
        if ctx.protocol_version in _TITLED_BY_HINT:
            documents = [title_as_hint(document) for document in documents]
        size = self._settings.page_size
        cursor = None if params is None else params.cursor
        starts = {str(at): at for at in range(size, len(documents), size)} if size else {}
        if cursor is not None and cursor not in starts:
            raise MCPError(INVALID_PARAMS, "unknown cursor. List the tools again from the first page")
        start = 0 if cursor is None else starts[cursor]
        end = len(documents) if size is None else start + size
        more = {"nextCursor": str(end)} if end < len(documents) else {}
        return {"tools": documents[start:end], **more, **_COMPLETE, "ttlMs": 0, "cacheScope": "private"}

    async def call_tool(self, ctx: _Context, params: CallToolRequestParams) -> JsonObject:
        """Return the answer to `tools/call`."""
        if self._calls >= self._settings.concurrency + self._settings.waiting:
            raise MCPError(_BUSY, "too many waiting calls. Call again later")
        snapshot = await self._current()
        tool = snapshot.tools.get(params.name)
        if tool is None:
            unknown = UnknownTool(params.name, tuple(snapshot.tools))
            raise MCPError(INVALID_PARAMS, str(unknown), encode_failure(unknown))
        snapshot.running += 1
        with self._count():
            try:
                return _COMPLETE | await refuse_foreign(self._run(snapshot, tool, ctx, params))
            except MCPError:
                raise
            except Exception as bug:
                raise self._internal_error(tool, Cause((Die(bug),))) from None
            finally:
                await snapshot.leave()

    @contextmanager
    def _count(self) -> Generator[None]:
        self._calls += 1
        if self._calls == 1:
            self._ended = anyio.Event()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._ended.set()

    async def _run(
        self, snapshot: Snapshot, tool: ServedTool, ctx: _Context, params: CallToolRequestParams
    ) -> JsonObject:
        arguments = params.arguments or {}
        call = snapshot.call(tool, arguments, str(ctx.request_id), emit=_progress(ctx))
        asks = await run_fiber(call.needs_approval(), snapshot.services)
        if isinstance(asks, Failed):
            raise self._internal_error(tool, asks.cause)
        if asks.value:
            checked = await self._approvals.check(ctx, params, tool.tool)
            if isinstance(checked, Refusal):
                return failure_result(encode_failure(checked), structured=not tool.gives_objects)
            if checked is not None:
                return checked

        async with self._turns:
            ended = await run_fiber(self._program(call), in_threads(snapshot.services))
            if isinstance(ended, Failed):
                return failure_result(self._failure(tool, ended.cause), structured=not tool.gives_objects)
            outcome = ended.value
            if outcome.is_failure:
                return failure_result(outcome.encoded_result, structured=not tool.gives_objects)
            show = tool.tool.to_model_output
            return success_result(
                outcome.encoded_result, outcome.encoded_result if show is None else show(outcome.result)
            )

    def _program(self, call: Call) -> EffectOf[Outcome, Any, Any]:
        seconds = self._settings.timeout
        if seconds is None:
            return call.effect

        def start(services: AnyContext) -> EffectOf[Outcome, Any, Any]:
            clock: Clock = services.find(Clock, LIVE)
            call.deadline = clock.monotonic() + seconds
            return call.effect.timeout(seconds)

        return Within(start)

    # -- the outcome of a call

    def _failure(self, tool: ServedTool, cause: Cause[Any]) -> Any:
        """Return the typed failure of a call as a JSON value. Raise `MCPError` if the cause is a bug."""
        only = cause.reasons[0] if len(cause.reasons) == 1 else None
        failure: Any = only.error if isinstance(only, Fail) else None
        if isinstance(failure, HandlerFailed):
            return tool.tool.failure.encode_unsafe(cast(Any, failure).error)
        if isinstance(failure, Timeout):
            return encode_failure(Interrupted(tool.tool.name, f"the call took longer than {failure.seconds:g} seconds"))
        if isinstance(
            failure, InvalidParameters | HandlerUnavailable | OutcomeUnknown | Refused | Denied | Interrupted
        ):
            return encode_failure(failure)
        raise self._internal_error(tool, cause)

    def _internal_error(self, tool: ServedTool, cause: Cause[Any]) -> MCPError:
        """Report a bug, and return an error without details."""
        report(self._settings, Defect(tool.tool.name, cause))
        return MCPError(INTERNAL_ERROR, f"internal error in the tool {tool.tool.name!r}. See the log of the server")


def report(settings: ToolServerSettings, defect: Defect) -> None:
    """Pass a defect to `on_defect`. If `on_defect` raises, log its exception."""
    try:
        settings.on_defect(defect)
    except BaseException as bug:
        if not is_bug(bug):
            raise
        logging.getLogger("fxai.mcp").exception("on_defect raised for a bug in %r", defect.tool)


def _progress(ctx: _Context) -> Callable[[Outcome], EffectOf[None]]:
    """Return a function that sends preliminary outcomes to a client that requested progress."""
    count = 0

    async def tell(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        with suppress(*_GONE):
            await ctx.session.report_progress(count, None, text_of(outcome.encoded_result))

    return lambda outcome: Await(lambda _: tell(outcome))


_PATIENCE: Final = 5.0  # maximum seconds to send a notification to a client
_SUBSCRIBERS: Final = 1024


@final
class _Server(Server[Any]):
    """The SDK's server. It declares in the handshake that its tools can change."""

    @override
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, JsonObject] | None = None,
        extensions: dict[str, JsonObject] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@final
class SdkServer:
    """The SDK's server with fxai's handlers, and the clients that receive notifications. Transports run `sdk`."""

    def __init__(self, settings: ToolServerSettings, exchange: Exchange, lookup: Any) -> None:
        """Answer with `exchange`. `lookup` returns the input schema of a tool by its name, or None."""
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus, max_subscriptions=_SUBSCRIBERS)
        self._sessions: dict[int, ServerSession] = {}  # by connection; only the older protocols have sessions
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
        self.sdk.add_notification_handler("notifications/initialized", NotificationParams, self._remember)

    async def _remember(self, ctx: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        connection = _Session.connection(ctx.session)
        self._sessions[id(connection)] = ctx.session
        connection.exit_stack.callback(self._sessions.pop, id(connection), None)

    @property
    def listening(self) -> int:
        """Number of clients with older protocols that receive notifications."""
        return len(self._sessions)

    async def announce(self) -> None:
        """Notify every client that the tools have changed. Do not wait for slow clients."""

        async def tell(session: ServerSession) -> None:
            with anyio.move_on_after(_PATIENCE), suppress(*_GONE):  # the client can disconnect at this moment
                await session.send_tool_list_changed()

        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for session in list(self._sessions.values()):
                group.start_soon(tell, session)

    def close(self) -> None:
        """End the subscriptions of all clients."""
        self._listeners.close()


class _Session(ServerSession):
    """A view of a session. The SDK shows the connection, which ends with the client, only to subclasses."""

    @staticmethod
    def connection(session: ServerSession) -> Connection:
        """Return the connection of a session."""
        return session._connection
