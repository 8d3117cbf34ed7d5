"""The watch on a connection. Transports use it to filter every message before the SDK creates tasks and models.

The watch drops notifications without a listener and answers without a request. It limits the server's requests, keeps
progress in order, removes single invalid tools from a list, and collects hints for failures.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, final

import anyio
import mcp_types as wire
import msgspec
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import methods
from typing_extensions import override

from fxai.effects.cancellation import is_bug
from fxai.mcp.result import McpErrorKind
from fxai.mcp.settings import McpLimits
from fxai.schema.data import JSON_ERRORS, JsonObject, is_array, is_object
from fxai.schema.surrogate import mend_json

UNREAD: Final = "Failed to parse"
"""The start of the SDK's error message for an answer that it cannot parse."""

BATCH: Final = 1_000
"""Maximum number of messages in one line."""

Trouble = tuple[McpErrorKind, str, str]
"""The reason why fxai ended a connection: the kind of failure, the event, and the remedy."""

_log = logging.getLogger("fxai.mcp")

_SHOWN: Final = 120
_RAISE: Final = "Omit the server, or raise its limits"
_PASSED: Final = ("notifications/cancelled", "notifications/subscriptions/acknowledged")

_LARGE: Final = 64 * 1024  # bytes; larger messages are read in two passes
_LIGHT: Final[JsonObject] = {"content": [], "resultType": "complete"}

# A token between two brackets, colons, or commas of JSON. It is possessive, so that no text takes longer than its
# length, and it uses no stack, so that no text is too deep.
_TOKEN: Final = re.compile(rb'\s*+("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]++)')
_TOKENS: Final = 50_000  # read from the start of a line; then only its end is read
_TAIL: Final = 512  # bytes at the end of a line that can contain an id in the last place
_FIRST: Final = re.compile(r"[ \t\r\n]*+\[[ \t\r\n]*+")
_NEXT: Final = re.compile(r"[ \t\r\n]*+(,|\])[ \t\r\n]*+")  # after an element of an array
_JSON: Final = json.JSONDecoder()
_LAST_ID: Final = re.compile(rb'"id"\s*+:\s*+(-?\d{1,20}|"[^"\\]{0,200}")\s*+\}\s*+$')


class _Response(msgspec.Struct):
    """A response with a raw result."""

    id: int | str
    result: msgspec.Raw


class _Contents(msgspec.Struct):
    """A result of a call with raw contents."""

    content: list[msgspec.Raw] | str | dict[str, msgspec.Raw] | None = None


@final
class Watch:
    """The state of one connection below the SDK."""

    def __init__(self, limits: McpLimits) -> None:
        self.limits = limits
        self.trouble: Trouble | None = None
        self.version: str
        """The protocol version. It is set after the handshake, before any list of tools."""
        self.progress: dict[str, Callable[[JsonObject], None]] = {}
        """The listeners to the progress of calls, by token."""
        self.on_changed: Callable[[], None] = lambda: None
        self.on_log: Callable[[str, Any], None] | None = None
        self.process: Callable[[], int | None] = lambda: None
        """A function that returns the exit code of the program. None while it runs, or without a program."""
        self.results: dict[str, JsonObject] = {}
        """The results of calls as the server sent them, by token. The SDK never sees their contents."""
        self.refused: dict[str, str] = {}
        """The invalid tools of the current list, by name or position, with the reason."""
        self.page: list[JsonObject] = []
        """The valid tools of the last page as the server sent them, with members that the SDK drops."""
        self.has_bad_cursor: bool = False
        """True if the cursor of the last page is not a string."""
        self.listed: int = 0
        self.is_cut = False
        """True if the connection has ended."""
        self._stderr = bytearray()
        self._noise = 0
        self._first_noise = ""
        self._unknown_members = 0
        self._asked: dict[str, wire.JSONRPCRequest] = {}  # open requests by the string of their id
        self._tokens: set[str] = set()  # progress tokens of the open requests
        self._waiting: set[str] = set()

    @property
    def stderr(self) -> str:
        """The end of the program's standard error."""
        return self._stderr.decode(errors="replace").strip()

    @property
    def hints(self) -> str:
        """Other irregularities, for the message of a failure. It can be empty."""
        odd: list[str] = []
        if self._noise:
            odd.append(f"{self._noise} lines on its output were not messages, first {self._first_noise!r}")
        if self._unknown_members:
            odd.append(f"{self._unknown_members} answers did not match a request")
        return "; ".join(odd)

    def add_stderr(self, chunk: bytes) -> None:
        """Keep the end of the program's standard error."""
        self._stderr += chunk
        del self._stderr[: -self.limits.stderr]

    def count_noise(self, line: bytes | str) -> None:
        """Count a line that is not a message."""
        self._noise += 1
        text = line.decode(errors="replace") if isinstance(line, bytes) else line
        self._first_noise = self._first_noise or text.strip()[:_SHOWN]
        if self._noise > self.limits.noise:
            remedy = "Write only messages to standard output, and logs to standard error"
            self._end("invalid-answer", "sent too many lines that are not messages", remedy)

    def unreadable(self, line: bytes, error: ValueError) -> SessionMessage | None:
        """Return an error for the request that an unreadable line answers. Otherwise count the line and return None."""
        asked = self._asked.get(answered_id(line))
        if asked is None:
            self.count_noise(line)
            return None
        report = wire.ErrorData(code=wire.PARSE_ERROR, message=f"{UNREAD} {error}")
        return SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=asked.id, error=report))

    def too_large(self, limit: int) -> None:
        """End the connection because of a message that is too large."""
        self._end("limit", f"sent a message of more than {limit} bytes", _RAISE)

    def too_many(self) -> None:
        """End the connection because of a line with too many messages."""
        self._end("limit", f"sent more than {BATCH} messages in one line", "Report this to the server's authors")

    def _end(self, kind: McpErrorKind, message: str, remedy: str) -> None:
        self.trouble = self.trouble or (kind, message, remedy)

    # -- messages

    def after_send(self, item: SessionMessage) -> None:
        """Record that a message was sent. If it is an answer, its request is no longer open."""
        if isinstance(item.message, wire.JSONRPCResponse | wire.JSONRPCError):
            self._waiting.discard(str(item.message.id))

    def before_send(self, item: SessionMessage) -> None:
        """Record a message before it is sent: a new request, or the cancellation of a request."""
        message = item.message
        if isinstance(message, wire.JSONRPCRequest):
            self._asked[str(message.id)] = message
            self._tokens.add(_token(message))
        elif isinstance(message, wire.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._asked.pop(str((message.params or {}).get("requestId")), None)

    def receive(self, item: SessionMessage | Exception) -> SessionMessage | None:
        """Return the message for the SDK, or None to drop it."""
        if isinstance(item, Exception):
            self.count_noise(str(item))
            return None
        message = item.message
        if isinstance(message, wire.JSONRPCNotification):
            return item if self._passes(message.method, message.params or {}) else None
        if isinstance(message, wire.JSONRPCRequest):
            self._waiting.add(str(message.id))
            if len(self._waiting) > self.limits.requests:
                self._end("limit", f"made more than {self.limits.requests} requests at the same time", _RAISE)
            return item
        asked = self._asked.pop(str(message.id), None)
        if asked is None:
            self._unknown_members += 1
            return None
        self._tokens.discard(_token(asked))
        if not isinstance(message, wire.JSONRPCResponse):
            return item
        if asked.method == "tools/call":
            message.result = self._without_contents(_token(asked), message.result)
        elif asked.method == "tools/list" and is_array(message.result.get("tools")):
            self.has_bad_cursor = not isinstance(message.result.get("nextCursor"), str | None)
            if self.has_bad_cursor:
                del message.result["nextCursor"]
            message.result["tools"] = self.page = self._valid_tools(message.result)
        return item

    def _passes(self, method: str, params: JsonObject) -> bool:
        if method == "notifications/progress":
            token = str(params.get("progressToken"))
            report = self.progress.get(token)
            if report is not None and token in self._tokens:
                report({key: value for key, value in params.items() if key in ("progress", "total", "message")})
        elif method == "notifications/tools/list_changed":
            self.on_changed()
        elif method == "notifications/cancelled":
            self._waiting.discard(str(params.get("requestId")))  # the SDK does not answer a cancelled request
        elif method == "notifications/message" and self.on_log is not None:
            self._log(self.on_log, params)
        return method in _PASSED

    def _log(self, on_log: Callable[[str, Any], None], params: JsonObject) -> None:
        try:
            on_log(str(params.get("level", "info")), params.get("data"))
        except BaseException as bug:  # a bug in `on_log` must not end the connection
            if not is_bug(bug):
                raise
            _log.exception("`on_log` failed")

    def lighten(self, line: bytes) -> bytes:
        """Move the contents of a call's large result to `results`, and return the line without them.

        The SDK's parser takes seconds for a result with many contents. It rejects half of a character, so U+FFFD
        replaces each half.
        """
        if b"\\ud" in line or b"\\uD" in line:
            line = mend_json(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if len(line) < _LARGE:
            return line
        try:
            message = msgspec.json.decode(line, type=_Response)
            asked = self._asked.get(str(message.id))
            if asked is None or asked.method != "tools/call":
                return line
            contents = msgspec.json.decode(message.result, type=_Contents).content
            if isinstance(contents, list) and len(contents) > self.limits.contents:
                result: JsonObject = {"content": [None] * len(contents)}
            else:
                result = msgspec.json.decode(message.result, type=JsonObject)
        except JSON_ERRORS:  # the SDK's parser reports the error
            return line
        if result.get("resultType") == "input_required":
            return line
        self.results[_token(asked)] = result
        return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "result": _LIGHT})

    def _without_contents(self, token: str, result: JsonObject) -> JsonObject:
        """Return the form of a call's result for the SDK. It has at most one question more than the limit."""
        questions = result.get("inputRequests")
        if result.get("resultType") == "input_required":
            if is_object(questions):
                return {**result, "inputRequests": dict(islice(questions.items(), self.limits.requests + 1))}
            return result
        self.results.setdefault(token, result)
        return dict(_LIGHT)

    def _valid_tools(self, page: JsonObject) -> list[Any]:
        """Return the valid tools of a page, and record the invalid ones. Check at most one tool more than the limit."""
        tools: list[Any] = page["tools"]
        # check large members of a page once, with the page, and not again with each tool
        small = {key: value for key, value in page.items() if isinstance(value, str | int | float | bool | None)}
        space = self.limits.tools + 1 - self.listed
        kept: list[Any] = []
        for index, tool in enumerate(tools[: max(space, 0)], self.listed):
            try:
                wire.Tool.model_validate(tool, by_name=False)
                methods.validate_server_result("tools/list", self.version, {**small, "tools": [tool]})
            except ValueError as error:
                name = tool.get("name") if is_object(tool) else None
                reason = f"the protocol does not allow this tool: {brief(error)}"
                self.refused[name if isinstance(name, str) else f"(number {index + 1})"] = reason
            else:
                kept.append(tool)
        self.listed += len(tools)
        return kept


def _token(request: wire.JSONRPCRequest) -> str:
    meta = (request.params or {}).get("_meta")
    return str(meta.get("progressToken")) if is_object(meta) else ""


def parts_of(line: bytes) -> list[bytes]:
    """Return the messages of a line: the messages of a batch (protocol 2025-03-26), or the line itself.

    From a batch of more than `BATCH` messages, return one message more than `BATCH`.
    """
    text = line.decode(errors="surrogateescape")
    after = _FIRST.match(text)
    found: list[bytes] = []
    while after is not None and len(found) <= BATCH:
        try:
            _, end = _JSON.raw_decode(text, after.end())
        except (ValueError, RecursionError):
            return [line]
        found.append(text[after.end() : end].encode(errors="surrogateescape"))
        after = _NEXT.match(text, end)
        if after is not None and after[1] == "]":
            return found if after.end() == len(text) else [line]
    return found if len(found) > BATCH else [line]


def answered_id(line: bytes) -> str:
    """Return the id of an answer as a string, from the readable part of a line. Return "" if it is not an answer.

    The id is the member `id` of the line's object, if the object has no `method`. The rest of the line can be invalid.
    >>> answered_id(b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "content": [{"ty'), answered_id(b'{"method": "x"')
    ('7', '')
    """
    depth, end, name, last = 0, 0, b"", b""
    members: dict[bytes, bytes] = {}
    for count, token in enumerate(_TOKEN.finditer(line)):
        if token.start() != end or count == _TOKENS:  # an unterminated string, or a very long line
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
    message = members.get(b'"id"') or (found[1] if found else b"")
    return message.strip(b'"').removesuffix(b".0").decode(errors="replace")


def brief(error: Exception) -> str:
    """Return the first error of a validation error, in one line."""
    found: Any = getattr(error, "errors", None)
    if not callable(found):
        return str(error)[:_SHOWN]
    faults: Any = found()
    first = faults[0]
    location = "/".join(str(part) for part in first["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{location}: {first['msg']}{more}"[: _SHOWN * 2]


def watch_streams(streams: tuple[Any, Any], watch: Watch) -> tuple[Any, Any]:
    """Return the streams of a transport with the watch on both."""
    reading, writing = streams
    return _ReadStream(reading, watch), _WriteStream(writing, watch)


@final
class _ReadStream(ObjectReceiveStream[SessionMessage]):
    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

    @override
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


@final
class _WriteStream(ObjectSendStream[SessionMessage]):
    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

    @override
    async def send(self, item: SessionMessage) -> None:
        self._watch.before_send(item)
        await self._inner.send(item)
        self._watch.after_send(item)
