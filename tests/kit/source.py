"""The project's own files, read for what the other tools cannot say about them."""

from __future__ import annotations

import ast
import gc
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

__all__ = [
    "LEVELS",
    "PACKAGE",
    "ROOT",
    "Module",
    "definitions",
    "is_public",
    "modules",
    "parse",
    "parse_source",
    "project",
    "sources",
    "tree_of",
]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fxai"

LEVELS = {
    "effects": 0,
    "schema": 1,
    "hosting": 1,
    "messages": 2,
    "tools": 3,
    "storage": 3,
    "models": 4,
    "agents": 5,
    "guards": 5,
    "providers": 6,
    "mcp": 6,
    "lint": 6,
    "ui": 6,
    "durable": 6,
    "distributed": 6,
    "telemetry": 6,
    "evaluation": 6,
    "testing": 7,
    "cli": 7,
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """A Python file of the project: its path from the top, its dotted name, and its text."""

    path: str
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. The first reader pays for it, because most checks need only lines."""
        return parse_source(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return self.text.splitlines()

    @property
    def public(self) -> bool:
        """Whether users may import it: no part of its name starts with an underscore."""
        return not any(part.startswith("_") for part in self.name.split("."))


def parse_source(source: str) -> ast.Module:
    """Return the syntax tree of a file. The garbage collector pauses, because it takes two thirds of the time."""
    collects = gc.isenabled()
    gc.disable()  # where the collector runs a finalizer in the middle, CPython 3.11 takes the parse for broken
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def parse(path: Path) -> Module:
    """The module that a file of this project holds."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(path.relative_to(ROOT).as_posix(), name, path.read_text(encoding="utf-8"))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, in the order of their paths."""
    return tuple(parse(path) for path in sorted(PACKAGE.rglob("*.py")))


def sources(floor: Module) -> set[str]:
    """The modules of the package whose names a floor's `__init__` gathers."""
    imports = [node for node in floor.tree.body if isinstance(node, ast.ImportFrom) and node.module != "fxai.lazy"]
    return {node.module for node in imports if node.module and node.module.startswith(f"{floor.name}.")}


def is_public(name: str) -> bool:
    """Whether a name is for users: neither private nor part of the data model."""
    return not name.startswith("_")


def definitions(module: Module) -> Iterator[tuple[str, Definition]]:
    """Every function and class that users can reach by name, with its dotted name; not overloads, not overrides."""
    pending: list[tuple[str, ast.stmt]] = [("", node) for node in module.tree.body]
    while pending:
        prefix, node = pending.pop(0)
        if not isinstance(node, Definition) or not is_public(node.name) or _says_the_same(node):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            pending.extend((f"{prefix}{node.name}.", child) for child in node.body)


def _says_the_same(node: Definition) -> bool:
    return any(word in ast.dump(decorator) for decorator in node.decorator_list for word in ("overload", "override"))


def project() -> dict[str, Any]:
    """What `pyproject.toml` says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tree_of(page: str) -> list[tuple[str, int]]:
    """Return the packages that a page draws, as (folder, level), from lines such as `├── effects/  0  …`."""
    drawn: list[tuple[str, int]] = []
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        words = line.strip("│├└─ ").split()
        if len(words) > 1 and words[0].endswith("/") and words[1].isdigit():
            drawn.append((words[0].rstrip("/"), int(words[1])))
    return drawn
