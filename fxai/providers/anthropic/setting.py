"""Settings: what Anthropic's own tools are set up with, where that has parts of its own.

>>> UserLocation(city="Oslo", country="NO").city
'Oslo'
"""

from __future__ import annotations

from typing import TypeAlias, final

import msgspec

__all__ = [
    "AllSources",
    "Citations",
    "ExceptSources",
    "Member",
    "NoSources",
    "OnlySources",
    "Setting",
    "ToolReference",
    "UrlSource",
    "UrlSources",
    "UserLocation",
]


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What all settings are: what is None is not sent, and the provider's own default holds."""


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


@final
class Member(Setting, frozen=True):
    """One action of a toolset: whether the model has it, and whether it must search for it first."""

    enabled: bool | None = None
    defer_loading: bool | None = None
