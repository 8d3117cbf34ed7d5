"""Scripts that no model can say."""

from __future__ import annotations

from fxai.testing import ScriptedModel, delay, finish, text

ScriptedModel.make([1])  # wrong: a number is no turn
ScriptedModel.make([text("a"), [delay(1), None]])  # wrong: None is no item
ScriptedModel.make(text)  # wrong: a function is no list
ScriptedModel.make([finish("done")])  # wrong: no such reason
text(3)  # wrong: a text is a str
