"""Effects of a prompt, as the other system has them as `defEffect`: here `at.effect`, each under a key of its own.

There an effect is known by its place among the others, steps count from 0, and a thrown error is printed; here an
effect is its key, steps count from 1, and what is raised ends the run with its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from fxai.agents.stateful import Definition, Render, StepPatch, StepView
from fxai.effects import fx
from fxai.testing import call
from tests.kit.conformance import Case, case
from tests.kit.renders import cause_of_play, plain_tool, play_out

act, other = plain_tool("act"), plain_tool("other")


class Spy:
    """An effect that notes the numbers of the steps in which it ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def __call__(self, step: StepView) -> None:
        """Runs."""
        self.ran.append(step.number)


def _steps(number: int, define: Callable[[Render], None]) -> None:
    """A run of so many steps, each of which renders by `define`, and calls a tool that does nothing."""

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        define(at)

    play_out(prompt, *(call("act", {}) for _ in range(number - 1)))


def _deps_by_step(*deps: tuple[Hashable, ...]) -> list[int]:
    """In which steps an effect runs whose deps are these, step by step."""
    spy = Spy()
    _steps(len(deps), lambda at: at.effect("spy", spy, deps=deps[at.number - 1]))
    return spy.ran


# -- when they run


@case("LM103")
def test_an_effect_is_given_the_step(case: Case) -> None:
    """As its one argument; it gives its patch, and is no handle for one."""
    given: list[tuple[Any, ...]] = []

    def look(*arguments: Any) -> None:
        given.append(arguments)

    _steps(1, lambda at: at.effect("look", look))

    assert case.expect == "cb called with (context, stepModifier)"
    ((view,),) = given
    assert isinstance(view, StepView)
    assert view.number == 1


@case("LM104")
def test_without_deps_it_runs_each_step(case: Case) -> None:
    """Once in each."""
    spy = Spy()
    _steps(3, lambda at: at.effect("spy", spy))

    assert case.expect == "3 calls"
    assert spy.ran == [1, 2, 3]


@case("LM105")
def test_equal_deps_do_not_run_it_again_but_a_new_run_does(case: Case) -> None:
    """What ran with which deps is known for a run, and for one that goes on from its state; not for another run."""
    spy = Spy()

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("spy", spy, deps=(1,))

    first = play_out(prompt)
    play_out(prompt, call("act", {}))

    assert case.expect == "1 then 2 then 2 (reset() forgets deps)"
    assert spy.ran == [1, 1]

    play_out(prompt, state=first.answer.state)

    assert spy.ran == [1, 1]


@case("LM106")
def test_another_value_runs_it_again(case: Case) -> None:
    """In the same run, in which the value before it is known."""
    assert case.expect == "2 calls"
    assert _deps_by_step((1,), (1,), (2,), (2,)) == [1, 3]
    assert _deps_by_step((1,), (2,), (1,)) == [1, 2, 3]  # the value before it, not any that there was


@case("LM107")
def test_another_number_of_deps_runs_it_again(case: Case) -> None:
    """Whether it grows or shrinks, down to none."""
    assert case.expect == "2 calls"
    assert _deps_by_step((1,), (1, 2), (1, 2), (1,), (), ()) == [1, 2, 4, 5]


@case("LM108")
def test_effects_that_are_not_defined_do_not_run(case: Case) -> None:
    """They are gone with the render that defined them."""
    one, two = Spy(), Spy()

    def define(at: Render) -> None:
        if at.number == 1:
            at.effect("one", one)
            at.effect("two", two)

    _steps(3, define)

    assert case.expect == "0 effects"
    assert (one.ran, two.ran) == ([1], [1])


@case("LM109")
def test_several_effects_run(case: Case) -> None:
    """Each once in a step."""
    one, two = Spy(), Spy()

    def define(at: Render) -> None:
        at.effect("one", one)
        at.effect("two", two)

    _steps(1, define)

    assert case.expect == "each called once"
    assert (one.ran, two.ran) == ([1], [1])


@case("LM110")
def test_a_new_render_keeps_what_ran(case: Case) -> None:
    """The effect is another function each time, and the same effect all the same."""
    ran: list[int] = []
    _steps(3, lambda at: at.effect("spy", lambda step: ran.append(step.number), deps=(1,)))

    assert case.expect == "list empty after clear; NOT re-run"
    assert ran == [1]


@case("LM111")
def test_a_new_render_with_other_deps_runs_it(case: Case) -> None:
    """And it is the new function that runs."""
    ran: list[tuple[int, int]] = []

    def define(at: Render) -> None:
        made = at.number
        at.effect("spy", lambda step: ran.append((made, step.number)), deps=(1 if made == 1 else 2,))

    _steps(3, define)

    assert case.expect == "re-run (2 calls)"
    assert ran == [(1, 1), (2, 2)]


@case("LM113")
def test_it_runs_on_every_step(case: Case) -> None:
    """Two rounds of calls are three steps, counted from 1."""
    spy = Spy()
    _steps(3, lambda at: at.effect("spy", spy))

    assert case.expect == "called with stepNumber 0,1,2"
    assert spy.ran == [1, 2, 3]


@case("LM114")
def test_no_deps_at_all_run_it_once(case: Case) -> None:
    """On the first step."""
    assert case.expect == "called once, at step 0"
    assert _deps_by_step((), (), ()) == [1]


@case("LM115")
def test_it_runs_when_the_value_of_a_state_changed(case: Case) -> None:
    """With each value that the renders had."""
    seen: list[int] = []

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        value = count.value
        at.tool(act, lambda _: count.update(lambda n: n + 1))
        at.tool(other, lambda _: fx.succeed(None))
        at.effect("count", lambda _: seen.append(value), deps=(value,))

    play_out(prompt, call("act", {}), call("other", {}), call("act", {}))

    assert case.expect == "3 calls observing 0,1,2"
    assert seen == [0, 1, 2]


@case("LM117")
def test_it_runs_when_one_of_several_deps_changed(case: Case) -> None:
    """Whichever it is."""
    ran: list[tuple[int, int, int]] = []

    def prompt(at: Render) -> None:
        a, b = at.state("a", 1), at.state("b", 1)
        at.tool(act, lambda _: a.set(2))
        at.tool(other, lambda _: b.set(2))
        at.effect("both", lambda step: ran.append((step.number, a.value, b.value)), deps=(a.value, b.value))

    play_out(prompt, call("act", {}), call("other", {}), call("other", {}))

    assert case.expect == "calls (0,1,1),(1,2,1),(2,2,2)"
    assert ran == [(1, 1, 1), (2, 2, 1), (3, 2, 2)]


@case("LM127")
def test_each_effect_has_deps_of_its_own(case: Case) -> None:
    """Each step, when a value changed, once."""
    each, changed, once = Spy(), Spy(), Spy()

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        at.tool(act, lambda _: count.update(lambda n: n + 1))
        at.effect("each", each)
        at.effect("changed", changed, deps=(count.value,))
        at.effect("once", once, deps=())

    play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "3, 3 and 1 calls"
    assert (each.ran, changed.ran, once.ran) == ([1, 2, 3], [1, 2, 3], [1])


@case("LM-P15")
def test_an_effect_is_its_key_and_not_its_place(case: Case) -> None:
    """One that is gone does not make the one behind it run anew; it runs anew itself when it is back."""
    first, second = Spy(), Spy()

    def define(at: Render) -> None:
        if at.number != 2:
            at.effect("first", first, deps=("same",))
        at.effect("second", second, deps=("same",))

    _steps(4, define)

    assert "spuriously re-runs" in case.expect
    assert (first.ran, second.ran) == ([1, 3], [1])


# -- in which order


@case("LM125")
def test_effects_run_in_the_order_of_their_definition(case: Case) -> None:
    """Each is awaited before the next one begins."""
    order: list[str] = []

    def slow(name: str) -> Any:
        began = fx.sync(lambda: order.append(f"{name} begins"))
        return began.and_then(fx.sleep(0)).and_then(fx.sync(lambda: order.append(f"{name} ends")))

    def define(at: Render) -> None:
        at.effect("1", lambda _: slow("1"))
        at.effect("2", lambda _: slow("2"))
        at.effect("3", lambda _: slow("3"))

    _steps(1, define)

    assert case.expect == "order 1,2,3"
    assert order == [f"{name} {what}" for name in "123" for what in ("begins", "ends")]


@case("LM126")
def test_a_later_effect_sees_what_an_earlier_one_changed(case: Case) -> None:
    """In the same step by `now`; as the value of the render in the next one."""
    seen: list[tuple[int, int, int]] = []

    def define(at: Render) -> None:
        value = at.state("value", 0)

        def look(step: StepView) -> Any:
            return value.now.map(lambda now: seen.append((step.number, value.value, now)))

        at.effect("change", lambda _: value.set(100), deps=())
        at.effect("look", look)

    _steps(2, define)

    assert case.expect == "sees 100"
    assert seen == [(1, 0, 100), (2, 100, 100)]


# -- what they give


@case("LM119")
def test_a_patch_adds_a_message_at_the_end(case: Case) -> None:
    """In that step alone, behind a conversation that stays whole; the history does not have it."""

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("add", lambda step: StepPatch.message("Be quick.") if step.number == 2 else None)

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "last message of step 1 prompt is that user message"
    assert played.said == [
        [("user", "go")],
        [("user", "go"), ("assistant", "act"), ("tool", "act"), ("user", "Be quick.")],
        [("user", "go"), ("assistant", "act"), ("tool", "act"), ("assistant", "act"), ("tool", "act")],
    ]
    assert "Be quick." not in str(played.answer.history)


@case("LM121")
def test_a_patch_adds_data(case: Case) -> None:
    """Beside what the render has, in that step alone."""

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.data("NAME", "Ann")
        at.effect("add", lambda step: StepPatch.data("EXTRA", "more") if step.number == 2 else None)

    played = play_out(prompt, call("act", {}), call("act", {}))
    has = [[f"<{name}>" in system for name in ("NAME", "EXTRA")] for system in played.systems]

    assert case.expect == "step 1 system prompt has both NAME and EXTRA (it is an add)"
    assert has == [[True, False], [True, True], [True, False]]


@case("LM123")
def test_a_patch_reminds_of_a_definition(case: Case) -> None:
    """Once, at the end of that step; the model is not made to have said it itself."""

    def prompt(at: Render) -> None:
        ref: Definition = at.tool(act, lambda _: fx.succeed(None))
        at.effect("remind", lambda step: ref.remind() if step.number == 2 else None)

    played = play_out(prompt, call("act", {}), call("act", {}))
    reminded = [[words for _, words in step if "remind" in words.lower()] for step in played.said]
    role, words = played.said[1][-1]

    assert 'containing "Reminder" and "tool1"' in case.expect
    assert [len(each) for each in reminded] == [0, 1, 0]
    assert words == reminded[1][0]
    assert "act" in words
    assert role != "assistant"


@case("LM-P23")
def test_an_effect_that_raises_ends_the_run_with_its_cause(case: Case) -> None:
    """The exception itself, once; the model is not asked."""
    bug = ZeroDivisionError("boom")

    def broken(_: StepView) -> None:
        raise bug

    cause = cause_of_play(lambda at: at.effect("broken", broken))

    assert "original error only on stderr" in case.expect
    assert cause.defects == (bug,)
    assert cause.failures == ()
