"""Handlers by tool name, and tools with an inline handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

import pytest
from returns.result import Result, Success

from fxai import Agent, BoundToolkit, HandlerError, Layer, Tool, Toolkit, ToolSource, bind, fx
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.testing import ScriptedModel, call, text
from fxai.tools import CallContext
from fxai.tools.aspects import Aspect, Return
from tests.kit.every import every

OPEN: dict[str, Any] = {"type": "object"}
search = Tool.dynamic("search", parameters=OPEN)
read = Tool.dynamic("read", parameters=OPEN)
kit = Toolkit.make(search, read)
plain: Any = kit


def on_search(params: object) -> Result[object, Never]:
    """Return the parameters."""
    return Success({"found": params})


def on_read(params: object, context: CallContext) -> Result[object, Never]:
    """Return the name of the tool."""
    return Success(context.tool.name)


def unread(path: str) -> str:
    """Read a file."""
    return path


def test_handlers_by_name_answer_calls() -> None:
    """Each handler answers the calls of its tool, also with a call context."""
    layer = kit.to_layer_by_name({"search": on_search, "read": on_read})

    assert fx.run(kit.call("search", {"q": 1}).provide(layer)).result == {"found": {"q": 1}}
    assert fx.run(kit.call("read", {}).provide(layer)).result == "read"


def test_one_handler_answers_the_renamed_copies_of_a_tool() -> None:
    """Two names of one tool need one handler."""
    both = kit.merge(Toolkit.make(search.rename("find")))
    layer = both.to_layer_by_name({"find": on_search, "read": on_read})

    assert fx.run(both.call("search", 1).provide(layer)).is_failure
    assert fx.run(both.call("search", {}).provide(layer)).result == {"found": {}}
    with pytest.raises(HandlerError, match="two handlers for: search"):
        fx.run(
            both.call("read", {}).provide(
                both.to_layer_by_name({"search": on_search, "find": on_read, "read": on_read})
            )
        )


def test_tools_without_a_handler_need_no_name() -> None:
    """A toolkit of external tools has an empty mapping of handlers."""
    outside: Any = Toolkit.make(read.external())

    assert fx.run(fx.succeed(1).provide(outside.to_layer_by_name({}))) == 1


@every(
    ("handlers", "message"),
    [
        (
            {"serach": on_search, "read": on_read},
            (
                "handlers do not match Toolkit(search, read): no handler for: search; not in the toolkit: serach (did "
                "you mean 'search'?). Provide one handler for each tool."
            ),
        ),
        (
            {"read": on_read},
            "handlers do not match Toolkit(search, read): no handler for: search. Provide one handler for each tool.",
        ),
        (
            {"search": on_search, "read": on_read, "write": on_read},
            (
                "handlers do not match Toolkit(search, read): not in the toolkit: write. Provide one handler for each "
                "tool."
            ),
        ),
        ([on_search], f"handlers must be a mapping from tool names to functions, got [{on_search!r}]."),
        ({"search": 3, "read": on_read}, "handler of 'search' must be a function of its parameters, got 3"),
    ],
)
def test_wrong_names_are_refused(handlers: Any, message: str) -> None:
    """The error names each tool without a handler and each unknown name, before fxai builds the layer."""
    with pytest.raises(TypeError) as error:
        plain.to_layer_by_name(handlers)

    assert str(error.value) == message


def test_bind_joins_a_tool_with_its_handler() -> None:
    """A bound tool works in a toolkit, in an agent, and in a composite, with its aspect."""
    cached = Aspect.make(tool=search, before=lambda _: Return[object]("cached"))
    bound = BoundToolkit.make(bind(search, on_search, aspect=cached), bind(read, on_read))

    def desk(at: Render) -> None:
        at.composite("files", bind(search, on_search), bind(read, on_read))

    model = ScriptedModel.make([call("search", {}), text("Done.")])
    agent = Agent.make("clerk").with_tools(bind(search, on_search))
    calls: dict[str, Any] = {"calls": [{"name": "search", "args": {}}, {"name": "read", "args": {}}]}
    composed = ScriptedModel.make([call("files", calls), text("Done.")])
    answer = fx.run(StatefulPrompt.make("desk", desk).execute("Go.").provide(composed.layer))

    assert fx.run(bound.call("search", {})).result == "cached"
    assert fx.run(bound.call("read", {})).result == "read"
    assert fx.run(agent.execute("Go.").provide(model.layer)).steps[0].results[0].result == {"found": {}}
    assert answer.steps[0].results[0].encoded_result == {
        "results": [{"name": "search", "result": {"found": {}}}, {"name": "read", "result": "read"}]
    }


nameless: Any = eval("lambda city: city")


class Files:
    """An object with methods."""


loose: Any = BoundToolkit
layers: Any = Layer
agents: Any = Agent.make("clerk")
HANDLER = search.handler(on_search)
WANTED = "tools must include their handlers, got"
KINDS = "tools must be tools, toolkits, function tools, bound toolkits, tool sources, servers, or lists of them, got"


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: loose.make(unread), f"{WANTED} {unread!r}. Convert a function with fxai.tool(f) or @tool."),
    (lambda: loose.make(search), f"{WANTED} the tool 'search'. Add its handler: bind(tool, f)."),
    (
        lambda: loose.make(kit),
        f"{WANTED} Toolkit(search, read). Add its handlers: BoundToolkit.of(kit, kit.to_layer(…)).",
    ),
    (lambda: loose.make("read"), f"{WANTED} 'read'. Pass the tool itself, not its name."),
    (
        lambda: loose.make(Files),
        f"{WANTED} {Files!r}. To use the methods of an object as tools, pass Toolkit.from_object(Files()).",
    ),
    (
        lambda: loose.make(ToolSource.of(BoundToolkit.make(bind(read, on_read)))),
        (
            f"{WANTED} ToolSource(open=Succeed(value=BoundToolkit(read))). Open the source with source.use(…), or pass "
            "it to an agent: agent.with_tools(source)."
        ),
    ),
    (lambda: loose.make([]), f"{WANTED} []. Pass its elements: *tools."),
    (lambda: loose.make(None), f"{WANTED} None."),
    (
        lambda: layers.merge_all([HANDLER]),
        f"layer must be a Layer, got [{HANDLER!r}]. Pass the layers one by one: Layer.merge_all(*layers).",
    ),
    (
        lambda: HANDLER.merge(plain),
        "layer must be a Layer, got Toolkit(search, read). Supply a service with Layer.succeed(Toolkit, …).",
    ),
    (
        lambda: plain.to_layer([HANDLER]),
        f"handlers must be a layer, got [{HANDLER!r}]. Merge the layers: Layer.merge_all(*handlers).",
    ),
    (
        lambda: plain.to_layer({"search": on_search}),
        (
            f"handlers must be a layer, got {{'search': {on_search!r}}}. For handlers by name, write "
            "kit.to_layer_by_name(…)."
        ),
    ),
    (
        lambda: plain.to_layer(on_search),
        f"handlers must be a layer, got {on_search!r}. Create the layer of a handler: tool.handler(f).",
    ),
    (
        lambda: plain.to_layer(None),
        "handlers must be a layer, got None. Pass the layers of the handlers: a.handler(f) | b.handler(g).",
    ),
    (lambda: agents.with_tools(unread), f"{KINDS} {unread!r}. Convert a function with fxai.tool(f) or @tool."),
]


@every(("mistake", "message"), MISTAKES)
def test_a_value_of_another_kind_is_refused_with_the_remedy(mistake: Any, message: str) -> None:
    """The whole message names the value and the remedy."""
    with pytest.raises(TypeError) as error:
        mistake()

    assert str(error.value) == message


def test_a_lambda_is_no_tool() -> None:
    """A lambda has no annotations, so the message states how to write the function."""
    with pytest.raises(TypeError, match="Write a function with `def`, annotations, and a docstring, and put @tool on"):
        agents.with_tools(nameless)
