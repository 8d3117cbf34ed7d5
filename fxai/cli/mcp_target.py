"""MCP servers on the command line. Use `find_server` to read a command or a URL. `name=` adds a prefix.

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
from urllib.parse import urlsplit

import msgspec

from fxai.cli.exit import WRONG_USE, CliError, why_unwritable

if TYPE_CHECKING:
    from fxai.mcp.client import McpServer
    from fxai.mcp.pin import Pins
    from fxai.mcp.settings import Elicit

TOKEN: Final = "FXAI_MCP_TOKEN_"
"""Prefix of the environment variable with the bearer token of a server. The name of the server in capitals follows."""

_NAMED: Final = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)
_URL: Final = ("http://", "https://")


@final
class ServerFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Options for a server.

    Attributes:
        pins: Path of the file with the pinned tools. None pins the tools in memory when the server opens.
        env: Names of the environment variables that a server program receives.
        token_env: Environment variable with the bearer token of a URL. None selects `FXAI_MCP_TOKEN_` and the name.
        timeout: Seconds to wait for the server to open. None means 30.
        elicit: Function that answers questions for the user. None declines them.
    """

    pins: str | None = None
    env: tuple[str, ...] = ()
    token_env: str | None = None
    timeout: float | None = None
    elicit: Elicit | None = None


def find_server(text: str, wish: ServerFlags = ServerFlags()) -> McpServer:  # noqa: B008  # a frozen value
    """Return the server for a string. The function starts nothing.

    Args:
        text: A command line, which runs without a shell, or a URL. Both can have a name and `=` before them.
        wish: Options for the server.
    """
    require_mcp()
    from fxai.mcp.client import http, stdio

    found = _NAMED.fullmatch(text.strip())
    name, location = (found[1], found[2].strip()) if found else ("", text.strip())
    patience = 30.0 if wish.timeout is None else wish.timeout
    used: Any = {"name": name, "pins": _pins(wish.pins), "timeout": patience, "elicit": wish.elicit}
    if location.startswith(_URL):
        _check_url(location)
        server = http(location, token=_token(name, wish.token_env), **used)
    elif "://" in location.partition(" ")[0]:
        said = f"SERVER must be a command, or a URL that starts with http:// or https://, got {location!r}"
        raise CliError(said, "Correct the URL.", code=WRONG_USE)
    else:
        if wish.token_env is not None:
            remedy = f"To pass a variable to a program, use --env {wish.token_env}."
            raise CliError("--token-env requires a server with a URL", remedy, code=WRONG_USE)
        env = {variable: read_secret(variable) for variable in wish.env}
        server = stdio(*_words(location), env=env, **used)
    return server.prefix(f"{name}_") if name else server


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is not a number
        problem = "" if parts.hostname else "the host is missing"
    except ValueError as error:
        problem = str(error)
    if problem:
        raise CliError(f"SERVER is not a valid URL: {url!r}: {problem}", "Correct the URL.", code=WRONG_USE)


def require_mcp() -> None:
    """Raise `CliError` if the extra `mcp` is not installed."""
    if find_spec("mcp") is None:
        raise CliError("MCP requires the extra mcp, which is not installed", "Run pip install 'fxai[mcp]'.")


def read_secret(variable: str) -> str:
    """Return the value of an environment variable that contains a secret."""
    text = os.environ.get(variable, "").strip()
    if not text:
        raise CliError(f"environment variable {variable} is not set", "Set it, or name another.", code=WRONG_USE)
    return text


def _words(location: str) -> list[str]:
    remedy = """Pass a command such as "uvx mcp-server-time", or a URL."""
    try:
        words = shlex.split(location, posix=os.name == "posix")
    except ValueError as error:
        raise CliError(f"SERVER is not a valid command: {location!r}: {error}", remedy, code=WRONG_USE) from None
    if not words or not words[0]:
        raise CliError("missing SERVER", remedy, code=WRONG_USE)
    return words


def _token(name: str, token_env: str | None) -> str | None:
    if token_env is not None:
        return read_secret(token_env)
    return os.environ.get(TOKEN + name.upper().replace("-", "_")) if name else None


def _pins(path: str | None) -> Pins | None:
    if path is None:
        return None
    from fxai.mcp.pin import Pins

    problem = why_unwritable(Path(path))
    if problem is not None:
        message = f"cannot store pins in {path}: {problem}"
        raise CliError(message, "Name a file that you can write.", code=WRONG_USE)
    return Pins.file(path)
