"""Models by name: the part before the colon is a room of this floor, the rest is for that room.

No room is imported before its name is said, and none is known here: what is there is found.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> asked = LanguageModel.generate_text("Hello").provide(from_name("nowhere:large"))
>>> print(fx.run_result(asked).failure().message)
providers.from_name: Model 'nowhere:large' is unavailable: ...there is no provider 'nowhere'; there is: local
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any, cast

import fxai.providers
from fxai.effects import fx
from fxai.effects.layer import Layer
from fxai.messages.errors import AiError, ModelUnavailableError
from fxai.models.language_model import LanguageModel

__all__ = ["from_name", "known"]


def known() -> tuple[str, ...]:
    """The names of the providers that give models; it imports the rooms of all."""
    rooms = sorted(room.name for room in pkgutil.iter_modules(fxai.providers.__path__) if room.ispkg)
    return tuple(name for name in rooms if _layer_of(name) is not None)


def _layer_of(provider: str) -> Any:
    """What makes a model's layer; None where there is no such provider, or it gives no models."""
    if not any(room.ispkg and room.name == provider for room in pkgutil.iter_modules(fxai.providers.__path__)):
        return None
    return getattr(import_module(f"fxai.providers.{provider}"), "layer", None)


def from_name(name: str, **options: Any) -> Layer[LanguageModel, AiError]:
    """The layer of the model called `name`: `"local"`, `"local:/path/to/model.gguf"`.

    Args:
        name: A provider, and after a colon what it calls the model; without that, the provider's default.
        options: What the `layer` of that provider takes besides.

    Fails with:
        AiError: `ModelUnavailableError`: no such provider; and as the provider's own layer.
    """
    provider, _, model = name.partition(":")
    layer = _layer_of(provider)
    if layer is None:
        return Layer.effect(LanguageModel, fx.fail(_unknown(name, provider)))
    return cast("Layer[LanguageModel, AiError]", layer(model or None, **options))


def _unknown(name: str, provider: str) -> AiError:
    said = f"there is no provider {provider!r}; there is: {', '.join(known())}"
    return AiError(
        "providers", "from_name", ModelUnavailableError(model=name, problem="unknown-model", description=said)
    )
