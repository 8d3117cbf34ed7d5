"""The journal of one run: its records in a store, and the state in memory that follows from them.

The program that runs a run owns its journal. Other programs can append answers and cancellations. The owner reads them
with the next record that it writes.

>>> from fxai.effects import fx
>>> from fxai.storage.journal_store import ProcessJournals
>>> journal = RunJournal.open("order-17", ProcessJournals())
>>> fx.run_sync(journal.append(Opened(0.0)))
>>> journal.known.status, RunJournal.open("order-17", ProcessJournals()).known.last
('stopped', 0)
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any, Final, TypeVar, cast, final

import anyio
import msgspec

from fxai.durable.failure import JournalFailure, RunAsleep, RunCancelled, RunOwned
from fxai.durable.record import (
    Answered,
    AnyRecord,
    Asked,
    CancelWish,
    Closed,
    Known,
    Opened,
    RunState,
    Submitted,
    TimedRecord,
    decode,
    encode,
)
from fxai.effects.cancellation import event_loop
from fxai.effects.constructor import attempt_work
from fxai.effects.effect import Effect, EffectOf, Fetch, Sync
from fxai.effects.scope import Scope
from fxai.effects.service import Clock
from fxai.schema.data import JSON_ERRORS
from fxai.storage.journal import Columns, Entry, Form, Journal
from fxai.storage.journal_store import JournalStore, watch

_A = TypeVar("_A")

CLOCK: EffectOf[Clock, Any, Any] = Fetch(Clock)
"""The clock of the program."""

_UNORDERED: Final = ("inside ", "sleep")  # calls of a composite run concurrently; sleeps have no effect
_SUMMED_UP: Final = (Submitted, Opened, Asked, Answered, CancelWish, Closed)  # these records change the data of lists
_STATE: Final = msgspec.json.Decoder(RunState)


def _decode_state(text: bytes) -> RunState:
    try:
        return _STATE.decode(text)
    except JSON_ERRORS as error:
        raise OSError(f"not a state of a run ({error})") from error


COLUMNS: Final = Columns("run", "began", "status")
"""The fields of a `RunState` by which lists select and sort."""

FORM: Final[Form[Any]] = Form("run", "record", encode, decode, encode, _decode_state, COLUMNS)
"""The form of runs in files and databases."""


@final
class Reached:
    """The recorded parts that this program has reached. A program that resumes a run must reach all of them.

    The program differs from earlier programs if it starts new work in a sequence before it has reached all recorded
    parts of the sequence, or if it ends without them.

    >>> from fxai.durable.record import Begun
    >>> known = Known("order-17")
    >>> known.add(Begun("/step charge", "charge"), 1)
    >>> reached = Reached(known)
    >>> reached.left()
    ('/step charge',)
    >>> reached.meet("/step charge")
    >>> reached.left()
    ()

    Args:
        known: The records of earlier programs.
        tolerant: True if the program may differ from the program of the journal. Default: False.
    """

    def __init__(self, known: Known, *, tolerant: bool = False) -> None:
        self.tolerant: bool = tolerant
        self._recorded: dict[str, None] = {}
        self._waiting: dict[str, set[str]] = {}
        self._met: set[str] = set()
        self._over: set[str] = set()
        for path, part in [*known.parts.items()]:
            works = [record for record in (part.begun, part.ended, part.turn) if record is not None]
            if any(not record.aside for record in works):
                self._recorded[path] = None
                self._await(path)
        for path in known.contents:
            self._await(path)

    def _await(self, path: str) -> None:
        for parent, name in _steps_to(path):
            self._waiting.setdefault(parent, set()).add(name)

    def meet(self, path: str) -> None:
        """Record that the program has reached a part."""
        parent, _, name = path.rpartition("/")
        self._waiting.get(parent, set[str]()).discard(name)
        self._met.add(path)

    def end(self, path: str) -> None:
        """Record that the program need not reach the parts inside a part, because it has a value or was interrupted."""
        self._over.add(path)

    def left_in(self, sequence: str) -> tuple[str, ...]:
        """Return the paths of recorded parts of a sequence that the program has not reached."""
        names = self._waiting.get(sequence, ())
        return tuple([f"{sequence}/{name}" for name in sorted(names) if not name.startswith(_UNORDERED)])

    def left(self) -> tuple[str, ...]:
        """Return the paths of all recorded parts that the program has not reached."""
        if self.tolerant:
            return ()
        missing = [path for path in self._recorded if path not in self._met]
        return tuple([path for path in missing if not any(parent in self._over for parent, _ in _steps_to(path))])


def _steps_to(path: str) -> Iterator[tuple[str, str]]:
    """Yield each sequence on the way to a path, with the name of its next part."""
    parent = ""
    for name in path.split("/")[1:]:
        yield parent, name
        parent = f"{parent}/{name}"


@final
class RunJournal:
    """The records of a run and its state."""

    def __init__(self, run: str, journal: Journal[AnyRecord]) -> None:
        self.known: Known = Known(run)
        self.reached: Reached = Reached(self.known)
        """The recorded parts that this program has reached."""
        self.noted: dict[str, str] = {}
        """The parts that the program has reached first, for the next record."""
        self.journal = journal
        self._lock = threading.Lock()
        self._call: Callable[[Callable[[], object]], object] | None = None  # the event loop of the owner
        self._scopes: set[anyio.CancelScope] = set()
        self._news: anyio.Event | None = None
        self.hold: float | None = None
        """Maximum seconds that a program waits in a sleep before it suspends the run. None never suspends it."""
        self._under_way = 0  # running parts whose work would be lost, or in doubt, if the run were suspended
        self.sleeping: list[float] = []
        """The end times of the current sleeps."""
        self._asleep: RunAsleep | None = None
        self._clock: Clock | None = None
        self._offset = 0.0

    @staticmethod
    def open(run: str, store: JournalStore) -> RunJournal:
        """Return the journal of a run in its current state. It blocks if the store does, and raises its `OSError`."""
        opened = RunJournal(run, store.journal(run))
        opened.read()
        return opened

    def read(self) -> None:
        """Read the records that other programs have appended. It blocks and raises like `open`."""
        with self._lock:
            last = self.known.last
            self._take_in(self.journal.read(lambda entries: [*takewhile(lambda entry: entry.number > last, entries)]))

    def _take_in(self, newest_first: list[Entry[AnyRecord]]) -> None:
        for entry in reversed(newest_first):
            for record in entry.parts:
                self.known.add(record, entry.number)
        if newest_first and self._call is not None:
            self._call(self._notice)

    def write(self, record: AnyRecord, now: float = 0.0) -> None:
        """Append a record, and read the records that other programs have appended. It blocks and raises like `open`."""
        with self._lock:
            before = self.known.last
            if self._clock is not None and isinstance(record, TimedRecord):
                reached, self.noted = self.noted, {}
                time = round(self._clock.monotonic() - self._offset, 3)
                record = msgspec.structs.replace(record, time=time, reached=reached)
            new: list[Entry[AnyRecord]] = []

            def look(entries: Iterator[Entry[AnyRecord]]) -> None:
                new[:] = takewhile(lambda entry: entry.number > before, entries)  # a store may read twice

            self.known.add(record, before + 1)
            state = self.known.state(now) if isinstance(record, _SUMMED_UP) else None
            try:
                self.journal.append(record, look, state)
            except BaseException:
                self.known.last = before  # the entry of another program can get the number
                raise
            self._take_in(new)
            self.known.last = before + len(new) + 1

    def start_part(self) -> None:
        """Keep the run from being suspended until `end_part`."""
        self._under_way += 1

    def end_part(self) -> None:
        """End a part of `start_part`."""
        self._under_way -= 1

    # -- time

    def start(self, clock: Clock) -> None:
        """Start the time of the run on a clock, from the time in the journal."""
        if self._clock is None:
            self._clock, self._offset = clock, clock.monotonic() - self.known.time

    @property
    def monotonic(self) -> float:
        """The reading of the clock."""
        return 0.0 if self._clock is None else self._clock.monotonic()

    def on_clock(self, time: float) -> float:
        """Convert a time of the run to the `monotonic` scale of the clock, without the pauses between programs."""
        return time + self._offset

    # -- records that others append while a program runs the run

    def watch(self, store: JournalStore, scope: Scope) -> None:
        """Read the records of other programs within about a second, until the scope closes.

        A program without an event loop reads them with the next record that it writes.
        """
        if event_loop() is None:
            return
        from fxai.effects.thread import caller  # it imports the threading support

        self._call = caller()
        stop = watch(store, self.known.run, self._look)
        scope.add(lambda _: Sync(stop))

    def _look(self, newest: int) -> None:
        """Read new records. You can call it in any thread."""
        if newest <= self.known.last:
            return
        if self.journal.blocks:
            self.read()
        elif self._call is not None:
            self._call(self.read)  # an append can be in progress

    def _notice(self) -> None:
        """Inform the program, in its event loop, that others have appended records."""
        if self.known.cancelled is not None:
            for scope in self._scopes:
                scope.cancel()
        if self._news is not None:
            self._news.set()
            self._news = None

    @asynccontextmanager
    async def cancelling(self, scope: anyio.CancelScope) -> AsyncGenerator[None]:
        """Return a context in which the scope is cancelled if a user cancels the run."""
        self._scopes.add(scope)
        try:
            if self.known.cancelled is not None:
                scope.cancel()
            yield
        finally:
            self._scopes.discard(scope)

    def leave_asleep(self, now: float) -> None:
        """Stop the program of the run if it only sleeps, and the sleep is longer than `hold`."""
        left = min(self.sleeping) - now
        if self.hold is not None and left > self.hold and not self._under_way and not self.known.questions:
            self._asleep = RunAsleep(self.known.run, left)
            for scope in self._scopes:
                scope.cancel()

    def why_stopped(self) -> RunCancelled | RunAsleep:
        """Return the reason why the scopes of the program were cancelled."""
        is_cancelled = self.known.cancelled is not None or self._asleep is None
        return RunCancelled(self.known.run) if is_cancelled else cast(RunAsleep, self._asleep)

    async def news(self, clock: Clock, seconds: float) -> None:
        """Wait until others have appended a record, for at most `seconds` by the clock."""
        self._news = self._news or anyio.Event()
        news = self._news
        with anyio.CancelScope() as scope:
            async with clock.deadline(scope, seconds):
                await news.wait()

    # -- as effects

    def append(self, record: AnyRecord) -> EffectOf[None, JournalFailure, None]:
        """Append a record, as `write` does. A cancellation waits for it."""
        return CLOCK.flat_map(lambda clock: self._attempt(lambda: self.write(record, clock.now()))).uninterruptible()

    def refresh(self) -> EffectOf[None, JournalFailure, None]:
        """Read the records that others have appended."""
        return self._attempt(self.read)

    def _attempt(self, work: Any) -> EffectOf[Any, JournalFailure, None]:
        def fail(error: Exception) -> JournalFailure | None:
            return JournalFailure(self.known.run, str(error)) if isinstance(error, OSError | TypeError) else None

        return attempt_work(work, fail, in_thread=self.journal.blocks)

    def own(self) -> Effect[None, RunOwned | JournalFailure, Scope]:
        """Make this program the owner of the run until the scope closes or the process ends."""
        run = self.known.run

        def fail(error: OSError) -> RunOwned | JournalFailure:
            return RunOwned(run) if isinstance(error, BlockingIOError) else JournalFailure(run, str(error))

        return self.journal.own(wait=False).map_error(fail)
