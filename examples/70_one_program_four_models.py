"""Run one program with four models: two APIs of OpenAI, Anthropic, and a local model. Only the layer differs.

Run `python examples/70_one_program_four_models.py`. It needs no network and no key, because it replays recorded answers
from the cassettes next to this file. The fourth model is real and needs `pip install 'fxai[local]'`. With `--live`, the
program sends the requests to the providers with the keys in OPENAI_API_KEY and ANTHROPIC_API_KEY.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from returns.result import Failure, Result, Success

from fxai import Agent, AiError, Example, LanguageModel, Layer, Tool, Toolkit, fx
from fxai.providers import anthropic, local, openai
from fxai.testing.recording import replay

# The program consists of a tool, its handler, and an agent. It does not depend on a provider.


class Place(msgspec.Struct, frozen=True):
    """A city."""

    city: str


class UnknownCity(msgspec.Struct, frozen=True):
    """There is no station in that city."""

    known: tuple[str, ...]


STATIONS = {"Oslo": "It snows, at -3 degrees.", "Rome": "It is sunny, at 21 degrees."}

weather = Tool.make(
    "weather",
    description="The weather in a city right now.",
    parameters=Place,
    success=str,
    failure=UnknownCity,
    failure_mode="return",
    input_examples=[Example("Is it cold in Paris?", {"city": "Paris"})],
)


def read_station(place: Place) -> Result[str, UnknownCity]:
    """Return the report of the station in a city."""
    found = STATIONS.get(place.city)
    return Failure(UnknownCity(tuple(STATIONS))) if found is None else Success(found)


kit = Toolkit.make(weather)
program = Agent.make("guide", toolkit=kit).execute("What is the weather in Oslo?")

# The models are layers of the same service.

MODELS: dict[str, Layer[LanguageModel, AiError]] = {
    "responses": openai.layer("gpt-5.5"),
    "chat": openai.layer("gpt-6-luna", api="chat"),
    "messages": anthropic.layer("claude-sonnet-5"),
    "local": local.layer(),
}

tools = kit.to_layer(weather.handler(read_station))
CASSETTES = Path(__file__).parent / "cassettes"


def main() -> None:
    """Run the program with each model, and print its calls and its answer."""
    for name, model in MODELS.items():
        asked = program.provide(tools).provide(model)
        recorded = name != "local" and "--live" not in sys.argv
        answered = fx.run_result(asked.provide(replay(CASSETTES / f"{name}.json")) if recorded else asked)
        if isinstance(answered, Failure):
            print(f"{name}: {answered.failure()}")
            continue
        answer = answered.unwrap()
        called = [f"{call.name}({call.params})" for step in answer.steps for call in step.response.tool_calls]
        print(f"{name}: {', '.join(called)} -> {answer.text}")


if __name__ == "__main__":
    main()
