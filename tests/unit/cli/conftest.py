"""Fixtures of the tests of the command line."""

from __future__ import annotations

import pytest

from tests.kit.command_line import Run, runner


@pytest.fixture
def fxai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `fxai` with arguments, and with a text on stdin if one is given."""
    return runner(monkeypatch, capsys)
