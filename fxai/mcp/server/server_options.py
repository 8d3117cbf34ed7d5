"""Options of an MCP server. Use them to set its name, its limits, and its allowed clients.

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
from fxai.schema.data import JsonObject

_LOCAL_HOSTS: Final = ("localhost:*", "127.0.0.1:*", "[::1]:*")
_MIB: Final = 1 << 20


@final
class Defect(msgspec.Struct, frozen=True, eq=False):
    """A bug in a call. The client does not see it."""

    tool: str
    """The called tool."""
    cause: Cause[Any]
    """The cause of the defect, with tracebacks."""


class ServerOptions(TypedDict, total=False):
    """Options of every server."""

    name: str
    """Name of the server. Default: "fxai"."""
    version: str
    """Version of the server. Default: empty."""
    title: str | None
    """Name of the server for people."""
    description: str | None
    """Purpose of the server."""
    instructions: str | None
    """Instructions about the tools, for the model of the client."""
    concurrency: int
    """Maximum number of calls that run at the same time. Default: 16. Other calls wait."""
    waiting: int
    """Maximum number of waiting calls. Default: 1,024. The server refuses more calls."""
    timeout: float | None
    """Maximum seconds of a call. After this time, the call is interrupted and fails. Default: None, no limit."""
    approval_timeout: float
    """Maximum seconds until a person approves a call. Default: 300. After this time, the server refuses the call."""
    page_size: int | None
    """Maximum number of tools in one answer. Default: None, all tools."""
    max_body: int
    """Maximum bytes of a message, which is the body of a request or a line. Default: 4 MiB."""
    on_defect: Callable[[Defect], object]
    """Function that receives each bug. Default: a function that logs the traceback to `fxai.mcp`."""


class HttpOptions(TypedDict, total=False):
    """Further options of a server over HTTP."""

    host: str
    """Host to listen on. Default: "127.0.0.1". Any other host needs a token and `allowed_hosts`."""
    port: int
    """Port. Default: 0, any free port."""
    path: str
    """Path of the endpoint. Default: "/mcp"."""
    token: Revealing | str | None
    """Token that each request must send as `Authorization: Bearer …`. Default: None, no token."""
    unprotected: bool
    """True to allow other machines without a token. Default: False."""
    allowed_hosts: Iterable[str]
    """Allowed values of the header `Host`. `:*` at the end allows any port. Default: the names of loopback."""
    allowed_origins: Iterable[str]
    """Origins of the allowed web pages, such as `https://example.org`. Default: pages from this machine."""
    body_timeout: float
    """Maximum seconds until the body of a request arrives, and its head in `serve_http`. Default: 30."""
    max_sessions: int
    """Maximum number of open sessions. Default: 1,000."""
    idle_timeout: float
    """Seconds until the server closes an unused session. Default: 1,800."""
    stateless: bool
    """True for no sessions in the older protocols. The server then cannot request approvals there. Default: False."""
    json_response: bool
    """True to answer with plain JSON instead of a stream of events. Clients then see no progress. Default: False."""
    grace: float
    """Seconds until calls must end when the server stops. Default: 2."""


class HttpServerOptions(ServerOptions, HttpOptions, total=False):
    """All options of a server over HTTP."""


@final
class ToolServerSettings(msgspec.Struct, frozen=True):
    """All options of a server, with defaults."""

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
        """Return the settings of `options`. Raise `ValueError` if an option has an invalid value."""
        settings = ToolServerSettings(**options)
        _check_positive(settings, ("concurrency", "timeout", "approval_timeout", "page_size", "max_body"))
        if settings.waiting < 0:
            raise ValueError(f"waiting must be 0 or greater, got {settings.waiting}")
        return settings


@final
class HttpSettings(msgspec.Struct, frozen=True):
    """All options of a server over HTTP, with defaults."""

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
        """Return the settings of `options`.

        Raises:
            ValueError: If an option has an invalid value, or if other machines could use the tools without protection.
        """
        given: JsonObject = dict(options)
        for lists in ("allowed_hosts", "allowed_origins"):
            if given.get(lists) is not None:
                given[lists] = tuple(given[lists])
        token = given.pop("token", None)
        settings = HttpSettings(**given, token=Concealed({} if token is None else {"token": token}))
        _check_positive(settings, ("body_timeout", "max_sessions", "idle_timeout", "grace"))
        if not settings.path.startswith("/"):
            raise ValueError(f"path must start with /, got {settings.path!r}")
        settings._check_protected()
        return settings

    def _check_protected(self) -> None:
        if self.secret == "":
            raise ValueError(
                "token must not be empty, because an empty token protects nothing. Use a long random string."
            )
        if self.is_local:
            return
        if self.secret is None and not self.unprotected:
            raise ValueError(
                f"host {self.host} allows calls from other machines. "
                "To protect the tools, give token=…, or set unprotected=True if another layer protects them."
            )
        if self.allowed_hosts is None:
            raise ValueError(
                f'host {self.host} needs the names of the server: allowed_hosts=("tools.example.org",). '
                'Pass ("*",) if another layer blocks web pages that rebind their names.'
            )

    @property
    def is_local(self) -> bool:
        """True if only this machine can connect."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def secret(self) -> str | None:
        """The token, or None."""
        return self.token.reveal().get("token")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The allowed hosts."""
        return _LOCAL_HOSTS if self.allowed_hosts is None else self.allowed_hosts

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of the allowed web pages."""
        if self.allowed_origins is not None:
            return self.allowed_origins
        return tuple(f"http://{host}" for host in _LOCAL_HOSTS) if self.is_local else ()


def split_options(options: HttpServerOptions) -> tuple[ServerOptions, HttpOptions]:
    """Split options into the options of every server and the options of a server over HTTP."""
    given: JsonObject = dict(options)
    http = {name: given.pop(name) for name in HttpOptions.__annotations__ if name in given}
    return cast(ServerOptions, given), cast(HttpOptions, http)


def _check_positive(settings: Any, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be greater than 0, got {value!r}")


def _log_defect(defect: Defect) -> None:
    error = defect.cause.squash()
    logging.getLogger("fxai.mcp").error("bug in a call of the tool %r", defect.tool, exc_info=error)
