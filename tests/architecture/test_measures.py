"""The measures of the package: the limits of modules, lines, and functions."""

from __future__ import annotations

import pytest

from tests.kit.measures import MEASURES, THIN, Measure, circles, measure, participles, thin_modules


@pytest.fixture(scope="module")
def measures() -> dict[str, Measure]:
    """Every measure by its name."""
    return {one.name: one for one in measure()}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_kept(measures: dict[str, Measure], name: str) -> None:
    """No measure exceeds its limit. `nox -s measures` prints all of them."""
    assert measures[name].is_kept, measures[name]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for types and imports inside functions count."""
    assert circles() == []


def test_every_thin_module_has_a_reason() -> None:
    """A module with one importer and under 120 lines is part of that importer, or says here why not."""
    assert sorted(thin_modules()) == sorted(THIN)


def test_no_function_is_named_by_a_participle() -> None:
    """Functions are verbs or nouns."""
    assert participles() == []
