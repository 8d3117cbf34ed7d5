"""Toolkits and layers of many: exact for checkers, however many there are."""

from __future__ import annotations

from typing import Never, TypeAlias, assert_type

import msgspec
from returns.result import Result, Success

from fxai import Agent, HandlerOf, Outcome, Tool, ToolError, Toolkit, tool
from fxai.agents import Answer, RunError
from fxai.effects import EffectOf, Gen, Layer, LayerOf, Many, MergedOf, fx
from fxai.models import LanguageModel
from tests.typing.world import CLOCK, DB, LOG, Clock, Db, Log


class A(msgspec.Struct, frozen=True): ...


class B(msgspec.Struct, frozen=True): ...


class C(msgspec.Struct, frozen=True): ...


class D(msgspec.Struct, frozen=True): ...


class E(msgspec.Struct, frozen=True): ...


class F(msgspec.Struct, frozen=True): ...


class G(msgspec.Struct, frozen=True): ...


class H(msgspec.Struct, frozen=True): ...


class I(msgspec.Struct, frozen=True): ...  # noqa: E742


a = Tool.make("a", parameters=A)
b = Tool.make("b", parameters=B)
c = Tool.make("c", parameters=C)
d = Tool.make("d", parameters=D)
e = Tool.make("e", parameters=E)
f = Tool.make("f", parameters=F)
g = Tool.make("g", parameters=G)
h = Tool.make("h", parameters=H, success=int)
i = Tool.make("i", parameters=I, success=str, failure=OSError)


def nothing(_: object) -> Result[None, Never]:
    """The handler of tools that give nothing."""
    return Success(None)


def on_h(_: H) -> Gen[int, Never, Db]:
    """A handler that needs a service."""
    yield from fx.service(Db)
    return 1


def on_i(_: I) -> Gen[str, OSError, Log]:
    """A handler that needs another one."""
    yield from fx.service(Log)
    return "i"


@tool
def shout(word: str) -> str:
    """A word, loud."""
    return word.upper()


outside = Tool.make("outside", parameters=A).external()

# nine and more: all handlers, and a mark that keeps mypy's union

Nine: TypeAlias = (
    HandlerOf[A, None, Never]
    | HandlerOf[B, None, Never]
    | HandlerOf[C, None, Never]
    | HandlerOf[D, None, Never]
    | HandlerOf[E, None, Never]
    | HandlerOf[F, None, Never]
    | HandlerOf[G, None, Never]
    | HandlerOf[H, int, Never]
    | HandlerOf[I, str, OSError]
)
nine = Toolkit.make(a, b, c, d, e, f, g, h, i)
assert_type(nine, Toolkit[Nine | Many])
assert_type(Toolkit.make(a, b, c, d, e, f, g, h, i, outside), Toolkit[Nine | Many])
assert_type(Toolkit.make(a, a, a, a, a, a, a, a, a), Toolkit[HandlerOf[A, None, Never] | Many])
Toolkit.make(a, b, c, d, e, f, g, h, i, shout)

seven = Layer.merge_all(
    a.handler(nothing), b.handler(nothing), c.handler(nothing), d.handler(nothing), e.handler(nothing),
    f.handler(nothing), g.handler(nothing),
)  # fmt: skip
chained = (
    a.handler(nothing) | b.handler(nothing) | c.handler(nothing) | d.handler(nothing) | e.handler(nothing)
    | f.handler(nothing) | g.handler(nothing) | h.handler(on_h) | i.handler(on_i)
)  # fmt: skip
merged = Layer.merge_all(seven.layer, h.handler(on_h), i.handler(on_i))
assert_type(merged, MergedOf[Nine | Many, Never, Db | Log | None])
assert_type(nine.to_layer(chained), LayerOf[Nine | Many, Never, Db | Log | None])
assert_type(nine.to_layer(merged), LayerOf[Nine | Many, Never, Db | Log | None])
assert_type(nine.to_layer(merged.layer), LayerOf[Nine | Many, Never, Db | Log | None])
live = nine.to_layer(
    Layer.merge_all(
        a.handler(nothing), b.handler(nothing), c.handler(nothing), d.handler(nothing), e.handler(nothing),
        f.handler(nothing), g.handler(nothing), h.handler(on_h), i.handler(on_i),
    )
)  # fmt: skip
assert_type(live, LayerOf[Nine | Many, Never, Db | Log | None])

# what they leave is exact, too

called = nine.call("a", {})
assert_type(called.provide(live), EffectOf[Outcome, ToolError, Db | Log | None])
assert_type(called.provide(live).provide(DB), EffectOf[Outcome, ToolError, Log | None])
assert_type(fx.run(called.provide(live).provide(DB).provide(LOG)), Outcome)
assert_type(called.provide(Layer.merge_all(live, DB, LOG)), EffectOf[Outcome, ToolError, Db | Log | None])
assert_type(called.provide(Layer.merge_all(DB, LOG)).provide(live), EffectOf[Outcome, ToolError, Db | Log | None])
assert_type(live.provide(Layer.merge_all(DB, LOG)), LayerOf[Nine | Many])

# more handlers than a toolkit has tools; few tools, merged

two = Toolkit.make(a, h)
assert_type(
    two.to_layer(Layer.merge_all(a.handler(nothing), h.handler(on_h))),
    LayerOf[HandlerOf[A, None, Never] | HandlerOf[H, int, Never], Never, Db | None],
)

# an agent with any number of tools

agent = Agent.make("many").with_tools(a, b, c, d, e, f, g, h, i, shout, outside)
assert_type(agent.execute("?").provide(live), EffectOf[Answer[str], RunError, LanguageModel | Db | Log | None])

# merged layers are a layer: where one is declared, beside others by `|`, and chosen by a condition

services: Layer[Db | Log] = Layer.merge_all(DB, LOG).layer
more: Layer[Db | Log | Clock] = Layer.merge_all(DB, LOG) | CLOCK
turned: Layer[Db | Log | Clock] = CLOCK | Layer.merge_all(DB, LOG).layer
both = DB | LOG
behind: Layer[Db | Log | Clock] = CLOCK | both
assert_type(Layer.merge_all(DB, LOG) | Layer.merge_all(CLOCK), LayerOf[Db | Log | Clock | Many])
merged_twice: Layer[Db | Log | Clock] = CLOCK.merge(both)


def chosen(wide: bool) -> Layer[Db | Log]:
    """A layer of several services that a function gives."""
    if wide:
        return Layer.merge_all(DB, LOG).layer
    return CLOCK | both
