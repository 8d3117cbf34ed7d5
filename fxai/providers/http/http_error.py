"""Conversion of HTTP errors to reasons of `AiError`. The client uses it for connections, statuses, and formats."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from fxai.messages.errors import error_in, reason_of_body
from fxai.messages.reason import InvalidOutputError, NetworkError, Reason, RequestTimeoutError
from fxai.providers.http.event import FIRST_FIELD, read_events
from fxai.providers.http.reply import ReplyError
from fxai.providers.http.transport import Timeout
from fxai.schema.data import is_object
from fxai.schema.parsing import parse_json

if TYPE_CHECKING:
    import httpx2

_SHOWN = 300
_SHORT = 8
HIDDEN = "(secret)"


def redact(text: str, secrets: Iterable[str]) -> str:
    """Remove the secrets from the text.

    Servers and libraries can repeat secrets, also in a different case, percent-encoded, or in base64.
    """
    for secret in secrets:
        text = _forms_of(secret).sub(HIDDEN, text)
    return text


@lru_cache(64)
def _forms_of(secret: str) -> re.Pattern[str]:
    """Return the pattern of all forms of a secret."""
    data = secret.encode(errors="replace")
    pattern = "".join(f"(?:{re.escape(one)}|{_escape(one.lower())}|{_escape(one.upper())})" for one in secret)
    if len(secret) < _SHORT:  # only as a word: a key such as "x" would remove the x from other words
        pattern = rf"(?<!\w){pattern}(?!\w)"
    else:
        pattern += "|" + "|".join(re.escape(f(data).decode().rstrip("=")) for f in (b64encode, urlsafe_b64encode))
    return re.compile(pattern, re.IGNORECASE)


def _escape(text: str) -> str:
    """Return text with each byte percent-encoded."""
    return "".join(f"%{byte:02x}" for byte in text.encode(errors="replace"))


CURRENT_SECRETS: Final[ContextVar[Callable[[], Iterable[str]]]] = ContextVar("fxai_current_secrets", default=tuple)
"""The secrets of the current task's request. The filter of the HTTP libraries' logs removes them."""

_LOGGERS: Final = ("httpx2", *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")))


class _WithoutSecrets(logging.Filter):
    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the secrets from a record, because the headers of an answer can repeat a key."""
        message = record.getMessage()
        hidden = redact(message, CURRENT_SECRETS.get()())
        if hidden != message:
            record.msg, record.args = hidden, ()
        return True


@cache
def hide_secrets_in_logs() -> None:
    """Remove the secrets of requests from the logs of the HTTP libraries. Later calls have no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_WithoutSecrets())


def address_of(url: httpx2.URL) -> str:
    """Return the address of a request. Remove its user, password, and query, which can be private."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def reason_of_fault(error: Exception, url: httpx2.URL, timeout: Timeout) -> Reason | None:
    """Return the reason of an exception that a request raised, or None for a defect."""
    import httpx2

    match error:
        case ReplyError():
            return error.reason
        case httpx2.ConnectTimeout():
            return RequestTimeoutError(timeout.connect, f"{_host(url)} did not accept the connection")
        case httpx2.WriteTimeout():
            return RequestTimeoutError(timeout.write, f"{_host(url)} stopped reading the request")
        case httpx2.PoolTimeout():
            return RequestTimeoutError(timeout.pool, "all connections of the pool stayed in use")
        case httpx2.TimeoutException():
            return RequestTimeoutError(timeout.read, f"{_host(url)} stopped sending")
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return NetworkError(kind="InvalidUrlError", description=f"{address_of(url)}: {error}")
        case httpx2.LocalProtocolError():
            return NetworkError(kind="EncodeError", description=str(error))
        case httpx2.DecodingError():
            return InvalidOutputError(f"cannot decompress the answer of {address_of(url)}: {error}")
        case httpx2.ConnectError():
            return NetworkError(kind="TransportError", description=f"cannot connect to {_host(url)}: {why(error)}")
        case httpx2.ProxyError():
            return NetworkError(kind="TransportError", description=f"the proxy refused the connection: {why(error)}")
        case httpx2.TransportError() | OSError():
            problem = f"the connection to {_host(url)} broke: {why(error)}"
            return NetworkError(kind="TransportError", description=problem)
        case _:
            return None


def unexpected_redirect(response: httpx2.Response) -> Reason:
    """Return the reason of a redirect. The client does not follow redirects, because they would receive the key."""
    location = response.headers.get("location", "")
    try:
        target = address_of(response.url.join(location)) if location else "an unnamed address"
    except Exception:  # a server can write any value into the header
        target = "an invalid address"
    problem = f"status {response.status_code} redirects to {target}"
    return NetworkError(
        kind="InvalidUrlError", description=f"{problem}. fxai does not follow redirects. Set base_url to this address."
    )


def unexpected_type(expected: str, found: str, body: bytes) -> Reason:
    """Return the reason of an answer with a different media type. It includes the start of the body."""
    begins = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN]
    return InvalidOutputError(f"expected {expected}, got {found}" + (f": {begins}" if begins else ""))


_ERROR_INSIDE = re.compile(rb'"error"\s*:\s*[{"\[]|"(?:type|object)"\s*:\s*"error"')
_SEARCHED = 2000  # bytes: an error is at the start of a body, and a search of a long answer would take time
_CONTENT = ("choices", "content", "data", "output")


def temporary_error(body: bytes, headers: Mapping[str, str]) -> Reason | None:
    """Return the reason of a retryable error of status 200 in a body, its first event, or an event. Otherwise None.

    The reader of the answer reports the other errors.

    >>> temporary_error(b'{"error": {"type": "overloaded_error"}}', {"retry-after": "2"}).retry_after
    2.0
    >>> temporary_error(b'{"choices": [{"text": "..."}], "error": {"type": "overloaded_error"}}', {}) is None
    True
    """
    if not _ERROR_INSIDE.search(body, 0, _SEARCHED):
        return None
    if FIRST_FIELD.match(body):
        events, _ = read_events([body])
        body = next((event.data.encode() for event in events if not event.is_empty), b"")
    data = parse_json(body).value_or(None)
    if not is_object(data) or any(data.get(name) for name in _CONTENT):
        return None
    error = error_in(data)
    reason = None if error is None else reason_of_body(data if data.get("error") else error, headers=headers)
    return reason if reason is not None and reason.is_retryable else None


def _host(url: httpx2.URL) -> str:
    return f"{url.host}:{url.port or {'http': 80, 'https': 443}.get(url.scheme, '')}"


def why(error: BaseException) -> str:
    """Return the cause of a broken connection as text. Libraries hide it in the causes of an exception."""
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return f"the host name has no address ({cause.strerror})"
            case ssl.SSLCertVerificationError():
                return f"the TLS certificate is not trusted ({cause.verify_message or cause.reason})"
            case ssl.SSLError():
                return f"TLS failed ({cause.reason or cause})"
            case ConnectionRefusedError():
                return "connection refused"
            case ConnectionResetError():
                return "connection reset by the other side"
            case _:
                pass
    return str(error) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception and its causes, including the members of groups."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        pending += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            pending.extend(cast("BaseExceptionGroup[BaseException]", cause).exceptions)
