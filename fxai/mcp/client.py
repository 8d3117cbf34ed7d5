"""MCP servers as sources of tools: a program to start, or an address.

A server is a value; nothing is started before it is opened. It is a source like any other: `agent.with_tools(server)`,
`ToolSource.of(server).use(…)`. Each of its tools becomes a dynamic tool. What it opened is closed with the scope, its
program and all that that started are ended.

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
from fxai.effects.effect import Effect, EffectOf, Gen, Suspend
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
from fxai.tools.handler import Gives
from fxai.tools.identity import FailureMode
from fxai.tools.source import ToolSource
from fxai.tools.tool_options import Validation


class ClientOptions(TypedDict, total=False):
    """Options of every server, however it is reached."""

    name: str
    """Its name, in messages and in pins; by default its program or its host."""
    timeout: float
    """Seconds for it to answer when it is opened, and for a listing of its tools; 30 by default."""
    call_timeout: float | None
    """Seconds until a call answers or reports progress. Default: 300. The time that `elicit` takes to answer does not
    count. If the time is over, fxai cancels the call at the server. None: no limit."""
    total_timeout: float | None
    """Seconds for a call that reports progress. Default: 3600. To let no progress extend a call, pass the value of
    `call_timeout`. None: no limit."""
    mode: Mode
    """How the protocol is agreed on; `"auto"`, the default, speaks to servers of every version."""
    pins: Pins | None
    """What its tools are compared with; by default their definitions when the server was opened."""
    limits: McpLimits
    """How much it may send."""
    elicit: Elicit | None
    """Answers its questions to the person behind the client (elicitation); by default they are refused."""
    on_log: OnLog | None
    """Called with what it logs over the protocol; by default that is dropped."""
    failure_mode: FailureMode
    """`"return"` (the default): the model reads what went wrong in a call. `"error"`: the run fails with it."""
    validation: Validation
    """How arguments are checked before they are sent: by the tool's schema, which is the default, or `"none"`."""


def stdio(
    command: str,
    *args: str,
    env: Mapping[str, str | Revealing] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    grace: float = 2.0,
    **options: Unpack[ClientOptions],
) -> McpServer:
    """A program as a server, which speaks MCP on its standard input and output.

    Args:
        command: the program, found along `PATH`; no shell is involved.
        args: its arguments.
        env: variables of its environment, beside the few that are safe to inherit (`PATH`, `HOME`, `USER`, …).
        cwd: its working folder; by default ours.
        grace: seconds that it has to end by itself when it is closed, and again when it is asked to terminate, before
            it is killed. What it started ends with it: on Linux wherever it went, elsewhere on POSIX its group.
        options: see `ClientOptions`.

    Raises:
        ValueError: a variable is no text, or an option has a value that it cannot have.
    """
    place = None if cwd is None else os.fspath(cwd)
    return _server(ServerProgram(command, args, place, Concealed(dict(env or {})), grace), options)


def http(
    url: str,
    *,
    headers: Mapping[str, str | Revealing] | None = None,
    token: str | Revealing | None = None,
    **options: Unpack[ClientOptions],
) -> McpServer:
    """The server at an address, which speaks MCP over streamable HTTP.

    Args:
        url: the whole address, such as `"https://example.org/mcp"`.
        headers: sent with every request; no repr shows their values.
        token: sent as the bearer token: a text, or a secret such as `fxai.providers.http.Secret`. fxai reads a secret
            (its `reveal`) for each request, so that a token can change. If the server answers 401 and the secret has
            changed since, fxai sends the request again.
        options: see `ClientOptions`.

    Raises:
        ValueError: the address is none of `http` or `https`, a header is no text, or an option has a value that it
            cannot have.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is no address of http or https; a program is `mcp.stdio(command, …)`")
    sent: dict[str, str | Revealing] = dict(headers or {})
    if token is not None:
        sent["Authorization"] = _Bearer(Concealed({"token": token}))
    return _server(Address(url, Concealed(sent)), options)


@final
class _Bearer:
    """The header of a token, whose text is read when it is sent."""

    def __init__(self, token: Concealed) -> None:
        self._token = token

    def reveal(self) -> str:
        token: Any = self._token.reveal()["token"]
        return f"Bearer {token}" if isinstance(token, str) else token  # the check of headers refuses other values


def _server(endpoint: ServerProgram | Address, options: ClientOptions) -> McpServer:
    given: dict[str, Any] = {**options}
    return McpServer(ServerSettings(endpoint, given.pop("name", None) or endpoint.name, **given))


@final
class McpServer(msgspec.Struct, frozen=True):
    """A server, not yet opened: an immutable value, equal to one of the same settings."""

    settings: ServerSettings

    @property
    def name(self) -> str:
        """Its name here."""
        return self.settings.name

    # -- the same server with other tools

    def prefix(self, prefix: str) -> McpServer:
        """The same, with `prefix` before its tools' names."""
        return _replace(self, prefix=prefix + self.settings.prefix)

    def only(self, *names: str) -> McpServer:
        """The same, offering only these tools, by their names at the server; of those chosen before.

        Opening it fails where it has no such tool.
        """
        wanted = tuple(dict.fromkeys(names))
        before = self.settings.only
        return _replace(self, only=wanted if before is None else tuple(name for name in before if name in wanted))

    def without(self, *names: str) -> McpServer:
        """The same, but for these tools, by their names at the server."""
        return _replace(self, without=tuple(dict.fromkeys((*self.settings.without, *names))))

    # -- opening

    def open(self) -> Effect[Connection, McpError, Scope]:
        """The server, opened into the scope around, with its tools listed; it closes with the scope.

        Fails with an `McpError`: it does not start, cannot be reached, refuses us, does not answer in time, or answers
        what the protocol does not allow. Then nothing of it is left running.
        """
        return _open(self)

    @property
    def source(self) -> ToolSource[McpHandler, McpError]:
        """The source of its tools: opened for as long as they are needed, and live."""
        return ToolSource(self.open().map(lambda connection: connection.bound))

    def __fx_gives__(self) -> Gives[McpHandler, McpError, None]:
        """For type checkers: the handlers that it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> EffectOf[Any, Any, Any]:
        """The effect that connects, and gives its tools."""
        return self.source.open

    @override
    def __repr__(self) -> str:
        prefix = f", prefix={self.settings.prefix!r}" if self.settings.prefix else ""
        return f"McpServer({self.name!r}, {self.settings.endpoint.place!r}{prefix})"


def _replace(server: McpServer, **changes: Any) -> McpServer:
    return McpServer(msgspec.structs.replace(server.settings, **changes))


@gen
def _open(server: McpServer) -> Gen[Connection, McpError, Scope]:
    from fxai.mcp.link import Link  # with it comes the SDK

    link = Link(server.settings)
    connection = Connection(server.settings, link, _origin(server))
    handle = yield from fork(wait(link.run))
    ready = over_link(link.ready).and_then(connection.refresh()).and_then(_check_names(server, connection))
    yield from ready.on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else handle.interrupt())
    yield from add_finalizer(lambda _: wait(link.leave))
    return connection


def _check_names(server: McpServer, connection: Connection) -> EffectOf[None, McpError]:
    def check() -> EffectOf[None, McpError]:
        missing = [name for name in server.settings.only or () if name not in connection.known_names]
        if not missing:
            return NOTHING
        known = ", ".join(connection.known_names) or "none"
        said = f"it has no tool {missing[0]!r}; its tools are: {known}"
        return fail(McpError(server.name, "no-such-tool", said, "give `only` the names that it has"))

    return Suspend(check)


def _origin(server: McpServer) -> str:
    """What tells the server apart: its tools are others than those of the same name at another endpoint."""
    endpoint = server.settings.endpoint
    where = endpoint.cwd if isinstance(endpoint, ServerProgram) else endpoint.url
    given = endpoint.env if isinstance(endpoint, ServerProgram) else endpoint.headers
    return f"{server.name}#{sha256(repr((endpoint.place, where, given)).encode()).hexdigest()[:8]}"
