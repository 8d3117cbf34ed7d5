"""Connections to PostgreSQL databases, by URL. Only this module opens them. Needs the extra `postgres`.

All errors are `OSError`s, like the errors of files and SQLite, so callers need not know the kind of store.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar, final
from urllib.parse import urlsplit

from fxai.storage.pool import Pool

if TYPE_CHECKING:
    from psycopg import Connection

_A = TypeVar("_A")

_WAIT: Final = 30  # seconds to wait for the server and for locks
_SETUP: Final = "fxai: tables"
_MOST: Final = 8  # connections of a pool: a further thread waits

_prepared: Final[set[tuple[str, tuple[str, ...]]]] = set()  # the databases whose tables this process has created
_pools: Final[dict[tuple[str, tuple[str, ...]], PostgresPool]] = {}
_AWAY: Final = ("08", "57P", "53300")  # SQLSTATEs of a server that stops, starts, or has no free connection
_CONFLICTS: Final = ("40001", "40P01")  # SQLSTATEs of a conflict with another transaction, such as a deadlock
_CREATED: Final = re.compile(r"CREATE (?:TABLE|INDEX|SEQUENCE) IF NOT EXISTS (\w+)")


class ServerAwayError(OSError):
    """A temporary error of the server. The server may have committed the last transaction."""


@final
class ConflictError(ServerAwayError):
    """A conflict with another transaction. The server has rolled back the transaction."""


@contextmanager
def connect(url: str, *tables: LiteralString) -> Generator[Connection[Any]]:
    """Return a context with a connection to a database. The connection commits each statement separately.

    Args:
        url: `postgresql://USER:PASSWORD@HOST/DATABASE`. libpq reads omitted parts from the environment.
        tables: The statements that create missing tables.

    Raises:
        ImportError: If the extra `postgres` is not installed.
        OSError: If fxai cannot reach the server, the server refuses, or a statement inside the block fails.
    """
    try:
        import psycopg  # only for this kind of database
    except ModuleNotFoundError as error:
        raise ImportError("PostgreSQL requires psycopg. Install it: pip install 'fxai[postgres]'") from error

    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=_WAIT) as database:
            database.execute("SELECT set_config('lock_timeout', %s, false)", (f"{_WAIT}s",))
            if (url, tables) not in _prepared:
                _create(database, tables)
                _prepared.add((url, tables))
            yield database
    except psycopg.Error as error:  # its message contains the host and the user, but never the password
        raise error_type(error)(
            f"PostgreSQL failed: {str(error).strip()}. Check that the server runs and that the URL is correct."
        ) from error


def name_of(url: str) -> str:
    """Return the host and the database of a URL, for messages, without user and password.

    Raises:
        ValueError: If the URL is not a URL of PostgreSQL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"URL must be postgresql://USER:PASSWORD@HOST/DATABASE, got the scheme {parts.scheme!r}")
    return f"PostgreSQL, {parts.hostname or 'of this machine'}{parts.path}"


def _create(database: Connection[Any], tables: tuple[LiteralString, ...]) -> None:
    """Execute the statements whose table, index, or sequence does not exist.

    `CREATE INDEX` waits for all programs that write, and they wait for it, even if the index exists. Therefore fxai
    executes only necessary statements. Each statement has its own transaction, so it cannot cause a deadlock.
    """
    named = {table: found[1] for table in tables if (found := _CREATED.match(table))}
    query = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL"
    there = {row[0] for row in database.execute(query, ([*named.values()],)).fetchall()}
    for table in tables:
        if named.get(table) not in there:
            with database.transaction():
                lock(database, [_SETUP])  # two programs that create a table at the same time would fail
                database.execute(table)


def error_type(error: object) -> type[OSError]:
    """Return the type of `OSError` that replaces an error of psycopg or of another library."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return OSError
    if error.sqlstate in _CONFLICTS:
        return ConflictError
    return ServerAwayError if error.sqlstate is None or error.sqlstate.startswith(_AWAY) else OSError


def lock(database: Connection[Any], names: list[str]) -> None:
    """Lock names until the transaction ends. Waiting transactions get the locks in the order of their requests."""
    every = sorted(names)  # sorted, so that two transactions cannot cause a deadlock
    database.execute("SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(%s::text[]) name", (every,))


@final
class PostgresPool:
    """A few connections to a database for all threads of the process. The pool replaces broken connections.

    The maximum number of connections is constant, because a server has few connections, and a process can have many
    runs.
    """

    def __init__(self, url: str, tables: tuple[LiteralString, ...]) -> None:
        self._pool: Pool[Connection[Any]] = Pool(lambda: connect(url, *tables), _is_usable, idle=_MOST)
        self._free = threading.BoundedSemaphore(_MOST)
        self.was_reached: bool = False
        """True if the process has reached the server before, so that retries are useful."""
        self._open = ExitStack()
        self._open.enter_context(self._pool.stay_open())
        atexit.register(self._open.close)

    @contextmanager
    def transaction(self) -> Generator[Connection[Any]]:
        """Return a context with a connection in a transaction. If the block fails, the server rolls it back.

        Raises:
            ServerAwayError: If fxai cannot reach the server.
            OSError: If the server refuses a statement.
        """
        with self._free, self._pool.take(lambda database: database.transaction()) as database:
            self.was_reached = True
            yield database

    def read(self, query: LiteralString, values: Mapping[str, object]) -> list[Any]:
        """Return the rows of a single query without a transaction.

        Raises:
            ServerAwayError: If fxai cannot reach the server.
            OSError: If the server refuses the query.
        """
        rows: list[Any] = []

        @contextmanager
        def run(database: Connection[Any]) -> Generator[None]:  # the pool replaces a broken connection here
            rows.extend(database.execute(query, values).fetchall())
            yield

        with self._free, self._pool.take(run):
            self.was_reached = True
        return rows

    def forget(self) -> None:
        """Reset the pool in a forked process, because threads of its parent may have had connections."""
        self._free = threading.BoundedSemaphore(_MOST)


def _is_usable(database: Connection[Any]) -> bool:
    return not database.closed


def retry_away(work: Callable[[], _A], pool: PostgresPool, may_repeat: Callable[[], bool], *, seconds: float) -> _A:
    """Run a function and return its value. Retry after a conflict, or if the server was reached before but is away now.

    Args:
        work: The function.
        pool: The pool of the function.
        may_repeat: Returns True if the function can run again although the server may have committed it.
        seconds: Maximum time of all attempts, in seconds.

    Raises:
        ServerAwayError: If the server stays away or was never reached, or the function must not run again.
    """
    late = time.monotonic() + seconds
    for attempt in count():
        try:
            return work()
        except ServerAwayError as error:
            can_repeat = isinstance(error, ConflictError) or (pool.was_reached and may_repeat())
            if not can_repeat or time.monotonic() > late:
                raise
            time.sleep(min(1.0, 0.05 * 2**attempt))
    raise AssertionError


def pool_of(url: str, *tables: LiteralString) -> PostgresPool:
    """Return the pool of this process for a database.

    Args:
        url: The URL, as for `connect`.
        tables: The statements that create its tables.
    """
    key = url, tables
    found = _pools.get(key)
    if found is None:
        found = _pools.setdefault(key, PostgresPool(url, tables))
    return found


def _forget_all() -> None:
    for pool in _pools.values():
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
