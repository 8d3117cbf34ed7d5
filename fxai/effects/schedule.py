"""Schedules, which decide how often and when an effect runs again. Use them with `retry` and `repeat`.

>>> from fxai.effects import fx
>>> tries: list[int] = []
>>> failing = fx.sync(lambda: tries.append(1)).and_then(fx.fail("no"))
>>> flaky = fx.suspend(lambda: fx.succeed("ok") if len(tries) == 2 else failing)
>>> fx.run_sync(flaky.retry(Schedule.recurs(5)))
'ok'
>>> Schedule.exponential(0.1).capped(1).up_to(30) & Schedule.recurs(6)
Schedule(exponential(0.1, 2).capped(1).up_to(30) & recurs(6))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, cast, final, runtime_checkable

import msgspec
from typing_extensions import TypeVar

from fxai.effects.cause import Succeeded
from fxai.effects.effect import Ask, Await, EffectOf, FailCause, Gen, Generate
from fxai.effects.service import Clock

if TYPE_CHECKING:
    _A = TypeVar("_A")
    _E = TypeVar("_E")
    _R = TypeVar("_R")
    _In2 = TypeVar("_In2")
    _Out = TypeVar("_Out")
    _Out2 = TypeVar("_Out2")

_In_contra = TypeVar("_In_contra", contravariant=True, default=object)
_Out_co = TypeVar("_Out_co", covariant=True, default=object)


@runtime_checkable
class Retryable(Protocol):
    """A failure that states whether another attempt can help, and the seconds to wait first."""

    @property
    def is_retryable(self) -> bool:
        """True if another attempt can help. If it is False, `retry` stops immediately."""
        ...

    @property
    def retry_after(self) -> float | None:
        """The minimum number of seconds to wait. None for no minimum."""


class _Again(msgspec.Struct, frozen=True):
    delay: float
    output: Any


_Step: TypeAlias = "Callable[[float, Any], _Again | None]"  # (seconds since the start, input)


@final
class Schedule(Generic[_In_contra, _Out_co]):
    """A rule that returns a delay and an output for each input, or ends.

    The input is a failure for `retry` and a value for `repeat`. A schedule has no state, so each retry and each repeat
    counts separately.
    """

    __slots__ = ("__label__", "__start__")

    def __init__(self, start: Callable[[], _Step], label: str) -> None:
        self.__start__: Callable[[], _Step] = start
        self.__label__: str = label

    def __repr__(self) -> str:
        return f"Schedule({self.__label__})"

    # -- constructors

    @staticmethod
    def recurs(times: int) -> Schedule[object, int]:
        """Return a schedule that continues at most `times` times, without delay. Its output is the count so far."""
        return _delays(lambda: repeat(0.0, times), f"recurs({times})")

    @staticmethod
    def forever() -> Schedule[object, int]:
        """Return a schedule that never ends and never waits."""
        return _delays(lambda: repeat(0.0), "forever()")

    @staticmethod
    def spaced(seconds: float) -> Schedule[object, int]:
        """Return a schedule that never ends and waits `seconds` after each run."""
        return _delays(lambda: repeat(seconds), f"spaced({seconds})")

    @staticmethod
    def fixed(seconds: float) -> Schedule[object, int]:
        """Return an endless schedule with runs at multiples of `seconds` after the start. It skips missed runs."""
        if seconds <= 0:
            return Schedule.forever()

        def start() -> _Step:
            numbers = count(1)
            ticks = [0]  # the last tick; it counts as passed even if a clock wakes the program early

            def step(elapsed: float, _: object) -> _Again:
                ticks[0] = max(ticks[0], int(elapsed / seconds)) + 1
                return _Again(ticks[0] * seconds - elapsed, next(numbers))

            return step

        return Schedule(start, f"fixed({seconds})")

    @staticmethod
    def exponential(seconds: float, factor: float = 2) -> Schedule[object, int]:
        """Return an endless schedule. The first delay is `seconds`. `factor` multiplies each further delay."""
        return _delays(lambda: _growing(float(seconds), factor), f"exponential({seconds}, {factor})")

    @staticmethod
    def linear(seconds: float) -> Schedule[object, int]:
        """Return an endless schedule with the delays `seconds`, `2 * seconds`, `3 * seconds`, and so on."""
        return _delays(lambda: (seconds * n for n in count(1)), f"linear({seconds})")

    @staticmethod
    def delays(seconds: Iterable[float]) -> Schedule[object, int]:
        """Return a schedule that continues once for each delay in `seconds`."""
        given = tuple(seconds)
        return _delays(lambda: iter(given), f"delays({given})")

    # -- combinators

    def __and__(self: Schedule[_In2, _Out], other: Schedule[_In2, _Out2]) -> Schedule[_In2, tuple[_Out, _Out2]]:
        """Return a schedule that continues while both schedules continue, after the longer delay."""
        return _join(self, other, "&", lambda a, b: a and b and _Again(max(a.delay, b.delay), (a.output, b.output)))

    def __or__(
        self: Schedule[_In2, _Out], other: Schedule[_In2, _Out2]
    ) -> Schedule[_In2, tuple[_Out | None, _Out2 | None]]:
        """Return a schedule that continues while either schedule continues, after the shorter delay.

        The output of an ended schedule is None.
        """

        def either(a: _Again | None, b: _Again | None) -> _Again | None:
            alive = [x for x in (a, b) if x is not None]
            outputs = (a.output if a else None, b.output if b else None)
            return _Again(min(x.delay for x in alive), outputs) if alive else None

        return _join(self, other, "|", either)

    def and_then(self: Schedule[_In2, _Out], other: Schedule[_In2, _Out2]) -> Schedule[_In2, _Out | _Out2]:
        """Return a schedule that follows this schedule until it ends, then follows `other`."""

        def start() -> _Step:
            steps = [self.__start__(), other.__start__()]

            def step(elapsed: float, given: Any) -> _Again | None:
                while steps:
                    again = steps[0](elapsed, given)
                    if again is not None:
                        return again
                    steps.pop(0)
                return None

            return step

        return Schedule(start, f"{self.__label__}.and_then({other.__label__})")

    def map(self, f: Callable[[_Out_co], _Out]) -> Schedule[_In_contra, _Out]:
        """Return the schedule with `f` applied to its output."""
        return _each(self, lambda again, _, __: _Again(again.delay, f(again.output)), "map(…)")

    def modify_delay(self, f: Callable[[float], float]) -> Schedule[_In_contra, _Out_co]:
        """Return the schedule with `f` applied to its delays in seconds."""
        return _each(self, lambda again, _, __: _Again(f(again.delay), again.output), "modify_delay(…)")

    def capped(self, seconds: float) -> Schedule[_In_contra, _Out_co]:
        """Return the schedule with each delay limited to `seconds`."""
        return _each(self, lambda again, _, __: _Again(min(again.delay, seconds), again.output), f"capped({seconds})")

    def jittered(self, low: float = 0.8, high: float = 1.2) -> Schedule[_In_contra, _Out_co]:
        """Return the schedule with each delay multiplied by a random number from `low` to `high`."""
        import random  # slow to import, and few schedules are jittered

        def spread(again: _Again, _: float, __: object) -> _Again:
            return _Again(again.delay * random.uniform(low, high), again.output)

        return _each(self, spread, f"jittered({low}, {high})")

    def up_to(self, seconds: float) -> Schedule[_In_contra, _Out_co]:
        """Return the schedule that ends `seconds` after its start."""
        return _each(self, lambda again, elapsed, _: again if elapsed < seconds else None, f"up_to({seconds})")

    def while_input(self, holds: Callable[[_In2], bool]) -> Schedule[_In2, _Out_co]:
        """Return the schedule that ends at the first input for which `holds` is false."""
        changed = _each(self, lambda again, _, given: again if holds(given) else None, "while_input(…)")
        return cast("Schedule[_In2, _Out_co]", changed)

    def until_input(self, holds: Callable[[_In2], bool]) -> Schedule[_In2, _Out_co]:
        """Return the schedule that ends at the first input for which `holds` is true."""
        return self.while_input(lambda given: not holds(given))

    # -- use: `effect.retry(schedule)` and `effect.repeat(schedule)`

    def __fx_input__(self, x: _In_contra, /) -> None:
        """Declare the type of the input to the checkers."""
        raise NotImplementedError

    def retrying(self, effect: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E, _R]:
        """Return `effect.retry(self)`."""

        def loop() -> Gen[_A, _E, _R]:
            step, started = self.__start__(), (yield from _MONOTONIC)
            while True:
                end = yield from effect.exit()
                if isinstance(end, Succeeded):
                    return end.value
                error = next(iter(end.cause.failures), None)
                again = None
                if end.cause.failures and not end.cause.defects and getattr(error, "is_retryable", True):
                    again = step((yield from _MONOTONIC) - started, error)
                if again is None:
                    yield from FailCause(end.cause)
                else:
                    yield from _pause(max(again.delay, getattr(error, "retry_after", None) or 0.0))

        return Generate(loop, (), {})

    def repeating(self, effect: EffectOf[_A, _E, _R]) -> EffectOf[_A, _E, _R]:
        """Return `effect.repeat(self)`."""

        def loop() -> Gen[_A, _E, _R]:
            step, started = self.__start__(), (yield from _MONOTONIC)
            while True:
                value = yield from effect
                again = step((yield from _MONOTONIC) - started, value)
                if again is None:
                    return value
                yield from _pause(again.delay)

        return Generate(loop, (), {})


_MONOTONIC: EffectOf[float] = Ask(lambda context: context.fetch(Clock).monotonic())


def _pause(seconds: float) -> EffectOf[None]:
    return _NO_PAUSE if seconds <= 0 else Await(lambda fiber: fiber.clock().sleep(seconds))


_NO_PAUSE: EffectOf[None] = Ask(lambda _: None)


def _growing(delay: float, factor: float) -> Iterator[float]:
    while True:
        yield delay
        delay *= factor  # grows to infinity, and a cap still limits infinity; a power would overflow


def _delays(delays: Callable[[], Iterator[float]], label: str) -> Schedule[object, int]:
    def start() -> _Step:
        numbered = enumerate(delays(), 1)

        def step(_: float, __: object) -> _Again | None:
            following = next(numbered, None)
            return None if following is None else _Again(following[1], following[0])

        return step

    return Schedule(start, label)


def _join(
    schedule: Schedule[Any, Any], other: Schedule[Any, Any], sign: str, f: Callable[[Any, Any], Any]
) -> Schedule[Any, Any]:
    def start() -> _Step:
        one, two = schedule.__start__(), other.__start__()
        return lambda elapsed, given: f(one(elapsed, given), two(elapsed, given))

    return Schedule(start, f"{_part(schedule, sign)} {sign} {_part(other, sign)}")


def _part(schedule: Schedule[Any, Any], sign: str) -> str:
    """Return the label for use in a label that `sign` joins."""
    joined = " & " in schedule.__label__ or " | " in schedule.__label__
    return f"({schedule.__label__})" if joined and f" {sign} " not in schedule.__label__ else schedule.__label__


def _each(
    schedule: Schedule[_In_contra, Any], f: Callable[[_Again, float, Any], _Again | None], label: str
) -> Schedule[_In_contra, Any]:
    def start() -> _Step:
        inner = [schedule.__start__()]  # empty after the end

        def step(elapsed: float, given: Any) -> _Again | None:
            again = inner[0](elapsed, given) if inner else None
            changed = None if again is None else f(again, elapsed, given)
            if changed is None:
                inner.clear()
            return changed

        return step

    joined = " & " in schedule.__label__ or " | " in schedule.__label__
    return Schedule(start, f"({schedule.__label__}).{label}" if joined else f"{schedule.__label__}.{label}")
