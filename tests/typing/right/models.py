"""What the checkers infer of models that embed, and of layers that choose among models."""

from __future__ import annotations

from typing import Never, assert_type

import msgspec

from fxai import Layer, Tool, Toolkit, fx, providers
from fxai.effects import EffectOf, LayerOf, StreamOf, Tag
from fxai.messages import AiError, FilePart
from fxai.models import (
    EmbeddingModel,
    Embeddings,
    FileStore,
    LanguageModel,
    TokenCount,
    UploadedFile,
    Vector,
    batched,
    fallback,
    per_step,
)
from fxai.providers import anthropic, local, openai


class Region(Tag[str]):
    """Where a model runs."""


# --- embeddings need their service, and nothing else once a layer gives it
one = EmbeddingModel.embed("a")
assert_type(one, EffectOf[Vector, AiError, EmbeddingModel | None])
assert_type(fx.run(one.provide(local.embedding_layer())), Vector)
many = EmbeddingModel.embed_many(["a", "b"], concurrency=None)
assert_type(fx.run(many.provide(openai.embedding_layer("text-embedding-3-small"))), Embeddings)
assert_type(providers.embedding_from_name("local"), Layer[EmbeddingModel, AiError])
assert_type(batched(local.embedding_layer(), window=0.1), LayerOf[EmbeddingModel, AiError, None])

# --- a chain is a layer of a model; it needs what its layers need
chain = fallback(openai.layer("gpt-5.5"), local.layer(), when=lambda error: error.is_retryable)
assert_type(chain, LayerOf[LanguageModel, AiError, None])
assert_type(fx.run(LanguageModel.generate_text("Hi").provide(chain)).text, str)


def needing(layer: LayerOf[LanguageModel, AiError, Region | None]) -> None:
    """A layer that needs a service."""
    both = fallback(layer, layer)
    assert_type(both, LayerOf[LanguageModel, AiError, Region | None])
    assert_type(both.provide(Layer.succeed(Region, "eu")), LayerOf[LanguageModel, AiError, None])
    chosen = per_step({"a": layer, "b": layer}, lambda request: "a" if request.tools else "b")
    assert_type(chosen.provide(Layer.succeed(Region, "eu")), LayerOf[LanguageModel, Never, None])


# --- tokens: a count needs the model alone, whatever the tools need; uploads may fail by the index, too
class Location(msgspec.Struct, frozen=True):
    name: str


look = Tool.make("look", parameters=Location, success=str)
counting = LanguageModel.count_tokens("Hi", toolkit=Toolkit.make(look), schema=list[int], max_tokens=9)
assert_type(counting, EffectOf[TokenCount, AiError, LanguageModel | None])
assert_type(fx.run(counting.provide(chain)).is_estimate, bool)

uploading = FileStore.upload(FilePart("text/plain", b"Hi"), once=True)
assert_type(uploading, EffectOf[UploadedFile, AiError | OSError, FileStore | None])
assert_type(uploading.provide(openai.files_layer()), EffectOf[UploadedFile, AiError | OSError, None])
assert_type(FileStore.files(), StreamOf[UploadedFile, AiError, FileStore | None])
assert_type(anthropic.files_layer(), LayerOf[FileStore, AiError, None])
