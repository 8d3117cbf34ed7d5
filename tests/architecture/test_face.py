"""The face: `import fxai` shows what users need, costs little, and nobody inside goes through it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.kit.source import PACKAGE, Module, modules

HEAVY = {
    "anthropic",
    "click",
    "hypothesis",
    "httpx",
    "httpx2",
    "jiter",
    "jsonschema",
    "jsonschema_rs",
    "mcp",
    "openai",
    "opentelemetry",
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


@pytest.mark.parametrize("name", OFFERED)
def test_no_private_name_is_offered_by_completion(name: str) -> None:
    """`dir()` of a public class has no name with a single underscore, but for those of `typing` and `abc`."""
    cls = getattr(import_module("fxai"), name)

    assert {member for member in dir(cls) if re.match(r"_(?!_)", member)} <= {"_is_protocol", "_abc_impl"}
