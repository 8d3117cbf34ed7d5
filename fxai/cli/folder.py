"""A service that reads the files of one folder. The tools of the example agent use it.

>>> from fxai.effects import fx
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
from typing import Annotated, Final, Literal, TypeAlias, cast, final, get_args

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
]
"""The reasons why a file or a folder cannot be read."""


@final
class UnreadablePath(msgspec.Struct, frozen=True):
    """The reason why a path cannot be read. The path is the one in the arguments of the call."""

    problem: Problem
    path: str

    @override
    def __str__(self) -> str:
        return f"{self.problem}: {self.path}"

    @staticmethod
    def read(text: str) -> UnreadablePath:
        """Return the failure that `str` wrote.

        Raises:
            ValueError: If the text does not start with a problem.
        """
        problem, _, path = text.partition(": ")
        if problem not in get_args(Problem):
            raise ValueError(f"unknown problem {problem!r}")
        return UnreadablePath(cast(Problem, problem), path)


_LINE: Final = Schema.codec(wire=str, decode=UnreadablePath.read, encode=str)
REFUSED: Final[Schema[UnreadablePath]] = Schema[UnreadablePath].of(
    cast("type[UnreadablePath]", Annotated[UnreadablePath, _LINE])
)
"""The schema of a `UnreadablePath`. Its JSON form is one line of text, because small models read lines best."""


class Folder(Service):
    """A folder. Its methods refuse paths outside the folder, also if a link leads there."""

    @abstractmethod
    def names(self, path: str) -> Effect[tuple[str, ...], UnreadablePath]:
        """Return the names in the folder `path`, sorted, without hidden names. A slash ends the name of a folder."""

    @abstractmethod
    def text(self, path: str) -> Effect[str, UnreadablePath]:
        """Return the text of the file `path`: UTF-8, at most 2 MB, and no file that can contain secrets."""


def folder(root: str | Path, *, secrets: bool = False) -> Layer[Folder]:
    """Return the layer of a folder of this computer.

    Args:
        root: The path of the folder.
        secrets: True to also read files that can contain secrets: hidden files, keys, and files with a text like a
            password. Default: False.
    """
    return Layer.sync(Folder, lambda: _OnDisk(Path(root).resolve(), secrets=secrets))


def is_readable(path: Path) -> bool:
    """Return True if the folder of `path` allows a program to read the text of `path`, without secrets."""
    try:
        _OnDisk(path.parent.resolve(), secrets=False).read(path.name)
    except _RefusedError:
        return False
    return True


@final
class _RefusedError(Exception):
    """Carries a `UnreadablePath` out of a worker thread."""

    def __init__(self, problem: Problem, path: str) -> None:
        super().__init__(problem, path)
        self.refused: UnreadablePath = UnreadablePath(problem, path)


def _in_thread(f: Callable[[], _A]) -> Effect[_A, UnreadablePath]:
    return fx.attempt_async(
        lambda: thread.in_thread(f), lambda raised: raised.refused if isinstance(raised, _RefusedError) else None
    )


@final
class _OnDisk(Folder):
    def __init__(self, root: Path, *, secrets: bool) -> None:
        self._root = root
        self._secrets = secrets

    @override
    def names(self, path: str) -> Effect[tuple[str, ...], UnreadablePath]:
        return _in_thread(lambda: _names(self._inside(path), path))

    @override
    def text(self, path: str) -> Effect[str, UnreadablePath]:
        return _in_thread(lambda: self.read(path))

    def _inside(self, path: str) -> Path:
        try:
            found = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # an impossible name, or links in a circle
            raise _RefusedError("no such file", path) from None
        if not found.is_relative_to(self._root):
            raise _RefusedError("outside of this folder", path)
        return found

    def read(self, path: str) -> str:
        """Return the text of a file, or raise `_RefusedError`."""
        found = self._inside(path)
        if self._secrets:
            return _text(found, path)
        asked = Path(os.path.normpath(self._root / path))
        parts = asked.relative_to(self._root).parts if asked.is_relative_to(self._root) else (asked.name,)
        if any(map(is_secret_name, (*parts, *found.relative_to(self._root).parts))):
            raise _RefusedError("may hold secrets", path)
        text = _text(found, path)
        if has_secret(text):
            raise _RefusedError("may hold secrets", path)
        return text


def _names(folder: Path, path: str) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        names = [entry.name + ("/" if os.path.isdir(entry) else "") for entry in shown]  # noqa: PTH112  # False for any name
    except OSError as error:
        is_file = isinstance(error, NotADirectoryError)
        raise _RefusedError("no folder" if is_file else _problem_of(error), path) from None
    return tuple(sorted(names))


def _text(file: Path, path: str) -> str:
    try:
        data = _read_regular(file)
        if len(data) > _LARGEST:
            raise _RefusedError("larger than 2 MB", path)
        if b"\0" in data:
            raise _RefusedError("no text file", path)
        return data.decode("utf-8")
    except OSError as error:
        raise _RefusedError(_problem_of(error), path) from None
    except UnicodeDecodeError:
        raise _RefusedError("no text file", path) from None


def _problem_of(error: OSError) -> Problem:
    if isinstance(error, IsADirectoryError):
        return "no file"
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return "no such file" if is_missing or error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else "not readable"


def _read_regular(file: Path) -> bytes:
    """Return the start of a regular file. Raises `IsADirectoryError` for folders, pipes, and devices."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if not stat.S_ISREG(file.stat().st_mode):  # some devices act when a program opens them
        raise IsADirectoryError(errno.EISDIR, "no regular file", str(file))
    with os.fdopen(os.open(file, flags), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise IsADirectoryError(errno.EISDIR, "no regular file", str(file))
        return opened.read(_LARGEST + 1)
