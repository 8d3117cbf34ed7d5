"""Answers in the forms that servers write: every wire, streamed and whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import InternalProviderError, InvalidOutputError, RateLimitError
from fxai.models import LanguageModel
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
    [b"data:\n\n", b"data: {}\n\n", b"data: null\n\n", b"event: ping\n\n", b": ping\n\n", b"event: x\ndata:\n\n"],
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
    places = sorted({0, len(encoded), *(2 * (cut % (len(encoded) // 2 + 1)) for cut in cuts)})
    return [encoded[start:end].decode("utf-16-le", "surrogatepass") for start, end in pairwise(places)]


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
        place = {"own": at, "zero": 0, "none": None}[index]
        for number, piece in enumerate((text[:cut], text[cut:])):
            names = {
                "own": f"c{at}",
                "changing": f"c{at}.{number}",
                "first": None if number else f"c{at}",
                "none": None,
            }
            pieces.append(_piece(place, names[ids], None if number else name, piece))

    assert _chunks(*pieces) == [(name, {"city": city}) for name, city in wanted]


@every("wire", WIRES)
@every("text", ["null", "", "{}", " null "])
def test_null_stands_for_empty_arguments(wire: str, text: str) -> None:
    """Whole and streamed; a call without parameters has none."""
    sent = body(wire, "", ("ping", "{}" if wire == "messages" and text.strip() != "null" else text))

    assert _whole(wire, reply(sent)).calls == [("ping", {})]
    assert _streamed(wire, reply(event_bytes(wire, events(wire, [], ("ping", [text]))))).calls == [("ping", {})]
    assert _streamed(wire, reply(event_bytes(wire, events(wire, [], ("ping", []))))).calls == [("ping", {})]


@every("value", [None, {}, "", "null"])
def test_missing_arguments_are_empty(value: Any) -> None:
    """Servers of Chat Completions write no arguments as null, as an object, or not at all."""
    call = {"id": "c", "type": "function", "function": {"name": "ping", "arguments": value}}
    bare = {"id": "c", "type": "function", "function": {"name": "ping"}}
    for one in (call, bare):
        message = {"role": "assistant", "content": None, "tool_calls": [one]}
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}

        assert _whole("chat", reply(answer)).calls == [("ping", {})]


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
