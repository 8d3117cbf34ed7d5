"""Model information: the provider, name, and address of a model. Tracers and price tables use this module.

>>> str(ModelInfo("openai", "gpt-6-sol", "api.openai.com", 443))
'openai:gpt-6-sol'
"""

from __future__ import annotations

from functools import cache
from typing import final

import msgspec
from typing_extensions import override


@final
class ModelInfo(msgspec.Struct, frozen=True):
    """A model with the names of its provider."""

    provider: str
    """The provider of its interface, such as `"openai"` or `"anthropic"`."""
    model: str
    """The name of the model at the provider."""
    address: str | None = None
    """The host of the requests, or None if it is unknown or no host receives them."""
    port: int | None = None
    """The port of the host, or None if it is unknown."""

    @override
    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def info_of(model: object) -> ModelInfo:
    """Return the information of a model without its own: the package and the name of its class.

    >>> str(info_of(ModelInfo("a", "b")))
    'fxai:ModelInfo'
    """
    kind = type(model)
    return _info(kind.__module__, kind.__name__)


@cache  # because each request names its model
def _info(module: str, name: str) -> ModelInfo:
    return ModelInfo(module.partition(".")[0], name)
