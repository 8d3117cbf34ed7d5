"""Responses in the background: each way in which a response can start, continue, break, and end."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import anyio
import pytest

from fxai.effects import Clock, LayerOf, fx
from fxai.messages import AiError, InternalProviderError, NetworkError, Response
from fxai.models import LanguageModel
from fxai.providers import openai
from tests.kit.http_peer import Peer, Script, Step, answer, events, peer

NOTE: Final = "response resp/1 continues in the background"
PATH: Final = "/responses/resp%2F1"
MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Good day.", "annotations": []}],
}


class Hurried(Clock):
    """A clock that records each pause and each deadline, and does not wait."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.deadlines: list[float] = []

    def now(self) -> float:
        """Return the same time always."""
        return 0.0

    def monotonic(self) -> float:
        """Return the same time always."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Record the pause."""
        self.slept.append(seconds)

    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        """Record the deadline and do not enforce it."""
        self.deadlines.append(seconds)
        return nullcontext()


def _response(status: str, **fields: Any) -> dict[str, Any]:
    output = [MESSAGE] if status == "completed" else []
    return {"id": "resp/1", "object": "response", "model": "gpt-5.5", "status": status, "output": output, **fields}


def _state(status: str, **fields: Any) -> Script:
    return [answer(200, json.dumps(_response(status, **fields)).encode())]


def _event(kind: str, number: int, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, 'sequence_number': number, **fields})}\n\n".encode()


EVENTS: Final = [
    _event("response.created", 0, response=_response("queued")),
    _event("response.in_progress", 1, response=_response("in_progress")),
    _event("response.output_item.added", 2, output_index=0, item={**MESSAGE, "status": "in_progress", "content": []}),
    _event("response.output_text.delta", 3, item_id="msg_1", output_index=0, content_index=0, delta="Good "),
    _event("response.output_text.delta", 4, item_id="msg_1", output_index=0, content_index=0, delta="day."),
    _event("response.output_item.done", 5, output_index=0, item=MESSAGE),
    _event("response.completed", 6, response=_response("completed")),
]
REFUSAL: Final = answer(401, b'{"error": {"message": "Wrong key."}}')


def _cut(*pieces: bytes) -> list[bytes | Step]:
    """Return a script that sends these events and closes the connection."""
    return [*events(b"".join(pieces), whole=False), Step.CLOSE]


def _layer(served: Peer, clock: Clock | None = None, **options: Any) -> Any:
    given: Any = {"background": True, "base_url": served.url, "api_key": "k", "retry": None, **options}
    return openai.layer("gpt-5.5", **given).provide_merge(LayerOf.succeed(Clock, clock or Hurried()))


def _whole(served: Peer, **options: Any) -> Any:
    return fx.run_result(LanguageModel.generate_text("Hello").provide(_layer(served, **options)))


def _streamed(served: Peer, **options: Any) -> Any:
    return fx.run_result(LanguageModel.stream_text("Hello").collect().provide(_layer(served, **options)))


def _lines(served: Peer) -> list[str]:
    return [" ".join(seen.line.split()[:2]).partition("?")[0] for seen in served.seen]


def test_a_response_is_requested_until_it_is_over() -> None:
    """The pauses are 0.5 s, 1 s, and so on, and at most `every`. Each request names the same response."""
    clock = Hurried()
    with peer(_state("queued"), *[_state("in_progress")] * 3, _state("completed")) as served:
        said = _whole(served, clock=clock, background=openai.Background(every=1.5)).unwrap()

    assert said.text == "Good day."
    assert _lines(served) == ["POST /responses", *[f"GET {PATH}"] * 4]
    assert clock.slept == [0.5, 1.0, 1.5, 1.5]


def test_a_response_that_is_over_is_not_requested_again() -> None:
    """A server without background responses answers the first request."""
    clock = Hurried()
    with peer(_state("completed")) as served:
        said = _whole(served, clock=clock).unwrap()

    assert (said.text, _lines(served), clock.slept) == ("Good day.", ["POST /responses"], [])


def test_a_stream_resumes_after_its_last_event() -> None:
    """Wherever the connection breaks, the parts are the same as the parts of a stream that does not break."""
    with peer(events(*EVENTS)) as served:
        unbroken = _streamed(served).unwrap()
    for at in (1, 3, 5):
        clock = Hurried()
        with peer(_cut(*EVENTS[:at]), events(*EVENTS[at:])) as served:
            broken = _streamed(served, clock=clock).unwrap()
        _, query = served.seen[1].line.split()[1].split("?")

        assert broken == unbroken
        assert clock.slept == [0.5]
        assert query.startswith(f"stream=true&starting_after={at - 1}&include[]=")
    assert Response.from_stream(unbroken).text == "Good day."


def test_a_stream_can_be_one_whole_answer() -> None:
    """A server without streams answers with JSON. The parts arrive, and fxai does not resume the stream."""
    with peer(_state("completed")) as served:
        parts = _streamed(served).unwrap()

    assert Response.from_stream(parts).text == "Good day."
    assert _lines(served) == ["POST /responses"]


def test_an_event_that_arrives_twice_counts_once() -> None:
    """A server may repeat events after a break. The stream contains each of them once."""
    with peer(_cut(*EVENTS[:4]), events(*EVENTS[2:])) as served:
        parts = _streamed(served).unwrap()

    assert Response.from_stream(parts).text == "Good day."
    assert [part.delta for part in parts if part.type == "text-delta"] == ["Good ", "day."]


@pytest.mark.parametrize("resumes", [0, 1, 3])
def test_a_stream_resumes_as_often_as_the_options_allow(resumes: int) -> None:
    """`resumes` counts breaks in a row. A new event between two breaks starts the count again."""
    rest: Sequence[Script] = [_cut(EVENTS[0])] * (resumes + 1)  # an event that the stream contains already
    with peer(_cut(EVENTS[0]), *([_cut(EVENTS[1])] if resumes else []), *rest) as served:
        failure = _streamed(served, background=openai.Background(resumes=resumes)).failure()

    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, NetworkError)
    assert NOTE in failure.message
    assert len(served.seen) == 1 + resumes + (1 if resumes else 0)


def test_a_stream_without_numbers_does_not_resume() -> None:
    """Without a sequence number fxai cannot name the last event, so the break is a failure."""
    bare = EVENTS[1].replace(b'"sequence_number": 1, ', b"")
    with peer(_cut(EVENTS[0], bare, EVENTS[2]), events(*EVENTS)) as served:
        failure = _streamed(served).failure()

    assert isinstance(failure.reason, NetworkError)
    assert len(served.seen) == 1


def test_a_failure_that_is_not_retryable_ends_the_stream() -> None:
    """A wrong key stays wrong, so fxai does not resume the stream a second time."""
    with peer(_cut(EVENTS[0]), [REFUSAL], events(*EVENTS[1:])) as served:
        failure = _streamed(served).failure()

    assert type(failure.reason).__name__ == "AuthenticationError"
    assert len(served.seen) == 2


@pytest.mark.parametrize("ask", [_whole, _streamed])
def test_a_response_that_did_not_start_is_not_mentioned(ask: Any) -> None:
    """The first request failed: the failure of the server arrives unchanged, and fxai cancels nothing."""
    with peer([REFUSAL]) as served:
        failure = ask(served).failure()

    assert isinstance(failure, AiError)
    assert type(failure.reason).__name__ == "AuthenticationError"
    assert "Wrong key." in failure.message
    assert "in the background" not in failure.message
    assert _lines(served) == ["POST /responses"]


@pytest.mark.parametrize("reply", [[REFUSAL], [Step.CLOSE], [answer(500, b"")]])
def test_a_request_that_fails_mentions_the_running_response(reply: Script) -> None:
    """The failure names the response, so that a program can read the response later. fxai does not cancel it."""
    with peer(_state("queued"), reply) as served:
        failure = _whole(served).failure()

    assert NOTE in failure.message
    assert not failure.reason.description.startswith(";")
    assert _lines(served) == ["POST /responses", f"GET {PATH}"]


def test_a_response_that_failed_is_over() -> None:
    """The failure of the response does not mention the background, and fxai sends no other request."""
    failed = {"error": {"code": "server_error", "message": "Overheated."}}
    event = _event("response.failed", 2, response=_response("failed", **failed))
    with peer(_state("queued"), _state("failed", **failed)) as one, peer(events(*EVENTS[:2], event)) as other:
        failures = [_whole(one).failure(), _streamed(other).failure()]

    for failure in failures:
        assert isinstance(failure.reason, InternalProviderError)
        assert "Overheated." in failure.message
        assert "in the background" not in failure.message
    assert _lines(one) == ["POST /responses", f"GET {PATH}"]
    assert _lines(other) == ["POST /responses"]


@pytest.mark.parametrize("cancel", [True, False])
@pytest.mark.parametrize("status", [200, 500])
def test_a_reader_that_leaves_cancels_the_response(
    *, cancel: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With `cancel=False` the response continues. A cancellation has 10 s, and one that fails is a line of the log."""
    begun: Script = [*events(b"".join(EVENTS[:4]), whole=False), Step.HANG]
    clock, options = Hurried(), openai.Background(cancel=cancel)
    with caplog.at_level(logging.WARNING, "fxai.openai"), peer(begun, [answer(status, b"{}")]) as served:
        parts = fx.run(
            LanguageModel.stream_text("Hello").take(2).collect().provide(_layer(served, clock, background=options))
        )

    assert len(parts) == 2
    assert clock.deadlines == ([10.0] if cancel else [])
    assert _lines(served)[1:] == ([f"POST {PATH}/cancel"] if cancel else [])
    assert ("response resp/1 may continue at OpenAI" in caplog.text) is (cancel and status == 500)


def test_a_program_that_is_interrupted_cancels_the_response() -> None:
    """A race that another effect wins interrupts the request for the state of the response."""
    with peer(_state("queued"), [Step.HANG], _state("cancelled")) as served:

        async def wait() -> None:
            assert await served.asked()
            assert await served.asked()

        late = fx.wait(wait).as_("late")
        won: Any = fx.run(fx.race(LanguageModel.generate_text("Hello"), late).provide(_layer(served)))

    assert won == "late"
    assert _lines(served) == ["POST /responses", f"GET {PATH}", f"POST {PATH}/cancel"]


def test_a_known_response_is_read_by_its_id() -> None:
    """`response_id` reads a response that another process started, whole or as a stream. fxai starts no new one."""
    options = {"openai": {"response_id": "resp/1"}}
    with peer(_state("in_progress"), _state("completed")) as one, peer(events(*EVENTS)) as other:
        whole = LanguageModel.generate_text("Hello", provider_options=options)
        stream = LanguageModel.stream_text("Hello", provider_options=options).collect()
        said = fx.run(whole.provide(_layer(one, background=False)))
        parts = fx.run(stream.provide(_layer(other, background=False)))

    assert said.text == Response.from_stream(parts).text == "Good day."
    assert (_lines(one), _lines(other)) == ([f"GET {PATH}"] * 2, [f"GET {PATH}"])
    assert "starting_after" not in other.seen[0].line


def test_the_options_are_fields_of_the_request() -> None:
    """A window and a continuation are in `background_options`, and a response with a window is not streamed."""
    waiting = openai.Background(window="8h", continuation_id="night")
    with peer(_state("completed")) as served:
        parts = _streamed(served, background=waiting).unwrap()
    sent = json.loads(served.seen[0].body)

    assert Response.from_stream(parts).text == "Good day."
    assert sent["background"] is True
    assert sent["background_options"] == {"completion_window": "8h", "continuation_id": "night"}
    assert "stream" not in sent
    assert openai.Background().fields == {"background": True}


@pytest.mark.parametrize("wrong", [{"every": 0}, {"resumes": -1}])
def test_a_wait_without_time_is_invalid(wrong: Any) -> None:
    """`every` must be above 0, and `resumes` must be at least 0."""
    assert openai.Background(every=0.1, resumes=0).resumes == 0
    with pytest.raises(ValueError, match=r"every must be above 0, got .*; resumes must be at least 0"):
        openai.Background(**wrong)


@pytest.mark.parametrize("body", [b'{"id": "\xff"}', b"[" * 100_000], ids=["not UTF-8", "deep"])
def test_a_state_that_cannot_be_read_is_a_failure(body: bytes) -> None:
    """A whole answer and an event that are not JSON end the response with `InvalidOutputError`."""
    with peer([answer(200, body)]) as one, peer(events(b"data: " + body + b"\n\n")) as other:
        failures = [_whole(one).failure(), _streamed(other).failure()]

    assert [type(failure.reason).__name__ for failure in failures] == ["InvalidOutputError"] * 2
