"""What the checkers infer of references, schedules, and clocks."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import Effect, Ref, Schedule, Timeout
from fxai.effects import EffectOf
from fxai.testing import TestClock
from tests.typing.desk import DATABASE, Database, Lost, rows

cell = Ref.of(0)
assert_type(cell, Ref[int])
assert_type(cell.get(), EffectOf[int, Never, None])
assert_type(cell.modify(lambda n: (str(n), n + 1)), EffectOf[str, Never, None])
assert_type(
    cell.modify_effect(lambda n: rows(n).map(lambda found: (found, n))), EffectOf[list[int], Lost, Database | None]
)
maybe: Ref[int | None] = Ref.of(None)


def is_lost(error: Lost) -> bool:
    return error.number == 0


read = rows(1).retry(Schedule.exponential(0.1).capped(2).jittered().while_input(is_lost))
assert_type(read, EffectOf[list[int], Lost, Database | None])
assert_type(read.timeout(3), EffectOf[list[int], Lost | Timeout, Database | None])
late: Effect[list[int], Lost] = read.delay(1).provide(DATABASE)
assert_type(TestClock().run(late), list[int])
