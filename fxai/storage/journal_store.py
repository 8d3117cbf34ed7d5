"""Stores of journals: many journals of one kind by their names, in this process, in a folder or in a SQLite database.

>>> from fxai.storage.journal import JSON
>>> store = ProcessJournals()
>>> store.journal("ann").append("hello", state={"name": "ann"})
>>> list(store.states())
[{'name': 'ann'}]

Who goes on with a journal may be told when another program has appended to it. One thread watches all journals of a
store that any program of this process watches: it asks the store once a second how many entries they have, in one query
for all, and ends with the last of them. Journals of this process tell at once, and need no thread.

>>> told = list[int]()
>>> stop = watch(store, "ann", told.append)
>>> store.journal("ann").append("hello again")
>>> stop()
>>> store.journal("ann").append("good-bye")
>>> told
[2]
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from typing_extensions import TypeVar, override

from fxai.effects.effect import Effect, Suspend
from fxai.effects.scope import Scope
from fxai.storage.journal import (
    Choose,
    Columns,
    Entry,
    Form,
    Journal,
    ProcessJournal,
    Selection,
    TableJournal,
    read_newest,
    read_states,
    select_states,
)
from fxai.storage.private_file import file_name, warn

_A = TypeVar("_A")

Tell: TypeAlias = Callable[[int], None]
"""Is given the number of the newest entry of a journal, in any thread: also where it is the same as before."""

Newest: TypeAlias = Callable[[list[str]], dict[str, int]]
"""Gives the numbers of the newest entries of journals, by their names; none for a journal that is not there."""

_PAUSE: Final = 1.0  # seconds between two looks


class JournalStore(ABC):
    """Journals by name. Its methods block where `blocks` says so; then they are for worker threads."""

    blocks: bool = True
    """Whether it waits for the disk and for other processes."""

    @abstractmethod
    def journal(self, name: str) -> Journal[Any]:
        """The journal of this name, which need not be there yet."""

    def remove(self, name: str) -> None:
        """Removes a journal with its state; nothing happens where there is none."""
        self.journal(name).clear()

    @abstractmethod
    def states(self) -> Iterator[Any]:
        """The states of all journals that have one, in no order; one that is damaged is a warning in the log.

        Raises:
            OSError: the folder or the database cannot be read.
        """

    def select(self, columns: Columns, selection: Selection) -> list[Any]:
        """Return the selected states, sorted. A database reads only these.

        Args:
            columns: The fields of the states, as the form of the journals has them.
            selection: The states.

        Raises:
            OSError: As `states`.
        """
        return selection.choose(self.states(), columns)

    # -- for `watch`

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for every store that has the same journals; first where it is, in words."""
        return (repr(self), self)

    @contextmanager
    def looking(self) -> Generator[Newest]:
        """What gives the numbers of the newest entries of journals.

        Raises:
            OSError: as `states`, here or when they are asked for.
        """
        yield lambda names: {name: self.journal(name).read(_newest) for name in names}

    def listen(self, name: str, tell: Tell) -> Callable[[], None]:
        """Has `tell` called with the number of each entry that is appended; gives what ends that.

        Only a store that does not block has it.
        """
        raise NotImplementedError(f"{name}: a store that blocks is looked at")


def _newest(entries: Iterator[Entry[Any]]) -> int:
    return next((entry.number for entry in entries), 0)


@final
class ProcessJournals(JournalStore):
    """Journals that end with the process. Names that are only asked about take no room."""

    blocks = False

    def __init__(self) -> None:
        self._journals: dict[str, ProcessJournal[Any]] = {}
        self._listening: dict[str, list[Tell]] = {}

    @override
    def journal(self, name: str) -> Journal[Any]:
        return _Named(self._journals, self._listening, name)

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
class _Named(Journal[Any]):
    """The journal of a name, which is there from its first entry, or its first owner, until it is cleared."""

    blocks = False

    def __init__(
        self, journals: dict[str, ProcessJournal[Any]], listening: Mapping[str, list[Tell]], name: str
    ) -> None:
        self._journals = journals
        self._listening = listening
        self._name = name

    def _find(self) -> ProcessJournal[Any]:
        return self._journals.get(self._name) or ProcessJournal()

    def _find_or_make(self) -> ProcessJournal[Any]:
        return self._journals.setdefault(self._name, ProcessJournal())

    @property
    @override
    def place(self) -> str:
        return self._find().place

    @override
    def read(self, f: Callable[[Iterator[Entry[Any]]], _A]) -> _A:
        return self._find().read(f)

    @override
    def read_state(self) -> Any:
        return self._find().read_state()

    @override
    def append(self, part: Any, choose: Choose[Any] | None = None, state: Any = None) -> None:
        journal = self._find_or_make()
        journal.append(part, choose, state)
        for tell in tuple(self._listening.get(self._name, ())):
            tell(journal.read(_newest))

    @override
    def clear(self) -> None:
        journal = self._find()
        journal.clear()
        if not journal.is_owned:
            self._journals.pop(self._name, None)

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        return Suspend(lambda: self._find_or_make().own(wait=wait))


@final
class FileJournals(JournalStore):
    """Journals as files in a folder, made where it is not there."""

    def __init__(self, folder: Path, form: Form[Any]) -> None:
        self._folder = folder
        self._form = form

    @override
    def journal(self, name: str) -> Journal[Any]:
        return self._at(self._path(name))

    @override
    def remove(self, name: str) -> None:
        if self._path(name).exists():  # a lock is not left behind for nothing
            super().remove(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_name(name)}.jsonl"

    def _at(self, path: Path) -> Journal[Any]:
        from fxai.storage.journal_file import FileJournal  # only where there are files

        return FileJournal(path, self._form)

    @override
    def states(self) -> Iterator[Any]:
        for path in sorted(self._folder.glob("*.jsonl")):
            try:
                state = self._at(path).read_state()
            except OSError as error:
                warn("%s is left out of the list: %s", path, error)
                continue
            if state is not None:
                yield state


@final
class TableJournals(JournalStore):
    """Journals in a SQLite database, which may hold others and tables of the user's own."""

    def __init__(self, path: Path, form: Form[Any]) -> None:
        self._path = path
        self._form = form

    @override
    def journal(self, name: str) -> Journal[Any]:
        return TableJournal(self._path, name, self._form)

    @override
    def states(self) -> Iterator[Any]:
        return read_states(self._path, self._form)

    @override
    def select(self, columns: Columns, selection: Selection) -> list[Any]:
        return [*select_states(self._path, self._form, columns, selection)]

    @property
    @override
    def identity(self) -> tuple[object, ...]:
        return str(self._path), self._form.name

    @override
    @contextmanager
    def looking(self) -> Generator[Newest]:
        yield lambda names: read_newest(self._path, self._form, names)


# -- new entries

_watches: Final[dict[object, _Watch]] = {}  # by the identity of their stores
_lock: Final = threading.Lock()


def watch(store: JournalStore, name: str, tell: Tell) -> Callable[[], None]:
    """Has `tell` called when a journal of a store has new entries; gives what ends that.

    Args:
        store: where the journal is.
        name: of the journal.
        tell: what is called. When it raises, that goes to the log `fxai.storage`, and it is called no more.
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
    """The thread that watches one store, and the journals that it is to look at."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        self._told: dict[object, tuple[str, Tell]] = {}
        self._none = threading.Event()  # is set when nothing is watched any more
        self._troubled = False
        threading.Thread(target=self._run, name="fxai journal watch", daemon=True).start()

    def add(self, name: str, tell: Tell) -> object:
        """Looks at one more; under the lock."""
        token = object()
        self._told[token] = name, tell
        return token

    def remove(self, token: object) -> None:
        """Looks at it no more; with the last one the thread ends."""
        with _lock:
            self._told.pop(token, None)
            if not self._told and _watches.get(self._store.identity) is self:
                del _watches[self._store.identity]
                self._none.set()

    def _run(self) -> None:
        while not self._none.wait(_PAUSE):
            try:
                with self._store.looking() as newest:
                    self._troubled = False
                    self._look_until_none(newest)
            except Exception as error:  # the next look may find what this one could not
                if not self._troubled:
                    warn("new entries in %s are not noticed: %s; it is tried again", self._store.identity[0], error)
                self._troubled = True

    def _look_until_none(self, newest: Callable[[list[str]], dict[str, int]]) -> None:
        while True:
            with _lock:
                told = list(self._told.values())
            numbers = newest([name for name, _ in told])
            for name, tell in told:
                self._tell(name, tell, numbers.get(name, 0))
            if self._none.wait(_PAUSE):
                return

    def _tell(self, name: str, tell: Tell, number: int) -> None:
        try:
            tell(number)
        except Exception as error:  # of one journal; the others are looked at all the same
            with _lock:
                self._told = {token: told for token, told in self._told.items() if told != (name, tell)}
            warn("%r in %s is not watched any more: %s", name, self._store.identity[0], error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watches.clear)  # threads are not forked
