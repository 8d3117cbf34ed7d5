"""Measure what each extra of fxai adds to an installation, and compare it with the README.

`python -m tests.kit.extra_sizes` installs each extra in a new environment and prints the rows of the README. With
`--check`, the command exits with 1 if a row of the README differs by more than a quarter and by more than 1 MB, or by
more than three packages. The command needs `uv` and a package registry.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kit.source import ROOT, project

__all__ = ["ROW", "extras", "rows_of"]

ROW = re.compile(r"^\| `?([\w-]+)`? \| .+ \| (\d+) \| (\d+(?:\.\d)?) \|$", re.MULTILINE)
"""A row of a table of extras: the name, the number of packages, and the size in MB."""


def extras() -> list[str]:
    """Return the names of the extras, with `none` for an installation without an extra."""
    return ["none", *project()["project"]["optional-dependencies"]]


def rows_of(page: str) -> dict[str, tuple[int, float]]:
    """Return the packages and the size in MB that a page states for each extra."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {name: (int(packages), float(size)) for name, packages, size in ROW.findall(text)}


def _install(extra: str, folder: Path) -> tuple[int, float]:
    """Install fxai with an extra, and return the number of packages and their size in MB."""
    target = str(ROOT) if extra == "none" else f"{ROOT}[{extra}]"
    command = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder), target]
    subprocess.run(command, check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return len(list(folder.glob("*.dist-info"))), size / 1e6


def _differs(stated: tuple[int, float] | None, packages: int, size: float) -> bool:
    if stated is None:
        return True
    return abs(stated[0] - packages) > 3 or abs(stated[1] - size) > max(1.0, size / 4)


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.extra_sizes", description="Measure each extra.")
    parser.add_argument("names", nargs="*", help="Extras to measure. Default: all.")
    parser.add_argument("--check", action="store_true", help="Exit with 1 if the README is wrong.")
    options = parser.parse_args(arguments)
    stated, wrong = rows_of("README.md"), 0
    base = (0, 0.0)
    for extra in ["none", *(name for name in options.names or extras() if name != "none")]:
        with tempfile.TemporaryDirectory() as folder:
            packages, size = _install(extra, Path(folder))
        if extra == "none":
            base = (packages, size)
        else:
            packages, size = packages - base[0], size - base[1]
        differs = _differs(stated.get(extra), packages, size)
        wrong += differs
        print(f"| {extra} | {packages} | {size:.1f} |{' differs from the README' if differs else ''}", flush=True)
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
