"""Files that only their owner can read, with atomic replacement and locks between processes.

Use this module for the files of conversations, approvals, pins, and recordings. It creates files with the mode 0600 and
directories with 0700, independent of the umask. If others can read a file, opening it makes the file private and writes
a warning. A stricter mode stays. fxai refuses a symbolic link, a device, a file of another user, and a file with a
second name (a hard link) that it would write in place. A user who can write to the directory can still replace a file,
so fxai writes a warning. Each refusal and each error is an `OSError` with the file, the reason, and the remedy.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "count.txt"
...     replace_file(path, b"1")
...     replace_file(path, b"2")
...     read_file(path), oct(path.stat().st_mode & 0o777)
(b'2', '0o600')
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import anyio
import msgspec

from fxai.effects.constructor import attempt_async
from fxai.effects.effect import Effect, EffectOf, Fetch, FlatMap
from fxai.effects.scope import NOTHING, Scope

_FIRST_PAUSE, _LAST_PAUSE = 0.0005, 0.02  # seconds between two attempts to lock, in a thread
_HOLD_PAUSE, _LAST_HOLD_PAUSE = 0.005, 0.1  # seconds between two attempts to lock if others can hold it for long
_WAIT: Final = 30.0  # seconds to wait for other writers
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077  # the permissions of the group and of other users
# opening a pipe must not wait for its other end, and fxai must not follow links
_SAFE: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def full_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path, so that it stays the same if the working directory changes.

    Raises:
        ValueError: If no file can have this path.
    """
    text = os.fspath(path)
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError(f"invalid path {text!r}: it contains a NUL or half a surrogate pair. Use another path.")
    return Path(text).absolute()


def file_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file.

    Raises:
        ValueError: If no file can have this path, such as `/` or `..`.
    """
    found = full_path(path)
    if not Path(path).name or found.name == "..":
        raise ValueError(f"{os.fspath(path)!r} is a directory. Use the path of a file.")
    return found


def file_name(name: str) -> str:
    """Return the file name for a name. It is readable, and different for each name on every file system.

    >>> file_name("anna/7")
    'anna_7-...'

    Raises:
        OSError: If the name cannot be encoded.
    """
    from hashlib import sha256  # only stores need it

    readable = "".join(one if one.isascii() and one.isalnum() else "_" for one in name[:40])
    try:
        digest = sha256(name.encode()).hexdigest()[:32]
    except UnicodeEncodeError as error:
        raise OSError("the ID contains half a surrogate pair. Use whole characters.") from error
    return f"{readable}-{digest}"


def open_file(path: Path, *, writing: bool = True) -> int:
    """Return a descriptor of a private file. Raise a `FileNotFoundError` if the file does not exist."""
    with suppress(OSError):  # the file is readable also if stale copies cannot be removed
        _remove_stale(path)
    return _open_private(path, create=False, writing=writing)


def read_file(path: Path) -> bytes:
    """Return the content of a private file. Raise a `FileNotFoundError` if the file does not exist."""
    with os.fdopen(open_file(path, writing=False), "rb") as file:
        return file.read()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file on the disk, completely or not at all. The next opening removes a copy of a killed process."""
    make_folder(path.parent)
    mode = _PRIVATE
    with suppress(FileNotFoundError):
        found = path.lstat()
        _check(path, found, in_place=False)
        mode = stat.S_IMODE(found.st_mode) & _PRIVATE
    with _write_copy(path, content, mode) as copy:
        copy.replace(path)
    sync_folder(path.parent)


class FileContent(msgspec.Struct):
    """The content of a file during an update. None if the file does not exist."""

    content: bytes | None = None


@contextmanager
def update_file(path: Path) -> Generator[FileContent]:
    """Read a file under its lock, a file `.lock` next to it. Replace the file if the `with` changed its content.

    Raises:
        TimeoutError: As `lock_file`.
    """
    with lock_file(path.with_name(f"{path.name}.lock")):
        file = FileContent()
        with suppress(FileNotFoundError):
            file.content = read_file(path)
        before = file.content
        yield file
        if file.content is not None and file.content != before:
            replace_file(path, file.content)


def write_all(descriptor: int, content: bytes) -> None:
    """Write the whole content at the position of the descriptor."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def create_file(path: Path, content: bytes) -> None:
    """Create a file with this content on the disk. An existing file stays unchanged."""
    make_folder(path.parent)
    with _write_copy(path, content, _PRIVATE) as copy, suppress(FileExistsError):
        if not os.path.lexists(path):  # no other process creates it, because this process has the copy
            copy.rename(path)
    sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file, and its copies from killed processes. A missing file is ignored."""
    with suppress(FileNotFoundError):
        _remove_stale(path)
        path.unlink()
        sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Create a directory with the mode 0700, and its missing parents."""
    if folder.is_dir():
        return
    if folder.parent == folder:
        raise FileNotFoundError(errno.ENOENT, "neither the directory nor its parents exist", str(folder))
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # the umask can have removed permissions of the owner
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(folder))


def own_folder(folder: Path) -> Path:
    """Create a directory if it does not exist, and make it private to its owner."""
    make_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _RefusedError(f"{folder} is a symbolic link. Move it away, or use another path.")
    if sys.platform != "win32":
        if os.geteuid() not in (0, found.st_uid):
            raise _RefusedError(f"{folder} belongs to another user. Use another path.")
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            folder.chmod(0o700)
    return folder


def sync_folder(folder: Path) -> None:
    """Write the entries of a directory to the disk, if the system can open directories."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def protect(path: Path, found: os.stat_result, descriptor: int | str, *, in_place: bool) -> None:
    """Refuse a path that is not a private file, and remove the permissions of other users.

    Args:
        path: Path of the file for messages.
        found: Status of the file.
        descriptor: Descriptor or path to change the mode.
        in_place: True if the caller writes the file in place, so that it would also change under its other names.
    """
    _check(path, found, in_place=in_place)
    _report_folder(path.parent)
    mode = stat.S_IMODE(found.st_mode)
    if sys.platform == "win32" or not mode & _OTHERS:
        return
    if found.st_nlink > 1:
        raise _RefusedError(
            f"{path} can be read by others (mode {mode:03o}), and has a second name (a hard link), whose mode fxai does"
            " not change. Replace it with a copy."
        )
    try:
        os.chmod(descriptor, mode & _PRIVATE)  # noqa: PTH101 (a descriptor always names the same file)
    except OSError as error:
        warn("%s can be read by others (mode %03o), and the mode cannot be changed: %s", path, mode, error.strerror)
    else:
        warn("%s could be read by others (mode %03o); fxai made it private to its owner", path, mode)


@lru_cache(maxsize=256)
def _report_folder(folder: Path) -> None:
    """Write a warning if other users can replace files in this directory. Once for each directory."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        found = folder.stat()
        mode, user = stat.S_IMODE(found.st_mode), os.geteuid()
        for_all = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and found.st_gid != os.getegid())
        if (for_all and not mode & stat.S_ISVTX) or found.st_uid not in (user, 0):
            message = (
                "others can write to the directory %s (mode %03o), and replace files in it. Use a private directory."
            )
            warn(message, folder, mode)


def warn(message: str, *about: object) -> None:
    """Write a warning to the log `fxai.storage`."""
    import logging  # most files cause no warning

    logging.getLogger("fxai.storage").warning(message, *about)


def _open_private(path: Path, *, create: bool, writing: bool) -> int:
    """Return a descriptor of a file after making the file private to its owner."""
    descriptor = _open(path, os.O_RDWR if writing else os.O_RDONLY, create=create)
    try:
        protect(path, os.fstat(descriptor), descriptor, in_place=writing)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path, flags: int, *, create: bool) -> int:
    """Return a descriptor of a file. A new file is private from the start, independent of the umask."""
    for _ in range(100):  # another process can create and remove it
        try:
            return os.open(path, flags | _SAFE)
        except FileNotFoundError:
            if not create:
                raise
        except OSError as error:
            raise _explain(path, error) from error
        with suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | _SAFE, _PRIVATE)
            if sys.platform != "win32":
                os.fchmod(descriptor, _PRIVATE)  # the umask can have removed permissions of the owner
            return descriptor
    raise OSError(f"{path} is created and removed repeatedly. Find the program that does this.")


def _explain(path: Path, error: OSError) -> OSError:
    """Return the error with a message about the kind of the file."""
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
        with suppress(FileNotFoundError):
            _check(path, path.lstat(), in_place=False)
    return error


def _check(path: Path, found: os.stat_result, *, in_place: bool) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _RefusedError(f"{path} is a symbolic link. Use the path of the file itself.")
    if not stat.S_ISREG(found.st_mode):
        raise _RefusedError(f"{path} is not a regular file. Use another path, or move it away.")
    if sys.platform == "win32":
        return
    user = os.geteuid()
    if user != 0 and found.st_uid not in (user, 0):
        raise _RefusedError(f"{path} belongs to another user, who can read it. Use another path.")
    if in_place and found.st_nlink > 1:
        raise _RefusedError(
            f"{path} has a second name (a hard link), under which it would also change. Replace it with a copy."
        )


class _RefusedError(OSError):
    """The path of a private file names something else."""


# -- copies


@contextmanager
def _write_copy(path: Path, content: bytes, mode: int) -> Generator[Path]:
    """Return a context with a copy on the disk. The end of the `with` removes the copy unless the caller moved it."""
    copy = _copy_of(path)
    descriptor = _create_copy(copy)
    try:
        try:
            if sys.platform != "win32":
                os.fchmod(descriptor, mode)  # the umask can have removed permissions of the owner
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            if sys.platform == "win32":  # which moves and removes only closed files
                os.close(descriptor)
        yield copy
    finally:
        if sys.platform == "win32":
            copy.unlink(missing_ok=True)
        else:
            if _is_at(descriptor, copy):
                copy.unlink(missing_ok=True)
            os.close(descriptor)


def _copy_of(path: Path) -> Path:
    if sys.platform == "win32":
        return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    return path.with_name(f".{path.name}.tmp")


def _create_copy(copy: Path) -> int:
    """Create and lock a copy, so that no process removes it as stale. Wait while another process writes it."""
    for _ in _until(f"another process has written {copy}"):
        if sys.platform != "win32":
            _remove_stale_copy(copy)
        with suppress(FileExistsError):
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, _PRIVATE)
            if sys.platform == "win32" or (take_lock(descriptor) and _is_at(descriptor, copy)):
                return descriptor
            os.close(descriptor)
    raise AssertionError("the pauses end with a TimeoutError")


def _remove_stale(path: Path) -> None:
    """Remove the copy of a file that a killed process left."""
    if sys.platform != "win32":
        _remove_stale_copy(_copy_of(path))


def _remove_stale_copy(copy: Path) -> None:
    """Remove a copy that no process writes. The writer of a copy holds its lock."""
    try:
        descriptor = os.open(copy, os.O_RDONLY | _SAFE)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _explain(copy, error) from error
    try:
        _check(copy, os.fstat(descriptor), in_place=False)
        if take_lock(descriptor) and _is_at(descriptor, copy):
            copy.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return True if a path names the file of a descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


# -- locks


def open_lock(path: Path) -> int:
    """Return a descriptor of an unlocked lock file. Create the file and its directory if needed."""
    make_folder(path.parent)
    return _open_private(path, create=True, writing=True)


def take_lock(descriptor: int) -> bool:
    """Acquire the lock until the descriptor is closed. Return False if another process holds it."""
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


def free_lock(descriptor: int) -> None:
    """Free a lock, and close its descriptor."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing does not free it if a child process was forked
    finally:
        os.close(descriptor)


def hold_file(location: Callable[[], Path], *, wait: bool = True) -> Effect[None, OSError, Scope]:
    """Hold a lock file until the scope closes or the process ends.

    Args:
        location: Function that returns the path of the lock file, which is created if needed.
        wait: True to wait without a limit while another program holds it. Default: True.

    Fails with:
        OSError: As `open_lock` and as `location`. `BlockingIOError` if another program holds it and `wait` is False.
    """

    def within(scope: Scope) -> EffectOf[None, OSError]:
        return attempt_async(lambda: _hold(location, scope, wait), OSError)

    return FlatMap(Fetch(Scope), within)


async def _hold(location: Callable[[], Path], scope: Scope, wait: bool) -> None:
    path = location()
    descriptor = open_lock(path)  # in the event loop, because a cancellation could lose the result of a thread
    pause = _HOLD_PAUSE
    try:
        while not take_lock(descriptor):
            if not wait:
                raise BlockingIOError(f"another program holds {path}")
            await anyio.sleep(pause)  # not by the `Clock`, because other processes use real time
            pause = min(2 * pause, _LAST_HOLD_PAUSE)
    except BaseException:
        free_lock(descriptor)
        raise

    def release(_: object) -> EffectOf[None]:
        free_lock(descriptor)
        return NOTHING

    scope.add(release)


@contextmanager
def lock_file(path: Path, seconds: float = _WAIT) -> Generator[None]:
    """Hold a lock file inside a `with`. Call it in a thread. Threads of one process exclude each other, too.

    Raises:
        TimeoutError: If another program holds it for the whole time.
    """
    descriptor = open_lock(path)
    try:
        for _ in _until(f"another process has held {path}", seconds):
            if take_lock(descriptor):
                break
        yield
    finally:
        free_lock(descriptor)


def _until(what: str, seconds: float = _WAIT) -> Generator[None]:
    """Yield with growing pauses until the caller stops. Raise a `TimeoutError` after `seconds`."""
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        yield
        if time.monotonic() > until:
            raise TimeoutError(f"{what} for {seconds:g} s. End the process that blocks it.")
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
