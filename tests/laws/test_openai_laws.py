"""What holds for everything that OpenAI's servers, or others that speak like them, may answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.messages import Part, Prompt, Response, UserMessage
from fxai.models import ModelRequest
from fxai.providers import openai
from fxai.providers.openai import Api
from fxai.providers.openai.chat_reply import ChatReader
from fxai.providers.openai.reply import ResponsesReader
from fxai.providers.openai.responses_input import reply_items
from fxai.schema import JsonSchema
from fxai.testing.strategies import instances, json_values
from fxai.tools import Tool
from tests.kit import openai_answers as answers
from tests.kit.data import is_array
from tests.kit.reaching import Reached, bent
from tests.kit.trials import examples

PARAMS = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": ["integer", "null"]},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "boolean"}],
            "items": False,
            "minItems": 2,
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}
find = Tool.dynamic("find.all", parameters=PARAMS)
TOOLS = (find, openai.custom("sql"), openai.shell(), openai.web_search(), openai.image_generation())


def _sent(api: Api, **given: Any) -> openai.WireRequest:
    return openai.prepare_request(ModelRequest(Prompt.make("Hi"), TOOLS, **given), model="gpt-5.5", api=api)


SENT: dict[Api, openai.WireRequest] = {"responses": _sent("responses"), "chat": _sent("chat")}
apis: st.SearchStrategy[Api] = st.sampled_from(["responses", "chat"])

# Words of the wires, so that what is drawn comes near to what is meant.
KEYS = st.sampled_from(
    [
        *(
            "type",
            "id",
            "call_id",
            "name",
            "arguments",
            "input",
            "output",
            "content",
            "text",
            "summary",
            "item",
            "delta",
        ),
        *("output_index", "item_id", "content_index", "response", "status", "error", "choices", "message", "part"),
        *("tool_calls", "function", "index", "finish_reason", "usage", "annotations", "annotation", "action", "audio"),
        *("custom", "data", "result", "incomplete_details", "reason", "refusal", "code", "operation", "actions"),
    ]
)
WORDS = st.sampled_from(
    [
        *(
            "message",
            "output_text",
            "refusal",
            "reasoning",
            "function_call",
            "custom_tool_call",
            "shell_call",
            "program",
        ),
        *(
            "web_search_call",
            "image_generation_call",
            "mcp_call",
            "computer_call",
            "tool_search_call",
            "mcp_approval_request",
        ),
        *("shell_call_output", "apply_patch_call", "response.output_item.added", "response.output_item.done"),
        *("response.output_text.delta", "response.function_call_arguments.delta", "response.completed", "completed"),
        *(
            "response.incomplete",
            "response.content_part.added",
            "response.reasoning_summary_text.delta",
            "stop",
            "failed",
        ),
        *("response.output_text.annotation.added", "find__all", "sql", "{}", '{"text":"a"}', "error", "url_citation"),
    ]
)
near = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-1, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
objects = st.dictionaries(KEYS, near, max_size=6)


def _read(reply: Any, sent: openai.WireRequest) -> tuple[tuple[Part, ...], openai.ReplyError | None]:
    try:
        return openai.read_reply(json.dumps(reply), sent), None
    except openai.ReplyError as error:
        return (), error


def _of_items(make: Callable[[list[Any]], Any]) -> st.SearchStrategy[Any]:
    """What is made of any item of a response, or of two, as the provider's own types have them; made once."""
    items = list(answers.ITEMS.values())
    return st.deferred(lambda: st.sampled_from([make([]), *map(make, ([one] for one in items)), make(items[:2])]))


REPLIES: dict[Api, st.SearchStrategy[Any]] = {
    "responses": _of_items(answers.reply),
    "chat": st.just(answers.chat_reply(answers.CHAT)),
}
EVENTS: dict[Api, st.SearchStrategy[list[Any]]] = {
    "responses": _of_items(lambda items: answers.events(items, 9)),
    "chat": st.just(answers.chat_events(answers.CHAT, size=9)),
}


def _near(whole: dict[Api, Any]) -> st.SearchStrategy[Any]:
    """What a server of each API says, bent here and there; now and then anything at all."""
    anything = st.tuples(apis, objects | json_values())
    nearly = apis.flatmap(lambda api: st.tuples(st.just(api), bent(whole[api], near)))
    return st.one_of(nearly, nearly, nearly, anything)


def test_any_json_is_an_answer_or_a_typed_failure() -> None:
    """Nothing that a server sends breaks us; what is read can be kept."""
    reached = Reached()

    @settings(max_examples=examples(150, least=150))
    @given(_near(REPLIES))
    def law(drawn: tuple[Api, Any]) -> None:
        api, reply = drawn
        parts, failure = _read(reply, SENT[api])

        assert (failure is None) == bool(parts)
        assert failure is None or failure.reason.message
        assert Response.from_json(Response(parts).to_json()).unwrap().content == parts
        reached("failure" if failure else f"{api}_answer")

    reached.by(law, failure=15, responses_answer=15, chat_answer=15)


def test_any_events_are_parts_or_a_typed_failure() -> None:
    """In any order, and the stream may end anywhere; what came can be gathered."""
    reached = Reached()

    @settings(max_examples=examples(120, least=120))
    @given(_near(EVENTS), st.data())
    def law(drawn: tuple[Api, Any], data: st.DataObject) -> None:
        api, said = drawn
        events = _cut(_listed(said), data)
        reader = ChatReader(SENT[api]) if api == "chat" else ResponsesReader(SENT[api])
        parts: list[Any] = []
        try:
            for one in events:
                parts.extend(reader.read("message", json.dumps(one)))
            parts.extend(reader.end())
        except openai.ReplyError:
            reached("failure")
        gathered = Response.from_stream(parts)

        assert Response.from_data(gathered.to_data()).unwrap() == gathered
        assert reader.done == (len(gathered.content) > 0 and gathered.content[-1].type == "finish")
        reached("whole" if reader.done else "some" if gathered.content else "nothing")

    reached.by(law, failure=10, whole=15, some=15)


def _listed(said: Any) -> list[Any]:
    """The events; what is no list of them is one."""
    return said if is_array(said) else [said]


def _cut(events: list[Any], data: st.DataObject) -> list[Any]:
    """The events, or the first of them, or all in another order."""
    kind = data.draw(st.sampled_from(["whole", "cut", "mixed"]))
    if kind == "mixed":
        return data.draw(st.permutations(events[:12]))
    return events[: data.draw(st.integers(0, len(events)))] if kind == "cut" else events


@given(instances(PARAMS, undeclared=False), apis)
def test_the_parameters_of_a_call_come_and_go(params: Any, api: Api) -> None:
    """As the strict form has them on the wire, as the schema has them here; null may be absence."""
    sent = SENT[api]
    wire = sent.offer.prepared.wire_call("find.all", params)
    function = {"name": wire.name, "arguments": json.dumps(wire.params)}
    item = {"type": "function_call", "id": "f", "call_id": "c", **function}
    message = {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
    reply = {"output": [item]} if api == "responses" else {"choices": [{"message": message}]}
    call = Response(openai.read_reply(reply, sent)).tool_calls[0]

    assert (call.name, call.dynamic) == ("find.all", True)
    assert call.params in (params, {key: value for key, value in params.items() if value is not None})


@given(st.lists(st.text(max_size=5), max_size=8), st.text(max_size=20), apis)
def test_pieces_of_a_text_are_the_text(pieces: list[str], rest: str, api: Api) -> None:
    """However it is split; what the whole says beyond the pieces follows."""
    text = "".join(pieces)
    if api == "chat":
        reader: ChatReader | ResponsesReader = ChatReader(SENT[api])
        events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
        last: Any = {"choices": [{"delta": {"content": rest}, "finish_reason": "stop"}]}
    else:
        reader = ResponsesReader(SENT[api])
        events = [{"type": "response.output_text.delta", "output_index": 0, "delta": piece} for piece in pieces]
        content = [{"type": "output_text", "text": text + rest}]
        last = {"type": "response.completed", "response": {"output": [{"type": "message", "content": content}]}}
    parts = [part for event in [*events, last] for part in reader.read("message", json.dumps(event))]

    assert Response.from_stream([*parts, *reader.end()]).text == text + rest


@given(instances(PARAMS, undeclared=False))
def test_an_answer_by_a_schema_is_an_instance_of_it(value: Any) -> None:
    """What the model writes in the strict form is led back to what the schema says."""
    sent = _sent("responses", response_schema=JsonSchema.of(PARAMS))
    form = sent.format
    assert form is not None
    assert form.form is not None
    written = json.dumps(form.form.forth(value).unwrap())
    content = [{"type": "output_text", "text": written}]
    response = Response(openai.read_reply({"output": [{"type": "message", "content": content}]}, sent))

    assert JsonSchema.of(PARAMS).validate(json.loads(response.text)) == ()


@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)), max_size=4))
def test_a_history_goes_on_from_its_answers(said: list[tuple[str, str]]) -> None:
    """The items that an answer leaves are those that the next request begins with."""
    prompt, items = Prompt.empty, list[Any]()
    for number, (asked, told) in enumerate(said):
        prompt = prompt.append(UserMessage.make(asked))
        content = [{"type": "output_text", "text": told}]
        reply = {"output": [{"type": "message", "id": f"m{number}", "content": content}]}
        parts = openai.read_reply(reply, SENT["responses"])
        items = [*openai.prepare_prompt(prompt).get("input", []), *reply_items(parts, SENT["responses"].offer)]
        prompt += Prompt.from_parts(parts)

        assert openai.prepare_prompt(prompt)["input"] == items
    assert len(items) == 2 * len(said)
