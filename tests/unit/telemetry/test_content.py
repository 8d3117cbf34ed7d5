"""What was said stays where it was said: whatever fails, whoever makes up names, and whatever the hook does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pytest
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from typing_extensions import Unpack

from fxai import Agent, Tool, Toolkit
from fxai.effects import Effect, Failed, Tracer, fx
from fxai.messages import InternalProviderError, ResponseMetadata
from fxai.models import LanguageModel
from fxai.providers import openai
from fxai.telemetry import TelemetryOptions
from fxai.testing import ScriptedModel, call, fails, finish, text
from tests.kit.traced_programs import programs
from tests.kit.traces import Traces

SECRET = "4711-secret"


class Card(msgspec.Struct, frozen=True):
    """A card."""

    number: str


class LostError(Exception):
    """A failure whose words repeat what was said."""


def _warned(traces: Traces, caplog: pytest.LogCaptureFixture | None = None) -> str:
    """All that was told: spans, events, metrics, and the log with its tracebacks."""
    spans = "".join(span.to_json() for span in traces.spans)
    events = json.dumps(traces.events, default=repr)
    metrics = json.dumps([json.loads(metric.to_json()) for metric in traces.metrics()])
    return spans + events + metrics + ("" if caplog is None else caplog.text)


note = Tool.make("note", parameters=Card, success=str, failure=str, failure_mode="return", description="Notes.")
charge = Tool.make("charge", parameters=Card, success=str)
CARD: Final = {"number": SECRET}


def _clerk() -> Effect[Any, Any]:
    """A run whose calls fail, give the secret, are of no tool, and do not fit; then its model fails."""
    calls = [call("note", CARD), call("charge", CARD), call(f"tool_{SECRET}", CARD), call("note", {SECRET: 1})]
    model = ScriptedModel.make([[text(SECRET), *calls, finish("tool-calls")], fails(InternalProviderError(SECRET))])
    agent = Agent.make("clerk", toolkit=Toolkit.make(note, charge), instructions=SECRET, model=model.layer)
    handlers = note.handler(lambda card: fx.fail(card.number)) | charge.handler(lambda _: fx.succeed(SECRET))
    ran: Effect[Any, Any] = agent.execute(SECRET).provide(handlers)
    return ran


def _payer() -> Effect[Any, Any]:
    """A run whose handler raises."""

    def pay(card: Card) -> Any:
        raise LostError(card.number)

    model = ScriptedModel.make([call("charge", CARD)])
    agent = Agent.make("payer", toolkit=Toolkit.make(charge), model=model.layer)
    ran: Effect[Any, Any] = agent.execute(SECRET).provide(charge.handler(pay))
    return ran


def _secretive(traces: Traces, **options: Unpack[TelemetryOptions]) -> None:
    """Runs programs in which everything that can hold words holds the secret, and what can break breaks."""
    named: Effect[Any, Any] = fx.fail(LostError(SECRET)).span("lose")
    for program in (_clerk(), _payer(), named):
        assert isinstance(fx.run_exit(program.provide(traces.layer(**options))), Failed)


def test_nothing_of_what_was_said_is_told_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Not on spans, not in events, metrics or logs: no prompt, parameter, result, made-up name or word of an error."""
    traces = Traces()

    _secretive(traces)

    failed = [span for span in traces.spans if "error.type" in (span.attributes or {})]
    assert {"InternalProviderError", "LostError", "UnknownTool", "str"} <= {
        str((span.attributes or {})["error.type"]) for span in failed
    }
    assert SECRET not in _warned(traces, caplog)


@pytest.mark.slow
def test_no_program_tells_what_was_said_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Sub-agents, streams, MCP, prompts and durable runs neither."""
    traces = Traces()
    for program in programs(tmp_path).values():
        fx.run(program.provide(traces.layer()))

    told = _warned(traces, caplog)
    assert [
        word for word in ("rose", "Roses", "flower", "a secret", "granted", "charged", "Twice") if word in told
    ] == []


@pytest.mark.parametrize("where", ["span", "event"])
def test_the_hook_sees_all_that_is_told(where: Literal["span", "event"], caplog: pytest.LogCaptureFixture) -> None:
    """Also words of errors, on spans and in events, and the names that a model made up."""
    traces, seen = Traces(), set[str]()

    def redact(name: str, value: Any) -> Any:
        seen.add(name)
        return json.loads(json.dumps(value).replace(SECRET, "[cut]"))

    _secretive(traces, content=where, redact=redact)

    assert SECRET not in _warned(traces, caplog)
    assert "[cut]" in _warned(traces)
    assert {"exception.message", "gen_ai.input.messages", "gen_ai.output.messages"} <= seen
    assert ("gen_ai.tool.name" in seen) == (where == "span")


@pytest.mark.parametrize("where", ["span", "event"])
def test_a_hook_that_raises_tells_nothing(where: Literal["span", "event"], caplog: pytest.LogCaptureFixture) -> None:
    """The program gives what it gives, and the log says where the hook broke, without the words of its error."""
    traces = Traces()

    def redact(name: str, value: Any) -> Any:
        raise KeyError(f"{name}: {value}")

    _secretive(traces, content=where, redact=redact)

    assert SECRET not in _warned(traces, caplog)
    assert "`redact` failed, and gen_ai.input.messages is not recorded: KeyError in " in caplog.text


def test_what_a_hook_gives_may_be_anything() -> None:
    """What is no plain data is recorded in words, and None is left out."""
    traces = Traces()
    asked = LanguageModel.generate_text("Hello").provide(ScriptedModel.make([text("Yes.")]).layer)

    fx.run(asked.provide(traces.layer(content="span", redact=lambda name, _: Card if "input" in name else None)))

    found = traces.attributes("chat scripted")
    assert "Card" in found["gen_ai.input.messages"]
    assert "gen_ai.output.messages" not in found


@pytest.mark.parametrize("where", ["span", "event"])
def test_what_is_not_sampled_costs_no_encoding(where: Literal["span", "event"]) -> None:
    """Content is not even read, on spans and in events; a failed request is an event all the same, without words."""
    traces, asked = Traces(ALWAYS_OFF), list[str]()

    def redact(name: str, value: Any) -> Any:
        asked.append(name)
        return value

    answered = LanguageModel.generate_text("Hello").provide(ScriptedModel.make([text("Yes.")]).layer)
    fx.run(answered.provide(traces.layer(content=where, redact=redact)))

    assert (traces.spans, traces.events, asked) == ((), [], [])


def test_long_content_is_cut_as_the_sdk_is_told_to() -> None:
    """By the limits of its provider, in which the program says how long an attribute may be."""
    traces = Traces(limits=SpanLimits(max_attribute_length=100))
    asked = LanguageModel.generate_text("x" * 100_000).provide(ScriptedModel.make([text("y" * 100_000)]).layer)

    fx.run(asked.provide(traces.layer(content="span")))

    found = traces.attributes("chat scripted")
    assert len(found["gen_ai.input.messages"]) == len(found["gen_ai.output.messages"]) == 100


def test_what_servers_and_models_make_up_is_cut() -> None:
    """Names, ids and descriptions of any length, which no limit need be set for."""
    traces, long = Traces(), "n" * 10_000
    wordy = Tool.make("wordy", success=str, description=long)
    calls = [call(long, {}, id=long), call("wordy", {}, id=f"{long}2")]
    turn = [ResponseMetadata(id=long, model=long), *calls, finish("tool-calls")]
    model = ScriptedModel.make([turn, text("Well.")])
    run: Any = Agent.make("clerk", toolkit=Toolkit.make(wordy), model=model.layer).execute("Go.")

    fx.run(run.provide(wordy.handler(lambda _: fx.succeed("word"))).provide(traces.layer()))

    values = [str(value) for span in traces.spans for value in (span.attributes or {}).values()]
    assert sorted(set(map(len, values)))[-2:] == [256, 1024]
    assert long not in _warned(traces)


def test_no_secret_of_an_address_is_told() -> None:
    """Of a URL with a user, a password and a query, the host and the port are; of the key nothing is."""
    traces = Traces()
    url = "http://ann:pass-word@127.0.0.1:9/v1"
    asked = LanguageModel.generate_text("Hello").provide(
        openai.layer("m", api_key="sk-secret", base_url=url, retry=None)
    )

    assert fx.run_exit(asked.provide(traces.layer())) is not None

    told = _warned(traces)
    assert (traces.attributes("chat m")["server.address"], traces.attributes("chat m")["server.port"]) == (
        "127.0.0.1",
        9,
    )
    assert not [word for word in ("ann", "pass-word", "sk-secret") if word in told]


@pytest.mark.parametrize(
    "traceparent", ["", "00-0-0-01", "junk\r\nx-injected: 1", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"]
)
def test_what_names_no_trace_links_to_none(traceparent: str) -> None:
    """A carrier is not trusted: it may have been written by anybody."""
    traces = Traces()

    def link(services: Any) -> Effect[None]:
        tracer: Tracer = services.fetch(Tracer)
        return fx.sync(lambda: tracer.link({"traceparent": traceparent, "baggage": "user=ann"}))

    fx.run(fx.context().flat_map(link).span("here").provide(traces.layer()))

    assert traces.named("here").links == ()
