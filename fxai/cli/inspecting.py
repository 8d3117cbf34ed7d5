"""Inspecting: the commands that look at tools and run none: `fxai tools`, `fxai schema` and `fxai check`.

>>> import sys
>>> show_schema("fxai.cli.example:count_lines", sys.stdout, sys.stderr, as_json=True, names=("count_lines",))
{"target":"fxai.cli.example:count_lines","tools":[{"name":"count_lines","schema":{...}}],"left_out":[]}
True
"""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from fxai.cli.lint.finding import Finding, Severity
from fxai.cli.offer import Offer, named, with_layer
from fxai.cli.opening import looked_at, opened
from fxai.cli.overview import overview_data, show_overview, tool_data
from fxai.cli.text import json_line, one_line
from fxai.cli.trouble import WRONG_USE, Trouble
from fxai.cli.waiting import Waiting
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.scope import Scope

__all__ = ["check_tools", "list_rules", "show_schema", "show_tools"]


def show_tools(target: str, out: TextIO, err: TextIO, *, as_json: bool, color: bool | None = None) -> bool:
    """Shows the tools of a target; False where something of it is none.

    Raises:
        Trouble: the target cannot be had.
    """
    offer = looked_at(named(target))
    if as_json:
        _write(out, overview_data(offer))
    else:
        show_overview(offer, out, color=color)
    return _all_taken(offer, err)


def _addressed(provider: str | None, model: str | None) -> tuple[str | None, str | None]:
    """The provider and its model, where the model's name says both."""
    from fxai.cli.sent import RECENT

    named_by, _, of_model = (model or "").partition(":")
    if of_model and named_by in RECENT and provider in (None, named_by):
        return named_by, of_model
    if of_model and provider is None:
        said = f"there are no requests to a provider {named_by!r}"
        raise Trouble(said, f"there is: {', '.join(RECENT)}; write provider:model", code=WRONG_USE)
    return provider, model


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
    """Shows the schemas of a target's tools, or what a provider would be sent; False where something cannot be.

    Raises:
        Trouble: the target cannot be had, or there is no such tool, provider or interface.
    """
    provider, model = _addressed(provider, model)
    if provider is None and (api, model, strict) != (None, None, None):
        remedy = "say --provider as well, or --model provider:name"
        raise Trouble("--api, --model and --strict are about what a provider is sent", remedy, code=WRONG_USE)
    offer = looked_at(named(target)).picked(names)
    if provider is None:
        _own_schemas(offer, out, as_json=as_json, color=color)
        return _all_taken(offer, err)
    from fxai.cli.schema_view import show_request
    from fxai.cli.sent import Wish, sent

    usable = tuple(tool for tool in offer.tools if tool.name not in offer.broken)
    request = sent(usable, Wish(provider, api, model, strict))
    if as_json:
        left_out = [finding.to_data() for finding in _left_out(offer)]
        _write(out, {"target": offer.target, **request.data(), "left_out": left_out})
    else:
        show_request(request, out, color=color)
        if len(request.tools) > 1:
            err.write(f"fxai: {one_line(request.counted)}\n")
    if request.error is not None:
        err.write(f"fxai: {Trouble(f'no request can be made of {target}: {request.error}', '')}\n")
    return _all_taken(offer, err) and request.ok


def _own_schemas(offer: Offer, out: TextIO, *, as_json: bool, color: bool | None) -> None:
    schemas = {tool.name: tool_data(tool, offer.broken.get(tool.name))["parameters"] for tool in offer.tools}
    if as_json:
        tools = [{"name": name, "schema": schema} for name, schema in schemas.items()]
        _write(out, {"target": offer.target, "tools": tools, "left_out": [f.to_data() for f in _left_out(offer)]})
        return
    from fxai.cli.schema_view import show_schemas

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
    """Shows what is wrong with the tools of a target; True where nothing is.

    Raises:
        Trouble: the target or the layer cannot be had, or there is no such provider or rule.
    """
    from fxai.cli.verdict import Verdict, show_verdict

    _known_rules(ignored)
    with Waiting(err, f"checking {target}"):
        number, findings = _found(target, layer, providers)
    verdict = Verdict.of(target, number, findings, level, ignored)
    if as_json:
        _write(out, verdict.to_data())
    else:
        show_verdict(verdict, out, err, color=color)
    return verdict.ok


def list_rules(out: TextIO, *, as_json: bool) -> bool:
    """Shows what is looked for."""
    from fxai.cli.lint.rule import RULES
    from fxai.cli.verdict import show_rules

    if as_json:
        _write(out, {"rules": [msgspec.to_builtins(rule) for rule in RULES.values()]})
    else:
        show_rules(out)
    return True


def _found(target: str, layer: str | None, providers: tuple[str, ...]) -> tuple[int, tuple[Finding, ...]]:
    """How many tools there are, and what is wrong with them."""
    from fxai.cli.lint.subject import PROVIDERS, Subject
    from fxai.cli.program import value_of

    unknown = [name for name in providers if name not in PROVIDERS]
    if unknown:
        remedy = f"there is: {', '.join(PROVIDERS)}"
        raise Trouble(f"there are no rules of a provider {unknown[0]!r}", remedy, code=WRONG_USE)
    try:
        offer = with_layer(named(target), layer)
    except Trouble as trouble:
        return 0, (_refused(trouble),)
    chosen = [PROVIDERS[name] for name in providers or PROVIDERS]
    from fxai.cli.lint.linting import in_order, linted

    there, answering = (offer, ()) if _is_plain(offer) else value_of(fx.scoped(_answered(offer)))
    findings = linted(Subject.of(there.tools, there.broken, chosen), "info")
    every = in_order(iter((*offer.findings, *findings, *answering)), [tool.name for tool in there.tools])
    return len(there.tools), every


def _is_plain(offer: Offer) -> bool:
    return offer.source is None and offer.layer is None


@fx.gen
def _answered(offer: Offer) -> Gen[tuple[Offer, tuple[Finding, ...]], Any, Scope]:
    from fxai.cli.lint.answering import handler_findings

    there = yield from opened(offer)
    findings: tuple[Finding, ...] = ()
    if there.layer is not None:
        findings = yield from handler_findings(there.tools, there.layer)
    return there, findings


def _refused(trouble: Trouble) -> Finding:
    """What a definition that fxai refuses amounts to; any other trouble stays trouble.

    Raises:
        Trouble: it is another.
    """
    from fxai.cli.lint.rule import RULES
    from fxai.schema.fault import SchemaError
    from fxai.tools.naming import NameConflictError
    from fxai.tools.toolkit import HandlerError, ToolConflictError

    if not isinstance(trouble.cause, SchemaError | ToolConflictError | NameConflictError | HandlerError):
        raise trouble
    return RULES["definition-refused"].finding(None, "", trouble.message, trouble.remedy)


def _known_rules(codes: tuple[str, ...]) -> None:
    from difflib import get_close_matches

    from fxai.cli.lint.rule import RULES

    for code in codes:
        if code not in RULES:
            near = get_close_matches(code, RULES, n=1)
            remedy = f"did you mean {near[0]!r}" if near else "fxai check --rules shows what there is"
            raise Trouble(f"there is no rule {code!r}", remedy, code=WRONG_USE)


def _left_out(offer: Offer) -> tuple[Finding, ...]:
    """What of a list is no tool, or a tool that no request can be made of."""
    from fxai.cli.lint.structure import document_findings

    broken = (each for name, document in offer.broken.items() for each in document_findings(name, document))
    return (*offer.findings, *broken)


def _all_taken(offer: Offer, err: TextIO) -> bool:
    findings = _left_out(offer)
    err.writelines(f"fxai: {finding}\n" for finding in findings)
    return not findings


def _write(out: TextIO, data: Any) -> None:
    out.write(json_line(data))
