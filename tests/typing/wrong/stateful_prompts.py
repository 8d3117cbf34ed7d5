"""Stateful prompts that need, or fail with, more than their render says; states and tools that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

import msgspec
from returns.result import Result, Success

from fxai import tool
from fxai.agents import Agent, Answer, RunError
from fxai.agents.stateful import (
    PromptState,
    Render,
    RenderFailed,
    RenderOf,
    State,
    StatefulPrompt,
    StepPatch,
    StepView,
)
from fxai.effects import Effect, Gen, Layer, Stream, fx
from fxai.models import LanguageModel
from fxai.schema import Schema
from fxai.testing import ScriptedModel, text
from fxai.tools import BoundToolkit, CallContext, HandlerOf, Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation
from tests.typing.world import DB, LOG, Db, DbFault, Log, LogFault


class Query(msgspec.Struct, frozen=True):
    words: str


class Topic(msgspec.Struct, frozen=True):
    title: str


search = Tool.make("search", parameters=Query, success=str, failure=DbFault)
ping = Tool.make("ping", parameters=Query, success=str)
model = ScriptedModel.make([text("done")]).layer


@tool
def stored(key: str) -> Gen[str, DbFault, Db]:
    """What is stored under a key."""
    db = yield from Db
    return "".join((yield from db.query(key)))


def on_ping(query: Query) -> Result[str, Never]:
    return Success(query.words)


# --- handlers that need what the render does not declare
def by_generator(query: Query) -> Gen[str, DbFault, Db]:
    db = yield from Db
    return "".join((yield from db.query(query.words)))


def by_effect(query: Query) -> Effect[str, DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query(query.words)).map("".join)


async def by_coroutine(query: Query) -> Effect[str, DbFault, Db]:
    return by_effect(query)


def by_stream(query: Query) -> Stream[str, DbFault, Db]:
    return Stream.from_effect(by_effect(query))


def by_context(query: Query, call: CallContext) -> Gen[str, DbFault, Db]:
    yield from Db
    return call.call_id


def needs_db(call: Invocation) -> Gen[None, Never, Db]:
    yield from Db


fails_to_build = ping.handler(on_ping).provide(Layer.effect(Log, fx.fail(LogFault())))
needing = Aspect.make(before=needs_db)


def needs(at: Render[Log]) -> None:
    at.tool(search, by_generator)  # wrong: Db, in a generator
    at.tool(search, by_effect)  # wrong: Db, in an effect
    at.tool(search, by_coroutine)  # wrong: Db, in a coroutine
    at.tool(search, by_stream)  # wrong: Db, in a stream
    at.tool(search, by_context)  # wrong: Db, beside the context of the call
    at.tool(search, lambda query: by_effect(query))  # wrong: Db, in a lambda
    at.tool(ping, lambda query: fx.service(Db).as_(query.words))  # wrong: Db, in an effect of a lambda
    at.tool(ping, on_ping, aspect=needing)  # wrong: Db, in an aspect
    at.tools(stored)  # wrong: Db, in a function tool
    at.tools(BoundToolkit.of(Toolkit.make(search), search.handler(by_effect)))  # wrong: Db, in a bound toolkit
    at.tools(BoundToolkit.of(Toolkit.make(ping), fails_to_build))  # wrong: its handlers may fail to be made
    at.tools(ping)  # wrong: its handler
    at.tools(Toolkit.make(ping))  # wrong: the handlers of a toolkit
    at.composite("all", stored)  # wrong: Db, in a part of a composite
    at.composite("all", Toolkit.make(ping))  # wrong: the handlers of the parts
    at.effect("ask", lambda _: fx.service(Db).as_(None))  # wrong: Db, in an effect
    at.effect("patch", lambda _: StepPatch.tool(search, by_effect))  # wrong: Db, in a tool of a patch
    at.effect("patch", lambda _: StepPatch.tools(stored))  # wrong: Db, in a function tool of a patch
    at.effect("patch", lambda _: StepPatch.tools(ping))  # wrong: the handler of a tool of a patch
    at.effect("patch", lambda _: StepPatch.tool(ping, on_ping, aspect=needing))  # wrong: Db, in an aspect of a patch
    at.effect("ask", asks)  # wrong: Db, in a generator
    at.effect("wait", waits)  # wrong: Db, in a coroutine
    at.effect("give", gives)  # wrong: Db, in the patch of an effect
    at.agent("desk", Agent.make("desk", prompt=prompt))  # wrong: Db, in a sub-agent
    at.agent("desk", Agent.make("desk", toolkit=Toolkit.make(ping)))  # wrong: the handlers of a sub-agent
    at.agent("desk", Agent.make("desk").with_tools(stored))  # wrong: Db, in a tool of a sub-agent
    at.agent("prompt", prompt)  # wrong: Db, in a stateful prompt
    part(at)  # wrong: Db, in a part of the render


def asks(_: StepView) -> Gen[None, Never, Db]:
    yield from Db


async def waits(_: StepView) -> Effect[None, Never, Db]:
    return fx.service(Db).as_(None)


def gives(_: StepView) -> Effect[StepPatch[Db | None]]:
    return fx.succeed(StepPatch.tool(search, by_effect))


def part(at: Render[Db]) -> None:
    at.tool(search, by_effect)


prompt = StatefulPrompt.make("part", part)


def nothing(at: Render) -> None:
    at.tool(search, by_effect)  # wrong: nothing is declared
    at.tools(Agent.make("poet").as_tool())  # wrong: a model, which at.agent takes from the run


# --- failures
def fails(at: Render[Db, DbFault]) -> None:
    at.effect("fail", lambda _: fx.fail(LogFault()))  # wrong: another failure
    at.effect("rows", rows)  # wrong: another failure besides
    at.effect("wait", waits_for_failure)  # wrong: another failure, in a coroutine


def calm(at: Render[Db]) -> None:
    at.effect("rows", lambda _: fx.service(Db).flat_map(lambda db: db.query("x")).as_(None))  # wrong: none is declared
    fails(at)  # wrong: a part that may fail


def rows(_: StepView) -> Gen[None, DbFault | LogFault, Db]:
    db = yield from Db
    yield from db.query("x")


async def waits_for_failure(_: StepView) -> Effect[StepPatch | None, LogFault]:
    return fx.fail(LogFault())


# --- handlers of another tool
def of_topic(topic: Topic) -> Result[str, DbFault]:
    return Success(topic.title)


def of_number(query: Query) -> Result[int, DbFault]:
    return Success(len(query.words))


def of_log_fault(query: Query) -> Effect[str, LogFault]:
    return fx.fail(LogFault())


def bare(query: Query) -> str:
    return query.words


def of_three(query: Query, call: CallContext, more: int) -> Result[str, DbFault]:
    return Success(query.words)


# --- states
def states(at: Render[Db]) -> None:
    at.tool(search, of_topic)  # wrong: parameters
    at.tool(search, of_number)  # wrong: success
    at.tool(search, of_log_fault)  # wrong: failure
    at.tool(search, bare)  # wrong: a bare value
    at.tool(search, of_three)  # wrong: three parameters
    at.tool(search, lambda query: Success(query.title))  # wrong: no such parameter
    at.tool(search)  # wrong: no handler
    at.tool(search, handler=by_effect)  # wrong: the handler is given by its place
    at.tool("search", by_effect)  # wrong: a name is not a tool
    at.tool(ping, on_ping, aspect=Aspect.make(tool=ping, during=on_ping))  # wrong: no such hook
    mode = at.state("mode", "basic")
    found = at.state("found", 0)
    mode.set(1)  # wrong: a string
    mode.value = "advanced"  # wrong: it is set by an effect
    found.update(lambda n: str(n))  # wrong: a number
    found.update(str)  # wrong: a number
    found.modify(lambda n: (n, str(n)))  # wrong: the second goes in
    found.modify(lambda n: n + 1)  # wrong: two are given
    at.tool(ping, lambda _: mode.set(1).as_("done"))  # wrong: a string, in a handler
    at.tool(ping, lambda _: mode.set("x"))  # wrong: the handler gives text
    counted: State[str] = found  # wrong: a number
    wide: State[int | str] = found  # wrong: others may set it
    at.state("names", 1, schema=Schema.of(str))  # wrong: not of the schema's type
    at.state(1, "basic")  # wrong: a key is text
    found.valeu  # wrong: no such attribute
    found.get()  # wrong: no such attribute
    at.efect("x", lambda _: None)  # wrong: no such definition
    at.system("role", 1)  # wrong: text
    at.message(1)  # wrong: text
    at.effect("x", lambda _: 1)  # wrong: a number is not a patch
    at.effect("x", lambda _: fx.succeed(1))  # wrong: nor is an effect of one
    at.effect("x", lambda: None)  # wrong: the step is given
    at.effect("x", lambda step: StepPatch.hide(step.tool))  # wrong: no such attribute
    at.effect("x", lambda _: None, depends=())  # wrong: no such option
    at.effect("x", lambda _: None, deps=([1],))  # wrong: a list cannot be compared by its hash
    at.composite("all", stored, concurency=2)  # wrong: no such option
    at.agent("desk", Agent.make("desk"), titel="x")  # wrong: no such option
    at.agent("desk", Agent.make("desk"), parameters=Topic, prompt=lambda topic: topic.words)  # wrong: no such field
    at.agent("desk", Agent.make("desk"), parameters=Topic)  # wrong: nobody says what is asked
    at.agent("desk", Agent.make)  # wrong: no agent
    at.message("x").remind()  # wrong: a message is not a definition
    at.system("x", "y").hide()  # wrong: no such patch
    StepPatch.hide(1)  # wrong: a name
    StepPatch.remind("x")  # wrong: a definition
    StepPatch() + 1  # wrong: a patch


# --- what is missing at the run, and what it may fail with
asked = prompt.execute("hello")
fx.run(asked.provide(model))  # wrong: Db
fx.run(asked.provide(DB))  # wrong: no model
fx.run(asked.provide(model).provide(LOG))  # wrong: another service
fx.run(prompt.stream("hello").provide(model).collect())  # wrong: Db, read as a stream
prompt.execute("hello", state="mode")  # wrong: text is not a state
prompt.execute("hello", state={"mode": "basic"})  # wrong: nor are plain values
prompt.execute(7)  # wrong: a number is not a prompt
StatefulPrompt.make("x", asks)  # wrong: no render
StatefulPrompt.make(part)  # wrong: no name
prompt.name = "other"  # wrong: a prompt never changes
PromptState().values["mode"] = "basic"  # wrong: nor does a state


def offers(at: Render[HandlerOf[Query, str, DbFault]]) -> None:
    at.tools(search)
    at.tools(ping)  # wrong: the handler of another tool


offered = StatefulPrompt.make("offers", offers)
fx.run(offered.execute("hello").provide(model))  # wrong: the handler of its tool
fx.run(offered.execute("hello").provide(model).provide(ping.handler(on_ping)))  # wrong: the handler of another tool

desk = Agent.make("desk", prompt=prompt)
fx.run(desk.execute("hello").provide(model))  # wrong: Db, in the prompt of an agent
fx.run(Agent.make("desk", prompt=prompt, model=model).execute("hello"))  # wrong: Db, though there is a model
fx.run(desk.without_tools().execute("hello").provide(model))  # wrong: Db, which the prompt needs still
fx.run(desk.execute("hello").provide(DB))  # wrong: no model
desk.execute("hello", state=1)  # wrong: a number is not a state
Agent.make("desk", prompt="Be brief.")  # wrong: text is not a stateful prompt
Agent.make("desk", prompt=part)  # wrong: a function is made one by StatefulPrompt.make


def declared() -> Effect[Answer, RunError, LanguageModel | Db]:
    return asked  # wrong: the render may fail too


def fed() -> Effect[Answer, RunError | RenderFailed, LanguageModel]:
    return asked  # wrong: Db is not declared


less: StatefulPrompt[None, RenderFailed] = prompt  # wrong: it needs Db
more: StepPatch = StepPatch.tool(search, by_effect)  # wrong: it needs Db
added: StepPatch[Log | None] = StepPatch.tool(search, by_effect) + StepPatch.hide("x")  # wrong: it needs Db


def helper(at: RenderOf[Log | None, Never], f: Callable[[StepView], Effect[None, DbFault]]) -> None:
    at.effect("x", f)  # wrong: a failure that is not declared
