"""Identities and names of tools. fxai uses this module to find handlers and to send allowed names to a provider.

A tool can have any name. Providers allow letters, digits, `_`, and `-`, and limit the length. For each request, fxai
creates a `NameMap` from the tools of the request. It converts names in both directions.

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
from functools import cached_property, partial
from threading import RLock
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, final
from weakref import ref

import msgspec
from typing_extensions import override

from fxai.schema.fault import SchemaError

Kind: TypeAlias = Literal["user-defined", "dynamic", "provider-defined"]
"""The constructor of a tool: `Tool.make`, `Tool.dynamic`, or `Tool.provider_defined`."""

FailureMode: TypeAlias = Literal["error", "return"]
"""The channel of a handler's typed failure: the error channel, or the model as the result of the call."""


@final
class Identity:
    """The defining values of a tool, as the key of its handler.

    These values are the kind, the first name, the schemas of the parameters, success, and failure, the failure mode,
    and the validation of raw parameters. A provider's tool also has its id and args.

    Equal values have one identity object. Each call of a tool looks up the identity several times, and Python compares
    and hashes an object without a call of a Python function.
    """

    __slots__ = ("__weakref__", "_parts", "kind", "name")

    kind: Kind
    """The kind of the tool."""
    name: str
    """The name from the constructor of the tool."""
    _parts: tuple[Any, ...]

    def __new__(cls, *parts: Any) -> Identity:
        """Return the identity of these values."""
        key = hash(parts)
        with _LOCK:
            for reference in _IDENTITIES.get(key, ()):
                if (known := reference()) is not None and known._parts == parts:
                    return known
            made = object.__new__(cls)
            made._parts = parts
            made.kind, made.name = parts[:2]
            _IDENTITIES[key] = (*_IDENTITIES.get(key, ()), ref(made, partial(_forget, key)))
        return made

    def with_mode(self, mode: FailureMode) -> Identity:
        """Return the identity of the tool with another failure mode."""
        return Identity(*self._parts[:5], mode, *self._parts[6:])

    @override
    def __repr__(self) -> str:
        return f"the handler of the tool {self.name!r}"

    @override
    def __reduce__(self) -> tuple[type[Identity], tuple[Any, ...]]:
        return (Identity, self._parts)


# By the hash of their values. A reference to the values would keep a tool alive that one of the values refers to.
_IDENTITIES: Final[dict[int, tuple[ref[Identity], ...]]] = {}
_LOCK: Final = RLock()  # reentrant: the garbage collector can call `_forget` while the thread has the lock


def _forget(key: int, _: ref[Identity]) -> None:
    with _LOCK:
        alive = tuple([one for one in _IDENTITIES.pop(key, ()) if one() is not None])
        if alive:
            _IDENTITIES[key] = alive


@final
class ProviderTool(msgspec.Struct, frozen=True):
    """The provider's data of a tool that the provider defines.

    >>> from fxai.tools.tool import Tool
    >>> search = Tool.provider_defined(id="acme.search", name="Search", provider_name="search")()
    >>> search.provider.id, search.requires_handler
    ('acme.search', False)
    """

    id: str
    """The provider and its tool, such as `"openai.web_search"`."""
    name: str | None
    """The provider's name of the tool. None means the tool's own name."""
    args: msgspec.Struct
    """The settings of the tool."""
    requires_handler: bool = False
    """True if the provider sends the calls to this program."""

    @staticmethod
    def of(
        id: str, name: str | None, args: type[msgspec.Struct], given: Mapping[str, Any], *, requires_handler: bool
    ) -> ProviderTool:
        """Return the provider's data of a tool with these args.

        Raises:
            SchemaError: If an arg is missing, unknown, or of a wrong type.
        """
        unknown = set(given) - set(args.__struct_fields__)
        if unknown:
            there = ", ".join(args.__struct_fields__) or "none"
            raise SchemaError(f"{id}: unknown argument {', '.join(sorted(map(repr, unknown)))}. Use one of: {there}")
        names = {field.name: field.encode_name for field in msgspec.structs.fields(args)}
        try:
            # a JSON value, so that msgspec also validates nested Structs
            plain = msgspec.to_builtins({names[key]: value for key, value in given.items()})
            return ProviderTool(id, name, msgspec.convert(plain, args), requires_handler)
        except (msgspec.ValidationError, TypeError) as error:
            raise SchemaError(f"{id}: invalid arguments: {error}") from None

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name))


# -- names in requests


class _Named(Protocol):
    """The naming data of a tool."""

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
    """An error for two tools that would have the same name in a request."""


@final
class NameRule(msgspec.Struct, frozen=True):
    """The name rule of a provider: `length` letters, digits, `_`, and `-`. OpenAI allows 64, Anthropic allows 128."""

    length: int = 64
    """Maximum number of characters."""

    def of(self, name: str) -> str:
        """Return the name for a request. `__` replaces each run of other characters.

        If a name is too long or contains letters of another script, it ends with a digest of itself. Without the
        digest, two names in another script would become the same name.
        """
        plain = re.sub(r"[^a-zA-Z0-9_-]+", "__", name)
        if len(plain) <= self.length and name.isascii() and plain:
            return plain
        from hashlib import sha256

        digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
        return f"{plain[: self.length - 9]}_{digest}"


@final
class NameMap(msgspec.Struct, frozen=True, dict=True):
    """The names of a request's tools, in both directions. Unknown names stay unchanged."""

    _sent: Mapping[str, str]

    @cached_property
    def _meant(self) -> Mapping[str, str]:
        return {wire: name for name, wire in self._sent.items()}

    @staticmethod
    def of(tools: Iterable[_Named], rule: NameRule) -> NameMap:
        """Return the map for `tools`. Tools of the provider have its names, and `rule` converts other names.

        Raises:
            NameConflictError: If two tools would have the same name. The message contains both.
        """
        sent: dict[str, str] = {}
        meant: dict[str, str] = {}
        for tool in tools:
            given = None if tool.provider is None else tool.provider.name
            wire = rule.of(tool.name) if given is None else given
            if wire in meant and meant[wire] != tool.name:
                raise NameConflictError(
                    f"tools {meant[wire]!r} and {tool.name!r} have the same name {wire!r} in the request. Rename one."
                )
            sent[tool.name] = wire
            meant[wire] = tool.name
        return NameMap(sent)

    @property
    def names(self) -> Mapping[str, str]:
        """A map from the name in the request to the tool's own name."""
        return MappingProxyType(self._meant)

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self._sent.items()))

    def __contains__(self, name: str) -> bool:
        """Return True if the request has a tool with this name."""
        return name in self._sent

    def sent(self, name: str) -> str:
        """Return the name in the request of the tool `name`."""
        return self._sent.get(name, name)

    def meant(self, wire: str) -> str:
        """Return the tool's own name for a name in the request."""
        return self._meant.get(wire, wire)


# -- tools with the same name


OnConflict: TypeAlias = Literal["error", "first", "last"]
"""The reaction to two different tools with the same name: an error (default), keep the first, or keep the last."""


class ToolConflictError(ValueError):
    """An error for two different tools with the same name."""


def join_by_name(chosen: Mapping[str, _T], more: Iterable[_T], on_conflict: OnConflict) -> dict[str, _T]:
    """Return the tools of `chosen` by name, followed by the tools of `more`.

    Raises:
        ToolConflictError: If two different tools have the same name and `on_conflict` is `"error"`.
    """
    joined = dict(chosen)
    for tool in more:
        before = joined.get(tool.name)
        if before is None or on_conflict == "last":
            joined[tool.name] = tool
        elif on_conflict == "error" and before != tool:
            raise ToolConflictError(
                f"two different tools have the name {tool.name!r}: {_about(before)} and {_about(tool)}. Rename or "
                'prefix one, or set on_conflict to "first" or "last".'
            )
    return joined


def newcomers(
    now: tuple[Mapping[str, _T], Mapping[str, _T]],
    before: tuple[Mapping[str, _T], Mapping[str, _T]],
    chosen: Mapping[str, _T],
) -> tuple[tuple[set[str], set[str]], list[str]]:
    """Return the names to remove from two live toolkits with a name conflict. The existing tool stays.

    If both tools are new, the tool of the first toolkit stays.

    Args:
        now: The current tools of both toolkits.
        before: The tools of both toolkits at the time of `chosen`.
        chosen: The merged tools at that time, by name.

    Returns:
        The names to remove from the first and from the second toolkit, and the names of the new tools among them.
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
    made = f", created as {tool.identity.name!r}" if tool.identity.name != tool.name else ""
    return f"a {tool.identity.kind} tool ({tool.description or 'no description'}{made})"
