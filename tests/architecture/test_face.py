"""The face: `import fxai` shows what users need, costs little, and nobody inside goes through it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.kit.every import every
from tests.kit.source import PACKAGE, Module, modules

HEAVY = {
    "anthropic",
    "click",
    "dask",
    "distributed",
    "hypothesis",
    "httpx",
    "httpx2",
    "jiter",
    "jsonschema",
    "mcp",
    "openai",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "pytest",
    "regex",
    "rich",
    "starlette",
    "trio",
    "xllamacpp",
}


FACES = {"fxai", "fxai.annotations"}


def _through_the_face(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (f"{module.path}:{node.lineno}" for alias in node.names if alias.name in FACES)
        elif isinstance(node, ast.ImportFrom) and (node.module in FACES or node.level):
            yield f"{module.path}:{node.lineno}"


@pytest.mark.slow
def test_nothing_inside_imports_the_face() -> None:
    """Inside the package, a name comes from the module that defines it: never from a face above, never relatively."""
    found = [place for module in modules() if module.name not in FACES for place in _through_the_face(module)]

    assert found == []


def test_importing_loads_nothing_heavy() -> None:
    """`import fxai` loads no SDK, no HTTP, no validator, no test tool and no terminal toolkit."""
    code = "import sys, fxai; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)

    assert "fxai" in done.stdout.split()
    assert HEAVY.intersection(done.stdout.split()) == set()


def test_every_name_of_the_face_is_there() -> None:
    """Each name in `fxai.__all__` exists, and stands there once."""
    code = "import fxai; names = fxai.__all__; assert len(names) == len({name: getattr(fxai, name) for name in names})"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_face_is_what_every_program_needs() -> None:
    """At most 75 names are offered; those that stood there before come from their rooms, and work."""
    code = (
        "import fxai; from importlib import import_module as m; assert dir(fxai) == fxai.__all__;"
        "old = [(room, name) for room, names in fxai._MOVED.items() for name in names.split()];"
        "assert not {name for _, name in old} & set(fxai.__all__);"
        "assert all(getattr(fxai, name) is getattr(m(room), name) for room, name in old);"
        "assert len(fxai.__all__) <= 75, len(fxai.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


# Classes whose values people complete on; what is for the package alone is a function of a module, or a `__dunder__`.
OFFERED = (
    *("Tool", "ExternalTool", "FunctionTool", "Toolkit", "BoundToolkit", "ToolSource", "Composite", "Aspect"),
    *("Agent", "Answer", "Budget", "Effect", "Layer", "Response", "Stream"),
    *("JsonSchema", "Prompt", "Ref", "Schedule", "Schema"),
    *("EmbeddingModel", "LanguageModel", "Memory", "Reference", "Service"),
)


@every("name", OFFERED)
def test_no_private_name_is_offered_by_completion(name: str) -> None:
    """`dir()` of a public class has no name with a single underscore, but for those of `typing` and `abc`."""
    cls = getattr(import_module("fxai"), name)

    assert {member for member in dir(cls) if re.match(r"_(?!_)", member)} <= {"_is_protocol", "_abc_impl"}


def _lazy() -> list[Module]:
    return [module for module in modules() if any(line.startswith("_LATER = {") for line in module.lines)]


@every("module", _lazy, ids=lambda module: module.name)
def test_a_name_that_is_loaded_later_is_known_to_checkers(module: Module) -> None:
    """It is imported where only checkers look."""
    there = import_module(module.name)
    imported = {alias.asname or alias.name for node in _for_checkers(module) for alias in node.names}
    starred = [node.module for node in _for_checkers(module) if node.names[0].name == "*"]
    imported |= {name for other in starred if other for name in import_module(other).__all__}

    assert set(there.__dict__["_LATER"]) <= imported


def test_checkers_see_no_module_that_has_any_name() -> None:
    """A `__getattr__` of a module would make `Any` of each name that is misspelt."""
    seen = [module.name for module in modules() for node in module.tree.body if _is_getattr(node)]

    assert seen == []


def _is_getattr(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


def _for_checkers(module: Module) -> Iterator[ast.ImportFrom]:
    for node in module.tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (each for each in node.body if isinstance(each, ast.ImportFrom))
