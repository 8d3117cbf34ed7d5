"""What `fxai call` is pointed at in these tests: tools that answer, fail, break, wait and ask."""

from __future__ import annotations

from typing import Any, Never

import msgspec
from returns.result import Failure, Result, Success

from fxai import CallContext, Effect, Gen, Layer, Service, Tool, Toolkit, fx, tool


class NoSuchCity(msgspec.Struct, frozen=True):
    """Nobody knows it."""

    name: str


class City(msgspec.Struct, frozen=True):
    """Where."""

    name: str


class Db(Service):
    """A service that a layer gives."""


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two whole numbers."""
    print("adding")  # noqa: T201  # what handlers print must not stand between our lines
    return a + b


@tool(failure_mode="return")
def weather(name: str) -> Result[float, NoSuchCity]:
    """Says how warm it is."""
    return Success(21.5) if name == "Oslo" else Failure(NoSuchCity(name))


@tool
def find(name: str) -> Result[str, str]:
    """Finds nothing."""
    return Failure(f"no {name}")


@tool
async def later() -> str:
    """Answers after a moment."""
    await fx.run_async(fx.sleep(0))
    return "late"


@tool(blocking=True)
def blocked() -> int:
    """Answers from a thread."""
    return 5


@tool
def broken() -> int:
    """Breaks."""
    raise RuntimeError("inside\nof it")


@tool(needs_approval=True)
def remove(path: str) -> str:
    """Removes a file."""
    return f"{path} is gone"


@tool(needs_approval=lambda params, _: params.path.startswith("/"))
def remove_some(path: str) -> str:
    """Removes a file, and asks about some."""
    return f"{path} is gone"


class Target(msgspec.Struct, frozen=True):
    """What is to be removed."""

    path: str


@tool(needs_approval=lambda params, _: params.target.path.startswith("/"))
def remove_target(target: Target) -> str:
    """Removes what is told, and asks about some."""
    return f"{target.path} is gone"


def _broken_predicate(*_: Any) -> bool:
    raise RuntimeError("the predicate is broken")


@tool(needs_approval=_broken_predicate)
def remove_any(path: str) -> str:
    """Removes a file, and cannot say whether it may."""
    return f"{path} is gone"


def _no_effect(*_: Any) -> Effect[bool]:
    return fx.succeed(False)


@tool(needs_approval=_no_effect)
def remove_none() -> str:
    """Asks an effect."""
    return "nothing is gone"


@tool
def steps(n: int, context: CallContext) -> Gen[str, Never]:
    """Goes step by step."""
    for step in range(n):
        yield from context.preliminary(f"step {step}")
    return "there"


tools = (add, weather, find, later, blocked, broken, remove, remove_some, remove_target, remove_any, remove_none, steps)

unbound = Tool.make("unbound", parameters=City, success=str, description="Has no handler of its own.")
kit = Toolkit.make(unbound)
external = Tool.make("external", description="A client answers.").external()


def on_unbound(city: City) -> Gen[str, Never, Db]:
    """Needs the database."""
    yield from Db
    return f"{city.name} from the database"


needy: Any = unbound.handler(on_unbound)
layer: Any = needy.provide(Layer.succeed(Db, Db()))
anything: Any = Success(3)
wrong: Any = unbound.handler(lambda _: anything)
