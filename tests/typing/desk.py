"""A desk with two tools, its handlers, and an agent that the right and the wrong programs speak about."""

from __future__ import annotations

from abc import abstractmethod
from typing import Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, Effect, Gen, Layer, Service, Tool, Toolkit, fx, tool
from fxai.testing import ScriptedModel, text

__all__ = [
    "AGENT",
    "DATABASE",
    "DESK",
    "HANDLERS",
    "MODEL",
    "REFUND",
    "SEARCH",
    "Database",
    "Lost",
    "Mailer",
    "MyDatabase",
    "MyMailer",
    "Offline",
    "Query",
    "Refund",
    "mail",
    "note",
    "on_refund",
    "on_search",
    "rows",
    "weather",
]


class Query(msgspec.Struct, frozen=True):
    """The parameters of a search."""

    words: str


class Refund(msgspec.Struct, frozen=True):
    """The parameters of a refund."""

    order: int


class Lost(msgspec.Struct, frozen=True):
    """A failure with a number."""

    number: int


class Offline(Exception):
    """A failure of the mail."""


class Database(Service):
    """A service with a plain method."""

    @abstractmethod
    def count(self) -> int:
        """The number of rows."""


class MyDatabase(Database):
    """A database."""

    def count(self) -> int:
        """Three rows."""
        return 3


class Mailer(Service):
    """A service whose method gives an effect."""

    @abstractmethod
    def send(self, to: str) -> Effect[None, Offline]:
        """Send a mail."""


class MyMailer(Mailer):
    """A mailer."""

    def send(self, to: str) -> Effect[None, Offline]:
        """Send no mail."""
        return fx.succeed(None)


SEARCH = Tool.make("search", parameters=Query, success=list[str])
REFUND = Tool.make("refund", parameters=Refund, success=int, failure=Lost)
DESK = Toolkit.make(SEARCH, REFUND)


def on_search(_: Query) -> Gen[list[str], Never, Database]:
    """Answer a search."""
    return ["tea"] * (yield from Database).count()


def on_refund(given: Refund) -> Result[int, Lost]:
    """Answer a refund."""
    return Success(250) if given.order else Failure(Lost(given.order))


HANDLERS = DESK.to_layer(SEARCH.handler(on_search) | REFUND.handler(on_refund))
DATABASE = Layer.succeed(Database, MyDatabase())
MODEL = ScriptedModel.make([text("Hello.")]).layer
AGENT = Agent.make("desk", toolkit=DESK)


@fx.gen
def rows(number: int) -> Gen[list[int], Lost, Database]:
    """Read the database, or fail."""
    database = yield from Database
    if not number:
        return (yield from fx.fail(Lost(number)))
    return [database.count()]


def note(_: object) -> Effect[None]:
    """An effect that gives nothing."""
    return fx.succeed(None)


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@tool
def mail(to: str) -> Gen[None, Never, Mailer]:
    """Send a mail."""
    yield from (yield from Mailer).send(to).or_die()
