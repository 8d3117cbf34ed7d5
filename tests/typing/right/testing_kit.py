"""What the checkers infer of checks and findings."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import lint
from fxai.effects import Clock, EffectOf, LayerOf
from fxai.testing import LawCase, ScriptedModel, TestClock, call, check_handler, check_toolkit, laws_of, text
from tests.typing.desk import DESK, HANDLERS, SEARCH

assert_type(TestClock().layer, LayerOf[Clock, Never, None])
assert_type(TestClock().advance(1.5), EffectOf[None, Never, None])
assert_type(laws_of(DESK, HANDLERS), list[LawCase])
assert_type(lint.lint(lint.Subject.of(DESK), level="error"), tuple[lint.Finding, ...])
check_toolkit(DESK, max_examples=10, seed=3)
check_handler(SEARCH, HANDLERS, derandomize=True)
ScriptedModel.make([text("Hello."), call("search", {"words": "tea"}), [text("a"), call("search", {})]])
