"""How a step in here stops with a reason: an ordinary exception, which the layer turns into an `AiError`.

>>> from fxai.messages.errors import ContextOverflowError
>>> try:
...     raise LocalFailure(ContextOverflowError(limit=2048))
... except LocalFailure as failure:
...     print(failure.reason.message)
Context window full, room for 2048
"""

from __future__ import annotations

from typing import final

from fxai.messages.reason import Reason

__all__ = ["LocalFailure"]


@final
class LocalFailure(Exception):
    """A typed failure on its way out of a worker thread; ``reason`` is the one of the `AiError` that it becomes."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason
