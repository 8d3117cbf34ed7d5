"""Selections: another model for each step, behind one service.

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
from typing import Never, cast, final

from typing_extensions import TypeVar, override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError, ModelUnavailableError
from fxai.messages.part import Part, StreamPart
from fxai.models.held import HeldModel, hold
from fxai.models.language_model import LanguageModel
from fxai.models.request import ModelRequest

__all__ = ["per_step"]

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
    def opened() -> Gen[LanguageModel, Never, Scope]:
        held = yield from hold()
        return _Selection({name: held.model_of(layer) for name, layer in layers.items()}, choose)

    # the services that the layers need are taken from those around: no type of the effect says so
    return cast("LayerOf[LanguageModel, Never, _R | None]", LayerOf.scoped(LanguageModel, opened()))


@final
class _Selection(LanguageModel):
    def __init__(self, models: Mapping[str, HeldModel], choose: Callable[[ModelRequest], str]) -> None:
        self._models = models
        self._choose = choose

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.suspend(lambda: self._chosen(request)).flat_map(lambda model: model.ask(request))

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        chosen = fx.suspend(lambda: self._chosen(request))
        return StreamOf.unwrap(chosen.map(lambda model: model.ask_stream(request)))

    def _chosen(self, request: ModelRequest) -> Effect[HeldModel, AiError]:
        name = self._choose(request)
        model = self._models.get(name)
        if model is not None:
            return fx.succeed(model)
        said = f"there is: {', '.join(self._models) or 'none'}"
        return fx.fail(AiError("LanguageModel", "per_step", ModelUnavailableError(name, "unknown-model", said)))
