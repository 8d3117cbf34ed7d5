"""What we read in a reply of Anthropic's is what its official SDK reads in the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import anthropic as sdk
import httpx2
import pytest
from anthropic.types import ContentBlock, Message
from hypothesis import given, settings

from fxai.messages import Part
from fxai.providers.anthropic import parse_reply
from tests.kit.anthropic_replies import ALL_BLOCKS, MODEL, SENT, message, messages
from tests.kit.every import every
from tests.kit.trials import examples

pytestmark = pytest.mark.slow

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "pause_turn": "pause",
    "refusal": "content-filter",
}


def _sdk_reads(body: bytes) -> Message:
    """The message that the SDK makes of an answer with this body."""
    reply = httpx2.Response(200, content=body, headers={"content-type": "application/json"})
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: reply))
    with sdk.Anthropic(api_key="sk-1", http_client=http) as client:
        return client.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_unset=True)


def _told_by_sdk(message: Message) -> Iterator[tuple[Any, ...]]:
    for block in message.content:
        match block.type:
            case "text":
                yield ("text", block.text, [_plain(one) for one in block.citations or ()])
            case "thinking":
                yield ("thinking", block.thinking, block.signature)
            case "redacted_thinking":
                yield ("redacted", block.data)
            case "tool_use" | "server_tool_use":
                yield ("call", block.id, block.input, block.caller and _plain(block.caller))
            case "container_upload":
                yield ("file", block.file_id)
            case _:
                yield ("result", block.tool_use_id, _plain(block)["content"])
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0)
    yield ("finish", message.stop_reason and STOPS[message.stop_reason], usage.input_tokens + sum(cached), *cached)


def _told_by_us(part: Part) -> tuple[Any, ...] | None:
    said = part.metadata.get("anthropic", {})
    match part.type:
        case "text":
            return ("text", part.text, said.get("citations", []))
        case "reasoning" if "redacted_data" in said:
            return ("redacted", said["redacted_data"])
        case "reasoning":
            return ("thinking", part.text, said["signature"])
        case "tool-call":
            given = {key: one for key, one in part.params.items() if part.name != "computer" or key != "action"}
            return ("call", part.id, given, said.get("caller"))
        case "tool-result":
            return ("result", part.id, part.result)
        case "file":
            return ("file", getattr(part.data, "url", None))
        case "finish":
            usage = part.usage
            cached = (usage.cached_input_tokens, usage.cache_write_input_tokens)
            return ("finish", part.reason, usage.input_tokens, *cached)
        case _:
            return None


def _read(body: bytes) -> list[tuple[Any, ...]]:
    told = map(_told_by_us, parse_reply(body, SENT).unwrap())
    return [one for one in told if one is not None]


@settings(max_examples=examples(60))
@given(messages())
def test_any_reply_is_read_as_the_sdk_reads_it(whole: dict[str, Any]) -> None:
    """Texts, citations, thinking, calls, results, stop reason and usage are the same."""
    assert _read(json.dumps(whole).encode()) == list(_told_by_sdk(Message.model_validate(whole)))


def test_every_kind_of_block_is_read_as_the_sdk_reads_it() -> None:
    """A message with every kind of block that the SDK knows, over HTTP."""
    body = json.dumps(message(ALL_BLOCKS, "tool_use")).encode()

    assert _read(body) == list(_told_by_sdk(_sdk_reads(body)))


def test_the_samples_are_messages_of_the_sdk() -> None:
    """Each block that the tests read is an instance of the SDK's own type, and each type of the SDK's is among them."""
    Message.model_validate(message(ALL_BLOCKS), strict=True)
    kinds: Any = get_args(get_args(ContentBlock)[0])
    known = {name for kind in kinds for name in get_args(kind.model_fields["type"].annotation)}

    assert known == {block["type"] for block in ALL_BLOCKS}


@every("stop", STOPS)
def test_each_stop_reason_has_a_word(stop: str) -> None:
    """Every stop reason of the SDK's type becomes a finish reason, none of them "other"."""
    finish = parse_reply(json.dumps(message([], stop)).encode(), SENT).unwrap()[-1]

    assert finish.type == "finish"
    assert finish.reason == STOPS[stop]
