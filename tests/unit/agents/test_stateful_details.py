"""What a stateful prompt says of wrong renders, writes of data, and shares between the steps of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pytest

from fxai import BoundToolkit, Toolkit, fx
from fxai.agents import Agent, StepSetup
from fxai.agents.stateful import PromptState, RenderFailed, RenderOf, StatefulPrompt, StepPatch, StepView
from fxai.messages import ToolMessage, ToolResultPart
from fxai.testing import ScriptedModel, call
from fxai.tools.aspects import cache
from tests.kit.every import every
from tests.kit.renders import Calls, cause_of_play, plain_tool, play, play_out

look = plain_tool("look")
pay = plain_tool("pay", needs_approval=True)


_look = Calls()
_WITH = f"with the handler {_look!r}"


class Order(msgspec.Struct):
    """An order."""

    number: int
    goods: list[str]


@dataclass
class Basket:
    """A basket."""

    number: int
    goods: list[str]


_Defines: TypeAlias = Callable[[RenderOf[Any, Any]], object]


def _failure(render: Callable[[Any], None]) -> RenderFailed:
    (failure,) = cause_of_play(render).failures
    assert isinstance(failure, RenderFailed)
    return failure


# -- what a failure says


def _given_and_outside(at: RenderOf[Any, Any]) -> None:
    at.tools(look)
    at.tool(look, _look)


def _with_and_without_aspect(at: RenderOf[Any, Any]) -> None:
    at.tool(look, _look)
    at.tool(look, _look, aspect=cache())


def _tool_and_long_text(at: RenderOf[Any, Any]) -> None:
    at.tool(look, _look)
    at.system("look", "x" * 80)


@pytest.mark.parametrize(
    ("render", "kinds"),
    [
        (_given_and_outside, f"a tool without a handler in the render and a tool with the handler {_look!r}."),
        (
            _with_and_without_aspect,
            f"a tool {_WITH} and a tool {_WITH} and an aspect.",
        ),
        (_tool_and_long_text, f"a tool with the handler {_look!r} and the system '{'x' * 59}…."),
    ],
    ids=["given and outside", "with and without aspect", "tool and long text"],  # the words have an address in them
)
def test_a_conflict_says_what_the_two_things_are(render: Callable[[Any], None], kinds: str) -> None:
    """Of a tool where its handler is from, of a section its kind and how its value begins."""
    assert f"two definitions have the name 'look': {kinds}" in _failure(render).message


_LATE: list[tuple[_Defines, str]] = [
    (lambda at: at.state("mode", 1), "at.state('mode', …)"),
    (lambda at: at.system("role", "x"), "at.system('role', …)"),
    (lambda at: at.data("facts", 1), "at.data('facts', …)"),
    (lambda at: at.message("x"), "at.message(…)"),
    (lambda at: at.tool(look, Calls()), "at.tool(…)"),
    (lambda at: at.tools(look), "at.tools(…)"),
    (lambda at: at.composite("many", look), "at.composite('many', …)"),
    (lambda at: at.agent("poet", Agent.make("poet")), "at.agent('poet', …)"),
    (lambda at: at.effect("more", lambda _: None), "at.effect('more', …)"),
]


@every(("defines", "called"), _LATE)
def test_what_is_late_is_called_as_it_was_written(defines: _Defines, called: str) -> None:
    """Every method of the render refuses when that is over, and the failure says which it was."""

    def render(at: RenderOf[Any, Any]) -> None:
        def define(_: StepView) -> None:
            defines(at)

        at.effect("late", define)

    failure = _failure(render)

    assert failure.reason == "late"
    assert failure.message.startswith(f"{called} was called after the render")


def test_the_name_that_the_wrapper_has_is_said_to_be_taken() -> None:
    """Of another wrong name that is not said."""
    taken = _failure(lambda at: at.system("data", "x")).message
    wrong = _failure(lambda at: at.system("a b", "x")).message

    assert taken.endswith(" 'data' is the tag around all data.")
    assert "tag around" not in wrong


def test_a_message_of_results_is_refused() -> None:
    """Results belong to the calls of the conversation; a render has none."""
    results = ToolMessage.make(ToolResultPart("other", "look", 1))
    failure = _failure(lambda at: at.message(results))

    assert failure.reason == "value"
    assert "belong to the conversation" in failure.message


# -- data


def test_data_is_a_block_all_the_way_down() -> None:
    """Keys that are no text become text; every line of a nested value is indented."""
    value = {7: "a", "rows": [[1, 2], {"a": 1, "b": [3, 4]}], "none": [], "last": {"c": {"d": 5}}}

    def render(at: RenderOf[Any, Any]) -> None:
        at.data("it", value)

    assert play_out(render).systems[0].splitlines()[2:-2] == [
        '"7": "a"',
        "rows:",
        "  - - 1",
        "    - 2",
        "  - a: 1",
        "    b:",
        "      - 3",
        "      - 4",
        "none: []",
        "last:",
        "  c:",
        "    d: 5",
    ]


def test_text_in_data_stays_readable_and_opens_nothing() -> None:
    """Letters of any language are written as they are; what tags and entities are made of is escaped."""

    def render(at: RenderOf[Any, Any]) -> None:
        at.data("it", ["ä & <b>"])

    assert play_out(render).systems[0].splitlines()[2:-2] == ['- "ä \\u0026 \\u003cb\\u003e"']


def test_a_mention_of_a_tool_that_looks_like_the_tag_of_a_section_is_escaped() -> None:
    """Servers call their tools as they like, in capitals too; a text of theirs opens no section."""

    def render(at: RenderOf[Any, Any]) -> None:
        at.tools(plain_tool("Role"), plain_tool("DATA"), look)
        at.system("role", "<look> <Role> <DATA>")

    assert play_out(render).systems == ["<role>\n<look> &lt;Role> &lt;DATA>\n</role>"]


# -- values


def test_what_is_in_the_fields_of_a_value_is_frozen() -> None:
    """Also where other fields of it hold nothing that could change."""

    def render(at: RenderOf[Any, Any]) -> None:
        at.state("struct", Order(7, ["tea"]))
        at.state("dataclass", Basket(7, ["tea"]))

    values = play_out(render).values

    assert (values["struct"].number, values["dataclass"].number) == (7, 7)
    for value in values.values():
        with pytest.raises(TypeError):
            value.goods.append("cake")


def test_a_state_shows_its_key_and_value() -> None:
    """As it is printed while a program is made."""
    shown: list[str] = []

    def render(at: RenderOf[Any, Any]) -> None:
        shown.append(repr(at.state("mode", "basic")))

    play_out(render)

    assert shown == ["State('mode', 'basic')"]


# -- steps


def test_equal_steps_have_one_toolkit() -> None:
    """Hooks and providers are given the same value, so that what is prepared of it is prepared once."""
    seen: list[StepSetup] = []

    def note(setup: StepSetup) -> StepSetup:
        seen.append(setup)
        return setup

    def render(at: RenderOf[Any, Any]) -> None:
        at.tool(look, Calls())
        if at.number == 2:
            at.effect("hide", lambda _: StepPatch.hide("look"))

    model = ScriptedModel.make([call("look", {}), call("look", {}), "done"])
    agent: Any = Agent.make("agent", prompt=StatefulPrompt.make("prompt", render), prepare_step=note)
    fx.run(agent.execute("go").provide(model.layer))

    assert [setup.toolkit is seen[0].toolkit for setup in seen] == [True, False, True]


def test_tools_that_come_and_go_are_answered_where_the_render_defines_none() -> None:
    """Those of a live source bring their handlers anew for each step, and keep them with a prompt that has no tools."""

    def bound(tool: Any, now: Any = None) -> Any:
        return BoundToolkit.of(Toolkit.make(tool), tool.handler(Calls()), origin=tool.name, now=now)

    def render(at: RenderOf[Any, Any]) -> None:
        at.system("role", "Look.")

    model = ScriptedModel.make([call("look", {}), "done"])
    live = bound(plain_tool("first"), fx.succeed(bound(look)))
    agent: Any = Agent.make("agent", toolkit=live, prompt=StatefulPrompt.make("prompt", render))
    answer = fx.run(agent.execute("go").provide(model.layer))

    assert [result.encoded_result for result in answer.steps[0].results] == ["done"]


def test_a_call_of_another_run_waits_without_a_state_and_is_run_by_the_first_step() -> None:
    """A history may be all that is there: a call that waits ends the run again; approved, step 1 is rendered for it."""
    numbers: list[int] = []

    def render(at: RenderOf[Any, Any]) -> None:
        numbers.append(at.number)
        at.tool(pay, Calls())

    asked = play(render, call("pay", {})).answer
    waiting = play(render, prompt=asked.history).answer

    assert (waiting.ended, [step.number for step in waiting.steps]) == ("pending", [1])
    assert waiting.state == PromptState()

    numbers.clear()
    approved = ToolMessage((waiting.pending[0].approve(),))
    paid = play(render, "done", prompt=waiting.history.append(approved)).answer

    assert (paid.ended, paid.text, numbers) == ("done", "done", [1, 1])
