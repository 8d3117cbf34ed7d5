"""What the checkers infer where a service is asked for in the middle of something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never, Self, TypeVar, assert_type

from fxai.effects import (
    ClassKey,
    ContextOf,
    Effect,
    EffectOf,
    Gen,
    Layer,
    LayerOf,
    Reference,
    Scope,
    Stream,
    StreamOf,
    Tag,
    fx,
)
from tests.typing.world import (
    API_KEY,
    CFG,
    CLOCK,
    DB,
    DB_LIVE,
    LOG,
    ApiKey,
    Cfg,
    CfgFault,
    Clock,
    Db,
    DbFault,
    Log,
    LogFault,
    MyDb,
    MyLog,
    four,
    reads,
)


class Pool:
    """A class of another package."""


class Rate(Reference):
    """A service with a default."""

    @classmethod
    def default(cls) -> Self:
        return cls()


class Reader(Tag[Db]):
    """A key whose service is another key's."""


class Limit(Tag[int | None]):
    """A key whose service is a union."""


POOL = ClassKey(Pool)

# --- as an argument of what joins programs
assert_type(fx.all_(fx.service(Db), fx.service(Log)), EffectOf[tuple[Db, Log], Never, Db | Log | None])
assert_type(
    fx.all_(fx.service(Db), fx.service(ApiKey), fx.service(POOL)),
    EffectOf[tuple[Db, str, Pool], Never, Db | ApiKey | Pool | None],
)
assert_type(fx.all_(fx.service(Db), reads), EffectOf[tuple[Db, list[str]], DbFault, Db | None])
assert_type(fx.race(fx.service(Db), fx.service(ApiKey)), EffectOf[Db | str, Never, Db | ApiKey | None])
assert_type(fx.service(Db).and_then(fx.service(Log)), EffectOf[Log, Never, Db | Log | None])
assert_type(reads.and_then(fx.service(ApiKey)), EffectOf[str, DbFault, Db | ApiKey | None])
assert_type(reads.flat_map(lambda _: fx.service(Log)), EffectOf[Log, DbFault, Db | Log | None])
assert_type(fx.fail(1).catch_all(lambda _: fx.service(ApiKey)), EffectOf[str, Never, ApiKey | None])
assert_type(fx.fail(1).or_else(fx.service(ApiKey)), EffectOf[str, Never, ApiKey | None])
assert_type(reads.tap(lambda _: fx.service(Log)), EffectOf[list[str], DbFault, Db | Log | None])
assert_type(reads.ensuring(fx.service(Log)), EffectOf[list[str], DbFault, Db | Log | None])
assert_type(fx.suspend(lambda: fx.service(Log)), EffectOf[Log, Never, Log | None])
assert_type(fx.for_each([1], lambda _: fx.service(Log)), EffectOf[list[Log], Never, Log | None])
assert_type(fx.collect([fx.service(ApiKey), fx.service(ApiKey)]), EffectOf[list[str], Never, ApiKey | None])
assert_type(fx.scoped(fx.service(Db)), EffectOf[Db, Never, Db | None])
assert_type(fx.lift(fx.service(Db)), EffectOf[Db, Never, Db | None])
assert_type(fx.all_(fx.reference(Rate), fx.service(Db)), EffectOf[tuple[Rate, Db], Never, Db | None])
assert_type(fx.service(Limit), EffectOf[int | None, Never, Limit | None])

# --- of a layer
assert_type(Layer.effect(Reader, fx.service(Db)), LayerOf[Reader, Never, Db | None])
assert_type(Layer.scoped(Reader, fx.service(Db)), LayerOf[Reader, Never, Db | None])
assert_type(Layer.effect(ApiKey, fx.service(Log).as_("k")), LayerOf[ApiKey, Never, Log | None])
assert_type(Layer.effect(Reader, fx.service(Db)).provide(DB), LayerOf[Reader, Never, None])
assert_type(fx.service(Db).provide(DB), EffectOf[Db, Never, None])
assert_type(fx.all_(fx.service(Db), fx.service(Log)).provide(DB), EffectOf[tuple[Db, Log], Never, Log | None])
assert_type(fx.run(fx.all_(fx.service(Db), fx.service(Log)).provide(DB | LOG)), tuple[Db, Log])

assert_type(fx.service(Db).provide(Layer.succeed(Db, MyDb("")) | Layer.sync(Log, MyLog)), EffectOf[Db, Never, None])
assert_type(fx.service(Db).provide_context(ContextOf.make(Db, MyDb(""))), EffectOf[Db, Never, None])


# --- where another type is wanted
def returned() -> Effect[Db, DbFault, Db | Log]:
    return fx.service(Db)


def by_lambda() -> Effect[list[str], DbFault, Db]:
    return fx.service(Db).flat_map(lambda db: db.query("x"))


wanted: Effect[Db, DbFault, Db | Log] = fx.service(Db)
either: Effect[Db | Log, Never, Db | Log] = fx.service(Db)


def of_argument(flag: bool) -> Effect[object, Never, Db | Log]:
    return fx.service(Db) if flag else fx.service(Log)


@fx.gen
def in_generator() -> Gen[str, Never, Db | ApiKey]:
    db, key = yield from fx.all_(fx.service(Db), fx.service(ApiKey))
    assert_type(db, Db)
    return key


# --- what a release or a finalizer needs is part of the whole
def say(line: str) -> Effect[None, LogFault, Log]:
    return fx.service(Log).flat_map(lambda log: log.info(line))


def bye(_: object) -> Effect[None, LogFault, Log]:
    return say("bye")


one = fx.acquire_release(fx.succeed(1), lambda n: say(f"{n}"))
assert_type(one, EffectOf[int, Never, Log | Scope | None])
assert_type(fx.acquire_release(fx.service(Db), bye), EffectOf[Db, Never, Db | Log | Scope | None])
assert_type(fx.acquire_release(reads, lambda _: say("x")), EffectOf[list[str], DbFault, Db | Log | Scope | None])
assert_type(fx.acquire_release(reads, lambda _: fx.succeed(None)), EffectOf[list[str], DbFault, Db | Scope | None])
assert_type(fx.scoped(one), EffectOf[int, Never, Log | None])
assert_type(fx.scoped(fx.acquire_release(reads, bye)), EffectOf[list[str], DbFault, Db | Log | None])
assert_type(fx.scoped(fx.acquire_release(fx.service(Db), bye)), EffectOf[Db, Never, Db | Log | None])
assert_type(Layer.scoped(Db, fx.acquire_release(fx.succeed(MyDb("")), bye)), LayerOf[Db, Never, Log | None])
assert_type(
    Layer.scoped(Db, fx.acquire_release(fx.service(Cfg).map(lambda c: MyDb(c.url())), bye)),
    LayerOf[Db, Never, Cfg | Log | None],
)
assert_type(fx.add_finalizer(bye), EffectOf[None, Never, Log | Scope | None])
assert_type(fx.add_finalizer(lambda _: fx.succeed(1)), EffectOf[None, Never, Scope | None])
assert_type(fx.scoped(fx.add_finalizer(bye).and_then(reads)), EffectOf[list[str], DbFault, Db | Log | None])
assert_type(fx.scoped(fx.add_finalizer(bye).and_then(fx.service(Db))), EffectOf[Db, Never, Db | Log | None])


@fx.gen
def opened() -> Gen[MyDb, Never, Log | Cfg | Scope]:
    cfg = yield from Cfg
    yield from fx.add_finalizer(lambda _: say("x"))
    return (yield from fx.acquire_release(fx.sync(lambda: MyDb(cfg.url())), lambda db: say(db.location)))


assert_type(fx.scoped(opened()), EffectOf[MyDb, Never, Log | Cfg | None])
fx.run(fx.scoped(opened()).provide(LOG | CFG))
assert_type(Layer.scoped(Db, opened()), LayerOf[Db, Never, Log | Cfg | None])
three = fx.scoped(fx.acquire_release(four, lambda _: say("x")))
assert_type(three, EffectOf[str, DbFault | LogFault, Db | Log | Clock | ApiKey | None])
rows = Stream.make(1)
assert_type(rows.on_exit(lambda _: say("x").or_die()), StreamOf[int, Never, Log | None])
assert_type(rows.ensuring(say("x").or_die()), StreamOf[int, Never, Log | None])
assert_type(rows.ensuring(fx.succeed(1)), StreamOf[int, Never, None])

# --- generic helpers: `EffectOf` in the parameters, in the result whichever reads better
A = TypeVar("A")
E = TypeVar("E")
R = TypeVar("R")


def twice(effect: EffectOf[A, E, R]) -> Effect[tuple[A, A], E, R]:
    return effect.flat_map(lambda a: effect.map(lambda b: (a, b)))


def logged(effect: EffectOf[A, E, R]) -> EffectOf[A, E | LogFault, R | Log | None]:
    return effect.tap(lambda _: say("done"))


def served(make: Callable[[], EffectOf[A, E, R]]) -> EffectOf[A, E, R]:
    return fx.suspend(make)


assert_type(twice(reads), EffectOf[tuple[list[str], list[str]], DbFault, Db | None])
assert_type(twice(four), EffectOf[tuple[str, str], DbFault | LogFault, Db | Log | Clock | ApiKey | None])
assert_type(twice(fx.service(Db)), EffectOf[tuple[Db, Db], Never, Db | None])
assert_type(twice(four).provide(DB), EffectOf[tuple[str, str], DbFault | LogFault, Log | Clock | ApiKey | None])
assert_type(logged(four), EffectOf[str, DbFault | LogFault, Db | Log | Clock | ApiKey | None])
assert_type(served(lambda: four), EffectOf[str, DbFault | LogFault, Db | Log | Clock | ApiKey | None])
fx.run(twice(four).provide(DB | LOG | CLOCK | API_KEY))


# --- a layer in a generic body is called: `DB(program)` for `program.provide(DB)`
def with_db(program: EffectOf[A, E, Db | R]) -> EffectOf[A, E, R | None]:
    return DB(program)


def with_fed_db(program: Effect[A, E, Db | R]) -> Effect[A, E | CfgFault | LogFault, R | Cfg | Log]:
    return DB_LIVE(program)


assert_type(with_db(four), EffectOf[str, DbFault | LogFault, Log | Clock | ApiKey | None])
assert_type(with_db(reads), EffectOf[list[str], DbFault, None])


# --- each kind of key is asked for by its name in a generator
@fx.gen
def names() -> Gen[str, Never, Db | ApiKey | Pool]:
    assert_type((yield from Db), Db)
    assert_type((yield from POOL), Pool)
    assert_type((yield from Rate), Rate)
    key = yield from ApiKey
    assert_type(key, str)
    return key


assert_type(names(), EffectOf[str, Never, Db | ApiKey | Pool | None])
