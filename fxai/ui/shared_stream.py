"""Streams that other processes can read and signal. `StreamStore` uses them for stores in files and databases.

The process of a turn locks the journal of its conversation while the turn runs, so that other processes notice its end.
A journal contains the last stream of its conversation: an entry with the id of the turn, and one per batch of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Final, TypeVar, final

import msgspec

from fxai.effects.constructor import attempt_work, fail, gen
from fxai.effects.effect import EffectOf, Gen, Succeed
from fxai.effects.scope import Scope, scoped
from fxai.effects.stream import StreamOf
from fxai.schema.data import is_array
from fxai.storage.journal import JSON, Entry, Form
from fxai.storage.journal_store import JournalStore
from fxai.ui.chunk import DONE
from fxai.ui.signal import Signal, read_signal, write_signal

_A = TypeVar("_A")

_GLANCE: Final = 0.2  # seconds between two reads of the data of another process
_PATIENCE: Final = 5  # reads without new data before the reader checks for the process
_PRUNE: Final = 60.0  # seconds between two searches for old streams
_TRIES: Final = 5
_TAKEN: Final = "another turn is active in another process"


@final
class StreamState(msgspec.Struct, frozen=True):
    """The information about a stream without its events."""

    conversation: str
    stream: str
    """The id of its turn."""
    ended: float | None = None
    """End time in seconds since 1970. None if it is active, or if its process died."""


def journal_form(name: str) -> Form[Any]:
    """Return the form of the journals of streams or signals."""
    return msgspec.structs.replace(JSON, name=name, entry="batch")


@final
class SharedStreams:
    """The streams of all processes that share the journals. Its effects fail with `OSError`."""

    def __init__(self, streams: JournalStore, signals: JournalStore, keep: float) -> None:
        """Create the streams in these journals. Each start of a stream also removes streams that ended long ago."""
        self._streams = streams
        self._signals = signals
        self._keep = keep
        self._pruned = 0.0

    # -- for the process of the turn

    def start(self, conversation_id: str, stream_id: str, now: float) -> EffectOf[None, OSError, Scope | None]:
        """Lock the stream of the conversation until the scope closes, and start a new stream."""

        def write() -> None:
            if now - self._pruned >= _PRUNE:
                self._pruned = now
                for state in map(_read_state, list(self._streams.states())):
                    if state.ended is not None and state.ended + self._keep < now:
                        self._clear(state.conversation)
            self._clear(conversation_id)
            state = StreamState(conversation_id, stream_id)
            self._streams.journal(conversation_id).append({"stream": stream_id}, state=msgspec.to_builtins(state))

        return self._own(conversation_id, _TRIES).and_then(self._work(write))

    def _own(self, conversation_id: str, tries: int) -> EffectOf[None, OSError, Scope | None]:
        """Lock the journal. Try again if it is locked, because readers lock it for a moment to check for its owner."""

        def again(error: OSError) -> EffectOf[None, OSError, Any]:
            if isinstance(error, BlockingIOError) and tries > 1:
                return self._own(conversation_id, tries - 1).delay(_GLANCE / 4)
            return fail(BlockingIOError(_TAKEN) if isinstance(error, BlockingIOError) else error)

        return self._streams.journal(conversation_id).own(wait=False).catch_all(again)

    def append(
        self, conversation_id: str, events: Sequence[bytes], ended: tuple[str, float] | None = None
    ) -> EffectOf[None, OSError]:
        """Add events. For the last events of a stream, `ended` is its id and its end time."""
        batch = [event.decode() for event in events]
        data = None if ended is None else msgspec.to_builtins(StreamState(conversation_id, *ended))
        return self._work(lambda: self._streams.journal(conversation_id).append(batch, state=data))

    def take_signals(self, conversation_id: str, after: int) -> EffectOf[tuple[list[Signal], int], OSError]:
        """Return the signals after the entry `after`, and the number of the last entry."""

        def take() -> tuple[list[Signal], int]:
            entries = _newer(self._signals.journal(conversation_id).read, after)
            return [read_signal(entry.parts[0]) for entry in entries], entries[-1].number if entries else after

        return self._work(take)

    # -- for other processes

    @gen
    def active(self, conversation_id: str) -> Gen[str | None, OSError]:
        """Return the id of the active turn if its process is alive, otherwise None."""
        state = yield from self._work(lambda: self._state(conversation_id))
        if state is None or state.ended is not None:
            return None
        owned: EffectOf[bool, OSError, Any] = scoped(self._streams.journal(conversation_id).own(wait=False)).as_(False)
        is_owned = yield from owned.catch_all(
            lambda error: Succeed(True) if isinstance(error, BlockingIOError) else fail(error)
        )
        return state.stream if is_owned else None

    def _state(self, conversation_id: str) -> StreamState | None:
        data = self._streams.journal(conversation_id).read_state()
        return None if data is None else _read_state(data)

    @gen
    def signal(self, conversation_id: str, signal: Signal) -> Gen[bool, OSError]:
        """Send a signal to the active turn. Return False if no turn is active."""
        if (yield from self.active(conversation_id)) is None:
            return False
        journal = self._signals.journal(conversation_id)
        yield from self._work(lambda: journal.append(write_signal(signal)))
        return True

    @gen
    def remove(self, conversation_id: str) -> Gen[None, OSError]:
        """Delete the stream, unless its turn is active."""
        if (yield from self.active(conversation_id)) is None:
            yield from self._work(lambda: self._clear(conversation_id))

    def _clear(self, conversation_id: str) -> None:
        self._streams.remove(conversation_id)
        self._signals.remove(conversation_id)

    def read(self, conversation_id: str, stream_id: str | None, after: int) -> StreamOf[bytes, OSError, None]:
        """Return the events of a stream after the first `after` events until its end. An unknown stream is empty."""
        reading = _RemoteReading(self, conversation_id, stream_id, after)
        return StreamOf.unfold(None, lambda _: reading.take()).filter(bool)

    def look(self, conversation_id: str, after: int) -> EffectOf[tuple[list[Entry[Any]], StreamState | None], OSError]:
        """Return the entries after the entry `after`, and the state of the stream, which can be slightly older."""

        def look() -> tuple[list[Entry[Any]], StreamState | None]:
            state = self._state(conversation_id)
            return _newer(self._streams.journal(conversation_id).read, after), state

        return self._work(look)

    def _work(self, work: Callable[[], _A]) -> EffectOf[_A, OSError]:
        return attempt_work(work, OSError, in_thread=self._streams.blocks)


@final
class _RemoteReading(msgspec.Struct, eq=False):
    """A reader outside the process of the turn."""

    streams: SharedStreams
    conversation_id: str
    stream_id: str | None
    skip: int  # events
    entry: int = 0  # the last read entry
    idle: int = 0  # reads without new data
    is_over: bool = False

    @gen
    def take(self) -> Gen[tuple[bytes, None] | None, OSError]:
        """Return the next events, an empty batch if no events exist yet, or None at the end."""
        if self.is_over:
            return None
        looking = self.streams.look(self.conversation_id, self.entry)
        entries, state = yield from looking.delay(_GLANCE if self.idle else 0.0)
        if state is None or (self.stream_id is not None and state.stream != self.stream_id):
            return None  # the stream was deleted, or another turn started
        self.stream_id = state.stream
        if entries:
            self.idle = 0
            self.entry = entries[-1].number
            batches: list[list[str]] = [entry.parts[0] for entry in entries if is_array(entry.parts[0])]
            events = [event for batch in batches for event in batch]
            shown = events[self.skip :]
            self.skip = max(0, self.skip - len(events))
            return "".join(shown).encode(), None
        self.idle += 1
        if state.ended is not None:
            return None
        if self.idle % _PATIENCE == 0:
            self.is_over = (yield from self.streams.active(self.conversation_id)) != self.stream_id  # process is gone
        return DONE if self.is_over else b"", None


def _newer(read: Callable[[Callable[[Any], list[Entry[Any]]]], list[Entry[Any]]], after: int) -> list[Entry[Any]]:
    """Return the entries after the entry `after`, oldest first."""
    return read(lambda newest: list(takewhile(lambda entry: entry.number > after, newest)))[::-1]


def _read_state(data: Any) -> StreamState:
    try:
        return msgspec.convert(data, StreamState)
    except msgspec.ValidationError as error:
        raise OSError(f"damaged state of a stream: {error}") from error
