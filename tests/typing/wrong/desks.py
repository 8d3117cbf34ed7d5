"""Mistakes of a program of ten tools and three services: handlers, layers, effects and streams."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, Never, NewType

import msgspec
from returns.result import Failure, Result, Success

from fxai import (
    Effect,
    Gen,
    HandlerOf,
    Layer,
    Ref,
    Service,
    Stream,
    Tag,
    Timeout,
    Tool,
    Toolkit,
    fx,
)
from fxai.testing import ScriptedModel, text

UserId = NewType("UserId", str)
Cents = NewType("Cents", int)


class A(msgspec.Struct, frozen=True):
    a: int


class B(msgspec.Struct, frozen=True):
    b: str


class C(msgspec.Struct, frozen=True):
    c: float


class E1(msgspec.Struct, frozen=True, tag=True):
    why: str


class E2(msgspec.Struct, frozen=True, tag=True):
    code: int


class Db(Service):
    @abstractmethod
    def get(self, n: int) -> Effect[A, E1]: ...

    @abstractmethod
    def has(self, n: int) -> Effect[bool]: ...

    @abstractmethod
    async def ping(self) -> bool: ...


class Bus(Service):
    @abstractmethod
    def put(self, a: A) -> Effect[None, E2]: ...


class Key(Tag[str]): ...


class MyDb(Db):
    def get(self, n: int) -> Effect[A, E1]:
        return fx.succeed(A(n))

    def has(self, n: int) -> Effect[bool]:
        return fx.succeed(True)

    async def ping(self) -> bool:
        return True


class MyBus(Bus):
    def put(self, a: A) -> Effect[None, E2]:
        return fx.succeed(None)


db = Layer.succeed(Db, MyDb())
bus = Layer.succeed(Bus, MyBus())
key = Layer.succeed(Key, "k")
model = ScriptedModel.make([text("x")]).layer

t1 = Tool.make("t1", parameters=A, success=int)
t2 = Tool.make("t2", parameters=A, success=str)
t3 = Tool.make("t3", parameters=A, success=float, failure=E1)
t4 = Tool.make("t4", parameters=B, success=int, failure=E1 | E2)
t5 = Tool.make("t5", parameters=B, success=int | None)
t6 = Tool.make("t6", parameters=B, success=list[A])
t7 = Tool.make("t7", parameters=C, success=dict[str, A])
t8 = Tool.make("t8", parameters=C, success=Literal["x", "y"])
t9 = Tool.make("t9", parameters=C, success=Cents)
t10 = Tool.make("t10", parameters=UserId, success=bytes)


def h1(a: A) -> Result[int, Never]:
    return Success(1)


def h2(a: A) -> Result[str, Never]:
    return Success("")


def h3(a: A) -> Gen[float, E1, Db]:
    db = yield from Db
    got = yield from db.get(a.a)
    return got.a / 2


def h4(b: B) -> Gen[int, E1 | E2, Db | Bus]:
    db = yield from Db
    bus = yield from Bus
    got = yield from db.get(1)
    yield from bus.put(got)
    return 1


def h5(b: B) -> Result[int | None, Never]:
    return Success(None)


def h6(b: B) -> Effect[list[A]]:
    return fx.succeed([A(1)])


async def h7(c: C) -> Result[dict[str, A], Never]:
    return Success({"x": A(1)})


def h8(c: C) -> Result[Literal["x", "y"], Never]:
    return Success("x")


def h9(c: C) -> Result[Cents, Never]:
    return Success(Cents(1))


def h10(u: UserId) -> Stream[bytes]:
    return Stream.make(b"")


l1, l2, l3, l4, l5, l6, l7, l8, l9, l10 = (
    t1.handler(h1),
    t2.handler(h2),
    t3.handler(h3),
    t4.handler(h4),
    t5.handler(h5),
    t6.handler(h6),
    t7.handler(h7),
    t8.handler(h8),
    t9.handler(h9),
    t10.handler(h10),
)
ten = Toolkit.make(t1, t2, t3, t4, t5, t6, t7, t8, t9, t10)
live = ten.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6, l7, l8, l9, l10))

# missing
w1 = ten.to_layer(Layer.merge_all(l1, l2, l3, l4, l5, l6, l7, l8, l9))  # wrong: t10
w2 = ten.to_layer(l1 | l2 | l3 | l4 | l5 | l6 | l7 | l8 | l10)  # wrong: t9
w3 = fx.run(ten.call("t1", {}).provide(live))  # wrong: db, bus
w4 = fx.run(ten.call("t1", {}).provide(live).provide(db))  # wrong: bus
w5 = fx.run(ten.call("t1", {}).provide(live | db | bus))  # wrong: not fed
w6 = fx.run(ten.call("t1", {}).provide(Layer.merge_all(live, db, bus)))  # wrong: not fed
w7 = ten.pick("t1").to_layer(l1)  # wrong: typed all
w8 = ten.omit("t1").to_layer(Layer.merge_all(l2, l3, l4, l5, l6, l7, l8, l9))  # wrong: t10 (and t1)
w9 = fx.run(ten.pick("t3").call("t3", {}).provide(live))  # wrong: services
w10 = fx.run(ten.filter(lambda t: t.name == "t1").call("t1", {}).provide(l1))  # wrong: all
w11 = Toolkit.make(t1, t2).merge(Toolkit.make(t3)).to_layer(l1 | l2)  # wrong: t3
w12 = fx.run(t1.call(A(1)).provide(l2))  # wrong: other
w13 = fx.run(t3.call(A(1)).provide(l3))  # wrong: db
w14: int = fx.run(t2.call(A(1)).provide(l2))  # wrong: str
w15 = t1.call(B(""))  # wrong: parameters
w16 = t10.call("u")  # wrong: a plain string is not a UserId
w17 = t5.call(B("")).map(lambda n: n + 1)  # wrong: None
w18 = t8.call(C(1)).map(lambda s: s.bit_length())  # wrong: text
w19: Effect[int, E1, HandlerOf[B, int, E1 | E2]] = t4.call(B(""))  # wrong: E2

# handlers


def o1(c: C) -> Result[Literal["z"], Never]:
    return Success("z")


def o2(c: C) -> Result[int, Never]:
    return Success(1)


def o3(b: B) -> Result[int, E1]:
    return Success(1)


def o4(u: str) -> Stream[str]:
    return Stream.make("")


def o5(b: B) -> Gen[int, E1 | E2 | Timeout, Db]:
    yield from fx.service(Db).timeout(1)
    return 1


async def o6(b: B) -> int | None:
    return None


def o7(b: B) -> list[A]:
    return []


def o8(b: B, c: C) -> Result[list[A], Never]:
    return Success([])


class M:
    def wrong(self, b: B) -> Result[list[B], Never]:
        return Success([])

    def right(self, b: B) -> Result[list[A], Never]:
        return Success([])

    @staticmethod
    def static(a: A) -> Result[list[A], Never]:
        return Success([])


w20 = t8.handler(o1)  # wrong: another literal
w21 = t9.handler(o2)  # wrong: int for NewType
w22 = t10.handler(o4)  # wrong: str for bytes
w23 = t4.handler(o5)  # wrong: Timeout
w24 = t5.handler(o6)  # wrong: bare, awaited
w25 = t6.handler(o7)  # wrong: bare
w26 = t6.handler(o8)  # wrong: second parameter
w27 = t6.handler(M.right)  # wrong: not bound
w28 = t6.handler(M().wrong)  # wrong: success
w29 = t6.handler(M.static)  # wrong: parameter
w30 = t6.handler(M)  # wrong: a class
w31 = t6.handler(lambda b: [A(1)])  # wrong: bare
w32 = t5.handler(lambda b: Success("x"))  # wrong: success
w33 = t3.handler(lambda a: fx.fail(E2(1)))  # wrong: failure
w34 = t3.handler(lambda a: Failure("x"))  # wrong: failure
w35 = t1.handler(lambda: Success(1))  # wrong: no parameters
w36 = t1.handler(lambda a: Success(a.b))  # wrong: no such field
w37 = t1.handler(fx.succeed(1))  # wrong: an effect
w38 = t1.handler(h1(A(1)))  # wrong: called


@t1.handler  # wrong: success
def o9(a: A) -> Result[str, Never]:
    return Success("")


# services
w40 = Layer.succeed(Db, MyDb)  # wrong: class
w41 = Layer.succeed(Db, MyBus())  # wrong: it does not fit
w42 = Layer.effect(Db, fx.service(Bus))  # wrong: it does not fit
w43 = Layer.sync(Key, lambda: 3)  # wrong: it does not fit
w44: Layer[Db] = Layer.effect(Db, fx.service(Bus).as_(MyDb()))  # wrong: needs Bus
w45: Layer[Db | Bus] = db  # wrong: it does not fit
w46: Layer[Db | Bus | Key] = db | bus  # wrong: it does not fit
w47 = fx.run(fx.all_(fx.service(Db), fx.service(Bus)).provide(db | key))  # wrong: Bus
w48: Effect[tuple[Db, Bus], Never, Db] = fx.all_(fx.service(Db), fx.service(Bus))  # wrong: Bus
w49: Effect[list[Db]] = fx.collect([fx.service(Db)])  # wrong: it does not fit
w50 = fx.run(fx.for_each([1], lambda _: fx.service(Db)))  # wrong: it does not fit
w51 = fx.run(fx.race(fx.service(Db), fx.service(Bus)).provide(db))  # wrong: it does not fit
w52 = fx.run(fx.service(Db).and_then(fx.service(Bus)).provide(db))  # wrong: it does not fit
w53 = fx.run(fx.succeed(1).tap(lambda _: fx.service(Db)))  # wrong: it does not fit
w54 = fx.run(fx.succeed(1).flat_map(lambda _: fx.service(Db)))  # wrong: it does not fit
w55 = fx.run(fx.fail(E1("")).catch_all(lambda _: fx.service(Db)))  # wrong: it does not fit
w56 = fx.run(fx.fail(E1("")).or_else(fx.service(Db)))  # wrong: it does not fit
w57 = fx.run(fx.succeed(1).ensuring(fx.service(Db)))  # wrong: it does not fit
w58 = fx.run(fx.succeed(1).on_exit(lambda _: fx.service(Db)))  # wrong: it does not fit
w59 = fx.run(fx.scoped(fx.fork(fx.service(Db))))  # wrong: it does not fit
w60 = fx.run(fx.fork(fx.succeed(1)))  # wrong: Scope
w61 = fx.run(fx.service(Db).timeout(1).provide(bus))  # wrong: it does not fit
w62 = fx.service(Db).map(lambda d: d.gett(1))  # wrong: misspelt
w63 = fx.service(Db).flat_map(lambda d: d.ping())  # wrong: a coroutine is not an effect
w64 = fx.run(Stream.from_effect(fx.service(Db)).collect())  # wrong: it does not fit
w65 = fx.run(Stream.make(1).map_effect(lambda _: fx.service(Db)).collect())  # wrong: Bus
w66 = fx.run(Stream.make(1).for_each(lambda _: fx.service(Db)))  # wrong: it does not fit
w67 = Stream.make(1).map_effect(lambda n: n)  # wrong: no effect
w68 = fx.runn(fx.succeed(1))  # wrong: it does not fit
w69 = fx.succeed(1).flatmap(lambda n: fx.succeed(n))  # wrong: it does not fit
w70 = fx.succeed(1).flat_map(lambda n: n)  # wrong: it does not fit
w71 = fx.gen(h1)  # wrong: no generator
w72 = fx.for_each(3, lambda n: fx.succeed(n))  # wrong: it does not fit
w73 = fx.all_([fx.succeed(1), fx.succeed(2)])  # wrong: a list
w75 = fx.succeed(1).retry(3)  # wrong: it does not fit
w76 = fx.succeed(1).timeout("3")  # wrong: it does not fit
w77 = fx.succeed(1).provide(MyDb())  # wrong: it does not fit
w78 = fx.succeed(1).provide(Db)  # wrong: it does not fit
w79 = fx.some(None)  # wrong: no failure
w80 = Ref.of(0).update(lambda n: "x")  # wrong: it does not fit
