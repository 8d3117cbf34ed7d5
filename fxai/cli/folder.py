"""Folders and repositories as services: one folder, what is in it, and its history; never anything outside.

>>> from fxai.effects import fx
>>> fx.run(fx.service(Folder).flat_map(lambda folder: folder.text("../secret")).provide(folder(".")).result())
<Failure: outside of this folder: ../secret>
"""

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, final, get_args

import anyio
import msgspec
from anyio import to_thread
from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.context import Service
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.schema.codec import Schema

__all__ = ["REFUSED", "Commit", "Folder", "Problem", "Refused", "Repository", "folder", "repository"]

_A = TypeVar("_A")

_LARGEST: Final = 2 * 1024 * 1024
_MOST_COMMITS: Final = 50

Problem: TypeAlias = Literal[
    "no such file",
    "outside of this folder",
    "no folder",
    "no file",
    "no text file",
    "larger than 2 MB",
    "not readable",
    "no git repository",
    "no commits",
    "no git on this computer",
    "git refused",
]
"""What can be the matter with a file, a folder or a repository."""


@final
class Refused(msgspec.Struct, frozen=True):
    """Why something could not be read: the problem, and the path as it was asked for."""

    problem: Problem
    path: str

    @override
    def __str__(self) -> str:
        return f"{self.problem}: {self.path}"

    @staticmethod
    def read(text: str) -> Refused:
        """What `str` wrote.

        Raises:
            ValueError: the text does not begin with a problem.
        """
        problem, _, path = text.partition(": ")
        if problem not in get_args(Problem):
            raise ValueError(f"no problem that we know: {problem!r}")
        return Refused(cast(Problem, problem), path)


_LINE: Final = Schema.codec(wire=str, decode=Refused.read, encode=str)
REFUSED: Final[Schema[Refused]] = Schema[Refused].of(cast("type[Refused]", Annotated[Refused, _LINE]))
"""The schema of a `Refused`, which is one line of text on the wire: a small model gets on with that best."""


@final
class Commit(msgspec.Struct, frozen=True):
    """One commit: its short id, who made it, on which day, and the first line of its message."""

    id: str
    author: str
    date: str
    subject: str


class Folder(Service):
    """One folder and what is in it. A path is relative to it; what leads outside, by a link too, is refused."""

    @abstractmethod
    def names(self, path: str) -> Effect[tuple[str, ...], Refused]:
        """What is in the folder `path`, sorted, folders with a slash behind; hidden names are left out."""

    @abstractmethod
    def text(self, path: str) -> Effect[str, Refused]:
        """The text of the file `path`: UTF-8, 2 MB at most."""

    @abstractmethod
    def place(self, path: str) -> Effect[Path, Refused]:
        """Where the folder `path` is."""


class Repository(Service):
    """The history of a git repository."""

    @abstractmethod
    def log(
        self, path: str, count: int, since: str | None = None, until: str | None = None
    ) -> Effect[tuple[Commit, ...], Refused]:
        """The last `count` commits at `path`, 50 at most, the newest first; dates as git reads them."""


def folder(root: str | Path) -> Layer[Folder]:
    """The layer of the folder `root` of this computer."""
    return Layer.sync(Folder, lambda: _OnDisk(Path(root).resolve()))


@fx.gen
def _repository() -> Gen[Repository, Any, Folder]:
    return _Git((yield from Folder))


repository: Final[Layer[Repository, Any, Folder]] = Layer.effect(Repository, _repository())
"""The layer of the repository whose top is the `Folder`, or lies in it, read by the program `git`."""


_NOWHERE = (errno.ENAMETOOLONG, errno.ELOOP)  # a name that no file can have, and links in a circle


@final
class _Stopped(Exception):
    """Carries a `Refused` out of a worker thread."""

    def __init__(self, problem: Problem, path: str) -> None:
        super().__init__(problem, path)
        self.refused = Refused(problem, path)


@final
class _OnDisk(Folder):
    def __init__(self, root: Path) -> None:
        self._root = root

    @override
    def names(self, path: str) -> Effect[tuple[str, ...], Refused]:
        return _in_thread(lambda: _names(self._folder(path), path))

    @override
    def text(self, path: str) -> Effect[str, Refused]:
        return _in_thread(lambda: _text(self._inside(path), path))

    @override
    def place(self, path: str) -> Effect[Path, Refused]:
        return _in_thread(lambda: self._folder(path))

    def _inside(self, path: str) -> Path:
        try:
            found = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
            raise _Stopped("no such file", path) from None
        if not found.is_relative_to(self._root):
            raise _Stopped("outside of this folder", path)
        return found

    def _folder(self, path: str) -> Path:
        found = self._inside(path)
        if not os.path.isdir(found):  # noqa: PTH112  # unlike Path.is_dir it is False for any name
            raise _Stopped("no folder" if os.path.exists(found) else "no such file", path)  # noqa: PTH110
        return found


@final
class _Git(Repository):
    def __init__(self, where: Folder) -> None:
        self._where = where

    @override
    def log(
        self, path: str, count: int, since: str | None = None, until: str | None = None
    ) -> Effect[tuple[Commit, ...], Refused]:
        limits = [f"--max-count={max(1, min(count, _MOST_COMMITS))}"]
        limits += [f"--{name}={date}" for name, date in (("since", since), ("until", until)) if date]
        return _logged(self._where, path, limits)


@fx.gen
def _logged(where: Folder, path: str, limits: list[str]) -> Gen[tuple[Commit, ...], Refused]:
    top = yield from where.place(".")
    place = yield from where.place(path)
    done = yield from fx.attempt_async(
        lambda: _git(top, place, ["log", "--no-show-signature", "--format=%h%x1f%an%x1f%as%x1f%s", *limits]),
        lambda raised: Refused("no git on this computer", path) if isinstance(raised, OSError) else None,
    )
    if done.returncode != 0:
        yield from fx.fail(Refused(_said(done.stderr.decode(errors="replace")), path))
    lines = done.stdout.decode(errors="replace").splitlines()
    fields = (line.split("\x1f", 3) for line in lines)
    return tuple(Commit(*each) for each in fields if len(each) == 4)


async def _git(top: Path, place: Path, arguments: list[str]) -> CompletedProcess[bytes]:
    """Git at `place`: not on a repository above `top`, nor on one that the environment names."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone = {"GIT_CEILING_DIRECTORIES": str(top.parent), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = ["git", "--no-pager", "-C", str(place), *arguments]
    return await anyio.run_process(command, check=False, env={**kept, **alone})


def _said(complaint: str) -> Problem:
    if "not a git repository" in complaint:
        return "no git repository"
    return "no commits" if "does not have any commits" in complaint else "git refused"


def _names(place: Path, path: str) -> tuple[str, ...]:
    try:
        with os.scandir(place) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        names = [entry.name + ("/" if os.path.isdir(entry) else "") for entry in shown]  # noqa: PTH112  # as above
    except OSError:
        raise _Stopped("not readable", path) from None
    return tuple(sorted(names))


def _text(place: Path, path: str) -> str:
    try:
        found = place.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _Stopped("no file", path)
        if found.st_size > _LARGEST:
            raise _Stopped("larger than 2 MB", path)
        text = place.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise _Stopped("no such file", path) from None
    except UnicodeDecodeError:
        raise _Stopped("no text file", path) from None
    except OSError as wrong:
        raise _Stopped("no such file" if wrong.errno in _NOWHERE else "not readable", path) from None
    if "\0" in text:
        raise _Stopped("no text file", path)
    return text


def _in_thread(f: Callable[[], _A]) -> Effect[_A, Refused]:
    return fx.attempt_async(
        lambda: to_thread.run_sync(f), lambda raised: raised.refused if isinstance(raised, _Stopped) else None
    )
