"""What we read of OpenAI's answers is what its SDK reads of the same bytes, and nothing is lost on the way back."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseOutputItem

from fxai.messages import Prompt, Response
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.openai.responses_input import reply_items
from tests.kit.every import every
from tests.kit.openai_answers import CHAT, ITEMS, TOOLS, chat_reply, reply

pytestmark = pytest.mark.slow

SENT = openai.prepare_request(ModelRequest(Prompt.make("Hi"), tuple(TOOLS)), model="gpt-5.5")
CHAT_SENT = openai.prepare_request(ModelRequest(Prompt.make("Hi"), tuple(TOOLS)), model="gpt-4o", api="chat")


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """The item without a status that says only that all is well: where it may be left out, it is."""
    done = item.get("status") == "completed"
    optional = item["type"] in ("function_call", "shell_call", "tool_search_call", "reasoning")
    return {key: value for key, value in item.items() if not (key == "status" and done and optional)}


@every("name", ITEMS)
def test_an_item_goes_to_parts_and_back(name: str) -> None:
    """Through the parts, the history, and its JSON: ids, encrypted content and all."""
    items = [ITEMS[name], *([ITEMS["text"]] if ITEMS[name]["type"] == "reasoning" else [])]
    parts = openai.read_reply(reply(items), SENT)
    kept = Response.from_json(Response(parts).to_json()).unwrap()
    history = Prompt.from_json(Prompt.from_parts(kept.content).to_json()).unwrap()
    again = {**reply([]), "output": reply_items(kept.content, SENT.offer)}

    assert reply_items(parts, SENT.offer) == [_plain(item) for item in items]
    assert openai.read_reply(again, SENT) == parts
    assert history == Prompt.from_parts(parts)


def test_all_items_at_once_go_to_parts_and_back() -> None:
    """In their order, none mixed with another."""
    parts = openai.read_reply(reply(list(ITEMS.values())), SENT)

    assert reply_items(parts, SENT.offer) == [_plain(item) for item in ITEMS.values()]


def test_a_response_is_what_the_sdk_reads() -> None:
    """Of the same bytes: the text, the calls with their arguments, the usage, the model."""
    body = json.dumps(reply(list(ITEMS.values()))).encode()
    ours = Response(openai.read_reply(body, SENT))
    theirs = SdkResponse.model_validate_json(body)
    functions = [item for item in theirs.output if item.type == "function_call"]
    calls = [call for call in ours.tool_calls if call.name == "search.all"]

    assert ours.text == theirs.output_text + "No."
    assert [(call.id, call.params) for call in calls] == [
        (item.call_id, {key: value for key, value in json.loads(item.arguments).items() if value is not None})
        for item in functions
    ]
    assert theirs.usage is not None
    assert ours.usage.input_tokens == theirs.usage.input_tokens
    assert ours.usage.output_tokens == theirs.usage.output_tokens
    assert ours.usage.cached_input_tokens == theirs.usage.input_tokens_details.cached_tokens
    assert ours.usage.cache_write_input_tokens == theirs.usage.input_tokens_details.cache_write_tokens
    assert ours.usage.reasoning_tokens == theirs.usage.output_tokens_details.reasoning_tokens
    assert (ours.id, ours.model) == (theirs.id, theirs.model)
    assert ours.timestamp is not None
    assert ours.timestamp.timestamp() == theirs.created_at
    summaries = [summary.text for item in theirs.output if item.type == "reasoning" for summary in item.summary]
    assert ours.reasoning_text == "".join([*summaries, "Aloud."])


def test_a_completion_is_what_the_sdk_reads() -> None:
    """Of the same bytes."""
    body = json.dumps(chat_reply(CHAT)).encode()
    ours = Response(openai.read_reply(body, CHAT_SENT))
    theirs = ChatCompletion.model_validate_json(body)
    message = theirs.choices[0].message
    functions = [call for call in message.tool_calls or [] if call.type == "function"]

    assert ours.text == message.content
    assert [(call.id, call.name) for call in ours.tool_calls] == [(call.id, "search.all") for call in functions]
    assert [call.params for call in ours.tool_calls] == [{"text": "tea"}, {"text": "cake", "limit": 3}]
    assert [source.url for source in ours.sources] == [one.url_citation.url for one in message.annotations or []]
    assert theirs.usage is not None
    assert ours.usage.total_tokens == theirs.usage.total_tokens
    assert (ours.id, ours.model, ours.finish_reason) == (theirs.id, theirs.model, "tool-calls")


def test_each_kind_of_item_of_the_sdk_is_tried() -> None:
    """But for those that a model never answers with: what we say to it, and results that it gives of our own calls."""
    union = get_args(get_args(ResponseOutputItem)[0])
    kinds = {get_args(kind.model_fields["type"].annotation)[0] for kind in union}
    tried = {item["type"] for item in ITEMS.values()}

    assert kinds - tried == {
        "additional_tools",
        "apply_patch_call_output",
        "computer_call_output",
        "custom_tool_call_output",
        "function_call_output",
        "local_shell_call_output",
        "mcp_approval_response",
        "shell_call_output",
    }
