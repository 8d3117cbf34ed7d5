"""Spans: one for each run, step, request, call and named effect, nested as the program is."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from returns.result import Failure, Result, Success

from fxai import Agent
from fxai.effects import Backend, Effect, Gen, Layer, Stream, fx
from fxai.messages import InternalProviderError, TextDelta, Usage
from fxai.models import EmbeddingModel, Embeddings, LanguageModel, fallback
from fxai.telemetry import layer, trace
from fxai.testing import ScriptedModel, call, fails, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.traces import Traces


class Pair(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


add = Tool.make("add", parameters=Pair, success=int, description="Adds.")
slow = Tool.make("slow", parameters=Pair, success=int)
odd = Tool.make("odd", failure=str, failure_mode="return")
KIT = Toolkit.make(add, slow, odd)


@fx.gen
def _slowly(given: Pair) -> Gen[int]:
    yield from fx.sleep(0.001)
    found = yield from fx.succeed(given.a).span("look up", rows=1)
    yield from fx.annotate_span({"found": found})
    return found


HANDLERS = KIT.to_layer(
    add.handler(lambda given: Success(given.a + given.b)) | slow.handler(_slowly) | odd.handler(lambda _: Failure("no"))
)
ONE = {"a": 1, "b": 2}


def _agent(*turns: Any, name: str = "clerk", **options: Any) -> Any:
    return Agent.make(name, toolkit=KIT, model=ScriptedModel.make(turns).layer, **options)


def _whole(agent: Any) -> Effect[Any, Any, Any]:
    ran: Effect[Any, Any, Any] = agent.execute("Go.").provide(HANDLERS)
    return ran


def _streamed(agent: Any) -> Effect[Any, Any, Any]:
    ran: Effect[Any, Any, Any] = agent.stream("Go.").collect().provide(HANDLERS)
    return ran


@pytest.mark.parametrize("ask", [_whole, _streamed])
def test_spans_are_nested_as_a_run_is(ask: Any, backend: Backend) -> None:
    """A run holds its steps, a step its request and its calls, a call what its handler named; whole and streamed."""
    traces = Traces()
    agent = _agent([call("add", ONE), call("slow", ONE)], text("Done."))

    fx.run(ask(agent).provide(traces.layer()), backend=backend)

    first = ["step", "chat scripted", "execute_tool add", ["execute_tool slow", "look up"]]
    assert traces.tree() == [["invoke_agent clerk", first, ["step", "chat scripted"]]]


def test_spans_have_the_attributes_of_the_conventions() -> None:
    """The operation, who is asked, what for, and how it ended; nothing of what was said."""
    traces = Traces()
    turn = [text("secret"), finish("stop", Usage(10, 5, cached_input_tokens=4, reasoning_tokens=2))]
    agent = _agent(turn, instructions="secret", max_tokens=7, temperature=0, stop=("x",))

    fx.run(_whole(agent).provide(traces.layer()))

    assert traces.attributes("chat scripted") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fxai.testing",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 7,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    assert traces.named("chat scripted").kind == otel.SpanKind.CLIENT
    assert traces.attributes("invoke_agent clerk")["gen_ai.agent.name"] == "clerk"
    assert traces.named("invoke_agent clerk").kind == otel.SpanKind.INTERNAL
    assert "secret" not in "".join(span.to_json() for span in traces.spans)


def test_a_call_says_which_tool_it_is_of() -> None:
    """Its name, its kind, its description and the model's id of it; and what the handler adds."""
    traces = Traces()

    fx.run(_whole(_agent([call("add", ONE, id="c1")], text("3"))).provide(traces.layer()))

    assert traces.attributes("execute_tool add") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Adds.",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.agent.name": "clerk",
    }


def test_what_goes_wrong_is_named_and_not_told() -> None:
    """A failed result, an unknown tool and a model that fails: the class of the error, and no word of it."""
    traces = Traces()
    agent = _agent([call("odd", {}), call("nope", {})], fails(InternalProviderError("a secret")))

    assert isinstance(fx.run_result(_whole(agent).provide(traces.layer())), Failure)

    assert traces.attributes("execute_tool odd")["error.type"] == "str"
    assert traces.attributes("execute_tool")["error.type"] == "UnknownTool"
    failed = [span for span in traces.spans if span.name == "chat scripted"][-1]
    assert (failed.attributes or {})["error.type"] == "InternalProviderError"
    assert failed.status.status_code == otel.StatusCode.ERROR
    assert failed.status.description is None
    assert "secret" not in "".join(span.to_json() for span in traces.spans)
    assert traces.events[-1][0] == "gen_ai.client.operation.exception"


def test_a_conversation_that_the_program_names_is_on_all_spans_inside() -> None:
    """On runs, requests and calls, as the innermost span names it; steps, and what stands beside it, have none."""
    traces, key = Traces(), "gen_ai.conversation.id"

    def ask() -> Effect[Any, Any, Any]:
        return _whole(_agent([call("add", ONE)], text("Done.")))

    named = ask().span("turn", **{key: "c-17"})
    inside = ask().span("inner", **{key: "c-18"}).span("outer", **{key: "c-17"})
    fx.run(named.and_then(inside).and_then(ask()).provide(traces.layer()))

    found = [(span.name, (span.attributes or {}).get(key)) for span in traces.spans if span.name != "step"]
    run = ["invoke_agent clerk", "chat scripted", "execute_tool add", "chat scripted"]
    first = [(name, "c-17") for name in ["turn", *run]]
    second = [("outer", "c-17"), *((name, "c-18") for name in ["inner", *run])]
    assert found == [*first, *second, *((name, None) for name in run)]
    assert not any(key in (span.attributes or {}) for span in traces.spans if span.name == "step")


def test_what_a_handler_asks_for_is_not_counted_as_the_agents() -> None:
    """Of a run the requests and calls that it made itself are counted; a handler's and a sub-agent's are not."""
    traces = Traces()
    poet = Agent.make("poet", model=ScriptedModel.make([text("Roses.")]).layer)
    think = Tool.make("think", success=str)
    thought: Any = LanguageModel.generate_text("?").map(lambda answer: answer.text)
    handled: Any = think.handler(lambda _: thought.provide(ScriptedModel.make([text("Hm.")]).layer))
    turns = [[call("poet", {"prompt": "On roses."}), call("think", {})], text("Here.")]
    editor = Agent.make("editor", toolkit=Toolkit.make(think), model=ScriptedModel.make(turns).layer)
    run: Any = editor.with_tools(poet.as_tool(description="Writes.")).execute("Go.")

    fx.run(run.provide(handled).provide(traces.layer()))

    asked = {point["gen_ai.agent.name"]: n for point, n in traces.points("gen_ai.invoke_agent.inference_calls")}
    called = {point["gen_ai.agent.name"]: n for point, n in traces.points("gen_ai.invoke_agent.tool_calls")}
    assert (asked, called) == ({"editor": 2, "poet": 1}, {"editor": 2, "poet": 0})


def test_what_a_handler_requests_belongs_to_the_conversation_and_to_no_agent() -> None:
    """A handler of an agent calls another tool. The call is in the conversation, and it is not a call of the agent."""
    traces, key = Traces(), "gen_ai.conversation.id"
    outer = Tool.make("outer", success=int)
    handlers: Any = add.handler(lambda given: Success(given.a)) | outer.handler(lambda _: add.call(Pair(1, 2)))
    model = ScriptedModel.make([call("outer", {}), text("Done.")])
    run: Any = Agent.make("clerk", toolkit=Toolkit.make(outer), model=model.layer).execute("Go.")

    fx.run(run.provide(handlers).span("turn", **{key: "c-17"}).provide(traces.layer()))

    own, inner = traces.attributes("execute_tool outer"), traces.attributes("execute_tool add")
    assert (own[key], own["gen_ai.agent.name"]) == ("c-17", "clerk")
    assert inner[key] == "c-17"
    assert "gen_ai.agent.name" not in inner


def test_a_sub_agent_is_inside_the_call_of_it(backend: Backend) -> None:
    """Its run, with its own steps, stands under the call of the tool that it is."""
    traces = Traces()
    poet = Agent.make("poet", model=ScriptedModel.make([text("Roses.")]).layer)
    model = ScriptedModel.make([call("poet", {"prompt": "On roses."}), text("Here.")])
    editor = Agent.make("editor").with_tools(poet.as_tool(description="Writes."))

    fx.run(editor.execute("A verse.").provide(model.layer).provide(traces.layer()), backend=backend)

    run = ["invoke_agent poet", ["step", "chat scripted"]]
    first = ["step", "chat scripted", ["execute_tool poet", run]]
    assert traces.tree() == [["invoke_agent editor", first, ["step", "chat scripted"]]]


def test_effects_side_by_side_stand_under_what_began_them(backend: Backend) -> None:
    """Those of `for_each`, of `race` and of a fork, also where each waits for the others."""
    traces = Traces()

    def one(number: int) -> Effect[int]:
        return fx.sleep(0.001).as_(number).span("inside").span("one", number=number)

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from fx.for_each([1, 2], one, concurrency=2).span("all")
        handle = yield from fx.fork(one(3)).span("fork")
        yield from handle.join()
        yield from fx.race(one(4), one(5)).span("race")

    fx.run(fx.scoped(program()).provide(traces.layer()), backend=backend)

    tree = {name[0]: name[1:] for name in traces.tree()}
    assert tree["all"] == [["one", "inside"], ["one", "inside"]]
    assert tree["fork"] == [["one", "inside"]]
    assert tree["race"] == [["one", "inside"], ["one", "inside"]]


def test_the_span_of_a_stream_ends_with_it(backend: Backend) -> None:
    """At its end, or where its reader leaves: then it says that it was interrupted, and has no error."""
    traces = Traces()
    model = ScriptedModel.make([["a", "b"], ["c", "d"]])
    asked: Stream[Any, Any, Any] = LanguageModel.stream_text("Go.")

    fx.run(asked.collect().and_then(asked.take(2).collect()).provide(model.layer).provide(traces.layer()))

    whole, left = [dict[str, Any](span.attributes or {}) for span in traces.spans]
    assert whole["gen_ai.request.stream"] is True
    assert whole["gen_ai.response.time_to_first_chunk"] > 0
    assert whole["gen_ai.response.finish_reasons"] == ("stop",)
    assert left["fxai.interrupted"] is True
    assert "error.type" not in left


def test_a_program_that_is_stopped_ends_its_spans(backend: Backend) -> None:
    """A timeout and a cancellation: each span ends once, as interrupted."""
    traces = Traces()
    program = fx.never().span("inner").span("outer").timeout(0.001)

    assert isinstance(fx.run_result(program.provide(traces.layer()), backend=backend), Failure)

    assert traces.tree() == [["outer", "inner"]]
    assert [dict(span.attributes or {}) for span in traces.spans] == [{"fxai.interrupted": True}] * 2


def test_a_fallback_has_a_span_for_each_model_that_was_asked() -> None:
    """What hands a request on has none of its own, so nothing is counted twice."""
    traces = Traces()
    first = ScriptedModel.make([fails(InternalProviderError(overloaded=True))])
    both = fallback(first.layer, ScriptedModel.make(["Good day."]).layer)

    fx.run(LanguageModel.generate_text("Hello").provide(both).provide(traces.layer()))

    assert traces.tree() == ["chat scripted", "chat scripted"]


class Lengths(EmbeddingModel):
    """A model of vectors of two numbers."""

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings]:
        """The lengths of the texts."""
        return fx.succeed(Embeddings(tuple((float(len(text)), 1.0) for text in texts), Usage(input_tokens=3)))


def test_embeddings_have_a_span_for_each_request() -> None:
    """With the number of tokens and of dimensions; a model that says nothing of itself goes by its class."""
    traces = Traces()

    fx.run(
        EmbeddingModel.embed("abc").provide(Layer.succeed(EmbeddingModel, Lengths())).provide(traces.layer()),
    )

    assert traces.attributes("embeddings Lengths") == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": Lengths.__module__.partition(".")[0],
        "gen_ai.request.model": "Lengths",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.embeddings.dimension.count": 2,
    }


def test_other_libraries_find_the_span_that_their_code_runs_in(backend: Backend) -> None:
    """In handlers, sync and async, in what a program waits for and in a function of its own."""
    traces = Traces()
    tracer = traces.tracers.get_tracer("another library")

    def work(name: str) -> None:
        tracer.start_span(name).end()

    async def wait(name: str) -> None:
        await anyio.lowlevel.checkpoint()
        work(name)

    async def answer(_: Pair) -> Result[int, Any]:
        await wait("in async")
        return Success(1)

    def answer_now(_: Pair) -> Result[int, Any]:
        work("in sync")
        return Success(1)

    handlers = add.handler(answer) | slow.handler(answer_now)
    calls = add.call(Pair(1, 2)).and_then(slow.call(Pair(1, 2))).provide(handlers)
    waits = fx.wait(lambda: wait("in wait")).span("waits")
    does = fx.sync(lambda: work("in function")).span("does")
    fx.run(calls.and_then(waits).and_then(does).provide(traces.layer()), backend=backend)

    assert traces.tree() == [
        ["execute_tool add", "in async"],
        ["execute_tool slow", "in sync"],
        ["waits", "in wait"],
        ["does", "in function"],
    ]
    assert otel.get_current_span() is otel.INVALID_SPAN


def test_spans_stand_under_the_current_span_of_the_caller() -> None:
    """As that of the request of a web server, where the program begins."""
    traces = Traces()

    with traces.tracers.get_tracer("a server").start_as_current_span("GET /"):
        fx.run(fx.succeed(1).span("inside").provide(traces.layer()))

    assert traces.tree() == [["GET /", "inside"]]


def test_a_span_goes_on_in_another_process() -> None:
    """`inject` gives what names it, and what is resumed by that stands under it."""
    traces = Traces()
    carrier = fx.context().map(lambda services: services.fetch(_key()).inject()).span("here")
    sent = fx.run(carrier.provide(traces.layer()))

    there = fx.context().flat_map(lambda services: services.fetch(_key()).resume(sent, fx.succeed(1).span("there")))
    fx.run(there.provide(traces.layer()))

    assert set(sent) == {"traceparent"}
    assert traces.tree() == [["here", "there"]]


def _key() -> Any:
    from fxai.effects import Tracer

    return Tracer


def test_sampling_is_the_sdks() -> None:
    """Of what is not sampled nothing is recorded, and content is not even read."""
    traces, asked = Traces(ALWAYS_OFF), list[str]()

    def redact(name: str, value: Any) -> Any:
        asked.append(name)
        return value

    fx.run(_whole(_agent(text("Done."))).provide(traces.layer(content="span", redact=redact)))

    assert traces.spans == ()
    assert asked == []


def test_a_layer_is_traced_with_what_it_builds() -> None:
    """`trace(layer)` has the type of the layer, and what its building does is in spans too."""
    traces = Traces()
    model = ScriptedModel.make([text("Hello.")]).layer
    opened = Layer.scoped(LanguageModel, fx.service(LanguageModel).span("open").provide(model))
    around: Layer[LanguageModel] = trace(opened, tracer_provider=traces.tracers)

    assert fx.run(LanguageModel.generate_text("Hello").provide(around)).text == "Hello."
    assert traces.tree() == ["open", "chat scripted"]


def test_a_typed_call_is_traced_as_a_call_of_a_model_is() -> None:
    """`tool.call` has a span; one without a tracer does the same and has none."""
    traces = Traces()
    called = add.call(Pair(1, 2)).provide(HANDLERS)

    assert fx.run(called) == fx.run(called.provide(traces.layer(content="span"))) == 3
    assert traces.tree() == ["execute_tool add"]
    assert traces.attributes("execute_tool add")["gen_ai.tool.call.arguments"] == '{"a":1,"b":2}'


def test_a_tracer_that_breaks_does_not_break_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """What its provider raises is logged, and the program gives what it gives."""

    class Broken(otel.NoOpTracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Any:
            return object()

    one = fx.succeed(1).span("one").provide(layer(tracer_provider=Broken()))
    streamed = LanguageModel.stream_text("?").collect().provide(ScriptedModel.make(["Yes."]).layer)

    assert fx.run(one) == 1
    assert any(isinstance(part, TextDelta) for part in fx.run(streamed.provide(layer(tracer_provider=Broken()))))
    assert "telemetry failed, and the program continues" in caplog.text


def test_content_is_one_of_three() -> None:
    """Another word is refused when the layer is made."""
    wrong: Any = "spans"
    with pytest.raises(ValueError, match='must be "off", "span", or "event"'):
        layer(content=wrong)
