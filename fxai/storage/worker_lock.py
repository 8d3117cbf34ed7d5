"""Locks of workers: each worker of a work queue holds one for as long as it lives, so that others see that it does.

Beside a SQLite database it is a lock of the system on a file of its own, which is free at the moment in which its
process is gone. In PostgreSQL it is a row with a lease (`fxai.storage.postgres_owner`), which does not depend on a
connection: a server that restarts costs a worker only time.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     place = Path(folder) / "jobs.db"
...     with WorkerLock.hold(place, "one") as lock:
...         lock.holds(), is_alive(place, "one"), is_alive(place, "two")
(True, True, False)
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, Final, cast, final

import msgspec
from typing_extensions import override

from fxai.storage.postgres_owner import TABLES, Holder, holder_of
from fxai.storage.private_file import file_name, free_lock, open_file, open_lock, remove_file, take_lock, write_all

_KIND: Final = "fxai worker"
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
    return _holder(place).is_held(_kind_key(kind))


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
    return _holder(place).is_held(_KIND, worker)


def _path(place: Path, worker: str) -> Path:
    return place.with_name(f"{place.name}.worker-{file_name(worker)}")


def _holder(url: str) -> Holder:
    return holder_of(url, *TABLES)


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
    lock = _ServerLock(_holder(url), worker)
    try:
        if not lock.take(worker):
            raise BlockingIOError(f"another program is the worker {worker}")
        for kind in kinds:
            lock.tell(kind)
        yield lock
    finally:
        lock.close()


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

    def tell(self, kind: str) -> None:
        """Let others see that this worker runs a kind of jobs."""
        self._take(_kind_key(kind), self._worker)

    def _take(self, kind: str, name: str) -> bool:
        epoch = self._holder.take(kind, name)
        if epoch is not None:
            self._held[kind, name] = epoch
        return epoch is not None

    def _free(self, key: tuple[str, str]) -> None:
        self._holder.free(*key, self._held.pop(key), forget=True)

    def close(self) -> None:
        """Free all that is held. If the server is away, the leases end."""
        for key in list(self._held):
            with suppress(OSError):
                self._free(key)
