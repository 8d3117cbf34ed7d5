"""Embeddings: convert strings to vectors. Strings with a similar meaning have vectors with a similar direction.

`EmbeddingModel` is a service like the language model. `embed` returns the vector of a string. `embed_many` returns the
vectors of multiple strings with as few requests as possible. Providers implement `ask`. With `batched`, concurrent
calls of `embed` share a request.

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
from fxai.effects.context import AnyContext, Branching, ContextOf
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
"""The meaning of a string as a direction. All vectors of a model have the same number of dimensions."""


@final
class Embeddings(msgspec.Struct, frozen=True):
    """The vectors of multiple strings in their order, and the token usage."""

    vectors: tuple[Vector, ...]
    """A vector for each string, in the order of the strings."""
    usage: Usage = Usage()
    """The token usage: only input tokens. Empty if the provider did not report them."""


@final
class EmbeddingCall(Operation, eq=False):
    """A request to an embedding model, for a tracer. It succeeds with `Embeddings`."""

    info: ModelInfo
    texts: tuple[str, ...]


class EmbeddingModel(Service):
    """A model that embeds strings. Implementations define `ask`. Programs use the static methods."""

    @abstractmethod
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """Return the vectors of these strings with a single request. Callers pass from 1 to `most` strings."""

    @property
    def info(self) -> ModelInfo | None:
        """The model and its provider, or None if it forwards requests to another model.

        The default contains the package and the name of the class.
        """
        return info_of(self)

    @property
    def most(self) -> int | None:
        """Maximum number of strings in a request, or None for no limit."""
        return None

    def ask_one(self, text: str) -> Effect[Vector, AiError]:
        """Return the vector of a string. The default implementation sends a separate request."""
        return _ask(self, (text,), "embed").map(lambda found: found.vectors[0])

    @staticmethod
    def embed(text: str) -> EffectOf[Vector, AiError, EmbeddingModel | None]:
        """Return the vector of a string.

        Fails with:
            AiError: If the request fails, or the response does not contain exactly one vector.
        """

        def ask(model: Any) -> Effect[Vector, AiError]:
            return cast("EmbeddingModel", model).ask_one(text)

        return FlatMap(Fetch(EmbeddingModel), ask)

    @staticmethod
    def embed_many(
        texts: Iterable[str], *, concurrency: int | None = 1
    ) -> EffectOf[Embeddings, AiError, EmbeddingModel | None]:
        """Return the vectors of multiple strings in their order. Without strings, it sends no request.

        Args:
            texts: The strings. fxai iterates once, and splits them if they exceed the limit for a request.
            concurrency: Maximum number of concurrent requests, or None for no limit. Default: 1.

        Fails with:
            AiError: If a request fails. `InvalidOutputError` if the number of vectors differs from the number of
                strings.
        """
        every = tuple(texts)

        def ask(model: Any) -> Effect[Embeddings, AiError]:
            most = cast("EmbeddingModel", model).most
            size = (len(every) if most is None else most) or 1
            pieces = [every[at : at + size] for at in range(0, len(every), size)]
            asked = fx.for_each(pieces, lambda piece: _ask(model, piece, "embed_many"), concurrency=concurrency)
            return asked.map(_join_all)

        return FlatMap(Fetch(EmbeddingModel), ask)


class ForwardingEmbeddingModel(EmbeddingModel):
    """A model that forwards its requests to another model."""

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
        """Return the vectors of the other model."""
        return ask_embeddings(self._model, texts)


def similarity(one: Vector, other: Vector) -> float:
    """Return the cosine of the angle between two vectors: 1 for equal, 0 for orthogonal, -1 for opposite directions.

    Raises:
        ValueError: If the vectors have different dimensions, or a vector has length 0.

    >>> similarity((1.0, 0.0), (2.0, 0.0)), similarity((1.0, 0.0), (0.0, 1.0))
    (1.0, 0.0)
    """
    if len(one) != len(other):
        raise ValueError(f"vectors must have the same dimensions, got {len(one)} and {len(other)}. Use a single model.")
    size = math.hypot(*one) * math.hypot(*other)
    if not size:
        raise ValueError("vectors must have a length greater than 0, because a zero vector has no direction")
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / size


def _join_all(several: Sequence[Embeddings]) -> Embeddings:
    vectors = tuple(vector for one in several for vector in one.vectors)
    return Embeddings(vectors, sum((one.usage for one in several), Usage()) if several else Usage(input_tokens=0))


def ask_embeddings(model: EmbeddingModel, texts: tuple[str, ...]) -> EffectOf[Embeddings, AiError]:
    """Return the result of `model.ask(texts)`. A tracer records it if the model itself answers."""

    def ask(services: AnyContext) -> AnyEffect:
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
    """Return a layer whose concurrent calls of `embed` share requests.

    If calls pass the same string twice, fxai sends it once. If a request fails, all its calls fail. If you cancel a
    call, the other calls continue. fxai stops a request after you cancel its last call. `embed_many` does not change.

    Args:
        layer: The layer for the model.
        window: Seconds to wait for other calls after the first call, by the clock. With 0 it waits only for calls that
            start together with it. Default: 0.
        most: Maximum number of strings in a request, at most the limit for the model. fxai sends a full request
            immediately. Default: the limit for the model.

    Raises:
        ValueError: If `window` is negative, or `most` is less than 1.
    """
    if window < 0 or (most is not None and most < 1):
        raise ValueError(f"window must be at least 0 seconds and most at least 1, got {window} and {most}")

    @fx.gen
    def open_model() -> Gen[EmbeddingModel, Never, EmbeddingModel | Scope]:
        model = yield from EmbeddingModel
        scope = yield from Scope
        limits = [limit for limit in (most, model.most) if limit is not None]
        return _Batching(model, scope, window, min(limits, default=None))

    fed: Any = LayerOf.scoped(EmbeddingModel, open_model()).provide(cast(Any, layer))
    return cast("LayerOf[EmbeddingModel, _E, _R | None]", fed)


@final
class _Batch(msgspec.Struct, eq=False):
    locations: dict[str, int] = {}
    full: Channel[None] = msgspec.field(default_factory=lambda: Channel(1))
    handle: FiberHandle[Embeddings, AiError] | None = None
    waiting: int = 0  # the callers
    _exit: Exit[Embeddings, AiError] | None = None
    _done: anyio.Event = msgspec.field(default_factory=anyio.Event)

    def finish(self, exit_: Exit[Embeddings, AiError]) -> Effect[None]:
        """Record the end of the request, so that all its callers continue."""
        self._exit = exit_
        self._done.set()
        return fx.succeed(None)

    def join(self, text: str) -> None:
        """Add a caller that needs the vector of a string."""
        self.waiting += 1
        self.locations.setdefault(text, len(self.locations))

    def vector_of(self, text: str) -> Effect[Vector, AiError]:
        """Wait for the end of the request and return the vector."""

        def read(_: object) -> Effect[Vector, AiError]:
            end = cast("Exit[Embeddings, AiError]", self._exit)
            if isinstance(end, Succeeded):
                return fx.succeed(end.value.vectors[self.locations[text]])
            return fx.fail_cause(end.cause)

        return fx.wait(self._done.wait).flat_map(read)

    def leave(self) -> Effect[None]:
        """Remove a caller. After the last caller, stop an unfinished request."""
        self.waiting -= 1
        if self.waiting or self._exit is not None or self.handle is None:
            return fx.succeed(None)
        return self.handle.interrupt()


@final
class _Batching(ForwardingEmbeddingModel):
    def __init__(self, model: EmbeddingModel, scope: Scope, window: float, most: int | None) -> None:
        super().__init__(model)
        # No branching: callers share a batch, so the request does not belong to the program of a single caller.
        self._held: AnyContext = ContextOf({Scope: scope, Branching: None})
        self._window = window
        self._most = most
        self._open: _Batch | None = None
        self._home = Home("the embedding model that batches")

    @override
    def ask_one(self, text: str) -> Effect[Vector, AiError]:
        def waits(batch: _Batch) -> Effect[Vector, AiError]:
            return batch.vector_of(text).on_exit(lambda _: fx.suspend(lambda: self._leave(batch)))

        # uninterruptible: a caller that is cancelled here still starts the request, because others may have joined it
        return fx.suspend(lambda: self._join(text)).uninterruptible().flat_map(waits)

    def _join(self, text: str) -> Effect[_Batch]:
        self._home.require()
        batch = self._open
        if batch is not None:
            batch.join(text)
            if len(batch.locations) == self._most:
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

        sent = fx.suspend(lambda: self._send(fresh)).on_exit(fresh.finish)
        return fx.fork(sent).provide_context(self._held).map(start)

    def _send(self, batch: _Batch) -> Effect[Embeddings, AiError]:
        pause = fx.sleep(self._window) if self._window else fx.checkpoint()
        waited = pause if self._most is None else fx.race(pause, batch.full.take())

        def ask() -> Effect[Embeddings, AiError]:
            self._close(batch)
            return _ask(self._model, tuple(batch.locations), "embed")

        return (fx.succeed(None) if self._most == 1 else waited).flat_map(lambda _: ask())

    def _close(self, batch: _Batch) -> None:
        if self._open is batch:
            self._open = None

    def _leave(self, batch: _Batch) -> Effect[None]:
        stopped = batch.leave()
        if not batch.waiting:
            self._close(batch)
        return stopped
