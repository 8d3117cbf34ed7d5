"""Servers of the Python registry that need another `mcp` than ours: in an environment of their own, made once."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from tests.kit.kept_servers import kept, ran

__all__ = ["programs"]

_NEEDED = ("mcp-server-sqlite==2025.4.25", "mcp-server-calculator==0.2.1", "mcp<2")
_PATIENT = ("--timeout", "15", "--retries", "1")  # a registry that is not there is found out soon


@cache
def programs() -> Path:
    """The folder of the programs, kept in the user's cache.

    Raises:
        Missing: pip could not install them.
    """
    digest = hashlib.sha256(" ".join((*_NEEDED, sys.version)).encode()).hexdigest()[:12]
    return kept(f"mcp-1-{digest}", _made) / ("Scripts" if os.name == "nt" else "bin")


def _made(folder: Path) -> None:
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ran("venv", [sys.executable, "-m", "venv", str(folder)])
    options = ["--quiet", "--disable-pip-version-check", *_PATIENT]
    ran("pip", [str(python), "-m", "pip", "install", *options, *_NEEDED])
