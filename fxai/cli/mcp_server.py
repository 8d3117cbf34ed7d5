"""The command `fxai mcp serve`: the tools of a target as an MCP server, on stdin and stdout or over HTTP.

>>> host_and_port("8000"), host_and_port("[::1]:80"), host_and_port("localhost:0")
(('127.0.0.1', 8000), ('::1', 80), ('localhost', 0))
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final, TextIO, final

import msgspec

from fxai.cli.cli_error import WRONG_USE, CliError, require_services
from fxai.cli.mcp_target import read_secret, require_mcp
from fxai.cli.program import value_of
from fxai.cli.setting import build_handlers
from fxai.cli.target_tools import TargetTools, find_tools, with_layer
from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Gen
from fxai.effects.layer import AnyLayer, Layer
from fxai.effects.scope import Scope
from fxai.tools.source import AnyBound, BoundToolkit, ToolSource
from fxai.tools.toolkit import Toolkit

__all__ = ["HttpOptions", "host_and_port", "serve"]

_PLACE: Final = re.compile(r"(?:(\[[^\]]+\]|[^:]*):)?(\d{1,5})")


@final
class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How tools are served over HTTP.

    Attributes:
        place: host and port.
        token_env: the environment variable with the token that clients must bring.
        hosts: what clients may call the server.
        origins: the web pages that may use it.
    """

    place: str
    token_env: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """As `serve_http` takes them.

        Raises:
            CliError: the address is not valid, or the token is missing.
        """
        host, port = host_and_port(self.place)
        given: dict[str, Any] = {"host": host, "port": port}
        if self.token_env is not None:
            given["token"] = read_secret(self.token_env)
        if self.hosts:
            given["allowed_hosts"] = self.hosts
        if self.origins:
            given["allowed_origins"] = self.origins
        return given


def host_and_port(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; of a port alone the host is 127.0.0.1.

    Raises:
        CliError: the text is no such address.
    """
    found = _PLACE.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise CliError(f"{text!r} is no place to listen", "give HOST:PORT, such as 127.0.0.1:8000", code=WRONG_USE)
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


def serve(
    target: str,
    err: TextIO,
    *,
    layer: str | None = None,
    name: str | None = None,
    http: HttpOptions | None = None,
) -> bool:
    """Serves the tools of a target until the client closes stdin, or, over HTTP, until a signal ends it.

    Raises:
        CliError: the target or the layer cannot be loaded, a tool has no handler, or the options do not fit.
    """
    require_mcp()
    from fxai.mcp.server import serve_http, serve_stdio

    source = _source(with_layer(find_tools(target), layer))
    called = name or target.rpartition(":")[2]
    if http is None:
        if sys.stdin is not None and sys.stdin.isatty():
            err.write("fxai: this speaks MCP on stdin and stdout: an MCP client starts it; Ctrl-D ends it\n")
        value_of(serve_stdio(source, name=called))
        return True
    options = http.options()
    try:
        serving: EffectOf[None, Any, Any] = serve_http(
            source, name=called, on_listening=lambda url: err.write(f"fxai: listening on {url}\n"), **options
        )
    except ValueError as error:
        raise _address_error(str(error), options) from None
    value_of(serving)
    return True


def _address_error(said: str, options: dict[str, Any]) -> CliError:
    if "token" not in options:
        said = f"{options['host']} is reached from other machines, and whoever reaches it could call the tools"
        return CliError(said, "name the variable of a token with --token-env NAME", code=WRONG_USE)
    if "allowed_hosts" not in options:
        said = f"it is not known what clients call the server on {options['host']}"
        return CliError(said, "say --allow-host tools.example.org, or any other name", code=WRONG_USE)
    return CliError(said, "correct it", code=WRONG_USE)


def _source(offer: TargetTools) -> ToolSource[Any, Any, Any]:
    if offer.source is not None:
        more = BoundToolkit[Any, Any, Any](
            Toolkit.empty(), () if offer.layer is None else ((offer.layer, offer.layer),)
        )
        return ToolSource(offer.source.flat_map(lambda bound: build_handlers(bound.merge(more), ContextOf({}))))
    if not offer.tools:
        raise CliError(f"{offer.target} has no tools", "name something that has", code=WRONG_USE)
    if offer.layer is None:
        said = f"nothing answers the tools of {offer.target}: {', '.join(tool.name for tool in offer.tools[:8])}"
        raise CliError(said, "name the layer of their handlers with --layer module:name")
    return ToolSource(_open_toolkit(offer.toolkit, offer.layer))


@fx.gen
def _open_toolkit(kit: Toolkit[Any], layer: AnyLayer) -> Gen[AnyBound, Any, Scope]:
    """The tools with their handlers, built once; it fails before anything is served where something is missing."""
    services = yield from layer.build()
    asked = [tool for tool in kit if tool.requires_handler]
    missing = [tool.name for tool in asked if services.find(tool.identity) is None]
    if missing:
        said = f"nothing answers {', '.join(missing[:8])}"
        yield from fx.fail(CliError(said, "give a layer that has a handler for each"))
    require_services(asked, services)
    given: ContextOf[Any] = services
    return BoundToolkit.of(kit, Layer.effect_context(fx.succeed(given)))
