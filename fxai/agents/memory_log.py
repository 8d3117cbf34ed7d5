"""Memory logs: the lines of a memory's file, read from the end and appended to.

The first line says what the file is and how many commits it holds, so that a file that was cut short is noticed. Each
other one is a commit: a turn, or more messages of an earlier one; it has a number and a digest, so that a line that is
missing, doubled or changed is noticed too.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "ann.jsonl"
...     for name in ["Ann", "Bob"]:
...         with writable(path) as log:
...             newest = log.append(Prompt.make(f"I am {name}."), None)
...     with path.open("rb") as file:
...         [(kept.number, kept.messages[0].text) for kept in MemoryLog(path, file).turns()]
[(2, 'I am Bob.'), (1, 'I am Ann.')]
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, final

import msgspec

from fxai.agents.memory_record import kept_text, read_turn
from fxai.messages.prompt import Prompt
from fxai.storage.private_file import create_file, is_intact, open_file, read_record, replace_file, sealed, warn

__all__ = ["Kept", "MemoryLog", "text_of", "torn_part", "writable"]

_FIRST: Final = b'{"format":"fxai memory","version":1}\n'  # of earlier versions, or put there by hand
_HEAD: Final = b'{"format":"fxai memory","version":2,"commits":"'
_WIDTH: Final = 12  # digits of the number of commits
_BEGINNING: Final = b'{"turn":'  # of every other line
_BLOCK: Final = 64 * 1024
_ACCEPT: Final = f"to go on with what is there, make its first line {_FIRST.decode().strip()}"


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A commit: to which turn, its which part it is, and which turn is the newest behind it."""

    turn: int  # from 1
    part: int  # from 0
    newest: int
    messages: msgspec.Raw
    commit: int | None = None  # which commit of the file, from 1; earlier versions wrote none
    digest: str | None = None  # as `sealed` makes it; earlier versions wrote none

    @property
    def text(self) -> bytes:
        """The line, with its digest and its end."""
        return sealed(msgspec.json.encode(self)) + b"\n"


class _End(NamedTuple):
    """How a log ends."""

    place: int  # behind the last commit that is whole
    last: _Line | None
    torn: bytes  # what stands behind it
    is_told: bool  # whether something that may have been acknowledged is lost


@final
class Kept(msgspec.Struct, frozen=True):
    """A turn of a log: its number, from 1, of how many commits it is made, and its messages."""

    number: int
    parts: int
    messages: Prompt


@final
class MemoryLog:
    """A memory's file that is open, as it was when it was opened."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """The log in an open file.

        Raises:
            OSError: the file is none of ours.
        """
        self._path = path
        self._file = file
        self._begin, self._commits = self._read_head()  # before the size: what is acknowledged then is behind it
        self._size = file.seek(0, os.SEEK_END)
        self._ending: _End | None = None

    @property
    def is_current(self) -> bool:
        """Whether it can be appended to as it stands: it was made by this version."""
        return self._begin > len(_FIRST)

    @property
    def oldest(self) -> int:
        """The number of the first turn; 0 where there is none."""
        self._file.seek(self._begin)
        line = self._file.readline()
        return self._read(self._begin, line).turn if line.strip() else 0

    def turns(self) -> Iterator[Kept]:
        """The turns, the newest first; each is read when it is asked for.

        Raises:
            OSError: a line is damaged or missing; it says which.
        """
        parts: dict[int, list[tuple[int, _Line]]] = {}  # by turn, the last first
        first: int | None = None
        for place, line in self._in_order():
            if first is not None and line.turn >= first:
                raise self._damage(place, f"turn {line.turn} stands behind it already")
            parts.setdefault(line.turn, []).append((place, line))
            if line.part == 0:
                first = line.turn
                yield self._turn(parts.pop(line.turn)[::-1])
        for (missing, *_), *_ in parts.values():
            raise self._damage(missing, "it goes on with a turn that is not there any more")

    def append(self, messages: Prompt, to: Kept | None) -> int:
        """Appends a turn, or more messages of one; it is on the disk when this ends. Gives the newest turn's number.

        Raises:
            OSError: it could not be written; then nothing is.
            MessageError: the messages cannot be kept.
        """
        end = self._end()
        newest, commit = (0, 0) if end.last is None else (end.last.newest, end.last.commit or self._commits or 0)
        turn, part = (newest + 1, 0) if to is None else (to.number, to.parts)
        raw = msgspec.Raw(kept_text(messages).encode())
        line = _Line(turn, part, max(newest, turn), raw, commit + 1)
        self._keep_torn(end)
        self._write(line.text, end.place)
        self._acknowledge(commit + 1)
        return line.newest

    def renewed(self) -> bytes:
        """What a file of this version holds, for one that is of an earlier version; damaged lines stay as they are.

        Raises:
            OSError: its end is damaged.
        """
        end = self._end()
        self._keep_torn(end)
        self._file.seek(self._begin)
        lines: list[bytes] = []
        for text in self._file.read(end.place - self._begin).split(b"\n"):
            if line := _decoded(text):
                lines.append(msgspec.structs.replace(line, commit=len(lines) + 1, digest=None).text)
            elif text.strip():
                lines.append(text + b"\n")
        return _head(len(lines)) + b"".join(lines)

    # -- lines

    def _in_order(self) -> Iterator[tuple[int, _Line]]:
        """The commits with their places, the last first, each of them once.

        Lines that are missing between two others are told: a person may have taken them out.
        """
        behind: int | None = None
        for place, line in self._lines():
            if behind is not None and line.commit is not None:
                if line.commit >= behind:
                    raise self._damage(place, "it stands there twice, or has been moved")
                self._tell_missing(place, behind - line.commit - 1)
            behind = line.commit
            yield place, line
        if behind is not None:
            self._tell_missing(0, behind - 1)

    def _lines(self) -> Iterator[tuple[int, _Line]]:
        """The commits with their places, the last first."""
        for place, text in _lines_backwards(self._file, self._begin, self._end().place):
            if text.strip():
                yield place, self._read(place, text)

    def _read(self, place: int, text: bytes) -> _Line:
        line = _decoded(text)
        if line is None:
            raise self._damage(place, "it is no commit of a memory, or was changed")
        return line

    def _turn(self, lines: list[tuple[int, _Line]]) -> Kept:
        for part, (place, line) in enumerate(lines):
            if line.part != part:
                raise self._damage(place, "what stands before it of its turn is missing, or stands there twice")
        try:
            messages = read_turn(bytes(line.messages) for _, line in lines)
        except OSError as error:
            raise self._damage(lines[0][0], str(error)) from error
        return Kept(lines[0][1].turn, len(lines), messages)

    def _number(self, place: int) -> int:
        self._file.seek(0)
        return self._file.read(place).count(b"\n") + 1

    def _damage(self, place: int, what: str) -> OSError:
        return OSError(
            f"line {self._number(place)} of {self._path} is damaged: {what}; put the file back from a copy, or take "
            "that line out, and the lines behind it that go on with the same turn"
        )

    def _tell_missing(self, place: int, count: int) -> None:
        if count:
            warn("%d commits that stood behind line %d of %s are missing", count, self._number(place), self._path)

    # -- the first line

    def _read_head(self) -> tuple[int, int | None]:
        """Where the commits begin, and how many were acknowledged; None where that is not known."""
        self._file.seek(0)
        head = self._file.read(len(_head(0)))
        if head.startswith(_FIRST):
            return len(_FIRST), None
        if _FIRST.startswith(head):
            warn(
                "%s %s; if it held anything, put it back from a copy", self._path, "is cut off" if head else "is empty"
            )
            return 0, None
        if not head.startswith(_HEAD):
            raise OSError("the file is no memory of this version of fxai; give another path, or move it away")
        if len(head) < len(_head(0)) or head[-1:] != b"\n":
            raise OSError(f"line 1 of {self._path} is damaged; put the file back from a copy, or, {_ACCEPT}")
        return len(head), self._acknowledged(head)

    def _acknowledged(self, head: bytes) -> int | None:
        for _ in range(3):  # somebody may be writing it
            number = head[len(_HEAD) :][:_WIDTH]
            if number.isdigit() and head == _head(int(number)):
                return int(number)
            self._file.seek(0, os.SEEK_END)  # forgets what was read
            self._file.seek(0)
            head = self._file.read(len(head))
        warn("line 1 of %s is damaged, so it is not known whether the newest commits are missing", self._path)
        return None

    def _acknowledge(self, commits: int) -> None:
        """Says in the first line how many commits there are.

        It is not waited for: what reaches the disk later than its commit names too few at worst, and does no harm.
        """
        with suppress(OSError):
            self._put(_head(commits), 0)

    # -- the end

    def _end(self) -> _End:
        """Where what is kept ends: behind it is at most the beginning of a line that was never acknowledged.

        A last line that is whole but for its end counts: an editor may have taken that away. Where the last commit that
        was acknowledged is cut off, that is told; where more are, it is a failure.
        """
        if self._ending is None:
            self._ending = self._checked(*self._found_end())
        return self._ending

    def _found_end(self) -> tuple[int, _Line | None, bytes]:
        if not self._begin:
            return 0, None, b""
        end, torn, is_last = self._size, b"", True
        for place, text in _lines_backwards(self._file, self._begin, self._size):
            whole = text.rstrip(b"\0") if is_last else text
            line = _decoded(whole)
            if line is not None:
                return min(place + len(whole) + (not is_last), end), line, torn
            if is_last and whole and not _is_beginning(whole):
                raise self._damage(place, "it is no commit of a memory, or was changed")
            if text.strip() and not is_last:
                raise self._damage(place, "it is no commit of a memory, or was changed")
            if is_last:
                end, torn = place, text
            is_last = False
        return end, None, torn

    def _checked(self, place: int, last: _Line | None, torn: bytes) -> _End:
        kept = 0 if last is None else last.commit
        if self._commits is None or kept is None:
            is_cut = bool(torn)
        else:
            lost = self._commits - kept
            is_cut = lost == 1
            if lost > 1:
                raise OSError(
                    f"{self._path} was cut short or damaged at its end: of its {self._commits} commits the last {lost} "
                    f"are missing; put the file back from a copy, or, {_ACCEPT}"
                )
        if is_cut:
            warn("the last commit of %s is cut off and left out; put the file back from a copy to have it", self._path)
        return _End(place, last, torn, is_cut)

    def _keep_torn(self, end: _End) -> None:
        """Puts what is cut off, and was perhaps acknowledged, where a person can find it."""
        if end.is_told and end.torn.strip(b"\0"):
            replace_file(torn_part(self._path), end.torn)
            warn("what is left of the last commit of %s stands in %s now", self._path, torn_part(self._path))

    # -- writing

    def _write(self, text: bytes, end: int) -> None:
        """Puts the text behind what is kept, in the place of what was never acknowledged."""
        self._file.seek(end - 1)
        before = b"" if self._file.read(1) == b"\n" else b"\n"
        file = self._file.fileno()
        try:
            os.ftruncate(file, end)
            self._put(before + text, end)
            os.fsync(file)
        except BaseException:
            with suppress(OSError):  # of two troubles the first one is told
                os.ftruncate(file, end)
            raise

    def _put(self, text: bytes, place: int) -> None:
        file = self._file.fileno()
        before = os.lseek(file, 0, os.SEEK_CUR)  # where `self._file` believes to be
        os.lseek(file, place, os.SEEK_SET)
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.lseek(file, before, os.SEEK_SET)


@contextmanager
def writable(path: Path) -> Generator[MemoryLog]:
    """The log of a file, which is made where it is not there, open for one who holds its lock.

    Raises:
        OSError: it cannot be opened, or is none of ours.
    """
    with _opened(path) as log:
        if log.is_current:
            yield log
            return
        renewed = log.renewed()
    replace_file(path, renewed)
    with _opened(path) as log:
        yield log


@contextmanager
def _opened(path: Path) -> Generator[MemoryLog]:
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        create_file(path, _head(0))
        descriptor = open_file(path)
    with os.fdopen(descriptor, "r+b") as file:
        yield MemoryLog(path, file)


def text_of(turns: Iterable[Kept]) -> bytes:
    """What a file of these turns holds; they are given the oldest first."""
    kept = list(turns)
    newest = kept[-1].number if kept else 0
    lines = (
        _Line(one.number, 0, newest, msgspec.Raw(kept_text(one.messages).encode()), place)
        for place, one in enumerate(kept, start=1)
    )
    return _head(len(kept)) + b"".join(line.text for line in lines)


def torn_part(path: Path) -> Path:
    """Where what was cut off a memory's file is put, for a person to look at."""
    return path.with_name(f"{path.name}.torn")


def _head(commits: int) -> bytes:
    return sealed(b'%s%0*d"}' % (_HEAD, _WIDTH, commits)) + b"\n"


def _decoded(text: bytes) -> _Line | None:
    """The commit of a line, where it is one and as it was written."""
    try:
        line = read_record(text, _Line)
    except ValueError:
        return None
    return line if line.digest is None or is_intact(text) else None


def _is_beginning(text: bytes) -> bool:
    """Whether it is what a process leaves that ends while it writes a line: the line's beginning, and nothing else."""
    if not (text.startswith(_BEGINNING) or _BEGINNING.startswith(text)):
        return False
    try:
        msgspec.json.decode(text, type=_Line)
    except (msgspec.ValidationError, RecursionError):
        return False
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def _lines_backwards(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines between two places, the last first, each with its place and without its end."""
    pieces: list[bytes] = []  # of the line that is read, the last first
    while begin < end:
        size = min(_BLOCK, end - begin)
        file.seek(end - size)
        first, *others = file.read(size).split(b"\n")
        for text in reversed(others):
            pieces.append(text)
            end -= len(text)
            yield end, b"".join(reversed(pieces))
            pieces.clear()
            end -= 1
        pieces.append(first)
        end -= len(first)
    if pieces:
        yield begin, b"".join(reversed(pieces))
