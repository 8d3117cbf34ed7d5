"""Programs of many differently typed tools: exact for both checkers, and a missing handler is named."""

from __future__ import annotations

import pytest

from tests.kit.checkers import Report
from tests.kit.many_tools import MISSING, NUMBERS, program

pytestmark = pytest.mark.xdist_group("checkers")


@pytest.mark.parametrize("number", NUMBERS)
def test_the_types_of_many_tools_are_exact_and_a_missing_handler_is_named(number: int, report: Report) -> None:
    """The marked line is the only error, in one toolkit, or in two if the program has more than fifty tools."""
    marked = [line for line, code in enumerate(program(number).splitlines(), 1) if "# wrong:" in code]

    errors = report.errors[f"{number} tools"]

    assert list(errors) == marked
    assert f"HandlerOf[P{MISSING}, int, Never]" in errors[marked[0]][0]
