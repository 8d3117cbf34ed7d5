"""Limits: how many requests and tokens, and how much money, programs may use together, as a layer around a model.

Before a request its most is reserved; after it what was used is committed, and the rest is given back. Programs that
are given the same `Allowances` share the limits: those of this process, of a file, or of a PostgreSQL database.

>>> from fxai.testing import ScriptedModel, finish, text
>>> model = ScriptedModel.make([[text("Yes."), finish("stop", Usage(20, 5))]]).layer
>>> allowances = Allowances.in_process()
>>> spared = limit(model, Limit.budget("demo", tokens=1000), allowances=allowances, max_tokens=100)
>>> fx.run(LanguageModel.generate_text("Is it so?").provide(spared)).text
'Yes.'
>>> allowances.look_up("demo tokens", now=0.0)
Level(committed=25, reserved=0)
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from itertools import count
from math import inf
from os import urandom
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final

import msgspec
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.cause import Cause, Exit, Failed
from fxai.effects.constructor import attempt_work
from fxai.effects.context import ContextOf
from fxai.effects.effect import AnyEffect, Effect, EffectOf, Gen
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart, Usage
from fxai.messages.prompt import Prompt
from fxai.messages.reason import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    ToolkitRequiredError,
    UnknownError,
    UnsupportedSchemaError,
)
from fxai.models.embedding_model import EmbeddingModel, Embeddings, ask_embeddings
from fxai.models.language_model import LanguageModel
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.price import Price, PriceTable, amount_of
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.storage.allowance import LEASE, AfterCrash, Allowances, Claim, Refusal
from fxai.tools.tool import Tool

_L = TypeVar("_L", bound=LayerOf[Any, Any, Any])

Unknown: TypeAlias = Literal["commit", "release"]
"""What becomes of a reservation where nobody says how many tokens a request used: all of it counts as used, or none."""

Estimate: TypeAlias = Callable[[ModelRequest], int]
"""The most tokens that the input of a request may be."""

UNIT: Final = 1_000_000_000
"""Of money, amounts are counted in billionths of the currency, each rounded up."""

_PAUSE: Final = 0.25  # seconds between two looks at what others have reserved
_PER_MESSAGE: Final = 64  # tokens that a provider may write around a message or a tool
_ID: Final = urandom(8).hex()  # of this process
_numbers = count(1)

_NOTHING_USED: Final = (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    QuotaExhaustedError,
    RateLimitError,
    ToolkitRequiredError,
    UnsupportedSchemaError,
)
"""The reasons with which a request is refused before a model reads it."""


@final
class Limit(msgspec.Struct, frozen=True):
    """The most that may be used, of all that is limited under one name. `per_minute` and `budget` make one."""

    name: str
    """Whose limit it is, such as an account, a key (never the key itself), a team."""
    requests: int | None = None
    tokens: int | None = None
    """Input and output together."""
    money: Decimal | None = None
    """In the currency of the prices."""
    seconds: float | None = None
    """The window in which it may be used; None: in all."""
    per_model: bool = False
    """Whether each model has a limit of its own."""

    @staticmethod
    def per_minute(name: str, *, requests: int | None = None, tokens: int | None = None) -> Limit:
        """The rate at which one model may be asked by all that share the name, such as those of one key.

        Raises:
            ValueError: nothing is limited, or by less than 1.
        """
        return Limit.of(name, requests=requests, tokens=tokens, seconds=60.0, per_model=True)

    @staticmethod
    def budget(
        name: str, *, tokens: int | None = None, money: str | int | Decimal | None = None, seconds: float | None = None
    ) -> Limit:
        """What all that share the name may use together, of any models: in all, or within `seconds`.

        Raises:
            TypeError: the money is a `float`: write `"2.50"`.
            ValueError: nothing is limited, or by less than 1 token, or by no money.
        """
        return Limit.of(name, tokens=tokens, money=money, seconds=seconds)

    @staticmethod
    def of(
        name: str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        money: str | int | Decimal | None = None,
        seconds: float | None = None,
        per_model: bool = False,
    ) -> Limit:
        """Any limit; fields and errors as those of `Limit`, `per_minute` and `budget`."""
        amount = None if money is None else amount_of(money, "the money of a limit")
        return Limit(name, requests, tokens, amount, seconds, per_model)

    def __post_init__(self) -> None:
        most = (self.requests, self.tokens, self.money)
        given = [one for one in (*most, self.seconds) if one is not None]
        if not self.name or most == (None, None, None) or not all(one > 0 for one in given):
            raise ValueError(f"the limit {self.name!r} needs a name, and something that is limited by more than 0")
        if self.money is not None and self.money * UNIT >= 1 << 62:
            raise ValueError(f"the money of the limit {self.name!r} is {self.money}: it must be below 4 billion")


@final
class LimitOptions(msgspec.Struct, frozen=True):
    """How limits are held; the fields are the options of `limit`."""

    limits: tuple[Limit, ...]
    allowances: Allowances
    max_tokens: int
    prices: PriceTable | None
    unpriced: Price | None
    unknown: Unknown
    after_crash: AfterCrash
    patience: float
    estimate: Estimate


@final
class _Bytes:
    """The most tokens that the text of a request may be: one for each byte, and some around each message and tool.

    What a history has in common with an earlier one is not counted anew.
    """

    def __init__(self) -> None:
        self._cache: RequestCache[int, int] = RequestCache()

    def __call__(self, request: ModelRequest) -> int:
        messages = request.prompt.messages
        size, known, weight = self._cache.take(messages, self) or (0, 0, 0.0)
        size += sum(len(Prompt((one,)).to_json().encode()) + _PER_MESSAGE for one in messages[known:])
        self._cache.keep(messages, self, size, weight + 8 * (len(messages) - known))
        size += self._cache.tools(request.tools, (), lambda: sum(map(_bytes_of_tool, request.tools)))
        schema = request.response_schema
        return size + (0 if schema is None else len(msgspec.json.encode(schema.to_dict()))) + _PER_MESSAGE


def _bytes_of_tool(tool: Any) -> int:
    schema = None if Tool.is_provider_defined(tool) else tool.json_schema()
    return len(msgspec.json.encode([tool.name, tool.description, schema], enc_hook=repr)) + _PER_MESSAGE


def limit(
    layer: _L,
    *limits: Limit,
    allowances: Allowances | None = None,
    max_tokens: int = 4096,
    prices: PriceTable | None = None,
    unpriced: Price | None = None,
    unknown: Unknown = "commit",
    after_crash: AfterCrash = "release",
    patience: float = 60.0,
    estimate: Estimate | None = None,
) -> _L:
    """The layer of a model whose requests are held to limits; it has the type of the layer that it is given.

    A request that does not fit into the rate waits until it does. One that does not fit into a budget, or waited in
    vain, fails before the model is asked. Nothing is asked twice here: the client of a provider tries again by itself,
    and a request with all its tries is one; with `retry=None` there and a `retry` of the program's own each try counts.

    Args:
        layer: the layer of one model, a language model or one that embeds; a fallback has limits inside, around each
            of its models.
        limits: every one holds.
        allowances: where is counted what is used: by default in this layer alone.
        max_tokens: what is reserved for the answer, and what the model is held to, where a request says nothing of it.
        prices: what models cost; needed where money is limited.
        unpriced: the price of a model that `prices` lack; None: requests to it are refused.
        unknown: what becomes of a reservation where a request failed, was cut or has no usage, so that nobody knows
            what it used. A request that was refused before the model read it used nothing.
        after_crash: what becomes of the reservation of a process that is gone, a minute later.
        patience: the most seconds to wait for a rate; 0: none.
        estimate: the most tokens that the input of a request may be. By default one for each byte of its text, as a
            token of any known tokenizer is at least a byte: several times too many, which are given back after it.
            Files that are sent as bytes count by their size; a picture, or a file that is fetched, may be more.

    What is asked fails with:
        AiError: as the model; with `RateLimitError` where it waited in vain, which is for a fallback, and with
            `QuotaExhaustedError` where a budget is spent, a request alone is more than a limit, or the model has no
            price; with `UnknownError` where the allowances cannot be reached.

    Raises:
        ValueError: money is limited, and there are no prices; two limits are of one thing under one name; `max_tokens`
            is less than 1 or `patience` negative.
    """
    _check(limits)
    if any(one.money is not None for one in limits) and prices is None and unpriced is None:
        raise ValueError("money is limited, and no prices are given: give prices=PriceTable(…), or unpriced=Price(…)")
    if max_tokens < 1 or not patience >= 0:
        raise ValueError(f"max_tokens is {max_tokens}, patience {patience}: at least 1 token, at least 0 seconds")
    shared = Allowances.in_process() if allowances is None else allowances
    options = LimitOptions(
        limits, shared, max_tokens, prices, unpriced, unknown, after_crash, patience, estimate or _Bytes()
    )
    given: LayerOf[Any, Any, Any] = layer

    def build(memo: MemoMap, scope: Scope) -> EffectOf[ContextOf[Any], Any, Any]:
        return given.build_in(memo, scope).map(lambda services: services.merge(_around(services, options)))

    return cast(_L, LayerOf(build))


def _check(limits: tuple[Limit, ...]) -> None:
    """Raises a `ValueError` where two limits count in one place."""
    seen: set[tuple[str, float | None, bool, str]] = set()
    for one in limits:
        for kind in ("requests", "tokens", "money"):
            place = (one.name, one.seconds, one.per_model, kind)
            if getattr(one, kind) is None:
                continue
            if place in seen:
                raise ValueError(f"two limits of {kind} are named {one.name!r} and have one window: rename one")
            seen.add(place)


def _around(services: ContextOf[Any], options: LimitOptions) -> ContextOf[Any]:
    """The models of a layer, held to limits."""
    limited: dict[object, Any] = {}
    language: LanguageModel | None = services.find(LanguageModel)
    embedding: EmbeddingModel | None = services.find(EmbeddingModel)
    if language is not None:
        limited[LanguageModel] = _Limited(language, _Gate(_info(language.info), options))
    if embedding is not None:
        limited[EmbeddingModel] = _LimitedEmbeddings(embedding, _Gate(_info(embedding.info), options))
    if not limited:
        raise ValueError("limit stands around the layer of a model, and this one gives none")
    return ContextOf(limited)


def _info(info: ModelInfo | None) -> ModelInfo:
    if info is None:
        raise ValueError("limit stands around one model: put it inside, around each of those that are chosen from")
    return info


@final
class _Claiming:
    """The reservation of one request, and what it turned out to be."""

    def __init__(self, claims: tuple[Claim, ...], price: Price | None) -> None:
        self.id = f"{_ID}-{next(_numbers)}"
        self.claims = claims
        self.price = price
        self.usage: Usage | None = None
        self.is_unused = True  # whether the model never read the request
        self._has_parts = False

    def begin(self) -> None:
        """From now on the model may have read it."""
        self.is_unused = False

    def see(self, parts: tuple[Any, ...]) -> None:
        """Takes the usage out of parts that came."""
        self._has_parts = self._has_parts or bool(parts)
        for part in parts:
            if part.type == "finish":
                self.usage = part.usage

    def fail(self, cause: Cause[Any]) -> None:
        """Takes from a failure whether anything was used."""
        self.is_unused = not self._has_parts and not cause.defects and not cause.interrupted and _is_refused(cause)

    def settle(self, unknown: Unknown) -> tuple[Claim, ...]:
        """The claims to what was used."""
        return tuple(claim.of(self._amount(claim, unknown)) for claim in self.claims)

    def _amount(self, claim: Claim, unknown: Unknown) -> int:
        kind = claim.key.rpartition(" ")[2]
        if self.is_unused:
            return 0
        if kind == "requests":
            return claim.amount
        usage = self.usage
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return claim.amount if unknown == "commit" else 0
        if kind == "tokens":
            return usage.input_tokens + usage.output_tokens
        cost = None if self.price is None else self.price.cost(usage)
        return claim.amount if cost is None else _units(cost)


def _is_refused(cause: Cause[Any]) -> bool:
    """Whether a request failed before a model read it."""

    def refuses(error: Any) -> bool:
        reason = error.reason if isinstance(error, AiError) else None
        unsent = isinstance(reason, NetworkError) and reason.kind != "TransportError"
        return unsent or isinstance(reason, _NOTHING_USED)

    return all(refuses(error) for error in cause.failures)


def _units(money: Decimal) -> int:
    return int((money * UNIT).to_integral_value(ROUND_CEILING))


@final
class _Gate:
    """Where requests to one model are let through, as far as the limits allow."""

    def __init__(self, info: ModelInfo, options: LimitOptions) -> None:
        self._info = info
        self.options = options

    @fx.gen
    def begin(self, given: int, answer: int) -> Gen[_Claiming, AiError, Scope]:
        """The reservation of a request that takes so many tokens and answers with so many, each at most.

        The scope around settles it.
        """
        clock = yield from Clock
        claiming = yield from self._claim(given, answer)
        until = clock.monotonic() + self.options.patience
        while (refusal := (yield from self._reserve(claiming, clock))) is not None:
            left = until - clock.monotonic()
            if refusal.is_final or refusal.claim.seconds is None or left <= 0:
                return (yield from fx.fail(_error(refusal, clock)))
            wait = left if refusal.retry_at is None else refusal.retry_at - clock.now()
            wait = min(wait, _PAUSE) if refusal.level.reserved else wait  # others may give back before that
            yield from fx.sleep(max(min(wait, left), 0.001))
        if self.options.allowances.blocks:
            yield from fx.fork(self._renew(claiming, clock))
        claiming.begin()
        return claiming

    def _claim(self, given: int, answer: int) -> Effect[_Claiming, AiError]:
        options, info = self.options, self._info
        table = options.prices
        price = (None if table is None else table.price_of(info)) or options.unpriced
        if price is None and any(one.money is not None for one in options.limits):
            said = f"{info} has no price, and money is limited: add it to the prices, or give unpriced=Price(…)"
            return fx.fail(AiError("limit", "ask", QuotaExhaustedError(description=said)))
        claims: list[Claim] = []
        for one in options.limits:
            name = f"{one.name} {info}" if one.per_model else one.name
            name = name if one.seconds is None else f"{name} per {one.seconds:g} s"
            if one.requests is not None:
                claims.append(Claim(f"{name} requests", 1, one.requests, one.seconds))
            if one.tokens is not None:
                claims.append(Claim(f"{name} tokens", given + answer, one.tokens, one.seconds))
            if one.money is not None and price is not None:
                cost = (given * price.highest_input + answer * price.output) / 1_000_000
                claims.append(Claim(f"{name} money", _units(cost), _units(one.money), one.seconds))
        return fx.succeed(_Claiming(tuple(claims), price))

    def _reserve(self, claiming: _Claiming, clock: Clock) -> EffectOf[Refusal | None, AiError, Scope | None]:
        """Reserves what the request may use; the scope around settles that."""
        allowances, after_crash = self.options.allowances, self.options.after_crash
        lease = LEASE if allowances.blocks else inf

        def reserve() -> Refusal | None:
            claims, now = claiming.claims, clock.now()
            return allowances.reserve(claiming.id, claims, now=now, lease=lease, after_crash=after_crash)

        def hold(refusal: Refusal | None) -> EffectOf[Refusal | None, AiError, Scope | None]:
            if refusal is not None:
                return fx.succeed(refusal)
            return fx.add_finalizer(lambda _: self._settle(claiming, clock)).as_(None)

        return self._work(reserve).flat_map(hold).uninterruptible()

    def _settle(self, claiming: _Claiming, clock: Clock) -> EffectOf[None]:
        """Commits what was used. Where that cannot be written, the answer stands; the reservation ends by itself."""

        def settle() -> None:
            settled = claiming.settle(self.options.unknown)
            self.options.allowances.settle(claiming.id, settled, now=clock.now())

        def warn(error: AiError) -> None:
            import logging  # few allowances fail

            logging.getLogger("fxai.models").error("what a request used is not written: %s", error.message)

        return self._work(settle).match(warn, lambda _: None)

    @fx.gen
    def _renew(self, claiming: _Claiming, clock: Clock) -> Gen[None, AiError]:
        """Keeps the reservation while the request runs."""
        renew = self.options.allowances.renew
        while True:
            yield from fx.sleep(LEASE / 4)
            yield from self._work(lambda: renew(claiming.id, claiming.claims, now=clock.now())).result()

    def _work(self, work: Callable[[], Any]) -> Effect[Any, AiError]:
        """Works with the allowances; where they cannot be reached, no request is made."""

        def to_error(raised: Exception) -> AiError | None:
            if not isinstance(raised, OSError):
                return None
            return AiError("limit", "ask", UnknownError(description=f"the allowances cannot be reached: {raised}"))

        return attempt_work(work, to_error, in_thread=self.options.allowances.blocks)


@final
class _Limited(LanguageModel):
    def __init__(self, model: LanguageModel, gate: _Gate) -> None:
        self._model = model
        self._gate = gate

    @property
    @override
    def info(self) -> None:
        return None

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        def go() -> Gen[tuple[Part, ...], AiError, Scope]:
            asked, claiming = yield from self._begin(request)
            parts = yield from ask_model(self._model, asked).on_exit(lambda end: _note(claiming, end))
            claiming.see(parts)
            return parts

        return fx.scoped(fx.gen(go)())

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def go() -> Gen[Stream[StreamPart, AiError], AiError, Scope]:
            asked, claiming = yield from self._begin(request)
            return StreamOf(stream_model(self._model, asked).pull().map(lambda pull: _watch(pull, claiming)))

        return StreamOf.unwrap(fx.gen(go)())

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        return self._model.count(request)

    def _begin(self, request: ModelRequest) -> EffectOf[tuple[ModelRequest, _Claiming], AiError, Scope | None]:
        """The request as it is asked, with its reservation."""
        options = self._gate.options
        answer = options.max_tokens if request.max_tokens is None else request.max_tokens
        asked = msgspec.structs.replace(request, max_tokens=answer)
        return self._gate.begin(options.estimate(asked), answer).map(lambda claiming: (asked, claiming))


@final
class _LimitedEmbeddings(EmbeddingModel):
    def __init__(self, model: EmbeddingModel, gate: _Gate) -> None:
        self._model = model
        self._gate = gate

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
        def go() -> Gen[Embeddings, AiError, Scope]:
            given = sum(len(text.encode("utf-8", "surrogatepass")) + _PER_MESSAGE for text in texts)
            claiming = yield from self._gate.begin(given, 0)
            found = yield from ask_embeddings(self._model, texts).on_exit(lambda end: _note(claiming, end))
            claiming.usage = msgspec.structs.replace(found.usage, output_tokens=0)
            return found

        return fx.scoped(fx.gen(go)())


def _note(claiming: _Claiming, end: Exit[Any, Any]) -> EffectOf[None]:
    if isinstance(end, Failed):
        claiming.fail(end.cause)
    return fx.succeed(None)


def _watch(pull: AnyEffect, claiming: _Claiming) -> AnyEffect:
    """The pull, of which the reservation hears."""

    def came(part: Any) -> Any:
        if part is not END:
            claiming.see((part,))
        return part

    return pull.map(came).on_exit(lambda end: _note(claiming, end))


def _error(refusal: Refusal, clock: Clock) -> AiError:
    claim, level = refusal.claim, refusal.level
    used = f"{_show(claim, level.committed)} are used and {_show(claim, level.reserved)} reserved"
    said = f"{claim.key}: {used} of {_show(claim, claim.most)}, and the request may take {_show(claim, claim.amount)}"
    if refusal.is_final or claim.seconds is None:
        return AiError("limit", "ask", QuotaExhaustedError(description=f"{said}; the limit is the program's own"))
    wait = None if refusal.retry_at is None else max(refusal.retry_at - clock.now(), 0.0)
    reason = RateLimitError(description=f"{said}; the limit is the program's own", retry_after=wait)
    return AiError("limit", "ask", reason)


def _show(claim: Claim, amount: int) -> str:
    return f"{Decimal(amount) / UNIT:f}" if claim.key.endswith(" money") else str(amount)
