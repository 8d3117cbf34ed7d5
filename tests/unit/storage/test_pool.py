"""Connections that are kept open: whose they are, when they are closed, and what becomes of those that are lost."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fxai.effects import Backend, Effect, Layer, fx
from fxai.messages import Usage
from fxai.models import Allowances, LanguageModel, Limit, limit
from fxai.storage.allowance import Claim
from fxai.storage.database import pool_of
from fxai.storage.journal import JSON, TableJournal
from fxai.storage.pool import Pool
from fxai.testing import ScriptedModel, finish, text
from tests.kit.postgres import POSTGRES, fresh_database, server_of

CLAIM = Claim("k", 1, 1000)
TEAM = Limit.budget("team", tokens=100_000)


class Connections:
    """Connections that are counted."""

    def __init__(self) -> None:
        self.opened = 0
        self.open: set[int] = set()
        self.lost: set[int] = set()

    @contextmanager
    def connect(self) -> Generator[int]:
        """A new one."""
        number = self.opened
        self.opened += 1
        self.open.add(number)
        try:
            yield number
        finally:
            self.open.discard(number)

    def is_usable(self, number: int) -> bool:
        """Whether it was not lost."""
        return number not in self.lost


def test_connections_are_kept_only_as_long_as_somebody_says() -> None:
    """Of two that do, until the longer one ends; what is in use then is closed when it is given back."""
    counted = Connections()
    pool = Pool(counted.connect)
    with pool.take():
        pass
    assert (counted.opened, counted.open) == (1, set())
    with pool.stay_open():
        with pool.stay_open(), pool.take() as first:
            pass
        with pool.take() as again, pool.take():
            assert again == first
        assert len(counted.open) == 2
        late = pool.take()
        late.__enter__()
    assert len(counted.open) == 1
    late.__exit__(None, None, None)
    assert (counted.opened, counted.open) == (3, set())


def test_a_block_that_fails_closes_its_connection() -> None:
    """Nobody knows what is left in it."""
    counted = Connections()
    pool = Pool(counted.connect)
    with pool.stay_open():
        with pytest.raises(ValueError, match="no"), pool.take():
            raise ValueError("no")
        assert counted.open == set()


def test_a_connection_that_is_lost_is_replaced() -> None:
    """Where that is known before, and where its work cannot begin; what fails on one that is there is told."""
    counted, locked = Connections(), set[int]()
    pool = Pool(counted.connect, counted.is_usable)

    @contextmanager
    def start(number: int) -> Generator[None]:
        if number == 1:
            counted.lost.add(1)
            raise OSError("gone")
        if number in locked:
            raise OSError("locked")
        yield

    with pool.stay_open():
        with pool.take():
            pass
        counted.lost.add(0)
        with pool.take() as second:
            assert second == 1
        with pool.take(start) as third:
            assert third == 2
        assert counted.open == {2}
        locked.add(2)
        with pytest.raises(OSError, match="locked"), pool.take(start):
            pass


def test_many_threads_share_a_few() -> None:
    """No connection is used by two at once, and at most four are kept."""
    counted, used, clashes = Connections(), set[int](), list[int]()
    pool = Pool(counted.connect)

    def work() -> None:
        for _ in range(50):
            with pool.take() as number:
                if number in used:
                    clashes.append(number)
                used.add(number)
                time.sleep(0)
                used.discard(number)

    with pool.stay_open():
        threads = [threading.Thread(target=work) for _ in range(12)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert clashes == []
        assert len(counted.open) <= 4
    assert counted.open == set()


def _sessions(url: str) -> int:
    with psycopg.connect(url) as admin:
        row: Any = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return int(row[0])


def _wait_for_no_session(url: str) -> bool:
    """Whether there is none within ten seconds: a server ends them a moment after it is told."""
    until = time.monotonic() + 10
    while (left := _sessions(url)) and time.monotonic() < until:
        time.sleep(0.02)
    return not left


def _end_sessions(url: str) -> None:
    with psycopg.connect(url) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert _wait_for_no_session(url)


@pytest.mark.slow
def test_a_server_that_goes_away_and_comes_back_is_used_again(postgres_url: str) -> None:
    """The first use after it takes a new connection; nothing is counted twice or lost."""
    url = fresh_database(postgres_url)
    allowances = Allowances.postgres(url)
    with allowances.stay_open():
        for number in range(4):
            assert allowances.reserve(str(number), (CLAIM,), now=0.0) is None
            _end_sessions(url)
            allowances.commit(str(number), (CLAIM,), now=0.0)
            _end_sessions(url)
        level = allowances.look_up("k", now=0.0)
        assert (level.committed, level.reserved) == (4, 0)
        assert _sessions(url) == 1
    assert _wait_for_no_session(url)


def _layer(allowances: Allowances) -> Layer[LanguageModel]:
    scripted = ScriptedModel.make([[text("Yes."), finish("stop", Usage(1, 1))]] * 20)
    return limit(scripted.layer, TEAM, allowances=allowances, max_tokens=10)


@pytest.mark.slow
def test_the_release_of_a_layer_closes_its_connections(postgres_url: str, backend: Backend) -> None:
    """While it lives a few are kept, and less than one for each request."""
    url = fresh_database(postgres_url)
    allowances, seen = Allowances.postgres(url), list[int]()
    asked = LanguageModel.generate_text("?")
    look: Effect[None] = fx.in_thread(lambda: seen.append(_sessions(url)))
    program = fx.for_each(range(10), lambda _: asked, concurrency=3).and_then(look)

    fx.run(program.provide(_layer(allowances)), backend=backend)

    assert 1 <= seen[0] <= 4
    assert _wait_for_no_session(url)
    assert allowances.look_up(TEAM.key("tokens"), now=0.0).committed == 20


def test_forked_process_does_not_close_the_connections_of_its_parent() -> None:
    """Also not by collecting them, because closing a database frees the locks of the parent."""
    closed: list[str] = []

    class Connection:
        def __del__(self) -> None:
            closed.append("collected")

    @contextmanager
    def connect() -> Generator[Connection]:
        yield Connection()
        closed.append("closed")

    pool = Pool(connect)
    with pool.stay_open():
        with pool.take():
            pass
        pool.forget()  # as in the child
        gc.collect()

        assert closed == []


def test_idle_connection_to_a_database_is_used_again(tmp_path: Path) -> None:
    """A new connection for each use would create the tables again and again."""
    pool = pool_of(tmp_path / "notes.db", "CREATE TABLE IF NOT EXISTS note (text TEXT) STRICT")
    with pool.stay_open():
        with pool.take() as first:
            pass
        with pool.take() as second:
            pass

        assert first is second


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    """Others would write into the new one, and not into what is still open here."""
    path = tmp_path / "limits.db"
    allowances = Allowances.sqlite(path)
    with allowances.stay_open():
        assert allowances.reserve("one", (CLAIM,), now=0.0) is None
        for found in tmp_path.iterdir():
            found.unlink()
        assert Allowances.sqlite(path).reserve("two", (CLAIM,), now=0.0) is None
        assert allowances.look_up("k", now=0.0).reserved == 1
        assert allowances.reserve("three", (CLAIM,), now=0.0) is None
        assert Allowances.sqlite(path).look_up("k", now=0.0).reserved == 2


def _open_files(path: Path) -> int:
    return sum(os.path.realpath(one) == str(path) for one in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="what is open is not told here")
def test_a_journal_keeps_its_connection_as_long_as_it_is_owned(tmp_path: Path, backend: Backend) -> None:
    """One for all that is read and appended; journals beside it in the same database share it."""
    path = tmp_path.resolve() / "notes.db"
    one, other = TableJournal(path, "one", JSON), TableJournal(path, "other", JSON)
    seen = list[int]()

    def work() -> None:
        for journal in (one, other):
            journal.append("note")
            assert journal.read(lambda newest: [entry.parts for entry in newest]) == [("note",)]
            seen.append(_open_files(path))

    fx.run(fx.scoped(one.own().and_then(other.own()).and_then(fx.in_thread(work))), backend=backend)
    seen.append(_open_files(path))
    one.append("another")
    seen.append(_open_files(path))

    assert seen == [1, 1, 0, 0]


@pytest.fixture(params=["sqlite", POSTGRES])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file or the URL of a fresh database."""
    if request.param == "sqlite":
        return str(tmp_path / "limits.db")
    return fresh_database(server_of(request.param, request))


def test_allowances_can_be_sent_to_another_process(location: str) -> None:
    """While their connections are open too: the other one opens its own, and sees the same."""
    allowances = Allowances.postgres(location) if location.startswith("postgresql:") else Allowances.sqlite(location)
    with allowances.stay_open():
        assert allowances.reserve("one", (CLAIM,), now=0.0) is None
        sent: Allowances = pickle.loads(pickle.dumps(allowances))
        assert sent.look_up("k", now=0.0).reserved == 1


FORKS = """
import os, sys
from fxai.models import Allowances
from fxai.storage.allowance import Claim

where = sys.argv[1]
shared = Allowances.postgres(where) if where.startswith("postgresql:") else Allowances.sqlite(where)
claim = Claim("k", 1, 1000)
with shared.stay_open():
    assert shared.reserve("parent", (claim,), now=0.0) is None
    children = []
    for number in range(3):
        child = os.fork()
        if not child:
            assert shared.reserve(f"child {number}", (claim,), now=0.0) is None
            if number == 1:
                sys.exit(0)  # with all that ends an interpreter
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    shared.commit("parent", (claim,), now=0.0)
    level = shared.look_up("k", now=0.0)
    assert (level.committed, level.reserved) == (1, 3), level
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_is_forked_has_connections_of_its_own(location: str) -> None:
    """Those of the first stay as they are, however the other ends."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, location], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_all_go_by_the_clock_of_the_server(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose clock is an hour ahead takes no reservation for dead, and forgets nothing that still counts."""
    url = fresh_database(postgres_url)
    right, wrong = Allowances.postgres(url), Allowances.postgres(url)
    claim, now = Claim("k", 60, 100, 60.0), time.time()
    assert right.reserve("one", (claim,), now=now) is None

    monkeypatch.setattr(time, "time", lambda: now + 3600)
    refusal = wrong.reserve("two", (claim,), now=now + 3600)
    assert refusal is not None
    assert (refusal.left, refusal.level.reserved) == (40, 60)
    monkeypatch.undo()
    right.commit("one", (claim,), now=time.time())

    monkeypatch.setattr(time, "time", lambda: now + 3600)
    refusal = wrong.reserve("two", (claim,), now=now + 3600)
    assert refusal is not None
    assert refusal.level.committed == 60
    assert refusal.retry_at is not None
    assert now + 3600 + 50 < refusal.retry_at < now + 3600 + 90  # by the clock of the one that asks
