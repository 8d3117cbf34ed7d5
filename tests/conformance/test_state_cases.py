"""State, as the other system has it as `defState`: here `at.state`, whose changes are effects.

There a setter takes a value or a function of the one before; here `set` and `update` are two, so that a function is a
value too. There a key is read by any name; here it is read where it is declared, and in the state after the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from fxai.agents.stateful import Render, State, StepPatch, StepView
from fxai.effects import EffectOf, fx
from fxai.messages import SystemMessage
from fxai.testing import call
from fxai.tools import BoundToolkit, Toolkit
from tests.kit.conformance import Case, case
from tests.kit.renders import plain_tool, play_out

act, note, search = plain_tool("act"), plain_tool("note"), plain_tool("search")

_Change = Callable[[State[Any]], EffectOf[Any]]
_ALICE = {"name": "Alice", "age": 25}
_TODO = [{"id": 1, "done": False}, {"id": 2, "done": False}]
_NESTED = {"user": {"name": "Ann", "settings": {"theme": "dark"}}}


def _thrice(it: State[int]) -> EffectOf[None]:
    return it.set(10).and_then(it.update(lambda n: n + 5)).and_then(it.update(lambda n: n * 2))


CHANGES: dict[str, tuple[str, Any, _Change, Any]] = {
    "LM062": ("store value 5", 0, lambda it: it.set(5), 5),
    "LM073": ("getState==1", 0, lambda it: it.set(it.value + 1), 1),
    "LM075": (
        "getState is the new object",
        _ALICE,
        lambda it: it.set({"name": "Bob", "age": 3}),
        {"name": "Bob", "age": 3},
    ),
    "LM076": ("getState is 3 items", [], lambda it: it.set(["a", "b", "c"]), ["a", "b", "c"]),
    "LM077": ("15", 10, lambda it: it.update(lambda n: n + 5), 15),
    "LM078": (
        "{Alice,26}",
        _ALICE,
        lambda it: it.update(lambda u: {**u, "age": u["age"] + 1}),
        {"name": "Alice", "age": 26},
    ),
    "LM079": ("appended", ["a"], lambda it: it.update(lambda before: [*before, "x"]), ["a", "x"]),
    "LM080": (
        "2 (updates are immediate, not batched/lost)",
        0,
        lambda it: it.update(lambda n: n + 1).and_then(it.update(lambda n: n + 1)),
        2,
    ),
    "LM085": (
        "exact merged object",
        {"a": 1, "b": 2, "c": 3, "d": 4},
        lambda it: it.set({**it.value, "b": 20, "d": 40}),
        {"a": 1, "b": 20, "c": 3, "d": 40},
    ),
    "LM087": (
        "only id 2 done",
        _TODO,
        lambda it: it.update(lambda all_: [{**one, "done": True} if one["id"] == 2 else one for one in all_]),
        [{"id": 1, "done": False}, {"id": 2, "done": True}],
    ),
    "LM093": ("1", 0, lambda it: it.update(lambda n: n + 1), 1),
    "LM094": ("30", 0, _thrice, 30),
    "LM099": (
        "theme light, name kept",
        _NESTED,
        lambda it: it.update(
            lambda all_: {**all_, "user": {**all_["user"], "settings": {**all_["user"]["settings"], "theme": "light"}}}
        ),
        {"user": {"name": "Ann", "settings": {"theme": "light"}}},
    ),
}
"""What each case expects, its initial value, the change that its tool makes, and the value after it."""


@case(
    "LM062", "LM073", "LM075", "LM076", "LM077", "LM078", "LM079", "LM080", "LM085", "LM087", "LM093", "LM094", "LM099"
)
def test_a_tool_changes_a_value(case: Case) -> None:
    """The next render sees what came of it, once, and so does who reads the state after the run."""
    expected, initial, change, after = CHANGES[case.id]
    seen: list[Any] = []

    def prompt(at: Render) -> None:
        it = at.state("it", initial)
        seen.append(it.value)
        at.tool(act, lambda _: change(it))

    played = play_out(prompt, call("act", {}))

    assert case.expect == expected
    assert seen == [initial, after]
    assert played.values == {"it": after}


# -- values


@case("LM059")
def test_what_is_set_is_what_is_read(case: Case) -> None:
    """Within the same program, before any render: `now` is what the state holds when it runs."""
    read: list[str] = []

    def prompt(at: Render) -> None:
        test = at.state("test", "initial")
        at.tool(act, lambda _: test.set("value").and_then(test.now).map(read.append))

    play_out(prompt, call("act", {}))

    assert case.expect == "get -> value"
    assert read == ["value"]


@case("LM061", "LM066")
def test_a_value_is_itself(case: Case) -> None:
    """No wrapper and no proxy: the number is an int, the text a str."""
    initial = 0 if case.id == "LM061" else "literal"
    seen: list[object] = []
    play_out(lambda at: seen.append(at.state("it", initial).value))

    assert case.expect in {"tuple[0] is the plain value 0 (no proxy)", "value === literal"}
    assert seen == [initial]
    assert type(seen[0]) is type(initial)


@case("LM070")
def test_an_object_is_a_value(case: Case) -> None:
    """The render and the state after the run have the same, and neither can be changed in place."""
    seen: list[dict[str, Any]] = []

    def prompt(at: Render) -> None:
        seen.append(at.state("user", dict[str, Any](_ALICE)).value)

    played = play_out(prompt)

    assert case.expect == "snapshot and getState both equal {name,age}"
    assert seen == [_ALICE]
    assert played.values == {"user": _ALICE}
    with pytest.raises(TypeError):
        seen[0]["age"] = 26


@case("LM089")
def test_a_key_that_is_declared_twice_is_one(case: Case) -> None:
    """Both have the value, and what one changes the other has."""
    seen: list[tuple[int, int]] = []

    def prompt(at: Render) -> None:
        one, other = at.state("answer", 42), at.state("answer", 42)
        seen.append((one.value, other.value))
        at.tool(act, lambda _: one.set(43).and_then(other.update(lambda n: n + 1)))

    play_out(prompt, call("act", {}))

    assert case.expect == "both 42"
    assert seen == [(42, 42), (44, 44)]


@case("LM091")
def test_a_key_that_nobody_declared_is_not_there(case: Case) -> None:
    """The state after a run holds what the renders declared, and nothing else."""
    played = play_out(lambda at: _declare(at, "there"))

    assert case.expect == "undefined"
    assert played.values.get("nonExistent") is None
    assert list(played.values) == ["there"]


def _declare(at: Render, *keys: str) -> None:
    for key in keys:
        at.state(key, 0)


@case("LM-Q13")
def test_a_function_is_a_value_as_any_other(case: Case) -> None:
    """It is not called, neither as the initial value nor by `set`."""
    seen: list[Callable[[], int]] = []

    def three() -> int:
        return 3

    def four() -> int:
        return 4

    def prompt(at: Render) -> None:
        held = at.state("f", three)
        seen.append(held.value)
        at.tool(act, lambda _: held.set(four))

    play_out(prompt, call("act", {}))

    assert "(no lazy init)" in case.expect
    assert seen == [three, four]


@case("LM097", "LM098")
def test_what_a_value_was_made_of_stays_as_it_was(case: Case) -> None:
    """And what its owner does to it later does not show in the state."""
    is_object = case.id == "LM097"
    original: Any = {"name": "Ann", "age": 29} if is_object else ["a"]
    seen: list[Any] = []

    def prompt(at: Render) -> None:
        it = at.state("it", original)
        seen.append(it.value)
        at.tool(act, lambda _: it.set({**it.value, "age": 30} if is_object else [*it.value, "x"]))

    def spoil(_: object) -> Any:
        if is_object:
            original["name"] = "spoilt"
        else:
            original.append("spoilt")
        return fx.succeed(None)

    def spoilt(at: Render) -> None:
        it = at.state("it", original)
        seen.append(it.value)
        at.tool(act, spoil)

    play_out(prompt, call("act", {}))

    assert case.expect in {"original object untouched", "original array untouched"}
    assert original == ({"name": "Ann", "age": 29} if is_object else ["a"])
    assert seen == [original, {"name": "Ann", "age": 30} if is_object else ["a", "x"]]

    seen.clear()
    play_out(spoilt, call("act", {}))

    assert seen == [{"name": "Ann", "age": 29}] * 2 if is_object else [["a"]] * 2


# -- from render to render


@case("LM072")
def test_the_initial_value_is_for_the_first_render(case: Case) -> None:
    """A later one sees what the state holds."""
    seen: list[int] = []

    def prompt(at: Render) -> None:
        counter = at.state("counter", 0)
        seen.append(counter.value)
        at.tool(act, lambda _: counter.set(100))

    play_out(prompt, call("act", {}), call("note", {}))

    assert case.expect == "first render sees 0, second render sees 100"
    assert seen == [0, 100, 100]


@case("LM081")
def test_a_value_lasts_over_calls(case: Case) -> None:
    """Each call begins with what the one before left."""
    seen: list[int] = []

    def prompt(at: Render) -> None:
        counter = at.state("counter", 0)
        seen.append(counter.value)
        at.tool(act, lambda _: counter.update(lambda n: n + 1))

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "renders observe 0,1,2; final 2"
    assert seen == [0, 1, 2]
    assert played.values == {"counter": 2}


@case("LM082")
def test_a_change_shows_in_the_next_render(case: Case) -> None:
    """And so in the prompt that the model is shown."""

    def prompt(at: Render) -> None:
        phase = at.state("phase", "init")
        at.system("phase", phase.value)
        at.tool(act, lambda p: phase.set(_field(p, "to")))

    played = play_out(prompt, call("act", {"to": "processing"}), call("act", {"to": "completed"}))

    assert case.expect == "renders observe init, processing, completed"
    phases = ("init", "processing", "completed")
    assert [[word for word in phases if word in system] for system in played.systems] == [[word] for word in phases]


def _field(params: Any, name: str) -> Any:
    return params[name]


@case("LM083")
def test_a_call_changes_several_keys(case: Case) -> None:
    """Each on its own."""

    def prompt(at: Render) -> None:
        processed, count = at.state("processed", list[str]()), at.state("count", 0)
        at.tool(
            act,
            lambda p: processed.update(lambda all_: [*all_, _field(p, "item")]).and_then(count.update(lambda n: n + 1)),
        )

    played = play_out(prompt, call("act", {"item": "A"}), call("act", {"item": "B"}))

    assert case.expect == "processed=[A,B], count=2"
    assert played.values == {"processed": ["A", "B"], "count": 2}


@case("LM014")
def test_a_state_chooses_what_a_tool_does(case: Case) -> None:
    """The other is never run while the state says so; once it is changed, it is the only one that runs."""
    ran: list[str] = []

    def prompt(at: Render) -> None:
        mode = at.state("mode", "tool1")
        name = mode.value
        at.tool(act, lambda _: fx.sync(lambda: ran.append(name)))
        at.tool(note, lambda _: mode.set("tool2"))

    play_out(prompt, call("act", {}))

    assert case.expect == "tool1 impl called once, tool2 impl never"
    assert ran == ["tool1"]

    ran.clear()
    play_out(prompt, call("act", {}), [call("note", {}), call("act", {})], call("act", {}))

    assert ran == ["tool1", "tool1", "tool2"]  # a call is run by the handler of the step that made it


@case("LM028")
def test_calls_within_a_call_change_the_state(case: Case) -> None:
    """Each sub-tool of a composite adds to what the one before has left; nothing is lost."""

    def prompt(at: Render) -> None:
        log = at.state("log", list[object]())
        writing = note.handler(lambda p: log.update(lambda before: [*before, _field(p, "n")]))
        at.composite("several", BoundToolkit.of(Toolkit.make(note), writing))

    several = {"calls": [{"name": "note", "args": {"n": n}} for n in range(3)]}
    played = play_out(prompt, call("several", several), call("several", several))

    assert case.expect == "run completes"
    assert played.values == {"log": [0, 1, 2, 0, 1, 2]}


@case("LM065")
def test_each_run_begins_anew(case: Case) -> None:
    """Nothing of the run before is left, unless its state is given."""
    seen: list[tuple[int, str]] = []

    def prompt(at: Render) -> None:
        one, other = at.state("one", 0), at.state("other", "a")
        seen.append((one.value, other.value))
        at.tool(act, lambda _: one.set(1).and_then(other.set("b")))

    first = play_out(prompt, call("act", {}))
    play_out(prompt)
    play_out(prompt, state=first.answer.state)

    assert case.expect == "both absent"
    assert seen == [(0, "a"), (1, "b"), (0, "a"), (1, "b")]


# -- at the same time


@case("LM092")
def test_a_value_of_a_render_does_not_change_under_a_handler(case: Case) -> None:
    """So who sets what he has read sets it once, however often; who updates loses nothing."""

    def prompt(at: Render) -> None:
        count, total = at.state("count", 0), at.state("total", 0)
        at.tool(act, lambda _: count.set(count.value + 1).and_then(total.update(lambda n: n + 1)))

    assert case.expect == "1"
    assert play_out(prompt, call("act", {})).values == {"count": 1, "total": 1}
    assert play_out(prompt, [call("act", {}), call("act", {})]).values == {"count": 1, "total": 2}


@case("LM-Q01")
def test_parallel_calls_lose_no_update(case: Case) -> None:
    """They do run at once, the second ends first, and the results stand in the order of the calls all the same."""
    ended: list[int] = []
    seen: list[tuple[object, ...]] = []
    second_ended = anyio.Event()

    def prompt(at: Render) -> None:
        count = at.state("count", 0)

        async def on_act(params: object) -> EffectOf[object]:
            millis: int = _field(params, "ms")
            if millis == 30:
                await second_ended.wait()
            update = count.update(lambda n: n + 1).and_then(fx.sync(lambda: ended.append(millis)))
            return update.and_then(fx.sync(second_ended.set)).as_(millis)

        at.tool(act, on_act)
        at.effect("see", lambda step: seen.append(tuple(result.result for result in step.last_results)))

    played = play_out(prompt, [call("act", {"ms": 30}), call("act", {"ms": 5})])

    assert "COMPLETION order" in case.expect
    assert ended == [5, 30]
    assert [result.result for result in played.answer.steps[0].results] == [30, 5]
    assert seen == [(), (30, 5)]
    assert played.values == {"count": 2}


# -- effects that read and change it


@case("LM-P09")
def test_what_an_effect_changes_shows_in_the_next_render(case: Case) -> None:
    """Not in this one: a render is not run again for it."""
    seen: list[int] = []

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        seen.append(count.value)
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("more", lambda _: count.update(lambda n: n + 1))

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "renders see 0,1,2: visible only in the next step, no same-step re-render"
    assert seen == [0, 1, 2]
    assert played.values == {"count": 3}


@case("LM129")
def test_a_step_tells_the_state_before_and_after_it(case: Case) -> None:
    """What a run did to the state is in the records of its steps."""

    def prompt(at: Render) -> None:
        count = at.state("count", 0)
        at.tool(act, lambda _: count.update(lambda n: n + 1))

    played = play_out(prompt, call("act", {}), call("act", {}))
    records = [step.record for step in played.answer.steps]

    assert case.expect == "value & setter defined; steps snapshot"
    assert [record.after.values for record in records] == [{"count": 1}, {"count": 2}, {"count": 2}]
    assert [record.before.values for record in records][1:] == [{"count": 1}, {"count": 2}]


@case("LM131")
def test_an_effect_runs_when_the_state_that_it_depends_on_changed(case: Case) -> None:
    """At first, and after the call that changed it; not after one that did not."""
    ran: list[tuple[int, str]] = []

    def prompt(at: Render) -> None:
        mode = at.state("mode", "a")
        at.tool(act, lambda _: mode.set("b"))
        at.tool(note, lambda _: fx.succeed(None))
        at.effect("on mode", lambda step: ran.append((step.number, mode.value)), deps=(mode.value,))

    play_out(prompt, call("note", {}), call("act", {}), call("note", {}))

    assert case.expect == "effect ran >=1"
    assert ran == [(1, "a"), (3, "b")]


# -- what effects see


def _views(render: Callable[[Render], None], *script: Any) -> list[StepView]:
    views: list[StepView] = []

    def prompt(at: Render) -> None:
        render(at)
        at.effect("look", views.append)

    play_out(prompt, *script)
    return views


def _searching(at: Render) -> None:
    at.tool(search, lambda p: fx.succeed({"results": [_field(p, "query")]}))
    at.system("role", "You search.")
    at.data("customer", {"name": "Ann"})


@case("LM133")
def test_an_effect_sees_what_the_step_is_to_be(case: Case) -> None:
    """The messages, the number, what is defined, and what came before."""
    views = _views(_searching, call("search", {"query": "q"}))
    first, second = views

    assert case.expect == "has messages[], stepNumber, tools/systems/variables with has(), lastTool"
    assert (first.number, first.tools, first.sections) == (1, ("search",), ("role", "customer"))
    assert [first.has(name) for name in ("search", "role", "customer", "nope")] == [True, True, True, False]
    assert [message.role for message in first.messages if message.role != "system"] == ["user"]
    assert (first.last, len(first.steps)) == (None, 0)
    assert [message.role for message in second.messages if message.role != "system"] == ["user", "assistant", "tool"]
    assert (second.number, second.last, len(second.steps)) == (2, second.steps[-1], 1)


@case("LM134")
def test_an_effect_adds_a_message_to_the_step(case: Case) -> None:
    """In that step, at the end; the conversation stays, and the message is no part of it."""

    def prompt(at: Render) -> None:
        at.tool(act, lambda _: fx.succeed(None))
        at.effect("once", lambda _: StepPatch.message(SystemMessage("Be quick.")), deps=())

    played = play_out(prompt, call("act", {}))
    shown = [list(request.prompt) for request in played.requests]

    assert "prompt replaced by that message" in case.expect
    assert [message.role for message in shown[0]] == ["user", "system"]
    assert "Be quick." in played.systems[0]
    assert "Be quick." not in played.systems[1]
    assert "Be quick." not in str(played.answer.history)


@case("LM135")
def test_an_effect_sees_the_last_call_and_its_result(case: Case) -> None:
    """With its parameters, in the step behind it and in no other."""
    views = _views(_searching, call("search", {"query": "q"}), call("search", {"query": "r"}))

    assert case.expect == "ctx.lastTool at step 1 == {toolName:search,args:{query},output:{results}}"
    assert [[(one.name, one.params) for one in view.last_calls] for view in views] == [
        [],
        [("search", {"query": "q"})],
        [("search", {"query": "r"})],
    ]
    assert [[one.result for one in view.last_results] for view in views] == [
        [],
        [{"results": ["q"]}],
        [{"results": ["r"]}],
    ]


@case("LM136")
def test_there_is_no_last_call_before_any(case: Case) -> None:
    """Nor a result, nor a step."""
    (view,) = _views(_searching)

    assert case.expect == "lastTool null at step 0"
    assert (view.last_calls, view.last_results, view.last) == ((), (), None)
