"""Safe files: locks between processes, and files that are replaced whole.

A lock is one of the operating system's: it is free again when its process ends, however it ends.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "count.txt"
>>> replace_file(path, b"1")
>>> replace_file(path, b"2")
>>> path.read_bytes()
b'2'
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked", "open_lock", "replace_file", "sync_folder", "take_lock"]

_FIRST_PAUSE, _LAST_PAUSE = 0.0005, 0.02  # seconds between two looks at a lock


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, which is made, with its folder, where it is not there; nobody holds it yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def take_lock(descriptor: int) -> bool:
    """Whether the lock was free, and is ours now, until the descriptor is closed."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, seconds: float = 30) -> Generator[None]:
    """Holds a lock file inside a `with`, in a thread that may wait; threads of one process exclude each other too.

    Raises:
        TimeoutError: somebody else held it all the time.
    """
    descriptor = open_lock(path)
    try:
        until, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while not take_lock(descriptor):
            if time.monotonic() > until:
                raise TimeoutError(f"somebody else has held {path} for {seconds:g} s; end the process that hangs")
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        yield
    finally:
        _free(descriptor)


def _free(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough where a child was forked meanwhile
    os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in the place of the one that is there, on the disk and whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with written.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Lets the entries of a folder survive a power cut, where a folder can be opened."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
