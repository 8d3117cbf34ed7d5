"""Limits: restrict the requests, tokens, and money of a model with a layer. Use them to share budgets and rates.

fxai reserves the maximum usage before a request. After the request it records the actual usage and releases the rest.
Programs with the same `Allowances` share the limits: in this process, in a file, or in a PostgreSQL database.

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
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Gen
from fxai.effects.layer import AnyLayer, LayerOf, MemoMap, build_layer
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf, pull_stream
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
from fxai.storage.allowance import AfterCrash, Allowances
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
    """Return the layer of a model with limits for its requests. The new layer has the type of `layer`.

    If a request exceeds a rate, it waits in line. If it exceeds a budget, or its time in line ends, it fails before
    fxai sends it. `limit` itself repeats no request. The client of a provider retries by default, and all tries of a
    request count once. To count each try, pass `retry=None` to the client and use your own `retry`.

    The recorded and reserved usage never exceeds a limit while models respect their maximum. With
    `unbounded="refuse"`, fxai sends no request with an unknown maximum. If a model uses more than its maximum, fxai
    records this usage and makes no further reservation until the limit allows it.

    Args:
        layer: The layer of a single language or embedding model. For a fallback, limit each of its models.
        limits: The limits. A request must satisfy all of them.
        allowances: The store of the usage. Default: a separate store for this layer.
        max_tokens: Maximum tokens in the answer for a request without `max_tokens`. fxai reserves them and passes the
            maximum to the model if a limit is in tokens or money. With None, it refuses these requests. Default: 4096.
        least_tokens: Minimum tokens of a shorter answer. If a budget is too small for the whole answer but allows this
            number, fxai requests the shorter answer. With None, the request fails. Default: None.
        prices: The prices for models. Required for limits in money.
        unpriced: The price for a model that `prices` does not contain. With None, fxai refuses its requests.
        unknown: The treatment of the reservation of a request that failed, was stopped, or has no usage: `"commit"` or
            `"release"`. A request that was refused before the model read it used nothing. Default: `"commit"`.
        after_crash: The treatment of the reservation of a crashed process, one minute later. Default: `"release"`.
        patience: Maximum seconds to wait for a rate, or until other requests return reservations of a budget.
            Default: 60. With 0 the request fails immediately.
        estimate: The maximum number of input tokens in a request. Default: one token for each byte of its text,
            because a token of any known tokenizer has at least one byte. This is several times too high; fxai releases
            the rest after the request.
        unbounded: The treatment of a request with an unknown maximum: images, audio, documents, data that the provider
            fetches, and `provider_options`. Default: `"admit"`, which counts their bytes and 5,000 tokens each, but the
            usage can be higher. fxai does not verify an `estimate` function.

    Requests fail with:
        AiError: Like the model. `RateLimitError` if the wait was too long, so that a fallback can answer.
            `QuotaExhaustedError` if the budget is exhausted, the request alone exceeds a limit, or the model has no
            price. `InvalidRequestError` if its maximum is unknown but required. `UnknownError` if fxai cannot reach the
            allowances.

    Raises:
        ValueError: If a limit is in money but you pass no prices, two limits have the same name and kind,
            `max_tokens` or `least_tokens` is less than 1, or `patience` is negative.
    """
    check_limits(limits)
    if any(one.money is not None for one in limits) and prices is None and unpriced is None:
        raise ValueError("prices are missing for a limit in money. Pass prices=PriceTable(…) or unpriced=Price(…).")
    tokens = [one for one in (max_tokens, least_tokens) if one is not None]
    if not all(one >= 1 for one in tokens) or not patience >= 0:
        actual = f"got max_tokens {max_tokens}, least_tokens {least_tokens}, patience {patience}"
        raise ValueError(f"tokens must be at least 1 and patience at least 0 seconds, {actual}")
    shared = Allowances.in_process() if allowances is None else allowances
    terms = Terms(limits, shared, prices, unpriced, unknown, after_crash, patience, least_tokens)
    bounds = RequestBounds(estimate, unbounded, max_tokens, is_needed=terms.bounds_answers)
    given: AnyLayer = layer

    def build(memo: MemoMap, scope: Scope) -> EffectOf[AnyContext, Any, Any]:
        open_ = stay_open(shared.stay_open, in_thread=shared.blocks).provide_context(ContextOf.make(Scope, scope))
        built = open_.and_then(build_layer(given, memo, scope))
        return built.map(lambda services: services.merge(_around(services, terms, bounds)))

    return cast("LayerOf[_T, _E, _R]", LayerOf(build))


def _around(services: AnyContext, terms: Terms, bounds: RequestBounds) -> AnyContext:
    limited: dict[object, Any] = {}
    language: LanguageModel | None = services.find(LanguageModel)
    embedding: EmbeddingModel | None = services.find(EmbeddingModel)
    if language is not None:
        limited[LanguageModel] = _Limited(language, Admission(_info(language.info), terms), bounds)
    if embedding is not None:
        limited[EmbeddingModel] = _LimitedEmbeddings(embedding, Admission(_info(embedding.info), terms))
    if not limited:
        raise ValueError("layer must provide a model for limit(…), but it provides none")
    return ContextOf(limited)


def _info(info: ModelInfo | None) -> ModelInfo:
    if info is None:
        raise ValueError("layer must provide a single model for limit(…). Limit each of the models to choose from.")
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
            asked, reservation = yield from self._start(request)
            parts = yield from ask_model(self._model, asked).on_exit(lambda end: _note(reservation, end))
            reservation.see(parts)
            return parts

        return fx.scoped(fx.gen(go)())

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def go() -> Gen[Stream[StreamPart, AiError], AiError, Scope]:
            asked, reservation = yield from self._start(request)
            return StreamOf(pull_stream(stream_model(self._model, asked)).map(lambda pull: _watch(pull, reservation)))

        return StreamOf.unwrap(fx.gen(go)())

    @fx.gen
    def _start(self, request: ModelRequest) -> Gen[tuple[ModelRequest, Reservation], AiError, Scope]:
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
    def came(part: Any) -> Any:
        if part is not END:
            reservation.see((part,))
        return part

    return pull.map(came).on_exit(lambda end: _note(reservation, end))
