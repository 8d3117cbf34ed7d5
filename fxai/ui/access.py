"""Access: who may ask a chat application for what, and how much.

A request is refused by its host, by its origin, by what its body is, by who sends it, and by how often: with a status
and a sentence, which a page can show.

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

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine, by which nobody else can reach it."""

Action: TypeAlias = Literal["read", "write", "stop", "delete"]
"""What is done with a conversation."""


@final
class Access(msgspec.Struct, frozen=True):
    """Somebody who wants to do something with a conversation."""

    user: str
    """Who, as `identify` says."""
    action: Action
    conversation: str
    """The id of the conversation."""
    owner: str
    """The owner; the user, if the conversation does not exist yet."""


Identify: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
"""Who sends a request: the name of a user, or None for nobody who may."""

Authorize: TypeAlias = Callable[[Access], bool | Awaitable[bool]]
"""Whether somebody may do something with a conversation."""


def bearer_token(token: str, user: str = "user") -> Identify:
    """Identifies whoever sends `Authorization: Bearer TOKEN` as one user.

    Args:
        token: the token, at least 16 characters.
        user: the name of the user.

    Raises:
        ValueError: the token is shorter.
    """
    if len(token) < 16:
        raise ValueError("a token has at least 16 characters: secrets.token_urlsafe() makes one")

    def identify(request: Request) -> str | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        known = given.strip() if scheme.lower() == "bearer" else ""
        return user if hmac.compare_digest(known.encode(), token.encode()) else None

    return identify


class RefusedError(Exception):
    """A request is refused: by which status, with which word for programs and which sentence for people."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
        """After how many seconds it can be tried again; None: it need not be told."""


def unknown_conversation() -> RefusedError:
    """The refusal of a conversation that is not there, or is somebody else's, which is not told apart."""
    return RefusedError(404, "unknown", "there is no such conversation")


# -- hosts and origins


def is_host_allowed(host: str, allowed: Sequence[str]) -> bool:
    """Whether the header `Host` names one of these, with any port; `*` allows all, `*.example.org` what ends so."""
    name = _host_name(host)
    if name is None:
        return False
    return any(
        one == "*" or name == one.lower() or (one.startswith("*.") and name.endswith(one[1:])) for one in allowed
    )


def _host_name(host: str) -> str | None:
    """The host without its port, in small letters; None where it is none."""
    name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
    if not name or (port and not port.isdigit()) or any(one in name for one in "/@?#\\ "):
        return None
    return name.lower().rstrip(".")


def check_host(scope: HttpScope, allowed: Sequence[str]) -> None:
    """Refuses a request to a host of another name, as a page makes that had its own name point here.

    A client of tests, which opens no socket, may say `testserver`: of a socket, the server is told by its address.
    """
    host, server = Headers(scope=scope).get("host", ""), scope.get("server")
    is_test = server is not None and server[0] == "testserver" and _host_name(host) == "testserver"
    if not is_test and not is_host_allowed(host, allowed):
        raise RefusedError(
            421, "host", "this server does not answer to that name; its operator can allow it by `hosts`"
        )


def is_origin_allowed(headers: Headers, scheme: str, origins: Sequence[str]) -> bool:
    """Whether a request comes from a page of this server, of an allowed origin, or from no page at all."""
    origin = headers.get("origin")
    return origin is None or origin in origins or origin == f"{scheme}://{headers.get('host', '')}"


def check_origin(headers: Headers, scheme: str, origins: Sequence[str]) -> None:
    """Refuses a request of a page of another origin that is not allowed."""
    if not is_origin_allowed(headers, scheme, origins) or headers.get("sec-fetch-site") == "cross-site":
        if headers.get("origin") in origins:
            return
        raise RefusedError(403, "origin", "pages of this origin may not use this server; its operator can allow it")


# -- bodies


async def read_json_body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request, which has to be JSON.

    Args:
        request: the request.
        most: how many bytes it may have.
        seconds: how long it may take to come.

    Raises:
        RefusedError: 415, it is not JSON; 413, it is larger; 408, it takes longer; 400, the client left.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "media-type", "expected a body of the type application/json")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RefusedError(408, "timeout", f"the body did not come within {seconds:g} s") from None
    except ClientDisconnect:
        raise RefusedError(400, "gone", "the client left before its body had come") from None
    return bytes(body)


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, "too-large", f"a body has at most {most:,} bytes")


# -- rates


@final
class TurnRate:
    """How many turns a user may begin in a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}

    def take(self, user: str) -> None:
        """Counts a turn.

        Raises:
            RefusedError: 429, the user has begun as many as are allowed.
        """
        now = self._clock()
        begun = self._begun.setdefault(user, deque())
        while begun and begun[0] <= now - 60:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = begun[0] + 60 - now
            text = f"at most {self._per_minute} messages a minute: try again in {wait:.0f} s"
            raise RefusedError(429, "rate", text, retry_after=wait)
        begun.append(now)
        if len(self._begun) > 10_000:  # users that are long gone
            self._begun = {name: times for name, times in self._begun.items() if times and times[-1] > now - 60}
