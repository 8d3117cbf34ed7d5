"""The comparison of the tables of model facts with public packages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import msgspec

from fxai.models.fact_table import Dispute, Entry, Fact, FactTable, ModelName, Policy, TableData
from tests.kit.catalogs import DECISIONS, Decision, Report, compare

_FACTS: Final = {
    "max_output_tokens": Fact(100, ("one",), (Dispute(90, ("two",)),), "The first one measured it."),
    "efforts": Fact({"responses": ["low"], "chat": []}, ("one",)),
}
_DATA: Final = TableData(
    "acme",
    date(2026, 11, 26),
    {"one": "first 1.0", "two": "second 2.0"},
    (Entry("small", ("small", "small-1"), served=True, facts=_FACTS), Entry("old", ("old",), facts=_FACTS)),
)
_TABLE: Final = FactTable(lambda: _DATA, lambda name: ModelName((name,)), Policy())


def _compared(package: str, stated: Mapping[str, Any], *decisions: Decision, names: tuple[str, ...] = ()) -> Report:
    models: dict[str, Mapping[str, Any]] = {"small-1": stated, "old": {"max_output_tokens": 1}}

    def catalog(name: str) -> Mapping[str, Any]:
        return models.get(name, {})

    return compare({"openai": {package: catalog}}, {"openai": names}, decisions, {"openai": _TABLE})


def test_a_disagreement_that_nothing_explains_is_undecided() -> None:
    """Only served families count, and a package may know the family by another name."""
    report = _compared("first", {"max_output_tokens": 80, "efforts": ["low"]})

    assert [str(one) for one in report.undecided] == ["openai:small max_output_tokens: table 100, first 80"]
    assert (report.agreed, report.ok) == (1, False)


def test_a_dispute_of_the_table_is_decided() -> None:
    """Its reason is the reason of the table. Another value is a new disagreement."""
    report = _compared("second", {"max_output_tokens": 90})
    changed = _compared("second", {"max_output_tokens": 91})

    assert [reason for _, reason in report.decided] == ["The first one measured it."]
    assert (report.ok, changed.ok) == (True, False)


def test_a_decision_holds_for_its_value_alone() -> None:
    """If the package changes its value, somebody must decide again."""
    decision = Decision("openai", "first", "inputs", ("small",), ["text"], "It knows text only.")

    assert _compared("first", {"inputs": ["text"]}, decision).ok
    assert not _compared("first", {"inputs": ["text", "image"]}, decision).ok
    assert not _compared("second", {"inputs": ["text"]}, decision).ok


def test_a_model_that_no_table_knows_is_new() -> None:
    """A decision may state that a listed name has no facts."""
    decision = Decision("openai", "openai", "family", ("next",), None, "Nothing is stated about it.")

    assert _compared("first", {}, names=("small-1", "next")).unknown == ("openai:next",)
    assert _compared("first", {}, decision, names=("next",)).ok


def test_each_decision_states_a_reason() -> None:
    """The data file can be read."""
    decisions = msgspec.json.decode(DECISIONS.read_bytes(), type=tuple[Decision, ...])

    assert [one for one in decisions if not one.reason or not one.families] == []
    assert len(decisions) > 5
