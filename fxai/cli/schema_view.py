"""Views of schemas: the tools' own, or what a request says, for people: JSON with the reasons above it.

>>> import sys
>>> from fxai.cli.sent import Request, SentTool, Wish
>>> seen = SentTool("add", {"name": "add", "strict": False}, warnings=("not strict: /any is open",))
>>> show_request(Request(Wish("anthropic"), (seen,)), sys.stdout)
add: not strict at anthropic (claude-sonnet-5)
  ! not strict: /any is open
{
  "name": "add",
  "strict": false
}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO

from fxai.cli.screen import console
from fxai.cli.sent import Request, SentTool
from fxai.cli.text import indented, one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show_request", "show_schemas"]

_STYLES: Final = {"strict": "green", "not strict": "yellow", "not sent": "red"}


def show_schemas(schemas: dict[str, Any], out: TextIO, *, color: bool | None = None) -> None:
    """Writes JSON Schemas by tool; one alone without its name, so that it can be piped on."""
    if len(schemas) == 1:
        out.write(indented(next(iter(schemas.values()))) + "\n")
        return
    screen = console(out, color)
    for number, (name, schema) in enumerate(schemas.items()):
        screen.print(f"{chr(10) if number else ''}{one_line(name)}:", style="bold")
        screen.print(indented(schema))


def show_request(request: Request, out: TextIO, *, color: bool | None = None) -> None:
    """Writes what a request says of each tool, and why it says so."""
    screen = console(out, color)
    for number, tool in enumerate(request.tools):
        if number:
            screen.print()
        _show(tool, request, screen)
    for warning in request.warnings:
        screen.print(f"! {one_line(warning)}", style="yellow")
    if request.betas:
        screen.print(f"beta features: {', '.join(request.betas)}")


def _show(tool: SentTool, request: Request, screen: Console) -> None:
    wish = request.wish
    to = " ".join(part for part in (wish.provider, wish.api) if part)
    screen.print(one_line(tool.name), style="bold", end="")
    screen.print(f": {tool.flag}", style=_STYLES.get(tool.flag, "dim"), end="")
    renamed = f", sent as {tool.sent_as}" if tool.sent_as not in (None, tool.name) else ""
    screen.print(f" at {to} ({wish.of_model}){renamed}")
    for warning in (*tool.warnings, *filter(None, [tool.error])):
        screen.print(f"  ! {one_line(warning)}", style="yellow" if tool.error is None else "red")
    for line in tool.weakened:
        screen.print(f"  ~ weakened: {one_line(line)}", style="dim")
    if tool.sent is not None:
        screen.print(indented(tool.sent))
