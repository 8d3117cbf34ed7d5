"""Journals in files. Each part is a line of JSON, which is on the disk before fxai acknowledges it.

The first line names the kind of the file and the number of its commits, so that a reader notices a truncated file. Each
other line is a commit: a part of an entry with a number and a digest, so that a reader notices a missing, doubled, or
changed line. The line of a part also contains the state that was appended with it. The last state in the file counts.

>>> import tempfile
>>> from fxai.storage.journal import JSON
>>> with tempfile.TemporaryDirectory() as folder:
...     journal = FileJournal(Path(folder) / "notes.jsonl", JSON)
...     journal.append("buy milk")
...     journal.append("call Ann")
...     journal.read(lambda newest: [entry.parts for entry in newest])
[('call Ann',), ('buy milk',)]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, NamedTuple, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.effect import Effect
from fxai.effects.scope import Scope
from fxai.storage import is_intact, read_record, seal, seal_text
from fxai.storage.journal import Choose, Entry, Form, Journal
from fxai.storage.private_file import hold_file, lock_file, open_file, remove_file, replace_file, warn, write_all

_A = TypeVar("_A")
_T = TypeVar("_T")

_WIDTH: Final = 12  # digits of the number of commits
_BLOCK: Final = 64 * 1024


@final
class FileJournal(Journal[_T]):
    """A journal in a file of JSON lines.

    Reading takes no lock and starts at the end, so its time depends on the number of entries that the caller reads. A
    process that is killed during a write leaves at most the start of a line, which fxai never acknowledged. The next
    commit removes it. A reader that needs a changed, doubled, or moved line raises an `OSError` with the number of the
    line. A missing end with more than one commit is an `OSError`, too. If only the last commit is cut off, fxai writes
    a warning to the log `fxai.storage`, and the next commit moves the rest of it to a file `.torn`. If each entry
    builds on the entries before it (`Form.is_chain`), one missing commit and an empty file are also an `OSError`.

    A writer waits up to 30 s for other writers. The lock is a lock of the operating system for the processes of one
    machine. It does not protect a file on a network drive that several machines write to. For the readers of the file,
    see `fxai.storage.private_file`.
    """

    def __init__(self, path: Path, form: Form[_T], keep: int | None = None) -> None:
        """Create a journal in a file with the newest `keep` entries. None keeps all. Old ones are dropped in bulk."""
        self.path: Path = Path(os.path.realpath(path.parent), path.name)
        self._form = form
        self._keep = keep

    @property
    @override
    def location(self) -> str:
        return str(self.path)

    @override
    def read(self, f: Callable[[Iterator[Entry[_T]]], _A]) -> _A:
        try:
            with os.fdopen(open_file(self.path, writing=False), "rb") as file:
                return f(self._newest(_Log(self.path, file, self._form)))
        except FileNotFoundError:
            return f(iter(()))

    @override
    def read_state(self) -> Any:
        try:
            with os.fdopen(open_file(self.path, writing=False), "rb") as file:
                return _Log(self.path, file, self._form).state()
        except FileNotFoundError:
            return None

    def _newest(self, log: _Log[_T]) -> Iterator[Entry[_T]]:
        return islice(log.entries(), self._keep)

    @override
    def append(self, part: _T, choose: Choose[_T] | None = None, state: Any = None) -> None:
        with lock_file(self._beside("lock")):
            with self._open() as log:
                newest = log.append(part, choose(self._newest(log)) if choose else None, state)
            if self._keep is not None:
                with suppress(OSError):  # the commit stays valid; the next commit tries again
                    self._drop_old(newest, self._keep)

    def _drop_old(self, newest: int, keep: int) -> None:
        """Rewrite the file if it contains twice the entries to keep, so that few commits have this cost."""
        with os.fdopen(open_file(self.path, writing=False), "rb") as file:
            log = _Log(self.path, file, self._form)
            if newest - log.oldest + 1 < 2 * keep:
                return
            entries, (_, state) = list(self._newest(log))[::-1], log.newest_state()
        replace_file(self.path, _text_of(entries, self._form, state))

    def replace(self, part: _T) -> None:
        """Replace the whole file, also if it is damaged or of another kind, with a journal of one part.

        Raises:
            OSError: If the system refuses.
        """
        with lock_file(self._beside("lock")):
            replace_file(self.path, _text_of([Entry(1, (part,))], self._form, _NO_STATE))

    def remove(self) -> None:
        """Remove the file and its `.torn`, also if the file is damaged or of another kind."""
        with lock_file(self._beside("lock")):
            remove_file(self._beside("torn"))
            remove_file(self.path)

    @override
    def clear(self) -> None:
        with lock_file(self._beside("lock")):
            self.read(lambda _: None)  # it refuses a file of another kind
            remove_file(self._beside("torn"))
            remove_file(self.path)

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        return hold_file(lambda: self._beside("owner"), wait=wait)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")

    @contextmanager
    def _open(self) -> Generator[_Log[_T]]:
        """Open the log under its lock. Create a missing file, and write the first line of an empty file."""
        try:
            descriptor = open_file(self.path)
        except FileNotFoundError:
            replace_file(self.path, _head(self._form, 0))
            descriptor = open_file(self.path)
        with os.fdopen(descriptor, "r+b") as file:
            log = _Log(self.path, file, self._form)
            if not log.is_empty:
                yield log
                return
        replace_file(self.path, _head(self._form, 0))
        with self._open() as log:
            yield log


# -- lines


_NO_STATE: Final = msgspec.Raw()


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"number": "entry"}):
    """A commit: the number of its entry, the index of its part in the entry, and the number of the newest entry."""

    number: int  # from 1
    part: int  # from 0
    newest: int
    data: msgspec.Raw
    state: msgspec.Raw = _NO_STATE
    commit: int | None = None  # number of the commit in the file, from 1; a line of a person has none
    digest: str | None = None


def _head(form: Form[Any], commits: int) -> bytes:
    return seal_text(b'%s%0*d"}' % (_head_begin(form), _WIDTH, commits)) + b"\n"


def _head_begin(form: Form[Any]) -> bytes:
    return b'{"format":"fxai %s","version":3,"commits":"' % form.name.encode()


def _text_of(entries: Iterable[Entry[_T]], form: Form[_T], state: msgspec.Raw) -> bytes:
    """Return the content of a file with these entries, the oldest first, and with a state in the last line."""
    parts = [(entry.number, location, part) for entry in entries for location, part in enumerate(entry.parts)]
    newest, lines = parts[-1][0] if parts else 0, [_head(form, len(parts))]
    for commit, (number, location, part) in enumerate(parts, start=1):
        data = msgspec.Raw(form.encode(part).encode())
        of_line = state if commit == len(parts) else _NO_STATE
        lines.append(seal(_Line(number, location, newest, data, of_line, commit)) + b"\n")
    return b"".join(lines)


def _decode(text: bytes) -> _Line | None:
    """Return the commit of a line. None if the line is not an unchanged commit."""
    try:
        line = read_record(text, _Line)
    except ValueError:
        return None
    return line if line.digest is None or is_intact(text) else None


def _is_beginning(text: bytes) -> bool:
    """Return True if a text is the start of a line that a killed process left."""
    start = b'{"entry":'
    if not (text.startswith(start) or start.startswith(text)):
        return False
    try:
        msgspec.json.decode(text, type=_Line)
    except (msgspec.ValidationError, UnicodeError, RecursionError):
        return False
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def _lines_backwards(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines between two positions, the last first, each with its position and without its end."""
    pieces: list[bytes] = []  # pieces of the current line, the last first
    while start < end:
        size = min(_BLOCK, end - start)
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
        yield start, b"".join(reversed(pieces))


# -- an open file


class _LogEnd(NamedTuple):
    """The end of a log."""

    location: int  # position after the last complete commit
    last: _Line | None
    torn: bytes  # bytes after it
    is_lost: bool  # True if a commit is lost that fxai can have acknowledged


@final
class _Log(Generic[_T]):
    """The open file of a journal in its state at the time of opening. Damage is an `OSError` with the line number."""

    def __init__(self, path: Path, file: BinaryIO, form: Form[_T]) -> None:
        """Create the log of an open file."""
        self._path = path
        self._file = file
        self._form = form
        self._start, self._commits = self._read_head()  # before the size, so that it contains all acknowledged commits
        self._size = file.seek(0, os.SEEK_END)
        self._ending: _LogEnd | None = None

    @property
    def is_empty(self) -> bool:
        """Return True if the file lacks its first line."""
        return not self._start

    @property
    def oldest(self) -> int:
        """Return the number of the first entry. 0 if there is no entry."""
        self._file.seek(self._start)
        line = self._file.readline()
        return self._read(self._start, line).number if line.strip() else 0

    def entries(self) -> Iterator[Entry[_T]]:
        """Yield the entries, the newest first. Each entry is read on demand."""
        parts: dict[int, list[tuple[int, _Line]]] = {}  # by entry, the last part first
        first: int | None = None
        for location, line in self._in_order():
            if first is not None and line.number >= first:
                raise self._damage(location, f"{self._form.entry} {line.number} also follows it")
            parts.setdefault(line.number, []).append((location, line))
            if line.part == 0:
                first = line.number
                yield self._entry(parts.pop(line.number)[::-1])
        for (missing, *_), *_ in parts.values():
            raise self._damage(missing, f"the start of its {self._form.entry} is missing")

    def state(self) -> Any:
        """Return the newest state. None if no line contains a state."""
        location, state = self.newest_state()
        try:
            return self._form.decode_state(text) if (text := bytes(state)) else None
        except OSError as error:
            raise self._damage(location, str(error)) from error

    def newest_state(self) -> tuple[int, msgspec.Raw]:
        """Return the position of the line with the newest state, and the encoded state."""
        written = ((location, line.state) for location, line in self._in_order() if bytes(line.state))
        return next(written, (0, _NO_STATE))

    def append(self, part: _T, entry: Entry[_T] | None, state: Any) -> int:
        """Append a part and a state on the disk, or nothing if that fails. Return the number of the newest entry."""
        end = self._end()
        newest, commit = (0, 0) if end.last is None else (end.last.newest, end.last.commit or self._commits or 0)
        number, location = (newest + 1, 0) if entry is None else (entry.number, len(entry.parts))
        data = msgspec.Raw(self._form.encode(part).encode())
        text = _NO_STATE if state is None else msgspec.Raw(self._form.encode_state(state).encode())
        line = _Line(number, location, max(newest, number), data, text, commit + 1)
        self._keep_torn(end)
        self._write(seal(line) + b"\n", end.location)
        with suppress(OSError):  # a late number is too small, which is harmless
            self._put(_head(self._form, commit + 1), 0)
        return line.newest

    def _in_order(self) -> Iterator[tuple[int, _Line]]:
        """Yield the commits with their positions, the last first, each once.

        Missing lines between two others cause a warning, because a person can have removed them.
        """
        behind: int | None = None
        for location, text in _lines_backwards(self._file, self._start, self._end().location):
            if not text.strip():
                continue
            line = self._read(location, text)
            if behind is not None and line.commit is not None:
                if line.commit >= behind:
                    raise self._damage(location, "it is doubled or was moved")
                self._warn_missing(location, behind - line.commit - 1)
            behind = line.commit
            yield location, line
        if behind is not None:
            self._warn_missing(0, behind - 1)

    def _read(self, location: int, text: bytes) -> _Line:
        line = _decode(text)
        if line is None:
            raise self._damage(location, f"not a commit of a {self._form.name}, or changed")
        return line

    def _entry(self, lines: list[tuple[int, _Line]]) -> Entry[_T]:
        for part, (location, line) in enumerate(lines):
            if line.part != part:
                entry = self._form.entry
                raise self._damage(location, f"earlier parts of its {entry} are missing or doubled")
        try:
            return Entry(lines[0][1].number, tuple(self._form.decode(bytes(line.data)) for _, line in lines))
        except OSError as error:
            raise self._damage(lines[0][0], str(error)) from error

    def _number(self, location: int) -> int:
        self._file.seek(0)
        return self._file.read(location).count(b"\n") + 1

    def _damage(self, location: int, what: str) -> OSError:
        lines = f"remove this line, and the following lines of the same {self._form.entry}"
        remedy = self._form.restoring("file", f"Restore the file from a backup, or {lines}")
        return OSError(f"line {self._number(location)} of {self._path} is damaged: {what}. {remedy}.")

    def _warn_missing(self, location: int, count: int) -> None:
        if count:
            warn("%d commits after line %d of %s are missing", count, self._number(location), self._path)

    # -- the first line

    @property
    def _accept(self) -> str:
        # the digest is wrong, so fxai reads the lines without their number, and the next commit writes the number
        head = _head_begin(self._form) + b'%s","digest":"%s"}' % (b"0" * _WIDTH, b"0" * 16)
        return f"to continue with the rest, change its first line to {head.decode()}"

    def _read_head(self) -> tuple[int, int | None]:
        """Return the position of the first commit, and the number of acknowledged commits. None if it is unknown."""
        self._file.seek(0)
        size = len(_head(self._form, 0))
        head = self._file.read(size)
        if not head:
            text = f"{self._path} is empty. If it contained commits, restore it from a backup."
            if self._form.is_chain:
                raise OSError(text)
            warn("%s", text)
            return 0, None
        if not head.startswith(_head_begin(self._form)):
            text = f"{self._path} is not a {self._form.name} of this version of fxai"
            raise OSError(f"{text}. Use another path, or move it away.")
        if len(head) < size or head[-1:] != b"\n":
            raise OSError(f"line 1 of {self._path} is damaged. Restore the file from a backup, or, {self._accept}")
        return size, self._read_commits(head)

    def _read_commits(self, head: bytes) -> int | None:
        for _ in range(3):  # another process can be writing it
            number = head[len(_head_begin(self._form)) :][:_WIDTH]
            if number.isdigit() and head == _head(self._form, int(number)):
                return int(number)
            self._file.seek(0, os.SEEK_END)  # it discards the read buffer
            self._file.seek(0)
            head = self._file.read(len(head))
        warn("line 1 of %s is damaged, so fxai cannot determine whether the newest commits are missing", self._path)
        return None

    # -- the end

    def _end(self) -> _LogEnd:
        """Find the end of the commits. At most the start of a line follows, which fxai never acknowledged.

        A last line without its line feed counts, because an editor can have removed the line feed. If the last
        acknowledged commit is cut off, fxai writes a warning. If more commits are missing, it raises an error.
        """
        if self._ending is None:
            self._ending = self._check_end(*self._find_end())
        return self._ending

    def _find_end(self) -> tuple[int, _Line | None, bytes]:
        if not self._start:
            return 0, None, b""
        end, torn, is_last = self._size, b"", True
        for location, text in _lines_backwards(self._file, self._start, self._size):
            whole = text.rstrip(b"\0") if is_last else text
            line = _decode(whole)
            if line is not None:
                return min(location + len(whole) + (not is_last), end), line, torn
            is_rest = _is_beginning(whole) if is_last and whole else is_last or not text.strip()
            if not is_rest:
                raise self._damage(location, f"not a commit of a {self._form.name}, or changed")
            if is_last:
                end, torn = location, text
            is_last = False
        return end, None, torn

    def _check_end(self, location: int, last: _Line | None, torn: bytes) -> _LogEnd:
        commit = 0 if last is None else last.commit
        if self._commits is None or commit is None:
            is_lost = bool(torn)
        else:
            lost = self._commits - commit
            is_lost = lost == 1
            if lost > (0 if self._form.is_chain else 1):
                raise OSError(
                    f"{self._path} is damaged at its end: of its {self._commits} commits the last {lost} are missing. "
                    f"Restore the file from a backup, or, {self._accept}"
                )
        if is_lost:
            warn("the last commit of %s is cut off and ignored. To keep it, restore a backup of the file.", self._path)
        return _LogEnd(location, last, torn, is_lost)

    def _keep_torn(self, end: _LogEnd) -> None:
        """Save the rest of a cut commit, which fxai can have acknowledged, in the file `.torn`."""
        if end.is_lost and end.torn.strip(b"\0"):
            torn = self._path.with_name(f"{self._path.name}.torn")
            replace_file(torn, end.torn)
            warn("fxai moved the rest of the last commit of %s to %s", self._path, torn)

    # -- writing

    def _write(self, text: bytes, end: int) -> None:
        """Write the text after the commits. It replaces bytes that fxai never acknowledged."""
        self._file.seek(end - 1)
        before = b"" if self._file.read(1) == b"\n" else b"\n"
        file = self._file.fileno()
        try:
            os.ftruncate(file, end)
            self._put(before + text, end)
            os.fsync(file)
        except BaseException:
            with suppress(OSError):  # the first of two errors is raised
                os.ftruncate(file, end)
            raise

    def _put(self, text: bytes, location: int) -> None:
        file = self._file.fileno()
        before = os.lseek(file, 0, os.SEEK_CUR)  # the position that `self._file` expects
        os.lseek(file, location, os.SEEK_SET)
        try:
            write_all(file, text)
        finally:
            os.lseek(file, before, os.SEEK_SET)
