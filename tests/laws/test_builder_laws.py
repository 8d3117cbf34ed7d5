"""What holds for every builder: what is bound adds up, once, in order, and changes nothing that it is bound to."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, AgentBuilder, Binding, Memory
from fxai.effects import fx
from fxai.testing import ScriptedModel, text
from fxai.tools import Tool, ToolConflictError, Toolkit
from tests.kit.trials import examples
from tests.laws.test_toolkit_laws import TOOLKITS, tools

RUN = settings(max_examples=examples(25))


@tool(name="fn.one")
def one(n: int) -> int:
    """Gives a number back."""
    return n


@tool(name="fn.two")
def two(n: int) -> int:
    """Doubles a number."""
    return 2 * n


@tool(name="fn.three")
def three(n: int) -> int:
    """Triples a number."""
    return 3 * n


_A: Any = BoundToolkit.make(one)
_B: Any = BoundToolkit.make(two, three)
SOURCES: list[ToolSource[Any, Any, Any]] = [ToolSource(fx.succeed(bound)) for bound in (_A, _B)]
BOUND: st.SearchStrategy[Any] = st.sampled_from(
    [one, two, three, BoundToolkit.make(one, two), BoundToolkit.make(three)]
)
OFFERS: st.SearchStrategy[list[Any]] = st.lists(
    st.one_of(tools(), TOOLKITS, BOUND, st.sampled_from(SOURCES)), max_size=5
)
AGENTS: st.SearchStrategy[Agent[Any, Any, Any, Any]] = TOOLKITS.map(lambda kit: Agent.make("a", toolkit=kit))
_MEMORY = Memory.in_process()


def _names(bound: Any) -> list[str]:
    return [each.name for each in bound.tools]


def _bound(agent: Any, offers: Iterable[Any]) -> AgentBuilder[Any, Any, Any, Any]:
    made: AgentBuilder[Any, Any, Any, Any] = agent.with_tools(list(offers))
    return made


@given(AGENTS, OFFERS, OFFERS)
def test_binding_twice_is_binding_all(agent: Any, a: list[Any], b: list[Any]) -> None:
    """`with_tools(a).with_tools(b)` is `with_tools(a + b)`, as a list or one by one."""
    assert agent.with_tools(a).with_tools(b) == _bound(agent, a + b)
    assert agent.with_tools(*a, *b) == _bound(agent, a + b)
    assert hash(agent.with_tools(a).with_tools(b)) == hash(_bound(agent, a + b))


@given(OFFERS, OFFERS, OFFERS)
def test_bindings_add_up_however_they_are_grouped(a: list[Any], b: list[Any], c: list[Any]) -> None:
    """They are a monoid: associative, with the empty one neutral."""
    x, y, z = Binding.of(a), Binding.of(b), Binding.of(c)

    assert x.merge(y).merge(z) == x.merge(y.merge(z))
    assert x.merge(Binding()) == x == Binding().merge(x)


@given(AGENTS, TOOLKITS, TOOLKITS)
def test_binding_toolkits_is_binding_their_merge(agent: Any, a: Any, b: Any) -> None:
    """And binding their tools, in whatever form."""
    assert agent.with_tools(a).with_tools(b) == agent.with_tools(a.merge(b))
    assert agent.with_tools(a).with_tools(b) == agent.with_tools([*a, *b])


@given(AGENTS, st.lists(BOUND, max_size=4), st.lists(BOUND, max_size=4))
def test_binding_bound_toolkits_is_binding_their_merge(agent: Any, a: list[Any], b: list[Any]) -> None:
    """Their handlers come along once."""
    x, y = BoundToolkit.make(*a), BoundToolkit.make(*b)
    both: Any = x.merge(y)

    assert agent.with_tools(a).with_tools(b).without_tools().binding.toolkit == both.toolkit
    assert agent.with_tools(x).with_tools(y) == agent.with_tools(both)


@given(AGENTS, OFFERS)
def test_binding_again_changes_nothing(agent: Any, a: list[Any]) -> None:
    """What is bound already is one."""
    bound = _bound(agent, a)

    assert bound.with_tools(a) == bound
    assert all(bound.with_tools(each) == bound for each in a)
    assert agent.with_tools([]) == agent.builder


@given(AGENTS, OFFERS)
def test_leaving_out_the_agents_own_tools_commutes(agent: Any, a: list[Any]) -> None:
    """It is idempotent, and it does not matter when it is said."""
    bound = agent.without_tools()

    assert bound.without_tools() == bound
    assert _bound(agent, a).without_tools() == bound.with_tools(a)
    assert bound.with_memory(_MEMORY) == agent.with_memory(_MEMORY).without_tools()


@given(AGENTS, OFFERS)
def test_tools_are_there_once_and_in_order(agent: Any, a: list[Any]) -> None:
    """The agent's own, then those that are bound, each where it was first given."""
    given_names = [name for each in a for name in Binding.of((each,)).toolkit.tools]
    own = _names(agent)
    bound = _bound(agent, a)

    assert _names(bound) == list(dict.fromkeys(own + given_names))
    assert _names(bound.without_tools()) == list(dict.fromkeys(given_names))


@given(AGENTS, OFFERS)
def test_an_agent_stays_as_it_is(agent: Any, a: list[Any]) -> None:
    """Whatever is bound for a run; so does a builder."""
    before, names = pickle.dumps(agent), _names(agent)
    bound = _bound(agent, a)
    shown = repr(bound)
    bound.with_tools(one).without_tools().with_memory(_MEMORY).on_step(lambda _: None)

    assert pickle.loads(before) == agent
    assert _names(agent) == names
    assert repr(bound) == shown


@given(AGENTS, tools(), st.sampled_from(["error", "first", "last"]))
def test_a_conflict_is_told_or_decided(agent: Any, a: Any, policy: Any) -> None:
    """Two different tools of one name: refused, or one of them is kept in the place of the first."""
    other: Tool[Any, Any, Any] = Tool.make(a.name, success=bytes)
    bound = agent.with_tools(a)
    if policy == "error":
        with pytest.raises(ToolConflictError) as raised:
            bound.with_tools(other)
        assert repr(a.name) in str(raised.value)
    else:
        decided = bound.with_tools(other, on_conflict=policy)

        assert _names(decided) == _names(bound)
        assert decided.binding.toolkit.tools[a.name] == (a if policy == "first" else other)


@RUN
@given(AGENTS, st.lists(st.one_of(tools(), TOOLKITS, BOUND), max_size=3))
def test_a_run_shows_the_model_what_is_bound(agent: Any, a: list[Any]) -> None:
    """The tools of the builder, in its order; the agent runs as its empty builder does."""
    model = ScriptedModel.make([text("ok")] * 3)
    for run in (_bound(agent, a), agent, agent.builder):
        fx.run(run.execute("?").provide(model.layer))
    shown, plain, empty = model.requests

    assert [each.name for each in shown.tools] == _names(_bound(agent, a))
    assert plain == empty


@RUN
@given(st.permutations([one, two, three]), st.permutations([one, two, three]))
def test_each_handler_comes_along_once(a: Any, b: Any) -> None:
    """However often and in whatever order function tools are given, the layer of all is built."""
    bound = Agent.make("a").with_tools(list(a)).with_tools(list(b))
    opened: Any = fx.run(fx.scoped(bound.binding.open()))
    called: Any = opened.toolkit.call("fn.three", {"n": 2}).provide(opened.layer)

    assert fx.run(called).result == 6
    assert len(Toolkit.of(bound.tools)) == 3
