"""Answers made of the official SDKs' own response types, every field and every variant: no leaf of them is lost."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

import pytest
from anthropic.types.beta import BetaMessage
from anthropic.types.beta.beta_content_block import BetaContentBlock
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseOutputItem
from returns.result import Failure

from fxai.messages import Part, Prompt, Response
from fxai.models import ModelRequest
from fxai.providers import anthropic, openai
from tests.kit.every import every
from tests.kit.recorded_leaves import lost_leaves, pattern
from tests.kit.recorded_losses import LOST, unexplained
from tests.kit.sdk_values import samples

pytestmark = pytest.mark.slow

_ASKED: Final = ModelRequest(Prompt.make("Hello"))
_TO_OPENAI: Final = openai.prepare_request(_ASKED, model="gpt-5.5")
_TO_ANTHROPIC: Final = anthropic.prepare_request(_ASKED, model="claude-sonnet-5")
_JSON: Final = ("function_call", "mcp_call", "mcp_approval_request")

LOST_HERE: Final = {
    **LOST["responses"],
    "/output/*/action": "a computer call has one action, or several: where it has both, the several hold",
    "/max_tool_calls": "it repeats the request",
    "/prompt": "it repeats the request",
    "/safety_identifier": "it repeats the request",
    "/user": "it repeats the request",
}


def _openai(body: Any) -> Any:
    try:
        return openai.read_reply(body, _TO_OPENAI)
    except openai.ReplyError as error:
        return error.reason


def _anthropic(body: Any) -> Any:
    ended = anthropic.parse_reply(json.dumps(body).encode(), _TO_ANTHROPIC)
    return ended.failure().reason if isinstance(ended, Failure) else ended.unwrap()


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """An item whose texts have the form that they have on the wire."""
    if item["type"] == "image_generation_call":
        return {**item, "result": b64encode(item["result"].encode()).decode()}
    return {**item, "arguments": '{"a":1}'} if item["type"] in _JSON else item


def _lost(body: Any, read: Any, reasons: Any) -> list[str]:
    parts: tuple[Part, ...] = read(body)
    assert parts.__class__ is tuple, parts
    assert Response.from_json(Response(parts).to_json()).unwrap().content == parts
    return unexplained(map(pattern, lost_leaves(body, read, parts)), reasons)


_ITEMS: Final = [_item(item) for item in samples(ResponseOutputItem)]
_BLOCKS: Final[list[Any]] = samples(BetaContentBlock)


@every("kind", sorted({item["type"] for item in _ITEMS}))
def test_items_of_responses(kind: str) -> None:
    """Each type of item, with all fields and variants that the SDK knows."""
    bodies = [{"status": "completed", "output": [item]} for item in _ITEMS if item["type"] == kind]

    assert [_lost(body, _openai, LOST_HERE) for body in bodies] == [[]] * len(bodies)


def test_what_a_response_says_beside_its_items() -> None:
    """All of the envelope: what does not repeat the request is held."""
    ended: dict[str, Any] = {"output": [], "status": "completed", "error": None, "incomplete_details": None}

    assert [_lost({**body, **ended}, _openai, LOST_HERE) for body in samples(SdkResponse)[:1]] == [[]]


@every("kind", sorted({block["type"] for block in _BLOCKS}))
def test_blocks_of_anthropic(kind: str) -> None:
    """Each type of block, those of beta features too."""
    bodies = [{"type": "message", "content": [block]} for block in _BLOCKS if block["type"] == kind]

    assert [_lost(body, _anthropic, LOST["anthropic"]) for body in bodies] == [[]] * len(bodies)


def test_what_a_message_says_beside_its_blocks() -> None:
    """Usage with all its parts, container, edits of the context, and why it stopped."""
    assert [_lost({**body, "content": []}, _anthropic, LOST["anthropic"]) for body in samples(BetaMessage)[:1]] == [[]]
