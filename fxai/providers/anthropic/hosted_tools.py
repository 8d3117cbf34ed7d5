"""Hosted tools: run by Anthropic, ready for a toolkit; they need no handler.

Each constructor takes what the tool is set up with, its name in the toolkit, and the options of every tool
(`ToolOptions`); a wrong argument is a `SchemaError`. What is left out is not sent, and the provider's own default
holds. The version is the newest unless another one is asked for.

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
    """Whether the answer cites what was fetched."""

    enabled: bool | None = None


@final
class ToolReference(Setting, frozen=True, tag_field="type", tag="tool_reference"):
    """A tool, by its name on the wire."""

    name: str


@final
class AllSources(Setting, frozen=True, tag_field="type", tag="all"):
    """Every URL that stands there may be fetched."""


@final
class NoSources(Setting, frozen=True, tag_field="type", tag="none"):
    """No URL that stands there may be fetched."""


@final
class OnlySources(Setting, frozen=True, tag_field="type", tag="only"):
    """URLs in the results of these tools may be fetched."""

    tools: tuple[ToolReference, ...]


@final
class ExceptSources(Setting, frozen=True, tag_field="type", tag="except"):
    """URLs in the results of all tools but these may be fetched."""

    tools: tuple[ToolReference, ...]


UrlSource: TypeAlias = AllSources | NoSources | OnlySources | ExceptSources
"""Which URLs may be fetched, of those that stand somewhere."""


@final
class UrlSources(Setting, frozen=True):
    """Where a URL must stand to be fetched: in results of our tools, of the provider's, in what the user wrote."""

    client_tool_results: UrlSource | None = None
    server_tool_results: UrlSource | None = None
    user_input: AllSources | NoSources | None = None


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
        name: its name in the toolkit.
        version: the newest, or another one.
        max_uses: how often it may search in one request.
        allowed_domains: the only domains; not together with `blocked_domains`.
        blocked_domains: all domains but these.
        user_location: about where the user is.
        response_inclusion: whether the response holds results that only a program has read; from 20260318 on.
        options: those of every tool.

    Raises:
        SchemaError: an arg of a wrong type, one that the version has not, or both lists of domains.
    """
    given: dict[str, Any] = {"max_uses": max_uses, "user_location": user_location}
    given |= _domains("web_search", allowed_domains, blocked_domains)
    if response_inclusion is not None:
        given["response_inclusion"] = response_inclusion
    args = _WebSearch20260318 if version == "20260318" else _WebSearch
    return hosted_tool(f"anthropic.web_search_{version}", name, "web_search", args, given, options)


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
        name: its name in the toolkit.
        version: the newest, or another one.
        allowed_domains: the only domains; not together with `blocked_domains`.
        blocked_domains: all domains but these.
        given: see `FetchArgs` and `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type, one that the version has not, or both lists of domains.
    """
    domains = _domains("web_fetch", allowed_domains, blocked_domains)
    return hosted_tool(
        f"anthropic.web_fetch_{version}", name, "web_fetch", _FETCHES.get(version, _WebFetch), domains, given
    )


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
    return hosted_tool(f"anthropic.code_execution_{version}", name, "code_execution", Setting, {}, options)


def tool_search(
    *, name: str = "tool_search", by: Literal["bm25", "regex"] = "bm25", **options: Unpack[ToolOptions]
) -> HostedTool:
    """The search that finds tools annotated with `DeferLoading`: by words (`"bm25"`) or by a pattern (`"regex"`)."""
    return hosted_tool(
        f"anthropic.tool_search_tool_{by}_20251119", name, f"tool_search_tool_{by}", Setting, {}, options
    )
