"""Layers of models by name. Use this module if the name of the model is in a setting.

A name consists of a provider, a colon, and the provider's name of the model. A provider is a package in this folder or
a server that a package supports, such as `groq:`. fxai imports a package only if a name needs it.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> reply = LanguageModel.generate_text("Hello").provide(from_name("nowhere:large"))
>>> print(fx.run_result(reply).failure().message)
providers.from_name: Model 'nowhere:large' is unavailable: ...unknown provider 'nowhere'. Use one of: ...local...
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from fxai.effects import fx
from fxai.effects.layer import Layer
from fxai.messages.errors import AiError
from fxai.messages.reason import ModelUnavailableError
from fxai.models.embedding_model import EmbeddingModel
from fxai.models.language_model import LanguageModel

_FOLDER: Final = Path(__file__).parent
_LAYER: Final = "layer"
_EMBEDDING: Final = "embedding_layer"


def provider_names(what: str = _LAYER) -> tuple[str, ...]:
    """Return the names of the providers of language models. The function imports the packages of all providers.

    Args:
        what: The function that a provider must have: `"layer"`, or `"embedding_layer"` for embedding models.
    """
    own = {name for name in _packages() if _maker(name, what) is not None}
    return tuple(sorted(own | set(_servers() if what == _LAYER else ())))


def _servers() -> dict[str, str]:
    """Return the package of each server that has a name. The module `server` of a package lists its servers."""
    packages = [name for name in _packages() if (_FOLDER / name / "server.py").is_file()]
    return {name: package for package in packages for name in import_module(f"{__package__}.{package}.server").SERVERS}


def _packages() -> list[str]:
    """Return the names of the packages in this folder."""
    return [found.name for found in pkgutil.iter_modules([str(_FOLDER)]) if found.ispkg]


def _maker(provider: str, what: str) -> Any:
    """Return the function that creates the layer of a model, or None if the provider or the function does not exist."""
    if provider not in _packages():
        return None
    return getattr(import_module(f"{__package__}.{provider}"), what, None)


def from_name(name: str, **options: Any) -> Layer[LanguageModel, AiError]:
    """Return the layer of a language model: `"openai:gpt-5.5"`, `"groq:openai/gpt-oss-120b"`, or `"local"`.

    Args:
        name: A provider or a server, a colon, and its name of the model. Without the colon, the provider uses its
            default model, which only `local` has. `"local:/path/to/model.gguf"` names a file.
            `"azure:deployment=gpt-5.5"` names a deployment and the model that it runs.
        options: Other arguments for the `layer` of the provider.

    Fails with:
        AiError: `ModelUnavailableError` if the provider is unknown. The provider's layer can fail too, for example
            because of a missing key or a missing extra.
    """
    provider, _, model = name.partition(":")
    maker = _maker(provider, _LAYER)
    if maker is None and provider in _servers():
        maker, options = _maker(_servers()[provider], _LAYER), {"server": provider, **options}
    if maker is None:
        return Layer.effect(LanguageModel, fx.fail(_unknown(name, provider, "from_name", _LAYER)))
    return cast("Layer[LanguageModel, AiError]", maker(model or None, **options))


def embedding_from_name(name: str, **options: Any) -> Layer[EmbeddingModel, AiError]:
    """Return the layer of an embedding model: `"openai:text-embedding-3-small"` or `"local"`.

    Args:
        name: The same form as for `from_name`.
        options: Other arguments for the `embedding_layer` of the provider.

    Fails with:
        AiError: `ModelUnavailableError` if the provider is unknown or has no embedding models. The provider's layer
            can fail too.
    """
    provider, _, model = name.partition(":")
    maker = _maker(provider, _EMBEDDING)
    if maker is None:
        return Layer.effect(EmbeddingModel, fx.fail(_unknown(name, provider, "embedding_from_name", _EMBEDDING)))
    return cast("Layer[EmbeddingModel, AiError]", maker(model or None, **options))


def _unknown(name: str, provider: str, method: str, what: str) -> AiError:
    there = ", ".join(provider_names(what))
    problem = f"unknown provider {provider!r}. Use one of: {there}"
    if what == _EMBEDDING and provider in provider_names():
        problem = f"provider {provider!r} has no embedding models. Use one of: {there}"
    return AiError("providers", method, ModelUnavailableError(model=name, problem="unknown-model", description=problem))
