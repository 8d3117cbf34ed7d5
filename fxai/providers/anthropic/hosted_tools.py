"""Hosted tools that Anthropic runs. Add them to a toolkit. They need no handler.

Each constructor accepts the settings of the tool, its name in the toolkit, and the options of every tool
(`ToolOptions`). An invalid argument raises a `SchemaError`. fxai does not send omitted settings, so that the provider
uses its default. The default version is the newest.

>>> search = web_search(max_uses=2, user_location=UserLocation(city="Oslo", country="NO"))
>>> search.name, search.requires_handler
('web_search', False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, final

import msgspec
from typing_extensions import Unpack

from fxai.models.prepared_tools import HostedTool, Setting, UserLocation, hosted_tool
from fxai.schema.fault import SchemaError
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
