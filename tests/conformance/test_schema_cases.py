"""Conformance: what a tool's parameters say, from nothing given to a document from elsewhere."""

from __future__ import annotations

from returns.result import Success

from fxai import Tool, Toolkit, fx
from fxai.tools import InvalidParameters
from tests.kit.conformance import Case, case


@case("VE-075")
def test_without_parameters_there_is_a_closed_empty_object(case: Case) -> None:
    """Of both kinds of tool that we make."""
    assert case.given["input_schema"] is None
    assert Tool.make("t").json_schema() == case.expect["json_schema"]
    assert Tool.dynamic("t").json_schema() == case.expect["json_schema"]


@case("VE-076")
def test_a_raw_document_can_be_left_unchecked(case: Case) -> None:
    """There a document alone checks nothing; here that is `validation="none"`, and the document is held to by default.

    Section 3 of our semantics decides for the default; the value passes untouched where no check is asked for.
    """
    schema, value = case.given["input_schema"], case.given["value"]
    free = Tool.dynamic("t", parameters=schema, validation="none")
    checked = Tool.dynamic("t", parameters=schema)
    outcomes = [fx.run(Toolkit.make(tool).call("t", value).provide(tool.handler(Success))) for tool in (free, checked)]

    assert outcomes[0].result == case.expect["value"]
    assert case.expect["valid"] is True
    assert isinstance(outcomes[1].result, InvalidParameters)


@case("VE-077")
def test_a_raw_document_is_kept_as_it_was_given(case: Case) -> None:
    """References, alternatives and open objects with it."""
    tool = Tool.dynamic("t", parameters=case.given["input_schema"])

    assert tool.json_schema() == case.expect["json_schema"]
    assert Toolkit.make(tool).tools["t"].annotate_all({}).json_schema() == case.expect["json_schema"]
