"""Memory logs: the lines of a memory's file, read from the end and appended to.

The first line says what the file is. Each other one is a commit: a turn, or more messages of an earlier one.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "ann.jsonl"
>>> for name in ["Ann", "Bob"]:
...     with writable(path) as log:
...         newest = log.append(Prompt.make(f"I am {name}."), None)
>>> with path.open("rb") as file:
...     [(kept.number, kept.messages[0].text) for kept in MemoryLog(path, file).turns()]
[(2, 'I am Bob.'), (1, 'I am Ann.')]
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, final

import msgspec

from fxai.agents.memory_record import kept_text, read_turn
from fxai.messages.prompt import Prompt
from fxai.models.safe_file import sync_folder

__all__ = ["Kept", "MemoryLog", "text_of", "writable"]

_HEAD: Final = b'{"format":"fxai memory","version":1}\n'
_BEGINNING: Final = b'{"turn":'  # of every other line
_BLOCK: Final = 64 * 1024


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit: to which turn, its which part it is, and which turn is the newest behind it."""

    turn: int  # from 1
    part: int  # from 0
    newest: int
    messages: msgspec.Raw


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
        self._size = file.seek(0, os.SEEK_END)
        self._end = self._sound_end()

    @property
    def newest(self) -> int:
        """The number of the newest turn; 0 where there is none."""
        return next((line.newest for _, line in self._lines()), 0)

    @property
    def oldest(self) -> int:
        """The number of the first turn; 0 where there is none."""
        self._file.seek(len(_HEAD))
        line = self._file.readline()
        return self._read(len(_HEAD), line).turn if line.strip() else 0

    def turns(self) -> Iterator[Kept]:
        """The turns, the newest first; each is read when it is asked for.

        Raises:
            OSError: a line is damaged or missing; it says which.
        """
        parts: dict[int, list[tuple[int, _Line]]] = {}  # by turn, the last first
        first: int | None = None
        for place, line in self._lines():
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
        newest = self.newest
        turn, part = (newest + 1, 0) if to is None else (to.number, to.parts)
        line = _Line(turn, part, max(newest, turn), msgspec.Raw(kept_text(messages).encode()))
        self._write(msgspec.json.encode(line) + b"\n")
        return line.newest

    # -- lines

    def _lines(self) -> Iterator[tuple[int, _Line]]:
        """The commits with their places, the last first."""
        begin = min(len(_HEAD), self._end)
        for place, text in _lines_backwards(self._file, begin, self._end):
            if text.strip():
                yield place, self._read(place, text)

    def _read(self, place: int, text: bytes) -> _Line:
        line = _decoded(text)
        if line is None:
            raise self._damage(place, "it is no commit of a memory")
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

    def _damage(self, place: int, what: str) -> OSError:
        self._file.seek(0)
        number = self._file.read(place).count(b"\n") + 1
        return OSError(
            f"line {number} of {self._path} is damaged: {what}; put the file back from a copy, or take that line out, "
            "and the lines behind it that go on with the same turn"
        )

    def _sound_end(self) -> int:
        """Where what is kept ends: behind it is at most the beginning of a line that was never acknowledged.

        A last line that is whole but for its end counts: an editor may have taken that away.
        """
        self._file.seek(0)
        head = self._file.read(len(_HEAD))
        if head != _HEAD:
            if _HEAD.startswith(head):
                return 0
            raise OSError("the file is no memory of this version of fxai; give another path, or move it away")
        if self._byte_before(self._size) == b"\n":
            return self._size
        place, text = next(_lines_backwards(self._file, len(_HEAD), self._size))
        if _decoded(text) is not None:
            return self._size
        if text.startswith(_BEGINNING) or _BEGINNING.startswith(text) or not text.strip(b"\0"):
            return place
        raise self._damage(place, "it is no commit of a memory")

    def _byte_before(self, place: int) -> bytes:
        self._file.seek(place - 1)
        return self._file.read(1)

    def _write(self, text: bytes) -> None:
        """Puts the text behind what is kept, in the place of what was never acknowledged."""
        before = _HEAD if self._end == 0 else b"" if self._byte_before(self._end) == b"\n" else b"\n"
        file = self._file.fileno()
        try:
            os.ftruncate(file, self._end)
            os.lseek(file, self._end, os.SEEK_SET)
            rest = memoryview(before + text)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except BaseException:
            with suppress(OSError):  # of two troubles the first one is told
                os.ftruncate(file, self._end)
            raise


@contextmanager
def writable(path: Path) -> Generator[MemoryLog]:
    """The log of a file, which is made where it is not there, open for one who holds its lock.

    Raises:
        OSError: it cannot be opened, or is none of ours.
    """
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if is_new:
            sync_folder(path.parent)
        yield MemoryLog(path, file)


def text_of(turns: Iterable[Kept]) -> bytes:
    """What a file of these turns holds; they are given the oldest first."""
    kept = list(turns)
    newest = kept[-1].number if kept else 0
    lines = (_Line(one.number, 0, newest, msgspec.Raw(kept_text(one.messages).encode())) for one in kept)
    return _HEAD + b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _decoded(text: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(text, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


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
