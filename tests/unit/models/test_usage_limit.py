"""Limits around a model: reserved before a request, settled after it, however it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from returns.result import Failure, Result

from fxai import Agent
from fxai.effects import Backend, Effect, Gen, Layer, Schedule, fx
from fxai.messages import (
    AiError,
    AuthenticationError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    TextDelta,
    UnknownError,
    Usage,
)
from fxai.models import Allowances, EmbeddingModel, Embeddings, LanguageModel, Limit, Price, PriceTable, fallback, limit
from fxai.providers import openai
from fxai.testing import ScriptedModel, TestClock, call, delay, fails, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.every import every

PRICES = PriceTable("USD", {"fxai.testing:scripted": Price.per_million("1", "10")})
TEAM = Limit.budget("team", tokens=10_000)
_ANY: Layer[LanguageModel] = ScriptedModel.make(["Yes."]).layer


def _thirty(_: object) -> int:
    return 30


def _ask(*turns: Any, by: Callable[[Layer[LanguageModel]], Layer[LanguageModel]], **options: Any) -> Effect[Any, Any]:
    model = ScriptedModel.make(turns).layer
    asked = LanguageModel.generate_text("Is it so?", **options)
    return asked.provide(by(model))


def _used(allowances: Allowances, key: str, seconds: float | None = None, now: float = 0.0) -> tuple[int, int]:
    level = allowances.look_up(key, now=now, seconds=seconds)
    return level.committed, level.reserved


def _reason(program: Effect[Any, Any], backend: Backend = "asyncio") -> Any:
    failure = fx.run_result(program, backend=backend)
    assert isinstance(failure, Failure)
    return failure.failure().reason


def test_what_was_not_used_is_given_back(backend: Backend) -> None:
    """Of a request, and of a stream: what the provider counted is committed, and nothing stays reserved."""
    allowances = Allowances.in_process()
    turn = [text("Yes."), finish("stop", Usage(20, 5))]
    model = limit(ScriptedModel.make([turn, turn]).layer, TEAM, allowances=allowances)
    both = LanguageModel.generate_text("?").and_then(LanguageModel.stream_text("?").collect())

    fx.run(both.provide(model), backend=backend)

    assert _used(allowances, "team tokens") == (50, 0)


def test_the_most_is_reserved_while_a_request_runs() -> None:
    """The prompt and the most of the answer, to which the model is held where the request says nothing."""
    allowances, seen = Allowances.in_process(), list[tuple[int, int]]()
    scripted = ScriptedModel.make(["Yes.", "Yes."])

    model = limit(scripted.layer, TEAM, allowances=allowances, max_tokens=200, estimate=_thirty)

    note = fx.sync(lambda: seen.append(_used(allowances, "team tokens")))
    watched = LanguageModel.stream_text("?").for_each(lambda _: note)
    asked = watched.and_then(LanguageModel.generate_text("?", max_tokens=7))
    fx.run(asked.provide(model))

    assert seen[0] == (0, 230)
    assert seen[-1] == (230, 0)  # at the end, which has no usage
    assert [request.max_tokens for request in scripted.requests] == [200, 7]


@every(
    ("turn", "unknown", "used"),
    [
        (fails(RateLimitError()), "commit", 0),
        (fails(AuthenticationError("InvalidKey")), "commit", 0),
        (fails(NetworkError("InvalidUrlError")), "commit", 0),
        (fails(NetworkError("TransportError")), "commit", 130),
        (fails(NetworkError("TransportError")), "release", 0),
        (text("Yes."), "commit", 130),
        (text("Yes."), "release", 0),
        ([text("Yes."), finish("stop", Usage(10, None))], "commit", 110),
        ([text("Yes."), finish("stop", Usage(10, None))], "release", 10),
        ([text("Yes."), finish("stop", Usage(None, 7))], "commit", 37),
    ],
)
def test_what_nobody_counted_is_not_zero(turn: Any, unknown: Any, used: int) -> None:
    """By default the reservation counts as used; it is given back where the model read nothing, or by choice."""
    allowances = Allowances.in_process()

    def by(layer: Layer[LanguageModel]) -> Layer[LanguageModel]:
        given: dict[str, Any] = {
            "allowances": allowances,
            "unknown": unknown,
            "max_tokens": 100,
            "estimate": _thirty,
        }
        return limit(layer, TEAM, Limit.per_minute("key", requests=5), **given)

    fx.run_exit(_ask(turn, by=by).provide(TestClock().layer))

    assert _used(allowances, "team tokens") == (used, 0)
    is_read = used or unknown == "release"
    assert _used(allowances, "key fxai.testing:scripted per 60 s requests", 60.0) == (1 if is_read else 0, 0)


def test_a_cut_stream_and_a_cancelled_request_are_settled(backend: Backend) -> None:
    """Nothing stays reserved: what they used is not known, and counts as the choice says."""
    allowances = Allowances.in_process()
    model = limit(
        ScriptedModel.make([["a", "b", "c"], [delay(60), text("late")]]).layer,
        TEAM,
        allowances=allowances,
        max_tokens=100,
        estimate=_thirty,
    )
    cut = LanguageModel.stream_text("?").take(1).collect()
    late = LanguageModel.generate_text("?").timeout(0.01).result()

    fx.run(cut.and_then(late).provide(model), backend=backend)

    assert _used(allowances, "team tokens") == (260, 0)


def test_a_budget_that_is_spent_fails_before_the_model_is_asked() -> None:
    """With `QuotaExhaustedError`, which says what is used, and is not worth a retry; so does a request beyond it."""
    scripted = ScriptedModel.make([[text("Yes."), finish("stop", Usage(900, 50))]])
    model = limit(scripted.layer, Limit.budget("team", tokens=1000), max_tokens=100, estimate=_thirty)
    asked = LanguageModel.generate_text("?")

    reason = _reason(asked.and_then(asked).provide(model))

    assert isinstance(reason, QuotaExhaustedError)
    assert "team tokens: 950 used and 0 reserved of 1000, and the request may take 130" in reason.message
    assert len(scripted.requests) == 1
    assert isinstance(_reason(LanguageModel.generate_text("?", max_tokens=5000).provide(model)), QuotaExhaustedError)


def test_a_rate_is_waited_for(backend: Backend) -> None:
    """The third request of two in a minute is made when the first one counts no more."""
    clock, times = TestClock(1000.0), list[float]()
    turns = [[text("Yes."), finish("stop", Usage(1, 1))]] * 3
    model = limit(ScriptedModel.make(turns).layer, Limit.per_minute("key", requests=2), patience=100)
    asked = LanguageModel.generate_text("?").tap(lambda _: fx.sync(lambda: times.append(clock.now())))

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        handle = yield from fx.fork(asked.and_then(asked).and_then(asked).provide(model))
        yield from clock.advance(59)
        yield from clock.advance(3)
        yield from handle.join()

    clock.run(program(), backend=backend)

    assert times[:2] == [1000.0, 1000.0]
    assert 1060.0 <= times[2] <= 1062.0


def test_patience_ends() -> None:
    """Then it fails with `RateLimitError`, which says how long to wait, and a fallback asks another model."""
    turns = [[text("Yes."), finish("stop", Usage(1, 1))]]
    asked = LanguageModel.generate_text("?")

    def one() -> Layer[LanguageModel]:
        return limit(ScriptedModel.make(turns).layer, Limit.per_minute("key", requests=1), patience=0)

    clock = TestClock(1000.0)
    reason = _reason(asked.and_then(asked).provide(one()).provide(clock.layer))
    both = asked.and_then(asked).provide(fallback(one(), ScriptedModel.make(["From the other."]).layer))

    assert isinstance(reason, RateLimitError)
    assert reason.retry_after is not None
    assert 60 <= reason.retry_after <= 61
    assert fx.run(both).text == "From the other."


def _two_at_once(patience: float, usage: Usage) -> list[Any]:
    """How two requests end at once, each of which reserves most of a budget for 10 s."""
    turn = [delay(10), text("Yes."), finish("stop", usage)]
    team = Limit.budget("team", tokens=250)
    scripted = ScriptedModel.make([turn, turn]).layer
    model = limit(scripted, team, max_tokens=170, estimate=_thirty, patience=patience)
    asked = LanguageModel.generate_text("?").result()
    clock = TestClock()

    def both() -> Gen[Any, Any, Any]:
        at_once = fx.for_each([asked, asked], lambda one: one, concurrency=None)
        handle = yield from fx.fork(at_once.provide(model))
        yield from clock.advance(30)
        return (yield from handle.join())

    ends: list[Result[Any, AiError]] = clock.run(fx.gen(both)())
    return [one.failure().reason if isinstance(one, Failure) else one.unwrap().text for one in ends]


def test_a_budget_waits_until_others_give_back_what_they_reserved() -> None:
    """Two requests fit one after the other, so that neither is refused."""
    assert _two_at_once(60, Usage(20, 5)) == ["Yes.", "Yes."]


@pytest.mark.parametrize(("patience", "usage"), [(0, Usage(20, 5)), (5, Usage(20, 5)), (60, Usage(30, 170))])
def test_a_budget_refuses_what_does_not_fit_in_time(patience: float, usage: Usage) -> None:
    """Without patience, before the other request ends, or if the other request has used the budget."""
    first, second = _two_at_once(patience, usage)
    assert first == "Yes."
    assert isinstance(second, QuotaExhaustedError)


def test_money_is_counted_exactly() -> None:
    """In billionths, rounded up; what was reserved is the most that the request may cost."""
    allowances = Allowances.in_process()
    team = Limit.budget("team", money="0.01")

    def by(layer: Layer[LanguageModel]) -> Layer[LanguageModel]:
        return limit(layer, team, allowances=allowances, prices=PRICES, max_tokens=100, estimate=_thirty)

    fx.run(_ask([text("Yes."), finish("stop", Usage(20, 3))], by=by))
    reason = _reason(_ask(text("No."), by=by, max_tokens=1000))

    assert _used(allowances, "team money") == (50_000, 0)
    assert "team money: 0.00005 used and 0 reserved of 0.01, and the request may take 0.01003" in reason.message


def test_a_model_without_a_price_is_refused_or_counted_as_the_program_says() -> None:
    """Where money is limited: by default no request is made; with `unpriced` it is counted by that."""
    allowances, nothing = Allowances.in_process(), PriceTable("USD", {})
    team = Limit.budget("team", money=1)
    turn = [text("Yes."), finish("stop", Usage(1000, 0))]

    refused = _reason(_ask(turn, by=lambda layer: limit(layer, team, prices=nothing)))
    dear = Price.per_million(5, 5)
    fx.run(_ask(turn, by=lambda layer: limit(layer, team, allowances=allowances, prices=nothing, unpriced=dear)))

    assert isinstance(refused, QuotaExhaustedError)
    assert "fxai.testing:scripted has no price" in refused.message
    assert _used(allowances, "team money") == (5_000_000, 0)


def test_allowances_that_cannot_be_reached_let_no_request_through() -> None:
    """It fails with a typed failure that says why, and the model is not asked."""
    scripted = ScriptedModel.make(["Yes."])
    away = Allowances.postgres("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")

    reason = _reason(LanguageModel.generate_text("?").provide(limit(scripted.layer, TEAM, allowances=away)))

    assert isinstance(reason, UnknownError)
    assert "allowances cannot be reached" in reason.message
    assert scripted.requests == []


def test_retries_have_one_owner() -> None:
    """Of two models under limits and a fallback each is asked as often as its client tries, and no more."""
    asked: dict[str, int] = {}

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked[request.url.host] = asked.get(request.url.host, 0) + 1
        return httpx2.Response(503, json={"error": {"message": "busy"}})

    allowances = Allowances.in_process()

    def model(host: str) -> Layer[LanguageModel, AiError]:
        one = openai.layer(
            "m",
            api_key="sk-1",
            base_url=f"http://{host}/v1",
            retry=Schedule.recurs(2),
            transport=httpx2.MockTransport(answer),
        )
        return limit(one, Limit.per_minute(host, requests=10), allowances=allowances)

    failed = LanguageModel.generate_text("?").provide(fallback(model("a.test"), model("b.test")))

    assert isinstance(fx.run_result(failed), Failure)
    assert asked == {"a.test": 3, "b.test": 3}


def test_a_limit_stands_around_one_model() -> None:
    """Around a fallback it is refused, since nobody knows which model it would count for."""
    scripted = ScriptedModel.make(["Yes."]).layer
    around = limit(fallback(scripted, scripted), TEAM)

    with pytest.raises(ValueError, match="Limit each of the models to choose from"):
        fx.run(LanguageModel.generate_text("?").provide(around))


@every(
    ("make", "match"),
    [
        (lambda: Limit.per_minute("key"), "at least one limit"),
        (lambda: Limit.budget("", tokens=1), "must have a name"),
        (lambda: Limit.budget("a", tokens=0), "greater than 0"),
        (lambda: Limit.budget("a", money="5e9"), "below 4 billion"),
        (lambda: limit(_ANY, Limit.budget("a", money=1)), "prices are missing"),
        (lambda: limit(_ANY, TEAM, TEAM), "limits of tokens have the same name"),
        (lambda: limit(_ANY, TEAM, max_tokens=0), "tokens must be at least 1"),
        (lambda: limit(_ANY, TEAM, patience=-1), "at least 0 seconds"),
    ],
)
def test_limits_that_say_nothing_are_refused(make: Any, match: str) -> None:
    """When they are made, with what to do."""
    with pytest.raises(ValueError, match=match):
        make()


def test_money_is_no_float() -> None:
    """A `float` cannot say most amounts."""
    wrong: Any = 2.5
    with pytest.raises(TypeError, match="must be a string such as"):
        Limit.budget("team", money=wrong)


def test_a_stream_passes_a_limit_as_it_is() -> None:
    """Part by part, as the model gives it."""
    model = limit(ScriptedModel.make([["a", "b"]]).layer, TEAM)
    parts = fx.run(LanguageModel.stream_text("?").collect().provide(model))

    assert [part.delta for part in parts if isinstance(part, TextDelta)] == ["a", "b"]


def test_the_input_is_at_most_its_bytes() -> None:
    """With tools and history; what is known of the history is not counted anew, and counts the same."""
    clerk = Tool.make("look_up", parameters=str, success=str, description="Looks a word up.")
    allowances = Allowances.in_process()
    turns = [[call("look_up", "rose"), finish("tool-calls", Usage(1, None))], text("A flower.")]
    model = limit(ScriptedModel.make(turns).layer, TEAM, allowances=allowances, max_tokens=1)
    agent = Agent.make("clerk", toolkit=Toolkit.make(clerk))
    given = agent.execute("What is a rose?").provide(clerk.handler(lambda _: fx.succeed("a flower")))

    answer = fx.run(given.provide(model))

    reserved = _used(allowances, "team tokens")[0]
    texts = len(answer.history.to_json()) + 2 * len("What is a rose?")
    assert texts < reserved < 2000


class Lengths(EmbeddingModel):
    """Vectors of two numbers, at three tokens a text."""

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings]:
        """The lengths of the texts."""
        vectors = tuple((float(len(one)), 1.0) for one in texts)
        return fx.succeed(Embeddings(vectors, Usage(input_tokens=3 * len(texts))))


def test_a_model_that_embeds_is_held_to_limits_too() -> None:
    """In requests, tokens and money, together with language models where they share a name."""
    allowances = Allowances.in_process()
    prices = PriceTable("USD", {"Lengths": Price.per_million("100", 0)})
    lengths: Layer[EmbeddingModel] = Layer.succeed(EmbeddingModel, Lengths())
    embedding = limit(
        lengths,
        Limit.budget("team", tokens=200, money="0.05"),
        allowances=allowances,
        prices=prices,
    )

    found = fx.run(EmbeddingModel.embed_many(["a", "bc"]).provide(embedding))
    refused = _reason(EmbeddingModel.embed("x" * 200).provide(embedding))

    assert found.vectors == ((1.0, 1.0), (2.0, 1.0))
    assert (_used(allowances, "team tokens"), _used(allowances, "team money")) == ((6, 0), (600_000, 0))
    assert isinstance(refused, QuotaExhaustedError)


def test_a_stream_that_is_refused_behind_its_parts_has_used_something() -> None:
    """What came was generated: the reservation counts, as where nobody knows."""
    allowances = Allowances.in_process()
    model = limit(
        ScriptedModel.make([["a", fails(RateLimitError())]]).layer,
        TEAM,
        allowances=allowances,
        max_tokens=100,
        estimate=_thirty,
    )

    fx.run_result(LanguageModel.stream_text("?").collect().provide(model))

    assert _used(allowances, "team tokens") == (130, 0)


def test_a_layer_without_a_model_has_nothing_to_limit() -> None:
    """It is refused when it is built."""
    around: Any = limit(TestClock().layer, TEAM)

    with pytest.raises(ValueError, match="it provides none"):
        fx.run(LanguageModel.generate_text("?").provide(around))


def test_what_could_not_be_written_is_written_with_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer stands, a line in the log says why; the use of both requests is counted once each."""
    allowances, away = Allowances.in_process(), list[str]()
    commit = allowances.commit

    def fails_at_first(id_: str, *given: Any, **options: Any) -> None:
        if not away:
            away.append(id_)
            raise OSError("the disk is full")
        commit(id_, *given, **options)

    monkeypatch.setattr(allowances, "commit", fails_at_first)
    turn = [text("Yes."), finish("stop", Usage(20, 5))]
    model = limit(ScriptedModel.make([turn, turn]).layer, TEAM, allowances=allowances)
    asked = LanguageModel.generate_text("?")
    look = fx.sync(lambda: _used(allowances, "team tokens"))

    @fx.gen
    def program() -> Gen[list[Any], Any, Any]:
        first = yield from asked
        between = yield from look
        yield from asked
        return [first.text, between]

    answer, between = fx.run(program().provide(model))

    assert answer == "Yes."
    assert between[0] == 0
    assert between[1] > 0
    assert _used(allowances, "team tokens") == (50, 0)
    assert "usage of a request is not recorded yet" in caplog.text
    assert "the disk is full" in caplog.text
