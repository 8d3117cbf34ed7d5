"""The line before a rate: who came first is served first, nobody starves, and few look whether there is room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from returns.result import Failure, Result

from fxai.effects import Backend, Effect, EffectOf, Gen, Layer, fx
from fxai.messages import RateLimitError, Usage
from fxai.models import Allowances, LanguageModel, Limit, limit
from fxai.storage.allowance import Claim, Level, LimitExceeded
from fxai.testing import ScriptedModel, TestClock, delay, finish, text
from tests.kit.postgres import POSTGRES, server_of
from tests.kit.trials import examples

RATE = Limit.of("key", tokens=100, seconds=60)


def _nothing(_: object) -> int:
    return 0


def _model(
    allowances: Allowances, *, seconds: float = 0.0, used: int = 100, patience: float = 10_000, rate: Limit = RATE
) -> Layer[LanguageModel]:
    turns = [[delay(seconds), text("Yes."), finish("stop", Usage(0, used))]] * 50
    scripted = ScriptedModel.make(turns).layer
    return limit(scripted, rate, allowances=allowances, patience=patience, estimate=_nothing)


def _ask(tokens: int, ended: list[Any], name: object) -> EffectOf[None, Any, LanguageModel | None]:
    def note(_: object) -> Effect[None]:
        return fx.sync(lambda: ended.append(name))

    return LanguageModel.generate_text("?", max_tokens=tokens).flat_map(note)


class Counted:
    """Counts how often allowances are asked for room."""

    def __init__(self, allowances: Allowances) -> None:
        self.count = 0
        reserve: Any = allowances.reserve

        def counted(*given: Any, **options: Any) -> LimitExceeded | None:
            self.count += 1
            refusal: LimitExceeded | None = reserve(*given, **options)
            return refusal

        setattr(allowances, "reserve", counted)  # noqa: B010  # a method


def test_a_large_request_is_not_passed_by_small_ones(backend: Backend) -> None:
    """They would fit before it, again and again; they come behind it."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        small = _model(allowances, used=10)
        yield from _ask(10, ended, "first").provide(small)
        large = yield from fx.fork(_ask(100, ended, "large").provide(_model(allowances)))
        yield from clock.advance(1)
        others = yield from fx.fork(
            fx.for_each(range(5), lambda n: _ask(10, ended, n).provide(small), concurrency=None)
        )
        for _ in range(40):
            yield from clock.advance(5)
        yield from large.join()
        yield from others.join()

    clock.run(program(), backend=backend)

    assert ended == ["first", "large", 0, 1, 2, 3, 4]


@settings(max_examples=examples(25), deadline=None)
@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_all_are_served_in_the_order_in_which_they_came(sizes: list[int]) -> None:
    """Whatever they want; each of them in the end."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        def ask(at: int) -> Effect[None, Any]:
            return _ask(sizes[at], ended, at).provide(_model(allowances, used=sizes[at]))

        handle = yield from fx.fork(fx.for_each(range(len(sizes)), ask, concurrency=None))
        for _ in range(len(sizes)):
            yield from clock.advance(62)
        yield from handle.join()

    clock.run(program())

    assert ended == list(range(len(sizes)))


@pytest.mark.parametrize("kind", ["process", "sqlite"])
def test_only_the_first_in_line_looks(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Thirty that wait for each other ask about twice each, and not thirty times as often."""
    allowances = Allowances.in_process() if kind == "process" else Allowances.sqlite(tmp_path / "limits.db")
    counted, ended = Counted(allowances), list[Any]()
    rate = Limit.of("key", requests=1000, tokens=100, seconds=1.0)
    model = _model(allowances, seconds=0.005, used=0, rate=rate)

    fx.run(fx.for_each(range(30), lambda n: _ask(100, ended, n), concurrency=None).provide(model), backend=backend)

    assert ended == list(range(30))
    assert 30 <= counted.count <= 100


def test_who_is_cancelled_leaves_the_line(backend: Backend) -> None:
    """The first one and one in the middle: the others go on as if they had never come."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()
    model = _model(allowances)

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        yield from _ask(100, ended, "first").provide(model)
        handles = list[Any]()
        for n in range(4):
            handles.append((yield from fx.fork(_ask(100, ended, n).provide(model))))
            yield from clock.advance(0.1)
        yield from handles[2].interrupt()
        yield from handles[0].interrupt()
        yield from clock.advance(62)
        assert ended == ["first", 1]
        yield from clock.advance(62)
        yield from handles[3].join()

    clock.run(program(), backend=backend)

    assert ended == ["first", 1, 3]


def test_the_first_in_line_is_woken_as_soon_as_a_request_ends(backend: Backend) -> None:
    """The next request starts at once. Without the wake-up it would wait until its next look, 0.25 s later."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        first = yield from fx.fork(_ask(100, ended, "first").provide(_model(allowances, seconds=0.1, used=0)))
        yield from clock.advance(0)
        second = yield from fx.fork(_ask(100, ended, "second").provide(_model(allowances)))
        yield from clock.advance(0.1)
        assert ended == ["first", "second"]
        yield from first.join()
        yield from second.join()

    clock.run(program(), backend=backend)


def test_the_next_in_line_is_woken_as_soon_as_the_first_leaves(backend: Backend) -> None:
    """A small request waits behind a large request without room. It starts if the large request is cancelled."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()

    @fx.gen
    def program() -> Gen[None, Any, Any]:
        running = yield from fx.fork(_ask(50, ended, "running").provide(_model(allowances, seconds=1000)))
        yield from clock.advance(0)
        large = yield from fx.fork(_ask(100, ended, "large").provide(_model(allowances)))
        yield from clock.advance(0)
        small = yield from fx.fork(_ask(50, ended, "small").provide(_model(allowances)))
        yield from clock.advance(0)
        assert ended == []
        yield from large.interrupt()
        yield from clock.advance(0)
        assert ended == ["small"]
        yield from small.join()
        yield from running.interrupt()

    clock.run(program(), backend=backend)


def test_patience_ends_in_line_too() -> None:
    """Of one that is not the first it says how many are in line; nothing of it stays there."""
    clock, ended = TestClock(1000.0), list[Any]()
    allowances = Allowances.in_process()

    @fx.gen
    def program() -> Gen[list[Any], Any, Any]:
        yield from _ask(100, ended, "first").provide(_model(allowances))
        waiting = yield from fx.fork(_ask(100, ended, "second").provide(_model(allowances)))
        yield from clock.advance(1)
        hasty = yield from fx.fork(_ask(1, ended, "third").provide(_model(allowances, patience=5)).result())
        at_once = yield from _ask(1, ended, "fourth").provide(_model(allowances, patience=0)).result()
        yield from clock.advance(6)
        third = yield from hasty.join()
        yield from clock.advance(60)
        yield from waiting.join()
        return [third, at_once]

    outcomes: list[Result[Any, Any]] = clock.run(program())

    for one in outcomes:
        assert isinstance(one, Failure)
        reason = one.failure().reason
        assert isinstance(reason, RateLimitError)
        assert "other requests of this program are in line" in reason.message
    assert ended == ["first", "second"]


def test_a_budget_that_is_spent_is_not_waited_for() -> None:
    """Also where a rate would have to be waited for first: waiting does not mend it."""
    allowances = Allowances.in_process()
    model = limit(
        ScriptedModel.make([[text("Yes."), finish("stop", Usage(0, 100))]]).layer,
        RATE,
        Limit.budget("team", tokens=150),
        allowances=allowances,
        estimate=_nothing,
        max_tokens=100,
    )
    asked = LanguageModel.generate_text("?")

    outcome = fx.run(asked.and_then(asked).provide(model).result())

    assert isinstance(outcome, Failure)
    assert "team tokens: 100 used" in str(outcome.failure())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "end", "wait", "leave"]),
        st.integers(0, 4),
        st.sampled_from([10, 40, 60]) | st.integers(1, 100),
    ),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
@example(steps=[("ask", 0, 60), ("ask", 1, 40), ("ask", 2, 1)])  # all is held
@example(steps=[("ask", 0, 60), ("ask", 1, 41), ("ask", 2, 1)])  # there is room, and another waits
@example(steps=[("ask", 0, 60), ("ask", 1, 41), ("wait", 0, 100), ("ask", 2, 1), ("ask", 1, 9)])  # a wait that ended
@example(steps=[("ask", 0, 60), ("ask", 1, 41), ("ask", 2, 41), ("end", 0, 1), ("ask", 2, 1), ("ask", 1, 1)])
@example(steps=[("ask", 0, 60), ("ask", 1, 41), ("ask", 2, 41), ("leave", 1, 1), ("end", 0, 1), ("ask", 2, 1)])
def test_in_the_line_of_the_allowances_nobody_is_passed(steps: list[tuple[str, int, int]]) -> None:
    """The store reserves a claim exactly if no earlier process waits and the amounts that are held leave room."""
    allowances, now = Allowances.in_process(), 0.0
    line: dict[int, tuple[float, int]] = {}  # the waiting processes: when their wait ends, and the amount they want
    held: dict[int, int] = {}
    for what, who, size in steps:
        if what == "ask" and who not in held:
            wanted = line.get(who, (0.0, size))[1]
            standing = [one for one, (until, _) in line.items() if until > now or one == who]
            before = standing[: standing.index(who)] if who in standing else standing
            refusal = allowances.reserve(str(who), (Claim("k", wanted, 100, 60.0),), now=now, wait=10)
            if before or sum(held.values()) + wanted > 100:
                expected = LimitExceeded(Claim("k", wanted, 100, 60.0), Level(0, sum(held.values())), None, len(before))
                assert refusal == expected
                line = {one: kept for one, kept in line.items() if kept[0] > now or one == who}
                line[who] = now + 10, wanted
            else:
                assert refusal is None
                held[who] = wanted
                line.pop(who, None)
        elif what == "end" and who in held:
            del held[who]
            allowances.commit(str(who), (Claim("k", 0, 100, 60.0),), now=now)
        elif what == "leave" and who in line:
            del line[who]
            allowances.leave(str(who), (Claim("k", 0, 100, 60.0),))
        elif what == "wait":
            now += size / 10


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_two_processes_stand_in_one_line(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two that know nothing of each other: the large one of the first is served before the small one of the other."""
    url, where = server_of(kind, request), tmp_path / "limits.db"
    one, other = (Allowances.sqlite(where) if kind == "sqlite" else Allowances.postgres(url) for _ in range(2))
    large, small = Claim(f"{kind} line", 100, 100, 60.0), Claim(f"{kind} line", 10, 100, 60.0)
    assert one.reserve("first", (small,), now=0.0) is None

    assert one.reserve("large", (large,), now=1.0, wait=10) is not None
    refusal = other.reserve("small", (small,), now=2.0, wait=10)
    assert refusal is not None
    assert (refusal.ahead, refusal.may_wait, refusal.retry_at) == (1, True, None)
    one.commit("first", (small.of(0),), now=3.0)
    assert other.reserve("small", (small,), now=4.0, wait=10) is not None
    assert one.reserve("large", (large,), now=5.0, wait=10) is None
    one.commit("large", (large.of(0),), now=6.0)
    assert other.reserve("small", (small,), now=7.0, wait=10) is None

    one.commit("small", (small.of(0),), now=8.0)
    assert one.reserve("gone", (large.of(101),), now=8.0, wait=10) is not None  # can never be: it does not stand
    assert other.reserve("next", (small,), now=8.0) is None


def test_one_that_does_not_come_back_holds_nobody_up() -> None:
    """A process that is killed while it waits: its place ends by itself."""
    allowances = Allowances.in_process()
    all_, some = Claim("k", 100, 100, 60.0), Claim("k", 10, 100, 60.0)
    assert allowances.reserve("first", (some,), now=0.0) is None
    assert allowances.reserve("killed", (all_,), now=0.0, wait=10) is not None
    assert allowances.reserve("next", (some,), now=9.0, wait=10) is not None
    assert allowances.reserve("next", (some,), now=11.0, wait=10) is None


@given(seconds=st.floats(1, 1e6), at=st.floats(0, 2e9))
def test_what_is_used_counts_for_a_window_and_a_sixtieth_of_it(seconds: float, at: float) -> None:
    """It never counts for less than the window, which would let a program exceed its rate."""
    claim = Claim("key", 1, 10, seconds)
    rest = claim.end_of(claim.slot(at)) - at
    assert seconds - 1e-3 <= rest <= seconds * 61 / 60 + 1e-3
