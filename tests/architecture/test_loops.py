"""The loops of the kit run every case, and name each case that fails."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from tests.kit.every import EveryError, every


def test_every_names_each_failing_case() -> None:
    """A loop runs the cases after a failing case, and its error names all failing cases."""
    seen: list[int] = []

    @every("number", [1, 2, 3, 4], ids=["one", "two", "three", "four"])
    def test(number: int) -> None:
        seen.append(number)
        assert number % 2, f"{number} is even"

    with pytest.raises(EveryError) as caught:
        test()

    assert seen == [1, 2, 3, 4]
    assert caught.value.message.splitlines()[0] == "2 of 4 cases failed:"
    assert [line.split(":")[0] for line in caught.value.message.splitlines()[1:]] == ["two", "four"]
    assert "2 is even" in caught.value.message
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: two"], ["case: four"]]


def test_every_names_the_cases_of_both_loops() -> None:
    """Nested loops run each pair of cases, and the error names both parts of a failing pair."""

    @every("left", ["a", "b"])
    @every("right", ["x", "y"])
    def test(left: str, right: str) -> None:
        assert (left, right) not in {("a", "y"), ("b", "x")}, "refused"

    with pytest.raises(EveryError) as caught:
        test()

    assert [line.split(":")[0] for line in caught.value.message.splitlines()[1:]] == ["a, y", "b, x"]


def test_every_reports_errors_failures_and_skips() -> None:
    """An exception, `pytest.fail` and `pytest.skip` each fail their case and no other case."""

    @every("case", [pytest.param(0, id="error"), pytest.param(1, id="failure"), pytest.param(2, id="skip"), 3])
    def test(case: int) -> None:
        if case == 0:
            raise KeyError("lost")
        if case == 1:
            pytest.fail("refused")
        if case == 2:
            pytest.skip("not here")

    with pytest.raises(EveryError) as caught:
        test()

    lines = caught.value.message.splitlines()[1:]
    assert lines[:2] == ["error: KeyError: 'lost'", "failure: refused"]
    assert lines[2].startswith("skip: RuntimeError: one case of a loop cannot be skipped")
    assert len(lines) == 3


def test_every_refuses_a_loop_without_cases() -> None:
    """A loop without cases fails, because it proves nothing."""

    @every("case", list)
    def test(case: object) -> None:
        raise AssertionError(case)

    with pytest.raises(EveryError, match="no cases"):
        test()


@every("first, second", [("a", 1), ("b", 2)])
def test_every_gives_each_case_its_own_folder(tmp_path: Path, first: str, second: int) -> None:
    """A case does not see the files of another case."""
    (tmp_path / first).write_text(str(second), encoding="utf-8")

    assert [path.name for path in tmp_path.iterdir()] == [first]


@every("name", ["FXAI_FIRST", "FXAI_SECOND"])
def test_every_undoes_the_changes_of_a_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A case does not see the variables that another case sets with `monkeypatch`."""
    assert not {"FXAI_FIRST", "FXAI_SECOND"} & set(os.environ)
    monkeypatch.setenv(name, "1")
    assert os.environ[name] == "1"


@every("word", ["first", "second"])
def test_every_shows_a_case_only_its_own_output(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, word: str
) -> None:
    """A case does not see the output and the log of another case."""
    sys.stdout.write(f"{word}\n")
    logging.getLogger("fxai").warning(word)

    assert caplog.messages == [word]
    if word == "second":
        assert capsys.readouterr().out == "second\n"
