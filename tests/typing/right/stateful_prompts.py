"""What the checkers infer of stateful prompts: the annotation of a render says what it may need and fail with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never, TypeVar, assert_type

import msgspec
from returns.result import Failure, Result, Success

from fxai import tool
from fxai.agents import Agent, Answer, BudgetExceeded, Memory, MemoryFailure, RunError, RunFailed
from fxai.agents.stateful import (
    Definition,
    EffectReturn,
    PromptState,
    Render,
    RenderFailed,
    RenderOf,
    State,
    StatefulPrompt,
    StepPatch,
    StepRecord,
    StepView,
)
from fxai.effects import Effect, EffectOf, Gen, Layer, Stream, StreamOf, fx
from fxai.messages import Prompt, StreamPart
from fxai.models import LanguageModel
from fxai.schema import Empty, Schema
from fxai.testing import ScriptedModel, text
from fxai.tools import BoundToolkit, CallContext, HandlerOf, HandlerReturn, Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation
from tests.typing.world import DB, LOG, Cfg, Db, DbFault, Log, LogFault

P = TypeVar("P")
S = TypeVar("S")
F = TypeVar("F")
R = TypeVar("R")
E = TypeVar("E")
T = TypeVar("T")


class Query(msgspec.Struct, frozen=True):
    words: str


class Refused(msgspec.Struct, frozen=True):
    why: str


class Verdict(msgspec.Struct, frozen=True):
    good: bool


search = Tool.make("search", parameters=Query, success=str, failure=DbFault)
refund = Tool.make("refund", parameters=Query, success=str, failure=Refused)
ping = Tool.make("ping", success=str)
model = ScriptedModel.make([text("done")]).layer


@tool
def double(number: int) -> int:
    """Doubles."""
    return number * 2


@tool
def stored(key: str) -> Gen[str, DbFault, Db]:
    """What is stored under a key."""
    db = yield from Db
    return "".join((yield from db.query(key)))


choice: Schema[str | None] = Schema.of(str | None)


# --- handlers of all forms
def by_generator(query: Query) -> Gen[str, DbFault, Db]:
    db = yield from Db
    return "".join((yield from db.query(query.words)))


def by_effect(query: Query) -> Effect[str, DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query(query.words)).map("".join)


async def by_coroutine(query: Query) -> Result[str, DbFault]:
    return Success(query.words)


async def by_coroutine_of_effect(query: Query) -> Effect[str, DbFault, Db]:
    return by_effect(query)


def by_stream(query: Query) -> Stream[str, DbFault, Db]:
    return Stream.from_effect(by_effect(query))


def by_context(query: Query, call: CallContext) -> Gen[str, DbFault, Log]:
    log = yield from Log
    yield from log.info(call.call_id).or_die()
    return query.words


def on_refund(query: Query) -> Result[str, Refused]:
    return Success("refunded") if query.words == "7" else Failure(Refused("no"))


def needs_log(call: Invocation) -> Gen[None, Never, Log]:
    yield from Log


watched = Aspect.make(before=needs_log)
of_search = Aspect.make(tool=search, after=lambda call, found: None)


# --- a render that needs nothing
def plain(at: Render) -> None:
    count = at.state("count", 0)
    names = at.state("names", ("a",), schema=tuple[str, ...])
    chosen = at.state("chosen", None, schema=choice)
    assert_type(count, State[int])
    assert_type(names, State[tuple[str, ...]])
    assert_type(chosen, State[str | None])
    assert_type(count.value, int)
    assert_type(count.now, EffectOf[int, Never, None])
    assert_type(count.set(1), EffectOf[None, Never, None])
    assert_type(count.update(lambda n: n + 1), EffectOf[None, Never, None])
    assert_type(count.modify(lambda n: (str(n), n + 1)), EffectOf[str, Never, None])
    look = at.tool(ping, lambda _: count.update(lambda n: n + 1).as_("pong"))
    at.tool(refund, on_refund, aspect=Aspect.make(tool=refund, recover=lambda call, why: None))
    role = at.system("role", f"Use {look}.")
    at.data("count", count.value)
    at.message("Go on.")
    assert_type(look, Definition)
    at.effect("remind", lambda _: look.remind() + role.remind())
    at.effect("nothing", lambda _: None, ())
    at.effect("count", lambda step: count.set(step.number), (count.value, "x"))
    at.effect("either", lambda step: look.disable() if step.has("ping") else None)
    at.effect("some", lambda _: StepPatch.hide("ping", role) + StepPatch.message("Now.") + StepPatch())


bare = StatefulPrompt.make("plain", plain)
assert_type(bare, StatefulPrompt[None, RenderFailed])
assert_type(bare.execute("hello"), EffectOf[Answer, RunError | RenderFailed, LanguageModel | None])
fx.run(bare.execute("hello").provide(model))
fx.run(bare.execute("hello", state=PromptState()).provide(model))


# --- one that needs services
def busy(at: Render[Db | Log]) -> None:
    found = at.state("found", 0)
    at.tool(search, by_generator)
    at.tool(search, by_effect, aspect=watched)
    at.tool(search, by_coroutine, aspect=of_search)
    at.tool(search, by_coroutine_of_effect, aspect=watched.and_then(of_search))
    at.tool(search, by_stream)
    at.tool(search, by_context)
    at.tool(refund, on_refund)
    kit = BoundToolkit.of(Toolkit.make(search), watched.wrap(search.handler(by_generator)))
    assert_type(at.tools(double, stored, kit), tuple[Definition, ...])
    at.tools(search.external(), Toolkit.from_object(object()))
    at.composite("all", double, stored, kit, concurrency=None, description="All.")
    several = Toolkit.make(refund).as_tool("several")
    at.tools(BoundToolkit.of(Toolkit.make(several.tool), several.layer.provide(refund.handler(on_refund))))
    at.effect("clear", lambda _: found.set(0))
    at.effect("ask", asks)
    at.effect("wait", waits)
    at.effect("wait_more", waits_for_effect)
    at.effect("add", lambda _: StepPatch.tools(stored, double))
    at.effect("log", lambda _: fx.service(Log).as_(None))


def asks(step: StepView) -> Gen[StepPatch[Db | None] | None, Never, Db]:
    db = yield from Db
    rows = yield from db.query("x").or_die()
    return StepPatch.tool(search, by_effect) if rows and step.last_calls else None


async def waits(step: StepView) -> StepPatch | None:
    return StepPatch.hide("search") if step.number > 1 else None


async def waits_for_effect(step: StepView) -> Effect[None, Never, Log]:
    return fx.service(Log).as_(None)


support = StatefulPrompt.make("busy", busy)
assert_type(support, StatefulPrompt[Db | Log | None, RenderFailed])
asked = support.execute("hello")
assert_type(asked, EffectOf[Answer, RunError | RenderFailed, Db | Log | LanguageModel | None])
assert_type(asked.provide(DB), EffectOf[Answer, RunError | RenderFailed, Log | LanguageModel | None])
assert_type(asked.provide(DB | LOG).provide(model), EffectOf[Answer, RunError | RenderFailed, None])
assert_type(
    support.stream("hello", state=PromptState()),
    StreamOf[StreamPart, RunError | RenderFailed, Db | Log | LanguageModel | None],
)
fx.run(asked.provide(DB).provide(LOG).provide(model))


def answered(question: str) -> Effect[Answer, RunError | RenderFailed, Db | Log | LanguageModel]:
    return support.execute(question)


# --- one whose effects fail
def strict(at: Render[Db, DbFault | LogFault]) -> None:
    at.tool(search, by_effect)
    at.effect("rows", rows)
    at.effect("fail", lambda step: fx.fail(LogFault()) if step.number > 3 else None)
    at.effect("log", lambda _: fx.service(Db).flat_map(lambda db: db.query("x")).as_(StepPatch.message("Look.")))


def rows(_: StepView) -> Gen[StepPatch | None, DbFault, Db]:
    db = yield from Db
    found = yield from db.query("x")
    return StepPatch.data("rows", found) if found else None


strictly = StatefulPrompt.make("strict", strict)
assert_type(strictly, StatefulPrompt[Db | None, DbFault | LogFault | RenderFailed])
assert_type(
    strictly.execute("hello").provide(DB).provide(model),
    EffectOf[Answer, RunError | DbFault | LogFault | RenderFailed, None],
)


# --- parts of renders, and helpers for all of them
def tracks(at: Render[Log]) -> State[int]:
    steps = at.state("steps", 0)
    at.effect("steps", lambda step: fx.service(Log).and_then(steps.set(step.number)))
    return steps


def counted(
    at: RenderOf[R, E], one: Tool[P, S, F], handler: Callable[[P], HandlerReturn[S, F, R]], times: State[int]
) -> Definition:
    at.effect(f"count {one.name}", lambda step: times.update(lambda n: n + len(step.last_calls)))
    at.effect("late", lambda step: StepPatch.hide(one.name) if step.number > 9 else None)
    return at.tool(one, handler)


def twice(
    at: RenderOf[R, E], key: str, f: Callable[[StepView], EffectReturn[R, E]], state: State[T]
) -> Callable[[T], EffectOf[None]]:
    at.effect(key, f)
    at.effect(f"{key} again", f, deps=(key,))
    at.agent("poet", Agent.make("poet"))
    return state.set


def whole(at: Render[Db | Log | Cfg, DbFault]) -> None:
    times = tracks(at)
    assert_type(counted(at, search, by_generator, times), Definition)
    counted(at, ping, lambda _: times.set(0).as_("pong"), times)
    plain(at)
    assert_type(twice(at, "log", lambda _: fx.service(Log).as_(None), times), Callable[[int], EffectOf[None]])


assert_type(StatefulPrompt.make("whole", whole), StatefulPrompt[Db | Log | Cfg | None, DbFault | RenderFailed])
less: StatefulPrompt[Db | Log | Cfg | None, DbFault | RenderFailed] = support


# --- tools whose handlers are provided to the run
def offers(at: Render[HandlerOf[Query, str, DbFault] | Db]) -> None:
    at.tools(search)
    at.tools(Toolkit.make(search), stored)
    at.effect("search", lambda _: StepPatch.tools(search))


offered = StatefulPrompt.make("offers", offers)
assert_type(offered, StatefulPrompt[HandlerOf[Query, str, DbFault] | Db | None, RenderFailed])
fx.run(offered.execute("hello").provide(search.handler(by_effect)).provide(DB).provide(model))
fx.run(Agent.make("desk", prompt=offered).execute("x").provide(search.handler(by_effect)).provide(DB | model))

# --- patches add up: what they need is a union
of_db = StepPatch.tool(search, by_effect)
assert_type(of_db, StepPatch[Db | None])
of_log = StepPatch.tools(BoundToolkit.of(Toolkit.make(search), search.handler(by_context)))
assert_type(of_log, StepPatch[Log | None])
assert_type(of_db + of_log, StepPatch[Db | Log | None])
assert_type(of_db + StepPatch.hide("x") + StepPatch.system("a", "b"), StepPatch[Db | None])
assert_type(StepPatch(), StepPatch[None])
assert_type(StepPatch() + StepPatch.message("x"), StepPatch[None])
assert_type(StepPatch.tools(double, stored), StepPatch[Db | None])
assert_type(StepPatch.tool(search, by_coroutine, aspect=watched), StepPatch[Log | None])
assert_type(StepPatch.tools(ping), StepPatch[HandlerOf[Empty, str, Never] | None])

# --- agents
kit = Toolkit.make(search)
agent = Agent.make("plain")
assert_type(agent, Agent[Never, str, RunError, LanguageModel | None])
assert_type(
    Agent.make("tools", toolkit=kit), Agent[HandlerOf[Query, str, DbFault], str, RunError, LanguageModel | None]
)
assert_type(Agent.make("typed", output=Verdict), Agent[Never, Verdict, RunError, LanguageModel | None])
assert_type(Agent.make("own", model=model), Agent[Never, str, RunError, None])
assert_type(Agent.make("both", model=model, output=Verdict), Agent[Never, Verdict, RunError, None])

desk = Agent.make("desk", instructions="Be brief.", prompt=support)
assert_type(desk, Agent[Never, str, RunError | RenderFailed, Db | Log | LanguageModel | None])
assert_type(
    Agent.make("desk", toolkit=kit, prompt=strictly),
    Agent[HandlerOf[Query, str, DbFault], str, RunError | DbFault | LogFault | RenderFailed, Db | LanguageModel | None],
)
assert_type(
    Agent.make("desk", toolkit=kit, prompt=support, output=Verdict),
    Agent[HandlerOf[Query, str, DbFault], Verdict, RunError | RenderFailed, Db | Log | LanguageModel | None],
)
assert_type(
    Agent.make("desk", prompt=support, model=model), Agent[Never, str, RunError | RenderFailed, Db | Log | None]
)
assert_type(
    Agent.make("desk", prompt=bare, model=model, output=Verdict), Agent[Never, Verdict, RunError | RenderFailed, None]
)
kept = desk.with_memory(Memory.in_process()).with_tools(stored)
assert_type(kept, Agent[Never, str, RunError | RenderFailed | MemoryFailure, Db | Log | LanguageModel | None])
assert_type(
    desk.with_memory(Memory).execute("hello", state=PromptState()),
    EffectOf[Answer, RunError | RenderFailed | MemoryFailure, Db | Log | LanguageModel | Memory | None],
)
fx.run(kept.execute("hello").provide(DB | LOG).provide(model))
fx.run(
    desk.stream("hello", state=fx.run(desk.execute("x").provide(DB | LOG | model)).state)
    .provide(DB | LOG | model)
    .collect()
)

everything = (
    Agent.make(
        "everything", instructions="Be brief.", toolkit=kit, model=model, output=Verdict, prompt=strictly, temperature=0
    )
    .with_tools(double, stored)
    .with_memory(Memory.in_process())
    .on_step(lambda step: fx.service(Log).as_(step.number))
)
assert_type(
    everything,
    Agent[
        HandlerOf[Query, str, DbFault],
        Verdict,
        RunError | DbFault | LogFault | RenderFailed | MemoryFailure,
        Db | Log | None,
    ],
)
assert_type(
    everything.without_tools().execute("hello").provide(DB | LOG).map(lambda one: one.output.good),
    Effect[bool, RunError | DbFault | LogFault | RenderFailed | MemoryFailure],
)


# --- what went wrong, and the state that there was
def told(failure: RunError | DbFault | LogFault | RenderFailed | MemoryFailure) -> str:
    match failure:
        case RenderFailed():
            assert_type(failure.state, PromptState)
            return f"{failure.prompt}, step {failure.step}: {failure.reason}, {failure.message}"
        case RunFailed() | BudgetExceeded():
            assert_type(failure.state, PromptState | None)
            return str(failure)
        case _:
            return str(failure)


retold = everything.execute("hello").map_error(told)


# --- what was done
def looks(answer: Answer) -> tuple[str, ...]:
    step = answer.steps[0]
    assert_type(step.record, StepRecord)
    assert_type(step.record.before, PromptState)
    assert_type(step.record.patches, tuple[tuple[str, StepPatch[Any]], ...])
    assert_type(step.record.messages, Prompt)
    return step.record.tools


# --- sub-agents
class Topic(msgspec.Struct, frozen=True):
    words: str


def leads(at: Render[Db | Log]) -> None:
    at.agent("poet", agent)
    at.agent("own", Agent.make("own", model=model), description="Has a model.")
    at.agent("desk", desk)
    at.agent("support", support, failure_mode="return")
    at.agent("strict", strictly, parameters=Topic, prompt=lambda topic: topic.words)
    at.agent("judge", Agent.make("judge", output=Verdict, prompt=support))


def leads_more(at: Render[Db | Log | LanguageModel]) -> None:
    at.tools(agent.as_tool(), stored)
    at.tools(desk.without_tools().as_tool())


kept_state = fx.run(bare.execute("hello").provide(model)).state
assert_type(kept_state, PromptState | None)
read = PromptState.from_json("{}")
assert_type(read.map(lambda one: one.to_json()).value_or(""), str)
first: Layer[LanguageModel] = model


# --- a memory of one's own that keeps states
class Kept(Memory):
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return fx.succeed(Prompt.make("x"))

    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return fx.succeed(None)

    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        return fx.succeed(PromptState())

    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        return self.commit(messages)


# --- lambdas, methods and functions that make renders
greets = StatefulPrompt.make("greets", lambda at: at.message("Hello."))
assert_type(greets, StatefulPrompt[None, RenderFailed])


class Desk:
    def render(self, at: Render[Db]) -> None:
        mode = at.state("mode", "basic")
        at.tool(search, lambda query: Success(query.words))
        at.tool(search, lambda query, call: Success(query.words + call.call_id))
        at.tool(search, lambda query: mode.update(lambda old: old + query.words).and_then(mode.now))
        at.tool(search, lambda query: fx.fail(DbFault()) if mode.value else fx.succeed("x"))
        at.tool(ping, lambda _: mode.modify(lambda old: (f"was {old}", "advanced")))
        at.effect("set", lambda step: mode.set("x") if step.number == 1 else None)
        at.effect("late", lambda step: mode.set("x").as_(StepPatch.message("Late.") if step.number > 3 else None))
        at.effect("tool", lambda _: StepPatch.tool(search, lambda query: Success(query.words)))

    def prompt(self) -> StatefulPrompt[Db | None, RenderFailed]:
        return StatefulPrompt.make("desk", self.render)


def of_topic(words: str) -> Callable[[Render[Log]], None]:
    def render(at: Render[Log]) -> None:
        at.system("topic", words)

    return render


assert_type(StatefulPrompt.make("topic", of_topic("cats")), StatefulPrompt[Log | None, RenderFailed])
