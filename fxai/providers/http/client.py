"""The client: requests to one address over one pool of connections, with failures as values.

>>> import httpx2
>>> from fxai.effects import fx
>>> def answer(request: httpx2.Request) -> httpx2.Response:
...     return httpx2.Response(401, json={"error": {"message": f"no such key"}})
>>> opened = open_client(
...     base_url="https://api.example.com/v1",
...     headers={"authorization": Secret("Bearer sk-1")},
...     module="acme",
...     transport=httpx2.MockTransport(answer),
... )
>>> asked = opened.flat_map(lambda client: client.post("/replies", b"{}"))
>>> print(fx.run_result(fx.scoped(asked)).failure().message)
acme.POST /replies: InvalidKey: The API key was refused: no such key
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from fxai.effects import fx
from fxai.effects.cancellation import cancelled_once
from fxai.effects.effect import Effect, Gen
from fxai.effects.effect import Timeout as TimedOut
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError, ModelUnavailableError, RequestTimeoutError
from fxai.providers.http.event import Event
from fxai.providers.http.exchange import EVENTS, JSON, Answer, Call, Line, Reading
from fxai.providers.http.fault import BrokenAnswerError
from fxai.providers.http.secret import Secret
from fxai.providers.http.timeout import TIMEOUT, Timeout
from fxai.providers.http.transport import Transport

if TYPE_CHECKING:
    import httpx2

__all__ = ["RETRY", "Answer", "Client", "open_client"]

_A = TypeVar("_A")

_PATIENCE: Final = 60.0

RETRY: Final[Schedule[AiError, object]] = (
    Schedule.exponential(0.5).capped(8).jittered(0.75, 1.25) & Schedule.recurs(2)
).while_input(lambda error: (error.retry_after or 0.0) <= _PATIENCE)
"""Twice again after about 0.5 s and 1 s, or after what the provider asks to wait; not if that is more than a minute,
and not for a reason that says that it does not help."""


@final
class Client:
    """What sends requests to one address. `open_client` makes one; it is closed with the scope that it was opened in.

    Many requests can be sent at once. What goes wrong is an `AiError`, tried again as the schedule says:

    - the status: `AiError.from_status` says which reason, with the words of the body; a redirect is not followed
      (`NetworkError("InvalidUrlError")`), so that no key goes elsewhere;
    - the way: `NetworkError("TransportError")` for a connection that is refused, reset or cut, a name without
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

    def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str | Secret] = {},
        accept: str = JSON,
        method: str | None = None,
    ) -> Effect[Answer, AiError]:
        """The whole answer to `body`, which is sent as JSON unless the header `content-type` says otherwise.

        Args:
            path: Behind the path of `base_url`; it may bring a query.
            body: What is sent.
            headers: Beside the client's headers; of one name in both, this one is sent.
            accept: The media type of the answer; `"*/*"` for any.
            method: What an error says was being done; by default the verb and the path.

        Fails with:
            AiError: As the class says.
        """
        return self._whole(Call("POST", path, body, headers, accept, method or f"POST {path}"))

    def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str | Secret] = {},
        accept: str = JSON,
        method: str | None = None,
    ) -> Effect[Answer, AiError]:
        """The whole answer to a GET of `path`; arguments and failures as `post`."""
        return self._whole(Call("GET", path, b"", headers, accept, method or f"GET {path}"))

    def events(
        self, path: str, body: bytes, *, headers: Mapping[str, str | Secret] = {}, method: str | None = None
    ) -> Stream[Event, AiError]:
        """The server-sent events that answer `body`, each as soon as it is whole; arguments as `post`.

        It is tried again only until the first event has come. Whoever stops reading closes the connection.

        Fails with:
            AiError: As the class says; also behind events that came: `NetworkError` for a stream that is cut, also
                by an end in the middle of an event, `RequestTimeoutError` for one that is silent for longer than
                `Timeout.read`, `InvalidOutputError` for what is no stream of events.
        """
        call = Call("POST", path, body, headers, EVENTS, method or f"POST {path}")
        return StreamOf.unwrap(fx.suspend(lambda: self._opened(Reading(self._line, call), call)))

    def _whole(self, call: Call) -> Effect[Answer, AiError]:
        limit = self._line.timeout.total
        return self._retried(self._within(self._tried(lambda: self._line.whole(call), call), call, limit))

    def _opened(self, reading: Reading, call: Call) -> Effect[Stream[Event, AiError], AiError, Scope]:
        limit = self._line.timeout.total

        def begin(now: float) -> Effect[None, AiError]:
            reading.deadline = None if limit is None else now + limit
            return self._within(self._tried(reading.begin, call), call, limit)

        began = self._retried(_now().flat_map(begin))
        stream = StreamOf.unfold(reading, lambda held: self._next(held, call))
        return fx.add_finalizer(lambda _: fx.wait(reading.close)).and_then(began).as_(stream)

    def _next(self, reading: Reading, call: Call) -> Effect[tuple[Event, Reading] | None, AiError]:
        if reading.ready:
            return fx.succeed((reading.ready.popleft(), reading))
        following = self._tried(reading.next, call).map(lambda event: event and (event, reading))
        deadline = reading.deadline
        if deadline is None:
            return following
        return _now().flat_map(lambda now: self._within(following, call, max(deadline - now, 0.0)))

    def _tried(self, f: Callable[[], Awaitable[_A]], call: Call) -> Effect[_A, AiError]:
        return fx.attempt_async(lambda: cancelled_once(f()), lambda error: self._line.to_error(error, call))

    def _within(self, effect: Effect[_A, AiError], call: Call, seconds: float | None) -> Effect[_A, AiError]:
        if seconds is None:
            return effect
        total = self._line.timeout.total
        late = AiError(self._line.module, call.method, RequestTimeoutError(total, "the whole answer took longer"))
        return effect.timeout(seconds).map_error(lambda error: late if isinstance(error, TimedOut) else error)

    def _retried(self, effect: Effect[_A, AiError]) -> Effect[_A, AiError]:
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
        module: Who reports errors, such as "openai".
        transport: What carries the requests in place of the network; closed with the client. By default the service
            `Transport` decides.

    Fails with:
        AiError: `NetworkError("InvalidUrlError")`: base_url or proxy is none; `ModelUnavailableError("not-installed")`:
            a package that it needs is not installed.
    """

    @fx.gen
    def opened() -> Gen[Client, AiError, Scope]:
        carrier = transport or (yield from Transport)
        made = fx.suspend(lambda: _line(base_url, headers, Timeout.of(timeout), proxy, module, carrier))
        line = yield from fx.acquire_release(made, lambda held: fx.wait(held.close))
        return Client(line, retry)

    return opened()


def _line(
    base_url: str,
    headers: Mapping[str, str | Secret],
    timeout: Timeout,
    proxy: str | None,
    module: str,
    carrier: httpx2.AsyncBaseTransport | Transport,
) -> Effect[Line, AiError]:
    try:
        from fxai.providers.http.pool import open_line

        return fx.succeed(open_line(base_url, headers, timeout, proxy, module, carrier))
    except BrokenAnswerError as error:
        return fx.fail(AiError(module, "open_client", error.reason))
    except ImportError as error:
        said = f"{error}; `pip install 'fxai[http]'` brings what is needed"
        missing = ModelUnavailableError(model=module, problem="not-installed", description=said)
        return fx.fail(AiError(module, "open_client", missing))


def _now() -> Effect[float]:
    return fx.reference(Clock).map(lambda clock: clock.monotonic())
