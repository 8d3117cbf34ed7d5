"""What holds for every toolkit: a monoid over distinct names, whose combinators keep tools what they are."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from fxai.annotations import Annotations, Readonly, Title
from fxai.effects import fx
from fxai.tools import NameConflictError, NameMap, NameRule, Tool, Toolkit
from tests.kit.samples import Sum, giving

NAMES = st.text(min_size=1, max_size=6).filter(str.strip)
KINDS = ["plain", "sum", "raw", "external"]
PREFIXES = st.text(max_size=3)


@st.composite
def tools(draw: st.DrawFn) -> Tool[Any, Any, Any]:
    """A tool of any kind; of one name there is one."""
    name = draw(NAMES)
    match KINDS[sum(map(ord, name)) % len(KINDS)]:
        case "plain":
            return Tool.make(name)
        case "sum":
            return Tool.make(name, parameters=Sum, success=int)
        case "raw":
            return Tool.dynamic(name, parameters={"type": "object"})
        case _:
            return Tool.make(name).external()


TOOLKITS: st.SearchStrategy[Toolkit[Any]] = st.lists(tools(), max_size=6).map(Toolkit.of)


@given(TOOLKITS)
def test_the_empty_toolkit_is_neutral(kit: Toolkit[Any]) -> None:
    """Merged from either side it changes nothing."""
    empty: Toolkit[Any] = Toolkit.empty()

    assert kit.merge(empty) == kit
    assert empty.merge(kit) == kit


@given(TOOLKITS, TOOLKITS, TOOLKITS)
def test_merge_is_associative(a: Toolkit[Any], b: Toolkit[Any], c: Toolkit[Any]) -> None:
    """However it is grouped, order included."""
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert list(a.merge(b).merge(c).tools) == list(a.merge(b.merge(c)).tools)


@given(TOOLKITS, TOOLKITS)
def test_merge_holds_what_both_hold(a: Toolkit[Any], b: Toolkit[Any]) -> None:
    """Every name of both, once; with itself it is itself."""
    merged = a.merge(b)

    assert set(merged.tools) == {*a.tools, *b.tools}
    assert a.merge(a) == a
    assert Toolkit.of([*a, *b]) == merged


@given(TOOLKITS, st.data())
def test_pick_and_omit_share_a_toolkit_out(kit: Toolkit[Any], data: st.DataObject) -> None:
    """What one keeps the other leaves."""
    names = data.draw(st.lists(st.sampled_from(sorted(kit.tools)), unique=True) if len(kit) else st.just([]))
    picked, left = kit.pick(*names), kit.omit(*names)

    assert set(picked.tools) == set(names)
    assert {*picked.tools, *left.tools} == set(kit.tools)
    assert len(picked) + len(left) == len(kit)
    assert kit.filter(lambda tool: tool.name in names) == picked


@given(TOOLKITS, PREFIXES, PREFIXES)
def test_prefixes_add_up(kit: Toolkit[Any], one: str, other: str) -> None:
    """Two prefixes are one; an empty one is none."""
    assert kit.prefix(one).prefix(other) == kit.prefix(other + one)
    assert kit.prefix("") == kit


@given(TOOLKITS, TOOLKITS, PREFIXES)
def test_prefix_distributes_over_merge(a: Toolkit[Any], b: Toolkit[Any], prefix: str) -> None:
    """Before or after, it is the same toolkit."""
    assert a.merge(b).prefix(prefix) == a.prefix(prefix).merge(b.prefix(prefix))


@given(TOOLKITS, st.booleans(), NAMES)
def test_what_is_said_of_tools_keeps_them(kit: Toolkit[Any], readonly: bool, title: str) -> None:
    """Kind, identity, class and schema of each tool stay, whatever is said of all."""
    said = kit.annotate_all({Readonly: readonly}).prefix("p.").annotate_all(Annotations().set(Title, title))

    for before, after in zip(kit, said, strict=True):
        assert (type(after), after.kind, after.identity) == (type(before), before.kind, before.identity)
        assert after.json_schema() == before.json_schema()
        assert (after.get(Readonly), after.get(Title)) == (readonly, title)


@given(TOOLKITS)
def test_a_toolkit_goes_through_a_pickle(kit: Toolkit[Any]) -> None:
    """Equal, with an equal hash."""
    back = pickle.loads(pickle.dumps(kit))

    assert back == kit
    assert hash(back) == hash(kit)


@given(TOOLKITS)
def test_every_tool_finds_its_own_handler(kit: Toolkit[Any]) -> None:
    """Each handler answers the tool that it was made for, under any prefix, and no other."""
    ours = [tool for tool in kit if tool.requires_handler and not tool.json_schema().get("required")]
    chosen: Toolkit[Any] = Toolkit.of(ours)

    named = Toolkit.of([Tool.dynamic(tool.name) for tool in chosen])
    layers: Any = Toolkit.empty().to_layer(_nothing())
    for tool in named:
        layers = layers | tool.handler(giving(Success(tool.name)))
    prefixed = named.prefix("x")

    for tool in named:
        assert fx.run_sync(prefixed.call("x" + tool.name, {}).provide(named.to_layer(layers))).result == tool.name


def _nothing() -> Any:
    from fxai.effects import Layer

    return Layer.empty()


@given(st.lists(NAMES, unique=True, max_size=6), st.sampled_from([16, 64, 128]))
def test_names_on_the_wire_lead_back(names: list[str], length: int) -> None:
    """Every name that is sent is one that providers allow, and means the tool it came from; else it is refused."""
    listed = [Tool.make(name) for name in names]
    rule = NameRule(length)
    try:
        mapped = NameMap.of(listed, rule)
    except NameConflictError:
        assert len({rule.of(name) for name in names}) < len(names)
        return

    for name in names:
        wire = mapped.sent(name)
        assert 1 <= len(wire) <= length
        assert all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in wire)
        assert mapped.meant(wire) == name
