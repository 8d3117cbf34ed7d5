"""The development mode, which is on where tests run: an effect that was made and never run is told of, by its line."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any

import pytest

from fxai.effects import EffectOf, Layer, NeverRunWarning, Tag, fx
from fxai.effects.development import ON, is_on, start_test
from tests.kit.journal import Journal

CONSTANT = fx.sync(lambda: 1)


class Box(Tag[object]):
    """A service."""


class Mailer:
    """A service with plain methods that give effects."""

    def send(self, mail: str) -> EffectOf[str, str, None]:
        """The effect of sending."""
        return fx.sync(lambda: mail)

    @fx.gen
    def deliver(self, mail: str) -> Generator[EffectOf[Any, str, None], Any, str]:
        """A program."""
        return (yield from self.send(mail))


mailer: Any = Mailer()  # untyped: the checkers find these mistakes


def _told_of(program: Callable[[], Generator[Any, Any, Any]]) -> list[int]:
    """The lines that were warned of when the program ran, counted from its `def`."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fx.run_exit(fx.gen(program)())
        gc.collect()
    first = inspect.getsourcelines(program)[1]
    assert all(one.category is NeverRunWarning and one.filename == __file__ for one in told)
    return [one.lineno - first for one in told]


def test_a_dropped_effect_is_told_of_by_its_line() -> None:
    """Whatever made it: a function, a program, a constructor, an operator; its parts are not told of besides."""

    def program() -> Generator[Any, Any, None]:
        mailer.send("a")
        mailer.deliver("a")
        fx.fail("a") if mailer else None
        mailer.send("a").map(str).or_die()
        fx.all_(mailer.send("a"), mailer.send("b")) if mailer else None
        yield from mailer.send("ok")

    assert _told_of(program) == [1, 2, 3, 4, 5]


def test_an_effect_that_nothing_reads_is_told_of() -> None:
    """By the line that made it, when the program has ended; a name that begins with `_` says that it is meant."""

    def program() -> Generator[Any, Any, None]:
        sent = mailer.send("a")  # noqa: F841  # pyright: ignore[reportUnusedVariable]
        _ = mailer.send("b")
        yield from mailer.send("ok")

    assert _told_of(program) == [1]


def test_an_effect_that_nothing_reads_is_told_of_before_another_variable_on_its_line() -> None:
    """From 3.13 on, one instruction stores the effect and reads the other one."""

    def program() -> Generator[Any, Any, None]:
        other = mailer.send("ok")
        sent = mailer.send("a"); yield from other  # fmt: skip # noqa: E702, F841  # pyright: ignore[reportUnusedVariable]

    assert _told_of(program) == [2]


def test_an_effect_that_is_taken_for_its_value_is_told_of() -> None:
    """A loop over it, and what it is compared with."""

    def program() -> Generator[Any, Any, list[object]]:
        seen: list[object] = []
        for row in mailer.send("a"):
            seen.append(row)  # noqa: PERF402
        seen.append(mailer.send("a") == "a")
        yield from mailer.send("ok")
        return seen

    assert _told_of(program) == [2, 4]


@pytest.mark.parametrize(
    "iterate",
    [
        lambda: [*mailer.send("a")],
        lambda: [one for one in mailer.send("a")],  # noqa: C416
        lambda: {one: 1 for one in mailer.send("a")},  # noqa: C420
        lambda: next(one for one in mailer.send("a")),
    ],
)
def test_an_iterated_effect_has_a_warning(iterate: Callable[[], Any]) -> None:
    """A display, a comprehension, and a generator expression iterate an effect."""
    with pytest.warns(NeverRunWarning, match="an effect is not its items"):
        iterate()


def test_an_unpacked_effect_has_a_warning() -> None:
    """An assignment to several names iterates an effect."""
    with pytest.warns(NeverRunWarning, match="an effect is not its items"):
        _first, *_rest = mailer.send("a")


@pytest.mark.slow
def test_of_very_many_effects_only_some_are_watched() -> None:
    """A place is told of when it is first wrong; the millionth effect of a test costs next to nothing."""

    def program() -> Generator[Any, Any, None]:
        for _ in range(20_000):
            yield from fx.succeed(1)
        for _ in range(64):
            mailer.send("a")

    start_test()
    assert set(_told_of(program)) == {4}
    start_test()
    assert len(_told_of(program)) < 64


def test_a_plain_function_is_told_of_too() -> None:
    """The handler of a tool that forgets to give back its effect."""

    def handle() -> str:
        mailer.send("a")
        return "sent"

    def program() -> Generator[Any, Any, str]:
        return (yield from fx.sync(handle))

    with pytest.warns(NeverRunWarning, match="dropped here"):
        fx.run_sync(fx.gen(program)())


def _hold_effects(mail: str) -> None:
    held: list[Any] = [mailer.send(mail)]
    assert held


def test_the_end_of_a_function_drops_its_effects_without_a_warning() -> None:
    """The statement of the caller still runs while the end of the function frees its variables."""
    options = {"mail": "a"}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        _hold_effects(**options)  # with `**`, the frame of the caller is the current frame at that time
        gc.collect()

    assert found == []


def test_effects_that_wait_are_not_told_of() -> None:
    """Constants, parts of others, those of branches that are not taken, of layers and of handlers that nobody calls."""

    def program() -> Generator[Any, Any, Any]:
        one, two = mailer.send("a"), mailer.send("b")
        yield from fx.all_(one, two)
        yield from CONSTANT
        fallback = mailer.send("c")
        if not one.result:
            yield from fallback
        kept = mailer.send("d")
        layer = Layer.effect(Box, kept)
        yield from fx.succeed(1).provide(layer)
        yield from fx.fail("x").and_then(mailer.send("e")).result()
        yield from fx.race(fx.succeed(1), mailer.send("f"))
        yield from fx.for_each([1, 2], mailer.send)
        waiting = [mailer.send("g")]
        waiting.pop()
        known: Any = {}
        yield from known.get("x", mailer.send("h")).map(str).timeout(1)
        return (yield from fx.fail("failed").or_else(mailer.deliver("i")).ensuring(Journal().note("end")))

    assert _told_of(program) == []


def test_it_is_on_by_the_environment_and_under_pytest() -> None:
    """`FXAI_DEBUG` decides; where it is not set, whether pytest runs this."""
    assert ON
    assert [is_on({"FXAI_DEBUG": value}, {}) for value in ("1", "true", "0", "")] == [True, True, False, False]
    assert is_on({"PYTEST_VERSION": "8"}, {"pytest": pytest})
    assert not is_on({"PYTEST_VERSION": "8", "FXAI_DEBUG": "0"}, {"pytest": pytest})


def test_it_is_on_in_the_development_mode_of_python() -> None:
    """`python -X dev` turns it on, unless `FXAI_DEBUG` is `0`."""
    assert is_on({}, {}, dev_mode=True)
    assert not is_on({}, {})
    assert not is_on({"FXAI_DEBUG": "0"}, {}, dev_mode=True)
    assert not is_on({"PYTEST_VERSION": "8"}, {})
    assert not is_on({}, {"pytest": pytest})
