"""Chat applications of agents, stateful prompts, functions and parts, with all that they need."""

from __future__ import annotations

from typing import Any, assert_type

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request

from fxai import tool
from fxai.agents import Agent
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import Gen, StreamOf, fx
from fxai.messages import TextDelta, TextStart
from fxai.models import LanguageModel
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
from fxai.ui import (
    Access,
    AppOptions,
    ChatApp,
    ChatPage,
    ChatTurn,
    Conversations,
    DataPart,
    Question,
    StreamOptions,
    StreamStore,
    UserReply,
    bearer_token,
    chat_app,
    dispatch,
    mount,
)
from tests.typing.world import DB, Db, DbFault


class Query(msgspec.Struct, frozen=True):
    text: str


search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)
kit = Toolkit.make(search)


def on_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    page = yield from ChatPage
    yield from page.show(DataPart("query", p.text))
    reply = yield from page.ask(Question("Really?"))
    assert_type(reply, UserReply)
    return (yield from db.query(p.text))


@tool
def double(n: int) -> int:
    return 2 * n


handlers = kit.to_layer(search.handler(on_search))
model = ScriptedModel.make([text("done")]).layer
agent = Agent.make("desk", toolkit=kit)
plain = Agent.make("plain")
other = Agent.make("other")
whole = Agent.make("whole", model=model).with_tools(double)


def desk(at: Render[Db]) -> None:
    at.system("desk", "Be brief.")


prompt = StatefulPrompt.make("desk", desk)

assert_type(chat_app(agent, layer=handlers.provide(DB) | model), ChatApp)
assert_type(chat_app(plain, layer=model), ChatApp)
assert_type(chat_app(whole), ChatApp)
assert_type(chat_app(prompt, layer=DB | model), ChatApp)


def by_user(turn: ChatTurn) -> Agent[Any, str, Any, LanguageModel | None]:
    return plain if turn.user == "ann" else Agent.make("other")


def parts(_: ChatTurn) -> StreamOf[TextStart | TextDelta | DataPart]:
    return StreamOf.make(TextStart("t"), TextDelta("t", "Hi."), DataPart("n", 1))


@fx.gen
def looked_up(turn: ChatTurn) -> Gen[StreamOf[DataPart], DbFault, Db]:
    rows = yield from (yield from Db).query(turn.user)
    return StreamOf.from_iterable(DataPart("row", row) for row in rows)


chat_app(by_user, layer=model)
chat_app(lambda turn: plain if turn.user == "ada" else other, layer=model)
chat_app(parts)
chat_app(looked_up, layer=DB)


async def identify(request: Request) -> str | None:
    return request.headers.get("x-user")


def authorize(access: Access) -> bool:
    return access.user == access.owner or access.action == "read"


app = chat_app(
    plain,
    layer=model,
    conversations=Conversations.in_process(),
    streams=StreamStore.in_process(),
    identify=identify,
    authorize=authorize,
    options=AppOptions(title="Desk", page=True, on_leave="cancel", stream=StreamOptions(6), hosts=("example.org",)),
)
chat_app(plain, layer=model, identify=bearer_token("0123456789abcdef"))
host = Starlette()
mount(host, app, "/chat")
dispatch({"/chat": app}, host)
