"""An HTTP client for one address. Use it to send requests to the API of a provider. Failures are values.

>>> import httpx2
>>> from fxai.effects import fx
>>> def answer(request: httpx2.Request) -> httpx2.Response:
...     return httpx2.Response(401, json={"error": {"message": f"no such key"}})
>>> client = open_client(
...     base_url="https://api.example.com/v1",
...     headers={"authorization": Secret("Bearer sk-1")},
...     module="acme",
...     transport=httpx2.MockTransport(answer),
... )
>>> reply = client.flat_map(lambda client: client.post("/replies", b"{}"))
>>> print(fx.run_result(fx.scoped(reply)).failure().message)
acme.POST /replies: InvalidKey: The API key was refused: no such key
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, TypeVar, final

import msgspec
from anyio import CancelScope, move_on_after

from fxai.effects import fx
from fxai.effects.cancellation import cancelled_once
from fxai.effects.effect import Effect, Gen
from fxai.effects.effect import Timeout as TimedOut
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.effects.stream import Stream, StreamOf
from fxai.effects.waker import Home
from fxai.messages.errors import AiError, reason_of_status
from fxai.messages.reason import (
    AuthenticationError,
    ModelUnavailableError,
    NetworkError,
    Reason,
    RequestTimeoutError,
)
from fxai.providers.http.event import FIRST_FIELD, WHOLE, Event, EventReader, starts_json
from fxai.providers.http.http_error import (
    CURRENT_SECRETS,
    hide_secrets_in_logs,
    reason_of_fault,
    redact,
    temporary_error,
    unexpected_redirect,
    unexpected_type,
)
from fxai.providers.http.reply import ReplyError, form_error
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout, Transport

if TYPE_CHECKING:
    import httpx2

_A = TypeVar("_A")

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_LONGEST_WAIT: Final = 60.0  # seconds: the client does not retry if a provider requests a longer delay
_LARGEST: Final = 512 * 2**20  # bytes of an answer; the next constant limits the body of an error
_LARGEST_ERROR: Final = 2**20
_MISSING: Final = (404, 405, 501)
_ERROR_TIME: Final = 10.0  # seconds to read the body of an error
_BUFFERED: Final = 16_384  # received but unread pieces: 64 KiB in single-byte chunks
_KEYS: Final = frozenset({"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"})
_BOM: Final = b"\xef\xbb\xbf"
_FIRST_BYTES: Final = 6  # enough to recognize the first field of a stream of events
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e]*")  # RFC 9110, section 5.5, without its obsolete bytes

RETRY: Final[Schedule[AiError, object]] = (
    Schedule.exponential(0.5).capped(8).jittered(0.75, 1.25) & Schedule.recurs(2)
).while_input(lambda error: (error.retry_after or 0.0) <= _LONGEST_WAIT)
"""The default schedule: two retries, after about 0.5 s and 1 s, or after the delay that the provider requests.

fxai does not retry if the provider requests a delay of more than 60 s, or if a retry cannot change the reason."""

Key: TypeAlias = str | Secret | Effect[Secret, AiError] | None
"""The key of a provider, or an effect that returns it. None means the environment variable of the provider."""


ReadsError: TypeAlias = Callable[[bytes], bool]
"""A function that returns True if the body of an error is a valid answer."""


class PoolOptions(TypedDict, total=False):
    """The settings of a pool of connections."""

    timeout: Timeout | float | None
    """The time limits of an attempt. By default `TIMEOUT`. A number of seconds sets every limit except `total`. None
    removes all limits."""
    proxy: str | None
    """The URL of an HTTP or SOCKS proxy. By default the proxy of environment variables such as `HTTPS_PROXY`.
    `NO_PROXY` lists the exceptions."""
    retry: Schedule[AiError, Any] | None
    """The schedule of retries. By default `RETRY`. None disables retries."""
    transport: httpx2.AsyncBaseTransport | None
    """The transport that sends the requests. fxai closes it with the layer. By default the service `Transport`."""


class ConnectionOptions(PoolOptions, total=False):
    """Connection settings. The layers of all providers accept them as optional keyword arguments."""

    api_key: Key
    """The key as a string, a secret, or an effect. By default, fxai reads the environment variable of the provider when
    it builds the layer."""
    base_url: str | None
    """The address of the API. By default the provider's address."""
    headers: Mapping[str, str | Secret] | None
    """The headers of each request. They replace the provider's headers with the same name."""


def check_options(options: PoolOptions, form: type[ConnectionOptions]) -> None:
    """Check the names of options before a layer is built.

    Raises:
        TypeError: If an option is not a member of `form`.
    """
    unknown, known = sorted(set(options) - set(form.__annotations__)), ", ".join(sorted(form.__annotations__))
    if unknown:
        raise TypeError(f"unknown option {', '.join(map(repr, unknown))}. Use one of: {known}.")


def key_of(key: Key, variable: str, *, module: str) -> Effect[Secret, AiError]:
    """Return the secret of a key. Without a key, read the environment variable when the effect runs.

    Fails with:
        AiError: `AuthenticationError("MissingKey")` if the variable is not set. If the key is an effect, its failure.
    """
    if key is None:
        return Secret.from_env(variable, module=module)
    if isinstance(key, str):
        return fx.succeed(Secret(key))
    return fx.succeed(key) if isinstance(key, Secret) else key


@final
class HttpResponse(msgspec.Struct, frozen=True):
    """A complete answer of a server."""

    status: int
    """The status. It is below 300, except for a request with `may_be_missing` and for an accepted error."""
    headers: tuple[tuple[str, str], ...]
    """The headers with lower-case names. Empty for an error."""
    body: bytes
    """The decompressed body. A server can return a stream of events instead of JSON."""

    @property
    def is_missing(self) -> bool:
        """True if the server does not have this resource. Only a request with `may_be_missing` returns this answer."""
        return self.status in _MISSING

    def header(self, name: str) -> str | None:
        """Return the first header with this name, or None. The case of the name does not matter."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


@final
class Client:
    """A client that sends requests to one address. Create it with `open_client`; its scope closes it.

    You can send many requests concurrently. Each failure is an `AiError`, and the schedule controls the retries:

    - Status: `AiError.from_status` determines the reason and includes the message of the body. The client does not
      follow redirects (`NetworkError("InvalidUrlError")`), because a redirect would send the key to another address.
    - Error with status 200: a retryable error without content, as the answer to a POST or as the first event.
    - Connection: `NetworkError("TransportError")` if the server refuses, resets, or cuts the connection, if the host
      name has no address, or if TLS or the proxy fails. `NetworkError("InvalidUrlError")` for an invalid address.
    - Time: `RequestTimeoutError` with the limit in seconds.
    - Format: `InvalidOutputError` if the answer has a different media type, broken compression, or too many bytes.
    - Headers: `AuthenticationError("InvalidKey")` for a secret that HTTP does not allow in a header.
      `NetworkError("EncodeError")` for any other invalid value.

    No failure contains a secret, even if the provider repeats it.
    """

    __slots__ = ("_line", "_retry")

    def __init__(self, line: Line, retry: Schedule[AiError, Any] | None) -> None:
        self._line = line
        self._retry = retry

    @property
    def server(self) -> tuple[str, int]:
        """The host and the port of the server."""
        return self._line.server

    def redact(self, error: AiError) -> AiError:
        """Remove the secrets of the client from a failure. Use it for messages that a provider's package reads."""
        return msgspec.structs.replace(error, reason=self._line.redact_reason(error.reason, _NO_CALL))

    def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str | Secret] = {},
        accept: str = JSON,
        method: str | None = None,
        may_be_missing: bool = False,
        reads_error: ReadsError | None = None,
    ) -> Effect[HttpResponse, AiError]:
        """Send `body` with POST and return the whole answer. The default content type is JSON.

        Args:
            path: The path after the path of `base_url`. It can include a query.
            body: The body of the request.
            headers: Headers of this request. They replace the client's headers with the same name.
            accept: The media type of the answer. `"*/*"` accepts any type.
            method: The name of the operation in errors. By default the verb and the path.
            may_be_missing: True if the statuses 404, 405, and 501 are answers and not failures.
            reads_error: A function that returns True if the body of an error (status 400 or higher) is an answer.

        Fails with:
            AiError: See the class.
        """
        named = method or f"POST {path}"
        return self._whole(HttpRequest("POST", path, body, headers, accept, named, may_be_missing, reads_error))

    def upload(
        self, path: str, fields: Mapping[str, str], file: tuple[str, bytes, str], *, method: str | None = None
    ) -> Effect[HttpResponse, AiError]:
        """Send a form with `fields` and a file, and return the whole answer. The failures are the failures of `post`.

        `file` contains the name, the bytes, and the media type. A retry can store the file twice if only the answer to
        the first attempt was lost.
        """

        def send() -> Effect[HttpResponse, AiError]:
            from fxai.providers.http.pool import encode_form

            try:
                kind, body = encode_form(fields, *file)
            except ValueError as error:  # for example, a line break in the media type
                wrong = NetworkError(kind="EncodeError", description=f"cannot encode the file {file[0]!r}: {error}")
                return fx.fail(AiError(self._line.module, method or f"POST {path}", wrong))
            return self.post(path, body, headers={"content-type": kind}, method=method)

        return fx.suspend(send)

    def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str | Secret] = {},
        accept: str = JSON,
        method: str | None = None,
        may_be_missing: bool = False,
    ) -> Effect[HttpResponse, AiError]:
        """Send a GET request for `path` and return the whole answer. `post` documents the arguments and failures."""
        return self._whole(HttpRequest("GET", path, b"", headers, accept, method or f"GET {path}", may_be_missing))

    def delete(
        self, path: str, *, method: str | None = None, may_be_missing: bool = False
    ) -> Effect[HttpResponse, AiError]:
        """Send a DELETE request for `path` and return the whole answer. `post` documents the arguments and failures."""
        return self._whole(HttpRequest("DELETE", path, b"", {}, JSON, method or f"DELETE {path}", may_be_missing))

    def events(
        self,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str | Secret] = {},
        method: str | None = None,
        reads_error: ReadsError | None = None,
    ) -> Stream[Event, AiError]:
        """Send `body` with POST and return the server-sent events. Each event arrives when it is complete.

        `post` documents the arguments. Without a body, the client sends a GET request. The client retries only before
        the first event. If the reader stops early, the client closes the connection. If `reads_error` accepts the body
        of an error, the stream has one event with the name "error".

        Fails with:
            AiError: See the class. The stream can also fail after its first events. `NetworkError` if the connection
                ends, also in the middle of an event. `RequestTimeoutError` if the server is silent for longer than
                `Timeout.read`. `InvalidOutputError` if the body is not a stream of events.
        """
        verb = "GET" if body is None else "POST"
        named = method or f"{verb} {path}"
        call = HttpRequest(verb, path, body or b"", headers, EVENTS, named, reads_error=reads_error)

        def open_stream() -> Effect[Stream[Event, AiError], AiError, Scope]:
            reading, limit = _EventReading(self._line, call), self._line.timeout.total

            def start(now: float) -> Effect[None, AiError]:
                reading.deadline = None if limit is None else now + limit
                return self._line.attempt(call, reading.start, limit)

            stream = StreamOf.unfold(reading, lambda held: held.following())
            began = self._with_retry(_now().flat_map(start))
            return fx.add_finalizer(lambda _: fx.wait(reading.close)).and_then(began).as_(stream)

        return StreamOf.unwrap(fx.suspend(open_stream))

    def _whole(self, call: HttpRequest) -> Effect[HttpResponse, AiError]:
        line = self._line
        return self._with_retry(line.attempt(call, lambda: line.whole(call), line.timeout.total))

    def _with_retry(self, effect: Effect[_A, AiError]) -> Effect[_A, AiError]:
        return effect if self._retry is None else effect.retry(self._retry)


def open_client(
    *,
    base_url: str,
    headers: Mapping[str, str | Secret] = {},
    timeout: Timeout | float | None = TIMEOUT,
    proxy: str | None = None,
    retry: Schedule[AiError, Any] | None = RETRY,
    module: str = "http",
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Effect[Client, AiError, Scope]:
    """Open a client with its own pool of connections. The scope closes the pool.

    Args:
        base_url: The start of each address, such as `https://api.openai.com/v1`. Each request includes its query. Send
            keys in headers, because `httpx2` logs addresses.
        headers: Headers of each request. Wrap keys in `Secret`.
        timeout: Time limits. A number of seconds sets every limit except `total`. None removes all limits.
        proxy: The URL of an HTTP or SOCKS proxy. By default the proxy of environment variables such as `HTTPS_PROXY`.
            `NO_PROXY` lists the exceptions.
        retry: The schedule of retries. It respects `retry_after` and `is_retryable`. None disables retries.
        module: The name of the origin in errors, such as "openai".
        transport: The transport that sends the requests. The client closes it. By default, the service `Transport`
            selects the transport.

    Fails with:
        AiError: `NetworkError("InvalidUrlError")` if `base_url` or `proxy` is not a valid URL.
            `ModelUnavailableError("not-installed")` if a required package is not installed.
    """

    def make(carrier: httpx2.AsyncBaseTransport | Transport) -> Effect[Line, AiError]:
        try:
            from fxai.providers.http.pool import open_pool

            waits = Timeout.of(timeout)
            pool, base, whole = open_pool(base_url, headers, waits, proxy, carrier)
            return fx.succeed(Line(pool, base, whole, waits, module))
        except ReplyError as error:
            return fx.fail(AiError(module, "open_client", error.reason))
        except ImportError as error:
            problem = f"{error}. Run `pip install 'fxai[http]'` to install the missing package."
            missing = ModelUnavailableError(model=module, problem="not-installed", description=problem)
            return fx.fail(AiError(module, "open_client", missing))

    @fx.gen
    def opening() -> Gen[Client, AiError, Scope]:
        carrier = transport or (yield from Transport)
        line = yield from fx.acquire_release(fx.suspend(lambda: make(carrier)), lambda held: fx.wait(held.close))
        return Client(line, retry)

    return opening()


def _now() -> Effect[float]:
    return fx.reference(Clock).map(lambda clock: clock.monotonic())


@final
class HttpRequest(msgspec.Struct, frozen=True):
    """A request: the verb, the path, the body, the headers, the media type of the answer, and its name in errors.

    If `may_be_missing` is True, a missing resource is an answer. If `reads_error` accepts the body of an error, this
    body is an answer.
    """

    verb: str
    path: str
    body: bytes
    headers: Mapping[str, str | Secret]
    accept: str
    method: str
    may_be_missing: bool = False
    reads_error: ReadsError | None = None


_NO_CALL: Final = HttpRequest("GET", "", b"", {}, JSON, "")


@final
class Line:
    """A pool of connections to one address, with the headers and secrets of its requests. It makes single attempts."""

    def __init__(
        self,
        pool: httpx2.AsyncClient,
        base: httpx2.URL,
        headers: Mapping[str, str | Secret],
        timeout: Timeout,
        module: str,
    ) -> None:
        hide_secrets_in_logs()
        self._pool = pool
        self._base = base
        self._headers = dict(headers)
        self._usual: dict[str, str] = {**pool.headers, "user-agent": "fxai"}
        self._newest = "", self._url("")  # the path and the address of the last call: most calls have the same path
        self.timeout = timeout
        self.module = module
        self._home = Home("a client of an HTTP API")
        self.server: tuple[str, int] = (base.host, base.port or (443 if base.scheme == "https" else 80))

    async def close(self) -> None:
        """Close the pool and all its connections."""
        await self._pool.aclose()

    def attempt(self, call: HttpRequest, f: Callable[[], Awaitable[_A]], seconds: float | None) -> Effect[_A, AiError]:
        """Make one attempt at a call. An exception of `f` or a timeout becomes a failure without secrets."""

        def to_error(error: Exception) -> AiError | None:
            reason = reason_of_fault(error, self._base, self.timeout)
            return None if reason is None else AiError(self.module, call.method, self.redact_reason(reason, call))

        sent = fx.attempt_async(lambda: cancelled_once(f()), to_error)
        effect = fx.sync(self._home.require).and_then(sent)
        if seconds is None:
            return effect
        late = AiError(
            self.module, call.method, RequestTimeoutError(self.timeout.total, "the whole answer took longer")
        )
        return effect.timeout(seconds).map_error(lambda error: late if isinstance(error, TimedOut) else error)

    async def whole(self, call: HttpRequest) -> HttpResponse:
        """Return the whole answer."""
        response = await self.start(call)
        body: list[bytes] = []
        try:
            is_complete = await _read(response.aiter_bytes(), _LARGEST, body)
        finally:
            await response.aclose()
        if not is_complete:
            raise form_error(f"the answer is larger than {_LARGEST} bytes")
        read = b"".join(body)
        if not response.is_success:
            return HttpResponse(response.status_code, (), self._redact(read, call))
        headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
        if call.accept == JSON:
            kind = kind_of(response)
            if kind and not _fits(JSON, kind) and not (starts_json(read) or FIRST_FIELD.match(read)):
                raise ReplyError(self.wrong_type(call, kind, read))
            read = read.removeprefix(_BOM)
        _raise_temporary_error(read, response, call)
        return HttpResponse(response.status_code, headers, read)

    def wrong_type(self, call: HttpRequest, kind: str, body: bytes) -> Reason:
        """Return the reason of an answer with a different media type, without the secrets of the call."""
        return unexpected_type(call.accept, kind, self._redact(body[:_LARGEST_ERROR], call))

    async def start(self, call: HttpRequest) -> httpx2.Response:
        """Return the answer with a valid status and an unread body. The caller closes it.

        The reader of the body checks the type of JSON and of a stream of events, because servers send correct bodies
        with an incorrect type.
        """
        CURRENT_SECRETS.set(lambda: self._secrets(call))
        import httpx2

        newest = self._newest
        if newest[0] != call.path:
            newest = self._newest = call.path, self._url(call.path)
        content = call.body if call.verb == "POST" else None
        request = httpx2.Request(
            call.verb, newest[1], headers=self._fields(call), content=content, cookies=self._pool.cookies
        )
        response = await self._pool.send(request, stream=True)
        try:
            answer = await self._check(response, call)
        except BaseException:
            await response.aclose()
            raise
        return response if answer is None else httpx2.Response(response.status_code, content=answer)

    def _url(self, target: str) -> httpx2.URL:
        """Return the address of a call. It appends the path and the query of the call to the base address."""
        path, _, query = target.partition("?")
        before, _, first = self._base.raw_path.partition(b"?")
        joined = before.rstrip(b"/") + (b"/" + path.lstrip("/").encode() if path else b"")
        queries = b"&".join(part for part in (first, query.encode()) if part)
        return self._base.copy_with(raw_path=(joined or b"/") + (b"?" + queries if queries else b""))

    def redact_reason(self, reason: Reason, call: HttpRequest) -> Reason:
        """Remove the secrets of a call from a reason."""
        texts = {name: text for name in reason.__struct_fields__ if isinstance(text := getattr(reason, name), str)}
        secrets = self._secrets(call)
        return msgspec.structs.replace(reason, **{name: redact(text, secrets) for name, text in texts.items()})

    def _redact(self, body: bytes, call: HttpRequest) -> bytes:
        """Remove the secrets from the body of an error."""
        return redact(body.decode("utf-8", "replace"), self._secrets(call)).encode()

    def _secrets(self, call: HttpRequest) -> list[str]:
        whole = [
            value.reveal() if isinstance(value, Secret) else value
            for name, value in (*self._headers.items(), *call.headers.items())
            if isinstance(value, Secret) or name.lower() in _KEYS
        ]
        parts = [text.split()[-1] for text in whole if text.split()]  # without the scheme: "Bearer …"
        return sorted({text for text in (*whole, *parts) if text}, key=len, reverse=True)

    def _fields(self, call: HttpRequest) -> dict[str, str]:
        """Return the headers of a request. No frame of a later failure holds them as text."""
        kind = {"content-type": JSON} if call.verb == "POST" else {}
        fields: dict[str, str | Secret] = {**self._usual, "accept": call.accept, **kind}
        for headers in (self._headers, call.headers):
            fields.update((name.lower(), value) for name, value in headers.items())
        return {name: _field(name, value) for name, value in fields.items()}

    async def _check(self, response: httpx2.Response, call: HttpRequest) -> bytes | None:
        """Raise the error of an answer. Return the body of an error that `reads_error` accepts, and None otherwise."""
        status = response.status_code
        kind = kind_of(response)
        if status < 300 and (not kind or call.accept in (JSON, EVENTS) or _fits(call.accept, kind)):
            return None
        if call.may_be_missing and status in _MISSING:
            return None
        if 300 <= status < 400:
            raise ReplyError(unexpected_redirect(response))
        read: list[bytes] = []
        with suppress(Exception), move_on_after(_ERROR_TIME):  # the status is enough if the body cannot be read
            await _read(response.aiter_bytes(), _LARGEST_ERROR, read)
        body = self._redact(b"".join(read), call)
        if status < 300:
            raise ReplyError(self.wrong_type(call, kind, body))
        if call.reads_error is None or not call.reads_error(body):
            raise ReplyError(reason_of_status(status, body, dict(response.headers)))
        await response.aclose()
        return body


def kind_of(response: httpx2.Response) -> str:
    """Return the media type of an answer, in lower case and without parameters. Return "" if the answer has no type."""
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


@final
class _EventReading:
    """A reading of a stream of events. The client can retry `start`, but not the rest."""

    def __init__(self, line: Line, call: HttpRequest) -> None:
        self.call = call
        self.deadline: float | None = None
        self._line = line
        self._response: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes, None] | None = None
        self._reader: EventReader
        self._ready: deque[Event] = deque()

    async def start(self) -> None:
        """Send the request and wait for the first event. Close the previous attempt first."""
        await self.close()
        self._ready.clear()
        self._reader = EventReader()
        self._response = await self._line.start(self.call)
        if not self._response.is_success:  # an error that is an answer
            self._ready.append(Event("error", self._response.content.decode("utf-8", "replace")))
            return
        self._pieces = self._response.aiter_bytes()
        await self._start_body(kind_of(self._response))
        await self._fill()
        if not self._ready:
            raise form_error("the stream ended before its first event")
        _raise_temporary_error(self._ready[0].data[:_LARGEST_ERROR].encode(), self._response, self.call)

    async def _start_body(self, kind: str) -> None:
        """Read the first bytes and detect whether the body is a stream of events.

        Some servers answer a request for a stream with a whole answer or with an error of status 200.
        """
        first = b""
        while len(start := first.removeprefix(_BOM).lstrip()) < _FIRST_BYTES and b"\n" not in start:
            piece = await self._following_bytes()
            if piece is None:
                break
            first += piece
        if starts_json(start):
            body = await self._rest(first)
            self._ready.append(Event(WHOLE, body.removeprefix(_BOM).decode("utf-8", "replace")))
        elif kind not in ("", EVENTS) and not FIRST_FIELD.match(start):
            raise ReplyError(self._line.wrong_type(self.call, kind, await self._rest(first)))
        else:
            self._take(self._reader.feed(first))

    async def _rest(self, first: bytes) -> bytes:
        """Return the whole body, including the bytes `first`."""
        body = [first]
        if self._pieces is not None and not await _read(self._pieces, _LARGEST - len(first), body):
            raise form_error(f"the answer is larger than {_LARGEST} bytes")
        return b"".join(body)

    async def _following_bytes(self) -> bytes | None:
        return None if self._pieces is None else await anext(self._pieces, None)

    def following(self) -> Effect[tuple[Event, _EventReading] | None, AiError]:
        """Return the next event, or None when the stream ends."""
        if self._ready:
            return fx.succeed((self._ready.popleft(), self))
        deadline, line = self.deadline, self._line
        if deadline is None:
            return line.attempt(self.call, self._next, None)
        return _now().flat_map(lambda now: line.attempt(self.call, self._next, max(deadline - now, 0.0)))

    async def _next(self) -> tuple[Event, _EventReading] | None:
        await self._fill()
        return (self._ready.popleft(), self) if self._ready else None

    async def close(self) -> None:
        """Close the connection. If the whole answer was read, the connection returns to the pool."""
        pieces, self._pieces = self._pieces, None
        response, self._response = self._response, None
        try:
            if pieces is not None:
                await _leave(pieces)
        finally:
            if response is not None:
                await response.aclose()

    async def _fill(self) -> None:
        while not self._ready:
            fault = self._reader.fault
            if fault is None:
                piece = await self._following_bytes()
                if piece is not None:
                    self._take(self._reader.feed(piece))
                    continue
                self._take(self._reader.last())
                if self._ready:
                    return
                fault = self._reader.end()
            if fault is not None:
                raise ReplyError(fault)
            return

    def _take(self, events: list[Event]) -> None:
        self._ready.extend(event for event in events if not event.is_empty)


def _raise_temporary_error(body: bytes, response: httpx2.Response, call: HttpRequest) -> None:
    """Fail the attempt if the answer to a POST has status 200 and a retryable error instead of content."""
    if call.verb != "POST" or (reason := temporary_error(body, response.headers)) is None:
        return
    if call.reads_error is None or not call.reads_error(body):
        raise ReplyError(reason)


def _field(name: str, value: str | Secret) -> str:
    """Return the value of a header if HTTP allows it. The error does not show an invalid value."""
    text = value.reveal() if isinstance(value, Secret) else value
    if _FIELD_VALUE.fullmatch(text):
        return text
    problem = f"header {name!r} contains a character that HTTP does not allow, such as a line break. Remove it."
    if isinstance(value, Secret):
        raise ReplyError(AuthenticationError("InvalidKey", problem))
    raise ReplyError(NetworkError(kind="EncodeError", description=problem))


def _fits(accept: str, kind: str) -> bool:
    return accept in ("*/*", kind) or (accept == JSON and kind.startswith("application/") and kind.endswith("+json"))


async def _read(pieces: AsyncGenerator[bytes, None], left: int, read: list[bytes]) -> bool:
    """Append the pieces of a decompressed body to `read`. Return True if they have at most `left` bytes."""
    async for piece in pieces:
        left -= len(piece)
        if left < 0:
            await _leave(pieces)
            return False
        read.append(piece)
    return True


async def _leave(pieces: AsyncGenerator[bytes, None]) -> None:
    """Close an unfinished generator and the generators that it reads from. `aclose` alone would not close those.

    Continuing in a cancelled scope ends each of them at its next wait for the network. trio warns about any open one.
    """
    with CancelScope() as scope:
        scope.cancel()
        with suppress(Exception):
            for _ in range(_BUFFERED):
                await anext(pieces)
    await pieces.aclose()
