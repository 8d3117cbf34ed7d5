"""Private SQLite databases: files that only their owner can read, with their journals.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "notes.db"
...     with connect(path, "CREATE TABLE IF NOT EXISTS note (text TEXT) STRICT") as database, transact(database):
...         done = database.execute("INSERT INTO note VALUES ('buy milk')")
...     oct(path.stat().st_mode & 0o777)
'0o600'
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, final
from weakref import WeakValueDictionary

from typing_extensions import override

from fxai.storage.pool import Pool
from fxai.storage.private_file import create_file, file_path, protect, warn

if TYPE_CHECKING:
    from sqlite3 import Connection

_WAIT: Final = 30.0  # seconds to wait for other writers
_BESIDE: Final = ("-wal", "-shm", "-journal")
_CREATING = threading.Lock()


def database_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a database, as `file_path` returns it.

    Raises:
        ValueError: If no file can have this path, or SQLite would create a temporary database.
    """
    if os.fspath(path) == ":memory:":
        raise ValueError("':memory:' is a database that ends with its connection. Use the path of a file.")
    return file_path(path)


@contextmanager
def connect(path: Path, *tables: str, any_thread: bool = False) -> Generator[Connection]:
    """Return a context with a connection to a database in WAL mode, which writes to the disk at each commit.

    It creates the database and its directories if they do not exist. The database and its journals have the mode 0600
    or a stricter mode. It waits up to 30 s for other writers.

    Args:
        path: Path of the database from `database_path`.
        tables: Statements that create the tables if they do not exist.
        any_thread: True if other threads use the connection too, one at a time. Default: False.

    Raises:
        OSError: If SQLite refuses, the path is not a private file, or a statement inside the `with` fails.
    """
    import sqlite3  # only databases need it

    with _CREATING:  # closing a new file must not free the locks of another thread on the file
        size = _protect(path, tables)
    try:
        with closing(_open(path, any_thread=any_thread)) as database:
            database.execute("PRAGMA schema_version")  # it reads the first page
            pages: tuple[int] = database.execute("PRAGMA page_size").fetchone()
            if size % pages[0]:  # SQLite would read the missing bytes as zeros
                raise OSError(f"{path} is damaged: it ends inside a page. Restore it from a backup.")
            _prepare(database, tables)
            yield database
    except UnicodeEncodeError as error:
        text = f"cannot store {error.object[:80]!r}: it contains half a surrogate pair"
        raise OSError(f"{text}. Use whole characters.") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the message of an error can be damaged too
        raise OSError(f"{error}. Check that {path} is a SQLite database that no other program locks.") from error


@final
class DatabasePool:
    """Connections to one database, which stay open only inside `stay_open`. Threads can share the pool.

    Args:
        path: Path of the database from `database_path`.
        tables: Statements that create the tables if they do not exist.
    """

    def __init__(self, path: Path, *tables: str) -> None:
        self._path = path
        self._tables = tables
        self._pool: Pool[tuple[Connection, tuple[int, int]]] = Pool(self._connect, self._is_there)

    @override
    def __reduce__(self) -> tuple[Callable[..., DatabasePool], tuple[Path | str, ...]]:
        return pool_of, (self._path, *self._tables)  # another process opens its own

    def stay_open(self) -> AbstractContextManager[None]:
        """Return a context that keeps connections open."""
        return self._pool.stay_open()

    @contextmanager
    def take(
        self, start: Callable[[Connection], AbstractContextManager[object]] = nullcontext
    ) -> Generator[Connection]:
        """Return a context with a connection inside the context of `start`, such as `transact`. Raises as `connect`."""
        with self._pool.take(lambda opened: start(opened[0])) as (database, _):
            yield database

    @contextmanager
    def _connect(self) -> Generator[tuple[Connection, tuple[int, int]]]:
        with connect(self._path, *self._tables, any_thread=True) as database:
            yield database, self._file()

    def _file(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino

    def _is_there(self, opened: tuple[Connection, tuple[int, int]]) -> bool:
        """Return True if the path still names the opened file. Otherwise others would write to another file."""
        try:
            return self._file() == opened[1]
        except OSError:
            return False


_pools: Final[WeakValueDictionary[tuple[Path, tuple[str, ...]], DatabasePool]] = WeakValueDictionary()


def pool_of(path: Path, *tables: str) -> DatabasePool:
    """Return the pool of a database. All stores with the same path and tables share it."""
    with _CREATING:
        known = _pools.get((path, tables))
        if known is None:
            known = _pools[path, tables] = DatabasePool(path, *tables)
        return known


@contextmanager
def read_once(database: Connection) -> Generator[None]:
    """Return the context of a transaction that only reads, from one snapshot."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def transact(database: Connection) -> Generator[None]:
    """Return the context of a transaction that starts as a writer. A failure rolls it back."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def open_for_pool(path: Path) -> Connection:
    """Return a connection to an existing database for a pool of threads. It writes to the disk at each commit.

    It starts a transaction before a statement that writes, and the caller must commit.
    """
    database = _open(path, any_thread=True)
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA foreign_keys=ON")
    database.isolation_level = "IMMEDIATE"
    return database


def _open(path: Path | str, *, any_thread: bool = False) -> Connection:
    import sqlite3  # only databases need it

    return sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=not any_thread)


def _prepare(database: Connection, tables: tuple[str, ...]) -> None:
    """Set the mode and the tables of a database. Wait for concurrent set-ups, which SQLite does not do for the mode."""
    import sqlite3  # only databases need it

    until = time.monotonic() + _WAIT
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            for table in tables:
                database.execute(table)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return


def _protect(path: Path, tables: tuple[str, ...]) -> int:
    """Create the file before SQLite does. SQLite gives its journals the mode of the database.

    Returns:
        The size of the file. 0 if it is new, or if a journal contains its continuation.
    """
    size = _tighten(path)
    if size is None:
        create_file(path, _empty(tables))
    elif size == 0:
        warn("%s is an empty file. If it contained a database, restore it from a backup.", path)
    journals = [_tighten(path.with_name(path.name + beside)) for beside in _BESIDE]
    return 0 if size is None or any(journals) else size


def _empty(tables: tuple[str, ...]) -> bytes:
    """Return the bytes of a database with empty tables. Only a damaged database is an empty file."""
    with closing(_open(":memory:")) as database:
        for table in tables:
            database.execute(table)
        return database.serialize()


def _tighten(path: Path) -> int | None:
    """Make a file private to its owner, and return its size. None if it does not exist.

    The function does not open the file: if a process closes any descriptor of a file, all its locks on the file are
    freed, and SQLite uses these locks.
    """
    if sys.platform != "linux":
        with suppress(FileNotFoundError):
            found = path.lstat()
            protect(path, found, str(path), in_place=True)
            return found.st_size
        return None
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # it holds and frees no locks
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
        protect(path, found, f"/proc/self/fd/{descriptor}", in_place=stat.S_ISREG(found.st_mode))
    finally:
        os.close(descriptor)
    return found.st_size
