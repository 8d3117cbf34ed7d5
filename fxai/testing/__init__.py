"""Level 7. A scripted model, a test clock, recorded providers, and laws for your own tools. Use them in your tests.

The model and the clock need no extra. The checks need Hypothesis, and `fxai.testing.plugin` needs pytest. The extra
`testing` contains both. Strategies are in `fxai.testing.strategies`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    **dict.fromkeys(("CassetteError", "cassette", "record", "replay"), "fxai.testing.recording"),
    **dict.fromkeys(("RunChangedError", "check_run", "record_of_cassette"), "fxai.testing.recorded_run"),
}

if not TYPE_CHECKING:  # a type checker would accept any name of a module that has `__getattr__`

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
