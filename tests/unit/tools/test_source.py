"""Sources: tools that come with their handlers."""

from __future__ import annotations

from typing import Any, Never

import msgspec
import pytest
from returns.result import Failure, Success

from fxai import BoundToolkit, Gen, Layer, Scope, Tag, Tool, ToolConflictError, Toolkit, ToolSource, fx, tool
from fxai.effects import Backend
from fxai.tools import HandlerError


class Rate(Tag[int]):
    """What to multiply with."""


class Closed(msgspec.Struct, frozen=True):
    """The door is closed."""


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def double(n: int) -> int:
    """Doubles."""
    return 2 * n


@tool
def rated(n: int) -> Gen[int, Never, Rate]:
    """Multiplies."""
    rate = yield from fx.service(Rate)
    return n * rate


plain = Tool.make("plain", success=str)
RATE = Layer.succeed(Rate, 10)


class Counter:
    """Counts."""

    def __init__(self) -> None:
        """Begin at none."""
        self.n = 0

    def count(self) -> int:
        """Counts on."""
        self.n += 1
        return self.n


# -- bound toolkits


def test_a_bound_toolkit_is_tools_with_their_layer() -> None:
    """Of functions, of other bound toolkits, of a toolkit and its layer."""
    answered = BoundToolkit.of(Toolkit.make(plain), plain.handler(lambda _: Success("yes")))
    bound = BoundToolkit.make(add, answered, rated)
    called = [
        fx.run(bound.toolkit.call(name, params).provide(bound.layer.provide(RATE))).result
        for name, params in (("add", {"a": 1, "b": 2}), ("plain", {}), ("rated", {"n": 2}))
    ]

    assert list(bound.toolkit.tools) == ["add", "plain", "rated"]
    assert called == [3, "yes", 20]
    assert repr(bound) == "BoundToolkit(add, plain, rated)"


def test_there_may_be_none() -> None:
    """Nothing merged is nothing."""
    nothing = BoundToolkit.make()

    assert len(nothing.toolkit) == 0
    assert nothing.merge(BoundToolkit.make(add)) == BoundToolkit.make(add)


def test_merging_keeps_order_and_takes_each_once() -> None:
    """The same function twice is one tool with one handler."""
    bound = BoundToolkit.make(add, double).merge(BoundToolkit.make(double, add))

    assert bound == BoundToolkit.make(add, double)
    assert hash(bound) == hash(BoundToolkit.make(add, double))
    assert fx.run(bound.toolkit.call("double", {"n": 2}).provide(bound.layer)).result == 4


def test_merging_is_associative() -> None:
    """However it is bracketed."""
    a, b, c = BoundToolkit.make(add), BoundToolkit.make(double), BoundToolkit.make(rated)

    assert a.merge(b).merge(c) == a.merge(b.merge(c))


def test_two_tools_of_one_name_do_not_merge() -> None:
    """Unless it is said which to keep; then its handler answers."""
    other = double.rename("add")
    kept = BoundToolkit.make(add).merge(BoundToolkit.make(other), on_conflict="last")

    with pytest.raises(ToolConflictError, match="two different tools have the name 'add'"):
        BoundToolkit.make(add, other)
    assert fx.run(kept.toolkit.call("add", {"n": 4}).provide(kept.layer)).result == 8


def test_two_handlers_of_one_tool_are_told() -> None:
    """Tools made alike of two objects would be answered by one of them in silence."""
    both = Toolkit.from_object(Counter()).merge(Toolkit.from_object(Counter()))

    with pytest.raises(HandlerError, match=r"two handlers for: Counter.count. .*Toolkit.from_object\(obj, name=…\)"):
        fx.run(both.toolkit.call("Counter.count", {}).provide(both.layer))


def test_the_tools_can_be_changed_and_keep_their_handlers() -> None:
    """Chosen, renamed, annotated: handlers follow the tool's identity."""
    bound = BoundToolkit.make(add, double).with_toolkit(lambda kit: kit.omit("add")).prefix("math.")

    assert list(bound.toolkit.tools) == ["math.double"]
    assert fx.run(bound.toolkit.call("math.double", {"n": 2}).provide(bound.layer)).result == 4
    assert bound != BoundToolkit.make(add, double)
    assert bound != "bound"


# -- sources


def test_handlers_of_another_bound_toolkit_can_be_left_out() -> None:
    """The tools stay; a live one stays itself."""
    both: Any = BoundToolkit.make(add, double)
    rest = both.without_handlers_of(BoundToolkit.make(double))
    live: Any = BoundToolkit.of(both.toolkit, both.layer, now=fx.succeed(both))

    assert list(rest.toolkit.tools) == ["add", "double"]
    assert rest == BoundToolkit.make(add).with_toolkit(lambda _: both.toolkit)
    assert both.without_handlers_of(both) == both.without_handlers_of(both).without_handlers_of(both) != both
    assert live.without_handlers_of(live) is live


def test_a_source_is_opened_for_one_program_and_closed_after_it(backend: Backend) -> None:
    """What it opened is released when the program ends, and only then."""
    log: list[str] = []

    @fx.gen
    def opening() -> Gen[BoundToolkit[Any], Never, Scope]:
        yield from fx.acquire_release(
            fx.sync(lambda: log.append("open")), lambda _: fx.sync(lambda: log.append("close"))
        )
        return BoundToolkit.make(add)

    def program(kit: Toolkit[Any]) -> Gen[Any, Any, Any]:
        outcome = yield from kit.call("add", {"a": 1, "b": 2})
        log.append("called")
        return outcome.result

    source: ToolSource[Any, Never, None] = ToolSource(opening())
    used = source.use(fx.gen(program))

    assert log == []
    assert [fx.run(used, backend=backend), fx.run(used, backend=backend)] == [3, 3]
    assert log == ["open", "called", "close"] * 2


def test_a_stream_may_use_a_source(backend: Backend) -> None:
    """It is open while items are read, and closed when there are no more, or nobody wants them."""
    log: list[str] = []
    closing = fx.add_finalizer(lambda _: fx.sync(lambda: log.append("close")))
    source: ToolSource[Any, Never, None] = ToolSource(closing.as_(BoundToolkit.make(add)))
    items = source.use_stream(lambda kit: kit.handle("add", {"a": 1, "b": 2}))
    seen = items.tap(lambda outcome: fx.sync(lambda: log.append(str(outcome.result))))

    assert [outcome.result for outcome in fx.run(seen.collect(), backend=backend)] == [3]
    assert len(fx.run(seen.take(1).collect(), backend=backend)) == 1
    assert log == ["3", "close"] * 2


def test_it_is_closed_when_the_program_fails() -> None:
    """By a failure or by a defect."""
    log: list[str] = []
    closing = fx.add_finalizer(lambda _: fx.sync(lambda: log.append("close")))
    source: ToolSource[Any, Never, None] = ToolSource(closing.as_(BoundToolkit.make(add)))
    failed = fx.run_result(source.use(lambda _: fx.fail("no")))
    with pytest.raises(ZeroDivisionError):
        fx.run(source.use(lambda _: fx.die(ZeroDivisionError())))

    assert failed == Failure("no")
    assert log == ["close", "close"]


def test_what_cannot_be_opened_fails_as_declared() -> None:
    """And the program does not begin."""
    began: list[int] = []
    source: ToolSource[Any, Closed, None] = ToolSource(fx.fail(Closed()))
    used = source.use(lambda kit: fx.sync(lambda: began.append(len(kit))))

    assert fx.run_result(used) == Failure(Closed())
    assert began == []


def test_every_origin_is_a_source() -> None:
    """A function, a bound toolkit, a source."""
    origins: list[ToolSource[Any, Never, None]] = [
        ToolSource.of(add),
        ToolSource.of(BoundToolkit.make(add)),
        ToolSource.of(ToolSource.of(add)),
    ]

    assert [fx.run(each.use(lambda kit: kit.call("add", {"a": 1, "b": 1}))).result for each in origins] == [2, 2, 2]


def test_sources_merge() -> None:
    """Opened in order, closed in reverse; their needs add up."""
    log: list[str] = []

    def opened(name: str, bound: BoundToolkit[Any, Never, Any]) -> ToolSource[Any, Never, Any]:
        acquire = fx.sync(lambda: log.append(f"+{name}"))
        release = fx.sync(lambda: log.append(f"-{name}"))
        return ToolSource(fx.acquire_release(acquire, lambda _: release).as_(bound))

    source = opened("a", BoundToolkit.make(add)).merge(opened("b", BoundToolkit.make(rated))).prefix("x.")
    used: Any = source.use(lambda kit: kit.call("x.rated", {"n": 3}))

    assert fx.run(used.provide(RATE)).result == 30
    assert log == ["+a", "+b", "-b", "-a"]


def test_a_conflict_of_sources_is_a_defect_when_they_are_opened() -> None:
    """Unless it is said which to keep."""
    other = double.rename("add")

    with pytest.raises(ToolConflictError):
        fx.run(ToolSource.of(add).merge(ToolSource.of(other)).use(lambda kit: fx.succeed(len(kit))))
    assert (
        fx.run(
            ToolSource.of(add).merge(ToolSource.of(other), on_conflict="first").use(lambda kit: fx.succeed(len(kit)))
        )
        == 1
    )


def test_the_tools_of_a_source_can_be_changed() -> None:
    """Once they are known."""
    source = ToolSource.of(BoundToolkit.make(add, double)).with_toolkit(lambda kit: kit.pick("add"))

    assert fx.run(source.use(lambda kit: fx.succeed(list(kit.tools)))) == ["add"]
