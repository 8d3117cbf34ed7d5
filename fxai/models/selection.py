"""Selection among models: a fallback where one cannot answer, or another model for each step, behind one service.

A layer is built when its model is first asked, and released with the selection; one that is never asked is never built.

>>> from fxai.effects import fx
>>> from fxai.messages.errors import InternalProviderError
>>> from fxai.testing import ScriptedModel, fails
>>> first = ScriptedModel.make([fails(InternalProviderError(overloaded=True))])
>>> second = ScriptedModel.make(["Good day."])
>>> asked = LanguageModel.generate_text("Hello").provide(fallback(first.layer, second.layer))
>>> response = fx.run(asked)
>>> print(response.text, "|", response.warnings[0].message)
Good day. | another model answers: ScriptedModel.ask: Provider overloaded

>>> models = {"small": ScriptedModel.make(["Yes."]).layer, "large": ScriptedModel.make(["It depends."]).layer}
>>> def by_length(request):
...     return "small" if len(request.prompt[-1].content[0].text) < 20 else "large"
>>> fx.run(LanguageModel.generate_text("Is it so?").provide(per_step(models, by_length))).text
'Yes.'
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.cause import Cause, Exit, Fail, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import Effect, EffectOf, FlatMap, Gen, Succeed, Suspend
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import AnyPart, Part, StreamPart, TextDelta, TextEnd, TextStart, WarningPart
from fxai.messages.reason import AuthenticationError, ContentPolicyError, ModelUnavailableError, QuotaExhaustedError
from fxai.models.language_model import ForwardingModel, LanguageModel
from fxai.models.model_facts import ModelFacts, common_facts
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.token_count import TokenCount
from fxai.schema.data import is_object

_SAYS_NOTHING: Final = frozenset({"response-metadata", "warning", "reasoning-start", "reasoning-end"})


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


def is_refusal(error: AiError) -> bool:
    """Return True if the model or a filter of the provider refused. Another model may answer the same request.

    >>> from fxai.messages.reason import ContentPolicyError
    >>> is_refusal(AiError("a", "ask", ContentPolicyError("I cannot help with that.")))
    True
    """
    return isinstance(error.reason, ContentPolicyError)


def fallback(
    first: LayerOf[LanguageModel, AiError, _R],
    *others: LayerOf[LanguageModel, AiError, _R],
    when: Callable[[AiError], bool] = retryable,
) -> LayerOf[LanguageModel, AiError, _R | None]:
    """The layer of a model that asks the first, and the next one where that fails and `when` says so.

    A layer is built when its model is first asked, but for the first; one whose layer fails to build is passed over as
    one that fails to answer. A stream goes over to the next model only before its first part of content comes.
    A turn that ends with a refusal is such a failure too if `when` accepts its reason, a `ContentPolicyError`. The
    refusal of the last model is an answer.
    Each model that was passed over is a warning in the response.

    The clients of the providers try again by themselves before that; `retry=None` there goes over at once.

    Args:
        first: The model that is asked first.
        others: The models that are asked then, in order.
        when: Which failures are for the next model: `retryable`, `unavailable`, `is_refusal`, or your own function.

    Fails with:
        AiError: As the model that was asked last; those of the others stand beside it in the cause.
    """

    @fx.gen
    def open_model() -> Gen[LanguageModel, AiError, Scope]:
        held = yield from hold()
        models = tuple(held.model_of(layer) for layer in (first, *others))
        yield from _begin(models, when)
        return _Fallback(models, when)

    # the services that the other layers need are taken from those around: no type of the effect says so
    return cast("LayerOf[LanguageModel, AiError, _R | None]", LayerOf.scoped(LanguageModel, open_model()))


def _begin(models: tuple[HeldModel, ...], when: Callable[[AiError], bool]) -> Effect[object, AiError]:
    """Builds the first layer that can be, so that a failure without a fallback comes before any request."""

    def open_(place: int, failed: tuple[AiError, ...]) -> Effect[object, AiError]:
        opening: Effect[object, AiError] = models[place].open()
        return opening.catch_all(lambda error: _next(place, error, failed))

    def _next(place: int, error: AiError, failed: tuple[AiError, ...]) -> Effect[object, AiError]:
        if place + 1 < len(models) and when(error):
            return open_(place + 1, (*failed, error))
        return fx.fail_cause(_cause(error, failed))

    return open_(0, ())


def _cause(error: AiError, failed: tuple[AiError, ...]) -> Cause[AiError]:
    return Cause((Fail(error), *(Fail(earlier) for earlier in failed)))


def _warnings(failed: tuple[AiError, ...]) -> tuple[WarningPart, ...]:
    return tuple(WarningPart(f"another model answers: {error.message}") for error in failed)


@final
class _Fallback(LanguageModel):
    def __init__(self, models: tuple[HeldModel, ...], when: Callable[[AiError], bool]) -> None:
        self._models = models
        self._when = when

    @property
    @override
    def info(self) -> None:
        return None

    @property
    @override
    def facts(self) -> ModelFacts | None:
        return common_facts(model.facts for model in self._models)

    @override
    def facts_of(self, request: ModelRequest) -> Effect[ModelFacts | None, AiError]:
        # the layer of the first model that can be built was built with this layer
        return fx.sync(lambda: self.facts)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return self._ask(request, 0, ())

    def _ask(self, request: ModelRequest, place: int, failed: tuple[AiError, ...]) -> Effect[tuple[Part, ...], AiError]:
        def again(error: AiError) -> Effect[tuple[Part, ...], AiError]:
            if self._ends(error, place):
                return fx.fail_cause(_cause(error, failed))
            return self._ask(request, place + 1, (*failed, error))

        def accept(parts: tuple[Part, ...]) -> Effect[tuple[Part, ...], AiError]:
            refusal = _refusal_in(parts, "ask")
            if refusal is not None and not self._ends(refusal, place):
                return fx.fail(refusal)
            return fx.succeed((*_warnings(failed), *parts))

        return ask_model(self._models[place], request).flat_map(accept).catch_all(again)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return StreamOf.suspend(lambda: self._stream(request, 0, ()))

    def _stream(self, request: ModelRequest, place: int, failed: tuple[AiError, ...]) -> Stream[StreamPart, AiError]:
        opening = _Opening(lambda refusal: not self._ends(refusal, place))

        def again(error: AiError) -> Stream[StreamPart, AiError]:
            if opening.over or self._ends(error, place):
                ended: Stream[StreamPart, AiError] = StreamOf.from_effect(fx.fail_cause(_cause(error, failed)))
                return StreamOf.from_iterable(tuple(opening.held)).concat(ended)
            return self._stream(request, place + 1, (*failed, error))

        parts = StreamOf.from_iterable(_warnings(failed)).concat(stream_model(self._models[place], request))
        return opening.of(parts).catch_all(again)

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        return self._count(request, 0, ())

    def _count(self, request: ModelRequest, place: int, failed: tuple[AiError, ...]) -> Effect[TokenCount, AiError]:
        def again(error: AiError) -> Effect[TokenCount, AiError]:
            if self._ends(error, place):
                return fx.fail_cause(_cause(error, failed))
            return self._count(request, place + 1, (*failed, error))

        def with_warnings(count: TokenCount) -> TokenCount:
            warnings = tuple(WarningPart(f"another model counts: {error.message}") for error in failed)
            return msgspec.structs.replace(count, warnings=(*warnings, *count.warnings))

        return self._models[place].count(request).map(with_warnings).catch_all(again)

    def _ends(self, error: AiError, place: int) -> bool:
        return place + 1 == len(self._models) or not self._when(error)


def _refusal_in(parts: Iterable[AnyPart], method: str) -> AiError | None:
    """Return the refusal of a turn as an error. None if the model did not refuse."""
    for part in parts:
        if part.type == "finish" and part.refusal is not None:
            return AiError("LanguageModel", method, part.refusal)
    return None


class _Opening:
    """The beginning of a stream: what says nothing yet is held until something does, or the stream ends.

    The words of a refusal are held too, until the end of the turn shows whether another model is asked.

    Args:
        passes: Whether another model is asked after a refusal.
    """

    def __init__(self, passes: Callable[[AiError], bool]) -> None:
        self._passes = passes
        self._refused: set[str] = set()  # the texts that are refusals
        self.held: deque[Any] = deque()
        self.over = False

    def of(self, stream: Stream[StreamPart, AiError]) -> Stream[StreamPart, AiError]:
        """The stream; until `over` nothing of it was given."""
        return StreamOf(stream.pull().map(self._pull))

    def _pull(self, pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        def came(part: Any) -> EffectOf[Any, Any, Any]:
            if part is not END and not self.over:
                refusal = _refusal_in((part,), "ask_stream")
                if refusal is not None and self._passes(refusal):
                    return fx.fail(refusal)
                if self._says_nothing(part):
                    self.held.append(part)
                    return following
            self.over = True
            self.held.append(part)
            return Succeed(self.held.popleft())

        def next_() -> EffectOf[Any, Any, Any]:
            return Succeed(self.held.popleft()) if self.over and self.held else FlatMap(pull, came)

        following: EffectOf[Any, Any, Any] = Suspend(next_)
        return following

    def _says_nothing(self, part: StreamPart) -> bool:
        match part:
            case TextStart():
                is_refusal = any(is_object(own) and own.get("refusal") for own in part.metadata.values())
                self._refused.update([part.id] if is_refusal else [])
                return is_refusal
            case TextDelta() | TextEnd():
                return part.id in self._refused
            case _:
                return part.type in _SAYS_NOTHING


@final
class HeldModel(ForwardingModel):
    """The model of a layer, which is built at the first request and released with the scope.

    A layer that fails to build fails that request; it is built anew at the next one.
    """

    def __init__(self, layer: LayerOf[LanguageModel, AiError, Any], services: ContextOf[Any], scope: Scope) -> None:
        self.layer = layer
        """The layer, by which the model is known before it is built."""
        self._services = services
        self._scope = scope
        self._model: LanguageModel | None = None

    @property
    @override
    def facts(self) -> ModelFacts | None:
        """The facts of the model. None if its layer is not built."""
        return None if self._model is None else self._model.facts

    def open(self) -> Effect[LanguageModel, AiError]:
        """The model itself, built where it is not there yet.

        Fails with:
            AiError: As the layer.
        """
        return fx.suspend(lambda: self._build() if self._model is None else fx.succeed(self._model))

    @override
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        """The model itself."""
        return self.open()

    def _build(self) -> Effect[LanguageModel, AiError]:
        own = Scope()
        token = self._scope.add(own.close)

        def keep(built: ContextOf[Any]) -> LanguageModel:
            model: LanguageModel = built.fetch(LanguageModel)
            self._model = self._model or model
            return model

        def on_exit(end: Exit[Any, Any]) -> Effect[None]:
            if isinstance(end, Succeeded):
                return fx.succeed(None)
            self._scope.remove(token)
            return own.close(end)

        building: EffectOf[Any, AiError, Any] = self.layer.build_in(MemoMap.of(self._services), own)
        services: Any = self._services
        return building.provide_context(services).map(keep).on_exit(on_exit)


@final
class HeldModels:
    """The models of layers, one for each layer; `hold` makes it."""

    def __init__(self, services: ContextOf[Any], scope: Scope) -> None:
        self._services = services
        self._scope = scope
        self._models: dict[object, HeldModel] = {}

    def model_of(self, layer: LayerOf[LanguageModel, AiError, Any]) -> HeldModel:
        """The model of a layer: one for each layer, built at its first request."""
        known = self._models.get(layer)
        if known is None:
            known = self._models[layer] = HeldModel(layer, self._services, self._scope)
        return known


def hold() -> EffectOf[HeldModels, Never, Scope | None]:
    """Holds models until the scope around closes; their layers are built with the services around."""

    def make(services: ContextOf[Any]) -> HeldModels:
        # one memo map for all: two that ask at once for a layer that is not built share one building
        return HeldModels(MemoMap.of(services).into(services), services.fetch(Scope))

    return fx.context().map(make)


_R = TypeVar("_R")


def per_step(
    models: Mapping[str, LayerOf[LanguageModel, AiError, _R]], choose: Callable[[ModelRequest], str]
) -> LayerOf[LanguageModel, Never, _R | None]:
    """The layer of a model that hands each request to the one that `choose` names for it.

    In a loop each step is a request, whose prompt is the history so far: a first step may plan with a large model and
    the others go on with a small one. A layer is built when its model is first asked, and released with this one.

    Args:
        models: The layers, by names of your own.
        choose: The name for a request. What it raises is a defect.

    What is asked fails with:
        AiError: As the model that was named, and as its layer; `ModelUnavailableError`: none is of that name.
    """
    layers = dict(models)

    @fx.gen
    def open_models() -> Gen[LanguageModel, Never, Scope]:
        held = yield from hold()
        return _Selection({name: held.model_of(layer) for name, layer in layers.items()}, choose)

    # the services that the layers need are taken from those around: no type of the effect says so
    return cast("LayerOf[LanguageModel, Never, _R | None]", LayerOf.scoped(LanguageModel, open_models()))


@final
class _Selection(ForwardingModel):
    def __init__(self, models: Mapping[str, HeldModel], choose: Callable[[ModelRequest], str]) -> None:
        self._models = models
        self._choose = choose

    @property
    @override
    def facts(self) -> ModelFacts | None:
        return common_facts(model.facts for model in self._models.values())

    @override
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        """The model that is chosen for the request."""
        return fx.suspend(lambda: self._choose_model(request))

    def _choose_model(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        name = self._choose(request)
        model = self._models.get(name)
        if model is not None:
            return fx.succeed(model)
        names = f"there is: {', '.join(self._models) or 'none'}"
        return fx.fail(AiError("LanguageModel", "per_step", ModelUnavailableError(name, "unknown-model", names)))
