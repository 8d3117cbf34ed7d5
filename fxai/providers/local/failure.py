"""The exception of local models. The package raises it in worker threads, and the layer converts it to an `AiError`.

>>> from fxai.messages.errors import ContextOverflowError
>>> try:
...     raise LocalError(ContextOverflowError(limit=2048))
... except LocalError as failure:
...     print(failure.reason.message)
Context window full, limit 2048
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, final

from fxai.messages.reason import (
    ContextOverflowError,
    InternalProviderError,
    InvalidRequestError,
    Reason,
    UnsupportedSchemaError,
)


@final
class LocalError(Exception):
    """A typed failure in a worker thread. `reason` is the reason of the resulting `AiError`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def reason_of(error: Mapping[str, Any]) -> Reason:
    """Return the reason of an error that llama.cpp reports."""
    description = str(error.get("message", error))
    if error.get("type") == "exceed_context_size_error":
        return ContextOverflowError(
            tokens=error.get("n_prompt_tokens"), limit=error.get("n_ctx"), description=description
        )
    if "grammar" in description:
        return UnsupportedSchemaError(description=f"llama.cpp rejected the grammar: {description}")
    if error.get("code") == 400:
        return InvalidRequestError(description=description)
    return InternalProviderError(description=description, status=error.get("code"))


def embedding_reason(error: Mapping[str, Any], context: int) -> Reason:
    """Return the reason why llama.cpp could not embed a string."""
    description = str(error.get("message", error))
    long = re.search(r"input \((\d+) tokens\) is too large", description)
    if long is None:
        return reason_of(error)
    return ContextOverflowError(int(long[1]), context, "Embed the string in pieces, or set a larger context.")
