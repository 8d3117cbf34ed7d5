"""Typed answers: the conformance cases of the area `lm.object` that any model can show."""

from __future__ import annotations

from typing import Any

import msgspec
from returns.result import Success

from fxai.effects import Backend, Effect, Layer, fx
from fxai.messages import AiError, Part, StructuredOutputError
from fxai.models import LanguageModel, ModelRequest
from fxai.testing import ScriptedModel, call
from fxai.tools import Tool, Toolkit
from tests.kit.conformance import Case, case
from tests.kit.samples import failure_of


class Sum(msgspec.Struct, frozen=True):
    """What is asked for."""

    total: int


class Says(LanguageModel):
    """A model that says these parts and nothing else."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...]]:
        """The parts."""
        return fx.succeed(self._parts)


@case("lm.object/086")
def test_no_text_is_no_typed_answer(case: Case, backend: Backend) -> None:
    """It fails, and holds what there was of a text: nothing. Also where the turn said how it ended, or only spaces."""
    expected = case.expect["error"]
    models: list[Any] = [
        Layer.succeed(LanguageModel, Says(*case.given["model"])),
        ScriptedModel.make([[]]).layer,
        ScriptedModel.make([""]).layer,
    ]
    for model in models:
        error = failure_of(LanguageModel.generate_object("go", Sum).provide(model), backend)

        assert isinstance(error, AiError)
        assert isinstance(error.reason, StructuredOutputError)
        assert type(error.reason).__name__ == expected["reason"]
        assert error.reason.text == expected["responseText"]
        assert "no text" in str(error)


@case("lm.object/089")
def test_a_turn_that_only_calls_tools_loses_no_result(case: Case, backend: Backend) -> None:
    """One round is one turn, so of the two ways it is the second: the failure holds what the calls gave."""
    ran: list[object] = []
    tool = Tool.make(case.given["toolkit"], success=str)

    def handler(params: object) -> Success[str]:
        ran.append(params)
        return Success("done")

    said = [[call(tool.name, {}, id="c1"), call("B", {}, id="c2")]]
    program: Any = LanguageModel.generate_object("go", Sum, toolkit=Toolkit.make(tool))
    error = failure_of(program.provide(tool.handler(handler)).provide(ScriptedModel.make(said).layer), backend)

    assert isinstance(error, AiError)
    assert isinstance(error.reason, StructuredOutputError)
    assert len(ran) == case.anchor_actual["handler runs"]
    assert case.expect["or"] == "typed error carrying the tool results"
    mine, unknown = error.reason.tool_results
    assert mine == {"id": "c1", "name": "A", "result": "done", "is_failure": False}
    assert (unknown["id"], unknown["is_failure"]) == ("c2", True)
