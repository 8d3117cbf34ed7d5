"""Encoding of tools: what every provider decides of a toolkit before it writes a request, and the result of that.

Decided are which tools a choice leaves, whether each is sent as strict, and what its options for one provider are. The
result, the prepared tools, holds the tools in the form of one provider's request, and maps the provider's calls back to
the tools. Each provider's `prepare_tools` makes one, from a toolkit and a model's name alone.

>>> from fxai.schema.request_form import RESPONSES
>>> from fxai.schema.strict import OPENAI
>>> from fxai.tools.tool import ExternalTool, Tool
>>> notes = Notes()
>>> settled = settle(Tool.make("ping"), RESPONSES, OPENAI, config=None, default=True, notes=notes)
>>> settled.strict, settled.document["additionalProperties"], notes.warnings
(True, False, [])
>>> names = NameMap({"Calculator.add": "Calculator__add"})
>>> prepared = PreparedTools.make({"tools": [{"name": "Calculator__add"}]}, names)
>>> prepared.tools, prepared.call("Calculator__add", {"a": 1})
([{'name': 'Calculator__add'}], ('Calculator.add', {'a': 1}))
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Never, TypeAlias, cast, final

import msgspec
from returns.result import Result, Success
from typing_extensions import TypeVar

from fxai.messages.message import FilePart, TextPart, ToolResultPart
from fxai.messages.part import WarningKind, WarningPart
from fxai.messages.reason import InvalidRequestError, NetworkError, Reason, UnsupportedSchemaError
from fxai.models.model_request import ToolChoice, ToolChoices
from fxai.schema.codec import Schema
from fxai.schema.data import Empty, is_array, is_object
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.request_form import RequestForm, RequestRules, request_form
from fxai.schema.strict import Obstacle, StrictForm, StrictRules, resolve_strict
from fxai.schema.surrogate import mend_data
from fxai.tools.identity import NameMap, NameRule
from fxai.tools.tool import ExternalTool, Tool
from fxai.tools.tool_options import ExplicitNull, Strict


def file_note(part: FilePart) -> str:
    """What a model reads in place of a file that its API does not take: name, media type and size as far as known.

    A file as JSON would be its base64: of no use to a model, and as long as the file.

    >>> print(file_note(FilePart("audio/wav", b"RIFF", "horn.wav")))
    (the file 'horn.wav', audio/wav, 4 bytes, is left out: this model is not shown such files)
    """
    name = f" {part.file_name!r}" if part.file_name else ""
    size = f" {len(part.data)} bytes," if isinstance(part.data, bytes) else ""
    return f"(the file{name}, {part.media_type},{size} is left out: this model is not shown such files)"


def contents_of(part: ToolResultPart, *kinds: Literal["text", "file"]) -> list[TextPart | FilePart] | None:
    """The texts and files that the result is, in the JSON form of a message's content; None if it is anything else.

    Args:
        part: the result.
        kinds: only a list that holds one of these counts.
    """
    result = part.result
    if part.is_failure or not is_array(result) or not any(one.get("type") in kinds for one in result if is_object(one)):
        return None
    try:
        return msgspec.convert(result, list[TextPart | FilePart])
    except msgspec.ValidationError:
        return None


class PreparationError(ValueError):
    """The tools cannot be sent as they are: found before the request. `reason` says it as a value."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason

    def __reduce__(self) -> tuple[type[PreparationError], tuple[Reason]]:
        return (PreparationError, (self.reason,))

    @staticmethod
    def of(parameter: str, description: str) -> PreparationError:
        """The error of a wrong argument of `prepare_tools`."""
        return PreparationError(InvalidRequestError(parameter=parameter, description=description))


@final
class Toolset(msgspec.Struct, frozen=True):
    """One tool of ours that a provider shows the model as several, each for one kind of action.

    Attributes:
        wire: what the provider calls the set.
        tool: the tool's own name.
        field: which field of the tool's parameters says the action; on the wire, it is the name of the call.
    """

    wire: str
    tool: str
    field: str = "action"


@final
class LeftOut(msgspec.Struct, frozen=True):
    """A tool that is not in a request, because the API would refuse the whole request."""

    tool: str
    """The name of the tool."""
    rule: str
    """The rule of the API."""
    pointer: str
    """The location in the tool, as a JSON pointer."""
    reason: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.tool} {self.pointer or '/'}: {self.rule}: {self.reason}"


@final
class WireCall(msgspec.Struct, frozen=True):
    """A call as the provider writes it: for the history of a conversation that goes on."""

    name: str
    params: Any
    toolset: str | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.toolset))  # parameters are plain data


@final
class PreparedTools(msgspec.Struct, frozen=True, dict=True):
    """What a request says of its tools, and the way back from calls. Frozen, hashable, comparable and picklable."""

    # The dictionary of an instance holds what is found out once, such as strict forms; it is no part of the value.

    encoded: bytes
    """The fields of the request, as JSON."""
    naming: NameMap
    """The names, both ways."""
    warnings: tuple[WarningPart, ...] = ()
    """What was asked for and not done: for the response."""
    betas: tuple[str, ...] = ()
    """The beta features that the request must name; Anthropic alone has such."""
    originals: tuple[tuple[str, Original], ...] = ()
    """The strict tools, and the tools whose document differs in the request, by their own names."""
    toolsets: tuple[Toolset, ...] = ()
    """The tools that the model sees as several."""
    left_out: tuple[LeftOut, ...] = ()
    """The tools that are not in the request, because the API would refuse the whole request."""

    @staticmethod
    def make(
        fields: Mapping[str, Any],
        naming: NameMap,
        *,
        notes: Notes | None = None,
        settled: Iterable[Settled] = (),
        toolsets: Iterable[Toolset] = (),
    ) -> PreparedTools:
        """The prepared tools of a request's fields; a field of None, and a list of no tools, is left out."""
        sent = {key: value for key, value in fields.items() if value is not None and value != []}
        return PreparedTools(
            msgspec.json.encode(mend_data(sent)),
            naming,
            () if notes is None else tuple(notes.warnings),
            () if notes is None else tuple(dict.fromkeys(notes.betas)),
            tuple((one.tool.name, one.original) for one in settled if one.original is not None and one.is_rewritten),
            tuple(toolsets),
            () if notes is None else tuple(notes.left_out),
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request that are about tools, as a fresh plain copy: `tools`, `tool_choice` and the like.

        What is not to be sent is not in it.
        """
        fields: dict[str, Any] = msgspec.json.decode(self.encoded)
        return fields

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as they are sent, as fresh plain copies; `[]`: the request has no such field."""
        return cast("list[dict[str, Any]]", self.fields.get("tools", []))

    @property
    def tool_choice(self) -> Any:
        """The tool choice as it is sent, a fresh plain copy; None: the request has no such field."""
        return self.fields.get("tool_choice")

    @property
    def names(self) -> Mapping[str, str]:
        """From the name on the wire to the tool's own."""
        return self.naming.names

    @property
    def strict(self) -> Mapping[str, StrictForm]:
        """The tools that are sent as strict, by their own names: what is sent, and what that weakens."""
        strict = {name: form.strict for name, form in self.forms.items()}
        return MappingProxyType({name: form for name, form in strict.items() if form is not None})

    @property
    def forms(self) -> Mapping[str, RequestForm]:
        """The strict tools, and the tools whose document differs in the request, by their own names."""
        forms = {name: self._form(name) for name, _ in self.originals}
        return MappingProxyType({name: form for name, form in forms.items() if form is not None})

    def call(self, wire: str, params: Any, *, toolset: str | None = None) -> tuple[str, Any]:
        """The tool that a call means, and its parameters as the tool's own schema has them.

        Args:
            wire: the name in the call. An unknown name is kept as it is.
            params: The arguments in the call, parsed. fxai maps the arguments back if the request has another document
                than the tool. Arguments in no such form stay unchanged, and validation names their error.
            toolset: the set that the call names, where a provider has such.
        """
        for held in self.toolsets:
            if held.wire == toolset:
                return held.tool, {held.field: wire, **(params if is_object(params) else {})}
        name = self.naming.meant(wire)
        form = self._form(name)
        given: Any = {} if params is None else params  # models write `null` for no arguments
        return name, (given if form is None else form.back(given))

    def wire_call(self, name: str, params: Any) -> WireCall:
        """The call of the tool `name` as the provider wrote it, for the history; the opposite of `call`.

        Parameters that have no strict form stay as they are: providers do not check what is past.
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
        """The fields of the request, decoded once for all requests: to be read and sent, never changed."""
        return MappingProxyType(self.fields)

    @cached_property
    def _originals(self) -> dict[str, Original]:
        return dict(self.originals)

    @cached_property
    def _forms(self) -> dict[str, RequestForm]:
        """The forms that were asked for."""
        return {}

    def _form(self, name: str) -> RequestForm | None:
        """The form of the document of one tool; None if the request has the tool's own document."""
        original = self._originals.get(name)
        if original is not None and name not in self._forms:
            self._forms[name] = original.form().unwrap()
        return self._forms.get(name)


_NAMES: Final = NameRule(64)  # what every API accepts as the name of an action

_O = TypeVar("_O", bound=msgspec.Struct)

_P = TypeVar("_P")
_S = TypeVar("_S")

AnyTool: TypeAlias = Tool[Any, Any, Any]
"""A tool, whatever it takes and gives."""

HostedTool: TypeAlias = ExternalTool[Any, object, Never]
"""A tool that a provider runs: it needs no handler."""


@final
class Notes:
    """What is collected while a request is prepared: warnings, and beta features that it must name."""

    def __init__(self) -> None:
        self.warnings: list[WarningPart] = []
        self.betas: list[str] = []
        self.left_out: list[LeftOut] = []

    def warn(self, kind: WarningKind, subject: str | None, message: str) -> None:
        """Add a warning."""
        self.warnings.append(WarningPart(message=message, kind=kind, subject=subject))

    def warn_once(self, message: str, kind: WarningKind = "other") -> None:
        """Add a warning, unless it is there already."""
        if all(warning.message != message for warning in self.warnings):
            self.warn(kind, None, message)

    def forget(self, kind: WarningKind, subjects: Container[str]) -> None:
        """Remove the warnings of one kind about these subjects."""
        self.warnings = [one for one in self.warnings if one.kind != kind or (one.subject or "") not in subjects]

    def leave_out(self, tool: AnyTool, rule: str, pointer: str, reason: str) -> None:
        """Add the warning that a tool is not in the request."""
        self.left_out.append(LeftOut(tool.name, rule, pointer, reason))
        where = f"{pointer or '/'}: {rule}: {reason}"
        self.warn("unsupported-tool", tool.name, f"the tool {tool.name!r} is not sent: {where}")

    def not_strict(self, tool: AnyTool, why: str) -> None:
        """Add the warning that a tool is not sent as strict."""
        self.warn("not-strict", tool.name, f"the tool {tool.name!r} is not sent as strict: {why}")

    def note_lost(self, tool: AnyTool, what: str, where: str) -> None:
        """Add the warning that a wire has no place for something."""
        self.warn("unsupported-option", tool.name, f"the tool {tool.name!r}: {where} has no place for its {what}")

    def carry(
        self, tool: AnyTool, extras: Mapping[str, Any], carried: Container[str], missing: Mapping[str, bool], where: str
    ) -> dict[str, Any]:
        """The further fields of a tool that a provider has a place for, those `carried`; the others are noted as lost.

        So is what there is never a place for, where the tool has it: `missing` says so of each. `where` names the API.
        """
        lost = [name for name in extras if name not in carried] + [what for what, has in missing.items() if has]
        for what in lost:
            self.note_lost(tool, what, where)
        return {name: value for name, value in extras.items() if name in carried}

    def refuse(self, tool: AnyTool, why: str, where: str) -> None:
        """Add the warning that a provider's own tool is not sent to a wire that does not know it."""
        kind = "" if tool.provider is None else f" ({tool.provider.id})"
        message = f"the tool {tool.name!r}{kind} is not sent: it {why}, and {where} does not know it"
        self.warn("unsupported-tool", tool.name, message)


@final
class Original(msgspec.Struct, frozen=True):
    """The document of a tool, and the rules by which fxai rewrites it."""

    document: JsonSchema
    rules: RequestRules
    strict: StrictRules | None = None
    """The rules of strict mode. None if the tool is not strict."""
    explicit_null: bool = False
    """True if the strict form distinguishes a null and an absent property."""

    def form(self) -> Result[RequestForm, tuple[Obstacle, ...]]:
        """Return the form of the document in the request, or each obstacle."""
        return request_form(self.document, self.rules, strict=self.strict, explicit_null=self.explicit_null)


@final
class Settled(msgspec.Struct, frozen=True):
    """How one tool is sent."""

    tool: AnyTool
    strict: bool | None
    """The flag; None: it is left out."""
    original: Original | None = None
    """Its own document, and the rules. None for a tool of the provider."""
    form: RequestForm | None = None
    """The form of its document in the request. None for a tool of the provider."""

    @property
    def document(self) -> dict[str, Any]:
        """The parameters' schema as it is sent, a fresh plain copy."""
        return self.tool.json_schema() if self.form is None else cast("dict[str, Any]", self.form.document.to_dict())

    @property
    def is_rewritten(self) -> bool:
        """True if the tool is strict, or the request has another document than the tool."""
        form = self.form
        return form is not None and (form.strict is not None or form.document is not form.original)

    def loosen(self, notes: Notes) -> Settled | None:
        """Return the same tool without strict mode. None if the API refuses the tool."""
        flag = None if self.strict is None else False
        if self.original is None:
            return Settled(self.tool, flag)
        return _loose(self.tool, flag, msgspec.structs.replace(self.original, strict=None, explicit_null=False), notes)


def settle(
    tool: AnyTool,
    rules: RequestRules,
    strict_rules: StrictRules,
    *,
    config: bool | None,
    default: bool | None,
    notes: Notes,
) -> Settled | None:
    """Return whether a tool is sent as strict, and the form of its document. None if the tool is left out.

    Args:
        tool: The tool. Its annotation `Strict` states what it wants.
        rules: The rules of the API for every tool.
        strict_rules: The rules of the provider for strict tools.
        config: What the configuration wants of each tool without the annotation.
        default: What the provider does by itself. None if the model has no strict mode.
        notes: Where fxai notes tools that cannot be strict, or cannot be sent.

    Raises:
        PreparationError: the tool's annotation asks for strict, and its schema cannot be.
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
        return Settled(tool, True, original, found.unwrap())
    obstacles = found.failure()
    if asked:
        raise _impossible(tool, strict_rules, obstacles)
    notes.not_strict(tool, f"{strict_rules.name} has no form for {'; '.join(map(str, obstacles))}")
    return _loose(tool, False, Original(document, rules), notes)


def _loose(tool: AnyTool, strict: bool | None, original: Original, notes: Notes) -> Settled | None:
    """The tool without strict mode; None if the API refuses it."""
    found = original.form()
    if isinstance(found, Success):
        return Settled(tool, strict, original, found.unwrap())
    first = found.failure()[0]
    notes.leave_out(tool, first.keyword, f"/parameters{first.pointer}", f"{original.rules.name}: {first.reason}")
    return None


def _impossible(tool: AnyTool, rules: StrictRules, obstacles: tuple[Obstacle, ...]) -> PreparationError:
    first = obstacles[0]
    said = f"the tool {tool.name!r} is annotated as strict, and {rules.name} has no strict form for it: "
    remedy = "; or annotate it with Strict, None to send it as it is"
    description = said + "; ".join(map(str, obstacles)) + remedy
    return PreparationError(
        UnsupportedSchemaError(description=description, pointer=first.pointer, keyword=first.keyword)
    )


def choose_tools(
    tools: Iterable[AnyTool], choice: ToolChoices | None, field: str = "tool_choice"
) -> tuple[AnyTool, ...]:
    """The tools that are sent: all, or with `ToolChoice.one_of` those alone that it names.

    Raises:
        PreparationError: a name that no tool has, or no choice at all; `field` says where it stands.
    """
    given = tuple(tools)
    if not isinstance(choice, ToolChoice):
        if choice not in (None, "auto", "none", "required"):
            said = f"there is no choice {choice!r}: it is 'auto', 'none', 'required', or ToolChoice.tool({choice!r})"
            raise PreparationError.of(field, said)
        return given
    names = [tool.name for tool in given]
    unknown = [name for name in choice.names if name not in names]
    if unknown:
        there = ", ".join(names) or "none"
        raise PreparationError.of(field, f"there is no tool {', '.join(map(repr, unknown))}; the tools are: {there}")
    return given if choice.mode == "tool" else tuple(tool for tool in given if choice.allows(tool.name))


def refuse_approval(tool: AnyTool) -> None:
    """Refuses a tool that the provider runs and that asks for an approval: there nobody can be asked.

    Raises:
        PreparationError: it is such a tool.
    """
    if tool.provider is None or tool.provider.requires_handler or tool.needs_approval is False:
        return
    said = f"the tool {tool.name!r} is run by the provider, where nobody is asked before: leave needs_approval out"
    raise PreparationError.of("needs_approval", f"{said}, or use what the provider's own tool has for it")


def choice_mode(
    choice: ToolChoices | None, sent: Sequence[AnyTool], notes: Notes
) -> Literal["auto", "none", "required", "tool"] | None:
    """How a choice wants tools called; None where it says nothing, or where no tool is sent, which is noted."""
    mode = choice.mode if isinstance(choice, ToolChoice) else choice
    if not sent and mode == "required":
        notes.warn("unsupported-option", "tool_choice", "a tool is required and there is none: nothing is chosen")
    return mode if sent else None


@cache
def option_names(form: type[msgspec.Struct]) -> dict[str, str]:
    """The options of one provider as they are written, each with its attribute: found out once, which takes long."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(form)}


def options_of(tool: AnyTool, provider: str, form: type[_O]) -> _O:
    """The tool's `provider_options` for one provider, checked.

    Raises:
        PreparationError: they are none, with the place, what belongs there and which options there are.
    """
    where = f"provider_options[{provider!r}] of the tool {tool.name!r}"
    return checked_options(tool.provider_options.get(provider, {}), form, where)


def checked_options(options: Any, form: type[_O], where: str, remedy: str = "") -> _O:
    """Plain options as the Struct `form`; an error names the place `where`, and adds the remedy for an unknown one.

    Raises:
        PreparationError: they are none, with the place, what belongs there and which options there are.
    """
    fields = option_names(form)
    unknown = [key for key in options if key not in fields] if is_object(options) else []
    if unknown:
        there = ", ".join(sorted(fields))
        message = f"there is no option {', '.join(map(repr, unknown))}; there are: {there}{remedy}"
        raise PreparationError.of(where, message)
    try:
        return msgspec.convert(options, form)
    except msgspec.ValidationError as error:
        raise PreparationError.of(where, str(error)) from None


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a provider's own tool is set up with: what is None is not sent, and the provider's own default holds."""


@final
class UserLocation(Setting, frozen=True, tag_field="type", tag="approximate"):
    """About where the user is.

    Attributes:
        city: Its name.
        country: Two letters, as ISO 3166-1 has them.
        region: Its name.
        timezone: As IANA names it, such as `"Europe/Oslo"`.
    """

    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


def hosted_tool(
    id: str, name: str, wire: str, args: type[msgspec.Struct], values: Mapping[str, Any], options: Mapping[str, Any]
) -> HostedTool:
    """A tool that a provider runs, such as `"openai.web_search"`, which the provider calls `wire`.

    `values` are what it is set up with, the fields of `args`; `options` are those of every tool.

    Raises:
        SchemaError: a value of a wrong type.
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
    """The constructor of a tool that runs here and that a provider defines, such as `"openai.shell"`, and calls `wire`.

    It takes the fields of `args`, which the tool is set up with, beside the options of every tool. The handler fails
    with a text.
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
    """Plain data without the members of objects that are null: a provider takes their absence for the same."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_array(value) else value


def json_of(value: Any, *, order: Literal["deterministic"] | None = None) -> bytes:
    """Plain data as JSON text.

    Args:
        value: The data.
        order: `"deterministic"`: equal data has equal text, whatever the order of its members.

    Raises:
        PreparationError: It holds what JSON cannot carry.
    """
    try:
        return msgspec.json.encode(value, order=order)
    except (TypeError, ValueError, RecursionError) as error:
        raise PreparationError(NetworkError(kind="EncodeError", description=str(error))) from None
