"""Watches of journals: who goes on with one is told when another program has appended to it."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import pytest

from fxai.storage.journal import JSON
from fxai.storage.journal_store import FileJournals, JournalStore, ProcessJournals, TableJournals, watch


def _store(kind: str, folder: Path) -> JournalStore:
    if kind == "process":
        return ProcessJournals()
    return FileJournals(folder / "journals", JSON) if kind == "files" else TableJournals(folder / "journals.db", JSON)


def _watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "fxai journal watch"]


@pytest.mark.parametrize("kind", ["process", "files", "table"])
def test_new_entries_are_told(kind: str, tmp_path: Path) -> None:
    """By the number of the newest, of this journal alone, until that is ended."""
    store, told = _store(kind, tmp_path), queue.SimpleQueue[int]()
    store.journal("ann").append("hello")
    stop = watch(store, "ann", told.put)
    store.journal("bob").append("hello")
    store.journal("ann").append("hello again")
    while told.get(timeout=30) != 2:
        pass
    stop()
    stop()  # no more than once
    for thread in _watches():
        thread.join(30)
    assert _watches() == []


@pytest.mark.parametrize("kind", ["process", "files", "table"])
def test_journals_with_one_name_in_two_stores_are_watched_apart(kind: str, tmp_path: Path) -> None:
    """A program is told of the entries in its own store."""
    stores = [_store(kind, tmp_path / name) for name in "ab"]
    assert stores[0].identity != stores[1].identity
    told = [queue.SimpleQueue[int](), queue.SimpleQueue[int]()]
    stops = [watch(store, "ann", numbers.put) for store, numbers in zip(stores, told, strict=True)]
    for times, (store, numbers) in enumerate(zip(stores, told, strict=True), start=1):
        for _ in range(times):
            store.journal("ann").append("hello")
        while numbers.get(timeout=30) != times:
            pass
    for stop in stops:
        stop()

    assert {told[0].get() for _ in range(told[0].qsize())} <= {1}


def test_store_of_files_refuses_listeners(tmp_path: Path) -> None:
    """A program watches the store instead."""
    with pytest.raises(NotImplementedError, match="ann: a store that blocks has no listeners"):
        _store("files", tmp_path).listen("ann", print)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Nobody has written anything yet, so nothing is told."""
    store, told = _store("table", tmp_path), queue.SimpleQueue[int]()
    stop = watch(store, "ann", told.put)
    assert told.get(timeout=30) == 0
    stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_that_cannot_be_told_holds_off_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it raised goes to the log, once; the others are told all the same."""
    store, told = _store("table", tmp_path), queue.SimpleQueue[int]()

    def refuse(_: int) -> None:
        raise OSError("it is damaged")

    stops = [watch(store, "ann", refuse), watch(store, "bob", told.put)]
    store.journal("bob").append("hello")
    while told.get(timeout=30) != 1:
        pass
    assert told.get(timeout=30) == 1
    for stop in stops:
        stop()
    assert [record.message for record in caplog.records if "fxai no longer watches" in record.message] != []
    assert sum("it is damaged" in record.message for record in caplog.records) == 1


@pytest.mark.slow
def test_a_store_that_cannot_be_read_is_looked_at_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The trouble is told once, and what comes after it is not lost."""
    store, told = _store("table", tmp_path), queue.SimpleQueue[int]()
    location = tmp_path / "journals.db"
    location.write_text("this is no database, and long enough to be one" * 100)
    stop = watch(store, "ann", told.put)
    while not any("fxai tries again" in record.message for record in caplog.records):
        threading.Event().wait(0.05)
    location.unlink()
    store.journal("ann").append("hello")
    while told.get(timeout=30) != 1:
        pass
    stop()
    assert sum("fxai tries again" in record.message for record in caplog.records) == 1
