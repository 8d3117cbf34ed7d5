"""The repository of the example agent: it reads what git wrote, and runs nothing that a repository names."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure, Success

from fxai.cli.folder import Problem, Refused, folder
from fxai.cli.redaction import has_secret
from fxai.cli.repository import Commit, Repository, repository
from fxai.effects import fx
from tests.kit.every import every

QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "TZ": "UTC",
}


def git(root: Path, *arguments: str, given: bytes = b"", check: bool = True, **env: str) -> str:
    """What git writes there."""
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", *who, *arguments]
    done = subprocess.run(
        command, cwd=root, check=check, capture_output=True, input=given, env={**QUIET, **env}, timeout=60
    )
    return done.stdout.decode(errors="replace")


def log(root: Path, path: str = ".", count: int = 50, since: str | None = None, until: str | None = None) -> Any:
    """What the repository gives."""
    asked = fx.service(Repository).flat_map(lambda history: history.log(path, count, since, until))
    return fx.run_result(asked.provide(repository).provide(folder(root)))


def refused(problem: Problem, path: str = ".") -> Failure[Refused]:
    """What it fails with."""
    return Failure(Refused(problem, path))


def as_git_says(root: Path, *more: str) -> list[Commit]:
    """The same commits, by git."""
    written = git(root, "log", "--abbrev=10", "--format=%h%x1f%an%x1f%as%x1f%s", *more)
    return [Commit(*(" ".join(field.split()) for field in line.split("\x1f"))) for line in written.splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit."""
    here = tmp_path / "root"
    here.mkdir()
    git(here, "init", "-q", "-b", "main")
    (here / "a.txt").write_text("a\n")
    git(here, "add", ".")
    git(here, "commit", "-q", "-m", "First")
    return here


# ---- what it reads


def drawn(seed: int) -> bytes:
    """A history as `git fast-import` takes it: branches, merges, odd dates, several lines, other encodings."""
    dice, lines = random.Random(seed), list[bytes]()
    for mark in range(1, 60):
        zone = dice.choice(["+0000", "-0730", "+1400"])
        when = f"{1_600_000_000 + dice.randrange(-5, 6) * 40_000 + mark * 3_000} {zone}".encode()
        encoding, author = dice.choice([("", "Zoë"), ("iso-8859-1", "Zoë"), ("", "Ann B. <c"), ("utf-8", "名前")])
        text = dice.choice(["One\nstill one\n\nbody", "\n\n  Blank first", "Plain", "Tab\there", "x" * 150])
        message = f"{mark} {text}".encode(encoding or "utf-8")
        name = author.replace(" <c", "").encode(encoding or "utf-8")
        lines += [b"commit refs/heads/main", b"mark :%d" % mark]
        lines += [b"author " + name + b" <a@b> " + when, b"committer " + name + b" <a@b> " + when]
        lines += [b"encoding " + encoding.encode()] * bool(encoding)
        lines += [b"data %d" % len(message), message]
        if mark > 1:
            before = sorted({mark - 1, *(dice.randrange(1, mark) for _ in range(dice.randrange(3)))}, reverse=True)
            lines += [b"from :%d" % before[0], *(b"merge :%d" % each for each in before[1:])]
        lines += [b""]
    return b"\n".join(lines)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_it_reads_what_git_reads(tmp_path: Path, seed: int, form: str) -> None:
    """Histories with merges, odd dates and encodings, loose and packed with differences, are as git shows them."""
    git(tmp_path, "init", "-q", "-b", "main", f"--object-format={form}")
    git(tmp_path, "fast-import", "--quiet", given=drawn(seed))
    loose = log(tmp_path).unwrap()
    git(tmp_path, "repack", "-a", "-d", "-f", "-q", "--depth=50", "--window=50")
    git(tmp_path, "pack-refs", "--all")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "On top", GIT_COMMITTER_DATE="1900000000 +0000")
    said = as_git_says(tmp_path, "--max-count=50")

    assert list(loose[:49]) == said[1:]
    assert list(log(tmp_path).unwrap()) == said


def test_long_differences_are_put_together(tmp_path: Path) -> None:
    """Commits that a pack keeps as differences of each other are whole again."""
    git(tmp_path, "init", "-q", "-b", "main")
    body = "\n".join(str(random.Random(1).random()) for _ in range(400))
    for number in range(12):
        git(tmp_path, "commit", "-q", "--allow-empty", "-F", "-", given=f"Number {number}\n\n{body}".encode())
    git(tmp_path, "repack", "-a", "-d", "-f", "-q", "--depth=50", "--window=50")
    index = next((tmp_path / ".git" / "objects" / "pack").glob("*.idx"))
    chains = git(tmp_path, "verify-pack", "-v", str(index))

    assert "chain length" in chains
    assert [commit.subject for commit in log(tmp_path).unwrap()] == [f"Number {n}" for n in reversed(range(12))]


def test_worktrees_shallow_clones_bare_and_detached_are_read(root: Path, tmp_path: Path) -> None:
    """What git makes of a repository is read: a worktree that it knows, a shallow or bare clone, a detached head."""
    git(root, "commit", "-q", "--allow-empty", "-m", "Second")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", "shallow")
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
    git(root, "checkout", "-q", "--detach", "HEAD~1")

    assert [commit.subject for commit in log(tmp_path / "tree").unwrap()] == ["Second", "First"]
    assert [commit.subject for commit in log(tmp_path / "shallow").unwrap()] == ["Second"]
    assert [commit.subject for commit in log(tmp_path / "bare.git").unwrap()] == ["Second", "First"]
    assert [commit.subject for commit in log(tmp_path, "bare.git").unwrap()] == ["Second", "First"]
    assert [commit.subject for commit in log(root).unwrap()] == ["First"]


@every(
    ("since", "until", "found"),
    [
        ("2024-01-15T14:30:25", None, "cb"),
        ("2024-01-15", None, "cb"),
        ("Jan 15 2024", "15 Jan 2024", "b"),
        ("January 15, 2024", None, "cb"),
        (None, "2024-01-15", "ba"),
        (None, "2024-01-15T14:00", "a"),
        (None, "2 weeks ago", "cba"),
        (None, "99999 years ago", ""),
        ("yesterday", "today", ""),
        ("an hour ago", "now", ""),
    ],
)
def test_dates_are_read_as_the_tool_describes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: str | None, until: str | None, found: str
) -> None:
    """ISO 8601, days and what is so long ago; a day alone is the whole day."""
    monkeypatch.setenv("TZ", "UTC")
    git(tmp_path, "init", "-q", "-b", "main")
    for subject, date in (("a", "2024-01-14T12:00:00Z"), ("b", "2024-01-15T20:00:00Z"), ("c", "2024-03-01T00:00:00Z")):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", subject, GIT_COMMITTER_DATE=date, GIT_AUTHOR_DATE=date)

    assert "".join(commit.subject for commit in log(tmp_path, since=since, until=until).unwrap()) == found


@pytest.mark.parametrize("text", ["some day", "--output=x", "", "9" * 400, "2024-99-99", "\0"])
def test_what_is_no_date_is_refused(root: Path, text: str) -> None:
    """A date that cannot be read is a typed failure with its text: it is never an option of anything."""
    assert log(root, since=text) == refused("no date", text)


def test_secrets_in_messages_are_hidden(root: Path) -> None:
    """A subject or an author that looks like a key is not shown."""
    git(root, "commit", "-q", "--allow-empty", "-m", f"Use AKIA{'A' * 16} for now")
    git(root, "-c", "user.name=ghp_" + "a1" * 18, "commit", "-q", "--allow-empty", "-m", "Fine")
    shown = log(root).unwrap()

    assert [commit.subject for commit in shown] == ["Fine", "(hidden: it looks like a secret)", "First"]
    assert shown[0].author == "(hidden: it looks like a secret)"


# ---- what it does not do


def lure(root: Path, name: str) -> str:
    """A command that leaves a mark when it is run."""
    script = root.parent / f"{name}.sh"
    script.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(root.parent / 'marks' / name))}\nexit 1\n")
    script.chmod(0o755)
    return str(script)


def lost_parent(root: Path) -> None:
    """Makes the tip a commit whose parent is missing, so that git would fetch it from a remote that promised it."""
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    who = b"Ann <a@b> 1700000000 +0000"
    body = b"tree %s\nparent %s\nauthor %s\ncommitter %s\n\nTip\n" % (tree.encode(), b"1" * 40, who, who)
    name = git(root, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", given=body).strip()
    (root / ".git" / "refs" / "heads" / "main").write_text(name + "\n")
    git(root, "config", "extensions.partialClone", "origin")
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", "remote.origin.promisor", "true")


def signed(root: Path) -> None:
    """Makes the tip a commit that says it is signed."""
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    who = b"Ann <a@b> 1700000000 +0000"
    seal = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
    body = b"tree %s\nauthor %s\ncommitter %s\n%s\nTip\n" % (tree.encode(), who, who, seal)
    name = git(root, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", given=body).strip()
    (root / ".git" / "refs" / "heads" / "main").write_text(name + "\n")


def changed(root: Path) -> None:
    """A second commit that changes the text, whose attributes name a driver and a filter."""
    (root / ".gitattributes").write_text("*.txt diff=x filter=x\n")
    (root / "a.txt").write_text("b\n")
    git(root, "commit", "-q", "-a", "-m", "Second")
    (root / "a.txt").write_text("c\n")


def unchanged(_: Path) -> None:
    """Nothing."""


Trap = tuple[str, tuple[tuple[str, str], ...], Callable[[Path], None], tuple[str, ...]]
TRAPS: list[Trap] = [
    ("ssh", (("remote.origin.url", "ssh://x/y"), ("core.sshCommand", "LURE")), lost_parent, ("log",)),
    ("ext", (("remote.origin.url", "ext::LURE"), ("protocol.ext.allow", "always")), lost_parent, ("log",)),
    ("proxy", (("remote.origin.url", "git://x/y"), ("core.gitProxy", "LURE")), lost_parent, ("log",)),
    ("uploadpack", (("remote.origin.url", "SELF"), ("remote.origin.uploadpack", "LURE")), lost_parent, ("log",)),
    ("gpg", (("log.showSignature", "true"), ("gpg.program", "LURE")), signed, ("log",)),
    ("fsmonitor", (("core.fsmonitor", "LURE"),), unchanged, ("status",)),
    ("external", (("diff.external", "LURE"),), changed, ("log", "-p", "--ext-diff")),
    ("driver", (("diff.x.command", "LURE"),), changed, ("log", "-p", "--ext-diff")),
    ("textconv", (("diff.x.textconv", "LURE"),), changed, ("log", "-p")),
    ("clean", (("filter.x.clean", "LURE"),), changed, ("status",)),
    ("smudge", (("filter.x.smudge", "LURE"),), changed, ("checkout", "--", "a.txt")),
    ("hook", (("core.hooksPath", "HOOKS"),), unchanged, ("checkout", "-q", "--detach")),
    ("editor", (("core.editor", "LURE"),), unchanged, ("commit", "--allow-empty")),
    ("alias", (("alias.show-log", "!LURE"),), unchanged, ("show-log",)),
    ("included", (("include.path", "INCLUDED"),), unchanged, ("status",)),
]


@pytest.mark.skipif(sys.platform == "win32", reason="the lures are shell scripts")
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap[0])
def test_nothing_that_a_repository_names_is_run(root: Path, trap: Trap) -> None:
    """Git itself falls into each of these traps; the tool does not, whatever it can read of the history."""
    name, settings, prepared, command = trap
    marks = root.parent / "marks"
    marks.mkdir()
    prepared(root)
    script = lure(root, name)
    (root / ".git" / "included").write_text(f"[core]\n\tfsmonitor = {script}\n")
    (root / ".git" / "hooks").mkdir(exist_ok=True)
    (root / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\n{script} </dev/null\n")
    (root / ".git" / "hooks" / "post-checkout").chmod(0o755)
    for key, value in settings:
        value = value.replace("LURE", script).replace("SELF", str(root)).replace("INCLUDED", "included")
        git(root, "config", key, value.replace("HOOKS", str(root / ".git" / "hooks")))

    shown = log(root)
    assert list(marks.iterdir()) == []
    git(root, *command, check=False)

    assert [mark.name for mark in marks.iterdir()] == [name]
    assert isinstance(shown, Success) or prepared is lost_parent


def test_no_program_is_started_at_all(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any program on this computer, and where none may be started, the history is read all the same."""

    def started(*_: Any, **__: Any) -> Any:
        raise AssertionError("a program was started")

    monkeypatch.setenv("PATH", str(root))
    for place, names in ((subprocess, ("Popen",)), (os, ("posix_spawn", "fork", "system", "execve"))):
        for name in names:
            monkeypatch.setattr(place, name, started, raising=False)

    assert [commit.subject for commit in log(root).unwrap()] == ["First"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_DIR", "ABOVE"),
        ("GIT_COMMON_DIR", "ABOVE"),
        ("GIT_OBJECT_DIRECTORY", "ABOVE/objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "ABOVE/objects"),
        ("GIT_CEILING_DIRECTORIES", ""),
    ],
)
def test_the_environment_leads_it_nowhere(root: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A repository that the environment names, or one above the folder, is none of its business."""
    git(root.parent, "init", "-q")
    git(root.parent, "commit", "-q", "--allow-empty", "-m", "Above")
    monkeypatch.setenv(name, value.replace("ABOVE", str(root.parent / ".git")))
    (root / "sub").mkdir()
    (root.parent / "bare").mkdir()

    assert [commit.subject for commit in log(root, "sub").unwrap()] == ["First"]
    assert log(root.parent / "bare") == refused("no git repository")
    assert log(root, "..") == refused("outside of this folder", "..")


# ---- what leads out


def secret(root: Path) -> Path:
    """A repository of somebody else, beside the folder."""
    other = root.parent / "private"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    git(other, "commit", "-q", "--allow-empty", "-m", "Private")
    return other / ".git"


def to_file(root: Path, private: Path) -> None:
    """A `.git` file that names the other repository."""
    (root / ".git").rename(root / "old")
    (root / ".git").write_text(f"gitdir: {private}\n")


def to_worktree(root: Path, private: Path) -> None:
    """A `.git` file that names a worktree of the other repository, which is another one."""
    git(private.parent, "worktree", "add", "-q", str(root.parent / "theirs"), "-b", "theirs")
    to_file(root, private / "worktrees" / "theirs")


def to_link(root: Path, private: Path) -> None:
    """A `.git` that is a link."""
    (root / ".git").rename(root / "old")
    (root / ".git").symlink_to(private)


def to_head(root: Path, private: Path) -> None:
    """A `HEAD` that is a link."""
    (root / ".git" / "HEAD").unlink()
    (root / ".git" / "HEAD").symlink_to(private / "HEAD")


def to_refs(root: Path, private: Path) -> None:
    """A reference that climbs out."""
    (root / ".git" / "HEAD").write_text(f"ref: refs/../../../{private.parent.name}/.git/refs/heads/main\n")


def to_objects(root: Path, private: Path) -> None:
    """Objects that are a link, and a head that stands in them."""
    (root / ".git" / "objects").rename(root / "old")
    (root / ".git" / "objects").symlink_to(private / "objects")
    (root / ".git" / "HEAD").write_text((private / "refs" / "heads" / "main").read_text())


def to_pack(root: Path, private: Path) -> None:
    """A pack that is a link."""
    git(private.parent, "repack", "-a", "-d", "-q")
    (root / ".git" / "objects" / "pack").mkdir(exist_ok=True)
    for file in (private / "objects" / "pack").iterdir():
        (root / ".git" / "objects" / "pack" / file.name).symlink_to(file)
    (root / ".git" / "HEAD").write_text((private / "refs" / "heads" / "main").read_text())


def to_alternate(root: Path, private: Path) -> None:
    """An alternate, and a head that stands there."""
    (root / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (root / ".git" / "objects" / "info" / "alternates").write_text(f"{private / 'objects'}\n")
    (root / ".git" / "HEAD").write_text((private / "refs" / "heads" / "main").read_text())


def to_common(root: Path, private: Path) -> None:
    """A common folder that is another's."""
    (root / ".git").rename(root / "own")
    (root / ".git").write_text("gitdir: own\n")
    (root / "own" / "commondir").write_text(f"{private}\n")


@pytest.mark.parametrize(
    "out", [to_file, to_worktree, to_link, to_head, to_refs, to_objects, to_pack, to_alternate, to_common]
)
def test_what_leads_out_of_the_folder_is_refused(root: Path, out: Callable[[Path, Path], None]) -> None:
    """Whatever of a repository leads to another one, nothing of that is shown, which git itself would show."""
    out(root, secret(root))
    shown = log(root)

    assert shown in (refused("outside of this folder"), refused("history not readable"))


def test_an_alternate_in_the_folder_is_read(root: Path) -> None:
    """A clone that shares the objects of a repository within the folder is read."""
    git(root, "clone", "-q", "--shared", ".", "inner")

    assert [commit.subject for commit in log(root, "inner").unwrap()] == ["First"]


# ---- what is broken, or far too much


def tip(root: Path) -> Path:
    """The file of the commit on top."""
    name = (root / ".git" / "refs" / "heads" / "main").read_text().strip()
    file = root / ".git" / "objects" / name[:2] / name[2:]
    file.chmod(0o644)
    return file


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no commit",
        zlib.compress(b"commit 5\0abc"),
        zlib.compress(b"blob 3\0abc"),
        zlib.compress(b"commit 900000000\0" + b"\0" * 100_000_000, 9),
        zlib.compress(b"commit 40\0parent ../../../etc/passwd\nauthor x\ncomm"),
        zlib.compress(b"commit 3\0abc")[:-6],
    ],
)
def test_a_broken_object_is_a_typed_failure(root: Path, body: bytes) -> None:
    """An object that is no commit, is cut, or unpacks to far more than one has, is a failure that says so."""
    tip(root).write_bytes(body)

    assert log(root) == refused("history not readable")


def commit(author: bytes, subject: bytes = b"First") -> bytes:
    """The object of a commit by somebody."""
    body = b"tree %b\nauthor %b\ncommitter Ann <a@b> 1600000000 +0000\n\n%b\n" % (b"0" * 40, author, subject)
    return zlib.compress(b"commit %d\0" % len(body) + body)


@pytest.mark.parametrize(
    "author",
    [
        b" " * 500_000,
        b"<" * 250_000 + b">" * 250_000 + b"x",
        b"a <" * 150_000,
        b"<" + b"> " * 250_000,
        b"<>" + b"9" * 9**6,
    ],
    ids=["blanks", "signs", "opened", "closed", "digits"],
)
def test_an_author_that_is_no_author_takes_no_time(root: Path, author: bytes) -> None:
    """A line that is all signs is read once through: the ceiling tells that from its square, which takes minutes."""
    tip(root).write_bytes(commit(author))
    began = time.process_time()
    read = log(root).unwrap()

    assert time.process_time() - began < 20
    assert [one.subject for one in read] == ["First"]


def test_only_so_much_of_a_subject_is_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a line of a megabyte no more than a piece, from its first word; a secret in what is shown is hidden still."""
    searched: list[int] = []

    def search(text: str) -> bool:
        searched.append(len(text))
        return has_secret(text)

    monkeypatch.setattr("fxai.cli.repository.has_secret", search)
    blank, name = b" " * 9_000, b"Ann <a@b> 1600000000 +0000"
    shown: list[str] = []
    for subject in (blank + b"password=" * 90_000, blank + b"ghp_" + b"a1" * 18 + b"\n" + b"word " * 90_000):
        tip(root).write_bytes(commit(name, subject))
        shown.append(log(root).unwrap()[0].subject)

    assert max(searched) <= 4096
    assert shown == ["password=" * 22 + "pa", "(hidden: it looks like a secret)"]


@every("seed", range(14))
def test_a_broken_pack_is_a_typed_failure_or_read(tmp_path: Path, seed: int) -> None:
    """Bytes of a pack and its index that are changed or cut lead to a commit, or to a typed failure."""
    dice = random.Random(seed)
    if not (template := tmp_path / ".git").exists():
        git(tmp_path, "init", "-q", "-b", "main")
        git(tmp_path, "fast-import", "--quiet", given=drawn(1))
        git(tmp_path, "repack", "-a", "-d", "-f", "-q")
    for file in (template / "objects" / "pack").iterdir():
        file.chmod(0o644)
        data = bytearray(file.read_bytes())
        for _ in range(dice.randrange(1, 40)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        file.write_bytes(data[: dice.randrange(len(data))] if dice.random() < 0.2 else data)
    shown = log(tmp_path)

    assert isinstance(shown, Success) or shown.failure().problem in ("history not readable", "history too long")


def test_a_history_that_is_too_long_for_its_dates_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commits that are asked for lie behind more than can be read at once, that is said."""
    monkeypatch.setattr("fxai.cli.repository._MOST_WORK", 20_000)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "fast-import", "--quiet", given=drawn(1))

    assert log(tmp_path, until="2001-01-01") == refused("history too long")
    assert len(log(tmp_path, count=3).unwrap()) == 3


@pytest.mark.parametrize("head", ["ref: refs/heads/gone\n", "", "ref: HEAD\n", "ref: refs/heads/loop\n", "x" * 9999])
def test_a_head_that_leads_nowhere_is_a_typed_failure(root: Path, head: str) -> None:
    """No commits, or a reference that is none, or that leads to itself."""
    (root / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop\n")
    (root / ".git" / "HEAD").write_text(head)

    assert log(root) in (refused("no commits"), refused("history not readable"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes of this kind")
def test_links_in_a_circle_and_pipes_are_a_typed_failure(root: Path) -> None:
    """Nothing is waited for, and nothing goes round."""
    head = root / ".git" / "HEAD"
    head.unlink()
    head.symlink_to(head)
    circle = log(root)
    head.unlink()
    os.mkfifo(head)

    assert circle == log(root) == refused("history not readable")
