"""Concerto: its hosts, providers, wires, typed answers and schemas.

Its builder, its memory and its MCP client are held by the files of that name. Where the older system answers by a mock
that nobody asked for, drops what it cannot send, or says nothing of it, ours says so, as the tests' facts have it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import httpx2
import msgspec
import pytest
from returns.result import Success

from fxai import BoundToolkit, tool
from fxai.agents import Agent
from fxai.effects import Effect, EffectOf, Layer, MissingServiceError, Service, fx
from fxai.lint import Subject, lint
from fxai.messages import (
    AiError,
    AuthenticationError,
    Finish,
    InvalidRequestError,
    ModelUnavailableError,
    Prompt,
    RequestTimeoutError,
    ToolCall,
    UnknownError,
)
from fxai.models import LanguageModel, ModelRequest
from fxai.providers import anthropic, from_name, host, openai
from fxai.providers.host.host import Process, Program
from fxai.providers.host.protocol import HostProgress, Result, read
from fxai.schema import Schema
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit, ToolSource
from tests.kit.conformance import Case, case
from tests.kit.hosts import Backend, asked, gone, python, shell


class Greeting(msgspec.Struct, frozen=True):
    """A typed answer."""

    message: str
    count: int


class Calculator:
    """Methods with and without a description."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    def search(self, query: str, tags: list[str], limit: int | None = None) -> str:
        """Searches."""
        return f"{query} {tags} {limit}"

    def update(self, count: int) -> int:
        """Keeps a number."""
        self.count = count
        return count

    def read(self) -> int:
        """Gives the number."""
        return self.count

    def _hidden(self, a: int) -> int:
        """Described, but not public."""
        return a


def _documents() -> dict[str, Any]:
    kit = Toolkit.from_object(Calculator(), only=("add", "search")).toolkit
    return {name: one.json_schema() for name, one in kit.tools.items()}


def _reason(program: EffectOf[Any, Any, Any]) -> Any:
    """Why a program fails with an `AiError`."""
    error = fx.run_result(cast("EffectOf[Any, Any, None]", program)).failure()
    assert isinstance(error, AiError)
    return error.reason


def _asks(layer: Any) -> EffectOf[Any, Any, Any]:
    return LanguageModel.generate_text("Hello").provide(layer)


# -- hosts


@case("CO041")
def test_a_host_speaks_text_or_json_and_nothing_else(case: Case) -> None:
    """`"text"` and `"json"` are taken; any other format is refused at once, not taken for text."""
    one, two, other = case.given.split("/")

    assert [host.model("cat", format=one).__class__, host.model("cat", format=two).__class__] == [Layer, Layer]
    with pytest.raises(ValueError, match="format must be 'text' or 'json', got 'other'"):
        host.model("cat", format=other)


@case("CO044")
def test_the_first_line_of_a_program_is_its_answer(case: Case, backend: Backend) -> None:
    """A program that writes a line and ends has answered, whether or not it read what it was asked."""
    response = asked(backend, (case.given.split()[1], "hello world"), format="text")

    assert f'Ok("{response.text}") = first stdout line' == case.expect


@case("CO046")
def test_messages_are_read_line_by_line_until_the_end(case: Case) -> None:
    """A progress, a result, then nothing more: at the end of its output there is no line."""
    lines = '{"type":"progress","message":"Working..."}\n{"type":"result","text":"Done"}\n'

    async def both() -> list[Any]:
        process = await Process.start(Program(("printf", "%s", lines)))
        try:
            return [await process.line() for _ in range(3)]
        finally:
            await process.end()

    first, second, third = fx.run(fx.wait(both))

    assert read(first) == HostProgress(message="Working...")
    assert read(second) == Result(text="Done")
    assert third is None


@case("CO047")
def test_params_are_sent_first_and_acknowledged(case: Case, backend: Backend) -> None:
    """The program is told its params, acknowledges them, and answers the request that follows."""
    script = """read init; echo '{"type":"init_ack"}'; read prompt; echo "$init response_text" """
    response = asked(backend, shell(script), format="text", params={"model": "m", "temperature": 0.5})
    told, _, answer = response.text.rpartition(" ")

    assert answer in case.expect
    assert json.loads(told) == {"type": "init", "version": 1, "params": {"model": "m", "temperature": 0.5}}


@case("CO048")
def test_an_error_in_answer_to_params_is_a_failure(case: Case) -> None:
    """The layer fails with the words of the program."""
    refuses = shell("""read init; echo '{"type":"error","message":"bad config"}'""")
    reason = _reason(_asks(host.model(*refuses, params={})))

    assert isinstance(reason, InvalidRequestError)
    assert reason.description.split(": ")[-1] in case.expect


@case("CO050")
def test_a_plain_line_is_a_result(case: Case) -> None:
    """Where JSON is spoken, a line that is no JSON object is the text of the answer."""
    assert read(case.given.encode()) == Result(text=case.given)
    assert case.expect == "{type:result,text:line}"


@case("CO052")
def test_a_program_that_sleeps_is_timed_out_and_killed(case: Case, backend: Backend, tmp_path: Any) -> None:
    """The time is over: a typed failure, and the process is gone."""
    sleeps = python("note(sys.argv[1], os.getpid())\nimport time\ntime.sleep(10)", tmp_path / "pids")
    program = _asks(host.model(*sleeps, timeout=1.0, grace=0.2))
    error = fx.run_result(cast("EffectOf[Any, Any, None]", program), backend=backend).failure()

    assert case.given == "sleep 10, timeout 1"
    assert isinstance(error.reason, RequestTimeoutError)
    assert error.reason.seconds == 1.0
    assert gone(tmp_path / "pids")


@case("CO-H01")
def test_what_a_program_is_told(case: Case, backend: Backend) -> None:
    """A prompt in text is a line, and so is its answer; in JSON it is an object, answered by `text` or the raw line."""
    untyped = asked(backend, shell('read line; echo "{\\"text\\": \\"fine\\", \\"more\\": 1}"'))
    raw = asked(backend, shell('read line; echo "{\\"said\\": 1}"'))
    line = asked(backend, ("cat",), "prompt", format="text")
    record = json.loads(
        asked(backend, python('for m in asked(): say(type="result", text=json.dumps(m))'), "prompt").text
    )

    assert (untyped.text, raw.text, line.text) == ("fine", '{"said": 1}', "prompt")
    assert record["prompt"] == "prompt"
    assert case.kind.startswith("changed: ")


@case("CO-H02")
def test_the_history_is_sent_in_json_and_its_loss_in_text_is_said(case: Case) -> None:
    """Better than recorded only: in JSON the whole history is sent; in text it is not, and the response warns of it."""
    history = Prompt.make("One").concat([{"role": "assistant", "content": "Two"}]).concat("Three")
    echo = host.model(*python('for m in asked(): say(type="result", text=json.dumps(m["messages"]))'))
    sent = fx.run(LanguageModel.generate_text(history).provide(echo))
    said = fx.run(LanguageModel.generate_text(history).provide(host.model("cat", format="text")))

    assert json.loads(sent.text) == history.to_data()
    assert (said.text, [one.subject for one in said.warnings]) == ("Three", ["history"])
    assert "NOT sent" in case.expect


@case("CO-H04", "CO094")
def test_what_a_program_says_on_the_way_is_heard_and_its_error_is_typed(case: Case, backend: Backend) -> None:
    """A progress comes before the answer, in the stream; an error is a typed failure that a program can handle."""
    last = {"CO094": 'say(type="result", text="done")', "CO-H04": 'say(type="error", message="no disk")'}[case.id]
    heard: list[str] = []
    command = python(f'next(asked())\nsay(type="progress", message="Working")\n{last}')
    stream = LanguageModel.stream_text("Hello").provide(host.model(*command))
    program = stream.for_each(lambda part: fx.sync(lambda: heard.append(part.type)))
    ended: Any = fx.run_result(program, backend=backend)
    progress = ["response-metadata", "reasoning-start", "reasoning-delta", "reasoning-end"]

    if case.id == "CO094":
        assert heard == [*progress, "text-start", "text-delta", "text-end", "finish"]
    else:
        assert heard == progress
        assert isinstance(ended.failure().reason, UnknownError)
        assert "no disk" in ended.failure().message


@case("CO-D15")
def test_tools_for_a_host_that_takes_none_are_said_to_be_left_out(case: Case) -> None:
    """Never in silence: each tool that the program is not given is a warning by its name."""
    bound = BoundToolkit.make(plus)
    asking = LanguageModel.generate_text("Hello", toolkit=bound.toolkit).provide(bound.layer)
    response = fx.run(asking.provide(host.model("cat", format="text")))

    assert [(one.kind, one.subject) for one in response.warnings] == [("unsupported-tool", "plus")]
    assert "ignored silently" in case.expect


# -- providers


@case("CO013")
def test_an_answer_has_text_model_and_usage(case: Case) -> None:
    """What a model says of itself and of its tokens is on the response, and it was asked what was said."""
    states = """
for m in asked():
    words = m["prompt"].split()
    say(type="result", text=f"You said: {m['prompt']}", model="parrot-1", usage={"input_tokens": len(words)})
"""
    prompt = case.given.removeprefix("prompt ").strip('"')
    response = asked("asyncio", python(states), prompt)

    assert prompt in response.text
    assert (response.model, response.usage.input_tokens) == ("parrot-1", 2)


@case("CO014")
def test_a_schema_reaches_the_model_and_the_answer_is_typed(case: Case) -> None:
    """The model is sent the JSON Schema, and what it makes by it is decoded."""
    states = """
made = {"string": "hello", "integer": 3}
for m in asked():
    fields = m["schema"]["properties"]
    say(type="result", value={name: made[field["type"]] for name, field in fields.items()})
"""
    asking = LanguageModel.generate_object("Greet", Greeting).provide(host.model(*python(states), takes=["schema"]))
    answer = fx.run(asking)

    assert answer.value == Greeting("hello", 3)
    assert sorted(json.loads(answer.response.text)) == ["count", "message"]
    assert all(name in case.given for name in json.loads(answer.response.text))


@case("CO015")
def test_an_unknown_provider_is_a_failure_and_never_a_mock(case: Case) -> None:
    """A name that nobody knows is an error that says which there are."""
    reason = _reason(_asks(from_name("nowhere:large")))

    assert isinstance(reason, ModelUnavailableError)
    assert "Use one of: alibaba, anthropic, " in reason.description
    assert case.kind == "changed: never silently mock"


class _Keys:
    """Answers a chat request, and keeps the keys that it was asked with."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """An answer."""
        self.keys.append(request.headers.get("authorization"))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
        return httpx2.Response(200, json={"object": "chat.completion", "choices": [choice]})


@case("CO016", "CO017")
def test_a_key_is_given_or_read_from_the_environment(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is given is the one that is sent; without one it is that of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    server = _Keys()
    options: dict[str, Any] = {"api_key": "sk-given"} if case.id == "CO016" else {}
    layer = openai.layer("gpt-5.5", api="chat", transport=httpx2.MockTransport(server), retry=None, **options)
    fx.run(_asks(layer))

    assert server.keys == [{"CO016": "Bearer sk-given", "CO017": "Bearer sk-of-the-environment"}[case.id]]


@case("CO019", "CO096")
def test_without_a_key_nothing_is_asked_and_nobody_answers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is a typed failure that names the variable; no mock answers in place of the provider."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = _Keys()
    reason = _reason(_asks(openai.layer("gpt-5.5", transport=httpx2.MockTransport(server), retry=None)))

    assert isinstance(reason, AuthenticationError)
    assert (reason.kind, server.keys) == ("MissingKey", [])
    assert "OPENAI_API_KEY" in reason.description


@case("CO020")
def test_the_provider_that_is_named_says_whether_it_needs_a_key(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic without a key fails; a server on this machine is asked without one."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = _Keys()
    transport = httpx2.MockTransport(server)
    reason = _reason(_asks(anthropic.layer("claude-sonnet-5", transport=transport, retry=None)))
    local = openai.layer("llama", api="chat", base_url="http://localhost:11434/v1", transport=transport, retry=None)

    assert isinstance(reason, AuthenticationError)
    assert fx.run(_asks(local)).text == "Hi"
    assert server.keys == [None]


# -- wires


def _chat(request: ModelRequest, model: str = "gpt-4.1") -> Mapping[str, Any]:
    return openai.prepare_request(request, model=model, api="chat").fields


def _claude(request: ModelRequest, model: str = "claude-sonnet-5") -> Mapping[str, Any]:
    return anthropic.prepare_request(request, model=model).body


@case("CO021")
def test_a_plain_request_says_what_was_asked_and_no_more(case: Case) -> None:
    """Model, messages, temperature and the most tokens; nothing of tools, and nothing that was not given."""
    sent = _chat(ModelRequest(Prompt.make("Hello"), temperature=0.5, max_tokens=99))

    assert sent["model"] == "gpt-4.1"
    assert sent["messages"] == [{"role": "user", "content": "Hello"}]
    assert sent["temperature"] == 0.5
    assert 99 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert "tools" not in sent
    assert "tools" not in _chat(ModelRequest(Prompt.make("Hello")))


@case("CO023")
def test_a_schema_is_sent_as_the_response_format(case: Case) -> None:
    """`response_format.json_schema` holds the schema in its strict form."""
    sent = _chat(ModelRequest(Prompt.make("Hi"), response_schema=Schema.of(Greeting).document))
    held = sent["response_format"]["json_schema"]

    assert sent["response_format"]["type"] == "json_schema"
    assert held["strict"] is True
    assert held["schema"]["properties"] == {"message": {"type": "string"}, "count": {"type": "integer"}}
    assert held["schema"]["additionalProperties"] is False


@case("CO024")
def test_a_text_answer_is_read(case: Case) -> None:
    """Text, model and tokens; no calls."""
    reply = {
        "object": "chat.completion",
        "model": "gpt-4.1-2025",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
    layer = openai.layer("gpt-4.1", api="chat", api_key="k", transport=_answers(reply), retry=None)
    response = fx.run(_asks(layer))

    assert (response.text, response.model) == ("Hi", "gpt-4.1-2025")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 1)
    assert response.tool_calls == ()


def _answers(reply: Mapping[str, Any]) -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda _: httpx2.Response(200, json=dict(reply)))


@case("CO026")
def test_an_answer_without_choices_is_a_failure(case: Case) -> None:
    """An error in place of choices, and no choices at all, are typed failures."""
    replies: list[dict[str, Any]] = [{"error": {"message": "No such."}}, {"object": "chat.completion", "choices": []}]
    for reply in replies:
        layer = openai.layer("gpt-4.1", api="chat", api_key="k", transport=_answers(reply), retry=None)

        assert fx.run_result(_asks(layer)).failure().__class__ is AiError


@case("CO027")
def test_instructions_stand_beside_the_messages(case: Case) -> None:
    """Anthropic's system prompt is a field of its own, and one message is left."""
    sent = _claude(ModelRequest(Prompt.make("Hello").set_system("Be brief.")))

    assert "Be brief." in json.dumps(sent["system"])
    assert [message["role"] for message in sent["messages"]] == ["user"]


@case("CO028")
def test_a_tool_is_sent_by_name_description_and_schema(case: Case) -> None:
    """Anthropic's form of a tool."""
    sent = _claude(ModelRequest(Prompt.make("Hello"), (Tool.make("add", parameters=Greeting, description="Adds."),)))
    offered = sent["tools"][0]

    assert (offered["name"], offered["description"]) == ("add", "Adds.")
    assert set(offered["input_schema"]["properties"]) == {"message", "count"}


@case("CO029")
def test_the_most_tokens_are_always_sent(case: Case) -> None:
    """Anthropic demands the field. Where nobody says, ours is what the model can, not a number that cuts answers."""
    sent = _claude(ModelRequest(Prompt.make("Hello")))

    assert sent["max_tokens"] >= int(case.expect)
    assert _claude(ModelRequest(Prompt.make("Hello"), max_tokens=99))["max_tokens"] == 99


@case("CO032")
def test_an_answer_without_content_is_a_failure(case: Case) -> None:
    """An error in place of content is Anthropic's own, typed."""
    reply = {"type": "error", "error": {"type": "not_found_error", "message": "No such model."}}
    layer = anthropic.layer("claude-sonnet-5", api_key="k", transport=_answers(reply), retry=None)
    failure: Any = fx.run_result(_asks(layer)).failure()

    assert failure.__class__ is AiError
    assert "No such model." in failure.message


@case("CO-P02")
def test_arguments_that_are_no_json_are_never_empty_ones(case: Case) -> None:
    """The tool is not run: the call has a failed result that the model reads."""
    bound = BoundToolkit.make(plus)
    model = ScriptedModel.make([[ToolCall("1", "plus", None, params_text='{"a": 1,'), Finish("tool-calls")]])
    asking = LanguageModel.generate_text("Add", toolkit=bound.toolkit).provide(bound.layer).provide(model.layer)
    response = fx.run(asking)

    assert [one.is_failure for one in response.tool_results] == [True]
    assert response.tool_calls[0].params is None
    assert "silently" in case.expect


@case("CO-P04")
def test_a_typed_answer_is_asked_for_in_the_way_of_the_model(case: Case) -> None:
    """A model with structured outputs is sent the schema; one without is made to call a tool of it. Never ignored."""
    request = ModelRequest(Prompt.make("Hi"), response_schema=Schema.of(Greeting).document)
    new, old = _claude(request), _claude(request, "claude-3-5-haiku-latest")

    assert new["output_config"]["format"]["schema"]["properties"]["count"] == {"type": "integer"}
    assert old["tool_choice"]["type"] == "tool"
    assert set(old["tools"][0]["input_schema"]["properties"]) == {"message", "count"}


@case("CO-D02")
def test_a_name_that_a_wire_refuses_is_made_legal_and_led_back(case: Case) -> None:
    """`Calculator::add` is sent as a legal name at both providers, and a call by it runs the tool."""
    made = Tool.make("Calculator::add", parameters=Greeting, success=int)
    kit = Toolkit.make(made)
    names = {
        _chat(ModelRequest(Prompt.make("Hi"), kit.as_tuple))["tools"][0]["function"]["name"],
        _claude(ModelRequest(Prompt.make("Hi"), kit.as_tuple))["tools"][0]["name"],
    }
    wire = names.pop()
    called = {"id": "1", "type": "function", "function": {"name": wire, "arguments": '{"message":"a","count":2}'}}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [called]}}
    transport = _answers({"object": "chat.completion", "choices": [choice]})
    layer = openai.layer("gpt-4.1", api="chat", api_key="k", transport=transport, retry=None)
    handlers = made.handler(lambda greeting: Success(greeting.count))
    response = fx.run(LanguageModel.generate_text("Hi", toolkit=kit).provide(handlers).provide(layer))

    assert names == set()
    assert wire.replace("_", "").replace("-", "").isalnum()
    assert [(one.name, one.result) for one in response.tool_results] == [("Calculator::add", 2)]


# -- typed answers


@case("CO053", "CO054", "CO055", "CO056")
def test_an_answer_is_decoded_or_the_fault_is_named(case: Case) -> None:
    """What fits is the typed value; a missing field, another type and what is no JSON are failures with their place."""
    said = {
        "CO053": '{"message": "hi", "count": 3}',
        "CO054": '{"message": "hi"}',
        "CO055": '{"message": "hi", "count": "three"}',
        "CO056": "not json",
    }[case.id]
    answer: Any = Schema.of(Greeting).decode_json(said)
    asking = LanguageModel.generate_object("Hi", Greeting).provide(ScriptedModel.make([text(said)]).layer)
    ended: Any = fx.run_result(asking)

    if case.id == "CO053":
        assert answer == Success(Greeting("hi", 3))
        assert ended.unwrap().value == Greeting("hi", 3)
        return
    faults = answer.failure().faults
    assert [fault.pointer for fault in faults] == ["" if case.id == "CO056" else "/count"]
    assert ended.failure().reason.text == said
    assert ended.failure().reason.pointer == faults[0].pointer


@case("CO059")
def test_the_model_that_is_asked_again_is_told_what_was_wrong(case: Case) -> None:
    """After an answer that does not fit, the next request holds what was asked, the fault, and the schema."""
    model = ScriptedModel.make([text('{"message": "hi"}'), text('{"message": "hi", "count": 3}')])
    agent: Any = Agent.make("greeter", output=Greeting, output_retries=1)
    answer = fx.run(agent.execute("Greet Ann").provide(model.layer))
    again = model.requests[1]

    assert answer.output == Greeting("hi", 3)
    assert "Greet Ann" in str(again.prompt)
    assert "/count" in str(again.prompt)
    assert again.response_schema == Schema.of(Greeting).document


# -- schemas of methods


@tool
def plus(a: int, b: int) -> int:
    """Adds."""
    return a + b


@case("CO070")
def test_a_described_method_is_a_tool(case: Case) -> None:
    """Its name is that of the class and its own, its parameters are described, and `self` is none of them."""
    kit = Toolkit.from_object(Calculator(), only=("add",)).toolkit
    made = kit.tools["Calculator.add"]
    document = made.json_schema()

    assert made.description == "Adds two numbers."
    assert document["type"] == "object"
    assert {name: one["type"] for name, one in document["properties"].items()} == {"a": "integer", "b": "integer"}
    assert document["properties"]["a"]["description"] == "the first"


@case("CO071")
def test_an_optional_parameter_is_not_required(case: Case) -> None:
    """A parameter with a default may be left out; the others are required, lists have the type of their items."""
    document = _documents()["Calculator.search"]

    assert document["required"] == ["query", "tags"]
    assert document["properties"]["query"] == {"type": "string"}
    assert document["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    assert {"type": "integer"} in document["properties"]["limit"]["anyOf"]


@case("CO-S01")
def test_types_have_the_names_of_json_schema(case: Case) -> None:
    """Numbers, texts and truth."""
    types: list[Any] = [int, float, str, bool]

    assert "/".join(Schema[Any].of(one).json_schema()["type"] for one in types) == case.expect


@case("CO-S03")
def test_a_map_keeps_the_type_of_its_values(case: Case) -> None:
    """The type of the values is said, as the older system's own specification wants it."""
    document = Schema.of(dict[str, int]).json_schema()

    assert document == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert "additionalProperties" in case.expect


@case("CO-S10")
def test_a_method_that_is_not_public_is_no_tool(case: Case) -> None:
    """An underscore keeps a method to itself, described or not."""
    names = list(Toolkit.from_object(Calculator()).toolkit.tools)

    assert names == ["Calculator.add", "Calculator.search", "Calculator.update", "Calculator.read"]


@case("CO-S12", "CO083")
def test_what_is_not_described_is_found_by_the_check(case: Case) -> None:
    """`fxai check` names each tool and each parameter without a description; a program still runs."""

    def half(a: int, b: int) -> int:
        return a + b

    half.__doc__ = "Adds.\n\nArgs:\n    a: the first\n"

    made = Tool.make("bare") if case.id == "CO083" else tool(half).tool
    found = [(one.code, one.pointer) for one in lint(Subject.of([made]), "info")]

    if case.id == "CO083":
        assert "tool-undescribed" in {code for code, _ in found}
    else:
        assert [pointer for code, pointer in found if code == "parameter-undescribed"] == ["/parameters/properties/b"]


@case("CO012")
def test_the_state_of_an_object_stays_between_the_calls_of_its_tools(case: Case) -> None:
    """What one call keeps, the next one sees."""
    bound = Toolkit.from_object(Calculator(), only=("update", "read"))
    both = ToolSource.of(bound).use(
        lambda kit: kit.call("Calculator.update", {"count": 42}).and_then(kit.call("Calculator.read", {}))
    )

    assert fx.run(both).result == 42
    assert str(42) in case.given


# -- agents and programs


@case("CO086")
def test_an_agent_without_a_model_is_refused(case: Case) -> None:
    """The checkers refuse it; a program that slipped past them is told which service is missing."""
    program: Any = Agent.make("a").execute("Hello")

    with pytest.raises(MissingServiceError, match="LanguageModel"):
        fx.run(program)


@case("CO097")
def test_an_agent_runs_on_a_scripted_model(case: Case) -> None:
    """A test says what the model says, and the agent is the one that is shipped."""
    model = ScriptedModel.make([text("Hello, Ann.")])
    answer = fx.run(Agent.make("Greeter").execute("Greet Ann").provide(model.layer))

    assert answer.text == "Hello, Ann."
    assert len(model.requests) == 1


class _Log(Service):
    """What was emitted."""

    def __init__(self) -> None:
        self.said: list[str] = []


@case("CO099")
def test_each_run_builds_its_services_anew(case: Case) -> None:
    """What one run keeps in a service, the next one does not see."""
    layer = Layer.sync(_Log, _Log)

    def emits(word: str) -> Effect[list[str], Any, _Log]:
        def emit(log: _Log) -> list[str]:
            log.said.append(word)
            return log.said

        return fx.service(_Log).map(emit)

    assert fx.run(emits("one").provide(layer)) == ["one"]
    assert fx.run(emits("two").provide(layer)) == ["two"]


@case("CO-D01")
def test_calls_are_run_and_the_model_is_asked_again(case: Case) -> None:
    """An agent runs the calls of a turn, tells the model their results, and answers with its last turn."""
    bound = BoundToolkit.make(plus)
    model = ScriptedModel.make([call("plus", {"a": 2, "b": 3}, id="1"), text("It is 5.")])
    agent = Agent.make("adder", toolkit=bound.toolkit)
    answer = fx.run(agent.execute("2 + 3?").provide(bound.layer).provide(model.layer))

    assert answer.text == "It is 5."
    assert len(model.requests) == 2
    assert [message.role for message in model.requests[1].prompt][-2:] == ["assistant", "tool"]


@case("CO-D03")
def test_the_tools_of_an_agent_are_sent(case: Case) -> None:
    """Static tools reach the request of a plain `execute`."""
    bound = BoundToolkit.make(plus)
    model = ScriptedModel.make([text("Hi.")])
    fx.run(Agent.make("adder", toolkit=bound.toolkit).execute("Hi").provide(bound.layer).provide(model.layer))

    assert [one.name for one in model.requests[0].tools] == ["plus"]
