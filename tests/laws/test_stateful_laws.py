"""The laws of stateful prompts: patches, definitions, the state under parallel changes, and the state as JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents.stateful import Definition, PromptState, RenderOf, StatefulPrompt, StepPatch
from fxai.effects import Backend, Gen, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.reaching import Reached
from tests.kit.trials import examples

LOOPS = pytest.mark.parametrize("backend", ["asyncio", "trio"])

_NAMES = ("look", "wipe", "role", "facts")
_TOOL_OF: dict[str, Any] = {name: Tool.make(name, success=str) for name in _NAMES[:2]}


def _done(_: object) -> Any:
    return fx.succeed("done")


def run_of(render: Callable[[Any], None], turns: list[Any], backend: Backend = "asyncio", **given: Any) -> Any:
    """The answer of a run of a render over a script, and the requests that it made."""
    model = ScriptedModel.make(turns)
    prompt: Any = StatefulPrompt.make("p", render)
    answer = fx.run(prompt.execute("go", **given).provide(model.layer), backend=backend)
    return answer, model.requests


def _definitions() -> dict[str, Definition]:
    found: dict[str, Definition] = {}

    def render(at: RenderOf[Any, Any]) -> None:
        found.update({name: at.tool(_TOOL_OF[name], _done) for name in _NAMES[:2]})
        found["role"] = at.system("role", "You help.")
        found["facts"] = at.data("facts", 1)

    run_of(render, [text("ok")])
    return found


# -- patches


def _given(patch: Any, _: object) -> Any:
    return patch


@st.composite
def patches(draw: st.DrawFn) -> Any:
    """Any patch, of up to three pieces."""
    defined = _definitions()
    names = st.lists(st.sampled_from(_NAMES), max_size=2)

    def piece() -> Any:
        kind = draw(
            st.sampled_from(["hide", "hide one", "only", "remind", "disable", "tool", "system", "data", "message"])
        )
        match kind:
            case "hide":
                return StepPatch.hide(*draw(names))
            case "hide one":
                return StepPatch.hide(*[defined[name] for name in draw(names)])
            case "only":
                return StepPatch.only_sections(*draw(names))
            case "remind":
                return defined[draw(st.sampled_from(_NAMES))].remind()
            case "disable":
                return defined[draw(st.sampled_from(_NAMES))].disable()
            case "tool":
                return StepPatch.tool(_TOOL_OF[draw(st.sampled_from(_NAMES[:2]))], _done)
            case "system":
                return StepPatch.system("role", draw(st.sampled_from(["You help.", "You do not."])))
            case "data":
                return StepPatch.data("facts", draw(st.integers(0, 1)))
            case _:
                return StepPatch.message(draw(st.sampled_from(["one", "two"])))

    patch: Any = StepPatch()
    for _ in range(draw(st.integers(0, 3))):
        patch += piece()
    return patch


@settings(max_examples=examples(60, least=60))
@given(patches(), patches(), patches())
def test_patches_are_a_monoid(a: Any, b: Any, c: Any) -> None:
    """`+` is associative, and the empty patch changes nothing on either side; equal patches have equal hashes."""
    assert (a + b) + c == a + (b + c)
    assert StepPatch() + a == a == a + StepPatch()
    assert hash((a + b) + c) == hash(a + (b + c))
    assert repr(a) == repr(a + StepPatch())


@LOOPS
@given(st.permutations(["hide", "add", "remind", "note"]), st.integers(0, 3), st.booleans(), st.booleans())
def test_hide_wins_in_any_order_and_grouping(
    backend: Backend, order: list[str], split: int, by_name: bool, is_tool: bool
) -> None:
    """Whether in one effect or two, before or after what it hides is added; all else of the patches is there."""
    made: dict[str, Any] = {
        "hide": StepPatch.hide("look" if is_tool else "role"),
        "add": StepPatch.tool(_TOOL_OF["look"], _done) if is_tool else StepPatch.system("role", "You help."),
        "note": StepPatch.message("a note"),
    }

    def render(at: RenderOf[Any, Any]) -> None:
        kept = at.tool(_TOOL_OF["wipe"], _done)
        pieces = {**made, "remind": kept.remind()}
        if not by_name:
            pieces["hide"] += at.system("more", "More.").disable()
        for number, names in enumerate((order[:split], order[split:])):
            patch: Any = StepPatch()
            for name in names:
                patch += pieces[name]
            at.effect(f"e{number}", partial(_given, patch))

    answer, (first, *_) = run_of(render, [[call("look", {}, id="c1"), call("wipe", {}, id="c2")], text("ok")], backend)
    system = first.prompt.system() or ""

    assert [tool.name for tool in first.tools] == ["wipe"]
    assert "<role>" not in system
    assert "<more>" not in system
    assert [result.is_failure for result in answer.steps[0].results] == [True, False]
    assert "a note" in str(first.prompt)
    assert str(first.prompt).count("<reminder>") == 1


# -- definitions


@LOOPS
@given(st.lists(st.sampled_from(["tool", "system", "data", "composite"]), max_size=8), st.integers(0, 1))
def test_defining_twice_is_once_and_what_is_not_defined_is_gone(
    backend: Backend, defines: list[str], at_step: int
) -> None:
    """However often and in whatever order; in the other step there is none of it."""
    requests = [
        run_of(_defining(defs, at_step), _two_steps(), backend)[1] for defs in (defines, list(dict.fromkeys(defines)))
    ]

    assert requests[0] == requests[1]
    full, empty = requests[0][at_step], requests[0][1 - at_step]
    assert [tool.name for tool in empty.tools] == ["go_on"]
    assert empty.prompt.system() is None
    assert len(full.tools) == 1 + len({"tool", "composite"}.intersection(defines))
    assert (full.prompt.system() or "").count("<role>") == ("system" in defines)
    assert (full.prompt.system() or "").count("<facts>") == ("data" in defines)


def _two_steps() -> list[Any]:
    return [call("go_on", {}, id="c1"), text("ok")]


def _defining(defines: list[str], at_step: int) -> Callable[[Any], None]:
    go_on: Any = Tool.make("go_on", success=str)
    bound: Any = _TOOL_OF["wipe"].handler(_done)

    def render(at: RenderOf[Any, Any]) -> None:
        at.tool(go_on, _done)
        for one in defines if at.number == at_step + 1 else ():
            match one:
                case "tool":
                    at.tool(_TOOL_OF["look"], _done)
                case "composite":
                    at.composite("many", _bound(bound))
                case "system":
                    at.system("role", "You help.")
                case _:
                    at.data("facts", {"a": [1]})

    return render


def _bound(handlers: Any) -> Any:
    from fxai.tools import BoundToolkit, Toolkit

    of: Any = BoundToolkit.of
    return of(Toolkit.make(_TOOL_OF["wipe"]), handlers)


@LOOPS
def test_an_effect_runs_anew_when_it_comes_again(backend: Backend) -> None:
    """Also where a render between defined no effect at all."""
    ran: list[int] = []

    def render(at: RenderOf[Any, Any]) -> None:
        at.tool(_TOOL_OF["look"], _done)
        if at.number != 2:
            at.effect("e", lambda step: ran.append(step.number), ())

    run_of(render, [*[call("look", {}, id=f"c{number}") for number in range(4)], text("ok")], backend)

    assert ran == [1, 3]


# -- the state under parallel changes


def _put(mark: str, marks: tuple[str, ...]) -> tuple[str, ...]:
    return (*marks, mark)


_Op = tuple[Literal["add", "ticket", "append", "own"], int]


@LOOPS
def test_parallel_changes_lose_nothing(backend: Backend) -> None:
    """Many calls in one step, whose handlers wait between their changes: every change counts, once."""
    reached = Reached()
    job: Any = Tool.make("job", parameters=dict[str, int], success=str)

    @settings(max_examples=examples(30, least=30))
    @given(
        st.lists(
            st.lists(st.tuples(st.sampled_from(["add", "ticket", "append", "own"]), st.integers(0, 3)), max_size=4),
            min_size=1,
            max_size=8,
        )
    )
    def law(jobs: list[list[_Op]]) -> None:
        tickets: list[int] = []
        reached("many", len(jobs) > 2)

        def render(at: RenderOf[Any, Any]) -> None:
            total, taken = at.state("total", 0), at.state("taken", 0)
            log: Any = at.state("log", (), schema=tuple[str, ...])
            owns: list[Any] = [at.state(f"own{number}", 0) for number in range(len(jobs))]

            @fx.gen
            def handle(params: Any) -> Gen[str]:
                number: int = params["number"]
                for location, (op, waits) in enumerate(jobs[number]):
                    for _ in range(waits):
                        yield from fx.checkpoint()
                    match op:
                        case "add":
                            yield from total.update(lambda value: value + 1)
                        case "ticket":
                            tickets.append((yield from taken.modify(lambda value: (value, value + 1))))
                        case "append":
                            mark = f"{number}.{location}"
                            yield from log.update(partial(_put, mark))
                        case "own":
                            yield from owns[number].set((yield from owns[number].now) + 1)
                return "done"

            at.tool(job, handle)

        calls = [call("job", {"number": number}, id=f"c{number}") for number in range(len(jobs))]
        answer, _ = run_of(render, [calls, text("ok")], backend)
        values = answer.state.values
        ops = [op for ops in jobs for op, _ in ops]
        marks = [f"{n}.{at}" for n, ops in enumerate(jobs) for at, (op, _) in enumerate(ops) if op == "append"]
        reached("at once", ops.count("add") > 2)

        assert not any(result.is_failure for result in answer.steps[0].results)
        assert values["total"] == ops.count("add")
        assert sorted(tickets) == list(range(ops.count("ticket")))
        assert sorted(values["log"]) == sorted(marks)
        for number in range(len(jobs)):  # in the order of its own handler
            assert [one for one in values["log"] if one.startswith(f"{number}.")] == [
                one for one in marks if one.startswith(f"{number}.")
            ]
            assert values[f"own{number}"] == sum(op == "own" for op, _ in jobs[number])

    reached.by(law, **{"many": 5, "at once": 5})


@LOOPS
@given(st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_a_value_that_is_set_is_one_of_those_that_were(backend: Backend, waits: list[int]) -> None:
    """Whatever the order; a handler that has set it sees what it set, or what came later."""
    put: Any = Tool.make("put", parameters=dict[str, int], success=int)
    seen: list[tuple[int, int, int]] = []

    def note(number: int, rendered: int, now: int) -> None:
        seen.append((number, rendered, now))

    def render(at: RenderOf[Any, Any]) -> None:
        value: Any = at.state("value", -1)

        @fx.gen
        def handle(params: Any) -> Gen[int]:
            number: int = params["number"]
            for _ in range(waits[number]):
                yield from fx.checkpoint()
            yield from value.set(number)
            noted: Any = value.now.map(partial(note, number, value.value))
            yield from noted
            return number

        at.tool(put, handle)

    calls = [call("put", {"number": number}, id=f"c{number}") for number in range(len(waits))]
    answer, _ = run_of(render, [calls, text("ok")], backend)

    assert sorted(number for number, _, _ in seen) == list(range(len(waits)))
    assert answer.state.values["value"] in range(len(waits))
    assert all(rendered == -1 for _, rendered, _ in seen)
    assert all(now == number for number, _, now in seen)  # nothing comes between two effects that do not wait


class Basket(msgspec.Struct, frozen=True):
    """Lists in a struct."""

    fruits: list[str]
    inside: tuple[dict[str, list[int]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Box:
    """Lists in a dataclass."""

    fruits: list[str]
    count: int = 0


_HELD: list[tuple[Any, Callable[[Any], object]]] = [
    (["a"], lambda value: value.append("b")),
    ({"a": ["b"]}, lambda value: value["a"].append("c")),
    ((1, ["a"]), lambda value: value[1].append("b")),
    (Basket(["a"]), lambda value: value.fruits.append("b")),
    (Basket([], ({"a": [1]},)), lambda value: value.inside[0]["a"].append(2)),
    (Box(["a"]), lambda value: value.fruits.append("b")),
    ([Box(["a"])], lambda value: value[0].fruits.append("b")),
]


@every(("initial", "change"), _HELD)
def test_what_a_state_holds_is_changed_by_effects_alone(initial: Any, change: Callable[[Any], object]) -> None:
    """Lists and objects are frozen, all the way down, also in structs: a state that was given away stays as it is."""
    before = repr(initial)

    def render(at: RenderOf[Any, Any]) -> None:
        state: Any = at.state("held", initial)
        change(state.value)

    model = ScriptedModel.make([])
    prompt: Any = StatefulPrompt.make("p", render)
    ended: Any = fx.run_exit(prompt.execute("go").provide(model.layer))

    assert isinstance(ended.cause.defects[0], TypeError)
    assert repr(initial) == before


# -- the state as JSON


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct, frozen=True):
    """Two numbers and a name."""

    x: int
    y: float = 0.0
    name: str | None = None


class Cat(msgspec.Struct, frozen=True, tag="cat"):
    """An animal."""

    lives: int


class Dog(msgspec.Struct, frozen=True, tag="dog"):
    """Another one."""

    name: str


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_INTS = st.integers(-(2**53), 2**53)
_POINTS = st.builds(Point, _INTS, st.floats(allow_nan=False, allow_infinity=False), st.none() | _TEXTS)
_TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, _INTS),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, _TEXTS),
    (bool, st.booleans()),
    (int | None, st.none() | _INTS),
    (list[int], st.lists(_INTS, max_size=3)),
    (dict[str, list[str]], st.dictionaries(_TEXTS, st.lists(_TEXTS, max_size=2), max_size=2)),
    (tuple[str, ...], st.lists(_TEXTS, max_size=3).map(tuple)),
    (tuple[int, str], st.tuples(_INTS, _TEXTS)),
    (frozenset[int], st.frozensets(_INTS, max_size=1)),  # more have no order to be written in
    (Colour, st.sampled_from(Colour)),
    (Point, _POINTS),
    (list[Point], st.lists(_POINTS, max_size=2)),
    (Cat | Dog, st.builds(Cat, _INTS) | st.builds(Dog, _TEXTS)),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (uuid.UUID, st.uuids()),
    (bytes, st.binary(max_size=8)),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
]


@pytest.mark.slow
@LOOPS
@settings(max_examples=examples(60, least=60))
@given(st.data())
def test_a_state_goes_out_as_json_and_comes_in_again(backend: Backend, data: st.DataObject) -> None:
    """Values of declared types: the next run sees the very values, and its state is the same."""
    chosen = data.draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=4))
    initial = [data.draw(values) for _, values in chosen]
    later = [data.draw(values) for _, values in chosen]
    seen: list[list[Any]] = []

    def render(at: RenderOf[Any, Any]) -> None:
        states = [at.state(f"k{n}", initial[n], schema=type_) for n, (type_, _) in enumerate(chosen)]
        seen.append([state.value for state in states])
        sets = [states[n].set(value) for n, value in enumerate(later)]
        at.effect("set", lambda _: fx.for_each(sets, lambda one: one).as_(None), ())

    first, _ = run_of(render, [text("ok")], backend)
    written = first.state.to_json()
    read = PromptState.from_json(written).unwrap()
    second, _ = run_of(render, [text("ok")], backend, state=read)

    assert seen == [initial, later]
    assert all(isinstance(one, type(value)) for one, value in zip(seen[1], later, strict=True))
    assert read.to_json() == written
    assert second.state.to_json() == written
    assert PromptState.from_data(first.state.to_data()).unwrap().to_json() == written
    third, _ = run_of(render, [text("ok")], backend, state=first.state)  # as it is
    assert third.state == first.state


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100, least=100))
@given(_JSON, st.binary(max_size=12))
def test_whatever_is_no_state_is_refused_by_a_value(data: Any, raw: bytes) -> None:
    """JSON of any form is read or is a failure, which says where; it is never an exception."""
    encoded = msgspec.json.encode(data)
    read = [PromptState.from_data(data), PromptState.from_json(encoded), PromptState.from_json(raw)]
    for one in read:
        state = one.value_or(None)
        assert state is not None or str(one.failure())
        assert state is None or PromptState.from_json(state.to_json()).unwrap() == state


def test_no_order_of_keys_matters() -> None:
    """States are equal by content."""
    states: list[Any] = []
    for keys in itertools.permutations(["a", "b", "c"]):

        def render(at: RenderOf[Any, Any], keys: Any = keys) -> None:
            for key in keys:
                at.state(key, key)

        states.append(run_of(render, [text("ok")])[0].state)

    assert all(state == states[0] for state in states)
    assert dict(states[0].values) == {"a": "a", "b": "b", "c": "c"}
