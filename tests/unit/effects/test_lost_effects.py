"""An effect that is the value of another effect is refused where nothing would run it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from fxai.effects import Backend, Layer, Stream, fx, runtime, stream_steps

NOT_RUN = re.escape("the program returned an effect that was not run. Write `return (yield from effect)`")


def _programs(lost: Callable[[], Any]) -> dict[str, Any]:
    """Programs with a place for an effect, by the name of that place. `lost()` gives an effect that gives an effect."""
    one = fx.succeed(1)
    numbers = Stream.from_iterable([1, 2])
    return {
        "acquire_release": fx.scoped(fx.acquire_release(one, lambda _: lost())),
        "add_finalizer": fx.scoped(fx.add_finalizer(lambda _: lost())),
        "ensuring": one.ensuring(lost()),
        "on_exit": one.on_exit(lambda _: lost()),
        "tap": one.tap(lambda _: lost()),
        "as_": lost().as_(2),
        "and_then": lost().and_then(one),
        "Stream.drain": Stream.from_effect(lost()).drain(),
        "Stream.tap": numbers.tap(lambda _: lost()).drain(),
        "Stream.for_each": numbers.for_each(lambda _: lost()),
        "Stream.ensuring": numbers.ensuring(lost()).drain(),
        "Stream.on_exit": numbers.on_exit(lambda _: lost()).drain(),
        "Stream.emitting": Stream.emitting(lambda _: lost()).drain(),
        "stream_steps": stream_steps(lambda _: lost()).drain(),
        "the end of a run": lost(),
    }


LOST: dict[str, Callable[[Any], Any]] = {
    "sync": lambda inner: fx.sync(lambda: inner),
    "map": lambda inner: fx.succeed(1).map(lambda _: inner),
    "succeed": fx.succeed,
}


@pytest.mark.parametrize("form", LOST)
@pytest.mark.parametrize("location", _programs(lambda: fx.succeed(None)))
def test_a_lost_effect_is_a_type_error(location: str, form: str, backend: Backend) -> None:
    """The error says how to write it, and the lost effect does not run."""
    ran: list[str] = []
    program = _programs(lambda: LOST[form](fx.sync(lambda: ran.append("inner"))))[location]

    with pytest.raises(TypeError, match=NOT_RUN):
        fx.run(program, backend=backend)
    assert ran == []


@pytest.mark.parametrize("location", _programs(lambda: fx.succeed(None)))
def test_a_value_may_be_lost(location: str, backend: Backend) -> None:
    """Other values are discarded, and what was to run has run."""
    ran: list[str] = []
    program = _programs(lambda: fx.sync(lambda: ran.append("once")))[location]

    fx.run(program, backend=backend)

    assert set(ran) == {"once"}


def test_a_lost_finalizer_stands_beside_the_failure_of_the_program() -> None:
    """The failure of the program is kept."""
    lost: Any = fx.succeed(1).map(fx.succeed)

    end: Any = fx.run_exit(fx.fail("broken").ensuring(lost))

    assert end.cause.failures == ("broken",)
    assert [type(reason.defect) for reason in end.cause.reasons[1:]] == [TypeError]


@pytest.mark.parametrize("method", ["run", "run_exit", "run_result"])
def test_a_runtime_refuses_a_program_that_gives_an_effect(method: str, backend: Backend) -> None:
    """Each way to run a program refuses it."""

    async def main() -> None:
        async with runtime(Layer.empty()) as services:
            with pytest.raises(TypeError, match=NOT_RUN):
                await getattr(services, method)(fx.succeed(1).map(fx.succeed))
            with pytest.raises(TypeError, match=NOT_RUN):
                await fx.run_async_exit(fx.succeed(1).map(fx.succeed))

    anyio.run(main, backend=backend)
