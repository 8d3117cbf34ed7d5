"""Budgets: how much one run of an agent may take.

>>> print(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity.")))
the model still called tools after 10 rounds: allow more with Budget(rounds=…), or go on from `history`
"""

from __future__ import annotations

from typing import Literal, final

import msgspec
from typing_extensions import override

from fxai.messages.prompt import Prompt

__all__ = ["Budget", "BudgetExceeded"]


@final
class Budget(msgspec.Struct, frozen=True):
    """How much one run may take. `rounds`: how often the model is asked, 10 unless said otherwise."""

    rounds: int = 10

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"a budget of {self.rounds} rounds would never ask the model: allow one at least")


@final
class BudgetExceeded(msgspec.Struct, frozen=True):
    """The failure of a run that its budget cut: what ran out, how much there was, and the conversation so far."""

    what: Literal["rounds"]
    limit: int
    history: Prompt

    @override
    def __str__(self) -> str:
        return (
            f"the model still called tools after {self.limit} {self.what}: allow more with Budget({self.what}=…), "
            "or go on from `history`"
        )
