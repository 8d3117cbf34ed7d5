"""The watch on a connection: it filters every message before the SDK makes tasks and models of it.

It drops notifications without a listener and answers without a request, limits the requests of the server, keeps
progress in order, drops single invalid tools of a listing, and collects hints for failures.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, final

import anyio
import mcp_types as wire
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import methods

from fxai.effects.cancellation import is_bug
from fxai.mcp.result import McpErrorKind
from fxai.mcp.settings import McpLimits
from fxai.schema.data import JSON_ERRORS, is_array, is_object

UNREAD: Final = "Failed to parse"
"""The beginning of the message of an error for an answer that cannot be parsed, as in the SDK."""

BATCH: Final = 1_000
"""The messages that one line may hold."""

Trouble = tuple[McpErrorKind, str, str]
"""Why we ended a connection: the kind of failure, what happened and what to do."""

_log = logging.getLogger("fxai.mcp")

_SHOWN: Final = 120
_RAISE: Final = "leave the server out, or raise its limits"
_PASSED: Final = ("notifications/cancelled", "notifications/subscriptions/acknowledged")

_LARGE: Final = 64 * 1024  # bytes of a message from which on it is read in two passes
_LIGHT: Final[dict[str, Any]] = {"content": [], "resultType": "complete"}

# What stands between two brackets, colons or commas of a JSON text; possessive, so that no text takes longer than its
# length, and without a stack, so that none is too deep.
_TOKEN: Final = re.compile(rb'\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]++)')
_TOKENS: Final = 50_000  # that are looked at from the beginning of a line, before its end is
_TAIL: Final = 512  # bytes of a line, in which an id stands that comes last
_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_JSON: Final = json.JSONDecoder()
_LAST_ID: Final = re.compile(rb'"id"\s*+:\s*+(-?\d{1,20}|"[^"\\]{0,200}")\s*+\}\s*+$')


class _Response(msgspec.Struct):
    """A response, with its result unread."""

    id: int | str
    result: msgspec.Raw


class _Contents(msgspec.Struct):
    """A result of a call, with its contents unread."""

    content: list[msgspec.Raw] | str | dict[str, msgspec.Raw] | None = None


@final
class Watch:
    """The state of one connection on the wire."""

    def __init__(self, limits: McpLimits) -> None:
        self.limits = limits
        self.trouble: Trouble | None = None
        self.version: str
        """The protocol version, there when the handshake is over: before any tools are listed."""
        self.progress: dict[str, Callable[[dict[str, Any]], None]] = {}
        """The listeners to the progress of calls, by token."""
        self.on_changed: Callable[[], None] = lambda: None
        self.on_log: Callable[[str, Any], None] | None = None
        self.process: Callable[[], int | None] = lambda: None
        """The exit code of the program, None while it runs or where there is none."""
        self.results: dict[str, dict[str, Any]] = {}
        """The results of calls as the server sent them, by token. The SDK sees none of their contents."""
        self.refused: dict[str, str] = {}
        """The invalid tools of the listing that is being read, by name or place, with the reason."""
        self.page: list[dict[str, Any]] = []
        """The valid tools of the last page as the server sent them, with the members that the SDK drops."""
        self.listed: int = 0
        self.is_cut = False
        """Whether the connection has ended."""
        self._stderr = bytearray()
        self._noise = 0
        self._first_noise = ""
        self._strangers = 0
        self._asked: dict[str, wire.JSONRPCRequest] = {}  # our open requests, by the texts of their ids
        self._tokens: set[str] = set()  # of their progress, which ends with the answer
        self._waiting: set[str] = set()

    @property
    def stderr(self) -> str:
        """The end of the program's standard error, as text."""
        return self._stderr.decode(errors="replace").strip()

    @property
    def hints(self) -> str:
        """What else was odd, for the message of a failure; may be empty."""
        odd: list[str] = []
        if self._noise:
            odd.append(f"{self._noise} lines on its output were no messages, first {self._first_noise!r}")
        if self._strangers:
            odd.append(f"{self._strangers} answers were to requests that nobody made")
        return "; ".join(odd)

    def add_stderr(self, chunk: bytes) -> None:
        """Keeps the end of the program's standard error."""
        self._stderr += chunk
        del self._stderr[: -self.limits.stderr]

    def count_noise(self, line: bytes | str) -> None:
        """Counts a line that is no message."""
        self._noise += 1
        text = line.decode(errors="replace") if isinstance(line, bytes) else line
        self._first_noise = self._first_noise or text.strip()[:_SHOWN]
        if self._noise > self.limits.noise:
            remedy = "its standard output must hold nothing but messages; logs belong on its standard error"
            self._end("invalid-answer", "it answers garbage", remedy)

    def unreadable(self, line: bytes, error: ValueError) -> SessionMessage | None:
        """An error for our request where a line is its answer, cut off, too deep or no text; else None."""
        asked = self._asked.get(answered_id(line))
        if asked is None:
            self.count_noise(line)
            return None
        told = wire.ErrorData(code=wire.PARSE_ERROR, message=f"{UNREAD} {error}")
        return SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=asked.id, error=told))

    def too_large(self, limit: int) -> None:
        """Ends the connection over a message that is too large."""
        self._end("limit", f"it sent a message of more than {limit} bytes", _RAISE)

    def too_many(self) -> None:
        """Ends the connection over a line of too many messages."""
        self._end("limit", f"it sent more than {BATCH} messages in one line", "tell its makers")

    def _end(self, kind: McpErrorKind, said: str, remedy: str) -> None:
        self.trouble = self.trouble or (kind, said, remedy)

    # -- messages

    def after_send(self, item: SessionMessage) -> None:
        """Notes that a message was sent: the request that it answers is no longer open."""
        if isinstance(item.message, wire.JSONRPCResponse | wire.JSONRPCError):
            self._waiting.discard(str(item.message.id))

    def before_send(self, item: SessionMessage) -> None:
        """Notes a message that is about to be sent: a new request, or that one is cancelled."""
        message = item.message
        if isinstance(message, wire.JSONRPCRequest):
            self._asked[str(message.id)] = message
            self._tokens.add(_token(message))
        elif isinstance(message, wire.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._asked.pop(str((message.params or {}).get("requestId")), None)

    def receive(self, item: SessionMessage | Exception) -> SessionMessage | None:
        """The message for the SDK, or None where it is dropped."""
        if isinstance(item, Exception):
            self.count_noise(str(item))
            return None
        message = item.message
        if isinstance(message, wire.JSONRPCNotification):
            return item if self._passes(message.method, message.params or {}) else None
        if isinstance(message, wire.JSONRPCRequest):
            self._waiting.add(str(message.id))
            if len(self._waiting) > self.limits.requests:
                self._end("limit", f"it made more than {self.limits.requests} requests at once", _RAISE)
            return item
        return self._answer(item, message)

    def _passes(self, method: str, params: dict[str, Any]) -> bool:
        if method == "notifications/progress":
            token = str(params.get("progressToken"))
            told = self.progress.get(token)
            if told is not None and token in self._tokens:
                told({key: value for key, value in params.items() if key in ("progress", "total", "message")})
        elif method == "notifications/tools/list_changed":
            self.on_changed()
        elif method == "notifications/cancelled":
            self._waiting.discard(str(params.get("requestId")))  # the SDK does not answer what was cancelled
        elif method == "notifications/message" and self.on_log is not None:
            self._log(self.on_log, params)
        return method in _PASSED

    def _log(self, on_log: Callable[[str, Any], None], params: dict[str, Any]) -> None:
        try:
            on_log(str(params.get("level", "info")), params.get("data"))
        except BaseException as bug:  # a bug in `on_log` must not end the connection
            if not is_bug(bug):
                raise
            _log.exception("`on_log` failed")

    def _answer(self, item: SessionMessage, message: wire.JSONRPCResponse | wire.JSONRPCError) -> SessionMessage | None:
        asked = self._asked.pop(str(message.id), None)
        if asked is None:
            self._strangers += 1
            return None
        self._tokens.discard(_token(asked))
        if not isinstance(message, wire.JSONRPCResponse):
            return item
        if asked.method == "tools/call":
            message.result = self._without_contents(_token(asked), message.result)
        elif asked.method == "tools/list" and is_array(message.result.get("tools")):
            message.result["tools"] = self.page = self._valid_tools(message.result)
        return item

    def lighten(self, line: bytes) -> bytes:
        """Take the contents out of a large result of a call, and put them in `results`.

        The SDK's parser takes seconds for a result of many contents.
        """
        if len(line) < _LARGE:
            return line
        try:
            said = msgspec.json.decode(line, type=_Response)
            asked = self._asked.get(str(said.id))
            if asked is None or asked.method != "tools/call":
                return line
            contents = msgspec.json.decode(said.result, type=_Contents).content
            if isinstance(contents, list) and len(contents) > self.limits.contents:
                result: dict[str, Any] = {"content": [None] * len(contents)}
            else:
                result = msgspec.json.decode(said.result, type=dict[str, Any])
        except JSON_ERRORS:  # the SDK's parser reports it
            return line
        if result.get("resultType") == "input_required":
            return line
        self.results[_token(asked)] = result
        return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "result": _LIGHT})

    def _without_contents(self, token: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the form of a call's result for the SDK. One question more than the limit stays."""
        questions = result.get("inputRequests")
        if result.get("resultType") == "input_required":
            if is_object(questions):
                return {**result, "inputRequests": dict(islice(questions.items(), self.limits.requests + 1))}
            return result
        self.results.setdefault(token, result)
        return dict(_LIGHT)

    def _valid_tools(self, page: dict[str, Any]) -> list[Any]:
        """The valid tools of a page; the others are noted. No more than the limit are checked."""
        tools: list[Any] = page["tools"]
        # Large members of a page are checked once, with the page, and not with each of its tools.
        small = {key: value for key, value in page.items() if isinstance(value, str | int | float | bool | None)}
        room = self.limits.tools + 1 - self.listed
        kept: list[Any] = []
        for place, tool in enumerate(tools[: max(room, 0)], self.listed):
            reason = self._fault(small, tool)
            if reason is None:
                kept.append(tool)
            else:
                name = tool.get("name") if is_object(tool) else None
                self.refused[name if isinstance(name, str) else f"(number {place + 1})"] = reason
        self.listed += len(tools)
        return kept

    def _fault(self, page: dict[str, Any], tool: Any) -> str | None:
        try:
            wire.Tool.model_validate(tool, by_name=False)
            methods.validate_server_result("tools/list", self.version, {**page, "tools": [tool]})
        except ValueError as error:
            return f"the protocol allows no such tool: {brief(error)}"
        return None


def _token(request: wire.JSONRPCRequest) -> str:
    meta = (request.params or {}).get("_meta")
    return str(meta.get("progressToken")) if is_object(meta) else ""


def parts_of(line: bytes) -> list[bytes]:
    """The messages of a line: those of a batch, which protocol 2025-03-26 has, else the line itself.

    Of a batch of more than `BATCH`, one more is read.
    """
    if not line.lstrip().startswith(b"["):
        return [line]
    try:
        return [part.encode(errors="surrogateescape") for part in _elements(line.decode(errors="surrogateescape"))]
    except (ValueError, IndexError, RecursionError):
        return [line]


def _elements(text: str) -> list[str]:
    """The texts of the elements of a JSON array that is not empty, `BATCH` and one more at most.

    Raises `ValueError`: it is none; so do `IndexError` where it ends too early, and `RecursionError` where it is too
    deep.
    """
    place = text.index("[") + 1
    found: list[str] = []
    while len(found) <= BATCH:
        begin = _space_end(text, place)
        _, end = _JSON.raw_decode(text, begin)
        found.append(text[begin:end])
        place = _space_end(text, end) + 1
        if text[place - 1] == "]" and _space_end(text, place) == len(text):
            break
        if text[place - 1] != ",":
            raise ValueError("it is no array")
    return found


def _space_end(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def answered_id(line: bytes) -> str:
    """The text of the id of an answer, as far as a line can be read; empty where it is none.

    It is the member `id` of the object that the line is, which has no `method`; whatever else is wrong with it.

    >>> answered_id(b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "content": [{"ty'), answered_id(b'{"method": "x"')
    ('7', '')
    """
    depth, end, name, last = 0, 0, b"", b""
    members: dict[bytes, bytes] = {}
    for count, token in enumerate(_TOKEN.finditer(line)):
        if token.start() != end or count == _TOKENS:  # a text that does not end, or a line that goes on and on
            break
        text, end = token[1], token.end()
        if depth == 1 and text == b":":
            name = last
        elif depth == 1 and text not in b",[]{}":
            members[name] = text
        elif depth == 1 and text == b",":
            name = b""
        depth += (text in b"[{") - (text in b"]}")
        last = text
    if b'"method"' in members:
        return ""
    found = _LAST_ID.search(line[-_TAIL:])
    said = members.get(b'"id"') or (found[1] if found else b"")
    return said.strip(b'"').removesuffix(b".0").decode(errors="replace")


def brief(error: Exception) -> str:
    """The first fault of a validation error, in one line."""
    found: Any = getattr(error, "errors", None)
    if not callable(found):
        return str(error)[:_SHOWN]
    faults: Any = found()
    first = faults[0]
    place = "/".join(str(part) for part in first["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {first['msg']}{more}"[: _SHOWN * 2]


def watch_streams(streams: tuple[Any, Any], watch: Watch) -> tuple[Any, Any]:
    """The streams of a transport with the watch on both."""
    reading, writing = streams
    return _Reading(reading, watch), _Writing(writing, watch)


class _Stream:
    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._inner.aclose()


@final
class _Reading(_Stream):
    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage:
        while True:
            try:
                item = await self._inner.receive()
            except anyio.EndOfStream:
                self._watch.is_cut = True
                raise
            kept = self._watch.receive(item)
            if self._watch.trouble is not None:
                raise anyio.EndOfStream
            if kept is not None:
                return kept

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


@final
class _Writing(_Stream):
    async def send(self, item: SessionMessage) -> None:
        self._watch.before_send(item)
        await self._inner.send(item)
        self._watch.after_send(item)
