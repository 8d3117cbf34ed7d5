"""Chat applications that lack a model, a handler or a service, or whose hooks and options are of other types."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Success
from starlette.requests import Request

from fxai.agents import Agent
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import Gen, StreamOf, fx
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, Toolkit
from fxai.ui import Access, AppOptions, ChatTurn, Conversations, DataPart, chat_app, dispatch, mount
from tests.typing.world import DB, Db, DbFault


class Query(msgspec.Struct, frozen=True):
    text: str


search = Tool.make("search", parameters=Query, success=list[str], failure=DbFault)
ping = Tool.make("ping", success=str)
kit = Toolkit.make(search, ping)


def on_search(p: Query) -> Gen[list[str], DbFault, Db]:
    db = yield from Db
    return (yield from db.query(p.text))


handlers = kit.to_layer(search.handler(on_search) | ping.handler(lambda _: Success("pong")))
only_ping = Toolkit.make(ping).to_layer(ping.handler(lambda _: Success("pong")))
model = ScriptedModel.make([text("done")]).layer
agent = Agent.make("desk", toolkit=kit)
other = Agent.make("other")
plain = Agent.make("plain")


def desk(at: Render[Db]) -> None:
    at.system("desk", "Be brief.")


prompt = StatefulPrompt.make("desk", desk)


# --- what the agent needs

chat_app(agent)  # wrong: neither a model nor handlers
chat_app(plain)  # wrong: no model
chat_app(agent, layer=model)  # wrong: no handlers
chat_app(agent, layer=handlers | DB)  # wrong: no model
chat_app(agent, layer=only_ping | model)  # wrong: one handler is missing
chat_app(agent, layer=handlers | model)  # wrong: the handler's database is missing
chat_app(prompt, layer=model)  # wrong: the render's database is missing
chat_app(prompt)  # wrong: neither


def choose(turn: ChatTurn) -> Agent[Any, str, Any, Any]:
    return plain


@fx.gen
def by_turn(turn: ChatTurn) -> Gen[StreamOf[DataPart], DbFault, Db]:
    rows = yield from (yield from Db).query(turn.user)
    return StreamOf.from_iterable(DataPart("row", row) for row in rows)


def nothing(_: ChatTurn) -> int:
    return 1


def of_two(_: ChatTurn, __: int) -> StreamOf[DataPart]:
    return StreamOf.empty()


chat_app(by_turn)  # wrong: the database of its parts is missing
chat_app(by_turn, layer=model)  # wrong: still
chat_app(nothing, layer=model)  # wrong: it answers no turn
chat_app(of_two)  # wrong: it takes two arguments
chat_app("desk", layer=model)  # wrong: no answerer
chat_app(plain, model)  # wrong: the layer is named


# --- hooks, options, stores


def nobody(_: str) -> str:
    return ""


def number(_: Request) -> int:
    return 1


def always(_: Access) -> str:
    return "yes"


chat_app(plain, layer=model, identify=nobody)  # wrong: it is given a request
chat_app(plain, layer=model, identify=number)  # wrong: a user is a string
chat_app(plain, layer=model, authorize=always)  # wrong: it says yes or no
chat_app(plain, layer=model, options={"title": "Desk"})  # wrong: options are `AppOptions`
chat_app(plain, layer=model, conversations="chats.db")  # wrong: a store
chat_app(plain, layer=model, streams=Conversations.in_process())  # wrong: a store of streams
chat_app(plain, layer=model, title="Desk")  # wrong: an option
AppOptions(on_leave="stop")  # wrong: continue or cancel
AppOptions(hosts="example.org")  # wrong: several
mount(plain, chat_app(plain, layer=model))  # wrong: a host
dispatch([chat_app(plain, layer=model)], number)  # wrong: by their paths
chat_app(lambda turn: plain if turn.nobody else other, layer=model)  # wrong: a turn has a user
chat_app(lambda turn: turn.user)  # wrong: a text answers nothing
