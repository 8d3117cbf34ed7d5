"""Steps: what one round of a run came to.

>>> from fxai.messages.part import Finish, ToolCall, ToolResult
>>> said = (ToolCall("c1", "add", {"a": 1, "b": 2}), ToolResult("c1", "add", 3), Finish("tool-calls"))
>>> step = Step(1, Response(said))
>>> [call.name for call in step.calls], [result.result for result in step.results]
(['add'], [3])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

from fxai.messages.part import FinishReason, ToolCall, ToolResult, Usage, WarningPart
from fxai.messages.response import Response
from fxai.tools.tool import Tool

__all__ = ["Step", "Steps"]

_S = TypeVar("_S")


@final
class Step(msgspec.Struct, frozen=True):
    """One round of a run: the model's turn and the results of its calls."""

    number: int
    """Which round, from 1."""
    response: Response

    @property
    def text(self) -> str:
        """What the model said in it."""
        return self.response.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model made, in order; `dynamic` marks those of tools that no type describes."""
        return self.response.tool_calls

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results in the order of the calls; before them those of calls that were approved before this step.

        `result` is the value of the tool's type, or what failed; `dynamic` marks those of tools that no type describes.
        """
        return self.response.tool_results

    def results_of(self, tool: Tool[Any, _S, Any]) -> tuple[Result[_S, Any], ...]:
        """What came of the calls of one tool, with its type: a success each, or what failed."""
        named = [result for result in self.results if result.name == tool.name]
        return tuple([Failure(one.result) if one.is_failure else Success(cast(_S, one.result)) for one in named])

    @property
    def usage(self) -> Usage:
        """The tokens that it took."""
        return self.response.usage

    @property
    def warnings(self) -> tuple[WarningPart, ...]:
        """What was asked for and not done."""
        return self.response.warnings

    @property
    def finish_reason(self) -> FinishReason:
        """Why the model's turn ended."""
        return self.response.finish_reason

    @override
    def __hash__(self) -> int:
        return hash(self.number)


@final
class Steps(Sequence[Step]):
    """The steps of a run so far, the first one first. It does not change when the run goes on."""

    # A view of the first `length` steps of a list that only ever grows: a tuple would copy all of them each round.
    __slots__ = ("_length", "_steps")

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._length = len(steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...
    @override
    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        if isinstance(index, slice):
            return tuple([self._steps[at] for at in range(*index.indices(self._length))])
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(f"step {index} of {self._length}")
        return self._steps[place]

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def __iter__(self) -> Iterator[Step]:
        return iter(self[:])

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and self[:] == other[:]

    @override
    def __hash__(self) -> int:
        return hash(self[:])

    @override
    def __repr__(self) -> str:
        return f"Steps({list(self[:])!r})"
