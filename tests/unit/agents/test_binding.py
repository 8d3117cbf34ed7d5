"""Bindings: what may be given as tools, what comes along, and what is done about names."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Success

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Binding
from fxai.effects import Backend, fx
from fxai.tools import Tool, ToolConflictError, Toolkit
from tests.kit.every import every
from tests.kit.samples import add, double, giving

other_add = Tool.make("add", success=str)


@tool
def triple(n: int) -> int:
    """Triples a number."""
    return 3 * n


@tool
def halve(n: int) -> int:
    """Halves a number."""
    return n // 2


class Desk:
    """A desk."""

    def tidy(self) -> str:
        """Tidies the desk."""
        return "tidy"


def _source(*tools: Any) -> ToolSource[Any, Any, Any]:
    bound: Any = BoundToolkit.make(*tools)
    return ToolSource(fx.succeed(bound))


def _names(binding: Binding) -> list[str]:
    return list(binding.toolkit.tools)


# -- what may be given


def test_every_form_of_tools_is_taken() -> None:
    """Tools, toolkits, function tools, bound toolkits and composites, one by one and in lists; in their order."""
    composite = Toolkit.make(add).as_tool("many")
    bound = Toolkit.from_object(Desk())
    binding = Binding.of((double, Toolkit.make(add), [triple, halve], bound, composite))

    assert _names(binding) == ["double", "add", "triple", "halve", "Desk.tidy", "many"]
    assert [one.name for one in binding.unanswered] == ["double", "add"]
    assert not binding.is_plain
    assert Binding.of((double, [add])).is_plain


def test_the_tools_of_a_source_are_known_once_it_is_open(backend: Backend) -> None:
    """Before, the binding shows none of them; opened, they have their place in the order."""
    binding = Binding.of((double, _source(triple), add))
    opened: Any = fx.run(fx.scoped(binding.open()), backend=backend)

    assert _names(binding) == ["double", "add"]
    assert list(opened.toolkit.tools) == ["double", "triple", "add"]


@every(
    ("given", "remedy"),
    [
        ([123], r"tools must be tools, toolkits, .*servers, or lists of them, got 123\."),
        ("search", "Pass the tool itself, not its name"),
        (Desk, r"pass Toolkit.from_object\(Desk\(\)\)"),
        (Desk(), r"pass Toolkit.from_object\(obj\)"),
        (len, r"Convert a function with fxai.tool\(f\)"),
        (Agent.make("a"), r"Convert an agent with agent.as_tool\(…\)"),
        (Agent.make("a").builder, r"Convert an agent with agent.as_tool\(…\)"),
        (add.handler(giving(1)), "Provide a layer of handlers to the run"),
        ({"add": add}, r"Pass its elements: \*tools"),
        ([[add]], r"got \[Tool\(.{,75}…\. Pass its elements: \*tools"),
        (None, "got None"),
    ],
)
def test_what_is_no_tool_is_refused(given: object, remedy: str) -> None:
    """The message says what can be given, and how this is made one."""
    with pytest.raises(TypeError, match=remedy):
        Binding.of((given,))


def test_a_policy_for_names_that_there_is_not_is_refused() -> None:
    """It is no "first"."""
    policy: Any = "newest"

    with pytest.raises(ValueError, match="on_conflict must be one of 'error', 'first', 'last', got 'newest'"):
        Binding.of((add,), on_conflict=policy)


# -- names


def test_the_same_tool_is_one() -> None:
    """Given again, alone or in a toolkit, it changes nothing."""
    binding = Binding.of((add, double))

    assert binding.with_offers((double, Toolkit.make(add, double), [add])) == binding
    assert hash(binding.with_offers((add,))) == hash(binding)


def test_the_same_handlers_are_taken_once() -> None:
    """A function tool given again, alone or with others, adds what is new."""
    binding = Binding.of((BoundToolkit.make(triple, halve),))

    assert binding.with_offers((triple,)) == binding
    assert Binding.of((triple, halve)) == binding
    assert Binding.of((triple, double, triple)) == Binding.of((triple, double))


def test_a_tool_that_comes_with_its_handler_needs_none() -> None:
    """Given plain and bound, in either order, the handler that comes along is there."""
    for given in ((triple.tool, triple), (triple, triple.tool)):
        binding = Binding.of(given)

        assert _names(binding) == ["triple"]
        assert len(binding.unanswered) == 0


def test_two_tools_of_one_name_are_refused() -> None:
    """Unless the caller says which to keep."""
    binding = Binding.of((add, double))

    with pytest.raises(ToolConflictError, match="'add'"):
        binding.with_offers((other_add,))
    assert binding.with_offers((other_add,), on_conflict="first") == binding
    assert binding.with_offers((other_add,), on_conflict="last").toolkit.tools["add"] == other_add
    assert _names(binding.with_offers((other_add,), on_conflict="last")) == ["add", "double"]


def test_what_gives_way_is_left_out() -> None:
    """Given again, a function tool whose name is taken changes nothing, nor does a plain one."""
    other: Any = Tool.make("triple")
    binding = Binding.of((other, triple), on_conflict="first")

    assert binding.toolkit.tools["triple"] == other
    assert binding.with_offers((triple, triple.tool), on_conflict="first") == binding


def test_an_external_tool_needs_no_handler() -> None:
    """Nobody here answers it."""
    assert len(Binding.of((Tool.make("client").external(),)).unanswered) == 0


def test_two_tools_of_one_name_may_show_when_a_source_is_open(backend: Backend) -> None:
    """Then the run ends with it, as a defect, unless the offer says which to keep."""
    made = Tool.make("triple")
    refused: Any = fx.run_exit(fx.scoped(Binding.of((made, _source(triple))).open()), backend=backend)
    first: Any = Binding.of((made,)).with_offers((_source(triple),), on_conflict="first")
    last: Any = Binding.of((made,)).with_offers((_source(triple),), on_conflict="last")

    assert [type(defect) for defect in refused.cause.defects] == [ToolConflictError]
    assert fx.run(fx.scoped(first.open()), backend=backend).toolkit.tools["triple"] == made
    assert fx.run(fx.scoped(last.open()), backend=backend).toolkit.tools["triple"] == triple.tool


def test_the_same_source_is_opened_once(backend: Backend) -> None:
    """Given again, it is the one that was there; another one is another."""
    seen: list[str] = []

    def opened(name: str) -> ToolSource[Any, Any, Any]:
        bound: Any = BoundToolkit.make(triple)
        acquire = fx.sync(lambda: seen.append(f"+{name}"))
        source: Any = fx.acquire_release(acquire, lambda _: fx.sync(lambda: seen.append(f"-{name}"))).as_(bound)
        return ToolSource(source)

    a, b = opened("a"), opened("b")
    fx.run(fx.scoped(Binding.of((a, b, a)).open()), backend=backend)

    assert seen == ["+a", "+b", "-b", "-a"]


# -- handlers


def test_handlers_come_along(backend: Backend) -> None:
    """The layer of what is opened has them; those of plain tools are from outside."""

    def call(bound: Any) -> Any:
        called = fx.all_(bound.toolkit.call("triple", {"n": 2}), bound.toolkit.call("add", {"a": 1, "b": 2}))
        return called.provide(bound.layer)

    opened: Any = Binding.of((triple, add)).open()
    program: Any = fx.scoped(opened.flat_map(call))
    triples, sums = fx.run(program.provide(add.handler(lambda p: Success(p.a + p.b))), backend=backend)

    assert (triples.result, sums.result) == (6, 3)


def test_a_binding_shows_its_tools() -> None:
    """By name; a source as itself."""
    assert str(Binding.of((add, triple))) == "add, triple"
    assert str(Binding.of((_source(triple), double))) == "a tool source, double"


def test_nothing_is_opened_before_it_is_run() -> None:
    """Opening is an effect."""
    seen: list[str] = []
    source: Any = ToolSource(fx.sync(lambda: seen.append("opened")).as_(BoundToolkit.make(triple)))
    program = Binding.of((source,)).open()

    assert seen == []
    fx.run(fx.scoped(program))
    assert seen == ["opened"]
