"""Capabilities: what a model of Anthropic's can do, as far as a request depends on it, by its name.

Unknown models are taken to be like the newest ones, but for the most tokens of an answer.

>>> capability_of("claude-opus-4-8").thinking, capability_of("claude-haiku-4-5-20251001").thinking
('adaptive', 'budget')
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, final

import msgspec

from fxai.providers.anthropic.tool_encoding import supports_strict_tools

__all__ = ["Capability", "Thinking", "capability_of"]

Thinking: TypeAlias = Literal["none", "budget", "adaptive", "always"]
"""How a model thinks before it answers.

`none`: it does not. `budget`: when it is told how many tokens it may think for. `adaptive`: as much as it finds right.
`always`: the same, and it cannot be told not to.
"""


@final
class Capability(msgspec.Struct, frozen=True):
    """What a model can do.

    Attributes:
        most_tokens: The most tokens that it may answer with, thinking among them.
        thinking: How it thinks.
        forced_calls: Whether it can be made to call a tool.
        system_turns: Whether it takes a system message between other messages; on Anthropic's own API alone.
        structured: Whether its answer can be held to a schema.
    """

    most_tokens: int
    thinking: Thinking
    forced_calls: bool
    system_turns: bool
    structured: bool


_NAMED: Final = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d+)(?:[-.](?P<minor>\d{1,2})(?!\d))?(?!\d)")
_NUMBERED: Final = re.compile(r"claude-(?:v|instant-)?(?P<major>\d+)(?:[-.](?P<minor>\d{1,2})(?!\d))?(?!\d)")
_OWN: Final = re.compile(r"claude-[a-z0-9.-]+$")  # not what a cloud calls it: there is none between messages there
_NEWEST: Final[tuple[int, int]] = (99, 0)


def capability_of(model: str) -> Capability:
    """What the model can do, as its name says; from Anthropic's overview of models and their migration guides."""
    found = _NUMBERED.search(model) or _NAMED.search(model)
    version = _version(found)
    family = "" if found is None else str(found.groupdict().get("family", ""))
    thinker = family in ("fable", "mythos")
    return Capability(
        most_tokens=_most_tokens(model, family, version),
        thinking=_thinking(version, thinker=thinker),
        forced_calls=not (thinker and version >= (5, 1)),
        system_turns=_OWN.match(model) is not None and (4, 8) <= version < _NEWEST,
        structured=supports_strict_tools(model),
    )


def _version(found: re.Match[str] | None) -> tuple[int, int]:
    return _NEWEST if found is None else (int(found["major"]), int(found["minor"] or 0))


def _thinking(version: tuple[int, int], *, thinker: bool) -> Thinking:
    if version < (3, 7):
        return "none"
    if version < (4, 6):
        return "budget"
    return "always" if thinker else "adaptive"


def _most_tokens(model: str, family: str, version: tuple[int, int]) -> int:
    """The limit; where it is not known, one that no model of that kind is below."""
    if version == _NEWEST:
        return 64_000 if "claude" in model else 8_192
    if version < (3, 7):
        return 8_192 if version >= (3, 5) else 4_096
    if version < (4, 5) and "opus" in model:
        return 32_000
    return 64_000 if version < (4, 6) or family == "haiku" else 128_000
