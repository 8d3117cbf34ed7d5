"""Embeddings: texts as vectors, which point nearly the same way where the texts mean nearly the same.

`EmbeddingModel` is a service, as the language model is: `embed` gives the vector of one text, `embed_many` those of
several, in as few requests as the provider takes. Providers implement `ask`. Under `batched`, texts that are embedded
one by one, side by side, share a request.

>>> from fxai.effects import fx
>>> class Lengths(EmbeddingModel):
...     def ask(self, texts):
...         return fx.succeed(Embeddings(tuple((float(len(text)), 1.0) for text in texts)))
>>> lengths = LayerOf.succeed(EmbeddingModel, Lengths())
>>> fx.run(EmbeddingModel.embed("abc").provide(lengths))
(3.0, 1.0)
>>> fx.run(EmbeddingModel.embed_many(["a", "bc"]).provide(lengths)).vectors
((1.0, 1.0), (2.0, 1.0))
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Never, TypeAlias, cast, final

import anyio
import msgspec
from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import FiberHandle
from fxai.effects.context import Branching, ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Fetch, FlatMap, Gen, Suspend, Within
from fxai.effects.layer import LayerOf
from fxai.effects.pull import Channel
from fxai.effects.scope import Scope
from fxai.effects.service import Service
from fxai.effects.tracing import Operation, Tracer
from fxai.effects.waker import Home
from fxai.messages.errors import AiError
from fxai.messages.part import Usage
from fxai.messages.reason import InvalidOutputError
from fxai.models.model_info import ModelInfo, info_of

_E = TypeVar("_E")
_R = TypeVar("_R")

Vector: TypeAlias = tuple[float, ...]
"""What a text means, as a direction; all vectors of one model have the same number of dimensions."""


@final
class Embeddings(msgspec.Struct, frozen=True):
    """The vectors of several texts, in their order, and the tokens that they took.

    Attributes:
        vectors: One for each text.
        usage: Input tokens alone; nothing where the provider did not say.
    """

    vectors: tuple[Vector, ...]
    usage: Usage = Usage()


@final
class EmbeddingCall(Operation, eq=False):
    """A request to a model that embeds, for a tracer; it gives `Embeddings`."""

    info: ModelInfo
    texts: tuple[str, ...]


class EmbeddingModel(Service):
    """A model that embeds texts. Implementations give `ask`; programs use the static methods, which need it."""

    @abstractmethod
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """The vectors of these texts, one at least and `most` at most, in one request."""

    @property
    def info(self) -> ModelInfo | None:
        """Which model it is, by the names of its provider; by default by those of its class.

        None: it only hands requests on to another model.
        """
        return info_of(self)

    @property
    def most(self) -> int | None:
        """The most texts of one request; None for no limit."""
        return None

    def ask_one(self, text: str) -> Effect[Vector, AiError]:
        """The vector of a text; by default in a request of its own."""
        return _ask(self, (text,), "embed").map(lambda found: found.vectors[0])

    @staticmethod
    def embed(text: str) -> EffectOf[Vector, AiError, EmbeddingModel | None]:
        """The vector of a text.

        Fails with:
            AiError: The model cannot be asked, or its answer is not one vector.
        """

        def ask(model: Any) -> Effect[Vector, AiError]:
            return cast("EmbeddingModel", model).ask_one(text)

        return FlatMap(Fetch(EmbeddingModel), ask)

    @staticmethod
    def embed_many(
        texts: Iterable[str], *, concurrency: int | None = 1
    ) -> EffectOf[Embeddings, AiError, EmbeddingModel | None]:
        """The vectors of several texts, in their order; of none, without a request.

        Args:
            texts: Read once. More of them than one request takes are sent in several.
            concurrency: How many requests run at once; None for all of them.

        Fails with:
            AiError: The model cannot be asked; `InvalidOutputError`: there are not as many vectors as texts.
        """
        every = tuple(texts)

        def ask(model: Any) -> Effect[Embeddings, AiError]:
            pieces = _pieces(every, cast("EmbeddingModel", model).most)
            asked = fx.for_each(pieces, lambda piece: _ask(model, piece, "embed_many"), concurrency=concurrency)
            return asked.map(_join_all)

        return FlatMap(Fetch(EmbeddingModel), ask)


class ForwardingEmbeddingModel(EmbeddingModel):
    """A model that hands its requests on to another one."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model

    @property
    @override
    def info(self) -> None:
        return None

    @property
    @override
    def most(self) -> int | None:
        return self._model.most

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """As the other model."""
        return ask_embeddings(self._model, texts)


def similarity(one: Vector, other: Vector) -> float:
    """How nearly two vectors point the same way: 1 the same, 0 across, -1 the opposite (the cosine of the angle).

    Raises:
        ValueError: They have not the same number of dimensions, or one has no length.

    >>> similarity((1.0, 0.0), (2.0, 0.0)), similarity((1.0, 0.0), (0.0, 1.0))
    (1.0, 0.0)
    """
    if len(one) != len(other):
        raise ValueError(f"vectors of {len(one)} and {len(other)} dimensions: take both from one model")
    size = math.hypot(*one) * math.hypot(*other)
    if not size:
        raise ValueError("a vector of length 0 points nowhere")
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / size


def _pieces(texts: tuple[str, ...], most: int | None) -> list[tuple[str, ...]]:
    size = len(texts) if most is None else most
    return [texts[at : at + size] for at in range(0, len(texts), size or 1)]


def _join_all(several: Sequence[Embeddings]) -> Embeddings:
    vectors = tuple(vector for one in several for vector in one.vectors)
    usage = Usage() if several else Usage(input_tokens=0)
    for one in several:
        usage += one.usage
    return Embeddings(vectors, usage)


def ask_embeddings(model: EmbeddingModel, texts: tuple[str, ...]) -> EffectOf[Embeddings, AiError]:
    """`model.ask(texts)`, of which a tracer hears, if there is one and the model itself answers."""

    def ask(services: ContextOf[Any]) -> AnyEffect:
        tracer: Tracer | None = services.services.get(Tracer)
        if tracer is None or (info := model.info) is None:
            return model.ask(texts)
        traced: AnyEffect = tracer.trace(EmbeddingCall(info, texts), Suspend(lambda: model.ask(texts)))
        return traced

    return Within(ask)


def _ask(model: EmbeddingModel, texts: tuple[str, ...], method: str) -> Effect[Embeddings, AiError]:
    def check(found: Embeddings) -> Effect[Embeddings, AiError]:
        given, wanted = len(found.vectors), len(texts)
        if given == wanted:
            return fx.succeed(found)
        problem = f"Provider returned {given} embeddings but expected {wanted}"
        return fx.fail(AiError("EmbeddingModel", method, InvalidOutputError(problem)))

    return ask_embeddings(model, texts).flat_map(check)


# -- batching


def batched(
    layer: LayerOf[EmbeddingModel, _E, _R], *, window: float = 0.0, most: int | None = None
) -> LayerOf[EmbeddingModel, _E, _R | None]:
    """The layer whose `embed`s share requests: those that are asked for side by side go out together.

    The same text twice is sent once. What fails a request fails each `embed` in it; one that is cancelled leaves the
    others alone, and a request without a waiting caller is stopped. `embed_many` is as it was.

    Args:
        layer: The layer of the model.
        window: The seconds that the first waits for others, by the clock; 0: for those that begin together with it.
        most: The most texts of one request; never more than the model takes. A full one goes out at once.

    Raises:
        ValueError: The window is negative, or `most` less than 1.
    """
    if window < 0 or (most is not None and most < 1):
        raise ValueError(f"window is {window} and most is {most}: at least 0 seconds, and at least 1 text")

    @fx.gen
    def open_model() -> Gen[EmbeddingModel, Never, EmbeddingModel | Scope]:
        model = yield from EmbeddingModel
        scope = yield from Scope
        limits = [limit for limit in (most, model.most) if limit is not None]
        return _Batching(model, scope, window, min(limits, default=None))

    fed: Any = LayerOf.scoped(EmbeddingModel, open_model()).provide(cast(Any, layer))
    return cast("LayerOf[EmbeddingModel, _E, _R | None]", fed)


@final
class _Batch:
    """A request that texts still join, or that is under way."""

    __slots__ = ("_done", "_exit", "_waiting", "full", "handle", "places")

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.full: Channel[None] = Channel(1)
        self.handle: FiberHandle[Embeddings, AiError] | None = None
        self._exit: Exit[Embeddings, AiError] | None = None
        self._done = anyio.Event()
        self._waiting = 0

    def settle(self, exit_: Exit[Embeddings, AiError]) -> Effect[None]:
        """Ends the request: all callers that wait go on."""
        self._exit = exit_
        self._done.set()
        return fx.succeed(None)

    def join(self, text: str) -> None:
        """Adds a caller that waits for the vector of a text."""
        self._waiting += 1
        self.places.setdefault(text, len(self.places))

    def vector_of(self, text: str) -> Effect[Vector, AiError]:
        """The vector, when it is there."""
        place = self.places[text]
        return fx.wait(self._done.wait).flat_map(lambda _: self._outcome()).map(lambda found: found.vectors[place])

    def _outcome(self) -> Effect[Embeddings, AiError]:
        exit_ = cast("Exit[Embeddings, AiError]", self._exit)
        return fx.succeed(exit_.value) if isinstance(exit_, Succeeded) else fx.fail_cause(exit_.cause)

    def leave(self) -> Effect[None]:
        """Takes a caller away; with the last one, a request that is not done is stopped."""
        self._waiting -= 1
        if self._waiting or self._exit is not None or self.handle is None:
            return fx.succeed(None)
        return self.handle.interrupt()

    @property
    def unwanted(self) -> bool:
        """Whether no caller waits for it."""
        return not self._waiting


@final
class _Batching(ForwardingEmbeddingModel):
    def __init__(self, model: EmbeddingModel, scope: Scope, window: float, most: int | None) -> None:
        super().__init__(model)
        # No branching: several callers share a batch, so the request has no place in the program of one of them.
        self._held: ContextOf[Any] = ContextOf({Scope: scope, Branching: None})
        self._window = window
        self._most = most
        self._open: _Batch | None = None
        self._home = Home("the embedding model that batches")

    @override
    def ask_one(self, text: str) -> Effect[Vector, AiError]:
        def waits(batch: _Batch) -> Effect[Vector, AiError]:
            return batch.vector_of(text).on_exit(lambda _: fx.suspend(lambda: self._leave(batch)))

        # a caller that is cancelled here has joined and starts the request all the same: others may be in it by then
        return fx.suspend(lambda: self._join(text)).uninterruptible().flat_map(waits)

    def _join(self, text: str) -> Effect[_Batch]:
        self._home.require()
        batch = self._open
        if batch is not None:
            batch.join(text)
            if len(batch.places) == self._most:
                self._close(batch)
                batch.full.offer(None)
            return fx.succeed(batch)

        fresh = _Batch()
        fresh.join(text)
        if self._most != 1:
            self._open = fresh

        def start(handle: FiberHandle[Embeddings, AiError]) -> _Batch:
            fresh.handle = handle
            return fresh

        sent = fx.suspend(lambda: self._send(fresh)).on_exit(fresh.settle)
        return fx.fork(sent).provide_context(self._held).map(start)

    def _send(self, batch: _Batch) -> Effect[Embeddings, AiError]:
        pause = fx.sleep(self._window) if self._window else fx.checkpoint()
        waited = pause if self._most is None else fx.race(pause, batch.full.take())

        def ask() -> Effect[Embeddings, AiError]:
            self._close(batch)
            return _ask(self._model, tuple(batch.places), "embed")

        return (fx.succeed(None) if self._most == 1 else waited).flat_map(lambda _: ask())

    def _close(self, batch: _Batch) -> None:
        if self._open is batch:
            self._open = None

    def _leave(self, batch: _Batch) -> Effect[None]:
        stopped = batch.leave()
        if batch.unwanted:
            self._close(batch)
        return stopped
