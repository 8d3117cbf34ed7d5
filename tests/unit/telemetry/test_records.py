"""Metrics, and what is recorded of content where the program asks for it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from typing_extensions import override

from fxai import Agent
from fxai.effects import Effect, Layer, fx
from fxai.messages import Usage
from fxai.models import EmbeddingModel, Embeddings, LanguageModel, ModelInfo, Price, PriceTable
from fxai.testing import ScriptedModel, call, finish, text
from fxai.tools import Tool, Toolkit
from tests.kit.traces import Traces

PRICES = PriceTable("USD", {"scripted": Price.per_million("1", "10")})


def _ask(*turns: Any) -> Any:
    return LanguageModel.generate_text("What is it?").provide(ScriptedModel.make(turns).layer)


def test_tokens_and_durations_are_measured() -> None:
    """Tokens of requests, how long requests, calls and runs took, and how many a run made, named as the spans are."""
    traces = Traces()
    tick = Tool.make("tick", success=str)
    turns = [[call("tick", {}), finish("tool-calls", Usage(10, 5))], [text("Done."), finish("stop", Usage(20, 7))]]
    agent = Agent.make("clerk", toolkit=Toolkit.make(tick), model=ScriptedModel.make(turns).layer)
    handled = agent.execute("Go.").provide(tick.handler(lambda _: fx.succeed("tock")))

    fx.run(handled.provide(traces.layer()))

    for kind, total in (("input", 30), ("output", 12)):
        assert [found for _, found in traces.points(f"gen_ai.client.inference.operation.{kind}_tokens")] == [total]
        ((used, found),) = traces.points(f"gen_ai.client.inference.usage.{kind}_tokens")
        assert (used["gen_ai.token.modality"], found) == ("unknown", total)
    assert traces.points("gen_ai.invoke_agent.inference_calls") == [({"gen_ai.agent.name": "clerk"}, 2)]
    assert traces.points("gen_ai.invoke_agent.tool_calls") == [({"gen_ai.agent.name": "clerk"}, 1)]
    ((asked, took),) = traces.points("gen_ai.client.inference.duration")
    assert asked == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fxai.testing",
        "gen_ai.request.model": "scripted",
    }
    assert took > 0
    assert [point for point, _ in traces.points("gen_ai.execute_tool.duration")] == [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "tick",
            "gen_ai.tool.type": "function",
            "gen_ai.agent.name": "clerk",
        }
    ]
    assert [point["gen_ai.agent.name"] for point, _ in traces.points("gen_ai.invoke_agent.duration")] == ["clerk"]


def test_tokens_that_nobody_counted_are_not_measured() -> None:
    """Unknown is not zero: there is no point of them, and no cost."""
    traces = Traces()

    fx.run(_ask(text("Yes.")).provide(traces.layer(prices=PRICES)))

    for kind in ("operation", "usage"):
        assert traces.points(f"gen_ai.client.inference.{kind}.input_tokens") == []
    assert traces.points("fxai.client.cost") == []
    assert "fxai.usage.cost" not in traces.attributes("chat scripted")


def test_the_cost_is_told_where_the_price_is_known() -> None:
    """On the span of the request, and as a metric, with its currency."""
    traces = Traces()
    turn = [text("Yes."), finish("stop", Usage(1000, 100))]

    fx.run(_ask(turn).provide(traces.layer(prices=PRICES)))
    fx.run(_ask(turn).provide(traces.layer(prices=PriceTable("USD", {}))))

    first, second = [dict(span.attributes or {}) for span in traces.spans]
    assert (first["fxai.usage.cost"], first["fxai.usage.currency"]) == (0.002, "USD")
    assert "fxai.usage.cost" not in second
    assert [total for _, total in traces.points("fxai.client.cost")] == [0.002]


class _Vectors(EmbeddingModel):
    """A model that counts input tokens only, as providers of embeddings do."""

    @property
    @override
    def info(self) -> ModelInfo:
        """The name that the price table contains."""
        return ModelInfo("fxai.testing", "vectors")

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings]:
        """One number for each text."""
        return fx.succeed(Embeddings(tuple((1.0,) for _ in texts), Usage(input_tokens=1000)))


def test_embeddings_cost_their_input_tokens() -> None:
    """The provider counts no output tokens. The cost is on the span and in the metric."""
    traces = Traces()
    prices = PriceTable("USD", {"vectors": Price.per_million("1", "10")})
    embedded = EmbeddingModel.embed("abc").provide(Layer.succeed(EmbeddingModel, _Vectors()))

    fx.run(embedded.provide(traces.layer(prices=prices)))

    assert traces.attributes("embeddings vectors")["fxai.usage.cost"] == 0.001
    assert [total for _, total in traces.points("fxai.client.cost")] == [0.001]


def test_the_first_part_of_a_stream_is_timed() -> None:
    """There is one point for a stream, and none for a request that is answered whole."""
    traces = Traces()
    model = ScriptedModel.make([["Yes", "."], "No."])
    both = LanguageModel.stream_text("?").collect().and_then(LanguageModel.generate_text("?"))

    fx.run(both.provide(model.layer).provide(traces.layer()))

    assert len(traces.points("gen_ai.client.inference.time_to_first_chunk")) == 1


def test_content_is_on_the_spans_where_it_is_asked_for() -> None:
    """Instructions, messages, definitions, parameters and results, as JSON text in the form of the conventions."""
    traces = Traces()
    double = Tool.make("double", parameters=int, success=int, description="Doubles.")
    model = ScriptedModel.make([call("double", 4, id="c1"), text("It is 8.")])
    agent = Agent.make("clerk", toolkit=Toolkit.make(double), instructions="Be brief.", model=model.layer)
    handled = agent.execute("Twice 4?").provide(double.handler(lambda n: fx.succeed(2 * n)))

    fx.run(handled.provide(traces.layer(content="span")))

    chat: Any = [span.attributes for span in traces.spans if span.name == "chat scripted"][-1]
    said = json.loads(chat["gen_ai.input.messages"])
    assert json.loads(chat["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert said[0] == {"role": "user", "parts": [{"type": "text", "content": "Twice 4?"}]}
    assert said[1]["parts"] == [{"type": "tool_call", "id": "c1", "name": "double", "arguments": 4}]
    assert said[2]["parts"] == [{"type": "tool_call_response", "id": "c1", "response": 8}]
    assert json.loads(chat["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is 8."}], "finish_reason": "stop"}
    ]
    assert json.loads(chat["gen_ai.tool.definitions"])[0]["description"] == "Doubles."
    called = traces.attributes("execute_tool double")
    assert (called["gen_ai.tool.call.arguments"], called["gen_ai.tool.call.result"]) == ("4", "8")
    run = traces.attributes("invoke_agent clerk")
    assert "It is 8." in run["gen_ai.output.messages"]


def test_content_may_be_an_event_of_its_own() -> None:
    """Then the spans have none of it, and a collector can keep it elsewhere."""
    traces = Traces()

    fx.run(_ask(text("It is a secret.")).provide(traces.layer(content="event")))

    ((name, event),) = traces.events
    assert name == "gen_ai.client.inference.operation.details"
    assert "It is a secret." in json.dumps(event["gen_ai.output.messages"], default=list)
    assert "secret" not in traces.named("chat scripted").to_json()


def test_content_is_redacted_before_it_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """The hook gives what is recorded; None leaves it out, and where it raises nothing is recorded of it."""
    traces = Traces()

    def redact(name: str, value: Any) -> Any:
        if name == "gen_ai.output.messages":
            raise RuntimeError("no rule")
        return json.loads(json.dumps(value).replace("What", "[…]")) if name == "gen_ai.input.messages" else None

    asked = LanguageModel.generate_text("What is it?", toolkit=Toolkit.make(Tool.make("tick").external()))
    program = asked.provide(ScriptedModel.make([text("It is.")]).layer)
    fx.run(program.provide(traces.layer(content="span", redact=redact)))

    found = traces.attributes("chat scripted")
    assert json.loads(found["gen_ai.input.messages"])[0]["parts"][0]["content"] == "[…] is it?"
    assert "gen_ai.output.messages" not in found
    assert "gen_ai.tool.definitions" not in found
    assert "`redact` failed, and gen_ai.output.messages is not recorded" in caplog.text


def test_a_hook_changes_nothing_but_what_is_recorded() -> None:
    """What it is given is its own: the history, the parameters and the results stay as they are."""
    traces, seen = Traces(), list[Any]()
    note = Tool.dynamic("note", parameters={"type": "object"})
    model = ScriptedModel.make([call("note", {"card": "card 4711"}), text("Noted.")])
    agent = Agent.make("clerk", toolkit=Toolkit.make(note), model=model.layer)

    def answer(params: Any) -> Any:
        seen.append(params)
        return fx.succeed(params)

    def redact(name: str, value: Any) -> Any:
        if name in {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}:
            value["card"] = "…"
        for message in value if name.endswith(".messages") else ():
            for part in message["parts"]:
                part.update(dict.fromkeys(part.keys() & {"arguments", "response", "content"}, "…"))
        return value

    told = traces.layer(content="span", redact=redact)
    answered = fx.run(agent.execute("Note it.").provide(note.handler(answer)).provide(told))

    assert seen == [{"card": "card 4711"}]
    assert answered.steps[0].results[0].encoded_result == {"card": "card 4711"}
    assert answered.history.to_json().count("card 4711") == 2
    assert "card 4711" not in "".join(span.to_json() for span in traces.spans)


def test_names_that_a_model_makes_up_are_no_names_of_metrics() -> None:
    """There may be any number of them: a metric would keep each for ever, and so would the list of spans."""
    traces = Traces()
    model = ScriptedModel.make([[call(f"made_up_{number}", {}) for number in range(20)], text("Well.")])
    agent = Agent.make("clerk", model=model.layer)

    fx.run(agent.execute("Go.").provide(traces.layer()))

    ((point, _),) = traces.points("gen_ai.execute_tool.duration")
    assert point["gen_ai.tool.name"] == "_OTHER"
    assert {span.name for span in traces.spans if "tool" in span.name} == {"execute_tool"}
    assert "made_up" not in "".join(span.to_json() for span in traces.spans)


def test_a_price_is_exact_and_given_by_the_program() -> None:
    """A float is refused, as is what is no amount; cached tokens have a price of their own."""
    price = Price.per_million("0.15", 2, cached_input=Decimal("0.015"))
    wrong: Any = 0.15

    assert price.cost(Usage(1_000_000, 0, cached_input_tokens=500_000)) == Decimal("0.0825")
    assert price.cost(Usage(1_000_000, None)) is None
    assert price.highest(10**9)[0] == Decimal("0.15")
    with pytest.raises(TypeError, match="must be a string such as"):
        Price.per_million(wrong, 1)
    for bad in ("-1", "NaN", "Infinity", "1e-13", "x", "1e13"):
        with pytest.raises(ValueError, match="price of input tokens"):
            Price.per_million(bad, 1)
    with pytest.raises(TypeError, match="names of models"):
        PriceTable("USD", {"m": wrong})
