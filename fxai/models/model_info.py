"""Which model is asked.

>>> str(ModelInfo("openai", "gpt-6-sol", "api.openai.com", 443))
'openai:gpt-6-sol'
"""

from __future__ import annotations

from typing import final

import msgspec
from typing_extensions import override


@final
class ModelInfo(msgspec.Struct, frozen=True):
    """A model, as its provider calls it."""

    provider: str
    """Whose interface it has, such as `"openai"` or `"anthropic"`."""
    model: str
    """Its name there."""
    address: str | None = None
    """The host that is asked; None: none is, or it is not known."""
    port: int | None = None

    @override
    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def info_of(model: object) -> ModelInfo:
    """What can be said of a model that says nothing of itself: the package and the name of its class.

    >>> str(info_of(ModelInfo("a", "b")))
    'fxai:ModelInfo'
    """
    kind = type(model)
    return ModelInfo(kind.__module__.partition(".")[0], kind.__name__)
