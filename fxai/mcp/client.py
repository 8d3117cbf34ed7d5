"""MCP servers as sources of tools. Use this module to connect to a program or a URL.

A server is an immutable value. fxai starts nothing before you open it. Use it like any other source of tools:
`agent.with_tools(server)` or `ToolSource.of(server).use(…)`. Each tool of the server becomes a dynamic tool. When the
scope closes, fxai closes the connection and ends the server's program with all its child processes.

>>> git = stdio("uvx", "mcp-server-git", "--repository", ".").prefix("git_").only("git_log", "git_diff")
>>> git.name, git.settings.prefix
('mcp-server-git', 'git_')
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypedDict, final

import msgspec
from typing_extensions import Unpack, override

from fxai.effects.cause import Succeeded
from fxai.effects.concurrency import fork
from fxai.effects.constructor import fail, gen, wait
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Gen, Suspend
from fxai.effects.scope import NOTHING, Scope, add_finalizer
from fxai.mcp.connection import Connection, McpHandler, over_link
from fxai.mcp.pin import Pins
from fxai.mcp.result import McpError
from fxai.mcp.settings import (
    Address,
    Concealed,
    Elicit,
    McpLimits,
    Mode,
    OnLog,
    Revealing,
    ServerProgram,
    ServerSettings,
)
from fxai.schema.data import JsonObject
from fxai.tools.handler_types import Gives
from fxai.tools.identity import FailureMode
from fxai.tools.source import ToolSource
from fxai.tools.tool_info import Validation


class ClientOptions(TypedDict, total=False):
    """Options for servers with any transport."""

    name: str
    """Name of the server in messages and pins. Default: the name of its program or host."""
    timeout: float
    """Maximum seconds until the server answers after opening, and until it lists its tools. Default: 30."""
    call_timeout: float | None
    """Maximum seconds until a call answers or reports progress. Default: 300. The time that `elicit` needs for an
    answer does not count. After this time, fxai cancels the call at the server. None: no limit."""
    total_timeout: float | None
    """Maximum seconds of a call that reports progress. Default: 3600. If progress must not extend a call, pass the
    value of `call_timeout`. None: no limit."""
    mode: Mode
    """Protocol negotiation. Default: `"auto"`, which supports servers of every version."""
    pins: Pins | None
    """Approved definitions of the tools. Default: the definitions at the time of opening."""
    limits: McpLimits
    """Limits of the data that the server can send."""
    elicit: Elicit | None
    """Function that answers the server's questions to the user (elicitation). Default: None, fxai refuses them."""
    on_log: OnLog | None
    """Function that receives the server's log messages. Default: None, fxai drops them."""
    failure_mode: FailureMode
    """Channel of a failed call. `"return"` (default): the model reads the failure. `"error"`: the run fails with it."""
    validation: Validation
    """Validation of arguments before a call: `"schema"` (default), by the schema of the tool, or `"none"`."""


def stdio(
    command: str,
    *args: str,
    env: Mapping[str, str | Revealing] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    grace: float = 2.0,
    **options: Unpack[ClientOptions],
) -> McpServer:
    """Return a server that fxai starts as a program. It speaks MCP on its standard input and output.

    Args:
        command: Program, found along `PATH`. fxai does not use a shell.
        args: Arguments of the program.
        env: Environment variables, added to a few variables that are safe to inherit (`PATH`, `HOME`, `USER`, …).
        cwd: Working directory. Default: None, the directory of this process.
        grace: Seconds until the program must end after its input closes, and again after a request to terminate. Then
            fxai kills it. Its child processes end with it: on Linux all of them, on other POSIX systems its process
            group. Default: 2.
        options: See `ClientOptions`.

    Raises:
        ValueError: If an environment variable is not a string, or if an option has an invalid value.
    """
    location = None if cwd is None else os.fspath(cwd)
    return _server(ServerProgram(command, args, location, Concealed(dict(env or {})), grace), options)


def http(
    url: str,
    *,
    headers: Mapping[str, str | Revealing] | None = None,
    token: str | Revealing | None = None,
    **options: Unpack[ClientOptions],
) -> McpServer:
    """Return a server at a URL. It speaks MCP over streamable HTTP.

    Args:
        url: Whole URL, such as `"https://example.org/mcp"`.
        headers: Headers of every request. No repr shows their values.
        token: Bearer token of every request, as a string or a secret such as `fxai.providers.http.Secret`. fxai reads a
            secret (its `reveal`) for each request, so a token can change. If the server answers 401 and the secret has
            changed since, fxai sends the request again.
        options: See `ClientOptions`.

    Raises:
        ValueError: If the URL does not start with `http://` or `https://`, if a header is not a string, or if an option
            has an invalid value.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(
            f"url must start with http:// or https://, got {url!r}. For a program, use mcp.stdio(command, …)."
        )
    sent: dict[str, str | Revealing] = dict(headers or {})
    if token is not None:
        sent["Authorization"] = _Bearer(Concealed({"token": token}))
    return _server(Address(url, Concealed(sent)), options)


@final
class _Bearer:
    """The header of a token. fxai reads the token for each request."""

    def __init__(self, token: Concealed) -> None:
        self._token = token

    def reveal(self) -> str:
        token: Any = self._token.reveal()["token"]
        return f"Bearer {token}" if isinstance(token, str) else token  # the check of headers rejects other values


def _server(endpoint: ServerProgram | Address, options: ClientOptions) -> McpServer:
    given: JsonObject = {**options}
    return McpServer(ServerSettings(endpoint, given.pop("name", None) or endpoint.name, **given))


@final
class McpServer(msgspec.Struct, frozen=True):
    """A server before it is opened. It is an immutable value. Servers with equal settings are equal."""

    settings: ServerSettings
    """The program or the address, and the options."""

    @property
    def name(self) -> str:
        """The name of the server in this program."""
        return self.settings.name

    # -- the same server with other tools

    def prefix(self, prefix: str) -> McpServer:
        """Return the server with `prefix` before the names of its tools."""
        return _replace(self, prefix=prefix + self.settings.prefix)

    def only(self, *names: str) -> McpServer:
        """Return the server with only these tools of the previous selection. Use the names at the server.

        If the server does not have one of the tools, opening it fails.
        """
        wanted = tuple(dict.fromkeys(names))
        before = self.settings.only
        return _replace(self, only=wanted if before is None else tuple(name for name in before if name in wanted))

    def without(self, *names: str) -> McpServer:
        """Return the server without these tools. Use the names at the server."""
        return _replace(self, without=tuple(dict.fromkeys((*self.settings.without, *names))))

    # -- opening

    def open(self) -> Effect[Connection, McpError, Scope]:
        """Open the server in the enclosing scope and list its tools. The connection closes with the scope.

        The effect fails with an `McpError` if the server does not start, is not reachable, refuses the connection, does
        not answer in time, or breaks the protocol. In these cases no process of the server remains.
        """
        return _open(self)

    @property
    def source(self) -> ToolSource[McpHandler, McpError]:
        """The live source of the server's tools. It is open while a program needs the tools."""
        return ToolSource(self.open().map(lambda connection: connection.bound))

    def __fx_gives__(self) -> Gives[McpHandler, McpError, None]:
        """Tell type checkers the handlers of the server's tools."""
        raise NotImplementedError

    def __fx_bound__(self) -> AnyEffect:
        """Return the effect that connects to the server and returns its tools."""
        return self.source.open

    @override
    def __repr__(self) -> str:
        prefix = f", prefix={self.settings.prefix!r}" if self.settings.prefix else ""
        return f"McpServer({self.name!r}, {self.settings.endpoint.location!r}{prefix})"


def _replace(server: McpServer, **changes: Any) -> McpServer:
    return McpServer(msgspec.structs.replace(server.settings, **changes))


@gen
def _open(server: McpServer) -> Gen[Connection, McpError, Scope]:
    from fxai.mcp.link import Link  # this module imports the SDK

    link = Link(server.settings)
    connection = Connection(server.settings, link, _origin(server))
    handle = yield from fork(wait(link.run))
    ready = (
        over_link(link.session.wait_until_open)
        .and_then(connection.refresh())
        .and_then(_check_names(server, connection))
    )
    yield from ready.on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else handle.interrupt())
    yield from add_finalizer(lambda _: wait(link.leave))
    return connection


def _check_names(server: McpServer, connection: Connection) -> EffectOf[None, McpError]:
    def check() -> EffectOf[None, McpError]:
        missing = [name for name in server.settings.only or () if name not in connection.known_names]
        if not missing:
            return NOTHING
        known = ", ".join(connection.known_names) or "none"
        message = f"unknown tool {missing[0]!r} in `only`"
        return fail(McpError(server.name, "no-such-tool", message, f"Use one of: {known}"))

    return Suspend(check)


def _origin(server: McpServer) -> str:
    """Return a unique label of the server. Tools of different endpoints differ, even with the same name."""
    endpoint = server.settings.endpoint
    where = endpoint.cwd if isinstance(endpoint, ServerProgram) else endpoint.url
    given = endpoint.env if isinstance(endpoint, ServerProgram) else endpoint.headers
    return f"{server.name}#{sha256(repr((endpoint.location, where, given)).encode()).hexdigest()[:8]}"
