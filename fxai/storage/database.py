"""Private databases: SQLite files that only their owner can read, with the journals beside them.

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

_WAIT: Final = 30.0  # seconds for others that write
_BESIDE: Final = ("-wal", "-shm", "-journal")
_CREATING = threading.Lock()


def database_path(path: str | os.PathLike[str]) -> Path:
    """The path of a database, as `file_path` gives it.

    Raises:
        ValueError: no file can have it, or it is SQLite's name for a database that nothing keeps.
    """
    if os.fspath(path) == ":memory:":
        raise ValueError("':memory:' names a database that is gone when it is closed; give the path of a file")
    return file_path(path)


@contextmanager
def connect(path: Path, *tables: str, any_thread: bool = False) -> Generator[Connection]:
    """A connection to a database, in WAL mode and on the disk at each commit; it is closed at the end of the `with`.

    The database and its folders are made where they are not there. It and its journals have the mode 0600 or a stricter
    one. It waits up to 30 s for other writers.

    Args:
        path: the database, as `database_path` gives it.
        tables: statements that make its tables, where they are not there.
        any_thread: whether other threads use it too, one at a time.

    Raises:
        OSError: SQLite refuses, what stands at the path is no private file, or a statement inside the `with` fails.
    """
    import sqlite3  # only where there is a database

    with _CREATING:  # closing a new file must not free the locks that another thread has taken on it meanwhile
        size = _protect(path, tables)
    try:
        with closing(_open(path, any_thread=any_thread)) as database:
            _check_size(path, database, size)
            _prepare(database, tables)
            yield database
    except UnicodeEncodeError as error:
        text = f"{error.object[:80]!r} cannot be stored: it holds half a surrogate pair"
        raise OSError(f"{text}; give text of whole characters") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the words of an error may be damaged too
        raise OSError(f"{error}; see that {path} is a SQLite database that nobody else holds") from error


@final
class DatabasePool:
    """Connections to one database, which are kept open only inside of `stay_open`; several threads may share them.

    Args:
        path: the database, as `database_path` gives it.
        tables: statements that make its tables, where they are not there.
    """

    def __init__(self, path: Path, *tables: str) -> None:
        self._path = path
        self._tables = tables
        self._pool: Pool[tuple[Connection, tuple[int, int]]] = Pool(self._connect, self._is_there)

    @override
    def __reduce__(self) -> tuple[Callable[..., DatabasePool], tuple[Path | str, ...]]:
        return pool_of, (self._path, *self._tables)  # another process opens its own

    def stay_open(self) -> AbstractContextManager[None]:
        """Keeps connections open for the block."""
        return self._pool.stay_open()

    @contextmanager
    def take(
        self, begin: Callable[[Connection], AbstractContextManager[object]] = nullcontext
    ) -> Generator[Connection]:
        """A connection for the block, which `begin` surrounds, such as `transact`; failures as of `connect`."""
        with self._pool.take(lambda opened: begin(opened[0])) as (database, _):
            yield database

    @contextmanager
    def _connect(self) -> Generator[tuple[Connection, tuple[int, int]]]:
        with connect(self._path, *self._tables, any_thread=True) as database:
            yield database, self._file()

    def _file(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_dev, found.st_ino

    def _is_there(self, opened: tuple[Connection, tuple[int, int]]) -> bool:
        """Whether the file is still that which was opened: others would write into another one."""
        try:
            return self._file() == opened[1]
        except OSError:
            return False


_pools: Final[WeakValueDictionary[tuple[Path, tuple[str, ...]], DatabasePool]] = WeakValueDictionary()


def pool_of(path: Path, *tables: str) -> DatabasePool:
    """The pool of a database, which all share that store the same in it; arguments as of `DatabasePool`."""
    with _CREATING:
        known = _pools.get((path, tables))
        if known is None:
            known = _pools[path, tables] = DatabasePool(path, *tables)
        return known


@contextmanager
def read_once(database: Connection) -> Generator[None]:
    """A transaction that only reads, and sees one moment."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def transact(database: Connection) -> Generator[None]:
    """A transaction, which begins as a writer and is undone when it fails."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def open_for_pool(path: Path) -> Connection:
    """A connection to a database that `connect` has made, for a pool of several threads, on the disk at each commit.

    It begins a transaction as a writer before a statement that writes, and has to be told to commit.
    """
    database = _open(path, any_thread=True)
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA foreign_keys=ON")
    database.isolation_level = "IMMEDIATE"
    return database


def _open(path: Path | str, *, any_thread: bool = False) -> Connection:
    import sqlite3  # only where there is a database

    return sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=not any_thread)


def _prepare(database: Connection, tables: tuple[str, ...]) -> None:
    """Sets the database up; what others do at the same moment is waited for, which SQLite does not do for the mode."""
    import sqlite3  # only where there is a database

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


def _check_size(path: Path, database: Connection, size: int) -> None:
    """Refuses a file that ends inside a page: SQLite reads the missing bytes as zeros."""
    database.execute("PRAGMA schema_version")  # reads the first page
    pages: tuple[int] = database.execute("PRAGMA page_size").fetchone()
    if size % pages[0]:
        raise OSError(f"{path} was cut short or damaged: it ends inside a page; put it back from a copy")


def _protect(path: Path, tables: tuple[str, ...]) -> int:
    """Makes the file, before SQLite does; SQLite gives its journals the mode that the database has.

    Returns:
        Its size; 0 where it is new, or where a journal says how it goes on.
    """
    size = _tighten(path)
    if size is None:
        create_file(path, _empty(tables))
    elif size == 0:
        warn("%s is an empty file; if it held a database, put that back from a copy", path)
    journals = [_tighten(path.with_name(path.name + beside)) for beside in _BESIDE]
    return 0 if size is None or any(journals) else size


def _empty(tables: tuple[str, ...]) -> bytes:
    """The bytes of a database with empty tables: one that is made whole is never empty; one that was cut may be."""
    with closing(_open(":memory:")) as database:
        for table in tables:
            database.execute(table)
        return database.serialize()


def _tighten(path: Path) -> int | None:
    """The size of a file that is its owner's alone now; None where there is none.

    It is not opened: in a process that closes any descriptor of a file, all its locks on that file are free, and
    SQLite's are such locks.
    """
    if sys.platform != "linux":
        with suppress(FileNotFoundError):
            found = path.lstat()
            protect(path, found, str(path), in_place=True)
            return found.st_size
        return None
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # which holds and frees no locks
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(descriptor)
        protect(path, found, f"/proc/self/fd/{descriptor}", in_place=stat.S_ISREG(found.st_mode))
    finally:
        os.close(descriptor)
    return found.st_size
