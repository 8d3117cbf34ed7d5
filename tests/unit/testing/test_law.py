"""Laws: what breaks one is shrunk, told, and can be repeated."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import strategies as st

from fxai.testing import Break, Law, LawError
from fxai.testing.law import NoExamplesError, Trial
from fxai.testing.strategies import instances


def _is_small(number: int) -> Break | None:
    return Break({"n": number}, "/n", "it is large", "take a smaller one") if number > 100 else None


def test_the_smallest_data_that_breaks_a_law_is_given() -> None:
    """However large what was drawn first."""
    found = Trial().find_break(st.integers(), _is_small)

    assert found == Break({"n": 101}, "/n", "it is large", "take a smaller one")
    assert hash(found) == hash(Break({"n": 101}, "/n", "it is large", "take a smaller one"))


def test_a_law_that_holds_gives_nothing() -> None:
    """And is tried as often as is asked."""
    seen: list[int] = []

    assert Trial(max_examples=7).find_break(st.integers(0, 10**9), seen.append) is None
    assert len(seen) == 7


def test_a_break_within_a_batch_shrinks_to_one_value() -> None:
    """The values before the counterexample leave no trace in it."""

    def is_small(number: int) -> Break | None:
        return Break(number, "", "it is large", "") if number >= 1000 else None

    found = Trial(max_examples=100, seed=1).find_break(st.integers(0, 10**6), is_small)

    assert found is not None
    assert found.value == 1000


def test_a_filter_that_rejects_most_batches_does_not_hide_a_break() -> None:
    """Single values follow if no batch is complete."""
    sparse = st.integers(0, 10**6).filter(lambda number: number % 16 == 15)

    found = Trial(max_examples=100, seed=1).find_break(sparse, lambda number: Break(number, "", "it is drawn", ""))

    assert found is not None
    assert found.value == 15


def test_a_filter_that_rejects_most_batches_leaves_values() -> None:
    """The law is tried although no batch is complete."""
    seen: list[int] = []
    sparse = st.integers(0, 10**6).filter(lambda number: number % 16 == 15)

    assert Trial(max_examples=100, seed=1).find_break(sparse, seen.append) is None
    assert len(set(seen)) > 1


@pytest.mark.parametrize("seed", range(6))
def test_each_search_finds_two_equal_items_of_a_list(seed: int) -> None:
    """Programs that confuse lists with sets lose such an item."""
    lists = instances({"type": "array", "items": {"type": "integer"}})

    def is_set(items: Any) -> Break | None:
        return Break(items, "", "two items are equal", "") if len(set(items)) < len(items) else None

    found = Trial(seed=seed).find_break(lists, is_set)

    assert found is not None
    assert found.value == [0, 0]


@pytest.mark.parametrize("trial", [Trial(), Trial(seed=7), Trial(derandomize=True)])
def test_laws_of_a_trial_share_the_data_of_a_strategy(trial: Trial) -> None:
    """A later law receives equal data, even if the first law changes it, and still finds the smallest break."""
    lists = st.lists(st.integers(0, 10**6), min_size=1, max_size=3)
    seen: list[list[int]] = []

    def clear(items: list[int]) -> None:
        seen.append([*items])
        items.clear()

    assert trial.find_break(lists, clear) is None
    first = len(seen)
    assert trial.find_break(lists, clear) is None
    found = trial.find_break(lists, lambda items: Break(items, "", "it is large", "") if max(items) > 100 else None)

    assert seen[:first] == seen[first:] != []
    assert found is not None
    assert found.value == [101]


def test_a_later_law_raises_its_error() -> None:
    """Hypothesis shrinks the data of the error as for the first law."""
    trial, numbers = Trial(), st.integers(0, 10**6)
    seen: list[int] = []

    def divide(number: int) -> None:
        if number > 1000:
            seen.append(number)
            raise ZeroDivisionError

    assert trial.find_break(numbers, lambda _: None) is None
    with pytest.raises(ZeroDivisionError):
        trial.find_break(numbers, divide)
    assert min(seen) == 1001


@pytest.mark.parametrize("trial", [Trial(max_examples=20, seed=3), Trial(max_examples=20, derandomize=True)])
def test_a_trial_can_be_repeated(trial: Trial) -> None:
    """By its seed, or without chance at all."""
    runs: list[list[int]] = [[], []]
    for run in runs:
        trial.find_break(st.integers(), run.append)

    assert runs[0] == runs[1] != []


def test_an_error_says_law_data_place_finding_and_remedy() -> None:
    """In five lines, the data as JSON; and it travels between processes."""
    law = Law("small", "numbers are small", lambda _, trial: trial.find_break(st.integers(), _is_small))
    with pytest.raises(LawError) as caught:
        law.check(None, "the tool 'n'", Trial())
    error = pickle.loads(pickle.dumps(caught.value))

    assert str(error).splitlines() == [
        "the tool 'n' breaks a law: numbers are small",
        '  with:  {"n":101}',
        "  at:    /n",
        "  found: it is large",
        "  do:    take a smaller one",
    ]
    assert (error.subject, error.law, error.broken.value) == ("the tool 'n'", "numbers are small", {"n": 101})


def test_what_json_cannot_carry_is_told_as_python_writes_it() -> None:
    """A counter-example is never lost."""
    assert Break({1j}, "", "", "").json == "{1j}"
    assert Break([None, "ä"], "", "", "").json == '[null,"ä"]'


def test_a_law_without_data_says_so() -> None:
    """Nothing was tried, so nothing is known to hold."""
    with pytest.raises(NoExamplesError):
        Trial().find_break(st.nothing(), _is_small)
    with pytest.raises(LawError, match="parameters=<a strategy>"):
        Law("small", "x", lambda _, trial: trial.find_break(st.nothing(), _is_small)).check(None, "x", Trial())


def test_what_breaks_only_now_and_then_is_told_as_such() -> None:
    """The data is given, and that it also passed."""
    calls: list[Any] = []

    def once(number: int) -> Break | None:
        calls.append(number)
        return Break(number, "", "it was the first", "x") if len(calls) == 1 else None

    found = Trial(max_examples=5).find_break(st.integers(), once)

    assert found is not None
    assert "not every time" in found.found
