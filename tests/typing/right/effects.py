"""What the checkers infer of effects: the success, the failures and the services, exactly."""

from __future__ import annotations

from typing import Any, Never, assert_type

from returns.result import Result, Success

from fxai.effects import (
    Cause,
    Context,
    ContextOf,
    Die,
    Effect,
    EffectOf,
    Exit,
    Fail,
    Failed,
    FiberHandle,
    Gen,
    Interrupt,
    LayerOf,
    Scope,
    Succeeded,
    Timeout,
    fx,
)
from tests.typing.world import (
    API_KEY,
    CFG,
    CLOCK,
    DB,
    LOG,
    ApiKey,
    Clock,
    Db,
    DbFault,
    Log,
    LogFault,
    MyDb,
    MyLog,
    NetFault,
    asks_key,
    asks_time,
    four,
    logs,
    reads,
    report,
)

# --- services join, failures join
assert_type(reads, EffectOf[list[str], DbFault, Db | None])
assert_type(asks_key, EffectOf[str, Never, ApiKey | None])
assert_type(four, EffectOf[str, DbFault | LogFault, Db | Log | Clock | ApiKey | None])
assert_type(reads.and_then(logs), EffectOf[None, DbFault | LogFault, Db | Log | None])
assert_type(reads.tap(lambda _: logs), EffectOf[list[str], DbFault | LogFault, Db | Log | None])
assert_type(reads.as_(1), EffectOf[int, DbFault, Db | None])

# --- a layer takes away exactly what it supplies, in any order and number
assert_type(DB, LayerOf[Db, Never, None])
assert_type(four.provide(DB), EffectOf[str, DbFault | LogFault, Log | Clock | ApiKey | None])
assert_type(four.provide(DB).provide(LOG), EffectOf[str, DbFault | LogFault, Clock | ApiKey | None])
assert_type(four.provide(LOG).provide(DB), EffectOf[str, DbFault | LogFault, Clock | ApiKey | None])
assert_type(four.provide(DB | LOG), EffectOf[str, DbFault | LogFault, Clock | ApiKey | None])
assert_type(four.provide(DB | LOG | CLOCK | API_KEY), EffectOf[str, DbFault | LogFault, None])
assert_type(four.provide(CFG), EffectOf[str, DbFault | LogFault, Db | Log | Clock | ApiKey | None])
done = four.provide(DB).provide(LOG).provide(CLOCK).provide(API_KEY)
assert_type(done, EffectOf[str, DbFault | LogFault, None])
assert_type(fx.run(done), str)
assert_type(fx.run_exit(done), Exit[str, DbFault | LogFault])
assert_type(fx.run_result(done), Result[str, DbFault | LogFault])
assert_type(fx.run(four.provide(DB | LOG | CLOCK | API_KEY)), str)
assert_type(list(map(fx.run, [done])), list[str])
wider: list[object] = fx.run(fx.succeed([1]))


def declared() -> Effect[int, DbFault, Db | Log | Clock]:
    return fx.succeed(1)


assert_type(declared().provide(DB), EffectOf[int, DbFault, Log | Clock | None])


def in_parameter(raw: EffectOf[int, DbFault, Db | Log | Clock]) -> None:
    assert_type(raw.provide(DB), EffectOf[int, DbFault, Log | Clock | None])


def in_order(effect: Effect[int, DbFault, Db | Log]) -> Effect[int, DbFault]:
    return effect.provide(LOG).provide(DB)


# --- generators
@fx.gen
def several(sql: str) -> Gen[int, DbFault | LogFault | NetFault, Db | Log | ApiKey]:
    db = yield from Db
    assert_type(db, Db)
    key = yield from fx.service(ApiKey)
    assert_type(key, str)
    rows = yield from db.query(sql)
    assert_type(rows, list[str])
    number = yield from fx.lift(Success(1))
    assert_type(number, int)
    text = yield from report(sql, copies=2)
    assert_type(text, str)
    return number + len(rows) + len(key)


assert_type(report("q"), EffectOf[str, DbFault | LogFault | NetFault, Db | Log | ApiKey | None])


@fx.gen
def needs_nothing(n: int) -> Gen[int]:
    return (yield from fx.succeed(n))


assert_type(needs_nothing(1), EffectOf[int, Never, None])
fx.run(needs_nothing(1))


class Holder:
    """Methods can be generators too."""

    @fx.gen
    def rows(self, sql: str) -> Gen[list[str], DbFault, Db]:
        db = yield from Db
        return (yield from db.query(sql))


assert_type(Holder().rows("x"), EffectOf[list[str], DbFault, Db | None])


# --- a guard that narrows
def found(name: str) -> Db | None:
    return MyDb(name) if name else None


@fx.gen
def guarded(name: str, number: int | None) -> Gen[int, DbFault | LogFault | str]:
    db = yield from fx.some(found(name), DbFault())
    assert_type(db, Db)
    n = yield from fx.some(number, LogFault)
    assert_type(n, int)
    m = yield from fx.some(number, lambda: "none")
    assert_type(m, int)
    if number is None:
        return (yield from fx.fail("none"))
    assert_type(number, int)
    return n + m + number


assert_type(fx.some(found("x"), DbFault()), EffectOf[Db, DbFault, None])
assert_type(fx.some(found("x"), DbFault), EffectOf[Db, DbFault, None])
assert_type(fx.some(found("x"), lambda: "none"), EffectOf[Db, str, None])
assert_type(reads.flat_map(lambda _: fx.some(found("x"), LogFault())), EffectOf[Db, DbFault | LogFault, Db | None])


# --- failures
def three() -> Effect[int, DbFault | LogFault | NetFault, Db]:
    return fx.succeed(1)


def on_db(fault: DbFault) -> Effect[str]:
    return fx.succeed(f"{fault.code}")


failing = three()
assert_type(
    failing.catch_all(lambda e: on_db(e) if isinstance(e, DbFault) else fx.fail(e)),
    EffectOf[int | str, LogFault | NetFault, Db | None],
)
assert_type(failing.match(lambda e: str(e), lambda a: a), EffectOf[str | int, Never, Db | None])
assert_type(failing.result(), EffectOf[Result[int, DbFault | LogFault | NetFault], Never, Db | None])
assert_type(failing.exit(), EffectOf[Exit[int, DbFault | LogFault | NetFault], Never, Db | None])
assert_type(failing.map_error(lambda e: str(e)), EffectOf[int, str, Db | None])
assert_type(failing.or_die(), EffectOf[int, Never, Db | None])
assert_type(failing.or_else(asks_time), EffectOf[int | float, Never, Db | Clock | None])
assert_type(failing.timeout(1), EffectOf[int, DbFault | LogFault | NetFault | Timeout, Db | None])
assert_type(failing.delay(1), EffectOf[int, DbFault | LogFault | NetFault, Db | None])
assert_type(failing.uninterruptible(), EffectOf[int, DbFault | LogFault | NetFault, Db | None])
assert_type(failing.ensuring(asks_time), EffectOf[int, DbFault | LogFault | NetFault, Db | Clock | None])
assert_type(failing.on_exit(lambda _: asks_key), EffectOf[int, DbFault | LogFault | NetFault, Db | ApiKey | None])
assert_type(fx.attempt(lambda: int("1"), ValueError), EffectOf[int, ValueError, None])


def every_exit(exit_: Exit[int, DbFault | LogFault]) -> str:
    match exit_:
        case Succeeded(value):
            assert_type(value, int)
            return "ok"
        case Failed(Cause(reasons)):
            for reason in reasons:
                match reason:
                    case Fail(error):
                        assert_type(error, DbFault | LogFault)
                    case Die(defect):
                        assert_type(defect, BaseException)
                    case Interrupt():
                        return "interrupted"
            return "failed"


# --- side by side
assert_type(fx.all_(reads, logs), EffectOf[tuple[list[str], None], DbFault | LogFault, Db | Log | None])
assert_type(fx.all_(asks_time, asks_key), EffectOf[tuple[float, str], Never, Clock | ApiKey | None])
assert_type(
    fx.all_(asks_time, asks_key, reads), EffectOf[tuple[float, str, list[str]], DbFault, Clock | ApiKey | Db | None]
)
assert_type(fx.for_each([1, 2], needs_nothing, concurrency=2), EffectOf[list[int], Never, None])
assert_type(fx.collect([reads, reads]), EffectOf[list[list[str]], DbFault, Db | None])
assert_type(fx.race(asks_time, asks_key), EffectOf[float | str, Never, Clock | ApiKey | None])
assert_type(fx.race(reads, logs), EffectOf[list[str] | None, DbFault | LogFault, Db | Log | None])


@fx.gen
def forked() -> Gen[list[str], DbFault, Db | Scope]:
    fiber = yield from fx.fork(reads)
    assert_type(fiber, FiberHandle[list[str], DbFault])
    yield from fiber.interrupt()
    ended = yield from fiber.exit()
    assert_type(ended, Exit[list[str], DbFault])
    return (yield from fiber.join())


assert_type(fx.scoped(forked()), EffectOf[list[str], DbFault, Db | None])
fx.run(fx.scoped(forked()).provide(DB))

# --- contexts
context: Context[Db | Log] = ContextOf.make(Db, MyDb("")).add(Log, MyLog())
assert_type(ContextOf.get(context, Db), Db)
assert_type(reads.provide_context(context), EffectOf[list[str], DbFault, None])
smaller: Context[Db] = context


# --- helpers of one's own
def twice(effect: EffectOf[Any, DbFault, Db | None]) -> Effect[Any, DbFault, Db]:
    return effect.and_then(effect)


assert_type(reads.pipe(twice), EffectOf[Any, DbFault, Db | None])
