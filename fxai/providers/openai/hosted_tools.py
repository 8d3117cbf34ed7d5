"""Hosted tools: run by OpenAI, ready for a toolkit; they need no handler.

Each constructor takes what the tool is set up with, its name in the toolkit, and the options of every tool
(`ToolOptions`); a wrong argument is a `SchemaError`. What is left out is not sent, and the provider's own default
holds. They exist on Responses, not on Chat Completions.

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
    """Which domains are searched, their subdomains with them; None: all."""

    allowed_domains: tuple[str, ...] | None = None


# -- file search


@final
class ComparisonFilter(Setting, frozen=True):
    """Files whose attribute `key` stands so to `value`."""

    key: str
    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    value: str | int | float | bool | tuple[str | int | float, ...]


@final
class CompoundFilter(Setting, frozen=True):
    """Files that all (`"and"`) or any (`"or"`) of the filters take: comparisons, or such filters again."""

    filters: tuple[Any, ...]
    type: Literal["and", "or"]

    def __post_init__(self) -> None:
        """Read the filters inside, so that a wrong one is found before the request."""
        inner = tuple(read_filter(one, f"filters[{at}]") for at, one in enumerate(self.filters))
        msgspec.structs.force_setattr(self, "filters", inner)


Filter: TypeAlias = ComparisonFilter | CompoundFilter
"""Which files are searched, by their attributes."""


def read_filter(given: Any, place: str) -> Filter:
    """A filter, of either kind, from a value or plain data.

    Args:
        given: a filter, or the plain data of one.
        place: where it stands, such as `"filters[1]"`, for the message where it is none.

    Raises:
        msgspec.ValidationError: it is none.
    """
    plain = msgspec.to_builtins(given)
    kind: type[Filter] = CompoundFilter if isinstance(plain, dict) and "filters" in plain else ComparisonFilter
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        problem, _, inside = str(error).removesuffix("`").partition(" - at `$")
        raise msgspec.ValidationError(f"{problem} - at `$.{place}{inside}`") from None


@final
class HybridSearch(Setting, frozen=True):
    """How much meaning and how much words weigh."""

    embedding_weight: float
    text_weight: float


@final
class Ranking(Setting, frozen=True):
    """How results are ranked.

    Attributes:
        ranker: Which ranker.
        score_threshold: From 0 to 1; nearer to 1 gives fewer and better results.
        hybrid_search: The weights, where both searches are on.
    """

    ranker: Literal["auto", "default-2024-11-15"] | None = None
    score_threshold: float | None = None
    hybrid_search: HybridSearch | None = None


# -- containers

MemoryLimit: TypeAlias = Literal["1g", "4g", "16g", "64g"]
"""How much memory a container has."""


@final
class DomainSecret(Setting, frozen=True):
    """A secret that is put into requests to one domain, so that the code never sees it."""

    domain: str
    name: str
    value: str


@final
class NetworkDisabled(Setting, frozen=True, tag_field="type", tag="disabled"):
    """No network."""


@final
class NetworkAllowlist(Setting, frozen=True, tag_field="type", tag="allowlist"):
    """Only these domains."""

    allowed_domains: tuple[str, ...]
    domain_secrets: tuple[DomainSecret, ...] | None = None


@final
class Container(Setting, frozen=True, tag_field="type", tag="auto"):
    """A fresh container for the code interpreter, with files, memory and network."""

    file_ids: tuple[str, ...] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkDisabled | NetworkAllowlist | None = None


@final
class SkillReference(Setting, frozen=True, tag_field="type", tag="skill_reference"):
    """A skill that was uploaded before; `version` None: the default one."""

    skill_id: str
    version: str | None = None


@final
class SkillSource(Setting, frozen=True, tag_field="type", tag="base64"):
    """A skill's files, as a zip in base64."""

    data: str
    media_type: Literal["application/zip"]


@final
class InlineSkill(Setting, frozen=True, tag_field="type", tag="inline"):
    """A skill that comes with the request."""

    name: str
    description: str
    source: SkillSource


Skill: TypeAlias = SkillReference | InlineSkill
"""Instructions and files that the model can load."""


@final
class ContainerAuto(Setting, frozen=True, tag_field="type", tag="container_auto"):
    """A fresh container for the shell, with files, memory, network and skills."""

    file_ids: tuple[str, ...] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkDisabled | NetworkAllowlist | None = None
    skills: tuple[Skill, ...] | None = None


@final
class ContainerReference(Setting, frozen=True, tag_field="type", tag="container_reference"):
    """A container that is there already."""

    container_id: str


HostedContainer: TypeAlias = ContainerAuto | ContainerReference
"""A container of the provider: what runs in it needs no handler."""


# -- image generation


@final
class ImageMask(Setting, frozen=True):
    """The part of an image that is painted anew: an uploaded file, or the image in base64."""

    file_id: str | None = None
    image_url: str | None = None


@final
class SvgReasoning(Setting, frozen=True):
    """How much the author of an SVG thinks; None: as the author model does by itself."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


@final
class Svg(Setting, frozen=True):
    """Who writes an SVG; only with `output_format="svg"`."""

    model: str | None = None
    reasoning: SvgReasoning | None = None


# -- MCP


@final
class McpTools(Setting, frozen=True):
    """Some of a server's tools: by their names, or those that only read."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None


@final
class ApprovalRules(Setting, frozen=True):
    """Which of a server's tools always need an approval, and which never."""

    always: McpTools | None = None
    never: McpTools | None = None


Approval: TypeAlias = Literal["always", "never"] | ApprovalRules
"""Which calls of a server's tools wait for an approval."""


ContextSize: TypeAlias = Literal["low", "medium", "high"]
"""How much of what is found the model gets to read."""


def openai_tool(
    kind: str, name: str, args: type[Setting], given: Mapping[str, Any], options: ToolOptions
) -> HostedTool:
    """A tool that the provider runs, of the type `kind` on the wire."""
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
    """A search of the web, run by OpenAI.

    Args:
        name: its name in the toolkit.
        version: the current one, or one by its date.
        search_context_size: how much of what is found the model gets to read.
        user_location: about where the user is.
        filters: which domains are searched.
        external_web_access: False: only what the provider has stored.
        options: those of every tool.
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
    """The earlier search of the web, as `web_search`; `search_content_types` says what it looks for."""
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
    """A search of uploaded files.

    Args:
        vector_store_ids: the stores to search, one at least.
        name: its name in the toolkit.
        max_num_results: from 1 to 50.
        filters: which files, by their attributes.
        ranking_options: how results are ranked.
        options: those of every tool.
    """
    given = {"vector_store_ids": _as_list(vector_store_ids), "max_num_results": max_num_results, "filters": filters}
    return openai_tool("file_search", name, _FileSearch, {**given, "ranking_options": ranking_options}, options)


# -- what the provider runs


class _CodeInterpreter(Setting, frozen=True):
    container: str | Container


def code_interpreter(
    *, name: str = "code_interpreter", container: str | Container | None = None, **options: Unpack[ToolOptions]
) -> HostedTool:
    """Python in a container of OpenAI's.

    Args:
        name: its name in the toolkit.
        container: the id of one that is there, or what a fresh one has; by default a fresh one.
        options: those of every tool.
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
    """The tools of an MCP server that OpenAI reaches by itself.

    Args:
        server_label: what its calls name; `mcp:` and the label is its name among `prepared.names`.
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
        options: those of every tool.

    Raises:
        SchemaError: an arg of a wrong type, or nothing says where the server is.
    """
    if server_url is None and connector_id is None and tunnel_id is None:
        raise SchemaError(f"the MCP server {server_label!r}: give server_url, connector_id or tunnel_id")
    allowed = allowed_tools if allowed_tools is None or isinstance(allowed_tools, McpTools) else _as_list(allowed_tools)
    place = {"server_url": server_url, "connector_id": connector_id, "tunnel_id": tunnel_id}
    access = {"authorization": authorization, "headers": None if headers is None else dict(headers)}
    about = {"server_label": server_label, "server_description": server_description, "allowed_tools": allowed}
    given = {**about, **place, **access, "require_approval": require_approval}
    return openai_tool("mcp", server_label if name is None else name, _Mcp, given, options)


class _ServerTool(Setting, frozen=True):
    type: str
    fields: Mapping[str, Any] = {}


def server_tool(
    type: str, fields: Mapping[str, Any] | None = None, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> HostedTool:
    """A tool that a server of Chat Completions runs, sent as it says: `{"type": type, **fields}`.

    Such as `server_tool("browser_search")` at Groq, or `server_tool("openrouter:web_search")` at OpenRouter. OpenAI's
    own Chat Completions runs none: its search is the option `web_search_options`.

    Args:
        type: its type on the wire.
        fields: what else it says there, as plain JSON data.
        name: what it is called here; by default its type.
        options: those of every tool.

    Raises:
        SchemaError: an arg of a wrong type.

    >>> server_tool("browser_search").name
    'browser_search'
    """
    given = {"type": type, "fields": {} if fields is None else dict(fields)}
    return hosted_tool(
        "openai.server_tool", type if name is None else name, f"server:{type}", _ServerTool, given, options
    )


def programmatic_tool_calling(*, name: str = "programmatic_tool_calling", **options: Unpack[ToolOptions]) -> HostedTool:
    """Programs of the model's that call tools: those that are annotated so with `AllowedCallers`."""
    return openai_tool("programmatic_tool_calling", name, Setting, {}, options)


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
    output_compression: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """From 0 to 100."""
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"]
    """The format of the file."""
    partial_images: Annotated[int, msgspec.Meta(ge=0, le=3)]
    """How many unfinished images a stream shows, from 0 to 3."""
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    """How good it should be."""
    size: str
    """Such as `"1024x1536"`, or `"auto"`."""
    svg: Svg
    """Who writes an SVG."""


_ImageGeneration = msgspec.defstruct(
    "_ImageGeneration",
    [(name, kind | None, None) for name, kind in get_type_hints(ImageArgs, include_extras=True).items()],
    bases=(Setting,),
    module=__name__,
    frozen=True,
)


class _ImageOptions(ImageArgs, ToolOptions, total=False):
    """Both, side by side."""


def image_generation(*, name: str = "image_generation", **given: Unpack[_ImageOptions]) -> HostedTool:
    """Images, painted by OpenAI.

    Args:
        name: its name in the toolkit.
        given: see `ImageArgs` and `ToolOptions`.

    Raises:
        SchemaError: an arg that there is none of, of a wrong type or out of its bounds.
    """
    return hosted_tool("openai.image_generation", name, "image_generation", _ImageGeneration, {}, given)


def _as_list(given: Iterable[str]) -> Any:
    # A text is an iterable of texts as well: left as it is, so that it is refused.
    return given if isinstance(given, str) else list(given)
