"""Responses in the background over HTTP: begun, asked for, streamed over broken connections, cancelled."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import anyio
import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseInProgressEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseQueuedEvent,
    ResponseTextDeltaEvent,
    response_create_params,
    response_retrieve_params,
)

from fxai.effects import Clock, LayerOf, fx
from fxai.messages import AiError, InternalProviderError, NetworkError, Prompt
from fxai.messages import Response as Said
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import openai
from tests.kit.every import every
from tests.kit.http_peer import Peer, Step, answer, events, peer
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow

TEXT = ResponseOutputText(text="Good day.", type="output_text", annotations=[])
DONE: Any = ResponseOutputMessage(id="msg_1", content=[TEXT], role="assistant", status="completed", type="message")


def _response(status: Any, *output: Any) -> Response:
    about: Any = {"model": "gpt-5.5", "object": "response", "parallel_tool_calls": True, "tool_choice": "auto"}
    return Response(
        id="resp/1", created_at=1, status=status, output=list(output), tools=[], background=True, error=None, **about
    )


def _state(status: str, *output: Any) -> bytes:
    return answer(200, _response(status, *output).to_json().encode())


def _event(event: Any) -> bytes:
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()


def _delta(text: str, number: int) -> Any:
    about: Any = {"content_index": 0, "item_id": "msg_1", "logprobs": [], "output_index": 0}
    return ResponseTextDeltaEvent(delta=text, sequence_number=number, type="response.output_text.delta", **about)


BEGUN: Any = DONE.model_copy(update={"content": [], "status": "in_progress"})
EVENTS = [
    _event(ResponseCreatedEvent(response=_response("queued"), sequence_number=0, type="response.created")),
    _event(ResponseQueuedEvent(response=_response("queued"), sequence_number=1, type="response.queued")),
    _event(ResponseInProgressEvent(response=_response("in_progress"), sequence_number=2, type="response.in_progress")),
    _event(
        ResponseOutputItemAddedEvent(item=BEGUN, output_index=0, sequence_number=3, type="response.output_item.added")
    ),
    _event(_delta("Good ", 4)),
    _event(_delta("day.", 5)),
    _event(ResponseOutputItemDoneEvent(item=DONE, output_index=0, sequence_number=6, type="response.output_item.done")),
    _event(ResponseCompletedEvent(response=_response("completed", DONE), sequence_number=7, type="response.completed")),
]


def _layer(served: Peer, **options: Any) -> Any:
    given: Any = {"background": True, "base_url": served.url, "api_key": "sk-1", "retry": None, **options}
    model = openai.layer("gpt-5.5", **given)
    return model.provide_merge(LayerOf.succeed(Clock, Hurried()))


class Hurried(Clock):
    """A clock whose pauses are noted and take no time, and by which nothing is late."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        """The same moment."""
        return 0.0

    def monotonic(self) -> float:
        """The same moment."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Notes the pause."""
        self.slept.append(seconds)

    def deadline(self, scope: anyio.CancelScope, seconds: float) -> AbstractAsyncContextManager[None]:
        """Nothing is cut."""
        return nullcontext()


def _lines(served: Peer) -> list[str]:
    return [" ".join(seen.line.split()[:2]) for seen in served.seen]


def test_a_whole_answer_is_asked_for_until_it_is_over() -> None:
    """Begun at once, asked for with growing pauses; what is included is asked for each time."""
    clock = Hurried()
    scripts = [[_state("queued")], [_state("in_progress")], [_state("in_progress")], [_state("completed", DONE)]]
    with peer(*scripts) as served:
        model = openai.layer("gpt-5.5", base_url=served.url, api_key="k", background=openai.Background(every=1.5))
        asked = LanguageModel.generate_text("Hello").provide(model)
        said = fx.run(asked.provide(LayerOf.succeed(Clock, clock)))
    sent = json.loads(served.seen[0].body)

    assert said.text == "Good day."
    assert faults(response_create_params.ResponseCreateParamsNonStreaming, sent) == []
    assert sent["background"] is True
    assert _lines(served) == ["POST /responses"] + ["GET /responses/resp%2F1?include[]=reasoning.encrypted_content"] * 3
    assert clock.slept == [0.5, 1.0, 1.5]


def test_an_answer_that_is_there_at_once_is_not_asked_for() -> None:
    """A server that knows no background answers at once."""
    with peer([_state("completed", DONE)]) as served:
        said = fx.run(LanguageModel.generate_text("Hello").provide(_layer(served)))

    assert said.text == "Good day."
    assert len(served.seen) == 1


@every("breaks", range(1, len(EVENTS)))
@every("how", [Step.CLOSE, Step.RESET, None])
def test_a_stream_that_breaks_goes_on_behind_its_last_event(breaks: int, how: Step | None) -> None:
    """Wherever and however it breaks: the parts are those of an unbroken stream, each once."""
    before, after = EVENTS[:breaks], EVENTS[breaks:]
    first = events(b"".join(before), whole=how is None)
    with peer([*first, *([] if how is None else [how])], events(b"".join(after))) as served:
        broken = fx.run(LanguageModel.stream_text("Hello").collect().provide(_layer(served)))
    with peer(events(b"".join(EVENTS))) as whole:
        unbroken = fx.run(LanguageModel.stream_text("Hello").collect().provide(_layer(whole)))
    resumed = served.seen[1].line.split()[1]

    assert broken == unbroken
    assert Said.from_stream(broken).text == "Good day."
    assert resumed.startswith(f"/responses/resp%2F1?stream=true&starting_after={breaks - 1}&include[]=")
    assert len(whole.seen) == 1


def test_the_query_of_a_resumed_stream_fits_the_sdk() -> None:
    """Its names are those of the SDK's parameters of a response that is retrieved."""
    with peer([*events(b"".join(EVENTS[:4]), whole=False), Step.CLOSE], events(b"".join(EVENTS[4:]))) as served:
        fx.run(LanguageModel.stream_text("Hello").collect().provide(_layer(served)))
    query = dict(pair.split("=") for pair in served.seen[1].line.split()[1].partition("?")[2].split("&"))
    found = {"stream": query["stream"] == "true", "starting_after": int(query["starting_after"])}

    assert faults(response_retrieve_params.ResponseRetrieveParamsStreaming, found) == []
    assert set(query) == {"stream", "starting_after", "include[]"}


def test_events_that_come_twice_are_given_once() -> None:
    """A server that begins anew gives no text twice."""
    with peer([*events(b"".join(EVENTS[:5]), whole=False), Step.CLOSE], events(b"".join(EVENTS))) as served:
        parts = fx.run(LanguageModel.stream_text("Hello").collect().provide(_layer(served)))

    assert Said.from_stream(parts).text == "Good day."
    assert sum(part.type == "response-metadata" for part in parts) == 1


def test_a_stream_that_breaks_too_often_fails_and_says_how_to_go_on() -> None:
    """Only breaks in a row count; the failure names the response, which is not cancelled."""
    one: Sequence[bytes | Step] = [*events(EVENTS[0], whole=False), Step.CLOSE]
    nothing: Sequence[bytes | Step] = [*events(whole=False), Step.CLOSE]
    model = {"background": openai.Background(resumes=2)}
    with peer(one, nothing, nothing, nothing) as served:
        ended: Any = fx.run_result(
            LanguageModel.stream_text("Hello").collect().provide(_layer(served, **model))
        ).failure()

    assert isinstance(ended, AiError)
    assert "response resp/1 continues in the background" in ended.message
    assert len(served.seen) == 3
    assert not any(seen.line.startswith("POST /responses/resp") for seen in served.seen)


def test_a_stream_without_numbers_is_not_taken_up_again() -> None:
    """A server that counts no events could not say where it goes on: nothing is given twice, it fails."""
    bare = [one.replace(b'"sequence_number":', b'"number":') for one in EVENTS[:5]]
    with peer([*events(b"".join(bare), whole=False), Step.CLOSE], events(b"".join(EVENTS))) as served:
        ended: Any = fx.run_result(LanguageModel.stream_text("Hello").collect().provide(_layer(served))).failure()

    assert isinstance(ended.reason, NetworkError)
    assert len(served.seen) == 1


def test_a_response_goes_on_by_its_id() -> None:
    """In another process: whole, or as a stream from its beginning; nothing is begun anew."""
    options = {"openai": {"response_id": "resp/1"}}
    with peer([_state("in_progress")], [_state("completed", DONE)]) as served:
        asked = LanguageModel.generate_text("Hello", provider_options=options)
        said = fx.run(asked.provide(_layer(served, background=False)))
    with peer(events(b"".join(EVENTS))) as streaming:
        stream = LanguageModel.stream_text("Hello", provider_options=options).collect()
        parts = fx.run(stream.provide(_layer(streaming, background=False)))

    assert said.text == Said.from_stream(parts).text == "Good day."
    assert all(line.startswith("GET /responses/resp%2F1") for line in (*_lines(served), *_lines(streaming)))


@pytest.mark.parametrize("cancel", [True, False])
@pytest.mark.parametrize("streams", [True, False])
def test_a_program_that_is_interrupted_cancels_the_response(*, cancel: bool, streams: bool) -> None:
    """Unless it is told to leave it; a reader that leaves the stream does the same."""
    options = {"background": openai.Background(cancel=cancel)}
    begun: Sequence[bytes | Step] = [*events(b"".join(EVENTS[:5]), whole=False), Step.HANG]
    first = begun if streams else [_state("queued")]
    rest: list[list[bytes | Step]] = [] if streams else [[Step.HANG]]
    with peer(first, *rest, [_state("cancelled")]) as served:
        if streams:
            program: Any = LanguageModel.stream_text("Hello").take(2).collect()
        else:
            program = fx.race(
                LanguageModel.generate_text("Hello"), fx.wait(_twice(served)).and_then(fx.succeed("late"))
            )
        fx.run(program.provide(_layer(served, **options)))
    cancelled = [line for line in _lines(served) if line.endswith("/cancel")]

    assert cancelled == (["POST /responses/resp%2F1/cancel"] if cancel else [])


def _twice(served: Peer) -> Callable[[], Awaitable[None]]:
    async def wait() -> None:
        assert await served.asked()
        assert await served.asked()

    return wait


def test_a_cancellation_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It does not replace what the program gives."""
    with (
        caplog.at_level(logging.WARNING, "fxai.openai"),
        peer([*events(b"".join(EVENTS[:5]), whole=False), Step.HANG], [answer(500, b"{}")]) as served,
    ):
        parts = fx.run(LanguageModel.stream_text("Hello").take(2).collect().provide(_layer(served)))

    assert len(parts) == 2
    assert "response resp/1 may continue at OpenAI" in caplog.text


def test_a_response_that_fails_is_a_failure() -> None:
    """As OpenAI says; nothing is resumed or cancelled, it is over."""
    failed = json.loads(_response("failed").to_json())
    failed["error"] = {"code": "server_error", "message": "Overheated."}
    told = json.dumps({"type": "response.failed", "sequence_number": 4, "response": failed})
    with peer([_state("queued")], [answer(200, json.dumps(failed).encode())]) as whole:
        first: Any = fx.run_result(LanguageModel.generate_text("Hello").provide(_layer(whole))).failure()
    with peer(events(b"".join([*EVENTS[:4], f"data: {told}\n\n".encode()]))) as served:
        second: Any = fx.run_result(LanguageModel.stream_text("Hello").collect().provide(_layer(served))).failure()

    for error in (first, second):
        assert isinstance(error.reason, InternalProviderError)
        assert "Overheated." in error.message
        assert "continues in the background" not in error.message
    assert (len(whole.seen), len(served.seen)) == (2, 1)


def test_a_question_that_fails_says_that_the_response_is_there() -> None:
    """So that a program can go on with it later."""
    with peer([_state("queued")], [Step.CLOSE]) as served:
        ended: Any = fx.run_result(LanguageModel.generate_text("Hello").provide(_layer(served))).failure()

    assert isinstance(ended.reason, NetworkError)
    assert "response resp/1 continues in the background" in ended.message


def test_a_cheaper_window_is_waited_for_and_not_streamed() -> None:
    """OpenAI streams none of those; the parts come when the answer is there."""
    waiting = openai.Background(window="8h", continuation_id="night")
    with peer([_state("queued")], [_state("completed", DONE)]) as served:
        stream = LanguageModel.stream_text("Hello").collect()
        parts = fx.run(stream.provide(_layer(served, background=waiting)))
    sent = json.loads(served.seen[0].body)

    assert Said.from_stream(parts).text == "Good day."
    assert "stream" not in sent
    assert sent["background_options"] == {"completion_window": "8h", "continuation_id": "night"}
    assert faults(response_create_params.ResponseCreateParamsNonStreaming, sent) == []


def test_a_request_may_choose_for_itself() -> None:
    """On and off, in place of the layer; on Chat Completions there is no background, and a warning says so."""
    prompt, on = Prompt.make("Hello"), openai.Profile(background=openai.Background(every=9))
    off = ModelRequest(prompt, provider_options={"openai": {"background": False}})
    alone = ModelRequest(prompt, provider_options={"openai": {"background": True}})
    chosen = openai.prepare_request(off, model="gpt-5.5", profile=on)
    begun = openai.prepare_request(alone, model="gpt-5.5")
    chat = openai.prepare_request(ModelRequest(prompt), model="gpt-5.5", profile=on, api="chat")

    assert (chosen.background, chosen.fields["background"]) == (None, False)
    assert begun.background == openai.Background()
    assert [warning.subject for warning in chat.warnings] == ["background"]
    assert "background" not in chat.fields


@pytest.mark.parametrize("wrong", [{"every": 0}, {"resumes": -1}])
def test_a_wait_that_is_none_is_refused(wrong: Any) -> None:
    """With what to give."""
    with pytest.raises(ValueError, match=r"every must be above 0, got .*; resumes must be at least 0"):
        openai.Background(**wrong)


_DEEP = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize("body", [b'{"id": "\xff"}', _DEEP], ids=["no text", "deep"])
def test_an_answer_that_is_none_is_told(body: bytes) -> None:
    """Whatever the server writes, it is no crash."""
    with peer([answer(200, body)]) as served:
        failure: Any = fx.run_result(LanguageModel.generate_text("?").provide(_layer(served))).failure()

    assert type(failure.reason).__name__ == "InvalidOutputError"


def test_an_event_that_is_none_is_told() -> None:
    """As a whole answer."""
    with peer([answer(200, b"data: " + _DEEP + b"\n\n", kind="text/event-stream")]) as served:
        asked = LanguageModel.stream_text("?").collect().provide(_layer(served))
        failure: Any = fx.run_result(asked).failure()

    assert type(failure.reason).__name__ == "InvalidOutputError"
