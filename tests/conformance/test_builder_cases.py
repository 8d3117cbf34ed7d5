"""Builders: the conformance cases of the area `concerto.builder`, and those of other areas that are about builders.

Their tools are methods of a class, found by name when a program runs; ours are values, made of an object's methods.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from fxai import BoundToolkit, ToolSource, tool
from fxai.agents import Agent, Compaction, Memory
from fxai.effects import Backend, fx
from fxai.messages import AssistantMessage, Prompt, UserMessage
from fxai.testing import ScriptedModel, call, text
from fxai.tools import ToolConflictError, Toolkit
from tests.kit.conformance import Case, case
from tests.kit.memories import chat


class Calculator:
    """Sums."""

    def add(self, a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b


class Formatter:
    """Letters."""

    def up(self, text: str) -> str:
        """Writes it large."""
        return text.upper()


class Verdict(msgspec.Struct, frozen=True):
    """An output."""

    good: bool


calculator, formatter = Toolkit.from_object(Calculator()), Toolkit.from_object(Formatter())
agent = Agent.make("assistant", instructions="Be brief.", toolkit=calculator)


def _asked(bound: Any, backend: Backend, said: str = "go") -> Any:
    """The one request that the model gets."""
    model = ScriptedModel.make([text("ok")])
    fx.run(bound.execute(said).provide(model.layer), backend=backend)
    (request,) = model.requests
    return request


def _names(bound: Any, backend: Backend) -> list[str]:
    return [one.name for one in _asked(bound, backend).tools]


def _listed(names: str) -> list[str]:
    """What a case says of names: "[Calculator::add, Formatter::up]"; ours are dotted."""
    return re.findall(r"\w+\.\w+", names.replace("::", "."))


@case("CO001")
def test_memory_stands_between_the_instructions_and_what_is_said(case: Case, backend: Backend) -> None:
    """System, what the user and the assistant said before, then the new message: four, their words unchanged."""
    memory = Memory.in_process()
    old = Prompt([UserMessage.make("old question"), AssistantMessage.make("old answer")])
    fx.run(memory.commit(old), backend=backend)
    request = _asked(agent.with_memory(memory), backend, "new question")

    assert [one.role for one in request.prompt] == re.findall(r"system|user|assistant", case.expect)
    assert request.prompt.system() == "Be brief."
    assert str(request.prompt.without_system()) == "user: old question\nassistant: old answer\nuser: new question"


@case("CO002")
def test_static_and_bound_tools_are_merged_by_name(case: Case, backend: Backend) -> None:
    """A tool of both is there once, and the agent's own come first: in this order, not only as a set."""
    names = _names(agent.with_tools(calculator, formatter), backend)

    assert names == ["Calculator.add", "Formatter.up"]
    assert sorted(names) == _listed(case.expect)


@case("CO003")
def test_without_its_own_tools_an_agent_has_those_that_are_bound(case: Case, backend: Backend) -> None:
    """And with them it has both: the case would hold for an agent whose own tools never count."""
    bound = agent.with_tools(formatter)

    assert _names(bound.without_tools(), backend) == _listed(case.expect)
    assert _names(bound, backend) == ["Calculator.add", "Formatter.up"]


@case("CO004")
def test_a_declared_tool_is_a_value_that_can_be_bound(case: Case, backend: Backend) -> None:
    """There is no registry: the value itself, of that name, is what a list for `with_tools` holds."""
    (declared,) = calculator.toolkit
    owner = re.findall(r'Function\("(\w+)"\)', case.expect)

    assert declared.name.split(".")[:1] == owner
    assert _names(Agent.make("a").with_tools([calculator]), backend) == [declared.name]


@case("CO090")
def test_a_memory_is_added_to_or_only_read(case: Case, backend: Backend) -> None:
    """Two runs are kept; a third one with `auto_append=False` changes nothing. Turns are kept, not messages."""
    memory = Memory.in_process(Compaction.window(1))
    for said in ("first", "second"):
        _asked(agent.with_memory(memory), backend, said)
    request = _asked(agent.with_memory(memory, auto_append=False), backend, "third")
    turns = fx.run(memory.turns(), backend=backend)

    assert "manual ok" in case.expect
    assert [one.role for one in request.prompt] == ["system", "user", "assistant", "user"]
    assert [turn[0] for turn in turns] == [UserMessage.make("first"), UserMessage.make("second")]
    assert turns[-1][-1].role == "assistant"


@case("CO100")
def test_what_is_no_tool_is_refused(case: Case) -> None:
    """With what can be given; when it is bound, and not only when it is run."""
    given = json.loads(re.findall(r"\[.*\]", case.given)[0])
    wrong: Any = agent.with_tools

    with pytest.raises(TypeError, match=r"tools must be tools, toolkits, .*servers, or lists of them, got 123"):
        wrong(given)


@case("CO-D04")
def test_who_wins_a_name_is_said(case: Case, backend: Backend) -> None:
    """Changed: two different tools of one name are refused, unless the caller says which to keep."""

    @tool(name="Calculator.add")
    def other(a: int) -> int:
        """Adds one."""
        return a + 1

    assert case.kind == "changed: an explicit policy"
    with pytest.raises(ToolConflictError, match=r"Calculator\.add"):
        agent.with_tools(other)
    first = agent.with_tools(other, on_conflict="first")
    last = agent.with_tools(other, on_conflict="last")
    assert _asked(first, backend).tools == calculator.toolkit.as_tuple
    assert _asked(last, backend).tools == (other.tool,)


@case("CO-D05")
def test_a_reference_is_a_value(case: Case) -> None:
    """Changed: nothing is looked up by name, so no name can mean two things; a name alone is refused."""
    wrong: Any = agent.with_tools

    assert case.kind == "changed: references by value"
    with pytest.raises(TypeError, match="Pass the tool itself, not its name"):
        wrong("Calculator")


@case("CO-D07")
def test_binding_twice_binds_both(case: Case, backend: Backend) -> None:
    """X and then Y are X and Y, in this order."""
    once = Agent.make("a").with_tools([calculator]).with_tools([formatter])

    assert case.expect.startswith("extra = [X,Y]")
    assert once == Agent.make("a").with_tools(calculator, formatter)
    assert _names(once, backend) == ["Calculator.add", "Formatter.up"]


@case("CO-D09")
def test_another_memory_brings_its_own_auto_append(case: Case, backend: Backend) -> None:
    """Changed: `with_memory(a, auto_append=False).with_memory(b)` adds to b, as it says."""
    a, b = Memory.in_process(), Memory.in_process()
    _asked(agent.with_memory(a, auto_append=False).with_memory(b), backend)

    assert case.kind.startswith("changed")
    assert fx.run(a.turns(), backend=backend) == ()
    assert len(fx.run(b.turns(), backend=backend)) == 1


@case("CO-D11")
def test_a_builder_is_an_immutable_value(case: Case, backend: Backend) -> None:
    """What is made of it leaves it as it was."""
    bound = Agent.make("a").with_tools([calculator])
    bound.with_tools([formatter])

    assert case.expect.startswith("b unaffected")
    assert _names(bound, backend) == ["Calculator.add"]


@case("CO-D13")
def test_a_bad_answer_is_asked_for_again_and_not_remembered(case: Case, backend: Backend) -> None:
    """Changed: it is told what is wrong and tries again; what never fits fails, and the memory stays as it was."""
    memory = Memory.in_process()
    fx.run(memory.commit(chat("before")), backend=backend)
    judge = Agent.make("judge", output=Verdict, output_retries=1).with_memory(memory)
    bad = ScriptedModel.make([text("no JSON")] * 2)
    failed: Any = fx.run_exit(judge.execute("?").provide(bad.layer), backend=backend)
    kept = len(fx.run(memory.turns(), backend=backend))
    mended = ScriptedModel.make([text("no JSON"), text('{"good": true}')])
    answer = fx.run(judge.execute("?").provide(mended.layer), backend=backend)

    assert case.kind.startswith("changed")
    assert failed.cause.failures
    assert (len(bad.requests), kept) == (2, 1)
    assert answer.output == Verdict(good=True)
    assert len(fx.run(memory.turns(), backend=backend)) == 2


@case("CO-M01")
def test_two_servers_with_one_name_are_told_apart_by_prefixes(case: Case, backend: Backend) -> None:
    """Changed: what both call `search` is a conflict, which is not hidden; with a prefix each is there, in order."""

    @tool(name="search")
    def books(title: str) -> str:
        """Finds a book."""
        return f"book {title}"

    @tool(name="search")
    def films(name: str) -> str:
        """Finds a film."""
        return f"film {name}"

    first, second = (ToolSource(fx.succeed(BoundToolkit.make(one))) for one in (books, films))
    hidden: Any = fx.run_exit(
        Agent.make("a").with_tools(first, second).execute("?").provide(ScriptedModel.make([text("never")]).layer),
        backend=backend,
    )
    both = Agent.make("a").with_tools(first.prefix("books."), second.prefix("films."))
    model = ScriptedModel.make([call("films.search", {"name": "Heat"}), text("ok")])
    answer: Any = fx.run(both.execute("?").provide(model.layer), backend=backend)

    assert case.kind == "changed: prefixes"
    assert [type(defect) for defect in hidden.cause.defects] == [ToolConflictError]
    assert [one.name for one in model.requests[0].tools] == ["books.search", "films.search"]
    assert answer.steps[0].results[0].result == "film Heat"
