"""The owners of journals and of worker names in a PostgreSQL database.

An owner is a row with an epoch and a lease. Each transaction of an owner checks the epoch of its row, so a replaced
owner writes nothing. The row does not depend on a connection, so a connection can break while a program owns a journal.
If the server is away for less than the lease, the owner only loses time.

A single thread of the process renews the leases of all its journals in a database, with one statement. If a process
dies, other processes of its machine detect this immediately. Processes of other machines wait until the lease ends.

>>> holder = new_holder()
>>> is_gone(holder), is_gone("")
(False, False)
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Final, LiteralString, final
from uuid import uuid4

from fxai.storage.postgres import PostgresPool, pool_of, retry_away
from fxai.storage.private_file import warn

LEASE: Final = 30
"""Maximum seconds of server downtime that an owner survives. After this time, another machine can take a dead owner's
journals."""

TABLES: Final[tuple[LiteralString, ...]] = (
    """CREATE TABLE IF NOT EXISTS fxai_journal_owner
        (kind TEXT NOT NULL, name TEXT NOT NULL, epoch BIGINT NOT NULL, holder TEXT NOT NULL,
         until TIMESTAMPTZ NOT NULL, token TEXT NOT NULL, PRIMARY KEY (kind, name))""",
    "CREATE INDEX IF NOT EXISTS fxai_journal_holder ON fxai_journal_owner (holder) WHERE holder <> ''",
    "CREATE SEQUENCE IF NOT EXISTS fxai_journal_epoch",
)
"""The statements that create the tables."""

_TAKE: Final = """INSERT INTO fxai_journal_owner AS mine
    VALUES (%(kind)s, %(name)s, nextval('fxai_journal_epoch'), %(holder)s, now() + %(lease)s * interval '1 s', '')
    ON CONFLICT (kind, name) DO UPDATE
    SET epoch = excluded.epoch, holder = excluded.holder, until = excluded.until, token = ''
    WHERE mine.holder = '' OR mine.until < now() OR mine.holder = %(gone)s RETURNING epoch"""
_HOLDER: Final = "SELECT holder FROM fxai_journal_owner WHERE kind = %(kind)s AND name = %(name)s AND until >= now()"
_RENEW: Final = "UPDATE fxai_journal_owner SET until = now() + %s * interval '1 s' WHERE holder = %s AND holder <> ''"
_HOLDERS: Final = "SELECT holder FROM fxai_journal_owner WHERE kind = %s AND until >= now() AND holder <> ''"
_STILL: Final = "SELECT 1 FROM fxai_journal_owner WHERE kind = %s AND name = %s AND epoch = %s AND holder = %s"
_FORGET: Final = "DELETE FROM fxai_journal_owner WHERE kind = %s AND name = %s AND epoch = %s"
_FREE: Final = "UPDATE fxai_journal_owner SET holder = '' WHERE kind = %s AND name = %s AND epoch = %s"

_holders: Final[dict[str, Holder]] = {}
_lock: Final = threading.RLock()  # no thread holds the lock while a statement runs


@final
class Holder:
    """An owner of names in a database: this process.

    Its methods block. They raise an `OSError` if fxai cannot reach the server, or the server refuses.
    """

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool
        self._name = new_holder()
        self._held: set[tuple[str, str]] = set()
        self._ended = threading.Event()  # set while no thread renews the leases
        self._ended.set()

    def take(self, kind: str, name: str) -> int | None:
        """Take a name. Return the epoch, or None if another program owns the name."""
        key = kind, name
        with _lock:
            if key in self._held:
                return None
            self._held.add(key)
        epoch: int | None = None
        try:
            # if an earlier attempt committed its row, this process takes its own row again
            epoch = retry_away(lambda: self._take(key), self._pool, lambda: True, seconds=LEASE)
        finally:
            with _lock:
                if epoch is None:
                    self._held.discard(key)
                elif self._ended.is_set():
                    self._ended = threading.Event()
                    name, given = "fxai journal leases", (self._ended,)
                    threading.Thread(target=self._renew, args=given, name=name, daemon=True).start()
        return epoch

    def _take(self, key: tuple[str, str]) -> int | None:
        parameters = {"kind": key[0], "name": key[1], "holder": self._name, "lease": LEASE, "gone": ""}
        with self._pool.transaction() as database:
            row: Any = database.execute(_TAKE, parameters).fetchone()
            if row is None:
                found: Any = database.execute(_HOLDER, parameters).fetchone()
                # an own row without a journal results from a commit whose reply was lost
                if found is not None and (found[0] == self._name or is_gone(found[0])):
                    row = database.execute(_TAKE, {**parameters, "gone": found[0]}).fetchone()
        return None if row is None else int(row[0])

    def is_held(self, kind: str) -> bool:
        """Return whether a living process owns a name of a kind."""
        with self._pool.transaction() as database:
            rows = database.execute(_HOLDERS, (kind,)).fetchall()
        return any(not is_gone(row[0]) for row in rows)

    def still_holds(self, kind: str, name: str, epoch: int) -> bool:
        """Return whether this process still owns a name."""
        with self._pool.transaction() as database:
            row: Any = database.execute(_STILL, (kind, name, epoch, self._name)).fetchone()
        return row is not None

    def free(self, kind: str, name: str, epoch: int, *, forget: bool = False) -> None:
        """Free a name with the epoch of `take`. If the server is away, the name becomes free when its lease ends.

        If `forget` is True, remove the row, because no process will take the name again.
        """
        try:
            with self._pool.transaction() as database:
                database.execute(_FORGET if forget else _FREE, (kind, name, epoch))
        finally:
            with _lock:
                self._held.discard((kind, name))
                if not self._held:
                    self._ended.set()

    def _renew(self, ended: threading.Event) -> None:
        is_troubled = False
        while not ended.wait(LEASE / 6):
            try:
                with self._pool.transaction() as database:
                    database.execute(_RENEW, (LEASE, self._name))
                is_troubled = False
            except OSError as error:
                if not is_troubled:
                    warn("renewal of the journal leases failed: %s. fxai retries.", error)
                is_troubled = True


def holder_of(url: str, *tables: LiteralString) -> Holder:
    """Return the owner of this process in a database."""
    with _lock:
        found = _holders.get(url)
        if found is None:
            found = _holders[url] = Holder(pool_of(url, *tables))
    return found


# -- processes


def new_holder() -> str:
    """Return a unique name for this process, which `is_gone` can check."""
    return " ".join((uuid4().hex, _machine(), str(os.getpid()), _start_of(os.getpid()) or ""))


def is_gone(holder: str) -> bool:
    """Return whether a holder is a process of this machine that has ended. Return False if the state is unknown."""
    parts = holder.split(" ")
    if len(parts) != 4 or not parts[1] or parts[1] != _machine() or not parts[2].isdecimal():
        return False
    return _start_of(int(parts[2])) != parts[3]


def _machine() -> str:
    """Return the identity of this machine and its process namespace, or an empty string if it is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """Return the start time of a process, or None if the process does not exist or has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


if hasattr(os, "register_at_fork"):
    # locked during a fork, so that no other thread has the lock; the child has no thread that renews
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    os.register_at_fork(after_in_child=_holders.clear)
