"""The client: requests to one address over one pool of connections, with failures as values.

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
    InvalidOutputError,
    ModelUnavailableError,
    NetworkError,
    Reason,
    RequestTimeoutError,
)
from fxai.providers.http.event import FIRST_FIELD, WHOLE, Event, EventReader
from fxai.providers.http.http_error import (
    CURRENT_SECRETS,
    BrokenAnswerError,
    hide_secrets_in_logs,
    reason_of_fault,
    redact,
    temporary_error,
    unexpected_redirect,
    unexpected_type,
)
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout, Transport
from fxai.providers.http.wire_json import begins_json

if TYPE_CHECKING:
    import httpx2

_A = TypeVar("_A")

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_LONGEST_WAIT: Final = 60.0  # seconds that a provider may ask to wait before the next attempt
_LARGEST: Final = 512 * 2**20  # bytes of an answer, and of an error's body below
_LARGEST_ERROR: Final = 2**20
_MISSING: Final = (404, 405, 501)
_ERROR_TIME: Final = 10.0  # seconds that the body of an error may take
_BUFFERED: Final = 16_384  # pieces that may have been received and not read yet: 64 KiB in chunks of a byte
_KEYS: Final = frozenset({"api-key", "authorization", "cookie", "proxy-authorization", "x-api-key"})
_BOM: Final = b"\xef\xbb\xbf"
_FIRST_BYTES: Final = 6  # enough to know the first field of a stream of events
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e]*")  # RFC 9110, section 5.5, without its obsolete bytes

RETRY: Final[Schedule[AiError, object]] = (
    Schedule.exponential(0.5).capped(8).jittered(0.75, 1.25) & Schedule.recurs(2)
).while_input(lambda error: (error.retry_after or 0.0) <= _LONGEST_WAIT)
"""Twice again after about 0.5 s and 1 s, or after what the provider asks to wait; not if that is more than a minute,
and not for a reason that a further attempt cannot change."""

Key: TypeAlias = str | Secret | Effect[Secret, AiError] | None
"""The key of a provider, or an effect that gives one; None: the environment variable of the provider."""


ReadsError: TypeAlias = Callable[[bytes], bool]
"""Whether the body of an error is an answer all the same."""


class ConnectionOptions(TypedDict, total=False):
    """How a provider is reached: keyword arguments that the layers of every provider take, all of them optional."""

    api_key: Key
    """The key, as a text, a secret, or an effect that gives one; None: the environment variable of the provider, read
    when the layer is built."""
    base_url: str | None
    """Where the API is; None: the provider's own address."""
    headers: Mapping[str, str | Secret] | None
    """Sent with each request; of one name with those of the provider, these are sent."""
    timeout: Timeout | float | None
    """The longest waits, by default `TIMEOUT`; a number of seconds is for each of them but `total`, None: no end."""
    proxy: str | None
    """The URL of an HTTP or SOCKS proxy; None: as `HTTPS_PROXY`, `NO_PROXY` and their kin say."""
    retry: Schedule[AiError, Any] | None
    """When a failed request is sent again, by default `RETRY`; None: never."""
    transport: httpx2.AsyncBaseTransport | None
    """What carries the requests in place of the network, closed with the layer; None: the service `Transport`."""


def key_of(key: Key, variable: str, *, module: str) -> Effect[Secret, AiError]:
    """The secret of a key; without one, what the environment variable holds when the effect runs.

    Fails with:
        AiError: As the effect that the key is; `AuthenticationError("MissingKey")`: the variable is not set.
    """
    if key is None:
        return Secret.from_env(variable, module=module)
    if isinstance(key, str):
        return fx.succeed(Secret(key))
    return fx.succeed(key) if isinstance(key, Secret) else key


@final
class Answer(msgspec.Struct, frozen=True):
    """A whole answer: its status, its headers, its body.

    Attributes:
        status: Below 300, but for a request that `may_be_missing`, and for an error that is read all the same.
        headers: As they came, named in lower case; none of an error.
        body: Decompressed. A server may write a stream of events instead of JSON.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def is_missing(self) -> bool:
        """Whether the server has nothing there: it was a request that `may_be_missing`."""
        return self.status in _MISSING

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case; None where there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


@final
class Client:
    """What sends requests to one address. `open_client` makes one; it is closed with the scope that it was opened in.

    Many requests can be sent at once. What goes wrong is an `AiError`, tried again as the schedule says:

    - the status: `AiError.from_status` says which reason, with the words of the body; a redirect is not followed
      (`NetworkError("InvalidUrlError")`), so that no key goes elsewhere;
    - an error inside a 200: the answer to a POST, or the first event, is a retryable error and has no content;
    - the connection: `NetworkError("TransportError")` for one that is refused, reset or cut, a name without
      address, TLS or a proxy that fails; `NetworkError("InvalidUrlError")` for an address that is none;
    - the time: `RequestTimeoutError`, with the seconds that were allowed;
    - the form: `InvalidOutputError` for an answer of another media type, of broken compression or too large;
    - the headers: `AuthenticationError("InvalidKey")` for a secret that no header can carry,
      `NetworkError("EncodeError")` for another such value.

    No failure shows a secret, also not where the provider repeats one.
    """

    __slots__ = ("_line", "_retry")

    def __init__(self, line: Line, retry: Schedule[AiError, Any] | None) -> None:
        self._line = line
        self._retry = retry

    @property
    def server(self) -> tuple[str, int]:
        """The host and the port that it asks."""
        return self._line.server

    def redact(self, error: AiError) -> AiError:
        """The failure with no secret of the client in it, for words of an answer that a provider reads itself."""
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
    ) -> Effect[Answer, AiError]:
        """The whole answer to `body`, which is sent as JSON unless the header `content-type` says otherwise.

        Args:
            path: Behind the path of `base_url`; it may bring a query.
            body: What is sent.
            headers: Beside the client's headers; of one name in both, this one is sent.
            accept: The media type of the answer; `"*/*"` for any.
            method: What an error names as the operation; by default the verb and the path.
            may_be_missing: Whether the statuses 404, 405 and 501 are answers, in place of failures.
            reads_error: Whether the body of an error, with a status of 400 and above, is an answer all the same.

        Fails with:
            AiError: As the class says.
        """
        named = method or f"POST {path}"
        return self._whole(Call("POST", path, body, headers, accept, named, may_be_missing, reads_error))

    def upload(
        self, path: str, fields: Mapping[str, str], file: tuple[str, bytes, str], *, method: str | None = None
    ) -> Effect[Answer, AiError]:
        """The whole answer to a form with `fields` and a file: its name, its bytes, its media type; failures as `post`.

        An attempt that is made again may leave the file there twice, where only the answer to the first one was lost.
        """

        def send() -> Effect[Answer, AiError]:
            from fxai.providers.http.pool import encode_form

            try:
                kind, body = encode_form(fields, *file)
            except ValueError as error:  # a line break in the media type, say
                wrong = NetworkError(kind="EncodeError", description=f"the file {file[0]!r} makes no form: {error}")
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
    ) -> Effect[Answer, AiError]:
        """The whole answer to a GET of `path`; arguments and failures as `post`."""
        return self._whole(Call("GET", path, b"", headers, accept, method or f"GET {path}", may_be_missing))

    def delete(self, path: str, *, method: str | None = None, may_be_missing: bool = False) -> Effect[Answer, AiError]:
        """The whole answer to a DELETE of `path`; arguments and failures as `post`."""
        return self._whole(Call("DELETE", path, b"", {}, JSON, method or f"DELETE {path}", may_be_missing))

    def events(
        self,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str | Secret] = {},
        method: str | None = None,
        reads_error: ReadsError | None = None,
    ) -> Stream[Event, AiError]:
        """The server-sent events that answer `body`, each as soon as it is whole; arguments as `post`.

        Without a body they are asked for by GET.

        It is tried again only until the first event has come. A reader that stops early closes the connection. A body
        of an error that `reads_error` takes is one event, whose name is "error".

        Fails with:
            AiError: As the class says; also behind events that came: `NetworkError` for a stream that is cut, also
                by an end in the middle of an event, `RequestTimeoutError` for one that is silent for longer than
                `Timeout.read`, `InvalidOutputError` for what is no stream of events.
        """
        verb = "GET" if body is None else "POST"
        named = method or f"{verb} {path}"
        call = Call(verb, path, body or b"", headers, EVENTS, named, reads_error=reads_error)
        return StreamOf.unwrap(fx.suspend(lambda: self._begin(_Reading(self._line, call))))

    def _whole(self, call: Call) -> Effect[Answer, AiError]:
        line = self._line
        return self._with_retry(line.attempt(call, lambda: line.whole(call), line.timeout.total))

    def _begin(self, reading: _Reading) -> Effect[Stream[Event, AiError], AiError, Scope]:
        limit = self._line.timeout.total

        def begin(now: float) -> Effect[None, AiError]:
            reading.deadline = None if limit is None else now + limit
            return self._line.attempt(reading.call, reading.begin, limit)

        stream = StreamOf.unfold(reading, lambda held: held.following())
        began = self._with_retry(_now().flat_map(begin))
        return fx.add_finalizer(lambda _: fx.wait(reading.close)).and_then(began).as_(stream)

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
    """A client with a pool of connections of its own, which is closed with the scope.

    Args:
        base_url: Before each path, `https://api.openai.com/v1`; a query in it goes with each request. Keys belong into
            headers: `httpx2` writes addresses to its log.
        headers: Sent with each request; keys as `Secret`.
        timeout: The longest waits; a number is for each of them but `total`, None is without end.
        proxy: The URL of an HTTP or SOCKS proxy; by default what `HTTPS_PROXY`, `NO_PROXY` and their kin say.
        retry: When to try again, with `retry_after` and `is_retryable` honoured; None for never.
        module: What errors name as their origin, such as "openai".
        transport: What carries the requests in place of the network; closed with the client. By default the service
            `Transport` decides.

    Fails with:
        AiError: `NetworkError("InvalidUrlError")`: base_url or proxy is none; `ModelUnavailableError("not-installed")`:
            a package that it needs is not installed.
    """

    def make(carrier: httpx2.AsyncBaseTransport | Transport) -> Effect[Line, AiError]:
        try:
            from fxai.providers.http.pool import open_pool

            waits = Timeout.of(timeout)
            pool, base, whole = open_pool(base_url, headers, waits, proxy, carrier)
            return fx.succeed(Line(pool, base, whole, waits, module))
        except BrokenAnswerError as error:
            return fx.fail(AiError(module, "open_client", error.reason))
        except ImportError as error:
            problem = f"{error}; `pip install 'fxai[http]'` brings what is needed"
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
class Call(msgspec.Struct, frozen=True):
    """A request: the HTTP verb, the path, the body, headers of its own, the type of the answer, its name in errors.

    Where it may be missing, what is not there is an answer; so is a body of an error that `reads_error` takes.
    """

    verb: str
    path: str
    body: bytes
    headers: Mapping[str, str | Secret]
    accept: str
    method: str
    may_be_missing: bool = False
    reads_error: ReadsError | None = None


_NO_CALL: Final = Call("GET", "", b"", {}, JSON, "")


@final
class _ErrorAnswerError(Exception):
    """Carries the body of an error that is an answer all the same."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


@final
class Line:
    """A pool of connections to one address, with what each request carries: one attempt at a time at one request."""

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
        self.timeout = timeout
        self.module = module
        self._home = Home("a client of an HTTP API")
        self.server: tuple[str, int] = (base.host, base.port or (443 if base.scheme == "https" else 80))

    async def close(self) -> None:
        """Closes the pool and every connection of it."""
        await self._pool.aclose()

    def attempt(self, call: Call, f: Callable[[], Awaitable[_A]], seconds: float | None) -> Effect[_A, AiError]:
        """One attempt at a call: what `f` raises is its failure, with no secret in it, and so is a lack of time."""
        sent = fx.attempt_async(lambda: cancelled_once(f()), lambda error: self._to_error(error, call))
        effect = fx.sync(self._home.require).and_then(sent)
        if seconds is None:
            return effect
        late = AiError(
            self.module, call.method, RequestTimeoutError(self.timeout.total, "the whole answer took longer")
        )
        return effect.timeout(seconds).map_error(lambda error: late if isinstance(error, TimedOut) else error)

    async def whole(self, call: Call) -> Answer:
        """The whole answer."""
        try:
            response = await self.begin(call)
        except _ErrorAnswerError as error:
            return error.answer
        body: list[bytes] = []
        try:
            is_whole = await _read(response, _LARGEST, body)
        finally:
            await response.aclose()
        if not is_whole:
            raise BrokenAnswerError(InvalidOutputError(f"the answer is larger than {_LARGEST} bytes"))
        headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
        read = b"".join(body)
        if not response.is_success:
            return Answer(response.status_code, headers, self._redact(read, call))
        if call.accept == JSON:
            kind = kind_of(response)
            if kind and not _fits(JSON, kind) and not (begins_json(read) or FIRST_FIELD.match(read)):
                raise BrokenAnswerError(self.wrong_type(call, kind, read))
            read = read.removeprefix(_BOM)
        _raise_temporary_error(read, response, call)
        return Answer(response.status_code, headers, read)

    def wrong_type(self, call: Call, kind: str, body: bytes) -> Reason:
        """Return the reason of an answer of another type, without the secrets of the call."""
        return unexpected_type(call.accept, kind, self._redact(body[:_LARGEST_ERROR], call))

    async def begin(self, call: Call) -> httpx2.Response:
        """Return the answer, whose status is right and whose body is unread; the caller closes it.

        The reader of the body checks the type of JSON and of a stream of events: servers send the right body with a
        wrong type.
        """
        CURRENT_SECRETS.set(lambda: self._secrets(call))
        request = self._pool.build_request(
            call.verb, self._url(call), headers=self._fields(call), content=call.body if call.verb == "POST" else None
        )
        response = await self._pool.send(request, stream=True)
        try:
            await self._check(response, call)
        except BaseException:
            await response.aclose()
            raise
        return response

    def _url(self, call: Call) -> httpx2.URL:
        """Where a call goes: its path behind the base's, its query behind the base's."""
        path, _, query = call.path.partition("?")
        before, _, first = self._base.raw_path.partition(b"?")
        joined = before.rstrip(b"/") + (b"/" + path.lstrip("/").encode() if path else b"")
        queries = b"&".join(part for part in (first, query.encode()) if part)
        return self._base.copy_with(raw_path=(joined or b"/") + (b"?" + queries if queries else b""))

    def _to_error(self, error: Exception, call: Call) -> AiError | None:
        """The typed failure of an exception, with no secret in it; None for a defect."""
        reason = reason_of_fault(error, self._base, self.timeout)
        return None if reason is None else AiError(self.module, call.method, self.redact_reason(reason, call))

    def redact_reason(self, reason: Reason, call: Call) -> Reason:
        """The reason with no secret of a call in it."""
        texts = {name: text for name in reason.__struct_fields__ if isinstance(text := getattr(reason, name), str)}
        secrets = self._secrets(call)
        return msgspec.structs.replace(reason, **{name: redact(text, secrets) for name, text in texts.items()})

    def _redact(self, body: bytes, call: Call) -> bytes:
        """The body of an error, with no secret in it."""
        return redact(body.decode("utf-8", "replace"), self._secrets(call)).encode()

    def _secrets(self, call: Call) -> list[str]:
        whole = [
            value.reveal() if isinstance(value, Secret) else value
            for name, value in (*self._headers.items(), *call.headers.items())
            if isinstance(value, Secret) or name.lower() in _KEYS
        ]
        parts = [text.split()[-1] for text in whole if text.split()]  # without the scheme: "Bearer …"
        return sorted({text for text in (*whole, *parts) if text}, key=len, reverse=True)

    def _fields(self, call: Call) -> dict[str, str]:
        kind = {"content-type": JSON} if call.verb == "POST" else {}
        fields: dict[str, str | Secret] = {"accept": call.accept, "user-agent": "fxai", **kind}
        for headers in (self._headers, call.headers):
            fields.update((name.lower(), value) for name, value in headers.items())
        return {name: _field(name, value) for name, value in fields.items()}

    async def _check(self, response: httpx2.Response, call: Call) -> None:
        status = response.status_code
        kind = kind_of(response)
        if status < 300 and (not kind or call.accept in (JSON, EVENTS) or _fits(call.accept, kind)):
            return
        if call.may_be_missing and status in _MISSING:
            return
        if 300 <= status < 400:
            raise BrokenAnswerError(unexpected_redirect(response))
        read: list[bytes] = []
        with suppress(Exception), move_on_after(_ERROR_TIME):  # a status says enough, whatever becomes of its words
            await _read(response, _LARGEST_ERROR, read)
        body = self._redact(b"".join(read), call)
        if status >= 400 and call.reads_error is not None and call.reads_error(body):
            raise _ErrorAnswerError(Answer(status, (), body))
        if status >= 400:
            raise BrokenAnswerError(reason_of_status(status, body, dict(response.headers)))
        raise BrokenAnswerError(self.wrong_type(call, kind, body))


def kind_of(response: httpx2.Response) -> str:
    """Return the media type of an answer, in lower case and without parameters. Empty if it has none."""
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


@final
class _Reading:
    """One reading of a stream of events: `begin` may be tried again, what follows may not."""

    def __init__(self, line: Line, call: Call) -> None:
        self.call = call
        self.deadline: float | None = None
        self._line = line
        self._response: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes, None] | None = None
        self._reader: EventReader
        self._ready: deque[Event] = deque()

    async def begin(self) -> None:
        """Sends the request, and waits for the first event; an attempt before this one is closed."""
        await self.close()
        self._ready.clear()
        self._reader = EventReader()
        try:
            self._response = await self._line.begin(self.call)
        except _ErrorAnswerError as error:
            self._ready.append(Event("error", error.answer.body.decode("utf-8", "replace")))
            return
        self._pieces = self._response.aiter_bytes()
        await self._begin_body(kind_of(self._response))
        await self._fill()
        if not self._ready:
            raise BrokenAnswerError(InvalidOutputError("the stream ended before its first event"))
        _raise_temporary_error(self._ready[0].data[:_LARGEST_ERROR].encode(), self._response, self.call)

    async def _begin_body(self, kind: str) -> None:
        """Read the first bytes, which show whether the body is a stream of events.

        Some servers answer the request for a stream with a whole answer, or with an error of status 200.
        """
        first = b""
        while len(start := first.removeprefix(_BOM).lstrip()) < _FIRST_BYTES and b"\n" not in start:
            piece = await self._following_bytes()
            if piece is None:
                break
            first += piece
        if begins_json(start):
            body = await self._rest(first)
            self._ready.append(Event(WHOLE, body.removeprefix(_BOM).decode("utf-8", "replace")))
        elif kind not in ("", EVENTS) and not FIRST_FIELD.match(start):
            raise BrokenAnswerError(self._line.wrong_type(self.call, kind, await self._rest(first)))
        else:
            self._take(self._reader.feed(first))

    async def _rest(self, first: bytes) -> bytes:
        """Return the whole body, which begins with the bytes `first`."""
        body = [first]
        size = len(first)
        while (piece := await self._following_bytes()) is not None:
            body.append(piece)
            size += len(piece)
            if size > _LARGEST:
                raise BrokenAnswerError(InvalidOutputError(f"the answer is larger than {_LARGEST} bytes"))
        return b"".join(body)

    async def _following_bytes(self) -> bytes | None:
        return None if self._pieces is None else await anext(self._pieces, None)

    def following(self) -> Effect[tuple[Event, _Reading] | None, AiError]:
        """The next event, or None at the end."""
        if self._ready:
            return fx.succeed((self._ready.popleft(), self))
        deadline, line = self.deadline, self._line
        if deadline is None:
            return line.attempt(self.call, self._next, None)
        return _now().flat_map(lambda now: line.attempt(self.call, self._next, max(deadline - now, 0.0)))

    async def _next(self) -> tuple[Event, _Reading] | None:
        await self._fill()
        return (self._ready.popleft(), self) if self._ready else None

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
                raise BrokenAnswerError(fault)
            return

    def _take(self, events: list[Event]) -> None:
        self._ready.extend(event for event in events if not event.is_empty)


def _raise_temporary_error(body: bytes, response: httpx2.Response, call: Call) -> None:
    """Fail the attempt if the answer to a POST has status 200 and a retryable error instead of content."""
    if call.verb != "POST" or (reason := temporary_error(body, response.headers)) is None:
        return
    if call.reads_error is None or not call.reads_error(body):
        raise BrokenAnswerError(reason)


def _field(name: str, value: str | Secret) -> str:
    """The value of a header, if HTTP allows it; an error shows no value that it does not allow."""
    text = value.reveal() if isinstance(value, Secret) else value
    if _FIELD_VALUE.fullmatch(text):
        return text
    problem = f"the header {name!r} holds a character that HTTP does not allow there, such as a line break"
    if isinstance(value, Secret):
        raise BrokenAnswerError(AuthenticationError("InvalidKey", problem))
    raise BrokenAnswerError(NetworkError(kind="EncodeError", description=problem))


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
