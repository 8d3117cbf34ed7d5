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
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Final, final

from fxai.storage.postgres_owner import TABLES, Holder, holder_of
from fxai.storage.private_file import file_name, free_lock, open_file, open_lock, remove_file, take_lock

_WORKER: Final = "worker"


@final
class WorkerLock:
    """The lock of a worker. Its methods block. They raise an `OSError` if the system or the server refuses."""

    def __init__(self, location: Path | str, worker: str) -> None:
        self._holder = _holder(location)
        self._worker = worker
        self._held: dict[tuple[str, str], int] = {}

    @staticmethod
    @contextmanager
    def hold(location: Path | str, worker: str, kinds: Iterable[str] = ()) -> Generator[WorkerLock]:
        """Return a context that holds the lock of a worker with a unique name, for `is_served` of its kinds of jobs."""
        lock = WorkerLock(location, worker)
        try:
            if not all(lock._take(one, worker) for one in (_WORKER, *map(_of_kind, kinds))):
                raise BlockingIOError(f"another program is the worker {worker}")
            yield lock
        finally:
            for key in list(lock._held):
                with suppress(OSError):  # if a server is away, the leases end
                    lock._free(key)

    def holds(self) -> bool:
        """Return True if the worker still holds its lock. Otherwise others believe that the worker is dead."""
        return self._holder.still_holds(_WORKER, self._worker, self._held[_WORKER, self._worker])

    def take(self, other: str) -> bool:
        """Return True if another worker is dead. Then this worker holds its lock until `free`."""
        return self._take(_WORKER, other)

    def free(self, other: str) -> None:
        """Free the lock of a dead worker, and remove it."""
        self._free((_WORKER, other))

    def _take(self, kind: str, name: str) -> bool:
        held = self._holder.take(kind, name)
        if held is not None:
            self._held[kind, name] = held
        return held is not None

    def _free(self, key: tuple[str, str]) -> None:
        self._holder.free(*key, self._held.pop(key), forget=True)


def is_served(location: Path | str, kind: str) -> bool:
    """Return True if a living worker runs jobs of a kind. The function blocks."""
    return _holder(location).is_held(_of_kind(kind))


def _of_kind(kind: str) -> str:
    return f"{_WORKER} of {kind}"


def _holder(location: Path | str) -> Holder | _FileHolder:
    return _FileHolder(location) if isinstance(location, Path) else holder_of(location, *TABLES)


@final
class _FileHolder:
    """The locked files next to a SQLite database, with the methods of a `Holder`. A descriptor is the epoch."""

    def __init__(self, location: Path) -> None:
        self._location = location

    def _path(self, kind: str, name: str) -> Path:
        return self._location.with_name(f"{self._location.name}.{file_name(kind)}-{file_name(name)}")

    def take(self, kind: str, name: str) -> int | None:
        descriptor = open_lock(self._path(kind, name))
        if take_lock(descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def is_held(self, kind: str) -> bool:
        paths = self._location.parent.glob(f"{escape(self._location.name)}.{file_name(kind)}-*")
        return any(map(_is_locked, paths))

    def still_holds(self, kind: str, name: str, descriptor: int) -> bool:
        try:
            found = self._path(kind, name).lstat()
        except FileNotFoundError:
            return False  # another program removed the file, so that others cannot see the lock
        return os.path.samestat(os.fstat(descriptor), found)

    def free(self, kind: str, name: str, descriptor: int, *, forget: bool) -> None:
        del kind, forget
        with suppress(OSError):  # all files of a dead worker
            for path in self._location.parent.glob(f"{escape(self._location.name)}.worker*-{file_name(name)}"):
                remove_file(path)
        free_lock(descriptor)


def _is_locked(path: Path) -> bool:
    try:
        descriptor = open_file(path)
    except FileNotFoundError:
        return False
    try:
        return not take_lock(descriptor)
    finally:
        free_lock(descriptor)
