"""Stores of journals of one kind, by name: in this process, in a directory, or in a SQLite database.

>>> from fxai.storage.journal import JSON
>>> store = ProcessJournals()
>>> store.journal("ann").append("hello", state={"name": "ann"})
>>> list(store.states())
[{'name': 'ann'}]

A program can watch a journal for the entries of other programs. One thread watches all journals of a store for this
process: once a second it queries the numbers of their newest entries, in one query. It ends with the last watch.
Journals of this process report entries immediately and need no thread.

>>> watchers = list[int]()
>>> stop = watch(store, "ann", watchers.append)
>>> store.journal("ann").append("hello again")
>>> stop()
>>> store.journal("ann").append("good-bye")
>>> watchers
[2]
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias, final
from weakref import WeakValueDictionary

import msgspec
from typing_extensions import TypeVar, override

from fxai.storage.database import connect
from fxai.storage.journal import Columns, Entry, Form, Journal, ProcessJournal, Selection, TableJournal, read_state
from fxai.storage.private_file import file_name, warn

_A = TypeVar("_A")

Tell: TypeAlias = Callable[[int], None]
"""Receives the number of the newest entry of a journal, in any thread. The number can be the same as before."""

_PAUSE: Final = 1.0  # seconds between two queries


class JournalStore(ABC):
    """Journals by name. If `blocks` is True, call the methods in a worker thread."""

    blocks: bool = True
    """True if the methods wait for the disk and for other processes."""

    @abstractmethod
    def journal(self, name: str) -> Journal[Any]:
        """Return the journal with this name, which need not exist yet."""

    def remove(self, name: str) -> None:
        """Remove a journal with its state. A missing journal is ignored."""
        self.journal(name).clear()

    @abstractmethod
    def states(self) -> Iterator[Any]:
        """Yield the states of all journals with a state, in any order. A damaged state causes a warning in the log.

        Raises:
            OSError: If the directory or the database cannot be read.
        """

    def select(self, columns: Columns, selection: Selection) -> list[Any]:
        """Return the selected states, sorted by the columns of the form. A database reads only these.

        Raises:
            OSError: As `states`.
        """
        return selection.choose(self.states(), columns)

    # -- for `watch`

    @property
    def identity(self) -> tuple[object, ...]:
        """The identity of the journals. Stores with the same journals have the same identity. The location is first."""
        return (repr(self), self)

    def newest(self, names: list[str]) -> dict[str, int]:
        """Return the numbers of the newest entries of journals, by name. A missing journal can have no number.

        Raises:
            OSError: As `states`.
        """
        return {name: self.journal(name).read(_newest) for name in names}

    def listen(self, name: str, tell: Tell) -> Callable[[], None]:
        """Call `tell` with the number of each new entry. Return the function that stops this.

        Only stores that do not block have this method.
        """
        raise NotImplementedError(f"{name}: a store that blocks has no listeners")


def _newest(entries: Iterator[Entry[Any]]) -> int:
    return next((entry.number for entry in entries), 0)


def decode_states(
    rows: Iterable[Any], decode: Callable[[str], Any], form: Form[Any], location: object
) -> Iterator[Any]:
    """Yield the states in rows of names and texts. A damaged state causes a warning in the log."""
    for name, text in rows:
        try:
            yield decode(str(text))
        except OSError as error:
            warn("the list omits the %s %r in %s: %s", form.name, name, location, error)


@final
class ProcessJournals(JournalStore):
    """Journals that end with the process. Reading an unknown name stores nothing."""

    blocks = False

    def __init__(self) -> None:
        self._used: WeakValueDictionary[str, ProcessJournal[Any]] = WeakValueDictionary()
        self._journals: dict[str, ProcessJournal[Any]] = {}  # the journals with entries
        self._listening: dict[str, list[Tell]] = {}

    @override
    def journal(self, name: str) -> Journal[Any]:
        if (known := self._journals.get(name)) is not None:
            return known

        def note(newest: int) -> None:
            if not newest:
                self._journals.pop(name, None)
                return
            self._journals[name] = self._used[name]
            for tell in tuple(self._listening.get(name, ())):
                tell(newest)

        with _lock:
            return self._used.get(name) or self._used.setdefault(name, ProcessJournal(note=note))

    @override
    def listen(self, name: str, tell: Tell) -> Callable[[], None]:
        self._listening.setdefault(name, []).append(tell)

        def stop() -> None:
            listening = self._listening.get(name, [])
            if tell in listening:
                listening.remove(tell)
            if not listening:
                self._listening.pop(name, None)

        return stop

    @override
    def states(self) -> Iterator[Any]:
        states = [journal.read_state() for journal in list(self._journals.values())]
        return iter([state for state in states if state is not None])


@final
class FileJournals(JournalStore):
    """Journals as files in a directory, which is created if needed."""

    def __init__(self, folder: Path, form: Form[Any]) -> None:
        self._folder = folder
        self._form = form

    @override
    def journal(self, name: str) -> Journal[Any]:
        return self._at(self._path(name))

    @override
    def remove(self, name: str) -> None:
        if self._path(name).exists():  # otherwise the removal would leave a lock file
            super().remove(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_name(name)}.jsonl"

    def _at(self, path: Path) -> Journal[Any]:
        from fxai.storage.journal_file import FileJournal  # only files need it

        return FileJournal(path, self._form)

    @override
    def states(self) -> Iterator[Any]:
        for path in sorted(self._folder.glob("*.jsonl")):
            try:
                state = self._at(path).read_state()
            except OSError as error:
                warn("the list omits %s: %s", path, error)
                continue
            if state is not None:
                yield state


@final
class TableJournals(JournalStore):
    """Journals in a SQLite database. It can contain other journals and tables of the user."""

    def __init__(self, path: Path, form: Form[Any]) -> None:
        self._path = path
        self._form = form

    @override
    def journal(self, name: str) -> Journal[Any]:
        return TableJournal(self._path, name, self._form)

    @override
    def states(self) -> Iterator[Any]:
        yield from self._decode(self._rows(f"SELECT name, state FROM {self._form.states}"))

    @override
    def select(self, columns: Columns, selection: Selection) -> list[Any]:
        number, mark = columns.expressions
        where, values = [f"{number} IS NOT NULL"], list[object]()
        if selection.mark is not None:
            where.append(f"{mark} = ?")
            values.append(selection.mark)
        if selection.prefix:
            where.append("substr(name, 1, ?) = ?")
            values += [len(selection.prefix), selection.prefix]
        if selection.after is not None:
            where += [f"{number} <= ?", f"({number} < ? OR name > ?)"]
            values += [selection.after[0], *selection.after]
        select = f"SELECT name, state FROM {self._form.states} WHERE"
        order = f"ORDER BY {number} DESC, name LIMIT ?"
        values.append(-1 if selection.most is None else selection.most)
        rows = self._rows(f"{select} {' AND '.join(where)} {order}", *values)
        if selection.after is None:  # damaged rows have no number
            rows += self._rows(f"{select} {number} IS NULL")
        return [*self._decode(rows)]

    def _rows(self, query: str, *values: object) -> list[Any]:
        if not self._path.exists():  # the first append creates the database
            return []
        with connect(self._path, *self._form.tables) as database:
            return database.execute(query, values).fetchall()

    def _decode(self, rows: list[Any]) -> Iterator[Any]:
        return decode_states(rows, lambda text: read_state(text, self._form), self._form, self._path)

    @property
    @override
    def identity(self) -> tuple[object, ...]:
        return str(self._path), self._form.name

    @override
    def newest(self, names: list[str]) -> dict[str, int]:
        query = f"SELECT name, newest FROM {self._form.heads} WHERE name IN (SELECT value FROM json_each(?))"
        return {name: int(newest) for name, newest in self._rows(query, msgspec.json.encode(names).decode())}


# -- new entries

_watches: Final[dict[object, _Watch]] = {}  # by the identity of their stores
_lock: Final = threading.Lock()


def watch(store: JournalStore, name: str, tell: Tell) -> Callable[[], None]:
    """Call `tell` if the journal with a name has new entries. Return the function that stops this.

    If `tell` raises an error, fxai writes the error to the log `fxai.storage` and stops the watch.
    """
    if not store.blocks:
        return store.listen(name, tell)
    with _lock:
        found = _watches.get(store.identity)
        if found is None:
            found = _watches[store.identity] = _Watch(store)
        token = found.add(name, tell)
    return lambda: found.remove(token)


@final
class _Watch:
    """The thread that watches one store, with the watched journals."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        self._watchers: dict[object, tuple[str, Tell]] = {}
        self._none = threading.Event()  # set when no journal is watched
        threading.Thread(target=self._run, name="fxai journal watch", daemon=True).start()

    def add(self, name: str, tell: Tell) -> object:
        """Watch one more journal. The caller holds the lock."""
        token = object()
        self._watchers[token] = name, tell
        return token

    def remove(self, token: object) -> None:
        """Stop watching a journal. The thread ends with the last journal."""
        with _lock:
            self._watchers.pop(token, None)
            if not self._watchers and _watches.get(self._store.identity) is self:
                del _watches[self._store.identity]
                self._none.set()

    def _run(self) -> None:
        is_troubled = False
        while not self._none.wait(_PAUSE):
            with _lock:
                watchers = list(self._watchers.values())
            try:
                numbers = self._store.newest([name for name, _ in watchers])
                is_troubled = False
            except Exception as error:  # the next query can succeed
                if not is_troubled:
                    warn("cannot read new entries in %s: %s; fxai tries again", self._store.identity[0], error)
                is_troubled = True
                continue
            for name, tell in watchers:
                self._tell(name, tell, numbers.get(name, 0))

    def _tell(self, name: str, tell: Tell, number: int) -> None:
        try:
            tell(number)
        except Exception as error:  # an error of one journal, so the others stay watched
            with _lock:
                self._watchers = {
                    token: watchers for token, watchers in self._watchers.items() if watchers != (name, tell)
                }
            warn("fxai no longer watches %r in %s: %s", name, self._store.identity[0], error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watches.clear)  # a forked process has no other threads
