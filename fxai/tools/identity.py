"""Identities and names: which tool a tool is, whatever it is called, and what it is called in a request to a provider.

Tools may have any name; providers allow letters, digits, `_` and `-`, and not too many of them. A `NameMap` is made
for each request, from its tools, and leads both ways.

>>> from fxai.tools.tool import Tool
>>> ping, add = Tool.make("ping"), Tool.make("Calculator.add")
>>> ping.prefix("net.").identity == ping.identity, Tool.make("ping", success=str).identity == ping.identity
(True, False)
>>> names = NameMap.of([add, ping], NameRule(64))
>>> names.sent("Calculator.add"), names.meant("Calculator__add"), names.meant("ping")
('Calculator__add', 'Calculator.add', 'ping')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final

import msgspec
from typing_extensions import override

from fxai.schema.fault import SchemaError

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

    __slots__ = ("_hash", "_parts", "kind", "name")

    kind: Kind
    """How the tool was made."""
    name: str
    """The name that the tool was made with."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts
        self._hash = hash(parts)
        self.kind, self.name = parts[:2]

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


# -- names on the wire


class _Named(Protocol):
    """A tool, as far as its name goes."""

    @property
    def identity(self) -> Identity: ...

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str | None: ...

    @property
    def provider(self) -> ProviderTool | None: ...


_T = TypeVar("_T", bound=_Named)


class NameConflictError(ValueError):
    """Two tools would have one name on the wire."""


@final
class NameRule(msgspec.Struct, frozen=True):
    """What a provider allows: `length` letters, digits, `_` and `-`. OpenAI allows 64, Anthropic 128."""

    length: int = 64

    def of(self, name: str) -> str:
        """Return the name on the wire: `__` replaces each run of other signs.

        A name that is too long, or that has letters of another script, ends in a digest of itself. Without the digest,
        two names in another script would be one name.
        """
        plain = re.sub(r"[^a-zA-Z0-9_-]+", "__", name)
        if len(plain) <= self.length and name.isascii() and plain:
            return plain
        from hashlib import sha256

        digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
        return f"{plain[: self.length - 9]}_{digest}"


@final
class NameMap:
    """The names of one request's tools, both ways; a name that it does not know stands for itself."""

    __slots__ = ("_meant", "_sent")

    def __init__(self, sent: Mapping[str, str]) -> None:
        self._sent = dict(sent)
        self._meant = {wire: name for name, wire in sent.items()}

    @staticmethod
    def of(tools: Iterable[_Named], rule: NameRule) -> NameMap:
        """The map for `tools`: a provider's own tool has the provider's name, another one the name that the rule gives.

        Raises:
            NameConflictError: two tools would have one name; it names both.
        """
        sent: dict[str, str] = {}
        meant: dict[str, str] = {}
        for tool in tools:
            given = None if tool.provider is None else tool.provider.name
            wire = rule.of(tool.name) if given is None else given
            if wire in meant and meant[wire] != tool.name:
                raise NameConflictError(
                    f"the tools {meant[wire]!r} and {tool.name!r} would both be sent as {wire!r}: rename or prefix one"
                )
            sent[tool.name] = wire
            meant[wire] = tool.name
        return NameMap(sent)

    @property
    def names(self) -> Mapping[str, str]:
        """From the name on the wire to the tool's own."""
        return MappingProxyType(self._meant)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameMap) and self._sent == other._sent

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self._sent.items()))

    @override
    def __repr__(self) -> str:
        return f"NameMap({self._sent!r})"

    def __reduce__(self) -> tuple[type[NameMap], tuple[dict[str, str]]]:
        return (NameMap, (self._sent,))

    def __contains__(self, name: str) -> bool:
        """Return whether the request has a tool with this name."""
        return name in self._sent

    def sent(self, name: str) -> str:
        """What the tool `name` is called on the wire."""
        return self._sent.get(name, name)

    def meant(self, wire: str) -> str:
        """Which tool is meant by a name on the wire."""
        return self._meant.get(wire, wire)


# -- tools of one name


OnConflict: TypeAlias = Literal["error", "first", "last"]
"""What to do with two different tools of one name: refuse (the default), keep the first, or keep the last."""


class ToolConflictError(ValueError):
    """Two different tools have one name."""


def join_by_name(chosen: Mapping[str, _T], more: Iterable[_T], on_conflict: OnConflict) -> dict[str, _T]:
    """Tools by name, and more of them behind.

    Raises:
        ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
    """
    joined = dict(chosen)
    for tool in more:
        before = joined.get(tool.name)
        if before is None or on_conflict == "last":
            joined[tool.name] = tool
        elif on_conflict == "error" and before != tool:
            raise ToolConflictError(
                f"two different tools are called {tool.name!r}: {_about(before)} and {_about(tool)}; rename or prefix "
                'one, or say on_conflict="first" or "last"'
            )
    return joined


def newcomers(
    now: tuple[Mapping[str, _T], Mapping[str, _T]],
    before: tuple[Mapping[str, _T], Mapping[str, _T]],
    chosen: Mapping[str, _T],
) -> tuple[tuple[set[str], set[str]], list[str]]:
    """What to leave out of two lots of tools where two have come to have one name: the one that was there stays.

    Where both are new, it is the first one's.

    Args:
        now: the tools of both.
        before: those of both at the time of `chosen`.
        chosen: the tools by name that were made of those.

    Returns:
        The names to leave out of the first and of the second, and those of tools that are new.
    """
    first, second = now
    taken = {name for name, tool in first.items() if second.get(name, tool) != tool}
    stays: set[str] = set()
    for name in taken:
        was = chosen.get(name)
        if was is not None and was == before[1].get(name) and was != before[0].get(name):
            stays.add(name)
    return (stays, taken - stays), sorted(name for name in taken if not all(name in tools for tools in before))


def _about(tool: _Named) -> str:
    made = f", made as {tool.identity.name!r}" if tool.identity.name != tool.name else ""
    return f"a {tool.identity.kind} one ({tool.description or 'no description'}{made})"
