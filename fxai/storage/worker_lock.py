"""Locks of workers: each worker of a work queue holds one for as long as it lives, so that others see that it does.

Beside a SQLite database it is a lock of the system on a file of its own, in PostgreSQL one of the server: both are free
at the moment in which their process is gone, however it went. No clock is compared, and nothing has to be sent.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     place = Path(folder) / "jobs.db"
...     with WorkerLock.hold(place, "one") as lock:
...         lock.holds(), is_alive(place, "one"), is_alive(place, "two")
(True, True, False)
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec
from typing_extensions import override

from fxai.storage.postgres import connect
from fxai.storage.private_file import file_name, free_lock, open_file, open_lock, remove_file, take_lock, write_all

if TYPE_CHECKING:
    from psycopg import Connection

_TAKE: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_SHARE: Final = "SELECT pg_advisory_lock_shared(hashtextextended(%s, 0))"
_FREE: Final = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"
_ALIVE: Final = (
    "SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false)"
)


_MOST: Final = 1 << 20  # bytes of the kinds of a worker


class WorkerLock(ABC):
    """The lock of one worker. Its methods block, and raise an `OSError` where the system or the server refuses."""

    @staticmethod
    @contextmanager
    def hold(place: Path | str, worker: str, kinds: Iterable[str] = ()) -> Generator[WorkerLock]:
        """Holds the lock of a worker.

        Args:
            place: where the work queue is.
            worker: the name of the worker; no other one may ever have it.
            kinds: the kinds of jobs that it runs, for `is_served`.

        Raises:
            OSError: it cannot be taken.
        """
        hold = _hold_file if isinstance(place, Path) else _hold_server
        manager: AbstractContextManager[WorkerLock] = hold(cast(Any, place), worker, tuple(kinds))
        with manager as lock:
            yield lock

    @abstractmethod
    def holds(self) -> bool:
        """Whether it is still held; when it is not, others take this worker for dead."""

    @abstractmethod
    def take(self, other: str) -> bool:
        """Whether another worker is dead; if so, its lock is held here until `free`."""

    @abstractmethod
    def free(self, other: str) -> None:
        """Frees the lock of a dead worker, and forgets it."""


def is_served(place: Path | str, kind: str) -> bool:
    """Whether a worker lives that runs jobs of a kind, as seen from outside; it blocks."""
    if isinstance(place, Path):
        return any(_is_served_by(path, kind) for path in place.parent.glob(f"{escape(place.name)}.worker-*"))
    with connect(place) as database:
        row: Any = database.execute(_TAKE, (_kind_key(kind),)).fetchone()
        return not row[0]


def _is_served_by(path: Path, kind: str) -> bool:
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        return False
    try:
        if take_lock(descriptor):
            return False
        kinds = msgspec.json.decode(os.pread(descriptor, _MOST, 0) or b"[]", type=list[str])
    except msgspec.DecodeError:  # it is being written
        return False
    finally:
        free_lock(descriptor)
    return kind in kinds


def is_alive(place: Path | str, worker: str) -> bool:
    """Whether a worker lives, as seen from outside; it blocks."""
    if isinstance(place, Path):
        path = _path(place, worker)
        if not path.exists():
            return False
        descriptor = open_lock(path)
        try:
            return not take_lock(descriptor)
        finally:
            free_lock(descriptor)
    with connect(place) as database:
        row: Any = database.execute(_TAKE, (_key(worker),)).fetchone()
        return not row[0]


def _path(place: Path, worker: str) -> Path:
    return place.with_name(f"{place.name}.worker-{file_name(worker)}")


def _key(worker: str) -> str:
    return f"fxai worker {worker}"


def _kind_key(kind: str) -> str:
    return f"fxai worker of {kind}"


@contextmanager
def _hold_file(place: Path, worker: str, kinds: tuple[str, ...]) -> Generator[WorkerLock]:
    lock = _FileLock(place, worker)
    try:
        if not lock.take(worker):
            raise BlockingIOError(f"another program is the worker {worker}")
        lock.write(msgspec.json.encode(kinds))
        yield lock
    finally:
        lock.close()


@final
class _FileLock(WorkerLock):
    def __init__(self, place: Path, worker: str) -> None:
        self._place = place
        self._worker = worker
        self._held: dict[str, int] = {}

    @override
    def holds(self) -> bool:
        try:
            found = _path(self._place, self._worker).lstat()
        except FileNotFoundError:
            return False  # somebody removed it: others cannot see the lock any more
        return os.path.samestat(os.fstat(self._held[self._worker]), found)

    @override
    def take(self, other: str) -> bool:
        descriptor = open_lock(_path(self._place, other))
        if take_lock(descriptor):
            self._held[other] = descriptor
            return True
        os.close(descriptor)
        return False

    @override
    def free(self, other: str) -> None:
        descriptor = self._held.pop(other)
        with suppress(OSError):
            remove_file(_path(self._place, other))
        free_lock(descriptor)

    def write(self, text: bytes) -> None:
        """Writes into the file of this worker."""
        write_all(self._held[self._worker], text)

    def close(self) -> None:
        """Frees all that is held."""
        for worker in list(self._held):
            self.free(worker)


@contextmanager
def _hold_server(url: str, worker: str, kinds: tuple[str, ...]) -> Generator[WorkerLock]:
    with connect(url) as database:
        database.execute(_ALIVE)
        lock = _ServerLock(database)
        if not lock.take(worker):
            raise BlockingIOError(f"another program is the worker {worker}")
        for kind in kinds:
            database.execute(_SHARE, (_kind_key(kind),))
        yield lock


@final
class _ServerLock(WorkerLock):
    def __init__(self, database: Connection[Any]) -> None:
        self._database = database
        self._turn = threading.Lock()

    @override
    def holds(self) -> bool:
        import psycopg

        try:
            with self._turn:
                self._database.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    @override
    def take(self, other: str) -> bool:
        return self._ask(_TAKE, other)

    @override
    def free(self, other: str) -> None:
        self._ask(_FREE, other)

    def _ask(self, question: Any, other: str) -> bool:
        import psycopg

        try:
            with self._turn:
                row: Any = self._database.execute(question, (_key(other),)).fetchone()
        except psycopg.Error as error:
            raise OSError(f"PostgreSQL refuses: {str(error).strip()}; the lock of this worker may be lost") from error
        return bool(row[0])
