"""Held models: the models of several layers, each built when it is first asked and released with one scope.

What chooses among models is made of it: a fallback, a model for each step. A layer that nobody asks is never built.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel
>>> scripted = ScriptedModel.make(["Hello."]).layer
>>> def program():
...     held = yield from hold()
...     return held.model_of(scripted) is held.model_of(scripted)
>>> fx.run(fx.scoped(fx.gen(program)()))
True
"""

from __future__ import annotations

from typing import Any, Never, final

from typing_extensions import override

from fxai.effects import fx
from fxai.effects.context import ContextOf
from fxai.effects.effect import Effect, EffectOf
from fxai.effects.exit import Exit, Succeeded
from fxai.effects.layer import LayerOf
from fxai.effects.memo import MemoMap
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.models.language_model import LanguageModel
from fxai.models.request import ModelRequest

__all__ = ["HeldModel", "HeldModels", "hold"]


@final
class HeldModel(LanguageModel):
    """The model of a layer, which is built when this is first asked, and is there as long as the scope is.

    A layer that fails to build fails what was asked; it is built anew next time.
    """

    def __init__(self, layer: LayerOf[LanguageModel, AiError, Any], services: ContextOf[Any], scope: Scope) -> None:
        self._layer = layer
        self._services = services
        self._scope = scope
        self._model: LanguageModel | None = None

    def opened(self) -> Effect[LanguageModel, AiError]:
        """The model itself, built if it is not there yet.

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
        return self.opened().flat_map(lambda model: model.ask(request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part.

        Fails with:
            AiError: As the model, and as its layer.
        """
        return StreamOf.unwrap(self.opened().map(lambda model: model.ask_stream(request)))

    def _build(self) -> Effect[LanguageModel, AiError]:
        own = Scope()
        token = self._scope.add(own.close)

        def keep(built: ContextOf[Any]) -> LanguageModel:
            model: LanguageModel = built.fetch(LanguageModel)
            self._model = self._model or model
            return model

        def ended(end: Exit[Any, Any]) -> Effect[None]:
            if isinstance(end, Succeeded):
                return fx.succeed(None)
            self._scope.remove(token)
            return own.close(end)

        building: EffectOf[Any, AiError, Any] = self._layer.build_in(MemoMap.of(self._services), own)
        services: Any = self._services
        return building.provide_context(services).map(keep).on_exit(ended)


@final
class HeldModels:
    """The models of layers, one each; `hold` makes it."""

    def __init__(self, services: ContextOf[Any], scope: Scope) -> None:
        self._services = services
        self._scope = scope
        self._models: dict[object, HeldModel] = {}

    def model_of(self, layer: LayerOf[LanguageModel, AiError, Any]) -> HeldModel:
        """The model of a layer: the same for the same layer, built when it is first asked."""
        known = self._models.get(layer)
        if known is None:
            known = self._models[layer] = HeldModel(layer, self._services, self._scope)
        return known


def hold() -> EffectOf[HeldModels, Never, Scope | None]:
    """What holds models until the scope around closes; their layers are fed with the services around."""

    def made(services: ContextOf[Any]) -> HeldModels:
        # one memo map for all: two that ask at once for a layer that is not built share one building
        return HeldModels(MemoMap.of(services).into(services), services.fetch(Scope))

    return fx.context().map(made)
