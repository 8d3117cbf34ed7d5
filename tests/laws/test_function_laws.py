"""Laws of tools from functions: called as a tool, a function gives what it gives when it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fxai import FunctionTool, Schema, Toolkit, fx, tool


class Item(msgspec.Struct, frozen=True):
    """A part of a value."""

    n: int
    tags: tuple[str, ...] = ()


TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=5),
    bool: st.booleans(),
    list[int]: st.lists(st.integers(0, 9), max_size=3),
    dict[str, int]: st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3),
    int | None: st.none() | st.integers(0, 9),
    Item: st.builds(Item, st.integers(0, 9), st.tuples(st.text(max_size=3))),
    list[Item]: st.lists(st.builds(Item, st.integers(0, 9)), max_size=2),
}


class Written(NamedTuple):
    """A function, and the arguments of a call of it: those that are given, by name."""

    f: Callable[..., Any]
    made: FunctionTool[..., Any, Any, Any, Any]
    given: dict[str, Any]
    types: dict[str, Any]
    positional_only: tuple[str, ...]


@st.composite
def written(draw: st.DrawFn) -> Written:
    """A function of some parameters of each kind, that gives all of them, in order."""
    kinds = sorted(draw(st.lists(st.integers(0, 2), max_size=5)))
    names = [f"p{n}" for n in range(len(kinds))]
    types = {name: draw(st.sampled_from(list(TYPES))) for name in names}
    first = draw(st.integers(0, len(names)))  # the first one that has a default, those by name aside
    defaults: dict[str, Any] = {}
    text: list[str] = []
    for location, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        text += ["*"] if kind == 2 and kinds.index(2) == location else []
        optional = draw(st.booleans()) if kind == 2 else location >= first
        if optional:
            defaults[name] = draw(TYPES[types[name]])
        text.append(f"{name} = defaults[{name!r}]" if optional else name)
        text += ["/"] if kind == 0 and kinds.count(0) == location + 1 else []
    scope: dict[str, Any] = {"defaults": defaults}
    exec(f"def f({', '.join(text)}): return ({''.join(f'{n}, ' for n in names)})", scope)
    f: Callable[..., Any] = scope["f"]
    f.__annotations__.update(types, **{"return": object})
    given_names = [n for n in names if n not in defaults or draw(st.booleans())]
    positional = tuple(n for n, kind in zip(names, kinds, strict=True) if kind == 0)
    chosen = {n: draw(TYPES[types[n]]) for n in given_names}
    return Written(f, tool(f), chosen, types, positional)


def _plainly(case: Written) -> Any:
    """What a plain call gives; those that only a place can give are given by it, as far as they are given."""
    by_location: list[Any] = []
    for name in case.positional_only:
        if name not in case.given:
            break
        by_location.append(case.given[name])
    taken = case.positional_only[: len(by_location)]
    left = set(case.positional_only) - set(taken)
    if left & set(case.given):  # one before it is left out, which no plain call can say
        return None
    return case.f(*by_location, **{name: value for name, value in case.given.items() if name not in taken})


@given(written())
def test_a_tool_call_gives_what_the_plain_call_gives(case: Written) -> None:
    """With every kind of parameter, given or left to its default; the arguments travel as JSON."""
    params = {name: Schema.of(case.types[name]).encode(value).unwrap() for name, value in case.given.items()}
    layer: Any = case.made.layer
    outcome = fx.run_sync(Toolkit.make(case.made.tool).call("f", params).provide(layer))
    plain = _plainly(case)

    assert not outcome.is_failure
    if plain is not None:
        assert outcome.result == plain


@given(written())
def test_arguments_are_what_a_call_decodes(case: Written) -> None:
    """`arguments` of what a plain call takes equals the decoded parameters of the same call."""
    if case.positional_only:
        return
    params = {name: Schema.of(case.types[name]).encode(value).unwrap() for name, value in case.given.items()}
    decoded = Schema.of(case.made.parameters).decode(params).unwrap()

    assert case.made.arguments(**case.given) == decoded


@given(written())
def test_required_is_what_has_no_default_and_may_not_be_none(case: Written) -> None:
    """The schema names each parameter, and says of each default what it is."""
    schema = case.made.tool.json_schema()
    plain = {n: p.default for n, p in inspect.signature(case.f).parameters.items()}
    absent = {n for n, default in plain.items() if default is inspect.Parameter.empty}

    assert list(schema["properties"]) == list(plain)
    assert set(schema.get("required", [])) == {n for n in absent if case.types[n] != (int | None)}
    for name in set(plain) - absent:
        assert schema["properties"][name]["default"] == Schema.of(case.types[name]).encode(plain[name]).unwrap()


@given(written())
def test_the_tool_of_a_function_is_one(case: Written) -> None:
    """Made again it is equal, and so are its combinators' tools."""
    again = tool(case.f)

    assert again == case.made
    assert again.tool == case.made.tool
    assert again.rename("g").prefix("a.").tool == case.made.tool.rename("a.g")
