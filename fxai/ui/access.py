"""Access control of a chat application. Use it to identify users, authorize actions, and limit requests.

The application can refuse a request because of its host, its origin, its body, its user, or the rate of the user. Each
refusal has an HTTP status and a sentence that a page can show.

>>> import re
>>> is_host_allowed("127.0.0.1:8000", LOOPBACK), is_host_allowed("evil.example", LOOPBACK)
(True, False)
"""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias, final

import anyio
import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope as HttpScope

from fxai.ui.request import RefusedError

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine. Other machines cannot reach it by these names."""

Action: TypeAlias = Literal["read", "write", "stop", "delete"]
"""The action of a user on a conversation."""


@final
class Access(msgspec.Struct, frozen=True):
    """A user who wants to do something with a conversation."""

    user: str
    """The name of the user that `identify` returns."""
    action: Action
    """The action that the user requests."""
    conversation: str
    """The id of the conversation."""
    owner: str
    """The owner of the conversation. If the conversation does not exist yet, the user."""


Identify: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
"""Returns the name of the user who sends a request, or None to refuse the request."""

Authorize: TypeAlias = Callable[[Access], bool | Awaitable[bool]]
"""Returns True if a user may do something with a conversation."""


def bearer_token(token: str, user: str = "user") -> Identify:
    """Return a function that identifies every request with `Authorization: Bearer TOKEN` as one user.

    Args:
        token: The token, at least 16 characters.
        user: The name of the user.

    Raises:
        ValueError: If the token is shorter.
    """
    if len(token) < 16:
        raise ValueError("token must have at least 16 characters. Create it with secrets.token_urlsafe().")

    def identify(request: Request) -> str | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        known = given.strip() if scheme.lower() == "bearer" else ""
        return user if hmac.compare_digest(known.encode(), token.encode()) else None

    return identify


# -- hosts and origins


def is_host_allowed(host: str, allowed: Sequence[str]) -> bool:
    """Return True if `host` is an allowed name, with any port. `*` allows all names, `*.example.org` all subdomains."""
    name = _host_name(host)
    if name is None:
        return False
    return any(
        one == "*" or name == one.lower() or (one.startswith("*.") and name.endswith(one[1:])) for one in allowed
    )


def _host_name(host: str) -> str | None:
    """Return the host without its port, in lower case, or None if it is invalid."""
    name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
    if not name or (port and not port.isdigit()) or any(one in name for one in "/@?#\\ "):
        return None
    return name.lower().rstrip(".")


def check_host(scope: HttpScope, allowed: Sequence[str]) -> None:
    """Refuse a request to an unknown host name. A page whose own name points here can send such requests.

    The host name `testserver` is allowed if the server itself has this name. Test clients use it without a socket.
    """
    host, server = Headers(scope=scope).get("host", ""), scope.get("server")
    is_test = server is not None and server[0] == "testserver" and _host_name(host) == "testserver"
    if not is_test and not is_host_allowed(host, allowed):
        raise RefusedError(421, "host", "unknown host name. Ask the operator to allow it with `hosts`.")


def check_origin(headers: Headers, scheme: str, origins: Sequence[str]) -> None:
    """Refuse a request from a page of another origin that is not allowed."""
    origin = headers.get("origin")
    is_own = origin is None or origin == f"{scheme}://{headers.get('host', '')}"
    if origin not in origins and (not is_own or headers.get("sec-fetch-site") == "cross-site"):
        raise RefusedError(403, "origin", "unknown origin. Ask the operator to allow its pages with `origins`.")


# -- bodies


async def read_json_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body of a JSON request.

    Args:
        request: The request.
        most: Maximum number of bytes.
        seconds: Seconds to wait for the whole body.

    Raises:
        RefusedError: With status 415 if the body is not JSON, 413 if it is too large, 408 if it takes too long, and 400
            if the client disconnects.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "media-type", "the content type of the body must be application/json")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        with anyio.move_on_after(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise _too_large(most)
            return bytes(body)
    except ClientDisconnect:
        raise RefusedError(400, "gone", "the client disconnected before its body arrived") from None
    raise RefusedError(408, "timeout", f"the body did not arrive within {seconds:g} s")


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, "too-large", f"the body must have at most {most:,} bytes")


# -- rates


@final
class TurnRate:
    """A counter that limits the number of turns that a user starts per minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}

    def take(self, user: str) -> None:
        """Count a turn.

        Raises:
            RefusedError: With status 429 if the user has started too many turns.
        """
        now = self._clock()
        begun = self._begun.setdefault(user, deque())
        while begun and begun[0] <= now - 60:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = begun[0] + 60 - now
            text = f"at most {self._per_minute} messages per minute are allowed. Try again in {wait:.0f} s."
            raise RefusedError(429, "rate", text, retry_after=wait)
        begun.append(now)
        if len(self._begun) > 10_000:  # remove users without recent turns
            self._begun = {name: times for name, times in self._begun.items() if times and times[-1] > now - 60}
