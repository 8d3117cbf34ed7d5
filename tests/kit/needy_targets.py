"""Handlers that need services, said in every way that a program has, and layers with and without them."""

from __future__ import annotations

from typing import Any, Never

from returns.context import RequiresContextFutureResult
from returns.result import Success
from typing_extensions import override

from fxai import Agent, Effect, Gen, Layer, Reference, Scope, Service, Stream, Tool, Toolkit, fx, tool
from fxai.effects import ContextOf
from fxai.testing import ScriptedModel, text
from fxai.tools.aspects import Aspect


class Db(Service):
    """A service that somebody has to give."""


class Log(Service):
    """Another one."""


class Limit(Reference):
    """One that nobody has to give."""

    @override
    @classmethod
    def default(cls) -> Limit:
        """The usual one."""
        return cls()


find = Tool.make("find", success=str, description="Finds.")
kit = Toolkit.make(find)
agent = Agent.make("finder", toolkit=kit)
asking = Agent.make("asker", toolkit=kit.as_tool("ask"))


def by_generator(_: Any) -> Gen[str, Never, Db]:
    """Asks for it."""
    yield from Db
    return "found"


def by_effect(_: Any) -> Effect[str, Never, Db | Log | Scope]:
    """Asks for two, and for a scope, which is always there."""
    return fx.service(Db).as_("found")


def by_stream(_: Any) -> Stream[str, Never, Db]:
    """Asks for it when it is read."""
    return Stream.make("found")


def by_context(_: Any) -> RequiresContextFutureResult[str, Never, ContextOf[Db]]:
    """Asks for it in the way of another library."""
    raise NotImplementedError


async def by_coroutine(_: Any) -> Effect[str, Never, Db | None]:
    """Gives what asks for it."""
    return fx.service(Db).as_("found")


@fx.gen
def by_decorated(_: Any) -> Gen[str, Never, Db]:
    """Asks for it."""
    yield from Db
    return "found"


def by_erased(_: Any) -> Any:
    """Says it, in a module that keeps no annotations."""
    yield from Db
    return "found"


by_erased.__annotations__["return"] = Gen[str, Never, Db]


def by_nobody(_: Any) -> Gen[str, Never, Limit | Scope | None]:
    """Needs what is always there."""
    yield from Limit
    return "found"


def layer_of(f: Any) -> Any:
    """The layer of a handler."""
    return kit.to_layer(find.handler(f))


NEEDY = [by_generator, by_effect, by_stream, by_context, by_coroutine, by_decorated, by_erased]
generator, effect, stream, context, coroutine, decorated, erased = map(layer_of, NEEDY)
nobody = layer_of(by_nobody)
wrapped: Any = Aspect.make(before=lambda _: None).wrap(layer_of(by_generator))
given = layer_of(by_generator).provide(Layer.succeed(Db, Db()))
beside = layer_of(by_generator) | Layer.succeed(Db, Db())


def model(layer: Any) -> Any:
    """The layer, and a model."""
    return layer.merge(Layer.suspend(lambda: ScriptedModel.make([text("ok")]).layer))


run_needy, run_given = model(generator), model(given)


@tool
def look(word: str) -> Gen[str, Never, Db]:
    """Looks.

    Args:
        word: What for.
    """
    yield from Db
    return word


looking = Agent.make("looker").with_tools(look)
bare_model: Any = Layer.suspend(lambda: ScriptedModel.make([text("ok")]).layer)
with_db: Any = bare_model | Layer.succeed(Db, Db())
plain: Any = find.handler(lambda _: Success("found"))
