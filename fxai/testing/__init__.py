"""Floor 7. Testing: a scripted model and a test clock, for programs that ask models."""

from __future__ import annotations

from fxai.testing.clock import TestClock
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
    "Delay",
    "Failure",
    "ScriptedModel",
    "TestClock",
    "Turn",
    "call",
    "delay",
    "fails",
    "finish",
    "reasoning",
    "text",
]
