"""Live bound toolkits: tools that change while they are open, through every combinator."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Result, Success

from fxai import BoundToolkit, Tool, Toolkit, fx
from fxai.effects import EffectOf, LayerOf

one, two = Tool.make("one", success=int), Tool.make("two", success=int)


def _give(_: Any) -> Result[int, Any]:
    return Success(1)


def _bound(tool: Tool[Any, Any, Any], now: EffectOf[Any] | None = None) -> BoundToolkit[Any]:
    return BoundToolkit.of(Toolkit.make(tool), tool.handler(_give), origin=tool.name, now=now)


def _live() -> BoundToolkit[Any]:
    """Has `one` at first, and `two` from when it is asked."""
    return _bound(one, fx.succeed(_bound(two)))


def test_what_is_not_live_is_itself_now() -> None:
    """The `now` of an ordinary bound toolkit is itself."""
    bound = _bound(one)

    assert not bound.is_live
    assert fx.run_sync(bound.now) is bound


def test_what_is_live_gives_its_tools_of_then() -> None:
    """`now` gives the tools as they are when it runs, with the handlers that belong to them."""
    live = _live()
    now = fx.run_sync(live.now)

    assert live.is_live
    assert list(now.toolkit.tools) == ["two"]
    assert fx.run_sync(now.toolkit.call("two", {}).provide(now.layer)).result == 1


def test_combinators_keep_it_live() -> None:
    """Prefixed, changed or merged, on either side, it is live still, and the change applies to the tools of then."""
    other = _bound(Tool.make("three", success=int))
    changed = [
        _live().prefix("x_"),
        _live().with_toolkit(lambda kit: kit.filter(lambda tool: tool.name == "one")),
        _live().merge(other),
        other.merge(_live()),
        other.merge(other),
    ]

    assert [bound.is_live for bound in changed] == [True, True, True, True, False]
    assert [list(fx.run_sync(bound.now).toolkit.tools) for bound in changed[:4]] == [
        ["x_two"],
        [],
        ["two", "three"],
        ["three", "two"],
    ]


class _Server:
    """Whose tools are what the test says; they are listed anew only where that changed."""

    def __init__(self, origin: str, *tools: Tool[Any, Any, Any]) -> None:
        self.origin = origin
        self.offer(*tools)

    def offer(self, *tools: Tool[Any, Any, Any]) -> None:
        """Changes its tools."""
        handlers: Any = LayerOf.empty()
        for tool in tools:
            handlers = handlers | tool.handler(_give)
        now: Any = fx.suspend(lambda: fx.succeed(self.bound))
        self.bound: BoundToolkit[Any] = BoundToolkit.of(Toolkit.of(tools), handlers, origin=self.origin, now=now)


def _named(bound: BoundToolkit[Any]) -> dict[str, str]:
    """What the tools are now, by name: the origin, which the description says."""
    now = fx.run_sync(bound.now)
    return {tool.name: tool.description or "" for tool in now.toolkit}


def _of(origin: str, name: str) -> Tool[Any, Any, Any]:
    return Tool.make(name, description=origin, success=int)


def test_a_function_of_the_tools_is_asked_only_when_they_changed() -> None:
    """Once at first, and once for each change; also where it stands between two others."""
    asked: list[list[str]] = []

    def look(kit: Toolkit[Any]) -> Toolkit[Any]:
        asked.append(list(kit.tools))
        return kit

    server = _Server("a", _of("a", "one"))
    live = server.bound.prefix("x_").with_toolkit(look).merge(_bound(two))
    same = [fx.run_sync(live.now) for _ in range(3)]
    server.offer(_of("a", "one"), _of("a", "three"))
    changed = [fx.run_sync(live.now) for _ in range(3)]

    assert asked == [["x_one"], ["x_one", "x_three"]]
    assert len({id(one) for one in same}) == len({id(one) for one in changed}) == 1
    assert list(changed[0].toolkit.tools) == ["x_one", "x_three", "two"]


@pytest.mark.parametrize("live_first", [True, False])
def test_a_newcomer_does_not_take_a_name(live_first: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever comes first in the merge: what was there stays, and it is said once that the other is left out."""
    server, own = _Server("server", _of("server", "one")), _bound(_of("own", "two"))
    live: Any = server.bound.merge(own) if live_first else own.merge(server.bound)
    server.offer(_of("server", "one"), _of("server", "two"))
    then = _named(live)
    server.offer(_of("server", "two"), _of("server", "three"))
    later = _named(live)

    assert then == {"one": "server", "two": "own"}
    assert later == {"two": "own", "three": "server"}
    assert [record.getMessage() for record in caplog.records] == [
        "ignored the new tool 'two', because another tool has this name. Add a prefix to one source."
    ]


def test_the_first_of_two_newcomers_stays() -> None:
    """Of two that come at once it is the first one's; when that goes the other one is there."""
    a, b = _Server("a", _of("a", "one")), _Server("b", _of("b", "two"))
    live = a.bound.merge(b.bound)
    a.offer(_of("a", "new"))
    b.offer(_of("b", "new"))
    both = _named(live)
    a.offer()

    assert both == {"new": "a"}
    assert _named(live) == {"new": "b"}


def test_who_was_first_stays_when_it_changes_its_tool() -> None:
    """A tool that is described anew is no newcomer."""
    a, b = _Server("a", _of("a", "one")), _Server("b", _of("b", "two"))
    live = a.bound.merge(b.bound)
    a.offer(_of("a", "two"))
    fx.run_sync(live.now)
    b.offer(_of("b, anew", "two"))

    assert _named(live) == {"two": "b, anew"}


def test_a_conflict_that_was_settled_stays_so() -> None:
    """`on_conflict` holds for the tools of later, too."""
    server = _Server("server", _of("server", "one"))
    live = _bound(_of("own", "two")).merge(server.bound, on_conflict="last")
    server.offer(_of("server", "two"))

    assert _named(live) == {"two": "server"}


def test_tools_stay_where_nothing_can_be_made_of_the_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    """A function that needs a tool that is gone does not end a run; it is asked again after the next change."""
    server = _Server("server", _of("server", "one"), _of("server", "two"))
    live = server.bound.with_toolkit(lambda kit: kit.pick("one"))
    server.offer(_of("server", "two"))
    gone = [_named(live), _named(live)]
    server.offer(_of("back", "one"))

    assert gone == [{"one": "server"}] * 2
    assert _named(live) == {"one": "back"}
    assert ["the previous tools stay" in record.getMessage() for record in caplog.records] == [True]


def test_a_bound_toolkit_calls_a_tool_by_its_own_handlers() -> None:
    """A call needs no layer; a live one answers with the tools that it has when the call runs."""
    other = Tool.make("other", success=int)
    kit = _bound(Tool.make("first", success=int), fx.succeed(_bound(other)))
    assert fx.run(_bound(other).call("other", {})).is_failure is False
    assert fx.run(kit.call("other", {})).is_failure is False
    assert "did you mean" not in str(fx.run(kit.call("first", {})).result)
