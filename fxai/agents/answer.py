"""Answers: what a run of an agent gives.

>>> from fxai.messages.part import Finish, Text
>>> Answer((Step(1, Response((Text("Good day."), Finish("stop")))),), Prompt.make("Hello")).text
'Good day.'
"""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.agents.step import Step
from fxai.messages.calls import Pending
from fxai.messages.part import FinishReason, Usage
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response

__all__ = ["Answer", "Ended"]

_O_co = TypeVar("_O_co", covariant=True, default=str)

Ended: TypeAlias = Literal["done", "stopped", "limit", "pending"]
"""How a run ended.

`done`: the model had no more to do, or its turn was cut (`finish_reason` says which). `stopped`: a stop condition held.
`limit`: its budget was spent, and it was told to answer all the same. `pending`: calls wait for somebody else.
"""


@final
class Answer(msgspec.Struct, Generic[_O_co], frozen=True):
    """What a run gave: its steps, the whole conversation, and the output, of type `O`."""

    steps: tuple[Step, ...]
    history: Prompt
    """What was said before, and everything since: a run can go on from it."""
    ended: Ended = "done"
    typed: bool = False
    """Whether an output type was asked for."""
    value: _O_co | msgspec.UnsetType = msgspec.UNSET
    """The typed output, where there is one; `output` is what is read."""

    @property
    def output(self) -> _O_co:
        """The typed answer; where no output type was asked for, the text.

        Raises:
            LookupError: the run ended before there was one: calls wait, a stop condition held, or the budget was spent
                (`ended` says which).
        """
        if not self.typed:
            return cast(_O_co, self.text)
        if self.value is msgspec.UNSET:
            raise LookupError(f"there is no output, because the run ended otherwise: {self._why_untyped()}")
        return self.value

    @property
    def text(self) -> str:
        """The text of the last turn; where a limit ended the run, of the last turn that said any."""
        if self.ended == "limit":
            return next((said for step in reversed(self.steps) if (said := step.text)), "")
        return self.steps[-1].text

    @property
    def response(self) -> Response:
        """The last turn."""
        return self.steps[-1].response

    @property
    def usage(self) -> Usage:
        """The tokens of all steps."""
        return sum((step.usage for step in self.steps), Usage())

    @property
    def finish_reason(self) -> FinishReason:
        """Why the last turn ended; `"pending"` where approvals or calls of others are open, which is no failure."""
        return self.steps[-1].finish_reason

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait to be approved, or for somebody else's result; it goes on from `history` with those."""
        return self.history.pending if self.finish_reason == "pending" else self.response.pending

    def _why_untyped(self) -> str:
        if self.ended == "pending":
            waiting = ", ".join(one.name for one in self.pending)
            return f"calls wait ({waiting}); answer them, and go on from `history`"
        if self.ended == "stopped":
            return "a stop condition held first; look at `steps`, or go on from `history`"
        return f"its budget was spent, and the last text does not fit; allow more, or go on from `history`: {self.text}"

    @override
    def __hash__(self) -> int:
        return hash(self.history)
