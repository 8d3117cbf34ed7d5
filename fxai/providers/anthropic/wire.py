"""Tools on Anthropic's wire: how each is written in a Messages request.

>>> from fxai.models.preparation import Notes, Settled
>>> from fxai.tools.tool import Tool
>>> ping = Settled(Tool.make("ping"), None)
>>> Writer(Notes(), stream=False, programs="code_execution_20260521").function(ping, "ping", {})
{'name': 'ping', 'input_schema': {'type': 'object', 'properties': {}, 'additionalProperties': False}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.models.preparation import AnyTool, Notes, Settled, options_of, refuse_approval, without_nulls
from fxai.schema.data import is_object
from fxai.tools.annotations import (
    AllowedCallers,
    CacheControl,
    CacheTime,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
)

__all__ = ["TOOLSETS", "Writer", "kind_of", "programs_of", "runs_in_programs"]

_WHERE: Final = "Anthropic's Messages API"

TOOLSETS: Final[Mapping[str, str]] = {
    "computer_toolset_20260801": "computer",
    "browser_toolset_20260801": "browser",
}
"""The tools that the model sees as several, each with what the wire calls the set."""

_Caller: TypeAlias = Literal["direct", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521"]
_PROGRAMS: Final = ("code_execution_20250825", "code_execution_20260120", "code_execution_20260521")

# What each type of tool has a place for, as the official SDK's parameter types have it.
_EVERY: Final = frozenset({"cache_control", "defer_loading", "allowed_callers"})
_OF_OURS: Final = _EVERY | {"eager_input_streaming"}
_OF_TOOLSETS: Final = frozenset({"cache_control"})
_WITH_EXAMPLES: Final = ("bash_", "text_editor_", "memory_")


class _Ephemeral(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="ephemeral"):
    ttl: Literal["5m", "1h"] | None = None


class _Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `provider_options["anthropic"]` of a tool may say; each wins over the annotation of the same meaning."""

    cache_control: _Ephemeral | None = None
    defer_loading: bool | None = None
    allowed_callers: tuple[_Caller, ...] | None = None
    eager_input_streaming: bool | None = None
    betas: tuple[str, ...] = ()


def kind_of(tool: AnyTool) -> str:
    """The type of a tool on the wire: `"custom"` for ours, or what the provider's own tool is."""
    return "custom" if tool.provider is None else tool.provider.id.partition(".")[2]


def programs_of(tools: Iterable[AnyTool]) -> str:
    """What the wire calls a program that calls tools: the code execution among the tools, else the newest there is."""
    return next((kind for kind in map(kind_of, tools) if kind in _PROGRAMS), _PROGRAMS[-1])


def runs_in_programs(extras: Mapping[str, Any]) -> bool:
    """Whether programs may call a tool of which this is said."""
    return any(caller in _PROGRAMS for caller in extras.get("allowed_callers", ()))


@final
class Writer:
    """What writes tools, and notes what the wire has no place for."""

    def __init__(self, notes: Notes, *, stream: bool, programs: str) -> None:
        self._notes = notes
        self._stream = stream
        self._programs = programs

    def takes(self, tool: AnyTool) -> bool:
        """Whether the wire has such tools; notes those that it has not.

        Raises:
            PreparationError: a tool that the provider runs asks for an approval.
        """
        if tool.provider is None or tool.provider.id.startswith("anthropic."):
            refuse_approval(tool)
            return True
        said = f"the tool {tool.name!r} ({tool.provider.id}) is not sent: it is another provider's, and {_WHERE} does"
        self._notes.warn("unsupported-tool", tool.name, f"{said} not know it")
        return False

    def function(self, settled: Settled, wire: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """A tool of ours."""
        tool = settled.tool
        about = {} if tool.description is None else {"description": tool.description}
        flag = {} if settled.strict is None else {"strict": settled.strict}
        schema = {"name": wire, **about, "input_schema": settled.document, **flag}
        return {**schema, **self._examples(settled), **extras}

    def provided(self, settled: Settled, wire: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """A tool of Anthropic's."""
        tool, strict = settled.tool, settled.strict
        kind = kind_of(tool)
        args = without_nulls(msgspec.to_builtins(tool.provider.args if tool.provider else {}))
        name = {} if kind in TOOLSETS else {"name": wire}
        flag = {} if strict is None else {"strict": strict}
        return {"type": kind, **name, **args, **flag, **self._examples(settled), **extras}

    def extras(self, tool: AnyTool) -> dict[str, Any]:
        """What the tool says beside name, description, schema and examples, as far as the wire has a place for it."""
        given = options_of(tool, "anthropic", _Options)
        self._notes.betas += given.betas
        said = {**self._annotated(tool), **without_nulls(msgspec.to_builtins(given))}
        said.pop("betas", None)
        kind = kind_of(tool)
        carried = _OF_OURS if tool.provider is None else _OF_TOOLSETS if kind in TOOLSETS else _EVERY
        for name in [*(name for name in said if name not in carried), *_nowhere(tool)]:
            self._notes.lost(tool, name, _WHERE)
        kept = {name: value for name, value in said.items() if name in carried and value not in (False, ())}
        if "defer_loading" in kept and kept.pop("cache_control", None) is not None:
            why = f"the tool {tool.name!r} is deferred, and {_WHERE} caches no deferred tool: mark another one"
            self._notes.warn("unsupported-option", tool.name, why)
        return kept

    def _annotated(self, tool: AnyTool) -> dict[str, Any]:
        eager = tool.get(EagerInputStreaming)
        if eager is None and self._stream and tool.provider is None:
            eager = True
        said: dict[str, Any] = {
            "cache_control": _ephemeral(tool.get(CacheControl)),
            "defer_loading": tool.get(DeferLoading) or None,
            "allowed_callers": [
                self._programs if caller == "programmatic" else caller for caller in tool.get(AllowedCallers)
            ]
            or None,
            "eager_input_streaming": eager or None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def _examples(self, settled: Settled) -> dict[str, Any]:
        tool, form = settled.tool, settled.form
        if not tool.input_examples:
            return {}
        if tool.provider is not None and not kind_of(tool).startswith(_WITH_EXAMPLES):
            self._notes.lost(tool, "input examples", _WHERE)
            return {}
        examples: list[Any] = []
        for number, example in enumerate(tool.input_examples, 1):
            found = Success(example.parameters) if form is None else form.forth(example.parameters)
            if isinstance(found, Success) and is_object(found.unwrap()):
                examples.append(found.unwrap())
            else:
                why = "it is no object" if isinstance(found, Success) else found.failure()
                said = f"the tool {tool.name!r}: input example {number} is not sent: {why}"
                self._notes.warn("other", tool.name, said)
        return {"input_examples": examples} if examples else {}


def _ephemeral(time: CacheTime | None) -> dict[str, Any] | None:
    if time is None:
        return None
    return {"type": "ephemeral"} if time == "default" else {"type": "ephemeral", "ttl": time}


def _nowhere(tool: AnyTool) -> list[str]:
    missing = {
        "output schema": tool.get(OutputSchema) is not None,
        "namespace": tool.get(Namespace) is not None,
        "description": tool.provider is not None and tool.given_description is not None,
        "strict mode": kind_of(tool) in TOOLSETS and bool(tool.get(Strict)),
    }
    return [what for what, lost in missing.items() if lost]
