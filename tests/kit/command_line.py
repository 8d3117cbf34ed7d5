"""How the command line is run in these tests: in this process, as `main` would."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from fxai.cli import main

__all__ = ["Ended", "Run", "runner"]


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What runs `fxai` with arguments, and with a text on stdin if one is given."""

    def run(*arguments: str, piped: str | None = None) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fxai", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped or ""))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(int(str(ended.value.code or 0)), out, err)

    return run
