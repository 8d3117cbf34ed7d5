r"""Stores of streams. Use `StreamStore` to keep the events of active turns for all readers of a turn.

A turn writes its events to the store, and every response reads them from the store. A reader can start at the first
event or after the events that it already has. It can be in the process of the turn, or in another process that shares
the store. Signals go to the turn in any process: a stop, and answers to questions.

>>> from fxai.effects import fx
>>> store = StreamStore.in_process()
>>> @fx.gen
... def run():
...     writer = yield from store.open("c1", "t1")
...     yield from writer.write((b"data: 1\n\n", b"data: 2\n\n"))
>>> fx.run(fx.scoped(run()).and_then(store.read("c1", "t1", after=1).collect()))
[b'data: 2\n\ndata: [DONE]\n\n']
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Never, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.effects.concurrency import fork, race
from fxai.effects.constructor import fail, gen
from fxai.effects.effect import AwaitValue, Effect, EffectOf, Fetch, Gen, Succeed, Suspend, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope, acquire_release
from fxai.effects.service import Clock, Service
from fxai.effects.stream import StreamOf
from fxai.effects.thread import caller
from fxai.effects.waker import Waker
from fxai.ui.chunk import DONE
from fxai.ui.signal import Signal

if TYPE_CHECKING:
    from fxai.ui.shared_stream import SharedStreams

_MOST_BYTES: Final = 16 * 1024 * 1024
_KEEP: Final = 60.0  # seconds
_BATCH: Final = 64 * 1024  # bytes
_PAUSE: Final = 0.05  # seconds between two writes to the disk
_GLANCE: Final = 0.25  # seconds between two reads of the data of other processes
_ARRIVAL: Final = 15.0  # seconds to wait for the first reader
_FEW: Final = 20  # active turns; above this number, each turn reads signals of other processes less often
_MOST_ENDED: Final = 256  # ended streams that this process keeps


Doing: TypeAlias = Literal["open", "write", "read", "signal"]


@final
class StreamStoreError(msgspec.Struct, frozen=True):
    """A failed operation on the stream of a turn: open, write, read, or signal. It contains the reason.

    >>> print(StreamStoreError("c1", "open", "another turn is active"))
    stream of conversation 'c1' could not be opened: another turn is active
    """

    conversation_id: str
    """The id of the conversation."""
    doing: Doing
    """The operation that failed."""
    description: str
    """The reason."""

    @override
    def __str__(self) -> str:
        name = f"stream of conversation {self.conversation_id!r}"
        return f"{name} could not be {_DONE[self.doing]}: {self.description}"


_DONE: Final = {"open": "opened", "write": "written", "read": "read", "signal": "signalled"}


# -- the interface


class StreamWriter(ABC):
    """The writer of the stream of one turn."""

    @abstractmethod
    def write(self, events: Sequence[bytes], *, wait: bool = True) -> EffectOf[None, StreamStoreError]:
        """Add events. Each event is a server-sent event from `to_event`.

        Args:
            events: The events, in order.
            wait: True to wait if a reader is too far behind; see `StreamStore.open`.

        Fails with:
            StreamStoreError: If the stream is larger than the store allows.
        """

    @abstractmethod
    def listen(self, take: Callable[[Signal], None]) -> Effect[None, Never, Scope]:
        """Call `take` with each signal to the turn, once, on the event loop of this program, until the scope closes."""

    @property
    @abstractmethod
    def left(self) -> EffectOf[None]:
        """Waits until the last reader in this process disconnects. If no reader connects, waits for 15 s."""


class StreamStore(Service):
    """A store of the streams of active turns. A store is a value; `store.layer` provides it as the service.

    Readers in the process of a turn read from memory. A store in files or in a database also serves the readers of
    other processes, with a delay of about a third of a second.
    """

    @abstractmethod
    def open(
        self, conversation_id: str, stream_id: str, *, most_ahead: int | None = None
    ) -> Effect[StreamWriter, StreamStoreError, Scope]:
        """Open the stream of a turn. It ends with the event `DONE` when the scope closes.

        Args:
            conversation_id: The id of the conversation.
            stream_id: The id of the turn.
            most_ahead: Maximum number of events between the turn and its slowest reader. Above this number, the turn
                waits. None means that the turn never waits.

        Fails with:
            StreamStoreError: If another turn of the conversation is active, or if the system refuses the operation.
        """

    @abstractmethod
    def read(
        self, conversation_id: str, stream_id: str | None = None, *, after: int = 0
    ) -> StreamOf[bytes, StreamStoreError, None]:
        """Return the events of a stream until its end, several together if available. An unknown stream is empty.

        Args:
            conversation_id: The id of the conversation.
            stream_id: The id of the turn. None selects the active or the last turn.
            after: Number of events that the reader already has.
        """

    @abstractmethod
    def active(self, conversation_id: str) -> Effect[str | None, StreamStoreError]:
        """Return the id of the active turn in any process, or None."""

    @abstractmethod
    def signal(self, conversation_id: str, signal: Signal) -> Effect[bool, StreamStoreError]:
        """Send a signal to the active turn in any process. Return False if no turn is active."""

    @abstractmethod
    def remove(self, conversation_id: str) -> Effect[None, StreamStoreError]:
        """Delete the last stream of a conversation, unless its turn is active."""

    @property
    def layer(self) -> LayerOf[StreamStore, Never, None]:
        """The layer that provides this store as the service `StreamStore`."""
        return LayerOf.succeed(StreamStore, self)

    if TYPE_CHECKING:
        __call__: ClassVar[LayerOf[StreamStore, Never, None]]
    else:
        __call__ = property(lambda self: self.layer)  # `program.provide(store)`

    # -- constructors

    @staticmethod
    def in_process(*, keep: float = _KEEP, most_bytes: int = _MOST_BYTES) -> StreamStore:
        """Return a new store that ends with the process.

        Args:
            keep: Seconds after the end of a stream during which clients can read it.
            most_bytes: Maximum size of a stream in bytes.
        """
        return _Streams(keep, most_bytes)

    @staticmethod
    def files(folder: str | os.PathLike[str], *, keep: float = _KEEP, most_bytes: int = _MOST_BYTES) -> StreamStore:
        """Return a store in a directory that other processes can read and signal. For the options, see `in_process`.

        Raises:
            ValueError: If the path is invalid.
        """
        from fxai.storage.journal_store import FileJournals  # imported only if a program uses a store
        from fxai.storage.private_file import full_path
        from fxai.ui.shared_stream import SharedStreams, journal_form

        location = full_path(folder)
        stores = [FileJournals(location / name, journal_form(name)) for name in ("stream", "signal")]
        return _Streams(keep, most_bytes, SharedStreams(stores[0], stores[1], keep))

    @staticmethod
    def sqlite(path: str | os.PathLike[str], *, keep: float = _KEEP, most_bytes: int = _MOST_BYTES) -> StreamStore:
        """Return a store in a SQLite database that other processes can read. For the options, see `in_process`.

        Raises:
            ValueError: If the path is invalid.
        """
        from fxai.storage.database import database_path
        from fxai.storage.journal_store import TableJournals
        from fxai.ui.shared_stream import SharedStreams, journal_form

        location = database_path(path)
        stores = [TableJournals(location, journal_form(name)) for name in ("stream", "signal")]
        return _Streams(keep, most_bytes, SharedStreams(stores[0], stores[1], keep))


# -- in this process


@final
class _Bell(msgspec.Struct, eq=False):
    """The programs on any event loop that wait for one kind of change."""

    waiting: list[Waker] = []

    def ring(self) -> None:
        """Wake all programs that wait for the change."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for waker in waiting:
                waker()

    def until(self, holds: Callable[[], bool]) -> EffectOf[None]:
        """Return an effect that waits until `holds` returns True."""

        async def wait() -> None:
            while True:
                waker = Waker()
                self.waiting.append(waker)  # before the test, because another thread can change its result
                try:
                    if holds():
                        return
                    await waker.wait()
                finally:
                    with suppress(ValueError):  # `ring` removed it
                        self.waiting.remove(waker)

        return Suspend(lambda: Succeed(None) if holds() else AwaitValue(wait))


@final
class _Live(msgspec.Struct, eq=False):
    """A stream of this process with its events, its readers, and its signals."""

    id: str
    most_bytes: int
    most_ahead: int | None
    events: list[bytes] = []
    has_ended: bool = False
    signals: deque[Signal] = msgspec.field(default_factory=deque[Signal])
    copied: int = 0  # number of events that other processes can read
    size: int = 0
    locations: dict[object, int] = {}  # position of each reader
    had_reader: bool = False
    of_events: _Bell = msgspec.field(default_factory=_Bell)  # new events, or the end
    of_readers: _Bell = msgspec.field(default_factory=_Bell)  # a reader that read or disconnected
    on_signal: Callable[[], object] | None = None  # takes the signals; any thread can call it

    def add(self, events: Sequence[bytes]) -> bool:
        """Add events. Return False if the stream would be too large."""
        self.size += sum(map(len, events))
        if self.size > self.most_bytes:
            return False
        self.events.extend(events)
        self.of_events.ring()
        return True

    def is_near(self) -> bool:
        """Return True if no reader is too far behind."""
        if self.most_ahead is None:
            return True
        return len(self.events) - min(self.locations.values(), default=len(self.events)) <= self.most_ahead

    def has_no_reader(self) -> bool:
        """Return True if all readers have disconnected, after at least one reader."""
        return self.had_reader and not self.locations

    def read(self, after: int) -> StreamOf[bytes, Never, None]:
        """Return the events after the first `after` events."""
        reader = object()

        def join() -> None:
            self.locations[reader] = after
            self.had_reader = True

        def leave() -> None:
            self.locations.pop(reader, None)
            self.of_readers.ring()

        def take(location: int) -> EffectOf[tuple[bytes, int] | None]:
            there = self.of_events.until(lambda: len(self.events) > location or self.has_ended)
            return there.map(lambda _: self._batch(reader, location))

        joined = acquire_release(Sync(join), lambda _: Sync(leave))
        return StreamOf.unwrap(joined.map(lambda _: StreamOf.unfold(after, take)))

    def _batch(self, reader: object, location: int) -> tuple[bytes, int] | None:
        """Return the next batch of events and its end, or None at the end of the stream."""
        if location >= len(self.events):
            return None
        end, size = location, 0
        while end < len(self.events) and size < _BATCH:
            size += len(self.events[end])
            end += 1
        self.locations[reader] = end
        if self.most_ahead is not None:
            self.of_readers.ring()
        return b"".join(self.events[location:end]), end


@final
class _Writer(StreamWriter):
    """The writer of a stream of this process."""

    def __init__(self, conversation_id: str, live: _Live, streams: _Streams) -> None:
        self._conversation_id = conversation_id
        self._live = live
        self._streams = streams
        self._entry = 0  # the last read signal of other processes

    @override
    def write(self, events: Sequence[bytes], *, wait: bool = True) -> EffectOf[None, StreamStoreError]:
        live = self._live

        def write() -> EffectOf[None, StreamStoreError]:
            if not live.add(events):
                text = "the stream is larger than the store allows. Raise most_bytes, or limit the answer."
                return fail(StreamStoreError(self._conversation_id, "write", text))
            return Succeed(None) if not wait or live.is_near() else live.of_readers.until(live.is_near)

        return Suspend(write)

    @override
    def listen(self, take: Callable[[Signal], None]) -> Effect[None, Never, Scope]:
        live, streams, shared = self._live, self._streams, self._streams.shared

        def take_all() -> None:
            while live.signals and live.on_signal is not None:
                take(live.signals.popleft())

        def start() -> None:
            live.on_signal = partial(caller(), take_all)
            take_all()

        def stop() -> None:
            live.on_signal = None

        def note(found: tuple[list[Signal], int]) -> None:
            signals, self._entry = found
            for signal in signals:
                take(signal)

        here = acquire_release(Sync(start), lambda _: Sync(stop))
        if shared is None:
            return here
        looking = Suspend(lambda: _log(shared.take_signals(self._conversation_id, self._entry).map(note)))
        later = Suspend(lambda: looking.delay(_GLANCE * max(1.0, streams.running / _FEW)))
        return here.and_then(fork(later.repeat(Schedule.forever()))).as_(None)

    @property
    @override
    def left(self) -> EffectOf[None]:
        nobody = self._live.of_readers.until(self._live.has_no_reader)
        never_there: EffectOf[None] = Suspend(lambda: nobody if self._live.had_reader else Succeed(None)).delay(
            _ARRIVAL
        )
        return race(nobody, never_there)


# -- in this process, and in journals for other processes


@final
class _Streams(StreamStore):
    """The streams of this process and, with journals, of other processes."""

    def __init__(self, keep: float, most_bytes: int, shared: SharedStreams | None = None) -> None:
        if keep < 0 or most_bytes <= 0:
            raise ValueError(
                f"keep must not be negative, got {keep}, and most_bytes must be greater than 0, got {most_bytes}"
            )
        self._keep = keep
        self._most_bytes = most_bytes
        self._live: dict[str, _Live] = {}
        self._ended: dict[str, float] = {}  # end time of each ended stream, oldest first
        self.shared = shared

    @override
    def open(
        self, conversation_id: str, stream_id: str, *, most_ahead: int | None = None
    ) -> Effect[StreamWriter, StreamStoreError, Scope]:
        def open_(now: float) -> EffectOf[Any, StreamStoreError, Any]:
            self._forget(now)
            known = self._live.get(conversation_id)
            if known is not None and not known.has_ended:
                return fail(StreamStoreError(conversation_id, "open", "another turn is active"))
            return self._start(conversation_id, _Live(stream_id, self._most_bytes, most_ahead), now)

        return _now().flat_map(open_)

    def _start(self, conversation_id: str, live: _Live, now: float) -> EffectOf[Any, StreamStoreError, Any]:
        def start() -> None:
            self._live[conversation_id] = live
            self._ended.pop(conversation_id, None)

        begun = acquire_release(Sync(start), lambda _: self._end(conversation_id, live))
        if self.shared is None:
            return begun.as_(_Writer(conversation_id, live, self))
        owned: EffectOf[Any, StreamStoreError, Any] = self.shared.start(conversation_id, live.id, now).map_error(
            _failure(conversation_id, "open")
        )
        copying = owned.and_then(begun).and_then(fork(self._copy(conversation_id, live, self.shared)))
        return copying.as_(_Writer(conversation_id, live, self))

    def _end(self, conversation_id: str, live: _Live) -> EffectOf[None]:
        def end(now: float) -> EffectOf[None]:
            live.events.append(DONE)
            live.has_ended = True
            self._ended[conversation_id] = now
            live.of_events.ring()
            if self.shared is None:
                return Succeed(None)
            return _log(self.shared.append(conversation_id, live.events[live.copied :], (live.id, now)))

        return _now().flat_map(end)

    def _copy(self, conversation_id: str, live: _Live, shared: SharedStreams) -> EffectOf[Any]:
        """Write the events for other processes in batches while the turn runs."""

        def copy() -> EffectOf[None]:
            events = live.events[live.copied :]
            live.copied += len(events)
            return _log(shared.append(conversation_id, events))

        there = live.of_events.until(lambda: len(live.events) > live.copied).delay(_PAUSE)
        return there.and_then(Suspend(copy).uninterruptible()).repeat(Schedule.forever())

    @property
    def running(self) -> int:
        """The number of active turns in this process."""
        return len(self._live) - len(self._ended)

    def _forget(self, now: float) -> None:
        """Remove streams that ended more than `keep` seconds ago, and the oldest ended streams above the maximum."""
        while self._ended:
            id_, at = next(iter(self._ended.items()))
            if len(self._ended) <= _MOST_ENDED and at + self._keep >= now:
                return
            del self._live[id_], self._ended[id_]

    # -- read and signal

    @override
    def read(
        self, conversation_id: str, stream_id: str | None = None, *, after: int = 0
    ) -> StreamOf[bytes, StreamStoreError, None]:
        def find(now: float) -> StreamOf[bytes, StreamStoreError, None]:
            self._forget(now)
            live = self._live.get(conversation_id)
            if live is not None and stream_id in (None, live.id):
                return live.read(after)
            if self.shared is None:
                return StreamOf.empty()
            read = self.shared.read(conversation_id, stream_id, after)
            return read.map_error(_failure(conversation_id, "read"))

        return StreamOf.unwrap(_now().map(find))

    @override
    @gen
    def active(self, conversation_id: str) -> Gen[str | None, StreamStoreError]:
        live = self._live.get(conversation_id)
        if live is not None and not live.has_ended:
            return live.id
        if self.shared is None:
            return None
        return (yield from self.shared.active(conversation_id).map_error(_failure(conversation_id, "read")))

    @override
    @gen
    def signal(self, conversation_id: str, signal: Signal) -> Gen[bool, StreamStoreError]:
        live = self._live.get(conversation_id)
        if live is None or live.has_ended:
            if self.shared is None:
                return False
            sent = self.shared.signal(conversation_id, signal)
            return (yield from sent.map_error(_failure(conversation_id, "signal")))
        live.signals.append(signal)
        if live.on_signal is not None:
            live.on_signal()
        return True

    @override
    @gen
    def remove(self, conversation_id: str) -> Gen[None, StreamStoreError]:
        live = self._live.get(conversation_id)
        if live is not None and not live.has_ended:
            return
        self._live.pop(conversation_id, None)
        self._ended.pop(conversation_id, None)
        if self.shared is not None:
            yield from self.shared.remove(conversation_id).map_error(_failure(conversation_id, "write"))


def _now() -> EffectOf[float]:
    clock: EffectOf[Clock] = Fetch(Clock)
    return clock.map(lambda clock: clock.now())


def _failure(conversation_id: str, doing: Doing) -> Callable[[OSError], StreamStoreError]:
    return lambda error: StreamStoreError(conversation_id, doing, str(error))


def _log(writing: EffectOf[None, OSError]) -> EffectOf[None]:
    """Log a failed write for other processes as a warning. The turn and its readers in this process continue."""

    def warn(error: OSError) -> EffectOf[None]:
        import logging  # imported only after a failure

        text = "other processes cannot read a stream: %s"
        return Sync(lambda: logging.getLogger("fxai.ui").warning(text, error))

    return writing.catch_all(warn)
