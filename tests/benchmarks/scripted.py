"""A model that costs next to nothing, and an agent on it: what is left is the price of the loop."""

from __future__ import annotations

import asyncio
from typing import Any, Never

import msgspec
from returns.result import Result, Success

from fxai.agents import Agent, Budget
from fxai.effects import Effect, EffectOf, Layer, fx
from fxai.messages import AiError, Finish, Part, Text, ToolCall
from fxai.models import LanguageModel, ModelRequest
from fxai.tools import Tool, Toolkit
from tests.benchmarks import hand

__all__ = ["Turns", "agent_of", "forecast", "kit", "layer_of"]

_PARAMETERS = msgspec.json.decode(hand.SCALARS)
forecast = Tool.make("forecast", parameters=hand.Forecast, success=dict[str, Any])
kit = Toolkit.make(forecast)


async def _on_forecast(asked: hand.Forecast) -> Result[dict[str, Any], Never]:
    return Success(await hand.forecast_async(asked))


class Turns(LanguageModel):
    """Asks for the forecast in so many turns and then answers; remembers nothing."""

    def __init__(self, rounds: int, *, suspends: bool = False) -> None:
        self._rounds = rounds
        self._suspends = suspends

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The next turn, which the length of the history tells."""
        asked = (len(request.prompt) - 1) // 2
        turn: tuple[Part, ...] = (Text("done"), Finish("stop"))
        if asked < self._rounds:
            turn = (ToolCall(f"c{asked}", "forecast", _PARAMETERS), Finish("tool-calls"))
        answered: EffectOf[tuple[Part, ...], Never, None] = fx.succeed(turn)
        return fx.wait(lambda: asyncio.sleep(0)).and_then(answered) if self._suspends else answered


def agent_of(rounds: int) -> Agent[Any]:
    """An agent that may ask as often as that, and once more."""
    return Agent.make("bench", toolkit=kit, budget=Budget(rounds=rounds + 1))


def layer_of(model: LanguageModel) -> Layer[Any]:
    """Everything that the agent needs."""
    return kit.to_layer(forecast.handler(_on_forecast)) | Layer.succeed(LanguageModel, model)
