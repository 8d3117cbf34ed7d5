"""aimock, a scripted server of others, on its three wires: our layers over HTTP, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai.agents import Agent
from fxai.effects import EffectOf
from fxai.messages import (
    AiError,
    AuthenticationError,
    InternalProviderError,
    InvalidOutputError,
    NetworkError,
    RateLimitError,
    Reason,
    Response,
)
from fxai.models import LanguageModel
from fxai.providers.http import RETRY
from tests.kit.node import Missing, installed, node
from tests.kit.server_process import asked, serving
from tests.kit.wires import WIRES, Watched, kit, model, outcome, streamed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("aimock")]

KEY = "sk-right"
WRONG = "sk-wrong-12345678"
HEADERS = {"authorization": f"Bearer {KEY}"}
STORY = "This is a story that is longer than one piece, and it ends well."


class Person(msgspec.Struct, frozen=True):
    """Somebody."""

    name: str
    age: int


def _calls(*cities: str) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{number}", "name": "weather", "arguments": {"city": city}} for number, city in enumerate(cities)
    ]


def _error(status: int, said: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": said, "type": "server_error"}, "status": status, **more}


SCRIPT: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"userMessage": "story"}, {"content": STORY}, {}),
    ({"userMessage": "think"}, {"reasoning": "Two and two.", "content": "Four."}, {}),
    ({"userMessage": "weather", "hasToolResult": False}, {"toolCalls": _calls("Oslo", "Rome", "Oslo")}, {}),
    ({"userMessage": "weather", "hasToolResult": True}, {"content": "Oslo 7, Rome 21."}, {}),
    ({"userMessage": "check"}, {"content": "Let me see.", "toolCalls": _calls("Rome")}, {}),
    ({"userMessage": "who"}, {"content": '{"name": "Ann", "age": 7}'}, {}),
    ({"userMessage": "often"}, _error(429, "Slow down", retryAfter=3), {}),
    ({"userMessage": "once", "sequenceIndex": 0}, _error(503, "Not now"), {}),
    ({"userMessage": "once"}, {"content": "Now."}, {}),
    ({"userMessage": "broken"}, _error(500, "Something broke"), {}),
    ({"userMessage": "cut"}, {"content": STORY}, {"truncateAfterChunks": 12, "latency": 5}),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server listens. It tells texts in pieces of four characters, and wants the right key."""
    try:
        home = installed(Path(__file__).parent / "aimock") / "@copilotkit" / "aimock"
    except Missing as missing:
        pytest.skip(f"aimock is not here: {missing}")
    script = tmp_path_factory.mktemp("aimock") / "script.json"
    fixtures = [{"match": match, "response": response, **more} for match, response, more in SCRIPT]
    script.write_text(json.dumps({"fixtures": fixtures}))
    command = [node(), str(home / "dist" / "cli.js"), "--port", "0", "--fixtures", str(script)]
    with serving([*command, "--strict", "--chunk-size", "4"], {"AIMOCK_API_KEYS": KEY}) as address:
        yield address


def _text(prompt: str) -> EffectOf[Response, Any, Any]:
    return LanguageModel.generate_text(prompt, toolkit=kit)


def _reason(failure: Any, kind: type[Reason]) -> Any:
    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, kind)
    return failure.reason


def _warned(response: Response) -> list[Any]:
    """The parts that a reader cares for, without ids that are new each time."""
    kept: list[Any] = []
    for part in response.content:
        match part.type:
            case "text" | "reasoning":
                kept += [(part.type, part.text)] if part.text else []
            case "tool-call":
                kept.append((part.type, part.id, part.name, part.params))
            case "tool-result":
                kept.append((part.type, part.id, part.result, part.is_failure))
            case "finish":
                kept.append((part.type, part.reason))
            case _:
                pass
    return kept


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("prompt", ["story", "think", "weather", "check"])
def test_a_streamed_turn_is_the_whole_one(url: str, wire: str, prompt: str) -> None:
    """Text in many pieces, reasoning, one call, three parallel ones: both ways give the same."""
    whole = outcome(_text(prompt), model(wire, url)).unwrap()
    came = streamed(LanguageModel.stream_text(prompt, toolkit=kit), model(wire, url))

    assert came.failure is None
    assert _warned(came.response) == _warned(whole)
    assert len(came.parts) > len(whole.content)


@pytest.mark.parametrize("wire", WIRES)
def test_text_comes_in_pieces(url: str, wire: str) -> None:
    """Each piece is given as it comes."""
    came = streamed(LanguageModel.stream_text("story"), model(wire, url))
    pieces = [part.delta for part in came.parts if part.type == "text-delta"]

    assert "".join(pieces) == STORY
    assert max(map(len, pieces)) <= 4


@pytest.mark.parametrize("wire", WIRES)
def test_parallel_calls_are_answered_in_their_order(url: str, wire: str) -> None:
    """Three calls, three results, none mixed up."""
    response = outcome(_text("weather"), model(wire, url)).unwrap()

    assert [call.params for call in response.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}, {"city": "Oslo"}]
    assert [result.result for result in response.tool_results] == [{"degrees": 7}, {"degrees": 21}, {"degrees": 7}]
    assert [result.id for result in response.tool_results] == ["call_0", "call_1", "call_2"]
    assert response.finish_reason == "tool-calls"


@pytest.mark.parametrize("wire", WIRES)
def test_reasoning_comes_before_the_answer(url: str, wire: str) -> None:
    """It is kept apart from the text."""
    response = outcome(_text("think"), model(wire, url)).unwrap()

    assert (response.reasoning_text, response.text) == ("Two and two.", "Four.")


@pytest.mark.parametrize("way", ["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_loop_sends_the_results_and_ends(url: str, wire: str, way: str) -> None:
    """The server takes calls and results as its own; every request fits the official SDK's types."""
    watched = Watched(wire)
    agent = Agent.make("waiter", toolkit=kit)
    served = model(wire, url, transport=watched)
    if way == "whole":
        said = outcome(agent.execute("The weather, please"), served).unwrap().text
    else:
        said = streamed(agent.stream("The weather, please"), served).response.text

    assert said == "Oslo 7, Rome 21."
    assert [body.get("stream", False) for body in watched.bodies] == [way == "streamed"] * 2
    assert watched.faults() == []
    last = asked(url, "/__aimock/journal", **HEADERS)[-1]["body"]["messages"]
    assert [json.loads(one["content"]) for one in last if one["role"] == "tool"] == [
        {"degrees": 7},
        {"degrees": 21},
        {"degrees": 7},
    ]


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_is_decoded(url: str, wire: str) -> None:
    """A schema goes out in the form of the wire, a typed value comes back."""
    watched = Watched(wire)
    answered = outcome(LanguageModel.generate_object("who is it?", Person), model(wire, url, transport=watched))

    assert answered.map(lambda one: one.value) == Success(Person("Ann", 7))
    assert watched.faults() == []
    assert '"age"' in json.dumps(watched.bodies)


@pytest.mark.parametrize("wire", WIRES)
def test_too_many_requests_say_how_long_to_wait(url: str, wire: str) -> None:
    """429 with Retry-After, whole and streamed."""
    whole = outcome(_text("often"), model(wire, url)).failure()
    came = streamed(LanguageModel.stream_text("often"), model(wire, url))

    for failure in (whole, came.failure):
        assert "Slow down" in _reason(failure, RateLimitError).description
        assert (failure.retry_after, failure.is_retryable) == (3.0, True)
    assert came.parts == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_error_can_be_retried(url: str, wire: str) -> None:
    """500 with its message."""
    failure = outcome(_text("broken"), model(wire, url)).failure()
    reason = _reason(failure, InternalProviderError)

    assert (reason.status, failure.is_retryable) == (500, True)
    assert "Something broke" in reason.description


@pytest.mark.parametrize("wire", WIRES)
def test_a_wrong_key_is_refused_and_not_shown(url: str, wire: str) -> None:
    """401 from a server that checks keys: no retry, and the key is in nothing that is said."""
    failure = outcome(_text("story"), model(wire, url, api_key=WRONG, retry=RETRY)).failure()
    came = streamed(LanguageModel.stream_text("story"), model(wire, url, api_key=WRONG))

    for one in (failure, came.failure):
        assert _reason(one, AuthenticationError).kind == "InvalidKey"
        assert not one.is_retryable
        assert WRONG not in repr(one) + str(one) + one.message


@pytest.mark.parametrize("wire", WIRES)
def test_a_retry_gets_through(url: str, wire: str) -> None:
    """A server that has no room once is asked again."""
    asked(url, "/__aimock/reset/journal", {}, **HEADERS)
    watched = Watched(wire)
    response = outcome(_text("just once"), model(wire, url, retry=RETRY, transport=watched, headers=_own(wire)))

    assert response.unwrap().text == "Now."
    assert len(watched.bodies) == 2
    assert watched.bodies[0] == watched.bodies[1]


def _own(wire: str) -> dict[str, str]:
    """A header by which the server counts the requests of one test for itself."""
    return {"x-test-id": f"once-{wire}"}


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_is_cut_keeps_what_came(url: str, wire: str) -> None:
    """The text so far, then a failure that can be retried."""
    came = streamed(LanguageModel.stream_text("cut"), model(wire, url))

    assert _reason(came.failure, NetworkError).kind == "TransportError"
    assert came.response.text
    assert STORY.startswith(came.response.text)
    assert came.response.finish_reason == "unknown"


@pytest.mark.parametrize("wire", WIRES)
def test_garbage_is_a_typed_failure(url: str, wire: str) -> None:
    """A body that is no JSON, with status 200."""
    failure = outcome(_text("story"), model(wire, url, headers={"x-aimock-chaos-malformed": "1"})).failure()

    assert _reason(failure, InvalidOutputError).message


@pytest.mark.parametrize("wire", WIRES)
def test_a_dropped_connection_is_a_typed_failure(url: str, wire: str) -> None:
    """The other side hangs up without a word."""
    failure = outcome(_text("story"), model(wire, url, headers={"x-aimock-chaos-disconnect": "1"})).failure()

    assert _reason(failure, NetworkError).kind == "TransportError"
    assert failure.is_retryable
