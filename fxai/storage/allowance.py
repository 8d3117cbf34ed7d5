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
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, LiteralString, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.storage import postgres
from fxai.storage.database import DatabasePool, database_path, transact
from fxai.storage.pool import Pool

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


AfterCrash: TypeAlias = Literal["release", "commit"]
"""The fate of a reservation whose owner died: fxai releases it, or counts it as used."""

MOST: Final = (1 << 62) - 1
"""The largest amount. A larger count becomes this amount."""

_SLOTS: Final = 60  # parts of a window: a few rows can contain any number of uses


@final
class Claim(msgspec.Struct, frozen=True):
    """A claim to use an amount under a key."""

    key: str
    amount: int
    """The amount in whole units: requests, tokens, or billionths of a currency."""
    most: int
    """The maximum under the key, in total or within the window."""
    seconds: float | None = None
    """The window in seconds. Older uses do not count. If it is None, all uses count. A key has one window."""

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(f"the claim to {self.amount} under {self.key!r} must be at least 0")

    def of(self, amount: int) -> Claim:
        """Return the claim with another amount."""
        return Claim(self.key, amount, self.most, self.seconds)

    def slot(self, at: float) -> int:
        """Return the slot of the window that contains a time."""
        return 0 if self.seconds is None else int(at // (self.seconds / _SLOTS))

    def end_of(self, slot: int) -> float:
        """Return the end time of a slot. A slot counts until all its uses are older than the window."""
        return inf if self.seconds is None else (slot + 1) * (self.seconds / _SLOTS) + self.seconds


@final
class Level(msgspec.Struct, frozen=True):
    """The used amounts under a key."""

    committed: int
    reserved: int


@final
class LimitExceeded(msgspec.Struct, frozen=True):
    """The first claim that exceeds its maximum."""

    claim: Claim
    level: Level
    retry_at: float | None
    """The time when enough committed amounts have expired, in seconds since 1970. The value is None if it depends
    on reservations, or if the amounts never expire."""
    ahead: int = 0
    """Number of requests that wait before this request."""

    def by_clock(self, ahead: float) -> LimitExceeded:
        """Return the refusal with its time on another clock. The clock of the store is `ahead` seconds ahead of it."""
        if not ahead or self.retry_at is None:
            return self
        return msgspec.structs.replace(self, retry_at=self.retry_at - ahead)

    @property
    def left(self) -> int:
        """The amount that can still be reserved."""
        return max(0, self.claim.most - self.level.committed - self.level.reserved)

    @property
    def is_final(self) -> bool:
        """True if waiting cannot help, independent of the reservations."""
        claim = self.claim
        return claim.amount > claim.most or (claim.seconds is None and claim.amount > claim.most - self.level.committed)

    @property
    def may_wait(self) -> bool:
        """True if waiting for a window can help."""
        return self.claim.seconds is not None and not self.is_final


@final
class Hold(msgspec.Struct, frozen=True):
    """A reservation under a key."""

    amount: int
    expires: float
    after_crash: AfterCrash


@final
class Holds:
    """The reservations under a key. Their number does not affect the time of a method, except when one has ended."""

    __slots__ = ("_by_id", "_until", "amount")

    def __init__(self) -> None:
        self._by_id: dict[str, Hold] = {}
        self._until = inf  # no reservation ends before this time
        self.amount: int = 0
        """The sum of the reserved amounts."""

    def get(self, id_: str) -> Hold | None:
        """Return the reservation with this ID, or None."""
        return self._by_id.get(id_)

    def put(self, id_: str, hold: Hold) -> None:
        """Add or replace the reservation with this ID."""
        self.remove(id_)
        self._by_id[id_] = hold
        self.amount += hold.amount
        self._until = min(self._until, hold.expires)

    def remove(self, id_: str) -> None:
        """Remove a reservation. A missing reservation is ignored."""
        gone = self._by_id.pop(id_, None)
        if gone is not None:
            self.amount -= gone.amount

    def list_ended(self, now: float) -> list[tuple[str, Hold]]:
        """Return the reservations that ended."""
        if now < self._until:
            return []
        self._until = min((hold.expires for hold in self._by_id.values() if hold.expires > now), default=inf)
        return [(id_, hold) for id_, hold in self._by_id.items() if hold.expires <= now]


@final
class Ticket(msgspec.Struct, frozen=True):
    """A position in the waiting line of a key."""

    position: int
    expires: float


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


class Rows:
    """The stored rows, in this process. A subclass reads them from a database, and writes each change to it.

    A transaction that is exclusive for its keys uses them.
    """

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead: float = ahead
        """Seconds from the clock of this machine to the clock of the store. Positive if the store is ahead."""
        self._used: dict[str, dict[int, int]] = {}
        self._held: defaultdict[str, Holds] = defaultdict(Holds)
        self._lines: dict[str, dict[str, Ticket]] = {}

    def _read(self) -> None:
        """Read the rows before their first use."""

    def _write(self, statement: LiteralString, *parameters: object) -> None:
        """Write a change. The parameters replace the signs `?` of the statement."""

    def uses(self, key: str) -> Mapping[int, int]:
        """Return the committed amounts, by slot."""
        self._read()
        return self._used.get(key, {})

    def holds(self, key: str) -> Holds:
        """Return the reservations. The methods `hold` and `let_go` change them."""
        self._read()
        return self._held[key]

    def line(self, key: str) -> Mapping[str, Ticket]:
        """Return the waiting line, by ID."""
        self._read()
        return self._lines.get(key, {})

    def add(self, claim: Claim, slot: int, amount: int) -> None:
        """Commit an amount in a slot."""
        used = self._used.setdefault(claim.key, {})
        used[slot] = used.get(slot, 0) + amount
        self._write(_ADD, claim.key, slot, min(amount, MOST), claim.seconds, MOST, MOST)

    def forget(self, key: str, slot: int) -> None:
        """Remove a slot."""
        self._used.get(key, {}).pop(slot, None)
        self._write("DELETE FROM allowance_used WHERE key = ? AND slot = ?", key, slot)

    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        """Add or replace the reservation with this ID."""
        self._held[claim.key].put(id_, hold)
        self._write(_HOLD, claim.key, id_, hold.amount, hold.expires, hold.after_crash, claim.seconds)

    def let_go(self, key: str, id_: str) -> None:
        """Remove a reservation. A missing reservation is ignored."""
        self._held[key].remove(id_)
        self._write("DELETE FROM allowance_held WHERE key = ? AND id = ?", key, id_)

    def queue(self, key: str, id_: str, ticket: Ticket) -> None:
        """Add or replace the ticket with this ID."""
        self._lines.setdefault(key, {})[id_] = ticket
        self._write(_QUEUE, key, id_, ticket.position, ticket.expires)

    def leave(self, key: str, id_: str) -> None:
        """Remove a ticket. A missing ticket is ignored."""
        self._lines.get(key, {}).pop(id_, None)
        self._write("DELETE FROM allowance_line WHERE key = ? AND id = ?", key, id_)


# -- the rules


def level_of(rows: Rows, claim: Claim, now: float) -> tuple[Level, Mapping[int, int]]:
    """Return the used amounts, and the committed amounts by slot, after removing expired rows."""
    for id_, held in rows.holds(claim.key).list_ended(now):
        rows.let_go(claim.key, id_)
        if held.after_crash == "commit":
            rows.add(claim, claim.slot(now), held.amount)
    for slot in [slot for slot in rows.uses(claim.key) if claim.end_of(slot) <= now]:
        rows.forget(claim.key, slot)
    used = rows.uses(claim.key)
    return Level(sum(used.values()), rows.holds(claim.key).amount), used


def refusal_of(rows: Rows, claim: Claim, id_: str, now: float) -> LimitExceeded | None:
    """Return why a claim must wait or fail now, or None if its amount is available and no earlier claim waits."""
    level, used = level_of(rows, claim, now)
    ahead = 0 if claim.seconds is None else _ahead(rows, claim.key, id_, now)
    missing = level.committed + level.reserved + claim.amount - claim.most
    if ahead:
        return LimitExceeded(claim, level, None, ahead)
    if missing <= 0:
        return None
    for slot in sorted(used):
        missing -= used[slot]
        if missing <= 0 and claim.seconds is not None:
            return LimitExceeded(claim, level, claim.end_of(slot))
    return LimitExceeded(claim, level, None)


def _ahead(rows: Rows, key: str, id_: str, now: float) -> int:
    """Return the number of earlier claims in the line, after removing claims that no longer wait."""
    line = rows.line(key)
    for gone in [other for other, ticket in line.items() if ticket.expires <= now and other != id_]:
        rows.leave(key, gone)
    own = line.get(id_)
    return sum(
        ticket.expires > now and (own is None or ticket.position < own.position)
        for other, ticket in line.items()
        if other != id_
    )


def stand(rows: Rows, claim: Claim, id_: str, expires: float | None) -> None:
    """Add a claim to the line, keep its position, or remove it if `expires` is None."""
    if claim.seconds is None:
        return
    line = rows.line(claim.key)
    own = line.get(id_)
    if expires is not None:
        last = max((ticket.position for ticket in line.values()), default=0)
        rows.queue(claim.key, id_, Ticket(last + 1 if own is None else own.position, expires))
    elif own is not None:
        rows.leave(claim.key, id_)


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
        self._rows = Rows()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        with self._lock:
            yield self._rows


# -- in databases


@final
class _DatabaseRows(Rows):
    """The rows of a database. The two databases differ in the sign of a parameter."""

    def __init__(self, database: Any, sign: Literal["?", "%s"], keys: list[str], ahead: float = 0.0) -> None:
        super().__init__(ahead)
        self._database = database
        self._sign = sign
        self._unread = keys

    @override
    def _write(self, statement: LiteralString, *parameters: object) -> Any:
        return self._database.execute(statement.replace("?", self._sign), parameters)

    @override
    def _read(self) -> None:
        keys, self._unread = self._unread, []
        if not keys:
            return
        signs: list[LiteralString] = ["?"] * len(keys)
        found: Any = self._write(_READ.replace("$", ", ".join(signs)), *keys * 3).fetchall()
        for kind, key, id_, number, expires, after_crash in found:
            if kind == "used":
                self._used.setdefault(key, {})[int(id_)] = number
            elif kind == "held":
                self._held[key].put(id_, Hold(number, expires, after_crash))
            else:
                self._lines.setdefault(key, {})[id_] = Ticket(number, expires)


@final
class SqliteAllowances(Allowances):
    """Limits in a private SQLite file, which processes of one machine share."""

    def __init__(self, path: Path) -> None:
        self._pool = DatabasePool(path, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        with self._pool.take(transact) as database:
            yield _DatabaseRows(database, "?", keys)


@final
class PostgresAllowances(Allowances):
    """Limits in a PostgreSQL database, which many machines share. Requires the extra `postgres`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Pool[Any] = Pool(self._connect, lambda database: not database.closed)
        self._ahead = 0.0  # seconds by which the clock of the server is ahead
        self._until = 0.0  # reading of the monotonic clock for the next comparison

    @override
    def __reduce__(self) -> tuple[type[PostgresAllowances], tuple[str]]:
        return PostgresAllowances, (self._url,)

    def _connect(self) -> AbstractContextManager[Any]:
        return postgres.connect(self._url, *_TABLES)

    @override
    def stay_open(self) -> AbstractContextManager[None]:
        return self._pool.stay_open()

    @override
    @contextmanager
    def _transact(self, keys: list[str]) -> Generator[Rows]:
        @contextmanager
        def start(database: Any) -> Generator[None]:
            with database.transaction():
                postgres.lock(database, [f"fxai allowance: {key}" for key in keys])
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
