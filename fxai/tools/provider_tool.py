"""What a provider knows a tool by, when the provider defines it.

>>> from fxai.tools.tool import Tool
>>> search = Tool.provider_defined(id="acme.search", name="Search", provider_name="search")()
>>> search.provider.id, search.requires_handler
('acme.search', False)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import msgspec
from typing_extensions import override

from fxai.schema.fault import SchemaError

__all__ = ["ProviderTool"]


@final
class ProviderTool(msgspec.Struct, frozen=True):
    """What a provider knows a tool by."""

    id: str
    """The provider and its tool, such as `"openai.web_search"`."""
    name: str
    """What the provider calls it."""
    args: msgspec.Struct
    """What it is set up with."""
    requires_handler: bool = False
    """Whether its calls come back to us."""

    @staticmethod
    def of(
        id: str, name: str, args: type[msgspec.Struct], given: Mapping[str, Any], *, requires_handler: bool
    ) -> ProviderTool:
        """What a provider knows a tool by, with the args that were given.

        Raises:
            SchemaError: an arg is missing, of a wrong type, or there is none of that name.
        """
        unknown = set(given) - set(args.__struct_fields__)
        if unknown:
            there = ", ".join(args.__struct_fields__) or "none"
            raise SchemaError(f"{id} has no argument {', '.join(sorted(map(repr, unknown)))}: there are {there}")
        try:
            return ProviderTool(id, name, msgspec.convert(dict(given), args), requires_handler)
        except msgspec.ValidationError as error:
            raise SchemaError(f"the arguments of {id} do not fit: {error}") from None

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name))
