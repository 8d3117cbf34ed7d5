"""The folder and the repository of the example agent: what they read, and that they never leave their root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure, Success

from fxai.cli.folder import REFUSED, Folder, Problem, Refused, Repository, folder, repository
from fxai.effects import fx
from fxai.effects.effect import Effect


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a text, a folder, a picture, and a secret beside it."""
    here = tmp_path / "root"
    (here / "docs").mkdir(parents=True)
    (here / ".hidden").touch()
    (here / "notes.txt").write_text("eins zwei\ndrei\n", encoding="utf-8")
    (here / "logo.png").write_bytes(b"\x89PNG\x00\xff")
    (here / "zero.txt").write_bytes(b"a\x00b")
    (tmp_path / "secret.txt").write_text("secret")
    (here / "out").symlink_to(tmp_path)
    (here / "circle").symlink_to(here / "circle")
    os.mkfifo(here / "pipe")
    return here


def text(root: Path, path: str) -> Any:
    """What the folder gives for a file."""
    asked: Effect[str, Refused] = fx.service(Folder).flat_map(lambda here: here.text(path)).provide(folder(root))
    return fx.run_result(asked)


def names(root: Path, path: str) -> Any:
    """What the folder gives for a folder."""
    asked: Effect[tuple[str, ...], Refused] = (
        fx.service(Folder).flat_map(lambda here: here.names(path)).provide(folder(root))
    )
    return fx.run_result(asked)


def log(root: Path, path: str = ".", count: int = 5, until: str | None = None) -> Any:
    """What the repository gives."""
    asked = fx.service(Repository).flat_map(lambda history: history.log(path, count, until=until))
    return fx.run_result(asked.provide(repository).provide(folder(root)))


def git(root: Path, *arguments: str) -> None:
    """Runs git there."""
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def test_it_reads_texts_and_lists_names(root: Path) -> None:
    """A text as it is; names sorted, folders with a slash, hidden ones left out."""
    assert text(root, "notes.txt") == Success("eins zwei\ndrei\n")
    assert text(root, "docs/../notes.txt") == Success("eins zwei\ndrei\n")
    assert names(root, ".") == Success(("circle", "docs/", "logo.png", "notes.txt", "out/", "pipe", "zero.txt"))
    assert names(root, "docs") == names(root, str(root / "docs")) == Success(())


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing.txt", "no such file"),
        ("notes.txt/more", "not readable"),
        ("../secret.txt", "outside of this folder"),
        ("out/secret.txt", "outside of this folder"),
        ("/etc/passwd", "outside of this folder"),
        ("docs", "no file"),
        ("", "no file"),
        ("pipe", "no file"),
        ("logo.png", "no text file"),
        ("zero.txt", "no text file"),
        ("nul\0.txt", "no such file"),
        ("x" * 5000, "no such file"),
        ("circle", "no such file"),
    ],
)
def test_what_is_no_text_in_here_is_refused(root: Path, path: str, problem: Problem) -> None:
    """Whatever a model may ask for, it is a typed failure with the path as it was asked for."""
    assert text(root, path) == Failure(Refused(problem, path))


def test_a_large_file_is_refused(root: Path) -> None:
    """A file of more than 2 MB is not read."""
    (root / "large.txt").write_text("x" * 2_100_000)

    assert text(root, "large.txt") == Failure(Refused("larger than 2 MB", "large.txt"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(root: Path) -> None:
    """What the system does not let us read is a typed failure."""
    (root / "notes.txt").chmod(0)

    assert text(root, "notes.txt") == Failure(Refused("not readable", "notes.txt"))


def test_what_is_no_folder_is_refused(root: Path) -> None:
    """Names are only given of folders in here."""
    assert names(root, "notes.txt") == Failure(Refused("no folder", "notes.txt"))
    assert names(root, "nowhere") == Failure(Refused("no such file", "nowhere"))
    assert names(root, "out") == Failure(Refused("outside of this folder", "out"))


def test_a_refusal_is_a_line_on_the_wire(root: Path) -> None:
    """It is written as one line of text and read back as it was, whatever the path."""
    refused = Refused("no such file", "odd: name.txt")

    assert REFUSED.encode(refused) == Success("no such file: odd: name.txt")
    assert REFUSED.decode("no such file: odd: name.txt") == Success(refused)
    assert "no problem" in str(REFUSED.decode("hello").failure())


def test_it_reads_the_history(root: Path) -> None:
    """The last commits, the newest first, as many as were asked for."""
    git(root, "init", "-q")
    assert log(root) == Failure(Refused("no commits", "."))
    git(root, "commit", "-q", "--allow-empty", "-m", "First: one")
    git(root, "commit", "-q", "--allow-empty", "-m", "Second\n\nbody")
    two = log(root).unwrap()

    assert [(commit.author, commit.subject) for commit in two] == [("Ann", "Second"), ("Ann", "First: one")]
    assert len(log(root, count=1).unwrap()) == len(log(root, count=-3).unwrap()) == 1
    assert log(root, "docs").unwrap() == two
    assert log(root, until="2001-01-01").unwrap() == ()


def test_it_never_reads_a_repository_above_its_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository above the root, or one that the environment names, is none of its business."""
    git(root.parent, "init", "-q")
    git(root.parent, "commit", "-q", "--allow-empty", "-m", "Above")
    monkeypatch.setenv("GIT_DIR", str(root.parent / ".git"))

    assert log(root) == Failure(Refused("no git repository", "."))
    assert log(root, "..") == Failure(Refused("outside of this folder", ".."))
    assert log(root, "nowhere") == Failure(Refused("no such file", "nowhere"))


def test_a_computer_without_git_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program git the failure is typed as well."""
    monkeypatch.setenv("PATH", str(root))

    assert log(root) == Failure(Refused("no git on this computer", "."))
