"""Programs of many differently typed tools: exact for both checkers, and a missing handler is named."""

from __future__ import annotations

import pytest

from tests.kit.checkers import CHECKERS, Report, run
from tests.kit.many_tools import FEW, MISSING, PART, program

pytestmark = pytest.mark.xdist_group("checkers")


def test_the_types_of_tools_are_exact_and_a_missing_handler_is_named(report: Report) -> None:
    """The marked line is the only error."""
    _check(report, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_types_of_many_tools_are_exact_and_a_missing_handler_is_named(checker: str) -> None:
    """The marked line is the only error, in a full toolkit and in two; one toolkit of many tools is right."""
    numbers = (PART, PART + 10)
    programs = {f"{number} tools": program(number) for number in numbers}
    whole = program(200, part=200, named=True, is_right=True)
    report = run(checker, programs | {"one toolkit": whole})

    assert "one toolkit" not in report.errors

    for number in numbers:
        _check(report, number)


@pytest.mark.slow
@pytest.mark.parametrize("number", [63, 122, 200])
def test_pyright_finds_the_last_missing_handler_of_a_large_toolkit(number: int) -> None:
    """No type variable collects so many handlers that pyright drops the last handler."""
    text = program(number, part=number, named=True, missing=number - 1)

    (messages,) = run("pyright", {"large": text}).errors["large"].values()

    assert f"HandlerOf[P{number - 1}, int, Never]" in messages[0]


def _check(report: Report, number: int) -> None:
    marked = [line for line, code in enumerate(program(number).splitlines(), 1) if "# wrong:" in code]

    errors = report.errors[f"{number} tools"]

    assert list(errors) == marked
    assert f"HandlerOf[P{MISSING}, int, Never]" in errors[marked[0]][0]
