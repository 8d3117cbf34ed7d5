"""Hosted tools that OpenAI runs. Add them to a toolkit. They need no handler.

Each constructor accepts the settings of the tool, its name in the toolkit, and the options of every tool
(`ToolOptions`). An invalid argument raises a `SchemaError`. fxai does not send omitted settings, so that the provider
uses its default. The tools exist on Responses, but not on Chat Completions.

>>> search = web_search(search_context_size="low", name="look_up")
>>> search.name, search.requires_handler
('look_up', False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, final, get_type_hints

import msgspec
from typing_extensions import Unpack

from fxai.models.prepared_tools import HostedTool, Setting, UserLocation, hosted_tool
from fxai.schema.fault import SchemaError
from fxai.tools.tool_options import ToolOptions

# -- web search


@final
class SearchFilters(Setting, frozen=True):
    """The domains to search, including their subdomains. By default all domains."""

    allowed_domains: tuple[str, ...] | None = None


# -- file search


@final
class ComparisonFilter(Setting, frozen=True):
    """A condition on the attribute `key` of files: a comparison with `value`."""

    key: str
    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    value: str | int | float | bool | tuple[str | int | float, ...]


@final
class CompoundFilter(Setting, frozen=True):
    """A combination of filters with `"and"` or `"or"`. The filters are comparisons or combinations."""

    filters: tuple[Any, ...]
    type: Literal["and", "or"]

    def __post_init__(self) -> None:
        """Read the inner filters, so that an invalid filter raises an error before the request."""
        inner = tuple(read_filter(one, f"filters[{at}]") for at, one in enumerate(self.filters))
        msgspec.structs.force_setattr(self, "filters", inner)


Filter: TypeAlias = ComparisonFilter | CompoundFilter
"""The condition on the attributes of the files to search."""


def read_filter(given: Any, location: str) -> Filter:
    """Read a filter of any kind from a value or from plain data. `location` is its location for the error message.

    Raises `msgspec.ValidationError` if the filter is invalid.
    """
    plain = msgspec.to_builtins(given)
    kind: type[Filter] = CompoundFilter if isinstance(plain, dict) and "filters" in plain else ComparisonFilter
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        problem, _, inside = str(error).removesuffix("`").partition(" - at `$")
        raise msgspec.ValidationError(f"{problem} - at `$.{location}{inside}`") from None


@final
class HybridSearch(Setting, frozen=True):
    """The weights of the semantic search and the text search."""

    embedding_weight: float
    text_weight: float


@final
class Ranking(Setting, frozen=True):
    """The ranking of results."""

    ranker: Literal["auto", "default-2024-11-15"] | None = None
    """The ranker."""
    score_threshold: float | None = None
    """The minimum score from 0 to 1. A higher value returns fewer and better results."""
    hybrid_search: HybridSearch | None = None
    """The weights if both searches are active."""


# -- containers

MemoryLimit: TypeAlias = Literal["1g", "4g", "16g", "64g"]
"""The memory of a container."""


@final
class DomainSecret(Setting, frozen=True):
    """A secret that OpenAI adds to requests to one domain. The code never sees it."""

    domain: str
    name: str
    value: str


@final
class NetworkDisabled(Setting, frozen=True, tag_field="type", tag="disabled"):
    """A network policy that blocks all access."""


@final
class NetworkAllowlist(Setting, frozen=True, tag_field="type", tag="allowlist"):
    """A network policy with access to these domains only."""

    allowed_domains: tuple[str, ...]
    domain_secrets: tuple[DomainSecret, ...] | None = None


@final
class Container(Setting, frozen=True, tag_field="type", tag="auto"):
    """A new container for the code interpreter, with files, memory, and network."""

    file_ids: tuple[str, ...] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkDisabled | NetworkAllowlist | None = None


@final
class SkillReference(Setting, frozen=True, tag_field="type", tag="skill_reference"):
    """A skill from an earlier upload. By default in its default version."""

    skill_id: str
    version: str | None = None


@final
class SkillSource(Setting, frozen=True, tag_field="type", tag="base64"):
    """The files of a skill as a zip archive in base64."""

    data: str
    media_type: Literal["application/zip"]


@final
class InlineSkill(Setting, frozen=True, tag_field="type", tag="inline"):
    """A skill inside the request."""

    name: str
    description: str
    source: SkillSource


Skill: TypeAlias = SkillReference | InlineSkill
"""Instructions and files that the model can load."""


@final
class ContainerAuto(Setting, frozen=True, tag_field="type", tag="container_auto"):
    """A new container for the shell, with files, memory, network, and skills."""

    file_ids: tuple[str, ...] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkDisabled | NetworkAllowlist | None = None
    skills: tuple[Skill, ...] | None = None


@final
class ContainerReference(Setting, frozen=True, tag_field="type", tag="container_reference"):
    """An existing container."""

    container_id: str


HostedContainer: TypeAlias = ContainerAuto | ContainerReference
"""A container of the provider. Its commands need no handler."""


# -- image generation


@final
class ImageMask(Setting, frozen=True):
    """The part of an image to repaint: an uploaded file, or an image in base64."""

    file_id: str | None = None
    image_url: str | None = None


@final
class SvgReasoning(Setting, frozen=True):
    """The reasoning of the author of an SVG. By default the default of the author model."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


@final
class Svg(Setting, frozen=True):
    """The author of an SVG. Only with `output_format="svg"`."""

    model: str | None = None
    reasoning: SvgReasoning | None = None


# -- MCP


@final
class McpTools(Setting, frozen=True):
    """A selection of a server's tools by name, or of its read-only tools."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None


@final
class ApprovalRules(Setting, frozen=True):
    """The tools of a server that always need an approval, and the tools that never need an approval."""

    always: McpTools | None = None
    never: McpTools | None = None


Approval: TypeAlias = Literal["always", "never"] | ApprovalRules
"""The calls of a server's tools that need an approval."""


ContextSize: TypeAlias = Literal["low", "medium", "high"]
"""The amount of results that the model reads."""


def openai_tool(
    kind: str, name: str, args: type[Setting], given: Mapping[str, Any], options: ToolOptions
) -> HostedTool:
    """Create a tool that the provider runs, with the OpenAI type `kind`."""
    wire = f"mcp:{given['server_label']}" if kind == "mcp" else kind
    return hosted_tool(f"openai.{kind}", name, wire, args, given, options)


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
    """Create a search of the web that OpenAI runs.

    Args:
        name: The name of the tool in the toolkit.
        version: The current version, or a version by its date.
        search_context_size: The amount of results that the model reads.
        user_location: The approximate location of the user.
        filters: The domains to search.
        external_web_access: False to search only pages that the provider has stored.
        options: The options of every tool.
    """
    given = {"search_context_size": search_context_size, "user_location": user_location, "filters": filters}
    return openai_tool(version, name, _WebSearch, {**given, "external_web_access": external_web_access}, options)


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
    """Create the earlier search of the web. `search_content_types` selects its kinds of results."""
    types = None if search_content_types is None else tuple(search_content_types)
    given = {"search_context_size": search_context_size, "search_content_types": types, "user_location": user_location}
    return openai_tool(version, name, _WebSearchPreview, given, options)


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
    """Create a search of uploaded files.

    Args:
        vector_store_ids: The stores to search, at least one.
        name: The name of the tool in the toolkit.
        max_num_results: The maximum number of results, from 1 to 50.
        filters: The condition on the attributes of files.
        ranking_options: The ranking of results.
        options: The options of every tool.
    """
    given = {"vector_store_ids": _as_list(vector_store_ids), "max_num_results": max_num_results, "filters": filters}
    return openai_tool("file_search", name, _FileSearch, {**given, "ranking_options": ranking_options}, options)


# -- tools in containers and on servers


class _CodeInterpreter(Setting, frozen=True):
    container: str | Container


def code_interpreter(
    *, name: str = "code_interpreter", container: str | Container | None = None, **options: Unpack[ToolOptions]
) -> HostedTool:
    """Create a tool that runs Python in a container of OpenAI.

    Args:
        name: The name of the tool in the toolkit.
        container: The id of an existing container, or the settings of a new container. By default a new container.
        options: The options of every tool.
    """
    given = {"container": Container() if container is None else container}
    return openai_tool("code_interpreter", name, _CodeInterpreter, given, options)


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
    """Create a tool for an MCP server that OpenAI calls.

    Args:
        server_label: The label of the server in calls. In `prepared.names`, its name is `mcp:` and the label.
        name: The name of the tool in the toolkit. By default the label.
        server_url: The address of the server. Set this argument, `connector_id`, or `tunnel_id`.
        connector_id: A connector of OpenAI, such as `"connector_gmail"`.
        tunnel_id: A tunnel to a server without a public address.
        server_description: The purpose of the server.
        allowed_tools: The permitted tools of the server, by name or by kind. By default all tools.
        require_approval: The calls that need an approval. By default none. OpenAI's own default is `"always"`.
        authorization: An OAuth access token for the server.
        headers: HTTP headers for the server.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type, or if the address of the server is missing.
    """
    if server_url is None and connector_id is None and tunnel_id is None:
        raise SchemaError(f"MCP server {server_label!r}: no address. Set server_url, connector_id, or tunnel_id.")
    allowed = allowed_tools if allowed_tools is None or isinstance(allowed_tools, McpTools) else _as_list(allowed_tools)
    location = {"server_url": server_url, "connector_id": connector_id, "tunnel_id": tunnel_id}
    access = {"authorization": authorization, "headers": None if headers is None else dict(headers)}
    about = {"server_label": server_label, "server_description": server_description, "allowed_tools": allowed}
    given = {**about, **location, **access, "require_approval": require_approval}
    return openai_tool("mcp", server_label if name is None else name, _Mcp, given, options)


class _ServerTool(Setting, frozen=True):
    type: str
    fields: Mapping[str, Any] = {}


def server_tool(
    type: str, fields: Mapping[str, Any] | None = None, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> HostedTool:
    """Create a tool that a server of Chat Completions runs. fxai sends `{"type": type, **fields}`.

    Examples are `server_tool("browser_search")` on Groq and `server_tool("openrouter:web_search")` on OpenRouter.
    OpenAI's own Chat Completions runs no such tool. Its search is the option `web_search_options`.

    Args:
        type: The type of the tool on the server.
        fields: The other fields of the tool, as plain JSON data.
        name: The name of the tool in the toolkit. By default its type.
        options: The options of every tool.

    Raises:
        SchemaError: If an argument has a wrong type.

    >>> server_tool("browser_search").name
    'browser_search'
    """
    given = {"type": type, "fields": {} if fields is None else dict(fields)}
    return hosted_tool(
        "openai.server_tool", type if name is None else name, f"server:{type}", _ServerTool, given, options
    )


def programmatic_tool_calling(*, name: str = "programmatic_tool_calling", **options: Unpack[ToolOptions]) -> HostedTool:
    """Create a tool for programs of the model. The programs can call tools with the annotation `AllowedCallers`."""
    return openai_tool("programmatic_tool_calling", name, Setting, {}, options)


class ImageArgs(TypedDict, total=False):
    """The settings of `image_generation`. By default, the provider decides."""

    model: str
    """The image model, such as `"gpt-image-2"`."""
    action: Literal["generate", "edit", "auto"]
    """The action: create a new image, or edit the current image."""
    background: Literal["transparent", "opaque", "auto"]
    """The background. A transparent background requires `"png"` or `"webp"`."""
    complexity: Literal["low", "medium", "high"]
    """The amount of planning before painting."""
    frame_count: int
    """The number of frames of a GIF."""
    frame_duration_ms: int
    """The duration of each frame, in milliseconds."""
    input_fidelity: Literal["high", "low"]
    """The similarity to the input images."""
    input_image_mask: ImageMask
    """The part of the image to repaint."""
    moderation: Literal["auto", "low"]
    """The strictness of moderation."""
    output_compression: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """The compression from 0 to 100."""
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"]
    """The format of the file."""
    partial_images: Annotated[int, msgspec.Meta(ge=0, le=3)]
    """The number of unfinished images in a stream, from 0 to 3."""
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    """The quality of the image."""
    size: str
    """The size, such as `"1024x1536"`, or `"auto"`."""
    svg: Svg
    """The author of an SVG."""


_ImageGeneration = msgspec.defstruct(
    "_ImageGeneration",
    [(name, kind | None, None) for name, kind in get_type_hints(ImageArgs, include_extras=True).items()],
    bases=(Setting,),
    module=__name__,
    frozen=True,
)


class _ImageOptions(ImageArgs, ToolOptions, total=False):
    """The settings of `image_generation` and the options of every tool."""


def image_generation(*, name: str = "image_generation", **given: Unpack[_ImageOptions]) -> HostedTool:
    """Create a tool that generates images. OpenAI runs it.

    Args:
        name: The name of the tool in the toolkit.
        given: The settings. See `ImageArgs` and `ToolOptions`.

    Raises:
        SchemaError: If an argument is unknown, has a wrong type, or is out of bounds.
    """
    return hosted_tool("openai.image_generation", name, "image_generation", _ImageGeneration, {}, given)


def _as_list(given: Iterable[str]) -> Any:
    # A string is also an iterable of strings. It stays unchanged, so that the check rejects it.
    return given if isinstance(given, str) else list(given)
