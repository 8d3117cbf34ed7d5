"""Limits of shared amounts, such as requests or tokens, in this process, in SQLite, or in PostgreSQL.

A caller first reserves the amounts of all its claims, or none. Then it commits the used amounts, and fxai releases the
rest. The committed and reserved amounts under a key never exceed the maximum of its claims, except if a caller uses
more than it reserved, or commits after its reservation ended. A reservation ends if its owner does not renew it, for
example because the owner died.

Callers that wait for a window form a line. The first caller is served first, and a small claim does not overtake a
large claim.

>>> allowances = Allowances.in_process()
>>> claim = Claim("tokens", amount=80, most=100)
>>> allowances.reserve("one", (claim,), now=0.0)
>>> allowances.reserve("two", (claim,), now=0.0).left
20
>>> allowances.commit("one", (claim.of(30),), now=0.0)
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
    Holds,
    Level,
    LimitExceeded,
    ProcessRows,
    Rows,
    Ticket,
    level_of,
    refusal_of,
    stand,
)

if TYPE_CHECKING:
    pass

LEASE: Final = 60.0
"""Seconds until a reservation ends if its owner does not renew it."""

_SAME: Final = 1.0  # seconds; clocks with a smaller difference count as equal
_COMPARE: Final = 60.0  # seconds between comparisons of clocks

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
    """The used amounts of limits. If `blocks` is True, call the methods in a worker thread.

    The methods raise an `OSError` if the system or the database refuses. Then nothing has changed. Times are in seconds
    since 1970, by the clock of the caller.
    """

    blocks: bool = True
    """True if the methods wait for the disk, a server, or other processes."""

    @staticmethod
    def in_process() -> Allowances:
        """Return limits of this process. All users of the object share them."""
        return ProcessAllowances()

    @staticmethod
    def sqlite(path: str | os.PathLike[str]) -> Allowances:
        """Return limits in a private SQLite file, which processes of one machine share.

        Raises:
            ValueError: If no file can have this path.
        """
        from fxai.storage.database import database_path  # it imports the database support

        return SqliteAllowances(database_path(path))

    @staticmethod
    def postgres(url: str) -> Allowances:
        """Return limits in a PostgreSQL database, which many machines share. Requires the extra `postgres`.

        Args:
            url: URL of the database, as `postgresql://USER:PASSWORD@HOST/DATABASE`.
        """
        return PostgresAllowances(url)

    def stay_open(self) -> AbstractContextManager[None]:
        """Return a context that keeps connections open, so that each use is faster.

        A layer of `limit` enters it for its lifetime. A lost connection is replaced.
        """
        return nullcontext()

    @abstractmethod
    def _transact(self, keys: list[str]) -> AbstractContextManager[Rows]:
        """Return a transaction for these keys. A failure rolls it back."""

    def reserve(
        self,
        id_: str,
        claims: Iterable[Claim],
        *,
        now: float,
        lease: float = LEASE,
        after_crash: AfterCrash = "release",
        wait: float | None = None,
    ) -> LimitExceeded | None:
        """Reserve the amounts of all claims. If a claim is too large or must wait, reserve nothing and return why.

        Args:
            id_: Unique name of the reservation.
            claims: One claim for each key.
            now: Current time.
            lease: Seconds until the reservation ends if it is not renewed.
            after_crash: Fate of the reservation if it ends that way.
            wait: Seconds for which the caller keeps its position in the line for a window, until it tries again or
                calls `leave`. None keeps no position.
        """
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            now += rows.ahead
            refusals = [found for claim in every if (found := refusal_of(rows, claim, id_, now)) is not None]
            refusal = min(refusals, key=lambda found: found.may_wait, default=None)  # first a refusal that is final
            if refusal is None:
                for claim in every:
                    rows.hold(claim, id_, Hold(claim.amount, now + lease, after_crash))
            stays = wait is not None and refusal is not None and refusal.may_wait
            for claim in every:
                stand(rows, claim, id_, now + wait if stays and wait is not None else None)
            return None if refusal is None else refusal.by_clock(rows.ahead)

    def leave(self, id_: str, claims: Iterable[Claim]) -> None:
        """Leave the line for these claims."""
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            for claim in every:
                stand(rows, claim, id_, None)

    def renew(self, id_: str, claims: Iterable[Claim], *, now: float, lease: float = LEASE) -> None:
        """Extend a reservation by `lease` seconds. An ended reservation stays ended."""
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            now += rows.ahead
            for claim in every:
                held = rows.holds(claim.key).get(id_)
                if held is not None:
                    rows.hold(claim, id_, Hold(held.amount, now + lease, held.after_crash))

    def commit(self, id_: str, claims: Iterable[Claim], *, now: float) -> None:
        """Commit the used amounts of these claims, and release the rest of the reservation.

        fxai also commits an amount above the reservation. Later claims then wait until enough is available again.
        """
        every = tuple(claims)
        with self._transact([claim.key for claim in every]) as rows:
            for claim in every:
                rows.let_go(claim.key, id_)
                if claim.amount:
                    rows.add(claim, claim.slot(now + rows.ahead), claim.amount)

    def look_up(self, key: str, *, now: float, seconds: float | None = None) -> Level:
        """Return the used amounts under a key with the window `seconds`."""
        claim = Claim(key, 0, 0, seconds)
        with self._transact([key]) as rows:
            return level_of(rows, claim, now + rows.ahead)[0]


# -- in this process


@final
class ProcessAllowances(Allowances):
    """Limits of this process. All users of the object share them."""

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
    """The rows of a database, read on first use. The two databases differ in the sign of a parameter."""

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
                self._held[key].put(id_, Hold(number, expires, after_crash))
            else:
                self._lines.setdefault(key, {})[id_] = Ticket(number, expires)

    @override
    def uses(self, key: str) -> Mapping[int, int]:
        self._read()
        return super().uses(key)

    @override
    def holds(self, key: str) -> Holds:
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
        self._run(_QUEUE, key, id_, ticket.position, ticket.expires)

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
    """Limits in a private SQLite file, which processes of one machine share."""

    def __init__(self, path: Path) -> None:
        from fxai.storage.database import DatabasePool  # it imports the database support

        self._pool = DatabasePool(path, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        from fxai.storage.database import transact  # it imports the database support

        with self._pool.take(transact) as database:
            yield _DatabaseRows(database, "?", keys)


@final
class PostgresAllowances(Allowances):
    """Limits in a PostgreSQL database, which many machines share. Requires the extra `postgres`."""

    def __init__(self, url: str) -> None:
        from fxai.storage.pool import Pool  # few programs need it

        self._url = url
        self._pool: Pool[Any] = Pool(self._connect, lambda database: not database.closed)
        self._ahead = 0.0  # seconds by which the clock of the server is ahead
        self._until = 0.0  # reading of the monotonic clock for the next comparison

    @override
    def __reduce__(self) -> tuple[type[PostgresAllowances], tuple[str]]:
        return PostgresAllowances, (self._url,)

    def _connect(self) -> AbstractContextManager[Any]:
        from fxai.storage.postgres import connect  # it imports the database support

        return connect(self._url, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        @contextmanager
        def start(database: Any) -> Generator[None]:
            from fxai.storage.postgres import lock, transact  # it imports the database support

            with transact(database):
                lock(database, [f"fxai allowance: {key}" for key in keys])
                self._compare_clocks(database)
                yield

        with self._pool.take(start) as database:
            yield _DatabaseRows(database, "%s", keys, self._ahead)

    def _compare_clocks(self, database: Any) -> None:
        """Measure how far the clock of the server is ahead of the clock of this machine. The server's clock decides."""
        if time.monotonic() < self._until:
            return
        row: Any = database.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        ahead = row[0] - time.time()
        self._ahead = ahead if abs(ahead) > _SAME else 0.0
        self._until = time.monotonic() + _COMPARE
