"""Wrap slow and unreliable handlers with aspects, and offer several tools as one.

The handlers contain no code for caching, retries, and limits. The model makes several calls in one call. If one inner
call fails, only its result is a failure. Run `python examples/50_aspects_and_composites.py`.
"""

from __future__ import annotations

import msgspec
from returns.result import Failure, Result, Success

from fxai import Gen, LanguageModel, Schedule, Tool, Toolkit, fx
from fxai.annotations import Readonly
from fxai.testing import ScriptedModel, call
from fxai.tools.aspects import Aspect, Invocation, Return, cache, retry, timeout


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


class Unavailable(msgspec.Struct, frozen=True):
    """The station does not answer."""

    station: str


weather = Tool.make(
    "weather", description="Degrees Celsius now.", parameters=City, success=float, failure=Unavailable
).annotate(Readonly, True)
people = Tool.make("people", description="How many live there.", parameters=City, success=int, failure=str)
kit = Toolkit.make(weather, people)

tries: list[str] = []


def on_weather(city: City) -> Gen[float, Unavailable]:
    """Fail at the first attempt, and take a minute for Rome."""
    tries.append(city.name)
    yield from fx.sleep(60 if city.name == "Rome" else 0)
    if len(tries) == 1:
        return (yield from fx.fail(Unavailable(city.name)))
    return 21.37


def on_people(city: City) -> Result[int, str]:
    """Return the population of Oslo, or a failure."""
    return Success(717_710) if city.name == "Oslo" else Failure(f"nobody counted the people of {city.name}")


def rounded(_: Invocation[City], celsius: float) -> Return[float]:
    """Round the temperature to a tenth of a degree."""
    return Return(round(celsius, 1))


# From the outside in: store each success, retry after a typed failure, limit each attempt to a tenth of a second, and
# round the result.

steady = (
    cache(ttl=60)
    .and_then(retry(Schedule.recurs(2), tool=weather))
    .and_then(timeout(0.1, tool=weather, failure=lambda call: Unavailable(call.params.name)))
    .and_then(Aspect.make(tool=weather, after=rounded))
)
handlers = kit.to_layer(steady.wrap(weather.handler(on_weather)) | people.handler(on_people))

# A model calls the toolkit as one tool.

facts = kit.as_tool("facts", description="Facts about cities.")
asked = [("weather", "Oslo"), ("people", "Oslo"), ("weather", "Oslo"), ("weather", "Rome"), ("height", "Rome")]
calls = [{"name": name, "args": {"name": city}} for name, city in asked]
model = ScriptedModel.make([call("facts", {"calls": calls})])
offered = Toolkit.make(facts.tool)
program = LanguageModel.generate_text("Tell me of Oslo and Rome.", toolkit=offered)
response = fx.run(program.provide(offered.to_layer(facts.layer.provide(handlers))).provide(model.layer))

for (name, city), answer in zip(asked, response.tool_results[0].encoded_result["results"], strict=True):
    print(f"{name} {city}: {answer['result']}")
print(f"The station in Oslo was asked {tries.count('Oslo')} times, the one in Rome {tries.count('Rome')} times.")
