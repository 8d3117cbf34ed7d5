"""Effects: combinators and what they promise of failures, defects and interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, cast, get_args, get_origin

import pytest
from returns.result import Failure, Success

from fxai.effects import (
    Backend,
    Cause,
    Context,
    Die,
    Effect,
    EffectOf,
    Fail,
    Failed,
    Gen,
    Interrupt,
    Stream,
    Succeeded,
    Tag,
    Timeout,
    fx,
)
from tests.kit.every import every
from tests.kit.journal import Journal, Lost, boom, ending_of

Program: TypeAlias = EffectOf[Any, Any, None]


class Name(Tag[str]):
    """A key of a text."""


interrupted: Effect[int] = fx.fail_cause(Cause((Interrupt(),)))


def exit_of(effect: EffectOf[Any, Any, None]) -> Any:
    """How an effect that awaits nothing ended."""
    return fx.run_sync(effect.exit())


def test_nothing_happens_until_an_effect_is_run_and_each_run_is_its_own() -> None:
    """An effect is a description: building does nothing, running twice does it twice."""
    journal = Journal()
    effect = journal.note("ran").and_then(fx.succeed(1))

    assert journal.lines == []
    assert [fx.run_sync(effect), fx.run_sync(effect)] == [1, 1]
    assert journal.lines == ["ran", "ran"]


def test_values_pass_through_map_flat_map_and_tap() -> None:
    """Each combinator of success gives the value that it names."""
    three = fx.succeed(3)
    journal = Journal()

    assert fx.run_sync(three.map(str)) == "3"
    assert fx.run_sync(three.as_("x")) == "x"
    assert fx.run_sync(three.flat_map(lambda n: fx.succeed(n + 1))) == 4
    assert fx.run_sync(three.and_then(fx.succeed(5))) == 5
    assert fx.run_sync(three.tap(lambda n: journal.note(f"saw {n}"))) == 3
    assert journal.lines == ["saw 3"]
    assert fx.run_sync(three.pipe(lambda effect: effect.map(lambda n: -n))) == -3


COMBINED: list[Callable[[Program], Program]] = [
    lambda e: e.map(lambda _: 0),
    lambda e: e.as_(0),
    lambda e: e.flat_map(lambda _: fx.succeed(0)),
    lambda e: e.and_then(fx.succeed(0)),
    lambda e: e.tap(lambda _: fx.succeed(0)),
    lambda e: e.ensuring(fx.succeed(0)),
    lambda e: e.uninterruptible(),
    lambda e: e.delay(0),
    fx.scoped,
]


@every(
    "combined",
    COMBINED,
)
@every("reason", [Fail(Lost()), Die(ValueError("bug")), Interrupt()], ids=["fail", "die", "interrupt"])
def test_combinators_of_success_pass_every_cause(
    combined: Callable[[Program], Program], reason: Any, backend: Backend
) -> None:
    """A cause goes through what is for values, unchanged."""
    cause: Cause[Any] = Cause((reason,))

    assert fx.run_exit(combined(fx.fail_cause(cause)), backend=backend) == Failed(cause)


@every(
    ("effect", "kind"),
    [
        (fx.fail(Lost()), "failure"),
        (fx.die(ValueError()), "defect"),
        (fx.sync(boom), "defect"),
        (fx.suspend(lambda: fx.succeed(boom())), "defect"),
        (fx.succeed(1).map(lambda _: boom()), "defect"),
        (fx.succeed(1).flat_map(lambda _: fx.succeed(boom())), "defect"),
        (fx.succeed(1).tap(lambda _: fx.succeed(boom())), "defect"),
        (fx.fail(1).map_error(lambda _: boom()), "defect"),
        (fx.fail(1).catch_all(lambda _: fx.succeed(boom())), "defect"),
        (fx.fail(1).match(lambda _: boom(), lambda _: 0), "defect"),
        (fx.attempt(boom, ValueError), "defect"),
        (fx.attempt(boom, ZeroDivisionError), "failure"),
        (interrupted, "interruption"),
    ],
)
def test_what_a_user_function_raises_is_a_defect(effect: EffectOf[Any, Any, None], kind: str) -> None:
    """Only declared failures are typed; everything else that is raised is a defect."""
    assert ending_of(exit_of(effect)) == kind


def test_typed_failures_are_handled_and_nothing_else_is() -> None:
    """`map_error`, `catch_all`, `or_else`, `match`, `result` and `or_die` see typed failures only."""
    handlers: list[Callable[[Program], Program]] = [
        lambda e: e.map_error(str),
        lambda e: e.catch_all(fx.succeed),
        lambda e: e.or_else(fx.succeed(0)),
        lambda e: e.match(str, str),
        lambda e: e.result(),
        lambda e: e.or_die(),
        fx.maybe,
    ]

    for handle in handlers:
        for reason in (Die(ValueError("bug")), Interrupt()):
            cause: Cause[Any] = Cause((reason,))
            assert exit_of(handle(fx.fail_cause(cause))) == Failed(cause)


def test_failure_combinators_give_what_they_name() -> None:
    """On a typed failure each gives the value or the failure that it says."""
    failed: Effect[int, int] = fx.fail(1)

    assert exit_of(failed.map_error(str)) == Failed(Cause((Fail("1"),)))
    assert fx.run_sync(failed.catch_all(lambda n: fx.succeed(n + 1))) == 2
    assert fx.run_sync(failed.or_else(fx.succeed(5))) == 5
    assert fx.run_sync(failed.match(lambda n: -n, lambda n: n)) == -1
    assert fx.run_sync(fx.succeed(3).match(lambda _: 0, lambda n: n + 1)) == 4
    assert fx.run_sync(failed.result()) == Failure(1)
    assert fx.run_sync(fx.succeed(3).result()) == Success(3)


def test_success_passes_what_is_for_failures() -> None:
    """A value goes through every combinator of failure, unchanged."""
    three: Effect[int, int] = fx.succeed(3)

    assert fx.run_sync(three.map_error(str)) == 3
    assert fx.run_sync(three.catch_all(lambda _: fx.succeed(0))) == 3
    assert fx.run_sync(three.catch_cause(lambda _: fx.succeed(0))) == 3
    assert fx.run_sync(three.or_else(fx.succeed(0))) == 3
    assert fx.run_sync(three.or_die()) == 3


def test_or_die_makes_a_defect_that_is_the_failure() -> None:
    """An exception stays itself; another value is carried by a `FailureError`."""
    error = ValueError("declared")
    died = exit_of(fx.fail(error).or_die())

    assert died.cause.reasons == (Die(error),)
    assert ending_of(exit_of(fx.fail(Lost()).or_die())) == "defect"


def test_every_cause_is_seen_by_catch_cause_and_exit() -> None:
    """Defects and an interruption from inside are values there."""
    bug = ValueError("bug")

    assert fx.run_sync(fx.die(bug).catch_cause(lambda c: fx.succeed(c.defects))) == (bug,)
    assert fx.run_sync(interrupted.catch_cause(lambda c: fx.succeed(c.interrupted))) is True
    assert fx.run_sync(fx.die(bug).exit()) == Failed(Cause((Die(bug),)))
    assert fx.run_sync(fx.succeed(1).exit()) == Succeeded(1)


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        (fx.succeed(1), "success"),
        (fx.fail(Lost()), "failure"),
        (fx.sync(boom), "defect"),
        (interrupted, "interruption"),
    ],
)
def test_a_finalizer_is_told_how_it_ended_exactly_once(effect: EffectOf[Any, Any, None], kind: str) -> None:
    """`on_exit` runs once, whichever way the effect ended, and leaves the end as it is."""
    journal = Journal()
    before = exit_of(effect)

    assert ending_of(exit_of(effect.on_exit(journal.ends).ensuring(journal.note("after")))) == ending_of(before)
    assert journal.lines == [kind, "after"]


def test_a_failing_finalizer_is_kept_beside_the_failure() -> None:
    """Both reasons are in the cause, the first one first; after a success the finalizer's stands alone."""
    failing = fx.sync(boom)

    assert ending_of(exit_of(fx.fail(Lost()).ensuring(failing))) == "failure and defect"
    assert ending_of(exit_of(fx.succeed(1).ensuring(failing))) == "defect"
    assert ending_of(exit_of(fx.fail(Lost()).on_exit(lambda _: fx.succeed(boom())))) == "failure and defect"


def test_finalizers_run_from_the_inside_out() -> None:
    """The innermost finalizer runs first, each although another failed."""
    journal = Journal()
    effect = fx.fail(Lost()).ensuring(journal.note("a")).ensuring(fx.sync(boom)).ensuring(journal.note("b"))

    assert ending_of(exit_of(effect)) == "failure and defect"
    assert journal.lines == ["a", "b"]


def test_a_timeout_is_a_typed_failure_after_the_finalizers(backend: Backend) -> None:
    """The effect is interrupted, its finalizers run, and `Timeout` says how long it was given."""
    journal = Journal()
    slow = fx.never().on_exit(lambda e: fx.sleep(0.001).and_then(journal.ends(e)))

    ended = fx.run_exit(slow.timeout(0.005), backend=backend)

    assert ended == Failed(Cause((Fail(Timeout(0.005)),)))
    assert journal.lines == ["interruption"]


def test_a_timeout_keeps_what_its_finalizers_failed_with(backend: Backend) -> None:
    """A defect in a finalizer of what was timed out stands beside the `Timeout`."""
    ended = fx.run_exit(fx.never().ensuring(fx.sync(boom)).timeout(0.005), backend=backend)

    assert ending_of(ended) == "failure and defect"


def test_what_ends_in_time_is_not_timed_out(backend: Backend) -> None:
    """Value, failure and defect pass a timeout."""
    assert fx.run(fx.succeed(1).timeout(60), backend=backend) == 1
    assert ending_of(fx.run_exit(fx.fail(Lost()).timeout(60), backend=backend)) == "failure"
    assert ending_of(fx.run_exit(fx.sleep(0).and_then(fx.sync(boom)).timeout(60), backend=backend)) == "defect"


def test_a_timeout_holds_inside_an_uninterruptible_effect_and_not_across_one(backend: Backend) -> None:
    """A timeout within is obeyed; one around waits for what may not be interrupted."""
    journal = Journal()
    inside = fx.never().timeout(0.005).result().uninterruptible()
    across = fx.sleep(0.02).and_then(journal.note("whole")).uninterruptible().timeout(0.001)

    assert fx.run(inside, backend=backend) == Failure(Timeout(0.005))
    fx.run_exit(across, backend=backend)
    assert journal.lines == ["whole"]


def test_services_that_exist_are_provided_by_a_context() -> None:
    """`provide_context` adds services for this effect alone."""
    name = fx.service(Name)
    both = fx.all_(name.provide_context(Context.make(Name, "inner")), name)

    assert fx.run_sync(both.provide_context(Context.make(Name, "outer"))) == ("inner", "outer")


def test_the_context_is_what_it_was_after_a_failure() -> None:
    """A failing effect with services of its own leaves the context around as it was."""
    failing = fx.fail(1).provide_context(Context.make(Name, "inner"))
    after = failing.catch_all(lambda _: fx.service(Name)).provide_context(Context.make(Name, "outer"))

    assert fx.run_sync(after) == "outer"


def test_an_exception_class_chooses_what_attempt_calls_a_failure() -> None:
    """`attempt` types one class of exceptions, or what its function names; others are defects."""
    parsed = fx.attempt(lambda: int("x"), ValueError)
    named = fx.attempt(lambda: int("x"), lambda error: Lost(str(error)) if isinstance(error, ValueError) else None)
    other = fx.attempt(lambda: int("x"), OSError)

    assert [ending_of(exit_of(effect)) for effect in (parsed, named, other)] == ["failure", "failure", "defect"]
    assert fx.run_sync(fx.attempt(lambda: int("3"), ValueError)) == 3


def test_attempt_async_types_what_its_function_names(backend: Backend) -> None:
    """The value that the function gives is the failure; None leaves the exception a defect."""

    async def lost() -> int:
        raise OSError("gone")

    typed = fx.attempt_async(lost, lambda error: Lost(str(error)))
    untyped = fx.attempt_async(lost, lambda _: cast("Lost | None", None))

    assert fx.run_result(typed, backend=backend) == Failure(Lost("gone"))
    assert ending_of(fx.run_exit(untyped, backend=backend)) == "defect"


def test_a_class_chooses_what_attempt_async_calls_a_failure(backend: Backend) -> None:
    """An exception of the class is the failure, itself, and is not wrapped; another one is a defect."""
    gone = OSError("gone")

    async def lost() -> int:
        raise gone

    assert fx.run_result(fx.attempt_async(lost, OSError), backend=backend) == Failure(gone)
    assert ending_of(fx.run_exit(fx.attempt_async(lost, ValueError), backend=backend)) == "defect"


def test_work_in_a_thread_gives_its_value_or_its_failure(backend: Backend) -> None:
    """`in_thread` runs elsewhere; what it raises is a defect, or the failure that a class or a function names."""
    here = threading.get_ident()

    assert fx.run(fx.in_thread(threading.get_ident), backend=backend) != here
    assert ending_of(fx.run_exit(fx.in_thread(boom), backend=backend)) == "defect"
    assert ending_of(fx.run_exit(fx.in_thread(lambda: int("x"), ValueError), backend=backend)) == "failure"
    assert fx.run_result(fx.in_thread(lambda: int("x"), lambda e: Lost(type(e).__name__)), backend=backend) == Failure(
        Lost("ValueError")
    )


def test_waiting_gives_the_value_and_what_is_raised_is_a_defect(backend: Backend) -> None:
    """`wait` awaits a coroutine made anew for each run."""

    async def seven() -> int:
        return 7

    async def broken() -> int:
        return int(boom())

    effect = fx.wait(seven)

    assert [fx.run(effect, backend=backend), fx.run(effect, backend=backend)] == [7, 7]
    assert ending_of(fx.run_exit(fx.wait(broken), backend=backend)) == "defect"


@every("hint", [Effect, Stream, Gen])
def test_a_hint_keeps_its_types_at_run_time(hint: Any) -> None:
    """A hint accepts any number of types, because those with defaults can be missing."""
    assert get_origin(hint[int, Lost]) is hint
    assert get_args(hint[int, Lost]) == (int, Lost)
    assert get_args(hint[int]) == (int,)
