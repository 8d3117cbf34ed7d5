"""Generators that do more than they declare."""

from __future__ import annotations

from typing import Never

from fxai.effects import Effect, Gen, Scope, fx
from tests.typing.world import Db, DbFault, LogFault, reads, report


@fx.gen
def needs_and_fails_more() -> Gen[int, DbFault, Db]:
    yield from report("x")  # wrong: undeclared failures and services
    return 1


@fx.gen
def needs_more() -> Gen[int]:
    yield from Db  # wrong: undeclared service
    return 1


@fx.gen
def fails_more() -> Gen[int, Never, Db]:
    yield from reads  # wrong: undeclared failure
    return 1


@fx.gen
def fails_otherwise() -> Gen[int, DbFault]:
    return (yield from fx.fail(LogFault()))  # wrong: another failure


@fx.gen
def leaves_open() -> Gen[int]:
    return (yield from fx.acquire_release(fx.succeed(1), lambda _: fx.succeed(None)))  # wrong: no scope


@fx.gen
def gives_otherwise() -> Gen[int, DbFault, Db]:
    rows = yield from reads
    return rows  # wrong: rows are not number


@fx.gen
def forgets_from() -> Gen[int, DbFault, Db]:
    rows = yield reads
    return len(rows)  # wrong: without `from`, rows are just an object


@fx.gen
def forks() -> Gen[str, DbFault, Db | Scope]:
    fiber = yield from fx.fork(reads)
    return (yield from fiber.join())  # wrong: the fiber gives rows


@fx.gen
def numbered(n: int) -> Gen[int]:
    return (yield from fx.succeed(n))


numbered("1")  # wrong: the parameters of the generator are kept
numbered(n=1, m=2)  # wrong: it takes no m
text: Effect[str] = numbered(1)  # wrong: it gives a number


@fx.gen
def narrows_not(number: int | None) -> Gen[int, DbFault]:
    if number is None:
        yield from fx.fail(DbFault())
    return number  # wrong: what follows a failure that is not returned may be None


@fx.gen
def guards_otherwise(number: int | None) -> Gen[int, DbFault]:
    return (yield from fx.some(number, LogFault()))  # wrong: another failure


@fx.gen
def guards_with_another_class(number: int | None) -> Gen[int, DbFault]:
    return (yield from fx.some(number, LogFault))  # wrong: another failure, made by its class


@fx.gen
def guards_not(number: int | None) -> Gen[int, DbFault]:
    yield from fx.some(number, DbFault())
    return number  # wrong: the value of the guard is the one that is there
