"""Streamed objects, inboxes, and tool search: the types that checkers infer."""

from typing import Any, Never, assert_type

import msgspec
from pydantic import BaseModel
from returns.result import Result, Success

from fxai import Agent, AiError, Chat, Gen, LanguageModel, RunError, Tool, ToolError, Toolkit, fx
from fxai.agents import AnswerPart, Inbox, InboxMessage, ToolSearch
from fxai.effects import EffectOf, LayerOf, StreamOf
from fxai.models import ObjectPart, ObjectPending
from fxai.testing import ScriptedModel, text


class Report(msgspec.Struct, frozen=True):
    """A report."""

    title: str
    lines: list[str]


class Location(BaseModel):
    """A place."""

    name: str


search = Tool.make("search", parameters=str, success=str)
kit = Toolkit.make(search)
model = ScriptedModel.make([text("{}")])

# --- objects that stream

whole = LanguageModel.stream_object("Report.", Report)
assert_type(whole, StreamOf[ObjectPart[Report], AiError | ToolError | ObjectPending, LanguageModel | None])
assert_type(
    LanguageModel.stream_object("Where?", Location).provide(model.layer),
    StreamOf[ObjectPart[Location], AiError | ToolError | ObjectPending, None],
)
either = LanguageModel.stream_object("Well?", int | None).map(lambda part: part.value)
assert_type(either, StreamOf[int | None, AiError | ToolError | ObjectPending, LanguageModel | None])


def show(part: ObjectPart[Report]) -> None:
    assert_type(part.partial, Any)
    assert_type(part.value, Report | None)


def in_chat(chat: Chat) -> None:
    locations = chat.stream_object("Where?", list[Location]).map(lambda part: part.value)
    fx.run(locations.collect().provide(model.layer).or_die())


reporter = Agent.make("reporter", toolkit=kit, output=Report)
parts = reporter.stream_object("Report.").provide(model.layer)


def on_search(words: str) -> Gen[str]:
    yield from inbox.steer("Be brief.")
    return words


streamed = parts.provide(kit.to_layer(search.handler(on_search)))
assert_type(streamed, StreamOf[AnswerPart[Report], RunError, None])

# --- inboxes


seen: list[tuple[InboxMessage, ...]] = []
inbox = Inbox.in_process(on_join=seen.append)
assert_type(inbox.layer, LayerOf[Inbox, Never, None])
assert_type(inbox.queue("And then?"), EffectOf[None])
assert_type(inbox.left, tuple[InboxMessage, ...])

# --- tool search


def answer(words: str) -> Result[str, Never]:
    return Success(words)


found = Agent.make("finder", toolkit=kit, tool_search=ToolSearch(always=("search",)))
run = found.execute("Find it.").provide(kit.to_layer(search.handler(answer)) | inbox.layer | model.layer)
fx.run(run)
