"""Containers of `returns` that do not fit."""

from __future__ import annotations

from returns.future import FutureResult
from returns.io import IOResult
from returns.maybe import Maybe
from returns.result import Result, Success

from fxai import Effect, fx
from tests.typing.desk import DATABASE, Database, Lost, rows

read = rows(1).provide(DATABASE)

fx.lift(1)  # wrong: a bare value
fx.lift("text")  # wrong: a bare value
fx.lift(lambda: Success(1))  # wrong: a function
surely: Effect[list[int]] = fx.lift(fx.run_result(read))  # wrong: it can fail
found: Effect[int] = fx.lift(Maybe.from_value(1))  # wrong: it can be absent
counted: Effect[str, Lost] = fx.lift(fx.run_result(read))  # wrong: another success
plain: Result[str, Lost] = fx.run_result(read)  # wrong: another success
effectful: IOResult[list[int], str] = fx.run_io_result(read)  # wrong: another failure
future: FutureResult[list[int], Lost] = fx.to_future_result(rows(1))  # wrong: the database is missing
fx.from_reader(fx.to_reader(read), Database)  # wrong: its environment is a context, and no database
fx.run_result(read).value  # wrong: no such field
fx.is_success(read)  # wrong: an effect is not a result
