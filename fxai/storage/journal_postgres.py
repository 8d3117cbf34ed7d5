"""Journals in a PostgreSQL database, for programs of many machines. Needs the extra `postgres`.

One table contains all journals of a kind. The owner of a journal is a row with an epoch
(`fxai.storage.postgres_owner`). The transaction of each append checks the epoch. A process has a few connections for
all its journals, and replaces broken connections. An owner retries until its lease ends.

>>> from fxai.storage.journal import JSON
>>> PostgresJournals("postgresql://ann:secret@db.example.org/runs", JSON).location
'PostgreSQL, db.example.org/runs'
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar, final
from uuid import uuid4

import anyio
from typing_extensions import override

from fxai.effects.constructor import fail, in_thread
from fxai.effects.effect import AnyEffect, Await, Effect, EffectOf, Fetch, Generate
from fxai.effects.scope import NOTHING, Scope
from fxai.storage.journal import Choose, Columns, Entry, Form, Journal, Selection
from fxai.storage.journal_store import JournalStore, decode_states
from fxai.storage.postgres import name_of, pool_of, retry_away
from fxai.storage.postgres_owner import LEASE, TABLES, holder_of

if TYPE_CHECKING:
    from psycopg import Connection

_A = TypeVar("_A")

_TABLES: Final[tuple[LiteralString, ...]] = (
    """CREATE TABLE IF NOT EXISTS fxai_journal
        (kind TEXT NOT NULL, name TEXT NOT NULL, number BIGINT NOT NULL, part INT NOT NULL, data TEXT NOT NULL,
         PRIMARY KEY (kind, name, number, part))""",
    """CREATE TABLE IF NOT EXISTS fxai_journal_state
        (kind TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, number DOUBLE PRECISION, mark TEXT,
         PRIMARY KEY (kind, name))""",
    """CREATE INDEX IF NOT EXISTS fxai_journal_state_number
        ON fxai_journal_state (kind, number DESC, name COLLATE "C")""",
    """CREATE INDEX IF NOT EXISTS fxai_journal_state_mark
        ON fxai_journal_state (kind, mark, number DESC, name COLLATE "C")""",
    *TABLES,
)
_LAST: Final = "SELECT coalesce(max(number), 0) FROM fxai_journal WHERE kind = %(kind)s AND name = %(name)s"
_NEWEST: Final = f"""SELECT number, data FROM fxai_journal
    WHERE kind = %(kind)s AND name = %(name)s AND number > ({_LAST}) - %(batch)s ORDER BY number DESC, part"""
_ROWS: Final = """SELECT number, data FROM fxai_journal
    WHERE kind = %(kind)s AND name = %(name)s AND number > %(last)s - %(batch)s AND number <= %(last)s
    ORDER BY number DESC, part"""
_HEADS: Final = """SELECT those.name, newest.number FROM unnest(%(names)s::text[]) AS those(name) CROSS JOIN LATERAL (
    SELECT number FROM fxai_journal WHERE kind = %(kind)s AND name = those.name ORDER BY number DESC LIMIT 1
    ) AS newest"""
_INSERT: Final = f"""INSERT INTO fxai_journal
    VALUES (%(kind)s, %(name)s, coalesce(%(number)s::bigint, ({_LAST}) + 1), %(part)s, %(data)s)"""
_INSERT_WITH_STATE: Final = f"""WITH entry AS ({_INSERT})
    INSERT INTO fxai_journal_state (kind, name, state, number, mark)
    VALUES (%(kind)s, %(name)s, %(state)s, %(order)s, %(mark)s)
    ON CONFLICT (kind, name) DO UPDATE SET state = excluded.state, number = excluded.number, mark = excluded.mark"""
_SELECT: Final = """SELECT name, state FROM fxai_journal_state WHERE kind = %(kind)s
    AND (%(mark)s::text IS NULL OR mark = %(mark)s) AND starts_with(name, %(prefix)s)
    AND (%(number)s::float8 IS NULL OR number <= %(number)s AND (number < %(number)s OR name COLLATE "C" > %(after)s))
    ORDER BY number DESC, name COLLATE "C" LIMIT %(most)s"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%(lock)s, 0))"
_OWNED: Final = f"""WITH turn AS MATERIALIZED ({_LOCK}) UPDATE fxai_journal_owner AS mine
    SET until = now() + %(lease)s * interval '1 s', token = %(token)s FROM turn, fxai_journal_owner AS before
    WHERE mine.kind = %(kind)s AND mine.name = %(name)s AND mine.epoch = %(epoch)s
    AND before.kind = mine.kind AND before.name = mine.name RETURNING before.token"""

_FIRST: Final = 8  # entries of the first query: most readers need only the newest entries
_BATCH: Final = 64  # entries of each further query
_PAUSE: Final = 0.2  # seconds between two attempts to own a journal


@final
class PostgresJournals(JournalStore):
    """Journals in a PostgreSQL database. The database can contain other tables."""

    def __init__(self, url: str, form: Form[Any]) -> None:
        """Create the store of the journals of a form in a database.

        Args:
            url: The URL, as for `fxai.storage.postgres.connect`.
            form: The stored form. Journals of different kinds need forms with different names.

        Raises:
            ValueError: If the URL is not a URL of PostgreSQL.
        """
        self._url = url
        self._form = form
        self.location: str = name_of(url)
        """The location of the journals, for messages, without user and password."""

    @override
    def journal(self, name: str) -> Journal[Any]:
        return PostgresJournal(self._url, name, self._form, f"{self.location}, name {name!r}")

    @override
    def states(self) -> Iterator[Any]:
        yield from self._decode(self._read("SELECT name, state FROM fxai_journal_state WHERE kind = %(kind)s"))

    @override
    def select(self, columns: Columns, selection: Selection) -> list[Any]:
        number, after = selection.after or (None, "")
        wanted = {"mark": selection.mark, "prefix": selection.prefix, "most": selection.most}
        return [*self._decode(self._read(_SELECT, **wanted, number=number, after=after))]

    def _read(self, query: LiteralString, **values: object) -> list[Any]:
        return pool_of(self._url, *_TABLES).read(query, {**values, "kind": self._form.name})

    def _decode(self, rows: list[Any]) -> Iterator[Any]:
        return decode_states(rows, lambda text: self._form.decode_state(text.encode()), self._form, self.location)

    @property
    @override
    def identity(self) -> tuple[object, ...]:
        return self.location, self._form.name, self._url

    @override
    def newest(self, names: list[str]) -> dict[str, int]:
        return dict(self._read(_HEADS, names=names))


@final
class PostgresJournal(Journal[Any]):
    """A journal in a PostgreSQL database."""

    def __init__(self, url: str, name: str, form: Form[Any], location: str) -> None:
        self._url = url
        self._form = form
        self._kind, self._name = form.name, name
        self._location = location
        self._epoch: int | None = None  # set while this program is the owner
        self._held = ExitStack()

    @property
    @override
    def location(self) -> str:
        return self._location

    @property
    def _key(self) -> dict[str, object]:
        lock = f"fxai journal {self._kind} {self._name}"
        return {"kind": self._kind, "name": self._name, "lock": lock, "epoch": self._epoch, "lease": LEASE}

    def _transact(self, work: Callable[[Connection[Any]], _A], *, repeats: bool = True) -> _A:
        """Run a function in a transaction, and return its value. If the server is away, retry for one lease.

        Args:
            work: The function.
            repeats: True if the function can run again although the server may have committed it. Default: True.
        """
        pool = pool_of(self._url, *_TABLES)
        has_begun = False

        def start() -> _A:
            nonlocal has_begun
            with pool.transaction() as database:
                has_begun = True
                return work(database)

        return retry_away(start, pool, lambda: repeats or not has_begun, seconds=LEASE)

    @override
    def read(self, f: Callable[[Iterator[Entry[Any]]], _A]) -> _A:
        pool = pool_of(self._url, *_TABLES)
        newest = {**self._key, "batch": _FIRST}
        rows = retry_away(lambda: pool.read(_NEWEST, newest), pool, lambda: True, seconds=LEASE)

        def newest_entries() -> Iterator[Entry[Any]]:  # a single statement reads them, so no transaction is necessary
            yield from self._read(rows)
            if rows and rows[0][0] > _FIRST:
                raise _MoreEntriesError

        def read_all(database: Connection[Any]) -> _A:
            database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # a consistent snapshot
            return f(self._entries(database))

        try:
            return f(newest_entries())
        except _MoreEntriesError:
            return self._transact(read_all)

    def _entries(self, database: Connection[Any]) -> Iterator[Entry[Any]]:
        rows = database.execute(_NEWEST, {**self._key, "batch": _FIRST}).fetchall()
        last = rows[0][0] if rows else 0
        yield from self._read(rows)
        last -= _FIRST
        while last > 0:
            yield from self._read(database.execute(_ROWS, {**self._key, "last": last, "batch": _BATCH}).fetchall())
            last -= _BATCH

    def _read(self, rows: list[Any]) -> Iterator[Entry[Any]]:
        parts: dict[int, list[Any]] = {}
        for number, data in rows:
            parts.setdefault(number, []).append(self._form.decode(data.encode()))
        yield from [Entry(number, tuple(those)) for number, those in parts.items()]

    @override
    def read_state(self) -> Any:
        def read(database: Connection[Any]) -> Any:
            where = "SELECT state FROM fxai_journal_state WHERE kind = %(kind)s AND name = %(name)s"
            return database.execute(where, self._key).fetchone()

        row = self._transact(read)
        return None if row is None else self._form.decode_state(row[0].encode())

    @override
    def append(self, part: Any, choose: Choose[Any] | None = None, state: Any = None) -> None:
        data = self._form.encode(part)
        state_text = None if state is None else self._form.encode_state(state)
        if "\\u0000" in data:
            raise OSError("PostgreSQL cannot store the character NUL. Remove it from the data.")
        columns, token = self._form.columns, uuid4().hex
        _, order, mark = (None, None, None) if columns is None or state is None else columns.of(state)
        row = {"data": data, "state": state_text, "order": order, "mark": mark}

        def append(database: Connection[Any]) -> None:
            if self._start(database, token):
                return  # the server committed an earlier attempt, and its reply was lost
            entry = choose(self._entries(database)) if choose else None
            at = (None, 0) if entry is None else (entry.number, len(entry.parts))
            insert = _INSERT if state_text is None else _INSERT_WITH_STATE
            database.execute(insert, {**self._key, **row, "number": at[0], "part": at[1]})

        self._transact(append, repeats=self._epoch is not None)

    def _start(self, database: Connection[Any], token: str) -> bool:
        """Wait for other programs that append. Return True if the server already committed an append with this token.

        Raises:
            OSError: If another program has taken the journal from this program.
        """
        if self._epoch is None:
            database.execute(_LOCK, self._key)
            return False
        row: Any = database.execute(_OWNED, {**self._key, "token": token}).fetchone()
        if row is None:
            raise OSError(f"another program has taken the journal in {self._location}. Run one program per journal.")
        return bool(row[0] == token)

    @override
    def clear(self) -> None:
        def clear(database: Connection[Any]) -> None:
            database.execute("DELETE FROM fxai_journal WHERE kind = %(kind)s AND name = %(name)s", self._key)
            database.execute("DELETE FROM fxai_journal_state WHERE kind = %(kind)s AND name = %(name)s", self._key)

        self._transact(clear)

    # -- its owner

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        return Generate(self._take, (wait,), {})

    def _take(self, wait: bool) -> Generator[AnyEffect, Any, None]:
        scope: Scope = yield Fetch(Scope)
        while not (yield self._try_to_own(scope)):
            if not wait:
                yield fail(BlockingIOError(f"another program owns the journal in {self._location}"))
            yield Await(lambda _: anyio.sleep(_PAUSE))  # not with the `Clock`: other programs use real time

    def _try_to_own(self, scope: Scope) -> EffectOf[bool, OSError, None]:
        def take() -> bool:
            holder = holder_of(self._url, *_TABLES)
            epoch = holder.take(self._kind, self._name)
            if epoch is not None:
                self._epoch = epoch
                self._held.callback(holder.free, self._kind, self._name, epoch)
            return epoch is not None

        def hold(taken: bool) -> bool:
            if taken:
                scope.add(lambda _: self._release())
            return taken

        return in_thread(take, OSError).map(hold).uninterruptible()

    def _release(self) -> EffectOf[None]:
        def release() -> None:
            self._epoch = None
            self._held.close()

        return in_thread(release, OSError).catch_all(lambda _: NOTHING)


class _MoreEntriesError(Exception):
    """A reader needs more entries than the first query returned."""
