"""Toolkits of many whose handlers are missing, and what is no tool among many."""

from __future__ import annotations

from fxai import Agent, Toolkit
from fxai.effects import Layer, fx
from tests.typing.right.many_tools import a, b, c, called, d, e, f, g, h, i, live, nine, nothing, on_h, on_i, seven
from tests.typing.world import DB, Db, Log

eight = Layer.merge_all(seven.layer, h.handler(on_h))
nine.to_layer(seven)  # wrong: the handlers of h and i are missing
nine.to_layer(eight)  # wrong: that of i is missing
nine.to_layer(eight.layer)  # wrong: that of i is missing
nine.to_layer(Layer.merge_all(eight.layer, i.handler(nothing)))  # wrong: another handler than i's
nine.to_layer(seven.layer | i.handler(on_i))  # wrong: that of h is missing
nine.to_layer(Layer.merge_all(a.handler(nothing), h.handler(on_h), i.handler(on_i)))  # wrong: six are missing

fx.run(called)  # wrong: no handlers
fx.run(called.provide(live))  # wrong: Db and Log, which handlers need
fx.run(called.provide(live).provide(DB))  # wrong: Log
fx.run(called.provide(seven))  # wrong: two handlers are missing

Toolkit.make(a, b, c, d, e, f, g, h, "i")  # wrong: a name is not a tool
Layer.merge_all(seven.layer, h)  # wrong: a tool is not a layer
Agent.make("many").with_tools(a, b, c, d, e, f, g, h, "i")  # wrong: a name is not a tool
declared: Layer[Db | Log] = Layer.merge_all(DB)  # wrong: Log is missing
beside: Layer[Db | Log] = DB | Layer.merge_all(DB)  # wrong: Log is missing
