"""Effects that nobody runs, and effects that are taken for their values."""

# pyright: reportUnusedCallResult=true

from __future__ import annotations

from collections.abc import Awaitable
from typing import Never

from returns.result import Result, Success

from fxai.effects import Effect, Gen, Stream, fx
from fxai.tools import Tool
from tests.typing.world import DB, Db, DbFault, Log, LogFault, asks_time, four, logs, reads


class Mailer:
    """A service with plain methods that give effects."""

    def send(self, mail: str) -> Effect[None, LogFault]:
        return fx.succeed(None)

    def exists(self, mail: str) -> Effect[bool]:
        return fx.succeed(bool(mail))

    def rows(self) -> Effect[list[str], DbFault, Db]:
        return reads

    @fx.gen
    def deliver(self, mail: str) -> Gen[int, LogFault, Log]:
        yield from logs
        return len(mail)


# --- dropped: nothing is run
@fx.gen
def forgetful(mailer: Mailer) -> Gen[str, LogFault, Log]:
    mailer.send("a")  # wrong: it is sent to nobody
    mailer.deliver("a")  # wrong: a generator function of the user's, too
    mailer.send("a").map(str)  # wrong: what is made of it
    mailer.send("a").or_die()  # wrong: the same
    fx.sync(lambda: print("sent"))  # wrong: never printed
    fx.fail(LogFault())  # wrong: it goes on
    fx.sleep(1)  # wrong: no time passes
    logs.tap(lambda _: fx.succeed(1))  # wrong: not run
    yield from mailer.send("b")
    return "sent"


def handle(mailer: Mailer) -> Result[str, Never]:
    mailer.send("a")  # wrong: the model is told that it was sent
    return Success("sent")


async def host(mailer: Mailer) -> str:
    mailer.send("a")  # wrong: nor here
    return "sent"


# --- taken for its value
@fx.gen
def hasty(mailer: Mailer) -> Gen[int, LogFault | DbFault, Log | Db]:
    if mailer.exists("a"):  # wrong: always true
        return 1
    while not mailer.exists("a"):  # wrong: never true
        return 1
    number = 1 if mailer.exists("a") else 2  # wrong: always one
    if not mailer.exists("a"):  # wrong: never true
        number += 1
    rows = mailer.rows()
    yield from logs
    for row in rows:
        row.upper()  # wrong: the effect itself
    if "a" in rows:  # wrong: rows are in its value
        return len(rows)  # wrong: an effect has no length
    rows[0]  # wrong: nor items
    number += rows == ["a"]  # wrong: they are never equal
    return number + mailer.deliver("a")  # wrong: the effect is not a number


if Stream.make(1):  # wrong: always true
    print("items")
for _item in Stream.make(1):  # wrong: a stream is collected
    print("an item")


# --- awaited where services are missing
async def hurried() -> None:
    await reads  # wrong: Db
    await four.provide(DB)  # wrong: Log, Clock and ApiKey
    await fx.service(Db)  # wrong: Db
    waiting: Awaitable[float] = asks_time  # wrong: Clock
    await waiting
    await fx.acquire_release(fx.succeed(1), lambda _: fx.succeed(None))  # wrong: no scope


# --- an effect in the place of a plain awaitable
_ = fx.wait(lambda: fx.succeed(1))  # wrong: it is an effect already
_ = fx.attempt_async(lambda: fx.succeed(1), lambda _: None)  # wrong: the same
plain = Tool.make("plain", success=int)


def double(_: object) -> Effect[Result[int, Never]]:
    return fx.succeed(Success(1))


plain.handler(double)  # wrong: a Result in an effect
