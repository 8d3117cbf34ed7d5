"""The tools that a target names, and the layer of their handlers where it has one.

A target is a toolkit, a tool, a function tool, the tools of an object, an agent or a tool source, by `module:name` or
`path.py:name`; a list of tools in JSON, by its path, `-` for stdin; or an MCP server, as `mcp:` and a command or a URL.

>>> offer = find_tools("fxai.cli.example:agent")
>>> [tool.name for tool in offer.tools], offer.layer
(['count_lines', 'list_directory', 'read_text_file', 'git_log'], None)

A tool source is opened for as long as its tools are shown or called; all other targets have their tools at once.

>>> [tool.name for tool in load_tools(find_tools("fxai.cli.example:count_lines")).tools]
['count_lines']
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec

from fxai.agents.agent import Agent
from fxai.agents.binding import Binding
from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.cli.program import value_of
from fxai.cli.stdin import read_at_most
from fxai.cli.target import load, load_matching
from fxai.cli.tool_list import read_tools
from fxai.effects import fx
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.lint.rule import Finding
from fxai.schema.data import is_listed
from fxai.tools.source import AnyBound
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.toolkit import ToolConflictError, Toolkit

if TYPE_CHECKING:
    from fxai.cli.mcp_target import ServerOptions

__all__ = ["TargetTools", "find_tools", "load_tools", "open_tools", "server_tools", "with_layer"]

_WHAT: Final = "a toolkit, a tool, a function tool, an agent or a tool source"
_SERVER: Final = "mcp:"
_LESS: Final = "give the tools alone, in several files if need be"


@final
class TargetTools(msgspec.Struct, frozen=True):
    """The tools of a target.

    Attributes:
        target: the name of the target.
        tools: the tools.
        layer: the layer of their handlers, if the target has one.
        source: opens the target, if it is a tool source; then there are no tools and no layer until it is opened.
        broken: by tool, the documents that are no usable JSON Schemas.
        findings: its entries that are no tools.
    """

    target: str
    tools: tuple[AnyTool, ...] = ()
    layer: AnyLayer | None = None
    source: AnyEffect | None = None
    broken: Mapping[str, Any] = MappingProxyType({})
    findings: tuple[Finding, ...] = ()

    def __hash__(self) -> int:
        return hash((self.target, self.tools))  # documents are plain data

    @property
    def toolkit(self) -> Toolkit[Any]:
        """The tools together."""
        tools: Any = self.tools
        return Toolkit.of(tools)

    def pick(self, names: tuple[str, ...]) -> TargetTools:
        """The same, with the tools of these names alone, in this order; all of them where there are no names.

        Raises:
            CliError: there is no tool of a name; it says which is near.
        """
        if not names:
            return self
        tools = {tool.name: tool for tool in self.tools}
        return msgspec.structs.replace(self, tools=tuple(tools[self.require(name)] for name in dict.fromkeys(names)))

    def require(self, name: str) -> str:
        """The name, if there is a tool of that name.

        Raises:
            CliError: there is none; it says which is near.
        """
        there = [tool.name for tool in self.tools]
        if name in there:
            return name
        from difflib import get_close_matches

        near = get_close_matches(name, there, n=1, cutoff=0.5)
        shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
        remedy = f"did you mean {near[0]!r}" if near else f"there is: {shown or 'nothing'}"
        raise CliError(f"{self.target} has no tool {name!r}", remedy, code=WRONG_USE)


def find_tools(target: str) -> TargetTools:
    """The tools of a target.

    Raises:
        CliError: it cannot be found, read or imported, or is something else.
    """
    if target.startswith(_SERVER):
        return server_tools(target.removeprefix(_SERVER))
    if target == "-" or target.endswith(".json"):
        found = read_tools(_text(target), "stdin" if target == "-" else target)
        return TargetTools(target, found.tools, broken=found.broken, findings=found.findings)
    return _tools_of(target, load_matching(target, _fits, _WHAT))


def server_tools(text: str, wish: ServerOptions | None = None) -> TargetTools:
    """The tools of an MCP server; see `find_server`.

    Raises:
        CliError: as `find_server`.
    """
    from fxai.cli.mcp_target import ServerOptions, find_server

    server = find_server(text, wish or ServerOptions())
    return TargetTools(server.name, source=server.source.open)


def with_layer(offer: TargetTools, target: str | None) -> TargetTools:
    """The same, with the layer that a target names beside its own.

    Raises:
        CliError: the target cannot be found or imported, or is no layer.
    """
    if target is None:
        return offer
    kind: type[AnyLayer] = LayerOf
    layer = load(target, kind, "a layer")
    return msgspec.structs.replace(offer, layer=layer if offer.layer is None else offer.layer | layer)


def _text(target: str) -> bytes | str:
    if target == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise CliError("nothing is piped in", "pipe a list of tools in, or name a file", code=WRONG_USE)
        buffer = getattr(sys.stdin, "buffer", sys.stdin)
        text: bytes | str = read_at_most(buffer, "stdin", _LESS)
        return text
    try:
        with Path(target).open("rb") as file:
            data: bytes = read_at_most(file, target, _LESS)
            return data
    except OSError as error:
        remedy = "give the path of a file in JSON"
        raise CliError(f"{target} cannot be read: {error.strerror or error}", remedy, code=WRONG_USE) from None


def _fits(value: object) -> bool:
    if is_listed(value):
        return bool(value) and all(isinstance(each, Tool) or _is_bound(each) for each in value)
    return isinstance(value, Toolkit | Tool | Agent) or _is_bound(value) or _has(value, "__fx_source__")


def _is_bound(value: object) -> bool:
    return _has(value, "__fx_bound__")


def _has(value: object, name: str) -> bool:
    return not isinstance(value, type) and hasattr(value, name)


def _tools_of(target: str, value: Any) -> TargetTools:
    if is_listed(value):
        return _together(target, [_tools_of(target, each) for each in value])
    kind: Any = cast("type[object]", type(value))
    if issubclass(kind, Agent):
        return _of_agent(target, value.binding)
    if kind is Toolkit:
        return TargetTools(target, value.as_tuple)
    if issubclass(kind, Tool):
        return TargetTools(target, (value,))
    if _is_bound(value):
        bound: AnyBound = value.__fx_bound__()
        return TargetTools(target, bound.toolkit.as_tuple, bound.layer)
    return TargetTools(target, source=value.__fx_source__().open)


def _of_agent(target: str, binding: Binding) -> TargetTools:
    return (
        TargetTools(target, binding.toolkit.as_tuple)
        if binding.is_plain
        else TargetTools(target, source=binding.open())
    )


def _together(target: str, parts: list[TargetTools]) -> TargetTools:
    try:
        kit: Toolkit[Any] = Toolkit.of(tool for part in parts for tool in part.tools)
    except ToolConflictError as error:
        raise CliError(f"{target} is no toolkit: {error}", "correct it", cause=error) from error
    merged: AnyLayer | None = None
    for part in parts:
        if part.layer is not None:
            merged = part.layer if merged is None else merged | part.layer
    return TargetTools(target, kit.as_tuple, merged)


def open_tools(offer: TargetTools) -> EffectOf[TargetTools, Any, Any]:
    """The same with its tool source opened until the scope ends."""
    if offer.source is None:
        return fx.succeed(offer)
    return offer.source.map(lambda bound: _with_bound(offer, bound))


def load_tools(offer: TargetTools) -> TargetTools:
    """The same with the tools of its source, which is opened and closed again.

    Raises:
        CliError: it cannot be opened.
    """
    return offer if offer.source is None else value_of(fx.scoped(open_tools(offer)))


def _with_bound(offer: TargetTools, bound: Any) -> TargetTools:
    layer = bound.layer if offer.layer is None else bound.layer | offer.layer
    return msgspec.structs.replace(offer, tools=bound.toolkit.as_tuple, layer=layer, source=None)
