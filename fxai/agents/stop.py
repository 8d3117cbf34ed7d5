"""Stop conditions: when a run ends though the model would go on.

They are asked after each step, unless it was the last one anyway. Calls of the step have run.

>>> from fxai.agents.step import Step
>>> from fxai.messages.part import Finish, ToolCall
>>> from fxai.messages.response import Response
>>> steps = Steps([Step(1, Response((ToolCall("c1", "answer", {}), Finish("tool-calls"))))])
>>> step_count_is(2)(steps), has_tool_call("answer")(steps)
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Never, cast, final

import msgspec
from typing_extensions import TypeAliasType, TypeVar

from fxai.agents.step import Steps
from fxai.effects.effect import EffectOf

__all__ = ["HasToolCall", "StepCountIs", "StopCondition", "has_tool_call", "step_count_is"]

_E = TypeVar("_E", default=Never)
_R = TypeVar("_R", default=None)

StopCondition = TypeAliasType("StopCondition", Callable[[Steps], bool | EffectOf[bool, _E, _R]], type_params=(_E, _R))
"""Whether a run ends after the steps that it is given: any predicate of them, or an effect of the answer."""


@final
class StepCountIs(msgspec.Struct, frozen=True):
    """The condition that there were `number` steps; `step_count_is` makes it."""

    number: int

    def __call__(self, steps: Steps) -> bool:
        """Whether there were as many."""
        return len(steps) >= self.number


@final
class HasToolCall(msgspec.Struct, frozen=True):
    """The condition that the last step called one of some tools; `has_tool_call` makes it."""

    names: tuple[str, ...]

    def __call__(self, steps: Steps) -> bool:
        """Whether it did."""
        return any(call.name in self.names for call in steps[-1].calls)


def step_count_is(number: int) -> StepCountIs:
    """The condition that ends a run after `number` steps, with what there is: unlike a budget, which is a failure.

    Raises:
        ValueError: a run has one step at least.
    """
    if number < 1:
        raise ValueError(f"a run cannot stop after {number} steps: it has one at least")
    return StepCountIs(number)


def has_tool_call(*names: str) -> HasToolCall:
    """The condition that ends a run after a step that called one of these tools; the call is run.

    Raises:
        ValueError: no name is given.
        TypeError: something else is given.
    """
    if not names:
        raise ValueError("has_tool_call needs the name of a tool at least: without one it would never hold")
    for name in names:
        if not isinstance(cast(object, name), str):
            raise TypeError(f"has_tool_call takes the names of tools, one by one, not {name!r}")
    return HasToolCall(names)
