"""Limits for the tools in a request: their number, and the length of a description. Use this module in a provider.

>>> import msgspec
>>> from fxai.models.prepared_tools import ToolForm
>>> from fxai.schema.request_form import CHAT
>>> from fxai.tools.tool import Tool
>>> notes, few = Notes(), msgspec.structs.replace(CHAT, most_tools=1, longest_description=9)
>>> tools = [ToolForm(Tool.make(name), None) for name in ("add", "weather")]
>>> [one.tool.name for one in within_number(tools, few, ToolChoice.tool("weather"), notes)]
['weather']
>>> shorten(Tool.make("add", description="Add two numbers."), few, notes), notes.left_out[0].tool
('Add two…', 'add')
"""

from __future__ import annotations

from collections.abc import Sequence

from fxai.models.model_request import ToolChoice, ToolChoices, narrow
from fxai.models.prepared_tools import Notes, ToolForm
from fxai.schema.request_form import RequestRules
from fxai.tools.tool import AnyTool


def within_number(
    forms: Sequence[ToolForm], rules: RequestRules, choice: ToolChoices | None, notes: Notes
) -> list[ToolForm]:
    """Return the tools that a request can contain, in their order. Tools of the choice have priority.

    Args:
        forms: The tools.
        rules: The rules of the API.
        choice: The choice of the request.
        notes: The notes about omitted tools.
    """
    most = rules.most_tools
    if most is None or len(forms) <= most:
        return list(forms)
    named = choice.names if isinstance(choice, ToolChoice) else ()
    by_use = sorted(range(len(forms)), key=lambda at: forms[at].tool.name not in named)
    kept = set(by_use[:most])
    reason = f"{rules.name} accepts {most} tools in one request, and this request has {len(forms)}"
    gone = [one.tool for at, one in enumerate(forms) if at not in kept]
    notes.forget("not-strict", {tool.name for tool in gone})
    for tool in gone:
        notes.leave_out(tool, "number of tools", "", f"{reason}. Offer fewer tools.")
    return [one for at, one in enumerate(forms) if at in kept]


def shorten(tool: AnyTool, rules: RequestRules, notes: Notes) -> str | None:
    """Return the description of a tool, cut to the length that the API accepts. Add a warning about the cut.

    Args:
        tool: The tool.
        rules: The rules of the API.
        notes: The notes about shortened descriptions.
    """
    text, most = tool.description, rules.longest_description
    if text is None or most is None or len(text) <= most:
        return text
    length = f"{len(text)} characters, but {rules.name} accepts only {most}"
    message = f"the tool {tool.name!r}: its description has {length}. The end is not sent. Shorten the description."
    notes.warn("unsupported-option", tool.name, message)
    start = text[: most - 1]
    whole = start if text[most - 1].isspace() else start.rpartition(" ")[0]
    return f"{(whole if len(whole) > most // 2 else start).rstrip()}…"


def narrow_choice(choice: ToolChoices | None, notes: Notes) -> ToolChoices | None:
    """Return the choice without omitted tools. Add a warning if no tool in the choice remains.

    Args:
        choice: The choice of the request.
        notes: The notes with the omitted tools.
    """
    gone = {one.tool for one in notes.left_out}
    if not isinstance(choice, ToolChoice) or gone.isdisjoint(choice.names):
        return choice
    left = narrow(choice, [name for name in choice.names if name not in gone])
    if not isinstance(left, ToolChoice):
        problem = f"tool_choice: its tools ({', '.join(choice.names)}) are not sent, so fxai sends {left!r}"
        notes.warn("unsupported-option", "tool_choice", problem)
    return left
