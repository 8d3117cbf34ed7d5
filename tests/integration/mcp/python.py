"""Servers of the Python registry that need another `mcp` than ours: in an environment of their own, made once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.integration.servers.node import Missing

__all__ = ["programs"]

_NEEDED = ("mcp-server-sqlite==2025.4.25", "mcp-server-calculator==0.2.1", "mcp<2")
_LONGEST = 240


@cache
def programs() -> Path:
    """The folder of the programs, kept in the user's cache.

    Raises:
        Missing: pip could not install them.
    """
    digest = hashlib.sha256(" ".join((*_NEEDED, sys.version)).encode()).hexdigest()[:12]
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxai-tests"
    kept, fresh = cached / f"mcp-1-{digest}", cached / f"mcp-1-{digest}.{os.getpid()}"
    if not kept.exists():
        cached.mkdir(parents=True, exist_ok=True)
        _made(fresh)
        with suppress(FileExistsError):  # another worker was faster
            kept.symlink_to(fresh.name)  # an environment knows its own path, so it stays where it was made
    return kept / ("Scripts" if os.name == "nt" else "bin")


def _made(folder: Path) -> None:
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    commands = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_NEEDED],
    )
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, check=False)
        except subprocess.TimeoutExpired:
            raise Missing(f"pip took more than {_LONGEST} s") from None
        if done.returncode:
            raise Missing(f"pip could not install them: {done.stderr.strip()[:300]}")
