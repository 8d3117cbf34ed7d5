"""Limits: restrict the requests, tokens, and money of a model with a layer. Use them to share budgets and rates.

fxai reserves the maximum usage before a request. After the request it records the actual usage and releases the rest.
Programs with the same `Allowances` share the limits: in this process, in a file, or in a PostgreSQL database.

If a rate is exhausted, the request waits in line. Each event loop has a separate line for each key. Only the first
request in the line asks the allowances. It asks when the allowances can have free capacity: after a request returned
its reservation, or after old usage expired. The first requests of different loops and processes are in the line of the
allowances. Therefore no request overtakes another request, regardless of its size and the length of the line.

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

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from math import inf
from typing import Any, Final, TypeVar, cast, final
from weakref import WeakKeyDictionary

import msgspec
from anyio.lowlevel import RunVar
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Exit, Failed
from fxai.effects.constructor import attempt_work
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Gen
from fxai.effects.layer import AnyLayer, LayerOf, MemoMap, build_layer
from fxai.effects.pull import END, Channel
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.effects.stream import Stream, StreamOf, pull_stream
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.messages.reason import QuotaExhaustedError, RateLimitError, UnknownError
from fxai.models.embedding_model import EmbeddingModel, Embeddings, ForwardingEmbeddingModel, ask_embeddings
from fxai.models.language_model import ForwardingModel, LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.price import Price, PriceTable
from fxai.models.token_bound import Estimate, RequestBounds, Unbounded, bytes_of_texts
from fxai.models.usage_limit import UNIT, Extent, Limit, Reservation, Unknown, check_limits, usage_keys
from fxai.storage.allowance import LEASE, AfterCrash, Allowances, Claim, LimitExceeded
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


# -- admission


_PAUSE: Final = 0.25  # seconds between two checks of the reservations of other processes
_LONGEST_PAUSE: Final = 2.0  # the same, if other processes are earlier in the line of the allowances
_LONGEST_WAIT: Final = 3600.0  # seconds to wait for a signal
_STANDS: Final = 10.0  # seconds until a process that does not return loses its position in the line of the allowances


@final
class Terms(msgspec.Struct, frozen=True):
    """The settings for limits. The fields are the options of `limit`."""

    limits: tuple[Limit, ...]
    allowances: Allowances
    prices: PriceTable | None
    unpriced: Price | None
    unknown: Unknown
    after_crash: AfterCrash
    patience: float
    least_tokens: int | None

    @property
    def bounds_answers(self) -> bool:
        """True if a limit depends on the length of the answer."""
        return any(one.tokens is not None or one.money is not None for one in self.limits)


@final
class _Lines:
    """The pending requests of an event loop for the same allowances, by key."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[_Waiting, None]] = {}
        self._listening: dict[str, set[_Waiting]] = {}

    def listen(self, request: _Waiting, key: str) -> None:
        """Signal a request outside the line of this key when another request returns its reservation."""
        self._listening.setdefault(key, set()).add(request)

    def join(self, request: _Waiting) -> None:
        for key in request.keys:
            self._lines.setdefault(key, OrderedDict())[request] = None

    def leave(self, request: _Waiting) -> None:
        for key in request.keys:
            line = self._lines[key]
            del line[request]
            if not line:
                del self._lines[key]
        for key in [key for key, requests in self._listening.items() if request in requests]:
            self._listening[key].discard(request)
            if not self._listening[key]:
                del self._listening[key]
        self.wake(request.keys)

    def wake(self, keys: tuple[str, ...]) -> None:
        """Signal the first request in each line to check again."""
        for key in keys:
            if key in self._lines:
                next(iter(self._lines[key])).signal.offer(None)
            for request in self._listening.get(key, ()):
                request.signal.offer(None)

    def length(self, request: _Waiting) -> int:
        """Return the number of requests in the longest line of a request."""
        return max((len(self._lines[key]) for key in request.keys), default=1)

    def is_first(self, request: _Waiting) -> bool:
        return all(next(iter(self._lines[key])) is request for key in request.keys)


_lines: Final[RunVar[WeakKeyDictionary[Allowances, _Lines]]] = RunVar("fxai lines of limits")


def _lines_of(allowances: Allowances) -> _Lines:
    if event_loop() is None:  # without an event loop, no concurrent request can wait
        return _Lines()
    known = _lines.get(None)
    every: WeakKeyDictionary[Allowances, _Lines] = WeakKeyDictionary() if known is None else known
    if known is None:
        _lines.set(every)
    lines = every.get(allowances)
    if lines is None:
        lines = every[allowances] = _Lines()
    return lines


@final
class Admission:
    """The admission of requests to one model."""

    def __init__(self, info: ModelInfo, terms: Terms) -> None:
        self.terms: Terms = terms
        self._info = info
        self._locations = usage_keys(terms.limits, info)
        self._late: deque[tuple[str, tuple[Claim, ...], float]] = deque()  # usage that fxai could not record yet

    def admit(self, extent: Extent) -> EffectOf[Reservation, AiError, Scope | None]:
        """Return an effect that succeeds with the reservation of a request as soon as the limits allow it.

        When the scope closes, fxai records the actual usage.

        Fails with:
            AiError: If the limits will never allow the request, or not in time. Also if the model has no price, or
                fxai cannot reach the allowances.
        """
        table = self.terms.prices
        price = (None if table is None else table.price_of(self._info)) or self.terms.unpriced
        if price is None and any(one.money is not None for one in self.terms.limits):
            problem = f"{self._info} has no price, but money is limited. Add it to prices, or pass unpriced=Price(…)."
            return fx.fail(AiError("limit", "ask", QuotaExhaustedError(description=problem)))

        def stand() -> EffectOf[Reservation, AiError, Scope | None]:
            reservation = Reservation(self._locations, price, extent)
            waiting = _Waiting(self, reservation, _lines_of(self.terms.allowances))
            return waiting.run().on_exit(waiting.leave)

        return fx.suspend(stand)

    def reserve(
        self, reservation: Reservation, clock: Clock, *, waits: bool
    ) -> EffectOf[LimitExceeded | None, AiError, Scope | None]:
        """Reserve the possible usage, or return the refusal. When the scope closes, fxai records the actual usage."""
        allowances, after_crash = self.terms.allowances, self.terms.after_crash
        lease = LEASE if allowances.blocks else inf

        def reserve() -> LimitExceeded | None:
            self._commit_late()
            return allowances.reserve(
                reservation.id,
                reservation.claims,
                now=clock.now(),
                lease=lease,
                after_crash=after_crash,
                wait=_STANDS if waits else None,
            )

        def hold(refusal: LimitExceeded | None) -> EffectOf[LimitExceeded | None, AiError, Scope | None]:
            if refusal is not None:
                return fx.succeed(refusal)
            return fx.add_finalizer(lambda _: self._commit(reservation, clock)).as_(None)

        return self.work(reserve).flat_map(hold).uninterruptible()

    def _commit(self, reservation: Reservation, clock: Clock) -> EffectOf[None]:
        """Record the actual usage. If fxai cannot write it, the answer is still valid, and fxai writes it later."""

        def commit() -> None:
            committed = (reservation.id, reservation.used_claims(self.terms.unknown), clock.now())
            try:
                self._commit_late()
                self.terms.allowances.commit(*committed[:2], now=committed[2])
            except OSError:
                self._late.append(committed)
                raise

        def warn(error: AiError) -> None:
            import logging  # few allowances fail

            logging.getLogger("fxai.models").error("usage of a request is not recorded yet: %s", error.message)

        def wake(_: object) -> None:
            _lines_of(self.terms.allowances).wake(tuple(claim.key for claim in reservation.claims))

        return self.work(commit).match(warn, wake)

    def _commit_late(self) -> None:
        with suppress(IndexError):  # another thread can take the last item
            while True:
                late = self._late.popleft()
                try:
                    self.terms.allowances.commit(*late[:2], now=late[2])
                except OSError:
                    self._late.appendleft(late)
                    raise

    @fx.gen
    def renew(self, reservation: Reservation, clock: Clock) -> Gen[None, AiError]:
        """Renew the reservation while the request runs."""
        renew = self.terms.allowances.renew
        while True:
            yield from fx.sleep(LEASE / 4)
            yield from self.work(lambda: renew(reservation.id, reservation.claims, now=clock.now())).result()

    def work(self, work: Callable[[], Any]) -> Effect[Any, AiError]:
        """Run work on the allowances. If fxai cannot reach them, fail, so that no request starts."""

        def explain(error: OSError) -> AiError:
            return AiError("limit", "ask", UnknownError(description=f"allowances cannot be reached: {error}"))

        return attempt_work(work, OSError, in_thread=self.terms.allowances.blocks).map_error(explain)


@final
class _Waiting:
    """A request in line."""

    def __init__(self, admission: Admission, reservation: Reservation, lines: _Lines) -> None:
        self.keys = tuple(claim.key for claim in reservation.claims if claim.seconds is not None)
        self.signal: Channel[None] = Channel()
        self._admission = admission
        self._reservation = reservation
        self._lines = lines
        self._stands = False  # True if it is in the line of the allowances
        lines.join(self)

    @fx.gen
    def run(self) -> Gen[Reservation, AiError, Scope]:
        """Return the reservation, or fail with the reason."""
        clock = yield from Clock
        terms = self._admission.terms
        until = clock.monotonic() + terms.patience
        while True:
            left = until - clock.monotonic()
            pause, error = _LONGEST_WAIT, self._in_line()
            if self._lines.is_first(self):
                self._stands = left > 0
                refusal = yield from self._admission.reserve(self._reservation, clock, waits=self._stands)
                if refusal is None:
                    break
                least = terms.least_tokens
                if not refusal.may_wait and least is not None and self._reservation.shorten(refusal, least):
                    continue
                left = left if self._can_wait(refusal) else 0.0
                pause, error = min(_pause(refusal, clock.now()), _STANDS / 2), _error(refusal, clock.now())
            if left <= 0:
                return (yield from fx.fail(error))
            yield from fx.race(fx.sleep(min(pause, left)), self.signal.take())
        self._stands = False
        if terms.allowances.blocks:
            yield from fx.fork(self._admission.renew(self._reservation, clock))
        self._reservation.start()
        return self._reservation

    def leave(self, end: Exit[Any, Any]) -> EffectOf[None]:
        """Leave all lines, regardless of the end of the request."""
        leaving = fx.sync(lambda: self._lines.leave(self))
        if not (self._stands and isinstance(end, Failed)):
            return leaving
        left, allowances = self._reservation, self._admission.terms.allowances
        left_there = self._admission.work(lambda: allowances.leave(left.id, left.claims)).result()
        return left_there.as_(None).on_exit(lambda _: leaving)

    def _can_wait(self, refusal: LimitExceeded) -> bool:
        """Return whether waiting can help: for a rate, or for a budget with reservations that others can return."""
        if refusal.may_wait or refusal.is_final or not refusal.level.reserved:
            return refusal.may_wait
        self._lines.listen(self, refusal.claim.key)
        return True

    def _in_line(self) -> AiError:
        keys = ", ".join(self.keys)
        problem = f"{keys}: {self._lines.length(self) - 1} other requests of this program are in line"
        return AiError("limit", "ask", RateLimitError(description=f"{problem}. The program itself set this limit."))


def _pause(refusal: LimitExceeded, now: float) -> float:
    if refusal.ahead:
        return min(_PAUSE * refusal.ahead, _LONGEST_PAUSE)
    wait = inf if refusal.retry_at is None else refusal.retry_at - now
    return max(min(wait, _PAUSE) if refusal.level.reserved else wait, 0.001)  # others can return reservations earlier


def _error(refusal: LimitExceeded, now: float) -> AiError:
    claim, level = refusal.claim, refusal.level
    used = f"{_show(claim, level.committed)} used and {_show(claim, level.reserved)} reserved"
    problem = (
        f"{claim.key}: {used} of {_show(claim, claim.most)}, and the request may take {_show(claim, claim.amount)}"
    )
    problem += f"; {refusal.ahead} requests wait before it" if refusal.ahead else ""
    problem += ". The program itself set this limit."
    if not refusal.may_wait:
        return AiError("limit", "ask", QuotaExhaustedError(description=problem))
    wait = None if refusal.retry_at is None else max(refusal.retry_at - now, 0.0)
    return AiError("limit", "ask", RateLimitError(description=problem, retry_after=wait))


def _show(claim: Claim, amount: int) -> str:
    return f"{Decimal(amount) / UNIT:f}" if claim.key.endswith(" money") else str(amount)


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
