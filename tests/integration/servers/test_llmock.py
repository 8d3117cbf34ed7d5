"""llmock, a server of others that breaks on purpose, on its three wires: what a broken stream or a quota amounts to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from fxai.agents import Agent
from fxai.effects import Schedule
from fxai.messages import (
    AiError,
    ContextOverflowError,
    InternalProviderError,
    InvalidOutputError,
    NetworkError,
    RateLimitError,
    Reason,
    RequestTimeoutError,
)
from fxai.models import LanguageModel
from fxai.providers.http import RETRY
from fxai.tools import InvalidParameters, UnknownTool
from tests.kit.server_process import asked, serving
from tests.kit.wires import WIRES, Streamed, kit, model, outcome, streamed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("llmock"),
    pytest.mark.skipif(find_spec("llmock") is None, reason="the server is not installed: pip install llmock"),
]

SERVE = [sys.executable, "-c", "from llmock.cli import app; app()", "serve", "--port", "0"]
SAID = "one two three four five six seven eight"
REPLY = {"type": "reply", "text": SAID}
CALL = {"type": "reply", "tool_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]}
CHUNKS = 5  # after the events that open a message on each of the wires

# How each fault of a stream is told, and whether to try again can help.
FAULTS: dict[str, tuple[type[Reason], bool]] = {
    "disconnect": (NetworkError, True),
    "truncate": (NetworkError, True),
    "malformed": (InvalidOutputError, True),
    "stall": (RequestTimeoutError, True),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server listens that does what it is told."""
    with serving(SERVE) as address:
        yield address


@pytest.fixture(scope="module")
def strained() -> Iterator[str]:
    """Where a server listens that takes two requests a minute of a key, and 300 tokens."""
    with serving([*SERVE, "--rpm", "2", "--context-window", "300"]) as address:
        yield address


def _tell(url: str, *behaviors: dict[str, Any]) -> None:
    """What the server does from now on, and nothing of before."""
    asked(url, "/_llmock/reset", {})
    asked(url, "/_llmock/scenario", {"behaviors": list(behaviors)})


def _model(wire: str, url: str, **options: Any) -> Any:
    return model(wire, f"{url}/anthropic" if wire == "messages" else url, **options)


def _fault(kind: str, after: int = CHUNKS) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, "stall_seconds": 2}


def _streamed(wire: str, url: str, **options: Any) -> Streamed:
    return streamed(LanguageModel.stream_text("The weather?", toolkit=kit), _model(wire, url, **options))


def _reason(failure: Any, kind: type[Reason]) -> Any:
    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, kind)
    return failure.reason


def _asked(url: str) -> int:
    """How many requests the server had since it was told what to do."""
    count: int = asked(url, "/_llmock/requests")["count"]
    return count


def _verdict(url: str) -> list[str]:
    """What the server found wrong with how we took its faults."""
    return [finding["code"] for finding in asked(url, "/_llmock/verdict")["findings"]]


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_broken_text_keeps_what_came(url: str, wire: str, kind: str) -> None:
    """Cut, ended early, garbled, silent: the text so far, then a typed failure, never an end that looks whole."""
    expected, retryable = FAULTS[kind]
    _tell(url, REPLY, _fault(kind))
    came = _streamed(wire, url, timeout=0.5)

    _reason(came.failure, expected)
    assert came.failure.is_retryable == retryable
    assert came.response.text
    assert SAID.startswith(came.response.text)
    assert len(came.response.text) < len(SAID)
    assert came.response.finish_reason == "unknown"


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_broken_call_is_not_run(url: str, wire: str, kind: str) -> None:
    """Its parameters broke off: the text so far is kept, no handler sees it."""
    expected, _ = FAULTS[kind]
    _tell(url, CALL, _fault(kind, 3))
    came = _streamed(wire, url, timeout=0.5)

    _reason(came.failure, expected)
    assert [(call.name, call.params) for call in came.response.tool_calls] == [("weather", None)]
    assert came.response.tool_results == ()
    assert [one for one in came.parts if one.type == "tool-result"] == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_breaks_before_its_first_event_is_asked_for_again(url: str, wire: str) -> None:
    """Nothing was given yet, so nothing is given twice."""
    _tell(url, REPLY, {**REPLY}, _fault("disconnect", 0))
    came = _streamed(wire, url, retry=RETRY)

    assert came.failure is None
    assert came.response.text == SAID
    assert _asked(url) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_retries_are_as_the_server_wants_them(url: str, wire: str) -> None:
    """Two refusals that say how long to wait: the server's own verdict finds nothing wrong."""
    _tell(url, REPLY, {"type": "fail", "status": 429, "retry_after": 0.7, "times": 2})
    answered = outcome(LanguageModel.generate_text("Hi"), _model(wire, url, retry=RETRY))

    assert answered.unwrap().text == SAID
    assert _verdict(url) == []
    assert _asked(url) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_get_better_is_asked_once(url: str, status: int) -> None:
    """The server's own verdict has nothing against it, on any wire."""
    for wire in WIRES:
        _tell(url, {"type": "fail", "status": status, "message": "No, never", "times": None})
        failure = outcome(LanguageModel.generate_text("Hi"), _model(wire, url, retry=RETRY)).failure()

        assert not failure.is_retryable
        assert "No, never" in str(failure)
        assert _verdict(url) == []
        assert _asked(url) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_an_outage_ends_after_the_last_attempt(url: str, wire: str) -> None:
    """Overloaded each time: as many attempts as the schedule has, then the failure."""
    _tell(url, {"type": "fail", "status": 529, "retry_after": 0.01, "times": None})
    failure = outcome(
        LanguageModel.generate_text("Hi"), _model(wire, url, retry=Schedule.spaced(0.01) & Schedule.recurs(3))
    ).failure()

    assert _reason(failure, InternalProviderError).overloaded
    assert _asked(url) == 4


@pytest.mark.parametrize("wire", WIRES)
def test_a_silent_server_times_out(url: str, wire: str) -> None:
    """Before the first byte of a whole answer, and before the first event of a stream."""
    _tell(url, {"type": "delay", "seconds": 2})
    whole = outcome(LanguageModel.generate_text("Hi"), _model(wire, url, timeout=0.3)).failure()
    _tell(url, {"type": "slow_first_token", "seconds": 2})
    came = _streamed(wire, url, timeout=0.3)

    assert _reason(whole, RequestTimeoutError).seconds == 0.3
    assert _reason(came.failure, RequestTimeoutError).seconds == 0.3
    assert came.parts == []


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_broken_calls_are_told_to_the_model(url: str, wire: str, way: str) -> None:
    """Parameters that are no JSON, a tool that nobody offered: results that say so, and the loop goes on to an end."""
    agent = Agent.make("waiter", toolkit=kit)
    for kind, expected in (("malformed_arguments", InvalidParameters), ("unknown_tool", UnknownTool)):
        _tell(url, {"type": "tool_fault", "kind": kind})
        if way == "whole":
            answer = outcome(agent.execute("The weather?"), _model(wire, url)).unwrap()
            results = [one for step in answer.steps for one in step.response.tool_results]
            said = answer.text
        else:
            came = streamed(agent.stream("The weather?"), _model(wire, url))
            assert came.failure is None
            results, said = list(came.response.tool_results), came.response.text

        assert [type(one.result) for one in results] == [expected]
        assert said


@pytest.mark.parametrize("wire", WIRES)
def test_a_quota_says_when_there_is_room(strained: str, wire: str) -> None:
    """The third request within a minute waits for a part of it."""
    served = _model(wire, strained, api_key=f"sk-{wire}")
    ended = [outcome(LanguageModel.generate_text("Hi"), served) for _ in range(3)]

    assert [one.map(lambda _: True).value_or(False) for one in ended] == [True, True, False]
    failure = ended[2].failure()
    _reason(failure, RateLimitError)
    assert 0 < failure.retry_after <= 30


@pytest.mark.parametrize("wire", WIRES)
def test_a_prompt_that_is_too_long_is_one(strained: str, wire: str) -> None:
    """Each wire says it in its own words; it is the same reason, and no retry."""
    failure = outcome(
        LanguageModel.generate_text("word " * 1500), _model(wire, strained, api_key=f"sk-long-{wire}", retry=RETRY)
    ).failure()

    assert _reason(failure, ContextOverflowError).message
    assert not failure.is_retryable
