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
    name: str | None
    """What the provider calls it; None where it calls it by the tool's own name."""
    args: msgspec.Struct
    """What it is set up with."""
    requires_handler: bool = False
    """Whether its calls come back to us."""

    @staticmethod
    def of(
        id: str, name: str | None, args: type[msgspec.Struct], given: Mapping[str, Any], *, requires_handler: bool
    ) -> ProviderTool:
        """What a provider knows a tool by, with the args that were given.

        Raises:
            SchemaError: an arg is missing, of a wrong type, or there is none of that name.
        """
        unknown = set(given) - set(args.__struct_fields__)
        if unknown:
            there = ", ".join(args.__struct_fields__) or "none"
            raise SchemaError(f"{id} has no argument {', '.join(sorted(map(repr, unknown)))}: there are {there}")
        names = {field.name: field.encode_name for field in msgspec.structs.fields(args)}
        try:
            # As plain data, so that Structs among the args are checked inside as well.
            plain = msgspec.to_builtins({names[key]: value for key, value in given.items()})
            return ProviderTool(id, name, msgspec.convert(plain, args), requires_handler)
        except (msgspec.ValidationError, TypeError) as error:
            raise SchemaError(f"the arguments of {id} do not fit: {error}") from None

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name))
