"""Owners of journals in PostgreSQL: one at a time, fenced by an epoch, and independent of connections."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fxai import fx
from fxai.effects import Gen
from fxai.storage import postgres, postgres_owner
from fxai.storage.journal import JSON, Entry
from fxai.storage.journal_postgres import PostgresJournals
from fxai.storage.postgres import ServerAwayError, pool_of, retry_away
from fxai.storage.postgres_owner import is_gone, new_holder
from tests.kit.postgres import PostgresServer, fresh_database, own_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that tests restart."""
    with own_postgres() as server:
        yield server


def _parts(entries: Iterator[Entry[Any]]) -> list[Any]:
    return [entry.parts[0] for entry in entries]


def _own(journals: PostgresJournals, name: str, inside: Any) -> Any:
    """Runs a function while this program owns a journal; gives its value, or how that failed."""
    journal = journals.journal(name)

    def program() -> Gen[Any, Any, Any]:
        yield from journal.own(wait=False)
        return (yield from fx.attempt(lambda: inside(journal), OSError))

    return fx.run_exit(fx.scoped(fx.gen(program)()))


def _execute(url: str, statement: bytes) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(statement)


def test_this_process_is_not_gone() -> None:
    """A process that has ended is; a holder of another machine is not known to be."""
    ended = subprocess.run(
        [sys.executable, "-c", "from fxai.storage.postgres_owner import new_holder; print(new_holder())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert is_gone(ended)
    mine = new_holder()
    assert not is_gone(mine)
    name, _, pid, start = mine.split(" ")
    assert not is_gone(f"{name} other-machine {pid} {start}")
    assert not is_gone(f"{name} other-machine 999999 1")
    assert is_gone(mine.rpartition(" ")[0] + " 1")  # another process has the number now


@pytest.mark.slow
def test_an_owner_that_was_replaced_writes_nothing(server: PostgresServer) -> None:
    """Another program took the journal after the lease: the epoch of the first is refused in its transaction."""
    url = fresh_database(server.url)
    journals = PostgresJournals(url, JSON)

    def lose(journal: Any) -> None:
        journal.append("mine")
        _execute(url, b"UPDATE fxai_journal_owner SET epoch = epoch + 1, holder = 'another'")
        journal.append("too late")

    end = _own(journals, "ann", lose)
    assert "another program has taken" in str(end.cause.failures[0])
    assert journals.journal("ann").read(_parts) == ["mine"]
    assert _own(journals, "ann", _nothing).cause.failures  # the other program still has it


def _nothing(_: Any) -> None:
    """Does nothing."""


@pytest.mark.slow
def test_a_lease_that_ended_frees_the_journal(server: PostgresServer) -> None:
    """The owner is a process of another machine, which may be lost; until then its journal is not free."""
    url = fresh_database(server.url)
    journals = PostgresJournals(url, JSON)
    assert not hasattr(_own(journals, "ann", _nothing), "cause")
    _execute(url, b"UPDATE fxai_journal_owner SET holder = 'another', until = now() + interval '1 hour'")
    assert isinstance(_own(journals, "ann", _nothing).cause.failures[0], BlockingIOError)
    _execute(url, b"UPDATE fxai_journal_owner SET until = now() - interval '1 s'")
    assert not hasattr(_own(journals, "ann", _nothing), "cause")


@pytest.mark.slow
def test_a_restart_costs_an_owner_only_time(server: PostgresServer) -> None:
    """An append waits for the server, is written once, and the journal has no other owner meanwhile."""
    journals = PostgresJournals(fresh_database(server.url), JSON)

    def write(journal: Any) -> None:
        journal.append("before")
        server.stop()
        threading.Timer(0.5, server.start).start()
        journal.append("after")

    assert not hasattr(_own(journals, "ann", write), "cause")
    assert journals.journal("ann").read(_parts) == ["after", "before"]


@pytest.mark.slow
def test_a_commit_whose_reply_was_lost_is_not_repeated(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has committed, and the connection breaks before the owner hears of it."""
    journals = PostgresJournals(fresh_database(server.url), JSON)
    lost: list[int] = []

    def write(journal: Any) -> None:
        commit = psycopg.Connection.transaction

        def breaking(self: Any, *args: Any) -> Any:
            return _Breaking(commit(self, *args), lost)

        monkeypatch.setattr(psycopg.Connection, "transaction", breaking)
        journal.append("once")

    assert not hasattr(_own(journals, "ann", write), "cause")
    assert lost == [1]
    monkeypatch.undo()
    assert journals.journal("ann").read(_parts) == ["once"]


class _Breaking:
    """A transaction that is committed, and seems to fail once."""

    def __init__(self, transaction: Any, lost: list[int]) -> None:
        self._transaction = transaction
        self._lost = lost

    def __enter__(self) -> Any:
        return self._transaction.__enter__()

    def __exit__(self, *error: Any) -> Any:
        done = self._transaction.__exit__(*error)
        if error[0] is None and not self._lost:
            self._lost.append(1)
            raise psycopg.OperationalError("the connection is lost")
        return done


@pytest.mark.slow
def test_an_owner_waits_for_the_server_no_longer_than_its_lease(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then another program may have the journal."""
    from fxai.storage import journal_postgres

    journals = PostgresJournals(fresh_database(server.url), JSON)
    monkeypatch.setattr(journal_postgres, "LEASE", 0.3)

    def write(journal: Any) -> None:
        server.stop()
        try:
            journal.append("never")
        finally:
            server.start()

    assert isinstance(_own(journals, "ann", write).cause.failures[0], ServerAwayError)


@pytest.mark.slow
def test_leases_are_renewed_while_nothing_is_written(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call can take longer than a lease."""
    url = fresh_database(server.url)
    monkeypatch.setattr(postgres_owner, "LEASE", 0.6)
    journals = PostgresJournals(url, JSON)

    def wait(journal: Any) -> Any:
        _execute(url, b"UPDATE fxai_journal_owner SET until = now() - interval '1 hour'")
        for _ in range(200):
            with psycopg.connect(url) as database:
                row: Any = database.execute("SELECT until > now() FROM fxai_journal_owner").fetchone()
            if row[0]:
                return True
            time.sleep(0.05)
        return False

    assert _own(journals, "ann", wait).value


@pytest.mark.slow
def test_owners_need_few_connections(server: PostgresServer) -> None:
    """150 programs own a journal each, on a server with 20 connections."""
    url = fresh_database(server.url)
    server.stop()
    server.start("-c", "max_connections=20")
    journals = PostgresJournals(url, JSON)
    most: list[int] = []

    def own(number: int) -> Any:
        journal = journals.journal(f"run {number}")

        def program() -> Gen[Any, Any, Any]:
            yield from journal.own(wait=False)
            yield from fx.attempt(lambda: journal.append(number), OSError)
            yield from fx.sleep(0.2)
            yield from fx.attempt(lambda: journal.append(number), OSError)

        return fx.scoped(fx.gen(program)())

    def count() -> None:
        with psycopg.connect(url) as database:
            row: Any = database.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            most.append(row.fetchone()[0])

    counted = fx.sleep(0.3).and_then(fx.attempt(count, OSError))
    fx.run(fx.all_(fx.for_each(range(150), own, concurrency=None), counted))
    assert most[0] <= 10
    assert sum(1 for number in range(150) if journals.journal(f"run {number}").read(_parts) == [number] * 2) == 150


def test_a_program_that_starts_does_not_wait_for_programs_that_write(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables exist, so it changes nothing: a statement that waits for writers makes others wait, or a deadlock."""
    url = fresh_database(server.url)
    journals = PostgresJournals(url, JSON)
    journals.journal("ann").append("one", state="one")
    monkeypatch.setattr(postgres, "_prepared", set[Any]())
    monkeypatch.setattr(postgres, "_WAIT", 1)
    with psycopg.connect(url) as writer:
        for table in ("fxai_journal", "fxai_journal_state", "fxai_journal_owner"):
            writer.execute(f"DELETE FROM {table}".encode())
        assert list(journals.states()) == ["one"]


def test_work_that_the_server_has_undone_is_repeated(server: PostgresServer) -> None:
    """A deadlock leaves nothing behind, so work can be repeated that is never done twice."""
    pool = pool_of(fresh_database(server.url), "CREATE TABLE IF NOT EXISTS note (text TEXT)")
    tries: list[int] = []

    def note() -> None:
        with pool.transaction() as database:
            database.execute("INSERT INTO note VALUES ('one')")
            tries.append(len(tries))
            if len(tries) < 3:
                database.execute("DO $$ BEGIN RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; END $$")

    retry_away(note, pool, lambda: False, seconds=30)
    with pool.transaction() as database:
        assert database.execute("SELECT text FROM note").fetchall() == [("one",)]
    assert tries == [0, 1, 2]
