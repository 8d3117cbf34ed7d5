"""Answers in the forms that servers write: every wire, streamed and whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx2
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.agents import Agent
from fxai.effects import fx
from fxai.messages import (
    InternalProviderError,
    InvalidOutputError,
    Prompt,
    RateLimitError,
    StructuredOutputError,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import anthropic
from fxai.tools import Tool, Toolkit
from tests.kit.every import every
from tests.kit.trials import examples
from tests.kit.wire_answers import WIRES, Came, ask, ask_stream, body, chunk, event_bytes, events, model, reply

LOOK = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
KIT = Toolkit.make(Tool.dynamic("look", parameters=LOOK), Tool.dynamic("ping", parameters=LOOK))
CHARACTERS = st.text(st.sampled_from(["a", "ß", "😀", "𝄞", "\n", '"', "\\"]), min_size=1, max_size=6)


def _whole(wire: str, *answers: httpx2.Response) -> Came:
    return ask(LanguageModel.generate_text("Hi", toolkit=KIT, resolve_tools=False), model(wire, *answers))


def _streamed(wire: str, *answers: httpx2.Response) -> Came:
    return ask_stream(LanguageModel.stream_text("Hi", toolkit=KIT, resolve_tools=False), model(wire, *answers))


def _chat(*chunks: dict[str, Any]) -> list[tuple[str, Any]]:
    """The calls of a stream of Chat Completions."""
    came = _streamed("chat", reply(event_bytes("chat", [*chunks, chunk({}, "tool_calls")])))
    assert came.error is None
    return came.calls


def _piece(index: int | None, id_: str | None, name: str | None, text: str | None) -> dict[str, Any]:
    about: dict[str, Any] = {} if index is None else {"index": index}
    function = {} if name is None else {"name": name}
    return {**about, **({} if id_ is None else {"id": id_}), "function": {**function, "arguments": text}}


def _chunks(*pieces: dict[str, Any]) -> list[tuple[str, Any]]:
    return _chat(*(chunk({"tool_calls": [piece]}) for piece in pieces))


# -- the frame of an answer


@every("wire", WIRES)
@every("kind", ["text/plain", "text/plain; charset=utf-8", "application/octet-stream", "text/html"])
def test_another_media_type_is_read(wire: str, kind: str) -> None:
    """The content decides, whole and streamed."""
    assert _whole(wire, reply(body(wire, "Hi"), kind)).response.text == "Hi"
    assert _streamed(wire, reply(event_bytes(wire, events(wire, ["H", "i"])), kind)).response.text == "Hi"


@every("wire", WIRES)
@every("cut", [1, 2])
def test_a_last_event_without_blank_line_is_read(wire: str, cut: int) -> None:
    """The connection ends after the last event, or after its line."""
    written = event_bytes(wire, events(wire, ["H", "i"]))

    came = _streamed(wire, reply(written[:-cut]))

    assert (came.response.text, came.error) == ("Hi", None)


@every("wire", WIRES)
@every(
    "empty",
    [
        *(b"data:\n\n", b"data: {}\n\n", b"data: null\n\n", b"event: ping\n\n", b": ping\n\n", b"event: x\ndata:\n\n"),
        b"event: keepalive\ndata: still here\n\n",
    ],
)
def test_empty_events_are_skipped(wire: str, empty: bytes) -> None:
    """Before the first event, between two events, and after the last event."""
    parts = event_bytes(wire, events(wire, ["H", "i"])).split(b"\n\n")
    written = empty + b"".join(part + b"\n\n" + empty for part in parts if part)

    came = _streamed(wire, reply(written))

    assert (came.response.text, came.error) == ("Hi", None)


@every("wire", WIRES)
def test_a_whole_answer_instead_of_a_stream_is_read(wire: str) -> None:
    """Some servers ignore that a stream was asked for."""
    came = _streamed(wire, reply(body(wire, "Hi", ("look", '{"city":"A"}'))))

    assert (came.response.text, came.calls, came.error) == ("Hi", [("look", {"city": "A"})], None)


@every("wire", WIRES)
@every("end", [b"", b"\n", b": bye\n\n"])
def test_a_stream_instead_of_a_whole_answer_is_read(wire: str, end: bytes) -> None:
    """Some servers stream in any case."""
    written = event_bytes(wire, events(wire, ["<think>Hm.</think>H", "i"], ("look", ['{"city":', '"A"}'])))
    came = _whole(wire, reply(written + end))
    cut = _whole(wire, reply(written[: len(written) // 2]))
    failed = _whole(wire, reply(b'data: {"error": {"code": 503, "message": "full"}}\n\n'))

    assert (came.response.reasoning_text, came.response.text, came.error) == ("Hm.", "Hi", None)
    assert came.calls == [("look", {"city": "A"})]
    assert cut.error.is_retryable
    assert isinstance(failed.error.reason, InternalProviderError)


def test_an_empty_answer_without_a_reason_is_a_failure() -> None:
    """A choice without content that states no reason is an outage, not an empty answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": None}
    sent = [chunk({"role": "assistant", "content": ""})]

    assert _whole("chat", reply({"choices": [choice]})).error.is_retryable
    assert _streamed("chat", reply(event_bytes("chat", sent))).error.is_retryable
    assert _whole("chat", reply({"choices": [{**choice, "finish_reason": "stop"}]})).error is None
    assert _whole("messages", reply({**body("messages"), "stop_reason": None})).error.is_retryable
    silent = [events("messages")[0], {"type": "message_stop"}]
    assert _streamed("messages", reply(event_bytes("messages", silent))).error.is_retryable
    assert _whole("messages", reply(body("messages"))).error is None


@every("wire", WIRES)
def test_a_byte_order_mark_before_an_answer_is_removed(wire: str) -> None:
    """Before JSON and before the first event."""
    marked = httpx2.Response(200, content=b"\xef\xbb\xbf" + json.dumps(body(wire, "Hi")).encode())

    assert _whole(wire, marked).response.text == "Hi"
    assert _streamed(wire, reply(b"\xef\xbb\xbf" + event_bytes(wire, events(wire, ["Hi"])))).response.text == "Hi"


@settings(max_examples=examples(40))
@given(st.sampled_from(WIRES), CHARACTERS, st.lists(st.integers(0, 12)))
def test_characters_cut_between_deltas_are_joined(wire: str, text: str, cuts: list[int]) -> None:
    """In a text and in the arguments of a call, wherever the deltas are cut."""
    arguments = json.dumps({"city": text}, ensure_ascii=False)

    sent = events(wire, _pieces(text, cuts), ("look", _pieces(arguments, cuts)))
    came = _streamed(wire, reply(event_bytes(wire, sent)))

    assert (came.response.text, came.calls, came.error) == (text, [("look", {"city": text})], None)


def _pieces(text: str, cuts: list[int]) -> list[str]:
    encoded = text.encode("utf-16-le")
    locations = sorted({0, len(encoded), *(2 * (cut % (len(encoded) // 2 + 1)) for cut in cuts)})
    return [encoded[start:end].decode("utf-16-le", "surrogatepass") for start, end in pairwise(locations)]


@every("wire", WIRES)
def test_half_a_character_is_replaced(wire: str) -> None:
    """A half without its other half is U+FFFD, whole and streamed."""
    assert _whole(wire, reply(body(wire, "caf\ud83d!"))).response.text == "caf�!"
    assert _streamed(wire, reply(event_bytes(wire, events(wire, ["caf\ud83d", "!\ude00"])))).response.text == "caf�!�"


# -- calls


A, B = '{"city":"A"}', '{"city":"B"}'
CI, TY_A, TY_B = '{"ci', 'ty":"A"}', 'ty":"B"}'


@every(
    ("pieces", "expected"),
    [
        # the id changes after the first piece
        ([(0, "a", "look", ""), (0, "b", None, CI), (0, "b", None, TY_A)], ["A"]),
        ([(0, "a", "look", CI), (0, "b", None, 'ty":'), (0, "c", None, '"A"}')], ["A"]),
        ([(0, "a", "look", CI), (0, "b", "look", TY_A)], ["A"]),
        ([(None, "a", "look", CI), (None, "b", None, TY_A)], ["A"]),
        ([(0, "a", "look", A), (0, "b", None, "")], ["A"]),
        # whole parallel calls without ids, or with one index
        ([(0, None, "look", A), (0, None, "look", B)], ["A", "B"]),
        ([(0, "", "look", A), (0, "", "look", B)], ["A", "B"]),
        ([(None, None, "look", A), (None, None, "look", B)], ["A", "B"]),
        ([(None, "", "look", A), (None, "", "look", A)], ["A", "A"]),
        ([(0, "a", "look", A), (0, "b", "look", B)], ["A", "B"]),
        ([(0, None, "look", "{}"), (0, None, "look", "{}")], [None, None]),
        ([(0, None, "ping", ""), (0, None, "look", "")], [None, None]),
        ([(0, "a", "ping", ""), (0, "b", "ping", "")], [None, None]),
        # calls in pieces, one after the other
        ([(0, None, "look", '{"city"'), (0, None, None, ':"A"}'), (0, None, "look", B)], ["A", "B"]),
        ([(0, "a", "look", ""), (0, None, None, A), (0, "b", "look", ""), (0, None, None, "{}")], ["A", None]),
        ([(0, "a", None, None), (0, None, "look", None), (0, None, None, A)], ["A"]),
        ([(None, "a", None, ""), (None, None, "look", ""), (None, None, None, A)], ["A"]),
        # the name again with each piece
        ([(0, None, "look", ""), (0, None, "look", CI), (0, None, "look", TY_A)], ["A"]),
        ([(0, "a", "look", CI), (0, "a", "look", TY_A)], ["A"]),
        # side by side
        ([(0, "a", "look", CI), (1, "b", "look", CI), (0, None, None, TY_A), (1, "x", None, TY_B)], ["A", "B"]),
        (
            [(None, "a", "look", CI), (None, "b", "look", CI), (None, "a", None, TY_A), (None, "b", None, TY_B)],
            ["A", "B"],
        ),
    ],
)
def test_pieces_of_calls_find_their_call(pieces: list[Any], expected: list[str | None]) -> None:
    """Servers of Chat Completions identify pieces by an index, an id, or neither, and change both."""
    found = _chunks(*(_piece(*piece) for piece in pieces))

    assert [params.get("city") for _, params in found] == expected


def test_named_calls_of_one_chunk_are_different_calls() -> None:
    """Also if they have no id, one index, and no arguments."""
    same = _piece(0, None, "ping", "")

    assert _chat(chunk({"tool_calls": [same, same]})) == [("ping", {}), ("ping", {})]


@settings(max_examples=examples(40))
@given(st.data())
def test_calls_are_read_whatever_identifies_them(data: st.DataObject) -> None:
    """Calls after one another are the same calls, however they are cut, indexed and identified."""
    wanted = data.draw(st.lists(st.tuples(st.sampled_from(["look", "ping"]), st.sampled_from(["A", "B"])), min_size=1))
    index = data.draw(st.sampled_from(["own", "zero", "none"]))
    ids = data.draw(st.sampled_from(["own", "changing", "first"] if index != "none" else ["own", "changing", "none"]))
    pieces: list[dict[str, Any]] = []
    for at, (name, city) in enumerate(wanted):
        text = f'{{"city":"{city}"}}'
        cut = data.draw(st.integers(0, len(text) - 1))
        location = {"own": at, "zero": 0, "none": None}[index]
        for number, piece in enumerate((text[:cut], text[cut:])):
            names = {
                "own": f"c{at}",
                "changing": f"c{at}.{number}",
                "first": None if number else f"c{at}",
                "none": None,
            }
            pieces.append(_piece(location, names[ids], None if number else name, piece))

    assert _chunks(*pieces) == [(name, {"city": city}) for name, city in wanted]


@every("wire", WIRES)
@every("text", ["null", "", "{}", " null "])
def test_null_stands_for_empty_arguments(wire: str, text: str) -> None:
    """Whole and streamed; a call without parameters has none."""
    sent = body(wire, "", ("ping", "{}" if wire == "messages" and text.strip() != "null" else text))

    assert _whole(wire, reply(sent)).calls == [("ping", {})]
    assert _streamed(wire, reply(event_bytes(wire, events(wire, [], ("ping", [text]))))).calls == [("ping", {})]
    assert _streamed(wire, reply(event_bytes(wire, events(wire, [], ("ping", []))))).calls == [("ping", {})]


MISSING = object()


@every("wire", WIRES)
@every("value", [None, {}, "", "null", "{}", MISSING])
def test_missing_arguments_are_empty(wire: str, value: object) -> None:
    """Servers write no arguments as null, as an object, as text, or not at all."""
    answer = body(wire, "", ("ping", "{}"))
    if wire == "chat":
        fields, name = answer["choices"][0]["message"]["tool_calls"][0]["function"], "arguments"
    elif wire == "messages":
        fields, name = answer["content"][0], "input"
    else:
        fields, name = answer["output"][0], "arguments"
    fields[name] = value
    if value is MISSING:
        del fields[name]
    item: dict[str, Any] = {"type": "response.output_item.done", "output_index": 0, "item": fields}
    streams = [[item, {"type": "response.completed", "response": answer}]] if wire == "responses" else []

    assert _whole(wire, reply(answer)).calls == [("ping", {})]
    for sent in streams:
        assert _streamed(wire, reply(event_bytes(wire, sent))).calls == [("ping", {})]


@every("wire", WIRES)
@every("as_text", [False, True])
def test_arguments_are_read_as_data_and_as_text(wire: str, as_text: bool) -> None:
    """Some servers write the other form than the protocol has."""
    given: Any = '{"city":"A"}' if as_text else {"city": "A"}
    answer = body(wire, "", ("look", "{}"))
    if wire == "chat":
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = given
    elif wire == "messages":
        answer["content"][0]["input"] = given
    else:
        answer["output"][0]["arguments"] = given

    assert _whole(wire, reply(answer)).calls == [("look", {"city": "A"})]
    assert _streamed(wire, reply(answer)).calls == [("look", {"city": "A"})]


def test_items_of_responses_without_ids_are_different_calls() -> None:
    """Whole and streamed, with an index each and with one index; each call gets an id."""
    items = [{"type": "function_call", "name": "look", "arguments": f'{{"city":"{city}"}}'} for city in "AB"]
    whole = {"status": "completed", "output": items}
    added = [{"type": "response.output_item.added", "item": {**item, "arguments": ""}} for item in items]
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    end = {"type": "response.completed", "response": whole}
    orders: list[list[dict[str, Any]]] = [
        [{**one, "output_index": at} for at in (0, 1) for one in (added[at], done[at])],
        [{**one, "output_index": 0} for at in (0, 1) for one in (added[at], done[at])],
        [{**one, "output_index": 0} for one in done],
        [],
    ]
    for came in (
        _whole("responses", reply(whole)),
        *(_streamed("responses", reply(event_bytes("responses", [*sent, end]))) for sent in orders),
    ):
        assert (came.calls, came.error) == ([("look", {"city": "A"}), ("look", {"city": "B"})], None)
        assert len({call.id for call in came.response.tool_calls if call.id}) == 2


@every("stops", [True, False])
def test_blocks_with_one_index_are_different_blocks(stops: bool) -> None:
    """Servers that speak Anthropic's API give several blocks one index, or no id."""
    sent = events("messages", ["Hi"], ("look", ['{"city":"A"}']), ("look", ['{"city":"B"}']))
    flat: list[dict[str, Any]] = [{**one, "index": 0} if "index" in one else one for one in sent]
    flat = [one for one in flat if stops or one["type"] != "content_block_stop"]
    last = {"type": "content_block_stop", "index": 0}
    flat = flat if stops else [*flat[:-2], last, *flat[-2:]]
    for one in flat:
        one.get("content_block", {}).pop("id", None)

    came = _streamed("messages", reply(event_bytes("messages", flat)))

    assert (came.response.text, came.error) == ("Hi", None)
    assert came.calls == [("look", {"city": "A"}), ("look", {"city": "B"})]
    assert len({call.id for call in came.response.tool_calls}) == 2


# -- errors of providers


ERRORS: list[tuple[Any, type[Any]]] = [
    ({"error": {"code": 502, "message": "upstream lost"}}, InternalProviderError),
    ({"error": "the model is overloaded"}, InternalProviderError),
    ({"error": {"type": "rate_limit_error", "message": "Please try again in 7.66s."}}, RateLimitError),
    ({"object": "error", "message": "no worker", "code": 503}, InternalProviderError),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, InternalProviderError),
    ({"detail": "no worker is left"}, InternalProviderError),
]


@every("wire", WIRES)
@every(("error", "kind"), ERRORS)
def test_an_error_of_status_200_is_a_typed_failure(wire: str, error: dict[str, Any], kind: type[Any]) -> None:
    """In the body, instead of a stream, and in an event after the first parts; with advice about a retry."""
    first = events(wire, ["H"])[: 1 if wire == "chat" else 2 if wire == "responses" else 3]
    named = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
    begun = event_bytes(wire, first).removesuffix(b"data: [DONE]\n\n")
    cases = [
        _whole(wire, reply(error)),
        _streamed(wire, reply(error)),
        _streamed(wire, reply(error, "text/event-stream")),
        _streamed(wire, reply(event_bytes(wire, [error]))),
        _streamed(wire, reply(event_bytes(wire, [*first, error]))),
        _streamed(wire, reply(begun + named)),
    ]
    for came in cases:
        assert isinstance(came.error.reason, kind), came
        assert came.error.is_retryable
        assert came.error.retry_after == (7.66 if kind is RateLimitError else None)


@every("wire", WIRES)
def test_an_error_event_may_be_plain_words(wire: str) -> None:
    """An event named `error` is an error, whatever its data is."""
    came = _streamed(wire, reply(b"event: error\ndata: upstream timed out\n\n"))

    assert came.error.is_retryable
    assert "upstream timed out" in came.error.message


@every("reason", ["error", "network_error", "insufficient_system_resource", "abort"])
@every("error", [None, {"code": 502, "message": "upstream lost"}])
def test_a_choice_that_broke_off_is_a_typed_failure(reason: str, error: Any) -> None:
    """An outage is never an empty answer; the parts of a stream before it stand."""
    ended = {"index": 0, "finish_reason": reason, **({} if error is None else {"error": error})}
    whole = {"choices": [{**ended, "message": {"role": "assistant", "content": ""}}]}
    sent = [chunk({"content": "Hi"}), {"choices": [{**ended, "delta": {"content": "!"}}]}]

    came = _streamed("chat", reply(event_bytes("chat", sent)))

    assert isinstance(_whole("chat", reply(whole)).error.reason, InternalProviderError)
    assert isinstance(came.error.reason, InternalProviderError)
    assert came.error.is_retryable
    assert came.response.text == "Hi!"


def test_an_error_beside_a_finished_choice_is_a_failure() -> None:
    """The member `error` of a choice counts whatever the reason is."""
    choice = {"index": 0, "finish_reason": "stop", "error": {"message": "lost", "code": 503}}
    whole = {"choices": [{**choice, "message": {"content": ""}}]}

    assert _whole("chat", reply(whole)).error.is_retryable
    assert _streamed("chat", reply(event_bytes("chat", [{"choices": [{**choice, "delta": {}}]}]))).error.is_retryable


@every("wire", WIRES)
def test_a_stream_without_an_answer_is_a_failure(wire: str) -> None:
    """A stream that only ends is no empty answer."""
    came = _streamed(wire, reply(b"data: [DONE]\n\n" if wire == "chat" else b": hello\n\n"))

    assert came.error.is_retryable


@every("wire", WIRES)
def test_a_page_is_no_answer(wire: str) -> None:
    """A proxy's page of status 200 is a failure that shows the page."""
    for came in (
        _whole(wire, reply(b"<h1>Busy</h1>", "text/html")),
        _streamed(wire, reply(b"<h1>Busy</h1>", "text/html")),
    ):
        assert isinstance(came.error.reason, InvalidOutputError)
        assert "<h1>Busy</h1>" in came.error.message  # fmt: skip


def test_responses_that_failed_or_were_cancelled_are_failures() -> None:
    """A response with an error, in any status, and a response that was cancelled before the model wrote."""
    failed: dict[str, Any] = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "Oh."}}
    for response in (failed, {**failed, "status": "completed"}, {**failed, "status": "incomplete"}):
        event = {"type": "response.completed", "response": response}

        assert isinstance(_whole("responses", reply(response)).error.reason, InternalProviderError)
        assert _streamed("responses", reply(event_bytes("responses", [event]))).error.is_retryable
    assert not _whole("responses", reply({"status": "cancelled", "output": []})).error.is_retryable


def test_a_message_that_broke_off_is_a_failure() -> None:
    """`stop_reason: error` of a server that speaks Anthropic's API."""
    whole = {**body("messages"), "stop_reason": "error"}
    sent = [
        {**one, "delta": {"stop_reason": "error"}} if one["type"] == "message_delta" else one
        for one in events("messages", ["Hi"])
    ]

    came = _streamed("messages", reply(event_bytes("messages", sent)))

    assert _whole("messages", reply(whole)).error.is_retryable
    assert (came.response.text, came.error.is_retryable) == ("Hi", True)


# -- reasoning and structured answers in a text


@settings(max_examples=examples(30))
@given(st.sampled_from(WIRES), st.sampled_from(["", "\n", "\ufeff"]), st.lists(st.integers(0, 60)))
def test_think_tags_are_reasoning(wire: str, before: str, cuts: list[int]) -> None:
    """On every wire of a server of others, whole, and streamed wherever the deltas are cut."""
    written = f"{before}<think>\nIs 2 < 3? 😀\n</think>\n\nYes."

    for came in (
        _whole(wire, reply(body(wire, written))),
        _streamed(wire, reply(event_bytes(wire, events(wire, _pieces(written, cuts))))),
    ):
        assert (came.response.reasoning_text, came.response.text, came.error) == ("Is 2 < 3? 😀", "Yes.", None)


@every("wire", WIRES)
def test_reasoning_from_tags_goes_back_as_text(wire: str) -> None:
    """The next request to the server has the text with its tags, as the model wrote it."""
    seen: list[dict[str, Any]] = []
    served = model(wire, reply(body(wire, "<think>\nHm.\n</think>\n\nYes.")), seen=seen)
    first = ask(LanguageModel.generate_text("Hi"), served)
    ask(
        LanguageModel.generate_text(
            Prompt.make("Hi").with_response(first.response.content).append(UserMessage.make("And?"))
        ),
        served,
    )

    assert "<think>\\nHm.\\n</think>\\n\\nYes." in json.dumps(seen[1])
    assert [part.type for part in first.response.content if part.type == "warning"] == []


@every("url", ["https://api.openai.com", "https://api.anthropic.com"])
def test_the_providers_own_hosts_write_no_tags(url: str) -> None:
    """Their models write reasoning apart, so a text that begins with the tag is an answer about it."""
    wires = ("chat", "responses") if "openai" in url else ("messages",)
    for wire in wires:
        served = model(wire, reply(body(wire, "<think> is a tag.")), base_url=url)

        assert ask(LanguageModel.generate_text("Hi"), served).response.text == "<think> is a tag."


class Point(msgspec.Struct):
    """A value with an optional field, which a strict form writes as null."""

    name: str
    size: int | None = None


JSON = '{"name":"A ``` b","size":null}'
WRAPPED = [
    f"```json\n{JSON}\n```",
    f"```\n{JSON}\n```",
    f"```JSON\n{JSON}\n```\n",
    f"```json{JSON}```",
    f"~~~~json\n{JSON}\n~~~~",
    f"\ufeff{JSON}",
    f"\ufeff```json\n{JSON}\n```",
    f"<think>Hm. {{}}</think>{JSON}",
    f"<think>Hm.\n```json\n{{}}\n```</think>\n\n```json\n{JSON}\n```",
    f"Hm.</think>\n{JSON}",
    f"Here it is:\n```json\n{JSON}\n```\nTell me if you need more.",
    f"```json\n{JSON}",
]


@every("wire", WIRES)
@every("written", WRAPPED)
def test_a_wrapped_answer_is_read(wire: str, written: str) -> None:
    """A fence, a byte order mark and reasoning do not hide the JSON of a typed answer, nor of an agent's."""
    served = model(wire, reply(body(wire, written)))
    came = fx.run(LanguageModel.generate_object("Hi", Point).provide(served))
    answered = fx.run(Agent.make("a", output=Point).execute("Hi").provide(served))

    assert came.value == answered.value == Point("A ``` b")


@every("wire", WIRES)
def test_a_wrapped_answer_of_a_list_is_read(wire: str) -> None:
    """An answer that is asked for as the member of an object is led back also within a fence."""
    for written in ('```json\n{"value":[1,2]}\n```', '<think>Hm.</think>{"value":[1,2]}', "```json\n[1,2]\n```"):
        served = model(wire, reply(body(wire, written)))

        assert fx.run(LanguageModel.generate_object("Hi", list[int]).provide(served)).value == [1, 2]


@every("wire", WIRES)
@every("written", ['<think>Hm.</think>```json\n{"value":[1,2]}\n```', '\ufeff{"value":[1,2]}', "```\n[1,2]\n```"])
def test_a_wrapped_answer_of_a_streamed_run_is_read(wire: str, written: str) -> None:
    """An answer in a strict form arrives whole, after its reasoning."""
    sent = event_bytes(wire, events(wire, [written[:9], written[9:]]))
    program: Any = Agent.make("a", output=list[int]).stream("Hi")
    came = ask_stream(program, model(wire, reply(sent)))

    assert came.error is None
    assert came.response.reasoning_text == ("Hm." if "<think>" in written else None)


@every("wire", WIRES)
@every("written", ['```json\n{"name":', "```json\n12", "<think>Hm.", "A {} b", "```\n```", '```\n{"name":1}\n```'])
def test_what_is_no_answer_stays_a_failure(wire: str, written: str) -> None:
    """JSON that was cut, thoughts alone, and an answer that does not fit."""
    came = ask(LanguageModel.generate_object("Hi", Point), model(wire, reply(body(wire, written))))

    assert isinstance(came.error.reason, StructuredOutputError)
    assert came.error.reason.pointer == ("/name" if '"name":1' in written else "")


# -- thinking without a signature


LOOKS = {"type": "tool_use", "id": "t", "name": "look", "input": {"city": "A"}}


@every("signature", [{}, {"signature": ""}, {"signature": None}])
@every("stream", [False, True])
def test_unsigned_thinking_goes_back_to_its_server(signature: dict[str, Any], stream: bool) -> None:
    """A server that speaks Anthropic's API by base_url needs its thinking again; Anthropic's host refuses it."""
    seen: list[dict[str, Any]] = []
    block = {"type": "thinking", "thinking": "hm", **signature}
    content: list[Any] = [block, LOOKS]
    answer = {**body("messages"), "content": content, "stop_reason": "tool_use"}
    empty = {"type": "thinking", "thinking": "", **signature}
    sent = events("messages", [], ("look", ['{"city":"A"}']))
    thinking = [
        {"type": "content_block_start", "index": 9, "content_block": empty},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 9},
    ]
    first = reply(event_bytes("messages", [sent[0], *thinking, *sent[1:]])) if stream else reply(answer)
    look = Tool.dynamic("look", parameters=LOOK)
    agent = Agent.make("a", toolkit=Toolkit.make(look))

    for name, url, kinds in (
        ("kimi-k2.6", "http://kimi.example", ["thinking", "tool_use"]),
        ("claude-sonnet-5", "http://glm.example/anthropic", ["thinking", "tool_use"]),
        ("claude-sonnet-5", "https://api.anthropic.com", ["tool_use"]),
    ):
        seen.clear()
        told: Any = event_bytes("messages", events("messages", ["Yes."])) if stream else body("messages", "Yes.")
        last = reply(told)
        served = model("messages", first, last, seen=seen, name=name, base_url=url)
        handled = look.handler(lambda _: Success("sunny"))
        program: Any = agent.stream("Hi").collect() if stream else agent.execute("Hi")
        fx.run(program.provide(handled).provide(served))

        blocks = seen[1]["messages"][1]["content"]
        assert [one["type"] for one in blocks] == kinds
        if kinds[0] == "thinking":
            assert blocks[0] == {key: one for key, one in block.items() if one is not None}


def test_unsigned_thinking_goes_to_no_other_model() -> None:
    """Another model did not write it, so the request leaves it out with a warning."""
    answer = {**body("messages"), "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]}
    first = ask(LanguageModel.generate_text("Hi"), model("messages", reply(answer), name="kimi-k2.6"))
    request = ModelRequest(Prompt.make("Hi").with_response(first.response.content).append(UserMessage.make("And?")))

    kept, other = (anthropic.prepare_request(request, model=name) for name in ("kimi-k2.6", "glm-5"))

    assert [one["type"] for one in kept.body["messages"][1]["content"]] == ["thinking", "text"]
    assert [one["type"] for one in other.body["messages"][1]["content"]] == ["text"]
    assert "did not sign" in other.warnings[-1].message


def test_thinking_that_was_cut_is_not_unsigned() -> None:
    """A proxy of Anthropic's models signs whole thinking alone, and Anthropic refuses the rest."""
    answer = {**body("messages"), "content": [{"type": "thinking", "thinking": "hm"}], "stop_reason": "max_tokens"}
    first = ask(LanguageModel.generate_text("Hi"), model("messages", reply(answer), name="kimi-k2.6"))

    assert [part.metadata for part in first.response.content if part.type == "reasoning"] == [{}]
