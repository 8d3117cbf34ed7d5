"""Hosted tools: run by OpenAI, ready for a toolkit; they need no handler.

Each constructor takes what the tool is set up with, the name that it has here, and the options of every tool. What is
left out is not sent, and the provider's own default holds. They exist on Responses, not on Chat Completions.

>>> search = web_search(search_context_size="low", name="look_up")
>>> search.name, search.requires_handler
('look_up', False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Never, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from fxai.providers.openai.setting import (
    Approval,
    Container,
    Filter,
    ImageMask,
    McpTools,
    Ranking,
    SearchFilters,
    Setting,
    Svg,
    UserLocation,
    read_filter,
)
from fxai.schema.fault import SchemaError
from fxai.tools.options import ToolOptions
from fxai.tools.tool import ExternalTool, Tool

__all__ = [
    "ContextSize",
    "HostedTool",
    "ImageArgs",
    "code_interpreter",
    "file_search",
    "hosted",
    "image_generation",
    "mcp",
    "programmatic_tool_calling",
    "web_search",
    "web_search_preview",
]

HostedTool: TypeAlias = ExternalTool[Any, object, Never]
"""A tool that the provider runs: it needs no handler."""

ContextSize: TypeAlias = Literal["low", "medium", "high"]
"""How much of what is found the model gets to read."""


def hosted(kind: str, name: str, args: type[Setting], given: Mapping[str, Any], options: ToolOptions) -> HostedTool:
    """A tool that the provider runs, of the type `kind` on the wire.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    wire = f"mcp:{given['server_label']}" if kind == "mcp" else kind
    make = Tool.provider_defined(id=f"openai.{kind}", name=name, provider_name=wire, args=args, success=object)
    return make(**given, **options)


# -- search


class _WebSearch(Setting, frozen=True):
    search_context_size: ContextSize | None = None
    user_location: UserLocation | None = None
    filters: SearchFilters | None = None
    external_web_access: bool | None = None


def web_search(
    *,
    name: str = "web_search",
    version: Literal["web_search", "web_search_2025_08_26"] = "web_search",
    search_context_size: ContextSize | None = None,
    user_location: UserLocation | None = None,
    filters: SearchFilters | None = None,
    external_web_access: bool | None = None,
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """A search of the web, run by OpenAI.

    Args:
        name: what it is called here.
        version: the current one, or one by its date.
        search_context_size: how much of what is found the model gets to read.
        user_location: about where the user is.
        filters: which domains are searched.
        external_web_access: False: only what the provider has stored.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    given = {"search_context_size": search_context_size, "user_location": user_location, "filters": filters}
    return hosted(version, name, _WebSearch, {**given, "external_web_access": external_web_access}, options)


class _WebSearchPreview(Setting, frozen=True):
    search_context_size: ContextSize | None = None
    search_content_types: tuple[Literal["text", "image"], ...] | None = None
    user_location: UserLocation | None = None


def web_search_preview(
    *,
    name: str = "web_search_preview",
    version: Literal["web_search_preview", "web_search_preview_2025_03_11"] = "web_search_preview",
    search_context_size: ContextSize | None = None,
    search_content_types: Iterable[Literal["text", "image"]] | None = None,
    user_location: UserLocation | None = None,
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """The earlier search of the web, as `web_search`; `search_content_types` says what it looks for.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    types = None if search_content_types is None else tuple(search_content_types)
    given = {"search_context_size": search_context_size, "search_content_types": types, "user_location": user_location}
    return hosted(version, name, _WebSearchPreview, given, options)


class _FileSearch(Setting, frozen=True):
    vector_store_ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    max_num_results: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None
    filters: Any = None
    ranking_options: Ranking | None = None

    def __post_init__(self) -> None:
        if self.filters is not None:
            msgspec.structs.force_setattr(self, "filters", read_filter(self.filters, "filters"))


def file_search(
    *,
    vector_store_ids: Iterable[str],
    name: str = "file_search",
    max_num_results: int | None = None,
    filters: Filter | None = None,
    ranking_options: Ranking | None = None,
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """A search of uploaded files.

    Args:
        vector_store_ids: the stores to search, one at least.
        name: what it is called here.
        max_num_results: from 1 to 50.
        filters: which files, by their attributes.
        ranking_options: how results are ranked.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type or out of its bounds.
    """
    given = {"vector_store_ids": _listed(vector_store_ids), "max_num_results": max_num_results, "filters": filters}
    return hosted("file_search", name, _FileSearch, {**given, "ranking_options": ranking_options}, options)


# -- what the provider runs


class _CodeInterpreter(Setting, frozen=True):
    container: str | Container


def code_interpreter(
    *, name: str = "code_interpreter", container: str | Container | None = None, **options: Unpack[ToolOptions]
) -> HostedTool:
    """Python in a container of OpenAI's.

    Args:
        name: what it is called here.
        container: the id of one that is there, or what a fresh one has; by default a fresh one.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type.
    """
    given = {"container": Container() if container is None else container}
    return hosted("code_interpreter", name, _CodeInterpreter, given, options)


class _Mcp(Setting, frozen=True):
    server_label: Annotated[str, msgspec.Meta(min_length=1)]
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    server_description: str | None = None
    allowed_tools: tuple[str, ...] | McpTools | None = None
    require_approval: Approval | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None


def mcp(
    *,
    server_label: str,
    name: str | None = None,
    server_url: str | None = None,
    connector_id: str | None = None,
    tunnel_id: str | None = None,
    server_description: str | None = None,
    allowed_tools: Iterable[str] | McpTools | None = None,
    require_approval: Approval = "never",
    authorization: str | None = None,
    headers: Mapping[str, str] | None = None,
    **options: Unpack[ToolOptions],
) -> HostedTool:
    """The tools of an MCP server that OpenAI reaches by itself.

    Args:
        server_label: what its calls are told by; `mcp:` and the label is its name among `prepared.names`.
        name: what it is called here; by default its label.
        server_url: where the server is. This, `connector_id` or `tunnel_id` must be given.
        connector_id: a connector of OpenAI's, such as `"connector_gmail"`.
        tunnel_id: a tunnel to a server that is not on the web.
        server_description: what the server is for.
        allowed_tools: which of its tools, by name or by what they do; None: all.
        require_approval: which calls wait for an approval. Here none does by default: OpenAI's own default, every
            call, is `"always"`.
        authorization: an OAuth access token for the server.
        headers: HTTP headers for the server.
        options: see `ToolOptions`.

    Raises:
        SchemaError: an arg of a wrong type, or nothing says where the server is.
    """
    if server_url is None and connector_id is None and tunnel_id is None:
        raise SchemaError(f"the MCP server {server_label!r}: give server_url, connector_id or tunnel_id")
    allowed = allowed_tools if allowed_tools is None or isinstance(allowed_tools, McpTools) else _listed(allowed_tools)
    place = {"server_url": server_url, "connector_id": connector_id, "tunnel_id": tunnel_id}
    access = {"authorization": authorization, "headers": None if headers is None else dict(headers)}
    said = {"server_label": server_label, "server_description": server_description, "allowed_tools": allowed}
    given = {**said, **place, **access, "require_approval": require_approval}
    return hosted("mcp", server_label if name is None else name, _Mcp, given, options)


def programmatic_tool_calling(*, name: str = "programmatic_tool_calling", **options: Unpack[ToolOptions]) -> HostedTool:
    """Programs of the model's that call tools: those that are annotated so with `AllowedCallers`."""
    return hosted("programmatic_tool_calling", name, Setting, {}, options)


class _ImageGeneration(Setting, frozen=True):
    model: str | None = None
    action: Literal["generate", "edit", "auto"] | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: int | None = None
    frame_duration_ms: int | None = None
    input_fidelity: Literal["high", "low"] | None = None
    input_image_mask: ImageMask | None = None
    moderation: Literal["auto", "low"] | None = None
    output_compression: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"] | None = None
    partial_images: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"] | None = None
    size: str | None = None
    svg: Svg | None = None


class ImageArgs(TypedDict, total=False):
    """What `image_generation` may be set up with; what is left out is the provider's own choice."""

    model: str
    """The image model, such as `"gpt-image-2"`."""
    action: Literal["generate", "edit", "auto"]
    """A new image, or the one at hand changed."""
    background: Literal["transparent", "opaque", "auto"]
    """Transparent needs `"png"` or `"webp"`."""
    complexity: Literal["low", "medium", "high"]
    """How much is thought before it paints."""
    frame_count: int
    """How many frames a GIF has."""
    frame_duration_ms: int
    """How long each is shown, in milliseconds."""
    input_fidelity: Literal["high", "low"]
    """How near it stays to images that are given."""
    input_image_mask: ImageMask
    """Which part is painted anew."""
    moderation: Literal["auto", "low"]
    """How strictly content is judged."""
    output_compression: int
    """From 0 to 100."""
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"]
    """The format of the file."""
    partial_images: int
    """How many unfinished images a stream shows, from 0 to 3."""
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    """How good it should be."""
    size: str
    """Such as `"1024x1536"`, or `"auto"`."""
    svg: Svg
    """Who writes an SVG."""


class _ImageOptions(ImageArgs, ToolOptions, total=False):
    """Both, side by side."""


def image_generation(*, name: str = "image_generation", **given: Unpack[_ImageOptions]) -> HostedTool:
    """Images, painted by OpenAI.

    Args:
        name: what it is called here.
        given: see `ImageArgs` and `ToolOptions`.

    Raises:
        SchemaError: an arg that there is none of, of a wrong type or out of its bounds.
    """
    make = Tool.provider_defined(
        id="openai.image_generation",
        name=name,
        provider_name="image_generation",
        args=_ImageGeneration,
        success=object,
    )
    return make(**given)


def _listed(given: Iterable[str]) -> Any:
    # A text is an iterable of texts as well: left as it is, so that it is refused.
    return given if isinstance(given, str) else list(given)
