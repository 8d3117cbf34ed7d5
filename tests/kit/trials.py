"""The number of examples of a law. Use it for each `max_examples`, because a fixed number ignores the profile."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]


def examples(number: int, *, least: int = 10) -> int:
    """Return a number of examples that follows the Hypothesis profile of the run.

    Args:
        number: Examples for a profile with Hypothesis's own default, 100. A profile with 15 draws 15 % of it.
        least: Minimum number of examples, for a law that counts the cases it reaches. Default: 10, or `number` if that
            is less.
    """
    return max(min(number, least), number * settings().max_examples // 100)
