"""Admission: let requests to a model wait in line until the limits allow them. `limit` uses this module.

fxai reserves the possible usage of a request before the request, and records its actual usage afterwards. If a rate
limit is exhausted, the request waits in line.

Each event loop has a separate line for each key. Only the first request in the line asks the allowances. It asks when
the allowances can have free capacity: after a request returned its reservation, or after old usage expired. The first
requests of different loops and processes are in the line of the allowances. Therefore no request overtakes another
request, regardless of its size and the length of the line.
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
from fxai.models.usage_limit import UNIT, Extent, Limit, Reservation, Unknown, usage_keys
from fxai.storage.allowance import LEASE, AfterCrash, Allowances, Claim, LimitExceeded

_PAUSE: Final = 0.25  # seconds between two checks of the reservations of other processes
_LONGEST_PAUSE: Final = 2.0  # the same, if other processes are earlier in the line of the allowances
_LONGEST_WAIT: Final = 3600.0  # seconds to wait for a signal
_STANDS: Final = 10.0  # seconds until a process that does not return loses its position in the line of the allowances


@final
class Terms(msgspec.Struct, frozen=True):
    """The settings for limits. The fields are the options of `limit`."""

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
        """True if a limit depends on the length of the answer."""
        return any(one.tokens is not None or one.money is not None for one in self.limits)


@final
class _Position:
    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.signal: Channel[None] = Channel()

    def wait(self, seconds: float) -> Effect[object]:
        """Wait for a signal, but at most this number of seconds."""
        return fx.race(fx.sleep(seconds), self.signal.take())


@final
class _Lines:
    """The pending requests of an event loop for the same allowances, by key."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[_Position, None]] = {}
        self._listening: dict[str, set[_Position]] = {}

    def listen(self, position: _Position, key: str) -> None:
        """Signal a request outside the line of this key when another request returns its reservation."""
        self._listening.setdefault(key, set()).add(position)

    def join(self, position: _Position) -> None:
        for key in position.keys:
            self._lines.setdefault(key, OrderedDict())[position] = None

    def leave(self, position: _Position) -> None:
        for key in position.keys:
            line = self._lines[key]
            del line[position]
            if not line:
                del self._lines[key]
        for key in [key for key, positions in self._listening.items() if position in positions]:
            self._listening[key].discard(position)
            if not self._listening[key]:
                del self._listening[key]
        self.wake(position.keys)

    def wake(self, keys: tuple[str, ...]) -> None:
        """Signal the first request in each line to check again."""
        for key in keys:
            if key in self._lines:
                next(iter(self._lines[key])).signal.offer(None)
            for position in self._listening.get(key, ()):
                position.signal.offer(None)

    def length(self, position: _Position) -> int:
        """Return the number of requests in the longest line of a request."""
        return max((len(self._lines[key]) for key in position.keys), default=1)

    def is_first(self, position: _Position) -> bool:
        return all(next(iter(self._lines[key])) is position for key in position.keys)


_lines: Final[RunVar[WeakKeyDictionary[Allowances, _Lines]]] = RunVar("fxai lines of limits")


def _lines_of(allowances: Allowances) -> _Lines:
    if event_loop() is None:  # without an event loop, no concurrent request can wait
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
    """The admission of requests to one model."""

    def __init__(self, info: ModelInfo, terms: Terms) -> None:
        self.terms: Terms = terms
        self._info = info
        self._locations = usage_keys(terms.limits, info)
        self._late: deque[tuple[str, tuple[Claim, ...], float]] = deque()  # usage that fxai could not record yet

    def admit(self, extent: Extent) -> EffectOf[Reservation, AiError, Scope | None]:
        """Return an effect that succeeds with the reservation of a request as soon as the limits allow it.

        When the scope closes, fxai records the actual usage.

        Fails with:
            AiError: If the limits will never allow the request, or not in time. Also if the model has no price, or
                fxai cannot reach the allowances.
        """
        table = self.terms.prices
        price = (None if table is None else table.price_of(self._info)) or self.terms.unpriced
        if price is None and any(one.money is not None for one in self.terms.limits):
            problem = f"{self._info} has no price, but money is limited. Add it to prices, or pass unpriced=Price(…)."
            return fx.fail(AiError("limit", "ask", QuotaExhaustedError(description=problem)))

        def stand() -> EffectOf[Reservation, AiError, Scope | None]:
            reservation = Reservation(self._locations, price, extent)
            lines = _lines_of(self.terms.allowances)
            position = _Position(tuple(claim.key for claim in reservation.claims if claim.seconds is not None))
            lines.join(position)
            waiting = _Waiting(self, reservation, lines, position)
            return waiting.run().on_exit(waiting.leave)

        return fx.suspend(stand)

    def reserve(
        self, reservation: Reservation, clock: Clock, *, waits: bool
    ) -> EffectOf[LimitExceeded | None, AiError, Scope | None]:
        """Reserve the possible usage, or return the refusal. When the scope closes, fxai records the actual usage."""
        allowances, after_crash = self.terms.allowances, self.terms.after_crash
        lease = LEASE if allowances.blocks else inf

        def reserve() -> LimitExceeded | None:
            self._commit_late()
            return allowances.reserve(
                reservation.id,
                reservation.claims,
                now=clock.now(),
                lease=lease,
                after_crash=after_crash,
                wait=_STANDS if waits else None,
            )

        def hold(refusal: LimitExceeded | None) -> EffectOf[LimitExceeded | None, AiError, Scope | None]:
            if refusal is not None:
                return fx.succeed(refusal)
            return fx.add_finalizer(lambda _: self._commit(reservation, clock)).as_(None)

        return self.work(reserve).flat_map(hold).uninterruptible()

    def _commit(self, reservation: Reservation, clock: Clock) -> EffectOf[None]:
        """Record the actual usage. If fxai cannot write it, the answer is still valid, and fxai writes it later."""

        def commit() -> None:
            committed = (reservation.id, reservation.used_claims(self.terms.unknown), clock.now())
            try:
                self._commit_late()
                self.terms.allowances.commit(*committed[:2], now=committed[2])
            except OSError:
                self._late.append(committed)
                raise

        def warn(error: AiError) -> None:
            import logging  # few allowances fail

            logging.getLogger("fxai.models").error("usage of a request is not recorded yet: %s", error.message)

        def wake(_: object) -> None:
            _lines_of(self.terms.allowances).wake(tuple(claim.key for claim in reservation.claims))

        return self.work(commit).match(warn, wake)

    def _commit_late(self) -> None:
        with suppress(IndexError):  # another thread can take the last item
            while True:
                late = self._late.popleft()
                try:
                    self.terms.allowances.commit(*late[:2], now=late[2])
                except OSError:
                    self._late.appendleft(late)
                    raise

    @fx.gen
    def renew(self, reservation: Reservation, clock: Clock) -> Gen[None, AiError]:
        """Renew the reservation while the request runs."""
        renew = self.terms.allowances.renew
        while True:
            yield from fx.sleep(LEASE / 4)
            yield from self.work(lambda: renew(reservation.id, reservation.claims, now=clock.now())).result()

    def work(self, work: Callable[[], Any]) -> Effect[Any, AiError]:
        """Run work on the allowances. If fxai cannot reach them, fail, so that no request starts."""

        def to_error(raised: Exception) -> AiError | None:
            if not isinstance(raised, OSError):
                return None
            return AiError("limit", "ask", UnknownError(description=f"allowances cannot be reached: {raised}"))

        return attempt_work(work, to_error, in_thread=self.terms.allowances.blocks)


@final
class _Waiting:
    def __init__(self, admission: Admission, reservation: Reservation, lines: _Lines, position: _Position) -> None:
        self._admission = admission
        self._reservation = reservation
        self._lines = lines
        self._position = position
        self._stands = False  # True if it is in the line of the allowances

    @fx.gen
    def run(self) -> Gen[Reservation, AiError, Scope]:
        """Return the reservation, or fail with the reason."""
        clock = yield from Clock
        terms = self._admission.terms
        until = clock.monotonic() + terms.patience
        while True:
            left = until - clock.monotonic()
            pause, error = _LONGEST_WAIT, self._in_line()
            if self._lines.is_first(self._position):
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
            yield from self._position.wait(min(pause, left))
        self._stands = False
        if terms.allowances.blocks:
            yield from fx.fork(self._admission.renew(self._reservation, clock))
        self._reservation.start()
        return self._reservation

    def leave(self, end: Exit[Any, Any]) -> EffectOf[None]:
        """Leave all lines, regardless of the end of the request."""
        leaving = fx.sync(lambda: self._lines.leave(self._position))
        if not (self._stands and isinstance(end, Failed)):
            return leaving
        left, allowances = self._reservation, self._admission.terms.allowances
        left_there = self._admission.work(lambda: allowances.leave(left.id, left.claims)).result()
        return left_there.as_(None).on_exit(lambda _: leaving)

    def _can_wait(self, refusal: LimitExceeded) -> bool:
        """Return whether waiting can help: for a rate, or for a budget with reservations that others can return."""
        if refusal.may_wait or refusal.is_final or not refusal.level.reserved:
            return refusal.may_wait
        self._lines.listen(self._position, refusal.claim.key)
        return True

    def _shorten(self, refusal: LimitExceeded) -> bool:
        least = self._admission.terms.least_tokens
        return least is not None and self._reservation.shorten(refusal, least)

    def _in_line(self) -> AiError:
        keys = ", ".join(self._position.keys)
        problem = f"{keys}: {self._lines.length(self._position) - 1} other requests of this program are in line"
        return AiError("limit", "ask", RateLimitError(description=f"{problem}. The program itself set this limit."))


def _pause(refusal: LimitExceeded, now: float) -> float:
    if refusal.ahead:
        return min(_PAUSE * refusal.ahead, _LONGEST_PAUSE)
    wait = inf if refusal.retry_at is None else refusal.retry_at - now
    return max(min(wait, _PAUSE) if refusal.level.reserved else wait, 0.001)  # others can return reservations earlier


def _error(refusal: LimitExceeded, now: float) -> AiError:
    claim, level = refusal.claim, refusal.level
    used = f"{_show(claim, level.committed)} used and {_show(claim, level.reserved)} reserved"
    problem = (
        f"{claim.key}: {used} of {_show(claim, claim.most)}, and the request may take {_show(claim, claim.amount)}"
    )
    problem += f"; {refusal.ahead} requests wait before it" if refusal.ahead else ""
    problem += ". The program itself set this limit."
    if not refusal.may_wait:
        return AiError("limit", "ask", QuotaExhaustedError(description=problem))
    wait = None if refusal.retry_at is None else max(refusal.retry_at - now, 0.0)
    return AiError("limit", "ask", RateLimitError(description=problem, retry_after=wait))


def _show(claim: Claim, amount: int) -> str:
    return f"{Decimal(amount) / UNIT:f}" if claim.key.endswith(" money") else str(amount)
