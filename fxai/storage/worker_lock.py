"""The locks of workers. Each worker of a work queue holds a lock while it lives, so that others can detect its death.

For a SQLite database, the lock is a system lock on a separate file, which is free as soon as its process ends. For
PostgreSQL, the lock is a row with a lease (`fxai.storage.postgres_owner`). It does not depend on a connection, so a
worker survives a restart of the server.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     location = Path(folder) / "jobs.db"
...     with WorkerLock.hold(location, "one", ["add"]) as lock:
...         lock.holds(), is_served(location, "add"), is_served(location, "wipe")
(True, True, False)
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Final, final

import msgspec
from typing_extensions import override

from fxai.storage.postgres_owner import TABLES, Holder, holder_of
from fxai.storage.private_file import file_name, free_lock, open_file, open_lock, remove_file, take_lock, write_all

_KIND: Final = "fxai worker"
_MOST: Final = 1 << 20  # bytes for the kinds of a worker


class WorkerLock(ABC):
    """The lock of a worker. Its methods block. They raise an `OSError` if the system or the server refuses."""

    @staticmethod
    @contextmanager
    def hold(location: Path | str, worker: str, kinds: Iterable[str] = ()) -> Generator[WorkerLock]:
        """Return a context that holds the lock of a worker.

        Args:
            location: Location of the work queue.
            worker: Name of the worker. It must be unique.
            kinds: Kinds of jobs that the worker runs, for `is_served`.

        Raises:
            OSError: If the lock cannot be acquired.
        """
        lock = _FileLock(location, worker) if isinstance(location, Path) else _ServerLock(_holder(location), worker)
        try:
            if not lock.take(worker):
                raise BlockingIOError(f"another program is the worker {worker}")
            lock.tell(tuple(kinds))
            yield lock
        finally:
            lock.close()

    @abstractmethod
    def holds(self) -> bool:
        """Return True if the worker still holds its lock. Otherwise others believe that the worker is dead."""

    @abstractmethod
    def take(self, other: str) -> bool:
        """Return True if another worker is dead. Then this worker holds its lock until `free`."""

    @abstractmethod
    def free(self, other: str) -> None:
        """Free the lock of a dead worker, and remove it."""

    @abstractmethod
    def tell(self, kinds: tuple[str, ...]) -> None:
        """Let others see the kinds of jobs that this worker runs."""

    @abstractmethod
    def close(self) -> None:
        """Free all locks of this worker. If a server is away, the leases end."""


def is_served(location: Path | str, kind: str) -> bool:
    """Return True if a living worker runs jobs of a kind. The function blocks."""
    if isinstance(location, Path):
        return any(_is_served_by(path, kind) for path in location.parent.glob(f"{escape(location.name)}.worker-*"))
    return _holder(location).is_held(_kind_key(kind))


def _is_served_by(path: Path, kind: str) -> bool:
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        return False
    try:
        if take_lock(descriptor):
            return False
        kinds = msgspec.json.decode(os.pread(descriptor, _MOST, 0) or b"[]", type=list[str])
    except msgspec.DecodeError:  # the worker is writing it now
        return False
    finally:
        free_lock(descriptor)
    return kind in kinds


def _path(location: Path, worker: str) -> Path:
    return location.with_name(f"{location.name}.worker-{file_name(worker)}")


def _holder(url: str) -> Holder:
    return holder_of(url, *TABLES)


def _kind_key(kind: str) -> str:
    return f"fxai worker of {kind}"


@final
class _FileLock(WorkerLock):
    def __init__(self, location: Path, worker: str) -> None:
        self._location = location
        self._worker = worker
        self._held: dict[str, int] = {}

    @override
    def holds(self) -> bool:
        try:
            found = _path(self._location, self._worker).lstat()
        except FileNotFoundError:
            return False  # another program removed the file, so that others cannot see the lock
        return os.path.samestat(os.fstat(self._held[self._worker]), found)

    @override
    def take(self, other: str) -> bool:
        descriptor = open_lock(_path(self._location, other))
        if take_lock(descriptor):
            self._held[other] = descriptor
            return True
        os.close(descriptor)
        return False

    @override
    def free(self, other: str) -> None:
        descriptor = self._held.pop(other)
        with suppress(OSError):
            remove_file(_path(self._location, other))
        free_lock(descriptor)

    @override
    def tell(self, kinds: tuple[str, ...]) -> None:
        write_all(self._held[self._worker], msgspec.json.encode(kinds))

    @override
    def close(self) -> None:
        for worker in list(self._held):
            self.free(worker)


@final
class _ServerLock(WorkerLock):
    def __init__(self, holder: Holder, worker: str) -> None:
        self._holder = holder
        self._worker = worker
        self._held: dict[tuple[str, str], int] = {}

    @override
    def holds(self) -> bool:
        return self._holder.still_holds(_KIND, self._worker, self._held[_KIND, self._worker])

    @override
    def take(self, other: str) -> bool:
        return self._take(_KIND, other)

    @override
    def free(self, other: str) -> None:
        self._free((_KIND, other))

    @override
    def tell(self, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            self._take(_kind_key(kind), self._worker)

    def _take(self, kind: str, name: str) -> bool:
        epoch = self._holder.take(kind, name)
        if epoch is not None:
            self._held[kind, name] = epoch
        return epoch is not None

    def _free(self, key: tuple[str, str]) -> None:
        self._holder.free(*key, self._held.pop(key), forget=True)

    @override
    def close(self) -> None:
        for key in list(self._held):
            with suppress(OSError):
                self._free(key)
