"""Faults of the transport, of the answer's form, and of its status, as the reasons of an `AiError`."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from fxai.messages.errors import error_in, reason_of_body
from fxai.messages.reason import InvalidOutputError, NetworkError, Reason, RequestTimeoutError
from fxai.providers.http.transport import Timeout
from fxai.schema.data import is_object
from fxai.schema.parsing import parse_json

if TYPE_CHECKING:
    import httpx2

_SHOWN = 300
_SHORT = 8
HIDDEN = "(secret)"


class BrokenAnswerError(Exception):
    """Carries a reason out of a coroutine, to where it becomes a typed failure."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets: servers and libraries repeat what they were sent, in either letter case."""
    for secret in secrets:
        pattern = re.escape(secret)
        if len(secret) < _SHORT:  # as a word alone: a key such as "x" would take the x out of every other
            pattern = rf"(?<!\w){pattern}(?!\w)"
        text = re.sub(pattern, HIDDEN, text, flags=re.IGNORECASE)
    return text


CURRENT_SECRETS: Final[ContextVar[Callable[[], Iterable[str]]]] = ContextVar("fxai_current_secrets", default=tuple)
"""The secrets of the request that the task sends, for the logs of the libraries that send it."""

_LOGGERS: Final = ("httpx2", *(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")))


class _WithoutSecrets(logging.Filter):
    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Take the secrets out of a record: the headers of an answer can repeat a key."""
        said = record.getMessage()
        hidden = redact(said, CURRENT_SECRETS.get()())
        if hidden != said:
            record.msg, record.args = hidden, ()
        return True


@cache
def hide_secrets_in_logs() -> None:
    """Take the secrets of requests out of what the HTTP libraries log. Only the first call does something."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_WithoutSecrets())


def address_of(url: httpx2.URL) -> str:
    """Where a request goes, without what may be private in it: the user, the password, the query."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def reason_of_fault(error: Exception, url: httpx2.URL, timeout: Timeout) -> Reason | None:
    """The reason that an exception means, raised while a request was sent or its answer read; None for a defect."""
    import httpx2

    match error:
        case BrokenAnswerError():
            return error.reason
        case httpx2.TimeoutException():
            return _late(error, url, timeout)
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return NetworkError(kind="InvalidUrlError", description=f"{address_of(url)}: {error}")
        case httpx2.LocalProtocolError():
            return NetworkError(kind="EncodeError", description=str(error))
        case httpx2.DecodingError():
            return InvalidOutputError(f"the answer of {address_of(url)} cannot be decompressed: {error}")
        case httpx2.ConnectError():
            return NetworkError(kind="TransportError", description=f"cannot connect to {_host(url)}: {why(error)}")
        case httpx2.ProxyError():
            return NetworkError(kind="TransportError", description=f"the proxy refused: {why(error)}")
        case httpx2.TransportError() | OSError():
            problem = f"the connection to {_host(url)} broke: {why(error)}"
            return NetworkError(kind="TransportError", description=problem)
        case _:
            return None


def _late(error: httpx2.TimeoutException, url: httpx2.URL, timeout: Timeout) -> Reason:
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            return RequestTimeoutError(timeout.connect, f"{_host(url)} took no connection")
        case httpx2.WriteTimeout():
            return RequestTimeoutError(timeout.write, f"{_host(url)} did not take the request")
        case httpx2.PoolTimeout():
            return RequestTimeoutError(timeout.pool, "all connections of the pool stayed in use")
        case _:
            return RequestTimeoutError(timeout.read, f"{_host(url)} went silent")


def unexpected_redirect(response: httpx2.Response) -> Reason:
    """The reason of a redirect: it is not followed, since the key would go with it."""
    location = response.headers.get("location", "")
    try:
        target = address_of(response.url.join(location)) if location else "an unnamed place"
    except Exception:  # whatever a server writes there
        target = "an address that is not valid"
    problem = f"status {response.status_code} redirects to {target}"
    return NetworkError(
        kind="InvalidUrlError", description=f"{problem}; redirects are not followed, set base_url to it"
    )


def unexpected_type(expected: str, found: str, body: bytes) -> Reason:
    """The reason of an answer of another media type than was asked for, with the beginning of its body."""
    begins = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN]
    return InvalidOutputError(f"expected {expected}, got {found}" + (f": {begins}" if begins else ""))


_ERROR_INSIDE = re.compile(rb'"error"\s*:\s*[{"\[]|"(?:type|object)"\s*:\s*"error"')
_SEARCHED = 2000  # bytes: an error begins early, and the search of a long answer would cost time
_CONTENT = ("choices", "content", "data", "output")


def temporary_error(body: bytes, headers: Mapping[str, str]) -> Reason | None:
    """Return the reason of a retryable error that a body or event of status 200 contains instead of content, or None.

    The reader of the answer reports errors that a retry cannot change.

    >>> temporary_error(b'{"error": {"type": "overloaded_error"}}', {"retry-after": "2"}).retry_after
    2.0
    >>> temporary_error(b'{"choices": [{"text": "..."}], "error": {"type": "overloaded_error"}}', {}) is None
    True
    """
    if not _ERROR_INSIDE.search(body, 0, _SEARCHED):
        return None
    data = parse_json(body).value_or(None)
    if not is_object(data) or any(data.get(name) for name in _CONTENT):
        return None
    error = error_in(data)
    reason = None if error is None else reason_of_body(data if data.get("error") else error, headers=headers)
    return reason if reason is not None and reason.is_retryable else None


def _host(url: httpx2.URL) -> str:
    return f"{url.host}:{url.port or {'http': 80, 'https': 443}.get(url.scheme, '')}"


def why(error: BaseException) -> str:
    """What broke a connection, in words: libraries hide it in what an exception was raised from."""
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return f"no address is known for that name ({cause.strerror})"
            case ssl.SSLCertVerificationError():
                return f"its TLS certificate is not trusted ({cause.verify_message or cause.reason})"
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
    """The exception and what lies behind it, those of groups too."""
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
