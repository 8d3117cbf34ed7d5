"""The levels of packages: which packages may import which, and the drawings of them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.kit.every import every
from tests.kit.source import LEVELS, PACKAGE, ROOT, modules, parse, project, tree_of

BUILT = [name for name in LEVELS if (PACKAGE / name / "__init__.py").exists()]


def test_every_import_goes_down() -> None:
    """A package imports only packages of lower levels, and the packages of providers do not import each other."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_import_contract_lists_the_levels_in_order() -> None:
    """The contract in pyproject.toml lists the levels from the top down, and packages of one level together."""
    contract = project()["tool"]["importlinter"]["contracts"][0]
    rows = [re.findall(r"\w+", layer) for layer in contract["layers"]]

    assert contract["exhaustive"]
    assert [sorted({LEVELS[name] for name in row}) for row in reversed(rows)] == [[n] for n in range(len(rows))]
    assert sorted(name for row in rows for name in row) == sorted(LEVELS)


@every("name", BUILT)
def test_a_package_states_its_level(name: str) -> None:
    """The docstring of the `__init__` of a package starts with its level, and the module defines `__all__`."""
    package = parse(PACKAGE / name / "__init__.py")

    assert str(ast.get_docstring(package.tree)).startswith(f"Level {LEVELS[name]}. ")
    assert any(line.startswith("__all__") for line in package.lines)


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/architecture.md"])
def test_a_page_draws_all_packages(page: str) -> None:
    """The tree of a page shows each package with its level, from the lowest level up."""
    drawn = tree_of(page)

    assert [name for name, _ in drawn] == [name for name in LEVELS if name in dict(drawn)]
    assert set(BUILT) <= set(dict(drawn))
    assert all(LEVELS[name] == number for name, number in drawn)


_LOCATION = re.compile(r"`(\w+/\w+\.py)`(?:, `([\w.]+)`(?: and `([\w.]+)`)?)?")


def test_the_architecture_page_names_existing_modules_and_functions() -> None:
    """Each file that the page names exists, and contains the functions and classes that the page names in it."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    locations = _LOCATION.findall(page)
    missing = [path for path, *_ in locations if not (PACKAGE / path).exists()]
    named = [(path, name.rpartition(".")[2]) for path, *names in locations for name in names if name]

    assert len(locations) > 10
    assert missing == []
    for path, name in named:
        assert re.search(rf"(?:def|class) {name}\b", (PACKAGE / path).read_text(encoding="utf-8")), f"{path}: {name}"


def test_every_folder_of_the_package_has_a_level() -> None:
    """Each folder of the package has a level, and only public modules and the lazy imports are outside of a folder."""
    folders = {module.name.split(".")[1] for module in modules() if "." in module.name}

    assert folders <= set(LEVELS) | {"__main__", "annotations", "lazy"}


@pytest.mark.parametrize("call", ["sqlite3.connect(", "O_CREAT", ".write_bytes(", ".write_text(", "mkstemp("])
def test_files_that_hold_something_are_opened_in_one_place(call: str) -> None:
    """Who else opens a database, or makes a file, forgets its mode; weights, which are public, are no such files."""
    others = ("fxai/storage/", "fxai/providers/local/weights.py")
    found = [
        f"{module.path}:{number}"
        for module in modules()
        if not module.path.startswith(others)
        for number, line in enumerate(module.lines, start=1)
        if call in line and not line.lstrip().startswith((">>>", "..."))
    ]

    assert found == []


def test_no_example_leaves_a_folder_behind() -> None:
    """Examples in docstrings make their temporary folders in a `with`."""
    found = [module.path for module in modules() if any("mkdtemp(" in line and ">>>" in line for line in module.lines)]

    assert found == []
