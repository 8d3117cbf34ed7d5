"""Tools of Anthropic's own: what the provider runs, or defines and asks us to run, ready for a toolkit.

Each constructor takes what the tool is set up with, the name that it has here, and the options of every tool. What is
left out is not sent, and the provider's own default holds. The version is the newest unless another one is asked for.

>>> shell = bash(name="shell")
>>> shell.name, shell.provider.name, shell.requires_handler
('shell', 'bash', True)
>>> web_search(max_uses=2).requires_handler
False
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Never, TypeAlias, TypedDict, cast, overload

import msgspec
from typing_extensions import Unpack

from fxai.providers.anthropic.browser import BrowserAction, BrowserConfigs
from fxai.providers.anthropic.computer import ComputerAction, ComputerConfigs
from fxai.providers.anthropic.editing import BashCommand, EditorCommand, EditorCommand20250124, MemoryCommand
from fxai.providers.anthropic.setting import Citations, Setting, UrlSources, UserLocation
from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.tools.options import ToolOptions
from fxai.tools.tool import ExternalTool, Tool

__all__ = [
    "FetchArgs",
    "FetchVersion",
    "HostedTool",
    "ImageContent",
    "SearchVersion",
    "TextContent",
    "ToolContent",
    "bash",
    "browser_toolset",
    "code_execution",
    "computer_toolset",
    "memory",
    "text_editor",
    "tool_search",
    "web_fetch",
    "web_search",
]

HostedTool: TypeAlias = ExternalTool[Any, object, Never]
"""A tool that the provider runs: it needs no handler."""

_Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


def _hosted(kind: str, wire: str, name: str, args: type[Setting], given: Mapping[str, Any], options: Any) -> HostedTool:
    make = Tool.provider_defined(id=f"anthropic.{kind}", name=name, provider_name=wire, args=args, success=object)
    return make(**given, **options)


# -- what the provider runs

SearchVersion: TypeAlias = Literal["20250305", "20260209", "20260318"]
"""The versions of the web search. From 20260209 on, what is found may be filtered by programs."""


class _WebSearch(Setting, frozen=True):
    max_uses: _Positive | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    user_location: UserLocation | None = None


class _WebSearch20260318(_WebSearch, frozen=True):
    response_inclusion: Literal["full", "excluded"] | None = None


def web_search(
    *,
    name: str = "web_search",
    version: SearchVersion = "20260318",
    max_uses: int | None = None,
    allowed_domains: Iterable[str] | None = None,
    blocked_domains: Iterable[str] | None = None,
    user_location: UserLocation | None = None,
    response_inclusion: Literal["full", "excluded"] | None = None,
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """A search of the web, run by Anthropic.

    Args:
        name: what it is called here.
        version: the newest, or another one.
        max_uses: how often it may search in one request.
        allowed_domains: the only domains; not together with `blocked_domains`.
        blocked_domains: all domains but these.
        user_location: about where the user is.
        response_inclusion: whether the response holds results that only a program has read; from 20260318 on.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type, one that the version has not, or both lists of domains.
    """
    given: dict[str, Any] = {"max_uses": max_uses, "user_location": user_location}
    given |= _domains("web_search", allowed_domains, blocked_domains)
    if response_inclusion is not None:
        given["response_inclusion"] = response_inclusion
    args = _WebSearch20260318 if version == "20260318" else _WebSearch
    return _hosted(f"web_search_{version}", "web_search", name, args, given, options)


FetchVersion: TypeAlias = Literal["20250910", "20260209", "20260309", "20260318"]
"""The versions of the web fetch. From 20260209 on, what is fetched may be filtered by programs."""


class _WebFetch(Setting, frozen=True):
    max_uses: _Positive | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    citations: Citations | None = None
    max_content_tokens: _Positive | None = None
    url_sources: UrlSources | None = None


class _WebFetch20260309(_WebFetch, frozen=True):
    use_cache: bool | None = None


class _WebFetch20260318(_WebFetch20260309, frozen=True):
    response_inclusion: Literal["full", "excluded"] | None = None


_FETCHES: Mapping[str, type[_WebFetch]] = {"20260309": _WebFetch20260309, "20260318": _WebFetch20260318}


class FetchArgs(TypedDict, total=False):
    """What `web_fetch` may be set up with beside domains; what is left out is the provider's own default."""

    max_uses: int
    """How often it may fetch in one request."""
    citations: Citations
    """Whether the answer cites what was fetched."""
    max_content_tokens: int
    """How much of a page the model gets, in tokens, about."""
    url_sources: UrlSources
    """Where a URL must stand to be fetched."""
    use_cache: bool
    """Whether a stored copy will do; from 20260309 on."""
    response_inclusion: Literal["full", "excluded"]
    """Whether the response holds pages that only a program has read; from 20260318 on."""


class _FetchOptions(FetchArgs, ToolOptions, total=False):
    """Both, side by side."""


def web_fetch(
    *,
    name: str = "web_fetch",
    version: FetchVersion = "20260318",
    allowed_domains: Iterable[str] | None = None,
    blocked_domains: Iterable[str] | None = None,
    **given: Unpack[_FetchOptions],
) -> HostedTool:
    """Pages and PDFs by their URLs, fetched by Anthropic.

    Args:
        name: what it is called here.
        version: the newest, or another one.
        allowed_domains: the only domains; not together with `blocked_domains`.
        blocked_domains: all domains but these.
        given: see `FetchArgs` and `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type, one that the version has not, or both lists of domains.
    """
    domains = _domains("web_fetch", allowed_domains, blocked_domains)
    return _hosted(f"web_fetch_{version}", "web_fetch", name, _FETCHES.get(version, _WebFetch), domains, given)


def _domains(tool: str, allowed: Iterable[str] | None, blocked: Iterable[str] | None) -> dict[str, Any]:
    if allowed is not None and blocked is not None:
        raise SchemaError(f"{tool} takes allowed_domains or blocked_domains, not both")
    lists = {"allowed_domains": allowed, "blocked_domains": blocked}
    # A text is an iterable of texts as well: left as it is, so that it is refused.
    return {key: given if isinstance(given, str) else list(given) for key, given in lists.items() if given is not None}


def code_execution(
    *,
    name: str = "code_execution",
    version: Literal["20250522", "20250825", "20260120", "20260521"] = "20260521",
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """Code in a container of Anthropic's; from 20250825 on with a shell, and tools can be called from it."""
    return _hosted(f"code_execution_{version}", "code_execution", name, Setting, {}, options)


def tool_search(
    *, name: str = "tool_search", by: Literal["bm25", "regex"] = "bm25", **options: Unpack[ToolOptions]
) -> HostedTool:
    """The search that finds tools annotated with `DeferLoading`: by words (`"bm25"`) or by a pattern (`"regex"`)."""
    return _hosted(f"tool_search_tool_{by}_20251119", f"tool_search_tool_{by}", name, Setting, {}, options)


# -- what we run


class TextContent(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A text for the model."""

    text: str


class ImageContent(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture for the model: its media type, such as `"image/png"`, and its bytes."""

    media_type: str
    data: bytes


ToolContent: TypeAlias = TextContent | ImageContent
"""What an action of a computer or a browser gives: words or a picture."""

_EDITOR: Schema[EditorCommand] = Schema[Any].of(cast(object, EditorCommand))
_EDITOR_20250124: Schema[EditorCommand20250124] = Schema[Any].of(cast(object, EditorCommand20250124))
_MEMORY: Schema[MemoryCommand] = Schema[Any].of(cast(object, MemoryCommand))
_COMPUTER: Schema[ComputerAction] = Schema[Any].of(cast(object, ComputerAction))
_BROWSER: Schema[BrowserAction] = Schema[Any].of(cast(object, BrowserAction))


def bash(*, name: str = "bash", **options: Unpack[ToolOptions]) -> Tool[BashCommand, str, str]:
    """A shell on this machine; its handler keeps it open from call to call and gives what it wrote."""
    make = Tool.provider_defined(
        id="anthropic.bash_20250124",
        name=name,
        provider_name="bash",
        requires_handler=True,
        parameters=BashCommand,
        success=str,
        failure=str,
    )
    return make(**options)


class _Editor(Setting, frozen=True):
    max_characters: _Positive | None = None


@overload
def text_editor(
    *,
    name: str = ...,
    version: Literal["20250728", "20250429"] = ...,
    max_characters: int | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[EditorCommand, str, str]: ...
@overload
def text_editor(
    *, name: str = ..., version: Literal["20250124"], **options: Unpack[ToolOptions]
) -> Tool[EditorCommand20250124, str, str]: ...
def text_editor(
    *,
    name: str = "text_editor",
    version: Literal["20250728", "20250429", "20250124"] = "20250728",
    max_characters: int | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """An editor of files on this machine; its handler does what is asked and gives what the model should see.

    Args:
        name: what it is called here.
        version: 20250728 (Claude 4 and newer), or an earlier one; that of January 2025 can undo.
        max_characters: how much of a file is shown at most; in 20250728 alone.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type, or one that the version has not.
    """
    make = Tool.provider_defined(
        id=f"anthropic.text_editor_{version}",
        name=name,
        provider_name="str_replace_editor" if version == "20250124" else "str_replace_based_edit_tool",
        requires_handler=True,
        args=_Editor if version == "20250728" else Setting,
        parameters=cast("Schema[Any]", _EDITOR_20250124 if version == "20250124" else _EDITOR),
        success=str,
        failure=str,
    )
    return make(**({} if max_characters is None else {"max_characters": max_characters}), **options)


def memory(*, name: str = "memory", **options: Unpack[ToolOptions]) -> Tool[MemoryCommand, str, str]:
    """Files that the model keeps from one conversation to the next; its handler stores them."""
    make = Tool.provider_defined(
        id="anthropic.memory_20250818",
        name=name,
        provider_name="memory",
        requires_handler=True,
        parameters=_MEMORY,
        success=str,
        failure=str,
    )
    return make(**options)


class _ComputerToolset(Setting, frozen=True):
    configs: ComputerConfigs | None = None


def computer_toolset(
    *, name: str = "computer", configs: ComputerConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[ComputerAction, list[ToolContent], str]:
    """A computer that the model uses: one tool here, on the wire a tool for each action.

    Args:
        name: what it is called here.
        configs: which actions the model has.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    make = Tool.provider_defined(
        id="anthropic.computer_toolset_20260801",
        name=name,
        provider_name="computer",
        requires_handler=True,
        args=_ComputerToolset,
        parameters=_COMPUTER,
        success=list[ToolContent],
        failure=str,
    )
    return make(configs=configs, **options)


class _BrowserToolset(Setting, frozen=True):
    configs: BrowserConfigs | None = None


def browser_toolset(
    *, name: str = "browser", configs: BrowserConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[BrowserAction, list[ToolContent], str]:
    """A browser that the model uses: one tool here, on the wire a tool for each action.

    Args:
        name: what it is called here.
        configs: which actions the model has.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    make = Tool.provider_defined(
        id="anthropic.browser_toolset_20260801",
        name=name,
        provider_name="browser",
        requires_handler=True,
        args=_BrowserToolset,
        parameters=_BROWSER,
        success=list[ToolContent],
        failure=str,
    )
    return make(configs=configs, **options)
