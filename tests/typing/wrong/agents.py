"""Models and agents that are asked without a model, or without the handlers of their tools."""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Result, Success

from fxai.agents import Agent, Answer, RunError
from fxai.effects import Effect, Gen, Layer, fx
from fxai.messages import AiError, Part
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
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
model = ScriptedModel.make([text("done")]).layer
agent = Agent.make("helper", toolkit=kit)

# --- one round
plain = LanguageModel.generate_text("hello")
fx.run(plain)  # wrong: no model
asked = LanguageModel.generate_text("hello", toolkit=kit)
fx.run(asked.provide(model))  # wrong: no handlers
fx.run(asked.provide(model).provide(handlers))  # wrong: Db, which a handler needs
fx.run(asked.provide(handlers).provide(DB))  # wrong: no model
streamed = LanguageModel.stream_text("hello", toolkit=kit).provide(model)
fx.run(streamed.collect())  # wrong: no handlers, read as a stream
LanguageModel.generate_text("hello", tool_choice="maybe")  # wrong: no such choice
LanguageModel.generate_text("hello", temprature=1.0)  # wrong: no such option
LanguageModel.generate_text(7)  # wrong: a number is not a prompt
judged = fx.run(LanguageModel.generate_object("good?", Verdict).provide(model))
judged.value.bad  # wrong: a verdict has no such field

# --- a run
run = agent.execute("hello")
fx.run(run.provide(model))  # wrong: no handlers
fx.run(run.provide(handlers | model))  # wrong: Db, which a handler needs
fx.run(run.provide(handlers).provide(DB))  # wrong: no model
fx.run(run.provide(model).provide(ping.handler(on_ping)))  # wrong: the other handler
fx.run(Agent.make("plain").execute("hello"))  # wrong: no model
agent.name = "other"  # wrong: an agent never changes
Agent.make("helper", toolkit=[search])  # wrong: a list is not a toolkit


def calm() -> Effect[Answer, AiError, LanguageModel | Db]:
    return run.provide(handlers)  # wrong: tools and the budget can fail too


def fed(question: str) -> Effect[Answer, RunError, LanguageModel]:
    return agent.execute(question).provide(handlers)  # wrong: Db is not declared


# --- a model of one's own
class Silent(LanguageModel):
    pass


class Eager(LanguageModel):
    def ask(self, request: ModelRequest) -> tuple[Part, ...]:  # wrong: it gives no effect
        return ()


Silent()  # wrong: it cannot be asked
Layer.succeed(LanguageModel, object())  # wrong: an object is not a model
