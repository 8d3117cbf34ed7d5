"""What a request to OpenAI says of its tools.

>>> from fxai.tools.tool import Tool
>>> prepared = prepare_tools([Tool.make("Calculator.add")], model="gpt-5.5", tool_choice="required")
>>> prepared.tools[0]["name"], prepared.tools[0]["strict"], prepared.tool_choice
('Calculator__add', True, 'required')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.preparation import AnyTool, Notes, chosen, settle
from fxai.models.prepared import PreparationError, PreparedTools
from fxai.providers.openai.choice import allow_list, choice_on_wire
from fxai.providers.openai.wire import Api, Writer, kind_of
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import OPENAI
from fxai.tools.annotations import ExplicitNull, ToolNamespace
from fxai.tools.naming import NameMap, NameRule

__all__ = ["NAMES", "prepare_tools", "supports_strict_tools"]

NAMES: Final = NameRule(64)
"""What OpenAI allows as a tool's name."""

# Strict function calling came with the models of August 2024, back to these; older snapshots have no strict mode.
_WITHOUT_STRICT: Final = re.compile(r"^(?:ft:)?(?:gpt-3\.5-turbo-(?:16k-)?(?:0301|instruct)|gpt-4-(?:32k-)?0314)")


def supports_strict_tools(model: str) -> bool:
    """Whether a model has strict mode for tools; those that nobody knows yet are taken to.

    >>> supports_strict_tools("gpt-5.5"), supports_strict_tools("gpt-4-0314")
    (True, False)
    """
    return _WITHOUT_STRICT.match(model) is None


def prepare_tools(
    toolkit: Iterable[AnyTool],
    *,
    model: str,
    api: Api = "responses",
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    tool_choice: ToolChoices | None = None,
    allowed_tools: ToolChoice | None = None,
    parallel_tool_calls: bool | None = None,
) -> PreparedTools:
    """What a request says of a toolkit: a pure function, nothing is sent.

    Args:
        toolkit: the tools: a toolkit, or any tools.
        model: the model's name, by which it is known whether it has strict mode.
        api: Responses or Chat Completions.
        strict_json_schema: whether tools that say nothing of `Strict` are strict. None: as OpenAI does, they are.
        supports_strict: whether the model has strict mode at all; None: as its name says. False for servers of others
            that lack it.
        tool_choice: which tools may or must be called; `ToolChoice.one_of` sends those alone. None: nothing is said.
        allowed_tools: which may be called while all are sent, which keeps what the provider has cached; it takes the
            place of `tool_choice`.
        parallel_tool_calls: whether several tools may be called in one turn. None: nothing is said.

    Raises:
        PreparationError: a tool that is annotated as strict cannot be; a choice names a tool that is not there; a
            namespace has two descriptions; `provider_options["openai"]` of a tool are none;
            a tool that the provider runs asks for an approval.
        NameConflictError: two tools would have one name on the wire.
    """
    if api not in ("responses", "chat"):
        raise PreparationError.of("api", f"there is no API {api!r}: it is 'responses' or 'chat'")
    notes, tools = Notes(), tuple(toolkit)
    chosen(tools, allowed_tools, "allowed_tools")
    able = supports_strict_tools(model) if supports_strict is None else supports_strict
    written = _Tools(Writer(api, notes), notes, strict_json_schema, True if able else None)
    written.add(chosen(tools, tool_choice))
    if allowed_tools is None:
        choice = choice_on_wire(tool_choice, written.sent, written.naming, api, notes)
    else:
        deferred = frozenset(written.deferred)
        choice = allow_list(allowed_tools, written.sent, deferred, written.naming, api, notes)
    parallel = parallel_tool_calls if written.sent else None
    fields = {"tools": written.wires, "tool_choice": choice, "parallel_tool_calls": parallel}
    return PreparedTools.make(
        fields,
        written.naming,
        warnings=notes.warnings,
        rules=OPENAI,
        originals=written.originals,
        explicit_null=(tool.name for tool in written.sent if tool.get(ExplicitNull)),
    )


class _Tools:
    """The tools of one request, as they are written."""

    def __init__(self, writer: Writer, notes: Notes, config: bool | None, default: bool | None) -> None:
        self._writer = writer
        self._notes = notes
        self._config = config
        self._default = default
        self._groups: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        self.wires: list[dict[str, Any]] = []
        self.sent: tuple[AnyTool, ...] = ()
        self.naming: NameMap
        self.deferred: list[str] = []
        self.originals: dict[str, JsonSchema] = {}

    def add(self, tools: Iterable[AnyTool]) -> None:
        """Write the tools that the wire takes."""
        self.sent = tuple(tool for tool in tools if self._writer.takes(tool))
        self.naming = NameMap.of(self.sent, NAMES)
        for tool in self.sent:
            extras = self._writer.extras(tool)
            group: ToolNamespace | None = extras.pop("namespace", None)
            if extras.get("defer_loading"):
                self.deferred.append(tool.name)
            self._place(group, self._written(tool, extras))
        if self.deferred and not any(kind_of(tool) == "tool_search" for tool in self.sent):
            said = "deferred tools need a tool search, and OpenAI refuses them without: add openai.tool_search() for "
            self._notes.warn("other", None, said + ", ".join(map(repr, self.deferred)))

    def _written(self, tool: AnyTool, extras: dict[str, Any]) -> dict[str, Any]:
        wire = self.naming.sent(tool.name)
        if tool.provider is not None:
            return self._writer.provided(tool, wire, extras)
        settled = settle(tool, OPENAI, config=self._config, default=self._default, notes=self._notes)
        if settled.form is not None:
            self.originals[tool.name] = settled.form.original
        return self._writer.function(settled, wire, extras)

    def _place(self, group: ToolNamespace | None, wire: dict[str, Any]) -> None:
        if group is None:
            self.wires.append(wire)
            return
        if group.name not in self._groups:
            self._groups[group.name] = (group.description, [])
            _, inside = self._groups[group.name]
            about = {"name": group.name, "description": group.description, "tools": inside}
            self.wires.append({"type": "namespace", **about})
        description, inside = self._groups[group.name]
        if description != group.description:
            said = f"the namespace {group.name!r} has two descriptions: {description!r} and {group.description!r}"
            raise PreparationError.of("tools", f"{said}; give its tools the same one")
        inside.append(wire)
