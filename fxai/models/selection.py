"""Selection among models: use a fallback if a model fails, or another model for each step, with a single service.

fxai builds a layer before the first request to its model, and releases it with the selection. It never builds the
layer for a model without requests.

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
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, Effect, EffectOf, FlatMap, Gen, Succeed, Suspend
from fxai.effects.layer import LayerOf, MemoMap, build_layer
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf, pull_stream
from fxai.messages.errors import AiError
from fxai.messages.part import AnyPart, Part, StreamPart, TextDelta, TextEnd, TextStart, WarningPart
from fxai.messages.reason import AuthenticationError, ContentPolicyError, ModelUnavailableError, QuotaExhaustedError
from fxai.models.language_model import ForwardingModel, LanguageModel
from fxai.models.model_facts import ModelFacts, common_facts
from fxai.models.model_request import ModelRequest, ask_model, stream_model
from fxai.models.token_count import TokenCount
from fxai.schema.data import is_object

_A = TypeVar("_A")
_R = TypeVar("_R")

_EMPTY: Final = frozenset({"response-metadata", "warning", "reasoning-start", "reasoning-end"})


def retryable(error: AiError) -> bool:
    """Return whether the same request can succeed later: after an error of the provider, the network, or a rate limit.

    >>> from fxai.messages.errors import InvalidRequestError, RateLimitError
    >>> retryable(AiError("a", "ask", RateLimitError())), retryable(AiError("a", "ask", InvalidRequestError()))
    (True, False)
    """
    return error.is_retryable


def unavailable(error: AiError) -> bool:
    """Return whether the error is retryable, or this model is unavailable: its key, its quota, its package, its file.

    >>> unavailable(AiError("a", "layer", AuthenticationError("MissingKey")))
    True
    """
    return error.is_retryable or isinstance(
        error.reason, AuthenticationError | ModelUnavailableError | QuotaExhaustedError
    )


def is_refusal(error: AiError) -> bool:
    """Return whether the model or a filter of the provider refused. Another model can answer the same request.

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
    """Return the layer that tries the first model, and then the next model if the first fails and `when` is true.

    fxai builds the first layer immediately, and each other layer before the first request to its model. If a layer
    fails to build, fxai uses the next model. A stream can change to the next model only before the first part with
    content. A turn that ends with a refusal is also a failure if `when` accepts its reason, a `ContentPolicyError`. The
    refusal of the last model is an answer. The response contains a warning for each failed model.

    By default, the clients of the providers retry before the fallback. To change the model immediately, pass
    `retry=None` to them.

    Args:
        first: The first model.
        others: The next models.
        when: Decides which errors allow the next model: `retryable` (the default), `unavailable`, `is_refusal`, or
            your own function.

    Fails with:
        AiError: The error from the last model. The cause also contains the errors of the other models.
    """

    @fx.gen
    def open_model() -> Gen[LanguageModel, AiError, Scope]:
        held = yield from hold()
        made = _Fallback(tuple(held.model_of(layer) for layer in (first, *others)), when)
        yield from made.start()  # a failure without a fallback happens before any request
        return made

    # the context provides the services of the other layers, but the type of the effect does not contain them
    return cast("LayerOf[LanguageModel, AiError, _R | None]", LayerOf.scoped(LanguageModel, open_model()))


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
        # this layer has already built the layer of the first usable model
        return fx.sync(lambda: self.facts)

    def start(self) -> Effect[LanguageModel, AiError]:
        """Build the first possible layer."""
        return self._first(lambda location, _: self._models[location].open())

    def _first(
        self,
        attempt: Callable[[int, tuple[AiError, ...]], Effect[_A, AiError]],
        location: int = 0,
        failed: tuple[AiError, ...] = (),
    ) -> Effect[_A, AiError]:
        """Attempt an effect with each model until it succeeds. `attempt` receives the errors of the earlier models."""

        def again(error: AiError) -> Effect[_A, AiError]:
            if self._ends(error, location):
                return fx.fail_cause(_cause(error, failed))
            return self._first(attempt, location + 1, (*failed, error))

        return attempt(location, failed).catch_all(again)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        def attempt(location: int, failed: tuple[AiError, ...]) -> Effect[tuple[Part, ...], AiError]:
            def accept(parts: tuple[Part, ...]) -> Effect[tuple[Part, ...], AiError]:
                refusal = _refusal_in(parts, "ask")
                if refusal is not None and not self._ends(refusal, location):
                    return fx.fail(refusal)
                return fx.succeed((*_warnings(failed), *parts))

            return ask_model(self._models[location], request).flat_map(accept)

        return self._first(attempt)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        return StreamOf.suspend(lambda: self._stream(request, 0, ()))

    def _stream(self, request: ModelRequest, location: int, failed: tuple[AiError, ...]) -> Stream[StreamPart, AiError]:
        opening = _Opening(lambda refusal: not self._ends(refusal, location))

        def again(error: AiError) -> Stream[StreamPart, AiError]:
            if opening.over or self._ends(error, location):
                ended: Stream[StreamPart, AiError] = StreamOf.from_effect(fx.fail_cause(_cause(error, failed)))
                return StreamOf.from_iterable(tuple(opening.held)).concat(ended)
            return self._stream(request, location + 1, (*failed, error))

        parts = StreamOf.from_iterable(_warnings(failed)).concat(stream_model(self._models[location], request))
        return opening.of(parts).catch_all(again)

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        def attempt(location: int, failed: tuple[AiError, ...]) -> Effect[TokenCount, AiError]:
            def with_warnings(count: TokenCount) -> TokenCount:
                warnings = tuple(WarningPart(f"another model counts: {error.message}") for error in failed)
                return msgspec.structs.replace(count, warnings=(*warnings, *count.warnings))

            return self._models[location].count(request).map(with_warnings)

        return self._first(attempt)

    def _ends(self, error: AiError, location: int) -> bool:
        return location + 1 == len(self._models) or not self._when(error)


def _refusal_in(parts: Iterable[AnyPart], method: str) -> AiError | None:
    """Return the refusal of a turn as an error, or None if the model did not refuse."""
    for part in parts:
        if part.type == "finish" and part.refusal is not None:
            return AiError("LanguageModel", method, part.refusal)
    return None


class _Opening(msgspec.Struct, eq=False):
    """The start of a stream. It buffers parts without content until a part with content arrives or the stream ends.

    It also buffers the text of a refusal until `passes` decides, at the end of the turn, whether another model answers.
    """

    passes: Callable[[AiError], bool]
    held: deque[Any] = msgspec.field(default_factory=deque[Any])
    over: bool = False
    _refused: set[str] = set()  # ids of text parts that are refusals

    def of(self, stream: Stream[StreamPart, AiError]) -> Stream[StreamPart, AiError]:
        """Return the stream. While `over` is false, it has emitted no part."""
        return StreamOf(pull_stream(stream).map(self._pull))

    def _pull(self, pull: AnyEffect) -> AnyEffect:
        def came(part: Any) -> AnyEffect:
            if part is not END and not self.over:
                refusal = _refusal_in((part,), "ask_stream")
                if refusal is not None and self.passes(refusal):
                    return fx.fail(refusal)
                if self._is_empty(part):
                    self.held.append(part)
                    return following
            self.over = True
            self.held.append(part)
            return Succeed(self.held.popleft())

        def next_() -> AnyEffect:
            return Succeed(self.held.popleft()) if self.over and self.held else FlatMap(pull, came)

        following: AnyEffect = Suspend(next_)
        return following

    def _is_empty(self, part: StreamPart) -> bool:
        match part:
            case TextStart():
                is_refusal = any(is_object(own) and own.get("refusal") for own in part.metadata.values())
                self._refused.update([part.id] if is_refusal else [])
                return is_refusal
            case TextDelta() | TextEnd():
                return part.id in self._refused
            case _:
                return part.type in _EMPTY


@final
class HeldModel(ForwardingModel):
    """The model of a layer. fxai builds it at the first request and releases it with the scope.

    If the layer fails to build, the request fails. fxai tries again at the next request.
    """

    def __init__(self, layer: LayerOf[LanguageModel, AiError, Any], services: AnyContext, scope: Scope) -> None:
        self.layer = layer
        """The layer, which identifies the model before its build."""
        self._services = services
        self._scope = scope
        self._model: LanguageModel | None = None

    @property
    @override
    def facts(self) -> ModelFacts | None:
        """The facts about the model, or None before its build."""
        return None if self._model is None else self._model.facts

    def open(self) -> Effect[LanguageModel, AiError]:
        """Return the model itself. Build it if necessary.

        Fails with:
            AiError: The error from the layer.
        """
        return fx.suspend(lambda: self._build() if self._model is None else fx.succeed(self._model))

    @override
    def forward(self, request: ModelRequest) -> Effect[LanguageModel, AiError]:
        """Return the model itself."""
        return self.open()

    def _build(self) -> Effect[LanguageModel, AiError]:
        own = Scope()
        token = self._scope.add(own.close)

        def keep(built: AnyContext) -> LanguageModel:
            model: LanguageModel = built.fetch(LanguageModel)
            self._model = self._model or model
            return model

        def on_exit(end: Exit[Any, Any]) -> Effect[None]:
            if isinstance(end, Succeeded):
                return fx.succeed(None)
            self._scope.remove(token)
            return own.close(end)

        building: EffectOf[Any, AiError, Any] = build_layer(self.layer, MemoMap.of(self._services), own)
        services: Any = self._services
        return building.provide_context(services).map(keep).on_exit(on_exit)


@final
class HeldModels(msgspec.Struct, eq=False):
    """The models of layers, one model for each layer. Create it with `hold`."""

    _services: AnyContext
    _scope: Scope
    _models: dict[object, HeldModel] = {}

    def model_of(self, layer: LayerOf[LanguageModel, AiError, Any]) -> HeldModel:
        """Return the model of a layer. fxai builds it at its first request."""
        known = self._models.get(layer)
        if known is None:
            known = self._models[layer] = HeldModel(layer, self._services, self._scope)
        return known


def hold() -> EffectOf[HeldModels, Never, Scope | None]:
    """Return an effect of models that exist until the scope closes. Their layers use the services in the context."""

    def make(services: AnyContext) -> HeldModels:
        # one memo map for all models: concurrent first requests of a layer share its build
        return HeldModels(MemoMap.of(services).into(services), services.fetch(Scope))

    return fx.context().map(make)


def per_step(
    models: Mapping[str, LayerOf[LanguageModel, AiError, _R]], choose: Callable[[ModelRequest], str]
) -> LayerOf[LanguageModel, Never, _R | None]:
    """Return the layer for a model that forwards each request to the model that `choose` returns.

    In an agent, each step is a request with the history so far. For example, the first step can plan with a large
    model, and a small model can run the other steps. fxai builds a layer before the first request to its model and
    releases it with this layer.

    Args:
        models: The layers by names that you choose.
        choose: Returns the model name for a request. An exception is a defect.

    Requests fail with:
        AiError: The error from the chosen model or its layer. `ModelUnavailableError` if the name is unknown.
    """
    layers = dict(models)

    @fx.gen
    def open_models() -> Gen[LanguageModel, Never, Scope]:
        held = yield from hold()
        return _Selection({name: held.model_of(layer) for name, layer in layers.items()}, choose)

    # the context provides the services of the layers, but the type of the effect does not contain them
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

        def choose() -> Effect[LanguageModel, AiError]:
            name = self._choose(request)
            if name in self._models:
                return fx.succeed(self._models[name])
            names = f"the models are: {', '.join(self._models) or 'none'}"
            return fx.fail(AiError("LanguageModel", "per_step", ModelUnavailableError(name, "unknown-model", names)))

        return fx.suspend(choose)
