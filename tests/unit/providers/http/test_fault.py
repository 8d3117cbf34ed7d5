"""Each fault of the way as its reason: which one, where it happened, and why, in words that hold nothing private."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import httpx2
import pytest

from fxai.messages import InvalidOutputError, NetworkError, Reason, RequestTimeoutError
from fxai.providers.http import Timeout
from fxai.providers.http.http_error import (
    reason_of_fault,
    redact,
    unexpected_redirect,
    unexpected_type,
    why,
)
from fxai.providers.http.reply import ReplyError
from tests.kit.every import every

URL = httpx2.URL("https://ann:word@x.example/v1?key=1#top")
WAITS = Timeout(connect=1, read=2, write=3, pool=4)
BROKEN = InvalidOutputError("broken")


def _from(error: BaseException, cause: BaseException) -> Any:
    error.__cause__ = cause
    return error


def _certificate(message: str | None, reason: str | None) -> Any:
    error: Any = ssl.SSLCertVerificationError("no")
    error.verify_message, error.reason = message, reason
    return error


def _tls(reason: str | None) -> Any:
    error: Any = ssl.SSLError(1, "words")
    error.reason = reason
    return error


def _network(kind: Any, said: str) -> NetworkError:
    return NetworkError(kind=kind, description=said)


@every(
    ("error", "reason"),
    [
        (ReplyError(BROKEN), BROKEN),
        (httpx2.ConnectTimeout(""), RequestTimeoutError(1, "x.example:443 did not accept the connection")),
        (httpx2.ReadTimeout(""), RequestTimeoutError(2, "x.example:443 stopped sending")),
        (httpx2.WriteTimeout(""), RequestTimeoutError(3, "x.example:443 stopped reading the request")),
        (httpx2.PoolTimeout(""), RequestTimeoutError(4, "all connections of the pool stayed in use")),
        (httpx2.InvalidURL("no port"), _network("InvalidUrlError", "https://x.example/v1: no port")),
        (httpx2.UnsupportedProtocol("gopher"), _network("InvalidUrlError", "https://x.example/v1: gopher")),
        (httpx2.LocalProtocolError("no header"), _network("EncodeError", "no header")),
        (
            httpx2.DecodingError("gzip"),
            InvalidOutputError("cannot decompress the answer of https://x.example/v1: gzip"),
        ),
        (httpx2.ConnectError("no"), _network("TransportError", "cannot connect to x.example:443: no")),
        (httpx2.ProxyError("407"), _network("TransportError", "the proxy refused the connection: 407")),
        (httpx2.ReadError("cut"), _network("TransportError", "the connection to x.example:443 broke: cut")),
        (OSError("gone"), _network("TransportError", "the connection to x.example:443 broke: gone")),
        (KeyError("bug"), None),
    ],
)
def test_each_fault_has_its_reason(error: Exception, reason: Reason | None) -> None:
    """With the place and the seconds that were allowed; a bug has none. No user, password or query is told."""
    assert reason_of_fault(error, URL, WAITS) == reason


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("http://a.example", "a.example:80"),
        ("https://a.example", "a.example:443"),
        ("http://a.example:81", "a.example:81"),
    ],
)
def test_a_place_is_a_host_and_a_port(url: str, location: str) -> None:
    """The port of the scheme is named where the address has none."""
    assert reason_of_fault(httpx2.ReadTimeout(""), httpx2.URL(url), WAITS) == RequestTimeoutError(
        2, f"{location} stopped sending"
    )


@every(
    ("error", "words"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), "ValueError"),
        (_from(ValueError("a"), socket.gaierror(-2, "unknown")), "the host name has no address (unknown)"),
        (_from(ValueError("a"), _certificate("self-signed", "R")), "the TLS certificate is not trusted (self-signed)"),
        (_from(ValueError("a"), _certificate("", "R")), "the TLS certificate is not trusted (R)"),
        (_from(ValueError("a"), _tls("WRONG_VERSION")), "TLS failed (WRONG_VERSION)"),
        (_from(ValueError("a"), _tls(None)), "TLS failed (words)"),
        (_from(ValueError("a"), _from(KeyError("b"), ConnectionRefusedError())), "connection refused"),
        (_from(ValueError("a"), ConnectionResetError()), "connection reset by the other side"),
        (
            _from(ValueError("a"), BaseExceptionGroup("g", [ValueError("b"), ConnectionRefusedError()])),
            "connection refused",
        ),
        (_from(ValueError("a"), BaseExceptionGroup("g", [ValueError("b")])), "a"),
    ],
)
def test_what_broke_is_found_behind_what_was_raised(error: BaseException, words: str) -> None:
    """Through causes, contexts and groups; where nothing is known, in the error's own words, or its name."""
    assert why(error) == words


def test_causes_that_go_round_come_to_an_end() -> None:
    """An error that is raised from itself by way of another is told by its own words."""
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__context__ = second, first
    second.__cause__ = ConnectionRefusedError()

    assert why(first) == "connection refused"
    second.__cause__ = None
    assert why(first) == "first"


def test_what_stands_behind_a_context_is_found() -> None:
    """An error that was raised while another one was handled."""
    error = ValueError("a")
    error.__context__ = ConnectionResetError()

    assert why(error) == "connection reset by the other side"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (None, "an unnamed address"),
        ("/v2?key=1", "https://x.example/v2"),
        ("https://u:p@o.example/v2#x", "https://o.example/v2"),
        ("https://x.example:port", "an invalid address"),
    ],
)
def test_a_redirect_names_its_target(location: str | None, target: str) -> None:
    """Whatever the server wrote there, without what may be private in it."""
    headers = {} if location is None else {"location": location}
    response = httpx2.Response(308, headers=headers, request=httpx2.Request("GET", "https://x.example/v1"))
    said = f"status 308 redirects to {target}. fxai does not follow redirects. Set base_url to this address."

    assert unexpected_redirect(response) == _network("InvalidUrlError", said)


@every(
    ("body", "shown"),
    [
        (b"", ""),
        (b" \n ", ""),
        (b" <h1>\n\tLog  in</h1>", ": <h1> Log in</h1>"),
        (b"x" * 301, ": " + "x" * 300),
        ("ö".encode() * 301, ": " + "ö" * 300),
        (b"a\xff", ": a�"),
    ],
)
def test_another_type_shows_how_its_body_begins(body: bytes, shown: str) -> None:
    """The first 300 characters, on one line; nothing where there are none."""
    assert unexpected_type("a/b", "c/d", body) == InvalidOutputError(f"expected a/b, got c/d{shown}")


@pytest.mark.parametrize(
    ("text", "secret", "left"),
    [
        ("axb x x.", "x", "axb (secret) (secret)."),
        ("1234567 a1234567", "1234567", "(secret) a1234567"),
        ("12345678 a12345678", "12345678", "(secret) a(secret)"),
        ("a.c abc", "a.c", "(secret) abc"),
        ("12345-78 KEY%2d%4b5678 KEY-K5678", "key-k5678", "12345-78 (secret) (secret)"),
        ("a%2Fb+c%3D%3D12 a/b+c==12", "a/b+c==12", "(secret) (secret)"),
        ("realm=c2stMTIzNDU2Nzg= c2stMTIzNDU2Nzg", "sk-12345678", "realm=(secret)= (secret)"),
        ("%C3%BCber-alles über-alles", "über-alles", "(secret) (secret)"),
    ],
)
def test_a_secret_is_taken_out(text: str, secret: str, left: str) -> None:
    """A short one where it is a word alone, one of eight characters and more wherever it stands; never as a pattern."""
    assert redact(text, [secret]) == left
