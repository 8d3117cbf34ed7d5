"""What the checkers infer where a service is asked for in the middle of something else."""

from __future__ import annotations

from typing import Never, Self, assert_type

from fxai.effects import ClassKey, ContextOf, Effect, EffectOf, Gen, Layer, LayerOf, Reference, Tag, fx
from tests.typing.world import DB, LOG, ApiKey, Db, DbFault, Log, MyDb, MyLog, reads


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
