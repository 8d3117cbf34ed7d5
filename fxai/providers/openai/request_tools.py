"""The tools of one request, looked up by the names and item types that its answer and its history use.

>>> from fxai.providers.openai.tool_encoding import prepare_tools
>>> from fxai.tools.tool import Tool
>>> tools = (Tool.make("Calculator.add"),)
>>> offer = RequestTools(prepare_tools(tools, model="gpt-5.5"), tools)
>>> offer.name("Calculator__add"), offer.item("Calculator.add"), offer.call("Calculator__add", "c1", "{}").params
('Calculator.add', 'function_call', {})
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, final

import msgspec
from returns.result import Success

from fxai.messages.part import ToolCall
from fxai.models.tool_encoding import AnyTool, PreparedTools
from fxai.providers.openai.tool_encoding import kind_of
from fxai.schema.parsing import parse_json

__all__ = ["RequestTools"]

# What a call of each of the provider's own tools is, as an item of Responses; all others are of its own.
_ITEMS: Final = {
    "apply_patch": "apply_patch_call",
    "code_interpreter": "code_interpreter_call",
    "computer": "computer_call",
    "computer_use_preview": "computer_call",
    "custom": "custom_tool_call",
    "file_search": "file_search_call",
    "image_generation": "image_generation_call",
    "local_shell": "local_shell_call",
    "programmatic_tool_calling": "program",
    "shell": "shell_call",
    "tool_search": "tool_search_call",
    "web_search": "web_search_call",
    "web_search_2025_08_26": "web_search_call",
    "web_search_preview": "web_search_call",
    "web_search_preview_2025_03_11": "web_search_call",
}


@final
class RequestTools(msgspec.Struct, frozen=True, dict=True):
    """The tools of one request, and what was prepared of them."""

    prepared: PreparedTools
    tools: tuple[AnyTool, ...] = ()

    def item(self, name: str) -> str:
        """The type of the item that a call of the tool `name` is on Responses; of an unknown tool: a function call."""
        tool = self._tool(name)
        return "function_call" if tool is None else _ITEMS.get(kind_of(tool), "function_call")

    def named(self, item: str) -> str:
        """The name of the tool whose calls are items of this type; without one, the provider's own name for it."""
        for tool in self.tools:
            if item == _ITEMS.get(kind_of(tool)):
                return tool.name
        return next(kind for kind, known in _ITEMS.items() if known == item)

    def hosted(self, item: str) -> bool:
        """Whether the provider runs the tool whose calls are items of this type, as far as the request says."""
        name = self.named(item)
        tool = self._tool(name)
        return tool is not None and not tool.requires_handler

    def name(self, wire: str) -> str:
        """The name of the tool that is sent by the name `wire`."""
        return self.prepared.naming.meant(wire)

    def dynamic(self, name: str) -> bool:
        """Whether the tool `name` is a dynamic one."""
        tool = self._tool(name)
        return tool is not None and tool.identity.kind == "dynamic"

    def call(self, wire: str, id_: str, text: str, metadata: Mapping[str, Any] | None = None) -> ToolCall:
        """The call of a function with these arguments, as the model wrote them.

        Text that is not JSON is kept as `params_text`; blank text is `{}`.
        """
        read = parse_json(text)
        said = metadata or {}
        if not isinstance(read, Success):
            name = self.name(wire)
            return ToolCall(id_, name, None, dynamic=self.dynamic(name), params_text=text, metadata=said)
        return self.parsed_call(wire, id_, read.unwrap(), said)

    def parsed_call(self, wire: str, id_: str, params: Any, metadata: Mapping[str, Any]) -> ToolCall:
        """The call of a tool with these parameters, which are mapped back where the tool was sent as strict."""
        name, mapped = self.prepared.call(wire, params)
        return ToolCall(id_, name, mapped, dynamic=self.dynamic(name), metadata=metadata)

    def _tool(self, name: str) -> AnyTool | None:
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, AnyTool]:
        return {tool.name: tool for tool in reversed(self.tools)}  # of two with one name, the first
