"""Replies of models: their failures, and the reading of their events. The providers of models over HTTP use it.

>>> form_error("the answer has no message", "/choices/0").reason.pointer
'/choices/0'
>>> failure_of({"code": "rate_limit_exceeded", "message": "Slow down."}).reason.is_retryable
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, final

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Emit, Stream, pull_stream, stream_steps
from fxai.messages.accumulate import gather
from fxai.messages.errors import AiError, reason_of_body
from fxai.messages.part import (
    Part,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    WarningPart,
)
from fxai.messages.reason import InvalidOutputError, NetworkError, Reason
from fxai.messages.think_tag import ThinkTags
from fxai.models.prepared_tools import PreparationError
from fxai.models.structured_output import AnswerWriter
from fxai.providers.http.event import DONE, WHOLE, Event, JsonEvents, read_events, read_json
from fxai.schema.data import JSON_ERRORS, is_object

_A = TypeVar("_A")


class ReplyError(Exception):
    """A reply that is not an answer, with the `reason`. The effects of the layer fail with it as an `AiError`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.parts: tuple[StreamPart, ...] = ()
        """The parts of a stream event before the error."""

    def __reduce__(self) -> tuple[type[ReplyError], tuple[Reason]]:
        return (ReplyError, (self.reason,))


def attempt_reply(f: Callable[[], _A], to_error: Callable[[Reason], AiError]) -> Effect[_A, AiError]:
    """Return the value of `f`. If it raises a `ReplyError` or a `PreparationError`, fail with its reason."""

    def attempt() -> Effect[_A, AiError]:
        try:
            return fx.succeed(f())
        except (PreparationError, ReplyError) as error:
            return fx.fail(to_error(error.reason))

    return fx.suspend(attempt)


def failure_of(error: object) -> ReplyError:
    """Return the failure of an error in an answer, a choice, or an event. The error is an object or a string."""
    return ReplyError(reason_of_body({"error": error}))


def form_error(description: str, pointer: str = "") -> ReplyError:
    """Return the error of an invalid answer, with its location."""
    return ReplyError(InvalidOutputError(description, pointer))


def cut(before: str) -> ReplyError:
    """Return the error of a stream that ended too early. The earlier parts remain valid."""
    return ReplyError(NetworkError("TransportError", f"the stream ended before {before}"))


def parse_object(reply: bytes | str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse an answer or an event as an object.

    Raises:
        ReplyError: If the value is not an object.
    """
    if not isinstance(reply, bytes | str):
        return reply
    try:
        data = read_json(reply)
    except JSON_ERRORS as error:
        raise form_error(f"the answer is not JSON: {error}") from None
    return as_object(data)


def as_object(data: object) -> Mapping[str, Any]:
    """Return the object. Raises `ReplyError` for another value."""
    if not is_object(data):
        raise form_error(f"the answer must be a JSON object, got {type(data).__name__}")
    return data


def text_in(fields: Mapping[str, Any], name: str) -> str | None:
    """Return the string of a field, or None if it is missing, empty, or not a string."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def count_in(fields: Mapping[str, Any], *names: str) -> int | None:
    """Return the first integer of these fields, or None."""
    found = map(fields.get, names)
    return next((count for count in found if isinstance(count, int) and not isinstance(count, bool)), None)


@final
class Blocks:
    """The text or the reasoning of a stream. Each block has one start, any number of pieces, and one end.

    >>> blocks = text_blocks()
    >>> [part.type for part in (*blocks.write("0", "Good "), *blocks.write("0", "day."), *blocks.close("0"))]
    ['text-start', 'text-delta', 'text-delta', 'text-end']
    """

    __slots__ = ("_converted", "_delta", "_end", "_start", "_texts", "_writers")

    def __init__(
        self,
        start: Callable[..., StreamPart],
        delta: Callable[[str, str], StreamPart],
        end: Callable[..., StreamPart],
    ) -> None:
        self._start = start
        self._delta = delta
        self._end = end
        self._texts: dict[str, list[str]] = {}
        self._writers: dict[str, AnswerWriter | None] = {}  # of answers whose form differs from the requested schema
        self._converted: set[str] = set()  # the blocks with pieces of an answer that a writer converted

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of open blocks."""
        return tuple(self._texts)

    def open(self, id_: str, metadata: Mapping[str, Any] | None = None) -> list[StreamPart]:
        """Return the start of a block, or [] if the block is open."""
        if id_ in self._texts:
            return []
        self._texts[id_] = []
        return [self._start(id_, metadata=metadata or {})]

    def write(self, id_: str, delta: str, metadata: Mapping[str, Any] | None = None) -> list[StreamPart]:
        """Return a piece of a block. The start precedes the first piece."""
        parts = [] if id_ in self._texts else self.open(id_, metadata)
        if delta:
            self._texts[id_].append(delta)
            parts.append(self._delta(id_, delta))
        return parts

    def convert(self, id_: str, delta: str, make: Callable[[], AnswerWriter | None]) -> list[StreamPart]:
        """Convert a piece of an answer. Without a writer, or before its first text, delay the piece."""
        if id_ not in self._writers:
            self._writers[id_] = make()
        writer = self._writers[id_]
        written = "" if writer is None else writer.feed(delta)
        parts = self.open(id_)
        if writer is None or not writer.has_written:
            self._texts[id_].append(delta)
            return parts
        if id_ not in self._converted:
            self._converted.add(id_)
            self._texts[id_].clear()
        return [*parts, *self.write(id_, written)]

    def end_answer(self, id_: str, text: str, metadata: Mapping[str, Any] | None = None) -> list[StreamPart]:
        """Return the end of an answer: after its converted pieces, or with its whole text instead of delayed pieces."""
        if id_ in self._converted:
            return self.close(id_, metadata=metadata)
        return self.replace(id_, text, metadata)

    def is_converted(self, id_: str) -> bool:
        """Return whether the text of a block contains converted pieces."""
        return id_ in self._converted

    def text(self, id_: str) -> str:
        """Return the text of a block until now."""
        return "".join(self._texts.get(id_, ()))

    def close(self, id_: str, whole: str | None = None, metadata: Mapping[str, Any] | None = None) -> list[StreamPart]:
        """Return the end of a block. If `whole` is set, return the missing piece before the end."""
        written = self.text(id_)
        missing = "" if whole is None or not whole.startswith(written) else whole[len(written) :]
        parts = self.write(id_, missing)
        del self._texts[id_]
        return [*parts, self._end(id_, metadata=metadata or {})]

    def replace(self, id_: str, text: str, metadata: Mapping[str, Any] | None = None) -> list[StreamPart]:
        """Return the end of a block with delayed pieces. The text replaces the pieces."""
        parts = self.open(id_)
        self._texts[id_].clear()
        return [*parts, *self.close(id_, text, metadata)]


def text_blocks() -> Blocks:
    """Create the blocks for the text of a stream."""
    return Blocks(TextStart, TextDelta, TextEnd)


def reasoning_blocks() -> Blocks:
    """Create the blocks for the reasoning of a stream."""
    return Blocks(ReasoningStart, ReasoningDelta, ReasoningEnd)


class ReplyReader(ABC):
    """A reader of the events of an answer. A package defines how to read one event. Create a reader for each answer."""

    def __init__(self) -> None:
        self._events = JsonEvents()
        self._metadata: ResponseMetadata | None = None
        self.done: bool = False
        """True if the answer is complete."""

    def read(self, name: str, data: str) -> list[StreamPart]:
        """Return the parts of an event. Unknown events have no parts.

        Raises:
            ReplyError: If the event is invalid, or if it is an error. It carries the earlier parts of the event.
        """
        return [] if self.done else _before_error(self._read(name, data))

    def end(self) -> list[StreamPart]:
        """Return the last parts of a stream that ended. Raises `ReplyError` if the answer is incomplete."""
        return [] if self.done else _before_error(self._end(is_cut=True))

    def begin(self, metadata: ResponseMetadata, warnings: Iterable[WarningPart]) -> list[StreamPart]:
        """Return the first parts of the answer. If the first event lacks the model, return later metadata with it."""
        before = self._metadata
        if before is not None and (before.model is not None or metadata.model is None):
            return []
        self._metadata = metadata
        return [*warnings, metadata] if before is None else [metadata]

    def _read(self, name: str, data: str) -> Iterator[StreamPart]:
        if data.strip() == DONE:
            yield from self._end(is_cut=False)
            return
        if name == WHOLE:
            yield from self.take_whole(data)
            self.done = True
            return
        try:
            events = self._events.read(data)
        except JSON_ERRORS as error:
            if name != "error":
                raise form_error(f"an event is not JSON: {error}") from None
            events = [data]  # the message of an error
        for event in events:
            yield from self.take(name, event)

    def _end(self, *, is_cut: bool) -> Iterator[StreamPart]:
        for event in self._events.end():
            yield from self.take("", event)
        if not self.done:
            yield from self.take_end(is_cut=is_cut)

    @abstractmethod
    def take(self, name: str, event: Any) -> Iterable[StreamPart]:
        """Return the parts of an event, which is JSON data, or a string with the name "error". Can raise `ReplyError`.

        Set `done` after the last event.
        """

    @abstractmethod
    def take_whole(self, data: str) -> Iterable[StreamPart]:
        """Return the parts of a whole answer, which a server can send instead of events. Can raise `ReplyError`."""

    @abstractmethod
    def take_end(self, *, is_cut: bool) -> Iterable[StreamPart]:
        """Return the last parts of an incomplete answer, or raise `ReplyError`. `is_cut` is False after a `[DONE]`."""


def _before_error(parts: Iterable[StreamPart]) -> list[StreamPart]:
    """Return the parts of an event. If it raises a `ReplyError`, the error carries the earlier parts."""
    found: list[StreamPart] = []
    try:
        for part in parts:
            found.append(part)  # noqa: PERF402  # the parts before an error remain
    except ReplyError as error:
        error.parts = tuple(found)
        raise
    return found


def read_event_body(body: bytes, reader: ReplyReader) -> tuple[Part, ...]:
    """Return the parts of a whole body that is a stream of events.

    Raises:
        ReplyError: If the reader raises it, or if the body ends in the middle of an event.
    """
    events, fault = read_events([body])
    parts: list[StreamPart] = []
    for event in events:
        if not (event.is_empty or reader.done):
            parts += reader.read(event.name, event.data)
    if fault is not None and not reader.done:
        raise ReplyError(fault)
    return gather([*parts, *reader.end()])


def stream_reply(
    events: Stream[Event, AiError],
    reader: ReplyReader,
    to_error: Callable[[Reason], AiError],
    *,
    tags: ThinkTags | None,
    rest: Callable[[], Sequence[StreamPart]] = tuple,
    see: Callable[[Sequence[StreamPart]], object] = bool,
) -> Stream[StreamPart, AiError]:
    """Stream the parts of the events until the answer is complete.

    Args:
        events: The events of the answer.
        reader: The reader of the events.
        to_error: A function that returns the failure for a reason.
        tags: A reader of thoughts in the text. None if the text contains no thoughts.
        rest: A function that returns the delayed parts of a broken stream. They precede the failure.
        see: A function that receives the parts of each event before the stream emits them.

    Fails with:
        AiError: If `events` fails, or if the reader raises a `ReplyError`. The earlier parts remain valid.
    """

    @fx.gen
    def read(emit: Emit[StreamPart]) -> Gen[None, AiError, Scope]:
        pull: Effect[Any, AiError] = yield from pull_stream(events)
        following = pull.catch_all(fx.succeed)
        failed, is_over = None, False
        while failed is None and not is_over:
            event = yield from following
            parts: Sequence[StreamPart] = ()
            try:
                if isinstance(event, AiError):
                    failed = event
                else:
                    parts = reader.end() if event is END else reader.read(event.name, event.data)
            except ReplyError as error:
                parts, failed = error.parts, to_error(error.reason)
            is_over = reader.done or event is END
            if failed is not None:
                parts = [*parts, *rest()]
            if tags is not None:
                parts = [one for part in parts for one in tags.read(part)]
            see(parts)
            for part in parts:
                yield from emit(part)
        if failed is not None:
            yield from fx.fail(failed)

    return stream_steps(lambda emit: fx.scoped(read(emit)))
