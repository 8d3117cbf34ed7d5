"""The commands `fxai tools`, `fxai schema`, and `fxai check`. Use them to inspect tools without running them.

>>> import sys
>>> show_schema(sys.stdout, sys.stderr, target="fxai.cli.example:count_lines", as_json=True, names=("count_lines",))
{"target":"fxai.cli.example:count_lines","tools":[{"name":"count_lines","schema":{...}}],"left_out":[]}
True
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias, cast

import msgspec

from fxai.agents.state import RenderError
from fxai.cli.exit import CliError, wrong_use
from fxai.cli.run_program import error_of, value_of
from fxai.cli.screen import Spinner, align, console
from fxai.cli.target import TargetTools, find_tools, load_tools, open_tools, with_layer
from fxai.effects import Cause, Gen, Scope, fx
from fxai.lint.linter import handler_findings, in_order, lint
from fxai.lint.rule import PROVIDERS, RULES, SEVERITIES, Finding, Severity, Subject, at_least, description_of
from fxai.lint.structure import document_findings
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
    from fxai.models.prepared_tools import PreparedTools

RECENT: Final = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5"}
"""A recent model of each provider."""
_SECRET: Final = ("authorization", "header", "secret", "token", "password", "api_key", "apikey", "credential")


def _redact(data: Any, *, secret: bool = False) -> Any:
    """Return the JSON values with hidden strings below every name that suggests a secret."""
    if is_object(data):
        return {
            name: _redact(value, secret=secret or any(word in name.lower() for word in _SECRET))
            for name, value in data.items()
        }
    if is_array(data):
        return [_redact(value, secret=secret) for value in data]
    return "(hidden)" if secret and isinstance(data, str) else data


# -- the tools of a request


Prepare: TypeAlias = "Callable[[tuple[AnyTool, ...]], PreparedTools]"
_UNPREPARED: Final = (PreparationError, NameConflictError, SchemaError)


def _request_to(
    provider: str | None, api: str | None, model: str | None, strict: bool | None
) -> tuple[dict[str, Any], Prepare]:
    """Return the provider, API, and model of a request, and the function that prepares its tools.

    The model's name can include its provider, or the name of a server with the API of OpenAI.
    """
    from fxai.providers.openai.server import SERVERS, server_of

    named_by, _, of_model = (model or "").partition(":")
    server: str | None = None
    if of_model and named_by in RECENT and provider in (None, named_by):
        provider, model = named_by, of_model
    elif of_model and named_by in SERVERS and provider is None:
        provider, api, model, server = "openai", api or "chat", of_model, named_by
    elif of_model and provider is None:
        there = ", ".join((*RECENT, *SERVERS))
        raise wrong_use(f"unknown provider {named_by!r}", f"Write provider:model with one of: {there}.")
    if provider is None:
        remedy = "Add --provider, or write --model provider:name."
        raise wrong_use("--api, --model, and --strict require a provider", remedy)
    if provider not in PROVIDERS:
        raise wrong_use(f"unknown provider {provider!r}", f"Use one of: {', '.join(PROVIDERS)}.")
    prepare: Callable[..., PreparedTools] = import_module(f"fxai.providers.{provider}").prepare_tools
    options: dict[str, Any] = {"model": model or RECENT[provider], "strict_json_schema": strict}
    if api is not None:
        if "api" not in inspect.signature(prepare).parameters:
            raise wrong_use(f"{provider} has only one API", "Remove --api.")
        options["api"] = api
    if server is not None:
        options["supports_strict"] = server_of(server).supports_strict
        if not server_of(server).official:
            options |= {"request_rules": COMPATIBLE_CHAT, "strict_keywords": ()}
    about = {"provider": server or provider, "api": api, "model": options["model"]}
    return about, lambda tools: prepare(tools, **options)


def _preview(tools: tuple[AnyTool, ...], prepare: Prepare) -> dict[str, Any]:
    """Return the tools in a request as JSON values.

    If no request can contain all of them, `error` is the reason, and each tool has the form of a separate request.
    """
    try:
        whole = prepare(tools)
    except _UNPREPARED as error:
        alone = [_sent_alone(tool, prepare) for tool in tools]
        return {"ok": False, "tools": alone, "warnings": [], "betas": [], "error": str(error)}
    names = {tool.name for tool in tools}
    general = [warning.message for warning in whole.warnings if warning.subject not in names]
    sent = [_sent_tool(tool, whole, prepare) for tool in tools]
    return {"ok": True, "tools": sent, "warnings": general, "betas": list(whole.betas), "error": None}


def _sent_alone(tool: AnyTool, prepare: Prepare) -> dict[str, Any]:
    try:
        return _sent_tool(tool, prepare((tool,)), prepare)
    except _UNPREPARED as error:
        return _sent_data(tool, None, error=str(error))


def _sent_tool(tool: AnyTool, prepared: PreparedTools, prepare: Prepare) -> dict[str, Any]:
    wires = {_inner(wire).get("name"): wire for wire in _single(prepared.tools)}
    wire = wires.get(prepared.naming.sent(tool.name))
    form = None if tool.provider is not None else prepared.forms.get(tool.name)
    if tool.provider is not None:
        # a tool of a provider can be sent without a name
        wire = _redact(wire or next(iter(prepare((tool,)).tools), None))
    return _sent_data(
        tool,
        wire,
        weakened=[] if form is None else [str(each) for each in form.weakened],
        warnings=[warning.message for warning in prepared.warnings if warning.subject == tool.name],
        rewritten=[] if form is None else [str(each) for each in form.rewrites],
    )


def _sent_data(tool: AnyTool, sent: dict[str, Any] | None, *, error: str | None = None, **lines: Any) -> dict[str, Any]:
    """Return a tool in a request as JSON values. `sent` is None if the request omits it, `error` states the reason.

    `strict` is None if the request leaves strict mode to the provider, or the provider defines the tool.
    """
    name, strict = (None, None) if sent is None else (_inner(sent).get("name"), _inner(sent).get("strict"))
    return {
        "name": tool.name,
        "sent": sent,
        "weakened": lines.get("weakened", []),
        "warnings": lines.get("warnings", []),
        "error": error,
        "rewritten": lines.get("rewritten", []),
        "sent_as": name if isinstance(name, str) else None,
        "strict": strict if isinstance(strict, bool) else None,
    }


def _single(wires: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each tool, also the tools in a group."""
    for wire in wires:
        inside = wire.get("tools")
        yield from _single(inside) if is_array(inside) else (wire,)


def _inner(wire: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the name and the strict flag. Some encodings nest it one level down."""
    inner = wire.get("function", wire.get("custom"))
    return inner if is_object(inner) else wire


_FLAGS: Final = {True: ("strict", "green"), False: ("not strict", "yellow"), None: ("strict not set", "dim")}


def _flag(tool: AnyTool, data: dict[str, Any]) -> tuple[str, str]:
    """Return whether the tool is sent, and whether it is strict, with the style of the words."""
    if data["sent"] is None:
        return "not sent", "red"
    if tool.provider is not None and data["strict"] is None:
        return "defined by the provider", "dim"
    return _FLAGS[data["strict"]]


def _show_request(request: dict[str, Any], tools: tuple[AnyTool, ...], out: TextIO, *, color: bool | None) -> str:
    """Write the form of each tool in a request, with its warnings. Return the numbers of strict and other tools."""
    screen = console(out, color)
    to = " ".join(part for part in (request["provider"], request["api"]) if part)
    flags = Counter[str]()
    for tool, data in zip(tools, request["tools"], strict=True):
        flag, style = _flag(tool, data)
        screen.print(f"{chr(10) if flags else ''}{one_line(tool.name)}", style="bold", end="")
        screen.print(f": {flag}", style=style, end="")
        renamed = f", sent as {data['sent_as']}" if data["sent_as"] not in (None, tool.name) else ""
        screen.print(f" at {to} ({request['model']}){renamed}")
        flags[flag] += 1
        for warning in (*data["warnings"], *filter(None, [data["error"]])):
            screen.print(f"  ! {one_line(warning)}", style="yellow" if data["error"] is None else "red")
        for kind in ("rewritten", "weakened"):
            for line in data[kind]:
                screen.print(f"  ~ {kind}: {one_line(line)}", style="dim")
        if data["sent"] is not None:
            screen.print(indent_json(data["sent"]))
    for warning in request["warnings"]:
        screen.print(f"! {one_line(warning)}", style="yellow")
    if request["betas"]:
        screen.print(f"beta features: {', '.join(request['betas'])}")
    stated = ", ".join(f"{number} {flag}" for flag, number in flags.items())
    return f"{len(tools)} tools for {request['provider']} ({request['model']}): {stated}"


# -- tools


_STRICT: Final = {True: "yes", False: "no", None: "as configured (default: if possible)"}


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

    `broken` is the document of its parameters if it is not a valid JSON Schema, otherwise None.
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
        "provider_options": _redact({name: plain(value) for name, value in tool.provider_options.items()}),
        "external": not tool.requires_handler,
        "provider": None if own is None else {"id": own.id, "args": _redact(plain(own.args))},
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
        for line in align(_rows(data["parameters"])):
            screen.print(f"    {line}")
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
        facts.append(one_line(name + stated) if len(stated) <= 80 else f"{name}=…")
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
        return shown if len(shown) <= 40 else f"one of {len(values)} values"
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


def show_schema(
    out: TextIO,
    err: TextIO,
    *,
    target: str,
    names: tuple[str, ...] = (),
    as_json: bool = False,
    color: bool | None = None,
    **wish: Any,
) -> bool:
    """Show the schemas of a target's tools, or the tools of a request. Return False if a tool cannot be sent.

    `wish` are parameters of the request: the provider, its API, the model, and its strict mode. None is no wish.
    """
    about: dict[str, Any] = {}
    prepare: Prepare | None = None
    if any(value is not None for value in wish.values()):
        about, prepare = _request_to(**wish)
    offer = load_tools(find_tools(target)).pick(names)
    usable = tuple(tool for tool in offer.tools if tool.name not in offer.broken)
    schemas = {tool.name: tool_data(tool, offer.broken.get(tool.name))["parameters"] for tool in offer.tools}
    data: dict[str, Any] = {"tools": [{"name": name, "schema": schema} for name, schema in schemas.items()]}
    if prepare is not None:
        data = {**about, **_preview(usable, prepare)}
    if as_json:
        left_out = [finding.to_data() for finding in _left_out(offer)]
        out.write(json_line({"target": offer.target, **data, "left_out": left_out}))
    elif prepare is not None:
        counted = _show_request(data, usable, out, color=color)
        err.write(f"fxai: {one_line(counted)}\n" * (len(usable) > 1))
    elif len(schemas) == 1:  # a single schema has no name, so that you can pipe it
        out.write(indent_json(next(iter(schemas.values()))) + "\n")
    else:
        screen = console(out, color)
        for number, (name, schema) in enumerate(schemas.items()):
            screen.print(f"{chr(10) if number else ''}{one_line(name)}:", style="bold")
            screen.print(indent_json(schema))
    error = data.get("error")
    if error is not None:
        problem = CliError(f"cannot create a request for {target}: {error}", "")
        err.write(f"fxai: {problem}\n")
    return _warn_left_out(offer, err) and error is None


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
        out.writelines(f"{line}\n" for line in align([(one.code, one.severity, one.states) for one in RULES.values()]))
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
    is_plain = offer.source is None and offer.layer is None
    there, answering = (offer, ()) if is_plain else value_of(fx.scoped(_check_handlers(offer)))
    findings = lint(Subject.of(there.tools, there.broken, chosen), "info")
    every = in_order(iter((*offer.findings, *findings, *answering)), [tool.name for tool in there.tools])
    return len(there.tools), every


@fx.gen
def _check_handlers(offer: TargetTools) -> Gen[tuple[TargetTools, tuple[Finding, ...]], Any, Scope]:
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
    broken = (each for name, document in offer.broken.items() for each in document_findings(name, document))
    return (*offer.findings, *broken)


def _warn_left_out(offer: TargetTools, err: TextIO) -> bool:
    findings = _left_out(offer)
    err.writelines(f"fxai: {finding}\n" for finding in findings)
    return not findings


_ELSEWHERE: Final = "Make the layer work on this machine, or remove --layer."
_LISTED: Final[dict[Severity, int]] = {"error": 20, "warning": 5, "info": 5}
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
            locations = ", ".join(fault.location for fault in found[:3])
            screen.print(f"{len(found)} locations: ", end="")
            screen.print(rule, style=style, end="")
            screen.print(f": {RULES[code].states} For example: {locations}")
    if faults:
        counts = Counter(fault.severity for fault in faults)
        words = (f"{counts[s]} {s}{'s' * (counts[s] > 1 and s != 'info')}" for s in reversed(SEVERITIES) if counts[s])
        number = f"{len(faults)} problem{'s' * (len(faults) > 1)}"
        err.write(f"fxai: {number} ({', '.join(words)}) in {target}{more}\n")
