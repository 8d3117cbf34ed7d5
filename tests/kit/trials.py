"""The number of examples of a law. Use it for each `max_examples`, because a fixed number ignores the profile."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_LEAST = 10


def examples(number: int) -> int:
    """Return a number of examples that follows the Hypothesis profile of the run.

    Args:
        number: Examples for a profile with Hypothesis's own default, 100. A profile with 40 draws 40 % of it, but at
            least 10 examples, or `number` if that is less.
    """
    return max(min(number, _LEAST), number * settings().max_examples // 100)
