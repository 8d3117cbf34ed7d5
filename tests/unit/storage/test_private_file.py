"""Private files: their modes, what is refused in their place, copies of killed processes, locks and descriptors."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fxai.storage.private_file import (
    create_file,
    file_name,
    free_lock,
    lock_file,
    make_folder,
    open_file,
    open_lock,
    own_folder,
    read_file,
    remove_file,
    replace_file,
    sync_folder,
    take_lock,
)
from tests.kit.every import every

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes and links")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=[0, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Each test once under a umask that takes nothing, the common one, and one that takes everything."""
    assert tmp_path.is_dir()  # made before
    before = os.umask(request.param)
    yield
    os.umask(before)


def _opened(path: Path) -> None:
    create_file(path, b"")
    os.close(open_file(path))


def _locked(path: Path) -> None:
    with lock_file(path):
        pass


def _replaced(path: Path) -> None:
    replace_file(path, b"new")


def _created(path: Path) -> None:
    create_file(path, b"new")


MAKERS: list[Callable[[Path], None]] = [_opened, _locked, _replaced, _created]
makers = pytest.mark.parametrize("make", MAKERS)


# -- modes


@pytest.mark.usefixtures("umask")
@makers
def test_what_is_made_is_its_owners_alone(make: Callable[[Path], None], tmp_path: Path) -> None:
    """The file has the mode 0600 and each folder around it that was made 0700, whatever the umask."""
    path = tmp_path / "a" / "b" / "chat.json"
    make(path)

    assert _mode(path) == 0o600
    assert [_mode(folder) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert list(path.parent.iterdir()) == [path]


def test_a_copy_can_never_be_read_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its first byte is written it has its mode already."""
    modes: list[int] = []
    write = os.write

    def looked(descriptor: int, data: Any) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", looked)
    before = os.umask(0)
    try:
        replace_file(tmp_path / "chat.json", b"secret")
        create_file(tmp_path / "other.json", b"secret")
    finally:
        os.umask(before)

    assert modes == [0o600, 0o600]


@pytest.mark.parametrize(
    ("before", "after"), [(0o600, 0o600), (0o400, 0o400), (0o644, 0o600), (0o666, 0o600), (0o440, 0o400)]
)
@pytest.mark.parametrize("make", [_opened, _locked, _replaced])
def test_an_existing_file_is_tightened_and_never_loosened(
    before: int, after: int, make: Callable[[Path], None], tmp_path: Path
) -> None:
    """What others could do is taken away; a mode that is stricter stays, through a replacement too."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    path.chmod(before)
    if os.geteuid() != 0 and not before & 0o200:
        pytest.skip("only root opens it for writing")
    make(path)

    assert _mode(path) == after


def test_a_file_that_others_could_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once: from then on it is its owner's alone. A mode that cannot be changed is told too, and the file is read."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "fxai.storage"):
        contents = [read_file(path), read_file(path)]

    assert contents == [b"old", b"old"]
    assert caplog.messages == [f"{path} could be read by others (mode 644); fxai made it private to its owner"]


def test_a_mode_that_cannot_be_changed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that has no modes, say; the file is read all the same."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    path.chmod(0o604)
    monkeypatch.setattr(os, "chmod", refuse)
    content = read_file(path)

    assert content == b"old"
    assert "(mode 604), and the mode cannot be changed: Operation not permitted" in caplog.text


# -- what stands in its place


def _linked(path: Path) -> None:
    path.with_name("target").write_bytes(b"precious")
    path.symlink_to(path.with_name("target"))


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@every("plant", [_linked, _dangling, _pipe, _socket])
@every("make", [_opened, _locked, _replaced])
def test_what_is_no_file_is_refused(
    plant: Callable[[Path], None], make: Callable[[Path], None], tmp_path: Path
) -> None:
    """A link, to something or to nothing, a pipe, a socket: nothing hangs, nothing is followed, nothing is written."""
    path = tmp_path / "chat.json"
    plant(path)
    before = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(OSError, match=r"chat\.json is (a symbolic link|not a regular file)") as refused:
        make(path)

    assert "Use " in str(refused.value)
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert not (tmp_path / "nowhere").exists()
    assert not path.is_symlink() or not path.exists() or path.read_bytes() == b"precious"


def test_a_name_of_a_file_elsewhere_does_not_change_its_mode(tmp_path: Path) -> None:
    """A hard link in the place of a store is refused before anything of the file behind it is changed."""
    other, path = tmp_path / "page.html", tmp_path / "store.json"
    other.write_bytes(b"{}")
    other.chmod(0o644)
    os.link(other, path)

    for act in (open_file, read_file):
        with pytest.raises(OSError, match=r"second name \(a hard link\)"):
            act(path)
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


@pytest.mark.parametrize(("mode", "is_reported"), [(0o777, True), (0o1777, False), (0o755, False), (0o700, False)])
def test_a_folder_that_others_may_write_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_reported: bool
) -> None:
    """In such a folder others can replace a file; in one with a sticky bit, as of temporary files, they cannot."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING, "fxai.storage"):
        for name in ("a", "b"):
            create_file(folder / name, b"1")
            read_file(folder / name)

    about = f"others can write to the directory {folder} (mode {mode:03o}), and replace files in it"
    assert caplog.messages == ([f"{about}. Use a private directory."] if is_reported else [])


def test_nothing_is_made_through_a_link(tmp_path: Path) -> None:
    """A file is not made at the place that a link names."""
    path = tmp_path / "chat.json"
    _dangling(path)
    create_file(path, b"new")

    assert path.is_symlink()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", [_opened, _locked])
def test_a_second_name_of_what_is_written_in_place_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    """It would be another file's content, or its mode, that changes."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    path.with_name("other").hardlink_to(path)
    with pytest.raises(OSError, match=r"second name \(a hard link\), under which it would also change"):
        make(path)

    assert _mode(path) == 0o644


def test_a_replacement_leaves_the_second_name_as_it_was(tmp_path: Path) -> None:
    """Only the name is taken."""
    path, other = tmp_path / "chat.json", tmp_path / "other"
    other.write_bytes(b"old")
    path.hardlink_to(other)
    replace_file(path, b"new")

    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"old")


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """He could read what is written; root, who may do everything, is told nothing."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    owner = 1 if path.stat().st_uid == 0 else path.stat().st_uid
    if os.getuid() == 0:
        os.chown(path, owner, -1)
    for make in (_opened, _locked, _replaced):
        with pytest.raises(OSError, match=r"belongs to another user, who can read it\. Use another path"):
            make(path)

    assert path.read_bytes() == b"old"


# -- copies


@pytest.mark.parametrize("read", [True, False])
def test_what_a_killed_process_left_is_removed(read: bool, tmp_path: Path) -> None:
    """By whoever opens the file next, to read it or to replace it."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    path.chmod(0o600)
    (tmp_path / ".chat.json.tmp").write_bytes(b"half of wha")
    if read:
        read_file(path)
    else:
        replace_file(path, b"new")

    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == (b"old" if read else b"new")


def test_removing_a_file_removes_its_copy(tmp_path: Path) -> None:
    """What is forgotten is forgotten whole; nothing happens where there is nothing."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    (tmp_path / ".chat.json.tmp").write_bytes(b"half of wha")
    remove_file(path)
    remove_file(path)

    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_copy_is_refused(tmp_path: Path) -> None:
    """It is neither followed nor removed."""
    path, copy = tmp_path / "chat.json", tmp_path / ".chat.json.tmp"
    (tmp_path / "target").write_bytes(b"precious")
    copy.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match=r"\.chat\.json\.tmp is a symbolic link"):
        replace_file(path, b"new")

    assert copy.is_symlink()
    assert copy.read_bytes() == b"precious"


def test_many_who_replace_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    """Nobody takes the copy that another one writes for one that was left."""
    path = tmp_path / "chat.json"
    texts = [bytes([65 + n]) * 50_000 for n in range(6)]
    failures: list[Exception] = []

    def work(text: bytes) -> None:
        try:
            for _ in range(8):
                replace_file(path, text)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert failures == []
    assert path.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from fxai.storage.private_file import create_file, replace_file
path, point, make = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if point == "write":
    real = os.write
    os.write = lambda file, data: (real(file, data[:3]), die())
elif point == "fsync":
    os.fsync = die
else:
    Path.replace = Path.rename = die
create_file(path, b"new") if make == "create" else replace_file(path, b"the new content")
"""


@pytest.mark.slow
@every("make", ["create", "replace"])
@every("point", ["write", "fsync", "rename"])
def test_a_process_that_is_killed_leaves_only_a_private_copy(point: str, make: str, tmp_path: Path) -> None:
    """The next opening of the file removes the copy, and the file is whole or missing."""
    path = tmp_path / "chat.json"
    if make == "replace":
        replace_file(path, b"the old content")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), point, make], cwd=ROOT, check=False).returncode
    left = {one.name: _mode(one) for one in tmp_path.iterdir() if one != path}
    is_there = path.exists()
    create_file(path, b"another content")

    assert ended == -signal.SIGKILL
    assert left == {".chat.json.tmp": 0o600}
    assert is_there == (make == "replace")
    assert read_file(path) == (b"the old content" if make == "replace" else b"another content")
    assert list(tmp_path.iterdir()) == [path]


@every("make", ["create", "replace", "remove"])
def test_the_entry_of_a_file_survives_a_power_cut(make: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is on the disk after each change of its entries."""
    path, synced = tmp_path / f"{make}.json", list[bool]()
    if make == "remove":
        create_file(path, b"old")
    doing: dict[str, Callable[[], object]] = {
        "create": lambda: create_file(path, b"new"),
        "replace": lambda: replace_file(path, b"new"),
        "remove": lambda: remove_file(path),
    }

    def note(descriptor: int) -> None:
        synced.append(os.path.samestat(os.fstat(descriptor), tmp_path.stat()))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", note)
        doing[make]()
    assert synced[-1:] == [True]


@pytest.mark.parametrize("doing", ["write", "fsync"])
def test_a_disk_that_is_full_leaves_the_file_as_it_was(
    doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And neither a copy nor a descriptor."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "chat.json"
    replace_file(path, b"old")
    before = _descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(os, doing, full)
        for make in (_replaced, _created):
            with pytest.raises(OSError, match="No space left"):
                make(path if make is _replaced else tmp_path / "other.json")

    assert (_descriptors(), path.read_bytes()) == (before, b"old")
    assert not (tmp_path / ".chat.json.tmp").exists()


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    """`create_file` puts nothing in the place of a file."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"old")
    create_file(path, b"new")

    assert path.read_bytes() == b"old"


# -- folders


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """It is the user's: only what is made is private."""
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "a")
    make_folder(tmp_path / "a")

    assert (_mode(tmp_path), _mode(tmp_path / "a")) == (0o755, 0o700)


def _nothing(*_: object) -> None:
    """Instead of a change of a mode."""


def test_nobody_else_may_enter_a_folder_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made with its mode, which is not put right afterwards."""
    monkeypatch.setattr(Path, "chmod", _nothing)
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)

    assert [_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")] == [0o700, 0o700]


def test_a_file_is_made_with_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not put right afterwards either: files that are opened, locks, new files and copies."""
    monkeypatch.setattr(os, "fchmod", _nothing)
    before = os.umask(0)
    try:
        for make in MAKERS:
            make(tmp_path / make.__name__)
    finally:
        os.umask(before)

    assert {one.name: _mode(one) for one in tmp_path.iterdir()} == dict.fromkeys(
        [one.__name__ for one in MAKERS], 0o600
    )


def test_a_folder_of_ours_is_tightened_and_never_a_link(tmp_path: Path) -> None:
    """What is in it would lie elsewhere."""
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose").chmod(0o755)
    own_folder(tmp_path / "loose")
    own_folder(tmp_path / "new")
    with pytest.raises(OSError, match=r"link is a symbolic link\. Move it away"):
        own_folder(tmp_path / "link")

    assert [_mode(tmp_path / name) for name in ("loose", "new", "elsewhere")] == [0o700, 0o700, 0o755]


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    """And so is a folder that is gone with all that was around it."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b")


# -- locks and descriptors


def test_a_lock_excludes_others_until_it_is_free(tmp_path: Path) -> None:
    """Those who wait get it when it is let go, and are told when it is not in time."""
    path = tmp_path / "chat.lock"
    with lock_file(path):
        began = time.monotonic()
        with (
            pytest.raises(TimeoutError, match=r"has held .*chat\.lock for 0\.05 s\. End the process that blocks it"),
            lock_file(path, 0.05),
        ):
            raise AssertionError("held twice")
        waited = time.monotonic() - began
    descriptor = open_lock(path)
    taken = take_lock(descriptor)
    free_lock(descriptor)

    assert taken
    assert waited >= 0.05


def _read_again(path: Path) -> None:
    replace_file(path, b"a")
    read_file(path)


def _synced(path: Path) -> None:
    sync_folder(path.parent)


def _freed(path: Path) -> None:
    free_lock(open_lock(path))


@on_linux
@pytest.mark.parametrize("work", [*MAKERS, _read_again, _synced, _freed, remove_file])
def test_no_descriptor_stays_open(work: Callable[[Path], None], tmp_path: Path) -> None:
    """Neither of a file nor of a lock nor of a folder, however often."""
    before = _descriptors()
    for _ in range(5):
        work(tmp_path / "chat.json")

    assert _descriptors() == before


@on_linux
def test_what_was_left_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Neither when it is removed, nor when something else stands in its place."""
    path, copy = tmp_path / "chat.json", tmp_path / ".chat.json.tmp"
    before = _descriptors()
    for make in (_replaced, _opened, remove_file):
        copy.write_bytes(b"half")
        make(path)
    os.mkfifo(copy)
    with pytest.raises(OSError, match="is not a regular file"):
        _replaced(path)

    assert _descriptors() == before


@on_linux
@pytest.mark.parametrize("plant", [_linked, _pipe])
def test_what_is_refused_leaves_no_descriptor_open(plant: Callable[[Path], None], tmp_path: Path) -> None:
    """Nor does a lock that somebody else holds."""
    plant(tmp_path / "chat.json")
    held = open_lock(tmp_path / "chat.lock")
    take_lock(held)
    before = _descriptors()
    for work in (_opened, _locked, _replaced):
        with pytest.raises(OSError, match="chat"):
            work(tmp_path / "chat.json")
    with pytest.raises(TimeoutError), lock_file(tmp_path / "chat.lock", 0.001):
        raise AssertionError("held twice")
    after = _descriptors()
    free_lock(held)

    assert after == before


FORKED = """
import json, os, sys, time
from pathlib import Path
from fxai.storage.private_file import lock_file, open_lock, take_lock
path = Path(sys.argv[1])
with lock_file(path):
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
again = open_lock(path)
print(json.dumps(take_lock(again)))
os.kill(child, 9)
os.waitpid(child, 0)
"""


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    """One that was forked while the lock was held has a copy of its descriptor."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "a.lock")], cwd=ROOT, capture_output=True, check=True
    )

    assert json.loads(done.stdout) is True


def test_names_of_files_stay_the_same_in_all_versions() -> None:
    """Another name would hide the stored data of a name."""
    assert [file_name(name) for name in ("run 7", "../x", "A" * 50, "ü")] == [
        "run_7-04ee297980826e719646754fcb81f32d",
        "___x-d6b96a97d147daaae49eb87a5ca7bfbc",
        f"{'A' * 40}-509ddb85fdf92f197d32570c005cdcb6",
        "_-607474ca475a9724d7360aba71a56d5d",
    ]
