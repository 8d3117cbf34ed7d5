"""What holds for every reply of Anthropic's, however it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure

from fxai.messages import AnyPart, Part, Prompt, Response
from fxai.models import ModelRequest, PreparationError
from fxai.providers.anthropic import MessagesReader, ReplyError, parse_reply, prepare_request
from fxai.providers.http import read_events
from tests.kit.anthropic_replies import (
    ALL_BLOCKS,
    MODEL,
    SENT,
    TOOLS,
    events_of,
    interleaved,
    message,
    messages,
    read_all,
    sse,
)
from tests.kit.data import is_array
from tests.kit.reaching import Reached, bent, replaced
from tests.kit.trials import examples


def _whole(reply: dict[str, Any]) -> tuple[Any, ...]:
    return parse_reply(json.dumps(reply).encode(), SENT).unwrap()


def _pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    locations = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(locations)]


def _read(body: list[bytes]) -> tuple[Response, bool]:
    """What came of a stream's bytes, and whether it was whole."""
    reader = MessagesReader(SENT)
    told: list[AnyPart] = []
    for event in read_events(body)[0]:
        told += reader.read(event.name, event.data)
    return Response.from_stream([*told, *reader.rest()]), reader.done


@given(messages(), st.lists(st.integers(0, 10**6), max_size=5))
def test_a_stream_amounts_to_the_message_however_it_is_split(reply: dict[str, Any], cuts: list[int]) -> None:
    """Split anywhere, in the middle of a sign or of a line, it gives the parts of the whole message."""
    response, done = _read(_pieces(sse(events_of(reply)), cuts))

    assert done
    assert response.content == _whole(reply)


@given(messages(), st.integers(0, 10**6))
def test_a_stream_that_is_cut_anywhere_keeps_what_came(reply: dict[str, Any], cut: int) -> None:
    """It is not taken for whole; its text is the start of the message's, its calls are the message's or broken."""
    body = sse(events_of(reply))
    end = len(body) - 2  # without the blank line that ends the last event
    response, done = _read([body[: cut % end]])
    whole = Response(_whole(reply))
    calls = {call.id: call for call in whole.tool_calls}

    assert not done
    assert whole.text.startswith(response.text)
    assert all(call.params is None or call == calls[call.id] for call in response.tool_calls)
    assert response.finish_reason == "unknown"


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["", "text", "tool_use", "error", "end_turn", "{"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "id", "name", "text", "index", "delta", "content", "error"]), inner)
    ),
    max_leaves=5,
)
WHOLE = st.one_of(messages(), st.lists(st.sampled_from(ALL_BLOCKS), max_size=4).map(message))


def test_any_json_is_a_reply_or_a_typed_failure() -> None:
    """Nothing that a server sends breaks us; what is read can be kept."""
    reached = Reached()

    @settings(max_examples=examples(120, least=120))
    @given(st.one_of(bent(WHOLE, ANYTHING), bent(WHOLE, ANYTHING), ANYTHING))
    def law(reply: Any) -> None:
        read = parse_reply(json.dumps(reply).encode(), SENT)
        if isinstance(read, Failure):
            assert read.failure().message
            reached("failure")
            return
        parts = read.unwrap()
        assert parts[-1].type == "finish"
        assert Response.from_json(Response(parts).to_json()).unwrap().content == parts
        reached("answer")

    reached.by(law, failure=15, answer=40)


def test_any_events_are_parts_or_a_typed_failure() -> None:
    """In any order, and the stream may end anywhere; what came before a failure stands, and can be gathered."""
    reached = Reached()

    @settings(max_examples=examples(120, least=120))
    @given(bent(WHOLE.map(events_of), ANYTHING), st.data())
    def law(said: Any, data: st.DataObject) -> None:
        events: list[Any] = said if is_array(said) else [said]
        if data.draw(st.booleans()):
            events = events[: data.draw(st.integers(0, len(events)))]
        reader, told = MessagesReader(SENT), list[AnyPart]()
        for one in events:
            try:
                told += reader.read("", json.dumps(one))
            except ReplyError as error:
                told += error.parts
                reached("failure" if error.reason.message else "silent failure")
                break
        gathered = Response.from_stream([*told, *reader.rest()])

        assert Response.from_data(gathered.to_data()).unwrap() == gathered
        reached("whole" if reader.done else "some" if gathered.content else "nothing")

    reached.by(law, failure=10, whole=20, some=10)


@pytest.mark.slow
@pytest.mark.parametrize("odd", [1, [[]]], ids=repr)
def test_whatever_one_member_is_the_reply_is_read_and_goes_back(odd: Any) -> None:
    """Each member of each kind of block, one after another: a reply or a typed failure, at once and by events."""
    read = 0
    for block in ALL_BLOCKS:
        for reply in replaced(message([block]), odd):
            found = parse_reply(json.dumps(reply).encode(), SENT)
            read += _goes_back(() if isinstance(found, Failure) else found.unwrap())
        for events in replaced(events_of(message([block])), odd):
            reader, told = MessagesReader(SENT), list[AnyPart]()
            for event in events:
                try:
                    told += reader.read("", json.dumps(event))
                except ReplyError as error:
                    told += error.parts
                    break
            read += _goes_back(Response.from_stream([*told, *reader.rest()]).content)

    assert read > len(ALL_BLOCKS)


def _goes_back(parts: Iterable[Part]) -> bool:
    """Whether a request was made of a history that ends with these parts, as it was kept; it may be a typed failure."""
    known = Prompt.from_json(Prompt.make("Hi").concat(Prompt.from_parts(parts)).concat("And?").to_json()).unwrap()
    try:
        prepare_request(ModelRequest(known, tuple(TOOLS)), model=MODEL)
    except PreparationError:
        return False
    return True


@given(messages())
def test_blocks_side_by_side_give_the_same_parts(reply: dict[str, Any]) -> None:
    """Interleaved by index, no piece goes to another block."""
    assert sorted(map(repr, read_all(interleaved(reply)))) == sorted(map(repr, _whole(reply)))


@given(messages())
def test_the_history_of_a_reply_gives_the_same_request_again(reply: dict[str, Any]) -> None:
    """To parts, to messages, to JSON, to a request, and from its blocks to parts: they are the same parts."""
    calls = [part.id for part in _whole(reply) if part.type == "tool-call" and not part.provider_executed]
    kept = [block for block in reply["content"] if block.get("id") not in calls and block.get("text", "x").strip()]
    while kept and kept[-1]["type"] in ("thinking", "redacted_thinking"):
        kept.pop()  # the API refuses thinking at the end of a turn
    parts = _whole(message(kept))
    said = Prompt.make("Hi").concat(Prompt.from_parts(parts)).concat("And?")
    known = Prompt.from_json(said.to_json()).unwrap()
    body = prepare_request(ModelRequest(known, tuple(TOOLS)), model=MODEL).body
    again = [block for one in body["messages"] if one["role"] == "assistant" for block in one["content"]]

    assert Prompt.from_parts(_whole(message(again))) == Prompt.from_parts(map(_as_sent, parts))


def _as_sent(part: Any) -> Any:
    """The part without what the wire does not take back: nulls, and what only replies say of citations."""
    said = part.metadata.get("anthropic", {})
    if "citations" in said:
        cited = [{key: one for key, one in each.items() if key != "file_id"} for each in said["citations"]]
        return msgspec.structs.replace(part, metadata={"anthropic": {"citations": cited}})
    if part.type == "tool-result":
        result = [{key: one for key, one in each.items() if one is not None} for each in part.result]
        return msgspec.structs.replace(part, result=result, encoded_result=result)
    return part
