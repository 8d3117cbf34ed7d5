"""The floors: who may import whom, and that every place that draws the house draws the same one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.kit.every import every
from tests.kit.source import FLOORS, PACKAGE, ROOT, modules, parse, project, tree_of

BUILT = [name for name in FLOORS if (PACKAGE / name / "__init__.py").exists()]


def test_every_import_goes_down() -> None:
    """A floor imports the floors below it and nothing else, and rooms under providers do not know each other."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_import_contract_names_the_floors_in_order() -> None:
    """The contract in pyproject.toml lists the floors from the top down, those of one number side by side."""
    contract = project()["tool"]["importlinter"]["contracts"][0]
    rows = [re.findall(r"\w+", layer) for layer in contract["layers"]]

    assert contract["exhaustive"]
    assert [sorted({FLOORS[name] for name in row}) for row in reversed(rows)] == [[n] for n in range(len(rows))]
    assert sorted(name for row in rows for name in row) == sorted(FLOORS)


@every("name", BUILT)
def test_a_floor_says_its_number(name: str) -> None:
    """The docstring of a floor's `__init__` opens with the floor's number, and it lists what it offers."""
    floor = parse(PACKAGE / name / "__init__.py")

    assert str(ast.get_docstring(floor.tree)).startswith(f"Floor {FLOORS[name]}. ")
    assert any(line.startswith("__all__") for line in floor.lines)


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/architecture.md"])
def test_a_page_draws_the_house_as_it_stands(page: str) -> None:
    """The tree of a page shows each floor that is built, with its number, from the ground up."""
    drawn = tree_of(page)

    assert [name for name, _ in drawn] == [name for name in FLOORS if name in dict(drawn)]
    assert set(BUILT) <= set(dict(drawn))
    assert all(FLOORS[name] == number for name, number in drawn)


_PLACE = re.compile(r"`(\w+/\w+\.py)`(?:, `([\w.]+)`(?: and `([\w.]+)`)?)?")


def test_the_page_of_the_house_names_modules_and_functions_that_are_there() -> None:
    """Whoever walks through the house by it finds each file, and in it what the page names there."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    places = _PLACE.findall(page)
    missing = [path for path, *_ in places if not (PACKAGE / path).exists()]
    named = [(path, name.rpartition(".")[2]) for path, *names in places for name in names if name]

    assert len(places) > 10
    assert missing == []
    for path, name in named:
        assert re.search(rf"(?:def|class) {name}\b", (PACKAGE / path).read_text(encoding="utf-8")), f"{path}: {name}"


def test_every_folder_of_the_package_is_a_floor() -> None:
    """There is no folder that the picture of the house does not have, and no loose module but faces."""
    folders = {module.name.split(".")[1] for module in modules() if "." in module.name}

    assert folders <= set(FLOORS) | {"__main__", "annotations"}


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
