"""PostgreSQL databases, by their URL; the one place that opens them. Needs the extra `postgres`.

What goes wrong is an `OSError`, as with files and SQLite: whoever stores something need not know where.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

if TYPE_CHECKING:
    from psycopg import Connection

_WAIT: Final = 30  # seconds for the server, and for others that hold a lock
_SETUP: Final = "fxai: tables"

_prepared: Final[set[tuple[str, tuple[str, ...]]]] = set()  # the databases that had their tables in this process


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
                with transact(database):
                    lock(database, [_SETUP])  # two that make one table at once would fail
                    for table in tables:
                        database.execute(table)
                _prepared.add((url, tables))
            yield database
    except psycopg.Error as error:  # whose words name the host and the user, and never the password
        raise OSError(
            f"PostgreSQL refuses: {str(error).strip()}; see that it runs, and that the URL is right"
        ) from error


@contextmanager
def transact(database: Connection[Any]) -> Generator[None]:
    """A transaction, which is undone when it fails."""
    with database.transaction():
        yield


def lock(database: Connection[Any], names: list[str]) -> None:
    """Keeps others out that lock one of these names, until the transaction ends; those who wait are in line."""
    every = sorted(names)  # in one order everywhere, so that no two wait for each other
    database.execute("SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(%s::text[]) name", (every,))
