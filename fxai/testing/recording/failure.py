"""What a cassette says when it cannot answer: it fails the test, and no handler of failures takes it for an outage.

>>> issubclass(CassetteError, AssertionError)
True
"""

from __future__ import annotations

__all__ = ["CassetteError"]


class CassetteError(AssertionError):
    """A cassette cannot be read, or does not hold what is asked: a mistake of the test, no failure of a model."""
