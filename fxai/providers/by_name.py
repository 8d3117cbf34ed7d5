"""Models by name: the provider before the colon, its name for the model after it.

A provider is a package of this folder, or a server that such a package reaches, `groq:` and the like. It is imported
when a name asks for it; none is named here.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> reply = LanguageModel.generate_text("Hello").provide(from_name("nowhere:large"))
>>> print(fx.run_result(reply).failure().message)
providers.from_name: Model 'nowhere:large' is unavailable: ...there is no provider 'nowhere'; there is: ...local...
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
    """The names of the providers that have language models; it imports the packages of all.

    Args:
        what: What a provider must have: `"layer"`, or `"embedding_layer"` for models that embed.
    """
    own = {name for name in _packages() if _maker(name, what) is not None}
    return tuple(sorted(own | set(_servers() if what == _LAYER else ())))


def _servers() -> dict[str, str]:
    """The servers that have a name, each with the package that reaches it: one with a module `server`."""
    packages = [name for name in _packages() if (_FOLDER / name / "server.py").is_file()]
    return {name: package for package in packages for name in import_module(f"{__package__}.{package}.server").SERVERS}


def _packages() -> list[str]:
    """The names of the packages in this folder."""
    return [found.name for found in pkgutil.iter_modules([str(_FOLDER)]) if found.ispkg]


def _maker(provider: str, what: str) -> Any:
    """The function for a model's layer; None where there is no such provider, or it has no such models."""
    if provider not in _packages():
        return None
    return getattr(import_module(f"{__package__}.{provider}"), what, None)


def from_name(name: str, **options: Any) -> Layer[LanguageModel, AiError]:
    """The layer of the language model called `name`: `"openai:gpt-5.5"`, `"groq:openai/gpt-oss-120b"`, `"local"`.

    Args:
        name: A provider or a server, and after a colon what it calls the model; without that, the provider's default,
            which only `local` has. `"local:/path/to/model.gguf"` is a file; `"azure:deployment=gpt-5.5"` says which
            model a deployment runs.
        options: What the `layer` of that provider takes besides.

    Fails with:
        AiError: `ModelUnavailableError`: no such provider; and as the provider's own layer: no key, no extra.
    """
    provider, _, model = name.partition(":")
    maker = _maker(provider, _LAYER)
    if maker is None and provider in _servers():
        maker, options = _maker(_servers()[provider], _LAYER), {"server": provider, **options}
    if maker is None:
        return Layer.effect(LanguageModel, fx.fail(_unknown(name, provider, "from_name", _LAYER)))
    return cast("Layer[LanguageModel, AiError]", maker(model or None, **options))


def embedding_from_name(name: str, **options: Any) -> Layer[EmbeddingModel, AiError]:
    """The layer of the model called `name` that embeds: `"openai:text-embedding-3-small"`, `"local"`.

    Args:
        name: As of `from_name`.
        options: What the `embedding_layer` of that provider takes besides.

    Fails with:
        AiError: `ModelUnavailableError`: no such provider, or it has no embeddings; and as the provider's own layer.
    """
    provider, _, model = name.partition(":")
    maker = _maker(provider, _EMBEDDING)
    if maker is None:
        return Layer.effect(EmbeddingModel, fx.fail(_unknown(name, provider, "embedding_from_name", _EMBEDDING)))
    return cast("Layer[EmbeddingModel, AiError]", maker(model or None, **options))


def _unknown(name: str, provider: str, method: str, what: str) -> AiError:
    there = ", ".join(provider_names(what))
    problem = f"there is no provider {provider!r}; there is: {there}"
    if what == _EMBEDDING and provider in provider_names():
        problem = f"the provider {provider!r} has no models that embed; these have: {there}"
    return AiError("providers", method, ModelUnavailableError(model=name, problem="unknown-model", description=problem))
