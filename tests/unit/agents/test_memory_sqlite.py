"""Memories in SQLite: conversations side by side, and databases that are damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.effects import fx
from fxai.messages import Prompt
from fxai.storage import seal_text
from tests.kit.memories import approved, asked, chat, commit_all, looked_up

ONE, TWO, THREE = chat("one"), looked_up("two"), chat("three")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with three turns."""
    file = tmp_path / "memory.db"
    fx.run(commit_all(Memory.sqlite(file), [ONE, TWO, THREE]))
    return file


def _done(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        return database.execute(statement).fetchall()


def _turns(path: Path) -> Any:
    return fx.run(Memory.sqlite(path).turns())


def _refused(effect: Any) -> MemoryFailure:
    failure: MemoryFailure = fx.run_result(effect).failure()
    return failure


def test_conversations_are_apart(path: Path) -> None:
    """Each has its own turns; clearing one leaves the others."""
    names = ["", "ann", "Ann", "ann'; --", "\u00e4nn"]
    for name in names:
        fx.run(Memory.sqlite(path, conversation=name).commit(chat(name)))
    fx.run(Memory.sqlite(path, conversation="ann").clear())

    assert [fx.run(Memory.sqlite(path, conversation=name).turns()) for name in names] == [
        () if name == "ann" else (chat(name),) for name in names
    ]
    assert _turns(path) == (ONE, TWO, THREE)


def test_a_commit_is_a_row_and_on_the_disk(path: Path) -> None:
    """In WAL mode; more messages of a turn are another part of it."""
    fx.run(commit_all(Memory.sqlite(path), [asked("a"), ONE, approved()]))

    assert _done(path, "SELECT number, part FROM memory_turn ORDER BY number, part") == [
        *((1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (5, 0)),
    ]
    assert _done(path, "PRAGMA journal_mode") == [("wal",)]


def test_old_turns_are_dropped_with_all_their_parts(path: Path) -> None:
    """In the same transaction as the new one is added."""
    memory = Memory.sqlite(path, keep=2)
    fx.run(commit_all(memory, [asked("a"), approved(), ONE, TWO]))

    assert fx.run(memory.turns()) == (ONE, TWO)
    assert _done(path, "SELECT number, part FROM memory_turn ORDER BY number, part") == [(5, 0), (6, 0)]


def test_a_window_reads_the_newest_rows_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all turns, two are decoded."""
    read: list[object] = []
    from_json = Prompt.from_json

    def counted(text: str | bytes) -> Any:
        read.append(text)
        return from_json(text)

    monkeypatch.setattr(Prompt, "from_json", staticmethod(counted))
    said = fx.run(Memory.sqlite(path, Compaction.window(2)).load())

    assert (said, len(read)) == (TWO + THREE, 2)


def test_a_damaged_row_is_named(path: Path) -> None:
    """It says the database, the conversation, the turn, what is wrong and what to do."""
    row = seal_text(b'{"data":[{"role": "nobody"}]}').decode()
    _done(path, f"UPDATE memory_turn SET data = '{row}' WHERE number = 2")
    failure = _refused(Memory.sqlite(path).load())

    assert str(failure).startswith(f"memory in {path}, name 'default' could not be loaded: turn 2 is")
    assert "/0/role" in failure.description
    assert "remove the rows of the turn from the table memory_turn" in failure.description
    assert fx.run(Memory.sqlite(path, Compaction.window(1)).load()) == THREE


def test_a_row_that_was_changed_is_named(path: Path) -> None:
    """By its digest: what was said is not read as something else."""
    _done(path, "UPDATE memory_turn SET data = replace(data, 'three', 'seven')")
    failure = _refused(Memory.sqlite(path).load())

    assert "turn 3 is damaged: the row was changed. Restore the database" in failure.description


def test_newest_turns_that_are_missing_are_a_failure(path: Path) -> None:
    """It says which, and what to do, for whoever reads and for whoever writes; what it says helps."""
    _done(path, "DELETE FROM memory_turn WHERE number > 1")
    memory = Memory.sqlite(path)
    failures = [_refused(one) for one in (memory.load(), memory.turns(), memory.commit(ONE))]
    _done(path, failures[0].description.partition(" run ")[2])
    fx.run(memory.commit(THREE))

    assert all("turns 2 to 3 are missing. Restore the database from a backup" in one.description for one in failures)
    assert fx.run(memory.turns()) == (ONE, THREE)


def test_all_turns_that_are_missing_are_a_failure(path: Path) -> None:
    """And so is the row that says how many there are; a memory that was cleared is empty."""
    _done(path, "DELETE FROM memory_turn")
    gone = _refused(Memory.sqlite(path).load())
    fx.run(Memory.sqlite(path).clear())
    cleared = _turns(path)
    fx.run(Memory.sqlite(path).commit(ONE))
    _done(path, "DELETE FROM memory_head")

    assert "turns 1 to 3 are missing" in gone.description
    assert cleared == ()
    assert "the row in the table memory_head is missing" in _refused(Memory.sqlite(path).load()).description


def test_turns_that_were_taken_out_are_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle and at the beginning; those that `keep` drops are not missed."""
    fx.run(commit_all(Memory.sqlite(path), [ONE, TWO]))
    _done(path, "DELETE FROM memory_turn WHERE number IN (1, 3, 4)")
    turns = _turns(path)
    told = list(caplog.messages)
    caplog.clear()
    fx.run(Memory.sqlite(path, keep=1).commit(ONE))

    assert turns == (TWO, TWO)
    assert [one.partition(" of the memory")[0] for one in told] == ["turns 3 to 4 are missing", "turn 1 is missing"]
    assert (_turns(path), caplog.messages) == ((ONE,), [])


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_part_that_is_missing_is_noticed(part: int, path: Path) -> None:
    """The first, one in the middle, or the last: a turn is not given as if it were whole."""
    both = asked("a") + Prompt(asked("b", "c2", "a2").messages[1:])
    fx.run(commit_all(Memory.sqlite(path), [both, approved("c2", "a2"), approved()]))
    _done(path, f"DELETE FROM memory_turn WHERE number = 4 AND part = {part}")

    assert "turn 4 is damaged: a part is missing" in _refused(Memory.sqlite(path).load()).description


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """It says so, and what to look at."""
    path = tmp_path / "diary.txt"
    path.write_bytes(b"my diary " * 200)
    failures = [_refused(one) for one in (Memory.sqlite(path).load(), Memory.sqlite(path).commit(ONE))]

    assert [one.doing for one in failures] == ["load", "commit"]
    assert all("file is not a database. Check that" in one.description for one in failures)
    assert path.read_bytes() == b"my diary " * 200


def test_a_failed_commit_is_undone(path: Path) -> None:
    """The old turns cannot be dropped: the new one is not there either, and the next commit works."""
    _done(path, "CREATE TRIGGER full BEFORE DELETE ON memory_turn BEGIN SELECT raise(ABORT, 'no room'); END")
    failure = _refused(Memory.sqlite(path, keep=1).commit(ONE))
    _done(path, "DROP TRIGGER full")
    fx.run(Memory.sqlite(path).commit(ONE))

    assert "no room" in failure.description
    assert _turns(path) == (ONE, TWO, THREE, ONE)


def test_it_shares_a_database_with_others(path: Path) -> None:
    """Tables of others stay as they are."""
    _done(path, "CREATE TABLE mine (a INTEGER)")
    _done(path, "INSERT INTO mine VALUES (7)")
    fx.run(Memory.sqlite(path).clear())

    assert _done(path, "SELECT a FROM mine") == [(7,)]
    assert _turns(path) == ()
