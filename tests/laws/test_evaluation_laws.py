"""Laws of evaluations: the interval of a rate, the JSON form, and the comparison of two results."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from fxai.evaluation import CaseResult, EvaluationResult, LawResult, compare_rates, to_svg, wilson
from fxai.messages import Usage

COUNTS = st.integers(0, 200)
NAMES = st.text(min_size=1, max_size=20)
LAWS = st.builds(LawResult, NAMES, COUNTS, COUNTS, COUNTS, st.lists(st.text(max_size=20), max_size=5).map(tuple))
SECONDS = st.lists(st.floats(0, 1e6), min_size=1, max_size=5).map(tuple)
COSTS = st.none() | st.decimals(0, 1000, places=6)
USAGES = st.builds(Usage, st.none() | COUNTS, st.none() | COUNTS)
CASES = st.builds(
    CaseResult,
    NAMES,
    st.lists(LAWS, max_size=4, unique_by=lambda law: law.name).map(tuple),
    SECONDS,
    st.lists(st.text(), max_size=3).map(tuple),
    USAGES,
    COSTS,
)
ALL_CASES = st.lists(CASES, max_size=4, unique_by=lambda case: case.name).map(tuple)
RESULTS = st.builds(EvaluationResult, NAMES, ALL_CASES, st.sampled_from(["", "USD"]))


@given(COUNTS, COUNTS, st.floats(0.5, 0.999))
def test_an_interval_contains_the_rate_and_stays_between_0_and_1(passed: int, failed: int, confidence: float) -> None:
    """Without runs, every rate is possible."""
    low, high = wilson(passed, passed + failed, confidence)

    assert 0 <= low <= high <= 1
    if passed + failed:
        assert low <= passed / (passed + failed) <= high
    else:
        assert (low, high) == (0, 1)


@given(COUNTS, COUNTS, st.integers(2, 10))
def test_more_runs_with_the_same_rate_shrink_the_interval(passed: int, failed: int, times: int) -> None:
    """Ten times as many runs say more about the true rate."""
    few, many = wilson(passed, passed + failed), wilson(passed * times, (passed + failed) * times)

    assert many[1] - many[0] <= few[1] - few[0] + 1e-12


@given(COUNTS, COUNTS)
def test_the_interval_of_the_failures_is_the_mirror(passed: int, failed: int) -> None:
    """The rate of failures is 1 minus the rate of passes, and so are the ends of the interval."""
    low, high = wilson(passed, passed + failed)
    mirrored = wilson(failed, passed + failed)

    assert abs(low - (1 - mirrored[1])) < 1e-9
    assert abs(high - (1 - mirrored[0])) < 1e-9


@given(RESULTS)
def test_the_json_form_is_the_result(result: EvaluationResult) -> None:
    """Reading the JSON text returns an equal result."""
    assert EvaluationResult.from_json(result.to_json()) == Success(result)


@given(RESULTS)
def test_each_form_of_a_result_is_valid(result: EvaluationResult) -> None:
    """The picture is XML, and the table has a line for each law."""
    root = ET.fromstring(to_svg(result))  # our own picture
    rows = [line for line in result.to_markdown().splitlines() if line.startswith("|")]

    assert root.tag.endswith("svg")
    assert len(rows) == 2 + sum(len(case.laws) for case in result.cases)


@given(RESULTS)
def test_a_result_does_not_differ_from_itself(result: EvaluationResult) -> None:
    """Equal rates are no difference, however many runs there are."""
    assert compare_rates(result, result) == ()


def _one(law: LawResult) -> EvaluationResult:
    return EvaluationResult("set", (CaseResult("one", (law,), (0.0,), cost=Decimal(0)),))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_comparison_is_symmetric(passed: int, failed: int, now_passed: int, now_failed: int) -> None:
    """The order of the results changes the direction, but not the probability."""
    a, b = _one(LawResult("law", passed, failed, 0)), _one(LawResult("law", now_passed, now_failed, 0))
    there: Any = [change.p_value for change in compare_rates(a, b)]

    assert there == [change.p_value for change in compare_rates(b, a)]
