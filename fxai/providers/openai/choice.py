"""Tool choices on OpenAI's wires.

>>> from fxai.tools.tool import Tool
>>> entry(Tool.make("add"), "add", "chat")
{'type': 'function', 'function': {'name': 'add'}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.preparation import AnyTool, Notes
from fxai.models.prepared import PreparationError
from fxai.providers.openai.wire import Api, kind_of
from fxai.tools.naming import NameMap

__all__ = ["allow_list", "choice_on_wire", "entry"]

# What Responses takes as the one tool to call, by its type alone; any other is the only one of an allow-list.
_BY_TYPE: Final = frozenset(
    (
        *("apply_patch", "code_interpreter", "computer", "computer_use_preview", "file_search", "image_generation"),
        *("programmatic_tool_calling", "shell", "web_search", "web_search_preview", "web_search_preview_2025_03_11"),
    )
)


def entry(tool: AnyTool, wire: str, api: Api) -> dict[str, Any]:
    """How a choice names a tool."""
    kind = kind_of(tool)
    if kind in ("function", "custom"):
        return {"type": kind, "name": wire} if api == "responses" else {"type": kind, kind: {"name": wire}}
    label = {"server_label": getattr(tool.provider.args, "server_label", "")} if tool.provider and kind == "mcp" else {}
    return {"type": kind, **label}


def choice_on_wire(choice: ToolChoices | None, sent: Sequence[AnyTool], naming: NameMap, api: Api, notes: Notes) -> Any:
    """The tool choice of a request; None where none is to be sent.

    Raises:
        PreparationError: the one tool that is chosen is not sent.
    """
    if isinstance(choice, ToolChoice) and choice.mode == "tool":
        return _one(choice.names[0], sent, naming, api)
    mode = choice.mode if isinstance(choice, ToolChoice) else choice
    if not sent:
        if mode == "required":
            notes.warn("unsupported-option", "tool_choice", "a tool is required and there is none: nothing is chosen")
        return None
    return mode


def _one(name: str, sent: Sequence[AnyTool], naming: NameMap, api: Api) -> dict[str, Any]:
    for tool in sent:
        if tool.name == name:
            named = entry(tool, naming.sent(name), api)
            direct = kind_of(tool) in ("function", "custom", "mcp") or kind_of(tool) in _BY_TYPE
            return named if direct else _list("required", [named], api)
    raise PreparationError.of("tool_choice", f"the tool {name!r} must be called, and it cannot be sent to this API")


def allow_list(
    allowed: ToolChoice, sent: Sequence[AnyTool], deferred: frozenset[str], naming: NameMap, api: Api, notes: Notes
) -> dict[str, Any]:
    """The choice that allows some of the tools while all are sent.

    Raises:
        PreparationError: none of them can be allowed: a deferred tool is not there until it was searched for.
    """
    entries: list[dict[str, Any]] = []
    for tool in sent:
        if allowed.allows(tool.name) and tool.name in deferred:
            said = f"the tool {tool.name!r} is deferred, so it cannot be in the list of allowed tools"
            notes.warn("unsupported-option", tool.name, said)
        elif allowed.allows(tool.name):
            entries.append(entry(tool, naming.sent(tool.name), api))
    if not entries:
        names = ", ".join(map(repr, allowed.names))
        raise PreparationError.of("allowed_tools", f"none of {names} can be allowed: each is deferred, or not sent")
    return _list("auto" if allowed.mode == "auto" else "required", entries, api)


def _list(mode: str, entries: list[dict[str, Any]], api: Api) -> dict[str, Any]:
    listed = {"mode": mode, "tools": entries}
    return {"type": "allowed_tools", **(listed if api == "responses" else {"allowed_tools": listed})}
