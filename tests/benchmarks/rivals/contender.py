"""The environments and the processes of the contenders."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.rivals.table import ALONE, SCRIPTS
from tests.kit.source import ROOT

__all__ = ["Contender", "ContenderError", "versions"]

_REQUIREMENTS: Final = Path(__file__).with_name("requirements")
_ENVIRONMENTS: Final = Path.home() / ".cache" / "fxai-rivals"


class ContenderError(Exception):
    """A contender cannot do a work."""


class Contender:
    """A process that does the works of one contender. The process starts with the first request."""

    def __init__(self, name: str) -> None:
        """Create a contender: the name of a rival, or `fxai`."""
        self._name = name
        self._process: subprocess.Popen[str] | None = None

    def python(self) -> str:
        """Return the interpreter of the contender. The first time, it installs the pinned requirements."""
        return sys.executable if self._name == ALONE else str(_environment(self._name))

    def ask(self, **request: str) -> dict[str, Any]:
        """Return the answer to a request, see `worker.serve`."""
        if self._process is None:
            module = f"tests.benchmarks.rivals.{SCRIPTS[self._name]}"
            self._process = subprocess.Popen(
                [self.python(), "-W", "ignore", "-m", module],
                cwd=ROOT,
                env={**os.environ, "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        streams = self._process.stdin, self._process.stdout
        assert streams[0] is not None
        assert streams[1] is not None
        streams[0].write(json.dumps(request) + "\n")
        streams[0].flush()
        line = streams[1].readline()
        if not line:
            raise ContenderError(f"the process of {self._name} ended during {request}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(f"{self._name} cannot do {request}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(timeout=60)


def _environment(name: str) -> Path:
    requirements = _REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    home = _ENVIRONMENTS / f"{name}-{digest}"
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        command = [str(python), "-m", "pip", "install", "-qqq", "--no-deps", "-r", str(requirements)]
        subprocess.run([*command, "--disable-pip-version-check"], check=True)
        (home / "installed").touch()
    return python


def versions() -> dict[str, str]:
    """Return the pinned version of each rival."""
    found: dict[str, str] = {}
    names = {"pydantic-ai": ("pydantic-ai-slim",), "schemas": ("jsonschema", "jsonschema-rs")}
    for rival in SCRIPTS:
        if rival != ALONE:
            lines = (_REQUIREMENTS / f"{rival}.txt").read_text("utf-8").split()
            pinned = dict(line.split("==") for line in lines)
            found |= {name: pinned[name] for name in names.get(rival, (rival,))}
    return found
