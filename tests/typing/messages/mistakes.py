"""Mistakes that everyone makes, for what the checkers say of them: `mypy.txt` and `pyright.txt` hold the messages.

Each marked line is one mistake; `python -m tests.kit.messages` writes both files anew.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import (
    Agent,
    Answer,
    BoundToolkit,
    Effect,
    Gen,
    LanguageModel,
    Layer,
    RunError,
    Service,
    Tool,
    Toolkit,
    fx,
    tool,
)
from fxai.testing import ScriptedModel, text


class OrderId(msgspec.Struct, frozen=True):
    number: int


class Order(msgspec.Struct, frozen=True):
    number: int
    cents: int


class Query(msgspec.Struct, frozen=True):
    words: str


class Refund(msgspec.Struct, frozen=True):
    order: int
    cents: int


class NoSuchOrder(msgspec.Struct, frozen=True):
    number: int


class TooMuch(msgspec.Struct, frozen=True):
    limit: int


class Offline(Exception):
    """The database is not there."""


class Database(Service):
    @abstractmethod
    def order(self, number: int) -> Effect[Order, NoSuchOrder]: ...


class Mailer(Service):
    @abstractmethod
    def send(self, to: str, body: str) -> Effect[None]: ...


class Clock(Service):
    @abstractmethod
    def now(self) -> float: ...


class Audit(Service):
    @abstractmethod
    def write(self, line: str) -> Effect[None]: ...


class Settings(Service):
    @abstractmethod
    def url(self) -> str: ...


class MyDatabase(Database):
    def __init__(self, url: str) -> None:
        self.url = url

    def order(self, number: int) -> Effect[Order, NoSuchOrder]:
        return fx.succeed(Order(number, 100))


class MyMailer(Mailer):
    def send(self, to: str, body: str) -> Effect[None]:
        return fx.succeed(None)


class MyClock(Clock):
    def now(self) -> float:
        return 0.0


class MyAudit(Audit):
    def write(self, line: str) -> Effect[None]:
        return fx.succeed(None)


@fx.gen
def connect() -> Gen[MyDatabase, Offline, Settings]:
    settings = yield from Settings
    return MyDatabase(settings.url())


database = Layer.succeed(Database, MyDatabase(""))
database_live = Layer.effect(Database, connect())
mailer = Layer.succeed(Mailer, MyMailer())
clock = Layer.succeed(Clock, MyClock())
audit = Layer.succeed(Audit, MyAudit())

# --- handlers

lookup = Tool.make("lookup", parameters=OrderId, success=Order, failure=NoSuchOrder)
search = Tool.make("search", parameters=Query, success=list[Order])
refund = Tool.make("refund", parameters=Refund, success=int, failure=TooMuch)
today = Tool.make("today", success=str)


def on_lookup(p: OrderId) -> Gen[Order, NoSuchOrder, Database]:
    db = yield from Database
    return (yield from db.order(p.number))


async def on_search(p: Query) -> Result[list[Order], Never]:
    return Success([])


def on_refund(p: Refund) -> Result[int, TooMuch]:
    return Success(p.cents)


def search_by_text(words: str) -> Result[list[Order], Never]:
    return Success([])


def refund_in_words(p: Refund) -> Result[str, TooMuch]:
    return Success(f"{p.cents} cents")


def refund_of_nothing(p: Refund) -> Result[int, NoSuchOrder]:
    return Failure(NoSuchOrder(p.order))


def search_bare(p: Query) -> list[Order]:
    return []


async def search_bare_awaited(p: Query) -> list[Order]:
    return []


def look_up(p: OrderId) -> Gen[Order, NoSuchOrder | Offline, Database]:
    db = yield from Database
    return (yield from db.order(p.number))


search.handler(search_by_text)  # wrong: a handler takes the tool's parameters as one value
refund.handler(refund_in_words)  # wrong: another success than the tool declares
refund.handler(refund_of_nothing)  # wrong: another failure than the tool declares
lookup.handler(look_up)  # wrong: one failure more than the tool declares, of a generator
search.handler(search_bare)  # wrong: a bare value, which says neither success nor failure
search.handler(search_bare_awaited)  # wrong: a bare value, awaited


@refund.handler  # wrong: a bare value, of a decorated handler
def give_back(p: Refund) -> int:
    return p.cents


# --- toolkits

desk = Toolkit.make(lookup, search, refund)
call = desk.call("lookup", {"number": 7})
desk.to_layer(lookup.handler(on_lookup) | refund.handler(on_refund))  # wrong: the handler of search is missing
desk.to_layer(lookup.handler(on_lookup))  # wrong: two handlers are missing
Toolkit.make(lookup, today).to_layer(lookup.handler(on_lookup) | refund.handler(on_refund))  # wrong: another tool's
BoundToolkit.of(desk, lookup.handler(on_lookup) | refund.handler(on_refund))  # wrong: no handler of search, to bind
handlers = desk.to_layer(lookup.handler(on_lookup) | search.handler(on_search) | refund.handler(on_refund))
fx.run(call)  # wrong: no handlers are provided
fx.run(call.provide(handlers))  # wrong: the database is missing, which a handler needs
Toolkit.make("lookup")  # wrong: a name is no tool
lookup.call(7)  # wrong: the parameters are one value of their type
Tool.make("pay", parameters=Refund, sucess=int)  # wrong: a misspelt option

# --- services and layers


@fx.gen
def remind(number: int) -> Gen[float, NoSuchOrder, Database | Mailer | Clock | Audit]:
    db = yield from Database
    order = yield from db.order(number)
    mail = yield from Mailer
    yield from mail.send("ann", f"{order.cents} cents")
    log = yield from Audit
    yield from log.write("reminded")
    return (yield from Clock).now()


reminder = remind(7)
fx.run(reminder)  # wrong: four services are missing
fx.run(reminder.provide(database | mailer | clock))  # wrong: one of four services is missing
served = reminder.provide(database | mailer | clock)
fx.run(served)  # wrong: one of four services is missing, of a program with a name
opened = reminder.provide(database_live | mailer | clock | audit)
fx.run(opened)  # wrong: what a layer needs is missing
Layer.succeed(Database, MyMailer())  # wrong: no database
Layer.effect(Mailer, connect())  # wrong: the effect gives no mailer
Database()  # wrong: an abstract service


# --- effects


@fx.gen
def total(number: int) -> Gen[int, NoSuchOrder]:
    db = yield from Database  # wrong: a service that is not declared
    return (yield from db.order(number)).cents


@fx.gen
def cents(number: int) -> Gen[int, Never, Database]:
    db = yield from Database
    order = yield from db.order(number)  # wrong: a failure that is not declared
    return order.cents


@fx.gen
def plain_yield(number: int) -> Gen[int, NoSuchOrder, Database]:
    db = yield from Database
    order = yield db.order(number)
    return order.cents  # wrong: `yield` without `from` gives nothing


def free(number: int) -> Effect[bool, NoSuchOrder, Database]:
    return cents(number) == 0  # wrong: an effect is not its value


def total_of(number: int) -> Effect[int, Never, Database]:
    return total_or_none(number)  # wrong: a failure that the result type does not declare


@fx.gen
def total_or_none(number: int) -> Gen[int, NoSuchOrder, Database]:
    db = yield from Database
    return (yield from db.order(number)).cents


fx.run(remind)  # wrong: a function that was not called
asyncio.run(served)  # wrong: an effect is no coroutine
total_or_none("7")  # wrong: the argument
total_or_none(7) + 1  # wrong: an effect is not its value
reminder.catch_all(lambda error: error.number)  # wrong: what catches gives an effect


# --- agents


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def mail(to: str) -> Gen[None, Never, Mailer]:
    """Sends a mail."""
    yield from (yield from Mailer).send(to, "")


agent = Agent.make("desk", instructions="Be brief.", toolkit=desk)
asked = agent.execute("Where is order 7?")
model = ScriptedModel.make([text("It is on its way.")]).layer
fx.run(asked)  # wrong: neither model nor handlers
fx.run(asked.provide(model))  # wrong: no handlers
fx.run(asked.provide(handlers | database))  # wrong: no model
agent.with_tools(weather)  # wrong: a function is no tool yet
agent.with_tools([lookup, weather])  # wrong: a function in a list of tools
mailing = agent.with_tools(mail).execute("Tell Ann.").provide(handlers | database | model)
fx.run(mailing)  # wrong: the mailer is missing, which a function tool needs
order_agent = Agent.make("clerk", output=Order)
answer = fx.run(order_agent.execute("Order 7?").provide(model))
answer.output.price  # wrong: there is no such field
number: int = answer.output  # wrong: the output is an order
Agent.make("clerk", tools=[lookup])  # wrong: no such option


def ask() -> Effect[Answer[str], RunError, LanguageModel]:
    return asked  # wrong: the handlers are not declared


def ask_safely() -> Effect[Answer[Order], Never, LanguageModel]:
    return order_agent.execute("Order 7?")  # wrong: the failures are not declared
