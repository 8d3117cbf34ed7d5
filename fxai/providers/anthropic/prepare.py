"""What a request to Anthropic says of its tools.

>>> from fxai.tools.tool import Tool
>>> prepared = prepare_tools([Tool.make("Calculator.add")], model="claude-sonnet-5", tool_choice="required")
>>> prepared.tools[0]["name"], prepared.tools[0]["strict"], prepared.tool_choice
('Calculator__add', True, {'type': 'any'})
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.preparation import AnyTool, Notes, Settled, chosen, settle
from fxai.models.prepared import PreparationError, PreparedTools, Toolset
from fxai.providers.anthropic.limit import fewer_marks, within
from fxai.providers.anthropic.wire import TOOLSETS, Writer, kind_of, programs_of, runs_in_programs
from fxai.schema.strict import ANTHROPIC, resolve_strict
from fxai.tools.annotations import ExplicitNull, Strict
from fxai.tools.naming import NameMap, NameRule

__all__ = ["NAMES", "prepare_tools", "supports_strict_tools"]

_Extras: TypeAlias = Mapping[str, dict[str, Any]]

NAMES: Final = NameRule(128)
"""What Anthropic allows as a tool's name."""

# Structured outputs are there from Claude 4.5 on; before it were Claude 1 to 3, Opus 4 and 4.1, and Sonnet 4, whose
# names may be dated, and may have what a cloud puts around them.
_WITHOUT_STRICT: Final = re.compile(
    r"claude-(?:instant|v?[0-3](?:[.@:-]|$)|4-(?:opus|sonnet)|(?:opus|sonnet)-4(?:-[01])?(?:$|@|:|-latest|-?20\d{6}))"
)


def supports_strict_tools(model: str) -> bool:
    """Whether a model has strict mode for tools; those that nobody knows yet are taken to.

    >>> supports_strict_tools("claude-sonnet-5"), supports_strict_tools("claude-3-haiku-20240307")
    (True, False)
    """
    return _WITHOUT_STRICT.search(model) is None


def prepare_tools(
    toolkit: Iterable[AnyTool],
    *,
    model: str,
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    tool_choice: ToolChoices | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = False,
) -> PreparedTools:
    """What a request says of a toolkit: a pure function, nothing is sent.

    Args:
        toolkit: the tools: a toolkit, or any tools.
        model: the model's name, by which it is known whether it has strict mode.
        strict_json_schema: whether tools that say nothing of `Strict` are strict. None: they are, if the model can.
        supports_strict: whether the model has strict mode at all; None: as its name says.
        tool_choice: which tools may or must be called; `ToolChoice.one_of` sends those alone. None: nothing is said.
        parallel_tool_calls: whether several tools may be called in one turn. None: nothing is said.
        stream: whether the answer is streamed; then tools stream their parameters as they are written.

    Raises:
        PreparationError: a tool that is annotated as strict cannot be, or all that are annotated so are too much for
            one request; a choice names a tool that is not there; `provider_options["anthropic"]` of a tool are none;
            a tool that the provider runs asks for an approval.
        NameConflictError: two tools would have one name on the wire.
    """
    notes = Notes()
    tools = _taken(tuple(toolkit), tool_choice, notes)
    writer = Writer(notes, stream=stream, programs=programs_of(tools))
    sent = tuple(tool for tool in tools if writer.takes(tool))
    naming = NameMap.of(sent, NAMES)
    searches = any(kind_of(tool).startswith("tool_search_tool_") for tool in sent)
    extras = _loaded({tool.name: writer.extras(tool) for tool in sent}, notes, searches=searches)
    able = supports_strict_tools(model) if supports_strict is None else supports_strict
    settled = _settled(sent, extras, strict_json_schema, True if able else None, notes)
    wires = [_written(writer, one, naming.sent(one.tool.name), extras[one.tool.name]) for one in settled]
    fewer_marks({"tools": wires}, naming.names, notes)
    parallel = _parallel(parallel_tool_calls, extras, notes)
    fields = {"tools": wires, "tool_choice": _choice(tool_choice, parallel, sent, naming, notes)}
    return PreparedTools.make(
        fields,
        naming,
        warnings=notes.warnings,
        betas=notes.betas,
        rules=ANTHROPIC,
        originals={one.tool.name: one.form.original for one in settled if one.form is not None},
        explicit_null=(one.tool.name for one in settled if one.tool.get(ExplicitNull)),
        toolsets=(Toolset(TOOLSETS[kind_of(tool)], tool.name) for tool in sent if kind_of(tool) in TOOLSETS),
    )


def _taken(tools: tuple[AnyTool, ...], choice: ToolChoices | None, notes: Notes) -> tuple[AnyTool, ...]:
    """The tools of the choice; a toolset that must be called is sent alone, since the wire cannot name it."""
    left = chosen(tools, choice)
    if not (isinstance(choice, ToolChoice) and choice.mode == "tool"):
        return left
    alone = tuple(tool for tool in left if tool.name == choice.names[0] and kind_of(tool) in TOOLSETS)
    if alone and len(left) > 1:
        said = f"the toolset {choice.names[0]!r} must be called: it is sent alone, since no choice can name it"
        notes.warn("other", choice.names[0], said)
    return alone or left


def _loaded(extras: _Extras, notes: Notes, *, searches: bool) -> _Extras:
    """What is said of each tool; where every tool is deferred none is, since nothing would be left to search with.

    Where some are and there is no tool search, they are sent so, and a warning says that nobody finds them.
    """
    deferred = [name for name, said in extras.items() if said.get("defer_loading")]
    if len(deferred) < len(extras):
        if deferred and not searches:
            said = (
                "deferred tools need a tool search, or the model does not find them: add anthropic.tool_search() for "
            )
            notes.warn("other", None, said + ", ".join(map(repr, deferred)))
        return extras
    if not deferred:
        return extras
    for name in extras:
        said = f"the tool {name!r} is not deferred: no tool would be left to find it with; add anthropic.tool_search()"
        notes.warn("unsupported-option", name, said)
    return {
        name: {key: value for key, value in said.items() if key != "defer_loading"} for name, said in extras.items()
    }


def _parallel(parallel: bool | None, extras: _Extras, notes: Notes) -> bool | None:
    programs = [name for name, said in extras.items() if runs_in_programs(said)]
    if parallel is False and programs:
        said = f"parallel calls are not switched off: programs may call {', '.join(map(repr, programs))}"
        notes.warn("unsupported-option", "parallel_tool_calls", said)
        return None
    return parallel


def _settled(
    sent: Sequence[AnyTool], extras: _Extras, config: bool | None, default: bool | None, notes: Notes
) -> list[Settled]:
    settled: list[Settled] = []
    for tool in sent:
        if tool.provider is not None:
            settled.append(_provided(tool, default, notes))
        elif runs_in_programs(extras[tool.name]) and resolve_strict(tool.get(Strict), config, default):
            settled.append(_in_programs(tool, notes))
        else:
            settled.append(settle(tool, ANTHROPIC, config=config, default=default, notes=notes))
    provided = sum(1 for one in settled if one.tool.provider is not None and one.strict)
    return within(settled, provided, notes)


def _provided(tool: AnyTool, default: bool | None, notes: Notes) -> Settled:
    asked = None if kind_of(tool) in TOOLSETS else tool.get(Strict)
    if asked and default is None:
        said = f"the tool {tool.name!r} is not sent as strict: the model has no strict mode"
        notes.warn("not-strict", tool.name, said)
    return Settled(tool, asked if default else None)


def _in_programs(tool: AnyTool, notes: Notes) -> Settled:
    """A tool that would be strict and that programs may call: Anthropic has no strict mode for such calls."""
    if tool.get(Strict):
        said = f"the tool {tool.name!r} is annotated as strict, and programs may call it: Anthropic takes only one"
        raise PreparationError.of("tools", f"{said}; annotate it with Strict, None or let only the model call it")
    said = f"the tool {tool.name!r} is not sent as strict: programs may call it, and Anthropic takes only one of both"
    notes.warn("not-strict", tool.name, said)
    return Settled(tool, False)


def _written(writer: Writer, one: Settled, wire: str, extras: Mapping[str, Any]) -> dict[str, Any]:
    write = writer.function if one.tool.provider is None else writer.provided
    return write(one, wire, extras)


def _choice(
    choice: ToolChoices | None, parallel: bool | None, sent: Sequence[AnyTool], naming: NameMap, notes: Notes
) -> dict[str, Any] | None:
    mode = choice.mode if isinstance(choice, ToolChoice) else choice
    if isinstance(choice, ToolChoice) and mode == "tool" and choice.names[0] not in {tool.name for tool in sent}:
        raise PreparationError.of("tool_choice", f"the tool {choice.names[0]!r} must be called, and it cannot be sent")
    if not sent:
        if mode == "required":
            notes.warn("unsupported-option", "tool_choice", "a tool is required and there is none: nothing is chosen")
        return None
    wire = _kind(choice, sent, naming)
    if parallel is False and wire != {"type": "none"}:
        return {**(wire or {"type": "auto"}), "disable_parallel_tool_use": True}
    return wire


def _kind(choice: ToolChoices | None, sent: Sequence[AnyTool], naming: NameMap) -> dict[str, Any] | None:
    if isinstance(choice, ToolChoice) and choice.mode == "tool":
        if kind_of(sent[0]) in TOOLSETS and sent[0].name == choice.names[0]:
            return {"type": "any"}
        return {"type": "tool", "name": naming.sent(choice.names[0])}
    mode = choice.mode if isinstance(choice, ToolChoice) else choice
    return None if mode is None else {"type": "any" if mode == "required" else mode}
