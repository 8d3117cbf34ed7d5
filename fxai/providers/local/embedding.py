"""The local model as a service that embeds texts: a layer that loads it in this process, and lets it go with its scope.

>>> local = embedding_layer("tiny.gguf", context=512)
>>> type(local).__name__
'LayerOf'
"""

from __future__ import annotations

from pathlib import Path
from typing import final

from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.models.embedding import EmbeddingModel, Embeddings
from fxai.providers.local.engine import Engine, Pooling, Setting
from fxai.providers.local.model import open_engine, to_ai_error
from fxai.providers.local.weights import Heard

__all__ = ["LocalEmbeddingModel", "embedding_layer"]


@final
class LocalEmbeddingModel(EmbeddingModel):
    """A model in this process that embeds texts, one after another; `embedding_layer` makes one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """The model's name: what its file says, else the file's name."""
        return self._engine.name

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """The vectors of these texts, each of length 1. A run that is cancelled stops between two texts.

        Fails with:
            AiError: `ContextOverflowError`: a text is longer than the context; `InternalProviderError`.
        """

        async def embed() -> Embeddings:
            vectors, usage = await self._engine.embed(texts)
            return Embeddings(tuple(tuple(vector) for vector in vectors), usage)

        return fx.attempt_async(embed, lambda error: to_ai_error(error, "embed"))


def embedding_layer(
    model: str | Path | None = None,
    *,
    sha256: str | None = None,
    context: int = 512,
    threads: int | None = None,
    pooling: Pooling | None = None,
    progress: Heard | None = None,
    verbose: bool = False,
) -> Layer[EmbeddingModel, AiError]:
    """The layer of a model that embeds in this process, with no network and no key. Needs the extra `local`.

    The default weights are those of the default language model. llama.cpp embeds in a context of its own, so beside a
    `layer` of the same file it loads once more; but it maps the file, whose pages in memory are then the same, so that
    this takes about 85 MB and not the file's 250 again. They were made to write and not to embed: near texts do come
    out nearer than far ones, which is enough to try a program. For retrieval that people rely on, give the file of a
    model that was made for it.

    Args:
        model: The path of a GGUF file, also as ``local:/path``; None for the default weights, as of `layer`.
        sha256: What the file must have as its SHA-256, in hex.
        context: The tokens that a text may have. Memory grows with it: about 1 MB for each with the default weights.
        threads: Threads that compute; by default half of the processors that this process may use, 1 to 8.
        pooling: Which vector stands for a text; None: as the file says, else the mean of its tokens'.
        progress: Hears how far assembling, checking and loading are, in bytes. Called from a worker thread.
        verbose: Whether llama.cpp writes its log to stderr.

    Fails with:
        AiError: `ModelUnavailableError`: a package or the file is missing, has another checksum or cannot be loaded.
    """
    setting = Setting(context, threads, verbose=verbose, embedding=True, pooling=pooling)

    @fx.gen
    def loaded() -> Gen[EmbeddingModel, AiError, Scope]:
        return LocalEmbeddingModel((yield from open_engine(model, setting, sha256, progress, "embedding_layer")))

    return Layer.scoped(EmbeddingModel, loaded())
