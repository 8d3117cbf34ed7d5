"""Composites, as the other system has them: tools with sub-tools.

What its sub-tools throw is a typed failure here. Where semantics decides otherwise (an empty composite, one bad
argument, the outer tool's options) the test says so.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.annotations import Readonly
from fxai.effects import fx
from fxai.schema import SchemaError
from fxai.tools import SubResults, Tool, ToolConflictError, Toolkit
from fxai.tools.aspects import Aspect, Invocation, Return
from tests.kit.conformance import Case, case


class Numbers(msgspec.Struct, frozen=True):
    """Two numbers."""

    a: int
    b: int = 0


def _tool(name: str, **options: Any) -> Tool[Numbers, int, str]:
    return Tool.make(name, parameters=Numbers, success=int, failure=str, **options)


class Desk:
    """Handlers that note their calls; those of tools called `fail…` fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def layer(self, *tools: Tool[Numbers, int, str]) -> Any:
        """The handlers of tools."""
        first, *others = [tool.handler(self._handler(tool.name)) for tool in tools]
        for other in others:
            first |= other
        return first

    def _handler(self, name: str) -> Any:
        def handler(p: Numbers) -> Result[int, str]:
            self.calls.append((name, p.a, p.b))
            return Failure("failed") if name.startswith("fail") else Success(p.a)

        return handler


def _run(tools: tuple[Tool[Numbers, int, str], ...], handlers: Any, *calls: tuple[str, Any]) -> Any:
    composite = Toolkit.of(tools).as_tool("composite")
    given = {"calls": [{"name": name, "args": args} for name, args in calls]}
    called = Toolkit.make(composite.tool).call("composite", given)
    return fx.run(called.provide(composite.layer.provide(handlers))).encoded_result["results"]


@case("LM006")
def test_each_sub_tool_is_called_with_its_own_args(case: Case) -> None:
    """By the name in the call."""
    desk, tools = Desk(), (_tool("add"), _tool("multiply"))
    _run(tools, desk.layer(*tools), ("add", {"a": 2, "b": 3}), ("multiply", {"a": 2, "b": 3}))

    assert case.expect.startswith("each spy called with its own args")
    assert desk.calls == [("add", 2, 3), ("multiply", 2, 3)]


@case("LM007")
def test_sub_tools_run_in_order(case: Case) -> None:
    """One after another."""
    desk, tools = Desk(), (_tool("first"), _tool("second"), _tool("third"))
    _run(tools, desk.layer(*tools), ("first", {"a": 1}), ("second", {"a": 1}), ("third", {"a": 1}))

    assert case.expect == "observed order first,second,third"
    assert [name for name, _, _ in desk.calls] == ["first", "second", "third"]


@case("LM009")
def test_the_rest_go_on_after_a_failure(case: Case) -> None:
    """In either failure mode."""
    assert case.expect == "succeed ran twice, fail ran once"
    for mode in ("error", "return"):
        desk, tools = Desk(), (_tool("succeed"), _tool("fail", failure_mode=mode))
        results = _run(tools, desk.layer(*tools), ("succeed", {"a": 1}), ("fail", {"a": 2}), ("succeed", {"a": 3}))

        assert [name for name, _, _ in desk.calls] == ["succeed", "fail", "succeed"]
        assert [result["result"] for result in results] == [1, {"error": "failed"}, 3]


@case("LM011")
def test_sub_tools_recover_on_their_own(case: Case) -> None:
    """Each failure reaches the hook of its tool."""
    desk, tools = Desk(), (_tool("fail1"), _tool("fail2"))
    seen: list[tuple[str, str]] = []

    def recover(call: Invocation[Numbers], error: str) -> None:
        seen.append((call.tool.name, error))

    both = Aspect.make(tool=tools[0], recover=recover).and_then(Aspect.make(tool=tools[1], recover=recover))
    _run(tools, both.wrap(desk.layer(*tools)), ("fail1", {"a": 1}), ("fail2", {"a": 1}))

    assert case.expect == "both onError spies called"
    assert seen == [("fail1", "failed"), ("fail2", "failed")]


@case("LM058")
def test_the_description_lists_the_sub_tools(case: Case) -> None:
    """Each with what it says of itself."""
    tools = (_tool("write", description="Write a file"), _tool("read", description="Read a file"))
    said = Toolkit.of(tools).as_tool("files", description="Files.").tool.description or ""

    assert 'contains base, "Available sub-tools:"' in case.expect
    for part in ("Files.", "Available sub-tools:", "write: Write a file", "read: Read a file"):
        assert part in said


@case("LM-P16")
def test_an_empty_composite_is_refused_when_it_is_made(case: Case) -> None:
    """There it fails when it is used; one sub-tool is enough in both."""
    desk, only = Desk(), _tool("only")

    assert case.kind == "changed: reject empty at construction"
    with pytest.raises(SchemaError, match="empty toolkit"):
        Toolkit.empty().as_tool("nothing")
    assert _run((only,), desk.layer(only), ("only", {"a": 7})) == [{"name": "only", "result": 7}]


@case("LM-Q10")
def test_a_bad_argument_is_an_answer_of_its_own(case: Case) -> None:
    """There it rejects the whole call; semantics lets the others run."""
    desk, only = Desk(), _tool("a")
    first, second = _run((only,), desk.layer(only), ("a", {"a": 1}), ("a", {"a": "bad"}))

    assert case.kind.startswith("changed: ")
    assert first["result"] == 1
    assert second["result"]["error"]["type"] == "invalid-parameters"
    assert desk.calls == [("a", 1, 0)]


@case("LM-R05")
def test_the_outer_tool_has_options_and_aspects(case: Case) -> None:
    """There they are ignored; semantics takes it for a tool like any other."""
    desk, only = Desk(), _tool("only")
    composite = Toolkit.make(only).as_tool("composite", annotations={Readonly: True}, needs_approval=True)
    early = Aspect.make(tool=composite.tool, before=lambda call: Return(SubResults(())))
    live = early.wrap(composite.layer.provide(desk.layer(only)))
    given = {"calls": [{"name": "only", "args": {"a": 1}}]}
    untyped: Any = Toolkit.make(composite.tool).call("composite", given).provide(live)

    assert case.expect == "outer options ignored"
    assert (composite.tool.get(Readonly), composite.tool.needs_approval) == (True, True)
    assert fx.run(untyped).encoded_result == {"results": []}
    assert desk.calls == []


@case("LM-R09")
def test_two_sub_tools_of_one_name_are_refused(case: Case) -> None:
    """There the first one wins in silence."""
    assert case.expect == "first definition wins silently"
    with pytest.raises(ToolConflictError, match="'a'"):
        Toolkit.make(_tool("a"), _tool("a", description="Another."))
