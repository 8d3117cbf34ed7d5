"""Append-only journals in this process, in a file, or in a SQLite database.

An entry has a number and one or more parts. The first part starts the entry, and further parts extend it. For example,
a program appends a call before it runs the call, and then appends the outcome as the next part. After a crash, an entry
without its last part has an unknown outcome. When `append` returns, the whole part is on the disk. Readers never
see half a part.

A journal can also have a state, which does not depend on the entries. You append a state together with a part, and it
replaces the previous state.

Any number of processes can read and append at the same time. If only one program can continue a journal, for example
because it resumes a run, this program owns the journal.

>>> journal = ProcessJournal[str]()
>>> journal.append("call begun")
>>> journal.append("call ended", next)
>>> journal.read(list)
[Entry(number=1, parts=('call begun', 'call ended'))]
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.cause import Cause, Fail
from fxai.effects.concurrency import Lock
from fxai.effects.effect import Effect, FailCause, Succeed, Suspend, Then
from fxai.effects.scope import NOTHING, Scope, acquire_release
from fxai.storage import is_intact, read_record, seal
from fxai.storage.database import pool_of, read_once, transact
from fxai.storage.pool import stay_open
from fxai.storage.private_file import file_name, hold_file, own_folder, warn

if TYPE_CHECKING:
    from sqlite3 import Connection

_A = TypeVar("_A")
_T = TypeVar("_T")


@final
class Entry(msgspec.Struct, Generic[_T], frozen=True):
    """An entry of a journal."""

    number: int
    """The number of the entry, starting at 1."""
    parts: tuple[_T, ...]
    """The parts in the order of their appends, at least one."""


Choose: TypeAlias = Callable[[Iterator[Entry[_T]]], Entry[_T] | None]
"""Receives the entries, newest first. Returns the entry to extend with a part, or None to start a new entry."""


def _encode(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def _decode(text: bytes) -> Any:
    try:
        return read_record(text, object)
    except ValueError as error:
        raise OSError(f"not valid JSON ({error})") from error


@final
class Columns(msgspec.Struct, frozen=True):
    """The fields of a state that a store selects and sorts by, so that a list does not read all states."""

    name: str
    """The field with the name of the journal."""
    number: str
    """The field with a number. States with higher numbers come first."""
    mark: str
    """The field with a word, such as a status."""

    def of(self, state: Any) -> tuple[str, float, str]:
        """Return the values of a state."""
        return getattr(state, self.name), getattr(state, self.number), getattr(state, self.mark)

    @property
    def expressions(self) -> tuple[str, str]:
        """The SQLite expressions for the number and the mark in the row of a state."""
        of_row = "CASE WHEN json_valid(state) THEN json_extract(state, '$.state.{}') END"
        return of_row.format(self.number), of_row.format(self.mark)


@final
class Selection(msgspec.Struct, frozen=True):
    """The states of a list, sorted by descending number and then by name."""

    mark: str | None = None
    """The mark of the states. `None` means any mark."""
    prefix: str = ""
    """The first characters of the names."""
    after: tuple[float, str] | None = None
    """The number and the name of the last state before the list. By default, the list starts with the first state."""
    most: int | None = None
    """Maximum number of states. `None` means no limit."""

    def choose(self, states: Iterable[Any], columns: Columns) -> list[Any]:
        """Return the selected states of all states."""
        marked = [(columns.of(state), state) for state in states]
        found = [
            (-number, name, state)
            for (name, number, mark), state in marked
            if name.startswith(self.prefix) and self.mark in (None, mark)
        ]
        if self.after is not None:
            found = [one for one in found if one[:2] > (-self.after[0], self.after[1])]
        return [state for _, _, state in sorted(found, key=lambda one: one[:2])[: self.most]]


@final
class Form(msgspec.Struct, Generic[_T], frozen=True):
    """The stored form of one kind of journals: the names in files and tables, and the codecs of parts and states."""

    name: str
    """The name of the kind. Files start with the format `fxai NAME`. The tables are `NAME_ENTRY` and `NAME_head`."""
    entry: str
    """The noun for an entry."""
    encode: Callable[[_T], str]
    """Returns a part as a JSON document."""
    decode: Callable[[bytes], _T]
    """Returns the part of a JSON document. It raises an `OSError` that describes the error without its location."""
    encode_state: Callable[[Any], str] = _encode
    """Returns a state as a JSON document. By default, a state is a JSON value."""
    decode_state: Callable[[bytes], Any] = _decode
    """Returns the state of a JSON document. It raises the errors of `decode`."""
    columns: Columns | None = None
    """The fields of a state that a list selects and sorts by. `None` means that lists contain all states."""
    is_chain: bool = False
    """True if each entry builds on the entries before it. A lost last entry is then an error, not a warning."""

    @property
    def table(self) -> str:
        """The table of the entries."""
        return f"{self.name}_{self.entry}"

    @property
    def heads(self) -> str:
        """The table of the numbers of the existing entries."""
        return f"{self.name}_head"

    @property
    def states(self) -> str:
        """The table of the states."""
        return f"{self.name}_state"

    @property
    def tables(self) -> list[str]:
        """The statements that create the missing tables of a SQLite database."""
        key, states, kind = "name TEXT PRIMARY KEY", self.states, "STRICT, WITHOUT ROWID"
        part = "name TEXT, number INTEGER, part INTEGER, data TEXT NOT NULL"
        made = [
            f"TABLE IF NOT EXISTS {self.table} ({part}, PRIMARY KEY (name, number, part)) {kind}",
            f"TABLE IF NOT EXISTS {self.heads} ({key}, oldest INTEGER NOT NULL, newest INTEGER NOT NULL) {kind}",
            f"TABLE IF NOT EXISTS {states} ({key}, state TEXT NOT NULL) {kind}",
        ]
        if self.columns is not None:
            number, mark = self.columns.expressions
            made.append(f"INDEX IF NOT EXISTS {states}_number ON {states} ({number} DESC, name)")
            made.append(f"INDEX IF NOT EXISTS {states}_mark ON {states} ({mark}, {number} DESC, name)")
        return [f"CREATE {one}" for one in made]

    def missing(self, first: int, last: int) -> str:
        """Return the statement that entries are missing."""
        plural = {"entry": "entries", "batch": "batches"}.get(self.entry, f"{self.entry}s")
        return f"{self.entry} {first} is missing" if first == last else f"{plural} {first} to {last} are missing"

    def restoring(self, stored: str, otherwise: str) -> str:
        """Return the remedy for a damaged entry. A chain cannot lose an entry, so it ignores `otherwise`."""
        chain = f"Restore the {stored} from a backup, or delete the {self.name} to start again"
        return chain if self.is_chain else otherwise


JSON: Form[Any] = Form("journal", "entry", _encode, _decode)
"""The form of journals whose parts and states are JSON values."""


class Journal(ABC, Generic[_T]):
    """A journal. If `blocks` is True, call the methods in a worker thread."""

    blocks: bool = True
    """True if the methods wait for the disk and for other processes."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The location of the journal, for messages."""

    @abstractmethod
    def read(self, f: Callable[[Iterator[Entry[_T]]], _A]) -> _A:
        """Call `f` with the entries, newest first, and return its value.

        The entries are a consistent snapshot until `f` returns. fxai reads only the entries that `f` consumes. `f` must
        not change the journal.

        Raises:
            OSError: If the system or the database refuses, or an entry is damaged. The message contains the location.
        """

    @abstractmethod
    def read_state(self) -> Any:
        """Return the newest state, or None if the journal has no state.

        Raises:
            OSError: As `read`.
        """

    @abstractmethod
    def append(self, part: _T, choose: Choose[_T] | None = None, state: Any = None) -> None:
        """Append a part and a state, atomically.

        Args:
            part: The part.
            choose: Returns the entry to extend. No other process appends while it runs. `None` starts a new entry.
            state: The new state of the journal. `None` keeps the current state.

        Raises:
            OSError: As `read`. Then the journal is unchanged.
        """

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries and the state.

        Raises:
            OSError: As `read`.
        """

    @abstractmethod
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        """Make this program the owner of the journal until the scope closes or the process ends, even by a crash.

        Ownership does not block readers, or programs that append without owning the journal.

        Args:
            wait: True to wait while another program owns the journal. Default: True.

        Fails with:
            OSError: If the lock cannot be created. `BlockingIOError` if `wait` is False and another program owns the
                journal.
        """


@final
class ProcessJournal(Journal[_T]):
    """A journal that ends with the process."""

    blocks = False

    def __init__(self, keep: int | None = None, note: Callable[[int], object] = lambda _: None) -> None:
        """Create an empty journal.

        Args:
            keep: Number of the newest entries to store. `None` means all entries.
            note: Function that receives the number of the newest entry after each change. 0 if there is no entry.
        """
        self._entries: deque[Entry[_T]] = deque(maxlen=keep)
        self._newest = 0
        self._state: Any = None
        self._lock = threading.RLock()
        self._owner = Lock()
        self._note = note

    @property
    @override
    def location(self) -> str:
        return "this process"

    @override
    def read(self, f: Callable[[Iterator[Entry[_T]]], _A]) -> _A:
        with self._lock:  # a copy of the entries would cost more than a reader of the newest entry
            return f(reversed(self._entries))

    @override
    def read_state(self) -> Any:
        return self._state

    @override
    def append(self, part: _T, choose: Choose[_T] | None = None, state: Any = None) -> None:
        with self._lock:
            entry = choose(reversed(self._entries)) if choose else None
            self._state = self._state if state is None else state
            if entry is None:
                self._newest += 1
                self._entries.append(Entry(self._newest, (part,)))
            else:
                self._entries[entry.number - self._newest - 1] = Entry(entry.number, (*entry.parts, part))
        self._note(self._newest)

    @override
    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._newest, self._state = 0, None
        self._note(0)

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        def own() -> Effect[None, OSError, Scope]:
            taken = BlockingIOError("another program of this process owns the journal")
            held = self._owner.hold() if wait else self._owner.hold_or(FailCause(Cause((Fail(taken),))))
            # a store of journals keeps a journal without entries only while its owner keeps it
            return Then(acquire_release(Succeed(self), lambda _: NOTHING), held)

        return Suspend(own)


# -- in SQLite


class _Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The row of a part."""

    data: msgspec.Raw
    parts: int = 1  # number of parts of the entry, in its first row
    state: bool = False  # True if the journal has a state, so that fxai detects a missing state
    digest: str | None = None


class _State(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The row of a state."""

    state: msgspec.Raw
    digest: str | None = None


@final
class TableJournal(Journal[_T]):
    """A journal in a SQLite database. The database can contain other journals and your own tables.

    fxai reads the newest rows first, so the time depends only on the number of entries that the reader consumes. Each
    row has a digest, and the table of heads contains the numbers of the existing entries. If a row was changed or the
    newest entries are missing, fxai raises an `OSError` with the entries and a remedy. If other entries are missing,
    fxai logs a warning to `fxai.storage`. A writer waits up to 30 seconds for other writers. `fxai.storage.database`
    describes who can read the database.
    """

    def __init__(self, path: Path, key: str, form: Form[_T], keep: int | None = None) -> None:
        """Create the journal `key` in a database. It stores the newest `keep` entries. `None` means all entries."""
        self.path = path
        self._key = key
        self._form = form
        self._keep = keep
        table, head = form.table, form.heads
        self._pool = pool_of(path, *form.tables)
        self._rows = f"SELECT number, part, data FROM {table} WHERE name = ? ORDER BY number DESC, part DESC"
        self._head = f"SELECT oldest, newest FROM {head} WHERE name = ?"
        self._set_head = (
            f"INSERT INTO {head} SELECT ?, coalesce(min(number), 1), ? FROM {table} WHERE name = ? "
            "ON CONFLICT (name) DO UPDATE SET oldest = excluded.oldest, newest = excluded.newest"
        )

    @property
    @override
    def location(self) -> str:
        return f"{self.path}, name {self._key!r}"

    @override
    def read(self, f: Callable[[Iterator[Entry[_T]]], _A]) -> _A:
        with self._pool.take(read_once) as database:
            return f(self._entries(database))

    def _entries(self, database: Connection) -> Iterator[Entry[_T]]:
        oldest, behind = self._bounds(database)
        count = 0
        for number, group in islice(
            groupby(database.execute(self._rows, (self._key,)), lambda row: _whole(row[0])), self._keep
        ):
            texts = {_whole(row[1]): row[2] for row in group}
            self._warn_missing(number + 1, behind - 1)
            behind = number
            count += 1
            with self._naming(number):
                entry = Entry(number, self._parts(texts))
            yield entry
        if count != self._keep:
            self._warn_missing(oldest, behind - 1)

    @contextmanager
    def _naming(self, number: int) -> Generator[None]:
        """Name the damaged entry in each error of the block."""
        try:
            yield
        except OSError as error:
            rows = f"remove the rows of the {self._form.entry} from the table {self._form.table}"
            remedy = self._form.restoring("database", f"Restore the database from a backup, or {rows}")
            raise OSError(f"{self._form.entry} {number} is damaged: {error}. {remedy}.") from error

    def _warn_missing(self, first: int, last: int) -> None:
        if first <= last:
            warn("%s of the %s in %s", self._form.missing(first, last), self._form.name, self.location)

    def _bounds(self, database: Connection) -> tuple[int, int]:
        """Return the number of the oldest entry, and the next free number.

        Raises:
            OSError: If the newest entries are missing.
        """
        found: tuple[object, object] | None = database.execute(self._head, (self._key,)).fetchone()
        row: tuple[object, object, object] | None = database.execute(self._rows, (self._key,)).fetchone()
        newest = 0 if row is None else _whole(row[0])
        if found is None and row is not None:
            raise self._loss(f"the row in the table {self._form.heads} is missing", newest)
        if found is None:
            return 1, 1
        oldest, last = map(_whole, found)
        if newest < last:
            raise self._loss(self._form.missing(max(newest + 1, oldest), last), newest)
        return oldest, newest + 1

    def _loss(self, what: str, newest: int) -> OSError:
        name = self._key.replace("'", "''")
        return OSError(
            f"the database is incomplete or damaged: {what}. Restore the database from a backup, or, to "
            f"continue without the missing data, run INSERT OR REPLACE INTO {self._form.heads} "
            f"VALUES ('{name}', 1, {newest})"
        )

    @override
    def read_state(self) -> Any:
        with self._pool.take(read_once) as database:
            text = self._state_text(database)
            if text is None:
                self._bounds(database)
                if not self._expects_state(database):
                    return None
            try:
                return read_state(text, self._form)
            except OSError as error:
                remedy = "Restore the database from a backup, or append another state."
                raise OSError(f"the state in the table {self._form.states} is damaged: {error}. {remedy}") from error

    def _state_text(self, database: Connection) -> str | None:
        select = f"SELECT state FROM {self._form.states} WHERE name = ?"
        row: tuple[object] | None = database.execute(select, (self._key,)).fetchone()
        return None if row is None else str(row[0])

    def _has_state(self, database: Connection) -> bool:
        with suppress(OSError):  # a damaged row must not prevent a new row
            return self._state_text(database) is not None or self._expects_state(database)
        return False

    def _expects_state(self, database: Connection) -> bool:
        row: tuple[object, object, object] | None = database.execute(self._rows, (self._key,)).fetchone()
        if row is None:
            return False
        with self._naming(_whole(row[0])):
            return self._read_row(row[2]).state

    @override
    def append(self, part: _T, choose: Choose[_T] | None = None, state: Any = None) -> None:
        data = msgspec.Raw(self._form.encode(part).encode())
        state_text = None if state is None else self._form.encode_state(state)
        with self._pool.take(transact) as database:
            entry = choose(self._entries(database)) if choose else None
            number, location = (self._bounds(database)[1], 0) if entry is None else (entry.number, len(entry.parts))
            if state_text is not None:
                row = seal(_State(msgspec.Raw(state_text.encode()))).decode()
                database.execute(f"INSERT OR REPLACE INTO {self._form.states} VALUES (?, ?)", (self._key, row))
            self._insert(database, number, location, data)
            if location:
                self._count_parts(database, number, location + 1)
                return
            if self._keep is not None:
                delete = f"DELETE FROM {self._form.table} WHERE name = ? AND number <= ?"
                database.execute(delete, (self._key, number - self._keep))
            database.execute(self._set_head, (self._key, number, self._key))

    def replace(self, part: _T) -> None:
        """Replace all entries and the state with one part, in one transaction.

        Raises:
            OSError: If the database refuses.
        """
        data = msgspec.Raw(self._form.encode(part).encode())
        with self._pool.take(transact) as database:
            self._clear(database)
            self._insert(database, 1, 0, data)
            database.execute(self._set_head, (self._key, 1, self._key))

    def _insert(self, database: Connection, number: int, location: int, data: msgspec.Raw) -> None:
        row = _Row(data, state=self._has_state(database))
        insert = f"INSERT INTO {self._form.table} VALUES (?, ?, ?, ?)"
        database.execute(insert, (self._key, number, location, seal(row).decode()))

    def _count_parts(self, database: Connection, number: int, parts: int) -> None:
        table, first, where = self._form.table, (self._key, number), "WHERE name = ? AND number = ? AND part = 0"
        text: tuple[object] = database.execute(f"SELECT data FROM {table} {where}", first).fetchone()
        row = msgspec.structs.replace(self._read_row(text[0]), parts=parts, digest=None)
        database.execute(f"UPDATE {table} SET data = ? {where}", (seal(row).decode(), *first))

    @override
    def clear(self) -> None:
        with self._pool.take(transact) as database:
            self._clear(database)

    def _clear(self, database: Connection) -> None:
        for table in (self._form.table, self._form.heads, self._form.states):
            database.execute(f"DELETE FROM {table} WHERE name = ?", (self._key,))

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        folder = self.path.with_name(f"{self.path.name}.locks")
        held = hold_file(lambda: own_folder(folder) / f"{self._form.name}-{file_name(self._key)}.lock", wait=wait)
        return Then(held, stay_open(self._pool.stay_open))

    def _parts(self, texts: dict[int, object]) -> tuple[_T, ...]:
        """Return the parts of an entry.

        Args:
            texts: The rows of the entry, by position.
        """
        rows = [self._read_row(texts[location]) for location in sorted(texts)]
        first = rows[0]
        if sorted(texts) != list(range(len(texts))) or first.parts != len(rows):
            raise OSError("a part is missing")
        return tuple(self._form.decode(bytes(row.data)) for row in rows)

    def _read_row(self, text: object) -> _Row:
        if not isinstance(text, str):
            raise OSError("the row does not contain a string")
        row = text.encode()
        try:
            read = read_record(row, _Row)
        except ValueError as error:
            raise OSError(f"the row does not contain data ({error})") from error
        if not is_intact(row):
            raise OSError("the row was changed")
        return read


def read_state(text: str | None, form: Form[Any]) -> Any:
    """Return the state in the row of a SQLite database. Raise an `OSError` with the reason if it is damaged."""
    if text is None or not is_intact(text.encode()):
        raise OSError("the row is missing" if text is None else "the row was changed")
    try:
        return form.decode_state(bytes(read_record(text.encode(), _State).state))
    except ValueError as error:
        raise OSError(f"the row does not contain a state ({error})") from error


def _whole(number: object) -> int:
    """Return the number if it is an integer. Only a damaged database contains another value.

    Raises:
        OSError: If the value is not an integer.
    """
    if not isinstance(number, int):
        raise OSError(f"the database is damaged: number must be an integer, got {number!r}. Restore it from a backup.")
    return number
