"""Anthropic's models as a service, over HTTP that a test answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx2
import msgspec
import pytest
from typing_extensions import override

from fxai.effects import Backend, Layer, Schedule, fx
from fxai.messages import (
    AiError,
    AuthenticationError,
    FilePart,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    NetworkError,
    Prompt,
    RateLimitError,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import from_name
from fxai.providers.anthropic import AnthropicModel, facts, layer
from fxai.providers.http import Secret
from fxai.schema import JsonSchema
from fxai.tools import Tool, Toolkit
from tests.kit.anthropic_replies import ALL_BLOCKS, MODEL, events_of, message, sse

KEY = "sk-ant-very-secret"
HELLO = [{"type": "text", "text": "Good day.", "citations": None}]
EVENTS = {"content-type": "text/event-stream"}


class Wire:
    """Answers requests in turn, and keeps what was asked."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.asked: list[httpx2.Request] = []
        self._answers = iter(answers)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """The next answer."""
        self.asked.append(request)
        return next(self._answers)

    @property
    def bodies(self) -> list[Any]:
        """What was asked, parsed."""
        return [json.loads(request.content) for request in self.asked]

    def layer(self, model: str | None = MODEL, **options: Any) -> Layer[LanguageModel, AiError]:
        """The layer of a model that this wire answers."""
        given: dict[str, Any] = {"api_key": KEY, "retry": None, **options}
        return layer(model, transport=httpx2.MockTransport(self), **given)


def _whole(content: Iterable[Any] = HELLO, stop: str = "end_turn") -> httpx2.Response:
    return httpx2.Response(200, json=message(list(content), stop))


def _streamed(content: Iterable[Any] = HELLO, stop: str = "end_turn") -> httpx2.Response:
    return httpx2.Response(200, content=sse(events_of(message(list(content), stop))), headers=EVENTS)


def _ask(wire: Wire, *, of: dict[str, Any] | None = None, **options: Any) -> Any:
    asked = LanguageModel.generate_text("Hello", **options)
    return fx.run_result(asked.provide(wire.layer(**(of or {}))))


def test_a_short_answer_is_asked_for_whole(backend: Backend) -> None:
    """One request to the Messages API, with the key, the version and no null; the answer is read."""
    wire = Wire(_whole())
    asked = LanguageModel.generate_text("Hello", max_tokens=100).provide(wire.layer())
    response = fx.run(asked, backend=backend)
    sent = wire.asked[0]

    assert response.text == "Good day."
    assert (sent.method, str(sent.url)) == ("POST", "https://api.anthropic.com/v1/messages")
    assert (sent.headers["x-api-key"], sent.headers["anthropic-version"]) == (KEY, "2026-10-21")
    assert "anthropic-beta" not in sent.headers
    assert wire.bodies[0] == {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }


def test_an_answer_that_may_be_long_is_asked_for_as_a_stream() -> None:
    """Ten minutes of silence are cut on the way. What comes of it is the same; tools do not stream to it unchecked."""
    kit = Toolkit.make(Tool.make("ping").external())
    wire = Wire(_streamed(), _whole())
    long = _ask(wire, toolkit=kit).unwrap()
    short = _ask(wire, toolkit=kit, max_tokens=21_333).unwrap()

    assert long.content == short.content
    assert [body.get("stream") for body in wire.bodies] == [True, None]
    assert wire.bodies[0]["max_tokens"] == 128_000
    assert "eager_input_streaming" not in wire.bodies[0]["tools"][0]


def test_a_temporary_error_at_the_start_of_a_long_answer_is_retried() -> None:
    """The first event is an error with status 200, and fxai sends the request again."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    overloaded = httpx2.Response(200, content=sse([error]), headers=EVENTS)
    wire = Wire(overloaded, _streamed())

    assert _ask(wire, of={"retry": Schedule.recurs(1)}).unwrap().text
    assert len(wire.bodies) == 2


class _Cut(httpx2.AsyncByteStream):
    """A body whose connection breaks after its first event."""

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield sse(events_of(message(list(HELLO)))[:1])
        raise httpx2.ReadError("reset")


def test_a_long_answer_whose_connection_breaks_is_retried() -> None:
    """The caller reads no part before the end, so fxai sends the request again, as for a short answer."""
    cut = httpx2.Response(200, stream=_Cut(), headers=EVENTS)
    wire = Wire(cut, _streamed())

    assert _ask(wire, of={"retry": Schedule.recurs(1)}).unwrap().text == "Good day."
    assert len(wire.bodies) == 2


def test_a_stream_is_told_as_it_comes(backend: Backend) -> None:
    """The parts of the events, in order; tools stream their parameters."""
    wire = Wire(_streamed())
    stream = LanguageModel.stream_text("Hello", toolkit=Toolkit.make(Tool.make("ping").external()))
    parts = fx.run(stream.provide(wire.layer()).collect(), backend=backend)

    assert [part.type for part in parts] == [
        *("response-metadata", "text-start", "text-delta", "text-delta", "text-delta", "text-end", "finish"),
    ]
    assert wire.bodies[0]["stream"] is True
    assert wire.bodies[0]["tools"][0]["eager_input_streaming"] is True


def test_calls_are_run_and_their_results_go_back() -> None:
    """A whole round, and the next one over the history that it left."""
    ping = Tool.dynamic("net.ping", success=str)
    kit = Toolkit.make(ping)
    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "net__ping", "input": {}}
    wire = Wire(_whole([call], "tool_use"), _whole())

    @fx.gen
    def talk() -> Any:
        first = yield from LanguageModel.generate_text("Hello", toolkit=kit, max_tokens=9)
        said = Prompt.make("Hello").concat(Prompt.from_parts(first.content))
        return (yield from LanguageModel.generate_text(said, toolkit=kit, max_tokens=9))

    program: Any = talk().provide(kit.to_layer(ping.handler(lambda _: fx.succeed("pong")))).provide(wire.layer())
    response = fx.run(program)

    assert response.text == "Good day."
    assert wire.bodies[1]["messages"][1:] == [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "pong"}]},
    ]


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-20250514"])
def test_a_typed_answer_is_decoded(model: str) -> None:
    """By structured outputs, or by a tool where the model has none: the program is the same."""
    value = {"name": "Oslo"}
    by_tool = {"type": "tool_use", "id": "t", "name": "City", "input": value}
    content = [{"type": "text", "text": json.dumps(value)}] if model == MODEL else [by_tool]
    wire = Wire(_whole(content, "end_turn" if model == MODEL else "tool_use"))
    asked = LanguageModel.generate_object("Where?", City, max_tokens=99).provide(wire.layer(model))

    assert fx.run(asked).value == City("Oslo")
    assert ("output_config" in wire.bodies[0]) == (model == MODEL)


def test_what_was_held_back_is_told_before_the_failure() -> None:
    """An answer that would have been led back to its schema, had it been whole, stands as it came."""
    content = [{"type": "text", "text": '{"value": [1, 2]}', "citations": None}]
    cut = httpx2.Response(200, content=sse(events_of(message(content))[:5]), headers=EVENTS)
    schema = JsonSchema.of({"type": "array", "items": {"type": "integer"}})
    told: list[Any] = []

    @fx.gen
    def asked() -> Any:
        model = yield from LanguageModel
        stream = model.ask_stream(ModelRequest(Prompt.make("Hello"), response_schema=schema))
        yield from stream.for_each(lambda part: fx.sync(lambda: told.append(part)))

    error = fx.run_result(asked().provide(Wire(cut).layer())).failure()

    assert error.is_retryable
    assert [part.delta for part in told if part.type == "text-delta"] == ['{"valu']


@pytest.mark.parametrize("method", ["ask", "ask_stream"])
def test_what_cannot_be_sent_fails_before_the_request(method: str) -> None:
    """Two tools of one name on the wire, or a file that it does not take; the failure says what was being done."""
    film = Prompt((UserMessage.make(FilePart("video/mp4", b"x")),))
    for request, said in (
        (ModelRequest(Prompt.make("Hi"), (Tool.make("a.b"), Tool.make("a b"))), "'a.b' and 'a b'"),
        (ModelRequest(film), "does not accept files of type 'video/mp4'"),
    ):
        wire = Wire()

        @fx.gen
        def asked(request: ModelRequest = request) -> Any:
            model = yield from LanguageModel
            if method == "ask":
                return (yield from model.ask(request))
            return (yield from model.ask_stream(request).collect())

        error: AiError = fx.run_result(asked().provide(wire.layer())).failure()

        assert (error.module, error.method, wire.asked) == ("anthropic", method, [])
        assert said in error.message


def test_a_cut_stream_fails_behind_what_came() -> None:
    """The parts stand, then comes a typed failure that says that trying again can help."""
    body = sse(events_of(message(HELLO))[:4])
    got: list[Any] = []
    stream = LanguageModel.stream_text("Hello").provide(
        Wire(httpx2.Response(200, content=body, headers=EVENTS)).layer()
    )
    failure = fx.run_result(stream.tap(lambda part: fx.sync(lambda: got.append(part))).drain()).failure()

    assert [part.type for part in got] == ["response-metadata", "text-start", "text-delta"]
    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, NetworkError)
    assert str(failure).startswith("anthropic.ask_stream: TransportError")


def test_a_long_answer_that_is_cut_is_a_failure_of_the_question() -> None:
    """It is told as what was asked."""
    body = sse(events_of(message(HELLO))[:4])
    failure = _ask(Wire(httpx2.Response(200, content=body, headers=EVENTS))).failure()

    assert (failure.method, failure.is_retryable) == ("ask", True)


def test_events_that_never_come_to_an_end_are_a_failure() -> None:
    """An error event in the middle, and an event that is none."""
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slowly"}}
    cut = events_of(message(HELLO))[:3]
    failures = [
        _ask(Wire(httpx2.Response(200, content=sse([*cut, last]), headers=EVENTS))).failure()
        for last in (error, {"type": "content_block_stop", "index": 7})
    ]

    assert isinstance(failures[0].reason, RateLimitError)
    assert "/index" in failures[1].message


def test_an_answer_in_words_of_http_is_a_typed_failure() -> None:
    """The status and the body say which; the seconds to wait are kept."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slowly"}}
    failure = _ask(Wire(httpx2.Response(429, json=body, headers={"retry-after": "7"})), max_tokens=9).failure()

    assert isinstance(failure.reason, RateLimitError)
    assert failure.retry_after == 7.0
    assert "slowly" in failure.message


def test_what_cannot_be_sent_fails_before_anything_is_sent() -> None:
    """A wrong option, a call without a result, two tools of one name on the wire: typed failures, no request."""
    wire = Wire()
    twice: Toolkit[Any] = Toolkit.of([Tool.make("a.b").external(), Tool.make("a__b").external()])
    option = _ask(wire, provider_options={"anthropic": {"nothing": 1}}).failure()
    names = _ask(wire, toolkit=twice).failure()
    nothing = fx.run_result(LanguageModel.stream_text([]).provide(wire.layer()).drain()).failure()

    assert isinstance(option.reason, InvalidRequestError)
    assert isinstance(names.reason, InvalidRequestError)
    assert "'a.b' and 'a__b'" in names.message
    assert isinstance(nothing, AiError)
    assert isinstance(nothing.reason, InvalidUserInputError)
    assert wire.asked == []


def test_the_key_is_read_when_the_layer_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment unless it is given; without one the failure names the variable."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    wire = Wire(_whole())
    missing = _ask(wire, of={"api_key": None}).failure()
    built = wire.layer(api_key=None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    fx.run(LanguageModel.generate_text("Hello", max_tokens=9).provide(built))

    assert isinstance(missing.reason, AuthenticationError)
    assert "ANTHROPIC_API_KEY" in missing.message
    assert wire.asked[0].headers["x-api-key"] == "sk-env"


def test_a_key_may_come_from_an_effect() -> None:
    """Such as one that reads a vault; a failure of it is the layer's."""
    wire = Wire(_whole())
    _ask(wire, of={"api_key": fx.succeed(Secret("sk-vault"))}, max_tokens=9).unwrap()
    failing = fx.fail(AiError("vault", "read", AuthenticationError("MissingKey")))

    assert wire.asked[0].headers["x-api-key"] == "sk-vault"
    assert _ask(Wire(_whole()), of={"api_key": failing}, max_tokens=9).failure().module == "vault"


def test_the_key_is_shown_nowhere() -> None:
    """Not in a repr, and not in an error in which the provider repeats it."""
    body = {"type": "error", "error": {"type": "authentication_error", "message": f"bad key {KEY}"}}
    wire = Wire(httpx2.Response(401, json=body))
    failure = _ask(wire, of={"api_key": Secret(KEY)}, max_tokens=9).failure()

    assert isinstance(failure.reason, AuthenticationError)
    assert KEY not in repr(failure) + str(failure) + repr(wire.layer())


def test_headers_of_ones_own_win() -> None:
    """Another version of the API, or another way to say who asks."""
    wire = Wire(_whole())
    of = {"headers": {"Anthropic-Version": "2023-06-01", "X-Team": "a"}, "base_url": "http://localhost:1/proxy"}
    _ask(wire, of=of, max_tokens=9).unwrap()

    assert str(wire.asked[0].url) == "http://localhost:1/proxy/v1/messages"
    assert (wire.asked[0].headers["anthropic-version"], wire.asked[0].headers["x-team"]) == ("2023-06-01", "a")


def test_an_option_that_there_is_not_is_refused_at_once() -> None:
    """A wrong keyword is a mistake of the program, found where the layer is made and not when it is built."""
    made: Any = layer
    with pytest.raises(TypeError, match="organization"):
        made("claude-sonnet-5", organization="acme")


def test_what_is_configured_is_used() -> None:
    """Whether tools are strict, whether the model can be held to schemas, how long answers are by default."""
    wire = Wire(_whole(), _whole())
    kit = Toolkit.make(Tool.make("ping").external())
    _ask(wire, of={"strict_json_schema": False, "max_tokens": 9}, toolkit=kit).unwrap()
    loose = msgspec.structs.replace(facts("claude-sonnet-5"), strict_tools=False)
    _ask(wire, of={"facts": loose, "max_tokens": 9}, toolkit=kit).unwrap()

    assert [body["tools"][0].get("strict") for body in wire.bodies] == [False, None]
    assert [body["max_tokens"] for body in wire.bodies] == [9, 9]


def test_a_model_has_a_name() -> None:
    """By name it is the same layer; without one the failure says how to name one."""
    nameless = fx.run_result(LanguageModel.generate_text("Hi").provide(from_name("anthropic", api_key=KEY))).failure()
    wire = Wire(_whole())
    named = from_name(f"anthropic:{MODEL}", api_key=KEY, max_tokens=9, transport=httpx2.MockTransport(wire))

    @fx.gen
    def name() -> Any:
        model = yield from LanguageModel
        assert isinstance(model, AnthropicModel)
        return model.name

    assert isinstance(nameless, AiError)
    assert isinstance(nameless.reason, ModelUnavailableError)
    assert "anthropic:claude-" in nameless.message
    assert fx.run(LanguageModel.generate_text("Hi").provide(named)).text == "Good day."
    assert fx.run(name().provide(named)) == MODEL


def test_leaving_a_stream_early_asks_for_no_more() -> None:
    """The first part is there, and nothing fails."""
    stream = LanguageModel.stream_text("Hello").provide(Wire(_streamed(ALL_BLOCKS)).layer())
    parts = fx.run(stream.take(1).collect())

    assert [part.type for part in parts] == ["response-metadata"]


def test_what_is_sent_can_be_looked_at() -> None:
    """A model shows the request that it would send, with the arguments of its layer; nothing is sent."""
    wire = Wire()

    @fx.gen
    def look() -> Any:
        model = yield from LanguageModel
        assert isinstance(model, AnthropicModel)
        return model.prepare(ModelRequest(Prompt.make("Hi")))

    sent: Any = fx.run(look().provide(wire.layer(max_tokens=9)))

    assert sent.body["max_tokens"] == 9
    assert wire.asked == []
