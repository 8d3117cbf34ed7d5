"""Names on the wire: what a tool is called in a request to a provider, and which tool a name in its answer means.

Tools may have any name; providers allow letters, digits, `_` and `-`, and not too many of them. A `NameMap` is made
for each request, from its tools, and leads both ways.

>>> from fxai.tools.tool import Tool
>>> names = NameMap.of([Tool.make("Calculator.add"), Tool.make("ping")], NameRule(64))
>>> names.sent("Calculator.add"), names.meant("Calculator__add"), names.meant("ping")
('Calculator__add', 'Calculator.add', 'ping')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import msgspec
from typing_extensions import override

if TYPE_CHECKING:
    from fxai.tools.tool import AnyTool

__all__ = ["NameConflictError", "NameMap", "NameRule"]


class NameConflictError(ValueError):
    """Two tools would have one name on the wire."""


@final
class NameRule(msgspec.Struct, frozen=True):
    """What a provider allows: `length` letters, digits, `_` and `-`. OpenAI allows 64, Anthropic 128."""

    length: int = 64

    def of(self, name: str) -> str:
        """The name on the wire: each other run of signs is `__`; one that is too long ends in a digest of itself."""
        plain = re.sub(r"[^a-zA-Z0-9_-]+", "__", name)
        if len(plain) <= self.length:
            return plain
        from hashlib import sha256

        digest = sha256(name.encode()).hexdigest()[:8]
        return f"{plain[: self.length - 9]}_{digest}"


@final
class NameMap:
    """The names of one request's tools, both ways; a name that it does not know stands for itself."""

    __slots__ = ("_meant", "_sent")

    def __init__(self, sent: Mapping[str, str]) -> None:
        self._sent = dict(sent)
        self._meant = {wire: name for name, wire in sent.items()}

    @staticmethod
    def of(tools: Iterable[AnyTool], rule: NameRule) -> NameMap:
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

    def sent(self, name: str) -> str:
        """What the tool `name` is called on the wire."""
        return self._sent.get(name, name)

    def meant(self, wire: str) -> str:
        """Which tool is meant by a name on the wire."""
        return self._meant.get(wire, wire)
