"""Journals in PostgreSQL keep what journals promise: order, parts, states, one owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fxai import fx
from fxai.storage.journal import JSON, Entry
from fxai.storage.journal_postgres import PostgresJournals
from tests.kit.postgres import fresh_database


@pytest.fixture
def journals(postgres_url: str) -> PostgresJournals:
    """The journals of a fresh database."""
    return PostgresJournals(fresh_database(postgres_url), JSON)


def _newest(entries: Iterator[Entry[Any]]) -> list[Any]:
    return [entry.parts for entry in entries]


def _first(end: Any) -> object:
    return end.cause.failures[0]


@pytest.mark.slow
def test_entries_are_read_from_the_newest(journals: PostgresJournals) -> None:
    """Each with its parts in order, however many there are; other journals have their own."""
    journal = journals.journal("ann")
    for number in range(150):
        journal.append(number)
    journal.append("end", next)
    journals.journal("bob").append("hello")
    assert journal.read(_newest) == [(149, "end"), *[(number,) for number in range(148, -1, -1)]]
    assert journals.journal("bob").read(_newest) == [("hello",)]


@pytest.mark.slow
def test_a_state_is_the_one_that_came_last(journals: PostgresJournals) -> None:
    """It is listed, and gone when the journal is cleared."""
    journal = journals.journal("ann")
    assert journal.read_state() is None
    journal.append(1, state={"n": 1})
    journal.append(2, state={"n": 2})
    journal.append(3)
    assert journal.read_state() == {"n": 2}
    assert list(journals.states()) == [{"n": 2}]
    journals.remove("ann")
    assert journal.read(_newest) == []
    assert list(journals.states()) == []


@pytest.mark.slow
def test_one_program_owns_a_journal(journals: PostgresJournals) -> None:
    """Another one is refused, also in this process, until the scope of the first closes; others may append."""
    first, second = journals.journal("ann"), journals.journal("ann")

    def both() -> Any:
        yield from first.own(wait=False)
        second.append("from outside")
        first.append("from the owner")
        return (yield from fx.scoped(second.own(wait=False)).exit())

    end: Any = fx.run(fx.scoped(fx.gen(both)()))
    assert isinstance(_first(end), BlockingIOError)
    assert first.read(_newest) == [("from the owner",), ("from outside",)]
    assert fx.run(fx.scoped(second.own(wait=False))) is None


@pytest.mark.slow
def test_what_cannot_be_stored_is_refused(journals: PostgresJournals) -> None:
    """PostgreSQL has no NUL in texts: the failure says so, and nothing is appended."""
    journal = journals.journal("ann")
    with pytest.raises(OSError, match="NUL"):
        journal.append("a\x00b")
    assert journal.read(_newest) == []


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    """It names the place and what to do."""
    journals = PostgresJournals("postgresql://ann:secret@127.0.0.1:1/runs", JSON)
    with pytest.raises(OSError, match="Check that the server runs") as raised:
        journals.journal("ann").append(1)
    assert "secret" not in str(raised.value)
    with pytest.raises(ValueError, match="postgresql://"):
        PostgresJournals("mysql://ann@localhost/runs", JSON)
