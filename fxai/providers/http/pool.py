"""Pools of connections. This module imports `httpx2`; import it only when a program opens a client.

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
from fxai.providers.http.reply import ReplyError
from fxai.providers.http.transport import Secret, Timeout, Transport

if TYPE_CHECKING:
    from ssl import SSLContext

_LIMITS: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)
_PROXY_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_TRUST: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


class _Contexts(local):
    """The TLS contexts of a thread. The key of a context is the tuple of the environment variables in `_TRUST`."""

    def __init__(self) -> None:
        self.known: dict[tuple[str | None, ...], SSLContext] = {}


_CONTEXTS: Final = _Contexts()


def ssl_context() -> SSLContext:
    """Return the TLS context of this thread, with the certificates that the environment selects.

    Creating a context takes 45 ms, so each thread stores its context.
    """
    # one context per thread: each connection sets the protocols of the context, and OpenSSL copies them for another
    # connection without the interpreter's lock
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
    """Open a pool of connections. Return it with the address without user and password, and with the headers.

    Raises:
        ReplyError: If `base_url` or `proxy` is not a supported URL.
        ImportError: If the package for SOCKS proxies is not installed.
    """
    base = _url("base_url", base_url, ("http", "https"))
    if base.username or base.password:  # the password must not stay in the address: httpx2 logs addresses
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
    """Encode a form with fields and a file as `multipart/form-data`. Return its content type and its body.

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
    verify = True if carrier is not None else ssl_context()  # a custom transport does its own TLS
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
        problem = "HTTP_PROXY, HTTPS_PROXY, or ALL_PROXY in the environment is not a valid URL. Correct the variable."
        raise ReplyError(NetworkError(kind="InvalidUrlError", description=problem)) from None


def _url(name: str, text: str, schemes: tuple[str, ...]) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        problem = f"{name} is not a valid URL: {error}"
        raise ReplyError(NetworkError(kind="InvalidUrlError", description=problem)) from None
    if url.scheme not in schemes or not url.host:
        problem = f"{name} must start with {' or '.join(f'{scheme}://' for scheme in schemes)} and name a host"
        raise ReplyError(NetworkError(kind="InvalidUrlError", description=problem))
    return url


async def _close_whole(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _ClosedWhole(response.stream)


@final
class _ClosedWhole(httpx2.AsyncByteStream):
    """The bytes of an answer. A cancellation cannot interrupt `httpx2` while it closes them."""

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
    """The network with the proxies of a client, as a transport. Another transport can wrap it."""

    def __init__(self, proxy: str | None) -> None:
        self._pool = _pool(proxy, None, None)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._pool.send(request, stream=True)

    @override
    async def aclose(self) -> None:
        await self._pool.aclose()
