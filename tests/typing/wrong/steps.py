"""Steps that are set up with what is not there."""

from __future__ import annotations

from fxai.agents import Budget, Step, StepSetup, step_count_is
from fxai.effects import Layer
from fxai.models import LanguageModel
from fxai.tools import Tool
from tests.typing.world import Db

search = Tool.make("search", success=str)


def prepared(setup: StepSetup, fed: Layer[LanguageModel, object, Db]) -> StepSetup:
    setup.with_model(fed)  # wrong: a Db, which nothing gives
    setup.with_choice("always")  # wrong: no such choice
    setup.with_options(rounds=3)  # wrong: not an option of a round
    setup.number = 2  # wrong: a value
    return setup.with_tools([search])  # wrong: a toolkit


def note(step: Step) -> list[int]:
    step.results_of("search")  # wrong: a tool, not its name
    return [one.unwrap() for one in step.results_of(search)]  # wrong: strings


Budget(rounds="3")  # wrong: a number
Budget(minutes=3)  # wrong: no such budget
step_count_is("2")  # wrong: a number
