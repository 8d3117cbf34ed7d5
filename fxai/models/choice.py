"""Tool choices: which tools a model may, or must, call.

>>> ToolChoice.one_of(["add", "weather"], mode="required").allows("add")
True
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal, TypeAlias, final

import msgspec

__all__ = ["ToolChoice", "ToolChoices", "allowed", "narrowed", "refusal"]


@final
class ToolChoice(msgspec.Struct, frozen=True):
    """A choice among named tools; where none is named, use `"auto"`, `"none"` or `"required"`."""

    names: tuple[str, ...]
    """The tools that may be called."""
    mode: Literal["auto", "required", "tool"] = "auto"
    """`"auto"`: one of them or none. `"required"`: one of them. `"tool"`: the one that is named."""

    @staticmethod
    def tool(name: str) -> ToolChoice:
        """The model must call this tool."""
        return ToolChoice((name,), "tool")

    @staticmethod
    def one_of(names: Iterable[str], *, mode: Literal["auto", "required"] = "auto") -> ToolChoice:
        """The model is shown these tools alone; with `mode="required"` it must call one of them.

        Raises:
            ValueError: there is no name.
        """
        chosen = tuple(names)
        if not chosen:
            raise ValueError('ToolChoice.one_of needs a name at least; to allow no tool, say "none"')
        return ToolChoice(chosen, mode)

    def allows(self, name: str) -> bool:
        """Whether a call of the tool `name` is within the choice."""
        return name in self.names


ToolChoices: TypeAlias = Literal["auto", "none", "required"] | ToolChoice
"""`"auto"` (any tool or none), `"none"`, `"required"` (any tool), or a choice among named ones."""


def allowed(choice: ToolChoices, name: str) -> bool:
    """Whether `choice` allows a call of the tool `name`."""
    return choice.allows(name) if isinstance(choice, ToolChoice) else choice != "none"


def narrowed(choice: ToolChoice, tools: Container[str]) -> ToolChoices:
    """What is left of a choice where only `tools` are there.

    Where none of its tools is, nothing is required: `"auto"` in place of the one tool that had to be called, and
    `"none"` in place of several that alone were allowed.

    >>> narrowed(ToolChoice.one_of(["add", "weather"]), {"add"}).names, narrowed(ToolChoice.tool("add"), ())
    (('add',), 'auto')
    """
    left = tuple(name for name in choice.names if name in tools)
    if left:
        return choice if len(left) == len(choice.names) else ToolChoice(left, choice.mode)
    return "auto" if choice.mode == "tool" else "none"


def refusal(choice: ToolChoices) -> str:
    """Why a call outside `choice` was not run, for the model."""
    if isinstance(choice, ToolChoice):
        return f"the tool choice of this turn allows only: {', '.join(choice.names)}"
    return "the tool choice of this turn allows no tool"
