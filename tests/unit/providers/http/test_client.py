"""The client over loopback: what is sent, one pool, what comes back, each fault, and when it is tried again."""

from __future__ import annotations

import gzip
import logging
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from typing_extensions import override

from fxai.effects import Backend, Effect, Gen, Layer, Schedule, Scope, fx
from fxai.messages import (
    AiError,
    AuthenticationError,
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    ModelUnavailableError,
    NetworkError,
    Reason,
    RequestTimeoutError,
)
from fxai.providers.http import RETRY, Client, HttpResponse, Secret, Timeout, Transport, client, open_client
from fxai.providers.http.pool import open_pool, ssl_context
from fxai.testing import TestClock
from tests.kit.every import every
from tests.kit.http_peer import Step, answer, events, peer

OK = answer(200, b'{"ok": true}')
KEY = "sk-proj-0123456789abcdef"


def _post(url: str, path: str = "/replies", **options: Any) -> Effect[HttpResponse, AiError]:
    given: dict[str, Any] = {"retry": None, "module": "acme", **options}
    return fx.scoped(open_client(base_url=url, **given).flat_map(lambda client: client.post(path, b'{"a": 1}')))


def _reason(effect: Effect[Any, AiError], backend: Backend = "asyncio") -> Reason:
    failure: AiError = fx.run_result(effect, backend=backend).failure()
    return failure.reason


def _mocked(respond: Callable[[httpx2.Request], Any], **options: Any) -> Effect[HttpResponse, AiError]:
    return _post("https://api.example.com/v1", transport=httpx2.MockTransport(respond), **options)


def _always(given: httpx2.Response) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda _: given


def test_clients_of_a_thread_share_whom_they_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a context reads every certificate: it is made once, for each thread and each place that it is read from.

    A client whose requests do not go to the network makes none.
    """
    made: list[str] = []

    def make() -> ssl.SSLContext:
        made.append(f"{threading.current_thread().name} {os.environ['SSL_CERT_DIR']}")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def open_some() -> None:
        monkeypatch.setenv("SSL_CERT_DIR", "nowhere")
        carried = httpx2.MockTransport(_always(httpx2.Response(200)))
        fx.run(fx.scoped(open_client(base_url="https://x.example", transport=carried)))
        for location in ("here", "there", "here"):
            monkeypatch.setenv("SSL_CERT_DIR", location)
            one = open_client(base_url="https://x.example", retry=None)
            fx.run(fx.scoped(one.and_then(one)))

    monkeypatch.setattr(httpx2, "create_ssl_context", make)
    for name in ("a", "b"):
        thread = threading.Thread(target=open_some, name=name)
        thread.start()
        thread.join()

    assert made == ["a here", "a there", "b here", "b there"]


def test_a_request_is_sent_with_its_headers_and_its_body(backend: Backend) -> None:
    """Path, headers, keys and body arrive as given; the answer comes whole."""
    with peer([OK]) as server:
        got = fx.run(_post(f"{server.url}/v1/", headers={"X-Key": Secret(KEY), "X-Plain": "p"}), backend=backend)

    (seen,) = server.seen
    assert (got.status, got.body, got.header("Content-Type")) == (200, b'{"ok": true}', "application/json")
    assert (seen.line, seen.body) == ("POST /v1/replies HTTP/1.1", b'{"a": 1}')
    assert (seen.headers["x-key"], seen.headers["x-plain"]) == (KEY, "p")
    assert (seen.headers["content-type"], seen.headers["accept"]) == ("application/json", "application/json")


@every(
    ("base", "path", "asked"),
    [
        ("", "/a", "/a"),
        ("/", "a", "/a"),
        ("/v1", "/a", "/v1/a"),
        ("/v1/", "/a/b?limit=2", "/v1/a/b?limit=2"),
        ("/v1?api-version=3", "/a", "/v1/a?api-version=3"),
        ("/v1?api-version=3", "a?limit=2", "/v1/a?api-version=3&limit=2"),
        ("/v1", "", "/v1"),
    ],
)
def test_a_path_goes_behind_the_base(base: str, path: str, asked: str) -> None:
    """The path of a request stands behind that of base_url, and so does its query."""
    seen: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path.decode())
        return httpx2.Response(200, json={})

    fx.run(_post(f"https://api.example.com{base}", path, transport=httpx2.MockTransport(respond)))

    assert seen == [asked]


def test_headers_of_a_request_replace_those_of_the_client() -> None:
    """Of one name in both, in any case, the request's header is sent, once."""
    seen: list[Mapping[str, str]] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(dict(request.headers))
        return httpx2.Response(200, json={})

    opened = open_client(base_url="https://x.example", headers={"X-Mode": "a"}, transport=httpx2.MockTransport(respond))
    fx.run(fx.scoped(opened.flat_map(lambda client: client.post("/", b"", headers={"x-mode": "b"}))))

    assert seen[0]["x-mode"] == "b"


def test_a_user_in_the_address_becomes_a_header() -> None:
    """User and password leave the address, which libraries write to logs, and are sent as basic authorization."""
    seen: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    fx.run(_post("https://ann:word@x.example/v1", transport=httpx2.MockTransport(respond)))

    assert str(seen[0].url) == "https://x.example/v1/replies"
    assert seen[0].headers["authorization"] == "Basic YW5uOndvcmQ="


def test_one_pool_serves_all_requests_and_closes_with_the_scope(backend: Backend) -> None:
    """Requests after one another share a connection, which is closed when the scope ends."""

    def twice(client: Client) -> Effect[HttpResponse, AiError]:
        return client.post("/a", b"").and_then(client.get("/b"))

    with peer([OK]) as server:
        fx.run(fx.scoped(open_client(base_url=server.url).flat_map(twice)), backend=backend)

        assert server.gone()
    assert [(seen.connection, seen.line.split()[0]) for seen in server.seen] == [(1, "POST"), (1, "GET")]


def test_the_pool_closes_when_the_program_fails(backend: Backend) -> None:
    """A failure after a request closes the connection too."""
    with peer([OK]) as server:
        failing = open_client(base_url=server.url).flat_map(lambda client: client.get("/").and_then(fx.fail("no")))

        assert fx.run_result(fx.scoped(failing), backend=backend).failure() == "no"
        assert server.gone()


def test_a_cancelled_request_closes_its_connection(backend: Backend) -> None:
    """A request that is cancelled while it waits ends at once and leaves no connection open."""
    with peer([Step.HANG]) as server:
        begun = fx.fork(_post(server.url)).and_then(fx.wait(server.asked))

        assert fx.run(fx.scoped(begun), backend=backend)
        assert server.gone()


def test_many_requests_run_at_once(backend: Backend) -> None:
    """Requests at once have connections of their own."""
    barrier = threading.Barrier(4, timeout=20)

    async def respond(_: httpx2.Request) -> httpx2.Response:
        await anyio.to_thread.run_sync(barrier.wait)
        return httpx2.Response(200, json={})

    opened = open_client(base_url="https://x.example", transport=httpx2.MockTransport(respond))
    asked = opened.flat_map(lambda client: fx.for_each(range(4), lambda _: client.get("/"), concurrency=4))
    got = fx.run(fx.scoped(asked), backend=backend)

    assert [one.status for one in got] == [200] * 4


def test_a_compressed_answer_is_decompressed() -> None:
    """The body of an answer is what was compressed."""
    packed = gzip.compress(b'{"n": 1}')

    with peer([answer(200, packed, "content-encoding: gzip")]) as server:
        got = fx.run(_post(server.url))

    assert got.body == b'{"n": 1}'


def test_a_broken_compression_is_invalid_output() -> None:
    """A body that cannot be decompressed is a typed failure."""
    with peer([answer(200, b"not gzip", "content-encoding: gzip")]) as server:
        reason = _reason(_post(server.url))

    assert isinstance(reason, InvalidOutputError)
    assert "cannot decompress the answer" in reason.message


@every(
    ("status", "kind"),
    [
        (400, "InvalidRequestError"),
        (401, "AuthenticationError"),
        (403, "AuthenticationError"),
        (404, "InvalidRequestError"),
        (408, "RequestTimeoutError"),
        (429, "RateLimitError"),
        (500, "InternalProviderError"),
        (503, "InternalProviderError"),
        (418, "UnknownError"),
    ],
)
def test_a_status_is_its_reason_with_the_words_of_the_body(status: int, kind: str) -> None:
    """An answer of 400 and above is the failure that its status means, in the provider's words."""
    with peer([answer(status, b'{"error": {"message": "so it is"}}', "retry-after: 3")]) as server:
        failure: AiError = fx.run_result(_post(server.url)).failure()

    assert type(failure.reason).__name__ == kind
    assert "so it is" in failure.message
    assert (failure.module, failure.method, failure.retry_after) == ("acme", "POST /replies", 3.0)


def test_an_error_whose_body_is_cut_is_still_its_status() -> None:
    """The status of an error is known even where its words are lost on the way."""
    cut = b'HTTP/1.1 503 No\r\ncontent-length: 100\r\n\r\n{"err'

    with peer([cut, Step.CLOSE]) as server:
        reason = _reason(_post(server.url))

    assert isinstance(reason, InternalProviderError)
    assert '{"err' in reason.description


def test_an_error_whose_body_stalls_is_still_its_status(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    """The words of an error are not waited for longer than a few seconds, whatever `read` allows."""
    monkeypatch.setattr(client, "_ERROR_TIME", 0.1)

    with peer([b"HTTP/1.1 503 No\r\ncontent-length: 100\r\n\r\nbusy", Step.HANG]) as server:
        reason = _reason(_post(server.url), backend)

        assert server.gone()
    assert isinstance(reason, InternalProviderError)


def test_a_redirect_is_not_followed() -> None:
    """A redirect is a failure that names its target without what may be private in it; nothing is sent there."""
    with peer([answer(307, b"", "location: https://u:p@other.example/v2?key=1")]) as server:
        reason = _reason(_post(server.url))

    assert isinstance(reason, NetworkError)
    assert (reason.kind, reason.is_retryable) == ("InvalidUrlError", False)
    assert "https://other.example/v2." in reason.message
    assert len(server.seen) == 1


def test_another_media_type_is_invalid_output() -> None:
    """A page where JSON was asked for is a failure that shows how the page begins."""
    with peer([answer(200, b"<h1>Log in</h1>", kind="text/html; charset=utf-8")]) as server:
        reason = _reason(_post(server.url))

    assert reason.message.endswith("expected application/json, got text/html: <h1>Log in</h1>")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/problem+json", "Application/JSON"])
def test_json_by_any_of_its_names_is_taken(kind: str) -> None:
    """Parameters, suffixes and case of the media type do not matter."""
    got = fx.run(_mocked(lambda _: httpx2.Response(200, content=b"{}", headers={"content-type": kind})))

    assert got.body == b"{}"


@every("body", [b"{}", b"[]", b" \n{}", b"\xef\xbb\xbf{}"])
@every(
    "kind", ["text/plain", "text/plain; charset=utf-8", "application/octet-stream", "text/html", "text/event-stream"]
)
def test_json_of_another_media_type_is_read(kind: str, body: bytes) -> None:
    """The client reads JSON whatever its type is, and removes a byte order mark."""
    got = fx.run(_mocked(lambda _: httpx2.Response(200, content=body, headers={"content-type": kind})))

    assert got.body == body.removeprefix(b"\xef\xbb\xbf")


def test_a_refused_connection_is_a_network_error(backend: Backend) -> None:
    """Where nobody listens, the failure names the place and can be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    reason = _reason(_post(f"http://127.0.0.1:{port}"), backend)

    assert reason == NetworkError(
        kind="TransportError", description=f"cannot connect to 127.0.0.1:{port}: connection refused"
    )
    assert reason.is_retryable


def test_a_name_without_address_is_a_network_error() -> None:
    """A name that DNS does not know is told as such."""

    def respond(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("all failed") from socket.gaierror(-2, "Name or service not known")

    reason = _reason(_mocked(respond))

    assert "cannot connect to api.example.com:443: the host name has no address" in reason.message


def test_a_certificate_that_is_not_trusted_is_a_network_error() -> None:
    """TLS that refuses a certificate says why."""
    refused = ssl.SSLCertVerificationError("certificate verify failed")
    refused.verify_message = "self-signed certificate"

    def respond(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no") from refused

    assert "the TLS certificate is not trusted (self-signed certificate)" in _reason(_mocked(respond)).message


def test_a_peer_without_tls_is_a_network_error(backend: Backend) -> None:
    """An address of https where plain HTTP is spoken fails by TLS, and says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        reason = _reason(_post(f"https://127.0.0.1:{listener.getsockname()[1]}"), backend)
        thread.join()

    assert isinstance(reason, NetworkError)
    assert "TLS failed" in reason.message


@every("end", [Step.CLOSE, Step.RESET])
@every("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-len", answer(200, b'{"ok": true}')[:-4]])
def test_a_connection_that_breaks_is_a_network_error(backend: Backend, said: bytes, end: Step) -> None:
    """A connection closed or reset before the answer, in its head, or in its body, fails and can be tried again."""
    with peer([said, end]) as server:
        reason = _reason(_post(server.url), backend)

    assert isinstance(reason, NetworkError)
    assert reason.kind == "TransportError"
    assert "broke" in reason.message


def test_an_answer_that_is_not_http_is_a_network_error() -> None:
    """Garbage where HTTP should be is a failure of the connection."""
    with peer([b"\x00\x01 garbage\r\n\r\n", Step.CLOSE]) as server:
        reason = _reason(_post(server.url))

    assert isinstance(reason, NetworkError)


def test_an_address_that_is_none_fails_before_anything_is_sent() -> None:
    """A base_url without scheme or host, and a proxy of a strange scheme, are told when the client is opened."""
    for options in ({"url": "api.example.com/v1"}, {"url": "https://"}, {"url": "https://x.example:port"}):
        assert getattr(_reason(_post(**options)), "kind", None) == "InvalidUrlError"
    reason = _reason(_post("https://x.example", proxy="ftp://user:word@proxy.example"))

    assert "proxy must start with http:// or https:// or socks5:// or socks5h://" in reason.message
    assert "word" not in reason.message


@every(
    ("url", "proxy", "said"),
    [
        ("ftp://x.example", None, "base_url must start with http:// or https:// and name a host"),
        ("https://", None, "base_url must start with http:// or https:// and name a host"),
        ("https://x.example:port", None, "base_url is not a valid URL: "),
        ("https://x.example", "http://", "proxy must start with http:// or https:// or socks5://"),
        ("https://x.example", "http://p.example:port", "proxy is not a valid URL: "),
    ],
)
def test_what_is_wrong_with_an_address_is_named(url: str, proxy: str | None, said: str) -> None:
    """Which of the two it is, and what it lacks."""
    failure: AiError = fx.run_result(_post(url, proxy=proxy)).failure()

    assert isinstance(failure.reason, NetworkError)
    assert (failure.module, failure.method, failure.reason.kind) == ("acme", "open_client", "InvalidUrlError")
    assert failure.reason.description.startswith(said)


def test_a_proxy_of_the_environment_that_is_no_url_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that may name it are in the message; what they hold is not."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:word@p.example:port")
    monkeypatch.setenv("https_proxy", "http://user:word@p.example:port")
    reason = _reason(_post("https://x.example"))

    assert getattr(reason, "kind", None) == "InvalidUrlError"
    assert "HTTP_PROXY, HTTPS_PROXY, or ALL_PROXY in the environment is not a valid URL" in reason.message
    assert "word" not in reason.message


@every(
    ("user", "headers", "sent"),
    [
        ("ann:word@", {}, "Basic YW5uOndvcmQ="),
        ("ann@", {}, "Basic YW5uOg=="),
        (":word@", {}, "Basic OndvcmQ="),
        ("ann:word@", {"Authorization": "Bearer x"}, "Bearer x"),
        ("", {}, None),
    ],
)
def test_a_user_or_a_password_alone_is_sent_too(user: str, headers: dict[str, str], sent: str | None) -> None:
    """As basic authorization, unless a header of that name is given."""
    seen: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={})

    fx.run(_post(f"https://{user}x.example", "", transport=httpx2.MockTransport(respond), headers=headers))

    assert (str(seen[0].url), seen[0].headers.get("authorization")) == ("https://x.example/", sent)


def test_whom_to_trust_is_a_context_of_tls() -> None:
    """It verifies, and is the same for the next client."""
    assert ssl_context().verify_mode is ssl.CERT_REQUIRED
    assert ssl_context() is ssl_context()


def test_the_longest_secret_is_taken_out_first() -> None:
    """A key that is sent with its scheme is taken out with it, and one that begins another leaves nothing of it."""
    headers = {"x-api-key": Secret(KEY), "authorization": Secret(f"Bearer {KEY}-long")}
    reason = _reason(
        _mocked(lambda _: httpx2.Response(401, text=f"Bearer {KEY}-long, {KEY}-long, {KEY}"), headers=headers)
    )

    assert getattr(reason, "description", None) == "(secret), (secret), (secret)"


def test_an_answer_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    """An answer of as many bytes as are read is whole; of one more, it is a failure, and its connection is closed."""
    monkeypatch.setattr(client, "_LARGEST", 12)
    with peer([OK], [answer(200, b"[" + b"1" * 12)]) as server:
        whole = fx.run(_post(server.url), backend=backend)
        reason = _reason(_post(server.url), backend)

        assert server.gone()
    assert whole.body == b'{"ok": true}'
    assert reason == InvalidOutputError("the answer is larger than 12 bytes")


def test_a_package_that_is_missing_is_named() -> None:
    """A SOCKS proxy without the package for it is a failure that says what to install."""
    error: AiError = fx.run_result(_post("https://x.example", proxy="socks5://127.0.0.1:9")).failure()
    reason = error.reason

    assert isinstance(reason, ModelUnavailableError)
    assert (reason.problem, "socksio" in reason.message) == ("not-installed", True)
    assert (reason.model, str(error).partition(":")[0]) == ("acme", "acme.open_client")


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each pool of connections is opened with, from now on."""
    opened: list[dict[str, Any]] = []
    live = httpx2.AsyncClient

    def opening(**given: Any) -> httpx2.AsyncClient:
        opened.append(given)
        return live(**given)

    monkeypatch.setattr(httpx2, "AsyncClient", opening)
    return opened


@pytest.mark.parametrize("carried", [False, True])
def test_a_pool_is_opened_as_it_was_asked_for(carried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its proxy, its waits, room for a thousand requests at once, and whom the environment trusts.

    With a carrier of its own it trusts and asks nobody, and the proxy is the carrier's matter.
    """
    opened = _opened(monkeypatch)
    carrier = httpx2.MockTransport(lambda _: httpx2.Response(200))
    waits = Timeout(connect=1, read=2, write=3, pool=4)
    way = carrier if carried else Transport.default()
    _, base, headers = open_pool("https://user:word@x.example/v1", {"a": "b"}, waits, "http://127.0.0.1:9", way)
    (given,) = opened

    assert given["verify"] is (True if carried else ssl_context())
    assert (given["proxy"], given["transport"]) == ((None, carrier) if carried else ("http://127.0.0.1:9", None))
    assert given["timeout"] == httpx2.Timeout(connect=1, read=2, write=3, pool=4)
    assert (given["limits"].max_connections, given["limits"].max_keepalive_connections) == (1000, 100)
    assert (str(base), headers) == ("https://x.example/v1", {"a": "b", "authorization": Secret("Basic dXNlcjp3b3Jk")})


def test_a_client_that_is_recorded_has_the_proxy_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transport stands on is a pool of its own, with the proxy that was asked for."""
    opened = _opened(monkeypatch)

    class Recording(Transport):
        @override
        def over(self, live: Callable[[], httpx2.AsyncBaseTransport]) -> httpx2.AsyncBaseTransport:
            return live()

    _, base, headers = open_pool("https://x.example", {}, Timeout(), "http://127.0.0.1:9", Recording())
    inner, outer = opened

    assert (inner["proxy"], inner["transport"], inner["timeout"]) == ("http://127.0.0.1:9", None, None)
    assert inner["verify"] is ssl_context()
    assert (outer["proxy"], outer["transport"] is None, outer["verify"]) == (None, False, True)
    assert (str(base), headers) == ("https://x.example", {})


def test_a_client_that_is_recorded_streams_and_closes_what_it_stands_on(backend: Backend) -> None:
    """What comes is given on as it comes, and the network's connections end with the client."""

    class Recording(Transport):
        @override
        def over(self, live: Callable[[], httpx2.AsyncBaseTransport]) -> httpx2.AsyncBaseTransport:
            return live()

    @fx.gen
    def ask(url: str) -> Gen[str, AiError, Scope]:
        opened = yield from open_client(base_url=url, module="acme")
        first = yield from opened.events("/", b"{}").take(1).collect()
        yield from opened.get("/", accept="*/*")
        return first[0].data

    with peer([*events(b"data: 1\n\n", whole=False), Step.HANG], [OK]) as server:
        asked = fx.scoped(ask(server.url)).provide(Layer.succeed(Transport, Recording()))

        assert fx.run(asked, backend=backend) == "1"
        assert server.gone()
        assert server.gone()


def test_a_proxy_carries_the_request() -> None:
    """With a proxy, the request goes there, with its whole address."""
    with peer([OK]) as proxy:
        got = fx.run(_post("http://api.example.com/v1", proxy=proxy.url))

    assert got.status == 200
    assert proxy.seen[0].line == "POST http://api.example.com/v1/replies HTTP/1.1"


def test_a_proxy_of_the_environment_carries_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is given, the variables that name proxies decide."""
    with peer([OK]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        got = fx.run(_post("http://api.example.com/v1"))

    assert got.status == 200


def test_silence_is_a_timeout(backend: Backend) -> None:
    """A server that does not answer within `read` is a failure that says how long it was given."""
    with peer([Step.HANG]) as server:
        reason = _reason(_post(server.url, timeout=Timeout(read=0.05)), backend)

    assert isinstance(reason, RequestTimeoutError)
    assert (reason.seconds, "stopped sending" in reason.message) == (0.05, True)


def test_a_number_is_the_timeout_of_each_wait() -> None:
    """A plain number limits silence as well."""
    with peer([Step.HANG]) as server:
        reason = _reason(_post(server.url, timeout=0.05))

    assert isinstance(reason, RequestTimeoutError)


@pytest.mark.parametrize(
    ("raised", "seconds", "words"),
    [
        (httpx2.ConnectTimeout, 1.0, "did not accept the connection"),
        (httpx2.ReadTimeout, 2.0, "stopped sending"),
        (httpx2.WriteTimeout, 3.0, "stopped reading the request"),
        (httpx2.PoolTimeout, 4.0, "all connections of the pool stayed in use"),
    ],
)
def test_each_wait_has_its_own_timeout(raised: type[httpx2.TimeoutException], seconds: float, words: str) -> None:
    """Each of the four waits is told apart, with what it was allowed."""

    def respond(_: httpx2.Request) -> httpx2.Response:
        raise raised("late")

    reason = _reason(_mocked(respond, timeout=Timeout(connect=1.0, read=2.0, write=3.0, pool=4.0)))

    assert isinstance(reason, RequestTimeoutError)
    assert (reason.seconds, words in reason.message) == (seconds, True)


def test_the_whole_answer_has_a_timeout_by_the_clock(backend: Backend) -> None:
    """`total` ends an attempt, however busy it is, by the `Clock`."""
    clock = TestClock()

    def respond(_: httpx2.Request) -> Any:
        return anyio.sleep_forever()

    @fx.gen
    def program() -> Any:
        handle = yield from fx.fork(_mocked(respond, timeout=Timeout(total=30)).result())
        yield from clock.advance(29)
        before = handle.ended
        yield from clock.advance(1)
        return before, (yield from handle.join())

    before, ended = fx.run(fx.scoped(program()).provide(clock.layer), backend=backend)

    assert not before
    assert ended.failure().reason == RequestTimeoutError(30, "the whole answer took longer")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(seconds: float) -> None:
    """A timeout that nothing can keep is refused where it is made."""
    with pytest.raises(ValueError, match="must be greater than 0 seconds or None"):
        Timeout(read=seconds)


def _flaky(*answers: httpx2.Response | Exception) -> tuple[httpx2.MockTransport, list[httpx2.Request]]:
    seen: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        given = answers[min(len(seen), len(answers)) - 1]
        if isinstance(given, Exception):
            raise given
        return given

    return httpx2.MockTransport(respond), seen


def _status(status: int, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, json={}, headers=named)


def _elapsed(effect: Effect[Any, AiError], seconds: float) -> Any:
    """What the effect gives, or its failure, and at which time, on a clock that is moved by `seconds`."""
    clock = TestClock()

    @fx.gen
    def program() -> Any:
        handle = yield from fx.fork(effect.result().map(lambda end: (end, clock.monotonic())))
        yield from clock.advance(seconds)
        return (yield from handle.join()) if handle.ended else None

    return fx.run(fx.scoped(program()).provide(clock.layer))


def test_a_retry_waits_as_long_as_the_provider_asks() -> None:
    """`retry-after` is honoured by the default schedule, and the third attempt's answer is given."""
    transport, seen = _flaky(_status(429, retry_after="7"), httpx2.ReadError("cut"), _status(200))

    end, at = _elapsed(_post("https://x.example", transport=transport, retry=RETRY), 60)

    assert end.unwrap().status == 200
    assert len(seen) == 3
    assert 7.75 <= at <= 8.25


def test_retries_come_to_an_end() -> None:
    """After two retries the last failure stands."""
    transport, seen = _flaky(_status(500), _status(503), _status(529))

    end, _ = _elapsed(_post("https://x.example", transport=transport, retry=RETRY), 60)

    assert end.failure().reason.status == 529
    assert len(seen) == 3


@pytest.mark.parametrize("given", [_status(400), _status(401), _status(307), _status(429, retry_after="3600")])
def test_what_retrying_cannot_help_is_not_tried_again(given: httpx2.Response) -> None:
    """A request that is wrong, a key that is refused, a redirect, and an hour's wait end at once."""
    transport, seen = _flaky(given)

    end, at = _elapsed(_post("https://x.example", transport=transport, retry=RETRY), 60)

    assert isinstance(end.failure(), AiError)
    assert (len(seen), at) == (1, 0)


OVERLOADED = {"error": {"type": "overloaded_error", "message": "Overloaded"}}


def _inside(data: Any, kind: str = "application/json", **headers: str) -> httpx2.Response:
    """An answer of status 200: a JSON body, or a stream whose first event is the data."""
    body = msgspec.json.encode(data)
    content = body if kind == "application/json" else b": ping\n\nevent: ping\ndata: {}\n\ndata: " + body + b"\n\n"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(200, content=content, headers={"content-type": kind, **named})


@pytest.mark.parametrize(
    ("kind", "streams"), [("application/json", False), ("application/json", True), ("text/event-stream", True)]
)
@pytest.mark.parametrize(
    "data",
    [
        OVERLOADED,
        {"type": "error", **OVERLOADED},
        {"type": "error", "code": "server_error", "message": "Sorry."},
        {"object": "error", "message": "the engine is overloaded", "code": 503},
        {"error": "upstream connect error"},
        {"id": "r", "choices": [], "error": {"code": 429, "message": "Slow down."}},
        {"error": {"message": "Rate limit reached. Try again in 3s."}},
    ],
    ids=str,
)
def test_an_error_inside_a_200_is_retried(data: Any, kind: str, streams: bool) -> None:
    """A whole answer or a first event that states a passing error fails the attempt, with the header's advice."""
    good = _inside({"choices": [1]}, kind)
    transport, seen = _flaky(_inside(data, kind, retry_after="7"), good)
    opened = open_client(base_url="https://x.example", transport=transport, retry=RETRY, module="acme")

    def send(client: Client) -> Effect[Any, AiError]:
        if not streams:
            return client.post("/", b"{}").map(lambda got: got.body.decode())
        return client.events("/", b"{}").collect().map(lambda got: got[0].data)

    end, at = _elapsed(fx.scoped(opened.flat_map(send)), 60)

    assert (msgspec.json.decode(end.unwrap()), len(seen)) == ({"choices": [1]}, 2)
    assert 5 <= at <= 9


@pytest.mark.parametrize(
    "data",
    [
        {"error": {"type": "invalid_request_error", "message": "no such parameter"}},
        {"error": {"code": "content_policy_violation", "message": "no"}},
        {"choices": [{"text": "half an ans"}], "error": {"code": 502, "message": "upstream"}},
        {"error": None, "choices": []},
        {"note": "x" * 3000, **OVERLOADED},
        [{"error": {"type": "overloaded_error"}}],
    ],
    ids=lambda data: str(data)[:60],
)
def test_an_answer_of_status_200_is_read_once(data: Any) -> None:
    """An error that a retry cannot change, an error behind content, and a long answer go to the reader."""
    transport, seen = _flaky(_inside(data))

    end, at = _elapsed(_post("https://x.example", transport=transport, retry=RETRY), 60)

    assert msgspec.json.decode(end.unwrap().body) == data
    assert (len(seen), at) == (1, 0)


def test_an_error_inside_a_200_ends_the_retries() -> None:
    """After two retries the error of the body is the failure, with the seconds that the server asks to wait."""
    transport, seen = _flaky(_inside(OVERLOADED, retry_after="1"))

    end, _ = _elapsed(_post("https://x.example", transport=transport, retry=RETRY), 60)

    assert (end.failure().reason.status, end.failure().retry_after, len(seen)) == (529, 1.0, 3)


def test_a_schedule_of_ones_own_decides() -> None:
    """Any schedule over the error may be given."""
    transport, seen = _flaky(_status(500))

    asked = _post("https://x.example", transport=transport, retry=Schedule.recurs(5))

    assert getattr(_reason(asked), "status", None) == 500
    assert len(seen) == 6


def test_a_bug_is_no_failure() -> None:
    """What is neither HTTP nor the network is a defect, with its traceback."""

    def respond(_: httpx2.Request) -> httpx2.Response:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        fx.run(_mocked(respond))


def test_a_secret_that_is_repeated_is_not_shown() -> None:
    """Where the provider repeats the key, as is or behind its scheme, the failure holds none of it."""
    error = f'{{"error": {{"message": "bad key {KEY}"}}}}'
    for body in (error, f"bad key {KEY} " * 20, f"<h1>Bearer {KEY}</h1>"):
        for status in (401,) if body == error else (200, 401):
            reply = httpx2.Response(status, content=body.encode(), headers={"content-type": "text/plain"})
            asked = _mocked(_always(reply), headers={"authorization": Secret(f"Bearer {KEY}")})
            failure: AiError = fx.run_result(asked).failure()

            assert "(secret)" in failure.message
            assert KEY[:8] not in f"{failure!r} {failure} {failure.to_json()} {msgspec.json.encode(failure)!r}"


def test_a_key_in_plain_text_is_not_shown_either() -> None:
    """A header for keys is a secret, also where its value was given as a plain text."""
    for name in ("X-API-Key", "api-key", "Authorization", "cookie", "Proxy-Authorization"):
        asked = _mocked(lambda _: httpx2.Response(401, text=f"bad {KEY}"), headers={name: KEY})

        assert getattr(_reason(asked), "description", None) == "bad (secret)"


@every("verb", ["get", "post", "events"])
@every("word", [None, "look"])
def test_a_failure_says_what_was_being_done(verb: str, word: str | None) -> None:
    """The verb and the path, unless the caller has a word for it; and which provider it was."""

    def ask(client: Client) -> Effect[Any, AiError]:
        if verb == "get":
            return client.get("/x", method=word)
        return client.post("/x", b"", method=word) if verb == "post" else client.events("/x", b"", method=word).drain()

    given: Any = {"retry": None, "module": "acme", "transport": httpx2.MockTransport(lambda _: _status(400))}
    failure: AiError = fx.run_result(
        fx.scoped(open_client(base_url="https://a.example", **given).flat_map(ask))
    ).failure()

    assert (failure.module, failure.method) == ("acme", word or ("GET /x" if verb == "get" else "POST /x"))


@pytest.mark.parametrize("status", [300, 304, 307, 399])
def test_every_status_of_a_redirect_is_one(status: int) -> None:
    """From 300 on, whatever type of content it names."""
    asked = _mocked(lambda _: httpx2.Response(status, json={}, headers={"location": "https://other.example/v2"}))

    assert "redirect" in _reason(asked).message


@every(
    ("base", "path", "url"),
    [
        ("https://a.example", "/x", "https://a.example/x"),
        ("https://a.example/", "x", "https://a.example/x"),
        ("https://a.example/v1/", "//x/y/", "https://a.example/v1/x/y/"),
        ("https://a.example/v1", "", "https://a.example/v1"),
        ("https://a.example", "", "https://a.example/"),
        ("https://a.example/v1?k=1", "/x?b=2", "https://a.example/v1/x?k=1&b=2"),
        ("https://a.example/v1", "X?", "https://a.example/v1/X"),
        ("https://a.example/X", "?b=2", "https://a.example/X?b=2"),
    ],
)
def test_a_path_stands_behind_the_bases(base: str, path: str, url: str) -> None:
    """With one stroke between them, and the base's query before its own."""
    asked: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(200, json={})

    fx.run(_post(base, path, transport=httpx2.MockTransport(respond)))

    assert asked == [url]


def test_a_short_key_leaves_words_whole() -> None:
    """A key of one letter, as servers without keys are given, is taken out only where it stands alone."""
    asked = _mocked(lambda _: httpx2.Response(400, text="max x exceeded"), headers={"x-api-key": Secret("x")})

    assert getattr(_reason(asked), "description", None) == "max (secret) exceeded"


class _Endless(httpx2.AsyncByteStream):
    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536


def test_the_body_of_an_error_is_not_read_for_ever(backend: Backend) -> None:
    """An error whose body does not end is its status, after a part of it."""
    reason = _reason(_mocked(lambda _: httpx2.Response(500, stream=_Endless())), backend)

    assert isinstance(reason, InternalProviderError)


def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    """A line break in a key is told as such, without the key; so is a strange character in another header."""
    reason = _reason(_mocked(lambda _: _status(200), headers={"x-api-key": Secret(f"{KEY}\n")}))
    plain = _reason(_mocked(lambda _: _status(200), headers={"x-mode": "größe"}))

    assert isinstance(reason, AuthenticationError)
    assert (reason.kind, "'x-api-key'" in reason.message) == ("InvalidKey", True)
    assert KEY not in repr(reason)
    assert isinstance(plain, NetworkError)
    assert plain.kind == "EncodeError"


def test_no_log_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    """At the most talkative level, no library writes the key, the password or a proxy's password."""
    with caplog.at_level(logging.DEBUG), peer([OK]) as server:
        url = server.url.replace("http://", "http://ann:word-of-ann@")
        fx.run(_post(url, headers={"x-api-key": Secret(KEY)}))

    assert server.seen[0].headers["x-api-key"] == KEY
    assert caplog.text
    assert KEY not in caplog.text
    assert "word-of-ann" not in caplog.text


@every(
    "header", [f"x-echo: {KEY}", f"x-echo: Bearer {KEY.upper()}", f"set-cookie: k={KEY}", f"content-type: text/{KEY}"]
)
def test_no_log_and_no_error_holds_a_secret_that_a_server_repeats(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Libraries log the headers of answers; a key in them is hidden, in either letter case."""
    with caplog.at_level(logging.DEBUG), peer([answer(200, b"no json", header, kind="text/plain")]) as server:
        ended = fx.run_exit(_post(server.url, headers={"x-api-key": Secret(KEY)}))

    assert "receive_response_headers" in caplog.text
    assert KEY.lower() not in (caplog.text + repr(ended)).lower()


def test_a_traceback_with_locals_holds_no_secret() -> None:
    """A bug inside a request, shown with the repr of each local, shows no key."""
    shown: list[str] = []

    def respond(_: httpx2.Request) -> httpx2.Response:
        raise KeyError("bug")

    try:
        fx.run(_mocked(respond, headers={"authorization": Secret(f"Bearer {KEY}")}))
    except KeyError as error:
        trace = error.__traceback__
        while trace is not None:
            if "/tests/" not in trace.tb_frame.f_code.co_filename:
                shown.extend(f"{name}={value!r}" for name, value in trace.tb_frame.f_locals.items())
            trace = trace.tb_next

    assert any("response" in one or "request" in one for one in shown)
    assert not [one for one in shown if KEY in one]


@pytest.mark.parametrize("name", ["authorization", "x-of-their-own"])
def test_a_secret_is_taken_out_whatever_its_header_is_called(name: str) -> None:
    """Servers name the header of their key as they like, and repeat what they were sent."""
    asked = _mocked(lambda _: httpx2.Response(400, text=f"bad key {KEY}"), headers={name: Secret(KEY)})

    assert getattr(_reason(asked), "description", None) == "bad key (secret)"


class _Watched(httpx2.AsyncByteStream):
    """A body that tells when it is closed, and breaks behind its pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.closed = 0

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        raise httpx2.ReadError("cut")

    @override
    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [(200, {}), (200, {"content-type": "text/html"}), (302, {"location": "https://y.example"}), (500, {})],
)
def test_an_answer_that_is_not_read_to_its_end_is_closed(
    status: int, headers: dict[str, str], backend: Backend
) -> None:
    """A body that breaks, a redirect, another media type, an error: its connection is given up at once."""
    body = _Watched(b"{")

    @fx.gen
    def program() -> Any:
        given = httpx2.MockTransport(_always(httpx2.Response(status, headers=headers, stream=body)))
        client = yield from open_client(base_url="https://x.example", transport=given, retry=None)
        failed = yield from client.post("/", b"").match(lambda _: True, lambda _: False)
        return failed, body.closed

    assert fx.run(fx.scoped(program()), backend=backend) == (True, 1)


def test_a_wrong_parameter_is_named() -> None:
    """The parameter that the provider blames is in the reason."""
    body = {"error": {"message": "too big", "param": "max_tokens"}}

    reason = _reason(_mocked(lambda _: httpx2.Response(400, json=body)))

    assert reason == InvalidRequestError("max_tokens", None, "too big")
