"""Locks of workers: who lives, and which kinds of jobs a living worker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxai.storage.worker_lock import WorkerLock, is_served
from tests.kit.postgres import POSTGRES, fresh_database, server_of


@pytest.fixture(params=["file", POSTGRES])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The place of a work queue: a file, or a database of a server."""
    if request.param == "file":
        return tmp_path / "jobs.db"
    return fresh_database(server_of(request.param, request))


def test_second_program_with_the_id_of_a_worker_is_refused(location: Path | str) -> None:
    """The first program goes on, and the ID is free after its end."""
    with WorkerLock.hold(location, "ann", ("mail",)):
        with (
            pytest.raises(BlockingIOError, match="another program is the worker ann"),
            WorkerLock.hold(location, "ann"),
        ):
            pass
        still = is_served(location, "mail")
    with WorkerLock.hold(location, "ann"):
        pass

    assert still


def test_kind_is_served_while_one_of_its_workers_lives(location: Path | str) -> None:
    """A worker serves each of its kinds, and no other kind."""
    with WorkerLock.hold(location, "ann", ("mail", "pay")):
        with WorkerLock.hold(location, "bob", ("pay",)):
            during = [is_served(location, kind) for kind in ("mail", "pay", "look")]
        after = is_served(location, "pay")

    assert (during, after) == ([True, True, False], True)
    assert not is_served(location, "pay")


def test_lock_of_a_dead_worker_can_be_taken_by_another_worker(location: Path | str) -> None:
    """The lock of a living worker cannot."""
    with WorkerLock.hold(location, "ann") as ann:
        with WorkerLock.hold(location, "bob"):
            of_living = ann.take("bob")
        of_dead = ann.take("bob")
        with pytest.raises(BlockingIOError), WorkerLock.hold(location, "bob"):
            pass
        ann.free("bob")
        with WorkerLock.hold(location, "bob"):
            pass

        assert (of_living, of_dead) == (False, True)
