"""Programs that have every kind of span, each in a span of its name, with the tree of spans that each is to have.

`python -m tests.kit.phoenix_traces` sends them to a collector of others; the tests keep them in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai import Agent, Tool, Toolkit, ToolSource, fx, mcp
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.durable import durable
from fxai.effects import Effect, Gen, Layer
from fxai.messages import InternalProviderError, Pending, ResponseMetadata, Usage
from fxai.models import EmbeddingModel, Embeddings, LanguageModel, ModelInfo, fallback
from fxai.testing import ScriptedModel, call, fails, finish, text

__all__ = ["SERVER", "TREES", "programs"]

SERVER: Final = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from fxai import fx, mcp, telemetry, tool

provider = TracerProvider()
if sys.argv[1:]:
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{sys.argv[1]}/v1/traces")))
trace.set_tracer_provider(provider)

@tool
def double(n: int) -> int:
    "Doubles a number."
    return 2 * n

fx.run(mcp.serve_stdio(double, name="numbers").provide(telemetry.layer()))
"""
"""A server of one tool over standard input and output, whose spans go to the collector that its argument names."""

CHAT, STEP = "chat scripted", ["step", "chat scripted"]
TREES: Final[dict[str, list[Any]]] = {
    "steps": [
        [
            "invoke_agent clerk",
            ["step", CHAT, ["execute_tool look_up", "shelf"], "execute_tool look_up", "execute_tool"],
            ["step", CHAT, "execute_tool look_up"],
            STEP,
        ]
    ],
    "approval": [
        ["invoke_agent cashier", STEP],
        ["invoke_agent cashier", "execute_tool charge", STEP],
    ],
    "sub-agent": [
        ["invoke_agent editor", ["step", CHAT, ["execute_tool poet", ["invoke_agent poet", STEP]]], STEP],
    ],
    "stream": [["invoke_agent clerk", ["step", CHAT]]],
    "fallback": [CHAT, CHAT],
    "stateful prompt": [["invoke_agent support", ["step", CHAT, "execute_tool upgrade"], STEP]],
    "typed": [["invoke_agent typist", STEP]],
    "embeddings": ["embeddings Lengths"],
    "mcp": [["invoke_agent counter", ["step", CHAT, "execute_tool double"], STEP]],
    "durable, first": [["invoke_agent clerk", ["step", CHAT, ["execute_tool look_up", "shelf"]], STEP]],
    "durable, again": [["invoke_agent clerk", "step", STEP]],
}
"""By the name of a program: what is in its span, `[name, what is in that…]` or a name alone."""


class Word(msgspec.Struct, frozen=True):
    """A word."""

    word: str


class Lengths(EmbeddingModel):
    """Vectors of two numbers."""

    @property
    @override
    def info(self) -> ModelInfo:
        """It is asked of a server that has OpenAI's interface."""
        return ModelInfo("openai", "Lengths", "api.mistral.ai", 443)

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings]:
        """The lengths of the texts."""
        return fx.succeed(Embeddings(tuple((float(len(one)), 1.0) for one in texts), Usage(input_tokens=3)))


look_up = Tool.make(
    "look_up", parameters=Word, success=str, failure=str, failure_mode="return", description="Looks up."
)
upgrade = Tool.make("upgrade", success=str)


@fx.gen
def _look(asked: Word) -> Gen[str, str]:
    if asked.word != "rose":
        yield from fx.fail("not found")
    return (yield from fx.succeed("a flower").span("shelf", row=3))


def _model(*turns: Any) -> Layer[LanguageModel]:
    return ScriptedModel.make(turns).layer


def _calls(*calls: Any) -> list[Any]:
    return [*calls, finish("tool-calls", Usage(100, 20, cached_input_tokens=40, cache_write_input_tokens=10))]


def _done(said: str = "Done.") -> list[Any]:
    return [
        ResponseMetadata(id="r1", model="scripted-1"),
        text(said),
        finish("stop", Usage(200, 40, reasoning_tokens=8)),
    ]


ROSE: Final = call("look_up", {"word": "rose"}, id="c1")


def _clerk(*turns: Any, **options: Any) -> Any:
    return Agent.make("clerk", toolkit=Toolkit.make(look_up), model=_model(*turns), **options)


def _steps() -> Effect[Any, Any]:
    wrong = call("look_up", {"word": "thorn"}, id="c2")
    turns = [_calls(ROSE, wrong, call("lookup", {}, id="c3")), _calls(wrong), _done()]
    clerk: Any = _clerk(
        *turns, instructions="Be brief.", max_tokens=50, temperature=0.5, reasoning="low", stop=("END",)
    )
    asked: Effect[Any, Any] = clerk.execute("What is a rose?").provide(look_up.handler(_look))
    return asked


def _approval() -> Effect[Any, Any]:
    charge = Tool.make("charge", parameters=int, success=str, needs_approval=True)
    cashier = Agent.make("cashier", toolkit=Toolkit.make(charge), model=_model(_calls(call("charge", 5)), _done()))
    asked: Any = cashier.execute("Charge 5.").flat_map(
        lambda answer: cashier.execute(answer.history.reply(Pending.approve))
    )
    ran: Effect[Any, Any] = asked.provide(charge.handler(lambda cents: Success(f"{cents} charged")))
    return ran


def _typed() -> Effect[Any, Any]:
    return Agent.make("typist", model=_model(_done('{"word": "rose"}')), output=Word).execute("A flower?")


def _sub_agent() -> Effect[Any, Any]:
    poet = Agent.make("poet", model=_model(_done("Roses are red.")))
    editor = Agent.make("editor", model=_model(_calls(call("poet", {"prompt": "On roses."})), _done()))
    return editor.with_tools(poet.as_tool(description="Writes.")).execute("A verse, please.")


def _fallback() -> Effect[Any, Any]:
    both = fallback(_model(fails(InternalProviderError("busy", overloaded=True))), _model(_done()))
    return LanguageModel.generate_text("Hello").provide(both)


def _support(at: Render) -> None:
    mode = at.state("mode", "basic")
    if mode.value == "basic":
        at.tool(upgrade, lambda _: mode.set("advanced").as_("granted"))


def _stateful() -> Effect[Any, Any]:
    asked = StatefulPrompt.make("support", _support).execute("More, please.")
    return asked.provide(_model(_calls(call("upgrade", {})), _done()))


def _mcp(collector: str | None) -> Effect[Any, Any]:
    arguments = [] if collector is None else [collector]
    numbers = ToolSource.of(mcp.stdio(sys.executable, "-c", SERVER, *arguments, name="numbers"))
    counter = Agent.make("counter", model=_model(_calls(call("double", {"n": 4})), _done()))
    return counter.with_tools(numbers).execute("Twice 4?")


def _durable(location: Path, *turns: Any) -> Effect[Any, Any]:
    live = look_up.handler(_look) | _model(*turns)
    clerk = Agent.make("clerk", toolkit=Toolkit.make(look_up))
    return clerk.execute("What is a rose?").provide(durable(live, run="order-17", store=location))


def _twice(location: Path) -> dict[str, Callable[[], Effect[Any, Any]]]:
    broken = fails(InternalProviderError("a secret"))
    return {
        "durable, first": lambda: _durable(location, _calls(ROSE), broken).catch_all(lambda _: fx.succeed(None)),
        "durable, again": lambda: _durable(location, _done()),
    }


def programs(folder: Path, collector: str | None = None) -> dict[str, Effect[Any, Any]]:
    """The programs of `TREES` by their names, to be run in this order.

    Args:
        folder: where the journal of the durable run is.
        collector: where the MCP server sends its spans.
    """
    embedded = EmbeddingModel.embed("A rose.").provide(Layer.succeed(EmbeddingModel, Lengths()))
    made: dict[str, Callable[[], Effect[Any, Any]]] = {
        "steps": _steps,
        "approval": _approval,
        "sub-agent": _sub_agent,
        "stream": lambda: _clerk(_done()).stream("Hello").collect().provide(look_up.handler(_look)),
        "fallback": _fallback,
        "stateful prompt": _stateful,
        "typed": _typed,
        "embeddings": lambda: embedded,
        "mcp": lambda: _mcp(collector),
        **_twice(folder / "runs.db"),
    }
    conversation = {"gen_ai.conversation.id": "c-17"}
    return {name: make().span(name, user="ann", **conversation) for name, make in made.items()}
