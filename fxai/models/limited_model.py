"""Limits as a layer around a model: what its requests may use is reserved before them, and settled after them.

Before a request its most is reserved; after it what was used is committed, and the rest is given back. Programs that
are given the same `Allowances` share the limits: those of this process, of a file, or of a PostgreSQL database.

>>> from fxai.messages.part import Usage
>>> from fxai.testing import ScriptedModel, finish, text
>>> model = ScriptedModel.make([[text("Yes."), finish("stop", Usage(20, 5))]]).layer
>>> allowances, team = Allowances.in_process(), Limit.budget("team", tokens=1000)
>>> spared = limit(model, team, allowances=allowances, max_tokens=100)
>>> fx.run(LanguageModel.generate_text("Is it so?").provide(spared)).text
'Yes.'
>>> allowances.look_up(team.key("tokens"), now=0.0)
Level(committed=25, reserved=0)
"""

from __future__ import annotations

from typing import Any, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.cause import Exit, Failed
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Gen
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.models.admission import Admission, Terms
from fxai.models.embedding_model import EmbeddingModel, Embeddings, ForwardingEmbeddingModel, ask_embeddings
from fxai.models.language_model import ForwardingModel, LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.price import Price, PriceTable
from fxai.models.token_bound import Estimate, RequestBounds, Unbounded, bytes_of_texts
from fxai.models.usage_limit import Extent, Limit, Reservation, Unknown, check_limits
from fxai.storage.allowance import Allowances
from fxai.storage.allowance_rows import AfterCrash
from fxai.storage.pool import stay_open

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")


def limit(
    layer: LayerOf[_T, _E, _R],
    *limits: Limit,
    allowances: Allowances | None = None,
    max_tokens: int | None = 4096,
    least_tokens: int | None = None,
    prices: PriceTable | None = None,
    unpriced: Price | None = None,
    unknown: Unknown = "commit",
    after_crash: AfterCrash = "release",
    patience: float = 60.0,
    estimate: Estimate = "bytes",
    unbounded: Unbounded = "admit",
) -> LayerOf[_T, _E, _R]:
    """The layer of a model whose requests are held to limits; it has the type of the layer that it is given.

    A request that does not fit into the rate waits in line until it does. One that does not fit into a budget, or
    waited in vain, fails before the model is asked. Nothing is asked twice here: the client of a provider tries again
    by itself, and a request with all its tries is one; with `retry=None` there and a `retry` of the program's own each
    try counts.

    What is committed and reserved is never more than a limit, as long as a model keeps to what it is told: with
    `unbounded="refuse"` no request goes out whose most is not known. Where it uses more all the same, that is
    committed, and nothing more is reserved until there is room.

    Args:
        layer: the layer of one model, a language model or one that embeds; a fallback has limits inside, around each
            of its models.
        limits: every one holds.
        allowances: where is counted what is used: by default in this layer alone.
        max_tokens: where tokens or money are limited: what is reserved for the answer, and what the model is held to,
            where a request says nothing of it; None: such a request is refused.
        least_tokens: where a budget has not enough left for the whole answer, one of what is left is asked for, if that
            is at least so many tokens; None: the request fails then.
        prices: what models cost; needed where money is limited.
        unpriced: the price of a model that `prices` lack; None: requests to it are refused.
        unknown: what becomes of a reservation where a request failed, was cut or has no usage, so that nobody knows
            what it used. A request that was refused before the model read it used nothing.
        after_crash: what becomes of the reservation of a process that is gone, a minute later.
        patience: Maximum seconds to wait for a rate, or until other requests give back what they reserved of a budget.
            Default: 60. With 0 the request fails immediately.
        estimate: the most tokens that the input of a request may be. By default one for each byte of its text, as a
            token of any known tokenizer is at least a byte: several times too many, which are given back after it.
        unbounded: what becomes of a request of which that cannot be said: pictures, sounds, documents, what the
            provider fetches or looks up by itself, and `provider_options`. By default they count by their bytes and
            5,000 tokens each, and may be more. What an `estimate` of your own says is taken at its word.

    What is asked fails with:
        AiError: as the model; with `RateLimitError` where it waited in vain, which is for a fallback, and with
            `QuotaExhaustedError` where a budget is spent, a request alone is more than a limit, or the model has no
            price; with `InvalidRequestError` where its most is not known, and is to be; with `UnknownError` where the
            allowances cannot be reached.

    Raises:
        ValueError: money is limited, and there are no prices; two limits are of one thing under one name; `max_tokens`
            or `least_tokens` is less than 1 or `patience` negative.
    """
    check_limits(limits)
    if any(one.money is not None for one in limits) and prices is None and unpriced is None:
        raise ValueError("money is limited, and no prices are given: give prices=PriceTable(…), or unpriced=Price(…)")
    tokens = [one for one in (max_tokens, least_tokens) if one is not None]
    if not all(one >= 1 for one in tokens) or not patience >= 0:
        told = f"max_tokens is {max_tokens}, least_tokens {least_tokens}, patience {patience}"
        raise ValueError(f"{told}: at least 1 token, at least 0 seconds")
    shared = Allowances.in_process() if allowances is None else allowances
    terms = Terms(limits, shared, prices, unpriced, unknown, after_crash, patience, least_tokens)
    bounds = RequestBounds(estimate, unbounded, max_tokens, is_needed=terms.bounds_answers)
    given: LayerOf[Any, Any, Any] = layer

    def build(memo: MemoMap, scope: Scope) -> EffectOf[ContextOf[Any], Any, Any]:
        open_ = stay_open(shared.stay_open, in_thread=shared.blocks).provide_context(ContextOf.make(Scope, scope))
        built = open_.and_then(given.build_in(memo, scope))
        return built.map(lambda services: services.merge(_around(services, terms, bounds)))

    return cast("LayerOf[_T, _E, _R]", LayerOf(build))


def _around(services: ContextOf[Any], terms: Terms, bounds: RequestBounds) -> ContextOf[Any]:
    """The models of a layer, held to limits."""
    limited: dict[object, Any] = {}
    language: LanguageModel | None = services.find(LanguageModel)
    embedding: EmbeddingModel | None = services.find(EmbeddingModel)
    if language is not None:
        limited[LanguageModel] = _Limited(language, Admission(_info(language.info), terms), bounds)
    if embedding is not None:
        limited[EmbeddingModel] = _LimitedEmbeddings(embedding, Admission(_info(embedding.info), terms))
    if not limited:
        raise ValueError("limit stands around the layer of a model, and this one gives none")
    return ContextOf(limited)


def _info(info: ModelInfo | None) -> ModelInfo:
    if info is None:
        raise ValueError("limit stands around one model: put it inside, around each of those that are chosen from")
    return info


# -- the models


@final
class _Limited(ForwardingModel):
    def __init__(self, model: LanguageModel, admission: Admission, bounds: RequestBounds) -> None:
        self._model = model
        self._admission = admission
        self._bounds = bounds
        self._bounds_answers = admission.terms.bounds_answers

    @property
    @override
    def facts(self) -> ModelFacts | None:
        return self._model.facts

    @override
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        return fx.succeed(self._model)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        def go() -> Gen[tuple[Part, ...], AiError, Scope]:
            asked, reservation = yield from self._begin(request)
            parts = yield from ask_model(self._model, asked).on_exit(lambda end: _note(reservation, end))
            reservation.see(parts)
            return parts

        return fx.scoped(fx.gen(go)())

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def go() -> Gen[Stream[StreamPart, AiError], AiError, Scope]:
            asked, reservation = yield from self._begin(request)
            return StreamOf(stream_model(self._model, asked).pull().map(lambda pull: _watch(pull, reservation)))

        return StreamOf.unwrap(fx.gen(go)())

    @fx.gen
    def _begin(self, request: ModelRequest) -> Gen[tuple[ModelRequest, Reservation], AiError, Scope]:
        """The request as it is asked, with its reservation."""
        extent = yield from self._bounds.of(request, self._model)
        reservation = yield from self._admission.admit(extent)
        most = reservation.extent.answer if self._bounds_answers else request.max_tokens
        return msgspec.structs.replace(request, max_tokens=most), reservation


@final
class _LimitedEmbeddings(ForwardingEmbeddingModel):
    def __init__(self, model: EmbeddingModel, admission: Admission) -> None:
        super().__init__(model)
        self._admission = admission

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        def go() -> Gen[Embeddings, AiError, Scope]:
            reservation = yield from self._admission.admit(Extent(bytes_of_texts(texts), 0))
            asked = ask_embeddings(self._model, texts)
            found = yield from asked.on_exit(lambda end: _note(reservation, end))
            reservation.usage = msgspec.structs.replace(found.usage, output_tokens=0)
            return found

        return fx.scoped(fx.gen(go)())


def _note(reservation: Reservation, end: Exit[Any, Any]) -> EffectOf[None]:
    if isinstance(end, Failed):
        reservation.fail(end.cause)
    return fx.succeed(None)


def _watch(pull: AnyEffect, reservation: Reservation) -> AnyEffect:
    """The pull, of which the reservation hears."""

    def came(part: Any) -> Any:
        if part is not END:
            reservation.see((part,))
        return part

    return pull.map(came).on_exit(lambda end: _note(reservation, end))
