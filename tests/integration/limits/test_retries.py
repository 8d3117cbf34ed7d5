"""Retries have one owner: how many requests reach real servers under limits, fallbacks, tries and durable runs."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from typing import Any

import pytest
from returns.result import Failure, Result, Success

from fxai import Agent
from fxai.durable import Runs, durable
from fxai.effects import Backend, Effect, Layer, Schedule, fx
from fxai.messages import AiError, RateLimitError
from fxai.models import Allowances, LanguageModel, Limit, ModelInfo, fallback, limit
from fxai.providers import anthropic, openai
from fxai.providers.http import RETRY
from tests.kit.http_peer import Peer, answer, peer

BUSY = json.dumps({"error": {"type": "rate_limit_error", "message": "slow down"}}).encode()
REPLY = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
).encode()
AT_ONCE: Schedule[AiError, Any] = Schedule.recurs(2)


def _busy(seconds: float) -> list[bytes]:
    return [answer(429, BUSY, f"retry-after: {seconds}")]


@pytest.fixture
def servers() -> Generator[tuple[Peer, Peer]]:
    """Two that refuse each request, and may be asked again at once."""
    with peer(_busy(0)) as first, peer(_busy(0)) as second:
        yield first, second


def _openai(server: Peer, allowances: Allowances, **options: Any) -> Layer[LanguageModel, AiError]:
    layer = openai.layer("m", api_key="sk-1", base_url=f"{server.url}/v1", api="chat", **options)
    return limit(layer, Limit.per_minute("one", requests=10), allowances=allowances)


def _both(
    servers: tuple[Peer, Peer], allowances: Allowances, retry: Schedule[AiError, Any] = AT_ONCE
) -> Layer[LanguageModel, AiError]:
    second = anthropic.layer("claude-sonnet-4-5", api_key="sk-2", base_url=servers[1].url, retry=retry)
    limited = limit(second, Limit.per_minute("two", requests=10, tokens=50_000), allowances=allowances)
    return fallback(_openai(servers[0], allowances, retry=retry), limited)


def _counts(servers: tuple[Peer, Peer]) -> list[int]:
    return [len(one.seen) for one in servers]


def _used(allowances: Allowances, name: str, info: ModelInfo) -> tuple[int, int]:
    key = Limit.per_minute(name, requests=10).key("requests", info)
    level = allowances.look_up(key, now=time.time(), seconds=60.0)
    return level.committed, level.reserved


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "streamed", "agent"])
def test_two_models_with_three_tries_are_six_requests(servers: tuple[Peer, Peer], how: str, backend: Backend) -> None:
    """Never more: neither the limit nor the fallback nor the loop of an agent asks again; nothing stays reserved."""
    allowances = Allowances.in_process()
    programs: dict[str, Effect[Any, Any, LanguageModel]] = {
        "whole": LanguageModel.generate_text("Is it so?"),
        "streamed": LanguageModel.stream_text("Is it so?").collect(),
        "agent": Agent.make("clerk").execute("Is it so?"),
    }

    retry = RETRY if how == "agent" else AT_ONCE
    outcome = fx.run_result(programs[how].provide(_both(servers, allowances, retry)), backend=backend)

    assert isinstance(outcome, Failure)
    assert _counts(servers) == [3, 3]
    assert _used(allowances, "one", ModelInfo("openai", "m")) == (0, 0)
    assert _used(allowances, "two", ModelInfo("anthropic", "claude-sonnet-4-5")) == (0, 0)


def test_one_that_asks_to_wait_long_is_asked_once() -> None:
    """More than a minute: the next model is asked at once, and the failure says how long to wait."""
    with peer(_busy(90)) as first, peer(_busy(90)) as second:
        models = _both((first, second), Allowances.in_process(), RETRY)
        outcome: Result[Any, Any] = fx.run_result(LanguageModel.generate_text("?").provide(models))

        assert isinstance(outcome, Failure)
        reason = outcome.failure().reason
        assert isinstance(reason, RateLimitError)
        assert reason.retry_after == 90
        assert _counts((first, second)) == [1, 1]


def test_a_try_that_is_answered_is_one_request_of_the_limit() -> None:
    """Two refusals and an answer: three requests reach the server, the second model is not asked, one counts."""
    allowances = Allowances.in_process()
    with peer(*[_busy(0)] * 2, [answer(200, REPLY)]) as first, peer(_busy(0)) as second:
        answered = fx.run(LanguageModel.generate_text("?").provide(_both((first, second), allowances)))

        assert answered.text == "Yes."
        assert _counts((first, second)) == [3, 0]
        assert _used(allowances, "one", ModelInfo("openai", "m")) == (1, 0)


def test_where_each_try_is_to_count_the_program_tries_again() -> None:
    """With `retry=None` and a `retry` of the program's own: two requests for the server and for the limit."""
    allowances = Allowances.in_process()
    with peer(_busy(0), [answer(200, REPLY)]) as server:
        program = LanguageModel.generate_text("?").retry(Schedule.recurs(5))
        answered = fx.run(program.provide(_openai(server, allowances, retry=None)))

        assert answered.text == "Yes."
        assert len(server.seen) == 2
        assert _used(allowances, "one", ModelInfo("openai", "m")) == (1, 0)  # the refusal used nothing


def test_a_durable_run_asks_no_more(servers: tuple[Peer, Peer]) -> None:
    """Around a fallback of limited models: six requests; where it goes on after the failure, six for each time."""
    allowances, store = Allowances.in_process(), Runs.in_process()
    program = Agent.make("clerk").execute("Is it so?")

    def once() -> Any:
        return fx.run_result(program.provide(durable(_both(servers, allowances), run="r", store=store)))

    assert not isinstance(once(), Success)
    assert _counts(servers) == [3, 3]
    assert not isinstance(once(), Success)
    assert _counts(servers) == [6, 6]
