"""What is fetched from registries for tests: made once for all workers and runs, kept in the user's cache.

One worker makes it while the others wait. Where it cannot be had, that is noted, so that nobody else tries for a while.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fxai.storage.private_file import lock_file

__all__ = ["Missing", "kept", "ran"]

_LONGEST = 120.0
_RETRY = 15 * 60.0


class Missing(Exception):
    """A program that cannot be had here: what it needs is not installed, or the registry did not give it."""


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache; `make` fills a new one.

    Raises:
        Missing: `make` could not, now or in the last quarter of an hour.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxai-tests"
    found, ready = folder / name, folder / f"{name}.ready"
    if ready.exists():
        return found
    try:
        with lock_file(folder / f"{name}.lock", seconds=3 * _LONGEST):
            if not ready.exists():
                _made(found, folder / f"{name}.missing", make)
                ready.touch()
    except TimeoutError as error:
        raise Missing(str(error)) from None
    return found


def _made(found: Path, missing: Path, make: Callable[[Path], None]) -> None:
    if missing.exists() and time.time() - missing.stat().st_mtime < _RETRY:
        raise Missing(f"{missing.read_text()} (delete {missing} to try again now)")
    shutil.rmtree(found, ignore_errors=True)
    try:
        make(found)
    except Missing as reason:
        shutil.rmtree(found, ignore_errors=True)
        missing.write_text(str(reason))
        raise
    missing.unlink(missing_ok=True)


def ran(what: str, command: Sequence[str], cwd: Path | None = None) -> None:
    """Runs a command, for two minutes at the most.

    Raises:
        Missing: it failed, or took longer.
    """
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{what} took more than {_LONGEST:g} s") from None
    if done.returncode:
        raise Missing(f"{what} could not install it: {done.stderr.strip()[-300:]}")
