"""Embeddings: the conformance cases of the area `embedding`."""

from __future__ import annotations

from fxai.effects import Effect, LayerOf, fx
from fxai.messages import AiError, Usage
from fxai.models import EmbeddingModel, Embeddings
from tests.kit.conformance import Case, case


class _Provider(EmbeddingModel):
    """A provider that answers with so many vectors, and counts its calls."""

    def __init__(self, vectors: int) -> None:
        self.calls = 0
        self._vectors = vectors

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        self.calls += 1
        return fx.succeed(Embeddings(((1.0, 2.0),) * self._vectors))


@case("embedding/203")
def test_as_many_vectors_as_texts_are_expected(case: Case) -> None:
    """Fewer are a failure that says both numbers."""
    provider = _Provider(case.given["vectors"])
    texts = ["text"] * case.given["inputs"]
    layer = LayerOf.succeed(EmbeddingModel, provider)
    error = fx.run_result(EmbeddingModel.embed_many(texts).provide(layer)).failure()

    assert type(error.reason).__name__ == case.expect["error"]["reason"]
    assert error.reason.message == f"Invalid output: {case.expect['error']['description']}"
    assert provider.calls == 1


@case("embedding/204")
def test_no_texts_ask_nobody(case: Case) -> None:
    """There are no vectors, no tokens, and the provider is not called."""
    provider = _Provider(0)
    asked = EmbeddingModel.embed_many(case.given["inputs"])
    found = fx.run(asked.provide(LayerOf.succeed(EmbeddingModel, provider)))

    assert list(found.vectors) == case.expect["vectors"]
    assert found.usage == Usage(input_tokens=0)
    assert provider.calls == case.expect["provider calls"]
