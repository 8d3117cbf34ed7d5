"""Programs of many differently typed tools: exact for both checkers, and a missing handler is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.checkers import CHECKERS, said_of
from tests.kit.many_tools import MISSING, program

pytestmark = pytest.mark.xdist_group("checkers")


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("number", [9, 50, 60])
def test_the_types_of_many_tools_are_exact_and_a_missing_handler_is_named(
    number: int, checker: str, tmp_path: Path
) -> None:
    """Of one toolkit, or of two where there are more than fifty; the marked line is the only one at fault."""
    text = program(number)
    file = tmp_path / f"program_of_{number}.py"
    file.write_text(text, encoding="utf-8")
    marked = [line for line, code in enumerate(text.splitlines(), 1) if "# wrong:" in code]

    said = said_of(checker, str(file))

    assert [line for line, _ in said] == marked
    assert f"HandlerOf[P{MISSING}, int, Never]" in said[0][1]
