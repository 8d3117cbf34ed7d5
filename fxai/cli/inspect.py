"""The commands `fxai tools`, `fxai schema`, and `fxai check`. Use them to inspect tools without running them.

>>> import sys
>>> show_schema("fxai.cli.example:count_lines", sys.stdout, sys.stderr, as_json=True, names=("count_lines",))
{"target":"fxai.cli.example:count_lines","tools":[{"name":"count_lines","schema":{...}}],"left_out":[]}
True

`show_request` writes each tool of a request as JSON, after its warnings:

>>> import sys
>>> from fxai.cli.tool_view import RequestPreview, SentTool, PreviewOptions
>>> seen = SentTool("add", {"name": "add", "strict": False}, warnings=("not strict: /any is open",))
>>> show_request(RequestPreview(PreviewOptions("anthropic"), (seen,)), sys.stdout)
add: not strict at anthropic (claude-sonnet-5)
  ! not strict: /any is open
{
  "name": "add",
  "strict": false
}

`Verdict` is the result of `fxai check`:

>>> verdict = Verdict("kit.py:kit", 2, ())
>>> verdict.ok, verdict.to_data()["faults"]
(True, [])
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TextIO, final

import msgspec

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.failure import error_of
from fxai.cli.progress import Spinner
from fxai.cli.run_program import value_of
from fxai.cli.screen import console
from fxai.cli.target import TargetTools, find_tools, load_tools, open_tools, with_layer
from fxai.cli.tool_view import (
    RECENT,
    PreviewOptions,
    RequestPreview,
    SentTool,
    overview_data,
    preview_request,
    show_overview,
    tool_data,
)
from fxai.effects import fx
from fxai.effects.cause import Cause
from fxai.effects.effect import Gen
from fxai.effects.scope import Scope
from fxai.lint.rule import PROVIDERS, RULES, SEVERITIES, Finding, Severity, Subject, at_least
from fxai.schema.display import indent_json, json_line, one_line

if TYPE_CHECKING:
    from rich.console import Console


def show_tools(target: str, out: TextIO, err: TextIO, *, as_json: bool, color: bool | None = None) -> bool:
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
        raise CliError(problem, f"Write provider:model with one of: {there}.", code=WRONG_USE)
    return None if provider is None else PreviewOptions(provider, api, model, strict)


def show_schema(
    target: str,
    out: TextIO,
    err: TextIO,
    *,
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
        raise CliError("--api, --model, and --strict require a provider", remedy, code=WRONG_USE)
    offer = load_tools(find_tools(target)).pick(names)
    if wish is None:
        _own_schemas(offer, out, as_json=as_json, color=color)
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


def _own_schemas(offer: TargetTools, out: TextIO, *, as_json: bool, color: bool | None) -> None:
    schemas = {tool.name: tool_data(tool, offer.broken.get(tool.name))["parameters"] for tool in offer.tools}
    if as_json:
        tools = [{"name": name, "schema": schema} for name, schema in schemas.items()]
        left_out = [finding.to_data() for finding in _left_out(offer)]
        out.write(json_line({"target": offer.target, "tools": tools, "left_out": left_out}))
    else:
        show_schemas(schemas, out, color=color)


def check_tools(
    target: str,
    out: TextIO,
    err: TextIO,
    *,
    layer: str | None = None,
    providers: tuple[str, ...] = (),
    level: Severity = "warning",
    ignored: tuple[str, ...] = (),
    as_json: bool = False,
    color: bool | None = None,
) -> bool:
    """Show the problems of a target's tools. Return True if no problem was found."""
    _require_rules(ignored)
    with Spinner(err, f"checking {target}"):
        number, findings = _find_faults(target, layer, providers)
    verdict = Verdict.of(target, number, findings, level, ignored)
    if as_json:
        out.write(json_line(verdict.to_data()))
    else:
        show_verdict(verdict, out, err, color=color)
    return verdict.ok


def list_rules(out: TextIO, *, as_json: bool) -> bool:
    """Show all rules."""
    if as_json:
        out.write(json_line({"rules": [msgspec.to_builtins(rule) for rule in RULES.values()]}))
    else:
        show_rules(out)
    return True


def _find_faults(target: str, layer: str | None, providers: tuple[str, ...]) -> tuple[int, tuple[Finding, ...]]:
    """Return the number of tools, and their problems."""
    unknown = [name for name in providers if name not in PROVIDERS]
    if unknown:
        remedy = f"Use one of: {', '.join(PROVIDERS)}."
        raise CliError(f"unknown provider {unknown[0]!r}", remedy, code=WRONG_USE)
    try:
        offer = with_layer(find_tools(target), layer)
    except CliError as trouble:
        return 0, (_refusal(trouble),)
    chosen = [PROVIDERS[name] for name in providers or PROVIDERS]
    from fxai.lint.linter import in_order, lint

    is_plain = offer.source is None and offer.layer is None
    there, answering = (offer, ()) if is_plain else value_of(fx.scoped(_check_handlers(offer)))
    findings = lint(Subject.of(there.tools, there.broken, chosen), "info")
    every = in_order(iter((*offer.findings, *findings, *answering)), [tool.name for tool in there.tools])
    return len(there.tools), every


def _layer_error(cause: Cause[Any]) -> tuple[str, str]:
    """Return the error of a layer that could not be built, and its remedy on the command line."""
    error = error_of(cause)
    return error.message, _ELSEWHERE if "--debug" in error.remedy else error.remedy


@fx.gen
def _check_handlers(offer: TargetTools) -> Gen[tuple[TargetTools, tuple[Finding, ...]], Any, Scope]:
    from fxai.lint.linter import handler_findings

    there = yield from open_tools(offer)
    findings: tuple[Finding, ...] = ()
    if there.layer is not None:
        findings = yield from handler_findings(there.tools, there.layer, _layer_error)
    return there, findings


def _refusal(trouble: CliError) -> Finding:
    """Return the finding for a definition that fxai rejects. If the error has another cause, raise it again."""
    from fxai.agents.state import RenderError
    from fxai.schema.fault import SchemaError
    from fxai.tools.handler import HandlerError
    from fxai.tools.identity import NameConflictError, ToolConflictError

    if not isinstance(trouble.cause, RenderError | SchemaError | ToolConflictError | NameConflictError | HandlerError):
        raise trouble
    return RULES["definition-refused"].finding(None, "", trouble.message, trouble.remedy or "Correct the definition.")


def _require_rules(codes: tuple[str, ...]) -> None:
    from difflib import get_close_matches

    for code in codes:
        if code not in RULES:
            near = get_close_matches(code, RULES, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "To list the rules, run fxai check --rules."
            raise CliError(f"unknown rule {code!r}", remedy, code=WRONG_USE)


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


def show_schemas(schemas: dict[str, Any], out: TextIO, *, color: bool | None = None) -> None:
    """Write the JSON Schemas by tool. Write a single schema without its name, so that you can pipe it."""
    if len(schemas) == 1:
        out.write(indent_json(next(iter(schemas.values()))) + "\n")
        return
    screen = console(out, color)
    for number, (name, schema) in enumerate(schemas.items()):
        screen.print(f"{chr(10) if number else ''}{one_line(name)}:", style="bold")
        screen.print(indent_json(schema))


def show_request(request: RequestPreview, out: TextIO, *, color: bool | None = None) -> None:
    """Write the form of each tool in a request, with its warnings."""
    screen = console(out, color)
    for number, tool in enumerate(request.tools):
        if number:
            screen.print()
        _show_tool(tool, request, screen)
    for warning in request.warnings:
        screen.print(f"! {one_line(warning)}", style="yellow")
    if request.betas:
        screen.print(f"beta features: {', '.join(request.betas)}")


def _show_tool(tool: SentTool, request: RequestPreview, screen: Console) -> None:
    wish = request.wish
    to = " ".join(part for part in (wish.provider, wish.api) if part)
    screen.print(one_line(tool.name), style="bold", end="")
    screen.print(f": {tool.flag}", style=_FLAG_STYLES.get(tool.flag, "dim"), end="")
    renamed = f", sent as {tool.sent_as}" if tool.sent_as not in (None, tool.name) else ""
    screen.print(f" at {to} ({wish.of_model}){renamed}")
    for warning in (*tool.warnings, *filter(None, [tool.error])):
        screen.print(f"  ! {one_line(warning)}", style="yellow" if tool.error is None else "red")
    for line in tool.rewritten:
        screen.print(f"  ~ rewritten: {one_line(line)}", style="dim")
    for line in tool.weakened:
        screen.print(f"  ~ weakened: {one_line(line)}", style="dim")
    if tool.sent is not None:
        screen.print(indent_json(tool.sent))


_LISTED: Final[dict[Severity, int]] = {"error": 20, "warning": 5, "info": 5}
_EXAMPLES: Final = 3
_SEVERITY_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@final
class Verdict(msgspec.Struct, frozen=True):
    """The result of a check: the number of tools, and the problems that match the chosen level and rules."""

    target: str
    tools: int
    faults: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.faults

    @property
    def counted(self) -> str:
        """The number of problems, as text."""
        counts = Counter(fault.severity for fault in self.faults)
        words = (f"{counts[s]} {s}{'s' * (counts[s] > 1 and s != 'info')}" for s in reversed(SEVERITIES) if counts[s])
        return f"{len(self.faults)} problem{'s' * (len(self.faults) > 1)} ({', '.join(words)})"

    @property
    def grouped(self) -> tuple[tuple[Finding, ...], ...]:
        """The problems by severity and rule, worst first."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for fault in self.faults:
            groups.setdefault((fault.severity, fault.code), []).append(fault)
        return tuple(map(tuple, groups.values()))

    def to_data(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "target": self.target,
            "ok": self.ok,
            "tools": self.tools,
            "faults": [fault.to_data() for fault in self.faults],
        }

    @staticmethod
    def of(
        target: str, tools: int, findings: tuple[Finding, ...], level: Severity, ignored: tuple[str, ...]
    ) -> Verdict:
        """Return the verdict for the findings of `level` or worse, without the findings of ignored rules."""
        kept = [each for each in findings if at_least(each.severity, level) and each.code not in ignored]
        worst_first = sorted(kept, key=lambda each: SEVERITIES.index(each.severity), reverse=True)
        return Verdict(target, tools, tuple(worst_first))


def show_verdict(verdict: Verdict, out: TextIO, err: TextIO, *, color: bool | None = None) -> None:
    """Write the problems, worst first, and their number to `err`.

    If a rule found many problems of one severity, write them as one line with their number and examples.
    """
    screen = console(out, color)
    shortened = False
    for faults in verdict.grouped:
        is_listed = len(faults) <= _LISTED[faults[0].severity]
        shortened = shortened or not is_listed
        for fault in faults if is_listed else ():
            screen.print(f"{fault.location}: ", end="")
            _show_rule(fault, screen)
            screen.print(f": {one_line(fault.message)}. {one_line(fault.remedy)}")
        if not is_listed:
            locations = ", ".join(fault.location for fault in faults[:_EXAMPLES])
            screen.print(f"{len(faults)} locations: ", end="")
            _show_rule(faults[0], screen)
            screen.print(f": {RULES[faults[0].code].states} For example: {locations}")
    if not verdict.ok:
        more = ". Pass --json to see every location." if shortened else ""
        err.write(f"fxai: {verdict.counted} in {verdict.target}{more}\n")


def _show_rule(fault: Finding, screen: Console) -> None:
    screen.print(f"{fault.severity} {fault.code}", style=_SEVERITY_STYLES[fault.severity], end="")


def show_rules(out: TextIO) -> None:
    """Write each rule with its severity."""
    wide = max(map(len, RULES))
    out.writelines(f"{rule.code:<{wide}}  {rule.severity:<7}  {rule.states}\n" for rule in RULES.values())
