"""The example agent of `fxai run`: it counts and lists the files of the current folder, and reads nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from fxai.annotations import Destructive, Readonly
from fxai.cli.example import prompts, tools
from fxai.effects import fx
from fxai.tools import Outcome

SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: texts, files that are no texts, and links; a secret is beside it."""
    here = tmp_path / "root"
    (here / "empty").mkdir(parents=True)
    (here / "notes.txt").write_text("one\ntwo three\n\nfour\nfive\n")
    (here / ".env").write_text(SECRET)
    (here / "zero.txt").write_bytes(b"a\0b")
    (here / "latin.txt").write_bytes(b"\xe9")
    (here / "large.txt").write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    (tmp_path / "secret.txt").write_text(SECRET)
    (here / "out").symlink_to(tmp_path)
    (here / "circle").symlink_to(here / "circle")
    os.mkfifo(here / "pipe")
    monkeypatch.chdir(here)
    return here


def asked(name: str, path: str) -> Outcome:
    """What the handlers give for a call."""
    return fx.run(tools.toolkit.call(name, {"path": path}).provide(tools.layer))


def shown(name: str, path: str) -> object:
    """What the model is shown of it."""
    change = tools.toolkit.tools[name].to_model_output
    assert change is not None
    return change(asked(name, path).result)


def test_every_tool_is_harmless_and_has_examples() -> None:
    """The agent changes nothing; each tool shows requests, which is what a small model learns from."""
    kit = tools.toolkit
    assert all(tool.get(Readonly) and not tool.get(Destructive) for tool in kit)
    assert all(len(tool.input_examples) >= 3 and all(e.request for e in tool.input_examples) for tool in kit)


def test_it_counts_and_lists() -> None:
    """Results are typed for programs, and sentences for the model. Hidden names are absent."""
    assert shown("count_lines", "notes.txt") == "notes.txt has 5 lines and 5 words."
    assert shown("list_directory", "empty") == "empty is empty."
    assert (
        shown("list_directory", ".")
        == "This folder contains circle, empty/, large.txt, latin.txt, notes.txt, out/, pipe, zero.txt."
    )


def test_a_long_list_is_cut_for_the_model_alone(root: Path) -> None:
    """The program receives every name, and the model the first names and the number of the others."""
    for number in range(60):
        (root / "empty" / f"{number:02}").touch()

    assert len(cast(Any, asked("list_directory", "empty").result).names) == 60
    assert str(shown("list_directory", "empty")).endswith("38, 39 and 20 more.")


@pytest.mark.parametrize("path", ["../..", "../secret.txt", "out/secret.txt", "/etc/passwd"])
@pytest.mark.parametrize("name", ["count_lines", "list_directory"])
def test_what_is_outside_is_a_typed_failure_of_every_tool(name: str, path: str) -> None:
    """A path that leads out, also through a link, is a failure, which the model reads as a line."""
    outcome = asked(name, path)

    assert outcome.is_failure
    assert outcome.result == outcome.encoded_result == f"outside of this folder: {path}"


@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("count_lines", "gone.txt", "no such file"),
        ("count_lines", "notes.txt/x", "no such file"),
        ("count_lines", "circle", "no such file"),
        ("count_lines", "a\0b", "no such file"),
        ("count_lines", "empty", "no file"),
        ("count_lines", "pipe", "no file"),
        ("count_lines", "zero.txt", "no text file"),
        ("count_lines", "latin.txt", "no text file"),
        ("count_lines", "large.txt", "larger than 2 MB"),
        ("count_lines", "x" * 300, "not readable"),
        ("list_directory", "gone", "no such file"),
        ("list_directory", "notes.txt", "no folder"),
    ],
)
def test_what_cannot_be_read_is_a_typed_failure(name: str, path: str, problem: str) -> None:
    """A path of the wrong kind, or an impossible one, is a line with the reason and the path."""
    assert asked(name, path).encoded_result == f"{problem}: {path}"


def test_no_text_of_a_file_reaches_the_model() -> None:
    """The result for a file with a secret contains its counts, and no part of its text."""
    assert asked("count_lines", ".env").encoded_result == {"path": ".env", "lines": 1, "words": 1}
    assert shown("count_lines", ".env") == ".env has 1 line and 1 word."


def test_the_prompts_name_only_files_that_the_agent_can_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing, binary, large, or oddly named file appears in no prompt, and the readme comes first."""
    (root / "my notes.txt").write_text("text")
    assert prompts() == (
        "How many lines are in notes.txt?",
        "Which files are here?",
        "How many words are in notes.txt?",
    )

    (root / "README.md").write_text("text")
    assert prompts()[0] == "How many lines are in README.md?"

    monkeypatch.chdir(root / "empty")
    assert prompts() == ("Which files are here?",)
