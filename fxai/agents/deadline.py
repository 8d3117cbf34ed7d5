"""Deadlines: when a run is cut.

>>> from fxai.effects import fx
>>> def cut():
...     clock = yield from fx.reference(Clock)
...     return (yield from Deadline.after(clock, 0).cut(fx.succeed("done")))
>>> fx.run(fx.gen(cut)()) is LATE
True
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from fxai.effects.cause import Cause, Fail
from fxai.effects.clock import Clock
from fxai.effects.effect import EffectOf, FailCause, Fold, Succeed, Timeout
from fxai.effects.exit import Exit, Succeeded

__all__ = ["LATE", "Deadline"]


@final
class _Late:
    """Stands for the value of what was cut."""


LATE: Final = _Late()


@final
class Deadline(msgspec.Struct, frozen=True, eq=False):
    """When a run is cut."""

    clock: Clock
    at: float
    """By the clock's `monotonic`."""

    @staticmethod
    def after(clock: Clock, seconds: float) -> Deadline:
        """The deadline `seconds` from now."""
        return Deadline(clock, clock.monotonic() + seconds)

    def cut(self, effect: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        """The effect, which gives `LATE` where it is not over by then."""
        left = self.at - self.clock.monotonic()
        if left <= 0:
            return Succeed(LATE)
        # The exit is the value, so that a `Timeout` that the effect failed with is not taken for this one.
        return Fold(effect.exit().timeout(left), _late, _outcome)


def _late(cause: Cause[Timeout]) -> EffectOf[Any, Any, Any]:
    others = tuple(reason for reason in cause.reasons if not isinstance(reason, Fail))
    return FailCause(Cause(others)) if others else Succeed(LATE)


def _outcome(end: Exit[Any, Any]) -> EffectOf[Any, Any, Any]:
    return Succeed(end.value) if isinstance(end, Succeeded) else FailCause(end.cause)
