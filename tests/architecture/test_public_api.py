"""The public API: `import fxai` has few names and loads little, and no module of fxai imports it."""

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


PUBLIC_APIS = {"fxai", "fxai.annotations"}


def _imports_public_api(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (f"{module.path}:{node.lineno}" for alias in node.names if alias.name in PUBLIC_APIS)
        elif isinstance(node, ast.ImportFrom) and (node.module in PUBLIC_APIS or node.level):
            yield f"{module.path}:{node.lineno}"


@pytest.mark.slow
def test_no_module_of_fxai_imports_the_public_api() -> None:
    """A module imports each name from the module that defines the name, and has no relative import."""
    found = [
        location for module in modules() if module.name not in PUBLIC_APIS for location in _imports_public_api(module)
    ]

    assert found == []


FEATURES = {
    "fxai.agents.inbox",
    "fxai.agents.records.run_record",
    "fxai.agents.tool_search",
    "fxai.models.compaction",
    "fxai.guards.guard",
    "fxai.tools.tool_index",
}


def test_importing_loads_nothing_heavy() -> None:
    """`import fxai` loads no SDK, no HTTP, no validator, no test tool and no terminal toolkit."""
    code = "import sys, fxai; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)

    assert "fxai" in done.stdout.split()
    assert HEAVY.intersection(done.stdout.split()) == set()


def test_an_agent_loads_no_feature_that_it_does_not_use() -> None:
    """`import fxai` loads no part for long conversations, and a run loads no search, no guard, and no record."""
    code = f"""
import sys, fxai
print(sorted({FEATURES} & set(sys.modules)))
from fxai.testing import ScriptedModel
fxai.fx.run(fxai.Agent.make("a").execute("Go.").provide(ScriptedModel.make(["Done."]).layer))
print(sorted({FEATURES} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    loaded_at_import, loaded_by_run = done.stdout.splitlines()

    assert loaded_at_import == "[]"
    assert loaded_by_run == "['fxai.agents.inbox', 'fxai.models.compaction']"


def test_every_public_name_exists_once() -> None:
    """Each name in `fxai.__all__` exists and occurs once."""
    code = "import fxai; names = fxai.__all__; assert len(names) == len({name: getattr(fxai, name) for name in names})"
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_public_api_has_at_most_75_names() -> None:
    """`dir(fxai)` shows the public names, at most 75. Other names are in the public APIs of the packages."""
    code = (
        "import fxai; assert dir(fxai) == fxai.__all__;"
        "assert not hasattr(fxai, 'AgentBuilder'); assert len(fxai.__all__) <= 75, len(fxai.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


# Users complete the names of these classes in an editor.
OFFERED = (
    *("Tool", "ExternalTool", "FunctionTool", "Toolkit", "BoundToolkit", "ToolSource", "Composite", "Aspect"),
    *("Agent", "Answer", "Budget", "Effect", "Layer", "Response", "Stream"),
    *("JsonSchema", "Prompt", "Ref", "Schedule", "Schema"),
    *("EmbeddingModel", "LanguageModel", "Memory", "Reference", "Service"),
)


@every("name", OFFERED)
def test_no_private_name_is_offered_by_completion(name: str) -> None:
    """`dir()` of a public class has no name with a single underscore except the names of `typing` and `abc`."""
    cls = getattr(import_module("fxai"), name)

    assert {member for member in dir(cls) if re.match(r"_(?!_)", member)} <= {"_is_protocol", "_abc_impl"}


def _lazy() -> list[Module]:
    return [module for module in modules() if any(line.startswith("_LATER = {") for line in module.lines)]


@every("module", _lazy, ids=lambda module: module.name)
def test_checkers_know_every_lazy_name(module: Module) -> None:
    """A block for type checkers imports each lazy name."""
    there = import_module(module.name)
    imported = {alias.asname or alias.name for node in _for_checkers(module) for alias in node.names}
    starred = [node.module for node in _for_checkers(module) if node.names[0].name == "*"]
    imported |= {name for other in starred if other for name in import_module(other).__all__}

    assert {name for names in there.__dict__["_LATER"].values() for name in names.split()} <= imported


def test_no_module_has_any_name_for_checkers() -> None:
    """Checkers see no `__getattr__` of a module, because each misspelt name would have the type `Any`."""
    seen = [module.name for module in modules() for node in module.tree.body if _is_getattr(node)]

    assert seen == []


def _is_getattr(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


def _for_checkers(module: Module) -> Iterator[ast.ImportFrom]:
    for node in module.tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (each for each in node.body if isinstance(each, ast.ImportFrom))
