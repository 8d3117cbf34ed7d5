"""Tools on OpenAI's wires: how each is written on Responses and on Chat Completions.

>>> from fxai.models.preparation import Notes, Settled
>>> from fxai.tools.tool import Tool
>>> Writer("responses", Notes()).function(Settled(Tool.make("ping"), False), "ping", {})["strict"]
False
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.models.preparation import AnyTool, Notes, Settled, option_names, options_of, refuse_approval, without_nulls
from fxai.tools.annotations import (
    AllowedCallers,
    CacheControl,
    Caller,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)

__all__ = ["Api", "Writer", "kind_of"]

Api: TypeAlias = Literal["responses", "chat"]
"""Which of the two: Responses, or Chat Completions, which servers of others speak as well."""

_PLACES: Final[Mapping[str, str]] = {"responses": "OpenAI's Responses API", "chat": "OpenAI's Chat Completions API"}

# What each type of tool has a place for on Responses, as the official SDK's parameter types have it.
_CARRIED: Final[Mapping[str, frozenset[str]]] = {
    "function": frozenset({"defer_loading", "allowed_callers", "output_schema", "async", "namespace"}),
    "custom": frozenset({"defer_loading", "allowed_callers", "async", "namespace"}),
    "mcp": frozenset({"defer_loading", "allowed_callers"}),
    "code_interpreter": frozenset({"allowed_callers"}),
    "shell": frozenset({"allowed_callers"}),
    "apply_patch": frozenset({"allowed_callers"}),
}
_DESCRIBED: Final = frozenset({"custom", "tool_search"})


class _Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `provider_options["openai"]` of a tool may say; each wins over the annotation of the same meaning."""

    defer_loading: bool | None = None
    allowed_callers: tuple[Caller, ...] | None = None
    output_schema: dict[str, Any] | None = None
    namespace: ToolNamespace | None = None
    asynchronous: bool | None = msgspec.field(default=None, name="async")


def kind_of(tool: AnyTool) -> str:
    """The type of a tool on the wire: `"function"`, or what the provider's own tool is."""
    return "function" if tool.provider is None else tool.provider.id.partition(".")[2]


@final
class Writer:
    """What writes tools for one of the two wires, and notes what the wire has no place for."""

    def __init__(self, api: Api, notes: Notes) -> None:
        self._api = api
        self._notes = notes

    def takes(self, tool: AnyTool) -> bool:
        """Whether the wire has such tools; notes those that it has not.

        Raises:
            PreparationError: a tool that the provider runs asks for an approval.
        """
        if tool.provider is None:
            return True
        place = _PLACES[self._api]
        ours = tool.provider.id.startswith("openai.")
        if ours and (self._api == "responses" or kind_of(tool) == "custom"):
            refuse_approval(tool)
            return True
        whose = "is another provider's" if not ours else "runs on the Responses API alone"
        said = f"the tool {tool.name!r} ({tool.provider.id}) is not sent: it {whose}, and {place} does not know it"
        self._notes.warn("unsupported-tool", tool.name, said)
        return False

    def extras(self, tool: AnyTool) -> dict[str, Any]:
        """What the tool says beside name, description and schema, as far as the wire has a place for it."""
        carried = _CARRIED.get(kind_of(tool), frozenset()) if self._api == "responses" else frozenset[str]()
        said = _said(tool)
        for name in [*(name for name in said if name not in carried), *_nowhere(tool)]:
            self._notes.lost(tool, name, _PLACES[self._api])
        return {name: value for name, value in said.items() if name in carried}

    def function(self, settled: Settled, wire: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """A tool of ours."""
        tool = settled.tool
        about = {} if tool.description is None else {"description": tool.description}
        schema = {"name": wire, **about, "parameters": settled.document}
        if self._api == "chat":
            flag = {} if settled.strict is None else {"strict": settled.strict}
            return {"type": "function", "function": {**schema, **flag}}
        # Responses must be told: what is left out there means strict where it can be.
        return {"type": "function", **schema, "strict": bool(settled.strict), **extras}

    def provided(self, tool: AnyTool, wire: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """A tool of OpenAI's."""
        kind = kind_of(tool)
        args = without_nulls(msgspec.to_builtins(tool.provider.args if tool.provider else {}))
        about = {"description": tool.description} if kind in _DESCRIBED and tool.description is not None else {}
        if kind != "custom":
            return {"type": kind, **about, **args, **extras}
        if self._api == "responses":
            return {"type": kind, "name": wire, **about, **args, **extras}
        if "format" in args:
            form = dict(args["format"])
            args = {"format": {"type": form.pop("type"), "grammar": form}}
        return {"type": kind, "custom": {"name": wire, **about, **args}}


def _said(tool: AnyTool) -> dict[str, Any]:
    given = options_of(tool, "openai", _Options)
    schema = tool.get(OutputSchema)
    annotated: dict[str, Any] = {
        "defer_loading": tool.get(DeferLoading) or None,
        "allowed_callers": tool.get(AllowedCallers) or None,
        "output_schema": None if schema is None else schema.to_dict(),
        "namespace": tool.get(Namespace),
    }
    said = {name: value for name, value in annotated.items() if value is not None}
    plain = {name: getattr(given, attribute) for name, attribute in option_names(_Options).items()}
    return {**said, **{name: value for name, value in plain.items() if value is not None}}


def _nowhere(tool: AnyTool) -> list[str]:
    provided = tool.provider is not None
    missing = {
        "input examples": bool(tool.input_examples),
        "cache control": tool.get(CacheControl) is not None,
        "eager input streaming": bool(tool.get(EagerInputStreaming)),
        "description": provided and kind_of(tool) not in _DESCRIBED and tool.given_description is not None,
        "strict mode": provided and bool(tool.get(Strict)),
    }
    return [what for what, lost in missing.items() if lost]
