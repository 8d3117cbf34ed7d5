"""Private files: only their owner can read them, they are replaced as a whole, with locks between processes.

Files of conversations, approvals, pins and recorded exchanges are opened and written here. A file is made with the mode
0600 and a folder with 0700, whatever the umask. A file that others could read is tightened when it is opened, and a
warning says so; a stricter mode stays. A symbolic link, a device, a file of another user, and a second name (a hard
link) of a file that is written in place, are refused. A user who may write to the folder can still put another file in
its place: a warning says so.
Whatever cannot be done, or is refused, is an `OSError` that says which file, why and what to do.

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

_FIRST_PAUSE, _LAST_PAUSE = 0.0005, 0.02  # seconds between two looks at a lock, in a thread
_HOLD_PAUSE, _LAST_HOLD_PAUSE = 0.005, 0.1  # seconds between two looks at a lock that may be held for long
_WAIT: Final = 30.0  # seconds for others that write
_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077  # what the group and everybody else may do
_CAN_NAME: Final = Path("/proc/self/fd")  # by which a file without a name gets one
# A pipe must not wait for its other end, and a link must not lead elsewhere.
_SAFE: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def full_path(path: str | os.PathLike[str]) -> Path:
    """The path as it is from the root, so that it names the same place when the working folder is another one.

    Raises:
        ValueError: no file can have it; it says why.
    """
    text = os.fspath(path)
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError(f"{text!r} can be no path: it holds a NUL or half a surrogate pair; give another path")
    return Path(text).absolute()


def file_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file, as `full_path` gives it.

    Raises:
        ValueError: no file can have it, such as `/` or `..`.
    """
    found = full_path(path)
    if not Path(path).name or found.name == "..":
        raise ValueError(f"{os.fspath(path)!r} names a folder; give the path of a file")
    return found


def file_name(name: str) -> str:
    """The name of the file of any name: readable, and different for each one on every file system.

    >>> file_name("anna/7")
    'anna_7-...'

    Raises:
        OSError: the name is no text that can be written.
    """
    from hashlib import sha256  # only where there is a store

    readable = "".join(one if one.isascii() and one.isalnum() else "_" for one in name[:40])
    try:
        digest = sha256(name.encode()).hexdigest()[:32]
    except UnicodeEncodeError as error:
        raise OSError("the id holds half a surrogate pair; give one of whole characters") from error
    return f"{readable}-{digest}"


def open_file(path: Path, *, writing: bool = True) -> int:
    """A descriptor of a private file, written in place or only read; a `FileNotFoundError` where it is not there."""
    with suppress(OSError):  # where nothing may be removed, the file can be read all the same
        _remove_stale(path)
    return _open_private(path, create=False, writing=writing)


def read_file(path: Path) -> bytes:
    """The content of a private file; a `FileNotFoundError` where it is not there."""
    with os.fdopen(open_file(path, writing=False), "rb") as file:
        return file.read()


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in the place of the one that is there, on the disk and whole, or not at all.

    The copy that is written meanwhile has no name where the system can do that, and is otherwise removed when the file
    is opened next: a process that is killed leaves none.
    """
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
    """The content of a file that is being updated; None: it is not there."""

    content: bytes | None = None


@contextmanager
def update_file(path: Path) -> Generator[FileContent]:
    """Reads a file under its lock, a file `.lock` beside it, and replaces it where the `with` has changed the content.

    Raises:
        TimeoutError: as `lock_file`.
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
    """Writes the content where the descriptor stands, however few bytes the system takes at once."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def create_file(path: Path, content: bytes) -> None:
    """Makes a file with this content, on the disk and whole; nothing happens where there is something already."""
    make_folder(path.parent)
    descriptor = _make_unnamed(path.parent, content, _PRIVATE)
    with suppress(FileExistsError):
        if descriptor is None:
            descriptor = _make_file(path, content, _PRIVATE)
        else:
            _link(descriptor, path)
    if descriptor is not None:
        os.close(descriptor)
    sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Removes a file and what a killed process left of its copies; nothing happens where there is none."""
    with suppress(FileNotFoundError):
        _remove_stale(path)
        path.unlink()
        sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Makes a folder and those around it that are not there, with the mode 0700."""
    if folder.is_dir():
        return
    if folder.parent == folder:
        raise FileNotFoundError(errno.ENOENT, "it is not there, and neither is what it is in", str(folder))
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # a umask may have taken the owner's own rights
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(folder))


def own_folder(folder: Path) -> Path:
    """The folder, made where it is not there, and its owner's alone."""
    make_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _RefusedError(f"{folder} is a symbolic link, which may lead anywhere; move it away")
    if sys.platform != "win32":
        if os.geteuid() not in (0, found.st_uid):
            raise _RefusedError(f"{folder} belongs to another user; give another path")
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            folder.chmod(0o700)
    return folder


def sync_folder(folder: Path) -> None:
    """Lets the entries of a folder survive a power cut, where a folder can be opened."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def protect(path: Path, found: os.stat_result, descriptor: int | str, *, in_place: bool) -> None:
    """Refuses what is no private file, and takes away the rights of others.

    Args:
        path: the file, for messages.
        found: its status.
        descriptor: by which its mode is changed.
        in_place: whether it is written where it stands, so that another name of it would be written too.
    """
    _check(path, found, in_place=in_place)
    _report_folder(path.parent)
    mode = stat.S_IMODE(found.st_mode)
    if sys.platform == "win32" or not mode & _OTHERS:
        return
    if found.st_nlink > 1:
        raise _RefusedError(
            f"{path} can be read by others (mode {mode:03o}), and has another name (a hard link), whose mode fxai does"
            " not change; put a copy in its place"
        )
    try:
        os.chmod(descriptor, mode & _PRIVATE)  # noqa: PTH101 (a descriptor cannot be another file meanwhile)
    except OSError as error:
        warn("%s can be read by others (mode %03o), and that cannot be changed: %s", path, mode, error.strerror)
    else:
        warn("%s could be read by others (mode %03o); it is its owner's alone now", path, mode)


@lru_cache(maxsize=256)
def _report_folder(folder: Path) -> None:
    """Write a warning if other users may put another file in the place of one in this folder. Once for each folder."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        found = folder.stat()
        mode, user = stat.S_IMODE(found.st_mode), os.geteuid()
        for_all = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and found.st_gid != os.getegid())
        if (for_all and not mode & stat.S_ISVTX) or found.st_uid not in (user, 0):
            message = (
                "others may write to the folder %s (mode %03o), and replace the files in it: use a folder of your own"
            )
            warn(message, folder, mode)


def warn(message: str, *about: object) -> None:
    """Writes a warning to the log `fxai.storage`."""
    import logging  # few files are wrong

    logging.getLogger("fxai.storage").warning(message, *about)


def _open_private(path: Path, *, create: bool, writing: bool) -> int:
    """A descriptor of what stands at a path, once it is its owner's alone."""
    descriptor = _open(path, os.O_RDWR if writing else os.O_RDONLY, create=create)
    try:
        protect(path, os.fstat(descriptor), descriptor, in_place=writing)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path, flags: int, *, create: bool) -> int:
    """A descriptor of what stands at a path; what is made is private from the start, whatever the umask."""
    for _ in range(100):  # it may come and go meanwhile
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
                os.fchmod(descriptor, _PRIVATE)  # a umask may have taken the owner's own rights
            return descriptor
    raise OSError(f"{path} is made and removed again all the time; see which program does that")


def _explain(path: Path, error: OSError) -> OSError:
    """The error, with words that say what stands there."""
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
        with suppress(FileNotFoundError):
            _check(path, path.lstat(), in_place=False)
    return error


def _check(path: Path, found: os.stat_result, *, in_place: bool) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _RefusedError(f"{path} is a symbolic link, which may lead anywhere; give the path of the file itself")
    if not stat.S_ISREG(found.st_mode):
        raise _RefusedError(f"{path} is no regular file; give another path, or move it away")
    if sys.platform == "win32":
        return
    user = os.geteuid()
    if user != 0 and found.st_uid not in (user, 0):
        raise _RefusedError(f"{path} belongs to another user, who can read it; give another path")
    if in_place and found.st_nlink > 1:
        raise _RefusedError(
            f"{path} has another name (a hard link), which would be written too; put a copy in its place"
        )


class _RefusedError(OSError):
    """What stands at the place of a private file is none."""


# -- copies


@contextmanager
def _write_copy(path: Path, content: bytes, mode: int) -> Generator[Path]:
    """A copy with this content beside a file, on the disk; it is gone behind the `with` unless it was moved."""
    copy = _copy_of(path)
    descriptor = _make_unnamed(copy.parent, content, mode)
    if descriptor is None:
        descriptor = _make_named(copy, content, mode)
    try:
        if not os.fstat(descriptor).st_nlink:
            for _ in _until(f"another process has written {copy}"):
                if _link(descriptor, copy):
                    break
                _remove_stale_copy(copy)
        if sys.platform == "win32":
            os.close(descriptor)
        yield copy
    finally:
        if sys.platform == "win32":
            copy.unlink(missing_ok=True)
        else:
            if _is_at(descriptor, copy):
                copy.unlink(missing_ok=True)
            os.close(descriptor)


def _fill(descriptor: int, content: bytes, mode: int) -> None:
    """Locks a new file, so that it is not taken for a copy that a killed process left, and writes it."""
    if sys.platform != "win32":
        os.fchmod(descriptor, mode)  # a umask may have taken the owner's own rights
        for _ in _until("another process has held a new file"):  # to remove it, as a stale copy
            if take_lock(descriptor):
                break
    write_all(descriptor, content)
    os.fsync(descriptor)


def _copy_of(path: Path) -> Path:
    if sys.platform == "win32":
        return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    return path.with_name(f".{path.name}.tmp")


def _make_unnamed(folder: Path, content: bytes, mode: int) -> int | None:
    """A descriptor of a file without a name, with this content; None where the system has no such files."""
    if sys.platform != "linux" or not _CAN_NAME.exists():
        return None
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE)
    except OSError:
        return None
    try:
        _fill(descriptor, content, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _link(descriptor: int, path: Path) -> bool:
    """Gives a file without a name this name; False where another file has it."""
    try:
        # A descriptor of a folder, which is not looked at, makes Python follow the link: that is the point of it.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
    except FileExistsError:
        return False
    return True


def _make_file(path: Path, content: bytes, mode: int) -> int:
    """A descriptor of a file with this name and content, which is made."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, _PRIVATE)
    try:
        _fill(descriptor, content, mode)
    except BaseException:
        is_ours = _is_at(descriptor, path)
        os.close(descriptor)
        if is_ours:
            path.unlink(missing_ok=True)
        raise
    return descriptor


def _make_named(path: Path, content: bytes, mode: int) -> int:
    """A descriptor of a new file with this name and content; another process may remove it before it is locked."""
    for _ in _until(f"another process has written {path}"):
        if sys.platform != "win32":
            _remove_stale_copy(path)
        with suppress(FileExistsError):
            descriptor = _make_file(path, content, mode)
            if sys.platform == "win32" or _is_at(descriptor, path):
                return descriptor
            os.close(descriptor)
    raise AssertionError("the pauses end with a TimeoutError")


def _remove_stale(path: Path) -> None:
    """Removes the copy that a killed process left of a file."""
    if sys.platform != "win32":
        _remove_stale_copy(_copy_of(path))


def _remove_stale_copy(copy: Path) -> None:
    """Removes a copy that no process writes any more: its writer holds its lock."""
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
    """Whether a path names the file of a descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


# -- locks


def open_lock(path: Path) -> int:
    """A descriptor of a lock file, which is made, with its folder, where it is not there; it is not held yet."""
    make_folder(path.parent)
    return _open_private(path, create=True, writing=True)


def take_lock(descriptor: int) -> bool:
    """Takes the lock until the descriptor is closed; False where it is not free."""
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
    """Frees a lock and closes its descriptor."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough where a child was forked meanwhile
    finally:
        os.close(descriptor)


def hold_file(place: Callable[[], Path], *, wait: bool = True) -> Effect[None, OSError, Scope]:
    """Holds the lock file at a place until the scope closes or the process ends, however it ends.

    Args:
        place: gives the path of the lock file, which is made where it is not there.
        wait: whether to wait, without end, while another program holds it.

    Fails with:
        OSError: As `open_lock` and as `place`; `BlockingIOError`: another program holds it, and it does not wait.
    """

    def fail(error: Exception) -> OSError | None:
        return error if isinstance(error, OSError) else None

    def within(scope: Scope) -> EffectOf[None, OSError]:
        return attempt_async(lambda: _hold(place, scope, wait), fail)

    return FlatMap(Fetch(Scope), within)


async def _hold(place: Callable[[], Path], scope: Scope, wait: bool) -> None:
    path = place()
    descriptor = open_lock(path)  # not in a thread, whose answer a cancellation could lose
    pause = _HOLD_PAUSE
    try:
        while not take_lock(descriptor):
            if not wait:
                raise BlockingIOError(f"another program holds {path}")
            await anyio.sleep(pause)  # no matter of the `Clock`: another process lives in real time
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
    """Holds a lock file inside a `with`, in a thread that may wait; threads of one process exclude each other too.

    Raises:
        TimeoutError: another program held it all the time.
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
    """Goes on, with pauses that grow, until it is left; then, or in time, with a `TimeoutError`."""
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        yield
        if time.monotonic() > until:
            raise TimeoutError(f"{what} for {seconds:g} s; end the process that hangs")
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)
