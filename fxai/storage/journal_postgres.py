"""Journals in a PostgreSQL database, for programs of many machines. Needs the extra `postgres`.

All journals of a kind stand in one table. The owner of a journal holds a lock of the server by a connection of its own,
and writes by that connection: when it breaks, the lock is free, and the one who had it can write nothing any more.

>>> from fxai.storage.journal import JSON
>>> PostgresJournals("postgresql://ann:secret@db.example.org/runs", JSON).place
'PostgreSQL, db.example.org/runs'
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar, final
from urllib.parse import urlsplit

import anyio
from typing_extensions import override

from fxai.effects.constructor import attempt_work, fail
from fxai.effects.effect import AnyEffect, Await, Effect, EffectOf, Fetch, Generate
from fxai.effects.scope import NOTHING, Scope
from fxai.storage.journal import Choose, Entry, Form, Journal
from fxai.storage.journal_store import JournalStore, Newest
from fxai.storage.postgres import connect, lock, transact
from fxai.storage.private_file import warn

if TYPE_CHECKING:
    from psycopg import Connection

_A = TypeVar("_A")

_TABLES: Final[tuple[LiteralString, ...]] = (
    """CREATE TABLE IF NOT EXISTS fxai_journal
        (kind TEXT NOT NULL, name TEXT NOT NULL, number BIGINT NOT NULL, part INT NOT NULL, data TEXT NOT NULL,
         PRIMARY KEY (kind, name, number, part))""",
    """CREATE TABLE IF NOT EXISTS fxai_journal_state
        (kind TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (kind, name))""",
)
_NEWEST: Final = "SELECT coalesce(max(number), 0) FROM fxai_journal WHERE kind = %s AND name = %s"
_ROWS: Final = """SELECT number, data FROM fxai_journal
    WHERE kind = %s AND name = %s AND number > %s AND number <= %s ORDER BY number DESC, part"""
_HEADS: Final = """SELECT those.name, newest.number FROM unnest(%s::text[]) AS those(name) CROSS JOIN LATERAL
    (SELECT number FROM fxai_journal WHERE kind = %s AND name = those.name ORDER BY number DESC LIMIT 1) AS newest"""
_INSERT: Final = "INSERT INTO fxai_journal VALUES (%s, %s, %s, %s, %s)"
_SET_STATE: Final = """INSERT INTO fxai_journal_state VALUES (%s, %s, %s)
    ON CONFLICT (kind, name) DO UPDATE SET state = excluded.state"""
_OWN: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_ALIVE: Final = (
    "SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false)"
)

_BATCH: Final = 64  # entries that are read at once
_PAUSE: Final = 0.2  # seconds between two tries to own a journal


@final
class PostgresJournals(JournalStore):
    """Journals in a PostgreSQL database, which may hold other tables as well."""

    def __init__(self, url: str, form: Form[Any]) -> None:
        """The journals of a form in a database.

        Args:
            url: as for `fxai.storage.postgres.connect`.
            form: how they are written; its name tells the journals of different kinds apart.

        Raises:
            ValueError: it is no URL of PostgreSQL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise ValueError("a PostgreSQL database is named by postgresql://USER:PASSWORD@HOST/DATABASE")
        self._url = url
        self._form = form
        self.place: str = f"PostgreSQL, {parts.hostname or 'of this machine'}{parts.path}"
        """Where they are, in words, without user and password."""

    @override
    def journal(self, name: str) -> Journal[Any]:
        return PostgresJournal(self._url, name, self._form, f"{self.place}, {self._form.key} {name!r}")

    @override
    def states(self) -> Iterator[Any]:
        with connect(self._url, *_TABLES) as database:
            kind = (self._form.name,)
            rows = database.execute("SELECT name, state FROM fxai_journal_state WHERE kind = %s", kind).fetchall()
        for name, text in rows:
            try:
                yield self._form.decode_state(text.encode())
            except OSError as error:
                warn("the %s %r in %s is left out of the list: %s", self._form.name, name, self.place, error)

    @property
    @override
    def identity(self) -> tuple[object, ...]:
        return self.place, self._form.name, self._url

    @override
    @contextmanager
    def looking(self) -> Generator[Newest]:
        with connect(self._url, *_TABLES) as database:  # one connection, as long as it is looked
            yield lambda names: dict(database.execute(_HEADS, (names, self._form.name)).fetchall())


@final
class PostgresJournal(Journal[Any]):
    """A journal in a PostgreSQL database."""

    def __init__(self, url: str, name: str, form: Form[Any], place: str) -> None:
        self._url = url
        self._form = form
        self._key = (form.name, name)
        self._place = place
        self._own: Connection[Any] | None = None
        self._held = ExitStack()
        self._turn = threading.Lock()  # of the connection that owns it: one statement at a time

    @property
    @override
    def place(self) -> str:
        return self._place

    @contextmanager
    def _open(self) -> Generator[Connection[Any]]:
        """The connection that owns the journal, or else one for the moment."""
        own = self._own
        if own is None:
            with connect(self._url, *_TABLES) as database:
                yield database
            return
        import psycopg  # there is a connection of it

        with self._turn:
            try:
                yield own
            except psycopg.Error as error:
                raise OSError(
                    f"PostgreSQL refuses: {str(error).strip()}; the journal may have another owner"
                ) from error

    @override
    def read(self, f: Callable[[Iterator[Entry[Any]]], _A]) -> _A:
        with self._open() as database, transact(database):
            database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # one moment
            return f(self._entries(database))

    def _entries(self, database: Connection[Any]) -> Iterator[Entry[Any]]:
        newest = self._newest(database)
        while newest > 0:
            parts: dict[int, list[Any]] = {}
            rows = database.execute(_ROWS, (*self._key, newest - _BATCH, newest)).fetchall()
            for number, data in rows:
                parts.setdefault(number, []).append(self._form.decode(data.encode()))
            yield from [Entry(number, tuple(those)) for number, those in parts.items()]
            newest -= _BATCH

    def _newest(self, database: Connection[Any]) -> int:
        row: Any = database.execute(_NEWEST, self._key).fetchone()
        return int(row[0])

    @override
    def read_state(self) -> Any:
        with self._open() as database:
            where = "SELECT state FROM fxai_journal_state WHERE kind = %s AND name = %s"
            row: Any = database.execute(where, self._key).fetchone()
        return None if row is None else self._form.decode_state(row[0].encode())

    @override
    def append(self, part: Any, choose: Choose[Any] | None = None, state: Any = None) -> None:
        data = self._form.encode(part)
        state_text = None if state is None else self._form.encode_state(state)
        if "\\u0000" in data:
            raise OSError("PostgreSQL stores no text with the character NUL; leave it out")
        with self._open() as database, transact(database):
            lock(database, [" ".join(("fxai journal", *self._key))])
            entry = choose(self._entries(database)) if choose else None
            at = (self._newest(database) + 1, 0) if entry is None else (entry.number, len(entry.parts))
            database.execute(_INSERT, (*self._key, *at, data))
            if state_text is not None:
                database.execute(_SET_STATE, (*self._key, state_text))

    @override
    def clear(self) -> None:
        with self._open() as database, transact(database):
            database.execute("DELETE FROM fxai_journal WHERE kind = %s AND name = %s", self._key)
            database.execute("DELETE FROM fxai_journal_state WHERE kind = %s AND name = %s", self._key)

    # -- its owner

    @override
    def own(self, *, wait: bool = True) -> Effect[None, OSError, Scope]:
        return Generate(self._take, (wait,), {})

    def _take(self, wait: bool) -> Generator[AnyEffect, Any, None]:
        scope: Scope = yield Fetch(Scope)
        while not (yield self._try_to_own(scope)):
            if not wait:
                yield fail(BlockingIOError(f"another program owns the journal in {self._place}"))
            yield Await(lambda _: anyio.sleep(_PAUSE))  # no matter of the `Clock`: others live in real time

    def _try_to_own(self, scope: Scope) -> EffectOf[bool, OSError, None]:
        def take() -> bool:
            with ExitStack() as stack:
                database = stack.enter_context(connect(self._url, *_TABLES))
                database.execute(_ALIVE)
                row: Any = database.execute(_OWN, (" ".join(("fxai owner", *self._key)),)).fetchone()
                if not row[0]:
                    return False
                self._own = database
                self._held = stack.pop_all()
            return True

        def hold(taken: bool) -> bool:
            if taken:
                scope.add(lambda _: self._release())
            return taken

        return attempt_work(take, _os_error).map(hold).uninterruptible()

    def _release(self) -> EffectOf[None]:
        def release() -> None:
            self._own = None
            self._held.close()

        return attempt_work(release, _os_error).catch_all(lambda _: NOTHING)


def _os_error(error: Exception) -> OSError | None:
    return error if isinstance(error, OSError) else None
