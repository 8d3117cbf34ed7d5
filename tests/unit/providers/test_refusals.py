"""Refusals: typed on every wire, whole and streamed, and taken over by another model."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from fxai.agents import Agent, RunFailed
from fxai.effects import fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    ContentPolicyError,
    InvalidRequestError,
    Prompt,
    Response,
    TextPart,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest, PreparationError, fallback, is_refusal, retryable, unavailable
from fxai.providers import anthropic
from fxai.testing import ScriptedModel
from tests.kit.every import every
from tests.kit.wire_answers import WIRES, Came, ask, ask_stream, body, chunk, event_bytes, events, model, reply

NO = "I cannot help with that."
DETAILS = {"type": "refusal", "category": "cyber", "explanation": NO, "fallback_credit_token": "T"}


def _whole(wire: str, words: str = NO) -> Any:
    """A refusal as a whole answer; without words, a filter of the provider refuses."""
    if wire == "chat":
        message = {"role": "assistant", "content": None, **({"refusal": words} if words else {})}
        reason = "stop" if words else "content_filter"
        return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    if wire == "messages":
        return {**body(wire), "stop_reason": "refusal", "stop_details": {**DETAILS, "explanation": words or None}}
    content = [{"type": "refusal", "refusal": words}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    cut = {} if words else {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return {"id": "a", "status": "completed", "output": [item] if words else [], **cut}


def _stream(wire: str, words: str = NO) -> list[dict[str, Any]]:
    """The same refusal as events, its words in two pieces."""
    pieces = [words[:5], words[5:]] if words else []
    if wire == "chat":
        end = chunk({}, "stop" if words else "content_filter")
        return [*(chunk({"refusal": piece}) for piece in pieces), end]
    if wire == "messages":
        sent = events(wire)
        sent[-2]["delta"] = {"stop_reason": "refusal", "stop_details": {**DETAILS, "explanation": words or None}}
        return sent
    at = {"output_index": 0, "content_index": 0, "item_id": "m"}
    deltas = [{"type": "response.refusal.delta", **at, "delta": piece} for piece in pieces]
    return [*deltas, {"type": "response.completed", "response": _whole(wire, words)}]


def _answers(wire: str, words: str, *, stream: bool) -> httpx2.Response:
    return reply(event_bytes(wire, _stream(wire, words))) if stream else reply(_whole(wire, words))


def _yes(wire: str, *, stream: bool) -> httpx2.Response:
    return reply(event_bytes(wire, events(wire, ["Y", "es."]))) if stream else reply(body(wire, "Yes."))


def _always(_: AiError) -> bool:
    return True


def _came(served: Any, *, stream: bool) -> Came:
    if stream:
        return ask_stream(LanguageModel.stream_text("Hi"), served)
    return ask(LanguageModel.generate_text("Hi"), served)


@every("wire", WIRES)
@every("stream", [False, True])
@every("words", [NO, ""])
def test_a_refusal_is_a_typed_reason(wire: str, stream: bool, words: str) -> None:
    """The response has the reason with the words of the model, and survives JSON."""
    response = _came(model(wire, _answers(wire, words, stream=stream)), stream=stream).response
    refusal = response.refusal

    assert response.finish_reason == "content-filter"
    assert isinstance(refusal, ContentPolicyError)
    assert refusal.description == words or not words
    assert refusal.description
    assert refusal.code == ("cyber" if wire == "messages" else None)
    assert Response.from_json(response.to_json()).unwrap().refusal == refusal


@every("wire", WIRES)
@every("stream", [False, True])
@every("words", [NO, ""])
@every("when", [is_refusal, _always])
def test_a_fallback_acts_on_a_refusal(wire: str, stream: bool, words: str, when: Any) -> None:
    """The next model answers, the words of the refusal are not in the answer, and a warning names it."""
    first = model(wire, _answers(wire, words, stream=stream))
    for other in WIRES:
        came = _came(fallback(first, model(other, _yes(other, stream=stream)), when=when), stream=stream)

        assert (came.response.text, came.error) == ("Yes.", None)
        assert came.response.refusal is None
        assert "another model answers: LanguageModel" in came.response.warnings[0].message


def test_a_fallback_acts_on_a_refusal_after_hidden_reasoning() -> None:
    """Reasoning models begin with an item of encrypted reasoning, which shows the reader nothing."""
    item: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E"}
    said: list[dict[str, Any]] = [
        {**one, "output_index": 1} if "output_index" in one else one for one in _stream("responses")
    ]
    last = said[-1]["response"]
    said[-1] = {**said[-1], "response": {**last, "output": [item, *last["output"]]}}
    begun: list[dict[str, Any]] = [
        {"type": f"response.output_item.{kind}", "output_index": 0, "item": item} for kind in ("added", "done")
    ]
    thought = {"type": "redacted_thinking", "data": "D"}
    events_ = _stream("messages")
    block = [
        {"type": "content_block_start", "index": 0, "content_block": thought},
        {"type": "content_block_stop", "index": 0},
    ]
    hidden = [events_[0], *block, *events_[1:]]
    for first in (
        model("responses", reply(event_bytes("responses", [*begun, *said]))),
        model("messages", reply(event_bytes("messages", hidden))),
    ):
        second = model("chat", _yes("chat", stream=True))
        came = _came(fallback(first, second, when=is_refusal), stream=True)

        assert (came.response.text, came.response.reasoning_text, came.error) == ("Yes.", None, None)


def test_a_stream_that_wrote_before_it_refused_stays() -> None:
    """The reader has the content already, so no other model answers."""
    sent = events("messages", ["I begin"])
    sent[-2]["delta"] = {"stop_reason": "refusal", "stop_details": DETAILS}
    second = ScriptedModel.make(["Yes."])
    first = model("messages", reply(event_bytes("messages", sent)))
    came = _came(fallback(first, second.layer, when=is_refusal), stream=True)

    assert (came.response.text, came.response.refusal) == ("I begin", ContentPolicyError(NO, code="cyber"))
    assert second.requests == []


@every("wire", WIRES)
@every("stream", [False, True])
@every("when", [retryable, unavailable])
def test_a_fallback_leaves_a_refusal_by_default(wire: str, stream: bool, when: Any) -> None:
    """A refusal is no failure that may pass, so it is the answer unless the program decides otherwise."""
    first, second = model(wire, _answers(wire, NO, stream=stream)), ScriptedModel.make(["Yes."])
    came = _came(fallback(first, second.layer, when=when), stream=stream)

    assert came.response.refusal is not None
    assert came.response.text == ("" if wire == "messages" else NO)
    assert second.requests == []


@every("wire", WIRES)
@every("stream", [False, True])
def test_the_refusal_of_the_last_model_is_the_answer(wire: str, stream: bool) -> None:
    """Its words arrive whole, after the warning about the first model."""
    first, last = (model(wire, _answers(wire, words, stream=stream)) for words in ("First.", NO))
    came = _came(fallback(first, last, when=is_refusal), stream=stream)

    assert came.response.refusal == ContentPolicyError(NO, code="cyber" if wire == "messages" else None)
    assert came.response.text == ("" if wire == "messages" else NO)
    assert "First." in came.response.warnings[0].message


@every("wire", WIRES)
@every("stream", [False, True])
def test_a_refusal_without_words_is_no_answer_of_an_agent(wire: str, stream: bool) -> None:
    """The run fails with the reason, and with the history."""
    served = model(wire, _answers(wire, "", stream=stream))
    agent = Agent.make("a")
    program: Any = agent.stream("Hi").collect() if stream else agent.execute("Hi")
    ended: Any = fx.run_result(program.provide(served))

    failed: object = ended.failure()
    assert isinstance(failed, RunFailed)
    assert isinstance(failed.reason, ContentPolicyError)
    assert failed.history[0] == UserMessage.make("Hi")


@every("wire", WIRES)
def test_a_foundobject_is_not_retryable(wire: str) -> None:
    """A typed answer that the model refused fails with the refusal, not with the form of its words."""
    came = ask(LanguageModel.generate_object("Hi", list[int]), model(wire, reply(_whole(wire))))

    assert isinstance(came.error, AiError)
    assert isinstance(came.error.reason, ContentPolicyError)
    assert NO in came.error.message


# -- Anthropic's own fallbacks


FALLEN: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "S"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "before", "name": "look", "input": {}},
    {
        "type": "fallback",
        "from": {"model": "claude-fable-5"},
        "to": {"model": "claude-opus-4-8"},
        "trigger": {"type": "refusal", "category": None},
    },
    {"type": "text", "text": "Yes."},
]


def _prepared(**options: Any) -> anthropic.PreparedRequest:
    request = ModelRequest(Prompt.make("Hi"), provider_options={"anthropic": options})
    return anthropic.prepare_request(request, model="claude-fable-5")


def test_fallbacks_and_credit_are_typed_options() -> None:
    """Each names its beta; None in an entry stands for the default of the model, and is sent."""
    chain = (anthropic.FallbackModel(model="claude-opus-4-8", max_tokens=100, thinking=None),)
    given = msgspec.to_builtins(anthropic.RequestOptions(fallbacks=chain))
    credit = anthropic.FallbackCredit(token="T", mode="best_effort")
    paid = msgspec.to_builtins(anthropic.RequestOptions(fallback_credit_token=credit))

    assert _prepared(**given).body["fallbacks"] == [{"model": "claude-opus-4-8", "max_tokens": 100, "thinking": None}]
    assert _prepared(**given).betas == _prepared(fallbacks="default").betas == ("server-side-fallback-2026-07-01",)
    assert _prepared(fallbacks="default").body["fallbacks"] == "default"
    assert _prepared(**paid).body["fallback_credit_token"] == {"token": "T", "mode": "best_effort"}
    assert _prepared(fallback_credit_token="T").body["fallback_credit_token"] == "T"
    assert _prepared(**paid).betas == ("fallback-credit-2026-07-01",)
    assert "fallbacks" not in _prepared(fallbacks=[]).body
    assert _prepared(fallbacks=[]).betas == ()


@every(
    "options",
    [
        {"fallbacks": "other"},
        {"fallbacks": [{"max_tokens": 5}]},
        {"fallbacks": [{"model": "m", "temperature": 1}]},
        {"fallback_credit_token": {"mode": "strict"}},
        {"fallbacks": "default", "fallback_credit_token": "T"},
    ],
)
def test_wrong_fallbacks_are_foundbefore_the_request(options: dict[str, Any]) -> None:
    """An unknown value, an entry without a model, an unknown field, and both options together."""
    with pytest.raises(PreparationError) as found:
        _prepared(**options)
    assert isinstance(found.value.reason, InvalidRequestError)


@every("stream", [False, True])
def test_a_replayed_fallback_block_names_its_beta(stream: bool) -> None:
    """The block keeps its place without a cache mark; calls of the model that declined are left out."""
    answer: dict[str, Any] = {**body("messages"), "content": FALLEN}
    sent = events("messages")
    blocks: list[dict[str, Any]] = [
        event
        for at, block in enumerate(FALLEN)
        for event in (
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "content_block_stop", "index": at},
        )
    ]
    told = reply(event_bytes("messages", [sent[0], *blocks, *sent[1:]])) if stream else reply(answer)
    first = _came(model("messages", told, base_url="https://api.anthropic.com"), stream=stream)
    marked = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    prompt = Prompt.make("Hi").with_response(first.response.content)
    turn = msgspec.structs.replace(prompt.messages[1], metadata=marked)
    history = Prompt((prompt.messages[0], turn, *prompt.messages[2:], UserMessage.make("And?")))
    request = anthropic.prepare_request(ModelRequest(history), model="claude-fable-5")
    sent_blocks = request.body["messages"][1]["content"]

    assert sent_blocks[2] == FALLEN[3]
    assert [block["type"] for block in sent_blocks] == ["thinking", "text", "fallback", "text"]
    assert [message["role"] for message in request.body["messages"]] == ["user", "assistant", "user"]
    assert request.betas == ("server-side-fallback-2026-07-01",)
    assert any("declined" in warning.message for warning in request.warnings)


def test_a_history_that_ends_with_a_fallback_block_takes_its_mark_elsewhere() -> None:
    """Anthropic refuses `cache_control` on the block."""
    block = TextPart("", metadata={"anthropic": {"block": FALLEN[3]}})
    marked = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    history = Prompt(
        (UserMessage.make("Hi"), AssistantMessage((TextPart("Yes."), block), metadata=marked), UserMessage.make("And?"))
    )
    blocks = anthropic.prepare_request(ModelRequest(history), model="claude-fable-5").body["messages"][1]["content"]

    assert [sorted(one) for one in blocks] == [["cache_control", "text", "type"], ["from", "to", "trigger", "type"]]
