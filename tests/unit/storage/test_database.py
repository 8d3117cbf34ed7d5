"""Private databases: the modes of all that SQLite makes, what is refused in their place, locks that stay."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fxai.storage.database import connect, transact
from tests.kit.every import every

ROOT = Path(__file__).parents[3]
TABLE = "CREATE TABLE IF NOT EXISTS note (text TEXT) STRICT"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes and links")


@pytest.fixture(params=[0, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Each test once under a umask that takes nothing, the common one, and one that takes everything."""
    assert tmp_path.is_dir()  # made before
    before = os.umask(request.param)
    yield
    os.umask(before)


def _modes(folder: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}


def _noted(path: Path, text: str) -> None:
    with connect(path, TABLE) as database, transact(database):
        database.execute("INSERT INTO note VALUES (?)", (text,))


def _two_rows(path: Path) -> None:
    with connect(path, TABLE) as database, transact(database):
        database.execute("INSERT INTO note VALUES ('b')")
        database.execute("INSERT INTO nowhere VALUES ('c')")


def _notes(path: Path) -> list[str]:
    with connect(path, TABLE) as database:
        return [row[0] for row in database.execute("SELECT text FROM note")]


@pytest.mark.usefixtures("umask")
def test_a_database_and_its_journals_are_its_owners_alone(tmp_path: Path) -> None:
    """While it is open and afterwards, whatever the umask; so is each folder that was made."""
    path = tmp_path / "a" / "notes.db"
    with connect(path, TABLE) as database, transact(database):
        database.execute("INSERT INTO note VALUES ('a')")
        during = _modes(path.parent)

    assert during == dict.fromkeys(["notes.db", "notes.db-wal", "notes.db-shm"], 0o600)
    assert _modes(path.parent) == {"notes.db": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_rollback_journal_is_its_owners_alone(tmp_path: Path) -> None:
    """A database that is not in WAL mode yet has one while its mode is changed."""
    path = tmp_path / "notes.db"
    with connect(path, TABLE) as database:
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO note VALUES ('a')")
        during = _modes(tmp_path)
        database.execute("COMMIT")

    assert during == {"notes.db": 0o600, "notes.db-journal": 0o600}


KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode=WAL")
database.execute("CREATE TABLE note (text TEXT)")
database.execute("INSERT INTO note VALUES (7)")
database.commit()
os._exit(0)
"""


def test_a_database_that_others_could_read_is_tightened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the journals that a killed process left beside it; each is told. A stricter mode stays."""
    path = tmp_path / "notes.db"
    before = os.umask(0o022)
    try:
        subprocess.run([sys.executable, "-c", KILLED, str(path)], check=True)
    finally:
        os.umask(before)
    found = _modes(tmp_path)
    with connect(path, TABLE) as database:
        during = _modes(tmp_path)
        rows = database.execute("SELECT text FROM note").fetchall()

    assert found == dict.fromkeys(["notes.db", "notes.db-wal", "notes.db-shm"], 0o644)
    assert during == dict.fromkeys(["notes.db", "notes.db-wal", "notes.db-shm"], 0o600)
    assert rows == [("7",)]
    assert len(caplog.messages) == 3


def test_an_empty_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A database is made whole, so that an empty file is one that was cut short, or made by somebody else."""
    path = tmp_path / "notes.db"
    _noted(path, "a")
    quiet = list(caplog.messages)
    path.write_bytes(b"")
    read = _notes(path)

    assert (quiet, read) == ([], [])
    assert caplog.messages == [f"{path} is an empty file. If it contained a database, restore it from a backup."]


def test_a_file_that_ends_inside_a_page_is_refused(tmp_path: Path) -> None:
    """SQLite would take the missing rest for zeros, and a table for an empty one."""
    path = tmp_path / "notes.db"
    _noted(path, "a")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(OSError, match=r"notes\.db is damaged: it ends inside a page\. Restore it from"):
        _notes(path)

    assert path.read_bytes() == whole[:-100]


@every("name", ["notes.db", "notes.db-wal", "notes.db-shm", "notes.db-journal"])
@every("kind", ["link", "dangling", "pipe", "hard link"])
def test_what_is_no_file_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    """In the place of the database or of a journal; nothing is followed, and nothing is written."""
    path, target = tmp_path / "notes.db", tmp_path / "target"
    target.write_bytes(b"precious")
    planted = tmp_path / name
    if kind == "pipe":
        os.mkfifo(planted)
    elif kind == "hard link":
        planted.hardlink_to(target)
    else:
        planted.symlink_to(target if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"notes\.db[-a-z]* (is a symbolic link|is not a regular file|has a second name)"):
        _noted(path, "a")

    assert target.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """It says so, and where to look."""
    path = tmp_path / "diary.txt"
    path.write_bytes(b"my diary " * 200)
    with pytest.raises(OSError, match=r"file is not a database\. Check that .*diary\.txt is a SQLite database"):
        _notes(path)

    assert path.read_bytes() == b"my diary " * 200


def test_a_transaction_that_fails_is_undone(tmp_path: Path) -> None:
    """Whatever fails inside it."""
    path = tmp_path / "notes.db"
    _noted(path, "a")
    with pytest.raises(OSError, match="no such table"):
        _two_rows(path)

    assert _notes(path) == ["a"]


def test_a_connection_goes_on_after_a_transaction_that_failed(tmp_path: Path) -> None:
    """The next one begins anew."""
    path = tmp_path / "notes.db"
    with connect(path, TABLE) as database:
        with pytest.raises(sqlite3.OperationalError), transact(database):
            database.execute("INSERT INTO nowhere VALUES ('b')")
        with transact(database):
            database.execute("INSERT INTO note VALUES ('c')")

    assert _notes(path) == ["c"]


HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    database.execute("BEGIN IMMEDIATE")
    print("taken")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_second_connection_frees_no_lock_of_the_first(tmp_path: Path) -> None:
    """In one process, whoever closes any descriptor of a file frees all its locks: opening must close none."""
    path = tmp_path / "notes.db"
    _noted(path, "a")
    with connect(path, TABLE) as first, transact(first):
        first.execute("INSERT INTO note VALUES ('b')")
        path.chmod(0o644)
        seen = _notes(path)
        other = subprocess.run([sys.executable, "-c", HOLDER, str(path)], capture_output=True, text=True, check=True)

    assert seen == ["a"]
    assert other.stdout.strip() == "database is locked"
    assert _notes(path) == ["a", "b"]


def test_threads_that_make_a_database_at_once_all_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """None of them finds it half made."""
    failures: list[Exception] = []

    def work(folder: Path, number: int) -> None:
        try:
            _noted(folder / "notes.db", str(number))
        except (OSError, sqlite3.Error) as error:
            failures.append(error)

    for turn in range(5):
        folder = tmp_path / str(turn)
        threads = [threading.Thread(target=work, args=(folder, number)) for number in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

        assert sorted(_notes(folder / "notes.db")) == list("012345")

    assert (failures, caplog.messages) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    """Neither of a database that was used nor of one that was refused."""
    path = tmp_path / "notes.db"
    (tmp_path / "link.db").symlink_to(path)
    _noted(path, "a")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        _noted(path, "a")
        with pytest.raises(OSError, match="symbolic link"):
            _noted(tmp_path / "link.db", "a")

    assert len(list(Path("/proc/self/fd").iterdir())) == before
