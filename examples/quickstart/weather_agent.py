"""An agent with two tools."""

from returns.result import Failure, Result, Success

from fxai import Agent, fx, tool
from fxai.testing import ScriptedModel, call, text

CELSIUS = {"Oslo": -3.0, "Rome": 18.0}


@tool(failure_mode="return")  # the model reads the failure and can try another city
def weather(city: str) -> Result[float, str]:
    """Return the temperature in a city, in degrees Celsius."""
    if city in CELSIUS:
        return Success(CELSIUS[city])
    return Failure(f"unknown city. Known cities: {', '.join(CELSIUS)}")


@tool
def fahrenheit(celsius: float) -> float:
    """Convert a temperature from degrees Celsius to degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


agent = Agent.make("forecaster", instructions="Answer briefly.")
agent = agent.with_tools(weather, fahrenheit)

model = ScriptedModel.make(
    [
        call("weather", {"city": "Olso"}),
        call("weather", {"city": "Oslo"}),
        call("fahrenheit", {"celsius": -3.0}),
        text("It is 26.6 °F in Oslo."),
    ]
).layer

if __name__ == "__main__":
    program = agent.execute("How cold is it in Oslo, in Fahrenheit?")
    answer = fx.run(program.provide(model))
    for step in answer.steps:
        for result in step.results:
            print(f"Step {step.number}: {result.name} returned {result.encoded_result}")
    print(answer.text)
