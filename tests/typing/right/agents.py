"""What the checkers infer of models and agents: both need the handlers of their tools, and a model."""

from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai.agents import Agent, Answer, Budget, RunError
from fxai.effects import Effect, EffectOf, Gen, Layer, LayerOf, Schedule, Stream, StreamOf, fx
from fxai.messages import AiError, Part, Response, StreamPart
from fxai.models import LanguageModel, ModelRequest, ObjectPending, ObjectResponse, ToolChoice
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, ToolError, Toolkit
from tests.typing.world import DB, Db, DbFault


class Query(msgspec.Struct, frozen=True):
    text: str


class Verdict(msgspec.Struct, frozen=True):
    good: bool


search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)
ping = Tool.make("ping", success=str)
kit = Toolkit.make(search, ping)


def on_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(p.text))


def on_ping(_: object) -> Result[str, Never]:
    return Success("pong")


handlers = kit.to_layer(search.handler(on_search) | ping.handler(on_ping))
model = ScriptedModel.make([call("ping", {}), text("done")])
assert_type(model.layer, LayerOf[LanguageModel, Never, None])

# --- one round
plain = LanguageModel.generate_text("hello")
assert_type(plain, EffectOf[Response, AiError | ToolError, LanguageModel | None])
fx.run(plain.provide(model.layer))
asked = LanguageModel.generate_text("hello", toolkit=kit, tool_choice=ToolChoice.tool("ping"))
assert_type(asked.provide(handlers), EffectOf[Response, AiError | ToolError, LanguageModel | Db | None])
assert_type(asked.provide(handlers).provide(model.layer).provide(DB), EffectOf[Response, AiError | ToolError, None])
assert_type(
    LanguageModel.generate_object("good?", Verdict).provide(model.layer),
    EffectOf[ObjectResponse[Verdict], AiError | ToolError | ObjectPending, None],
)
streamed = LanguageModel.stream_text("hello", toolkit=kit).provide(handlers).provide(model.layer)
assert_type(streamed, StreamOf[StreamPart, AiError | ToolError, Db | None])

# --- as often as it takes
agent = Agent.make("helper", instructions="Be brief.", toolkit=kit, budget=Budget(rounds=3))
run = agent.execute("hello")
assert_type(run.provide(handlers), EffectOf[Answer, RunError, LanguageModel | Db | None])
assert_type(run.provide(handlers.provide(DB) | model.layer), EffectOf[Answer, RunError, None])
fx.run(run.retry(Schedule.recurs(2)).provide(handlers | model.layer).provide(DB))
fx.run(agent.stream("hello").provide(handlers).provide(model.layer).provide(DB).collect())
fx.run(Agent.make("plain").execute("hello").provide(model.layer))


def answered(question: str) -> Effect[Answer, RunError, LanguageModel | Db]:
    return agent.execute(question).provide(handlers)


# --- a model of one's own
class Echo(LanguageModel):
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.succeed(())


class Spoken(LanguageModel):
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.succeed(())

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return Stream.empty()


either: Layer[LanguageModel] = Layer.succeed(LanguageModel, Echo())
