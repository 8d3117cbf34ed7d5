"""Embeddings beside OpenAI's SDK: requests fit its types, and answers read as it reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse, embedding_create_params

from fxai.providers.openai import prepare_embedding, read_embeddings
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow

_TEXTS = st.lists(st.text(min_size=1), min_size=1).map(tuple)


@given(_TEXTS, st.none() | st.integers(1, 3072), st.none() | st.text())
def test_requests_fit_the_sdk(texts: tuple[str, ...], dimensions: int | None, user: str | None) -> None:
    """Whatever is asked; a field that was not given is not there."""
    sent = prepare_embedding(texts, model="text-embedding-3-large", dimensions=dimensions, user=user)

    assert faults(embedding_create_params.EmbeddingCreateParams, sent) == []
    assert None not in sent.values()


@pytest.mark.parametrize("wrong", [{"dimensions": "9"}, {"encoding": "float"}, {"input": None}])
def test_the_check_sees_what_does_not_fit(wrong: dict[str, Any]) -> None:
    """A request with a wrong or an unknown field is told."""
    sent = {**prepare_embedding(("a",), model="text-embedding-3-large"), **wrong}

    assert faults(embedding_create_params.EmbeddingCreateParams, sent)


@given(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=4), min_size=1), st.integers(0, 300_000))
def test_answers_read_as_the_sdk_reads_them(vectors: list[list[float]], tokens: int) -> None:
    """The same numbers in the same order, and the same tokens."""
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    said = json.dumps({"object": "list", "model": "m", "data": data, "usage": usage})
    theirs, ours = CreateEmbeddingResponse.model_validate_json(said), read_embeddings(said.encode())

    assert [list(vector) for vector in ours.vectors] == [one.embedding for one in theirs.data]
    assert ours.usage.input_tokens == theirs.usage.prompt_tokens
