"""Small programs that the tests run as hosts, and how they are asked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from fxai.effects import EffectOf, Failed, fx
from fxai.messages import AiError, Response
from fxai.models import LanguageModel
from fxai.providers import host

__all__ = ["ANSWERS", "Backend", "asked", "failed", "gone", "python", "shell"]

Backend = Literal["asyncio", "trio"]

ANSWERS = """
import json, os, sys
def say(**message): print(json.dumps(message), flush=True)
def asked(): return map(json.loads, sys.stdin)
def note(where, what):
    with open(where, "a") as file: file.write(f"{what}\\n")
"""
"""What the Python hosts begin with: `say(type=…)`, `asked()` for the messages, `note(file, text)`."""


def python(code: str, *args: object) -> tuple[str, ...]:
    """The command that runs `code`, with `say`, `asked` and `note` at hand."""
    return (sys.executable, "-I", "-S", "-c", ANSWERS + code, *map(str, args))


def shell(code: str) -> tuple[str, ...]:
    """The command that runs a shell script."""
    return ("sh", "-c", code)


def asked(backend: Backend, command: tuple[str, ...], said: Any = "Hello", **options: Any) -> Response:
    """What a program answers as a model."""
    about = {name: options.pop(name) for name in ("toolkit", "tool_choice", "temperature") if name in options}
    asking = LanguageModel.generate_text(said, **about).provide(host.model(*command, **options))
    return fx.run(asking, backend=backend)


def failed(backend: Backend, program: EffectOf[Any, Any, Any]) -> Any:
    """The typed failure of a program: the reason of an `AiError`, or the failure itself."""
    ended = fx.run_exit(program, backend=backend)
    assert isinstance(ended, Failed)
    failures = ended.cause.failures
    assert len(failures) == 1, ended.cause
    failure: Any = failures[0]
    return failure.reason if isinstance(failure, AiError) else failure


def gone(where: Path) -> bool:
    """Whether the processes whose ids a file lists are gone; they get a moment to be reaped. No file: none began."""
    listed = where.read_text(encoding="utf-8").split() if where.exists() else []
    return _soon(lambda: not any(_runs(int(line)) for line in listed))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def _soon(holds: Callable[[], bool]) -> bool:
    for _ in range(200):
        if holds():
            return True
        time.sleep(0.02)
    return False
