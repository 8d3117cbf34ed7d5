"""The layer of OpenAI's models: what is sent over HTTP, and what comes of the answers."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx2
import pytest

from fxai.effects import Schedule, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    AuthenticationError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    NetworkError,
    Prompt,
    RateLimitError,
    StreamPart,
    ToolCallPart,
    UserMessage,
)
from fxai.models import LanguageModel
from fxai.providers import from_name, openai
from fxai.providers.http import Secret
from fxai.tools import Tool, Toolkit

Backend = Literal["asyncio", "trio"]
QUICK = Schedule.recurs(2)


def _said(text: str, id_: str = "resp_1") -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    item: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{id_}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    return {"id": id_, "status": "completed", "output": [item], "usage": {"input_tokens": 1, "output_tokens": 2}}


class Peer:
    """A server that gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.transport = httpx2.MockTransport(self._answer)

    @property
    def bodies(self) -> list[Any]:
        """What it was asked, parsed."""
        return [json.loads(request.content) for request in self.requests]

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer: Any = self.answers.pop(0)
        if isinstance(answer, httpx2.Response):
            return answer
        if isinstance(answer, list):
            told: list[Any] = list(answer)  # pyright: ignore[reportUnknownArgumentType]
            text = "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in told)
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())
        return httpx2.Response(200, json=answer)

    def layer(self, model: str | None = "gpt-5.5", **given: Any) -> Any:
        """A layer that speaks to it."""
        options: dict[str, Any] = {"api_key": "sk-1", "transport": self.transport, "retry": None, **given}
        return openai.layer(model, **options)


def _asked(peer: Peer, prompt: Any = "Hello", *, toolkit: Any = None, **given: Any) -> Any:
    tools = {} if toolkit is None else {"toolkit": toolkit}
    return LanguageModel.generate_text(prompt, **tools).provide(peer.layer(**given))


def _error(effect: Any, backend: Backend = "asyncio") -> AiError:
    failure: AiError = fx.run_result(effect, backend=backend).failure()
    return failure


def test_a_question_is_asked_of_responses(backend: Backend) -> None:
    """The path, the key and the body are the API's; the answer is a response."""
    peer = Peer(_said("Good day."))
    response = fx.run(_asked(peer, organization="org", project="proj", headers={"x-team": "a"}), backend=backend)
    request = peer.requests[0]

    assert response.text == "Good day."
    assert response.usage.total_tokens == 3
    assert str(request.url) == "https://api.openai.com/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-1"
    assert [request.headers[name] for name in ("openai-organization", "openai-project", "x-team")] == [
        "org",
        "proj",
        "a",
    ]
    assert peer.bodies[0]["model"] == "gpt-5.5"
    assert "stream" not in peer.bodies[0]


def test_a_question_is_asked_of_another_server(backend: Backend) -> None:
    """Chat Completions at an address of one's own, which needs no key."""
    message = {"role": "assistant", "content": "Hi."}
    peer = Peer({"choices": [{"message": message, "finish_reason": "stop"}]})
    asked = _asked(peer, model="qwen3", api="chat", base_url="http://127.0.0.1:9/v1", api_key="")
    response = fx.run(asked, backend=backend)

    assert response.text == "Hi."
    assert str(peer.requests[0].url) == "http://127.0.0.1:9/v1/chat/completions"
    assert "authorization" not in peer.requests[0].headers


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_turn_is_streamed(api: Literal["responses", "chat"], backend: Backend) -> None:
    """Its parts as they come, the finish last; the request says so."""
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Good day."}
    responses = [delta, {"type": "response.completed", "response": _said("Good day.")}]
    chat = [{"choices": [{"delta": {"content": "Good day."}, "finish_reason": "stop"}]}, "[DONE]"]
    peer = Peer(responses if api == "responses" else chat)
    stream = LanguageModel.stream_text("Hello").provide(peer.layer(api=api))
    parts = fx.run(stream.collect(), backend=backend)

    assert [part.type for part in parts if part.type.startswith("text")] == ["text-start", "text-delta", "text-end"]
    assert parts[-1].type == "finish"
    assert peer.bodies[0]["stream"] is True


def test_a_stream_that_is_cut_keeps_what_came(backend: Backend) -> None:
    """The parts stand; then it fails, and says that trying again may help."""
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Good"}
    seen: list[str] = []
    stream: Any = LanguageModel.stream_text("Hello").provide(Peer([delta]).layer())

    def see(part: StreamPart) -> Any:
        return fx.sync(lambda: seen.append(part.type))

    error = _error(stream.for_each(see), backend)

    assert seen == ["text-start", "text-delta"]
    assert isinstance(error.reason, NetworkError)
    assert error.is_retryable


def test_a_status_is_its_reason_with_the_words_of_the_body() -> None:
    """And what the provider asks to wait."""
    body = {"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}
    limited = httpx2.Response(429, headers={"retry-after": "7"}, json=body)
    error = _error(_asked(Peer(limited)))

    assert isinstance(error.reason, RateLimitError)
    assert error.retry_after == 7
    assert "Slow down." in error.message
    assert (error.module, error.method) == ("openai", "ask")


def test_what_may_pass_is_tried_again(backend: Backend) -> None:
    """By the schedule that is given."""
    down = httpx2.Response(500, json={"error": {"message": "Oh."}})
    peer = Peer(down, _said("Good day."))

    assert fx.run(_asked(peer, retry=QUICK), backend=backend).text == "Good day."
    assert len(peer.requests) == 2


def test_an_answer_that_is_none_is_a_failure() -> None:
    """A body that is not what the API answers."""
    error = _error(_asked(Peer({"hello": 1})))

    assert error.message == "openai.ask: Invalid output at /output: the answer has no list of items"


def test_what_cannot_be_sent_is_found_before_the_request() -> None:
    """Nothing goes out."""
    peer = Peer()
    open_call = Prompt([AssistantMessage((ToolCallPart("c1", "add", {}),))])
    stream = LanguageModel.stream_text(open_call).provide(peer.layer())

    assert isinstance(_error(_asked(peer, open_call)).reason, InvalidUserInputError)
    assert isinstance(_error(stream.collect()).reason, InvalidUserInputError)
    assert peer.requests == []


def test_a_call_is_run_and_answered(backend: Backend) -> None:
    """Through the toolkit, under its own name."""
    add = Tool.make("math.add", parameters=dict[str, int], success=int)
    call = {"type": "function_call", "id": "f", "call_id": "c1", "name": "math__add"}
    arguments = json.dumps({"__rest__": [{"0": "a", "1": 2}]})
    peer = Peer({"status": "completed", "output": [{**call, "arguments": arguments}]})
    handled = _asked(peer, toolkit=Toolkit.make(add)).provide(add.handler(lambda given: fx.succeed(given["a"])))
    response = fx.run(handled, backend=backend)

    assert response.tool_results[0].result == 2
    assert peer.bodies[0]["tools"][0]["name"] == "math__add"


def test_an_object_is_asked_for_by_its_schema(backend: Backend) -> None:
    """And decoded once, out of the form that the provider takes."""
    peer = Peer(_said('{"value": [1, 2]}'))
    answer = fx.run(LanguageModel.generate_object("Count.", list[int]).provide(peer.layer()), backend=backend)

    assert answer.value == [1, 2]
    assert peer.bodies[0]["text"]["format"]["strict"] is True


# -- keys


def test_the_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the layer is built; so are the address and the account."""
    for name, value in (("API_KEY", "sk-2"), ("BASE_URL", "https://e.org/v2"), ("ORG_ID", "o"), ("PROJECT_ID", "p")):
        monkeypatch.setenv(f"OPENAI_{name}", value)
    peer = Peer(_said("Hi."))
    fx.run(_asked(peer, api_key=None))
    request = peer.requests[0]

    assert str(request.url) == "https://e.org/v2/responses"
    assert request.headers["authorization"] == "Bearer sk-2"
    assert (request.headers["openai-organization"], request.headers["openai-project"]) == ("o", "p")


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI itself wants one; another server need not."""
    for name in ("API_KEY", "BASE_URL"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    error = _error(_asked(Peer(), api_key=None))
    other = Peer(_said("Hi."))
    fx.run(_asked(other, api_key=None, base_url="https://e.org/v1"))

    assert isinstance(error.reason, AuthenticationError)
    assert "OPENAI_API_KEY" in error.message
    assert "authorization" not in other.requests[0].headers


def test_a_key_may_be_a_secret_or_come_from_an_effect() -> None:
    """Such as one that reads a vault; a failure of it is the layer's."""
    given: list[Any] = [Secret("sk-3"), fx.succeed(Secret("sk-3"))]
    sent: list[str] = []
    for key in given:
        peer = Peer(_said("Hi."))
        fx.run(_asked(peer, api_key=key))
        sent.append(peer.requests[0].headers["authorization"])
    failing = fx.fail(AiError("vault", "read", AuthenticationError("MissingKey")))

    assert sent == ["Bearer sk-3"] * 2
    assert _error(_asked(Peer(), api_key=failing)).module == "vault"


@pytest.mark.parametrize("make", [openai.layer, openai.embedding_layer])
def test_an_option_that_there_is_not_is_refused_at_once(make: Any) -> None:
    """A wrong keyword is a mistake of the program, found where the layer is made and not when it is built."""
    with pytest.raises(TypeError, match="time_out"):
        make("gpt-5.5", time_out=3)


def test_no_failure_shows_the_key() -> None:
    """Also not where the provider repeats it."""
    refused = httpx2.Response(401, json={"error": {"message": "Incorrect API key provided: sk-1-secret"}})
    error = _error(_asked(Peer(refused), api_key="sk-1-secret"))

    assert isinstance(error.reason, AuthenticationError)
    assert "sk-1-secret" not in f"{error!r} {error} {error.to_json()}"


# -- names


def test_a_model_is_found_by_its_name() -> None:
    """`openai:` and what it is called there."""
    peer = Peer(_said("Hi."))
    layer = from_name("openai:gpt-4o", api_key="sk-1", transport=peer.transport)
    fx.run(LanguageModel.generate_text("Hello").provide(layer))

    assert peer.bodies[0]["model"] == "gpt-4o"


def test_a_name_without_a_model_says_what_to_say() -> None:
    """There is no default that would not be dear to somebody."""
    error = _error(_asked(Peer(), model=None))

    assert isinstance(error.reason, ModelUnavailableError)
    assert '"openai:' in error.message


# -- going on from an answer that the provider keeps


def _conversation(peer: Peer, turns: int, *, streamed: bool, **given: Any) -> None:
    """Ask again and again, each time with all that was said."""

    @fx.gen
    def asking() -> Any:
        prompt = Prompt.make("Turn 1")
        for number in range(turns):
            if streamed:
                parts: Any = yield from LanguageModel.stream_text(prompt).collect()
            else:
                parts = (yield from LanguageModel.generate_text(prompt)).content
            more = UserMessage.make(f"Turn {number + 2}")
            prompt = (prompt + Prompt.from_parts(parts)).append(more)

    fx.run(asking().provide(peer.layer(incremental=True, **given)))


def _answers(number: int, *, streamed: bool) -> list[Any]:
    whole = [_said(f"Answer {n}.", f"resp_{n}") for n in range(1, number + 1)]
    return [[{"type": "response.completed", "response": one}] for one in whole] if streamed else whole


@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_that_goes_on_is_sent_as_what_is_new(streamed: bool) -> None:
    """With the answer that it goes on from; the first one whole."""
    peer = Peer(*_answers(3, streamed=streamed))
    _conversation(peer, 3, streamed=streamed)

    assert [body.get("previous_response_id") for body in peer.bodies] == [None, "resp_1", "resp_2"]
    assert [[item["content"][0]["text"] for item in body["input"]] for body in peer.bodies] == [
        ["Turn 1"],
        ["Turn 2"],
        ["Turn 3"],
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_where_the_answer_is_lost_the_whole_prompt_is_sent(streamed: bool) -> None:
    """Once, and the turn after it goes on from the new answer."""
    lost = httpx2.Response(400, json={"error": {"code": "previous_response_not_found", "message": "Not found."}})
    first, second, third = _answers(3, streamed=streamed)
    peer = Peer(first, lost, second, third)
    _conversation(peer, 3, streamed=streamed)

    assert [body.get("previous_response_id") for body in peer.bodies] == [None, "resp_1", None, "resp_2"]
    assert [len(body["input"]) for body in peer.bodies] == [1, 1, 3, 1]


def test_a_failure_of_the_whole_prompt_is_the_failure() -> None:
    """It is not tried a third time; another reason than the request's form is told at once."""
    wrong = httpx2.Response(400, json={"error": {"message": "No."}})
    again = httpx2.Response(400, json={"error": {"message": "Still no."}})
    down = httpx2.Response(500, json={"error": {"message": "Oh."}})

    for streamed in (False, True):
        (first,) = _answers(1, streamed=streamed)
        with pytest.raises(Exception, match="Still no"):
            _conversation(Peer(first, wrong, again), 2, streamed=streamed)
        with pytest.raises(Exception, match="Oh"):
            _conversation(Peer(first, down), 2, streamed=streamed)


def test_a_stream_that_fails_behind_what_it_said_is_not_asked_again() -> None:
    """What came stands, and saying it twice would be wrong: the failure is the stream's."""
    (first,) = _answers(1, streamed=True)
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}
    broken = {"type": "error", "code": "invalid_prompt", "message": "No."}
    peer = Peer(first, [delta, broken])

    with pytest.raises(Exception, match="No") as raised:
        _conversation(peer, 2, streamed=True)
    assert "openai.ask_stream" in str(raised.value)
    assert len(peer.bodies) == 2


def test_an_answer_that_is_lost_is_forgotten() -> None:
    """Whoever goes on from it again sends the whole prompt at once."""
    lost = httpx2.Response(400, json={"error": {"code": "previous_response_not_found", "message": "Not found."}})
    down = httpx2.Response(500, json={"error": {"message": "Oh."}})
    peer = Peer(_said("Hi.", "resp_1"), lost, down, _said("There.", "resp_2"))

    @fx.gen
    def asking() -> Any:
        prompt = Prompt.make("Turn 1")
        parts = (yield from LanguageModel.generate_text(prompt)).content
        more = (prompt + Prompt.from_parts(parts)).append(UserMessage.make("Turn 2"))
        yield from LanguageModel.generate_text(more).result()
        yield from LanguageModel.generate_text(more)

    fx.run(asking().provide(peer.layer(incremental=True)))

    assert [body.get("previous_response_id") for body in peer.bodies] == [None, "resp_1", None, None]


def test_nothing_is_shortened_where_nothing_is_kept() -> None:
    """Without a store, on Chat Completions, or where the request names an answer itself."""
    unkept = Peer(*_answers(2, streamed=False))
    _conversation(unkept, 2, streamed=False, store=False)
    message = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
    chat = Peer(message, message)
    _conversation(chat, 2, streamed=False, api="chat")
    named = Peer(_said("Hi."))
    given: Any = {"openai": {"previous_response_id": "resp_0"}}
    fx.run(LanguageModel.generate_text("Hello", provider_options=given).provide(named.layer(incremental=True)))

    assert all("previous_response_id" not in body for body in (*unkept.bodies, *chat.bodies))
    assert named.bodies[0]["previous_response_id"] == "resp_0"


def test_another_history_is_sent_whole() -> None:
    """Only a prompt that begins exactly with what was sent and said goes on from it."""
    peer = Peer(*_answers(2, streamed=False))
    changed = Prompt([UserMessage.make("Turn 1"), AssistantMessage.make("Something else."), UserMessage.make("Turn 2")])

    @fx.gen
    def asking() -> Any:
        yield from LanguageModel.generate_text("Turn 1")
        yield from LanguageModel.generate_text(changed)

    fx.run(asking().provide(peer.layer(incremental=True)))

    assert "previous_response_id" not in peer.bodies[1]
    assert len(peer.bodies[1]["input"]) == 3


def test_a_refused_request_says_what_the_provider_says() -> None:
    """The parameter that it blames, and its words."""
    body = {"error": {"message": "Too low.", "type": "invalid_request_error", "param": "max_output_tokens"}}
    error = _error(_asked(Peer(httpx2.Response(400, json=body))))

    assert isinstance(error.reason, InvalidRequestError)
    assert error.reason.parameter == "max_output_tokens"
