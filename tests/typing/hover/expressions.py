"""Common expressions, for the types that checkers show of them: `mypy.txt` and `pyright.txt` hold these.

The lines after the mark are shown one by one; `python -m tests.kit.hover` writes both files anew.
"""

from __future__ import annotations

from typing import Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import (
    Agent,
    Gen,
    LanguageModel,
    Layer,
    Prompt,
    Ref,
    Schedule,
    Schema,
    Service,
    Stream,
    Tag,
    Tool,
    Toolkit,
    fx,
    tool,
)


class Query(msgspec.Struct, frozen=True):
    words: str


class Refund(msgspec.Struct, frozen=True):
    order: int


class NoSuchOrder(msgspec.Struct, frozen=True):
    number: int


class Database(Service):
    def count(self) -> int:
        return 3


class ApiKey(Tag[str]):
    """A key."""


search = Tool.make("search", parameters=Query, success=list[str])
refund = Tool.make("refund", parameters=Refund, success=int, failure=NoSuchOrder)


def on_search(_: Query) -> Gen[list[str], Never, Database]:
    database = yield from Database
    return ["tea"] * database.count()


def on_refund(given: Refund) -> Result[int, NoSuchOrder]:
    return Success(250) if given.order else Failure(NoSuchOrder(given.order))


@tool
def total(order: int) -> Gen[int, NoSuchOrder, Database]:
    """The total of an order."""
    database = yield from Database
    if not order:
        return (yield from fx.fail(NoSuchOrder(order)))
    return database.count()


@fx.gen
def rows(count: int) -> Gen[list[int], NoSuchOrder, Database]:
    database = yield from Database
    if not count:
        return (yield from fx.fail(NoSuchOrder(count)))
    return [database.count()]


desk = Toolkit.make(search, refund)
layer = desk.to_layer(search.handler(on_search) | refund.handler(on_refund))
database = Layer.succeed(Database, Database())
agent = Agent.make("clerk", toolkit=desk)
numbers = Stream.make(1, 2, 3)

# ---- shown
search
refund
total
search.handler(on_search)
refund.handler(on_refund)
search.handler(on_search) | refund.handler(on_refund)
desk
Toolkit.make(search)
desk.pick("search")
layer
layer | database
database
desk.call("search", {"words": "tea"})
desk.call("search", {"words": "tea"}).provide(layer)
desk.call("search", {"words": "tea"}).provide(layer).provide(database)
fx.run(desk.call("search", {"words": "tea"}).provide(layer).provide(database))
refund.call(Refund(1))
fx.succeed(1)
fx.fail(NoSuchOrder(1))
fx.service(Database)
fx.service(ApiKey)
rows
rows(1)
rows(1).map(len)
rows(1).flat_map(lambda found: fx.succeed(found[0]))
rows(1).or_die()
rows(1).provide(database)
fx.fork(rows(1))
rows(1).retry(Schedule.recurs(3))
fx.all_(rows(1), fx.succeed("a"))
fx.race(rows(1), fx.succeed("a"))
Ref.of(0)
Ref.make(0)
numbers
numbers.map(str)
numbers.collect()
Prompt.make("Hello")
Prompt.make("Hello").messages
LanguageModel
LanguageModel.generate_text("Hello")
LanguageModel.generate_object("Hello", schema=Query)
LanguageModel.stream_text("Hello")
agent
agent.execute("Hello")
agent.execute("Hello").provide(layer)
agent.stream("Hello")
Schema.of(Query)
Schema.of(list[int])
Schema.of(int | str)
Schema.of(Query).decode({"words": "tea"})
