"""Unions, literals and new types in tools; handlers of every return; layers in lists, loops and conditions."""

from __future__ import annotations

import asyncio
import datetime
import enum
import uuid
from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Literal, Never, NewType, TypeAlias, assert_type

import msgspec
from returns.io import IOResult, IOSuccess
from returns.result import Failure, Result, Success

from fxai import CallContext, Effect, Gen, HandlerOf, Layer, Service, Stream, Tag, Tool, Toolkit, fx
from fxai.effects import LayerOf

UserId = NewType("UserId", str)
Cents = NewType("Cents", int)
Status: TypeAlias = Literal["open", "shipped", "lost"]


class Ok(msgspec.Struct, frozen=True, tag="ok"):
    value: int


class Nope(msgspec.Struct, frozen=True, tag="nope"):
    reason: str


class Lookup(msgspec.Struct, frozen=True):
    user: UserId
    status: Status = "open"


class NotThere(msgspec.Struct, frozen=True, tag=True):
    user: UserId


class Busy(msgspec.Struct, frozen=True, tag=True):
    seconds: float


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class Ticket:
    id: uuid.UUID
    due: datetime.date
    price: Decimal


class Store(Service):
    @abstractmethod
    def find(self, user: UserId) -> Effect[Ticket, NotThere]: ...

    @abstractmethod
    def all(self) -> Stream[Ticket, Busy]: ...

    @abstractmethod
    async def ping(self) -> bool: ...


class Mail(Service):
    @abstractmethod
    def send(self, to: UserId, body: str) -> Effect[None, Busy]: ...


class Audit(Service):
    @abstractmethod
    def note(self, line: str) -> None: ...


class Url(Tag[str]):
    """Where things are."""


class Limit(Tag[int]):
    """How many."""


find = Tool.make("find", description="Finds.", parameters=Lookup, success=Ticket | None, failure=NotThere | Busy)
mood = Tool.make("mood", description="Mood.", parameters=Lookup, success=Mood)
judge = Tool.make("judge", parameters=Lookup, success=Ok | Nope)
status = Tool.make("status", parameters=UserId, success=Literal["open", "shipped", "lost"], failure=Busy)
pay = Tool.make("pay", parameters=Ticket, success=Cents, failure_mode="return")
nothing = Tool.make("nothing", description="Does nothing.")
many = Tool.make("many", parameters=list[Lookup], success=dict[str, list[Ticket]])


def on_find(q: Lookup) -> Gen[Ticket | None, NotThere | Busy, Store | Audit]:
    store = yield from Store
    audit = yield from Audit
    audit.note(q.user)
    found = yield from store.find(q.user)
    if found.price > 3:
        return (yield from fx.fail(Busy(1.0)))
    return found if q.status == "open" else None


def on_mood(q: Lookup) -> Result[Mood, Never]:
    return Success(Mood.GOOD)


async def on_judge(q: Lookup, context: CallContext) -> Result[Ok | Nope, Never]:
    await asyncio.sleep(0)
    if context.call_id:
        return Success(Ok(1))
    return Success(Nope("x"))


def on_status(user: UserId) -> Effect[Literal["open", "shipped", "lost"], Busy, Mail]:
    return fx.service(Mail).flat_map(lambda mail: mail.send(user, "hi")).as_("open")


def on_pay(t: Ticket) -> IOResult[Cents, Never]:
    return IOSuccess(Cents(int(t.price)))


def on_nothing(_: object) -> Result[None, Never]:
    return Success(None)


def on_many(qs: list[Lookup]) -> Stream[dict[str, list[Ticket]], Never, Store]:
    return Stream.from_effect(fx.service(Store).map(lambda _: dict[str, list[Ticket]]()))


class Handlers:
    def __init__(self, name: str) -> None:
        self.name = name

    def find(self, q: Lookup) -> Result[Ticket | None, NotThere | Busy]:
        return Failure(NotThere(q.user))

    async def mood(self, q: Lookup) -> Result[Mood, Never]:
        return Success(Mood.BAD)

    @staticmethod
    def status(user: UserId) -> Result[Status, Busy]:
        return Success("lost")

    @classmethod
    def pay(cls, t: Ticket, context: CallContext) -> Result[Cents, Never]:
        return Success(Cents(1))

    def __call__(self, q: Lookup) -> Result[Ok | Nope, Never]:
        return Success(Nope(self.name))


kit = Toolkit.make(find, mood, judge, status, pay, nothing, many)
live = kit.to_layer(
    find.handler(on_find)
    | mood.handler(on_mood)
    | judge.handler(on_judge)
    | status.handler(on_status)
    | pay.handler(on_pay)
    | nothing.handler(on_nothing)
    | many.handler(on_many)
)
h = Handlers("x")
by_methods = Toolkit.make(find, mood, judge, status, pay).to_layer(
    Layer.merge_all(
        find.handler(h.find), mood.handler(h.mood), judge.handler(h), status.handler(h.status), pay.handler(h.pay)
    )
)
fx.run(Toolkit.make(find, mood, judge, status, pay).call("find", {}).provide(by_methods))


def with_prefix(prefix: str, q: Lookup) -> Result[Mood, Never]:
    return Success(Mood.GOOD if q.user.startswith(prefix) else Mood.BAD)


mood.handler(partial(with_prefix, "a"))
mood.handler(lambda q: Success(Mood.GOOD))
mood.handler(lambda q: fx.succeed(Mood.GOOD))
mood.handler(lambda q, context: Success(Mood(context.call_id)))
judge.handler(lambda q: Success(Ok(1)) if q.status == "open" else Success(Nope("")))
judge.handler(lambda q: fx.succeed(Ok(1) if q.status == "open" else Nope("")))
pay.handler(lambda t: fx.service(Limit).map(Cents))
nothing.handler(lambda _: Success(None))
nothing.handler(lambda _: fx.succeed(None))


@mood.handler
def decorated(q: Lookup) -> Result[Mood, Never]:
    return Success(Mood.GOOD)


assert_type(decorated, LayerOf[HandlerOf[Lookup, Mood, Never], Never, None])


class MyStore(Store):
    def __init__(self, url: str) -> None:
        self.url = url

    def find(self, user: UserId) -> Effect[Ticket, NotThere]:
        return fx.fail(NotThere(user))

    def all(self) -> Stream[Ticket, Busy]:
        return Stream.fail(Busy(1))

    async def ping(self) -> bool:
        return True


class MyMail(Mail):
    def send(self, to: UserId, body: str) -> Effect[None, Busy]:
        return fx.succeed(None)


class MyAudit(Audit):
    def note(self, line: str) -> None:
        pass


@fx.gen
def open_store() -> Gen[Store, Busy, Url]:
    url = yield from fx.service(Url)
    store = MyStore(url)
    there = yield from fx.attempt_async(store.ping, lambda _: Busy(2))
    if not there:
        yield from fx.fail(Busy(1))
    return store


store_live = Layer.effect(Store, open_store())
url = Layer.succeed(Url, "x")
store_test = Layer.succeed(Store, MyStore(""))
mail = Layer.succeed(Mail, MyMail())
audit = Layer.succeed(Audit, MyAudit())
everything = store_test | mail | audit


def store_for(test: bool) -> Layer[Store, Busy]:
    return store_test if test else store_live.provide(url)


def main(test: bool) -> None:
    program = kit.call("find", {"user": "u"}).provide(live).provide(store_for(test) | mail | audit)
    outcome = fx.run(program)
    print(outcome.result)
    both = store_test if test else store_live.provide(url)
    fx.run(kit.call("find", {}).provide(live).provide(both | mail | audit))


layers: list[Layer[Store]] = [store_test, Layer.succeed(Store, MyStore("b"))]
for each in layers:
    outcome = fx.run(kit.call("find", {"user": "u"}).provide(live).provide(each | mail | audit))
    print(outcome.encoded_result)

stores: dict[str, Layer[Store, Busy]] = {"a": store_test, "b": store_live.provide(url)}
fx.run(kit.call("x", {}).provide(live).provide(stores["a"]).provide(mail | audit))

for name in ("a", "b"):
    layer = Layer.succeed(Url, name)
    fx.run(open_store().provide(layer))

# a loop that joins layers
handlers = find.handler(on_find)
for _ in range(3):
    handlers = handlers | handlers

joined: Layer[Url] = url
for name in ("a", "b"):
    joined = joined | Layer.succeed(Url, name)

# effects in collections
fetches = [fx.service(Store).flat_map(lambda s: s.find(UserId("a"))) for _ in range(3)]
all_found: Effect[list[Ticket], NotThere, Store] = fx.collect(fetches)
