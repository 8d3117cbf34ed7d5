"""A drawing of mutants. Use this module to choose the same mutants again, whatever the tests are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tests.mutation.mutant import Mutant, is_sound, mutants

__all__ = ["SOURCE", "draw", "package_of", "packages"]

SOURCE = "fxai"
"""The folder of the package that is mutated. Its own modules count as a package with this name."""


def packages(project: Path) -> list[str]:
    """List the packages of a project by name."""
    folders = [path.parent.name for path in (project / SOURCE).glob("*/__init__.py")]
    return sorted([SOURCE, *folders])


def package_of(path: str) -> str:
    """Return the package of a file, which is given as a path from the top of the project."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else SOURCE


def draw(project: Path, names: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants evenly over packages: first a line of a package, then one fault of this line.

    The same source and seed give the same mutants. The drawing of a package does not depend on the other packages.

    Args:
        project: The folder that contains `fxai`.
        names: The packages.
        count: The number of mutants. A package without enough lines gives fewer.
        seed: The seed of the drawing.
    """
    share, more = divmod(count, len(names))
    shares = [share + (at < more) for at in range(len(names))]
    return [one for name, size in zip(names, shares, strict=True) for one in islice(_drawn(project, name, seed), size)]


def _drawn(project: Path, package: str, seed: int) -> Iterator[Mutant]:
    top = project / SOURCE
    paths = sorted(top.glob("*.py") if package == SOURCE else (top / package).rglob("*.py"))
    texts = {path.relative_to(project).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for path, text in texts.items():
        for mutant in mutants(path, text):
            lines.setdefault((path, mutant.line), []).append(mutant)
    chance = random.Random(f"{seed} {package}")
    for line in chance.sample(sorted(lines), len(lines)):
        faults = chance.sample(lines[line], len(lines[line]))
        yield from islice((one for one in faults if is_sound(one, texts[one.path])), 1)
