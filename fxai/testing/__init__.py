"""Floor 7. Testing: a scripted model, a test clock, and the laws that hold your own tools.

The model and the clock need nothing; the checks need Hypothesis, and `fxai.testing.plugin` needs pytest: both come with
the extra `testing`. Strategies are in `fxai.testing.strategies`.
"""

from __future__ import annotations

from fxai.testing.check import check_handler, check_layer, check_tool, check_toolkit, laws_of
from fxai.testing.clock import TestClock
from fxai.testing.law import Break, Law, LawCase, LawError
from fxai.testing.scripted import (
    Delay,
    Failure,
    ScriptedModel,
    Turn,
    call,
    delay,
    fails,
    finish,
    reasoning,
    text,
)

__all__ = [
    "Break",
    "Delay",
    "Failure",
    "Law",
    "LawCase",
    "LawError",
    "ScriptedModel",
    "TestClock",
    "Turn",
    "call",
    "check_handler",
    "check_layer",
    "check_tool",
    "check_toolkit",
    "delay",
    "fails",
    "finish",
    "laws_of",
    "reasoning",
    "text",
]
