"""Scripts of models: in variables, mixed, nested and made by functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

from fxai.messages import RateLimitError
from fxai.testing import ScriptedModel, Turn, call, delay, fails, finish, reasoning, text

late = [delay(5), text("late")]
called = [call("add", {"a": 1}), text("and more")]
thought = [reasoning("Hm."), text("Yes."), finish("stop")]
assert_type(late, list[Turn])
assert_type(called, list[Turn])
assert_type(thought, list[Turn])
assert_type([fails(RateLimitError())], list[Turn])

script = [call("add", {}), text("3")]
nested = [[call("add", {}), text("so")], text("3")]
mixed = [["It is ", delay(1), "fine."], text("3"), late]
ScriptedModel.make(script)
ScriptedModel.make(nested)
ScriptedModel.make(mixed)
ScriptedModel.make([late, called, "bye", ["good", "bye"], fails(RateLimitError())])
ScriptedModel.make([text("a")] * 3)
ScriptedModel.make([text(word) for word in ("a", "b")])
ScriptedModel.make((text("a"), call("add", {})))


def turns() -> Iterator[Turn]:
    """One after another."""
    yield text("a")
    yield [call("add", {}), text("b")]


def greeting(name: str) -> list[Turn]:
    """A turn of several items."""
    return [delay(1), f"Good day, {name}.", text("How are you?")]


ScriptedModel.make(list(turns()))
ScriptedModel.make([*turns(), greeting("Ann")])
