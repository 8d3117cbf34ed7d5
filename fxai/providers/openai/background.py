"""Background responses of OpenAI. Use `Background` for answers that take longer than a connection.

OpenAI immediately answers a request with `background`, but the response is unfinished. To read the response whole, fxai
polls it until it ends. To read it as a stream, fxai reconnects after the last received event if the connection breaks.

>>> Background(every=5, window="8h").fields
{'background': True, 'background_options': {'completion_window': '8h'}}
"""

from __future__ import annotations

import logging
from typing import Any, Final, Literal, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Emit, Stream, pull_stream, stream_steps
from fxai.messages.errors import AiError
from fxai.messages.reason import NetworkError
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.event import WHOLE, Event
from fxai.schema.data import JSON_ERRORS

_A = TypeVar("_A")

_FIRST: Final = 0.5  # seconds before the first poll
_LONGEST: Final = 10.0  # maximum seconds for a cancellation
_OVER: Final = frozenset(
    ("response.completed", "response.incomplete", "response.cancelled", "response.failed", "error")
)


@final
class Background(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of waiting for a background response.

    Raises:
        ValueError: If `every` is not greater than 0, or if `resumes` is negative.
    """

    every: float = 5.0
    """The maximum number of seconds between two polls. The first polls are more frequent."""
    resumes: int = 8
    """The maximum number of consecutive reconnections without a new event."""
    cancel: bool = True
    """True to cancel the response at OpenAI if the program is interrupted or stops reading the stream. If False, the
    response continues, and `provider_options["openai"]["response_id"]` reads the rest."""
    window: Literal["soonest", "2h", "8h"] | None = None
    """The deadline of the response. A later deadline is cheaper, but has no stream."""
    continuation_id: str | None = None
    """A name that you choose. OpenAI processes requests with the same name together."""

    def __post_init__(self) -> None:
        if not self.every > 0 or self.resumes < 0:
            raise ValueError(f"every must be above 0, got {self.every}; resumes must be at least 0, got {self.resumes}")

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        options = {"completion_window": self.window, "continuation_id": self.continuation_id}
        given = {name: value for name, value in options.items() if value is not None}
        return {"background": True, **({"background_options": given} if given else {})}


class _Named(msgspec.Struct):
    id: str | None = None
    status: str | None = None


class _Mark(msgspec.Struct):
    """The fields of an event that determine the position in the stream."""

    type: str | None = None
    sequence_number: int | None = None
    response: _Named | None = None


_MARK: Final = msgspec.json.Decoder(_Mark)
_STATE: Final = msgspec.json.Decoder(_Named)


@final
class BackgroundResponse:
    """A background response with its state and its requests.

    `include` is additional data of the response, see the request. Without `response_id`, a new response starts.
    """

    def __init__(
        self, client: Client, options: Background, include: tuple[str, ...] = (), response_id: str | None = None
    ) -> None:
        self._client = client
        self._options = options
        self._include = include
        self._id = response_id
        self._number: int | None = None  # the number of the last event
        self._is_counted = True  # False after an event without a number, because a stream cannot resume after it
        self._is_over = False
        self._has_failed = False

    # -- whole

    def whole(self, path: str, body: bytes, method: str) -> Effect[bytes, AiError]:
        """Return the finished response as JSON. A POST of `body` starts it, unless it already has an id.

        Fails with:
            AiError: If the client cannot start or read the response. The failure contains the id to continue with.
        """
        return fx.scoped(self._guard(self._whole(path, body, method)))

    @fx.gen
    def _whole(self, path: str, body: bytes, method: str) -> Gen[bytes, AiError]:
        wait = _FIRST
        answer: HttpResponse | None = None
        if self._id is None:
            answer = yield from self._client.post(path, body, method=method)
        while answer is None or self._runs(answer.body):
            if answer is not None:
                yield from fx.sleep(min(wait, self._options.every))
                wait *= 2
            answer = yield from self._client.get(self._address(), method=method)
        return answer.body

    def _runs(self, body: bytes) -> bool:
        """Return True if the response still runs. Store its id."""
        try:
            state = _STATE.decode(body)
        except JSON_ERRORS:
            state = _Named()
        self._id = state.id or self._id
        self._is_over = state.status not in ("queued", "in_progress") or self._id is None
        return not self._is_over

    # -- streamed

    def events(self, path: str, body: bytes, method: str) -> Stream[Event, AiError]:
        """Return the events of the response. The stream survives broken connections. It starts like `whole`.

        Fails with:
            AiError: If `whole` would fail, or if the connection breaks more often than `resumes` permits.
        """
        return stream_steps(lambda emit: fx.scoped(self._guard(self._read(path, body, method, emit))))

    @fx.gen
    def _read(self, path: str, body: bytes, method: str, emit: Emit[Event]) -> Gen[None, AiError]:
        left = self._options.resumes
        source = self._client.events(path, body, method=method) if self._id is None else self._resume(method)
        while True:
            before = self._number
            failure: AiError | None = yield from fx.scoped(self._forward(source, emit)).catch_all(fx.succeed)
            if self._is_over:
                return
            left = left if self._number == before else self._options.resumes
            if failure is None:
                cut = NetworkError("TransportError", "the stream ended before the response was over")
                failure = AiError("openai", method, cut)
            if self._id is None or not left or not (self._is_counted and failure.is_retryable):
                yield from fx.fail(failure)
            left -= 1
            yield from fx.sleep(_FIRST)
            source = self._resume(method)

    @fx.gen
    def _forward(self, source: Stream[Event, AiError], emit: Emit[Event]) -> Gen[None, AiError, Scope]:
        """Emit the new events of a connection."""
        events = yield from pull_stream(source)
        while not self._is_over:
            event: Any = yield from events
            if event is END:
                return
            if self._is_new(event):
                yield from emit(event)

    def _is_new(self, event: Event) -> bool:
        """Return True if the event did not arrive earlier. Update the position in the stream."""
        if event.name == WHOLE:
            self._is_over = True
            return True
        try:
            mark = _MARK.decode(event.data)
        except JSON_ERRORS:
            return True  # the reader of the events reports the error
        if mark.response is not None and mark.response.id is not None:
            self._id = mark.response.id
        self._is_counted = self._is_counted and mark.sequence_number is not None
        if mark.sequence_number is not None:
            if self._number is not None and mark.sequence_number <= self._number:
                return False
            self._number = mark.sequence_number
        self._is_over = mark.type in _OVER
        return True

    def _resume(self, method: str) -> Stream[Event, AiError]:
        after = {} if self._number is None else {"starting_after": str(self._number)}
        return self._client.events(self._address({"stream": "true", **after}), None, method=method)

    def _address(self, query: dict[str, str] | None = None, action: str = "") -> str:
        included = [("include[]", one) for one in self._include]
        asked = urlencode([*(query or {}).items(), *included], safe="[]")
        return f"/responses/{quote(self._id or '', safe='')}{action}" + (f"?{asked}" if asked and not action else "")

    # -- the end

    @fx.gen
    def _guard(self, effect: Effect[_A, AiError]) -> Gen[_A, AiError, Scope]:
        yield from fx.add_finalizer(lambda _: fx.suspend(self._leave))
        return (yield from effect.map_error(self._explain))

    def _explain(self, error: AiError) -> AiError:
        """Return the failure with a note that the response continues in the background."""
        self._has_failed = True
        if self._id is None or self._is_over or not hasattr(error.reason, "description"):
            return error
        message = f"{getattr(error.reason, 'description', '') or ''}; response {self._id} continues in the background"
        return AiError(
            error.module, error.method, msgspec.structs.replace(error.reason, description=message.lstrip("; "))
        )

    def _leave(self) -> Effect[None]:
        """Cancel the response if no caller waits for it. If a request failed, do not cancel it."""
        if self._id is None or self._is_over or self._has_failed or not self._options.cancel:
            return fx.succeed(None)
        cancelling = self._client.post(self._address(action="/cancel"), b"", method="cancel").as_(None)

        def log(error: object) -> Effect[None]:
            logger = logging.getLogger("fxai.openai")
            return fx.sync(lambda: logger.warning("response %s may continue at OpenAI: %s", self._id, error))

        return cancelling.timeout(_LONGEST).catch_all(log)
