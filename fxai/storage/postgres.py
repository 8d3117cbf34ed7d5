"""PostgreSQL databases, by their URL; the one place that opens them. Needs the extra `postgres`.

What goes wrong is an `OSError`, as with files and SQLite: whoever stores something need not know where.
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

from fxai.storage.pool import Pool

if TYPE_CHECKING:
    from psycopg import Connection

_A = TypeVar("_A")

_WAIT: Final = 30  # seconds for the server, and for others that hold a lock
_SETUP: Final = "fxai: tables"
_MOST: Final = 8  # connections of a pool: threads that need one more wait

_prepared: Final[set[tuple[str, tuple[str, ...]]]] = set()  # the databases that had their tables in this process
_pools: Final[dict[tuple[str, tuple[str, ...]], PostgresPool]] = {}
_AWAY: Final = ("08", "57P", "53300")  # SQLSTATEs of a server that ends, starts, or has no free connection
_CONFLICTS: Final = ("40001", "40P01")  # SQLSTATEs of a conflict with another transaction, such as a deadlock
_CREATED: Final = re.compile(r"CREATE (?:TABLE|INDEX|SEQUENCE) IF NOT EXISTS (\w+)")


class ServerAwayError(OSError):
    """The server cannot do the work now, but may do it later. It may have committed the last transaction."""


@final
class ConflictError(ServerAwayError):
    """The server has undone the transaction because of a conflict with another transaction."""


@contextmanager
def connect(url: str, *tables: LiteralString) -> Generator[Connection[Any]]:
    """A connection to a database, which commits each statement by itself; it is closed at the end of the `with`.

    Args:
        url: `postgresql://USER:PASSWORD@HOST/DATABASE`; libpq takes what is left out from the environment.
        tables: statements that make its tables, where they are not there.

    Raises:
        ImportError: the extra `postgres` is not installed.
        OSError: the server cannot be reached or refuses, or a statement inside the `with` fails.
    """
    try:
        import psycopg  # only where there is such a database
    except ModuleNotFoundError as error:
        raise ImportError("PostgreSQL needs psycopg, which the extra brings: pip install 'fxai[postgres]'") from error

    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=_WAIT) as database:
            database.execute("SELECT set_config('lock_timeout', %s, false)", (f"{_WAIT}s",))
            if (url, tables) not in _prepared:
                _create(database, tables)
                _prepared.add((url, tables))
            yield database
    except psycopg.Error as error:  # whose words name the host and the user, and never the password
        raise error_type(error)(
            f"PostgreSQL refuses: {str(error).strip()}; see that it runs, and that the URL is right"
        ) from error


def _create(database: Connection[Any], tables: tuple[LiteralString, ...]) -> None:
    """Execute the statements whose table, index, or sequence does not exist.

    `CREATE INDEX` waits for all programs that write, and they wait for it, even if the index exists. So fxai executes
    no statement that is not needed, and each statement in a transaction of its own, which cannot cause a deadlock.
    """
    named = {table: found[1] for table in tables if (found := _CREATED.match(table))}
    query = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL"
    there = {row[0] for row in database.execute(query, ([*named.values()],)).fetchall()}
    for table in tables:
        if named.get(table) not in there:
            with transact(database):
                lock(database, [_SETUP])  # two that make one table at once would fail
                database.execute(table)


def error_type(error: object) -> type[OSError]:
    """Return the type of the `OSError` that stands for an error of psycopg or of another library."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return OSError
    if error.sqlstate in _CONFLICTS:
        return ConflictError
    return ServerAwayError if error.sqlstate is None or error.sqlstate.startswith(_AWAY) else OSError


@contextmanager
def transact(database: Connection[Any]) -> Generator[None]:
    """A transaction, which is undone when it fails."""
    with database.transaction():
        yield


def lock(database: Connection[Any], names: list[str]) -> None:
    """Keeps others out that lock one of these names, until the transaction ends; those who wait are in line."""
    every = sorted(names)  # in one order everywhere, so that no two wait for each other
    database.execute("SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(%s::text[]) name", (every,))


@final
class PostgresPool:
    """A few connections to one database for all threads of the process. A broken connection is replaced.

    The number of connections is constant, because a server has few of them, and a process can have many runs.
    """

    def __init__(self, url: str, tables: tuple[LiteralString, ...]) -> None:
        self._pool: Pool[Connection[Any]] = Pool(lambda: connect(url, *tables), _is_usable, idle=_MOST)
        self._free = threading.BoundedSemaphore(_MOST)
        self.was_reached: bool = False
        """True if the process has reached the server before, so that the server may come back."""
        self._open = ExitStack()
        self._open.enter_context(self._pool.stay_open())
        atexit.register(self._open.close)

    @contextmanager
    def transaction(self) -> Generator[Connection[Any]]:
        """A connection in a transaction, which is undone if the block fails.

        Raises:
            ServerAwayError: The server cannot be reached.
            OSError: The server refuses a statement.
        """
        with self._free, self._pool.take(transact) as database:
            self.was_reached = True
            yield database

    def read(self, query: LiteralString, values: Mapping[str, object]) -> list[Any]:
        """Return the rows of one query, which needs no transaction.

        Raises:
            ServerAwayError: The server cannot be reached.
            OSError: The server refuses the query.
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
        """Start again in a process that was forked while threads of its parent had connections."""
        self._free = threading.BoundedSemaphore(_MOST)


def _is_usable(database: Connection[Any]) -> bool:
    return not database.closed


def retry_away(work: Callable[[], _A], pool: PostgresPool, may_repeat: Callable[[], bool], *, seconds: float) -> _A:
    """Return the value of some work. If the server is away that was there before, or has undone the work, try again.

    Args:
        work: The work.
        pool: The pool that it uses.
        may_repeat: Returns whether the work can be repeated that the server may have committed.
        seconds: Maximum time in seconds.

    Raises:
        ServerAwayError: The server stays away, was never there, or the work cannot be repeated.
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
    """Return the pool of a database in this process.

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
