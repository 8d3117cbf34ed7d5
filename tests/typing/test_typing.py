"""What the checkers accept and refuse, without a plugin: right programs clean, wrong programs refused line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxai
from tests.kit.checkers import (
    CHECKERS,
    FIRST_PAGES,
    PAGES,
    PROJECT,
    ROOT,
    WRONG,
    Report,
    expressions_of_any,
    marked_lines,
    names_not_exported,
    run,
    texts,
    unknown_types,
)
from tests.kit.hover import EXPRESSIONS, hover_file, hover_text
from tests.kit.messages import MISTAKES, UNNAMED, messages_file, messages_text, unnamed

pytestmark = pytest.mark.xdist_group("checkers")


@pytest.fixture(scope="module", params=CHECKERS)
def whole_report(request: pytest.FixtureRequest) -> Report:
    """The report of one checker on the whole project and on each page."""
    return run(str(request.param), texts(PAGES), *PROJECT)


def test_right_programs_are_clean(report: Report) -> None:
    """The right programs and the modules that they import pass strict checking, without an unneeded ignore."""
    errors = report.outside([*WRONG, *FIRST_PAGES])

    assert {file: lines for file, lines in errors.items() if file.endswith(".py") and file != EXPRESSIONS} == {}


@pytest.mark.slow
def test_the_whole_project_is_clean(whole_report: Report) -> None:
    """Every file of the project passes strict checking, without an unneeded ignore."""
    assert whole_report.outside(PAGES) == {}


@pytest.mark.parametrize("file", [*WRONG, *FIRST_PAGES])
def test_a_wrong_line_is_refused_and_no_other_is(report: Report, file: str) -> None:
    """Each line marked as wrong is an error, and no other line of the program or page is."""
    _check_marks(report, file)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_wrong_line_of_a_page_is_refused_and_no_other_is(whole_report: Report, page: str) -> None:
    """Each line marked as wrong on a page is an error, and no other line of the page is."""
    _check_marks(whole_report, page)


def _check_marks(report: Report, file: str) -> None:
    expected = marked_lines(file)
    reported = report.errors.get(file, {})

    assert {line: why for line, why in expected.items() if line not in reported} == {}
    assert {line: said for line, said in reported.items() if line not in expected} == {}


@pytest.mark.parametrize("file", [*WRONG, "README.md"])
def test_a_wrong_program_marks_a_line(file: str) -> None:
    """A program that is there to be refused says where."""
    assert marked_lines(file)


def test_no_program_that_is_read_but_never_run_hides_an_error() -> None:
    """Programs for the checkers hold no ignore and no cast, which would silence what they are there to show."""
    programs = [*_programs("right"), *(ROOT / file for file in WRONG)]
    silenced = [path.name for path in programs if any(word in path.read_text() for word in ("ignore[", "cast("))]

    assert silenced == []


def test_the_page_about_types_counts_the_lines_of_each_area() -> None:
    """The table has a row for each area with the numbers of its wrong lines and asserted types."""
    wrong = {path.stem: len(marked_lines(path.relative_to(ROOT).as_posix())) for path in _programs("wrong")}
    right = {path.stem: path.read_text().count("assert_type(") for path in _programs("right")}
    numbers = {area: (wrong.get(area, 0), right.get(area, 0)) for area in sorted({*wrong, *right})}
    rows = [
        f"| {area.replace('_', ' ')} | {lines or '–'} | {types or '–'} |"
        for area, (lines, types) in numbers.items()
        if lines or types
    ]

    assert "\n".join(rows) in (ROOT / "docs/explanation/types.md").read_text(encoding="utf-8")


def _programs(folder: str) -> list[Path]:
    return sorted((ROOT / "tests/typing" / folder).glob("*.py"))


def test_what_is_said_of_common_mistakes_is_what_was_read(report: Report) -> None:
    """The messages are kept as text, so that a change of a signature shows what it does to them.

    `python -m tests.kit.messages` writes them anew: read the difference.
    """
    said = messages_text(report.errors[MISTAKES])

    assert said == (ROOT / messages_file(report.checker)).read_text(encoding="utf-8")


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_first_characters_of_a_message_name_the_thing(checker: str) -> None:
    """The first 200 characters name what is missing or wrong, except for the listed mistakes."""
    assert unnamed(checker) == UNNAMED[checker]


def test_what_is_shown_of_common_expressions_is_what_was_read(report: Report) -> None:
    """The types of common expressions are kept as text, so that one that grows long is seen.

    `python -m tests.kit.hover` writes them anew: read the difference.
    """
    assert hover_text(report) == (ROOT / hover_file(report.checker)).read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_public_type_is_known() -> None:
    """Checkers infer no public attribute, constant, or base, because they infer differently."""
    assert unknown_types() == []


@pytest.mark.slow
def test_a_project_of_its_own_may_import_every_name() -> None:
    """No name that works is private to checkers where the package is installed, and no part of the project."""
    lazy = [name for names in fxai._LATER.values() for name in names.split()]
    assert names_not_exported([*fxai.__all__, *lazy]) == []


WHERE_ANY_IS_MEANT = {
    "Tool.make(": "a class is named whose constructor, for which `make` stands, takes fields of any types",
    "Agent.make(": "the same",
    "BoundToolkit.make(": "the same",
    ".json_schema()": "plain JSON data, as `json.loads` gives it",
    ".encoded_result": "the same",
    ".pending]": "the parameters of a call that waits are the same",
    "Pending.approve": "the class is named that holds them",
    ".tools]": "tools of many types in one tuple",
    "# wrong:": "refused as it should be",
}


@pytest.mark.parametrize("page", FIRST_PAGES)
@pytest.mark.parametrize("report", ["mypy"], indirect=True)
def test_any_is_in_the_first_programs_only_where_it_is_meant(report: Report, page: str) -> None:
    """Each line that `--disallow-any-expr` refuses has one of these reasons, which the page about types tells."""
    found = expressions_of_any(report, page)

    assert [line for line in found if not any(mark in line for mark in WHERE_ANY_IS_MEANT)] == []
