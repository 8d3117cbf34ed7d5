"""Selection: several model layers behind one service, each built when it is first asked.

`per_step` chooses a model for each request. `hold` keeps what it and `fallback` choose from: the models of several
layers, released with one scope; a layer whose model is never asked is never built.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel
>>> models = {"small": ScriptedModel.make(["Yes."]).layer, "large": ScriptedModel.make(["It depends."]).layer}
>>> def by_length(request):
...     return "small" if len(request.prompt[-1].content[0].text) < 20 else "large"
>>> fx.run(LanguageModel.generate_text("Is it so?").provide(per_step(models, by_length))).text
'Yes.'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Never, cast, final

from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.layer import LayerOf, MemoMap
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError, ModelUnavailableError
from fxai.messages.part import Part, StreamPart
from fxai.models.language_model import LanguageModel
from fxai.models.request import ModelRequest

__all__ = ["HeldModel", "HeldModels", "hold", "per_step"]


@final
class HeldModel(LanguageModel):
    """The model of a layer, which is built at the first request and released with the scope.

    A layer that fails to build fails that request; it is built anew at the next one.
    """

    def __init__(self, layer: LayerOf[LanguageModel, AiError, Any], services: ContextOf[Any], scope: Scope) -> None:
        self._layer = layer
        self._services = services
        self._scope = scope
        self._model: LanguageModel | None = None

    def open(self) -> Effect[LanguageModel, AiError]:
        """The model itself, built where it is not there yet.

        Fails with:
            AiError: As the layer.
        """
        return fx.suspend(lambda: self._build() if self._model is None else fx.succeed(self._model))

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole.

        Fails with:
            AiError: As the model, and as its layer.
        """
        return self.open().flat_map(lambda model: model.ask(request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part.

        Fails with:
            AiError: As the model, and as its layer.
        """
        return StreamOf.unwrap(self.open().map(lambda model: model.ask_stream(request)))

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

        building: EffectOf[Any, AiError, Any] = self._layer.build_in(MemoMap.of(self._services), own)
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
    """Holds models until the scope around closes; their layers are given the services around."""

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
class _Selection(LanguageModel):
    def __init__(self, models: Mapping[str, HeldModel], choose: Callable[[ModelRequest], str]) -> None:
        self._models = models
        self._choose = choose

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.suspend(lambda: self._choose_model(request)).flat_map(lambda model: model.ask(request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        chosen = fx.suspend(lambda: self._choose_model(request))
        return StreamOf.unwrap(chosen.map(lambda model: model.ask_stream(request)))

    def _choose_model(self, request: ModelRequest) -> Effect[HeldModel, AiError]:
        name = self._choose(request)
        model = self._models.get(name)
        if model is not None:
            return fx.succeed(model)
        said = f"there is: {', '.join(self._models) or 'none'}"
        return fx.fail(AiError("LanguageModel", "per_step", ModelUnavailableError(name, "unknown-model", said)))
