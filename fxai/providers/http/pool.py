"""Opening a pool of connections. It imports `httpx2`, so it is imported where a client is opened.

>>> ssl_context() is ssl_context()
True
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from threading import local
from typing import TYPE_CHECKING, Final, final

import httpx2
from typing_extensions import override

from fxai.effects.cancellation import shield
from fxai.messages.reason import NetworkError
from fxai.providers.http.http_error import BrokenAnswerError
from fxai.providers.http.transport import Secret, Timeout, Transport

if TYPE_CHECKING:
    from ssl import SSLContext

_LIMITS: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)
_PROXY_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_TRUST: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


class _Contexts(local):
    """The TLS contexts of a thread, by what the environment says of them."""

    def __init__(self) -> None:
        self.known: dict[tuple[str | None, ...], SSLContext] = {}


_CONTEXTS: Final = _Contexts()


def ssl_context() -> SSLContext:
    """The certificates that TLS trusts, as the environment says: one for each thread, since making it takes 45 ms."""
    # Of a thread, not of the process: each connection sets the protocols of the context, and OpenSSL copies them for
    # another connection without the interpreter's lock.
    variables = tuple(map(os.environ.get, _TRUST))
    known = _CONTEXTS.known.get(variables)
    if known is None:
        known = _CONTEXTS.known[variables] = httpx2.create_ssl_context()
    return known


def open_pool(
    base_url: str,
    headers: Mapping[str, str | Secret],
    timeout: Timeout,
    proxy: str | None,
    transport: httpx2.AsyncBaseTransport | Transport,
) -> tuple[httpx2.AsyncClient, httpx2.URL, Mapping[str, str | Secret]]:
    """A pool of connections, the address without user and password, and the headers with them.

    Raises:
        BrokenAnswerError: base_url or proxy is no URL that can be asked.
        ImportError: the package for SOCKS proxies is not installed.
    """
    base = _url("base_url", base_url, ("http", "https"))
    if base.username or base.password:  # httpx2 writes addresses to its log
        basic = b64encode(f"{base.username}:{base.password}".encode()).decode()
        if "authorization" not in {name.lower() for name in headers}:
            headers = {**headers, "authorization": Secret(f"Basic {basic}")}
        base = base.copy_with(username=None, password=None)
    if proxy is not None:
        _url("proxy", proxy, _PROXY_SCHEMES)
    limits = httpx2.Timeout(connect=timeout.connect, read=timeout.read, write=timeout.write, pool=timeout.pool)
    carrier = transport.over(lambda: _Live(proxy)) if isinstance(transport, Transport) else transport
    return _pool(proxy if carrier is None else None, carrier, limits), base, headers


def encode_form(fields: Mapping[str, str], name: str, content: bytes, media_type: str) -> tuple[str, bytes]:
    """A form with fields and a file, as `multipart/form-data`: its content type, with the boundary, and its body.

    >>> kind, body = encode_form({"purpose": "user_data"}, "a.txt", b"All is well.", "text/plain")
    >>> kind.partition(";")[0], b"All is well." in body
    ('multipart/form-data', True)
    """
    file = {"file": (name, content, media_type)}
    request = httpx2.Request("POST", "http://form", data=dict(fields), files=file)
    return request.headers["content-type"], request.read()


def _pool(
    proxy: str | None, carrier: httpx2.AsyncBaseTransport | None, timeout: httpx2.Timeout | None
) -> httpx2.AsyncClient:
    verify = True if carrier is not None else ssl_context()  # a transport that was given does its own TLS
    try:
        return httpx2.AsyncClient(
            verify=verify,
            proxy=proxy,
            transport=carrier,
            timeout=timeout,
            limits=_LIMITS,
            event_hooks={"response": [_close_whole]},
        )
    except (ValueError, httpx2.InvalidURL):
        problem = "one of the proxies that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) is not a URL"
        raise BrokenAnswerError(NetworkError(kind="InvalidUrlError", description=problem)) from None


def _url(name: str, text: str, schemes: tuple[str, ...]) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        problem = f"{name} is no URL: {error}"
        raise BrokenAnswerError(NetworkError(kind="InvalidUrlError", description=problem)) from None
    if url.scheme not in schemes or not url.host:
        problem = f"{name} has to begin with {' or '.join(f'{scheme}://' for scheme in schemes)} and name a host"
        raise BrokenAnswerError(NetworkError(kind="InvalidUrlError", description=problem))
    return url


async def _close_whole(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _ClosedWhole(response.stream)


@final
class _ClosedWhole(httpx2.AsyncByteStream):
    """The bytes of an answer, which `httpx2` closes wherever reading ends: no cancellation cuts that short."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    @override
    async def aclose(self) -> None:
        await shield(self._stream.aclose())


@final
class _Live(httpx2.AsyncBaseTransport):
    """The network, with the proxies of a client, as a transport that another one can stand on."""

    def __init__(self, proxy: str | None) -> None:
        self._pool = _pool(proxy, None, None)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._pool.send(request, stream=True)

    @override
    async def aclose(self) -> None:
        await self._pool.aclose()
