"""What holds for every aspect: a monoid, that wraps handlers like an onion and does it to a layer as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai.effects import LayerOf, fx
from fxai.tools import Tool, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return

one = Tool.make("one", parameters=int, success=int, failure=str)
two = Tool.make("two", parameters=int, success=int, failure=str)
kit: Toolkit[Any] = Toolkit.make(one, two)

SAYINGS: st.SearchStrategy[tuple[str, int]] = st.tuples(
    st.sampled_from(["nothing", "return", "fail"]), st.integers(0, 3)
)


def _said(saying: tuple[str, int], seen: Any, lines: list[str], label: str) -> Any:
    lines.append(f"{label}({seen})")
    kind, n = saying
    if kind == "fail":
        return Failure(f"{label}{n}")
    return None if kind == "nothing" else Return(n)


class Journal:
    """What aspects and handlers note, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def handler(self, n: int) -> Result[int, str]:
        """Half of an even number."""
        self.lines.append(f"handler({n})")
        return Failure("odd") if n % 2 else Success(n // 2)

    def layer(self) -> LayerOf[Any, Any, None]:
        """Both handlers."""
        return one.handler(self.handler) | two.handler(self.handler)


JOURNAL = Journal()


@st.composite
def aspects(draw: st.DrawFn) -> Aspect:
    """An aspect of any hooks, each of which says something, for one tool or for all."""
    label = draw(st.text("abc", min_size=1, max_size=2))
    before, after, recover = draw(SAYINGS), draw(SAYINGS), draw(SAYINGS)
    shift = draw(st.integers(0, 2))

    def form(call: Invocation, result: Result[Any, Any]) -> Result[Any, Any]:
        JOURNAL.lines.append(f"{label}.format({result})")
        return result.map(lambda n: n + shift)

    def first(call: Invocation) -> Any:
        return _said(before, call.params, JOURNAL.lines, f"{label}.before")

    def second(call: Invocation, n: Any) -> Any:
        return _said(after, n, JOURNAL.lines, f"{label}.after")

    def third(call: Invocation, error: Any) -> Any:
        return _said(recover, error, JOURNAL.lines, f"{label}.recover")

    hooks: dict[str, Any] = {"before": first, "after": second, "recover": third, "format": form}
    chosen = {name: hooks[name] for name in draw(st.sets(st.sampled_from(sorted(hooks))))}
    tool: Any = draw(st.sampled_from([None, one, two]))
    made: Aspect = Aspect.make(tool=tool, **chosen) if tool else Aspect.make(**chosen)
    return made


CALLS = st.tuples(st.sampled_from(["one", "two"]), st.integers(0, 5))


def _run(layer: Any, call: tuple[str, int]) -> tuple[Any, list[str]]:
    JOURNAL.lines = []
    ended = fx.run_exit(kit.call(*call).provide(layer))
    return ended, JOURNAL.lines


@given(aspects(), aspects(), aspects(), CALLS)
def test_composition_is_associative(a: Aspect, b: Aspect, c: Aspect, call: tuple[str, int]) -> None:
    """As a value, and in what happens."""
    left, right = a.and_then(b).and_then(c), a.and_then(b.and_then(c))

    assert left == right
    assert hash(left) == hash(right)
    assert _run(left.wrap(JOURNAL.layer()), call) == _run(right.wrap(JOURNAL.layer()), call)


@given(aspects(), CALLS)
def test_the_empty_aspect_is_neutral(a: Aspect, call: tuple[str, int]) -> None:
    """From either side, and around a layer of its own."""
    empty = Aspect.empty()

    assert a.and_then(empty) == empty.and_then(a) == a
    assert _run(empty.wrap(JOURNAL.layer()), call) == _run(JOURNAL.layer(), call)


@given(aspects(), aspects(), CALLS)
def test_to_compose_is_to_wrap_twice(outer: Aspect, inner: Aspect, call: tuple[str, int]) -> None:
    """The outer aspect around what the inner one wrapped."""
    composed = outer.and_then(inner).wrap(JOURNAL.layer())

    assert _run(composed, call) == _run(outer.wrap(inner.wrap(JOURNAL.layer())), call)


@given(aspects(), CALLS)
def test_wrapping_and_checking_commute(a: Aspect, call: tuple[str, int]) -> None:
    """`to_layer` before or after: an aspect never changes which tool a handler is for."""
    assert _run(kit.to_layer(a.wrap(JOURNAL.layer())), call) == _run(a.wrap(kit.to_layer(JOURNAL.layer())), call)


@given(aspects(), CALLS)
def test_the_stages_come_in_order(a: Aspect, call: tuple[str, int]) -> None:
    """Before, handler, after, recover, format, each at most once; what `before` ended runs neither of the next two."""
    _, lines = _run(a.wrap(JOURNAL.layer()), call)
    order = ["before", "handler", "after", "recover", "format"]
    stages = [line.partition("(")[0].rpartition(".")[2] for line in lines]

    assert stages == sorted(set(stages), key=order.index)
    assert ("after" not in stages) or ("handler" in stages)


@given(st.lists(st.text("abc", min_size=1, max_size=2), max_size=4), CALLS)
def test_aspects_are_an_onion(labels: list[str], call: tuple[str, int]) -> None:
    """The outermost begins first and ends last."""
    whole = Aspect.empty()
    for label in labels:
        noting: Any = Aspect.make(
            before=lambda _, label=label: _said(("nothing", 0), 0, JOURNAL.lines, f"+{label}"),  # type: ignore[misc]
            format=lambda _, result, label=label: _said(("nothing", 0), 0, JOURNAL.lines, f"-{label}") or result,  # type: ignore[misc]
        )
        whole = whole.and_then(noting)
    _, lines = _run(whole.wrap(JOURNAL.layer()), call)
    around = [line.removesuffix("(0)") for line in lines if not line.startswith("handler")]

    assert around == [f"+{label}" for label in labels] + [f"-{label}" for label in reversed(labels)]
