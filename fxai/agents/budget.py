"""Budgets: how much one run of an agent may take.

>>> print(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity.")))
the run was not done after 10 rounds: allow more with Budget(rounds=…), or go on from `history`
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.messages.prompt import Prompt

__all__ = ["AtLimit", "Budget", "BudgetExceeded", "Limit", "counted"]

Limit: TypeAlias = Literal["rounds", "tokens", "seconds", "calls"]
"""What a budget may run out of."""

AtLimit: TypeAlias = Literal["fail", "answer", "last_text"]
"""What becomes of a run whose budget is spent before it is done.

`fail`: it fails with `BudgetExceeded`. `answer`: the model is asked once more, and may call no tool. `last_text`: it
ends with the last text that the model said.
"""


def counted(number: float, what: Limit) -> str:
    """So much of what a budget bounds, in words.

    >>> counted(1, "rounds"), counted(0.5, "seconds")
    ('1 round', '0.5 seconds')
    """
    return f"{number:g} {what[:-1] if number == 1 else what}"


@final
class Budget(msgspec.Struct, frozen=True):
    """How much one run may take. A run that is done within it is not touched; one that goes on beyond it is cut.

    A run that goes on from a history counts anew.
    """

    rounds: int = 10
    """How often the model is asked, 10 unless said otherwise."""
    tokens: int | None = None
    """Tokens in and out of all rounds together. What a provider does not tell is not counted. When they are spent the
    model is not asked again; the round that spends them may take more."""
    seconds: float | None = None
    """The time that the run may take, by the `Clock`, from when the sources of its tools are opened and its memory is
    loaded. What is under way when it is up, a question or a call, is cut; handlers are told when that will be, as their
    `deadline`."""
    calls: int | None = None
    """How many calls of tools are run or answered; those beyond it are not run. Calls that the history approved, that
    the provider runs itself or that somebody else answers do not count."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"a budget of {self.rounds} rounds would never ask the model: allow one at least")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"a budget of {self.tokens} tokens would never ask the model: allow one at least")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"a budget of {self.seconds} s is over before the run begins: allow more than none")
        if self.calls is not None and self.calls < 0:
            raise ValueError(f"a budget of {self.calls} calls: there are no fewer than none")


@final
class BudgetExceeded(msgspec.Struct, frozen=True):
    """The failure of a run that its budget cut: what ran out, how much there was, and the conversation so far."""

    what: Limit
    limit: float
    history: Prompt
    """Every call in it has its result: a run can go on from it, with a budget of its own."""

    @override
    def __str__(self) -> str:
        return (
            f"the run was not done after {counted(self.limit, self.what)}: allow more with Budget({self.what}=…), "
            "or go on from `history`"
        )
