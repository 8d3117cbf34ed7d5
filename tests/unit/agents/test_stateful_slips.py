"""Slips in a stateful prompt. fxai reports each slip and names the remedy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from fxai import tool
from fxai.agents.stateful import Render, RenderFailed, StepPatch, StepView
from fxai.agents.step_patch import decode_patch, encode_patch
from fxai.effects import NeverRunWarning
from fxai.testing import call
from tests.kit.every import every
from tests.kit.renders import play_failing, play_out


@tool
def ping() -> str:
    """Ping."""
    return "pong"


NOT_ITS_VALUE = "prompt 'prompt' did not render for step 1: state 'n' is not its value. Write state.value."

SLIPS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda at, n: "yes" if n else "no", NOT_ITS_VALUE),
    (lambda at, n: not n, NOT_ITS_VALUE),
    (lambda at, n: at.system("role", f"{n} searches"), NOT_ITS_VALUE),
    (lambda at, n: at.system("role", str(n)), NOT_ITS_VALUE),
    (lambda at, n: n == 1, NOT_ITS_VALUE),
    (lambda at, n: n in (1, 2), NOT_ITS_VALUE),
    (lambda at, n: n > 1, NOT_ITS_VALUE),
    (lambda at, n: n + 1, NOT_ITS_VALUE),
    (lambda at, n: list(n), NOT_ITS_VALUE),
    (
        lambda at, n: at.effect("hint", print, deps=(n,)),
        (
            "prompt 'prompt' did not render for step 1: deps of the effect 'hint' contain the state 'n'. Use its "
            "value: (….value,)."
        ),
    ),
]


@every(("slip", "message"), SLIPS)
def test_a_state_instead_of_its_value_fails_the_run(slip: Any, message: str) -> None:
    """The failure names the state and `.value`."""
    cause, _ = play_failing(lambda at: slip(at, at.state("n", 1)), "done")
    (failure,) = cause.failures

    assert isinstance(failure, RenderFailed)
    assert (failure.reason, str(failure)) == ("value", message)


def test_a_state_equals_itself_and_has_a_hash() -> None:
    """A program can compare two references to one state, and show it with `repr`."""
    seen: list[Any] = []

    def render(at: Render) -> None:
        state: Any = at.state("n", 1)
        same = state
        seen.append((repr(state), len({state, same}), state == same))

    play_out(render)
    assert seen == [("State('n', 1)", 1, True)]


def test_a_patch_that_an_effect_does_not_return_is_reported() -> None:
    """The warning names the statement that drops the patch, and a variable that no code reads."""

    def render(at: Render) -> None:
        role = at.system("role", "Be brief.")

        def drop(_: StepView) -> None:
            role.disable()

        def forget(_: StepView) -> None:
            gone = role.disable() + role.remind()  # noqa: F841  # pyright: ignore[reportUnusedVariable]

        at.effect("drop", drop)
        at.effect("forget", forget)
        at.effect("keep", lambda _: role.remind() + StepPatch.message("Go on."))

    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        played = play_out(render)

    assert [one.category for one in reported] == [NeverRunWarning, NeverRunWarning]
    assert [str(one.message) for one in reported] == [
        "a patch was dropped here, and changes nothing: return it from the function of `at.effect`",
        "the patch in 'gone' was never returned: nothing reads it",
    ]
    assert "Be brief." in played.systems[0]


def test_only_sections_hides_the_other_sections_of_a_step() -> None:
    """Sections that a patch adds stay, tools stay, and two patches keep the sections that both name."""

    def render(at: Render) -> None:
        role = at.system("role", "Be brief.")
        at.system("mood", "Be kind.")
        at.data("order", {"id": 7})
        both = StepPatch.only_sections(role, "order") + StepPatch.only_sections("mood", "order")
        steps = {
            1: StepPatch.only_sections(role) + StepPatch.system("hint", "Hurry."),
            2: both,
            3: StepPatch.only_sections(),
            4: StepPatch.only_sections("role", "unknown") + StepPatch.hide("role"),
        }
        at.effect("only", lambda step: steps.get(step.number))
        at.tools(ping)

    played = play_out(render, *[call("ping", {})] * 4)
    shown = [
        [name for name in ("Be brief.", "Be kind.", "id: 7", "Hurry.") if name in system] for system in played.systems
    ]

    assert shown == [["Be brief.", "Hurry."], ["id: 7"], [], [], ["Be brief.", "Be kind.", "id: 7"]]
    assert played.offered == [["ping"]] * 5


@every(
    "patch",
    [
        StepPatch(),
        StepPatch.only_sections(),
        StepPatch.only_sections("role", "mood") + StepPatch.hide("mood"),
        StepPatch.system("role", "Be brief.") + StepPatch.message("Go on.") + StepPatch.data("order", {"id": 7}),
    ],
)
def test_a_journal_returns_the_same_patch(patch: StepPatch) -> None:
    """The JSON value of a patch without tools decodes to an equal patch."""
    assert decode_patch(msgspec.json.decode(msgspec.json.encode(encode_patch(patch)))) == patch
