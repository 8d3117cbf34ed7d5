"""Scripts that no model can say."""

from __future__ import annotations

from fxai.testing import ScriptedModel, delay, finish, text

ScriptedModel.make([1])  # wrong: a number is not a turn
ScriptedModel.make([text("a"), [delay(1), None]])  # wrong: None is not an item
ScriptedModel.make(text)  # wrong: a function is not a list
ScriptedModel.make([finish("done")])  # wrong: no such reason
text(3)  # wrong: a string is a str
