"""What the tests of tools, models and agents share: a few tools, and handlers for them."""

from __future__ import annotations

from typing import Any, Never

import msgspec
from returns.result import Failure, Result, Success

from fxai.effects import Backend, EffectOf, Exit, Fail, Failed, fx
from fxai.tools import Outcome, Tool, Toolkit

__all__ = [
    "Sum",
    "TooBig",
    "add",
    "add_kit",
    "defect_of",
    "double",
    "failure_of",
    "giving",
    "on_add",
    "on_double",
    "outcome_of",
]


class Sum(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int


class TooBig(msgspec.Struct, frozen=True):
    """The sum is beyond what can be said."""

    limit: int


add = Tool.make("add", parameters=Sum, success=int)
double = Tool.make("double", parameters=Sum, success=int, failure=TooBig)
add_kit = Toolkit.make(add)


def on_add(p: Sum) -> Result[int, Never]:
    """The sum."""
    return Success(p.a + p.b)


def on_double(p: Sum) -> Result[int, TooBig]:
    """Twice the sum, below 10."""
    total = 2 * (p.a + p.b)
    return Success(total) if total < 10 else Failure(TooBig(10))


def outcome_of(program: EffectOf[Outcome, Any, None], backend: Backend = "asyncio") -> Outcome:
    """The outcome of a call that does not fail."""
    return fx.run(program, backend=backend)


def failure_of(program: EffectOf[Any, Any, None], backend: Backend = "asyncio") -> Any:
    """The first typed failure of a program that fails."""
    ended: Exit[Any, Any] = fx.run_exit(program, backend=backend)
    assert isinstance(ended, Failed), ended
    first = ended.cause.reasons[0]
    assert isinstance(first, Fail), ended
    return first.error


def defect_of(program: EffectOf[Any, Any, None], backend: Backend = "asyncio") -> BaseException:
    """The one defect of a program that breaks, and that ends for no other reason."""
    ended: Exit[Any, Any] = fx.run_exit(program, backend=backend)
    assert isinstance(ended, Failed), ended
    (defect,) = ended.cause.defects
    assert not ended.cause.failures
    return defect


def giving(value: object) -> Any:
    """A handler that always returns `value`."""

    def handler(_: object) -> Any:
        return value

    return handler
