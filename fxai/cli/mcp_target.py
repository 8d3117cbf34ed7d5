"""Servers as the command line names them: a command that is started, or a URL; `name=` before it prefixes the tools.

>>> find_server("time=uvx mcp-server-time --local-timezone UTC")
McpServer('time', 'uvx mcp-server-time --local-timezone UTC', prefix='time_')
"""

from __future__ import annotations

import os
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from fxai.cli.exit import WRONG_USE, CliError, write_obstacle

if TYPE_CHECKING:
    from fxai.mcp.client import McpServer
    from fxai.mcp.pin import Pins
    from fxai.mcp.settings import Elicit

TOKEN: Final = "FXAI_MCP_TOKEN_"
"""Before a server's name, in capitals: the environment variable with the bearer token that it is sent."""

_NAMED: Final = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)
_URL: Final = ("http://", "https://")


@final
class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for a server.

    Attributes:
        pins: the file in which its tools are pinned; None: they are held to what they are when it is opened.
        env: the variables of the environment that it is given, if it is a program.
        token_env: the environment variable with the bearer token for a URL; None: that of its name, if it is set.
        timeout: the seconds that it has to answer when it is opened; None: 30.
        elicit: answers its questions to the user; None: they are declined.
    """

    pins: str | None = None
    env: tuple[str, ...] = ()
    token_env: str | None = None
    timeout: float | None = None
    elicit: Elicit | None = None


def find_server(text: str, wish: ServerOptions = ServerOptions()) -> McpServer:  # noqa: B008  # a frozen value
    """The server that a text names; nothing is started yet.

    Args:
        text: a command line, which no shell sees, or a URL, perhaps with a name before it.
        wish: options for the server.
    """
    require_mcp()
    from fxai.mcp.client import http, stdio

    found = _NAMED.fullmatch(text.strip())
    name, place = (found[1], found[2].strip()) if found else ("", text.strip())
    patience = 30.0 if wish.timeout is None else wish.timeout
    used: Any = {"name": name, "pins": _pins(wish.pins), "timeout": patience, "elicit": wish.elicit}
    if place.startswith(_URL):
        server = http(place, token=_token(name, wish.token_env), **used)
    else:
        if wish.token_env is not None:
            remedy = f"give a program its variables: --env {wish.token_env}"
            raise CliError("--token-env is for a server at a URL", remedy, code=WRONG_USE)
        env = {variable: read_secret(variable) for variable in wish.env}
        server = stdio(*_words(place), env=env, **used)
    return server.prefix(f"{name}_") if name else server


def require_mcp() -> None:
    """Checks that the extra `mcp` is installed."""
    if find_spec("mcp") is None:
        raise CliError("MCP needs the extra mcp, which is not installed", "install it: pip install 'fxai[mcp]'")


def read_secret(variable: str) -> str:
    """The text of an environment variable that holds a secret."""
    text = os.environ.get(variable, "").strip()
    if not text:
        raise CliError(f"the environment variable {variable} is not set", "set it, or name another", code=WRONG_USE)
    return text


def _words(place: str) -> list[str]:
    remedy = """give a command such as "uvx mcp-server-time", or a URL"""
    try:
        words = shlex.split(place, posix=os.name == "posix")
    except ValueError as error:
        raise CliError(f"{place!r} is no command: {error}", remedy, code=WRONG_USE) from None
    if not words or not words[0]:
        raise CliError("no MCP server is named", remedy, code=WRONG_USE)
    return words


def _token(name: str, token_env: str | None) -> str | None:
    if token_env is not None:
        return read_secret(token_env)
    return os.environ.get(TOKEN + name.upper().replace("-", "_")) if name else None


def _pins(path: str | None) -> Pins | None:
    if path is None:
        return None
    from fxai.mcp.pin import Pins

    problem = write_obstacle(Path(path))
    if problem is not None:
        said = f"nothing can be pinned in {path}: {problem}"
        raise CliError(said, "name a file that can be written", code=WRONG_USE)
    return Pins.file(path)
