"""A run as events of AG-UI: what becomes of each chunk, and of a run that ends in each of its ways."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ag_ui.core import Message
from pydantic import TypeAdapter
from returns.result import Success

from fxai import Agent, Prompt, Tool, Toolkit, fx
from fxai.messages import NetworkError
from fxai.testing import ScriptedModel, call, fails, reasoning, text
from fxai.ui import AgUiEncoder, Conversation, StreamOptions, Turn, UIMessage, encode_ag_ui, to_ag_ui
from fxai.ui.ag_ui import NOTHING, translate
from tests.kit.ag_ui_client import check_events, read_messages

Json = dict[str, Any]


def events_of(*chunks: Json) -> list[Json]:
    """The events of a run of these chunks, checked."""
    encoder = AgUiEncoder("thread", "run")
    encoded = [event for chunk in ({"type": "start", "messageId": "m"}, *chunks) for event in encoder.encode(chunk)]
    events = encoded + encoder.end()
    check_events(events)
    return events


def finished(*chunks: Json) -> list[Json]:
    """The events between the start and the end of a run of these chunks that ends well."""
    return events_of(*chunks, {"type": "finish", "finishReason": "stop"})[1:-1]


def started(id_: str = "c", name: str = "add", **marks: Any) -> Json:
    """The chunk of a whole call."""
    return {"type": "tool-input-available", "toolCallId": id_, "toolName": name, "input": {"a": 1}, **marks}


def test_a_call_that_comes_whole_has_its_parameters_in_one_piece() -> None:
    """As JSON."""
    start, params, end = finished(started())
    assert (start["toolCallName"], params["delta"], end["type"]) == ("add", '{"a":1}', "TOOL_CALL_END")


def test_parameters_that_streamed_are_not_sent_again() -> None:
    """The pieces, and the end when the call is whole."""
    begun = {"type": "tool-input-start", "toolCallId": "c", "toolName": "add"}
    pieces = [{"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": piece} for piece in ('{"a"', ": 1}")]
    events = finished(begun, *pieces, started())
    assert [event["type"] for event in events] == ["TOOL_CALL_START", *["TOOL_CALL_ARGS"] * 2, "TOOL_CALL_END"]


def test_calls_belong_to_the_text_before_them_in_their_step_and_to_none_of_another_step() -> None:
    """Where there is no text, the calls of a step have a message of their own."""
    added: list[Json] = [{"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}]
    step = {"type": "start-step"}
    events = finished(step, *added, started("a"), started("b"), step, started("c"), started("d"))
    parents = [event["parentMessageId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert parents == ["run-1", "run-1", "run-2", "run-2"]


def test_calls_behind_reasoning_are_not_put_before_it() -> None:
    """They have a message behind it."""
    thought: list[Json] = [{"type": "reasoning-start", "id": "r"}, {"type": "reasoning-end", "id": "r"}]
    added: list[Json] = [{"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}]
    assert [one["role"] for one in read_messages(finished(*added, *thought, started()))] == [
        "assistant",
        "reasoning",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("chunk", "content", "metadata"),
    [
        ({"type": "tool-output-available", "output": "sunny"}, "sunny", None),
        ({"type": "tool-output-available", "output": {"c": 21}}, '{"c":21}', None),
        ({"type": "tool-output-error", "errorText": "no such city"}, "no such city", {"isError": True}),
        ({"type": "tool-output-denied"}, "the call was denied", {"isDenied": True}),
    ],
)
def test_a_result_is_a_message_of_its_tool(chunk: Json, content: str, metadata: Any) -> None:
    """Text as it is and data as JSON; what is no success says so."""
    event = finished(started(), {"toolCallId": "c", **chunk})[-1]
    assert (event["type"], event["content"], event.get("metadata")) == ("TOOL_CALL_RESULT", content, metadata)


def test_a_preliminary_result_is_no_result() -> None:
    """It is an event of its own, and the call waits on."""
    shown = {"type": "tool-output-available", "toolCallId": "c", "output": 5, "preliminary": True}
    events = events_of(started(), shown, {"type": "finish", "finishReason": "tool-calls"})
    value = {"toolCallId": "c", "output": 5}
    assert events[-2] == {"type": "CUSTOM", "name": "preliminary-output", "value": value}
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c"]}


def test_what_waits_for_an_approval_is_an_interrupt() -> None:
    """Its id is the approval's; the answer it wants is described."""
    request = {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "ask"}
    outcome = events_of(started("c", "wipe"), request, {"type": "finish", "finishReason": "tool-calls"})[-1]["outcome"]
    (interrupt,) = outcome["interrupts"]
    assert outcome["type"] == "interrupt"
    assert (interrupt["id"], interrupt["reason"], interrupt["toolCallId"]) == ("ask", "tool_call", "c")
    assert "wipe" in interrupt["message"]
    assert interrupt["responseSchema"]["required"] == ["approved"]


def test_a_call_that_was_denied_in_the_run_waits_no_longer() -> None:
    """Nothing interrupts the run."""
    request = {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "ask"}
    denied = {"type": "tool-output-denied", "toolCallId": "c"}
    events = events_of(started(), request, denied, {"type": "finish", "finishReason": "stop"})
    assert events[-1]["outcome"] == {"type": "success"}


def test_data_called_state_is_the_state_and_other_data_an_event_of_its_name() -> None:
    """With its id, where it has one."""
    shown: list[Json] = [
        {"type": "data-state", "data": {"n": 1}},
        {"type": "data-progress", "id": "p", "data": 5, "transient": True},
    ]
    assert finished(*shown) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
        {"type": "CUSTOM", "name": "progress", "value": 5, "metadata": {"id": "p"}},
    ]


def test_what_ag_ui_has_no_event_for_is_sent_under_its_own_name() -> None:
    """Sources, files and metadata."""
    source = {"type": "source-url", "sourceId": "s", "url": "https://example.org"}
    value = {"sourceId": "s", "url": "https://example.org"}
    assert finished(source) == [{"type": "CUSTOM", "name": "source-url", "value": value}]


def test_a_run_that_was_stopped_is_cancelled_and_all_that_was_open_is_closed() -> None:
    """Text, reasoning, parameters and the step."""
    begun: list[Json] = [
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "reasoning-start", "id": "t"},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "add"},
    ]
    assert events_of(*begun, {"type": "abort", "reason": "the user stopped it"})[-1]["outcome"] == {"type": "cancelled"}


def test_a_failure_ends_the_run_when_its_stream_is_over() -> None:
    """With the words of the failure."""
    events = events_of({"type": "text-start", "id": "t"}, {"type": "error", "errorText": "Try later."})
    assert events[-1] == {"type": "RUN_ERROR", "message": "Try later."}


@pytest.mark.parametrize(("reason", "last"), [("error", "RUN_ERROR"), ("stop", "RUN_FINISHED")])
def test_an_error_of_the_provider_is_told_where_the_run_ends_with_it(reason: str, last: str) -> None:
    """A provider that went on behind an error has not failed."""
    events = events_of({"type": "error", "errorText": "Try later."}, {"type": "finish", "finishReason": reason})
    assert events[-1]["type"] == last


def test_nothing_is_sent_behind_the_end_of_a_run() -> None:
    """Whatever comes."""
    encoder = AgUiEncoder("thread", "run")
    encoder.encode({"type": "start"})
    encoder.encode({"type": "finish", "finishReason": "stop"})
    assert (encoder.encode({"type": "text-start", "id": "t"}), encoder.end()) == ([], [])


def test_the_parts_of_a_run_are_encoded_as_they_come() -> None:
    """From an agent to events."""
    now = Tool.make("now", success=int)
    kit = Toolkit.make(now)
    agent = Agent.make("desk", toolkit=kit)
    turns: list[Any] = [[reasoning("Hm."), call("now", {}, id="c")], [text("Two o'clock.")]]
    model = ScriptedModel.make(turns)
    parts = agent.stream("What time is it?").provide(kit.to_layer(now.handler(lambda _: Success(2))) | model.layer)
    events = fx.run(encode_ag_ui(parts, "thread", "run").collect())
    check_events(events)
    assert [message["role"] for message in read_messages(events)] == ["reasoning", "assistant", "tool", "assistant"]


def test_a_run_that_fails_says_what_the_options_say() -> None:
    """And nothing else of it."""
    parts = (
        Agent.make("desk")
        .stream("Hello")
        .provide(ScriptedModel.make([fails(NetworkError("TransportError", "secret"))]).layer)
    )
    plain = fx.run(encode_ag_ui(parts, "thread", "run").collect())
    worded = fx.run(encode_ag_ui(parts, "thread", "run", StreamOptions(error_text=lambda _: "Try later.")).collect())
    check_events(plain)
    assert (plain[-1]["message"], worded[-1]["message"]) == ("An error occurred.", "Try later.")


# -- messages


def test_messages_of_a_conversation_are_of_the_forms_of_ag_ui() -> None:
    """Of each kind of part and of each way that a call can end."""
    ends: dict[str, Json] = {
        "output-available": {"output": 5},
        "output-error": {"errorText": "no"},
        "output-denied": {},
        "input-available": {},
        "input-streaming": {},
    }
    calls: list[Json] = [
        {"type": "tool-add", "toolCallId": state, "state": state, "input": {}, **more} for state, more in ends.items()
    ]
    file = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBO"}
    address = {"type": "file", "mediaType": "application/pdf", "url": "https://example.org/a.pdf"}
    messages = to_ag_ui(
        [
            UIMessage.make("u", "user", "Look", file, address, {"type": "data-x", "data": 1}),
            UIMessage.make("a", "assistant", {"type": "reasoning", "text": "Hm."}, "Well", *calls, file, "So."),
        ]
    )
    read: TypeAdapter[Any] = TypeAdapter(list[Message])
    assert msgspec.json.decode(read.dump_json(read.validate_python(messages), by_alias=True)) == messages
    assert [part["type"] for part in messages[0]["content"]] == ["text", "image", "document"]
    assert [message["role"] for message in messages[1:]] == ["reasoning", "assistant", *["tool"] * 3, "assistant"]


def test_a_message_of_one_text_has_it_as_its_content() -> None:
    """As clients write it."""
    assert to_ag_ui([UIMessage.make("u", "user", "Hi")]) == [{"id": "u", "role": "user", "content": "Hi"}]


def test_a_run_that_only_reads_has_the_messages_and_nothing_else() -> None:
    """And it ends at once."""
    hello = UIMessage.make("u1", "user", "Hello")
    turn = Turn.make("t1", None, hello, "a1", Prompt.make("Hello"), 0.0)
    known = Conversation("c", "ann", "Hello", 0.0, 0.0, (turn,), "t1")
    sent = translate(AgUiEncoder("c", "r", known=known), NOTHING).split(b"\n\n")[:-1]
    events = [msgspec.json.decode(event.removeprefix(b"data: ")) for event in sent]
    check_events(events)
    assert events[1]["messages"] == [{"id": "u1", "role": "user", "content": "Hello"}]
    assert [event["type"] for event in events] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
