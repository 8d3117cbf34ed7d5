"""Views of tools for people and as data. Use `preview_request` to see the tools that a provider would receive.

>>> from fxai.tools.tool import Tool
>>> tool_data(Tool.make("ping", description="Answers."))["parameters"]["additionalProperties"]
False
>>> [tool.data()["strict"] for tool in preview_request((Tool.make("ping"),), PreviewOptions("openai")).tools]
[True]
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO, cast, final

import msgspec

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.redaction import redact
from fxai.cli.screen import console
from fxai.lint.rule import PROVIDERS, description_of
from fxai.models.prepared_tools import PreparationError
from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import one_line
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.request_form import COMPATIBLE_CHAT
from fxai.tools.annotation import Strict
from fxai.tools.identity import NameConflictError
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.cli.target import TargetTools
    from fxai.models.prepared_tools import PreparedTools

RECENT: Final = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5"}
"""A recent model of each provider."""
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

    def __hash__(self) -> int:
        return hash((self.name, self.error))  # `sent` is not hashable

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
        return {
            "name": self.name,
            "sent_as": self.sent_as,
            "strict": self.strict,
            "sent": self.sent,
            "weakened": list(self.weakened),
            "rewritten": list(self.rewritten),
            "warnings": list(self.warnings),
            "error": self.error,
        }


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
    except (PreparationError, NameConflictError, SchemaError) as error:
        return RequestPreview(wish, tuple(_preview_alone(tool, prepare) for tool in tools), error=str(error))
    names = {tool.name for tool in tools}
    general = tuple(warning.message for warning in whole.warnings if warning.subject not in names)
    return RequestPreview(wish, tuple(_preview(tool, whole, prepare) for tool in tools), general, whole.betas)


def _preview_alone(tool: AnyTool, prepare: Callable[[Any], PreparedTools]) -> SentTool:
    try:
        return _preview(tool, prepare((tool,)), prepare)
    except (PreparationError, NameConflictError, SchemaError) as error:
        return SentTool(tool.name, None, error=str(error))


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
        stated = f"unknown provider {wish.provider!r}"
        raise CliError(stated, f"Use one of: {', '.join(PROVIDERS)}.", code=WRONG_USE)
    prepare: Callable[..., PreparedTools] = import_module(f"fxai.providers.{wish.provider}").prepare_tools
    options: dict[str, Any] = {"model": wish.of_model, "strict_json_schema": wish.strict}
    if wish.api is not None and "api" not in inspect.signature(prepare).parameters:
        raise CliError(f"{wish.provider} has only one API", "Remove --api.", code=WRONG_USE)
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
    given = data["annotations"]
    kind = data["kind"] if data["provider"] is None else data["provider"]["id"]
    facts = [kind, *(_fact(name, value) for name, value in given.items())]
    facts += [f"strict: {_STRICT[data['strict']]}"] if "strict" not in given and data["provider"] is None else []
    facts += [f"on failure: {data['failure_mode']}"] if data["failure"] is not None else []
    facts += ["needs approval"] if data["needs_approval"] is True else []
    facts += ["may need approval"] if isinstance(data["needs_approval"], str) else []
    return facts + (["no handler"] if data["external"] else [])


def _fact(name: str, value: Any) -> str:
    """Return a short form of an annotation. `--json` shows long values."""
    stated = "" if value is True else f"={json.dumps(value, ensure_ascii=False)}"
    return one_line(name + stated) if len(stated) <= _LONGEST_FACT else f"{name}=…"


def _rows(schema: Any) -> list[tuple[str, str, str]]:
    """Return one row per parameter: its name, with `?` if it is optional, its type, and its description."""
    if not is_object(schema) or not is_object(schema.get("properties")):
        return []
    required: list[Any] = schema["required"] if is_array(schema.get("required")) else []
    return [
        (one_line(name) + ("" if name in required else "?"), one_line(type_of(inner)), _parameter_text(inner))
        for name, inner in schema["properties"].items()
    ]


def _parameter_text(schema: Any) -> str:
    if not is_object(schema):
        return ""
    stated = one_line(str(schema.get("description") or ""), 160)
    default = schema.get("default")
    return stated if default is None else f"{stated} (default {json.dumps(default)})".strip()


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
