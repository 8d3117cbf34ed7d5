"""Stores of large results by handle, in this process, in private files, or in a SQLite database.

A handle is random and has 128 bits, so that nobody can guess it. A store is bounded: it removes its oldest results if
the results exceed its maximum size. A program removes the results of a conversation together with the conversation.

>>> store = ResultStore.in_process(max_bytes=10)
>>> first, second = store.put(b"12345"), store.put(b"67890")
>>> third = store.put(b"abc")
>>> store.get(first), store.get(second), store.get("../secret")
(None, b'67890', None)
"""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

from typing_extensions import override

PROCESS_BYTES: Final = 64 * 2**20
"""Default maximum size of a store in this process, in bytes."""

DISK_BYTES: Final = 2**30
"""Default maximum size of a store on the disk, in bytes."""

_HANDLE: Final = re.compile(r"r_[0-9a-f]{32}")
_TABLE: Final = """CREATE TABLE IF NOT EXISTS large_result
    (number INTEGER PRIMARY KEY, handle TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, data BLOB NOT NULL) STRICT"""


class ResultStore(ABC):
    """A store of large results. If `blocks` is True, call the methods in a worker thread.

    The methods raise an `OSError` if the system or the database refuses.
    """

    blocks: bool = True
    """True if the methods wait for the disk and for other processes."""

    def __init__(self, max_bytes: int) -> None:
        """Create a store.

        Args:
            max_bytes: Maximum size of all results in bytes.

        Raises:
            ValueError: If `max_bytes` is less than 1.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, got {max_bytes}")
        self.max_bytes: int = max_bytes

    @staticmethod
    def in_process(*, max_bytes: int = PROCESS_BYTES) -> ResultStore:
        """Return a new store that exists until the process ends.

        Args:
            max_bytes: Maximum size of all results in bytes. Default: 64 MiB.

        Raises:
            ValueError: If `max_bytes` is less than 1.
        """
        return _ProcessResults(max_bytes)

    @staticmethod
    def file(folder: str | os.PathLike[str], *, max_bytes: int = DISK_BYTES) -> ResultStore:
        """Return the store of private files in a directory, which the first result creates.

        Args:
            folder: The directory. Only its owner can read the files.
            max_bytes: Maximum size of all results in bytes. Default: 1 GiB.

        Raises:
            ValueError: If `max_bytes` is less than 1, or no directory can have this path.
        """
        from fxai.storage.private_file import full_path

        return _FileResults(full_path(folder), max_bytes)

    @staticmethod
    def sqlite(path: str | os.PathLike[str], *, max_bytes: int = DISK_BYTES) -> ResultStore:
        """Return the store in a private SQLite database, which the first result creates.

        Args:
            path: The database. It can also contain other data.
            max_bytes: Maximum size of all results in bytes. Default: 1 GiB.

        Raises:
            ValueError: If `max_bytes` is less than 1, or no database can have this path.
        """
        from fxai.storage.database import database_path

        return _TableResults(database_path(path), max_bytes)

    def put(self, data: bytes) -> str:
        """Store a result and return its handle. Remove the oldest results if the store exceeds its maximum size.

        Raises:
            OSError: If the result alone exceeds the maximum size.
        """
        if len(data) > self.max_bytes:
            raise OSError(f"the result has {len(data)} bytes, and the store accepts {self.max_bytes}. Raise max_bytes.")
        handle = f"r_{os.urandom(16).hex()}"
        self._put(handle, data)
        return handle

    def get(self, handle: str) -> bytes | None:
        """Return a result, or None if the store does not contain it. The handle can be any string."""
        return self._get(handle) if _HANDLE.fullmatch(handle) else None

    def remove(self, handles: Iterable[str]) -> None:
        """Remove results. Missing results are ignored."""
        self._remove([handle for handle in handles if _HANDLE.fullmatch(handle)])

    @abstractmethod
    def _put(self, handle: str, data: bytes) -> None:
        """Store a result, and remove the oldest results beyond the maximum size."""

    @abstractmethod
    def _get(self, handle: str) -> bytes | None:
        """Return the result of a valid handle, or None."""

    @abstractmethod
    def _remove(self, handles: list[str]) -> None:
        """Remove the results of valid handles."""


@final
class _ProcessResults(ResultStore):
    blocks = False

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._results: dict[str, bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    @override
    def _put(self, handle: str, data: bytes) -> None:
        with self._lock:
            self._results[handle] = data
            self._size += len(data)
            while self._size > self.max_bytes:
                self._size -= len(self._results.pop(next(iter(self._results))))

    @override
    def _get(self, handle: str) -> bytes | None:
        return self._results.get(handle)

    @override
    def _remove(self, handles: list[str]) -> None:
        with self._lock:
            self._size -= sum(len(self._results.pop(handle, b"")) for handle in handles)


@final
class _FileResults(ResultStore):
    def __init__(self, folder: Path, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._folder = folder

    @override
    def _put(self, handle: str, data: bytes) -> None:
        from fxai.storage.private_file import make_folder, remove_file, replace_file  # only files need it

        make_folder(self._folder)
        replace_file(self._folder / handle, data)
        found: list[tuple[float, int, str]] = []
        for entry in os.scandir(self._folder):
            if _HANDLE.fullmatch(entry.name):
                about = entry.stat(follow_symlinks=False)
                found.append((about.st_mtime_ns, about.st_size, entry.name))
        size = sum(one[1] for one in found)
        for _, bytes_, name in sorted(found):
            if size <= self.max_bytes:
                break
            if name != handle:
                remove_file(self._folder / name)
                size -= bytes_

    @override
    def _get(self, handle: str) -> bytes | None:
        from fxai.storage.private_file import read_file

        try:
            return read_file(self._folder / handle)
        except FileNotFoundError:
            return None

    @override
    def _remove(self, handles: list[str]) -> None:
        from fxai.storage.private_file import remove_file

        for handle in handles:
            if (self._folder / handle).exists():
                remove_file(self._folder / handle)


@final
class _TableResults(ResultStore):
    def __init__(self, path: Path, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._path = path

    @override
    def _put(self, handle: str, data: bytes) -> None:
        from fxai.storage.database import connect, transact

        with connect(self._path, _TABLE) as database, transact(database):
            row = (handle, len(data), data)
            _ = database.execute("INSERT INTO large_result (handle, size, data) VALUES (?, ?, ?)", row)
            size: int = database.execute("SELECT sum(size) FROM large_result").fetchone()[0]
            if size <= self.max_bytes:
                return
            for number, bytes_ in database.execute("SELECT number, size FROM large_result ORDER BY number").fetchall():
                if size <= self.max_bytes:
                    break
                _ = database.execute("DELETE FROM large_result WHERE number = ?", (number,))
                size -= bytes_

    @override
    def _get(self, handle: str) -> bytes | None:
        from fxai.storage.database import connect

        if not self._path.exists():
            return None
        with connect(self._path, _TABLE) as database:
            row = database.execute("SELECT data FROM large_result WHERE handle = ?", (handle,)).fetchone()
        data: bytes | None = None if row is None else row[0]
        return data

    @override
    def _remove(self, handles: list[str]) -> None:
        from fxai.storage.database import connect, transact

        if not self._path.exists():
            return
        with connect(self._path, _TABLE) as database, transact(database):
            _ = database.executemany("DELETE FROM large_result WHERE handle = ?", [(handle,) for handle in handles])
