"""Options of an MCP server: its name, how many calls it runs at once, which clients may reach it.

>>> ToolServerSettings.of({"name": "calculator", "concurrency": 4}).concurrency
4
>>> HttpSettings.of({"port": 8000}).hosts
('localhost:*', '127.0.0.1:*', '[::1]:*')
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final, TypedDict, cast, final

import msgspec

from fxai.effects.cause import Cause
from fxai.mcp.settings import Concealed, Revealing

_LOCAL_HOSTS: Final = ("localhost:*", "127.0.0.1:*", "[::1]:*")
_MIB: Final = 1 << 20


@final
class Defect(msgspec.Struct, frozen=True, eq=False):
    """A bug in a call, which is not shown to its client."""

    tool: str
    """The tool that was called."""
    cause: Cause[Any]
    """What went wrong, with tracebacks."""


class ServerOptions(TypedDict, total=False):
    """Options of every server."""

    name: str
    """Its name; "fxai" by default."""
    version: str
    """Its version; empty by default."""
    title: str | None
    """Its name for people."""
    description: str | None
    """What it is for."""
    instructions: str | None
    """How to use its tools, for the model of the client."""
    concurrency: int
    """How many calls run at once; 16 by default. Others wait for their turn."""
    waiting: int
    """How many calls may wait for their turn; 1,024 by default. More are refused."""
    timeout: float | None
    """The seconds that a call may take, then it is interrupted and fails; None (the default): as long as it likes."""
    approval_timeout: float
    """The seconds that a person may take to approve a call; 300 by default. Then it is refused."""
    page_size: int | None
    """How many tools one answer lists; None (the default): all."""
    max_body: int
    """The bytes that one message may have: the body of a request, or a line; 4 MiB by default."""
    on_defect: Callable[[Defect], object]
    """Called with each bug; by default it is logged to `fxai.mcp` with its traceback."""


class HttpOptions(TypedDict, total=False):
    """Further options of a server over HTTP."""

    host: str
    """Where it listens; "127.0.0.1" by default. Elsewhere it needs a token and `allowed_hosts`."""
    port: int
    """The port; 0 (the default): any that is free."""
    path: str
    """The path that it answers; "/mcp" by default."""
    token: Revealing | str | None
    """What each request must bring as `Authorization: Bearer …`; None: no request needs to."""
    unprotected: bool
    """True: without a token even where other machines reach it."""
    allowed_hosts: Iterable[str]
    """The values of the header `Host` that it answers, `:*` at the end for any port; loopback's names by default."""
    allowed_origins: Iterable[str]
    """The web pages that may use it, such as `https://example.org`; by default pages from this machine."""
    body_timeout: float
    """The seconds in which a request's body must be there, and by `serve_http` its head; 30 by default."""
    max_sessions: int
    """How many sessions may be open; 1,000 by default."""
    idle_timeout: float
    """The seconds until an unused session is closed; 1,800 by default."""
    stateless: bool
    """True: no sessions for clients of the older protocols either; then approval cannot be asked for there."""
    json_response: bool
    """True: answers are plain JSON, never a stream of events: no progress is told."""
    grace: float
    """The seconds that calls have to end when the server is stopped; 2 by default."""


class HttpServerOptions(ServerOptions, HttpOptions, total=False):
    """All options of a server over HTTP."""


@final
class ToolServerSettings(msgspec.Struct, frozen=True):
    """The options of a server, complete."""

    name: str = "fxai"
    version: str = ""
    title: str | None = None
    description: str | None = None
    instructions: str | None = None
    concurrency: int = 16
    waiting: int = 1024
    timeout: float | None = None
    approval_timeout: float = 300
    page_size: int | None = None
    max_body: int = 4 * _MIB
    on_defect: Callable[[Defect], object] = msgspec.field(default_factory=lambda: _log_defect)

    @staticmethod
    def of(options: ServerOptions) -> ToolServerSettings:
        """The settings that `options` give. Raises `ValueError`: an option has a value that it cannot have."""
        settings = ToolServerSettings(**options)
        _check_positive(settings, ("concurrency", "timeout", "approval_timeout", "page_size", "max_body"))
        if settings.waiting < 0:
            raise ValueError(f"waiting is {settings.waiting}: it is 0 or more")
        return settings


@final
class HttpSettings(msgspec.Struct, frozen=True):
    """The options of a server over HTTP, complete."""

    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/mcp"
    token: Concealed = Concealed({})
    unprotected: bool = False
    allowed_hosts: tuple[str, ...] | None = None
    allowed_origins: tuple[str, ...] | None = None
    body_timeout: float = 30
    max_sessions: int = 1000
    idle_timeout: float = 1800
    stateless: bool = False
    json_response: bool = False
    grace: float = 2

    @staticmethod
    def of(options: HttpOptions) -> HttpSettings:
        """The settings that `options` give.

        Raises `ValueError`: an option has a value that it cannot have, or other machines could use the tools unasked.
        """
        given: dict[str, Any] = dict(options)
        for lists in ("allowed_hosts", "allowed_origins"):
            if given.get(lists) is not None:
                given[lists] = tuple(given[lists])
        token = given.pop("token", None)
        settings = HttpSettings(**given, token=Concealed({} if token is None else {"token": token}))
        _check_positive(settings, ("body_timeout", "max_sessions", "idle_timeout", "grace"))
        if not settings.path.startswith("/"):
            raise ValueError(f"path is {settings.path!r}: it begins with /")
        settings._check_protected()
        return settings

    def _check_protected(self) -> None:
        if self.secret == "":
            raise ValueError("the token is empty, so it would protect nothing: give a long random text")
        if self.is_local:
            return
        if self.secret is None and not self.unprotected:
            raise ValueError(
                f"{self.host} is reached from other machines, which could call the tools: "
                "give token=…, or say unprotected=True where something else protects them"
            )
        if self.allowed_hosts is None:
            raise ValueError(
                f'on {self.host} say what clients call this server: allowed_hosts=("tools.example.org",), or '
                '("*",) where something else holds off web pages that rebind their names'
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def secret(self) -> str | None:
        """The token's text; None where there is none."""
        return self.token.reveal().get("token")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it answers for."""
        return _LOCAL_HOSTS if self.allowed_hosts is None else self.allowed_hosts

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins whose pages may use it."""
        if self.allowed_origins is not None:
            return self.allowed_origins
        return tuple(f"http://{host}" for host in _LOCAL_HOSTS) if self.is_local else ()


def split_options(options: HttpServerOptions) -> tuple[ServerOptions, HttpOptions]:
    """The options of every server, and those of a server over HTTP alone."""
    given: dict[str, Any] = dict(options)
    http = {name: given.pop(name) for name in HttpOptions.__annotations__ if name in given}
    return cast(ServerOptions, given), cast(HttpOptions, http)


def _check_positive(settings: Any, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value!r}: it is more than 0")


def _log_defect(defect: Defect) -> None:
    error = defect.cause.squash()
    logging.getLogger("fxai.mcp").error("a call of the tool %r met a bug", defect.tool, exc_info=error)
