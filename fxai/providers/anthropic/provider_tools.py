"""Tools that Anthropic defines: hosted tools, which Anthropic runs, and local tools, which your handler runs.

Each constructor accepts the settings of the tool, its name in the toolkit, and the options of every tool
(`ToolOptions`). An invalid argument raises a `SchemaError`. fxai does not send omitted settings, so that the provider
uses its default. The default version is the newest.

>>> search = web_search(max_uses=2, user_location=UserLocation(city="Oslo", country="NO"))
>>> search.name, search.requires_handler
('web_search', False)
>>> shell = bash(name="shell")
>>> shell.name, shell.provider.name, shell.requires_handler
('shell', 'bash', True)
>>> msgspec.convert({"command": "view", "path": "a.txt"}, EditorCommand)
View(path='a.txt', view_range=None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, cast, final, overload

import msgspec
from typing_extensions import Unpack

from fxai.models.prepared_tools import HostedTool, Setting, UserLocation, hosted_tool, local_tool
from fxai.providers.anthropic.computer_use import BrowserAction, BrowserConfigs, ComputerAction, ComputerConfigs
from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.tools.tool import Tool
from fxai.tools.tool_options import ToolOptions

_Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


@final
class Citations(Setting, frozen=True):
    """The setting of citations. True if the answer cites the fetched pages."""

    enabled: bool | None = None


@final
class ToolReference(Setting, frozen=True, tag_field="type", tag="tool_reference"):
    """A tool, by its name in the request to Anthropic."""

    name: str


@final
class AllSources(Setting, frozen=True, tag_field="type", tag="all"):
    """Permission to fetch every URL of a source."""


@final
class NoSources(Setting, frozen=True, tag_field="type", tag="none"):
    """A rule against fetching any URL of a source."""


@final
class OnlySources(Setting, frozen=True, tag_field="type", tag="only"):
    """Permission to fetch URLs in the results of these tools."""

    tools: tuple[ToolReference, ...]


@final
class ExceptSources(Setting, frozen=True, tag_field="type", tag="except"):
    """Permission to fetch URLs in the results of all other tools."""

    tools: tuple[ToolReference, ...]


UrlSource: TypeAlias = AllSources | NoSources | OnlySources | ExceptSources
"""The URLs of a source that the tool can fetch."""


@final
class UrlSources(Setting, frozen=True):
    """The sources of URLs that the tool can fetch: results of your tools, of the provider's tools, and user input."""

    client_tool_results: UrlSource | None = None
    server_tool_results: UrlSource | None = None
    user_input: AllSources | NoSources | None = None


# -- search and fetch

SearchVersion: TypeAlias = Literal["20250305", "20260209", "20260318"]
"""The versions of the web search. From 20260209 on, programs can filter the results."""


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
    """Create a search of the web that Anthropic runs.

    Args:
        name: The name of the tool in the toolkit.
        version: The version. By default the newest.
        max_uses: The maximum number of searches in one request.
        allowed_domains: The only domains to search. You cannot combine them with `blocked_domains`.
        blocked_domains: Domains to exclude.
        user_location: The approximate location of the user.
        response_inclusion: The inclusion of results that only a program has read. From version 20260318 on.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type, if the version does not support it, or if both lists are set.
    """
    given: dict[str, Any] = {"max_uses": max_uses, "user_location": user_location}
    given |= _domains("web_search", allowed_domains, blocked_domains)
    if response_inclusion is not None:
        given["response_inclusion"] = response_inclusion
    args = _WebSearch20260318 if version == "20260318" else _WebSearch
    return hosted_tool(f"anthropic.web_search_{version}", name, "web_search", args, given, options)


FetchVersion: TypeAlias = Literal["20250910", "20260209", "20260309", "20260318"]
"""The versions of the web fetch. From 20260209 on, programs can filter the pages."""


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
    """The settings of `web_fetch` except domains. By default, the provider's defaults apply."""

    max_uses: int
    """The maximum number of fetches in one request."""
    citations: Citations
    """The setting of citations. True if the answer cites the fetched pages."""
    max_content_tokens: int
    """The approximate maximum size of a page for the model, in tokens."""
    url_sources: UrlSources
    """The sources of URLs that the tool can fetch."""
    use_cache: bool
    """True if a cached copy is sufficient. From version 20260309 on."""
    response_inclusion: Literal["full", "excluded"]
    """The inclusion of pages that only a program has read. From version 20260318 on."""


class _FetchOptions(FetchArgs, ToolOptions, total=False):
    """The settings of `web_fetch` and the options of every tool."""


def web_fetch(
    *,
    name: str = "web_fetch",
    version: FetchVersion = "20260318",
    allowed_domains: Iterable[str] | None = None,
    blocked_domains: Iterable[str] | None = None,
    **given: Unpack[_FetchOptions],
) -> HostedTool:
    """Create a tool that fetches pages and PDFs by their URLs. Anthropic runs it.

    Args:
        name: The name of the tool in the toolkit.
        version: The version. By default the newest.
        allowed_domains: The only domains to fetch from. You cannot combine them with `blocked_domains`.
        blocked_domains: Domains to exclude.
        given: Other settings. See `FetchArgs` and `ToolOptions`.

    Raises:
        SchemaError: If an argument has a wrong type, if the version does not support it, or if both lists are set.
    """
    domains = _domains("web_fetch", allowed_domains, blocked_domains)
    return hosted_tool(
        f"anthropic.web_fetch_{version}", name, "web_fetch", _FETCHES.get(version, _WebFetch), domains, given
    )


def _domains(tool: str, allowed: Iterable[str] | None, blocked: Iterable[str] | None) -> dict[str, Any]:
    if allowed is not None and blocked is not None:
        raise SchemaError(f"{tool}: allowed_domains and blocked_domains are both set. Set only one of them.")
    lists = {"allowed_domains": allowed, "blocked_domains": blocked}
    # A string is also an iterable of strings. It stays unchanged, so that the check rejects it.
    return {key: given if isinstance(given, str) else list(given) for key, given in lists.items() if given is not None}


def code_execution(
    *,
    name: str = "code_execution",
    version: Literal["20250522", "20250825", "20260120", "20260521"] = "20260521",
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """Create a tool for code in Anthropic's container. From 20250825 on, it has a shell, and code can call tools."""
    return hosted_tool(f"anthropic.code_execution_{version}", name, "code_execution", Setting, {}, options)


def tool_search(
    *, name: str = "tool_search", by: Literal["bm25", "regex"] = "bm25", **options: Unpack[ToolOptions]
) -> HostedTool:
    """Create a search for tools with `DeferLoading`. It searches by words (`"bm25"`) or by a pattern (`"regex"`)."""
    return hosted_tool(
        f"anthropic.tool_search_tool_{by}_20251119", name, f"tool_search_tool_{by}", Setting, {}, options
    )


@final
class BashCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command line for a persistent shell, or a request to restart the shell."""

    command: str | None = None
    """The command line, or None with `restart`."""
    restart: bool = False
    """True to start the shell again."""


class _Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """A command for an editor or a memory."""


@final
class View(_Command, frozen=True, tag="view"):
    """Show a file or the contents of a folder."""

    path: str
    """The path of the file or folder."""
    view_range: tuple[int, int] | None = None
    """The first and the last line, from 1; -1 is the end. None shows all lines."""


@final
class Create(_Command, frozen=True, tag="create"):
    """Write a file with the text `file_text`."""

    path: str
    file_text: str


@final
class StrReplace(_Command, frozen=True, tag="str_replace"):
    """Replace `old_str` with `new_str`. The file must contain `old_str` exactly once."""

    path: str
    old_str: str
    new_str: str = ""


@final
class Insert(_Command, frozen=True, tag="insert"):
    """Insert text after a line. Line 0 is the start of the file."""

    path: str
    insert_line: int
    insert_text: str


@final
class InsertNewStr(_Command, frozen=True, tag="insert"):
    """The command `Insert` of the editor of January 2025."""

    path: str
    insert_line: int
    new_str: str


@final
class UndoEdit(_Command, frozen=True, tag="undo_edit"):
    """Undo the last change of a file. Only the editor of January 2025 has this command."""

    path: str


@final
class Delete(_Command, frozen=True, tag="delete"):
    """Delete a file or a folder of the memory."""

    path: str


@final
class Rename(_Command, frozen=True, tag="rename"):
    """Rename or move a file or a folder of the memory."""

    old_path: str
    new_path: str


EditorCommand: TypeAlias = View | Create | StrReplace | Insert
"""The commands of the text editor."""

EditorCommand20250124: TypeAlias = View | Create | StrReplace | InsertNewStr | UndoEdit
"""The commands of the text editor of January 2025."""

MemoryCommand: TypeAlias = View | Create | StrReplace | Insert | Delete | Rename
"""The commands of the memory. Paths start with `/memories`."""


class TextContent(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text for the model."""

    text: str


class ImageContent(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """An image for the model: its media type, such as `"image/png"`, and its bytes."""

    media_type: str
    data: bytes


ToolContent: TypeAlias = TextContent | ImageContent
"""The result of an action of a computer or a browser: text or an image."""

_EDITOR: Schema[EditorCommand] = Schema.of(EditorCommand)
_EDITOR_20250124: Schema[EditorCommand20250124] = Schema.of(EditorCommand20250124)
_MEMORY: Schema[MemoryCommand] = Schema.of(MemoryCommand)
_COMPUTER: Schema[ComputerAction] = Schema.of(ComputerAction)
_BROWSER: Schema[BrowserAction] = Schema.of(BrowserAction)


def bash(*, name: str = "bash", **options: Unpack[ToolOptions]) -> Tool[BashCommand, str, str]:
    """Create a tool for a shell on this machine. Its handler keeps the shell open and returns its output."""
    return local_tool("anthropic.bash_20250124", name, "bash", BashCommand, str)(**options)


class _Editor(Setting, frozen=True):
    max_characters: Annotated[int, msgspec.Meta(ge=1)] | None = None


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
    """Create a tool for an editor of files on this machine. Its handler runs the command and returns the output.

    Args:
        name: The name of the tool in the toolkit.
        version: The version. By default 20250728, for Claude 4 and newer. The version of January 2025 can undo.
        max_characters: The maximum number of characters of a file to show. Only in 20250728.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type, or if the version does not support it.
    """
    wire = "str_replace_editor" if version == "20250124" else "str_replace_based_edit_tool"
    parameters = cast("Schema[Any]", _EDITOR_20250124 if version == "20250124" else _EDITOR)
    args = _Editor if version == "20250728" else Setting
    make = local_tool(f"anthropic.text_editor_{version}", name, wire, parameters, str, args)
    return make(**({} if max_characters is None else {"max_characters": max_characters}), **options)


def memory(*, name: str = "memory", **options: Unpack[ToolOptions]) -> Tool[MemoryCommand, str, str]:
    """Create a tool for files that the model keeps between conversations. Its handler stores the files."""
    return local_tool("anthropic.memory_20250818", name, "memory", _MEMORY, str)(**options)


class _ComputerToolset(Setting, frozen=True):
    configs: ComputerConfigs | None = None


def computer_toolset(
    *, name: str = "computer", configs: ComputerConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[ComputerAction, list[ToolContent], str]:
    """Create a tool for a computer. The model sees a tool for each action.

    Args:
        name: The name of the tool in the toolkit.
        configs: The actions of the model.
        options: The options of every tool.
    """
    id_ = "anthropic.computer_toolset_20260801"
    make = local_tool(id_, name, "computer", _COMPUTER, list[ToolContent], _ComputerToolset)
    return make(configs=configs, **options)


class _BrowserToolset(Setting, frozen=True):
    configs: BrowserConfigs | None = None


def browser_toolset(
    *, name: str = "browser", configs: BrowserConfigs | None = None, **options: Unpack[ToolOptions]
) -> Tool[BrowserAction, list[ToolContent], str]:
    """Create a tool for a browser. The model sees a tool for each action.

    Args:
        name: The name of the tool in the toolkit.
        configs: The actions of the model.
        options: The options of every tool.
    """
    id_ = "anthropic.browser_toolset_20260801"
    make = local_tool(id_, name, "browser", _BROWSER, list[ToolContent], _BrowserToolset)
    return make(configs=configs, **options)
