"""The rules for commits after a recorded base: a short subject, and a body that states the reason."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["BASE", "Commit", "NoHistoryError", "broken_rules", "commits_since", "run_git"]

BASE = "635474a0f20835fd5d1218e20da1e9bf74ab8fac"
"""The last commit without rules. `FXAI_BASE` replaces it."""

SUBJECT = 72
"""Maximum number of characters in a subject."""

BODY = 5
"""Minimum number of words in a body. A shorter body cannot state a reason."""

TRIVIAL = 4
"""Maximum number of added and removed lines in a commit without a body, such as the correction of a typo."""

_DATA = re.compile(r"tests/.*\.(?:json|jsonl|ndjson|txt|png)")
_TRAILER = re.compile(r"^(?:[A-Z][A-Za-z]*-[A-Za-z-]+|Fixes|Closes|Refs|Link): .*$", re.MULTILINE)
# A hook of git sets these variables, and they name the repository of the hook.
_LOCATIONS = {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE"}

_FORMAT = "--format=%x1e%H%x1f%P%x1f%s%x1f%b%x1f"


class NoHistoryError(Exception):
    """The history is not available. The message states the cause."""


class Commit(NamedTuple):
    """A commit, and the number of lines that it adds and removes."""

    name: str
    parents: int
    subject: str
    body: str
    lines: Mapping[str, int]
    """Number of added and removed lines by file. A binary file counts as more than a trivial change."""

    @property
    def is_trivial(self) -> bool:
        """True if the commit changes at most four lines, except for recorded data of tests."""
        return sum(lines for path, lines in self.lines.items() if not _DATA.fullmatch(path)) <= TRIVIAL


def broken_rules(commit: Commit) -> Iterator[str]:
    """Yield a message for each rule that the commit breaks."""
    location = f"{commit.name[:10]} '{commit.subject}'"
    if len(commit.subject) > SUBJECT:
        yield f"{location}: the subject has {len(commit.subject)} characters. Shorten it to {SUBJECT}."
    words = _TRAILER.sub("", commit.body).split()
    if len(words) < BODY and commit.parents < 2 and not commit.is_trivial:
        yield f"{location}: the body is missing. State the problem, the cause, and the reason for the solution."


def commits_since(root: Path, base: str | None = None) -> list[Commit]:
    """Return the commits of a checkout after a base: by default `FXAI_BASE`, or the recorded base.

    Raises:
        NoHistoryError: If git or the history is missing, for example in an archive or a shallow clone.
        ValueError: If you name a base that is missing in a complete history.
    """
    named = base or os.environ.get("FXAI_BASE")
    top = run_git(root, "rev-parse", "--show-toplevel")
    if Path(top.strip()).resolve() != root.resolve():
        raise NoHistoryError(f"{root} is not the top of a git repository")
    base = named or BASE
    try:
        run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    except NoHistoryError:
        is_shallow = run_git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
        if named and not is_shallow:
            raise ValueError(f"FXAI_BASE must name a commit, got {base!r}") from None
        raise NoHistoryError(f"the {'shallow clone' if is_shallow else 'repository'} lacks the base {base}") from None
    log = run_git(root, "log", "--no-renames", "--numstat", "--no-show-signature", _FORMAT, f"{base}..HEAD")
    return [_commit(entry) for entry in log.split("\x1e")[1:]]


def run_git(root: Path, *arguments: str) -> str:
    """Return the output of a git command.

    Raises:
        NoHistoryError: If git is missing or refuses the command.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _LOCATIONS}
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, cwd=root, env=environment | {"LC_ALL": "C"}, capture_output=True, check=False)
    except FileNotFoundError:
        raise NoHistoryError("git is not installed") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines()
        raise NoHistoryError(f"git {arguments[0]} failed: {lines[0] if lines else done.returncode}")
    return done.stdout.decode(errors="replace")


def _commit(entry: str) -> Commit:
    name, parents, subject, body, files = entry.split("\x1f")
    lines: dict[str, int] = {}
    for line in files.strip().splitlines():
        added, removed, path = line.split("\t")
        lines[path] = TRIVIAL + 1 if added == "-" else int(added) + int(removed)
    return Commit(name, len(parents.split()), subject, body, lines)
