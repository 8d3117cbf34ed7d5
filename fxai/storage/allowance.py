"""Allowances: how much of something may be used, by many at once, in this process, in SQLite or in PostgreSQL.

What is to be used is reserved first, all of it or nothing; then what was used is committed and the rest is given back.
What is committed and reserved under one key is never more than the most that its claims say, as long as nobody uses
more than was reserved, or tells of it when the reservation has ended: it ends by itself when its owner does not renew
it, as one that died.

Those who wait for a window stand in line: who came first is served first, and nobody passes a large claim by.

>>> allowances = Allowances.in_process()
>>> claim = Claim("tokens", amount=80, most=100)
>>> allowances.reserve("one", (claim,), now=0.0)
>>> allowances.reserve("two", (claim,), now=0.0).left
20
>>> allowances.settle("one", (claim.of(30),), now=0.0)
>>> allowances.look_up("tokens", now=0.0)
Level(committed=30, reserved=0)
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, final

from typing_extensions import override

from fxai.storage.allowance_rows import (
    MOST,
    AfterCrash,
    Claim,
    Hold,
    Level,
    ProcessRows,
    Refusal,
    Rows,
    Ticket,
    level_of,
    refusal_of,
    stand,
)

if TYPE_CHECKING:
    pass

LEASE: Final = 60.0
"""How long a reservation stands without being renewed, in seconds."""

_SAME: Final = 1.0  # seconds that clocks may differ and be taken for one
_COMPARE: Final = 60.0  # seconds after which they are compared again

_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS allowance_used
        (key TEXT NOT NULL, slot BIGINT NOT NULL, amount BIGINT NOT NULL, seconds DOUBLE PRECISION,
         PRIMARY KEY (key, slot))""",
    """CREATE TABLE IF NOT EXISTS allowance_held
        (key TEXT NOT NULL, id TEXT NOT NULL, amount BIGINT NOT NULL, expires DOUBLE PRECISION NOT NULL,
         after_crash TEXT NOT NULL, seconds DOUBLE PRECISION, PRIMARY KEY (key, id))""",
    """CREATE TABLE IF NOT EXISTS allowance_line
        (key TEXT NOT NULL, id TEXT NOT NULL, place BIGINT NOT NULL, expires DOUBLE PRECISION NOT NULL,
         PRIMARY KEY (key, id))""",
)


class Allowances(ABC):
    """How much is used of what is allowed. The methods block where `blocks` says so; then they are for worker threads.

    They raise an `OSError` where the system or the database refuses; then nothing was changed. Times are in seconds
    since 1970, by the clocks of those who call.
    """

    blocks: bool = True
    """Whether it waits for the disk, a server or other processes."""

    @staticmethod
    def in_process() -> Allowances:
        """Allowances of this process, shared by all that are given this object."""
        return ProcessAllowances()

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> Allowances:
        """Allowances in a private SQLite file, shared by the processes of one machine.

        Raises:
            ValueError: no file can have this path.
        """
        from fxai.storage.database import database_path  # which imports what databases need

        return SqliteAllowances(database_path(path))

    @staticmethod
    def postgres(url: str) -> Allowances:
        """Allowances in a PostgreSQL database, shared by everybody who can reach it. Needs the extra `postgres`.

        Args:
            url: `postgresql://USER:PASSWORD@HOST/DATABASE`.
        """
        return PostgresAllowances(url)

    def stay_open(self) -> AbstractContextManager[None]:
        """Keeps connections open for the block, so that each use takes less time; at its end they are closed.

        A layer of `limit` does it for as long as it lives. A connection that is lost meanwhile is replaced.
        """
        return nullcontext()

    @abstractmethod
    def _transact(self, keys: list[str]) -> AbstractContextManager[Rows]:
        """A transaction about these keys, which is undone when it fails."""

    def reserve(
        self,
        id_: str,
        claims: Iterable[Claim],
        *,
        now: float,
        lease: float = LEASE,
        after_crash: AfterCrash = "release",
        wait: float | None = None,
    ) -> Refusal | None:
        """Reserves what all the claims say, or, where one is too much, or others wait in line for it, nothing.

        Args:
            id_: the reservation's name, which nothing else has.
            claims: one for each key.
            now: the time.
            lease: how many seconds the reservation stands without being renewed.
            after_crash: what becomes of it then.
            wait: how many seconds it stands in line for the windows of its claims, until it tries again or ends its
                waiting by `leave`; None: it does not.
        """
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            now += rows.ahead
            refusals = [found for claim in every if (found := refusal_of(rows, claim, id_, now)) is not None]
            refusal = min(refusals, key=lambda found: found.may_wait, default=None)  # what waiting does not mend first
            if refusal is None:
                for claim in every:
                    rows.hold(claim, id_, Hold(claim.amount, now + lease, after_crash))
            stays = wait is not None and refusal is not None and refusal.may_wait
            for claim in every:
                stand(rows, claim, id_, now + wait if stays and wait is not None else None)
            return None if refusal is None else refusal.by_clock(rows.ahead)

    def leave(self, id_: str, claims: Iterable[Claim]) -> None:
        """Ends the waiting in line for these claims."""
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            for claim in every:
                stand(rows, claim, id_, None)

    def renew(self, id_: str, claims: Iterable[Claim], *, now: float, lease: float = LEASE) -> None:
        """Has a reservation stand for another `lease`; one that has ended stays so."""
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            now += rows.ahead
            for claim in every:
                held = rows.holds(claim.key).get(id_)
                if held is not None:
                    rows.hold(claim, id_, Hold(held.amount, now + lease, held.after_crash))

    def settle(self, id_: str, claims: Iterable[Claim], *, now: float) -> None:
        """Commits the amounts of these claims, which were used, and gives back the rest of the reservation.

        More than was reserved is committed too, since it was used; then nothing is reserved until there is room again.
        """
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            for claim in every:
                rows.let_go(claim.key, id_)
                if claim.amount:
                    rows.add(claim, claim.slot(now + rows.ahead), claim.amount)

    def look_up(self, key: str, *, now: float, seconds: float | None = None) -> Level:
        """How much is used under a key, whose window is `seconds`."""
        claim = Claim(key, 0, 0, seconds)
        with self._transact([key]) as rows:
            return level_of(rows, claim, now + rows.ahead)[0]


# -- in this process


@final
class ProcessAllowances(Allowances):
    """Allowances of this process, shared by all its programs that are given this object."""

    blocks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows = ProcessRows()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        with self._lock:
            yield self._rows


# -- in databases


@final
class _DatabaseRows(ProcessRows):
    """Rows of either database, read when they are first asked for; the statements differ in the sign of a parameter."""

    def __init__(self, database: Any, sign: Literal["?", "%s"], keys: list[str], ahead: float = 0.0) -> None:
        super().__init__()
        self.ahead = ahead
        self._database = database
        self._sign = sign
        self._keys = keys
        self._is_read = False

    def _run(self, statement: LiteralString, *parameters: object) -> Any:
        return self._database.execute(statement.replace("?", self._sign), parameters)

    def _read(self) -> None:
        if self._is_read or not self._keys:
            return
        self._is_read = True
        signs: list[LiteralString] = ["?"] * len(self._keys)
        found: Any = self._run(_READ.replace("$", ", ".join(signs)), *self._keys * 3).fetchall()
        for kind, key, id_, number, expires, after_crash in found:
            if kind == "used":
                self._used.setdefault(key, {})[int(id_)] = number
            elif kind == "held":
                self._held.setdefault(key, {})[id_] = Hold(number, expires, after_crash)
            else:
                self._lines.setdefault(key, {})[id_] = Ticket(number, expires)

    @override
    def uses(self, key: str) -> Mapping[int, int]:
        self._read()
        return super().uses(key)

    @override
    def holds(self, key: str) -> Mapping[str, Hold]:
        self._read()
        return super().holds(key)

    @override
    def line(self, key: str) -> Mapping[str, Ticket]:
        self._read()
        return super().line(key)

    @override
    def add(self, claim: Claim, slot: int, amount: int) -> None:
        super().add(claim, slot, amount)
        self._run(_ADD, claim.key, slot, min(amount, MOST), claim.seconds, MOST, MOST)

    @override
    def forget(self, key: str, slot: int) -> None:
        super().forget(key, slot)
        self._run("DELETE FROM allowance_used WHERE key = ? AND slot = ?", key, slot)

    @override
    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        super().hold(claim, id_, hold)
        self._run(_HOLD, claim.key, id_, hold.amount, hold.expires, hold.after_crash, claim.seconds)

    @override
    def let_go(self, key: str, id_: str) -> None:
        super().let_go(key, id_)
        self._run("DELETE FROM allowance_held WHERE key = ? AND id = ?", key, id_)

    @override
    def queue(self, key: str, id_: str, ticket: Ticket) -> None:
        super().queue(key, id_, ticket)
        self._run(_QUEUE, key, id_, ticket.place, ticket.expires)

    @override
    def leave(self, key: str, id_: str) -> None:
        super().leave(key, id_)
        self._run("DELETE FROM allowance_line WHERE key = ? AND id = ?", key, id_)


_READ: Final[LiteralString] = """
    SELECT 'used', key, CAST(slot AS TEXT), amount, 0.0, '' FROM allowance_used WHERE key IN ($)
    UNION ALL SELECT 'held', key, id, amount, expires, after_crash FROM allowance_held WHERE key IN ($)
    UNION ALL SELECT 'line', key, id, place, expires, '' FROM allowance_line WHERE key IN ($)
"""
_ADD: Final = """
    INSERT INTO allowance_used (key, slot, amount, seconds) VALUES (?, ?, ?, ?)
    ON CONFLICT (key, slot) DO UPDATE SET amount = CASE
    WHEN allowance_used.amount > ? - excluded.amount THEN ? ELSE allowance_used.amount + excluded.amount END
"""
_HOLD: Final = """
    INSERT INTO allowance_held (key, id, amount, expires, after_crash, seconds) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (key, id) DO UPDATE SET expires = excluded.expires
"""
_QUEUE: Final = """
    INSERT INTO allowance_line (key, id, place, expires) VALUES (?, ?, ?, ?)
    ON CONFLICT (key, id) DO UPDATE SET expires = excluded.expires
"""


@final
class SqliteAllowances(Allowances):
    """Allowances in a private SQLite file, shared by the processes of one machine."""

    def __init__(self, path: Path) -> None:
        from fxai.storage.database import DatabasePool  # which imports what databases need

        self._pool = DatabasePool(path, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        from fxai.storage.database import transact  # which imports what databases need

        with self._pool.take(transact) as database:
            yield _DatabaseRows(database, "?", keys)


@final
class PostgresAllowances(Allowances):
    """Allowances in a PostgreSQL database, shared by everybody who can reach it. Needs the extra `postgres`."""

    def __init__(self, url: str) -> None:
        from fxai.storage.pool import Pool  # which few programs need

        self._url = url
        self._pool: Pool[Any] = Pool(self._connect, lambda database: not database.closed)
        self._ahead = 0.0  # seconds, of the server's clock
        self._until = 0.0  # when to compare the clocks again, by the monotonic clock

    @override
    def __reduce__(self) -> tuple[type[PostgresAllowances], tuple[str]]:
        return PostgresAllowances, (self._url,)

    def _connect(self) -> AbstractContextManager[Any]:
        from fxai.storage.postgres import connect  # which imports what databases need

        return connect(self._url, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        @contextmanager
        def begin(database: Any) -> Generator[None]:
            from fxai.storage.postgres import lock, transact  # which imports what databases need

            with transact(database):
                lock(database, [f"fxai allowance: {key}" for key in keys])
                self._compare_clocks(database)
                yield

        with self._pool.take(begin) as database:
            yield _DatabaseRows(database, "%s", keys, self._ahead)

    def _compare_clocks(self, database: Any) -> None:
        """Notes how much the clock of the server differs from that of this machine: all go by that of the server."""
        if time.monotonic() < self._until:
            return
        row: Any = database.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        ahead = row[0] - time.time()
        self._ahead = ahead if abs(ahead) > _SAME else 0.0
        self._until = time.monotonic() + _COMPARE
