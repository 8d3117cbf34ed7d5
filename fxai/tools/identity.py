"""Identities: what makes a tool this tool and no other, under any name and with any annotations.

>>> from fxai.tools.tool import Tool
>>> ping = Tool.make("ping")
>>> ping.prefix("net.").identity == ping.identity, Tool.make("ping", success=str).identity == ping.identity
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.schema.fault import SchemaError

__all__ = ["FailureMode", "Identity", "Kind", "ProviderTool"]

Kind: TypeAlias = Literal["user-defined", "dynamic", "provider-defined"]
"""How a tool was made: by `Tool.make`, `Tool.dynamic` or `Tool.provider_defined`."""

FailureMode: TypeAlias = Literal["error", "return"]
"""Where a typed failure of the handler goes: into the error channel, or to the model as the call's result."""


@final
class Identity:
    """What a tool's constructor was given that makes it this tool and no other: handlers are found by it.

    Its parts are the kind, the first name, the schemas of parameters, success and failure, the failure mode, how raw
    parameters are validated, and for a provider's tool its id and args. It is also the key of the tool's handler in
    a context, so its hash is computed once.
    """

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Any) -> None:
        self._parts = parts
        self._hash = hash(parts)

    @property
    def kind(self) -> Kind:
        """How the tool was made."""
        kind: Kind = self._parts[0]
        return kind

    @property
    def name(self) -> str:
        """The name that the tool was made with."""
        name: str = self._parts[1]
        return name

    def with_mode(self, mode: FailureMode) -> Identity:
        """The identity of the tool with another failure mode."""
        return Identity(*self._parts[:5], mode, *self._parts[6:])

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Identity) and self._parts == other._parts)

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"the handler of the tool {self.name!r}"

    def __reduce__(self) -> tuple[type[Identity], tuple[Any, ...]]:
        return (Identity, self._parts)


@final
class ProviderTool(msgspec.Struct, frozen=True):
    """What a provider knows a tool by, when the provider defines it.

    >>> from fxai.tools.tool import Tool
    >>> search = Tool.provider_defined(id="acme.search", name="Search", provider_name="search")()
    >>> search.provider.id, search.requires_handler
    ('acme.search', False)
    """

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
