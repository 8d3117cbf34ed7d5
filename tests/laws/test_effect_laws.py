"""Laws of effects: functor, monad, error channel, and runs that agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import Backend, Cause, Effect, EffectOf, Exit, Gen, Interrupt, fx
from tests.kit.trials import examples

Log: TypeAlias = list[str]
Maker: TypeAlias = Callable[[Log], EffectOf[int, str, None]]
Arrow: TypeAlias = Callable[[Log], Callable[[Any], EffectOf[int, str, None]]]

BUG = ValueError("one bug, so that causes compare")
NUMBERS = st.integers(-9, 9)
WORDS = st.sampled_from(["a", "b", "c"])
FUNCTIONS: st.SearchStrategy[Callable[[int], int]] = st.sampled_from([lambda n: n + 1, lambda n: n * 2, lambda n: -n])
RENAMINGS: st.SearchStrategy[Callable[[str], str]] = st.sampled_from([str.upper, lambda e: e + "x", lambda _: "z"])


def noted(log: Log, line: str, effect: EffectOf[int, str, None]) -> EffectOf[int, str, None]:
    """The effect, once a line is written."""
    return fx.sync(lambda: log.append(line)).and_then(effect)


def leaf(kind: str, number: int, word: str) -> Maker:
    """One of the ways an effect can end, with a trace that it ran."""
    ends: dict[str, EffectOf[int, str, None]] = {
        "succeed": fx.succeed(number),
        "sync": fx.sync(lambda: number),
        "fail": fx.fail(word),
        "die": fx.die(BUG),
        "interrupt": fx.fail_cause(cast("Cause[str]", Cause((Interrupt(),)))),
        "wait": fx.checkpoint().as_(number),
    }
    return lambda log: noted(log, f"{kind} {number} {word}", ends[kind])


LEAVES = st.builds(leaf, st.sampled_from(["succeed", "sync", "fail", "die", "interrupt", "wait"]), NUMBERS, WORDS)


def grown(inner: st.SearchStrategy[Maker]) -> st.SearchStrategy[Maker]:
    """Effects made of effects."""

    def joined(kind: str, one: Maker, two: Maker) -> Maker:
        joins: dict[str, Callable[[Log], EffectOf[int, str, None]]] = {
            "then": lambda log: one(log).and_then(two(log)),
            "caught": lambda log: one(log).catch_all(lambda _: two(log)),
            "ensured": lambda log: one(log).ensuring(two(log).exit()),
            "masked": lambda log: one(log).uninterruptible(),
            "scoped": lambda log: fx.scoped(fx.acquire_release(one(log), lambda _: two(log).exit())),
            "sum": lambda log: one(log).flat_map(lambda a: two(log).map(lambda b: a + b)),
        }
        return joins[kind]

    kinds = st.sampled_from(["then", "caught", "ensured", "masked", "scoped", "sum"])
    return st.builds(joined, kinds, inner, inner)


MAKERS = st.recursive(LEAVES, grown, max_leaves=5)


@st.composite
def arrows(draw: st.DrawFn) -> Arrow:
    """Functions from values to effects."""
    then = draw(MAKERS)
    f = draw(FUNCTIONS)

    def arrow(log: Log) -> Callable[[Any], EffectOf[int, str, None]]:
        def go(value: Any) -> EffectOf[int, str, None]:
            shift = f(value) if isinstance(value, int) else len(value)
            return then(log).map(lambda n: n + shift)

        return go

    return arrow


def outcome(make: Callable[[Log], EffectOf[Any, Any, None]]) -> tuple[Exit[Any, Any], Log]:
    """How an effect ends, and what it did on the way."""
    log: Log = []
    return fx.run_sync(make(log).exit()), log


def same(one: Callable[[Log], EffectOf[Any, Any, None]], two: Callable[[Log], EffectOf[Any, Any, None]]) -> bool:
    """Whether two effects do and give the same."""
    return outcome(one) == outcome(two)


@given(MAKERS)
def test_mapping_the_identity_changes_nothing(make: Maker) -> None:
    """Functor: identity."""
    assert same(lambda log: make(log).map(lambda x: x), make)


@given(MAKERS, FUNCTIONS, FUNCTIONS)
def test_mapping_twice_is_mapping_once(make: Maker, f: Callable[[int], int], g: Callable[[int], int]) -> None:
    """Functor: composition."""
    assert same(lambda log: make(log).map(f).map(g), lambda log: make(log).map(lambda x: g(f(x))))


@given(NUMBERS, arrows())
def test_succeed_is_the_left_identity_of_flat_map(number: int, arrow: Arrow) -> None:
    """Monad: left identity."""
    assert same(lambda log: fx.succeed(number).flat_map(arrow(log)), lambda log: arrow(log)(number))


@given(MAKERS)
def test_succeed_is_the_right_identity_of_flat_map(make: Maker) -> None:
    """Monad: right identity."""
    assert same(lambda log: make(log).flat_map(fx.succeed), make)


@given(MAKERS, arrows(), arrows())
def test_flat_map_is_associative(make: Maker, f: Arrow, g: Arrow) -> None:
    """Monad: associativity."""
    assert same(
        lambda log: make(log).flat_map(f(log)).flat_map(g(log)),
        lambda log: make(log).flat_map(lambda a: f(log)(a).flat_map(g(log))),
    )


@given(MAKERS, FUNCTIONS)
def test_map_is_flat_map_with_succeed(make: Maker, f: Callable[[int], int]) -> None:
    """The functor is that of the monad."""
    assert same(lambda log: make(log).map(f), lambda log: make(log).flat_map(lambda a: fx.succeed(f(a))))


@given(MAKERS, MAKERS)
def test_and_then_as_and_tap_are_flat_map(make: Maker, other: Maker) -> None:
    """Each is what its name says, by `flat_map`."""
    assert same(lambda log: make(log).and_then(other(log)), lambda log: make(log).flat_map(lambda _: other(log)))
    assert same(lambda log: make(log).as_(7), lambda log: make(log).map(lambda _: 7))
    assert same(
        lambda log: make(log).tap(lambda _: other(log)),
        lambda log: make(log).flat_map(lambda a: other(log).map(lambda _: a)),
    )


@given(MAKERS)
def test_catching_with_fail_changes_nothing(make: Maker) -> None:
    """Error channel: right identity; a cause of several failures keeps the first."""
    (exit_, log), (caught, caught_log) = outcome(make), outcome(lambda log: make(log).catch_all(fx.fail))

    assert log == caught_log
    assert cast("Any", exit_).__class__ is cast("Any", caught).__class__
    reasons = getattr(getattr(exit_, "cause", None), "reasons", ())
    assert len(reasons) > 1 or exit_ == caught


@given(WORDS, arrows())
def test_fail_is_the_left_identity_of_catch_all(word: str, arrow: Arrow) -> None:
    """Error channel: left identity."""
    assert same(lambda log: fx.fail(word).catch_all(arrow(log)), lambda log: arrow(log)(word))


@given(MAKERS, arrows(), arrows())
def test_catch_all_is_associative(make: Maker, f: Arrow, g: Arrow) -> None:
    """Error channel: associativity."""
    assert same(
        lambda log: make(log).catch_all(f(log)).catch_all(g(log)),
        lambda log: make(log).catch_all(lambda e: f(log)(e).catch_all(g(log))),
    )


@given(MAKERS, RENAMINGS, RENAMINGS)
def test_map_error_is_a_functor(make: Maker, f: Callable[[str], str], g: Callable[[str], str]) -> None:
    """Identity and composition, on failures."""
    assert same(lambda log: make(log).map_error(lambda e: e), make)
    assert same(lambda log: make(log).map_error(f).map_error(g), lambda log: make(log).map_error(lambda e: g(f(e))))


@given(MAKERS, FUNCTIONS, RENAMINGS)
def test_map_and_map_error_do_not_meet(make: Maker, f: Callable[[int], int], g: Callable[[str], str]) -> None:
    """They commute."""
    assert same(lambda log: make(log).map(f).map_error(g), lambda log: make(log).map_error(g).map(f))


@given(WORDS, arrows())
def test_a_failure_skips_what_follows(word: str, arrow: Arrow) -> None:
    """`fail` is a left zero of `flat_map`, `succeed` one of `catch_all`."""
    assert same(lambda log: fx.fail(word).flat_map(arrow(log)), lambda _: fx.fail(word))
    assert same(
        lambda log: cast("Effect[str, str]", fx.succeed(word)).catch_all(arrow(log)), lambda _: fx.succeed(word)
    )


@given(MAKERS)
def test_match_is_map_and_catch(make: Maker) -> None:
    """Both ways made into a value."""
    assert same(
        lambda log: make(log).match(lambda e: ("failure", e), lambda a: ("success", a)),
        lambda log: make(log).map(lambda a: ("success", a)).catch_all(lambda e: fx.succeed(("failure", e))),
    )


@given(MAKERS)
def test_an_exit_can_be_taken_apart_and_put_together(make: Maker) -> None:
    """`exit`, then what the exit says, is the effect itself."""

    def again(exit_: Exit[int, str]) -> EffectOf[int, str, None]:
        cause: Cause[str] | None = getattr(exit_, "cause", None)
        return fx.succeed(cast("Any", exit_).value) if cause is None else fx.fail_cause(cause)

    assert same(lambda log: make(log).exit().flat_map(again), make)


@given(MAKERS)
def test_a_result_lifts_back(make: Maker) -> None:
    """`result`, then `lift`, is catching with `fail`."""
    assert same(
        lambda log: make(log).result().flat_map(fx.lift),
        lambda log: make(log).catch_all(fx.fail),
    )


@given(MAKERS, MAKERS)
def test_finalizers_that_succeed_leave_the_end_as_it_is(make: Maker, finalizer: Maker) -> None:
    """`ensuring` adds what the finalizer does and nothing else; it is `on_exit` without the exit."""
    (exit_, log), (_, added) = outcome(make), outcome(finalizer)

    assert outcome(lambda log: make(log).ensuring(finalizer(log).exit())) == (exit_, log + added)
    assert same(
        lambda log: make(log).ensuring(finalizer(log).exit()),
        lambda log: make(log).on_exit(lambda _: finalizer(log).exit()),
    )


@given(MAKERS)
def test_wrappers_that_do_nothing_do_nothing(make: Maker) -> None:
    """`suspend`, `scoped`, `uninterruptible`, a single `all_` side and a generator around are the effect."""

    @fx.gen
    def stepped(log: Log) -> Gen[int, str]:
        return (yield from make(log))

    @fx.gen
    def guarded(log: Log) -> Gen[int, str]:
        try:
            return (yield from stepped(log))
        finally:
            yield from fx.succeed(None)

    wrapped: list[Callable[[Log], EffectOf[Any, Any, None]]] = [
        lambda log: fx.suspend(lambda: make(log)),
        lambda log: fx.scoped(make(log)),
        lambda log: make(log).uninterruptible(),
        lambda log: fx.all_(make(log), fx.succeed(0)).map(lambda both: both[0]),
        lambda log: fx.collect([make(log)]).map(lambda values: values[0]),
        lambda log: fx.for_each([0], lambda _: make(log), concurrency=None).map(lambda values: values[0]),
        stepped,
        guarded,
    ]

    assert [same(wrap, make) for wrap in wrapped] == [True] * len(wrapped)


@given(st.lists(MAKERS, max_size=4))
def test_a_generator_is_its_steps_by_flat_map(makers: list[Maker]) -> None:
    """`yield from` is `flat_map`."""

    @fx.gen
    def stepped(log: Log) -> Gen[int, str]:
        total = 0
        for make in makers:
            total += yield from make(log)
        return total

    def plus(one: EffectOf[int, str, None], two: EffectOf[int, str, None]) -> EffectOf[int, str, None]:
        return one.flat_map(lambda total: two.map(lambda n: total + n))

    def bound(log: Log) -> EffectOf[int, str, None]:
        effect: EffectOf[int, str, None] = fx.succeed(0)
        for make in makers:
            effect = plus(effect, make(log))
        return effect

    assert same(stepped, bound)


@given(st.lists(NUMBERS, max_size=6), st.integers(1, 4))
def test_concurrency_changes_no_value(numbers: list[int], concurrency: int) -> None:
    """`for_each` gives the same list at any limit."""
    one = fx.run_sync(fx.for_each(numbers, fx.succeed))

    assert fx.run_sync(fx.for_each(numbers, fx.succeed, concurrency=concurrency)) == one == numbers
    assert fx.run_sync(fx.for_each(numbers, fx.succeed, concurrency=None)) == one


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(25))
@given(make=MAKERS)
def test_a_loop_changes_nothing(backend: Backend, make: Maker) -> None:
    """Run without a loop, on asyncio and on trio, an effect does and gives the same."""
    log: Log = []
    exit_ = fx.run_exit(make(log), backend=backend)

    assert (exit_, log) == outcome(make)
