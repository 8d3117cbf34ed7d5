"""Definitions, as the other system has them as `defTool`, `defSystem`, `def` and `defData`, and as proxies for them.

There a reference is a proxy that answers any name with its tag, and `remind()` and `disable()` act at once on the
prompt; here it is a `Definition`, and both give a patch, which is for an effect to give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fxai.agents import Agent
from fxai.agents.stateful import Definition, Render, StepPatch, StepView
from fxai.effects import NeverRunWarning, fx
from fxai.messages import AssistantMessage
from fxai.models import LanguageModel
from fxai.testing import call
from fxai.tools import Tool, UnknownTool
from tests.kit.conformance import Case, case
from tests.kit.renders import Played, plain_tool, play_out

act, keep, drop, third = plain_tool("act"), plain_tool("keep"), plain_tool("drop"), plain_tool("third")


def _nothing(_: object) -> Any:
    return fx.succeed(None)


def _reminders(played: Played) -> list[list[str]]:
    """The reminders that each step shows."""
    return [[words for _, words in step if "remind" in words.lower()] for step in played.said]


def _reference(define: Callable[[Render], Definition]) -> Definition:
    found: list[Definition] = []
    play_out(lambda at: found.append(define(at)))
    return found[0]


# -- references


@case("LM004", "LM147")
def test_a_reference_is_its_tag(case: Case) -> None:
    """As text, and within one."""
    is_tool = case.id == "LM004"
    name = "myTool" if is_tool else "USER"
    found = _reference(lambda at: at.tool(plain_tool(name), _nothing) if is_tool else at.data(name, "Ann"))

    assert f"<{name}>" in case.expect
    assert (found.name, found.kind) == (name, "tool" if is_tool else "data")
    assert [str(found), f"{found}"] == [f"<{name}>"] * 2


@case("LM149", "LM150")
def test_a_reference_gives_patches(case: Case) -> None:
    """Values, equal to those that are made by name; nothing is done before an effect gives them."""
    found = _reference(lambda at: at.tool(act, _nothing))

    assert case.expect == "callback ran"
    if case.id == "LM149":
        assert found.remind() == StepPatch.remind(found) != StepPatch()
    else:
        assert found.disable() == StepPatch.hide(found) != StepPatch()


@case("LM151")
def test_a_name_that_a_reference_does_not_have_is_an_error(case: Case) -> None:
    """A slip of the pen does not become text of the prompt."""
    found: Any = _reference(lambda at: at.data("USER", "Ann"))

    assert case.expect == "returns the tag (never undefined)"
    with pytest.raises(AttributeError):
        _ = found.unknownProp


@case("LM161")
def test_messages_keep_their_order_among_definitions(case: Case) -> None:
    """They stand before the conversation, with the tags that they name."""

    def prompt(at: Render) -> None:
        one = at.data("VAR1", 1)
        at.message(f"First {one}.")
        two = at.data("VAR2", 2)
        at.message(f"Then {two}.")
        at.message(AssistantMessage.make("Understood."))

    played = play_out(prompt)

    assert case.expect == "3 messages with <VAR1>/<VAR2> tags, order kept"
    assert played.said == [
        [("user", "First <VAR1>."), ("user", "Then <VAR2>."), ("assistant", "Understood."), ("user", "go")]
    ]


@case("LM163")
def test_references_are_text_of_a_message(case: Case) -> None:
    """Several in one."""

    def prompt(at: Render) -> None:
        name, age = at.data("USER_NAME", "Ann"), at.data("USER_AGE", 30)
        at.message(f"Hello {name}, you are {age} years old")

    ((role, words), _), *rest = play_out(prompt).said

    assert case.expect == f'"{words}"'
    assert (role, rest) == ("user", [])


# -- what is not defined again is gone


def _flipping(define: Callable[[Render], object]) -> Played:
    """A run whose second step renders without what `define` defines, and whose third has it again."""

    def prompt(at: Render) -> None:
        at.tool(act, _nothing)
        if at.number != 2:
            define(at)

    return play_out(prompt, call("act", {}), call("act", {}))


@case("LM013")
def test_a_tool_that_is_not_defined_again_is_gone(case: Case) -> None:
    """Its state was changed by the tool itself: the next step has it no more, and it ran once."""
    ran: list[str] = []

    def prompt(at: Render) -> None:
        wanted = at.state("wanted", True)
        at.tool(keep, _nothing)
        if wanted.value:
            at.tool(drop, lambda _: fx.sync(lambda: ran.append("drop")).and_then(wanted.set(False)))

    played = play_out(prompt, call("drop", {}), call("drop", {}))

    assert case.expect == "spy called once"
    assert played.offered == [["keep", "drop"], ["keep"], ["keep"]]
    assert ran == ["drop"]
    assert [result.is_failure for step in played.answer.steps for result in step.results] == [False, True]


@case("LM138")
def test_a_step_knows_what_is_defined(case: Case) -> None:
    """By its name, whatever kind it is."""
    views: list[StepView] = []

    def prompt(at: Render) -> None:
        at.data("myVar", 1)
        at.effect("look", views.append)

    play_out(prompt)

    assert case.expect == "seen; other not seen"
    assert (views[0].has("myVar"), views[0].has("other")) == (True, False)


@case("LM141", "LM142")
def test_data_that_is_not_defined_again_is_gone(case: Case) -> None:
    """What is defined again is kept."""

    def prompt(at: Render) -> None:
        at.tool(act, _nothing)
        at.data("kept", 1)
        if at.number != 2:
            at.data("dropped", 2)

    systems = play_out(prompt, call("act", {}), call("act", {})).systems

    assert case.expect in {"unmarked deleted in place", "kept"}
    assert [("<kept>" in system, "<dropped>" in system) for system in systems] == [
        (True, True),
        (True, False),
        (True, True),
    ]


@case("LM143")
def test_a_system_that_is_not_defined_again_is_gone(case: Case) -> None:
    """The other stays."""

    def define(at: Render) -> None:
        at.system("dropped", "Now and then.")

    def prompt(at: Render) -> None:
        at.tool(act, _nothing)
        at.system("kept", "Always.")
        if at.number == 1:
            define(at)

    played = play_out(prompt, call("act", {}))

    assert case.expect == "unmarked deleted"
    assert [("Always." in system, "Now and then." in system) for system in played.systems] == [
        (True, True),
        (True, False),
    ]


@case("LM144")
def test_tools_are_those_of_the_render(case: Case) -> None:
    """Gone when it is not defined, and back when it is."""
    played = _flipping(lambda at: at.tool(drop, _nothing))

    assert case.expect == "unmarked deleted"
    assert played.offered == [["act", "drop"], ["act"], ["act", "drop"]]


@case("LM145")
def test_agents_are_tools_of_the_render(case: Case) -> None:
    """They are gone and back as any tool."""
    helper = Agent.make("helper", instructions="Help.")

    def prompt(at: Render[LanguageModel]) -> None:
        at.tool(act, _nothing)
        if at.number != 2:
            at.agent("helper", helper)

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert "share one table" in case.expect
    assert played.offered == [["act", "helper"], ["act"], ["act", "helper"]]


@case("LM182")
def test_data_has_the_value_of_the_last_render(case: Case) -> None:
    """And not the ones before."""

    def prompt(at: Render) -> None:
        count = at.state("count", 10)
        at.data("COUNT", count.value)
        at.tool(act, lambda _: count.update(lambda n: n + 1))

    systems = play_out(prompt, call("act", {})).systems

    assert case.expect == "latest value kept"
    assert [("10" in system, "11" in system) for system in systems] == [(True, False), (False, True)]


@case("LM-P18")
def test_a_call_of_a_tool_that_is_gone_is_answered_by_a_failure(case: Case) -> None:
    """It says which tools there are."""

    def prompt(at: Render) -> None:
        at.tool(keep, _nothing)
        if at.number == 1:
            at.tool(drop, _nothing)

    played = play_out(prompt, call("drop", {}), call("drop", {}))
    first, second = (step.results[0] for step in played.answer.steps[:2])

    assert "Model tried to call unavailable tool b. Available tools: a." in case.expect
    assert not first.is_failure
    assert second.is_failure
    assert _unknown(second.result) == ("drop", ("keep",))


def _unknown(result: object) -> tuple[str, tuple[str, ...]]:
    assert isinstance(result, UnknownTool), result
    return result.name, result.known


# -- reminders


@case("LM016")
def test_several_tools_are_reminded_of(case: Case) -> None:
    """In one reminder, without those that nobody named."""

    def prompt(at: Render) -> None:
        one, _, three = (
            at.tool(tool, _nothing) for tool in (plain_tool("tool1"), plain_tool("tool2"), plain_tool("tool3"))
        )
        at.effect("remind", lambda _: one.remind() + three.remind())

    ((reminder,),) = _reminders(play_out(prompt))

    assert case.expect == "list contains tool1, tool3; not tool2"
    assert [name in reminder for name in ("tool1", "tool2", "tool3")] == [True, False, True]


@case("LM019")
def test_a_tool_is_reminded_of_until_it_is_disabled(case: Case) -> None:
    """What a step does not have is not reminded of in it."""

    def prompt(at: Render) -> None:
        ref = at.tool(drop, _nothing)
        at.tool(act, _nothing)
        at.effect("remind", lambda _: ref.remind())
        at.effect("disable", lambda step: ref.disable() if step.number == 2 else None)

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "reminded list contains the tool"
    assert [["drop" in reminder for reminder in step] for step in _reminders(played)] == [[True], [], [True]]
    assert played.offered == [["drop", "act"], ["act"], ["drop", "act"]]


@case("LM-P07")
def test_a_reminder_names_each_thing_once(case: Case) -> None:
    """Tools, systems and data, in one message at the end, which is not the model's own."""

    def prompt(at: Render) -> None:
        a, s, d = at.tool(act, _nothing), at.system("S", "You are kind."), at.data("D", 1)
        at.effect("one", lambda step: a.remind() + a.remind() + s.remind() if step.number == 2 else None)
        at.effect("two", lambda step: StepPatch.remind(d, a) if step.number == 2 else None)

    played = play_out(prompt, call("act", {}))
    role, words = played.said[1][-1]

    assert "(no dedupe)" in case.expect
    assert _reminders(played) == [[], [words]]
    assert [words.count(f"<{name}>") for name in ("act", "S", "D")] == [1, 1, 1]
    assert words.index("<act>") < words.index("<S>") < words.index("<D>")
    assert role != "assistant"


@case("LM-P06")
def test_a_message_and_a_reminder_are_both_shown(case: Case) -> None:
    """Behind the conversation, of which nothing is dropped."""

    def prompt(at: Render) -> None:
        ref = at.tool(act, _nothing)
        at.effect("both", lambda step: ref.remind() + StepPatch.message("Be quick.") if step.number == 2 else None)

    played = play_out(prompt, call("act", {}))

    assert "the reminder is lost" in case.expect
    assert played.said[1][:4] == [("user", "go"), ("assistant", "act"), ("tool", "act"), ("user", "Be quick.")]
    assert [words for _, words in played.said[1][4:]] == _reminders(played)[1]
    assert len(played.said[1]) == 5


@case("LM-R03")
def test_what_no_effect_gives_is_not_done(case: Case) -> None:
    """A patch in the body of a render changes nothing, because only an effect returns patches. fxai warns of it."""

    def prompt(at: Render) -> None:
        at.tool(keep, _nothing).remind()
        at.tool(drop, _nothing).disable()

    with pytest.warns(NeverRunWarning, match="a patch was dropped here") as reported:
        played = play_out(prompt)

    assert len(reported) == 2
    assert case.expect == "reminder appended in every step"
    assert _reminders(played) == [[]]
    assert played.offered == [["keep", "drop"]]


@case("LM-R04")
def test_a_handler_asks_for_a_patch_by_the_state(case: Case) -> None:
    """An effect of the next step gives it; what a handler makes of a reference does nothing by itself."""

    def prompt(at: Render) -> None:
        asked = at.state("asked", False)
        kept, dropped = at.tool(keep, _nothing), at.tool(drop, _nothing)
        at.tool(act, lambda _: asked.set(True).tap(lambda _: fx.sync(lambda: kept.remind() + kept.disable())))
        at.effect("asked", lambda _: kept.remind() + dropped.disable() if asked.value else None, deps=(asked.value,))

    played = play_out(prompt, call("act", {}), call("act", {}))

    assert case.expect == "applied in the next step"
    assert played.offered == [["keep", "drop", "act"], ["keep", "act"], ["keep", "drop", "act"]]
    assert [len(step) for step in _reminders(played)] == [0, 1, 0]


# -- what is hidden


@case("LM-P11")
def test_a_disabled_tool_is_not_executed(case: Case) -> None:
    """Its call is answered by a failure, and its handler is not run."""
    ran: list[object] = []

    def prompt(at: Render) -> None:
        ref = at.tool(drop, lambda p: fx.sync(lambda: ran.append(p)))
        at.tool(keep, _nothing)
        at.effect("disable", lambda _: ref.disable())

    played = play_out(prompt, call("drop", {}))
    (result,) = played.answer.steps[0].results

    assert case.expect == "executes normally (disable only hides the schema)"
    assert (ran, played.offered) == ([], [["keep"], ["keep"]])
    assert result.is_failure
    assert _unknown(result.result) == ("drop", ("keep",))


@case("LM-Q08")
@pytest.mark.parametrize("hides_first", [True, False])
def test_to_hide_wins_over_to_add(case: Case, hides_first: bool) -> None:
    """Whichever comes first: a tool of the render, and one that the same patch adds."""
    ran: list[object] = []
    tools: list[Tool[object, object, Any]] = [drop, third]

    def run(p: object) -> Any:
        return fx.sync(lambda: ran.append(p))

    def patch(_: StepView) -> StepPatch:
        hide, add = StepPatch.hide(*(tool.name for tool in tools)), StepPatch.tool(third, run)
        return hide + add if hides_first else add + hide

    def prompt(at: Render) -> None:
        at.tool(keep, _nothing)
        at.tool(drop, run)
        at.effect("both", patch)

    played = play_out(prompt, [call("drop", {}), call("third", {})])

    assert case.expect == "stepModifier wins, tool enabled"
    assert (ran, played.offered) == ([], [["keep"], ["keep"]])
    assert [result.is_failure for result in played.answer.steps[0].results] == [True, True]
