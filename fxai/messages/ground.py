"""Grounds: what every reason of an `AiError` has.

>>> sentence("Quota exhausted", ""), sentence("Quota exhausted", "no credit left")
('Quota exhausted', 'Quota exhausted: no credit left')
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

__all__ = ["Ground", "place_in", "sentence"]


def sentence(summary: str, description: str) -> str:
    """The summary, with the description behind it where there is one."""
    return f"{summary}: {description}" if description else summary


def place_in(pointer: str, description: str) -> str:
    """The place that a summary names, by its pointer; empty where the description names it itself.

    >>> place_in("/a", "expected integer"), place_in("/a", "/a: expected integer")
    (' at /a', '')
    """
    told = description.startswith(f"{pointer}: ") or f" {pointer}: " in description
    return f" at {pointer}" if pointer and not told else ""


class Ground(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="_tag", omit_defaults=True, forbid_unknown_fields=True
):
    """What all reasons have."""

    retry_after: float | None = None

    _retryable: ClassVar[bool] = False
    _advice: ClassVar[str] = ""

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self._retryable

    @property
    def message(self) -> str:
        """What happened, in one line."""
        return self._summary()

    @property
    def advice(self) -> str:
        """What to do about it, in one line."""
        return self._remedy()

    def _summary(self) -> str:
        raise NotImplementedError

    def _remedy(self) -> str:
        return self._advice

    def __str__(self) -> str:
        return f"{self.message.removesuffix('.')}. {self.advice}"
