"""Runs without the handlers, the services or the model that what is bound needs; and what cannot be bound."""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Result, Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Answer, Memory, RunError, Step, StepSetup
from fxai.effects import Effect, Gen, fx
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
from tests.typing.world import DB, Db, DbFault, Log, LogFault


class Query(msgspec.Struct, frozen=True):
    text: str


class Verdict(msgspec.Struct, frozen=True):
    good: bool


search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)
ping = Tool.make("ping", success=str)


def on_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(p.text))


def on_ping(_: object) -> Result[str, Never]:
    return Success("pong")


def shout(words: str) -> str:
    return words.upper()


@tool
def look_up(name: str) -> Effect[list[str], DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query(name))


@fx.gen
def opening() -> Gen[BoundToolkit[Never, Never, None], LogFault, Log]:
    yield from fx.service(Log).flat_map(lambda log: log.info("open"))
    return BoundToolkit.make()


server: ToolSource[Never, LogFault, Log | None] = ToolSource(opening())
model = ScriptedModel.make([text("done")]).layer
pinging, searching = ping.handler(on_ping), search.handler(on_search)
plain = Agent.make("plain")
agent = Agent.make("helper", toolkit=Toolkit.make(search))
alone = Agent.make("alone", model=model)
judge = Agent.make("judge", output=Verdict)

# --- what is missing
unasked = agent.with_tools(ping).execute("?")
fx.run(unasked.provide(pinging).provide(model))  # wrong: the handler of the agent's own tool
fx.run(unasked.provide(searching).provide(DB).provide(model))  # wrong: the handler of the bound one
fx.run(unasked.provide(searching | pinging).provide(model))  # wrong: Db, which a handler needs
fx.run(unasked.provide(searching | pinging).provide(DB))  # wrong: no model
bare = agent.without_tools().with_tools(ping).execute("?")
fx.run(bare.provide(searching).provide(DB).provide(model))  # wrong: the bound one is still needed
fx.run(plain.with_tools(look_up).execute("?").provide(model))  # wrong: Db, which a function tool needs
fx.run(plain.with_tools(server).execute("?").provide(model))  # wrong: Log, which a source needs
fx.run(plain.with_memory(Memory).execute("?").provide(model))  # wrong: no memory
streamed = agent.with_tools(ping).stream("?").provide(searching).provide(DB).provide(model)
fx.run(streamed.drain())  # wrong: the handler of the bound one, read as a stream
fx.run(alone.with_tools(ping).execute("?"))  # wrong: the handler of the bound one
fx.run(alone.with_tools(plain.as_tool()).execute("?"))  # wrong: the sub-agent has no model
fx.run(plain.with_tools(agent.as_tool()).execute("?").provide(model))  # wrong: the handler of the sub-agent's tool

# --- what cannot be bound
agent.with_tools([123])  # wrong: a number is not a tool
agent.with_tools("search")  # wrong: a name is not a tool
agent.with_tools(shout)  # wrong: a plain function is not a tool
agent.with_tools(object())  # wrong: an object is not a tool
agent.with_tools(agent)  # wrong: an agent is not a tool, without as_tool
agent.with_tools(searching)  # wrong: a layer is not a tool
agent.with_tools(ping, on_conflict="skip")  # wrong: no such policy
agent.with_memory("notes.db")  # wrong: a path is not a memory
agent.without_tools(search)  # wrong: it takes nothing
agent.builder.without_own = True  # wrong: a builder never changes
Agent.make("helper", toolkit=shout)  # wrong: a plain function is not a toolkit
Agent.make("helper", model="openai:gpt")  # wrong: a name is not a layer
Agent.make("helper", temprature=1)  # wrong: no such option
Agent.make("helper", at_limit="give up")  # wrong: no such mode
Agent.make("helper", model=pinging)  # wrong: a layer of no model


# --- hooks
def odd(step: Step) -> int:
    return step.number


def lost(setup: StepSetup) -> None:
    return None


def logged(step: Step) -> Effect[None, LogFault, Log]:
    return fx.service(Log).flat_map(lambda log: log.info(step.text))


plain.stop_when(odd)  # wrong: it is told all steps
plain.prepare_step(lost)  # wrong: it gives no setup
fx.run(plain.on_step(logged).execute("?").provide(model))  # wrong: Log, which the hook needs

# --- what comes out
fx.run(judge.execute("?").provide(model)).output.bad  # wrong: a verdict has no such field
fx.run(plain.execute("?").provide(model)).output.good  # wrong: the output is a string
judge.as_tool(parameters=Query)  # wrong: parameters without a prompt
judge.as_tool(parameters=Query, prompt=shout)  # wrong: it takes a query


def calm() -> Effect[Answer, RunError, LanguageModel | Log]:
    return plain.with_tools(server).execute("?")  # wrong: the source can fail too


def texts() -> Effect[Answer[str], RunError, LanguageModel]:
    return judge.execute("?")  # wrong: it gives a verdict
