"""What the checkers infer of models that embed, and of layers that choose among models."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import EffectOf, Layer, LayerOf, fx, providers
from fxai.effects import Tag
from fxai.messages import AiError
from fxai.models import EmbeddingModel, Embeddings, LanguageModel, Vector, batched, fallback, per_step
from fxai.providers import local, openai


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
