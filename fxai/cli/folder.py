"""Folders as services. Use `folder` to read one directory, but no files outside it and no files with secrets.

>>> from fxai.effects import fx, thread
>>> fx.run(fx.service(Folder).flat_map(lambda folder: folder.text("../secret")).provide(folder(".")).result())
<Failure: outside of this folder: ../secret>
>>> fx.run(fx.service(Folder).flat_map(lambda folder: folder.text(".env")).provide(folder(".")).result())
<Failure: may hold secrets: .env>
"""

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, TypeAlias, cast, final, get_args

import msgspec
from typing_extensions import TypeVar, override

from fxai.cli.redaction import has_secret, is_secret_name
from fxai.effects import fx, thread
from fxai.effects.effect import Effect
from fxai.effects.layer import Layer
from fxai.effects.service import Service
from fxai.schema.codec import Schema

_A = TypeVar("_A")

_LARGEST: Final = 2 * 1024 * 1024

Problem: TypeAlias = Literal[
    "no such file",
    "outside of this folder",
    "no folder",
    "no file",
    "no text file",
    "larger than 2 MB",
    "not readable",
    "may hold secrets",
    "no git repository",
    "no commits",
    "no date",
    "history not readable",
    "history too long",
]
"""The reasons why a file, directory, or repository cannot be read."""


@final
class Refused(msgspec.Struct, frozen=True):
    """The reason why a path could not be read, and the path in the request."""

    problem: Problem
    path: str

    @override
    def __str__(self) -> str:
        return f"{self.problem}: {self.path}"

    @staticmethod
    def read(text: str) -> Refused:
        """Return the value that `str` wrote.

        Raises:
            ValueError: If the text does not start with a known problem.
        """
        problem, _, path = text.partition(": ")
        if problem not in get_args(Problem):
            raise ValueError(f"unknown problem: {problem!r}")
        return Refused(cast(Problem, problem), path)


_LINE: Final = Schema.codec(wire=str, decode=Refused.read, encode=str)
REFUSED: Final[Schema[Refused]] = Schema[Refused].of(cast("type[Refused]", Annotated[Refused, _LINE]))
"""The schema of `Refused`. Its JSON form is one line of text, because small models handle this form best."""


class Folder(Service):
    """A directory and its contents. Paths are relative to it. It refuses paths and links that lead outside."""

    @abstractmethod
    def names(self, path: str) -> Effect[tuple[str, ...], Refused]:
        """Return the sorted names in the directory `path`, without hidden names. Directories end with a slash."""

    @abstractmethod
    def text(self, path: str) -> Effect[str, Refused]:
        """Return the text of the UTF-8 file `path`, at most 2 MB. Refuse files with a secret name or secret text."""

    @abstractmethod
    def place(self, path: str) -> Effect[Path, Refused]:
        """Return the absolute path of the directory `path`."""


def folder(root: str | Path, *, secrets: bool = False) -> Layer[Folder]:
    """Return the layer of the directory `root` on this computer.

    Args:
        root: Path of the directory.
        secrets: True to read also hidden files, keys, and text that looks like a password.
    """
    return Layer.sync(Folder, lambda: _OnDisk(Path(root).resolve(), secrets=secrets))


_NOWHERE = (errno.ENAMETOOLONG, errno.ELOOP)  # an impossible name, and links in a circle


@final
class StoppedError(Exception):
    """A carrier of a `Refused` out of a worker thread."""

    def __init__(self, problem: Problem, path: str) -> None:
        super().__init__(problem, path)
        self.refused: Refused = Refused(problem, path)


@final
class _OnDisk(Folder):
    def __init__(self, root: Path, *, secrets: bool) -> None:
        self._root = root
        self._secrets = secrets

    @override
    def names(self, path: str) -> Effect[tuple[str, ...], Refused]:
        return in_thread(lambda: _names(self._folder(path), path))

    @override
    def text(self, path: str) -> Effect[str, Refused]:
        return in_thread(lambda: self._text(path))

    @override
    def place(self, path: str) -> Effect[Path, Refused]:
        return in_thread(lambda: self._folder(path))

    def _inside(self, path: str) -> Path:
        try:
            found = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # an impossible name, or links in a circle
            raise StoppedError("no such file", path) from None
        if not found.is_relative_to(self._root):
            raise StoppedError("outside of this folder", path)
        return found

    def _text(self, path: str) -> str:
        found = self._inside(path)
        if self._secrets:
            return _text(found, path)
        asked = Path(os.path.normpath(self._root / path))
        parts = asked.relative_to(self._root).parts if asked.is_relative_to(self._root) else (asked.name,)
        if any(map(is_secret_name, (*parts, *found.relative_to(self._root).parts))):
            raise StoppedError("may hold secrets", path)
        text = _text(found, path)
        if has_secret(text):
            raise StoppedError("may hold secrets", path)
        return text

    def _folder(self, path: str) -> Path:
        found = self._inside(path)
        if not os.path.isdir(found):  # noqa: PTH112  # unlike Path.is_dir it is False for any name
            raise StoppedError("no folder" if os.path.exists(found) else "no such file", path)  # noqa: PTH110
        return found


def _names(place: Path, path: str) -> tuple[str, ...]:
    try:
        with os.scandir(place) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        names = [entry.name + ("/" if os.path.isdir(entry) else "") for entry in shown]  # noqa: PTH112  # as above
    except OSError:
        raise StoppedError("not readable", path) from None
    return tuple(sorted(names))


def _text(place: Path, path: str) -> str:
    try:
        with regular(place) as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise StoppedError("no such file", path) from None
    except IsADirectoryError:
        raise StoppedError("no file", path) from None
    except OSError as wrong:
        raise StoppedError("no such file" if wrong.errno in _NOWHERE else "not readable", path) from None
    if len(data) > _LARGEST:
        raise StoppedError("larger than 2 MB", path)
    if b"\0" in data:
        raise StoppedError("no text file", path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise StoppedError("no text file", path) from None


def regular(place: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        IsADirectoryError: If the path is a directory, a pipe, a device, or another file that is not regular.
        OSError: If the file cannot be opened.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if not stat.S_ISREG(place.stat().st_mode):  # opening a device can have side effects
        raise IsADirectoryError(errno.EISDIR, "not a regular file", str(place))
    file = os.fdopen(os.open(place, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise IsADirectoryError(errno.EISDIR, "not a regular file", str(place))
    return file


def in_thread(f: Callable[[], _A]) -> Effect[_A, Refused]:
    """Return the result of `f` from a worker thread. If `f` raises `StoppedError`, fail with its `Refused`."""
    return fx.attempt_async(
        lambda: thread.in_thread(f), lambda raised: raised.refused if isinstance(raised, StoppedError) else None
    )
