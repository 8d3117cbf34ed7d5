"""Requests to OpenAI: prompts, options and forms of answers on both wires."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from typing_extensions import TypeAliasType, TypeVar

from fxai.agents import Agent
from fxai.effects import fx
from fxai.messages import (
    AssistantMessage,
    FilePart,
    InvalidRequestError,
    InvalidUserInputError,
    Message,
    NetworkError,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnsupportedSchemaError,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest, PreparationError, ToolChoice
from fxai.providers import openai
from fxai.providers.openai import Api
from fxai.schema import JsonSchema, Schema
from fxai.testing import ScriptedModel
from fxai.tools import Tool
from tests.kit.every import every

_T = TypeVar("_T")
APIS: tuple[Api, ...] = ("responses", "chat")


class Query(msgspec.Struct, frozen=True):
    """What is looked for."""

    text: str
    limit: int | None = None


search = Tool.make("search.all", parameters=Query, success=str)


def _sent(*messages: Message, api: Api = "responses", model: str = "gpt-5.5", **given: Any) -> openai.WireRequest:
    profile, stream = given.pop("profile", openai.Profile()), given.pop("stream", False)
    request = ModelRequest(Prompt(messages or (UserMessage.make("Hello"),)), **given)
    return openai.prepare_request(request, model=model, api=api, profile=profile, stream=stream)


def _items(*messages: Message, **given: Any) -> list[Any]:
    items: list[Any] = _sent(*messages, **given).fields["input"]
    return items


def _messages(*messages: Message, **given: Any) -> list[Any]:
    said: list[Any] = _sent(*messages, api="chat", **given).fields["messages"]
    return said


def _called(id_: str = "c1", params: Any = None, **given: Any) -> ToolCallPart:
    return ToolCallPart(id_, "search.all", {"text": "tea"} if params is None else params, **given)


def _turn(result: ToolResultPart, call: ToolCallPart | None = None) -> tuple[Message, Message]:
    return AssistantMessage((call or _called(),)), ToolMessage((result,))


def _warned(sent: openai.WireRequest) -> list[tuple[str, str | None]]:
    return [(warning.kind, warning.subject) for warning in sent.warnings]


# -- system messages


def test_system_messages_at_the_front_are_the_instructions() -> None:
    """On Responses, what a conversation begins with is its instructions; a later one stands where it is."""
    sent = _sent(SystemMessage("A."), SystemMessage("B."), UserMessage.make("Hi"), SystemMessage("C."))

    assert sent.fields["instructions"] == "A.\n\nB."
    assert [item["role"] for item in sent.fields["input"]] == ["user", "developer"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_messages_may_be_messages_of_a_role(role: Any) -> None:
    """A profile that names a role has all of them as messages, on both wires."""
    profile = openai.Profile(system_role=role)
    item = _items(SystemMessage("A."), profile=profile)[0]

    assert item == {"type": "message", "role": role, "content": [{"type": "input_text", "text": "A."}]}
    assert _messages(SystemMessage("A."), profile=profile) == [{"role": role, "content": "A."}]
    assert _messages(SystemMessage("A."))[0]["role"] == "system"


# -- files


@every(
    ("part", "expected"),
    [
        (
            FilePart("image/png", b"hi"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
        ),
        (
            FilePart.of_url("image/png", "https://e.org/a.png"),
            {"type": "input_image", "detail": "auto", "image_url": "https://e.org/a.png"},
        ),
        (FilePart.of_url("image/png", "file-a1"), {"type": "input_image", "detail": "auto", "file_id": "file-a1"}),
        (
            FilePart("image/png", b"hi", metadata={"openai": {"detail": "high"}}),
            {"type": "input_image", "detail": "high", "image_url": "data:image/png;base64,aGk="},
        ),
        (
            FilePart("application/pdf", b"hi"),
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,aGk="},
        ),
        (
            FilePart.of_url("application/pdf", "https://e.org/a.pdf"),
            {"type": "input_file", "file_url": "https://e.org/a.pdf"},
        ),
        (FilePart.of_url("application/pdf", "file-a1"), {"type": "input_file", "file_id": "file-a1"}),
    ],
)
def test_files_on_responses(part: FilePart, expected: dict[str, Any]) -> None:
    """A file is sent as its bytes, as its address or by the id of an upload."""
    assert _items(UserMessage.make(part))[0]["content"] == [expected]


@every(
    ("part", "expected"),
    [
        (FilePart("image/png", b"hi"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}),
        (FilePart("audio/mpeg", b"hi"), {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}),
        (
            FilePart("application/pdf", b"hi", "a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        ),
        (FilePart("text/csv", b"a,b", "a.csv"), {"type": "text", "text": "a.csv:\na,b"}),
        (FilePart("application/json", b"{}"), {"type": "text", "text": "file.json:\n{}"}),
        (FilePart("image/svg+xml", b"<svg/>"), {"type": "text", "text": "file.svg:\n<svg/>"}),
        (FilePart("text/markdown", "é".encode()), {"type": "text", "text": "file.markdown:\né"}),
        (FilePart.of_url("application/pdf", "file-a1"), {"type": "file", "file": {"file_id": "file-a1"}}),
        (FilePart.of_url("image/png", "file-a1"), {"type": "file", "file": {"file_id": "file-a1"}}),
    ],
)
def test_files_on_chat(part: FilePart, expected: dict[str, Any]) -> None:
    """Chat Completions takes images, sounds and documents, each in its own form."""
    assert _messages(UserMessage.make(part))[0]["content"] == [expected]


@every(
    ("api", "part"),
    [
        ("responses", FilePart("audio/wav", b"hi", "a.wav")),
        ("responses", FilePart("video/mp4", b"hi")),
        ("chat", FilePart("video/mp4", b"hi")),
        ("chat", FilePart("audio/ogg", b"hi")),
        ("chat", FilePart("text/csv", b"\xff\xfe")),
        ("chat", FilePart.of_url("audio/wav", "https://e.org/a.wav")),
        ("chat", FilePart.of_url("application/pdf", "https://e.org/a.pdf")),
    ],
)
def test_files_that_a_wire_does_not_take_are_found_before_the_request(api: Api, part: FilePart) -> None:
    """The failure names the file's type and what is taken instead."""
    named = re.escape(f"the file {part.file_name!r}" if part.file_name else "the file")
    with pytest.raises(PreparationError, match=rf"{named} \({part.media_type}\) cannot be sent: ") as raised:
        _sent(UserMessage.make(part), api=api)

    assert isinstance(raised.value.reason, InvalidUserInputError)


def test_a_file_that_is_not_taken_is_a_note_in_a_result() -> None:
    """What a tool gave ends no run: in place of a sound, a film or bytes of any kind stands a note, and a warning."""
    files = [
        {"type": "file", "media_type": kind, "data": "aGk="} for kind in ("video/mp4", "image/x-any", "audio/flac")
    ]
    turn = _turn(ToolResultPart("c1", "search.all", [{"type": "text", "text": "See:"}, *files]))
    note = "(the file, video/mp4, 2 bytes, is omitted: this model does not accept such files)"

    texts = [one["text"] for one in _items(*turn)[-1]["output"]]
    answer = _messages(*turn)[-1]

    assert texts[:2] == ["See:", note]
    assert len(texts) == 4
    assert answer["role"] == "tool"
    assert answer["content"].splitlines() == texts
    assert len([one for one in _sent(*turn).warnings if "that a tool gave" in one.message]) == 3
    assert "aGk=" not in str(_items(*turn)) + str(_messages(*turn))


def test_a_list_of_texts_goes_as_texts() -> None:
    """On Responses several texts are as many; on Chat Completions, which takes one text, they are JSON."""
    result = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    turn = _turn(ToolResultPart("c1", "search.all", result))

    assert _items(*turn)[-1]["output"] == [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert _messages(*turn)[-1]["content"] == '[{"type":"text","text":"a"},{"type":"text","text":"b"}]'


def test_a_files_result_goes_as_content() -> None:
    """A result that holds a file is content on Responses; on Chat Completions the file follows as the user's."""
    result = [{"type": "text", "text": "See:"}, {"type": "file", "media_type": "image/png", "data": "aGk="}]
    turn = _turn(ToolResultPart("c1", "search.all", result))
    output = _items(*turn)[-1]["output"]
    *_, answer, file = _messages(*turn)

    assert [one["type"] for one in output] == ["input_text", "input_image"]
    assert answer["content"] == "See:\n(1 file in the next message)"
    assert file == {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}],
    }


def test_a_file_of_a_model_that_has_no_place_is_noted() -> None:
    """A file that another provider's model made is not sent, and the response says so."""
    made = AssistantMessage((TextPart("Here."), FilePart("image/png", b"hi")))

    assert [_warned(_sent(made, api=api)) for api in APIS] == [[("history", None)], [("history", None)]]


# -- calls and results


def test_calls_go_by_the_names_and_in_the_form_that_was_sent() -> None:
    """Names are mapped, and parameters of a strict tool are written in its strict form."""
    turn = _turn(ToolResultPart("c1", "search.all", "found"))
    call, output = _items(*turn, tools=(search,))
    asked, answer = _messages(*turn, tools=(search,))

    assert call == {
        "type": "function_call",
        "call_id": "c1",
        "name": "search__all",
        "arguments": '{"text":"tea","limit":null}',
    }
    assert output == {"type": "function_call_output", "call_id": "c1", "output": "found"}
    assert asked["tool_calls"][0]["function"]["name"] == "search__all"
    assert answer == {"role": "tool", "tool_call_id": "c1", "content": "found"}


def test_arguments_that_were_no_json_go_back_as_json_that_holds_them() -> None:
    """Servers parse old arguments too, and refuse what is no JSON: what the model wrote goes back as a value."""
    broken = _called(params_text='{"text":')
    turn = _turn(ToolResultPart("c1", "search.all", "no JSON", is_failure=True), broken)

    for arguments in (_items(*turn)[0]["arguments"], _messages(*turn)[0]["tool_calls"][0]["function"]["arguments"]):
        assert json.loads(arguments) == {"INVALID_JSON": '{"text":'}


@pytest.mark.parametrize("api", APIS)
def test_a_call_without_a_result_is_found_before_the_request(api: Api) -> None:
    """The provider would refuse it; the failure names the call and the remedy."""
    with pytest.raises(PreparationError, match=r"the call 'c1' of the tool 'search.all' has no result.*tool message"):
        _sent(AssistantMessage((_called(),)), api=api)


def test_results_stand_right_behind_their_calls_on_chat() -> None:
    """Wherever the prompt has a result, it is sent where the API demands it, once."""
    messages = _messages(
        AssistantMessage((_called("c1"), _called("c2"))),
        UserMessage.make("Wait."),
        ToolMessage((ToolResultPart("c2", "search.all", "two"), ToolResultPart("c1", "search.all", "one"))),
    )

    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert [message["content"] for message in messages[1:3]] == ["one", "two"]


def test_ids_that_come_again_in_each_turn_are_kept_apart() -> None:
    """Some servers count their calls anew each turn: each call has the result of its own turn."""
    first = _turn(ToolResultPart("c1", "search.all", "one"))
    messages = _messages(*first, *_turn(ToolResultPart("c1", "search.all", "two")))

    assert [message["content"] for message in messages if message["role"] == "tool"] == ["one", "two"]


@every(
    ("result", "failed", "expected"),
    [
        ("sunny", False, "sunny"),
        ({"c": 21}, False, '{"c":21}'),
        (None, False, "null"),
        ("boom", True, '{"error":"boom"}'),
        ({"type": "execution-denied", "name": "add", "reason": "not allowed"}, True, "not allowed"),
        ({"type": "execution-denied"}, True, "Tool call execution denied."),
    ],
)
def test_what_a_result_is_for_the_model(result: Any, failed: bool, expected: str) -> None:
    """A text as it is, data as JSON, a failure marked, a denial by its reason."""
    turn = _turn(ToolResultPart("c1", "search.all", result, failed))

    assert _items(*turn)[-1]["output"] == expected
    assert _messages(*turn)[-1]["content"] == expected


def test_tools_of_openais_that_we_answer_have_outputs_of_their_own() -> None:
    """A shell gives outputs, a patch its status, a computer a picture; failures in the form that there is."""
    tools = (openai.shell(), openai.local_shell(), openai.apply_patch(), openai.computer())
    ran = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    calls = (
        ToolCallPart("c1", "shell", {"commands": ["ls"]}),
        ToolCallPart("c2", "shell", {"commands": ["rm"]}),
        ToolCallPart("c3", "local_shell", {"type": "exec", "command": ["ls"], "env": {}}),
        ToolCallPart("c4", "apply_patch", {"type": "delete_file", "path": "a"}),
        ToolCallPart("c5", "computer", {"actions": [], "pending_safety_checks": [{"id": "s"}]}),
    )
    results = (
        ToolResultPart("c1", "shell", [ran]),
        ToolResultPart("c2", "shell", "refused", is_failure=True),
        ToolResultPart("c3", "local_shell", "done"),
        ToolResultPart("c4", "apply_patch", "no such file", is_failure=True),
        ToolResultPart("c5", "computer", {"image_url": "data:,", "file_id": None}),
    )
    outputs = _items(AssistantMessage(calls), ToolMessage(results), tools=tools)[5:]
    failed = {"stdout": "", "stderr": "refused", "outcome": {"type": "exit", "exit_code": 1}}

    assert outputs[0] == {"type": "shell_call_output", "call_id": "c1", "output": [ran]}
    assert outputs[1]["output"] == [failed]
    assert outputs[2] == {"type": "local_shell_call_output", "id": "c3", "output": "done"}
    assert (outputs[3]["status"], outputs[3]["output"]) == ("failed", "no such file")
    assert outputs[4]["output"] == {"type": "computer_screenshot", "image_url": "data:,"}
    assert outputs[4]["acknowledged_safety_checks"] == [{"id": "s"}]


def test_a_failed_computer_call_is_told_in_words_and_no_check_is_acknowledged() -> None:
    """The wire has no failure there: an empty picture is sent, and what happened is said behind it."""
    call = ToolCallPart("c1", "computer", {"actions": [], "pending_safety_checks": [{"id": "s"}]})
    result = ToolResultPart("c1", "computer", "the screen is locked", is_failure=True)
    _, output, said = _items(AssistantMessage((call,)), ToolMessage((result,)), tools=(openai.computer(),))

    assert b64decode(output["output"]["image_url"].partition(",")[2]).startswith(b"\x89PNG")
    assert "acknowledged_safety_checks" not in output
    assert said["role"] == "developer"
    assert "the screen is locked" in said["content"]


def test_an_approval_of_a_servers_call_is_answered_in_the_providers_form() -> None:
    """Approvals of the provider's own requests go back; those of ours are nothing to it."""
    asked = ToolCallPart(
        "mcpr_1",
        "mail",
        {"name": "send", "arguments": {}},
        provider_executed=True,
        metadata={"openai": {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "mail"}},
    )
    said = (ToolApprovalResponsePart("mcpr_1", False, "no mails"), ToolApprovalResponsePart("ours", True))
    request = ToolApprovalRequestPart("mcpr_1", "mcpr_1")
    items = _items(AssistantMessage((asked, request)), ToolMessage(said))

    assert [item["type"] for item in items] == ["mcp_approval_request", "mcp_approval_response"]
    assert items[1] == {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": False,
        "reason": "no mails",
    }


def test_a_servers_call_that_nobody_approved_is_no_denial() -> None:
    """The provider is told that it is not to run, and that nobody said so."""
    marked = {"openai": {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "mail"}}
    arguments: dict[str, Any] = {"name": "send", "arguments": {}}
    asked = ToolCallPart("mcpr_1", "mail", arguments, provider_executed=True, metadata=marked)
    turn = AssistantMessage((asked, ToolApprovalRequestPart("mcpr_1", "mcpr_1")))
    (waiting,) = Prompt((turn,)).pending
    for answer, words in ((waiting.expire(), "in time"), (waiting.abandon(), "no user was available")):
        for said in (answer, msgspec.structs.replace(answer, approved=True)):
            sent = _items(turn, ToolMessage((said,)))[1]
            assert not sent["approve"]
            assert words in sent["reason"]
            assert "no user denied the call" in sent["reason"]


# -- reasoning


def test_reasoning_goes_back_only_where_it_can_be_checked() -> None:
    """Without a store, reasoning needs its encrypted content; another provider's never goes. Both are noted."""
    thought = ReasoningPart("Hm.", metadata={"openai": {"id": "rs_1", "kind": "summary"}})
    sealed = ReasoningPart("", metadata={"openai": {"id": "rs_2", "encrypted_content": "e"}})
    said = AssistantMessage((thought, sealed, ReasoningPart("Theirs."), TextPart("Yes.")))
    stored, bare = _sent(said), _sent(said, profile=openai.Profile(store=False))

    assert [item.get("id") for item in stored.fields["input"]] == ["rs_1", "rs_2", None]
    assert [item.get("id") for item in bare.fields["input"]] == ["rs_2", None]
    assert (len(stored.warnings), len(bare.warnings)) == (1, 2)
    assert bare.fields["store"] is False


def test_encrypted_reasoning_is_asked_for_where_the_model_reasons() -> None:
    """So that it goes on in the history whoever stores what; other models would refuse to be asked."""
    assert _sent().fields["include"] == ["reasoning.encrypted_content"]
    assert "include" not in _sent(model="gpt-4o").fields
    assert "include" not in _sent(model="llama-4").fields


def test_reasoning_of_a_compatible_server_goes_back_in_its_field() -> None:
    """Chat Completions of others has a field for it; OpenAI's own has none, and the rest is noted."""
    thought = ReasoningPart("Hm.", metadata={"openai": {"field": "reasoning_content"}})
    said = AssistantMessage((thought, ReasoningPart("Theirs."), TextPart("Yes.")))
    sent = _sent(said, api="chat")

    assert sent.fields["messages"] == [{"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}]
    assert _warned(sent) == [("history", None)]


# -- options


@pytest.mark.parametrize(
    ("api", "model", "field"),
    [
        ("responses", "gpt-5.5", "max_output_tokens"),
        ("chat", "gpt-5.5", "max_completion_tokens"),
        ("chat", "gpt-4o", "max_completion_tokens"),
        ("chat", "qwen3", "max_tokens"),
    ],
)
def test_the_limit_of_tokens_has_the_name_that_the_server_knows(api: Api, model: str, field: str) -> None:
    """OpenAI's models want the new name; servers of others know the old one."""
    assert _sent(api=api, model=model, max_tokens=7).fields[field] == 7


def test_what_an_api_or_a_model_lacks_is_a_warning() -> None:
    """It is left out, and the response says so."""
    odd = _sent(stop=("END",), temperature=0.5, reasoning="low")
    plain = _sent(api="chat", model="gpt-4o", stop=("END",), temperature=0.5, reasoning="low")
    unknown = _sent(api="chat", model="qwen3", stop=("END",), temperature=0.5, reasoning="low")

    assert _warned(odd) == [("unsupported-option", "temperature"), ("unsupported-option", "stop")]
    assert odd.fields["reasoning"] == {"effort": "low"}
    assert _warned(_sent(api="chat", stop=("END",))) == [("unsupported-option", "stop")]
    assert "stop" not in _sent(api="chat", stop=("END",)).fields
    assert _warned(plain) == [("unsupported-option", "reasoning")]
    assert (plain.fields["stop"], plain.fields["temperature"]) == (["END"], 0.5)
    assert unknown.warnings == ()
    assert unknown.fields["reasoning_effort"] == "low"


def test_a_model_that_is_told_not_to_think_takes_a_temperature() -> None:
    """The newer ones do, with no effort; those before them never."""
    assert _sent(temperature=0.5, reasoning="none").fields["temperature"] == 0.5
    assert "temperature" not in _sent(model="o3", temperature=0.5, reasoning="none").fields


def test_provider_options_are_merged_last() -> None:
    """Objects by their members, lists as both, anything else in place of what was there; a None is not sent."""
    options = {
        "text": {"verbosity": "low"},
        "include": ["file_search_call.results"],
        "max_output_tokens": 9,
        "store": None,
        "extra_body": {"top_k": 40},
    }
    given: dict[str, Any] = {"openai": options, "anthropic": {"top_k": 1}}
    fields = _sent(max_tokens=5, response_schema=JsonSchema.of({"type": "integer"}), provider_options=given).fields

    assert set(fields["text"]) == {"format", "verbosity"}
    assert fields["include"] == ["reasoning.encrypted_content", "file_search_call.results"]
    assert (fields["max_output_tokens"], fields["top_k"]) == (9, 40)
    stop: dict[str, Any] = {"openai": {"stop": "END"}}
    assert _sent(api="chat", model="gpt-4o", stop=("A",), provider_options=stop).fields["stop"] == "END"
    assert "store" not in fields
    assert "extra_body" not in fields


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"tempratur": 1},
            r"'provider_options\['openai'\]'\. there is no option 'tempratur'; there are: .*temperature",
        ),
        ({"input": "x"}, "'input' is made from the model, the prompt and the tools"),
        ({"extra_body": {"model": "x"}}, "further fields, none of them: input, messages, model"),
        ("x", r"parameter 'provider_options\['openai'\]'\. is str: give an object"),
    ],
)
def test_provider_options_are_checked(options: Any, said: str) -> None:
    """A wrong one is found before the request, with what there is."""
    with pytest.raises(PreparationError, match=said) as raised:
        _sent(provider_options={"openai": options})

    assert isinstance(raised.value.reason, InvalidRequestError)


def test_what_json_cannot_carry_is_found_before_the_request() -> None:
    """Metadata and options are plain data; anything else cannot be written."""
    sent = _sent(provider_options={"openai": {"extra_body": {"odd": object()}}})

    with pytest.raises(PreparationError) as raised:
        _ = sent.encoded
    assert isinstance(raised.value.reason, NetworkError)


def test_a_stream_of_chat_is_asked_for_its_usage() -> None:
    """Without that, its usage would be unknown; what the options say wins."""
    body = _sent(api="chat", stream=True).body
    other = _sent(api="chat", stream=True, provider_options={"openai": {"stream_options": {"include_usage": False}}})

    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert other.body["stream_options"] == {"include_usage": False}
    assert "stream" not in _sent().body


# -- the form of an answer


def _schema(kind: Any) -> JsonSchema:
    schema: JsonSchema = Schema[Any].of(kind).document
    return schema


def test_what_another_model_said_is_a_message_of_the_assistant() -> None:
    """On Responses without an item of its own, with its phase where it has one; on Chat Completions as it is."""
    phase = TextPart("Later.", metadata={"openai": {"phase": "commentary"}})
    said = (UserMessage.make("Hi"), AssistantMessage.make("Good day."), UserMessage.make("So?"))

    assert _items(*said)[1] == {"type": "message", "role": "assistant", "content": "Good day."}
    assert _items(said[0], AssistantMessage((phase,)), said[2])[1] == {
        "type": "message",
        "role": "assistant",
        "phase": "commentary",
        "content": "Later.",
    }
    assert _messages(*said)[1] == {"role": "assistant", "content": "Good day."}


def test_an_answers_schema_is_sent_in_its_strict_form() -> None:
    """In each API's own place, under a name that its title gives, if it has one."""
    titled = JsonSchema.of({"title": "A b!", "type": "integer"})
    responses = _sent(response_schema=_schema(Query)).fields["text"]["format"]
    chat = _sent(api="chat", response_schema=_schema(Query)).fields["response_format"]

    assert (responses["type"], responses["name"], responses["strict"]) == ("json_schema", "answer", True)
    assert _sent(response_schema=titled).fields["text"]["format"]["name"] == "A_b"
    assert responses["schema"]["required"] == ["text", "limit"]
    assert chat["json_schema"]["schema"] == responses["schema"]


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("held", [True, False])
def test_an_answer_goes_by_the_name_and_the_description_of_its_type(api: Any, held: bool) -> None:
    """In the format, or as the tool that the model must call in its place; the schema has the description too."""
    model = ScriptedModel.make(['{"text": "tea"}'])
    fx.run(LanguageModel.generate_object("go", Query).provide(model.layer))
    (request,) = model.requests
    fields = openai.prepare_request(
        request, model="gpt-5.5", api=api, profile=openai.Profile(supports_schema=held)
    ).fields
    if held:
        found = fields["text"]["format"] if api == "responses" else fields["response_format"]["json_schema"]
        assert (found["name"], found["description"]) == ("Query", "What is looked for.")
    else:
        found = fields["tools"][0] if api == "responses" else fields["tools"][0]["function"]
        assert found["name"] == "Query"
        assert found["description"].endswith("with the whole answer. What is looked for.")


class _Bare(msgspec.Struct, frozen=True):
    n: int


class _Box(msgspec.Struct, Generic[_T], frozen=True):
    value: _T


class _Point(NamedTuple):
    x: int


class _Typed(TypedDict):
    n: int


_Named = TypeAliasType("_Named", list[int])


@every(
    ("kind", "name"),
    [
        (_Bare, "Bare"),
        (_Box[int], "Box_int"),
        (_Point, "Point"),
        (_Typed, "Typed"),
        (_Named, "Named"),
        (Annotated[_Bare, msgspec.Meta(title="How many?")], "How_many"),
        (Annotated[_Bare, msgspec.Meta(description="How many.")], "Bare"),
        (list[_Bare], "answer"),
        (_Bare | None, "answer"),
        (int, "answer"),
        (dict[str, int], "answer"),
        (Literal["a"], "answer"),
    ],
)
def test_an_answer_is_called_as_its_type_is(kind: Any, name: str) -> None:
    """A class or an alias has a name, and a title wins over it; what Python has by itself is an answer.

    An agent's output goes by the same name; without a description none is sent.
    """
    requests: list[Any] = []
    for program in (LanguageModel.generate_object("go", kind), Agent.make("a", output=kind).execute("go")):
        model = ScriptedModel.make([""] * 3)
        fx.run_result(program.provide(model.layer))
        requests += model.requests[:1]
    formats = [openai.prepare_request(one, model="gpt-5.5").fields["text"]["format"] for one in requests]

    assert [one["name"] for one in formats] == [name, name]
    assert [one.get("description") for one in formats] == [
        "How many." if name == "Bare" and kind is not _Bare else None
    ] * 2


def test_an_answer_is_led_back_to_its_schema() -> None:
    """Null for an optional field means that it is absent; what is not JSON stays as it is."""
    form = _sent(response_schema=_schema(Query)).format

    assert form is not None
    assert form.text('{"text": "tea", "limit": null}') == '{"text":"tea"}'
    assert form.text("no JSON") == "no JSON"


@pytest.mark.parametrize("kind", [list[int], int | str, Query | None])
def test_an_answer_that_is_no_object_is_wrapped_in_one(kind: Any) -> None:
    """The provider takes an object at the root; the way back takes it out again."""
    form = _sent(response_schema=_schema(kind)).format

    assert form is not None
    assert (form.wrapped, form.loose) == (True, False)
    assert form.document["required"] == ["value"]


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [(list[int], '{"value": [1, 2]}', "[1,2]"), (dict[str, int], '{"__rest__": [{"0": "a", "1": 1}]}', '{"a":1}')],
)
def test_what_a_wrapped_answer_holds_is_the_answer(kind: Any, written: str, expected: str) -> None:
    """A list is taken out of its object; a map is written as pairs on the wire, and is a map again."""
    form = _sent(response_schema=_schema(kind)).format

    assert form is not None
    assert form.text(written) == expected


def test_a_schema_that_cannot_be_strict_is_sent_as_it_is_or_refused() -> None:
    """By default with a warning; where strict is asked for, it is an error that names the place."""
    open_ = JsonSchema.of({"type": "object", "properties": {"a": {}}})
    sent = _sent(response_schema=open_)
    loose = _sent(response_schema=_schema(Query), profile=openai.Profile(strict_json_schema=False))

    assert sent.fields["text"]["format"]["strict"] is False
    assert sent.fields["text"]["format"]["schema"] == open_.to_dict()
    assert _warned(sent) == [("not-strict", None)]
    assert loose.fields["text"]["format"]["schema"] == _schema(Query).to_dict()
    assert loose.warnings == ()
    with pytest.raises(PreparationError) as raised:
        _sent(response_schema=open_, profile=openai.Profile(strict_json_schema=True))
    assert isinstance(raised.value.reason, UnsupportedSchemaError)
    assert raised.value.reason.pointer == "/properties/a"


def test_a_model_without_structured_output_must_call_a_tool() -> None:
    """The tool holds the schema; alone it is chosen by name, among others some tool is required."""
    alone = _sent(model="gpt-audio", api="chat", response_schema=_schema(Query)).fields
    among = _sent(model="gpt-audio", response_schema=_schema(Query), tools=(search,)).fields
    off = _sent(model="gpt-audio", response_schema=_schema(Query), tools=(search,), tool_choice="none").fields
    one = ToolChoice.tool("search.all")
    forced = _sent(model="gpt-audio", response_schema=_schema(Query), tools=(search,), tool_choice=one).fields

    assert alone["tool_choice"] == {"type": "function", "function": {"name": "final_answer"}}
    assert "response_format" not in alone
    assert [tool["name"] for tool in among["tools"]] == ["search__all", "final_answer"]
    assert among["tool_choice"] == "required"
    assert off["tool_choice"] == {"type": "function", "name": "final_answer"}
    assert forced["tool_choice"] == {"type": "function", "name": "search__all"}


def test_the_tool_of_an_answer_takes_no_others_name() -> None:
    """A tool of ours may be called like it."""
    own = Tool.make("final_answer")
    sent = _sent(model="gpt-audio", response_schema=_schema(Query), tools=(own,))

    assert sent.format is not None
    assert sent.format.tool == "final_answer_2"


# -- the whole


def test_a_request_says_nothing_of_ours_and_nothing_that_is_null() -> None:
    """What the library knows for itself does not reach the wire."""
    profile = openai.Profile(strict_json_schema=False, supports_strict=True, supports_schema=True)
    for api in APIS:
        fields = _sent(api=api, model="gpt-6-luna", tools=(search,), profile=profile).fields
        assert set(fields) <= {"model", "input", "messages", "tools", "include"}
        assert (
            b"null"
            not in openai.prepare_request(
                ModelRequest(Prompt.make("Hello")), model="gpt-5.5", api=api, profile=profile
            ).encoded
        )


def test_two_tools_of_one_name_on_the_wire_are_told_before_the_request() -> None:
    """The failure names both."""
    with pytest.raises(PreparationError, match=r"parameter 'tools'\..*'a\.b' and 'a b'"):
        _sent(tools=(Tool.make("a.b"), Tool.make("a b")))


def test_prepare_prompt_gives_what_a_request_says_of_a_prompt() -> None:
    """The same fields, without a model and its tools."""
    prompt = Prompt.make("Hello").set_system("Be brief.")
    sent = _sent(*prompt)

    assert openai.prepare_prompt(prompt) == {key: sent.fields[key] for key in ("input", "instructions")}
    assert openai.prepare_prompt(prompt, api="chat")["messages"][0]["role"] == "system"


def test_a_count_contains_the_fields_that_take_tokens() -> None:
    """On Responses OpenAI counts some fields and refuses the others. On Chat Completions fxai sends the whole body."""
    question = UserMessage.make("Hi")
    options: dict[str, Any] = {"temperature": 1.0, "max_tokens": 9, "reasoning": "low"}

    sent = _sent(question, **options)
    chat = _sent(question, api="chat", **options)

    counted = msgspec.json.decode(sent.count_body())
    assert counted == {name: sent.body[name] for name in ("input", "model", "reasoning")}
    assert {"max_output_tokens"} <= sent.body.keys() - counted.keys()
    assert msgspec.json.decode(chat.count_body()) == chat.body
