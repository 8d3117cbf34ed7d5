"""Settings: what OpenAI's own tools are set up with, where that has parts of its own.

>>> UserLocation(city="Oslo", country="NO").city
'Oslo'
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import msgspec

__all__ = [
    "Approval",
    "ApprovalRules",
    "ComparisonFilter",
    "CompoundFilter",
    "Container",
    "ContainerAuto",
    "ContainerReference",
    "DomainSecret",
    "Filter",
    "Grammar",
    "HostedContainer",
    "HybridSearch",
    "ImageMask",
    "InlineSkill",
    "LocalEnvironment",
    "LocalSkill",
    "McpTools",
    "MemoryLimit",
    "NetworkAllowlist",
    "NetworkDisabled",
    "Ranking",
    "SearchFilters",
    "Setting",
    "Skill",
    "SkillReference",
    "SkillSource",
    "Svg",
    "SvgReasoning",
    "UserLocation",
    "read_filter",
]


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What all settings are: what is None is not sent, and the provider's own default holds."""


# -- web search


@final
class UserLocation(Setting, frozen=True, tag_field="type", tag="approximate"):
    """About where the user is.

    Attributes:
        city: Its name.
        country: Two letters, as ISO 3166-1 has them.
        region: Its name.
        timezone: As IANA names it, such as `"Europe/Oslo"`.
    """

    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


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
        said, _, inside = str(error).removesuffix("`").partition(" - at `$")
        raise msgspec.ValidationError(f"{said} - at `$.{place}{inside}`") from None


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


@final
class LocalSkill(Setting, frozen=True):
    """A skill in a folder of this machine."""

    name: str
    description: str
    path: str


@final
class LocalEnvironment(Setting, frozen=True, tag_field="type", tag="local"):
    """This machine: a handler runs the commands."""

    skills: tuple[LocalSkill, ...] | None = None


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


# -- custom tools


@final
class Grammar(Setting, frozen=True, tag_field="type", tag="grammar"):
    """The input is a sentence of a grammar, in the syntax of Lark or as a regular expression."""

    syntax: Literal["lark", "regex"]
    definition: str
