"""What is stored of allowances, and the rules by which it is given out: claims, reservations, and who waits.

>>> rows, claim = ProcessRows(), Claim("tokens", 80, 100)
>>> rows.hold(claim, "one", Hold(80, 60.0, "release"))
>>> refusal_of(rows, claim, "two", now=0.0).left
20
>>> refusal_of(rows, claim, "two", now=61.0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

AfterCrash: TypeAlias = Literal["release", "commit"]
"""What becomes of a reservation whose owner is gone: it is given back, or counts as used."""

MOST: Final = (1 << 62) - 1
"""More than any amount: what is counted beyond it is counted as this."""

_SLOTS: Final = 60  # a window is counted in so many parts, so that many uses are few rows


@final
class Claim(msgspec.Struct, frozen=True):
    """A claim to use some of what is allowed under a key."""

    key: str
    amount: int
    """In whole units: requests, tokens, or billionths of a currency."""
    most: int
    """The most that may be used under the key, in all or within the window."""
    seconds: float | None = None
    """The window: what was used longer ago counts no more; None: all counts for ever. One key has one window."""

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(
                f"the claim to {self.amount} under {self.key!r} is negative: nobody gives back by claiming"
            )

    def of(self, amount: int) -> Claim:
        """The same claim to another amount."""
        return Claim(self.key, amount, self.most, self.seconds)

    def slot(self, at: float) -> int:
        """The part of the time that `at` is in."""
        return 0 if self.seconds is None else int(at // (self.seconds / _SLOTS))

    def end_of(self, slot: int) -> float:
        """When what was used in a slot counts no more; a slot counts until all of it is older than the window."""
        return float("inf") if self.seconds is None else (slot + 1) * (self.seconds / _SLOTS) + self.seconds


@final
class Level(msgspec.Struct, frozen=True):
    """How much is used under a key."""

    committed: int
    reserved: int


@final
class Refusal(msgspec.Struct, frozen=True):
    """Why nothing was reserved: the first claim that was too much."""

    claim: Claim
    level: Level
    retry_at: float | None
    """When enough of what was committed counts no more, in seconds since 1970; None: that is not known, as it depends
    on what is reserved, or it never happens."""
    ahead: int = 0
    """How many wait in line before it."""

    def by_clock(self, ahead: float) -> Refusal:
        """The same by a clock that the clock of the store is so many seconds before."""
        if not ahead or self.retry_at is None:
            return self
        return msgspec.structs.replace(self, retry_at=self.retry_at - ahead)

    @property
    def left(self) -> int:
        """How much could be reserved."""
        return max(0, self.claim.most - self.level.committed - self.level.reserved)

    @property
    def is_final(self) -> bool:
        """Whether waiting cannot help, whatever becomes of what is reserved."""
        claim = self.claim
        return claim.amount > claim.most or (claim.seconds is None and claim.amount > claim.most - self.level.committed)

    @property
    def may_wait(self) -> bool:
        """Whether it is worth to wait: for a window, not for what is left for ever."""
        return self.claim.seconds is not None and not self.is_final


@final
class Hold(msgspec.Struct, frozen=True):
    """A reservation under one key."""

    amount: int
    expires: float
    after_crash: AfterCrash


@final
class Ticket(msgspec.Struct, frozen=True):
    """A place in the line for one key."""

    place: int
    expires: float


class Rows(ABC):
    """What is stored, inside a transaction that nobody else who names one of its keys is in."""

    ahead: float = 0.0
    """How many seconds the clock that all go by is before that of this machine."""

    @abstractmethod
    def uses(self, key: str) -> Mapping[int, int]:
        """What is committed, by slot."""

    @abstractmethod
    def holds(self, key: str) -> Mapping[str, Hold]:
        """What is reserved, by id."""

    @abstractmethod
    def add(self, claim: Claim, slot: int, amount: int) -> None:
        """Commits an amount in a slot."""

    @abstractmethod
    def forget(self, key: str, slot: int) -> None:
        """Takes a slot out."""

    @abstractmethod
    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        """Puts a reservation in, or in the place of that of the same id."""

    @abstractmethod
    def let_go(self, key: str, id_: str) -> None:
        """Takes a reservation out, if it is there."""

    @abstractmethod
    def line(self, key: str) -> Mapping[str, Ticket]:
        """Who waits, by id."""

    @abstractmethod
    def queue(self, key: str, id_: str, ticket: Ticket) -> None:
        """Puts a ticket in, or in the place of that of the same id."""

    @abstractmethod
    def leave(self, key: str, id_: str) -> None:
        """Takes a ticket out, if it is there."""


class ProcessRows(Rows):
    """What is stored in this process."""

    def __init__(self) -> None:
        self._used: dict[str, dict[int, int]] = {}
        self._held: dict[str, dict[str, Hold]] = {}
        self._lines: dict[str, dict[str, Ticket]] = {}

    @override
    def uses(self, key: str) -> Mapping[int, int]:
        return self._used.get(key, {})

    @override
    def holds(self, key: str) -> Mapping[str, Hold]:
        return self._held.get(key, {})

    @override
    def add(self, claim: Claim, slot: int, amount: int) -> None:
        used = self._used.setdefault(claim.key, {})
        used[slot] = used.get(slot, 0) + amount

    @override
    def forget(self, key: str, slot: int) -> None:
        self._used.get(key, {}).pop(slot, None)

    @override
    def hold(self, claim: Claim, id_: str, hold: Hold) -> None:
        self._held.setdefault(claim.key, {})[id_] = hold

    @override
    def let_go(self, key: str, id_: str) -> None:
        self._held.get(key, {}).pop(id_, None)

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
    """How much is used, and what is committed by slot, once what counts no more is taken out."""
    for id_, held in list(rows.holds(claim.key).items()):
        if held.expires <= now:
            rows.let_go(claim.key, id_)
            if held.after_crash == "commit":
                rows.add(claim, claim.slot(now), held.amount)
    for slot in [slot for slot in rows.uses(claim.key) if claim.end_of(slot) <= now]:
        rows.forget(claim.key, slot)
    used = rows.uses(claim.key)
    return Level(sum(used.values()), sum(held.amount for held in rows.holds(claim.key).values())), used


def refusal_of(rows: Rows, claim: Claim, id_: str, now: float) -> Refusal | None:
    """Why a claim does not hold now, or None: there is no room, or others stand in line before it."""
    level, used = level_of(rows, claim, now)
    ahead = 0 if claim.seconds is None else _ahead(rows, claim.key, id_, now)
    missing = level.committed + level.reserved + claim.amount - claim.most
    if ahead:
        return Refusal(claim, level, None, ahead)
    if missing <= 0:
        return None
    for slot in sorted(used):
        missing -= used[slot]
        if missing <= 0 and claim.seconds is not None:
            return Refusal(claim, level, claim.end_of(slot))
    return Refusal(claim, level, None)


def _ahead(rows: Rows, key: str, id_: str, now: float) -> int:
    """How many wait before this one; those who came no more are taken out."""
    line = rows.line(key)
    for gone in [other for other, ticket in line.items() if ticket.expires <= now and other != id_]:
        rows.leave(key, gone)
    own = line.get(id_)
    return sum(
        ticket.expires > now and (own is None or ticket.place < own.place)
        for other, ticket in line.items()
        if other != id_
    )


def stand(rows: Rows, claim: Claim, id_: str, expires: float | None) -> None:
    """Has one stand in line, where it stood or at its end, or leave it."""
    if claim.seconds is None:
        return
    line = rows.line(claim.key)
    own = line.get(id_)
    if expires is not None:
        last = max((ticket.place for ticket in line.values()), default=0)
        rows.queue(claim.key, id_, Ticket(last + 1 if own is None else own.place, expires))
    elif own is not None:
        rows.leave(claim.key, id_)
