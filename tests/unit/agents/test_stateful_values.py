"""Values of a stateful prompt under stress: changed by many at once, odd values and keys, odd dependencies."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable
from itertools import permutations
from math import inf, nan
from typing import Any, NamedTuple, cast

import anyio
import msgspec
import pytest
from returns.result import Failure

from fxai.agents.stateful import PromptState, Render, RenderFailed, State, StateError, StepPatch
from fxai.effects import EffectOf, Failed, fx
from fxai.testing import call
from tests.kit.every import every
from tests.kit.renders import cause_of_play, exit_of_play, plain_tool, play_out

act = plain_tool("act")


class Point(msgspec.Struct, frozen=True):
    """A value of a type."""

    x: int
    y: float = 0.0


class Odd:
    """A value whose comparison raises."""

    def __eq__(self, other: object) -> bool:
        """Raises."""
        raise ZeroDivisionError("boom")

    __hash__ = object.__hash__


# -- at the same time


def _interleavings(calls: int, changes: int) -> list[tuple[int, ...]]:
    """All orders in which so many calls can make so many changes each."""
    return sorted(set(permutations([n for n in range(calls) for _ in range(changes)])))


class _Stage:
    """Lets calls make their changes in a given order, one at a time."""

    def __init__(self, order: Iterable[int]) -> None:
        self.order = tuple(order)
        self.turn = anyio.Event()
        self.made = 0

    async def wait_for_turn(self, who: int) -> None:
        """Returns when it is the turn of this call."""
        while self.order[self.made] != who:
            await self.turn.wait()

    def pass_on(self) -> None:
        """The change is made: it is the next one's turn."""
        self.made += 1
        self.turn.set()
        self.turn = anyio.Event()


def _log_of(order: tuple[int, ...], calls: int) -> list[int]:
    """What is in the state when parallel calls have added their numbers in this order."""
    stage = _Stage(order)

    def prompt(at: Render) -> None:
        log = at.state("log", list[int]())

        async def on_act(params: Any) -> EffectOf[object]:
            who = params["who"]
            for _ in range(order.count(who)):
                await stage.wait_for_turn(who)
                await fx.run_async(log.update(lambda before: [*before, who]))
                stage.pass_on()
            return fx.succeed(None)

        at.tool(act, on_act)

    log: list[int] = play_out(prompt, [call("act", {"who": who}) for who in range(calls)]).values["log"]
    return log


def test_parallel_changes_of_one_key_lose_nothing_in_any_order() -> None:
    """Three calls that make two changes each: every interleaving is in the state as it was."""
    orders = _interleavings(3, 2)
    logs = [_log_of(order, 3) for order in orders]

    assert len(orders) == 90
    assert logs == [list(order) for order in orders]


def test_modify_gives_each_call_a_number_of_its_own() -> None:
    """However many run at once."""

    def prompt(at: Render) -> None:
        ticket = at.state("ticket", 0)
        at.tool(act, lambda _: ticket.modify(lambda n: (n, n + 1)))

    played = play_out(prompt, [call("act", {}) for _ in range(100)])

    assert sorted(result.result for result in played.answer.steps[0].results) == list(range(100))
    assert played.values == {"ticket": 100}


def test_threads_lose_no_update() -> None:
    """A handler may do its work in threads that change one key."""

    def prompt(at: Render) -> None:
        count = at.state("count", 0)

        def work() -> None:
            for _ in range(200):
                fx.run_sync(count.update(lambda n: n + 1))

        async def on_act(_: object) -> EffectOf[object]:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await anyio.to_thread.run_sync(thread.join)
            return fx.succeed(None)

        at.tool(act, on_act)

    assert play_out(prompt, call("act", {})).values == {"count": 800}


def test_a_change_that_raises_changes_nothing() -> None:
    """The run ends with what was raised, and the failure of the run has the value as it was."""
    bug = ZeroDivisionError("boom")

    def prompt(at: Render) -> None:
        count = at.state("count", 0)

        def raises(_: int) -> int:
            raise bug

        at.effect("change", lambda _: count.set(7).and_then(count.update(raises)))

    assert cause_of_play(prompt).defects == (bug,)


def test_a_change_within_a_change_of_the_same_key_is_not_lost() -> None:
    """It ends the run, because one of them would have to be."""

    def prompt(at: Render) -> None:
        count = at.state("count", 0)

        def twice(n: int) -> int:
            fx.run_sync(count.set(100))
            return n + 1

        at.tool(act, lambda _: count.update(twice))

    (defect,) = cause_of_play(prompt, call("act", {})).defects

    assert "'count'" in str(defect)


def test_a_thread_that_outlives_its_call_loses_no_update() -> None:
    """What it changes while a later step renders is in the state; only the render itself may change nothing."""
    renders, changed = threading.Event(), threading.Event()

    def change(count: State[int]) -> None:
        renders.wait()
        fx.run_sync(count.update(lambda n: n + 1))
        changed.set()

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        seen.append(count.value)
        at.tool(act, lambda _: fx.sync(threading.Thread(target=change, args=(count,)).start))
        if at.number == 2:
            renders.set()
            changed.wait()

    seen: list[int] = []
    played = play_out(prompt, call("act", {}), call("none", {}))

    assert seen == [0, 0, 1]
    assert played.values == {"count": 1}


def test_a_coroutine_is_no_value(recwarn: pytest.WarningsRecorder) -> None:
    """Nobody would ever wait for it; it is closed, so that Python has nothing to say."""

    def prompt(at: Render) -> None:
        count: State[Any] = at.state("count", 0)

        async def more(n: int) -> int:
            return n + 1

        at.tool(act, lambda _: count.update(more))

    (failure,) = cause_of_play(prompt, call("act", {})).failures
    gc.collect()

    assert isinstance(failure, RenderFailed)
    assert "'count'" in failure.message
    assert list(recwarn) == []


def test_a_render_is_no_coroutine(recwarn: pytest.WarningsRecorder) -> None:
    """It is refused, and closed."""

    async def prompt(at: Render) -> None:
        at.state("it", 0)

    render: Any = prompt
    (failure,) = cause_of_play(render).failures
    gc.collect()

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "unsettled"
    assert list(recwarn) == []


@pytest.mark.parametrize("patch", [lambda: StepPatch.hide(_any(5)), lambda: StepPatch.remind(_any("act"))])
def test_a_patch_of_what_is_no_definition_is_a_failure(patch: Callable[[], StepPatch]) -> None:
    """It says what is taken."""
    (failure,) = cause_of_play(lambda at: at.effect("it", lambda _: patch())).failures

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "value"


def _any(value: Any) -> Any:
    return value


def test_a_state_of_a_run_that_is_over_cannot_be_changed() -> None:
    """Who keeps it is told, and the state of the run stays as it was."""
    kept: list[State[int]] = []
    played = play_out(lambda at: kept.append(at.state("n", 0)))

    with pytest.raises(Exception, match="the run ended"):
        fx.run_sync(kept[0].set(1))
    assert played.values == {"n": 0}


# -- values and keys


@every("key", ["", " ", "__class__", "a.b", "a/b", "values", "naïve ☃", "k" * 10_000])
def test_any_text_is_a_key(key: str) -> None:
    """It is kept, written and read as any other."""
    seen: list[int] = []

    def prompt(at: Render) -> None:
        it = at.state(key, 0)
        seen.append(it.value)
        at.tool(act, lambda _: it.update(lambda n: n + 1))

    played = play_out(prompt, call("act", {}))
    play_out(prompt, state=_read_back(played.answer.state))

    assert seen == [0, 1, 1]
    assert played.values == {key: 1}


def _read_back(state: PromptState | None) -> PromptState:
    assert state is not None
    return PromptState.from_json(state.to_json()).unwrap()


def _first_and_again(initial: Any, **options: Any) -> tuple[Any, Any]:
    """A value as a run sees it, and as one does that goes on from what was written of it."""
    seen: list[Any] = []

    def prompt(at: Render) -> None:
        seen.append(at.state("it", initial, **options).value)

    play_out(prompt, state=_read_back(play_out(prompt).answer.state))
    first, again = seen
    return first, again


@every(
    "value",
    [
        0,
        -1,
        True,
        1.5,
        -0.0,
        1e300,
        2**64,
        [-(2**63) - 1],
        "",
        "☃\x00",
        None,
        [],
        {},
        [[], {}],
        {"a": [1, {"b": None}]},
        Point(1, 2.5),
    ],
    ids=repr,
)
def test_a_value_is_read_back_as_it_was_written(value: Any) -> None:
    """Of the same type, and equal."""
    first, again = _first_and_again(value)

    assert (first, type(first)) == (again, type(again))
    assert first == value


@every(
    "value",
    [
        *(nan, inf, -inf, [nan], {"a": [inf]}, Point(1, inf)),
        *({1: "a"}, {"a": {2: "b"}}, {None: 1}, "\ud800", {"\ud800": 1}),
        *({"a": (1, 2)}, [b"x"], [{1}], [Point(1)], len),
        pytest.param(object(), id="object"),  # its text has its address
    ],
    ids=ascii,
)
def test_a_value_that_would_not_be_read_back_is_not_written(value: Any) -> None:
    """The run has it; JSON does not, and the error names the key."""
    state = play_out(lambda at: _declare(at, value)).answer.state
    assert state is not None

    assert list(state.values) == ["it"]
    with pytest.raises(StateError, match="'it'"):
        state.to_json()


def _declare(at: Render, value: Any) -> None:
    at.state("it", value)


def test_a_value_with_a_schema_is_written() -> None:
    """A union, an empty list of structs, an optional value: what the initial value does not say."""
    first, again = _first_and_again((Point(1),), schema=tuple[Point, ...])

    assert first == again == (Point(1),)


def test_a_large_state_is_read_back() -> None:
    """What was written can be read, however much it is."""
    first, again = _first_and_again([{"n": n, "text": "x" * 100} for n in range(20_000)])

    assert first == again


class Chain(msgspec.Struct, frozen=True):
    """A value that may be deep without an array or object."""

    next: Chain | None = None


def _deep(kind: str, depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value] if kind == "array" else {"next": value} if kind == "object" else Chain(value)
    return value


@every("kind", ["array", "object", "struct"])
@every("depth", [100, 127, 128])
def test_a_deep_value_is_read_back(kind: str, depth: int) -> None:
    """As deep as JSON from outside may be."""
    first, again = _first_and_again(_deep(kind, depth))

    assert first == again


@every("kind", ["array", "object", "struct"])
@every("depth", [129, 200, 250, 254, 257, 500, 100_000])
def test_a_value_that_is_too_deep_is_refused(kind: str, depth: int) -> None:
    """By the run, or when it is written: nothing is written that could not be read, and nothing crashes."""
    value = _deep(kind, depth)
    ended = _ended(lambda at: _declare(at, value))

    if isinstance(ended, PromptState):
        with pytest.raises(StateError, match="'it'"):
            ended.to_json()
    else:
        assert "'it'" in ended.message
        assert depth > 257


def _ended(prompt: Callable[[Render], None]) -> Any:
    """The state after a run, or what it failed with."""
    ended, _ = exit_of_play(prompt, "done")
    if isinstance(ended, Failed):
        (failure,) = ended.cause.failures
        return failure
    return ended.value.state


def test_a_value_that_holds_itself_is_refused() -> None:
    """As a failure that names the key."""
    value: list[Any] = []
    value.append(value)
    (failure,) = cause_of_play(lambda at: _declare(at, value)).failures

    assert isinstance(failure, RenderFailed)
    assert "'it'" in failure.message


class Pair(NamedTuple):
    """Holds a list."""

    n: int
    items: list[int]


@every("value", [[1, [2]], {"a": {"b": [1]}}, ([1], [2]), {"a": ([1],)}, Pair(1, [2])], ids=repr)
def test_lists_and_objects_are_frozen_wherever_they_are(value: Any) -> None:
    """A value is changed by the effects of its state alone."""
    seen: list[Any] = []
    play_out(lambda at: seen.append(at.state("it", value).value))
    (shown,) = seen

    assert shown == value
    for inner in _mutables(shown):
        with pytest.raises(TypeError):
            inner.clear()
    assert shown == value


def _mutables(value: Any) -> list[Any]:
    """All lists and dicts in a value, itself among them."""
    if not isinstance(value, dict | list | tuple):
        return []
    given = cast("Any", value)
    inside: list[Any] = list(given.values()) if isinstance(value, dict) else list(given)
    here: list[Any] = [] if isinstance(value, tuple) else [given]
    return [*here, *(found for one in inside for found in _mutables(one))]


@every(("before", "after"), [(0, "a"), (0, 0.0), (0, False), (True, 1), ([], {}), ("", b"")])
def test_a_key_that_changes_its_type_is_a_failure(before: Any, after: Any) -> None:
    """It names the key and both types; values that are equal are no excuse."""

    def prompt(at: Render) -> None:
        at.state("it", before if at.number == 1 else after)
        at.tool(act, lambda _: fx.succeed(None))

    (failure,) = cause_of_play(prompt, call("act", {})).failures

    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.step) == ("state", 2)
    for part in ("'it'", type(before).__name__, type(after).__name__):
        assert part in failure.message


@pytest.mark.parametrize("other", [1, 0.0, False, "0"])
def test_one_key_with_two_initial_values_is_a_failure(other: Any) -> None:
    """In one render; values that are equal, and of different types, are two."""

    def prompt(at: Render) -> None:
        at.state("it", 0)
        at.state("it", other)

    (failure,) = cause_of_play(prompt).failures

    assert isinstance(failure, RenderFailed)
    assert failure.reason in {"conflict", "state"}
    assert "'it'" in failure.message


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ([0], [False]), ({"a": 1}, {"a": True})])
def test_data_that_is_equal_and_of_another_type_is_two_things(one: Any, other: Any) -> None:
    """The model would be shown one of them, and not know which was meant."""

    def prompt(at: Render) -> None:
        at.data("it", one)
        at.data("it", other)

    (failure,) = cause_of_play(prompt).failures

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "conflict"


def test_a_render_that_declares_states_without_end_is_a_failure() -> None:
    """As one that defines anything else without end."""

    def prompt(at: Render) -> None:
        for number in range(100_000):
            at.state(f"n{number}", 0)

    (failure,) = cause_of_play(prompt).failures

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "unsettled"


@every("key", [1, None, b"k", ("a",), "\ud800"], ids=ascii)
@every("kind", ["state", "effect"])
def test_a_key_that_is_no_text_is_a_failure(key: Any, kind: str) -> None:
    """At once, and not when the state is written."""

    def prompt(at: Render) -> None:
        if kind == "state":
            at.state(key, 0)
        else:
            at.effect(key, lambda _: None)

    (failure,) = cause_of_play(prompt).failures

    assert isinstance(failure, RenderFailed)
    assert failure.reason == "value"
    assert ascii(key) in failure.message


def test_states_of_equal_values_are_equal() -> None:
    """In whatever order their keys were declared; one that was read from JSON is equal to itself, read again."""
    one, other = (play_out(render).answer.state for render in (_a_and_b, _b_and_a))
    assert one is not None

    assert one == other != play_out(lambda at: _declare(at, 0)).answer.state
    assert hash(one) == hash(other)
    assert _read_back(one) == _read_back(one)


def _a_and_b(at: Render) -> None:
    at.state("a", 1)
    at.state("b", 2)


def _b_and_a(at: Render) -> None:
    at.state("b", 2)
    at.state("a", 1)


def test_a_state_is_not_changed_by_the_run_that_goes_on_from_it() -> None:
    """So two runs can go on from one."""

    def prompt(at: Render) -> None:
        it = at.state("it", [0])
        at.tool(act, lambda _: it.update(lambda before: [*before, 1]))
        at.effect("once", lambda _: None, deps=())

    state = play_out(prompt, call("act", {})).answer.state
    assert state is not None
    before = state.to_json()
    both = [play_out(prompt, call("act", {}), state=state).values for _ in range(2)]

    assert both == [{"it": [0, 1, 1]}] * 2
    assert state.to_json() == before


@every(
    "text",
    [
        *("", "[]", "{}", "1", '{"values": []}', '{"values": {}, "x": 1}', '{"values": {"it": NaN}}', "\ud800"),
        *(
            '{"values": {}, "effects": {"e": 1}}',
            '{"values": {}, "pending": [{"number": 0, "values": {}, "calls": []}]}',
        ),
        *('{"values": {}, "pending": [{"number": 1}]}', f'{{"values": {{"it": {"[" * 5000}{"]" * 5000}}}}}'),
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_text_that_is_no_state_is_a_failure(text: str) -> None:
    """With the place of each fault; nothing is raised."""
    assert isinstance(PromptState.from_json(text), Failure)


@every("written", ['"x"', "true", "null", "1.5", "[1]"])
def test_a_value_that_is_not_of_the_declared_type_ends_the_run(written: str) -> None:
    """As a failure that names the key; the model is not asked."""
    state = PromptState.from_json(f'{{"values": {{"it": {written}}}}}').unwrap()
    (failure,) = cause_of_play(lambda at: _declare(at, 0), state=state).failures

    assert isinstance(failure, RenderFailed)
    assert (failure.reason, failure.step) == ("state", 1)
    assert "'it'" in failure.message


# -- dependencies


def _runs_with(*deps: tuple[Any, ...]) -> list[int]:
    ran: list[int] = []

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("it", lambda step: ran.append(step.number), deps=deps[at.number - 1])

    play_out(prompt, *(call("act", {}) for _ in deps[1:]))
    return ran


def test_dependencies_are_compared_by_equality() -> None:
    """1, 1.0 and True are equal; an equal struct is no change, and neither is the same NaN."""
    assert _runs_with((1,), (1.0,), (True,), (2,)) == [1, 4]
    assert _runs_with((Point(1),), (Point(1),), (Point(2),)) == [1, 3]
    assert _runs_with((nan,), (nan,)) == [1]
    assert _runs_with((float("nan"),), (float("nan"),)) == [1, 2]  # equal to nothing


def test_dependencies_whose_comparison_raises_end_the_run() -> None:
    """With what was raised; the first step has nothing to compare with."""
    ran: list[int] = []

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("it", lambda step: ran.append(step.number), deps=(Odd(),))

    (defect,) = cause_of_play(prompt, call("act", {})).defects

    assert isinstance(defect, ZeroDivisionError)
    assert ran == [1]


def test_dependencies_are_told_apart_in_what_is_written() -> None:
    """As they are within a run: a run that goes on from JSON runs the effect again where they are others."""
    ran: list[Any] = []
    state: PromptState | None = None
    for dep in (None, nan, "x", 1, 2**70, 2**70, [None, 2**70], "null", "null", nan):

        def prompt(at: Render, dep: Any = dep) -> None:
            at.effect("it", lambda _: ran.append(dep), deps=(dep,))

        state = _read_back(play_out(prompt, state=state).answer.state)

    assert list(map(repr, ran)) == list(map(repr, (None, nan, "x", 1, 2**70, [None, 2**70], "null", nan)))


def test_what_ran_is_known_to_a_run_that_goes_on_from_json() -> None:
    """An effect whose dependencies are the same does not run again; one whose dependencies are others does."""
    ran: list[str] = []

    def prompt(at: Render) -> None:
        mode = at.state("mode", "a")
        at.effect("same", lambda _: ran.append("same"), deps=("x", 1, None))
        at.effect("other", lambda _: ran.append("other"), deps=(mode.value,))
        at.effect("change", lambda _: mode.set("b"))

    play_out(prompt, state=_read_back(play_out(prompt).answer.state))

    assert ran == ["same", "other", "other"]
