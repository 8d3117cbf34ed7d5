"""Stores of journals: many journals of one kind by their names, in this process, in a folder or in a SQLite database.

>>> from fxai.storage.journal import JSON
>>> store = ProcessJournals()
>>> store.journal("ann").append("hello", state={"name": "ann"})
>>> list(store.states())
[{'name': 'ann'}]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from fxai.storage.journal import Form, Journal, ProcessJournal, TableJournal, read_states
from fxai.storage.private_file import file_name, warn


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


@final
class ProcessJournals(JournalStore):
    """Journals that end with the process."""

    blocks = False

    def __init__(self) -> None:
        self._journals: dict[str, ProcessJournal[Any]] = {}

    @override
    def journal(self, name: str) -> Journal[Any]:
        return self._journals.setdefault(name, ProcessJournal())

    @override
    def remove(self, name: str) -> None:
        self._journals.pop(name, None)

    @override
    def states(self) -> Iterator[Any]:
        states = [journal.read_state() for journal in list(self._journals.values())]
        return iter([state for state in states if state is not None])


@final
class FileJournals(JournalStore):
    """Journals as files in a folder, made where it is not there."""

    def __init__(self, folder: Path, form: Form[Any]) -> None:
        self._folder = folder
        self._form = form

    @override
    def journal(self, name: str) -> Journal[Any]:
        return self._at(self._folder / f"{file_name(name)}.jsonl")

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
