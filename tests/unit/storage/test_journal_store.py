"""Stores of journals: the same in process, in files and in SQLite; any name is one of its own, and none is a path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from returns.result import Result, Success

from fxai.effects import Backend, Effect, Gen, Scope, fx
from fxai.storage.journal import JSON, Journal
from fxai.storage.journal_store import FileJournals, JournalStore, ProcessJournals, TableJournals

ROOT = Path(__file__).parents[3]
KINDS = ("process", "file", "sqlite")
of_each_kind = pytest.mark.parametrize("kind", KINDS)
between_processes = pytest.mark.parametrize("kind", KINDS[1:])

NAMES = [
    *("ann", "Ann", "ann ", "", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a_b", "con", "\0", "a\nb", "%2e%2e"),
    *("é", "e\u0301", "\U0001f600", "a" * 5000, "a" * 5001, "'; DROP TABLE journal_entry; --", "x.jsonl"),
]


def _store(kind: str, folder: Path) -> JournalStore:
    if kind == "process":
        return ProcessJournals()
    return FileJournals(folder / "store", JSON) if kind == "file" else TableJournals(folder / "store.db", JSON)


def _parts(journal: Journal[Any]) -> list[Any]:
    return journal.read(lambda newest: [part for entry in newest for part in entry.parts])[::-1]


# -- names


@of_each_kind
def test_each_name_is_a_journal_of_its_own(kind: str, tmp_path: Path) -> None:
    """Whatever stands in it, however long it is, and where a file system takes two names for one."""
    store = _store(kind, tmp_path)
    for number, name in enumerate(NAMES):
        store.journal(name).append(number, state={"number": number})
    assert [_parts(store.journal(name)) for name in NAMES] == [[number] for number in range(len(NAMES))]
    assert sorted(state["number"] for state in store.states()) == list(range(len(NAMES)))


@between_processes
def test_no_name_leads_out_of_the_folder(kind: str, tmp_path: Path) -> None:
    """Everything is below it, and what is there before is left alone."""
    (tmp_path / "x.jsonl").write_text("mine")
    store = _store(kind, tmp_path)
    for name in NAMES:
        store.journal(name).append("x")
        store.remove(name)
    beside = {path.name for path in tmp_path.iterdir()}
    assert {name for name in beside if not name.startswith("store")} == {"x.jsonl"}
    assert (tmp_path / "x.jsonl").read_text() == "mine"


@between_processes
def test_a_name_that_is_no_text_is_refused(kind: str, tmp_path: Path) -> None:
    """Half of a character cannot be written."""
    with pytest.raises(OSError, match="half a surrogate pair"):
        _store(kind, tmp_path).journal("ann \ud800").append("x")


# -- what there is


@of_each_kind
def test_a_new_store_has_nothing(kind: str, tmp_path: Path) -> None:
    """And asking makes nothing."""
    store = _store(kind, tmp_path)
    assert list(store.states()) == []
    store.remove("nobody")
    assert (store.journal("nobody").read_state(), _parts(store.journal("nobody"))) == (None, [])
    assert list(store.states()) == []


def test_names_that_are_only_asked_about_take_no_room(tmp_path: Path) -> None:
    """A client may ask about any number of conversations that there are not."""
    files, process = FileJournals(tmp_path / "store", JSON), ProcessJournals()

    def ask(store: JournalStore, name: str) -> None:
        journal = store.journal(name)
        assert (journal.read_state(), _parts(journal)) == (None, [])
        store.remove(name)

    for store in (files, process):
        for number in range(100):
            ask(store, f"unknown {number}")
    assert not (tmp_path / "store").exists()
    assert not any(vars(process).values())


@of_each_kind
def test_journals_without_a_state_are_not_in_the_list(kind: str, tmp_path: Path) -> None:
    """Nor those that were removed; of the others, the state that was appended last."""
    store = _store(kind, tmp_path)
    store.journal("plain").append("x")
    for name in ("ann", "bob", "cay"):
        store.journal(name).append("x", state={"of": name, "was": 1})
    store.journal("ann").append("y", state={"of": "ann", "was": 2})
    store.journal("cay").append("y")
    store.remove("bob")
    assert sorted(store.states(), key=lambda state: state["of"]) == [{"of": "ann", "was": 2}, {"of": "cay", "was": 1}]


@of_each_kind
def test_a_journal_that_is_removed_while_it_is_open_begins_anew(kind: str, tmp_path: Path) -> None:
    """For all who have it: what one of them appends, the others read."""
    store = _store(kind, tmp_path)
    early = store.journal("ann")
    early.append("before", state={"old": True})
    store.remove("ann")
    assert (_parts(early), early.read_state()) == ([], None)
    early.append("after")
    assert (_parts(store.journal("ann")), store.journal("ann").read_state()) == (["after"], None)


@of_each_kind
def test_a_list_that_is_being_read_bears_changes(kind: str, tmp_path: Path) -> None:
    """Journals that come and go meanwhile."""
    store = _store(kind, tmp_path)
    for name in "abc":
        store.journal(name).append("x", state=name)
    states = store.states()
    first = next(states)
    store.remove(first)
    store.journal("d").append("x", state="d")
    assert {"a", "b", "c"} - {first} <= set(states)


# -- owners


def _tried(journal: Journal[Any]) -> Effect[Result[None, OSError]]:
    return fx.scoped(journal.own(wait=False)).result()


@of_each_kind
def test_a_name_has_one_owner_also_where_it_is_removed_meanwhile(kind: str, tmp_path: Path, backend: Backend) -> None:
    """Journals of other names are not held off; it is free when the scope has closed."""
    store = _store(kind, tmp_path)

    @fx.gen
    def own() -> Gen[list[Result[None, OSError]], OSError, Scope]:
        yield from store.journal("ann").own()
        store.journal("ann").append("x")
        while_there = yield from _tried(store.journal("ann"))
        store.remove("ann")
        removed = yield from _tried(store.journal("ann"))
        other = yield from _tried(store.journal("bob"))
        return [while_there, removed, other]

    there, removed, other = fx.run(fx.scoped(own()), backend=backend)
    assert isinstance(there.failure(), BlockingIOError)
    assert isinstance(removed.failure(), BlockingIOError)
    assert (other, fx.run(_tried(store.journal("ann")), backend=backend)) == (Success(None), Success(None))


# -- other processes, and damage

WRITER = """
import sys
from pathlib import Path
from fxai.storage.journal import JSON
from fxai.storage.journal_store import FileJournals, TableJournals
kind, folder, who = sys.argv[1:]
store = FileJournals(Path(folder) / "store", JSON) if kind == "file" else TableJournals(Path(folder) / "store.db", JSON)
for n in range(6):
    store.journal("shared").append([who, n], state={"last": who})
    store.journal(f"{who} {n}").append(n, state={"of": who})
    store.remove(f"{who} {n - 1}")
"""


@pytest.mark.slow
@between_processes
def test_processes_share_a_store(kind: str, tmp_path: Path) -> None:
    """Nothing of what they append at once is lost, and each sees what the others keep and remove."""
    command = [sys.executable, "-c", WRITER, kind, str(tmp_path)]
    started = [subprocess.Popen([*command, who], cwd=ROOT, stderr=subprocess.PIPE) for who in "xyz"]
    complaints = [one.communicate()[1] for one in started]
    store = _store(kind, tmp_path)

    assert complaints == [b"", b"", b""]
    shared = _parts(store.journal("shared"))
    assert [[part for part in shared if part[0] == who] for who in "xyz"] == [
        [[who, n] for n in range(6)] for who in "xyz"
    ]
    assert sorted(state["of"] for state in store.states() if "of" in state) == ["x", "y", "z"]


def test_what_a_process_left_in_the_middle_of_a_line_is_not_there(tmp_path: Path) -> None:
    """It was never acknowledged: the state is the one before it, and the next part takes its place."""
    store = _store("file", tmp_path)
    store.journal("ann").append("one", state={"n": 1})
    (path,) = (tmp_path / "store").glob("*.jsonl")
    whole = path.read_bytes()
    begun = whole.splitlines()[-1][:25]
    path.write_bytes(whole + begun)
    assert (list(store.states()), _parts(store.journal("ann"))) == ([{"n": 1}], ["one"])
    store.journal("ann").append("two", state={"n": 2})
    assert (list(store.states()), _parts(store.journal("ann"))) == ([{"n": 2}], ["one", "two"])


def test_a_file_that_is_damaged_is_left_out_of_the_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning; so is one that is none of them. The others are in it."""
    store = _store("file", tmp_path)
    for name in ("ann", "bob"):
        store.journal(name).append("x", state=name)
    (damaged,) = (tmp_path / "store").glob("ann-*.jsonl")
    damaged.write_bytes(damaged.read_bytes().replace(b'"x"', b'"y"'))
    (tmp_path / "store" / "notes.jsonl").write_text("{}\n")
    assert list(store.states()) == ["bob"]
    lines = [record.getMessage().partition(": ")[0] for record in caplog.records]
    omitted = [damaged, tmp_path / "store" / "notes.jsonl"]
    assert sorted(line for line in lines if "omits" in line) == [f"the list omits {path}" for path in omitted]


def test_a_row_that_is_damaged_is_left_out_of_the_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a file is."""
    import sqlite3

    store = _store("sqlite", tmp_path)
    for name in ("ann", "bob"):
        store.journal(name).append("x", state=name)
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("UPDATE journal_state SET state = replace(state, 'ann', 'eve')")
    database.commit()
    database.close()
    assert list(store.states()) == ["bob"]
    (record,) = caplog.records
    assert record.getMessage().startswith("the list omits the journal 'ann' in ")


def test_a_database_that_is_none_is_told(tmp_path: Path) -> None:
    """By the list, too."""
    (tmp_path / "store.db").write_text("this is no database, " * 100)
    store = _store("sqlite", tmp_path)
    with pytest.raises(OSError, match=r"store\.db"):
        list(store.states())
    with pytest.raises(OSError, match=r"store\.db"):
        store.journal("ann").append("x")
