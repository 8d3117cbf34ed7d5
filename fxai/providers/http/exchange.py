"""One attempt: a request sent, its answer checked and read. What fails is raised; `Line.to_error` makes it a value."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from anyio import CancelScope, move_on_after

from fxai.messages.errors import AiError
from fxai.messages.reason import AuthenticationError, InvalidOutputError, NetworkError, Reason
from fxai.messages.status import reason_of_status
from fxai.providers.http.event import Event, EventReader
from fxai.providers.http.fault import (
    BrokenAnswerError,
    hidden,
    reason_of_fault,
    unexpected_redirect,
    unexpected_type,
)
from fxai.providers.http.secret import Secret
from fxai.providers.http.timeout import Timeout

if TYPE_CHECKING:
    import httpx2

__all__ = ["Answer", "Call", "Line", "Reading"]

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_LARGEST: Final = 512 * 2**20  # bytes of an answer, and of an error's body below
_LARGEST_ERROR: Final = 2**20
_PATIENCE: Final = 10.0  # seconds that the body of an error may take
_BUFFERED: Final = 16_384  # pieces that may have been received and not read yet: 64 KiB in chunks of a byte
_KEYS: Final = frozenset({"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"})
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e]*")  # RFC 9110, section 5.5, without its obsolete bytes


@final
class Answer(msgspec.Struct, frozen=True):
    """A whole answer: its status, below 300; its headers, named in lower case, as they came; its body, decompressed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case; None where there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


@final
class Call(msgspec.Struct, frozen=True):
    """What is asked: the HTTP verb, the path, the body, headers of its own, the type of answer, who errors name."""

    verb: str
    path: str
    body: bytes
    headers: Mapping[str, str | Secret]
    accept: str
    method: str


@final
class Line:
    """A pool of connections to one address, with what each request carries."""

    def __init__(
        self,
        pool: httpx2.AsyncClient,
        base: httpx2.URL,
        headers: Mapping[str, str | Secret],
        timeout: Timeout,
        module: str,
    ) -> None:
        self._pool = pool
        self._base = base
        self._headers = dict(headers)
        self.timeout = timeout
        self.module = module

    async def close(self) -> None:
        """Closes the pool and every connection of it."""
        await self._pool.aclose()

    async def whole(self, call: Call) -> Answer:
        """The whole answer."""
        response = await self.begin(call)
        body: list[bytes] = []
        try:
            whole = await _read(response, _LARGEST, body)
        finally:
            await response.aclose()
        if not whole:
            raise BrokenAnswerError(InvalidOutputError(f"the answer is larger than {_LARGEST} bytes"))
        headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
        return Answer(response.status_code, headers, b"".join(body))

    async def begin(self, call: Call) -> httpx2.Response:
        """The answer, whose status and type are right and whose body is still to be read; the caller closes it."""
        url = self.url(call)
        request = self._pool.build_request(
            call.verb, url, headers=self._fields(call), content=call.body if call.verb == "POST" else None
        )
        response = await self._pool.send(request, stream=True)
        try:
            await self._check(response, call)
        except BaseException:
            await response.aclose()
            raise
        return response

    def url(self, call: Call) -> httpx2.URL:
        """Where a call goes: its path behind the base's, its query behind the base's."""
        path, _, query = call.path.partition("?")
        before, _, given = self._base.raw_path.partition(b"?")
        joined = before.rstrip(b"/") + (b"/" + path.lstrip("/").encode() if path else b"")
        asked = b"&".join(part for part in (given, query.encode()) if part)
        return self._base.copy_with(raw_path=(joined or b"/") + (b"?" + asked if asked else b""))

    def to_error(self, error: Exception, call: Call) -> AiError | None:
        """The typed failure of an exception, with no secret in it; None for a defect."""
        reason = reason_of_fault(error, self._base, self.timeout)
        return None if reason is None else AiError(self.module, call.method, self._redacted(reason, call))

    def _redacted(self, reason: Reason, call: Call) -> Reason:
        texts = {name: text for name in reason.__struct_fields__ if isinstance(text := getattr(reason, name), str)}
        secrets = self._secrets(call)
        return msgspec.structs.replace(reason, **{name: hidden(text, secrets) for name, text in texts.items()})

    def _secrets(self, call: Call) -> list[str]:
        given = [*self._headers.items(), *call.headers.items()]
        whole = [
            value.reveal() if isinstance(value, Secret) else value
            for name, value in given
            if isinstance(value, Secret) or name.lower() in _KEYS
        ]
        parts = [text.split()[-1] for text in whole if text.split()]  # without the scheme: "Bearer …"
        return sorted({text for text in (*whole, *parts) if text}, key=len, reverse=True)

    def _fields(self, call: Call) -> dict[str, str]:
        kind = {"content-type": JSON} if call.verb == "POST" else {}
        given = {"accept": call.accept, "user-agent": "fxai", **kind}
        given |= _lowered(self._headers) | _lowered(call.headers)
        return {name: _field(name, value) for name, value in given.items()}

    async def _check(self, response: httpx2.Response, call: Call) -> None:
        status = response.status_code
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status < 300 and (not kind or _fits(call.accept, kind)):
            return
        if 300 <= status < 400:
            raise BrokenAnswerError(unexpected_redirect(response))
        read: list[bytes] = []
        with suppress(Exception), move_on_after(_PATIENCE):  # a status says enough, whatever becomes of its words
            await _read(response, _LARGEST_ERROR, read)
        body = hidden(b"".join(read).decode("utf-8", "replace"), self._secrets(call)).encode()
        if status >= 400:
            raise BrokenAnswerError(reason_of_status(status, body, dict(response.headers)))
        raise BrokenAnswerError(unexpected_type(call.accept, kind, body))


@final
class Reading:
    """One reading of a stream of events: `begin` may be tried again, `next` may not."""

    def __init__(self, line: Line, call: Call) -> None:
        self._line = line
        self._call = call
        self._response: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes, None] | None = None
        self._reader: EventReader
        self.ready: deque[Event] = deque()
        self.deadline: float | None = None

    async def begin(self) -> None:
        """Asks, and waits for the first event; an attempt before this one is closed."""
        await self.close()
        self._reader = EventReader()
        self._response = await self._line.begin(self._call)
        self._pieces = self._response.aiter_bytes()
        await self._fill()
        if not self.ready:
            raise BrokenAnswerError(InvalidOutputError("the stream ended before its first event"))

    async def next(self) -> Event | None:
        """The next event, or None at the end."""
        await self._fill()
        return self.ready.popleft() if self.ready else None

    async def close(self) -> None:
        """Closes the connection, unless the answer was read to its end: then it goes back to the pool."""
        pieces, self._pieces = self._pieces, None
        response, self._response = self._response, None
        try:
            if pieces is not None:
                await _leave(pieces)
        finally:
            if response is not None:
                await response.aclose()

    async def _fill(self) -> None:
        while not self.ready:
            fault = self._reader.fault
            if fault is None:
                piece = None if self._pieces is None else await anext(self._pieces, None)
                if piece is not None:
                    self.ready.extend(self._reader.feed(piece))
                    continue
                fault = self._reader.end()
            if fault is not None:
                raise BrokenAnswerError(fault)
            return


def _lowered(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in headers.items()}


def _field(name: str, value: str | Secret) -> str:
    """The value of a header, which HTTP allows: nothing that is not is ever shown."""
    text = value.reveal() if isinstance(value, Secret) else value
    if _FIELD_VALUE.fullmatch(text):
        return text
    said = f"the header {name!r} holds a character that HTTP does not allow there, such as a line break"
    if isinstance(value, Secret):
        raise BrokenAnswerError(AuthenticationError("InvalidKey", said))
    raise BrokenAnswerError(NetworkError(kind="EncodeError", description=said))


def _fits(accept: str, kind: str) -> bool:
    return accept in ("*/*", kind) or (accept == JSON and kind.startswith("application/") and kind.endswith("+json"))


async def _read(response: httpx2.Response, largest: int, read: list[bytes]) -> bool:
    """Adds the body, decompressed, to `read`, piece by piece; whether it came to its end within `largest` bytes."""
    left = largest
    pieces = response.aiter_bytes()
    async for piece in pieces:
        left -= len(piece)
        if left < 0:
            await _leave(pieces)
            return False
        read.append(piece)
    return True


async def _leave(pieces: AsyncGenerator[bytes, None]) -> None:
    """Ends a generator that is not exhausted, and those that it reads from, which closing it would leave behind.

    Going on in a cancelled scope ends all of them where they wait for the network; trio warns of any that is left.
    """
    with CancelScope() as scope:
        scope.cancel()
        with suppress(Exception):
            for _ in range(_BUFFERED):
                await anext(pieces)
    await pieces.aclose()
