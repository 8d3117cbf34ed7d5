"""One run of each checker for all programs of this folder."""

from __future__ import annotations

import pytest

from tests.kit.checkers import CHECKERS, FIRST_PAGES, WRONG, Report, run, texts, texts_without_any
from tests.kit.hover import EXPRESSIONS, hover_program
from tests.kit.many_tools import FEW, program


@pytest.fixture(scope="session", params=CHECKERS)
def report(request: pytest.FixtureRequest) -> Report:
    """The report of one checker on the programs of this folder, the first pages, and the modules that they import."""
    programs = texts([*WRONG, *FIRST_PAGES]) | {EXPRESSIONS: hover_program()}
    programs |= {f"{FEW} tools": program(FEW)}
    if request.param == "mypy":
        programs |= texts_without_any(FIRST_PAGES)
    return run(str(request.param), programs, "tests/typing")
