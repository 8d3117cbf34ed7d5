"""Admission: how requests to one model are let through, as far as limits allow, in the order in which they came.

What a request may use is reserved before it, and settled after it. One that has to wait for a rate stands in line. In
an event loop those who wait for one key are in one line, and only the first of them asks the allowances, when there may
be room: when something was given back here, or counts no more. The first ones of several loops and processes stand in
the line of the allowances. So nobody is passed by, however much it wants, and however many wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from math import inf
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import msgspec
from anyio.lowlevel import RunVar

from fxai.effects import fx
from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Exit, Failed
from fxai.effects.constructor import attempt_work
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.pull import Channel
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.messages.errors import AiError
from fxai.messages.reason import QuotaExhaustedError, RateLimitError, UnknownError
from fxai.models.model_info import ModelInfo
from fxai.models.price import Price, PriceTable
from fxai.models.usage_limit import UNIT, Extent, Limit, Reservation, Unknown, places_of
from fxai.storage.allowance import LEASE, Allowances
from fxai.storage.allowance_rows import AfterCrash, Claim, Refusal

_PAUSE: Final = 0.25  # seconds between two looks at what others have reserved
_LONGEST_PAUSE: Final = 2.0  # of one that stands behind others in the line of the allowances
_LONGEST_WAIT: Final = 3600.0  # of one that is told when to look again
_STANDS: Final = 10.0  # seconds after which one that does not come back is no more in that line


@final
class Terms(msgspec.Struct, frozen=True):
    """How limits are held; the fields are the options of `limit`."""

    limits: tuple[Limit, ...]
    allowances: Allowances
    prices: PriceTable | None
    unpriced: Price | None
    unknown: Unknown
    after_crash: AfterCrash
    patience: float
    least_tokens: int | None

    @property
    def bounds_answers(self) -> bool:
        """Whether it matters how long an answer is."""
        return any(one.tokens is not None or one.money is not None for one in self.limits)


@final
class _Place:
    """A place in the lines for some keys."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.signal: Channel[None] = Channel()

    def wait(self, seconds: float) -> Effect[object]:
        """Waits until it is told to look again, or for so long."""
        return fx.race(fx.sleep(seconds), self.signal.take())


@final
class _Lines:
    """Who waits in one event loop for what one object allows, by key."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[_Place, None]] = {}
        self._listening: dict[str, set[_Place]] = {}

    def listen(self, place: _Place, key: str) -> None:
        """Tell a request, which is in no line for this key, when something is given back."""
        self._listening.setdefault(key, set()).add(place)

    def join(self, place: _Place) -> None:
        for key in place.keys:
            self._lines.setdefault(key, OrderedDict())[place] = None

    def leave(self, place: _Place) -> None:
        for key in place.keys:
            line = self._lines[key]
            del line[place]
            if not line:
                del self._lines[key]
        for key in [key for key, places in self._listening.items() if place in places]:
            self._listening[key].discard(place)
            if not self._listening[key]:
                del self._listening[key]
        self.wake(place.keys)

    def wake(self, keys: tuple[str, ...]) -> None:
        """Has the first ones look again."""
        for key in keys:
            if key in self._lines:
                next(iter(self._lines[key])).signal.offer(None)
            for place in self._listening.get(key, ()):
                place.signal.offer(None)

    def length(self, place: _Place) -> int:
        """How many are in its longest line."""
        return max((len(self._lines[key]) for key in place.keys), default=1)

    def is_first(self, place: _Place) -> bool:
        return all(next(iter(self._lines[key])) is place for key in place.keys)


_lines: Final[RunVar[WeakKeyDictionary[Allowances, _Lines]]] = RunVar("fxai lines of limits")


def _lines_of(allowances: Allowances) -> _Lines:
    if event_loop() is None:  # nobody waits where nothing runs beside it
        return _Lines()
    known = _lines.get(None)
    every: WeakKeyDictionary[Allowances, _Lines] = WeakKeyDictionary() if known is None else known
    if known is None:
        _lines.set(every)
    lines = every.get(allowances)
    if lines is None:
        lines = every[allowances] = _Lines()
    return lines


@final
class Admission:
    """Where requests to one model are let through."""

    def __init__(self, info: ModelInfo, terms: Terms) -> None:
        self.terms: Terms = terms
        self._info = info
        self._places = places_of(terms.limits, info)
        self._late: deque[tuple[str, tuple[Claim, ...], float]] = deque()  # what could not be settled in its time

    def admit(self, extent: Extent) -> EffectOf[Reservation, AiError, Scope | None]:
        """The reservation of a request, once there is room for it; the scope around settles it.

        Fails with:
            AiError: there will be no room, or not in time; the model has no price; the allowances cannot be reached.
        """
        table = self.terms.prices
        price = (None if table is None else table.price_of(self._info)) or self.terms.unpriced
        if price is None and any(one.money is not None for one in self.terms.limits):
            said = f"{self._info} has no price, and money is limited: add it to the prices, or give unpriced=Price(…)"
            return fx.fail(AiError("limit", "ask", QuotaExhaustedError(description=said)))

        def stand() -> EffectOf[Reservation, AiError, Scope | None]:
            reservation = Reservation(self._places, price, extent)
            lines = _lines_of(self.terms.allowances)
            place = _Place(tuple(claim.key for claim in reservation.claims if claim.seconds is not None))
            lines.join(place)
            waiting = _Waiting(self, reservation, lines, place)
            return waiting.run().on_exit(waiting.leave)

        return fx.suspend(stand)

    def reserve(
        self, reservation: Reservation, clock: Clock, *, waits: bool
    ) -> EffectOf[Refusal | None, AiError, Scope | None]:
        """Reserves what the request may use, or says why not; the scope around settles what was reserved."""
        allowances, after_crash = self.terms.allowances, self.terms.after_crash
        lease = LEASE if allowances.blocks else inf

        def reserve() -> Refusal | None:
            self._settle_late()
            return allowances.reserve(
                reservation.id,
                reservation.claims,
                now=clock.now(),
                lease=lease,
                after_crash=after_crash,
                wait=_STANDS if waits else None,
            )

        def hold(refusal: Refusal | None) -> EffectOf[Refusal | None, AiError, Scope | None]:
            if refusal is not None:
                return fx.succeed(refusal)
            return fx.add_finalizer(lambda _: self._settle(reservation, clock)).as_(None)

        return self.work(reserve).flat_map(hold).uninterruptible()

    def _settle(self, reservation: Reservation, clock: Clock) -> EffectOf[None]:
        """Commits what was used. Where that cannot be written the answer stands, and it is written with the next."""

        def settle() -> None:
            settled = (reservation.id, reservation.settle(self.terms.unknown), clock.now())
            try:
                self._settle_late()
                self.terms.allowances.settle(*settled[:2], now=settled[2])
            except OSError:
                self._late.append(settled)
                raise

        def warn(error: AiError) -> None:
            import logging  # few allowances fail

            logging.getLogger("fxai.models").error("what a request used is not written yet: %s", error.message)

        def wake(_: object) -> None:
            _lines_of(self.terms.allowances).wake(tuple(claim.key for claim in reservation.claims))

        return self.work(settle).match(warn, wake)

    def _settle_late(self) -> None:
        with suppress(IndexError):  # other threads do it too
            while True:
                late = self._late.popleft()
                try:
                    self.terms.allowances.settle(*late[:2], now=late[2])
                except OSError:
                    self._late.appendleft(late)
                    raise

    @fx.gen
    def renew(self, reservation: Reservation, clock: Clock) -> Gen[None, AiError]:
        """Keeps the reservation while the request runs."""
        renew = self.terms.allowances.renew
        while True:
            yield from fx.sleep(LEASE / 4)
            yield from self.work(lambda: renew(reservation.id, reservation.claims, now=clock.now())).result()

    def work(self, work: Callable[[], Any]) -> Effect[Any, AiError]:
        """Works with the allowances; where they cannot be reached, no request is made."""

        def to_error(raised: Exception) -> AiError | None:
            if not isinstance(raised, OSError):
                return None
            return AiError("limit", "ask", UnknownError(description=f"the allowances cannot be reached: {raised}"))

        return attempt_work(work, to_error, in_thread=self.terms.allowances.blocks)


@final
class _Waiting:
    """One request that waits to be let through."""

    def __init__(self, admission: Admission, reservation: Reservation, lines: _Lines, place: _Place) -> None:
        self._admission = admission
        self._reservation = reservation
        self._lines = lines
        self._place = place
        self._stands = False  # in the line of the allowances

    @fx.gen
    def run(self) -> Gen[Reservation, AiError, Scope]:
        """The reservation, or why there is none."""
        clock = yield from Clock
        terms = self._admission.terms
        until = clock.monotonic() + terms.patience
        while True:
            left = until - clock.monotonic()
            pause, error = _LONGEST_WAIT, self._in_line()
            if self._lines.is_first(self._place):
                self._stands = left > 0
                refusal = yield from self._admission.reserve(self._reservation, clock, waits=self._stands)
                if refusal is None:
                    break
                if not refusal.may_wait and self._shorten(refusal):
                    continue
                left = left if self._can_wait(refusal) else 0.0
                pause, error = min(_pause(refusal, clock.now()), _STANDS / 2), _error(refusal, clock.now())
            if left <= 0:
                return (yield from fx.fail(error))
            yield from self._place.wait(min(pause, left))
        self._stands = False
        if terms.allowances.blocks:
            yield from fx.fork(self._admission.renew(self._reservation, clock))
        self._reservation.begin()
        return self._reservation

    def leave(self, end: Exit[Any, Any]) -> EffectOf[None]:
        """Leaves the lines, however it ended."""
        leaving = fx.sync(lambda: self._lines.leave(self._place))
        if not (self._stands and isinstance(end, Failed)):
            return leaving
        left, allowances = self._reservation, self._admission.terms.allowances
        left_there = self._admission.work(lambda: allowances.leave(left.id, left.claims)).result()
        return left_there.as_(None).on_exit(lambda _: leaving)

    def _can_wait(self, refusal: Refusal) -> bool:
        """Return whether waiting can help: for a rate, or for a budget of which others may give back a part."""
        if refusal.may_wait or refusal.is_final or not refusal.level.reserved:
            return refusal.may_wait
        self._lines.listen(self._place, refusal.claim.key)
        return True

    def _shorten(self, refusal: Refusal) -> bool:
        least = self._admission.terms.least_tokens
        return least is not None and self._reservation.shorten(refusal, least)

    def _in_line(self) -> AiError:
        keys = ", ".join(self._place.keys)
        said = f"{keys}: {self._lines.length(self._place) - 1} others of this program are in line"
        return AiError("limit", "ask", RateLimitError(description=f"{said}; the limit is the program's own"))


def _pause(refusal: Refusal, now: float) -> float:
    """How long to wait before the next look."""
    if refusal.ahead:
        return min(_PAUSE * refusal.ahead, _LONGEST_PAUSE)
    wait = inf if refusal.retry_at is None else refusal.retry_at - now
    return max(min(wait, _PAUSE) if refusal.level.reserved else wait, 0.001)  # others may give back before that


def _error(refusal: Refusal, now: float) -> AiError:
    claim, level = refusal.claim, refusal.level
    used = f"{_show(claim, level.committed)} are used and {_show(claim, level.reserved)} reserved"
    said = f"{claim.key}: {used} of {_show(claim, claim.most)}, and the request may take {_show(claim, claim.amount)}"
    said += f"; {refusal.ahead} wait before it" if refusal.ahead else ""
    said += "; the limit is the program's own"
    if not refusal.may_wait:
        return AiError("limit", "ask", QuotaExhaustedError(description=said))
    wait = None if refusal.retry_at is None else max(refusal.retry_at - now, 0.0)
    return AiError("limit", "ask", RateLimitError(description=said, retry_after=wait))


def _show(claim: Claim, amount: int) -> str:
    return f"{Decimal(amount) / UNIT:f}" if claim.key.endswith(" money") else str(amount)
