"""Tools in requests to Anthropic. Use `prepare_tools` to encode tools, select strict tools, and limit cache marks.

Anthropic compiles the strict schemas of a request into one grammar and limits their total size ("Structured outputs:
Schema complexity limits" in its documentation). fxai sends tools above the limits without strict mode. Tools with the
annotation `Strict` have priority. Anthropic accepts four cache marks per request. A mark applies to everything before
it, so the last marks of the tools, the system prompt, and the messages have priority. fxai removes marks above four.

>>> from fxai.tools.tool import Tool
>>> prepared = prepare_tools([Tool.make("Calculator.add")], model="claude-sonnet-5", tool_choice="required")
>>> prepared.tools[0]["name"], prepared.tools[0]["strict"], prepared.tool_choice
('Calculator__add', True, {'type': 'any'})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.model_facts import ModelFacts
from fxai.models.model_request import ToolChoice, ToolChoices
from fxai.models.prepared_tools import (
    Notes,
    PreparationError,
    PreparedTools,
    ToolForm,
    Toolset,
    choice_mode,
    choose_tools,
    form_of,
    narrow_choice,
    options_of,
    refuse_approval,
    shorten,
    within_number,
    without_nulls,
)
from fxai.providers.anthropic.known_models import TABLE
from fxai.providers.anthropic.options import Ephemeral
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.location import walk
from fxai.schema.request_form import MESSAGES
from fxai.schema.strict import ANTHROPIC, resolve_strict
from fxai.tools.annotation import (
    AllowedCallers,
    CacheControl,
    DeferLoading,
    EagerInputStreaming,
    FindsTools,
    Namespace,
    OutputSchema,
    Strict,
)
from fxai.tools.identity import NameMap, NameRule
from fxai.tools.tool import AnyTool

_MARK: Final = "cache_control"
_LONG: Final = "1h"


@final
class Cost(msgspec.Struct, frozen=True):
    """The size of strict schemas, in the units of Anthropic's limits."""

    tools: int = 0
    """The number of tools."""
    optional: int = 0
    """The number of properties that are not required."""
    unions: int = 0
    """The number of schemas that are unions, by `anyOf` or a list of types."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.tools + other.tools, self.optional + other.optional, self.unions + other.unions)

    def beyond(self, most: Cost) -> str | None:
        """Return a description of the first exceeded limit, or None if all values are within the limits."""
        counts = (
            (self.tools, most.tools, "strict tools"),
            (self.optional, most.optional, "optional parameters"),
            (self.unions, most.unions, "parameters of union types"),
        )
        return next((f"{count} {what}, of at most {limit}" for count, limit, what in counts if count > limit), None)


MOST: Final = Cost(tools=20, optional=24, unions=16)
"""The maximum size of all strict schemas in one request."""


def cost_of(document: Any) -> Cost:
    """Return the size of a strict schema."""
    schemas = [one.schema for one in walk(document)]
    optional = sum(name not in one.get("required", ()) for one in schemas for name in one.get("properties", ()))
    return Cost(1, optional, sum("anyOf" in one or is_array(one.get("type")) for one in schemas))


def within(forms: Sequence[ToolForm], provided: int, notes: Notes) -> list[ToolForm]:
    """Disable the strict mode of tools above the limits. `provided` is the number of the provider's strict tools.

    Raises:
        PreparationError: If the tools with the annotation `Strict` exceed a limit.
    """
    kept: list[ToolForm | None] = list(forms)
    spent = Cost(tools=provided)
    for at in sorted(range(len(forms)), key=lambda at: forms[at].tool.get(Strict) is not True):
        one = forms[at]
        if one.form is None or not one.strict:
            continue
        after = spent + cost_of(one.form.document.to_dict())
        over = after.beyond(MOST)
        if over is None:
            spent = after
        elif one.tool.get(Strict):
            problem = f"tool {one.tool.name!r}: the tools with the annotation Strict exceed a limit ({over})"
            remedy = f"{problem}. Remove Strict, True from some tools."
            raise PreparationError(UnsupportedSchemaError(description=remedy))
        else:
            notes.not_strict(one.tool, f"with it the request would have {over}")
            kept[at] = one.loosen(notes)
    return [one for one in kept if one is not None]


@final
class _Mark(msgspec.Struct, frozen=True, eq=False):
    """A mark for the cache: its position as text, and the object that contains it."""

    section: str
    holder: JsonObject
    where: str
    tool: str | None = None


def check_marks(body: JsonObject, names: Mapping[str, str], notes: Notes, most: int) -> None:
    """Remove cache marks above the limit from a request, and order the lifetimes of the other marks.

    The marks have the following priority: the request's own mark, the last mark of the tools, the last mark of the
    system prompt, the marks of the messages from the last to the first, and the remaining marks of the system prompt
    and the tools. The API rejects a mark that outlives an earlier mark, so earlier marks receive the longer lifetime.

    Args:
        body: The body, which this function changes.
        names: The names of the tools by their Anthropic names.
        notes: The warnings of the request.
        most: Maximum number of marks.

    >>> body = {"tools": [{"name": str(n), "cache_control": {"type": "ephemeral"}} for n in range(5)]}
    >>> check_marks(body, {}, Notes(), 4)
    >>> [one["name"] for one in body["tools"] if "cache_control" not in one]
    ['0']
    """
    own = 1 if is_object(body.get(_MARK)) else 0
    marks = list(_marks(body, names))
    tools, system, messages = (
        [mark for mark in reversed(marks) if mark.section == section] for section in ("tools", "system", "messages")
    )
    by_use = [*tools[:1], *system[:1], *messages, *system[1:], *tools[1:]]
    for mark in by_use[max(most - own, 0) :]:
        del mark.holder[_MARK]
        problem = f"{mark.where}: fxai removes its cache mark, because Anthropic accepts {most} per request"
        kept = "the last marks of the tools, the system prompt, and the messages remain. Use fewer marks."
        notes.warn("unsupported-option", mark.tool or _MARK, f"{problem}: {kept}")
    _order_lifetimes(body, [mark for mark in marks if _MARK in mark.holder], notes)


def _order_lifetimes(body: Mapping[str, Any], marks: Sequence[_Mark], notes: Notes) -> None:
    """Increase the lifetime of marks before a one-hour mark to one hour."""
    is_long = is_object(body.get(_MARK)) and body[_MARK].get("ttl") == _LONG
    for mark in reversed(marks):
        value = mark.holder[_MARK]
        if value.get("ttl") == _LONG:
            is_long = True
        elif is_long:
            mark.holder[_MARK] = {**value, "ttl": _LONG}
            why = "because a later mark has this lifetime, and Anthropic rejects a mark that outlives an earlier mark"
            notes.warn("unsupported-option", mark.tool or _MARK, f"{mark.where}: fxai marks it for {_LONG}, {why}")


def _marks(body: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[_Mark]:
    """Yield the marks in the reading order of the provider."""
    for tool in body.get("tools", ()):
        if is_object(tool.get(_MARK)):
            wire = str(tool.get("name", tool.get("type")))
            yield _Mark("tools", tool, f"tool {names.get(wire, wire)!r}", names.get(wire, wire))
    system: Any = body.get("system")
    for at, block in enumerate(system if is_array(system) else ()):
        yield from _marks_in(block, "system", f"part {at + 1} of the system prompt")
    for at, message in enumerate(body.get("messages", ())):
        yield from _marks_in(message.get("content"), "messages", f"message {at + 1}")


def _marks_in(block: Any, section: str, where: str) -> Iterator[_Mark]:
    """Yield the marks of a block. Inner marks precede the mark of the block."""
    for one in block if is_array(block) else ():
        yield from _marks_in(one, section, where)
    if not is_object(block):
        return
    for inside in ("content", "source"):
        yield from _marks_in(block.get(inside), section, where)
    if is_object(block.get(_MARK)):
        yield _Mark(section, block, where)


_WHERE: Final = "Anthropic's Messages API"

TOOLSETS: Final[Mapping[str, str]] = {"computer_toolset_20260801": "computer", "browser_toolset_20260801": "browser"}
"""The toolsets, which the model sees as several tools, and their Anthropic names."""

_Caller: TypeAlias = Literal["direct", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521"]
_PROGRAMS: Final = ("code_execution_20250825", "code_execution_20260120", "code_execution_20260521")

# the fields of each type of tool, from the parameter types of the official SDK
_EVERY: Final = frozenset({"cache_control", "defer_loading", "allowed_callers"})
_OF_OURS: Final = _EVERY | {"eager_input_streaming"}
_OF_TOOLSETS: Final = frozenset({"cache_control"})


class _Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of `provider_options["anthropic"]` of a tool. They replace annotations with the same meaning."""

    cache_control: Ephemeral | None = None
    defer_loading: bool | None = None
    allowed_callers: tuple[_Caller, ...] | None = None
    eager_input_streaming: bool | None = None
    betas: tuple[str, ...] = ()


def kind_of(tool: AnyTool) -> str:
    """Return the Anthropic type of a tool: `"custom"`, or the type of the provider's own tool."""
    return "custom" if tool.provider is None else tool.provider.id.partition(".")[2]


def programs_of(tools: Iterable[AnyTool]) -> str:
    """Return Anthropic's name of programs that call tools: the code execution of the request, or the newest version."""
    return next((kind for kind in map(kind_of, tools) if kind in _PROGRAMS), _PROGRAMS[-1])


def runs_in_programs(extras: Mapping[str, Any]) -> bool:
    """Return True if programs can call a tool with these fields."""
    return any(caller in _PROGRAMS for caller in extras.get("allowed_callers", ()))


@final
class Writer:
    """A writer of tools. It adds a warning for each unsupported field."""

    def __init__(self, notes: Notes, *, stream: bool, programs: str) -> None:
        self._notes = notes
        self._stream = stream
        self._programs = programs

    def takes(self, tool: AnyTool) -> bool:
        """Return True if the API supports the tool. Otherwise, add a warning.

        Raises:
            PreparationError: If a tool that the provider runs needs an approval.
        """
        if tool.provider is None or tool.provider.id.startswith("anthropic."):
            refuse_approval(tool)
            return True
        self._notes.refuse(tool, "is another provider's", _WHERE)
        return False

    def write(self, forms: ToolForm, wire: str, extras: Mapping[str, Any]) -> JsonObject:
        """Encode a local tool or a tool of Anthropic, with its Anthropic name."""
        tool, kind = forms.tool, kind_of(forms.tool)
        flag = {} if forms.strict is None else {"strict": forms.strict}
        more = {**flag, **self._examples(forms), **extras}
        if tool.provider is None:
            description = shorten(tool, MESSAGES, self._notes)
            about = {} if description is None else {"description": description}
            return {"name": wire, **about, "input_schema": forms.document, **more}
        name = {} if kind in TOOLSETS else {"name": wire}
        return {"type": kind, **name, **without_nulls(msgspec.to_builtins(tool.provider.args)), **more}

    def extras(self, tool: AnyTool) -> JsonObject:
        """Return the supported fields of a tool except its name, description, schema, and examples."""
        options = options_of(tool, "anthropic", _Options)
        self._notes.betas += options.betas
        ours, is_toolset, time = tool.provider is None, kind_of(tool) in TOOLSETS, tool.get(CacheControl)
        eager = tool.get(EagerInputStreaming)
        callers = [self._programs if caller == "programmatic" else caller for caller in tool.get(AllowedCallers)]
        annotated: dict[str, Any] = {
            "cache_control": None if time is None else Ephemeral(None if time == "default" else time),
            "defer_loading": tool.get(DeferLoading) or None,
            "allowed_callers": callers or None,
            "eager_input_streaming": (self._stream and ours if eager is None else eager) or None,
        }
        extras = without_nulls({**msgspec.to_builtins(annotated), **without_nulls(msgspec.to_builtins(options))})
        extras.pop("betas", None)
        missing = {
            "output schema": tool.get(OutputSchema) is not None,
            "namespace": tool.get(Namespace) is not None,
            "description": not ours and tool.given_description is not None,
            "strict mode": is_toolset and bool(tool.get(Strict)),
        }
        carried = _OF_OURS if ours else _OF_TOOLSETS if is_toolset else _EVERY
        taken = self._notes.carry(tool, extras, carried, missing, _WHERE)
        kept = {name: value for name, value in taken.items() if value not in (False, ())}
        if "defer_loading" in kept and kept.pop("cache_control", None) is not None:
            why = f"tool {tool.name!r} is deferred, and {_WHERE} cannot cache deferred tools. Mark another tool."
            self._notes.warn("unsupported-option", tool.name, why)
        return kept

    def _examples(self, forms: ToolForm) -> JsonObject:
        tool, form = forms.tool, forms.form
        if not tool.input_examples:
            return {}
        if tool.provider is not None and not kind_of(tool).startswith(("bash_", "text_editor_", "memory_")):
            self._notes.note_lost(tool, "input examples", _WHERE)
            return {}
        examples: list[Any] = []
        for number, example in enumerate(tool.input_examples, 1):
            found = Success(example.parameters) if form is None else form.forth(example.parameters)
            if isinstance(found, Success) and is_object(found.unwrap()):
                examples.append(found.unwrap())
            else:
                why = "it is not an object" if isinstance(found, Success) else found.failure()
                problem = f"tool {tool.name!r}: input example {number} is omitted: {why}"
                self._notes.warn("other", tool.name, problem)
        return {"input_examples": examples} if examples else {}


_Extras: TypeAlias = Mapping[str, JsonObject]

NAMES: Final = NameRule(MESSAGES.longest_name)
"""Anthropic's rules for the names of tools."""


def prepare_tools(
    toolkit: Iterable[AnyTool],
    *,
    model: str,
    strict_json_schema: bool | None = None,
    facts: ModelFacts | None = None,
    tool_choice: ToolChoices | None = None,
    parallel_tool_calls: bool | None = None,
    stream: bool = False,
) -> PreparedTools:
    """Prepare the tool fields of a request. This function is pure and sends nothing.

    Args:
        toolkit: A toolkit or any tools.
        model: The name of the model.
        strict_json_schema: True if tools that lack the annotation `Strict` are strict. By default, they are strict if
            the model supports it.
        facts: The limits and abilities of the model. By default the facts that fxai has for this name.
        tool_choice: The tools that the model can or must call. `ToolChoice.one_of` sends only its tools. None omits the
            field.
        parallel_tool_calls: True if the model can call several tools per turn. None omits the field.
        stream: True if the answer is a stream. Tools then stream their arguments.

    Raises:
        PreparationError: If a tool with the annotation `Strict` cannot be strict, or if all strict tools exceed a
            limit. If a choice names an unknown tool. If `provider_options["anthropic"]` of a tool are invalid. If a
            tool that the provider runs needs an approval.
        NameConflictError: If two tools would have the same Anthropic name.
    """
    notes = Notes()
    tools = _choose(tuple(toolkit), tool_choice, notes)
    writer = Writer(notes, stream=stream, programs=programs_of(tools))
    takes = tuple(tool for tool in tools if writer.takes(tool))
    finders = [tool.name for tool in takes if tool.get(FindsTools)]
    searches = bool(finders) or any(kind_of(tool).startswith("tool_search_tool_") for tool in takes)
    extras = _check_deferral({tool.name: writer.extras(tool) for tool in takes}, notes, searches=searches)
    known = TABLE.facts(model) if facts is None else TABLE.complete(facts)
    forms = _forms(takes, extras, strict_json_schema, True if known.strict_tools else None, notes)
    forms = within_number(forms, MESSAGES, tool_choice, notes)
    sent = tuple(one.tool for one in forms)
    naming = NameMap.of(sent, NAMES)
    wires = [writer.write(one, naming.sent(one.tool.name), extras[one.tool.name]) for one in forms]
    check_marks({"tools": wires}, naming.names, notes, known.cache_marks or 0)
    programs = [name for name, given in extras.items() if runs_in_programs(given)]
    if parallel_tool_calls is False and programs:
        why = f"parallel calls remain enabled: programs can call {', '.join(map(repr, programs))}"
        notes.warn("unsupported-option", "parallel_tool_calls", why)
        parallel_tool_calls = None
    choice = _choice(narrow_choice(tool_choice, notes), parallel_tool_calls, sent, naming, notes)
    fields = {"tools": wires, "tool_choice": choice}
    toolsets = (Toolset(TOOLSETS[kind_of(tool)], tool.name) for tool in sent if kind_of(tool) in TOOLSETS)
    return PreparedTools.make(fields, naming, notes=notes, forms=forms, toolsets=toolsets, finders=finders)


def _choose(tools: tuple[AnyTool, ...], choice: ToolChoices | None, notes: Notes) -> tuple[AnyTool, ...]:
    """Return the tools of the choice. If a toolset must be called, send only it, because a choice cannot name it."""
    left = choose_tools(tools, choice)
    if not (isinstance(choice, ToolChoice) and choice.mode == "tool"):
        return left
    alone = tuple(tool for tool in left if tool.name == choice.names[0] and kind_of(tool) in TOOLSETS)
    if alone and len(left) > 1:
        why = f"toolset {choice.names[0]!r} must be called: fxai sends only it, because a choice cannot name it"
        notes.warn("other", choice.names[0], why)
    return alone or left


def _check_deferral(extras: _Extras, notes: Notes, *, searches: bool) -> _Extras:
    """Return the additional fields of each tool. If all tools are deferred, remove the deferral of all tools.

    Without a tool search, deferred tools remain deferred, and a warning states that the model cannot find them.
    """
    deferred = [name for name, fields in extras.items() if fields.get("defer_loading")]
    if len(deferred) < len(extras):
        if deferred and not searches:
            problem = "the model cannot find deferred tools without a tool search"
            names = ", ".join(map(repr, deferred))
            notes.warn("other", None, f"{problem}. Add anthropic.tool_search() for {names}.")
        return extras
    if not deferred:
        return extras
    for name in extras:
        why = f"tool {name!r} is not deferred: all tools are deferred. Add anthropic.tool_search()."
        notes.warn("unsupported-option", name, why)
    return {
        name: {key: value for key, value in fields.items() if key != "defer_loading"} for name, fields in extras.items()
    }


def _forms(
    sent: Sequence[AnyTool], extras: _Extras, config: bool | None, default: bool | None, notes: Notes
) -> list[ToolForm]:
    found: list[ToolForm | None] = []
    for tool in sent:
        asked = tool.get(Strict)
        if tool.provider is not None:
            asked = None if kind_of(tool) in TOOLSETS else asked
            if asked and default is None:
                notes.not_strict(tool, "the model has no strict mode")
            found.append(ToolForm(tool, asked if default else None))
        elif runs_in_programs(extras[tool.name]) and resolve_strict(asked, config, default):
            if asked:
                problem = f"tool {tool.name!r} has the annotation Strict, and programs can call it"
                remedy = "Anthropic supports only one. Annotate it with Strict, None, or let only the model call it."
                raise PreparationError.of("tools", f"{problem}. {remedy}")
            notes.not_strict(tool, "programs can call it, and Anthropic supports only one of both")
            loose = tool.annotate(Strict, False)
            found.append(form_of(loose, MESSAGES, ANTHROPIC, config=None, default=default, notes=notes))
        else:
            found.append(form_of(tool, MESSAGES, ANTHROPIC, config=config, default=default, notes=notes))
    forms = [one for one in found if one is not None]
    provided = sum(1 for one in forms if one.tool.provider is not None and one.strict)
    return within(forms, provided, notes)


def _choice(
    choice: ToolChoices | None, parallel: bool | None, sent: Sequence[AnyTool], naming: NameMap, notes: Notes
) -> JsonObject | None:
    one = choice.names[0] if isinstance(choice, ToolChoice) and choice.mode == "tool" else None
    if one is not None and one not in {tool.name for tool in sent}:
        raise PreparationError.of("tool_choice", f"tool {one!r} must be called, but fxai cannot send it")
    mode = choice_mode(choice, sent, notes)
    wire: JsonObject | None = None if mode is None else {"type": "any" if mode == "required" else mode}
    if one is not None:
        is_toolset = sent[0].name == one and kind_of(sent[0]) in TOOLSETS
        wire = {"type": "any"} if is_toolset else {"type": "tool", "name": naming.sent(one)}
    if parallel is False and sent and wire != {"type": "none"}:
        return {**(wire or {"type": "auto"}), "disable_parallel_tool_use": True}
    return wire
