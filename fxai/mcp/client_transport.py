"""The transports of a client, with limits: streamable HTTP for servers at a URL, standard streams for programs.

The SDK's transport ends the whole connection if one request fails in the network, and drops HTTP statuses. A layer
below the SDK converts both to a JSON-RPC error of the one request. The SDK's transport over standard streams has no
limit for lines, and leaves some processes running, so fxai has its own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, final

import anyio
import httpx2
import mcp_types as wire
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from typing_extensions import override

from fxai.effects.cancellation import cancelled_once, shield
from fxai.effects.process import GONE, ChildProcess, Lines
from fxai.mcp.settings import Address, HeaderError, ServerProgram
from fxai.mcp.watch import BATCH, Watch, parts_of
from fxai.schema.data import JSON_ERRORS, is_object

# error codes of fxai, from the range for implementations
NETWORK: Final = -32010
HTTP_STATUS: Final = -32011  # the status is the `data` of the error
TOO_LARGE: Final = -32012  # the answer exceeds the limit
NO_ANSWER: Final = -32013  # the body does not answer its request
SESSION_GONE: Final = -32014  # the server forgot the session, and the status is the `data` of the error
BAD_HEADER: Final = -32015  # fxai cannot read or send a header

_REFUSED_STATUSES: Final = (401, 403, 407, 429)
_REFUSAL: Final = 400  # for such a status, the SDK reads an error without an id as the answer to its request


_OWN_ERRORS: Final = (-32601, -32602)  # unknown method and invalid parameters, which servers also send with 404
_SESSION: Final = re.compile(r"\bsession\b", re.IGNORECASE)
_GONE: Final = re.compile(
    r"not found|no valid|invalid|expired|unknown|terminated|closed|not exist|no longer|ended", re.IGNORECASE
)
_OWN_FIELDS: Final = ("accept", "content-type", "content-length", "transfer-encoding", "last-event-id")

_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE: Final = re.compile(rb"\r\n|\n|\r")
_OVERLAP: Final = 3  # bytes of an end that the next piece can complete


class _Message(msgspec.Struct):
    """The members of a JSON-RPC message that identify the answered request."""

    id: int | str | None = None
    method: str | None = None
    error: Any = None

    @property
    def code(self) -> Any:
        """The code of the error, or None."""
        return self.error.get("code") if is_object(self.error) else None

    @property
    def forgets(self) -> bool:
        """True if the message is an error about an unknown session."""
        message = str(self.error.get("message")) if is_object(self.error) else ""
        return bool(_SESSION.search(message) and _GONE.search(message))


@asynccontextmanager
async def address_transport(address: Address, watch: Watch, timeout: float) -> AsyncGenerator[tuple[Any, Any], None]:
    """Open the streams of a server at a URL for the SDK.

    Connecting and sending take at most `timeout` seconds each.

    Raises:
        HeaderError: If a header is invalid.
    """
    # no read timeout, because each call has its own timeout
    waits = httpx2.Timeout(timeout, read=None)
    most = watch.limits.message_bytes
    _ = address.fields  # report an invalid header before any request
    async with (
        httpx2.AsyncClient(timeout=waits) as plain,
        httpx2.AsyncClient(timeout=waits, transport=_Bounded(plain, address, watch)) as client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams[0], streams[1]


@final
class _Bounded(httpx2.AsyncBaseTransport):
    """A transport that sends through a client with proxies and certificates. It converts failures to errors."""

    def __init__(self, client: httpx2.AsyncClient, address: Address, watch: Watch) -> None:
        self._client = client
        self._address = address
        self._watch = watch
        self._limit = watch.limits.message_bytes
        self._is_forgotten = False

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE" and self._is_forgotten:
            return httpx2.Response(204, request=request)  # the server has no session to delete
        return await cancelled_once(self._answer(request))

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._send(request)
        except HeaderError as error:
            return _error_response(request, BAD_HEADER, str(error))
        except httpx2.TransportError as error:
            return _error_response(request, NETWORK, f"{type(error).__name__}: {error}".removesuffix(": "))
        if request.method == "POST" and "mcp-session-id" in request.headers and response.status_code in (400, 404, 410):
            return await self._in_session(response)
        if response.status_code in _REFUSED_STATUSES or response.status_code >= 500:
            body = await self._read(response)
            if body is not None and b'"jsonrpc"' in body:
                return _with_body(response, body)
            return _error_response(request, HTTP_STATUS, _status_of(response), response.status_code)
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            headers = _headers_of(response)
            return httpx2.Response(
                response.status_code, headers=headers, stream=_Raw(response, self._watch), request=request
            )
        body = await self._read(response)
        if body is None:
            return _error_response(response.request, TOO_LARGE, f"sent an answer of more than {self._limit} bytes")
        stray = _stray(response.request, body) if response.status_code == 200 else None
        if stray is None:
            return _with_body(response, self._watch.lighten(body))
        if stray.id is not None or stray.error is None:
            return _error_response(response.request, NO_ANSWER, "sent a message that does not answer the request")
        return _with_body(response, body, _REFUSAL)  # an error without a request id belongs to this request

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with the current secrets. If the server refuses a secret that has changed, send it again.

        Raise `HeaderError` if fxai cannot read or send a secret.
        """
        fields = self._address.fields
        _set_fields(request, fields)
        response = await self._client.send(request, stream=True, follow_redirects=False)
        if response.status_code != 401:
            return response
        newer = self._address.fields
        if newer == fields:
            return response
        await response.aclose()
        _set_fields(request, newer)
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def _in_session(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response to a request that the server refused, perhaps because it forgot the session."""
        body = await self._read(response) or b""
        found = _message(body)
        forgets = found is not None and found.forgets
        if response.status_code == 404 and not forgets:
            asked = _message(response.request.content)
            names_it = found is not None and asked is not None and found.id == asked.id
            forgets = not (found is not None and names_it and (found.error is None or found.code in _OWN_ERRORS))
        if not forgets:
            return _with_body(response, body)
        self._is_forgotten = True
        return _error_response(response.request, SESSION_GONE, _status_of(response), response.status_code)

    async def _read(self, response: httpx2.Response) -> bytes | None:
        """Return the received part of the body, or None if it exceeds the limit."""
        body = bytearray()
        with suppress(httpx2.TransportError, httpx2.DecodingError):
            async with aclosing(response.aiter_bytes()) as pieces:  # closing the pieces closes the response
                async for chunk in pieces:
                    body += chunk
                    if len(body) > self._limit:
                        return None
        return bytes(body)


@final
class EventFilter:
    r"""A filter on a stream of events that can replace the data of whole events.

    >>> events = EventFilter(lambda data: b"short" if len(data) > 5 else data, 100)
    >>> events.feed(b"data: 1\n\nid: 7\ndata: 123"), events.feed(b"456\n\nda"), events.rest()
    (b'data: 1\n\n', b'id: 7\ndata: short\n\n', b'da')
    """

    def __init__(self, change: Callable[[bytes], bytes], most: int) -> None:
        """Create a filter.

        Args:
            change: Function that returns new data for the data of an event.
            most: Maximum number of stored bytes. A larger event passes unchanged.
        """
        self._change = change
        self._most = most
        self._kept = bytearray()
        self._searched = 0

    def feed(self, piece: bytes) -> bytes:
        """Return the changed events that are complete now."""
        self._kept += piece
        passed: list[bytes] = []
        while (found := _END.search(self._kept, self._searched)) is not None:
            passed.append(self._change_event(bytes(self._kept[: found.end()])))
            del self._kept[: found.end()]
            self._searched = 0
        self._searched = max(len(self._kept) - _OVERLAP, 0)
        if len(self._kept) > self._most:
            passed.append(self.rest())
        return b"".join(passed)

    def rest(self) -> bytes:
        """Return the bytes of the incomplete event."""
        rest = bytes(self._kept)
        self._kept.clear()
        self._searched = 0
        return rest

    def _change_event(self, event: bytes) -> bytes:
        lines = _LINE.split(event)
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        changed = self._change(data)
        if changed is data:
            return event
        others = [line for line in lines if line and not line.startswith(b"data:")]
        return b"\n".join([*others, b"data: " + changed, b"", b""])


@final
class _Raw(httpx2.AsyncByteStream):
    """The decoded bytes of a response, in whole events, with lightened data.

    It is an iterator and not a generator, because the SDK stops reading in the middle and closes only this object.
    """

    def __init__(self, response: httpx2.Response, watch: Watch) -> None:
        self._response = response
        self._pieces = response.aiter_bytes()
        self._events = EventFilter(watch.lighten, watch.limits.message_bytes)

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while (piece := await anext(self._pieces, None)) is not None:
            if passed := self._events.feed(piece):
                return passed
        if rest := self._events.rest():
            return rest
        raise StopAsyncIteration

    @override
    async def aclose(self) -> None:
        await shield(self._close())

    async def _close(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            await self._response.aclose()  # if nothing was read, closing the pieces does not close the response


def _stray(request: httpx2.Request, body: bytes) -> _Message | None:
    """Return the message of a body that does not answer the request. Return None if it may answer or is unreadable."""
    asked, found = _message(request.content), _message(body)
    if asked is None or found is None:
        return None
    return None if found.method is None and found.id == asked.id else found


def _message(body: bytes) -> _Message | None:
    try:
        return msgspec.json.decode(body, type=_Message)
    except JSON_ERRORS:
        return None


def _with_body(response: httpx2.Response, body: bytes, status: int | None = None) -> httpx2.Response:
    code = response.status_code if status is None else status
    return httpx2.Response(code, headers=_headers_of(response), content=body, request=response.request)


def _status_of(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()


def _set_fields(request: httpx2.Request, fields: dict[str, str]) -> None:
    """Set the headers of the user, except the headers of the protocol."""
    for name, value in fields.items():
        is_own = name.lower() in _OWN_FIELDS or name.lower().startswith("mcp-")
        if not is_own or name not in request.headers:
            request.headers[name] = value


def _headers_of(response: httpx2.Response) -> list[tuple[str, str]]:
    gone = ("content-encoding", "content-length", "transfer-encoding")  # the body is already decoded
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in gone]


def _error_response(request: httpx2.Request, code: int, message: str, data: Any = None) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message, "data": data}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(503, headers=headers, content=msgspec.json.encode(error), request=request)


_FLUSH: Final = 0.5  # seconds to write accepted messages before the input closes

_Incoming = SessionMessage | Exception


@asynccontextmanager
async def program_transport(program: ServerProgram, watch: Watch) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start a program and open its streams for the SDK. At the end of the block, end the program.

    Raise `OSError` if the program does not start.
    """
    env = get_default_environment() | program.env.reveal()
    command = (program.command, *program.args)
    process = await ChildProcess.start(command, cwd=program.cwd, env=env, grace=program.grace)
    send, incoming = anyio.create_memory_object_stream[_Incoming]()
    outgoing, receive = anyio.create_memory_object_stream[SessionMessage]()
    running = _Running(process, watch, send, receive)
    watch.process = lambda: process.exit_code
    try:
        async with anyio.create_task_group() as tasks:
            for task in (running.read, running.write, running.listen):
                tasks.start_soon(task)
            try:
                yield incoming, outgoing
            finally:
                incoming.close()
                outgoing.close()
                try:
                    await shield(running.end())
                finally:
                    tasks.cancel_scope.cancel()
    finally:
        for stream in (send, incoming, outgoing, receive):
            stream.close()


@final
class _Running(msgspec.Struct, eq=False):
    """A running program with three tasks on its pipes."""

    process: ChildProcess
    watch: Watch
    to_sdk: MemoryObjectSendStream[_Incoming]
    from_sdk: MemoryObjectReceiveStream[SessionMessage]
    written: anyio.Event = msgspec.field(default_factory=anyio.Event)

    async def read(self) -> None:
        """Read one message per line from standard output until it ends or breaks a limit. Then discard the output."""
        lines = Lines(self.watch.limits.message_bytes)
        with suppress(*GONE):
            async with self.to_sdk:
                with suppress(*GONE):
                    while self.watch.trouble is None:
                        for line in lines.feed(await self.process.stdout.receive()):
                            await self._deliver(line)
                        if lines.is_long:
                            self.watch.too_large(self.watch.limits.message_bytes)
            while True:
                await self.process.stdout.receive()

    async def _deliver(self, line: bytes | None) -> None:
        if line is None:
            self.watch.too_large(self.watch.limits.message_bytes)
            return
        parts = parts_of(line) if line.strip() and self.watch.trouble is None else []
        if len(parts) > BATCH:
            self.watch.too_many()
        for one in parts:
            if self.watch.trouble is not None:
                return
            try:
                message = wire.jsonrpc_message_adapter.validate_json(self.watch.lighten(one))
            except ValueError as error:
                unread = self.watch.unreadable(one, error)
                if unread is not None:
                    await self.to_sdk.send(unread)
            else:
                await self.to_sdk.send(SessionMessage(message))

    async def write(self) -> None:
        """Write outgoing messages to standard input."""
        try:
            async for item in self.from_sdk:
                text = item.message.model_dump_json(exclude_unset=True)
                await self.process.stdin.send(text.encode() + b"\n")
        except GONE:
            self.to_sdk.close()  # reports the end immediately
        finally:
            self.written.set()

    async def listen(self) -> None:
        """Keep the end of standard error."""
        with suppress(*GONE):
            while True:
                self.watch.add_stderr(await self.process.stderr.receive())

    async def end(self) -> None:
        """End the program and its child processes after the accepted messages are written."""
        with anyio.move_on_after(_FLUSH):
            await self.written.wait()
        await self.process.end()
