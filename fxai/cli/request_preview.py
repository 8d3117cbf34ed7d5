"""Request previews: tools as a provider is sent them, strict or not, and why.

>>> from fxai.tools.tool import Tool
>>> [tool.data()["strict"] for tool in preview_request((Tool.make("ping"),), PreviewOptions("openai")).tools]
[True]
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from returns.result import Success

from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.cli.redaction import redact
from fxai.lint.subject import PROVIDERS
from fxai.models.tool_encoding import PreparationError
from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import SchemaError
from fxai.schema.strict import strict_form
from fxai.tools.annotations import ExplicitNull
from fxai.tools.naming import NameConflictError
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.models.tool_encoding import PreparedTools

__all__ = ["RECENT", "PreviewOptions", "RequestPreview", "SentTool", "preview_request"]

RECENT: Final = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-5"}
"""A recent model of each provider that is sent requests."""
_FLAGS: Final = {True: "strict", False: "not strict", None: "strict is not said"}


@final
class PreviewOptions(msgspec.Struct, frozen=True):
    """Options for a preview.

    Attributes:
        provider: the provider.
        api: its interface; None for its first.
        model: the model; None for a recent one.
        strict: strict mode in the configuration; None where it is not set.
    """

    provider: str
    api: str | None = None
    model: str | None = None
    strict: bool | None = None

    @property
    def of_model(self) -> str:
        """The model's name."""
        return self.model or RECENT[self.provider]


@final
class SentTool(msgspec.Struct, frozen=True):
    """One tool as it is sent.

    Attributes:
        name: its own name.
        sent: what the request says of it; None where it is not sent.
        weakened: what strict mode cannot hold the model to, a line each.
        warnings: what was asked for and not done, a line each.
        error: why the request cannot be made with it; None where it can.
        provided: whether it is the provider's own, which has no schema of ours. Its secrets are hidden.
    """

    name: str
    sent: dict[str, Any] | None
    weakened: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    provided: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.error))  # what is sent is plain data

    @property
    def sent_as(self) -> str | None:
        """What it is called on the wire; None where the wire has no name for it."""
        name = None if self.sent is None else _inner(self.sent).get("name")
        return name if isinstance(name, str) else None

    @property
    def flag(self) -> str:
        """Whether it is sent, and as strict, in words."""
        if self.sent is None:
            return "not sent"
        return "the provider's own" if self.provided and self.strict is None else _FLAGS[self.strict]

    @property
    def strict(self) -> bool | None:
        """Whether it is sent as strict; None where nothing is said."""
        said = None if self.sent is None else _inner(self.sent).get("strict")
        return said if isinstance(said, bool) else None

    def data(self) -> dict[str, Any]:
        """The tool as plain JSON data."""
        return {
            "name": self.name,
            "sent_as": self.sent_as,
            "strict": self.strict,
            "sent": self.sent,
            "weakened": list(self.weakened),
            "warnings": list(self.warnings),
            "error": self.error,
        }


@final
class RequestPreview(msgspec.Struct, frozen=True):
    """The tools of one request.

    Attributes:
        wish: the options.
        tools: each tool.
        warnings: warnings about no tool in particular.
        betas: the beta features that the request must name.
        error: why the request cannot be made with all of them; None where it can.
    """

    wish: PreviewOptions
    tools: tuple[SentTool, ...]
    warnings: tuple[str, ...] = ()
    betas: tuple[str, ...] = ()
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the request can be made."""
        return self.error is None

    @property
    def counted(self) -> str:
        """How many are strict, in words."""
        flags = Counter(tool.flag for tool in self.tools)
        said = ", ".join(f"{number} {flag}" for flag, number in flags.items())
        return f"{len(self.tools)} tools to {self.wish.provider} ({self.wish.of_model}): {said}"

    def data(self) -> dict[str, Any]:
        """The request as plain JSON data."""
        return {
            "provider": self.wish.provider,
            "api": self.wish.api,
            "model": self.wish.of_model,
            "ok": self.ok,
            "tools": [tool.data() for tool in self.tools],
            "warnings": list(self.warnings),
            "betas": list(self.betas),
            "error": self.error,
        }


def preview_request(tools: tuple[AnyTool, ...], wish: PreviewOptions) -> RequestPreview:
    """The tools as a request has them. Where it cannot be made with all of them, each is shown as it would be alone.

    Raises:
        CliError: there is no such provider, or it has no such interface.
    """
    prepare = _preparer(wish)
    try:
        whole = prepare(tools)
    except (PreparationError, NameConflictError, SchemaError) as error:
        return RequestPreview(wish, tuple(_preview_alone(tool, wish, prepare) for tool in tools), error=str(error))
    names = {tool.name for tool in tools}
    general = tuple(warning.message for warning in whole.warnings if warning.subject not in names)
    return RequestPreview(wish, tuple(_preview(tool, whole, wish, prepare) for tool in tools), general, whole.betas)


def _preview_alone(tool: AnyTool, wish: PreviewOptions, prepare: Callable[[Any], PreparedTools]) -> SentTool:
    try:
        return _preview(tool, prepare((tool,)), wish, prepare)
    except (PreparationError, NameConflictError, SchemaError) as error:
        return SentTool(tool.name, None, error=str(error))


def _preview(
    tool: AnyTool, prepared: PreparedTools, wish: PreviewOptions, prepare: Callable[[Any], PreparedTools]
) -> SentTool:
    wires = {_inner(wire).get("name"): wire for wire in _single(prepared.tools)}
    wire = wires.get(prepared.naming.sent(tool.name))
    if wire is None:  # a provider's own tool, which has no name on the wire
        wire = next(iter(prepare((tool,)).tools), None)
    warnings = tuple(warning.message for warning in prepared.warnings if warning.subject == tool.name)
    if tool.provider is not None:
        return SentTool(tool.name, redact(wire), warnings=warnings, provided=True)
    found = SentTool(tool.name, wire, warnings=warnings)
    if not found.strict:
        return found
    document = tool.parameters.document if isinstance(tool.parameters, Schema) else tool.parameters
    form = strict_form(document, PROVIDERS[wish.provider].strict, explicit_null=tool.get(ExplicitNull))
    weakened = form.unwrap().weakened if isinstance(form, Success) else ()
    return msgspec.structs.replace(found, weakened=tuple(str(each) for each in weakened))


def _single(wires: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each tool, also those that stand in a group."""
    for wire in wires:
        inside = wire.get("tools")
        yield from _single(inside) if is_array(inside) else (wire,)


def _inner(wire: dict[str, Any]) -> dict[str, Any]:
    """The object that holds the name and the flag; some encodings nest it one level down."""
    inner = wire.get("function", wire.get("custom"))
    return inner if is_object(inner) else wire


def _preparer(wish: PreviewOptions) -> Callable[[Any], PreparedTools]:
    """The function that prepares tools for the provider."""
    if wish.provider not in PROVIDERS:
        said = f"there are no requests to a provider {wish.provider!r}"
        raise CliError(said, f"there is: {', '.join(PROVIDERS)}", code=WRONG_USE)
    prepare: Callable[..., PreparedTools] = import_module(f"fxai.providers.{wish.provider}").prepare_tools
    options: dict[str, Any] = {"model": wish.of_model, "strict_json_schema": wish.strict}
    if wish.api is not None and "api" not in inspect.signature(prepare).parameters:
        raise CliError(f"{wish.provider} has one interface alone", "leave --api out", code=WRONG_USE)
    if wish.api is not None:
        options["api"] = wish.api
    return lambda tools: prepare(tools, **options)
