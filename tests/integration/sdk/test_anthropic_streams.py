"""What we read in a stream of Anthropic's is what its official SDK makes of the same events."""

from __future__ import annotations

import json
from typing import Any

import anthropic as sdk
import httpx2
import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from pydantic import TypeAdapter

from fxai.providers.anthropic import parse_reply
from fxai.providers.http import read_events
from tests.kit.anthropic_replies import (
    ALL_BLOCKS,
    MODEL,
    SENT,
    events_of,
    message,
    messages,
    read_all,
    sse,
)
from tests.kit.trials import examples

pytestmark = pytest.mark.slow

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def _sdk_makes(body: bytes) -> dict[str, Any]:
    """The message that the SDK's stream helper makes of a streamed answer."""
    reply = httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: reply))
    asked: Any = [{"role": "user", "content": "Hi"}]
    with (
        sdk.Anthropic(api_key="sk-1", http_client=http) as client,
        client.messages.stream(model=MODEL, max_tokens=9, messages=asked) as stream,
    ):
        made: dict[str, Any] = stream.get_final_message().to_dict(mode="json")
        return made


@settings(max_examples=examples(25))
@given(messages())
def test_any_stream_amounts_to_what_the_sdk_makes_of_it(whole: dict[str, Any]) -> None:
    """The parts of a stream, gathered, are those of the message that the SDK accumulates."""
    body = sse(events_of(whole))
    made = json.dumps(_sdk_makes(body)).encode()
    events = [json.loads(event.data) for event in read_events([body])[0]]

    assert read_all(events) == parse_reply(made, SENT).unwrap()


def test_the_events_of_the_tests_are_the_sdks() -> None:
    """Each event that the tests tell, but the ping, is an instance of the SDK's own type."""
    events = [event for event in events_of(message(ALL_BLOCKS)) if event["type"] != "ping"]
    read = [EVENT.validate_python(event) for event in events]

    assert [one.type for one in read] == [event["type"] for event in events]
    assert {delta["delta"]["type"] for delta in events if delta["type"] == "content_block_delta"} == {
        "text_delta",
        "citations_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
    }
