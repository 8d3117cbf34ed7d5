"""Lists of states: a store selects, sorts, and pages in its database, and reads only the states of the page."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, final

import msgspec
import pytest

from fxai.storage.journal import Columns, Form, Selection
from fxai.storage.journal_postgres import PostgresJournals
from fxai.storage.journal_store import JournalStore, ProcessJournals, TableJournals
from tests.kit.postgres import POSTGRES, fresh_database, server_of

COLUMNS = Columns("run", "began", "status")


@final
class State(msgspec.Struct, frozen=True):
    """A state with the fields of a list."""

    run: str
    began: float
    status: str


STATES = [State(f"{'ab'[n % 2]}_{n:02}", float(n // 3), ("done", "stopped", "failed")[n % 5 % 3]) for n in range(40)]
decoded: list[str] = []


def _encode(state: Any) -> str:
    return msgspec.json.encode(state).decode()


def _decode(text: bytes) -> State:
    state = msgspec.json.decode(text, type=State)
    decoded.append(state.run)
    return state


def _data(text: bytes) -> Any:
    return msgspec.json.decode(text)


FORM: Form[Any] = Form("run", "record", _encode, _data, _encode, _decode, COLUMNS)


@pytest.fixture(params=["process", "sqlite", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> JournalStore:
    """A store that has the states."""
    url = server_of(request.param, request)
    makers: dict[str, Callable[[], JournalStore]] = {
        "process": ProcessJournals,
        "sqlite": lambda: TableJournals(tmp_path / "runs.db", FORM),
        "postgres": lambda: PostgresJournals(fresh_database(url), FORM),
    }
    store = makers[request.param]()
    assert store.select(COLUMNS, Selection()) == []
    for state in STATES:
        store.journal(state.run).append(1, state=State(state.run, 99.0, "running"))
        store.journal(state.run).append(1, state=state)
    return store


def _expected(selection: Selection) -> list[State]:
    found = sorted(STATES, key=lambda one: one.run)
    found.sort(key=lambda one: one.began, reverse=True)
    if selection.after is not None:
        names = [(one.began, one.run) for one in found]
        found = found[names.index(selection.after) + 1 :]
    found = [one for one in found if one.run.startswith(selection.prefix)]
    return [one for one in found if selection.mark in (None, one.status)][: selection.most]


def test_a_store_selects_what_a_list_has(store: JournalStore) -> None:
    """The newest states come first. The mark, the prefix, the page, and its length limit them."""
    for mark in (None, "done", "stopped", "lost"):
        for prefix in ("", "a", "a_", "a_0", "%", "ab"):
            for after in (None, *[(one.began, one.run) for one in STATES[::9]]):
                for most in (None, 0, 1, 7):
                    selection = Selection(mark, prefix, after, most)
                    assert store.select(COLUMNS, selection) == _expected(selection)


def test_a_page_is_read_alone(store: JournalStore) -> None:
    """The store decodes the states of the page only."""
    if isinstance(store, ProcessJournals):
        return
    decoded.clear()
    page = store.select(COLUMNS, Selection("done", "b", None, 3))
    assert decoded == [one.run for one in page]
    assert len(page) == 3


def test_a_database_sorts_by_an_index(tmp_path: Path) -> None:
    """A list of a SQLite database does not sort all states, with or without a status."""
    store = TableJournals(tmp_path / "runs.db", FORM)
    store.journal("a").append(1, state=STATES[0])
    seen: list[str] = []
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database:
        rows = database.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%began%'").fetchall()
        number = "CASE WHEN json_valid(state) THEN json_extract(state, '$.state.began') END"
        mark = number.replace("began", "status")
        for where in (f"{number} IS NOT NULL", f"{number} IS NOT NULL AND {mark} = 'done'"):
            select = f"SELECT name, state FROM run_state WHERE {where} ORDER BY {number} DESC, name LIMIT 5"
            seen += [str(row[3]) for row in database.execute(f"EXPLAIN QUERY PLAN {select}")]
    assert len(rows) == 2
    assert not [line for line in seen if "TEMP B-TREE" in line], seen


def test_a_damaged_state_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The list has the other states, and the log names the journal of the damaged state."""
    store = TableJournals(tmp_path / "runs.db", FORM)
    for state in STATES[:3]:
        store.journal(state.run).append(1, state=state)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        database.execute("UPDATE run_state SET state = 'no JSON' WHERE name = 'b_01'")
    assert store.select(COLUMNS, Selection(most=1)) == [STATES[0]]
    assert store.select(COLUMNS, Selection(after=(0.0, "a_00"))) == [STATES[2]]
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == ["the list omits the run 'b_01'"]
