"""What a request may use at most: how it is bounded, what is refused, and what becomes of numbers that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure

from fxai.effects import Effect, Layer, fx
from fxai.messages import (
    AiError,
    FilePart,
    Finish,
    InvalidRequestError,
    NetworkError,
    Part,
    Prompt,
    QuotaExhaustedError,
    Usage,
)
from fxai.models import Allowances, LanguageModel, Limit, ModelInfo, ModelRequest, Price, PriceTable, TokenCount, limit
from fxai.models.token_bound import BytesBound
from fxai.storage.allowance import MOST, Claim
from fxai.testing import ScriptedModel, finish, text
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.postgres import POSTGRES, server_of

INFO = ModelInfo("fxai.testing", "scripted")
PRICES = PriceTable("USD", {str(INFO): Price.per_million("1", "10", cached_input="0.1", cache_write="2")})
TEAM = Limit.budget("team", tokens=10_000)
PICTURE = FilePart("image/png", b"\x89PNG")


def _thirty(_: object) -> int:
    return 30


def _model(*usages: Usage) -> ScriptedModel:
    return ScriptedModel.make([[text("Yes."), finish("stop", usage)] for usage in usages])


def _reason(program: Effect[Any, Any]) -> Any:
    failure = fx.run_result(program)
    assert isinstance(failure, Failure)
    return failure.failure().reason


def test_an_answer_is_bounded_only_where_it_counts() -> None:
    """A limit of requests alone leaves `max_tokens` as it is; one of tokens sets it."""
    free, bound = _model(Usage(1, 1)), _model(Usage(1, 1))
    asked = LanguageModel.generate_text("?")

    fx.run(asked.provide(limit(free.layer, Limit.per_minute("key", requests=5))))
    fx.run(asked.provide(limit(bound.layer, TEAM)))

    assert [one.max_tokens for one in (*free.requests, *bound.requests)] == [None, 4096]


def test_a_request_without_a_bound_can_be_refused() -> None:
    """With `max_tokens=None` each request says how long its answer may be; the error says what to give."""
    scripted = _model(Usage(1, 1))
    strict = limit(scripted.layer, TEAM, max_tokens=None)

    reason = _reason(LanguageModel.generate_text("?").provide(strict))
    fx.run(LanguageModel.generate_text("?", max_tokens=9).provide(strict))

    assert isinstance(reason, InvalidRequestError)
    assert "max_tokens" in reason.message
    assert "limit(…, max_tokens=…)" in reason.message
    assert [one.max_tokens for one in scripted.requests] == [9]


@pytest.mark.parametrize("least", [-1, 0])
def test_an_answer_has_at_least_one_token(least: int) -> None:
    """A request for no tokens fails before it is sent. A request for one token is sent."""
    scripted = _model(Usage(1, 1))
    model = limit(scripted.layer, TEAM)

    reason = _reason(LanguageModel.generate_text("?", max_tokens=least).provide(model))
    fx.run(LanguageModel.generate_text("?", max_tokens=1).provide(model))

    assert isinstance(reason, InvalidRequestError)
    assert f"must be at least 1, got {least}" in reason.message
    assert [one.max_tokens for one in scripted.requests] == [1]


@pytest.mark.parametrize(
    ("team", "lengths"),
    [
        (Limit.budget("team", tokens=200), [100, 100, 50]),
        (Limit.budget("team", money="0.0012"), [100, 81, 48, 15]),  # 0.00106 at most, of which 0.00006 for the input
        (Limit.of("team", tokens=90, seconds=60), [60]),  # the window is too small for the whole answer
    ],
)
def test_an_answer_is_as_long_as_the_budget_allows(team: Limit, lengths: list[int]) -> None:
    """With `least_tokens` the model is held to what is left; where that is less, nothing is asked."""
    scripted = _model(*(Usage(30, 30) for _ in range(4)))
    model = limit(scripted.layer, team, prices=PRICES, max_tokens=100, least_tokens=10, estimate=_thirty, patience=0)
    asked = LanguageModel.generate_text("?").result()

    fx.run(asked.and_then(asked).and_then(asked).and_then(asked).provide(model))

    assert [one.max_tokens for one in scripted.requests][: len(lengths)] == lengths


@pytest.mark.parametrize(
    ("prompt", "options", "gap"),
    [
        (Prompt.make([{"role": "user", "content": [PICTURE]}]), {}, "a file (image/png)"),
        (Prompt.make([{"role": "user", "content": [FilePart.of_url("text/plain", "https://a.test")]}]), {}, "a file"),
        (Prompt.make("?"), {"provider_options": {"openai": {"n": 9}}}, "provider_options"),
    ],
)
def test_what_has_no_bound_is_refused_or_let_through(prompt: Prompt, options: Any, gap: str) -> None:
    """As `unbounded` says; let through it is reserved as more than its bytes, and counted truthfully after it."""
    allowances = Allowances.in_process()
    asked = LanguageModel.generate_text(prompt, **options)

    reason = _reason(asked.provide(limit(_model(Usage()).layer, TEAM, unbounded="refuse")))
    fx.run(asked.provide(limit(_model(Usage(9000, 9000)).layer, TEAM, max_tokens=10, allowances=allowances)))

    assert isinstance(reason, InvalidRequestError)
    assert gap in reason.message
    assert "estimate=" in reason.message
    assert allowances.look_up(TEAM.key("tokens"), now=0.0).committed == 18_000


def test_text_is_bounded_by_its_bytes() -> None:
    """In each script and file of text; also half a surrogate pair, tools and a schema, are counted."""
    tool = Tool.make("look_up", parameters=str, success=str, description="x" * 100)
    bound = BytesBound()
    note = FilePart("text/markdown", "日本語".encode() * 50)
    prompt = Prompt.make([{"role": "user", "content": [note, {"type": "text", "text": "🦊" * 100}]}])

    plain = bound(ModelRequest(prompt))
    more = bound(ModelRequest(prompt, tools=(tool,)))

    assert plain.gap is None
    assert plain.tokens > 450 + 400
    assert more.tokens >= plain.tokens + 100


class Counting(LanguageModel):
    """A model whose provider counts, as it is told."""

    def __init__(self, count: Effect[TokenCount, AiError]) -> None:
        self._count = count

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The end alone."""
        del request
        return fx.succeed((Finish("stop", Usage(40, 5)),))

    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """As it is told."""
        del request
        return self._count


def _refusal_of(count: Effect[TokenCount, AiError]) -> str:
    layer: Layer[LanguageModel] = Layer.succeed(LanguageModel, Counting(count))
    model = limit(layer, Limit.budget("team", tokens=50), max_tokens=40, estimate="count")
    return str(_reason(LanguageModel.generate_text("?").provide(model)).message)


def test_the_provider_can_be_asked_to_count() -> None:
    """What it counts is reserved with a margin; else the bytes are; a count that fails fails the request."""
    down = AiError("a", "count", NetworkError("TransportError", "gone"))

    assert "the request may take 206" in _refusal_of(fx.succeed(TokenCount(100, "provider")))  # 100 + 2 + 64 + 40
    by_bytes = _refusal_of(fx.succeed(TokenCount(1, "estimate")))
    assert int(by_bytes.partition("may take ")[2].partition(".")[0]) > 300
    assert "gone" in _refusal_of(fx.fail(down))


@every(
    ("usage", "tokens", "money"),
    [
        (Usage(-5_000, 10), 30 + 10, 60_000 + 100_000),  # no number that can be: unknown
        (Usage(10, -1), 10 + 100, 20_000 + 1_000_000),
        (Usage(float("nan"), float("inf")), 130, 1_060_000),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Usage(True, 10), 40, 160_000),
        (Usage(10, 10, cached_input_tokens=500), 510, 50_000 + 100_000),  # a part is never more than the whole
        (Usage(10, 10, cached_input_tokens=-500), 20, 110_000),
        (Usage(10, 10, reasoning_tokens=500), 510, 10_000 + 5_000_000),
        (Usage(10**40, 10**40), MOST, MOST),
    ],
)
@every("kind", ["process", "sqlite"])
def test_numbers_that_cannot_be_give_nothing_back(
    usage: Usage, tokens: int, money: int, kind: str, tmp_path: Path
) -> None:
    """A server that counts backwards, without end or in contradictions: what it used is at least what it may be."""
    allowances = Allowances.in_process() if kind == "process" else Allowances.sqlite(tmp_path / "limits.db")
    team = Limit.budget("team", tokens=10_000, money="1")
    model = limit(_model(usage).layer, team, allowances=allowances, prices=PRICES, max_tokens=100, estimate=_thirty)

    fx.run(LanguageModel.generate_text("?").provide(model))

    found = [allowances.look_up(team.key(one), now=0.0) for one in ("tokens", "money")]
    assert [min(one.committed, MOST) for one in found] == [tokens, money]
    assert [one.reserved for one in found] == [0, 0]


@pytest.fixture(params=["sqlite", POSTGRES])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Allowances:
    """Allowances in a database."""
    if request.param == "sqlite":
        return Allowances.sqlite(tmp_path / "limits.db")
    return Allowances.postgres(server_of(request.param, request))


def test_what_is_beyond_all_numbers_stays_there(stored: Allowances) -> None:
    """Twice more than a database can count is not less than once, and no error."""
    claim = Claim("beyond", MOST, MOST)
    for id_ in ("a", "b", "c"):
        stored.commit(id_, (claim.of(10**30),), now=0.0)
    assert stored.look_up("beyond", now=0.0).committed == MOST
    assert stored.reserve("d", (claim.of(1),), now=0.0) is not None


def test_a_claim_gives_nothing_back() -> None:
    """A negative one would be room that is not there."""
    with pytest.raises(ValueError, match="must be at least 0"):
        Claim("k", -1, 10)
    reason = _reason(LanguageModel.generate_text("?", max_tokens=-9).provide(limit(_model(Usage()).layer, TEAM)))
    assert isinstance(reason, InvalidRequestError)


NAMES = [
    "a",
    "a per 60 s",
    'a" per 60 s',
    "a b:c",
    "b:c",
    "\x00",
    "\ud800",
    "a\nb",
    "ключ",
    "'; DROP TABLE x; --",
    "%s ?",
]


def test_no_name_is_taken_for_another() -> None:
    """Whatever is in it: each limit has keys of its own."""
    info = ModelInfo("b", "c per 60 s")
    limits = [
        Limit.of(name, tokens=1, requests=1, seconds=seconds, per_model=own)
        for name in NAMES
        for seconds in (None, 60, 60.0000001, 0.5)
        for own in (False, True)
    ]
    keys = [one.key(kind, info) for one in limits for kind in ("tokens", "requests")]
    assert len(set(keys)) == len(keys)


def test_any_name_can_be_kept(stored: Allowances) -> None:
    """In each database, and is found again."""
    for name in (*NAMES, "x" * 200):
        team = Limit.of(name, tokens=1000)
        model = limit(_model(Usage(3, 4)).layer, team, allowances=stored, max_tokens=1, estimate=_thirty)
        fx.run(LanguageModel.generate_text("?").provide(model))
        assert stored.look_up(team.key("tokens"), now=0.0).committed == 7


@every(
    ("make", "match"),
    [
        (lambda: Limit.budget("x" * 201, tokens=1), "at most 200 characters, got 201"),
        (lambda: Limit.budget("a", tokens=1 << 62), "must be an integer up to"),
        (lambda: Limit.of("a", requests=1.5), "an integer"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: Limit.budget("a", tokens=1, seconds=1e-9), "at least 0.001 seconds"),
        (lambda: Limit.budget("a", tokens=1, seconds=float("nan")), "greater than 0"),
        (lambda: Limit.per_minute("a", tokens=1).key("tokens"), "Pass info="),
        (lambda: limit(_model().layer, TEAM, least_tokens=0), "tokens must be at least 1"),
    ],
)
def test_limits_that_cannot_be_held_are_refused(make: Callable[[], Any], match: str) -> None:
    """When they are made."""
    with pytest.raises(ValueError, match=match):
        make()


def test_an_overrun_is_told() -> None:
    """What a model used beyond its reservation is committed; the next request fails, and says how much is used."""
    model = limit(_model(Usage(9_000, 9_000), Usage()).layer, TEAM, max_tokens=10, estimate=_thirty)
    asked = LanguageModel.generate_text("?")

    reason = _reason(asked.and_then(asked).provide(model))

    assert isinstance(reason, QuotaExhaustedError)
    assert "team tokens: 18000 used and 0 reserved of 10000" in reason.message


def test_the_price_of_contradictions_is_the_highest() -> None:
    """More cached tokens than tokens: all that is named is paid."""
    price = Price.per_million("1", "10", cached_input="0.1")
    assert price.cost(Usage(1_000_000, 0, cached_input_tokens=400_000)) == Decimal("0.64")
