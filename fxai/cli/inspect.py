"""The commands `fxai tools`, `fxai schema`, and `fxai check`. Use them to inspect tools without running them.

>>> import sys
>>> show_schema(sys.stdout, sys.stderr, target="fxai.cli.example:count_lines", as_json=True, names=("count_lines",))
{"target":"fxai.cli.example:count_lines","tools":[{"name":"count_lines","schema":{...}}],"left_out":[]}
True

`show_request` writes each tool of a request as JSON, after its warnings:

>>> import sys
>>> from fxai.cli.inspect import RequestPreview, SentTool, PreviewOptions
>>> seen = SentTool("add", {"name": "add", "strict": False}, warnings=("not strict: /any is open",))
>>> show_request(RequestPreview(PreviewOptions("anthropic"), (seen,)), sys.stdout)
add: not strict at anthropic (claude-sonnet-5)
  ! not strict: /any is open
{
  "name": "add",
  "strict": false
}
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO, cast, final

import msgspec

from fxai.agents.state import RenderError
from fxai.cli.exit import CliError, wrong_use
from fxai.cli.folder import redact
from fxai.cli.run_program import error_of, value_of
from fxai.cli.screen import Spinner, console
from fxai.cli.target import TargetTools, find_tools, load_tools, open_tools, with_layer
from fxai.effects import Cause, Gen, Scope, fx
from fxai.lint.rule import PROVIDERS, RULES, SEVERITIES, Finding, Severity, Subject, at_least, description_of
from fxai.models import PreparationError
from fxai.schema import JsonSchema, Schema, SchemaError
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import indent_json, json_line, one_line
from fxai.schema.request_form import COMPATIBLE_CHAT
from fxai.tools import AnyTool, NameConflictError
from fxai.tools.annotation import Strict
from fxai.tools.handler import HandlerError
from fxai.tools.identity import ToolConflictError

if TYPE_CHECKING:
    from fxai.cli.target import TargetTools
    from fxai.models.prepared_tools import PreparedTools

RECENT: Final = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5"}
"""A recent model of each provider."""
_UNPREPARED: Final = (PreparationError, NameConflictError, SchemaError)
_FLAGS: Final = {True: "strict", False: "not strict", None: "strict not set"}


@final
class PreviewOptions(msgspec.Struct, frozen=True):
    """The options of a preview. Defaults: the provider's first API, a recent model, and strict mode not set."""

    provider: str
    api: str | None = None
    model: str | None = None
    strict: bool | None = None
    server: str | None = None

    @property
    def asked(self) -> str:
        """The name of the provider, or of the server with the provider's API."""
        return self.server or self.provider

    @property
    def of_model(self) -> str:
        """The name of the model."""
        return self.model or RECENT[self.provider]


@final
class SentTool(msgspec.Struct, frozen=True):
    """A tool in a request.

    Attributes:
        name: Its own name.
        sent: Its form in the request, or None if the request omits it.
        weakened: Rules that strict mode cannot enforce, one line per rule.
        warnings: Options that fxai did not apply, one line per option.
        error: The reason why no request can contain it, or None.
        rewritten: Changes that the request form of the API makes, one line per change.
        provided: True if the provider defines the tool. The tool then has no schema, and fxai hides its secrets.
    """

    name: str
    sent: dict[str, Any] | None
    weakened: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    provided: bool = False
    rewritten: tuple[str, ...] = ()

    @property
    def sent_as(self) -> str | None:
        """The name in the request, or None if the request contains no name for it."""
        name = None if self.sent is None else _inner(self.sent).get("name")
        return name if isinstance(name, str) else None

    @property
    def flag(self) -> str:
        """The state of the tool in the request, as text: whether it is sent, and whether it is strict."""
        if self.sent is None:
            return "not sent"
        return "defined by the provider" if self.provided and self.strict is None else _FLAGS[self.strict]

    @property
    def strict(self) -> bool | None:
        """True or False if the request sets strict mode, or None if the provider decides."""
        stated = None if self.sent is None else _inner(self.sent).get("strict")
        return stated if isinstance(stated, bool) else None

    def data(self) -> dict[str, Any]:
        """Return the tool as JSON values."""
        fields = msgspec.structs.asdict(self)
        del fields["provided"]
        return {**fields, "sent_as": self.sent_as, "strict": self.strict}


@final
class RequestPreview(msgspec.Struct, frozen=True):
    """The tools of one request, with general warnings and the beta features that the request must name.

    `error` is the reason why no request can contain all of them, or None.
    """

    wish: PreviewOptions
    tools: tuple[SentTool, ...]
    warnings: tuple[str, ...] = ()
    betas: tuple[str, ...] = ()
    error: str | None = None

    @property
    def ok(self) -> bool:
        """True if fxai can create the request."""
        return self.error is None

    @property
    def counted(self) -> str:
        """The numbers of strict and other tools, as text."""
        flags = Counter(tool.flag for tool in self.tools)
        stated = ", ".join(f"{number} {flag}" for flag, number in flags.items())
        return f"{len(self.tools)} tools for {self.wish.asked} ({self.wish.of_model}): {stated}"

    def data(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return {
            "provider": self.wish.asked,
            "api": self.wish.api,
            "model": self.wish.of_model,
            "ok": self.ok,
            "tools": [tool.data() for tool in self.tools],
            "warnings": list(self.warnings),
            "betas": list(self.betas),
            "error": self.error,
        }


def preview_request(tools: tuple[AnyTool, ...], wish: PreviewOptions) -> RequestPreview:
    """Return the tools in a request. If no request can contain all of them, show each tool in a separate request."""
    prepare = _preparer(wish)
    try:
        whole = prepare(tools)
    except _UNPREPARED as error:
        alone: list[SentTool] = []
        for tool in tools:
            try:
                alone.append(_preview(tool, prepare((tool,)), prepare))
            except _UNPREPARED as reason:
                alone.append(SentTool(tool.name, None, error=str(reason)))
        return RequestPreview(wish, tuple(alone), error=str(error))
    names = {tool.name for tool in tools}
    general = tuple(warning.message for warning in whole.warnings if warning.subject not in names)
    return RequestPreview(wish, tuple(_preview(tool, whole, prepare) for tool in tools), general, whole.betas)


def _preview(tool: AnyTool, prepared: PreparedTools, prepare: Callable[[Any], PreparedTools]) -> SentTool:
    wires = {_inner(wire).get("name"): wire for wire in _single(prepared.tools)}
    wire = wires.get(prepared.naming.sent(tool.name))
    if wire is None and tool.provider is not None:  # a tool of a provider can be sent without a name
        wire = next(iter(prepare((tool,)).tools), None)
    warnings = tuple(warning.message for warning in prepared.warnings if warning.subject == tool.name)
    if tool.provider is not None:
        return SentTool(tool.name, redact(wire), warnings=warnings, provided=True)
    form = prepared.forms.get(tool.name)
    if form is None:
        return SentTool(tool.name, wire, warnings=warnings)
    weakened, rewritten = tuple(map(str, form.weakened)), tuple(map(str, form.rewrites))
    return SentTool(tool.name, wire, weakened=weakened, warnings=warnings, rewritten=rewritten)


def _single(wires: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each tool, also the tools in a group."""
    for wire in wires:
        inside = wire.get("tools")
        yield from _single(inside) if is_array(inside) else (wire,)


def _inner(wire: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the name and the strict flag. Some encodings nest it one level down."""
    inner = wire.get("function", wire.get("custom"))
    return inner if is_object(inner) else wire


def _preparer(wish: PreviewOptions) -> Callable[[Any], PreparedTools]:
    """Return the function that prepares tools for the provider."""
    if wish.provider not in PROVIDERS:
        raise wrong_use(f"unknown provider {wish.provider!r}", f"Use one of: {', '.join(PROVIDERS)}.")
    prepare: Callable[..., PreparedTools] = import_module(f"fxai.providers.{wish.provider}").prepare_tools
    options: dict[str, Any] = {"model": wish.of_model, "strict_json_schema": wish.strict}
    if wish.api is not None and "api" not in inspect.signature(prepare).parameters:
        raise wrong_use(f"{wish.provider} has only one API", "Remove --api.")
    if wish.api is not None:
        options["api"] = wish.api
    if wish.server is not None:
        from fxai.providers.openai.server import server_of

        server = server_of(wish.server)
        options["supports_strict"] = server.supports_strict
        if not server.official:
            options |= {"request_rules": COMPATIBLE_CHAT, "strict_keywords": ()}
    return lambda tools: prepare(tools, **options)


_STRICT: Final = {True: "yes", False: "no", None: "as configured (default: if possible)"}
_LONGEST_VALUES: Final = 40
_LONGEST_FACT: Final = 80


def overview_data(offer: TargetTools) -> dict[str, Any]:
    """Return the tools of a target as JSON values."""
    return {
        "target": offer.target,
        **({} if offer.prompt is None else {"prompt": offer.prompt}),
        "tools": [tool_data(tool, offer.broken.get(tool.name)) for tool in offer.tools],
        "left_out": [finding.to_data() for finding in offer.findings],
    }


def tool_data(tool: AnyTool, broken: Any = None) -> dict[str, Any]:
    """Return a tool as JSON values. The JSON pointers of `fxai check` refer to this form.

    Args:
        tool: The tool.
        broken: The document of its parameters if it is not a valid JSON Schema, otherwise None.
    """
    approval, own = tool.needs_approval, tool.provider
    return {
        "name": tool.name,
        "kind": tool.kind,
        "description": description_of(tool),
        "parameters": broken if broken is not None else _schema(tool),
        "success": _schema(tool.success),
        "failure": _schema(tool.failure),
        "failure_mode": tool.failure_mode,
        "strict": tool.get(Strict),
        "needs_approval": approval if isinstance(approval, bool) else "by a function",
        "annotations": {key.name: plain(tool.get(key)) for key in tool.annotations},
        "input_examples": [plain(example.parameters) for example in tool.input_examples],
        "provider_options": redact({name: plain(value) for name, value in tool.provider_options.items()}),
        "external": not tool.requires_handler,
        "provider": None if own is None else {"id": own.id, "args": redact(plain(own.args))},
    }


def plain(value: Any) -> Any:
    """Return a value as JSON values. A value without such a form becomes its `repr`."""
    if isinstance(value, JsonSchema):
        return value.to_dict()
    if isinstance(value, Mapping):
        members: Mapping[Any, Any] = cast(Any, value)
        return {str(name): plain(inner) for name, inner in members.items()}
    if is_listed(value):
        return [plain(inner) for inner in value]
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError):
        return repr(value)


def _schema(of: AnyTool | Schema[Any]) -> Any:
    """Return the JSON Schema of parameters or of a result, or None for a type without values."""
    try:
        document = of.json_schema()
    except SchemaError as error:
        return {"$comment": str(error)}
    return None if document == {"not": {}} else document


def show_overview(offer: TargetTools, out: TextIO, *, color: bool | None = None) -> None:
    """Write the tools as a list, with one line per parameter."""
    screen = console(out, color)
    for number, tool in enumerate(offer.tools):
        data = tool_data(tool, offer.broken.get(tool.name))
        screen.print(("\n" if number else "") + one_line(tool.name), style="bold", end="")
        screen.print(f"  {', '.join(_facts(data))}", style="dim")
        if data["description"]:
            screen.print(f"  {one_line(str(data['description']), 240)}")
        rows = _rows(data["parameters"])
        wide = [max(map(len, column)) for column in zip(*((name, kind) for name, kind, _ in rows), strict=True)]
        for name, kind, stated in rows:
            screen.print(f"    {name:<{wide[0]}}  {kind:<{wide[1]}}  {stated}".rstrip())
    if not offer.tools:
        screen.print("no tools")
    if offer.prompt is not None:
        stated = f"these are the tools of the first step. The prompt {offer.prompt!r} can offer other tools later."
        screen.print(f"\n{one_line(stated)}", style="dim")


def _facts(data: dict[str, Any]) -> list[str]:
    given, own, approval = data["annotations"], data["provider"], data["needs_approval"]
    facts = [data["kind"] if own is None else own["id"]]
    for name, value in given.items():  # `--json` shows long values
        stated = "" if value is True else f"={json.dumps(value, ensure_ascii=False)}"
        facts.append(one_line(name + stated) if len(stated) <= _LONGEST_FACT else f"{name}=…")
    facts += [f"strict: {_STRICT[data['strict']]}"] if "strict" not in given and own is None else []
    facts += [f"on failure: {data['failure_mode']}"] if data["failure"] is not None else []
    facts += ["needs approval"] if approval is True else ["may need approval"] if isinstance(approval, str) else []
    return facts + (["no handler"] if data["external"] else [])


def _rows(schema: Any) -> list[tuple[str, str, str]]:
    """Return one row per parameter: its name, with `?` if it is optional, its type, and its description."""
    if not is_object(schema) or not is_object(schema.get("properties")):
        return []
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    rows: list[tuple[str, str, str]] = []
    for name, inner in schema["properties"].items():
        about = inner if is_object(inner) else {}
        stated = one_line(str(about.get("description") or ""), 160)
        if about.get("default") is not None:
            stated = f"{stated} (default {json.dumps(about['default'])})".strip()
        rows.append((one_line(name) + ("" if name in required else "?"), one_line(type_of(inner)), stated))
    return rows


def type_of(schema: Any) -> str:
    """Return a short form of the type of a schema: `string`, `array of integer`, `"a" or "b"`, `City`.

    >>> type_of({"type": "array", "items": {"enum": ["a", "b"]}})
    'array of "a" or "b"'
    """
    if not is_object(schema):
        return "anything" if schema is True else "nothing"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2].replace("#", "the whole type")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_array(values):
        shown = " or ".join(json.dumps(value, ensure_ascii=False) for value in values)
        return shown if len(shown) <= _LONGEST_VALUES else f"one of {len(values)} values"
    branches = schema.get("anyOf", schema.get("oneOf"))
    if is_array(branches):
        return " or ".join(dict.fromkeys(type_of(branch) for branch in branches))
    kinds = schema.get("type", "anything")
    if kinds == "array" and "items" in schema:
        return f"array of {type_of(schema['items'])}"
    if kinds == "object" and is_object(inner := schema.get("additionalProperties")) and inner:
        return f"object of {type_of(inner)}"
    return " or ".join(str(kind) for kind in kinds) if is_array(kinds) else str(kinds)


def show_tools(out: TextIO, err: TextIO, *, target: str, as_json: bool, color: bool | None = None) -> bool:
    """Show the tools of a target. Return False if one of its entries is not a tool."""
    offer = load_tools(find_tools(target))
    if as_json:
        out.write(json_line(overview_data(offer)))
    else:
        show_overview(offer, out, color=color)
    return _warn_left_out(offer, err)


def _wish_of(provider: str | None, api: str | None, model: str | None, strict: bool | None) -> PreviewOptions | None:
    """Return the options of the preview, or None without a provider. The model's name can include its provider."""
    from fxai.providers.openai.server import SERVERS

    named_by, _, of_model = (model or "").partition(":")
    if of_model and named_by in RECENT and provider in (None, named_by):
        return PreviewOptions(named_by, api, of_model, strict)
    if of_model and named_by in SERVERS and provider is None:
        return PreviewOptions("openai", api or "chat", of_model, strict, named_by)
    if of_model and provider is None:
        problem = f"unknown provider {named_by!r}"
        there = ", ".join((*RECENT, *SERVERS))
        raise wrong_use(problem, f"Write provider:model with one of: {there}.")
    return None if provider is None else PreviewOptions(provider, api, model, strict)


def show_schema(
    out: TextIO,
    err: TextIO,
    *,
    target: str,
    names: tuple[str, ...] = (),
    provider: str | None = None,
    api: str | None = None,
    model: str | None = None,
    strict: bool | None = None,
    as_json: bool = False,
    color: bool | None = None,
) -> bool:
    """Show the schemas of a target's tools, or the tools of a request. Return False if a tool cannot be sent."""
    wish = _wish_of(provider, api, model, strict)
    if wish is None and (api, model, strict) != (None, None, None):
        remedy = "Add --provider, or write --model provider:name."
        raise wrong_use("--api, --model, and --strict require a provider", remedy)
    offer = load_tools(find_tools(target)).pick(names)
    if wish is None:
        _show_own(offer, out, as_json=as_json, color=color)
        return _warn_left_out(offer, err)
    usable = tuple(tool for tool in offer.tools if tool.name not in offer.broken)
    request = preview_request(usable, wish)
    if as_json:
        left_out = [finding.to_data() for finding in _left_out(offer)]
        out.write(json_line({"target": offer.target, **request.data(), "left_out": left_out}))
    else:
        show_request(request, out, color=color)
        if len(request.tools) > 1:
            err.write(f"fxai: {one_line(request.counted)}\n")
    if request.error is not None:
        err.write(f"fxai: {CliError(f'cannot create a request for {target}: {request.error}', '')}\n")
    return _warn_left_out(offer, err) and request.ok


def _show_own(offer: TargetTools, out: TextIO, *, as_json: bool, color: bool | None) -> None:
    """Write the JSON Schemas by tool. Write a single schema without its name, so that you can pipe it."""
    schemas = {tool.name: tool_data(tool, offer.broken.get(tool.name))["parameters"] for tool in offer.tools}
    if as_json:
        tools = [{"name": name, "schema": schema} for name, schema in schemas.items()]
        left_out = [finding.to_data() for finding in _left_out(offer)]
        out.write(json_line({"target": offer.target, "tools": tools, "left_out": left_out}))
    elif len(schemas) == 1:
        out.write(indent_json(next(iter(schemas.values()))) + "\n")
    else:
        screen = console(out, color)
        for number, (name, schema) in enumerate(schemas.items()):
            screen.print(f"{chr(10) if number else ''}{one_line(name)}:", style="bold")
            screen.print(indent_json(schema))


def check_tools(
    out: TextIO,
    err: TextIO,
    *,
    target: str,
    layer: str | None = None,
    providers: tuple[str, ...] = (),
    level: Severity = "warning",
    ignored: tuple[str, ...] = (),
    as_json: bool = False,
    color: bool | None = None,
) -> bool:
    """Show the problems of a target's tools. Return True if no problem was found."""
    for code in ignored:
        if code not in RULES:
            near = get_close_matches(code, RULES, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "To list the rules, run fxai check --rules."
            raise wrong_use(f"unknown rule {code!r}", remedy)
    with Spinner(err, f"checking {target}"):
        number, findings = _find_faults(target, layer, providers)
    shown = [each for each in findings if at_least(each.severity, level) and each.code not in ignored]
    faults = sorted(shown, key=lambda each: SEVERITIES.index(each.severity), reverse=True)
    if as_json:
        data = {"target": target, "ok": not faults, "tools": number}
        out.write(json_line({**data, "faults": [fault.to_data() for fault in faults]}))
    else:
        _show_faults(faults, target, out, err, color=color)
    return not faults


def list_rules(out: TextIO, *, as_json: bool) -> bool:
    """Show each rule with its severity."""
    if as_json:
        out.write(json_line({"rules": [msgspec.to_builtins(rule) for rule in RULES.values()]}))
    else:
        wide = max(map(len, RULES))
        out.writelines(f"{rule.code:<{wide}}  {rule.severity:<7}  {rule.states}\n" for rule in RULES.values())
    return True


_REFUSALS: Final = (RenderError, SchemaError, ToolConflictError, NameConflictError, HandlerError)
"""The exceptions of a definition that fxai rejects."""


def _find_faults(target: str, layer: str | None, providers: tuple[str, ...]) -> tuple[int, tuple[Finding, ...]]:
    """Return the number of tools, and their problems."""
    unknown = [name for name in providers if name not in PROVIDERS]
    if unknown:
        raise wrong_use(f"unknown provider {unknown[0]!r}", f"Use one of: {', '.join(PROVIDERS)}.")
    try:
        offer = with_layer(find_tools(target), layer)
    except CliError as trouble:
        if not isinstance(trouble.cause, _REFUSALS):
            raise
        remedy = trouble.remedy or "Correct the definition."
        return 0, (RULES["definition-refused"].finding(None, "", trouble.message, remedy),)
    chosen = [PROVIDERS[name] for name in providers or PROVIDERS]
    from fxai.lint.linter import in_order, lint

    is_plain = offer.source is None and offer.layer is None
    there, answering = (offer, ()) if is_plain else value_of(fx.scoped(_check_handlers(offer)))
    findings = lint(Subject.of(there.tools, there.broken, chosen), "info")
    every = in_order(iter((*offer.findings, *findings, *answering)), [tool.name for tool in there.tools])
    return len(there.tools), every


@fx.gen
def _check_handlers(offer: TargetTools) -> Gen[tuple[TargetTools, tuple[Finding, ...]], Any, Scope]:
    from fxai.lint.linter import handler_findings

    there = yield from open_tools(offer)
    findings: tuple[Finding, ...] = ()
    if there.layer is not None:

        def explain(cause: Cause[Any]) -> tuple[str, str]:
            error = error_of(cause)
            return error.message, _ELSEWHERE if "--debug" in error.remedy else error.remedy

        findings = yield from handler_findings(there.tools, there.layer, explain)
    return there, findings


def _left_out(offer: TargetTools) -> tuple[Finding, ...]:
    """Return findings for entries of a list that are not tools, and for tools without a valid schema."""
    from fxai.lint.structure import document_findings

    broken = (each for name, document in offer.broken.items() for each in document_findings(name, document))
    return (*offer.findings, *broken)


def _warn_left_out(offer: TargetTools, err: TextIO) -> bool:
    findings = _left_out(offer)
    err.writelines(f"fxai: {finding}\n" for finding in findings)
    return not findings


_ELSEWHERE: Final = "Make the layer work on this machine, or remove --layer."
_FLAG_STYLES: Final = {"strict": "green", "not strict": "yellow", "not sent": "red"}


def show_request(request: RequestPreview, out: TextIO, *, color: bool | None = None) -> None:
    """Write the form of each tool in a request, with its warnings."""
    screen, wish = console(out, color), request.wish
    to = " ".join(part for part in (wish.provider, wish.api) if part)
    for number, tool in enumerate(request.tools):
        screen.print(f"{chr(10) if number else ''}{one_line(tool.name)}", style="bold", end="")
        screen.print(f": {tool.flag}", style=_FLAG_STYLES.get(tool.flag, "dim"), end="")
        renamed = f", sent as {tool.sent_as}" if tool.sent_as not in (None, tool.name) else ""
        screen.print(f" at {to} ({wish.of_model}){renamed}")
        for warning in (*tool.warnings, *filter(None, [tool.error])):
            screen.print(f"  ! {one_line(warning)}", style="yellow" if tool.error is None else "red")
        for kind, lines in (("rewritten", tool.rewritten), ("weakened", tool.weakened)):
            for line in lines:
                screen.print(f"  ~ {kind}: {one_line(line)}", style="dim")
        if tool.sent is not None:
            screen.print(indent_json(tool.sent))
    for warning in request.warnings:
        screen.print(f"! {one_line(warning)}", style="yellow")
    if request.betas:
        screen.print(f"beta features: {', '.join(request.betas)}")


_LISTED: Final[dict[Severity, int]] = {"error": 20, "warning": 5, "info": 5}
_EXAMPLES: Final = 3
_SEVERITY_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def _show_faults(faults: list[Finding], target: str, out: TextIO, err: TextIO, *, color: bool | None) -> None:
    """Write the problems, worst first, and their number to `err`.

    If a rule found many problems of one severity, write them as one line with their number and examples.
    """
    screen = console(out, color)
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for fault in faults:
        groups.setdefault((fault.severity, fault.code), []).append(fault)
    more = ""
    for (severity, code), found in groups.items():
        rule, style = f"{severity} {code}", _SEVERITY_STYLES[severity]
        if len(found) <= _LISTED[severity]:
            for fault in found:
                screen.print(f"{fault.location}: ", end="")
                screen.print(rule, style=style, end="")
                screen.print(f": {one_line(fault.message)}. {one_line(fault.remedy)}")
        else:
            more = ". Pass --json to see every location."
            locations = ", ".join(fault.location for fault in found[:_EXAMPLES])
            screen.print(f"{len(found)} locations: ", end="")
            screen.print(rule, style=style, end="")
            screen.print(f": {RULES[code].states} For example: {locations}")
    if faults:
        counts = Counter(fault.severity for fault in faults)
        words = (f"{counts[s]} {s}{'s' * (counts[s] > 1 and s != 'info')}" for s in reversed(SEVERITIES) if counts[s])
        number = f"{len(faults)} problem{'s' * (len(faults) > 1)}"
        err.write(f"fxai: {number} ({', '.join(words)}) in {target}{more}\n")
