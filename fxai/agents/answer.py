"""Answers: what a run of an agent gives.

>>> from fxai.messages.part import Finish, Text
>>> Answer((Step(1, Response((Text("Good day."), Finish("stop")))),), Prompt.make("Hello")).text
'Good day.'
"""

from __future__ import annotations

from typing import final

import msgspec
from typing_extensions import override

from fxai.messages.part import FinishReason
from fxai.messages.pending import Pending
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.messages.usage import Usage

__all__ = ["Answer", "Step"]


@final
class Step(msgspec.Struct, frozen=True):
    """One round of a run: the model's turn and the results of its calls."""

    number: int
    """Which round, from 1."""
    response: Response

    @override
    def __hash__(self) -> int:
        return hash(self.number)


@final
class Answer(msgspec.Struct, frozen=True):
    """What a run gave: its steps, and the whole conversation."""

    steps: tuple[Step, ...]
    history: Prompt
    """What was said before, and everything since: a run can go on from it."""

    @property
    def text(self) -> str:
        """The text of the last turn."""
        return self.steps[-1].response.text

    @property
    def response(self) -> Response:
        """The last turn."""
        return self.steps[-1].response

    @property
    def usage(self) -> Usage:
        """The tokens of all steps."""
        return sum((step.response.usage for step in self.steps), Usage())

    @property
    def finish_reason(self) -> FinishReason:
        """Why the last turn ended; `"pending"` where approvals or calls of others are open, which is no failure."""
        return self.steps[-1].response.finish_reason

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait to be approved, or for somebody else's result; it goes on from `history` with those."""
        return self.history.pending if self.finish_reason == "pending" else self.response.pending

    @override
    def __hash__(self) -> int:
        return hash(self.history)
