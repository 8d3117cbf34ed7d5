"""Level 7. A scripted model, a test clock, recorded providers, and laws for your own tools. Use them in your tests.

The model and the clock need no extra. The checks need Hypothesis, and `fxai.testing.plugin` needs pytest. The extra
`testing` contains both. Strategies are in `fxai.testing.strategies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later
from fxai.testing.check import check_handler, check_layer, check_tool, check_toolkit, laws_of
from fxai.testing.clock import TestClock
from fxai.testing.law import Break, Law, LawCase, LawError, OneSidedLawWarning
from fxai.testing.scripted import Delay, Failure, ScriptedModel, Turn, call, delay, fails, finish, reasoning, text

if TYPE_CHECKING:
    from fxai.testing.recorded_run import RunChangedError, check_run, record_of_cassette
    from fxai.testing.recording import CassetteError, cassette, record, replay

__all__ = [
    "Break",
    "CassetteError",
    "Delay",
    "Failure",
    "Law",
    "LawCase",
    "LawError",
    "OneSidedLawWarning",
    "RunChangedError",
    "ScriptedModel",
    "TestClock",
    "Turn",
    "call",
    "cassette",
    "check_handler",
    "check_layer",
    "check_run",
    "check_tool",
    "check_toolkit",
    "delay",
    "fails",
    "finish",
    "laws_of",
    "reasoning",
    "record",
    "record_of_cassette",
    "replay",
    "text",
]

_LATER = {  # these modules import HTTP, which tests of tools do not need
    "recorded_run": "RunChangedError check_run record_of_cassette",
    "recording": "CassetteError cassette record replay",
}

if not TYPE_CHECKING:  # a type checker would accept any name of a module that has `__getattr__`
    __getattr__ = import_later(__name__, _LATER)
