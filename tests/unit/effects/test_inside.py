"""Children where no event loop runs: one after another, each with context variables of its own, as deep as you like."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import reduce
from typing import Any, TypeAlias

import pytest

from fxai.effects import EffectOf, fx
from fxai.tools import Tool, Toolkit
from tests.kit.calls import count_calls
from tests.kit.every import every
from tests.kit.journal import Journal, boom, ending_of

Program: TypeAlias = EffectOf[Any, Any, Any]

AROUND: dict[str, Callable[[Program], Program]] = {
    "for_each": lambda e: fx.for_each([1], lambda _: e, concurrency=None),
    "two of three": lambda e: fx.for_each([1, 2, 3], lambda n: e if n == 2 else fx.succeed(n), concurrency=2),
    "all": lambda e: fx.all_(fx.succeed(1), e).map(lambda both: both[1]),
    "race": lambda e: fx.race(e, fx.sync(boom)),
    "timeout": lambda e: e.timeout(60),
    "fork": lambda e: fx.scoped(fx.fork(e).flat_map(lambda handle: handle.join())),
}


def nested(around: Callable[[Program], Program], depth: int, last: Program) -> Program:
    """`last`, inside of as many operators."""
    return reduce(lambda program, _: around(program), range(depth), last)


@pytest.mark.slow
@every("around", AROUND.values(), ids=AROUND)
def test_concurrent_operators_nest_as_deep_as_memory_allows(around: Callable[[Program], Program]) -> None:
    """Without an event loop, as with one: no stack grows with them, and what is innermost is run, once."""
    journal = Journal()

    fx.run_sync(nested(around, 2000, journal.note("innermost")))

    assert journal.lines == ["innermost"]


@every("around", AROUND.values(), ids=AROUND)
def test_what_ends_the_innermost_ends_all(around: Callable[[Program], Program]) -> None:
    """A defect passes through each of them; what waits is refused, and says what to use."""
    assert "defect" in ending_of(fx.run_sync(nested(around, 300, fx.sync(boom)).exit()))
    with pytest.raises(RuntimeError, match=r"Use fx\.run"):
        fx.run_sync(nested(around, 300, fx.sleep(0)))


@pytest.mark.slow
@every("around", AROUND.values(), ids=AROUND)
def test_the_price_of_depth_is_linear(around: Callable[[Program], Program]) -> None:
    """Four times as deep is about four times as many calls."""
    shallow, deep = (_calls(nested(around, depth, fx.succeed(None))) for depth in (100, 400))

    assert deep < shallow * 5


def _calls(program: Program) -> int:
    fx.run_sync(program)  # what is made once for each function is made
    with count_calls(lambda event, _: event in ("call", "c_call")) as count:
        fx.run_sync(program)
    return count.calls


VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="outside")


def test_each_child_has_context_variables_of_its_own() -> None:
    """It sees what its parent set before, and what it sets itself is gone with it."""
    seen: list[str] = []

    def within(name: str, then: Program) -> Program:
        looks = fx.sync(lambda: seen.append(f"{name} in {VARIABLE.get()}"))
        sets = fx.sync(lambda: VARIABLE.set(name)).as_(None)
        return looks.and_then(sets).and_then(then).and_then(looks)

    inner = fx.all_(within("a", fx.succeed(None)), within("b", fx.succeed(None)))
    fx.run_sync(fx.for_each([1], lambda _: within("outer", inner), concurrency=None))

    assert seen == ["outer in outside", "a in outer", "a in a", "b in outer", "b in b", "outer in outer"]
    assert VARIABLE.get() == "outside"


def test_a_keyboard_interrupt_of_a_child_leaves_when_finalizers_have_run() -> None:
    """As itself, through everything around it; no sibling is begun."""
    journal = Journal()

    def press() -> None:
        raise KeyboardInterrupt

    pressed = nested(lambda e: fx.all_(e, journal.note("sibling")), 50, fx.sync(press))

    with pytest.raises(KeyboardInterrupt):
        fx.run_sync(pressed.ensuring(journal.note("released")))
    assert journal.lines == ["released"]


def test_a_predicate_that_asks_in_children_needs_no_event_loop() -> None:
    """Whether a call needs approval is an effect inside of the call's own."""
    deep = nested(AROUND["all"], 1000, fx.succeed(False))
    tool = Tool.make("pay", parameters=int, success=int, needs_approval=lambda _, __: deep)
    kit = Toolkit.make(tool)

    outcome = fx.run_sync(kit.call("pay", 5).provide(tool.handler(lambda amount: fx.succeed(amount))))  # noqa: PLW0108

    assert outcome.result == 5
