"""Toolkits: tools together, and the layers of their handlers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Never

import pytest
from returns.result import Result, Success

from fxai.annotations import Readonly, Title
from fxai.effects import Backend, Layer, fx
from fxai.schema import SchemaError
from fxai.tools import HandlerError, Tool, ToolConflictError, Toolkit
from tests.kit.every import every
from tests.kit.samples import Sum, add, defect_of, double, on_add, on_double

one, two, three = Tool.make("one"), Tool.make("two"), Tool.make("three")
kit = Toolkit.make(one, two, three)
other_one = Tool.make("one", parameters=Sum, description="Another one.")
plus, minus = Tool.make("plus", parameters=Sum, success=int), Tool.make("minus", parameters=Sum, success=int)


def test_a_toolkit_holds_its_tools_by_name_in_order() -> None:
    """It is iterated, measured and asked for names."""
    assert list(kit.tools) == ["one", "two", "three"]
    assert list(kit) == [one, two, three]
    assert len(kit) == 3
    assert "two" in kit
    assert "four" not in kit
    assert repr(kit) == "Toolkit(one, two, three)"


def test_a_toolkit_is_a_value() -> None:
    """Its map refuses changes; equal toolkits hash equal; without functions it can be pickled."""
    tools: Any = kit.tools

    with pytest.raises(TypeError):
        tools["four"] = one
    assert kit == Toolkit.of([one, two, three])
    assert hash(kit) == hash(Toolkit.of([one, two, three]))
    assert kit != Toolkit.make(two, one, three)
    assert kit != [one, two, three]
    assert pickle.loads(pickle.dumps(kit)) == kit


def test_the_same_tool_twice_is_one_tool() -> None:
    """At the place where it came first."""
    assert Toolkit.make(one, two, one) == Toolkit.make(one, two)
    assert Toolkit.make(one).merge(Toolkit.make(two, one)) == Toolkit.make(one, two)


def test_two_different_tools_of_one_name_are_an_error_that_names_both() -> None:
    """The message says what each is, and the ways out."""
    ways: list[Callable[[], object]] = [
        lambda: Toolkit.make(one, other_one),
        lambda: Toolkit.make(one).merge(Toolkit.make(other_one)),
    ]
    for way in ways:
        with pytest.raises(ToolConflictError) as raised:
            way()

        assert "'one'" in str(raised.value)
        assert "Another one." in str(raised.value)
        assert "no description" in str(raised.value)
        assert "Rename or prefix" in str(raised.value)
        assert "on_conflict" in str(raised.value)


def test_a_conflict_can_be_settled() -> None:
    """The first or the last is kept, at the first one's place."""
    listed: list[Tool[Any, Any, Any]] = [one, two, other_one]

    assert list(Toolkit.of(listed, on_conflict="first")) == [one, two]
    assert list(Toolkit.of(listed, on_conflict="last")) == [other_one, two]
    merged = Toolkit.make(one, two).merge(Toolkit.make(other_one), on_conflict="last")
    assert list(merged) == [other_one, two]


def test_what_is_no_tool_is_refused() -> None:
    """A name or a function is no tool."""
    make: Any = Toolkit.make

    with pytest.raises(SchemaError, match="'add'"):
        make("add")


def test_pick_omit_and_filter_choose_in_this_order() -> None:
    """Whatever order the names are in."""
    assert kit.pick("three", "one") == Toolkit.make(one, three)
    assert kit.omit("two") == Toolkit.make(one, three)
    assert kit.filter(lambda tool: "t" in tool.name) == Toolkit.make(two, three)
    assert kit.pick() == Toolkit.empty()
    assert kit.omit() == kit


@pytest.mark.parametrize("method", ["pick", "omit"])
def test_a_name_that_is_not_there_is_an_error(method: str) -> None:
    """It names the tool and what there is."""
    with pytest.raises(KeyError, match=r"'four'.*one, two, three"):
        getattr(kit, method)("one", "four")


def test_rename_and_prefix_rename() -> None:
    """Some, or all; a new name that is taken is a conflict."""
    assert list(kit.prefix("k.").tools) == ["k.one", "k.two", "k.three"]
    assert list(kit.rename({"two": "zwei"}).tools) == ["one", "zwei", "three"]
    assert list(kit.rename({"one": "two", "two": "one"}).tools) == ["two", "one", "three"]
    with pytest.raises(KeyError, match="'four'"):
        kit.rename({"four": "vier"})
    with pytest.raises(ToolConflictError, match="'two'"):
        Toolkit.make(one, plus.rename("two")).rename({"one": "two"})


def test_annotate_all_annotates_each() -> None:
    """The tools stay the same tools."""
    marked = kit.annotate_all({Readonly: True, Title: "T"})

    assert [tool.get(Readonly) for tool in marked] == [True] * 3
    assert [tool.identity for tool in marked] == [tool.identity for tool in kit]


# -- layers


def test_missing_extra_and_doubled_handlers_are_errors_at_build(backend: Backend) -> None:
    """What the checkers cannot see is said when the layer is built, by name, before anything runs."""
    both: Any = Toolkit.make(plus, minus)
    on_plus: Any = plus.handler(on_add)
    on_minus: Any = minus.handler(lambda p: fx.succeed(p.a - p.b))
    second: Any = plus.handler(lambda p: fx.succeed(0))
    stranger: Any = add.handler(on_add)
    cases = {
        "no handler for: minus": on_plus,
        "no handler for: plus, minus": stranger,
        "not in the toolkit: add": on_plus | on_minus | stranger,
        "two handlers for: plus": on_plus | on_minus | second,
    }

    for said, layer in cases.items():
        defect = defect_of(both.call("plus", {"a": 1, "b": 1}).provide(both.to_layer(layer)), backend)
        assert isinstance(defect, HandlerError)
        assert said in str(defect)
        assert "Toolkit(plus, minus)" in str(defect)


_SOME: dict[str, Callable[[Any], Any]] = {
    "pick": lambda kit: kit.pick("plus"),
    "omit": lambda kit: kit.omit("minus"),
    "filter": lambda kit: kit.filter(plus.__eq__).prefix("").rename({}),
    "merge": lambda kit: Toolkit.make(add).merge(kit.omit("minus")).omit("add"),
    "conflict": lambda kit: Toolkit.make(minus.rename("plus")).merge(kit.pick("plus"), on_conflict="last"),
    "copy": lambda kit: pickle.loads(pickle.dumps(kit.pick("plus"))),
}


@every("change", _SOME.values(), ids=_SOME)
def test_a_toolkit_of_some_tools_takes_the_handlers_of_all(change: Any, backend: Backend) -> None:
    """As its type says; only those of its own tools are demanded."""
    both: Any = Toolkit.make(plus, minus)
    on_plus: Any = plus.handler(on_add)
    on_minus: Any = minus.handler(lambda p: fx.succeed(p.a - p.b))
    some = change(both)
    call = some.call("plus", {"a": 1, "b": 2})

    assert fx.run(call.provide(some.to_layer(on_plus | on_minus)), backend=backend).result == 3
    assert fx.run(call.provide(some.to_layer(on_plus)), backend=backend).result == 3
    defect = defect_of(call.provide(some.to_layer(on_minus)), backend)
    assert "no handler for: plus" in str(defect)


def test_a_call_without_a_handler_is_a_defect_that_names_the_tool(backend: Backend) -> None:
    """Where no `to_layer` checked, the call itself says what is missing."""
    both: Any = Toolkit.make(plus, minus)
    called: Any = both.call("minus", {"a": 1, "b": 1}).provide(plus.handler(on_add))

    defect = defect_of(called, backend)

    assert "'minus'" in str(defect)
    assert "tool.handler(f)" in str(defect)


def test_one_handler_given_twice_is_one() -> None:
    """The same function for the same tool is no conflict."""
    layer = add.handler(on_add)
    handlers = Toolkit.make(add).to_layer(layer | add.handler(on_add))

    assert fx.run(Toolkit.make(add).call("add", {"a": 1, "b": 2}).provide(handlers)).result == 3


def test_an_external_tool_needs_no_handler_at_build() -> None:
    """`to_layer` asks for the handlers of the others only."""
    mixed = Toolkit.make(add.external(), double)
    handlers = mixed.to_layer(double.handler(on_double))

    assert fx.run(mixed.call("double", {"a": 1, "b": 2}).provide(handlers)).result == 6


def test_handlers_of_two_toolkits_do_not_mix() -> None:
    """Two tools of one name, in two toolkits, each have their own handler."""
    stern = Tool.make("add", parameters=Sum, success=int, description="Another add.", failure=Sum)
    here = Toolkit.make(add).to_layer(add.handler(on_add))
    there = Toolkit.make(stern).to_layer(stern.handler(lambda p: fx.succeed(100)))
    params = {"a": 1, "b": 2}
    both = fx.all_(Toolkit.make(add).call("add", params), Toolkit.make(stern).call("add", params))

    assert [outcome.result for outcome in fx.run(both.provide(here).provide(there))] == [3, 100]


def test_one_tool_under_two_names_has_one_handler() -> None:
    """A renamed tool is the same tool, so both names are answered."""
    twice = Toolkit.make(add, add.rename("sum"))
    handlers = twice.to_layer(add.handler(on_add))
    called = twice.call("sum", {"a": 1, "b": 2}).flat_map(lambda a: twice.call("add", {"a": a.result, "b": 1}))

    assert fx.run(called.provide(handlers)).result == 4


def test_no_tools_need_no_handlers() -> None:
    """The empty toolkit is served by an empty layer, and knows no name."""
    outcome = fx.run(Toolkit.empty().call("add", {}))

    assert outcome.is_failure
    assert "No tools exist" in str(outcome.result)


@pytest.mark.parametrize("from_the_left", [True, False], ids=["from the left", "from the right"])
def test_any_number_of_handlers_is_joined(from_the_left: bool, backend: Backend) -> None:
    """A thousand joined by `|`, one after the other, are no recursion as deep as they are many."""
    tools = [Tool.make(f"tool-{number}", success=int) for number in range(1_000)]
    layers: list[Any] = [made.handler(lambda _, call: Success(len(call.tool.name))) for made in tools]
    joined = reduce(lambda a, b: a | b, layers) if from_the_left else reduce(lambda a, b: b | a, reversed(layers))
    many = Toolkit.of(tools)

    assert fx.run_sync(many.call("tool-999", {}).provide(many.to_layer(joined))).result == len("tool-999")
    assert fx.run(many.call("tool-0", {}).provide(many.to_layer(joined)), backend=backend).result == len("tool-0")


def test_a_toolkit_of_many_needs_each_of_their_handlers() -> None:
    """Two hundred tools: their handlers are merged at once, and one that is missing is named."""
    tools = [Tool.make(f"tool{n}", success=int) for n in range(200)]
    handlers = [tool.handler(partial(_number, n)) for n, tool in enumerate(tools)]
    kit = Toolkit.make(*tools)

    assert fx.run(kit.call("tool150", {}).provide(kit.to_layer(Layer.merge_all(*handlers)))).result == 150
    with pytest.raises(HandlerError, match="no handler for: tool7"):
        fx.run(kit.call("tool150", {}).provide(kit.to_layer(Layer.merge_all(*handlers[:7], *handlers[8:]))))


def _number(n: int, _: object) -> Result[int, Never]:
    return Success(n)
