"""Embeddings: one text and many, in as few requests as can be, and texts that share a request."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from fxai.effects import Backend, Effect, EffectOf, Exit, Failed, LayerOf, Succeeded, fx
from fxai.messages import AiError, InvalidOutputError, RateLimitError, Usage
from fxai.models import EmbeddingModel, Embeddings, Vector, batched, similarity
from fxai.testing import TestClock

LATE = AiError("acme", "embed", RateLimitError(retry_after=7))


class Lengths(EmbeddingModel):
    """A model whose vectors are `(length, 1)`; it keeps what it was asked, and does what a test wants before."""

    def __init__(self, *, most: int | None = None, before: Effect[Any, AiError] | None = None, lost: int = 0) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.stopped: list[tuple[str, ...]] = []
        self._most = most
        self._before: Effect[Any, AiError] = fx.succeed(None) if before is None else before
        self._lost = lost

    @property
    @override
    def most(self) -> int | None:
        return self._most

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        self.asked.append(texts)
        vectors = tuple(_vector(text) for text in texts[self._lost :])

        def ended(exit_: Exit[Any, Any]) -> Effect[None]:
            if isinstance(exit_, Failed) and exit_.cause.interrupted:
                self.stopped.append(texts)
            return fx.succeed(None)

        return self._before.as_(Embeddings(vectors, Usage(input_tokens=len(texts)))).on_exit(ended)

    @property
    def layer(self) -> LayerOf[EmbeddingModel]:
        """The layer of it."""
        return LayerOf.succeed(EmbeddingModel, self)


def _vector(text: str) -> Vector:
    return (float(len(text)), 1.0)


def _side_by_side(texts: list[str]) -> EffectOf[list[Vector], AiError, EmbeddingModel | None]:
    return fx.for_each(texts, EmbeddingModel.embed, concurrency=None)


# -- one and many


def test_one_text_gives_its_vector(backend: Backend) -> None:
    """`embed` asks for one text."""
    model = Lengths()

    assert fx.run(EmbeddingModel.embed("abc").provide(model.layer), backend=backend) == (3.0, 1.0)
    assert model.asked == [("abc",)]


def test_many_texts_keep_their_order_over_several_requests(backend: Backend) -> None:
    """More texts than one request takes are split; vectors stand in the order of the texts, usage is added."""
    model = Lengths(most=2)
    found = fx.run(EmbeddingModel.embed_many(["a", "bb", "ccc", "dd", "e"]).provide(model.layer), backend=backend)

    assert found == Embeddings(tuple(map(_vector, ["a", "bb", "ccc", "dd", "e"])), Usage(input_tokens=5))
    assert model.asked == [("a", "bb"), ("ccc", "dd"), ("e",)]


def test_requests_may_run_side_by_side(backend: Backend) -> None:
    """With `concurrency=None` all requests are under way at once; one after another they would take longer."""
    clock = TestClock()
    model = Lengths(most=1, before=fx.sleep(5))
    many = EmbeddingModel.embed_many("abc", concurrency=None).provide(model.layer)

    def program() -> Any:
        running = yield from fx.fork(many)
        yield from clock.advance(5)
        return (yield from running.join())

    found: Any = fx.run(fx.scoped(fx.gen(program)()).provide(clock.layer), backend=backend)

    assert found.vectors == ((1.0, 1.0),) * 3


def test_too_few_vectors_fail_one_and_many(backend: Backend) -> None:
    """The failure says how many came and how many were wanted."""
    model = Lengths(lost=1)
    one = fx.run_result(EmbeddingModel.embed("a").provide(model.layer), backend=backend).failure()
    many = fx.run_result(EmbeddingModel.embed_many(["a", "b"]).provide(model.layer), backend=backend).failure()

    assert one.reason == InvalidOutputError("Provider returned 0 embeddings but expected 1")
    assert many == AiError(
        "EmbeddingModel", "embed_many", InvalidOutputError("Provider returned 1 embeddings but expected 2")
    )


# -- batches


@pytest.mark.parametrize("number", [1, 3, 100])
def test_texts_that_begin_together_share_a_request(backend: Backend, number: int) -> None:
    """However many are embedded side by side, each gets its own vector, from one request."""
    model = Lengths()
    texts = ["x" * n for n in range(number)]
    found = fx.run(_side_by_side(texts).provide(batched(model.layer)), backend=backend)

    assert found == [_vector(text) for text in texts]
    assert [sorted(asked, key=len) for asked in model.asked] == [texts]


def test_one_after_another_they_do_not_wait(backend: Backend) -> None:
    """Texts that are embedded in turn go out in turn."""
    model = Lengths()
    found = fx.run(fx.for_each(["a", "b"], EmbeddingModel.embed).provide(batched(model.layer)), backend=backend)

    assert found == [_vector("a"), _vector("b")]
    assert model.asked == [("a",), ("b",)]


def test_the_same_text_is_sent_once(backend: Backend) -> None:
    """Whoever asks for it gets the same vector."""
    model = Lengths()

    assert fx.run(_side_by_side(["a", "bb", "a"]).provide(batched(model.layer)), backend=backend) == [
        _vector("a"),
        _vector("bb"),
        _vector("a"),
    ]
    assert model.asked == [("a", "bb")]


@pytest.mark.parametrize(("own", "most"), [(None, 2), (2, None), (2, 5), (5, 2)])
def test_a_request_is_never_larger_than_allowed(backend: Backend, own: int | None, most: int | None) -> None:
    """The smaller of the model's limit and the one that was given counts."""
    model = Lengths(most=own)
    fx.run(_side_by_side(list("abcde")).provide(batched(model.layer, most=most)), backend=backend)

    assert sorted(len(asked) for asked in model.asked) == [1, 2, 2]


def test_the_window_gathers_what_comes_later(backend: Backend) -> None:
    """The first waits as long as the window is for others; a full request does not wait."""
    clock, model = TestClock(), Lengths()
    layer = batched(model.layer, window=1.0, most=3)

    def program() -> Any:
        first = yield from fx.fork(EmbeddingModel.embed("a"))
        yield from clock.advance(0.5)
        second = yield from fx.fork(EmbeddingModel.embed("bb"))
        before = list(model.asked)
        yield from clock.advance(0.5)
        vectors = [(yield from first.join()), (yield from second.join())]
        full = yield from _side_by_side(["x", "y", "z"])
        return before, vectors, full

    before, vectors, full = fx.run(fx.scoped(fx.gen(program)()).provide(layer).provide(clock.layer), backend=backend)

    assert before == []
    assert vectors == [_vector("a"), _vector("bb")]
    assert full == [_vector("x")] * 3
    assert model.asked == [("a", "bb"), ("x", "y", "z")]


def test_a_failed_request_fails_each_of_its_texts(backend: Backend) -> None:
    """All that shared it get the failure, and the next ones begin anew."""
    model = Lengths(before=fx.fail(LATE))
    asked = fx.for_each(["a", "b"], lambda text: EmbeddingModel.embed(text).result(), concurrency=None)
    results = fx.run(asked.and_then(asked).provide(batched(model.layer)), backend=backend)

    assert [result.failure() for result in results] == [LATE, LATE]
    assert model.asked == [("a", "b"), ("a", "b")]


def test_one_that_is_cancelled_leaves_the_others_alone(backend: Backend) -> None:
    """The one that opened the request goes; the other gets its vector."""
    clock, model = TestClock(), Lengths(before=fx.sleep(5))

    def program() -> Any:
        first = yield from fx.fork(EmbeddingModel.embed("a"))
        second = yield from fx.fork(EmbeddingModel.embed("b"))
        yield from clock.advance(1)
        yield from first.interrupt()
        yield from clock.advance(4)
        return (yield from second.join())

    ran = fx.scoped(fx.gen(program)()).provide(batched(model.layer)).provide(clock.layer)

    assert fx.run(ran, backend=backend) == _vector("b")
    assert (model.asked, model.stopped) == ([("a", "b")], [])


def test_a_request_that_nobody_waits_for_is_stopped(backend: Backend) -> None:
    """The last one that goes stops it, and whoever comes then has a request of its own."""
    clock, model = TestClock(), Lengths(before=fx.sleep(5))

    def program() -> Any:
        alone = yield from fx.fork(EmbeddingModel.embed("a"))
        yield from clock.advance(1)
        yield from alone.interrupt()
        stopped = list(model.stopped)
        later = yield from fx.fork(EmbeddingModel.embed("b"))
        yield from clock.advance(5)
        return stopped, (yield from later.join())

    ran = fx.scoped(fx.gen(program)()).provide(batched(model.layer)).provide(clock.layer)
    stopped, vector = fx.run(ran, backend=backend)

    assert (stopped, vector) == ([("a",)], _vector("b"))
    assert model.asked == [("a",), ("b",)]


def test_nothing_is_left_when_the_layer_is_released(backend: Backend) -> None:
    """A request that is under way when the program ends is stopped with it."""
    model = Lengths(before=fx.never())
    raced = fx.race(EmbeddingModel.embed("a"), fx.sleep(0.01).as_("done"))
    end = fx.run_exit(raced.provide(batched(model.layer)), backend=backend)

    assert end == Succeeded("done")
    assert model.stopped == [("a",)]


def test_many_at_once_are_as_they_were(backend: Backend) -> None:
    """`embed_many` goes straight to the model, with its usage."""
    model = Lengths()
    found = fx.run(EmbeddingModel.embed_many(["a", "a"]).provide(batched(model.layer, window=60)), backend=backend)

    assert found == Embeddings((_vector("a"),) * 2, Usage(input_tokens=2))
    assert model.asked == [("a", "a")]


@pytest.mark.parametrize("wrong", [{"window": -1.0}, {"most": 0}])
def test_wrong_limits_are_refused(wrong: dict[str, Any]) -> None:
    """A mistake of the program is told where it is made."""
    with pytest.raises(ValueError, match="at least"):
        batched(Lengths().layer, **wrong)


# -- nearness


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8).filter(lambda v: math.hypot(*v) > 1e-3), st.floats(0.5, 9)
)
def test_a_vector_is_as_near_to_itself_as_can_be(given: list[float], by: float) -> None:
    """Whatever its length: 1 to itself and to a multiple, -1 to its opposite."""
    vector = tuple(given)

    assert similarity(vector, tuple(by * x for x in vector)) == pytest.approx(1)
    assert similarity(vector, tuple(-x for x in vector)) == pytest.approx(-1)


@pytest.mark.parametrize("pair", [((1.0,), (1.0, 2.0)), ((0.0, 0.0), (1.0, 2.0))])
def test_vectors_that_cannot_be_compared_are_refused(pair: tuple[Vector, Vector]) -> None:
    """Another number of dimensions, or no direction."""
    with pytest.raises(ValueError, match="vector"):
        similarity(*pair)
