"""What the checkers infer of builders: the agent's own handlers apart, and all that is bound for one run."""

from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import (
    Agent,
    AgentBuilder,
    Answer,
    Budget,
    Memory,
    MemoryFailure,
    RunError,
    Step,
    StepSetup,
    SubAgent,
    SubAgentRequest,
)
from fxai.effects import Effect, EffectOf, Gen, Layer, StreamOf, Tag, fx
from fxai.messages import StreamPart
from fxai.models import LanguageModel
from fxai.schema import Empty
from fxai.testing import ScriptedModel, text
from fxai.tools import HandlerOf, Tool, Toolkit
from tests.typing.world import DB, LOG, Db, DbFault, Log, LogFault, NetFault


class Query(msgspec.Struct, frozen=True):
    text: str


class Verdict(msgspec.Struct, frozen=True):
    good: bool


class Notes(Tag[Memory]):
    pass


search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)
find = Tool.make("find", parameters=Query, success=list[str], failure=DbFault)
ping = Tool.make("ping", success=str)
client = Tool.make("client").external()

Search = HandlerOf[Query, list[str], DbFault]
Ping = HandlerOf[Empty, str, Never]


def on_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(p.text))


def on_ping(_: object) -> Result[str, Never]:
    return Success("pong")


@tool
def double(n: int) -> int:
    return 2 * n


@tool
def look_up(name: str) -> Effect[list[str], DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query(name))


bound = BoundToolkit.of(Toolkit.make(ping), ping.handler(on_ping))


@fx.gen
def opening() -> Gen[BoundToolkit[Ping, Never, None], LogFault, Log]:
    yield from fx.service(Log).flat_map(lambda log: log.info("open"))
    return bound


server: ToolSource[Ping, LogFault, Log | None] = ToolSource(opening())


def other() -> ToolSource[Ping, NetFault, None]:
    return ToolSource(fx.succeed(bound))


model = ScriptedModel.make([text("done")]).layer
on_searching = search.handler(on_search)

# --- agents
plain = Agent.make("plain")
assert_type(plain, Agent)
assert_type(plain.builder, AgentBuilder)
agent = Agent.make("helper", toolkit=Toolkit.make(search), instructions="Be brief.", budget=Budget(rounds=3))
assert_type(agent, Agent[Search])
judge = Agent.make("judge", output=Verdict, temperature=0)
assert_type(judge, Agent[Never, Verdict])
assert_type(judge.execute("?"), EffectOf[Answer[Verdict], RunError, LanguageModel | None])
assert_type(fx.run(judge.execute("?").provide(model)).output, Verdict)
alone = Agent.make("alone", model=model)
assert_type(alone.execute("?"), EffectOf[Answer[str], RunError, None])
fx.run(alone.execute("?"))
exact = Agent.make("exact", model=model, output=Verdict, toolkit=Toolkit.make(ping))
assert_type(exact.execute("?").provide(ping.handler(on_ping)), EffectOf[Answer[Verdict], RunError, None])
served = Agent.make("served", toolkit=server)
assert_type(served.execute("?"), EffectOf[Answer[str], RunError | LogFault, LanguageModel | Log | None])
fx.run(Agent.make("stops", stop_when=lambda steps: len(steps) > 2, on_step=[lambda _: None]).execute("").provide(model))

# --- tools for one run
assert_type(agent.with_tools([search, find]), AgentBuilder[Search, str, RunError, LanguageModel | Search | None])
assert_type(agent.with_tools(ping), AgentBuilder[Search, str, RunError, LanguageModel | Ping | None])
assert_type(
    agent.with_tools(Toolkit.make(ping, find)),
    AgentBuilder[Search, str, RunError, LanguageModel | Ping | Search | None],
)
assert_type(agent.with_tools(client), AgentBuilder[Search])
assert_type(agent.with_tools(double), AgentBuilder[Search])
assert_type(agent.with_tools([look_up]), AgentBuilder[Search, str, RunError, LanguageModel | Db | None])
assert_type(agent.with_tools(bound), AgentBuilder[Search, str, RunError, LanguageModel | None])
assert_type(agent.with_tools(server), AgentBuilder[Search, str, RunError | LogFault, LanguageModel | Log | None])
assert_type(
    agent.with_tools(ping, look_up, server, other(), client).execute("?"),
    EffectOf[Answer[str], RunError | LogFault | NetFault, Search | LanguageModel | Ping | Db | Log | None],
)
assert_type(
    agent.with_tools(ping).with_tools(double).stream("?"),
    StreamOf[StreamPart, RunError, Search | LanguageModel | Ping | None],
)
composite = Toolkit.make(search).as_tool("many")
assert_type(plain.with_tools(composite).execute("?"), EffectOf[Answer[str], RunError, LanguageModel | Search | None])

# --- without the agent's own
bare = agent.without_tools()
assert_type(bare, AgentBuilder)
assert_type(bare.execute("?").provide(model), EffectOf[Answer[str], RunError, None])
assert_type(agent.with_tools(ping).without_tools(), AgentBuilder[Never, str, RunError, LanguageModel | Ping | None])
fx.run(agent.with_tools(double).without_tools().execute("?").provide(model))
fx.run(agent.with_tools(double).execute("?").provide(on_searching).provide(model).provide(DB))

# --- memory
memory = Memory.in_process()
assert_type(plain.with_memory(memory), AgentBuilder[Never, str, RunError | MemoryFailure])
remembering = plain.with_memory(Memory, auto_append=False).execute("?")
assert_type(remembering, EffectOf[Answer[str], RunError | MemoryFailure, LanguageModel | Memory | None])
fx.run(remembering.provide(memory.layer).provide(model))
noting = plain.with_memory(Notes).execute("?")
fx.run(noting.provide(Layer.succeed(Notes, memory)).provide(model))
noted: AgentBuilder[Never, str, RunError | MemoryFailure, LanguageModel | Notes | Db | None] = plain.with_memory(Notes)


# --- hooks
def logged(step: Step) -> Effect[None, LogFault, Log]:
    return fx.service(Log).flat_map(lambda log: log.info(step.text))


def cheaper(setup: StepSetup) -> StepSetup:
    return setup.with_options(max_tokens=10)


def narrowed(setup: StepSetup) -> Effect[StepSetup, DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query("x")).as_(setup)


seen: list[Step] = []
assert_type(plain.on_step(logged), AgentBuilder[Never, str, RunError | LogFault, LanguageModel | Log | None])
assert_type(plain.on_step(seen.append), AgentBuilder)
assert_type(plain.prepare_step(cheaper), AgentBuilder)
assert_type(plain.prepare_step(narrowed), AgentBuilder[Never, str, RunError | DbFault, LanguageModel | Db | None])
assert_type(plain.stop_when(lambda steps: len(steps) > 1), AgentBuilder)
hooked = plain.on_step(logged).prepare_step(narrowed).execute("?").provide(model).provide(LOG).provide(DB)
assert_type(hooked, EffectOf[Answer[str], RunError | LogFault | DbFault, None])

# --- agents as tools
asked = agent.as_tool(description="Looks things up.")
assert_type(asked, SubAgent[SubAgentRequest, str, Search | LanguageModel | None])
judging = judge.as_tool("judge", parameters=Query, prompt=lambda query: query.text)
assert_type(judging, SubAgent[Query, Verdict, LanguageModel | None])
parent = Agent.make("parent", model=model).with_tools(asked)
assert_type(parent.execute("?"), EffectOf[Answer[str], RunError, Search | LanguageModel | None])
fx.run(parent.execute("?").provide(on_searching).provide(model).provide(DB))
assert_type(
    judging.tool.call(Query("x")).provide(judging.layer).provide(model).map(lambda it: it.good).or_die(), EffectOf[bool]
)
fx.run(Agent.make("boss", model=model).with_tools(alone.as_tool(), double).execute("?"))


def answered(question: str) -> Effect[Answer[Verdict], RunError | MemoryFailure, LanguageModel | Db]:
    return judge.with_tools(look_up).with_memory(memory).execute(question)
