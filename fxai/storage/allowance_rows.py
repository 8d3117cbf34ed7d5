"""The stored rows of allowances, and the rules for claims, reservations, and waiting lines.

>>> rows, claim = ProcessRows(), Claim("tokens", 80, 100)
>>> rows.hold(claim, "one", Hold(80, 60.0, "release"))
>>> refusal_of(rows, claim, "two", now=0.0).left
20
>>> refusal_of(rows, claim, "two", now=61.0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from math import inf
from typing import Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

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


class Rows(ABC):
    """The stored rows inside a transaction that is exclusive for its keys."""

    ahead: float = 0.0
    """Seconds from the clock of this machine to the clock of the store. Positive if the clock of the store is ahead."""

    @abstractmethod
    def uses(self, key: str) -> Mapping[int, int]:
        """Return the committed amounts, by slot."""

    @abstractmethod
    def holds(self, key: str) -> Holds:
        """Return the reservations. The methods `hold` and `let_go` change them."""

    @abstractmethod
    def add(self, claim: Claim, slot: int, amount: int) -> None:
        """Commit an amount in a slot."""

    @abstractmethod
    def forget(self, key: str, slot: int) -> None:
        """Remove a slot."""

    @abstractmethod
    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        """Add or replace the reservation with this ID."""

    @abstractmethod
    def let_go(self, key: str, id_: str) -> None:
        """Remove a reservation. A missing reservation is ignored."""

    @abstractmethod
    def line(self, key: str) -> Mapping[str, Ticket]:
        """Return the waiting line, by ID."""

    @abstractmethod
    def queue(self, key: str, id_: str, ticket: Ticket) -> None:
        """Add or replace the ticket with this ID."""

    @abstractmethod
    def leave(self, key: str, id_: str) -> None:
        """Remove a ticket. A missing ticket is ignored."""


class ProcessRows(Rows):
    """The rows in this process."""

    def __init__(self) -> None:
        self._used: dict[str, dict[int, int]] = {}
        self._held: defaultdict[str, Holds] = defaultdict(Holds)
        self._lines: dict[str, dict[str, Ticket]] = {}

    @override
    def uses(self, key: str) -> Mapping[int, int]:
        return self._used.get(key, {})

    @override
    def holds(self, key: str) -> Holds:
        return self._held[key]

    @override
    def add(self, claim: Claim, slot: int, amount: int) -> None:
        used = self._used.setdefault(claim.key, {})
        used[slot] = used.get(slot, 0) + amount

    @override
    def forget(self, key: str, slot: int) -> None:
        self._used.get(key, {}).pop(slot, None)

    @override
    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        self._held[claim.key].put(id_, hold)

    @override
    def let_go(self, key: str, id_: str) -> None:
        self._held[key].remove(id_)

    @override
    def line(self, key: str) -> Mapping[str, Ticket]:
        return self._lines.get(key, {})

    @override
    def queue(self, key: str, id_: str, ticket: Ticket) -> None:
        self._lines.setdefault(key, {})[id_] = ticket

    @override
    def leave(self, key: str, id_: str) -> None:
        self._lines.get(key, {}).pop(id_, None)


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
