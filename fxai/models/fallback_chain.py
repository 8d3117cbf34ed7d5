"""Fallbacks: a model that stands in for another one where that cannot answer.

>>> from fxai.effects import fx
>>> from fxai.messages.errors import InternalProviderError
>>> from fxai.testing import ScriptedModel, fails
>>> first = ScriptedModel.make([fails(InternalProviderError(overloaded=True))])
>>> second = ScriptedModel.make(["Good day."])
>>> asked = LanguageModel.generate_text("Hello").provide(fallback(first.layer, second.layer))
>>> response = fx.run(asked)
>>> print(response.text, "|", response.warnings[0].message)
Good day. | another model answers: ScriptedModel.ask: Provider overloaded
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast, final

from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import Effect, EffectOf, FlatMap, Gen, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError, AuthenticationError, ModelUnavailableError, QuotaExhaustedError
from fxai.messages.part import Part, StreamPart, WarningPart
from fxai.models.language_model import LanguageModel
from fxai.models.request import ModelRequest
from fxai.models.selection import HeldModel, hold

__all__ = ["fallback", "retryable", "unavailable"]

_R = TypeVar("_R")

_SAYS_NOTHING: Final = frozenset({"response-metadata", "warning"})


def retryable(error: AiError) -> bool:
    """Whether the same request might succeed another time: the provider, the network, too many requests.

    >>> from fxai.messages.errors import InvalidRequestError, RateLimitError
    >>> retryable(AiError("a", "ask", RateLimitError())), retryable(AiError("a", "ask", InvalidRequestError()))
    (True, False)
    """
    return error.is_retryable


def unavailable(error: AiError) -> bool:
    """Whether it is retryable, or this model is not to be had here: its key, its quota, its package, its file.

    >>> unavailable(AiError("a", "layer", AuthenticationError("MissingKey")))
    True
    """
    return error.is_retryable or isinstance(
        error.reason, AuthenticationError | ModelUnavailableError | QuotaExhaustedError
    )


def fallback(
    first: LayerOf[LanguageModel, AiError, _R],
    *others: LayerOf[LanguageModel, AiError, _R],
    when: Callable[[AiError], bool] = retryable,
) -> LayerOf[LanguageModel, AiError, _R | None]:
    """The layer of a model that asks the first, and the next one where that fails and `when` says so.

    A layer is built when its model is first asked, but for the first; one whose layer fails to build is passed over as
    one that fails to answer. A stream goes over to the next model only while nothing was said; what came stands.
    Each model that was passed over is a warning in the response.

    The clients of the providers try again by themselves before that; `retry=None` there goes over at once.

    Args:
        first: Who is asked first.
        others: Who is asked then, in order.
        when: Which failures are for the next model: `retryable`, `unavailable`, or a function of your own.

    Fails with:
        AiError: As the model that was asked last; those of the others stand beside it in the cause.
    """

    @fx.gen
    def opened() -> Gen[LanguageModel, AiError, Scope]:
        held = yield from hold()
        models = tuple(held.model_of(layer) for layer in (first, *others))
        yield from _begin(models, when)
        return _Fallback(models, when)

    # the services that the other layers need are taken from those around: no type of the effect says so
    return cast("LayerOf[LanguageModel, AiError, _R | None]", LayerOf.scoped(LanguageModel, opened()))


def _begin(models: tuple[HeldModel, ...], when: Callable[[AiError], bool]) -> Effect[object, AiError]:
    """Builds the first layer that can be, so that what no model stands in for is told before anything is asked."""

    def opened(place: int, failed: tuple[AiError, ...]) -> Effect[object, AiError]:
        opening: Effect[object, AiError] = models[place].open()
        return opening.catch_all(lambda error: _next(place, error, failed))

    def _next(place: int, error: AiError, failed: tuple[AiError, ...]) -> Effect[object, AiError]:
        if place + 1 < len(models) and when(error):
            return opened(place + 1, (*failed, error))
        return fx.fail_cause(_cause(error, failed))

    return opened(0, ())


def _cause(error: AiError, failed: tuple[AiError, ...]) -> Cause[AiError]:
    return Cause((Fail(error), *(Fail(earlier) for earlier in failed)))


def _warnings(failed: tuple[AiError, ...]) -> tuple[WarningPart, ...]:
    return tuple(WarningPart(f"another model answers: {error.message}") for error in failed)


@final
class _Fallback(LanguageModel):
    def __init__(self, models: tuple[HeldModel, ...], when: Callable[[AiError], bool]) -> None:
        self._models = models
        self._when = when

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return self._ask(request, 0, ())

    def _ask(self, request: ModelRequest, place: int, failed: tuple[AiError, ...]) -> Effect[tuple[Part, ...], AiError]:
        def again(error: AiError) -> Effect[tuple[Part, ...], AiError]:
            if self._ends(error, place):
                return fx.fail_cause(_cause(error, failed))
            return self._ask(request, place + 1, (*failed, error))

        answered = self._models[place].ask(request)
        return answered.map(lambda parts: (*_warnings(failed), *parts)).catch_all(again)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return StreamOf.suspend(lambda: self._stream(request, 0, ()))

    def _stream(self, request: ModelRequest, place: int, failed: tuple[AiError, ...]) -> Stream[StreamPart, AiError]:
        opening = _Opening()

        def again(error: AiError) -> Stream[StreamPart, AiError]:
            if opening.over or self._ends(error, place):
                ended: Stream[StreamPart, AiError] = StreamOf.from_effect(fx.fail_cause(_cause(error, failed)))
                return StreamOf.from_iterable(tuple(opening.held)).concat(ended)
            return self._stream(request, place + 1, (*failed, error))

        said = StreamOf.from_iterable(_warnings(failed)).concat(self._models[place].ask_stream(request))
        return opening.of(said).catch_all(again)

    def _ends(self, error: AiError, place: int) -> bool:
        return place + 1 == len(self._models) or not self._when(error)


class _Opening:
    """The beginning of a stream: what says nothing yet is held until something does, or the stream ends."""

    def __init__(self) -> None:
        self.held: deque[Any] = deque()
        self.over = False

    def of(self, stream: Stream[StreamPart, AiError]) -> Stream[StreamPart, AiError]:
        """The stream; until `over` nothing of it was given."""
        return StreamOf(stream.pull().map(self._pull))

    def _pull(self, pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        def came(part: Any) -> EffectOf[Any, Any, Any]:
            if part is not END and part.type in _SAYS_NOTHING and not self.over:
                self.held.append(part)
                return following
            self.over = True
            self.held.append(part)
            return Succeed(self.held.popleft())

        def next_() -> EffectOf[Any, Any, Any]:
            return Succeed(self.held.popleft()) if self.over and self.held else FlatMap(pull, came)

        following: EffectOf[Any, Any, Any] = Suspend(next_)
        return following
