"""Stateful prompts, as the other system has them: the cases of the area `prompt`, its messages, systems and data.

There `$` writes the question of a run among the messages of a render; here that is the prompt of the run, which comes
behind the messages of the render.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fxai.agents.stateful import Render, RenderFailed, StepPatch
from fxai.messages import AssistantMessage
from fxai.testing import call, text
from tests.kit.conformance import Case, case
from tests.kit.renders import Calls, Played, plain_tool, play, play_failing

go = plain_tool("go_on")
AGAIN, DONE = call("go_on", {}), text("Done")


# -- messages


@case("LM154")
def test_a_message_stands_before_the_question(case: Case) -> None:
    """Two messages of the user, the render's first."""

    def render(at: Render) -> None:
        at.message("I am Ann.")

    played = play(render, DONE, prompt="Who am I?")

    assert case.expect == "2 user messages in that order"
    assert played.shown(1) == [("user", "I am Ann."), ("user", "Who am I?")]


@case("LM155", "LM184")
def test_messages_are_not_doubled_in_later_steps(case: Case) -> None:
    """Each step has the same ones once, and behind them what was said and done since."""

    def render(at: Render) -> None:
        at.tool(go, Calls())
        if case.id == "LM155":
            at.message("I am Ann.")

    played = play(render, AGAIN, AGAIN, DONE, prompt="Who am I?")
    wanted = [*([("user", "I am Ann.")] if case.id == "LM155" else []), ("user", "Who am I?")]

    assert case.given == "2 steps"
    for step in (1, 2, 3):
        assert [one for one in played.shown(step) if one[0] == "user"] == wanted
    assert [role for role, _ in played.shown(3)[len(wanted) :]] == ["assistant", "tool"] * 2


@case("LM158", "LM-P05")
def test_a_message_of_the_assistant_stands_once_in_each_step(case: Case) -> None:
    """In its place, before the conversation. There one more is put in with every step, a step late."""

    def render(at: Render) -> None:
        at.tool(go, Calls())
        at.message(AssistantMessage.make("Hello, I am Al."))

    played = play(render, AGAIN, AGAIN, DONE, prompt="Who are you?")

    for step in (1, 2, 3):
        assert played.shown(step)[:2] == [("assistant", "Hello, I am Al."), ("user", "Who are you?")]
        assert [said for _, said in played.shown(step)].count("Hello, I am Al.") == 1
    assert "Hello" not in str(played.answer.history)


@case("LM159")
def test_several_messages_of_the_assistant(case: Case) -> None:
    """All of one render, in their order."""

    def render(at: Render) -> None:
        at.message(AssistantMessage.make("One."))
        at.message(AssistantMessage.make("Two."))

    assert case.expect == "2, in order"
    assert play(render, DONE).shown(1) == [("assistant", "One."), ("assistant", "Two."), ("user", "go")]


@case("LM160")
def test_messages_keep_their_order(case: Case) -> None:
    """Whoever says them."""
    said = [("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"), ("assistant", "e")]

    def render(at: Render) -> None:
        for role, what in said:
            at.message(what if role == "user" else AssistantMessage.make(what))

    assert case.expect == "5 messages in exact order"
    assert play(render, DONE).shown(1) == [*said, ("user", "go")]


@case("LM162")
def test_equal_messages_of_one_render_all_stand(case: Case) -> None:
    """Three times the same is said three times."""

    def render(at: Render) -> None:
        for _ in range(3):
            at.message("Really.")

    assert case.expect == "no content dedupe within one render"
    assert play(render, DONE).shown(1) == [*([("user", "Really.")] * 3), ("user", "go")]


# -- systems and data


def _data(played: Played, step: int = 1) -> str:
    """What stands among the data of a step."""
    _, _, behind = played.systems[step - 1].partition("<data>\n")
    return behind.partition("\n</data>")[0]


@case("LM175")
def test_systems_stand_in_order_of_definition(case: Case) -> None:
    """Each in a section of its name."""

    def render(at: Render) -> None:
        for key in ("first", "second", "third"):
            at.system(key, f"The {key}.")

    sections = [f"<{key}>\nThe {key}.\n</{key}>" for key in ("first", "second", "third")]

    assert case.expect == "rendered in that order"
    assert play(render, DONE).systems == ["\n".join(sections)]


@case("LM176")
def test_all_systems_stand_before_the_data(case: Case) -> None:
    """Also one that is defined behind them. There the data are called variables."""

    def render(at: Render) -> None:
        at.system("role", "Be kind.")
        at.data("name", "Al")
        at.system("rules", "Be brief.")

    (system,) = play(render, DONE).systems
    locations = [system.index(part) for part in ("<role>", "<rules>", "<data>", "<name>")]

    assert case.expect == "all systems precede <variables>"
    assert locations == sorted(locations)


@case("LM178")
def test_markup_in_a_system_opens_no_section(case: Case) -> None:
    """There it stands raw; our semantics lets no text close a section or open another."""

    def render(at: Render) -> None:
        at.system("format", "Use <tag>a & b</tag> for tags.")

    assert case.expect == "stored raw, no escaping"
    assert play(render, DONE).systems == ["<format>\nUse &lt;tag>a & b&lt;/tag> for tags.\n</format>"]


@case("LM179")
def test_an_object_stands_as_yaml(case: Case) -> None:
    """A line for each field, in the section of its name, among the data; strings are in quotes."""

    def render(at: Render) -> None:
        at.data("config", {"name": "test", "value": 42, "enabled": True})

    assert case.given == "{name,value,enabled}"
    assert _data(play(render, DONE)) == '<config>\nname: "test"\nvalue: 42\nenabled: true\n</config>'


@case("LM180")
def test_a_date_stands_as_iso_text(case: Case) -> None:
    """As it is encoded anywhere else."""

    def render(at: Render) -> None:
        at.data("event", {"at": datetime(2024, 1, 15, 10, 30, tzinfo=UTC)})

    assert case.expect == "ISO string"
    assert '"2024-01-15T10:30:00Z"' in _data(play(render, DONE))


@case("LM181")
def test_data_that_hold_themselves_are_refused(case: Case) -> None:
    """There they are given an anchor that no model reads; here the run says which data it is, before it asks."""
    data: dict[str, Any] = {"name": "loop"}
    data["self"] = data

    def render(at: Render) -> None:
        at.data("tree", data)

    cause, model = play_failing(render, text("never"))
    (failure,) = cause.failures

    assert "no crash" in case.expect
    assert isinstance(failure, RenderFailed)
    assert "tree" in failure.message
    assert model.requests == []


@case("LM183")
def test_data_that_are_not_defined_again_are_gone(case: Case) -> None:
    """So are systems."""

    def render(at: Render) -> None:
        shown = at.state("shown", True)
        at.tool(go, lambda _: shown.set(False).as_("done"))
        if shown.value:
            at.data("temp", "for now")
            at.system("hint", "Use it.")
        at.data("kept", "always")

    first, second = play(render, AGAIN, DONE).systems

    assert case.expect == "absent"
    assert "<temp>" in first
    assert "<hint>" in first
    assert second == "<data>\n<kept>\nalways\n</kept>\n</data>"


@case("LM-Q05")
def test_sections_stand_in_the_order_of_this_render(case: Case) -> None:
    """What was defined in an earlier one has no place of its own left. There an old key keeps its old place."""

    def render(at: Render) -> None:
        phase = at.state("phase", 1)
        at.tool(go, lambda _: phase.set(2).as_("done"))
        at.system(f"phase{phase.value}", "Now.")
        at.system("shared", "Always.")

    _, second = play(render, AGAIN, DONE).systems

    assert "stale key order" in case.expect
    assert second.index("<phase2>") < second.index("<shared>")
    assert "phase1" not in second


@case("LM-P14")
def test_the_system_prompt_to_the_letter(case: Case) -> None:
    """Sections of systems, then those of data in theirs; a reference is the tag of a tool, described nowhere else."""
    search = plain_tool("srch", description="Searches.")

    def render(at: Render) -> None:
        look = at.tool(search, Calls())
        at.system("role", f"You use {look}")
        at.data("NAME", "Al")
        at.data("CFG", {"a": [1, {"b": "c"}], "s": "x"})
        at.system("z", "last")

    (system,) = play(render, DONE).systems

    assert "tool descriptions are NOT rendered" in case.expect
    assert system == (
        "<role>\nYou use <srch>\n</role>\n<z>\nlast\n</z>\n"
        "<data>\n<NAME>\nAl\n</NAME>\n"
        '<CFG>\na:\n  - 1\n  - b: "c"\ns: "x"\n</CFG>\n</data>'
    )


# -- patches


@case("LM-P10")
def test_a_patch_adds_sections_and_tools(case: Case) -> None:
    """What the render defines stays. There one system hides all others, and a tool may be named that there is not."""
    extra, handler = plain_tool("extra"), Calls()

    def render(at: Render) -> None:
        at.tool(go, Calls())
        at.system("role", "Be kind.")
        at.data("name", "Al")

        added = StepPatch.system("new", "Be quick.") + StepPatch.data("more", "Bo") + StepPatch.tool(extra, handler)
        at.effect("patch", lambda step: added + StepPatch.hide("ghost") if step.number == 2 else None)

    played = play(render, AGAIN, call("extra", {"x": 1}), DONE)

    assert "ALL other systems hidden" in case.expect
    assert played.offered == [["go_on"], ["go_on", "extra"], ["go_on"]]
    assert [[key in system for key in ("<role>", "<new>", "<name>", "<more>")] for system in played.systems] == [
        [True, False, True, False],
        [True, True, True, True],
        [True, False, True, False],
    ]
    assert handler.given == [{"x": 1}]


# -- what goes wrong


@case("LM-P12")
def test_a_render_has_no_methods_of_a_prompt(case: Case) -> None:
    """The first render says so already. There it does in the second one, and the run ends in silence."""

    def render(at: Any) -> None:
        at.tool(go, Calls())
        at.with_option("temperature", 1)

    cause, model = play_failing(render, AGAIN, DONE)

    assert "run ends silently" in case.expect
    assert [type(defect) for defect in cause.defects] == [AttributeError]
    assert "with_option" in str(cause.defects[0])
    assert model.requests == []


@case("LM-P13")
def test_a_render_that_raises_later_ends_the_run(case: Case) -> None:
    """With its exception as the cause. There the run ends with the text of the step before."""

    def render(at: Render) -> None:
        steps = at.state("steps", 0)
        at.tool(go, lambda _: steps.update(lambda n: n + 1).as_("done"))
        assert steps.value < 1, "two steps are too many"

    cause, model = play_failing(render, ["Only this.", AGAIN], DONE)

    assert "RESOLVES with step-0 text" in case.expect
    assert [str(defect) for defect in cause.defects if "two steps are too many" in str(defect)]
    assert len(model.requests) == 1
