"""References, schedules, and clocks that are used as something else."""

from __future__ import annotations

from fxai import Effect, Ref, Schedule, fx
from fxai.testing import TestClock
from tests.typing.desk import DATABASE, Lost, Offline, rows

cell = Ref.of(0)
read = rows(1).provide(DATABASE)


def is_offline(error: Offline) -> bool:
    return True


fx.run(cell.set("a"))  # wrong: another type of value
fx.run(cell.update(str))  # wrong: another type of value
fx.run(cell.update(lambda n: fx.succeed(n + 1)))  # wrong: an effect for a value
fx.run(cell.modify(lambda n: n + 1))  # wrong: a result and a value
fx.run(cell.modify_effect(lambda n: (n, n)))  # wrong: it must give an effect
text: str = fx.run(cell.get())  # wrong: another type of value
cell.get() + 1  # wrong: an effect is not its value
cell.value  # wrong: no such field
fx.run(Ref.make(0).get())  # wrong: the reference is in an effect
named: Ref[str] = Ref.of(1)  # wrong: another type of value
fx.run(read.retry(3))  # wrong: a number is not a schedule
fx.run(read.retry(Schedule.recurs))  # wrong: a function that was not called
fx.run(read.retry(Schedule.recurs("3")))  # wrong: a string is not a number
fx.run(read.retry(Schedule.recurs(3).while_input(lambda _: fx.succeed(True))))  # wrong: an effect for a bool
fx.run(read.retry(Schedule.recurs(3).while_input(is_offline)))  # wrong: a predicate of another failure
Schedule.spaced("1s")  # wrong: seconds are a number
Schedule.spaced(1).and_then(3)  # wrong: a number is not a schedule
Schedule.spaced(1).modify_delay(lambda seconds: fx.succeed(seconds))  # wrong: an effect for a number
Schedule.delays(1)  # wrong: one number for many
fx.run(fx.sleep("1"))  # wrong: seconds are a number
surely: Effect[int] = fx.succeed(1).timeout(1)  # wrong: it may fail with `Timeout`
TestClock().run(rows(1))  # wrong: the database is missing
fx.run(rows(1).provide(TestClock().layer))  # wrong: a clock is not a database
later: Effect[list[int], Lost] = rows(1).delay(1)  # wrong: the database is missing
