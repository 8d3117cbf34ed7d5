"""Preparation of tools: convert a toolkit to the form of a provider's request. Use this module in a provider.

It applies the tool choice, decides about strict mode, and validates the provider options for each tool. The result, the
prepared tools, contains the tools in the form of a provider's request. It also converts the provider's calls back to
calls of the tools. Each provider has a function `prepare_tools` for a toolkit and the name of a model.

>>> from fxai.schema.request_form import RESPONSES
>>> from fxai.schema.strict import OPENAI
>>> from fxai.tools.tool import ExternalTool, Tool
>>> notes = Notes()
>>> forms = form_of(Tool.make("ping"), RESPONSES, OPENAI, config=None, default=True, notes=notes)
>>> forms.strict, forms.document["additionalProperties"], notes.warnings
(True, False, [])
>>> names = NameMap({"Calculator.add": "Calculator__add"})
>>> prepared = PreparedTools.make({"tools": [{"name": "Calculator__add"}]}, names)
>>> prepared.tools, prepared.call("Calculator__add", {"a": 1})
([{'name': 'Calculator__add'}], ('Calculator.add', {'a': 1}))
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Never, TypeAlias, cast, final

import msgspec
from returns.result import Result, Success
from typing_extensions import TypeVar

from fxai.messages.message import FilePart, TextPart, ToolResultPart
from fxai.messages.part import WarningKind, WarningPart
from fxai.messages.reason import InvalidRequestError, NetworkError, Reason, UnsupportedSchemaError
from fxai.models.model_request import ToolChoice, ToolChoices, narrow
from fxai.models.request_cache import JsonItems
from fxai.schema.codec import Schema
from fxai.schema.data import Empty, is_array, is_object
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.request_form import RequestForm, RequestRules, request_form
from fxai.schema.strict import StrictForm, StrictRules, UnsupportedFeature, resolve_strict
from fxai.schema.surrogate import mend_data
from fxai.tools.annotation import ExplicitNull, Strict
from fxai.tools.identity import NameMap, NameRule
from fxai.tools.tool import AnyTool, ExternalTool, Tool


def file_note(part: FilePart) -> str:
    """Return the text that replaces a file that the API does not accept: its name, media type, and size.

    In JSON, the file would become base64 text, which has the length of the file and is useless for a model.

    >>> print(file_note(FilePart("audio/wav", b"RIFF", "horn.wav")))
    (the file 'horn.wav', audio/wav, 4 bytes, is omitted: this model does not accept such files)
    """
    name = f" {part.file_name!r}" if part.file_name else ""
    size = f" {len(part.data)} bytes," if isinstance(part.data, bytes) else ""
    return f"(the file{name}, {part.media_type},{size} is omitted: this model does not accept such files)"


def contents_of(part: ToolResultPart, *kinds: Literal["text", "file"]) -> list[TextPart | FilePart] | None:
    """Return the strings and files of a result in the JSON form of a message's content, or None for another result.

    The result must contain at least one part of these kinds.
    """
    result = part.result
    if part.is_failure or not is_array(result) or not any(one.get("type") in kinds for one in result if is_object(one)):
        return None
    try:
        return msgspec.convert(result, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None


class PreparationError(ValueError):
    """The error for tools that a request cannot contain, found before the request. `reason` contains it as a value."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason

    def __reduce__(self) -> tuple[type[PreparationError], tuple[Reason]]:
        return (PreparationError, (self.reason,))

    @staticmethod
    def of(parameter: str, description: str) -> PreparationError:
        """Return the error for a wrong argument of `prepare_tools`."""
        return PreparationError(InvalidRequestError(parameter=parameter, description=description))


@final
class Toolset(msgspec.Struct, frozen=True):
    """A tool that a provider shows to the model as multiple tools, each for a kind of action."""

    wire: str
    """The provider's name of the set."""
    tool: str
    """The tool name."""
    field: str = "action"
    """The parameter of the tool that contains the action. On the wire, it is the name of the call."""


@final
class LeftOut(msgspec.Struct, frozen=True):
    """A tool that fxai omits from a request, because the API would refuse the whole request."""

    tool: str
    """The tool name."""
    rule: str
    """The rule of the API."""
    pointer: str
    """The location in the tool, as a JSON pointer."""
    reason: str
    """The reason."""

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.tool} {self.pointer or '/'}: {self.rule}: {self.reason}"


@final
class WireCall(msgspec.Struct, frozen=True):
    """A call in the form of the provider, for the history of a conversation."""

    name: str
    params: Any
    toolset: str | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.toolset))  # parameters may be unhashable


def found_names(result: Any) -> Iterator[str]:
    """Yield the names in the result of a tool with the annotation `FindsTools`."""
    listed = result.get("tools") if is_object(result) else None
    for one in listed if is_array(listed) else ():
        name = one.get("name") if is_object(one) else None
        if isinstance(name, str):
            yield name


@final
class PreparedTools(msgspec.Struct, frozen=True, dict=True):
    """The tools in the form of a request, with the mapping of calls: frozen, hashable, comparable, and picklable."""

    # The dictionary of an instance caches computed data such as strict forms. It is not part of the value.

    encoded: bytes
    """The fields in the request as JSON."""
    naming: NameMap
    """The tool names in both directions."""
    warnings: tuple[WarningPart, ...] = ()
    """The warnings about requested features that fxai does not apply, for the response."""
    betas: tuple[str, ...] = ()
    """The beta features that the request must name. Only Anthropic has them."""
    originals: tuple[tuple[str, Original], ...] = ()
    """The strict tools, and the tools whose document differs in the request, by their own names."""
    toolsets: tuple[Toolset, ...] = ()
    """The tools that the model receives as multiple tools."""
    left_out: tuple[LeftOut, ...] = ()
    """The tools that fxai omits, because the API would refuse the whole request."""
    finders: tuple[str, ...] = ()
    """The tools with the annotation `FindsTools`. The history shows their results as references."""

    @staticmethod
    def make(
        fields: Mapping[str, Any],
        naming: NameMap,
        *,
        notes: Notes | None = None,
        forms: Iterable[ToolForm] = (),
        toolsets: Iterable[Toolset] = (),
        finders: Iterable[str] = (),
    ) -> PreparedTools:
        """Return the prepared tools from the fields in a request. It omits fields that are None or an empty list."""
        sent = {key: value for key, value in fields.items() if value is not None and value != []}
        return PreparedTools(
            msgspec.json.encode(mend_data(sent)),
            naming,
            () if notes is None else tuple(notes.warnings),
            () if notes is None else tuple(dict.fromkeys(notes.betas)),
            tuple((one.tool.name, original) for one in forms if (original := one.rewritten) is not None),
            tuple(toolsets),
            () if notes is None else tuple(notes.left_out),
            tuple(finders),
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The fields in the request about tools, such as `tools` and `tool_choice`, as a new mutable copy.

        It omits fields that the request does not contain.
        """
        fields: dict[str, Any] = msgspec.json.decode(self.encoded)
        return fields

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in the request, as new mutable copies. Empty if the request does not contain them."""
        return cast("list[dict[str, Any]]", self.fields.get("tools", []))

    @property
    def tool_choice(self) -> Any:
        """The tool choice in the request, as a new mutable copy, or None if the request does not contain it."""
        return self.fields.get("tool_choice")

    @property
    def names(self) -> Mapping[str, str]:
        """The name of each tool by its name on the wire."""
        return self.naming.names

    @property
    def strict(self) -> Mapping[str, StrictForm]:
        """The strict forms of tools by name, with the weakened constraints."""
        strict = {name: form.strict for name, form in self.forms.items()}
        return MappingProxyType({name: form for name, form in strict.items() if form is not None})

    @property
    def forms(self) -> Mapping[str, RequestForm]:
        """The strict tools, and the tools whose document differs in the request, by their own names."""
        forms = {name: self._form(name) for name, _ in self.originals}
        return MappingProxyType({name: form for name, form in forms.items() if form is not None})

    def call(self, wire: str, params: Any, *, toolset: str | None = None) -> tuple[str, Any]:
        """Return the tool name of a call, and the parameters in the form of the tool's own schema.

        Args:
            wire: The name in the call. fxai leaves an unknown name unchanged.
            params: The parsed arguments in the call. fxai converts the arguments back if the request has another
                document than the tool. Arguments in no valid form stay unchanged, and validation reports their error.
            toolset: The set in the call, if the provider has sets.
        """
        for held in self.toolsets:
            if held.wire == toolset:
                return held.tool, {held.field: wire, **(params if is_object(params) else {})}
        name = self.naming.meant(wire)
        form = self._form(name)
        given: Any = {} if params is None else params  # models write `null` for no arguments
        return name, (given if form is None else form.back(given))

    def wire_call(self, name: str, params: Any) -> WireCall:
        """Return the call of the tool `name` in the form of the provider, for the history, the inverse of `call`.

        Parameters without a strict form stay unchanged, because providers do not check earlier calls.
        """
        for held in self.toolsets:
            if held.tool == name and is_object(params) and held.field in params:
                rest = {key: value for key, value in params.items() if key != held.field}
                return WireCall(_NAMES.of(str(params[held.field])) or "_", rest, held.wire)
        form = self._form(name)
        given = params if form is None else form.forth(params).value_or(params)
        return WireCall(self.naming.sent(name), given)

    @cached_property
    def plain_fields(self) -> Mapping[str, Any]:
        """The fields in the request, decoded once for all requests. You can read and send them, but not change them."""
        return MappingProxyType(self.fields)

    @cached_property
    def _originals(self) -> dict[str, Original]:
        return dict(self.originals)

    @cached_property
    def _forms(self) -> dict[str, RequestForm]:
        return {}

    def _form(self, name: str) -> RequestForm | None:
        """Return the form of the document of a tool, or None if the request contains the tool's own document."""
        original = self._originals.get(name)
        if original is not None and name not in self._forms:
            self._forms[name] = original.form().unwrap()
        return self._forms.get(name)


_NAMES: Final = NameRule(64)  # every API accepts these names for an action

_O = TypeVar("_O", bound=msgspec.Struct)

_P = TypeVar("_P")
_S = TypeVar("_S")

HostedTool: TypeAlias = ExternalTool[Any, object, Never]
"""A tool that a provider runs. It needs no handler."""


@final
class Notes(msgspec.Struct, eq=False):
    """The warnings for a request during its preparation, and the beta features that it must name."""

    warnings: list[WarningPart] = []
    betas: list[str] = []
    left_out: list[LeftOut] = []

    def warn(self, kind: WarningKind, subject: str | None, message: str) -> None:
        """Add a warning."""
        self.warnings.append(WarningPart(message=message, kind=kind, subject=subject))

    def warn_once(self, message: str, kind: WarningKind = "other") -> None:
        """Add a warning unless the same warning exists."""
        if all(warning.message != message for warning in self.warnings):
            self.warn(kind, None, message)

    def forget(self, kind: WarningKind, subjects: Container[str]) -> None:
        """Remove the warnings of one kind about these subjects."""
        self.warnings = [one for one in self.warnings if one.kind != kind or (one.subject or "") not in subjects]

    def leave_out(self, tool: AnyTool, rule: str, pointer: str, reason: str) -> None:
        """Add the warning that the request omits a tool."""
        self.left_out.append(LeftOut(tool.name, rule, pointer, reason))
        where = f"{pointer or '/'}: {rule}: {reason}"
        self.warn("unsupported-tool", tool.name, f"the tool {tool.name!r} is not sent: {where}")

    def not_strict(self, tool: AnyTool, why: str) -> None:
        """Add the warning that a tool is not sent as strict."""
        self.warn("not-strict", tool.name, f"the tool {tool.name!r} is not sent as strict: {why}")

    def note_lost(self, tool: AnyTool, what: str, where: str) -> None:
        """Add the warning that an API has no field for an option of a tool."""
        self.warn("unsupported-option", tool.name, f"the tool {tool.name!r}: {where} has no field for its {what}")

    def carry(
        self, tool: AnyTool, extras: Mapping[str, Any], carried: Container[str], missing: Mapping[str, bool], where: str
    ) -> dict[str, Any]:
        """Return the fields of a tool that an API (`where`) supports (`carried`), and add warnings about the others.

        It also adds a warning about each option in `missing` that is true.
        """
        lost = [name for name in extras if name not in carried] + [what for what, has in missing.items() if has]
        for what in lost:
            self.note_lost(tool, what, where)
        return {name: value for name, value in extras.items() if name in carried}

    def refuse(self, tool: AnyTool, why: str, where: str) -> None:
        """Add the warning that the request omits a provider's own tool, because the API does not support it."""
        kind = "" if tool.provider is None else f" ({tool.provider.id})"
        message = f"the tool {tool.name!r}{kind} is not sent: it {why}, and {where} does not support it"
        self.warn("unsupported-tool", tool.name, message)


@final
class Original(msgspec.Struct, frozen=True):
    """The document of a tool, and the rules by which fxai rewrites it."""

    document: JsonSchema
    rules: RequestRules
    strict: StrictRules | None = None
    """The rules of strict mode, or None if the tool is not strict."""
    explicit_null: bool = False
    """True if the strict form distinguishes between null and an absent property."""

    def form(self) -> Result[RequestForm, tuple[UnsupportedFeature, ...]]:
        """Return the form of the document in the request, or each unsupported feature."""
        return request_form(self.document, self.rules, strict=self.strict, explicit_null=self.explicit_null)


@final
class ToolForm(msgspec.Struct, frozen=True):
    """The form of a tool in a request."""

    tool: AnyTool
    strict: bool | None
    """The value of the strict flag, or None to omit the flag."""
    original: Original | None = None
    """The document of the tool with the rules, or None for a tool of the provider."""
    form: RequestForm | None = None
    """The form of its document in the request, or None for a tool of the provider."""

    @property
    def document(self) -> dict[str, Any]:
        """The schema for the parameters in the request, as a new mutable copy."""
        return self.tool.json_schema() if self.form is None else cast("dict[str, Any]", self.form.document.to_dict())

    @property
    def rewritten(self) -> Original | None:
        """The original of a tool that is strict, or whose document in the request differs from its own document."""
        form = self.form
        return None if form is None or (form.strict is None and form.document is form.original) else self.original

    def loosen(self, notes: Notes) -> ToolForm | None:
        """Return the same tool without strict mode, or None if the API refuses the tool."""
        flag = None if self.strict is None else False
        if self.original is None:
            return ToolForm(self.tool, flag)
        return _loose(self.tool, flag, msgspec.structs.replace(self.original, strict=None, explicit_null=False), notes)


def form_of(
    tool: AnyTool,
    rules: RequestRules,
    strict_rules: StrictRules,
    *,
    config: bool | None,
    default: bool | None,
    notes: Notes,
) -> ToolForm | None:
    """Return the form of a tool in a request, or None if the request omits the tool.

    The annotation `Strict` of the tool requests or forbids strict mode. `config` is the strict mode of tools without
    the annotation. `default` is the default of the provider, or None if the model has no strict mode. The notes receive
    the tools that cannot be strict, or that the request omits.

    Raises:
        PreparationError: If the annotation of the tool requires strict mode, but its schema has no strict form.
    """
    asked = tool.get(Strict)
    strict = resolve_strict(asked, config, default)
    if strict is None and (asked or config):
        notes.not_strict(tool, "the model has no strict mode")
    try:
        document = tool.parameters.document if isinstance(tool.parameters, Schema) else tool.parameters
    except SchemaError as error:
        notes.leave_out(tool, "JSON Schema", "/parameters", str(error))
        return None
    if not strict:
        return _loose(tool, strict, Original(document, rules), notes)
    original = Original(document, rules, strict_rules, tool.get(ExplicitNull))
    found = original.form()
    if isinstance(found, Success):
        return ToolForm(tool, True, original, found.unwrap())
    unsupported = found.failure()
    if asked:
        raise _impossible(tool, strict_rules, unsupported)
    notes.not_strict(tool, f"{strict_rules.name} has no form for {'; '.join(map(str, unsupported))}")
    return _loose(tool, False, Original(document, rules), notes)


def _loose(tool: AnyTool, strict: bool | None, original: Original, notes: Notes) -> ToolForm | None:
    """Return the tool without strict mode, or None if the API refuses it."""
    found = original.form()
    if isinstance(found, Success):
        return ToolForm(tool, strict, original, found.unwrap())
    first = found.failure()[0]
    notes.leave_out(tool, first.keyword, f"/parameters{first.pointer}", f"{original.rules.name}: {first.reason}")
    return None


def _impossible(tool: AnyTool, rules: StrictRules, unsupported: tuple[UnsupportedFeature, ...]) -> PreparationError:
    first = unsupported[0]
    problem = f"tool {tool.name!r} is annotated as strict, but {rules.name} has no strict form for it: "
    remedy = ". Change the schema, or annotate the tool with (Strict, None)."
    description = problem + "; ".join(map(str, unsupported)) + remedy
    return PreparationError(
        UnsupportedSchemaError(description=description, pointer=first.pointer, keyword=first.keyword)
    )


def within_number(
    forms: Sequence[ToolForm], rules: RequestRules, choice: ToolChoices | None, notes: Notes
) -> list[ToolForm]:
    """Return the tools that a request can contain, in their order. Tools of the choice have priority."""
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
    """Return the description of a tool, cut to the length that the API accepts. Add a warning about the cut."""
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
    """Return the choice without the omitted tools of the notes. Add a warning if no tool in the choice remains."""
    gone = {one.tool for one in notes.left_out}
    if not isinstance(choice, ToolChoice) or gone.isdisjoint(choice.names):
        return choice
    left = narrow(choice, [name for name in choice.names if name not in gone])
    if not isinstance(left, ToolChoice):
        problem = f"tool_choice: its tools ({', '.join(choice.names)}) are not sent, so fxai sends {left!r}"
        notes.warn("unsupported-option", "tool_choice", problem)
    return left


def choose_tools(
    tools: Iterable[AnyTool], choice: ToolChoices | None, field: str = "tool_choice"
) -> tuple[AnyTool, ...]:
    """Return the tools in a request: all tools, or only the tools that `ToolChoice.one_of` names.

    Raises:
        PreparationError: If the choice is invalid, or names an unknown tool. `field` is the location of the choice.
    """
    given = tuple(tools)
    if not isinstance(choice, ToolChoice):
        if choice not in (None, "auto", "none", "required"):
            problem = f"unknown choice {choice!r}. Pass 'auto', 'none', 'required', or ToolChoice.tool({choice!r})."
            raise PreparationError.of(field, problem)
        return given
    names = [tool.name for tool in given]
    unknown = [name for name in choice.names if name not in names]
    if unknown:
        there = ", ".join(names) or "none"
        raise PreparationError.of(field, f"unknown tool {', '.join(map(repr, unknown))}. Use one of: {there}")
    return given if choice.mode == "tool" else tuple(tool for tool in given if choice.allows(tool.name))


def refuse_approval(tool: AnyTool) -> None:
    """Raise for a tool that the provider runs and that needs an approval, because fxai cannot block its calls.

    Raises:
        PreparationError: If it is such a tool.
    """
    if tool.provider is None or tool.provider.requires_handler or tool.needs_approval is False:
        return
    problem = f"the provider runs the tool {tool.name!r} without an approval. Remove needs_approval"
    raise PreparationError.of("needs_approval", f"{problem}, or use the approval option of the provider's own tool")


def choice_mode(
    choice: ToolChoices | None, sent: Sequence[AnyTool], notes: Notes
) -> Literal["auto", "none", "required", "tool"] | None:
    """Return the mode of a choice, or None without a mode or without tools. Warn if a required call is impossible."""
    mode = choice.mode if isinstance(choice, ToolChoice) else choice
    if not sent and mode == "required":
        problem = "a call is required, but this turn has no tools. fxai requires no call."
        notes.warn("unsupported-option", "tool_choice", problem)
    return mode if sent else None


@cache
def option_names(form: type[msgspec.Struct]) -> dict[str, str]:
    """Return the options for a provider with their attributes. A cache stores the result, because it takes long."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(form)}


def options_of(tool: AnyTool, provider: str, form: type[_O]) -> _O:
    """Return the validated `provider_options` of a tool for a provider.

    Raises:
        PreparationError: If they are invalid. It contains the location, the expected value, and the valid options.
    """
    where = f"provider_options[{provider!r}] of the tool {tool.name!r}"
    return checked_options(tool.provider_options.get(provider, {}), form, where)


def checked_options(options: Any, form: type[_O], where: str, remedy: str = "") -> _O:
    """Return options as an instance of the Struct `form`. An error for an unknown option contains `remedy`.

    Raises:
        PreparationError: If they are invalid. It contains `where`, the expected value, and the valid options.
    """
    fields = option_names(form)
    unknown = [key for key in options if key not in fields] if is_object(options) else []
    if unknown:
        there = ", ".join(sorted(fields))
        message = f"unknown option {', '.join(map(repr, unknown))}. Use one of: {there}{remedy}"
        raise PreparationError.of(where, message)
    try:
        return msgspec.convert(options, form)
    except msgspec.ValidationError as error:
        raise PreparationError.of(where, str(error)) from None


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings for a provider's own tool. A request omits values that are None, which then have their default."""


@final
class UserLocation(Setting, frozen=True, tag_field="type", tag="approximate"):
    """The approximate location of the user."""

    city: str | None = None
    """The city name."""
    country: str | None = None
    """The two-letter code of ISO 3166-1."""
    region: str | None = None
    """The region name."""
    timezone: str | None = None
    """The IANA name, such as `"Europe/Oslo"`."""


def hosted_tool(
    id: str, name: str, wire: str, args: type[msgspec.Struct], values: Mapping[str, Any], options: Mapping[str, Any]
) -> HostedTool:
    """Return a tool that a provider runs, such as `"openai.web_search"`. The provider's name of it is `wire`.

    `values` are its settings, the fields of `args`. `options` are the common options for tools.

    Raises:
        SchemaError: If a value has a wrong type.
    """
    return Tool.provider_defined(id=id, name=name, provider_name=wire, args=args, success=object)(**values, **options)


def local_tool(
    id: str,
    name: str,
    wire: str,
    parameters: type[_P] | Schema[_P],
    success: type[_S] | Schema[_S],
    args: type[msgspec.Struct] = Empty,
) -> Callable[..., Tool[_P, _S, str]]:
    """Return the constructor of a tool that a provider defines and that runs here, such as `"openai.shell"`.

    The provider's name of it is `wire`. The constructor accepts the fields of `args`, its settings, and the common
    options for tools. The handler fails with a string.
    """
    return Tool.provider_defined(
        id=id,
        name=name,
        provider_name=wire,
        requires_handler=True,
        args=args,
        parameters=parameters,
        success=success,
        failure=str,
    )


def without_nulls(value: Any) -> Any:
    """Return JSON data without members that are null. Providers treat a missing member like null."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_array(value) else value


def json_of(value: Any, *, order: Literal["deterministic"] | None = None) -> bytes:
    """Return data as JSON text. With `order="deterministic"`, equal data has equal text, for any order of members.

    Raises:
        PreparationError: If JSON cannot contain the data.
    """
    if value.__class__ is dict:
        value = {key: one.for_json if one.__class__ is JsonItems else one for key, one in value.items()}
    try:
        return msgspec.json.encode(value, order=order)
    except (TypeError, ValueError, RecursionError) as error:
        raise PreparationError(NetworkError(kind="EncodeError", description=str(error))) from None
