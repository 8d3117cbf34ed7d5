"""Caution: a tool of a server that is not marked read-only runs only when somebody has said so.

The mark is the server's own word. It is a hint, which the protocol does not let a client trust beyond the server.

>>> from fxai.tools.annotations import Readonly
>>> from fxai.tools.tool import Tool
>>> look, change = Tool.make("look", success=str).annotate(Readonly, True), Tool.make("change", success=str)
>>> [is_asked(tool) for tool in cautious(Toolkit.make(look, change))]
[False, True]
"""

from __future__ import annotations

from typing import Any

from fxai.tools.annotations import Readonly
from fxai.tools.tool import Tool
from fxai.tools.toolkit import Toolkit

__all__ = ["cautious", "is_asked"]


def cautious(kit: Toolkit[Any]) -> Toolkit[Any]:
    """The tools, each of which needs approval that is not marked read-only."""
    return kit.map(lambda tool: tool if tool.get(Readonly) is True else tool.with_options(needs_approval=_always))


def is_asked(tool: Tool[Any, Any, Any]) -> bool:
    """Whether it is we who ask before it runs, and not its program."""
    return tool.needs_approval is _always


def _always(_: Any, __: Any) -> bool:
    return True
